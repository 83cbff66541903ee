"""NumPy's calls of the cases, as far as it has them, and their inputs: uniform in [0.1, 1), f32 unless named, as in src/cases.
NumPy has no bf16 and, outside of matrix products, one thread. serve.py follows this file and answers for it."""
import re
import sys

import numpy as np

RNG = np.random.default_rng(0)
DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i32": np.int32,
    "i64": np.int64,
}
N = 1024


def values(*shape, dtype=np.float32):
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(1, 1000, shape, dtype=dtype)
    return (RNG.random(shape, dtype=np.float32) * np.float32(0.9) + np.float32(0.1)).astype(dtype)


def permutation(n):
    return (np.arange(n) * 389) % n


UNARY = {
    "mul_scalar": lambda a: a * 1.5,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "relu": lambda a: np.maximum(a, 0),
    "clamp": lambda a: np.clip(a, 0.2, 0.8),
    "cast_f64": lambda a: a.astype(np.float64),
    "cast_f32": lambda a: a.astype(np.float32),
    "cast_f16": lambda a: a.astype(np.float16),
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "argmax": np.argmax,
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "sort": lambda a: np.sort(a, kind="stable"),
    "argsort": lambda a: np.argsort(a, kind="stable"),
    "clone_reshape": lambda a: a.view().reshape(-1, 1),
    "slice": lambda a: a[a.size // 4 : a.size - a.size // 4],
}
BINARY = {
    "add": np.add,
    "mul": np.multiply,
    "powf": np.power,
    "greater": np.greater,
}
MASKED = {
    "where": lambda a, b, m: np.where(m, b, a),
    "mask_fill": lambda a, b, m: np.where(m, a.dtype.type(0.5), a),
}
RANDOM = {
    "rand": lambda n: RNG.standard_normal(n, dtype=np.float32),
    "uniform": lambda n: RNG.random(n, dtype=np.float32),
    "bernoulli": lambda n: (RNG.random(n, dtype=np.float32) < 0.3).astype(np.float32),
}
# Matrices of N by N; `dim` comes from the name.
ALONG = {
    "sum": lambda a, dim: np.sum(a, dim, keepdims=True),
    "mean": lambda a, dim: np.mean(a, dim, keepdims=True),
    "max": lambda a, dim: np.max(a, dim, keepdims=True),
    "argmax": lambda a, dim: np.argmax(a, dim, keepdims=True),
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "sort": lambda a, dim: np.sort(a, dim, kind="stable"),
    "argsort": lambda a, dim: np.argsort(a, dim, kind="stable"),
}
MATRIX = {
    "add.flipped": lambda a, b: a + b[:, ::-1],
    "cat_dim0": lambda a, b: np.concatenate([a, b], 0),
    "cat_dim1": lambda a, b: np.concatenate([a, b], 1),
    "repeat_dim0": lambda a, b: np.tile(a, (4, 1)),
    "repeat_dim1": lambda a, b: np.tile(a, (1, 4)),
}


def special(name):
    """Gathers and the like on a matrix of N by N, embedding and FFT."""
    if name == "embedding_4096x512":
        w, order = values(8192, 512), permutation(4096)
        return lambda: np.take(w, order, 0)
    if m := re.fullmatch(r"rfft_16x(\d+)", name):
        x = values(16, int(m[1]))
        return lambda: np.fft.rfft(x, axis=1)
    a, order, half = values(N, N), permutation(N), values(N // 2, N // 2)
    along = {0: np.repeat(order[:, None], N, 1), 1: np.repeat(order[None, :], N, 0)}

    def slice_assign():
        out = a.copy()
        out[100 : 100 + N // 2, 200 : 200 + N // 2] = half
        return out

    return {
        "select_rows_1024": lambda: np.take(a, order, 0),
        "select_columns_1024": lambda: np.take(a, order, 1),
        "gather_dim0_1024": lambda: np.take_along_axis(a, along[0], 0),
        "gather_dim1_1024": lambda: np.take_along_axis(a, along[1], 1),
        "slice_assign_1024": slice_assign,
    }.get(name)


def finish():
    """Calls return when their work is done."""


def version():
    return f"NumPy {np.__version__}"
