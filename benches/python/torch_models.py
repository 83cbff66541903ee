"""Whole models in PyTorch, as its users write them, with the weights and inputs that the bench wrote into a folder; serve.py
follows. A model is set up in each of its variants, and the fastest stays. The arguments are the number of threads, the folder,
the learning rate and the number of the steps whose losses are compared, the learning rate of the steps that are timed, and
perhaps "compile", which adds a variant by torch.compile."""
import logging
import math
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

THREADS, FOLDER, COMPILE = int(sys.argv[1]), sys.argv[2], "compile" in sys.argv[6:]
LEARNS, STEPS, HARDLY_LEARNS = float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
torch.set_num_threads(THREADS)
# Deprecations of what still is the fastest, and packages that the export does not need.
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 (which has the stride) and 1x1, with a shortcut."""

    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


def shortcut(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """The names are those of torchvision."""

    def __init__(self, block, depths, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for k, depth in enumerate(depths):
            width, blocks = 64 << k, []
            for n in range(depth):
                blocks.append(block(inputs, width, 2 if k > 0 and n == 0 else 1))
                inputs = width * block.expansion
            setattr(self, f"layer{k + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def heads(x, count):
    """[batch, tokens, width] to [batch, heads, tokens, width / heads]."""
    return x.unflatten(2, (count, -1)).transpose(1, 2)


class BertLayer(nn.Module):
    def __init__(self, width, hidden, count):
        super().__init__()
        names = ("query", "key", "value")
        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({name: nn.Linear(width, width) for name in names}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, 1e-12)}),
        })
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.output = nn.ModuleDict({"dense": nn.Linear(hidden, width), "LayerNorm": nn.LayerNorm(width, 1e-12)})
        self.count = count

    def forward(self, x):
        this, after = self.attention["self"], self.attention["output"]
        q, k, v = (heads(this[name](x), self.count) for name in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = after["LayerNorm"](after["dense"](y) + x)
        y = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](self.output["dense"](y) + x)


class MiniLm(nn.Module):
    """MiniLM-L6 by the names of Hugging Face's BertModel; token ids to hidden states. There is no padding, hence no mask."""

    def __init__(self, width=384, layers=6):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(30522, width),
            "position_embeddings": nn.Embedding(512, width),
            "token_type_embeddings": nn.Embedding(2, width),
            "LayerNorm": nn.LayerNorm(width, 1e-12),
        })
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, 4 * width, 12) for _ in range(layers))})

    def forward(self, ids):
        e = self.embeddings
        places = torch.arange(ids.shape[1])
        x = e["word_embeddings"](ids) + e["position_embeddings"](places) + e["token_type_embeddings"].weight[0]
        x = e["LayerNorm"](x)
        for layer in self.encoder["layer"]:
            x = layer(x)
        return x


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weights have the shape [inputs, outputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, 1), self.weight).unflatten(0, x.shape[:2])


class Gpt2Block(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(width, 3 * width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)})
        self.count = count

    def forward(self, x, past, seen):
        q, k, v = (heads(part, self.count) for part in self.attn["c_attn"](self.ln_1(x)).chunk(3, 2))
        if seen > 0:
            past[:, :, :, seen : seen + 1] = torch.stack([k, v])
            k, v = past[:, :, :, : seen + 1]
        elif past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.attn["c_proj"](y.transpose(1, 2).flatten(2))
        y = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](y), k, v


class Gpt2(nn.Module):
    """GPT-2 by the names of Hugging Face's GPT2Model. From token ids to the scores of the last token and all keys and values.
    `past` has the keys and values of the tokens before, as [layers, 2, batch, heads, tokens, width / heads]; with `seen` it has
    room for more than so many tokens, and the keys and values of the new token are written into it."""

    def __init__(self, width=768, layers=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.h = nn.ModuleList(Gpt2Block(width, 12) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids, past=None, seen=0):
        start = seen or (0 if past is None else past.shape[4])
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.shape[1]))
        cache = []
        for k, block in enumerate(self.h):
            x, keys, values = block(x, None if past is None else past[k], seen)
            cache += [keys, values]
        return F.linear(self.ln_f(x[:, -1]), self.wte.weight), *cache


class Transformer(nn.Module):
    """An encoder with norms after the residual additions, and a head on the mean over the sequence."""

    def __init__(self, width=256, layers=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(1000, width), nn.Embedding(128, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, F.gelu, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.encoder(x).mean(1))


class Lstm(nn.LSTM):
    """The hidden states of all steps."""

    def __init__(self):
        super().__init__(256, 256, batch_first=True)

    def forward(self, x):
        return super().forward(x)[0]


# Models by the file of their weights.
MODELS = {
    "minilm": MiniLm,
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3)),
    "resnet18": lambda: ResNet(Block, (2, 2, 2, 2)),
    "gpt2": Gpt2,
    "lstm": Lstm,
    "transformer": Transformer,
    "mlp": lambda: nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)),
}


