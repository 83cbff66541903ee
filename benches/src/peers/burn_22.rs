//! Burn 0.22 on upstream's `burn-flex` 0.22, by Burn's user API: `Device::flex()`, and so through
//! burn-dispatch.
//!
//! The cases' own code is written for Burn 0.21, whose tensors name their backend in their type. Hence this
//! peer finds its calls by the cases' names. It has the float cases, but for the Fourier transforms (a crate
//! of their own in 0.22) and the training of a model.

use super::name::Name;
use crate::call::{Call, Numbers};
use crate::cases::{first_operand, order, second_operand};
use burn_tensor::DType as Dtype21;
use burn_tensor_22::activation::{gelu, log_softmax, relu, sigmoid, silu, softmax};
use burn_tensor_22::module::{attention, avg_pool2d, conv2d, embedding, layer_norm, max_pool2d};
use burn_tensor_22::ops::{AttentionModuleOptions, AvgPoolOptions, ConvOptions, MaxPoolOptions};
use burn_tensor_22::{
    DType, Device, Distribution, FloatDType, Gradients, IndexingUpdateOp, Int, Tensor, TensorData,
};

/// The call for a case name; `None` if this table does not have it.
pub(super) fn call_of(name: &Name) -> Option<Call> {
    let dtype = dtype(name.dtype)?;
    if let Some(n) = name.length() {
        let plain = name.layout.is_empty();
        let found = plain.then(|| unary(name, n, dtype).or_else(|| vectors(name, n, dtype))).flatten();
        return found.or_else(|| matrices(name, n, dtype));
    }
    modules(name)
}

/// Calls that cannot fail; Burn panics instead, which [`attempt`](super::attempt) catches.
fn call<I: 'static, R: Numbers + 'static>(inputs: I, f: impl Fn(&I) -> R + 'static) -> Option<Call> {
    Some(Call::new(inputs, f, || ()))
}

impl<const D: usize> Numbers for Tensor<D> {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some(self.to_data().iter::<f64>().collect())
    }
}

impl<const D: usize> Numbers for Tensor<D, Int> {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some(self.to_data().iter::<f64>().collect())
    }
}

impl<const D: usize> Numbers for Tensor<D, burn_tensor_22::Bool> {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some(self.to_data().iter::<f64>().collect())
    }
}

/// The sum of a result as the loss, and its gradients: as the cases have it.
fn backward<const D: usize>(result: Tensor<D>) -> (Tensor<1>, Gradients) {
    let loss = result.sum();
    let gradients = loss.backward();
    (loss, gradients)
}

fn dtype(dtype: Dtype21) -> Option<DType> {
    Some(match dtype {
        Dtype21::F64 => DType::F64,
        Dtype21::F32 => DType::F32,
        Dtype21::F16 => DType::F16,
        Dtype21::BF16 => DType::BF16,
        _ => return None,
    })
}

/// A tensor with the values of the cases' first operand.
fn tensor<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    computed(first_operand(shape.iter().product(), true), shape, dtype, device)
}

/// A tensor with the values of the cases' second operand.
fn other<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    computed(second_operand(shape.iter().product(), true), shape, dtype, device)
}

/// As in the cases, an operand is the result of an operation: its buffer starts where the backend put it.
fn computed<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    let data = TensorData::new(values, shape).convert_dtype(dtype);
    let tensor = Tensor::<D>::from_data(data, (device, dtype));
    tensor.clone().mul_scalar(1.0)
}

/// [`order`] as a tensor.
fn permutation(n: usize, device: &Device) -> Tensor<1, Int> {
    let order: Vec<i32> = order(n).map(|i| i as i32).collect();
    Tensor::from_data(TensorData::new(order, [n]), device)
}

