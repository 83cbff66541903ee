//! Hugging Face's candle, on the CPU.

use super::call;
use super::name::Name;
use crate::call::{Call, Numbers};
use crate::cases::{first_operand, order, second_operand};
use burn_tensor::DType as Burn;
use candle_core::backprop::GradStore;
use candle_core::{DType, Device::Cpu, IndexOp, Result, Tensor, Var};
use candle_nn::attention::{AttnMask, flash_attn};
use candle_nn::ops;

/// The call for a case name; `None` if candle has no such operation.
pub(super) fn call_of(name: &Name) -> Option<Call> {
    let dtype = dtype(name.dtype)?;
    if let Some(n) = name.length() {
        if let Some(unary) = unary(name, n) {
            return call(vector(n, dtype), unary);
        }
        if let Some(call) = vectors(name, n, dtype).or_else(|| matrices(name, dtype)) {
            return Some(call);
        }
    }
    let tensor = |shape: &[usize]| tensor(shape, dtype);
    match (name.op, &name.numbers[..]) {
        ("gemv", &[m, k, n]) => {
            let b = tensor(&[k, n]);
            let b = if name.layout == "t" { b.t().ok()? } else { b };
            call((tensor(&[m, k]), b), |(a, b)| a.matmul(b))
        }
        ("bmm", &[h, s, d]) => call((tensor(&[h, s, d]), tensor(&[h, d, s])), |(a, b)| a.matmul(b)),
        ("conv2d", &[b, c, h, o, k, s]) => {
            call((tensor(&[b, c, h, h]), tensor(&[o, c, k, k])), move |(x, w)| x.conv2d(w, k / 2, s, 1, 1))
        }
        ("dwconv", &[c, h, k]) => {
            call((tensor(&[1, c, h, h]), tensor(&[c, 1, k, k])), move |(x, w)| x.conv2d(w, k / 2, 1, 1, c))
        }
        // The function takes [batch, sequence, heads, depth] and returns [batch, heads, sequence, depth].
        ("attention", &[h, s, d]) => {
            let operand = |x: Tensor| x.transpose(1, 2).and_then(|x| x.contiguous()).ok();
            let shape = [1, h, s, d];
            let inputs = (operand(tensor(&shape))?, operand(tensor(&shape))?, operand(other(&shape, dtype))?);
            call(inputs, move |(q, k, v)| {
                flash_attn::<f32>(q, k, v, 1.0 / (d as f32).sqrt(), AttnMask::None, None, None)
            })
        }
        ("embedding", &[n, d]) => call((tensor(&[8192, d]), permutation(n)), |(w, i)| w.embedding(i)),
        ("embedding_grad", &[n, d]) => {
            call((variable(&[8192, d])?, permutation(n)), |(w, i)| backward(w.embedding(i)?))
        }
        _ => None,
    }
}

impl Numbers for Tensor {
    fn numbers(&self) -> Option<Vec<f64>> {
        self.flatten_all().and_then(|t| t.to_dtype(DType::F64)?.to_vec1()).ok()
    }
}