def loaded(name):
    """The model of a case with its weights, and its inputs."""
    stem = name.split("_")[0]
    with torch.device("meta"):
        model = MODELS[stem]()
    held = tensors(os.path.join(FOLDER, stem + ".safetensors"), empty=empty)
    weights = {key: torch.from_numpy(array) for key, array in held.items()}
    for key in model.state_dict():
        if key.endswith("num_batches_tracked"):
            weights[key] = torch.tensor(0)
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(name.endswith("_train"))
    return model.train(name.endswith("_train")), [torch.from_numpy(array) for array in inputs_of(FOLDER, name)]


def empty(shape, dtype):
    """Memory of PyTorch, which aligns it as its kernels like it."""
    return torch.empty(shape, dtype={np.float32: torch.float32, np.int64: torch.int64}[dtype]).numpy()


def after_text(model, inputs):
    """The inputs of a step of GPT-2: the new token, and the keys and values of the text before."""
    token, text = inputs
    with torch.no_grad():
        cache = model(text)[1:]
    return token, torch.stack([torch.stack(cache[k : k + 2]) for k in range(0, len(cache), 2)])


def folded(model):
    """The ResNet with its batch norms folded into the convolutions before them."""
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    for module in list(model.modules()):
        pairs = [("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3"), ("0", "1")]
        for conv, norm in pairs:
            if isinstance(getattr(module, conv, None), nn.Conv2d):
                setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                setattr(module, norm, nn.Identity())
    return model


def inference(name, variant):
    model, inputs = loaded(name)
    if "folded" in name:
        model = folded(model)
    if name == "gpt2_token":
        token, past = after_text(model, inputs)
        seen = past.shape[4]
        inputs = [token, F.pad(past, (0, 0, 0, seen)), seen]
    if variant == "channels last":
        model = model.to(memory_format=torch.channels_last)
        inputs = [inputs[0].to(memory_format=torch.channels_last)]
    if variant == "frozen":
        with torch.no_grad():
            model = torch.jit.optimize_for_inference(torch.jit.trace(model, inputs))
    if variant == "compiled":
        model = torch.compile(model)

    def call():
        with torch.inference_mode():
            return model(*inputs)

    return call


class Training:
    """A model with Adam as Burn sets it, on one batch of inputs and labels."""

    def __init__(self, name, variant, rate):
        self.model, (inputs, self.labels) = loaded(name)
        self.inputs = inputs
        if variant.startswith("channels last"):
            self.model = self.model.to(memory_format=torch.channels_last)
            self.inputs = inputs.to(memory_format=torch.channels_last)
        fused = variant != "eager"
        self.adam = torch.optim.Adam(self.model.parameters(), lr=rate, eps=1e-5, fused=fused)
        self.forward = torch.compile(self.model) if variant == "compiled" else self.model

    def step(self):
        loss = F.cross_entropy(self.forward(self.inputs), self.labels)
        loss.backward()
        self.adam.step()
        self.adam.zero_grad()
        return loss


def variants(name):
    convolutions = name.startswith("resnet")
    if name.endswith("_train"):
        found = ["eager", "fused Adam"] + ["channels last, fused Adam"] * convolutions
    else:
        found = ["eager"] + ["channels last", "frozen"] * convolutions
    return found + ["compiled"] * COMPILE


def called(name, variant):
    if name.endswith("_train"):
        return Training(name, variant, HARDLY_LEARNS).step
    return inference(name, variant)


def seconds(call):
    """The shortest of a few calls."""
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def setup(name, *variant):
    """The model's call in the fastest variant, or in the one that is named."""
    best = None
    for candidate in [" ".join(variant)] if variant else variants(name):
        try:
            call = called(name, candidate)
            call()
            taken = seconds(call)
        except Exception as error:
            print(f"PyTorch's variant {candidate!r} of {name}: {error!r}"[:400], file=sys.stderr)
            continue
        if best is None or taken < best[0]:
            best = (taken, call, candidate)
    return best and best[1:]


def numbers(name):
    """The results of all variants, one after the other: any of them may be the fastest."""
    found = []
    for variant in variants(name):
        try:
            found.append(numbers_of(name, variant).ravel())
        except Exception as error:
            print(f"PyTorch's variant {variant!r} of {name}: {error!r}"[:400], file=sys.stderr)
    return np.concatenate(found) if found else None


def numbers_of(name, variant):
    if name.endswith("_train"):
        training = Training(name, variant, LEARNS)
        return np.array([training.step().item() for _ in range(STEPS)])
    result = inference(name, variant)()
    return (result[0] if isinstance(result, tuple) else result).numpy()


def export(name, path):
    """Writes the model for ONNX Runtime."""
    model, inputs = loaded(name)
    if "folded" in name:
        model = folded(model)
    if name == "gpt2_token":
        inputs = after_text(model, inputs)
        np.save(os.path.join(FOLDER, PAST), inputs[1].numpy())
    torch.onnx.export(model, tuple(inputs), path, dynamo=True, verbose=False)


def finish():
    """Calls return when their work is done."""


def version():
    return f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads"