/// Functions of one vector.
fn unary(name: &Name, n: usize, dtype: DType) -> Option<Call> {
    let f: fn(Tensor<1>) -> Tensor<1> = match name.op {
        "exp" => Tensor::exp,
        "log" => Tensor::log,
        "log1p" => Tensor::log1p,
        "tanh" => Tensor::tanh,
        "sin" => Tensor::sin,
        "cos" => Tensor::cos,
        "erf" => Tensor::erf,
        "sqrt" => Tensor::sqrt,
        "sigmoid" => sigmoid,
        "gelu" => gelu,
        "silu" => silu,
        "relu" => relu,
        "mul_scalar" => |a| a * 1.5,
        "clamp" => |a| a.clamp(0.2, 0.8),
        "cast_f64" => |a| a.cast(FloatDType::F64),
        "cast_f32" => |a| a.cast(FloatDType::F32),
        "cast_f16" => |a| a.cast(FloatDType::F16),
        "sum" => Tensor::sum,
        "mean" => Tensor::mean,
        "max" => Tensor::max,
        "cumsum" => |a| a.cumsum(0),
        "cumprod" => |a| a.cumprod(0),
        "cummax" => |a| a.cummax(0),
        "sort" => |a| a.sort(0),
        "topk" => |a| a.topk(10, 0),
        "slice" => {
            return call(tensor([n], dtype, &Device::flex()), move |a| a.clone().slice(n / 4..n - n / 4));
        }
        "clone_reshape" => {
            return call(tensor([n], dtype, &Device::flex()), move |a| a.clone().reshape([n, 1]));
        }
        _ => return None,
    };
    call(tensor([n], dtype, &Device::flex()), move |a| f(a.clone()))
}

/// Functions of two vectors or of none, and random numbers.
fn vectors(name: &Name, n: usize, dtype: DType) -> Option<Call> {
    let device = Device::flex();
    let two = || (tensor::<1>([n], dtype, &device), other::<1>([n], dtype, &device));
    let random =
        |distribution| call(Device::flex(), move |device| Tensor::<1>::random([n], distribution, device));
    match name.op {
        "add" => call(two(), |(a, b)| a.clone() + b.clone()),
        "mul" => call(two(), |(a, b)| a.clone() * b.clone()),
        "powf" => call(two(), |(a, b)| a.clone().powf(b.clone())),
        "greater" => call(two(), |(a, b)| a.clone().greater(b.clone())),
        "where" | "mask_fill" => {
            let (a, b) = two();
            let mask = a.clone().greater(b.clone());
            match name.op {
                "where" => call((a, b, mask), |(a, b, mask)| a.clone().mask_where(mask.clone(), b.clone())),
                _ => call((a, mask), |(a, mask)| a.clone().mask_fill(mask.clone(), 0.5)),
            }
        }
        "argmax" => call(tensor::<1>([n], dtype, &device), |a| a.clone().argmax(0)),
        "argsort" => call(tensor::<1>([n], dtype, &device), |a| a.clone().argsort(0)),
        "rand" => random(Distribution::Normal(0.0, 1.0)),
        "uniform" => random(Distribution::Uniform(0.0, 1.0)),
        "bernoulli" => random(Distribution::Bernoulli(0.3)),
        "matmul" => {
            let square = || tensor::<2>([n, n], dtype, &device);
            call((square(), square()), |(a, b)| a.clone().matmul(b.clone()))
        }
        _ => None,
    }
}

