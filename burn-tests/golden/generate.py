"""Computes the golden values of the suite with PyTorch and NumPy, in f64, and writes golden.json.gz beside this file.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 numpy==2.4.6
    venv/bin/python generate.py

A case is an operation, its parameters, its inputs and what came out. Inputs are multiples of 1/64 in [-2, 2) unless the
operation needs others, so that every float dtype holds them exactly and all backends start from the same numbers.
"""
import gzip
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(20261121)
CASES = []


def grid(*shape, low=-2.0, high=2.0):
    """Random multiples of 1/64."""
    return torch.randint(round(low * 64), round(high * 64), shape).double() / 64


def pack(x):
    """A tensor as JSON; numbers that JSON lacks become strings."""
    x = torch.as_tensor(x)
    flat = x.flatten().tolist()
    if x.is_floating_point():
        flat = [v if math.isfinite(v) else str(v) for v in flat]
        flat = [int(v) if isinstance(v, float) and v == int(v) and (v != 0 or math.copysign(1, v) > 0) else v for v in flat]
    kind = "float" if x.is_floating_point() else "bool" if x.dtype == torch.bool else "int"
    return {"kind": kind, "shape": list(x.shape), "data": flat}


def case(op, outputs, *inputs, **params):
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    CASES.append({
        "op": op,
        "params": params,
        "inputs": [pack(x) for x in inputs],
        "outputs": [pack(x) for x in outputs],
    })