/// The sum of a result as the loss, and its gradients: as the cases have it.
fn backward(result: Tensor) -> Result<(Tensor, GradStore)> {
    let loss = result.sum_all()?;
    let gradients = loss.backward()?;
    Ok((loss, gradients))
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

/// A tensor with the same values as for Burn's backends: in [0.1, 1), or integers in 1..1000.
fn tensor(shape: &[usize], dtype: DType) -> Tensor {
    made(first_operand(shape.iter().product(), dtype.is_float()), shape, dtype)
}

/// A second operand, with other values.
fn other(shape: &[usize], dtype: DType) -> Tensor {
    made(second_operand(shape.iter().product(), dtype.is_float()), shape, dtype)
}

fn made(elements: Vec<f32>, shape: &[usize], dtype: DType) -> Tensor {
    let made = Tensor::from_vec(elements, shape, &Cpu).and_then(|t| t.to_dtype(dtype));
    made.expect("candle makes tensors of its dtypes")
}

fn vector(n: usize, dtype: DType) -> Tensor {
    tensor(&[n], dtype)
}

fn variable(shape: &[usize]) -> Option<Var> {
    Var::from_tensor(&tensor(shape, DType::F32)).ok()
}

/// [`order`] as a tensor.
fn permutation(n: usize) -> Tensor {
    let order: Vec<u32> = order(n).map(|i| i as u32).collect();
    Tensor::from_vec(order, n, &Cpu).expect("candle makes vectors of u32")
}

/// Functions of one vector.
fn unary(name: &Name, n: usize) -> Option<fn(&Tensor) -> Result<Tensor>> {
    if !name.layout.is_empty() {
        return None;
    }
    Some(match name.op {
        "exp" => Tensor::exp,
        "log" => Tensor::log,
        "tanh" => Tensor::tanh,
        "sin" => Tensor::sin,
        "cos" => Tensor::cos,
        "erf" => Tensor::erf,
        "sqrt" => Tensor::sqrt,
        "sigmoid" => ops::sigmoid,
        "gelu" => Tensor::gelu_erf,
        "silu" => Tensor::silu,
        "relu" => Tensor::relu,
        "mul_scalar" => |a| a * 1.5,
        "clamp" => |a| a.clamp(0.2, 0.8),
        "cast_f64" => |a| a.to_dtype(DType::F64),
        "cast_f32" => |a| a.to_dtype(DType::F32),
        "cast_f16" => |a| a.to_dtype(DType::F16),
        "sum" => Tensor::sum_all,
        "max" => Tensor::max_all,
        "mean" => Tensor::mean_all,
        "argmax" => |a| a.argmax(0),
        // candle computes it as a product with a triangular matrix of n by n.
        "cumsum" if n <= 4096 => |a| a.cumsum(0),
        "sort" => |a| Ok(a.sort_last_dim(true)?.0),
        "argsort" => |a| a.arg_sort_last_dim(true),
        _ => return None,
    })
}

/// Functions of two vectors or of none, and random numbers.
fn vectors(name: &Name, n: usize, dtype: DType) -> Option<Call> {
    if !name.layout.is_empty() {
        return None;
    }
    let two = || (vector(n, dtype), other(&[n], dtype));
    match name.op {
        "add" => call(two(), |(a, b)| a + b),
        "mul" => call(two(), |(a, b)| a * b),
        "powf" => call(two(), |(a, b)| a.pow(b)),
        "greater" => call(two(), |(a, b)| a.gt(b)),
        "where" => {
            let (a, b) = two();
            let mask = a.gt(&b).ok()?;
            call((a, b, mask), |(a, b, mask)| mask.where_cond(b, a))
        }
        "rand" => call(n, |&n| Tensor::randn(0f32, 1f32, n, &Cpu)),
        "uniform" => call(n, |&n| Tensor::rand(0f32, 1f32, n, &Cpu)),
        "matmul" => call((tensor(&[n, n], dtype), tensor(&[n, n], dtype)), |(a, b)| a.matmul(b)),
        _ => None,
    }
}

/// Functions of matrices of `n` by `n`; `n` is 1024, a length that no vector case has.
fn matrices(name: &Name, dtype: DType) -> Option<Call> {
    let n = name.length().filter(|&n| n == 1024)?;
    let [a, same] = [(); 2].map(|()| tensor(&[n, n], dtype));
    let b = other(&[n, n], dtype);
    let (row, column) = (tensor(&[1, n], dtype), tensor(&[n, 1], dtype));
    let line = || vector(n, dtype);
    let (order, half) = (permutation(n), n / 2);
    if let Some((op, dim)) = name.op.split_once("_dim") {
        let dim: usize = dim.parse().ok()?;
        let a = if name.layout == "t" { a.t().ok()? } else { a };
        let each =
            || order.reshape(if dim == 0 { (n, 1) } else { (1, n) })?.broadcast_as((n, n))?.contiguous();
        return match op {
            "sum" => call(a, move |a| a.sum_keepdim(dim)),
            "mean" => call(a, move |a| a.mean_keepdim(dim)),
            "max" => call(a, move |a| a.max_keepdim(dim)),
            "argmax" => call(a, move |a| a.argmax_keepdim(dim)),
            "cumsum" => call(a, move |a| a.cumsum(dim)),
            "softmax" => call(a, move |a| ops::softmax(a, dim)),
            "sort" if dim == 1 => call(a, |a| a.sort_last_dim(true)),
            "argsort" if dim == 1 => call(a, |a| a.arg_sort_last_dim(true)),
            "cat" => call((a, same), move |(a, b)| Tensor::cat(&[a, b], dim)),
            "repeat" => call(a, move |a| a.repeat(if dim == 0 { (4, 1) } else { (1, 4) })),
            "gather" => call((a, each().ok()?), move |(a, i)| a.gather(i, dim)),
            "scatter_add" => call((a, each().ok()?), move |(a, i)| a.scatter_add(i, a, dim)),
            _ => None,
        };
    }
    match (name.op, name.layout) {
        ("transpose_copy", "") => call(a, |a| a.t()?.flatten_all()),
        ("bcast_add_row", "") => call((a, row), |(a, b)| a.broadcast_add(b)),
        ("bcast_add_column", "") => call((a, column), |(a, b)| a.broadcast_add(b)),
        ("bcast_add_both", "") => call((row, column), |(a, b)| a.broadcast_add(b)),
        ("add_row", "t") => call((a, row), |(a, b)| a.t()?.broadcast_add(b)),
        ("add_scalar", "t") => call(a, |a| a.t()? + 1.0),
        ("exp", "t") => call(a, |a| a.t()?.exp()),
        ("exp", "sliced") => call(a, move |a| a.i((1..n - 1, 1..n - 1))?.exp()),
        ("add", "t") => call((a, b), |(a, b)| a + b.t()?),
        ("add", "tt") => call((a, b), |(a, b)| a.t()? + b.t()?),
        ("add", "sliced") => {
            call((a, b), move |(a, b)| a.i((1..n - 1, 1..n - 1))? + b.i((0..n - 2, 2..n))?)
        }
        ("greater", "t") => call((a, b), |(a, b)| a.gt(&b.t()?)),
        ("softmax", "") => call(a, ops::softmax_last_dim),
        ("log_softmax", "") => call(a, |a| ops::log_softmax(a, 1)),
        ("layer_norm", "") => call((a, line(), line()), |(x, g, b)| ops::layer_norm(x, g, b, 1e-5)),
        // candle's fused forms have no gradients.
        ("softmax_grad" | "softmax_grad_fused", "") => gradient(n, b, |x| ops::softmax(x, 1)),
        ("log_softmax_grad" | "log_softmax_grad_fused", "") => gradient(n, b, |x| ops::log_softmax(x, 1)),
        ("layer_norm_grad" | "layer_norm_grad_fused", "") => {
            let g = variable(&[n])?;
            gradient(n, b, move |x| ops::layer_norm_slow(x, &g, &g, 1e-5))
        }
        ("select_rows", "") => call((a, order), |(a, i)| a.index_select(i, 0)),
        ("select_columns", "") => call((a, order), |(a, i)| a.index_select(i, 1)),
        ("select_add_rows", "") => call((a, order), |(a, i)| a.index_add(i, a, 0)),
        ("slice_assign", "") => call((a, tensor(&[half, half], dtype)), move |(a, b)| {
            a.slice_assign(&[100..100 + half, 200..200 + half], b)
        }),
        _ => None,
    }
}

/// Forward and backward pass of a function of rows, weighted by a constant.
fn gradient(n: usize, weights: Tensor, f: impl Fn(&Tensor) -> Result<Tensor> + 'static) -> Option<Call> {
    call((variable(&[n, n])?, weights), move |(x, w)| backward((f(x)? * w)?))
}