/// Functions of matrices of `n` by `n`; `n` is 1024, a length that no vector case has.
fn matrices(name: &Name, n: usize, dtype: DType) -> Option<Call> {
    if n != 1024 {
        return None;
    }
    let device = &Device::flex();
    let a = || tensor::<2>([n, n], dtype, device);
    let pair = || (a(), other::<2>([n, n], dtype, device));
    let [row, column] = [[1, n], [n, 1]].map(|shape| tensor::<2>(shape, dtype, device));
    let (add, half) = (IndexingUpdateOp::Add, n / 2);
    if let Some((op, dim)) = name.op.split_once("_dim") {
        let dim: usize = dim.parse().ok()?;
        let each = || permutation(n, device).unsqueeze_dim::<2>(1 - dim).repeat_dim(1 - dim, n);
        return match (op, name.layout) {
            ("sum", "t") => call(a(), move |a| a.clone().transpose().sum_dim(dim)),
            ("sum", "") => call(a(), move |a| a.clone().sum_dim(dim)),
            ("mean", "") => call(a(), move |a| a.clone().mean_dim(dim)),
            ("max", "") => call(a(), move |a| a.clone().max_dim(dim)),
            ("argmax", "") => call(a(), move |a| a.clone().argmax(dim)),
            ("cumsum", "") => call(a(), move |a| a.clone().cumsum(dim)),
            ("cumprod", "") => call(a(), move |a| a.clone().cumprod(dim)),
            ("cummax", "") => call(a(), move |a| a.clone().cummax(dim)),
            ("softmax", "") => call(a(), move |a| softmax(a.clone(), dim)),
            ("sort", "") => call(a(), move |a| a.clone().sort(dim)),
            ("argsort", "") => call(a(), move |a| a.clone().argsort(dim)),
            ("topk", "") => call(a(), move |a| a.clone().topk(10, dim)),
            ("cat", "") => call((a(), a()), move |(a, b)| Tensor::cat(vec![a.clone(), b.clone()], dim)),
            ("repeat", "") => call(a(), move |a| a.clone().repeat_dim(dim, 4)),
            ("gather", "") => call((a(), each()), move |(a, i)| a.clone().gather(dim, i.clone())),
            ("scatter_add", "") => {
                call((a(), each()), move |(a, i)| a.clone().scatter(dim, i.clone(), a.clone(), add))
            }
            _ => None,
        };
    }
    let rows = || (a(), permutation(n, device));
    let scaled = || (a(), tensor::<1>([n], dtype, device), tensor::<1>([n], dtype, device));
    match (name.op, name.layout) {
        ("transpose_copy", "") => call(a(), move |a| a.clone().transpose().reshape([n * n])),
        ("bcast_add_row", "") => call((a(), row), |(a, b)| a.clone() + b.clone()),
        ("bcast_add_column", "") => call((a(), column), |(a, b)| a.clone() + b.clone()),
        ("bcast_add_both", "") => call((row, column), |(a, b)| a.clone() + b.clone()),
        ("add_row", "t") => call((a(), row), |(a, b)| a.clone().transpose() + b.clone()),
        ("add_scalar", "t") => call(a(), |a| a.clone().transpose() + 1.0),
        ("exp", "t") => call(a(), |a| a.clone().transpose().exp()),
        ("exp", "sliced") => call(a(), move |a| a.clone().slice([1..n - 1, 1..n - 1]).exp()),
        ("add", "t") => call(pair(), |(a, b)| a.clone() + b.clone().transpose()),
        ("add", "tt") => call(pair(), |(a, b)| a.clone().transpose() + b.clone().transpose()),
        ("add", "flipped") => call(pair(), |(a, b)| a.clone() + b.clone().flip([1])),
        ("add", "sliced") => call(pair(), move |(a, b)| {
            a.clone().slice([1..n - 1, 1..n - 1]) + b.clone().slice([0..n - 2, 2..n])
        }),
        ("greater", "t") => call(pair(), |(a, b)| a.clone().greater(b.clone().transpose())),
        ("softmax", "") => call(a(), |a| softmax(a.clone(), 1)),
        ("log_softmax", "") => call(a(), |a| log_softmax(a.clone(), 1)),
        ("layer_norm", "") => {
            call(scaled(), |(x, g, b)| layer_norm(x.clone(), g.clone(), Some(b.clone()), 1e-5))
        }
        // 0.22 has one form of each gradient; the cases have Burn 0.21's and this project's fused one.
        ("softmax_grad" | "softmax_grad_fused", "") => gradient(n, |x| softmax(x, 1)),
        ("log_softmax_grad" | "log_softmax_grad_fused", "") => gradient(n, |x| log_softmax(x, 1)),
        ("layer_norm_grad" | "layer_norm_grad_fused", "") => {
            let gamma = tensor::<1>([n], dtype, &device.clone().autodiff());
            gradient(n, move |x| {
                let gamma = gamma.clone().require_grad();
                layer_norm(x, gamma.clone(), Some(gamma), 1e-5)
            })
        }
        ("select_rows", "") => call(rows(), |(a, i)| a.clone().select(0, i.clone())),
        ("select_columns", "") => call(rows(), |(a, i)| a.clone().select(1, i.clone())),
        ("select_add_rows", "") => {
            call(rows(), move |(a, i)| a.clone().select_assign(0, i.clone(), a.clone(), add))
        }
        ("slice_assign", "") => call((a(), tensor::<2>([half, half], dtype, device)), move |(a, b)| {
            a.clone().slice_assign([100..100 + half, 200..200 + half], b.clone())
        }),
        _ => None,
    }
}