def with_gradients(op, f, *inputs, **params):
    """The output, then the gradient of each input, under a fixed gradient of the output that joins the inputs."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    weight = grid(*y.shape)
    gradients = torch.autograd.grad(y, inputs, weight)
    case(op, [y.detach(), *gradients], *[x.detach() for x in inputs], weight, **params)


def elementwise():
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0], dtype=torch.float64)
    x = torch.cat([special, grid(23)])
    for op, f in {
        "exp": torch.exp, "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos,
        "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "asin": torch.asin,
        "acos": torch.acos, "atan": torch.atan, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
        "erf": torch.erf, "recip": torch.reciprocal, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
        "round": torch.round, "sign": torch.sign, "abs": torch.abs, "relu": torch.relu, "gelu": F.gelu,
        "sigmoid": torch.sigmoid, "log_sigmoid": F.logsigmoid,
    }.items():
        # sin(inf) and the like are NaN there and here; that is part of the check. Not so gelu(-inf), which PyTorch computes as
        # 0 * inf: a backend may as well give the limit.
        x_or_finite = x.nan_to_num(math.nan, math.inf, -1.5) if op == "gelu" else x
        case(op, f(x_or_finite), x_or_finite)
    case("leaky_relu", F.leaky_relu(x, 0.125), x, slope=0.125)
    case("hard_sigmoid", torch.clamp(0.25 * x + 0.5, 0.0, 1.0), x, alpha=0.25, beta=0.5)
    case("clamp", torch.clamp(x, -0.5, 1.0), x, min=-0.5, max=1.0)
    a = torch.cat([special, special.flip(0), special.roll(3)])
    b = torch.cat([special.roll(1), special, special])
    for op, f in {"powf": torch.pow, "remainder": torch.remainder, "atan2": torch.atan2}.items():
        case(op, f(a, b), a, b)
    for op, f in {"sigmoid_backward": torch.sigmoid, "gelu_backward": F.gelu, "log_sigmoid_backward": F.logsigmoid}.items():
        y = grid(33).requires_grad_()
        g = grid(33)
        case(op, torch.autograd.grad(f(y), y, g)[0], y.detach(), g)


def rows():
    x = grid(3, 5, 7)
    x[0, 0, 0], x[1, 1, 1], x[2, 2, 2] = math.nan, math.inf, -math.inf
    for dim in range(3):
        case("softmax", torch.softmax(x, dim), x, dim=dim)
        case("log_softmax", torch.log_softmax(x, dim), x, dim=dim)
        for op in ["cumsum", "cumprod"]:
            finite = x.nan_to_num(1.0, 2.0, -2.0)
            case(op, getattr(torch, op)(finite, dim), finite, dim=dim)
        for op in ["cummax", "cummin"]:
            case(op, getattr(torch, op)(x, dim).values, x, dim=dim)
        case("sum_dim", x.sum(dim, keepdim=True), x, dim=dim)
        case("mean_dim", x.mean(dim, keepdim=True), x, dim=dim)
        case("prod_dim", x.prod(dim, keepdim=True), x, dim=dim)
        case("max_dim", x.amax(dim, keepdim=True), x, dim=dim)
        case("min_dim", x.amin(dim, keepdim=True), x, dim=dim)
        # Without ties, whose order PyTorch leaves open.
        distinct = torch.randperm(105).double().reshape(3, 5, 7)
        distinct[1, 2, 3] = math.nan
        for descending in [False, True]:
            values, indices = torch.sort(distinct, dim, descending=descending)
            case("sort", [values, indices], distinct, dim=dim, descending=descending)
        case("argmax", distinct.argmax(dim, keepdim=True), distinct, dim=dim)
        case("argmin", distinct.argmin(dim, keepdim=True), distinct, dim=dim)
    x, g, b = grid(4, 6, 10), grid(10), grid(10)
    case("layer_norm", F.layer_norm(x, (10,), g, b, 1e-5), x, g, b, epsilon=1e-5)


def products():
    a, b = grid(3, 1, 4, 5), grid(1, 2, 5, 6)
    case("matmul", a @ b, a, b)
    x, w, b = grid(2, 3, 5), grid(5, 4), grid(4)
    case("linear", x @ w + b, x, w, b)
    a, b = grid(4, 3), grid(4, 3)
    case("cross", torch.linalg.cross(a, b, dim=1), a, b, dim=1)


def convolutions():
    for n in (1, 2, 3):
        conv = [F.conv1d, F.conv2d, F.conv3d][n - 1]
        transposed = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][n - 1]
        size, kernel = [(9,), (8, 6), (5, 6, 5)][n - 1], [3, 2, 3][:n]
        for stride, padding, dilation, groups in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 2)]:
            options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
            batch = 2 if n == 1 else 1
            x, w, b = grid(batch, 4, *size), grid(6, 4 // groups, *kernel), grid(6)
            with_gradients(f"conv{n}d", lambda x, w, b: conv(x, w, b, stride, padding, dilation, groups), x, w, b, **options)
            out = min(stride - 1, 1)
            w = grid(4, 6 // groups, *kernel)
            x = x[..., :3, :3, :3] if n == 3 else x
            with_gradients(
                f"conv_transpose{n}d",
                lambda x, w, b: transposed(x, w, b, stride, padding, out, groups, dilation),
                x, w, b, padding_out=out, **options,
            )


def pools():
    for size, kernel, stride, padding, dilation in [(9, 3, 2, 1, 1), (10, 2, 2, 0, 1), (11, 3, 1, 1, 2), (8, 3, 3, 1, 1)]:
        for ceil in [False, True]:
            # All different, so that the gradient of a maximum has one place to go to.
            x = torch.randperm(2 * size * (size + 1)).double().reshape(1, 2, size, size + 1) / 64
            options = dict(kernel=kernel, stride=stride, padding=padding, ceil=ceil)
            with_gradients(
                "max_pool2d", lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil), x, dilation=dilation, **options
            )
            for count_pad in [False, True]:
                with_gradients(
                    "avg_pool2d", lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, count_pad), x,
                    count_pad=count_pad, **options,
                )
    for out in [(1, 1), (3, 4), (7, 5), (9, 11)]:
        with_gradients("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, out), grid(1, 2, 7, 10), out=out)


def vision():
    x = grid(1, 2, 5, 6)
    for out in [(5, 6), (10, 12), (3, 4), (7, 11), (1, 1)]:
        with_gradients("interpolate", lambda x: F.interpolate(x, out, mode="nearest"), x, out=out, mode="nearest", align=False)
        for mode in ["bilinear", "bicubic"]:
            for align in [False, True]:
                with_gradients(
                    "interpolate", lambda x: F.interpolate(x, out, mode=mode, align_corners=align), x, out=out, mode=mode,
                    align=align,
                )
    points = grid(1, 4, 3, 2, low=-1.5, high=1.5)
    for mode in ["bilinear", "nearest"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [False, True]:
                y = F.grid_sample(x, points, mode, padding, align)
                case("grid_sample", y, x, points, mode=mode, padding=padding, align=align)
    for kernel, stride, padding, dilation in [(2, 1, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2)]:
        y = F.unfold(x, kernel, dilation, padding, stride)
        case("unfold4d", y, x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)


def attention():
    q, k, v = grid(2, 3, 5, 8), grid(2, 3, 7, 8), grid(2, 3, 7, 4)
    bias = grid(2, 3, 5, 7)
    mask = torch.rand(2, 3, 5, 7) < 0.3
    mask[..., 0] = False
    attend = F.scaled_dot_product_attention
    case("attention", attend(q, k, v), q, k, v, causal=False)
    case("attention", attend(q, k, v, attn_mask=bias), q, k, v, bias, causal=False)
    case("attention", attend(q, k, v, attn_mask=~mask), q, k, v, mask, causal=False)
    case("attention", attend(q, k, v, scale=0.3), q, k, v, causal=False, scale=0.3)
    square = grid(1, 2, 6, 8)
    case("attention", attend(square, square, square, is_causal=True), square, square, square, causal=True)


def sequences():
    log_probs = torch.log_softmax(grid(9, 3, 5), 2)
    targets = torch.tensor([[1, 2, 2, 3], [4, 4, 1, 1], [3, 1, 0, 0]])
    lengths, target_lengths = torch.tensor([9, 7, 5]), torch.tensor([4, 3, 2])
    y = F.ctc_loss(log_probs, targets, lengths, target_lengths, 0, "none")
    case("ctc_loss", y, log_probs, targets, lengths, target_lengths)
    w, i = grid(6, 4), torch.tensor([[0, 5, 3], [3, 3, 1]])
    case("embedding", F.embedding(i, w), w, i)
    for n in [1, 2, 3, 4, 7, 8, 12, 15, 16, 31, 64, 97, 100]:
        x = np.asarray(grid(2, n))
        y = np.fft.rfft(x, axis=1)
        case("rfft", [y.real.copy(), y.imag.copy()], x, dim=1)
        case("irfft", np.fft.irfft(y, n, axis=1), y.real.copy(), y.imag.copy(), dim=1, n=n)


def indexing():
    x, source = grid(4, 5), grid(3, 5)
    index = torch.tensor([[0, 1, 2, 3, 0], [1, 1, 1, 0, 3], [3, 3, 2, 2, 0]])
    case("gather", torch.gather(x, 0, index), x, index, dim=0)
    case("scatter_add", torch.scatter_add(x, 0, index, source), x, index, source, dim=0)
    rows = torch.tensor([2, 0, 2])
    case("select", torch.index_select(x, 0, rows), x, rows, dim=0)
    case("select_add", torch.index_add(x, 0, rows, source), x, rows, source, dim=0)


def integers():
    a = torch.tensor([7, -7, 7, -7, 0, 100, -100, 127, -128, 5])
    b = torch.tensor([3, 3, -3, -3, 5, 7, 7, -1, 2, -5])
    case("int_remainder", torch.remainder(a, b), a, b)
    case("int_div", torch.div(a, b, rounding_mode="trunc"), a, b)
    case("int_powi", torch.pow(a, b.abs()), a, b.abs())
    case("bitwise_right_shift", a >> b.abs(), a, b.abs())
    case("bitwise_left_shift", a << b.abs(), a, b.abs())


for family in [elementwise, rows, products, convolutions, pools, vision, attention, sequences, indexing, integers]:
    family()
versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__}
text = json.dumps({"versions": versions, "cases": CASES}, separators=(",", ":"))
path = pathlib.Path(__file__).with_name("golden.json.gz")
# No time stamp, so that the same values make the same file.
path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
print(f"{len(CASES)} cases, {len(text)} bytes of JSON, {path.stat().st_size} compressed")
