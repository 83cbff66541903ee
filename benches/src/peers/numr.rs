//! numr, on the CPU.

use super::call;
use super::name::Name;
use crate::call::{Call, Numbers};
use crate::cases::{first_operand, order, second_operand};
use burn_tensor::DType as Burn;
use numr::ops::ScatterReduceOp;
use numr::prelude::*;

type Array = Tensor<CpuRuntime>;

/// The call for a case name; `None` if numr has no such operation.
pub(super) fn call_of(name: &Name) -> Option<Call> {
    let dtype = dtype(name.dtype)?;
    if let Some(n) = name.length() {
        if let Some(unary) = unary(name) {
            return call((client(), vector(n, dtype)), move |(c, a)| unary(c, a));
        }
        if let Some(call) = vectors(name, n, dtype).or_else(|| matrices(name, dtype)) {
            return Some(call);
        }
    }
    let (c, tensor) = (client(), |shape: &[usize]| tensor(shape, dtype));
    match (name.op, &name.numbers[..]) {
        ("gemv", &[m, k, n]) => {
            let b = tensor(&[k, n]);
            let b = if name.layout == "t" { b.t().ok()? } else { b };
            call((c, tensor(&[m, k]), b), |(c, a, b)| c.matmul(a, b))
        }
        ("bmm", &[h, s, d]) => call((c, tensor(&[h, s, d]), tensor(&[h, d, s])), |(c, a, b)| c.matmul(a, b)),
        ("conv2d", &[b, i, h, o, k, s]) => {
            call((c, tensor(&[b, i, h, h]), tensor(&[o, i, k, k])), move |(c, x, w)| {
                c.conv2d(x, w, None, (s, s), PaddingMode::uniform(k / 2), (1, 1), 1)
            })
        }
        ("dwconv", &[o, h, k]) => {
            call((c, tensor(&[1, o, h, h]), tensor(&[o, 1, k, k])), move |(c, x, w)| {
                c.depthwise_conv2d(x, w, None, (1, 1), PaddingMode::uniform(k / 2), (1, 1))
            })
        }
        ("rfft", &[rows, n]) => call((c, tensor(&[rows, n])), |(c, x)| c.rfft(x, FftNormalization::None)),
        ("embedding", &[n, d]) => {
            call((c, tensor(&[8192, d]), permutation(n)), |(c, w, i)| c.embedding_lookup(w, i))
        }
        _ => None,
    }
}

impl Numbers for Array {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some(client().cast(&self.contiguous().ok()?, DType::F64).ok()?.to_vec())
    }
}

fn dtype(dtype: Burn) -> Option<DType> {
    Some(match dtype {
        Burn::F64 => DType::F64,
        Burn::F32 => DType::F32,
        Burn::F16 => DType::F16,
        Burn::BF16 => DType::BF16,
        Burn::I64 => DType::I64,
        Burn::I32 => DType::I32,
        _ => return None,
    })
}

fn client() -> CpuClient {
    CpuRuntime::default_client(&CpuDevice::new())
}

/// A tensor with the same values as for Burn's backends: in [0.1, 1), or integers in 1..1000.
fn tensor(shape: &[usize], dtype: DType) -> Array {
    made(first_operand(shape.iter().product(), dtype.is_float()), shape, dtype)
}

/// A second operand, with other values.
fn other(shape: &[usize], dtype: DType) -> Array {
    made(second_operand(shape.iter().product(), dtype.is_float()), shape, dtype)
}

fn made(elements: Vec<f32>, shape: &[usize], dtype: DType) -> Array {
    let made = Array::from_slice(&elements, shape, &CpuDevice::new()).and_then(|t| client().cast(&t, dtype));
    made.expect("numr makes tensors of its dtypes")
}

fn vector(n: usize, dtype: DType) -> Array {
    tensor(&[n], dtype)
}

/// [`order`] as a tensor.
fn permutation(n: usize) -> Array {
    let order: Vec<i64> = order(n).map(|i| i as i64).collect();
    Array::from_slice(&order, &[n], &CpuDevice::new()).expect("numr makes vectors of i64")
}

