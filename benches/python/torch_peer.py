"""PyTorch's calls of the cases, and their inputs: uniform in [0.1, 1), f32 unless named, as in src/cases. serve.py follows this
file and answers for it. The arguments are the number of threads, the device, which every tensor is made on, and perhaps
"compile": then only chains run, each compiled by torch.compile."""
import re
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(int(sys.argv[1]))
DEVICE, COMPILE = torch.device(sys.argv[2]), "compile" in sys.argv[3:]
torch.set_default_device(DEVICE)
torch.manual_seed(0)

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i64": torch.int64,
}
N = 1024


def values(*shape, dtype=torch.float32):
    if not dtype.is_floating_point:
        return torch.randint(1, 1000, shape, dtype=dtype)
    return (torch.rand(shape) * 0.9 + 0.1).to(dtype)


def permutation(n):
    return (torch.arange(n) * 389) % n


UNARY = {
    "mul_scalar": lambda a: a * 1.5,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "silu": F.silu,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "relu": torch.relu,
    "clamp": lambda a: torch.clamp(a, 0.2, 0.8),
    "cast_f64": lambda a: a.to(torch.float64),
    "cast_f32": lambda a: a.to(torch.float32),
    "cast_f16": lambda a: a.to(torch.float16),
    "sum": torch.sum,
    "mean": torch.mean,
    "argmax": torch.argmax,
    "clone_reshape": lambda a: a.view(-1, 1),
    "slice": lambda a: a[a.numel() // 4 : a.numel() - a.numel() // 4],
    "max": torch.max,
    "cumsum": lambda a: torch.cumsum(a, 0),
    "cumprod": lambda a: torch.cumprod(a, 0),
    "cummax": lambda a: torch.cummax(a, 0),
    "sort": lambda a: torch.sort(a, 0),
    "argsort": lambda a: torch.argsort(a, 0),
    "topk": lambda a: torch.topk(a, 10, 0),
}
BINARY = {
    "add": torch.add,
    "mul": torch.mul,
    "powf": torch.pow,
    "greater": torch.gt,
}
MASKED = {
    "where": lambda a, b, m: torch.where(m, b, a),
    "mask_fill": lambda a, b, m: torch.masked_fill(a, m, 0.5),
}
RANDOM = {
    "rand": lambda n: torch.randn(n),
    "uniform": lambda n: torch.rand(n),
    "bernoulli": lambda n: torch.empty(n).bernoulli_(0.3),
}
# Matrices of N by N; `dim` comes from the name.
ALONG = {
    "sum": lambda a, dim: torch.sum(a, dim, keepdim=True),
    "mean": lambda a, dim: torch.mean(a, dim, keepdim=True),
    "max": lambda a, dim: torch.amax(a, dim, keepdim=True),
    "argmax": lambda a, dim: torch.argmax(a, dim, keepdim=True),
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "cummax": torch.cummax,
    "softmax": torch.softmax,
    "sort": torch.sort,
    "argsort": torch.argsort,
    "topk": lambda a, dim: torch.topk(a, 10, dim),
}
MATRIX = {
    "softmax": lambda a, b: torch.softmax(a, 1),
    "log_softmax": lambda a, b: torch.log_softmax(a, 1),
    "add.flipped": lambda a, b: a + b.flip(1),
    "cat_dim0": lambda a, b: torch.cat([a, b], 0),
    "cat_dim1": lambda a, b: torch.cat([a, b], 1),
    "repeat_dim0": lambda a, b: a.repeat(4, 1),
    "repeat_dim1": lambda a, b: a.repeat(1, 4),
}


def weighted_gradient(f):
    """Forward and backward pass of a function of rows, weighted by a constant."""
    x, w = values(N, N).requires_grad_(), values(N, N)

    def call():
        x.grad = None
        (f(x) * w).sum().backward()

    return call


def gradients(f, *inputs):
    """Forward and backward pass, into all of the inputs."""
    for x in inputs:
        x.requires_grad_()

    def call():
        for x in inputs:
            x.grad = None
        f(*inputs).sum().backward()

    return call


def passes(which, f, x, *weights):
    """A layer's forward pass, or the forward pass and gradients: of all operands (`_grad`) or of the weights (`_wgrad`)."""
    if which == "_grad":
        return gradients(f, x, *weights)
    if which == "_wgrad":
        return gradients(lambda *weights: f(x, *weights), *weights)
    return lambda: f(x, *weights)


def indexed(name):
    """Gathers, scatters and the like, on a matrix of N by N."""
    a, order = values(N, N), permutation(N)
    along = {0: order[:, None].expand(N, N).contiguous(), 1: order[None, :].expand(N, N).contiguous()}
    half = values(N // 2, N // 2)

    def slice_assign():
        out = a.clone()
        out[100 : 100 + N // 2, 200 : 200 + N // 2] = half
        return out

    return {
        "select_rows_1024": lambda: torch.index_select(a, 0, order),
        "select_columns_1024": lambda: torch.index_select(a, 1, order),
        "gather_dim0_1024": lambda: torch.gather(a, 0, along[0]),
        "gather_dim1_1024": lambda: torch.gather(a, 1, along[1]),
        "scatter_add_dim0_1024": lambda: torch.scatter_add(a, 0, along[0], a),
        "scatter_add_dim1_1024": lambda: torch.scatter_add(a, 1, along[1], a),
        "select_add_rows_1024": lambda: torch.index_add(a, 0, order, a),
        "slice_assign_1024": slice_assign,
    }.get(name)


def adam(x, m, v, g):
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return x - m * 0.3 / (v.sqrt() + 1e-8) * 1e-3, m, v


def special(name):
    """Modules, gradients, gathers and the FFT. Of compiled calls, chains alone."""
    if not COMPILE:
        return eager(name)
    if not name.startswith("chain_"):
        raise LookupError(f"{name} is one operation")
    call = torch.compile(eager(name))
    try:
        # The first call compiles. What it lacks, such as a C++ compiler, is told.
        call()
    except Exception as error:
        print(f"torch.compile: {error}", file=sys.stderr)
        raise
    return call


def eager(name):
    """The calls of `special`, as they are written."""
    if name in LAYERS:
        return LAYERS[name]()
    match name:
        case "chain_add_8x256x56":
            x, y = values(8, 256, 56, 56), values(8, 256, 56, 56)
            return lambda: x + y
        case "chain_bn_add_relu_8x256x56":
            x, y, c = values(8, 256, 56, 56), values(8, 256, 56, 56), values(1, 256, 1, 1)
            return lambda: torch.relu((x - c) / c * c + c + y)
        case "chain_one_16777216":
            x = values(1 << 24)
            return lambda: x * 1.5
        case "chain_eight_16777216":
            x = values(1 << 24)
            return lambda: -(torch.relu((x * 1.5 + 0.5).abs() - 1.0) * 0.25).clamp(0.0, 0.5)
        case "chain_adam_11534336":
            state = [values(11 << 20) for _ in range(4)]
            return lambda: adam(*state)
        case "chain_add_11534336":
            x, y = values(11 << 20), values(11 << 20)
            return lambda: x + y
        case "chain_softmax_grad_4096x1024":
            y, g = values(4096, 1024), values(4096, 1024)
            return lambda: y * (g - (g * y).sum(1, keepdim=True))
        case "embedding_4096x512":
            w, order = values(8192, 512), permutation(4096)[None, :]
            return lambda: F.embedding(order, w)
        case "embedding_grad_4096x512":
            order = permutation(4096)[None, :]
            return gradients(lambda w: F.embedding(order, w), values(8192, 512))
        case "gelu_grad_1048576":
            w = values(1 << 20)
            return gradients(lambda x: F.gelu(x) * w, values(1 << 20))
        case "maxpool_grad_4x64x112_k3s2":
            return gradients(lambda x: F.max_pool2d(x, 3, 2, 1), values(4, 64, 112, 112))
        case "softmax_grad_1024" | "softmax_grad_fused_1024":
            return weighted_gradient(lambda x: torch.softmax(x, 1))
        case "log_softmax_grad_1024" | "log_softmax_grad_fused_1024":
            return weighted_gradient(lambda x: torch.log_softmax(x, 1))
        case "layer_norm_1024":
            a, g = values(N, N), values(N)
            return lambda: F.layer_norm(a, (N,), g, g)
        case "layer_norm_grad_1024" | "layer_norm_grad_fused_1024":
            g = values(N).requires_grad_()
            return weighted_gradient(lambda x: F.layer_norm(x, (N,), g, g))
    if m := re.fullmatch(r"conv2d(_w?grad)?_b(\d+)_c(\d+)_h(\d+)_o(\d+)_k(\d+)_s(\d+)", name):
        b, c, h, o, k, s = map(int, m.groups()[1:])
        return passes(m[1], lambda x, w: F.conv2d(x, w, None, s, k // 2), values(b, c, h, h), values(o, c, k, k))
    if m := re.fullmatch(r"linear(_w?grad)?_(\d+)x(\d+)x(\d+)(_T)?", name):
        rows, i, o = map(int, m.groups()[1:4])
        weights = [values(o, i)] if m[5] else [values(o, i), values(o)]
        return passes(m[1], F.linear, values(rows, i), *weights)
    if m := re.fullmatch(r"dwconv_c(\d+)_h(\d+)_k(\d+)", name):
        c, h, k = map(int, m.groups())
        x, w = values(1, c, h, h), values(c, 1, k, k)
        return lambda: F.conv2d(x, w, None, 1, k // 2, 1, c)
    if m := re.fullmatch(r"(max|avg)pool_4x64x112_k3s2", name):
        x = values(4, 64, 112, 112)
        pool = F.max_pool2d if m[1] == "max" else F.avg_pool2d
        return lambda: pool(x, 3, 2, 1)
    if m := re.fullmatch(r"attention(_causal)?(_grad)?_h(\d+)(?:_q(\d+))?_s(\d+)_d(\d+)", name):
        h, s, d, q = int(m[3]), int(m[5]), int(m[6]), int(m[4] or m[5])
        # PyTorch's causal mask lets the first query see one key; a single query sees all of them.
        causal = m[1] is not None and q > 1
        if causal and q != s:
            return None
        attention = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return passes(m[2], attention, values(1, h, q, d), values(1, h, s, d), values(1, h, s, d))
    if m := re.fullmatch(r"rfft_16x(\d+)", name):
        x = values(16, int(m[1]))
        return lambda: torch.fft.rfft(x, dim=1)
    return indexed(name)


LAYERS = {
    "group_norm_320x64x64": lambda: layer(nn.GroupNorm(32, 320), 1, 320, 64, 64),
    "instance_norm_4x64x128x128": lambda: layer(nn.InstanceNorm2d(64, affine=True), 4, 64, 128, 128),
    "rms_norm_128x2048": lambda: layer(nn.RMSNorm(2048), 1, 128, 2048),
    "layer_norm_channels_96x56x56": lambda: layer(channel_norm(96), 1, 96, 56, 56),
    "batch_norm_grad_16x64x56x56": lambda: gradients(nn.BatchNorm2d(64), values(16, 64, 56, 56)),
    "hard_swish_3m": lambda: layer(F.hardswish, 4, 64, 112, 112),
    "mish_3m": lambda: layer(F.mish, 4, 64, 112, 112),
    "softplus_3m": lambda: layer(F.softplus, 4, 64, 112, 112),
    "softmax_8x50257": lambda: layer(lambda x: torch.softmax(x, 1), 8, 50257),
    "causal_softmax_12x512x512": lambda: causal_softmax(values(12, 512, 512)),
    "cross_entropy_grad_256x32000": lambda: gradients(
        lambda x: F.cross_entropy(x, CLASSES), values(256, 32000)
    ),
    "conv_dilated_64x56_k3_d2": lambda: convolution(F.conv2d, (1, 64, 56, 56), (64, 64, 3, 3), padding=2, dilation=2),
    "conv_1x7_64x56": lambda: convolution(F.conv2d, (1, 64, 56, 56), (64, 64, 1, 7), padding=(0, 3)),
    "conv_64x56_k5": lambda: convolution(F.conv2d, (1, 64, 56, 56), (64, 64, 5, 5), padding=2),
    "conv_groups32_128x56_k3": lambda: convolution(
        F.conv2d, (1, 128, 56, 56), (128, 4, 3, 3), padding=1, groups=32
    ),
    "conv_transpose_k4s2_128x64x64": lambda: convolution(
        F.conv_transpose2d, (1, 128, 64, 64), (128, 64, 4, 4), stride=2, padding=1
    ),
    "conv_transpose_k2s2_128x64x64": lambda: convolution(
        F.conv_transpose2d, (1, 128, 64, 64), (128, 64, 2, 2), stride=2
    ),
    "conv1d_80x3000_o384_k3": lambda: convolution(F.conv1d, (1, 80, 3000), (384, 80, 3), padding=1),
    "conv1d_384x3000_o384_k3_s2": lambda: convolution(
        F.conv1d, (1, 384, 3000), (384, 384, 3), stride=2, padding=1
    ),
    "dwconv1d_1536x512_k4": lambda: convolution(F.conv1d, (1, 1536, 512), (1536, 1, 4), padding=3, groups=1536),
    "conv3d_16x16x56x56_o32_k3": lambda: convolution(F.conv3d, (1, 16, 16, 56, 56), (32, 16, 3, 3, 3), padding=1),
    "nearest2_320x64x64": lambda: layer(lambda x: F.interpolate(x, scale_factor=2), 1, 320, 64, 64),
    "bilinear2_320x64x64": lambda: layer(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), 1, 320, 64, 64
    ),
    "gru_8x64x256": lambda: layer(nn.GRU(256, 256, batch_first=True), 8, 64, 256),
    "lstm_grad_16x32x64": lambda: lstm_gradients(nn.LSTM(64, 64, batch_first=True), values(16, 32, 64)),
    "mha_4x128x512": lambda: layer(self_attention(nn.MultiheadAttention(512, 8, batch_first=True).eval()), 4, 128, 512),
    "mha_16x128x256": lambda: layer(self_attention(nn.MultiheadAttention(256, 8, batch_first=True).eval()), 16, 128, 256),
    "mha_grad_16x128x256": lambda: gradients(
        self_attention(nn.MultiheadAttention(256, 8, batch_first=True)), values(16, 128, 256)
    ),
    "rope_32x128x64": lambda: rotary(values(1, 32, 128, 64), values(128, 32), values(128, 32)),
    "swiglu_128x768x2048": lambda: swiglu(values(128, 768), values(2048, 768), values(2048, 768)),
    "pixel_shuffle_256x64x64": lambda: layer(lambda x: F.pixel_shuffle(x, 2) + 1.0, 1, 256, 64, 64),
    "windows_96x56x56": lambda: layer(windows, 1, 96, 56, 56),
    "channels_last_8x3x224x224": lambda: layer(
        lambda x: x.permute(0, 2, 3, 1).reshape(-1, 3) + 1.0, 8, 3, 224, 224
    ),
    "patches_8x3x224x224_k16_o384": lambda: patches(values(8, 3, 224, 224), values(384, 3, 16, 16)),
}
CLASSES = permutation(256)


def layer(f, *shape):
    """A forward pass, without gradients."""
    x = values(*shape)

    def call():
        with torch.inference_mode():
            return f(x)

    return call


def convolution(f, x, w, **options):
    w = values(*w)
    return layer(lambda x: f(x, w, **options), *x)


def lstm_gradients(module, x):
    """Forward and backward pass, into the weights."""
    return gradients(lambda *weights: module(x)[0], *module.parameters())


def self_attention(module):
    return lambda x: module(x, x, x, need_weights=False)[0]


def channel_norm(channels):
    norm = nn.LayerNorm(channels)
    return lambda x: norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def causal_softmax(x):
    hidden = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
    return lambda: torch.softmax(x.masked_fill(hidden, float("-inf")), -1)


def rotary(x, cos, sin):
    def call():
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    return call


def swiglu(x, gate, up):
    return lambda: F.silu(F.linear(x, gate)) * F.linear(x, up)


def windows(x):
    parts = x.permute(0, 2, 3, 1).reshape(1, 8, 7, 8, 7, 96)
    return parts.permute(0, 1, 3, 2, 4, 5).reshape(64, 49, 96) + 1.0


def patches(x, w):
    return lambda: F.conv2d(x, w, stride=16).flatten(2).transpose(1, 2) + 1.0


def finish():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def version():
    """Refuses a device that is not there."""
    torch.zeros(1).item()
    on = torch.cuda.get_device_name() if DEVICE.type == "cuda" else f"{torch.get_num_threads()} threads"
    return f"PyTorch {torch.__version__}, {on}"
