"""Takes the names of cases apart for a peer whose file precedes this one; serve.py follows. The names are those of src/cases:
`op[.dtype][.layout]_size`. A peer has the tables UNARY, BINARY, MASKED, RANDOM, ALONG and MATRIX of calls by name, DTYPES,
`values(*shape, dtype=...)`, `permutation(n)`, `special(name)` for cases with names or operands of their own, and what
serve.py asks for: `finish()` and `version()`."""
# Matrices of N by N that all peers write alike.
MATRIX |= {
    "transpose_copy": lambda a, b: a.T.reshape(-1),
    "add_scalar.t": lambda a, b: a.T + 1.0,
    "exp.t": lambda a, b: UNARY["exp"](a.T),
    "add.t": lambda a, b: a + b.T,
    "add.tt": lambda a, b: a.T + b.T,
    "greater.t": lambda a, b: a > b.T,
    "add.sliced": lambda a, b: a[1:-1, 1:-1] + b[:-2, 2:],
    "exp.sliced": lambda a, b: UNARY["exp"](a[1:-1, 1:-1]),
}
# Sums of rows, columns and matrices.
BROADCAST = {
    "bcast_add_row_1024": lambda a, row, column: a + row,
    "bcast_add_column_1024": lambda a, row, column: a + column,
    "bcast_add_both_1024": lambda a, row, column: row + column,
    "add_row.t_1024": lambda a, row, column: a.T + row,
}


def setup(name):
    """The call of a case, or None."""
    if call := special(name):
        return call
    if call := BROADCAST.get(name):
        a, row, column = values(N, N), values(1, N), values(N, 1)
        return lambda: call(a, row, column)
    if m := re.fullmatch(r"(\w+?)_dim([01])((?:\.\w+)*)_1024", name):
        parts = [part for part in m[3].split(".") if part]
        dtype = next((DTYPES.get(part) for part in parts if part != "t"), DTYPES["f32"])
        if dtype is not None and m[1] in ALONG:
            a, dim = values(N, N, dtype=dtype), int(m[2])
            a = a.T if "t" in parts else a
            return lambda: ALONG[m[1]](a, dim)
    if m := re.fullmatch(r"([\w.]+?)_1024", name):
        op, _, suffix = m[1].partition(".")
        dtype = DTYPES.get(suffix, DTYPES["f32"])
        call = MATRIX.get(op if suffix in DTYPES else m[1])
        if call:
            a, b = values(N, N, dtype=dtype), values(N, N, dtype=dtype)
            return lambda: call(a, b)
    if m := re.fullmatch(r"(\w+?)(?:\.(\w+))?_(\d+)", name):
        op, dtype, n = m[1], DTYPES.get(m[2] or "f32"), int(m[3])
        if dtype is None:
            return None
        if op in RANDOM:
            return lambda: RANDOM[op](n)
        if op in UNARY:
            a = values(n, dtype=dtype)
            return lambda: UNARY[op](a)
        if op == "matmul":
            a, b = values(n, n, dtype=dtype), values(n, n, dtype=dtype)
            return lambda: a @ b
        if op in BINARY or op in MASKED:
            a, b = values(n, dtype=dtype), values(n, dtype=dtype)
            if op in BINARY:
                return lambda: BINARY[op](a, b)
            mask = a > b
            return lambda: MASKED[op](a, b, mask)
    if m := re.fullmatch(r"gemv_1x(\d+)x(\d+)(_T)?", name):
        a, b = values(1, int(m[1])), values(int(m[1]), int(m[2]))
        return lambda: a @ (b.T if m[3] else b)
    if m := re.fullmatch(r"bmm_(\d+)x(\d+)x(\d+)", name):
        h, s, d = map(int, m.groups())
        a, b = values(h, s, d), values(h, d, s)
        return lambda: a @ b
    return None