/// Functions of one vector.
fn unary(name: &Name) -> Option<fn(&CpuClient, &Array) -> Result<Array>> {
    if !name.layout.is_empty() {
        return None;
    }
    Some(match name.op {
        "exp" => |c, a| c.exp(a),
        "log" => |c, a| c.log(a),
        "log1p" => |c, a| c.log1p(a),
        "tanh" => |c, a| c.tanh(a),
        "sin" => |c, a| c.sin(a),
        "cos" => |c, a| c.cos(a),
        "erf" => |c, a| c.erf(a),
        "sqrt" => |c, a| c.sqrt(a),
        "sigmoid" => |c, a| c.sigmoid(a),
        "gelu" => |c, a| c.gelu_erf(a),
        "silu" => |c, a| c.silu(a),
        "relu" => |c, a| c.relu(a),
        "mul_scalar" => |c, a| c.mul_scalar(a, 1.5),
        "clamp" => |c, a| c.clamp(a, 0.2, 0.8),
        "cast_f64" => |c, a| c.cast(a, DType::F64),
        "cast_f32" => |c, a| c.cast(a, DType::F32),
        "cast_f16" => |c, a| c.cast(a, DType::F16),
        "sum" => |c, a| c.sum(a, &[0], false),
        "mean" => |c, a| c.mean(a, &[0], false),
        "max" => |c, a| c.max(a, &[0], false),
        "argmax" => |c, a| c.argmax(a, 0, false),
        "cumsum" => |c, a| c.cumsum(a, 0),
        "cumprod" => |c, a| c.cumprod(a, 0),
        "sort" => |c, a| c.sort(a, 0, false),
        "argsort" => |c, a| c.argsort(a, 0, false),
        "topk" => |c, a| Ok(c.topk(a, 10, 0, true, true)?.0),
        _ => return None,
    })
}

/// Functions of two vectors or of none, and random numbers.
fn vectors(name: &Name, n: usize, dtype: DType) -> Option<Call> {
    if !name.layout.is_empty() {
        return None;
    }
    let c = client();
    let two = || (client(), vector(n, dtype), other(&[n], dtype));
    let masked = || {
        let (c, a, b) = two();
        let mask = c.gt(&a, &b).and_then(|m| c.cast(&m, DType::U8)).ok()?;
        Some((c, a, b, mask))
    };
    match name.op {
        "add" => call(two(), |(c, a, b)| c.add(a, b)),
        "mul" => call(two(), |(c, a, b)| c.mul(a, b)),
        "powf" => call(two(), |(c, a, b)| c.pow(a, b)),
        "greater" => call(two(), |(c, a, b)| c.gt(a, b)),
        "where" => call(masked()?, |(c, a, b, mask)| c.where_cond(mask, b, a)),
        "mask_fill" => call(masked()?, |(c, a, _, mask)| c.masked_fill(a, mask, 0.5)),
        "rand" => call((c, n), |(c, n)| c.randn(&[*n], DType::F32)),
        "uniform" => call((c, n), |(c, n)| c.rand(&[*n], DType::F32)),
        "bernoulli" => call((c, n), |(c, n)| c.bernoulli(0.3, &[*n], DType::F32)),
        "matmul" => call((c, tensor(&[n, n], dtype), tensor(&[n, n], dtype)), |(c, a, b)| c.matmul(a, b)),
        _ => None,
    }
}