/// Forward and backward pass of a function of rows, weighted by a constant.
fn gradient(n: usize, f: impl Fn(Tensor<2>) -> Tensor<2> + 'static) -> Option<Call> {
    let device = &Device::flex().autodiff();
    let inputs = (tensor::<2>([n, n], DType::F32, device), other::<2>([n, n], DType::F32, device));
    // The result of an operation, as in `cases/rows.rs`.
    let inner = |x: &Tensor<2>| x.clone().require_grad().unsqueeze::<3>().squeeze_dim(0);
    call(inputs, move |(x, w)| backward(f(inner(x)) * w.clone()))
}

/// Cases whose names have several numbers; all are of f32.
fn modules(name: &Name) -> Option<Call> {
    let device = &Device::flex();
    let single = DType::F32;
    match (name.op, &name.numbers[..]) {
        ("gemv", &[m, k, n]) => {
            let b = tensor::<2>([k, n], single, device);
            let b = if name.layout == "t" { b.transpose() } else { b };
            call((tensor::<2>([m, k], single, device), b), |(a, b)| a.clone().matmul(b.clone()))
        }
        ("bmm", &[h, s, d]) => {
            let inputs = (tensor::<3>([h, s, d], single, device), tensor::<3>([h, d, s], single, device));
            call(inputs, |(a, b)| a.clone().matmul(b.clone()))
        }
        ("conv2d", &[b, c, h, o, k, s]) => convolution([b, c, o, h], k, s, 1),
        ("dwconv", &[c, h, k]) => convolution([1, c, c, h], k, 1, c),
        ("maxpool", &[b, c, h, k, s]) => {
            let mut options = MaxPoolOptions::new([k; 2]);
            (options.stride, options.padding) = ([s; 2], [(1, 1); 2]);
            call(tensor::<4>([b, c, h, h], single, device), move |x| max_pool2d(x.clone(), options.clone()))
        }
        ("avgpool", &[b, c, h, k, s]) => {
            let mut options = AvgPoolOptions::new([k; 2]);
            (options.stride, options.padding) = ([s; 2], [(1, 1); 2]);
            call(tensor::<4>([b, c, h, h], single, device), move |x| avg_pool2d(x.clone(), options.clone()))
        }
        ("attention", &[h, s, d]) => {
            let [q, k] = [(); 2].map(|()| tensor::<4>([1, h, s, d], single, device));
            call((q, k, other::<4>([1, h, s, d], single, device)), |(q, k, v)| {
                attention(q.clone(), k.clone(), v.clone(), None, None, AttentionModuleOptions::default())
            })
        }
        ("embedding", &[n, d]) => {
            let inputs =
                (tensor::<2>([8192, d], single, device), permutation(n, device).unsqueeze_dim::<2>(0));
            call(inputs, |(w, i)| embedding(w.clone(), i.clone()))
        }
        ("embedding_grad", &[n, d]) => {
            let device = &device.clone().autodiff();
            let inputs =
                (tensor::<2>([8192, d], single, device), permutation(n, device).unsqueeze_dim::<2>(0));
            call(inputs, |(w, i)| backward(embedding(w.clone().require_grad(), i.clone())))
        }
        _ => None,
    }
}

/// A convolution with "same" padding of `[batch, input channels, output channels, height]`.
fn convolution([b, c, o, h]: [usize; 4], k: usize, stride: usize, groups: usize) -> Option<Call> {
    let device = &Device::flex();
    let options = ConvOptions::new([stride; 2], [k / 2; 2], [1; 2], groups);
    let (x, w) = ([b, c, h, h], [o, c / groups, k, k]);
    call((tensor::<4>(x, DType::F32, device), tensor::<4>(w, DType::F32, device)), move |(x, w)| {
        conv2d(x.clone(), w.clone(), None, options.clone())
    })
}
