"""Writes golden.csv: what PyTorch computes with the models of `examples/src/models`, in small sizes.

    python examples/tests/golden.py > examples/tests/golden.csv

Needs torch. Weights and inputs follow from formulas, which `golden.rs` has too, so that no weights are kept. The models are
written with torch.nn, under the names of torchvision and of Hugging Face.
"""

import csv
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn


def scattered(count, seed):
    """Numbers in [-1, 1): a hash of 32 bits of each position, in integers, so that Rust has the same."""
    low = 2**32 - 1
    hashed = (torch.arange(count) * 2654435761 + seed * 40503) & low
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & low
    return (hashed ^ (hashed >> 13)).double() / 2**31 - 1


def fill(model):
    """Gives each weight values that depend on its name alone."""
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        values = scattered(tensor.numel(), len(name)).view(tensor.shape)
        if tensor.dim() > 1:
            values = values * math.sqrt(6 / tensor[0].numel())
        elif name.endswith("weight") or name.endswith("running_var"):
            values = 1 + 0.3 * values
        else:
            values = 0.2 * values
        tensor.copy_(values)
    return model.eval()


def numbers(*shape):
    return scattered(math.prod(shape), 1).view(shape).float()


def tokens(n, length, vocabulary):
    return torch.tensor([k * 37 % vocabulary for k in range(n * length)]).view(n, length)


class Block(nn.Module):
    def __init__(self, source, channels, stride, bottleneck):
        super().__init__()
        target = channels * (4 if bottleneck else 1)
        conv = lambda a, b, k, s: nn.Conv2d(a, b, k, s, k // 2, bias=False)
        if bottleneck:
            self.conv1, self.bn1 = conv(source, channels, 1, 1), nn.BatchNorm2d(channels)
            self.conv2, self.bn2 = conv(channels, channels, 3, stride), nn.BatchNorm2d(channels)
            self.conv3, self.bn3 = conv(channels, target, 1, 1), nn.BatchNorm2d(target)
        else:
            self.conv1, self.bn1 = conv(source, channels, 3, stride), nn.BatchNorm2d(channels)
            self.conv2, self.bn2 = conv(channels, target, 3, 1), nn.BatchNorm2d(target)
        self.bottleneck, self.downsample = bottleneck, None
        if stride != 1 or source != target:
            self.downsample = nn.Sequential(conv(source, target, 1, stride), nn.BatchNorm2d(target))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        source = 64
        for stage, (count, channels) in enumerate(zip(blocks, (64, 128, 256, 512)), 1):
            stack = []
            for number in range(count):
                stack.append(Block(source, channels, 2 if stage > 1 and number == 0 else 1, bottleneck))
                source = channels * (4 if bottleneck else 1)
            setattr(self, f"layer{stage}", nn.Sequential(*stack))
        self.fc = nn.Linear(source, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Conv1D(nn.Module):
    def __init__(self, source, target):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(source, target)), nn.Parameter(torch.empty(target))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attn = nn.ModuleDict({"c_attn": Conv1D(width, 3 * width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)})

    def forward(self, x):
        n, length, width = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).split(width, dim=2)
        query, key, value = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in parts)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn["c_proj"](context.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, positions, width, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Gpt2Layer(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for layer in self.h:
            x = layer(x)
        return self.ln_f(x) @ self.wte.weight.T


class Transformer(nn.Module):
    def __init__(self, vocabulary, positions, width, feed_forward, heads, layers, classes):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        layer = nn.TransformerEncoderLayer(width, heads, feed_forward, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        return self.head(self.encoder(self.tokens(ids) + self.positions.weight[: ids.shape[1]]).mean(1))


def main():
    lstm = fill(nn.LSTM(6, 5, batch_first=True))
    mlp = fill(nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 4)))
    results = {
        "resnet18": fill(ResNet((2, 2, 2, 2), False, 8))(numbers(1, 3, 48, 40)),
        "resnet50": fill(ResNet((3, 4, 6, 3), True, 8))(numbers(1, 3, 48, 40)),
        "gpt2": fill(Gpt2(30, 10, 24, 3, 2))(tokens(1, 7, 30))[0, -1, :12],
        "lstm": lstm(numbers(2, 4, 6))[0][:, -1],
        "mlp": mlp(numbers(3, 12)),
        "transformer": fill(Transformer(30, 10, 24, 40, 3, 2, 6))(tokens(2, 7, 30)),
    }
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["model", "values"])
    for name, values in results.items():
        writer.writerow([name, " ".join(f"{value:.9g}" for value in values.flatten().tolist())])


if __name__ == "__main__":
    with torch.inference_mode():
        main()