/// Functions of matrices of `n` by `n`; `n` is 1024, a length that no vector case has.
fn matrices(name: &Name, dtype: DType) -> Option<Call> {
    let n = name.length().filter(|&n| n == 1024)?;
    let c = client();
    let [a, same] = [(); 2].map(|()| tensor(&[n, n], dtype));
    let b = other(&[n, n], dtype);
    let (row, column) = (tensor(&[1, n], dtype), tensor(&[n, 1], dtype));
    let line = || vector(n, dtype);
    let order = permutation(n);
    if let Some((op, dim)) = name.op.split_once("_dim") {
        let dim: usize = dim.parse().ok()?;
        let axis = dim as isize;
        let a = if name.layout == "t" { a.t().ok()? } else { a };
        let each = || {
            let order = order.reshape(&if dim == 0 { [n, 1] } else { [1, n] })?;
            order.broadcast_to(&[n, n])?.contiguous()
        };
        let sum = ScatterReduceOp::Sum;
        return match op {
            "sum" => call((c, a), move |(c, a)| c.sum(a, &[dim], true)),
            "mean" => call((c, a), move |(c, a)| c.mean(a, &[dim], true)),
            "max" => call((c, a), move |(c, a)| c.max(a, &[dim], true)),
            "argmax" => call((c, a), move |(c, a)| c.argmax(a, dim, true)),
            "cumsum" => call((c, a), move |(c, a)| c.cumsum(a, axis)),
            "cumprod" => call((c, a), move |(c, a)| c.cumprod(a, axis)),
            "softmax" => call((c, a), move |(c, a)| c.softmax(a, axis)),
            "sort" => call((c, a), move |(c, a)| c.sort(a, axis, false)),
            "argsort" => call((c, a), move |(c, a)| c.argsort(a, axis, false)),
            "topk" => call((c, a), move |(c, a)| c.topk(a, 10, axis, true, true)),
            "cat" => call((c, a, same), move |(c, a, b)| c.cat(&[a, b], axis)),
            "repeat" => call((c, a), move |(c, a)| c.repeat(a, &if dim == 0 { [4, 1] } else { [1, 4] })),
            "gather" => call((c, a, each().ok()?), move |(c, a, i)| c.gather(a, dim, i)),
            "scatter_add" => {
                call((c, a, each().ok()?), move |(c, a, i)| c.scatter_reduce(a, dim, i, a, sum, true))
            }
            _ => None,
        };
    }
    match (name.op, name.layout) {
        ("transpose_copy", "") => call(a, |a| a.t()?.contiguous()),
        ("bcast_add_row", "") => call((c, a, row), |(c, a, b)| c.add(a, b)),
        ("bcast_add_column", "") => call((c, a, column), |(c, a, b)| c.add(a, b)),
        ("bcast_add_both", "") => call((c, row, column), |(c, a, b)| c.add(a, b)),
        ("add_row", "t") => call((c, a, row), |(c, a, b)| c.add(&a.t()?, b)),
        ("add_scalar", "t") => call((c, a), |(c, a)| c.add_scalar(&a.t()?, 1.0)),
        ("exp", "t") => call((c, a), |(c, a)| c.exp(&a.t()?)),
        ("exp", "sliced") => call((c, a), move |(c, a)| c.exp(&window(a, 1, 1, n - 2)?)),
        ("add", "t") => call((c, a, b), |(c, a, b)| c.add(a, &b.t()?)),
        ("add", "tt") => call((c, a, b), |(c, a, b)| c.add(&a.t()?, &b.t()?)),
        ("add", "flipped") => call((c, a, b), |(c, a, b)| c.add(a, &b.flip(1)?)),
        ("add", "sliced") => {
            call((c, a, b), move |(c, a, b)| c.add(&window(a, 1, 1, n - 2)?, &window(b, 0, 2, n - 2)?))
        }
        ("greater", "t") => call((c, a, b), |(c, a, b)| c.gt(a, &b.t()?)),
        ("softmax", "") => call((c, a), |(c, a)| c.softmax(a, 1)),
        ("log_softmax", "") => call((c, a), |(c, a)| c.log_softmax(a, 1)),
        ("layer_norm", "") => call((c, a, line(), line()), |(c, x, g, b)| c.layer_norm(x, g, b, 1e-5)),
        ("select_rows", "") => call((c, a, order), |(c, a, i)| c.index_select(a, 0, i)),
        ("select_columns", "") => call((c, a, order), |(c, a, i)| c.index_select(a, 1, i)),
        _ => None,
    }
}

/// A square view of `n` rows and columns.
fn window(a: &Array, row: usize, column: usize, n: usize) -> Result<Array> {
    a.narrow(0, row, n)?.narrow(1, column, n)
}
