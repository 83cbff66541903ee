//! No operation ends the process when memory runs out: sizes and options that need more memory than there is
//! give an error. Where less than 1 MiB is missing, a panic with the same message is fine too.
//!
//! Each case runs in a child process, since what is tested would end the process. A child has either an
//! allocator that refuses large requests, or a limit of its address space (`ulimit -v`). Operands are views
//! that repeat one element, so operands of any size cost nothing.
//!
//! ```console
//! cargo test -p flex-core --test out_of_memory
//! ```
#![allow(missing_docs)]
// Of 32 bits, shapes of these sizes overflow before memory runs out.
#![cfg(target_pointer_width = "64")]

#[path = "../../flex-math/src/skipped.rs"]
mod skipped;

use flex_core::DType::{BF16, F16, F32, F64, I8, I32, I64, U8};
use flex_core::elementwise::{Binary, Compare, Unary, binary, cast, compare, mask_fill, unary};
use flex_core::index::{self, Update};
use flex_core::quant::{
    self, BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue,
};
use flex_core::vision::{self, GridPadding, Interpolation};
use flex_core::{BoolStore, DType, Error, Slice, Tensor};
use flex_core::{attention, conv, fft, loss, matmul, movement, norm, pool, random, reduce, sort};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator, which refuses requests of [`LARGEST`] bytes and more.
struct Refusing;

static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

// SAFETY: passes every call on to the system's allocator, or returns null, which says that there is no
// memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGEST.load(Ordering::Relaxed) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGEST.load(Ordering::Relaxed) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size >= LARGEST.load(Ordering::Relaxed) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Whether a case ended well: its name, the largest size that ends soon if it has memory, and the operation
/// at a size.
type Case = (&'static str, usize, fn(usize) -> Result<(), Error>);

/// Sizes around the limits of 32 MiB and 1 GiB, for elements and working memory of 1 to 64 bytes.
const SIZES: [usize; 6] = [700_001, 3 << 20, 9_000_001, 25 << 20, 1 << 30, 1 << 42];
const SIZES_OF_LIMITED: [usize; 3] = [9_000_001, 1 << 30, 1 << 42];
/// Sizes around a limit of 64 KiB.
const SMALL_SIZES: [usize; 5] = [1001, 9001, 20_011, 70_001, 300_007];
const SMALL_LIMIT: usize = 64 << 10;

/// For operations whose time grows with the size while their result does not.
const SOME: usize = 25 << 20;
const ALL: usize = usize::MAX;

/// A tensor of equal elements, which takes the memory of one.
fn x<const N: usize>(shape: [usize; N], dtype: DType) -> Tensor {
    Tensor::full([1; N], 0.0, dtype).unwrap().expand(&shape).unwrap()
}

fn bools<const N: usize>(shape: [usize; N]) -> Tensor {
    x(shape, DType::Bool(BoolStore::Native))
}

/// Different elements in memory of their own.
fn distinct(n: usize, dtype: DType) -> Result<Tensor, Error> {
    cast(movement::arange(0, n as i64, 1, I32)?, dtype)
}

/// A result that a tensor holds, and a larger one that is computed from it by the same chain. What there is
/// no room for does not take the first result with it, also where an earlier chain has computed the first
/// result and not stored it.
fn chain_with_a_held_result(n: usize, is_postponed: bool) -> Result<(), Error> {
    let x = distinct(n, F32)?;
    let held = binary(Binary::Add, x.clone(), x)?;
    if is_postponed {
        binary(Binary::Add, held.clone(), held.clone())?.evaluate()?;
    }
    let larger = cast(held.clone(), F64)?;
    let outcome = larger.evaluate();
    held.evaluate().expect("the smaller result");
    outcome
}

macro_rules! cases {
    ($($name:literal, $most:expr, |$n:ident| $body:expr;)*) => {
        &[$(($name, $most, |$n| { let _ = $body; Ok(()) })),*]
    };
}

fn avg<const N: usize>(padding: [usize; N], stride: usize) -> pool::AvgPoolOptions<N> {
    pool::AvgPoolOptions {
        kernel: [1; N],
        stride: [stride; N],
        padding,
        count_include_pad: true,
        ceil_mode: false,
    }
}

fn max<const N: usize>(kernel: [usize; N], padding: [usize; N]) -> pool::MaxPoolOptions<N> {
    pool::MaxPoolOptions { kernel, stride: [1; N], padding, dilation: [1; N], ceil_mode: false }
}

fn options<const N: usize>(stride: usize, padding: usize, dilation: usize) -> conv::ConvOptions<N> {
    conv::ConvOptions { stride: [stride; N], padding: [padding; N], dilation: [dilation; N], groups: 1 }
}

fn transposed<const N: usize>(stride: usize, out: usize, dilation: usize) -> conv::ConvTransposeOptions<N> {
    conv::ConvTransposeOptions {
        stride: [stride; N],
        padding: [0; N],
        padding_out: [out; N],
        dilation: [dilation; N],
        groups: 1,
    }
}

fn deformed(padding: usize) -> conv::DeformConvOptions {
    conv::DeformConvOptions {
        stride: [1; 2],
        padding: [0, padding],
        dilation: [1; 2],
        weight_groups: 1,
        offset_groups: 1,
    }
}

fn plain() -> attention::AttentionOptions {
    attention::AttentionOptions { scale: None, softcap: None, is_causal: false }
}

fn scheme() -> QuantScheme {
    QuantScheme {
        value: QuantValue::Q8S,
        param: QuantParam::F32,
        store: QuantStore::Native,
        level: QuantLevel::Tensor,
        tensor_scale: false,
        mode: QuantMode::Symmetric,
    }
}

/// Blocks of the last axes.
fn blocks<const N: usize>(size: [u8; N]) -> QuantScheme {
    QuantScheme { level: QuantLevel::Block(BlockSize::new(size)), ..scheme() }
}

const NATIVE: BoolStore = BoolStore::Native;

const CASES: &[Case] = cases! {
    "full", ALL, |n| Tensor::full([n], 1.0, F32)?;
    "from_bools", SOME, |n| Tensor::from_bools(&[true; 8], [n]).is_err();
    "into_bytes", ALL, |n| x([n], F32).into_bytes()?;
    "into_bytes of a clone", ALL, |n| { let t = Tensor::full([n], 1.0, U8)?; (t.clone().into_bytes()?, t) };
    "reshape", ALL, |n| x([n, 2], F32).reshape([2, n])?;
    "reshape of a copy that waits", SOME, |n| {
        let pairs = distinct(n - n % 512, F32)?.reshape([n / 512, 2, 256])?.permute(&[1, 0, 2])?;
        movement::reshape(pairs, [n - n % 512].into())?.evaluate()?
    };
    "arange", ALL, |n| movement::arange(0, n as i64, 1, I64)?;
    "repeat", ALL, |n| movement::repeat(x([2], F32), 0, n)?;
    "cat", ALL, |n| movement::cat(vec![x([n], F32), x([3], F32)], 0)?;
    "cat columns", ALL, |n| movement::cat(vec![x([n, 1], U8), x([n, 2], U8)], 1)?;
    "slice_assign", ALL, |n| movement::slice_assign(x([n], U8), &[Slice::new(0, None, 2)], x([n.div_ceil(2)], U8))?;
    "unary f32", ALL, |n| unary(Unary::Exp, x([n], F32))?;
    "unary bf16", ALL, |n| unary(Unary::Exp, x([2, n], BF16))?;
    "binary", ALL, |n| binary(Binary::Add, x([n, 1], F32), x([1, 3], F32))?;
    "binary transposed", ALL, |n| binary(Binary::Pow, x([n, 3], F16).swap_axes(0, 1)?, x([3, n], F16))?;
    "compare", ALL, |n| compare(Compare::Lt, x([n], F64), x([n], F64), NATIVE)?;
    "mask_fill", ALL, |n| mask_fill(x([n], F32), bools([n]), 1.0.into())?;
    "cast", ALL, |n| cast(x([n], U8), F64)?;
    "chain", SOME, |n| chain_with_a_held_result(2 * n, false)?;
    "chain of what is computed again", SOME, |n| chain_with_a_held_result(2 * n, true)?;
    "gather", ALL, |n| index::gather(0, x([4], F32), x([n], I32))?;
    "gather rows", ALL, |n| index::gather(1, x([n, 4], U8), x([n, 2], I64))?;
    "select", ALL, |n| index::select(x([4, 2], F32), 0, x([n], I32))?;
    "select of a long axis", ALL, |n| index::select(x([2, n], U8), 0, x([3], I32))?;
    "embedding", ALL, |n| index::embedding(x([4, 2], F16), x([1, n], I32))?;
    "embedding_backward", SOME, |n| index::embedding_backward(x([4, 2], F32), x([1, n, 2], F32), x([1, n], I32))?;
    "embedding_backward of many rows", ALL, |n| index::embedding_backward(x([n, 1], U8), x([1, 2, 1], U8), x([1, 2], I32))?;
    "embedding_backward of halves", SOME, |n| index::embedding_backward(x([4, 2], F16), x([1, n, 2], F16), x([1, n], I32))?;
    "select_update", SOME, |n| index::select_update(x([4, 2], F32), 0, x([n], I64), x([n, 2], F32), Update::Add)?;
    "select_update of many rows", SOME, |n| index::select_update(x([n, 1], U8), 0, distinct(n, I32)?, x([n, 1], U8), Update::Add)?;
    "scatter", SOME, |n| index::scatter(0, x([4], F32), x([n], I32), x([n], F32), Update::Add)?;
    "scatter of halves", SOME, |n| index::scatter(0, x([4, 3], F16), x([n, 3], I32), x([n, 3], F16), Update::Add)?;
    "scatter of columns", SOME, |n| index::scatter(0, x([4, n], U8), x([2, n], I32), x([2, n], U8), Update::Max)?;
    "scatter_nd", SOME, |n| index::scatter_nd(x([4, 4], F32), x([n, 2], I32), x([n], F32), Update::Add)?;
    "gather_nd", ALL, |n| index::gather_nd(x([4, 4], F32), x([n, 2], I32))?;
    "mask_select", SOME, |n| index::mask_select(x([n], F32), x([n], DType::Bool(NATIVE)))?;
    "mask_select of ones", SOME, |n| index::mask_select(x([n], F32), Tensor::full([1], 1, DType::Bool(NATIVE))?.expand(&[n])?)?;
    "nonzero", SOME, |n| index::nonzero(x([n], U8), I64)?;
    "nonzero of ones", SOME, |n| index::nonzero(Tensor::full([1, 1], 1, U8)?.expand(&[n, 2])?, I64)?;
    "sum", SOME, |n| reduce::sum(x([n], F32))?;
    "sum_dim 0", SOME, |n| reduce::sum_dim(x([3, n], F16), 0)?;
    "sum_dim 0 of numbers", ALL, |n| reduce::sum_dim(x([1, n], U8), 0)?;
    "sum_dims", SOME, |n| reduce::sum_dims(x([3, n, 2], F16), &[0, 2])?;
    "sum_dims of all", SOME, |n| reduce::sum_dims(distinct(n, F16)?.reshape([1, n, 1])?.expand(&[3, n, 2])?, &[0, 1, 2])?;
    "sum_dim 1", SOME, |n| reduce::sum_dim(x([n, 3], U8), 1)?;
    "mean of the middle", SOME, |n| reduce::mean_dim(x([2, 3, n], BF16), 1)?;
    "max_dim", SOME, |n| reduce::max_dim_with_indices(x([3, n], U8), 0, I32)?;
    "argmax", SOME, |n| reduce::argmax(x([n, 3], F16), 0, I32)?;
    "any_dim", SOME, |n| reduce::any_dim(x([3, n], U8), 0, NATIVE)?;
    "cumsum", ALL, |n| reduce::cumsum(x([n], F16), 0)?;
    "cumsum of columns", SOME, |n| reduce::cumsum(x([3, n], U8), 0)?;
    "cumprod of columns", SOME, |n| reduce::cumprod(x([2, n], F16), 0)?;
    "sort", SOME, |n| sort::sort(x([n], U8), 0, false)?;
    "sort of floats", SOME, |n| sort::sort(distinct(n, F16)?, 0, true)?;
    "sort of columns", SOME, |n| sort::sort(x([2, n], U8), 0, false)?;
    "argsort", SOME, |n| sort::argsort(x([n], U8), 0, false, I32)?;
    "argsort of doubles", SOME, |n| sort::argsort(distinct(n, F64)?, 0, false, I32)?;
    "sort_with_indices", SOME, |n| sort::sort_with_indices(distinct(n, I32)?, 0, false, I32)?;
    "topk", SOME, |n| sort::topk(x([n], F32), 0, 3)?;
    "topk of many", SOME, |n| sort::topk_with_indices(distinct(n, F16)?, 0, n / 2, I32)?;
    "topk of rows", SOME, |n| sort::argtopk(x([n, 4], U8), 1, 2, I32)?;
    "matmul outer", ALL, |n| matmul::matmul(x([n, 1], F32), x([1, 2], F32))?;
    "matmul inner", SOME, |n| matmul::matmul(x([4, n], F32), x([n, 4], F32))?;
    "matmul of a vector", SOME, |n| matmul::matmul(x([1, n], F32), x([n, 1], F32))?;
    "matmul of integers", SOME, |n| matmul::matmul(x([16, n], I32), x([n, 16], I32))?;
    "matmul of a wide vector", SOME, |n| matmul::matmul(x([1, n], F16), x([n, 5], F16))?;
    "matmul of halves", SOME, |n| matmul::matmul(x([16, n], F16), x([n, 16], F16))?;
    "matmul of bf16", SOME, |n| matmul::matmul(x([16, n], BF16), x([n, 16], BF16))?;
    "matmul of few rows of bf16", SOME, |n| matmul::matmul(x([16, 1], BF16), x([1, n / 5], BF16))?;
    "matmul of pairs of bytes", SOME, |n| matmul::matmul(x([n, 1], U8), x([1, 2], U8))?;
    "matmul of bytes", SOME, |n| matmul::matmul(x([n, 8], U8), x([8, 1], U8))?;
    "matmul batches", ALL, |n| matmul::matmul(x([n, 1, 2], F32), x([n, 2, 1], F32))?;
    "linear", ALL, |n| matmul::linear(x([n, 2], F16), x([2, 3], F16), Some(x([3], F16)))?;
    "linear_weight_backward", SOME, |n| matmul::linear_weight_backward(x([n, 3], F16), x([n, 2], F16))?;
    "linear_bias_backward of equal rows", SOME, |n| matmul::linear_bias_backward(Tensor::full([1, 3], 0.0, F16)?.expand(&[n, 3])?)?;
    "linear_bias_backward", SOME, |n| matmul::linear_bias_backward(x([n, 3], F16))?;
    "rfft", SOME, |n| fft::rfft(x([n], F32), 0, None)?;
    "rfft of bf16", SOME, |n| fft::rfft(x([2, n], BF16), 1, None)?;
    "rfft padded", ALL, |n| fft::rfft(x([5], F32), 0, Some(n))?;
    "rfft of odd length", SOME, |n| fft::rfft(x([5], F32), 0, Some(n | 1))?;
    "rfft cut", ALL, |n| fft::rfft(x([n], U8), 0, Some(2)).is_err();
    "irfft", ALL, |n| fft::irfft(x([5], F64), x([5], F64), 0, Some(n))?;
    "softmax", ALL, |n| norm::softmax(x([n], F16), 0)?;
    "softmax of columns", ALL, |n| norm::softmax(x([2, n], F16), 0)?;
    "log_softmax", ALL, |n| norm::log_softmax(x([2, n], BF16), 1)?;
    "log_softmax of columns", ALL, |n| norm::log_softmax(x([n, 3], F16), 0)?;
    "softmax_backward", ALL, |n| norm::softmax_backward(x([2, n], F16), x([2, n], F16), 1)?;
    "log_softmax_backward", ALL, |n| norm::log_softmax_backward(x([n], F16), x([n], F16), 0)?;
    "log_softmax_backward of columns", ALL, |n| norm::log_softmax_backward(x([3, n], F16), x([3, n], F16), 0)?;
    "layer_norm", ALL, |n| norm::layer_norm(x([1, n], F16), x([n], F16), None, 1e-5)?;
    "layer_norm of rows", ALL, |n| norm::layer_norm(x([n, 2], F16), x([2], F16), Some(x([2], F16)), 1e-5)?;
    "layer_norm_backward", ALL, |n| norm::layer_norm_backward(x([1, n], F16), x([n], F16), x([1, n], F16), 1e-5)?;
    "layer_norm_backward of rows", ALL, |n| norm::layer_norm_backward(x([n, 2], F16), x([2], F16), x([n, 2], F16), 1e-5)?;
    "batch_norm", ALL, |n| norm::batch_norm(x([n, 1], F16), x([1], F16), x([1], F16), x([1], F16), x([1], F16), 1e-5)?;
    "batch_norm of channels", ALL, |n| norm::batch_norm(x([1, n], F32), x([n], F32), x([n], F32), x([n], F32), x([n], F32), 1e-5)?;
    "batch_norm_train", ALL, |n| norm::batch_norm_train(x([n, 2, 1], F16), x([2], F16), x([2], F16), 1e-5)?;
    "batch_norm_train of channels", ALL, |n| norm::batch_norm_train(x([2, n], F16), x([n], F16), x([n], F16), 1e-5)?;
    "batch_norm_train_backward", ALL, |n| norm::batch_norm_train_backward(x([n, 2, 1], F16), x([2], F16), x([2], F16), x([2], F16), 1e-5, x([n, 2, 1], F16))?;
    "batch_norm_train_backward of channels", ALL, |n| norm::batch_norm_train_backward(x([2, n], F16), x([n], F16), x([n], F16), x([n], F16), 1e-5, x([2, n], F16))?;
    "attention keys", SOME, |n| attention::attention(x([1, 1, 1, 2], F16), x([1, 1, n, 2], F16), x([1, 1, n, 2], F16), Some(bools([1, 1, 1, n])), None, plain())?;
    "attention bias", SOME, |n| attention::attention(x([1, 1, 1, 2], F32), x([1, 1, n, 2], F32), x([1, 1, n, 2], F32), None, Some(x([1, 1, 1, n], F32)), plain())?;
    "attention queries", SOME, |n| attention::attention(x([1, 1, n, 2], F16), x([1, 1, 3, 2], F16), x([1, 1, 3, 2], F16), None, None, plain())?;
    "attention wide", SOME, |n| attention::attention(x([1, 1, 3, n], F16), x([1, 1, 3, n], F16), x([1, 1, 3, 2], F16), None, None, plain())?;
    "attention wide values", SOME, |n| attention::attention(x([1, 1, 1, 2], F16), x([1, 1, 1, 2], F16), x([1, 1, 1, n], F16), None, None, plain())?;
    "avg_pool", ALL, |n| pool::avg_pool(x([1, 1, 10], F32), &avg([n], 1))?;
    "avg_pool of rows", ALL, |n| pool::avg_pool(x([1, 1, 4, 4], F16), &avg([n, 0], 1))?;
    "avg_pool strided", ALL, |n| pool::avg_pool(x([1, 1, n], U8), &avg([0], 3)).is_err();
    "avg_pool of a long axis", SOME, |n| pool::avg_pool(x([1, 1, n], F16), &avg([0], 1 << 20))?;
    "avg_pool_backward", SOME, |n| pool::avg_pool_backward(x([1, 1, 10], F16), x([1, 1, 2 * n + 10], F16), &avg([n], 1))?;
    "adaptive_avg_pool", ALL, |n| pool::adaptive_avg_pool(x([1, 1, 10], F32), [n])?;
    "adaptive_avg_pool of rows", ALL, |n| pool::adaptive_avg_pool(x([1, 1, 10, 2], F16), [n, 1])?;
    "adaptive_avg_pool_backward", SOME, |n| pool::adaptive_avg_pool_backward::<1>(x([1, 1, 10], F16), x([1, 1, n], F16))?;
    "max_pool", ALL, |n| pool::max_pool(x([1, 1, 10], F32), &max([1], [n]))?;
    "max_pool window", SOME, |n| pool::max_pool(x([1, 1, n], F16), &max([n], [0]))?;
    "max_pool_with_indices", ALL, |n| pool::max_pool_with_indices(x([1, 1, 10], F32), &max([1], [n]), I64)?;
    "max_pool_with_indices of rows", ALL, |n| pool::max_pool_with_indices(x([1, 1, 2, 2], F16), &max([1, 1], [n, 0]), I32)?;
    "max_pool_backward", SOME, |n| pool::max_pool_backward(x([1, 1, 10], F16), x([1, 1, 2 * n + 10], F16), x([1, 1, 2 * n + 10], I32), &max([1], [n]))?;
    "nearest rows", ALL, |n| vision::interpolate(x([1, 1, 4, 4], F32), [n, 1], Interpolation::Nearest, false)?;
    "nearest columns", ALL, |n| vision::interpolate(x([1, 1, 4, 4], F32), [1, n], Interpolation::Nearest, false)?;
    "bilinear rows", ALL, |n| vision::interpolate(x([1, 1, 4, 4], F16), [n, 1], Interpolation::Bilinear, true)?;
    "bilinear columns", ALL, |n| vision::interpolate(x([1, 1, 4, 4], F32), [1, n], Interpolation::Bilinear, false)?;
    "lanczos rows", ALL, |n| vision::interpolate(x([1, 1, 4, 4], F32), [n, 1], Interpolation::Lanczos3, false)?;
    "bicubic shrinking", SOME, |n| vision::interpolate(x([1, 1, 2, n], F16), [1, 3], Interpolation::Bicubic, false)?;
    "bicubic shrinking rows", SOME, |n| vision::interpolate(x([1, 1, n, 2], F16), [3, 1], Interpolation::Bicubic, false)?;
    "interpolate_backward", SOME, |n| vision::interpolate_backward(x([1, 1, 2, 2], F16), x([1, 1, 1, n], F16), [1, n], Interpolation::Bicubic, false)?;
    "nearest backward", SOME, |n| vision::interpolate_backward(x([1, 1, 2, 2], F16), x([1, 1, n, 1], F16), [n, 1], Interpolation::Nearest, false)?;
    "grid_sample", SOME, |n| vision::grid_sample(x([1, 1, 2, 2], F16), x([1, 1, n, 2], F16), Interpolation::Bilinear, GridPadding::Zeros, true)?;
    "grid_sample batch", SOME, |n| vision::grid_sample(x([n, 1, 1, 1], F16), x([n, 1, 1, 2], F16), Interpolation::Nearest, GridPadding::Border, true)?;
    "conv padding", ALL, |n| conv::conv(x([1, 1, 10], F32), x([1, 1, 1], F32), None, &options::<1>(1, n, 1))?;
    "conv padding and stride", ALL, |n| conv::conv(x([1, 1, 10], F32), x([1, 1, 3], F32), None, &options::<1>(n / 2, n, n / 3))?;
    "conv padding 2-D", ALL, |n| conv::conv(x([1, 1, 4, 4], F16), x([2, 1, 3, 3], F16), Some(x([2], F16)), &options::<2>(1, n, 1))?;
    "conv kernel", SOME, |n| conv::conv(x([1, 1, n], F16), x([1, 1, n], F16), None, &options::<1>(1, 0, 1))?;
    "conv channels", SOME, |n| conv::conv(x([1, n, 2], F16), x([1, n, 1], F16), None, &options::<1>(1, 0, 1))?;
    "conv rows", SOME, |n| conv::conv(x([1, 1, 3], F16), x([n, 1, 3], F16), None, &options::<1>(1, 1, 1))?;
    "conv of a long signal", SOME, |n| conv::conv(x([1, 1, n], F16), x([1, 1, 3], F16), None, &options::<1>(1, 1, 1))?;
    "conv strided", SOME, |n| conv::conv(x([1, 1, n], F16), x([1, 1, 2], F16), None, &options::<1>(1 << 20, 0, 1 << 19))?;
    "conv batch", SOME, |n| conv::conv(x([n, 1, 2], F16), x([1, 1, 2], F16), None, &options::<1>(1, 1, 1))?;
    "conv_x_backward", SOME, |n| conv::conv_x_backward(x([1, 1, 10], F16), x([1, 1, 1], F16), x([1, 1, 2 * n + 10], F16), &options::<1>(1, n, 1))?;
    "conv_weight_backward", ALL, |n| conv::conv_weight_backward(x([1, 1, 10], F32), x([1, 1, 1], F32), x([1, 1, 2 * n + 10], F32), &options::<1>(1, n, 1))?;
    "conv_weight_backward of a kernel", SOME, |n| conv::conv_weight_backward(x([1, 1, n], F16), x([1, 1, n], F16), x([1, 1, 1], F16), &options::<1>(1, 0, 1))?;
    "conv_bias_backward of one channel", SOME, |n| conv::conv_bias_backward::<1>(x([1], F16), x([1, 1, n], F16))?;
    "conv_bias_backward", SOME, |n| conv::conv_bias_backward::<1>(x([2], F16), x([1, 2, n], F16))?;
    "conv_transpose", ALL, |n| conv::conv_transpose(x([1, 1, 3], F32), x([1, 1, 2], F32), None, &transposed::<1>(n, 0, 1))?;
    "conv_transpose padding", ALL, |n| conv::conv_transpose(x([1, 1, 3], F16), x([1, 1, 2], F16), None, &transposed::<1>(n + 1, n, 1))?;
    "conv_transpose dilation", ALL, |n| conv::conv_transpose(x([1, 1, 3], F32), x([1, 1, 2], F32), None, &transposed::<1>(1, 0, n))?;
    "conv_transpose kernel", SOME, |n| conv::conv_transpose(x([1, 1, 1], F16), x([1, 1, (3 << 20) + n], F16), None, &transposed::<1>(1, 0, 1))?;
    "conv_transpose_weight_backward", SOME, |n| conv::conv_transpose_weight_backward(x([1, 1, 3], F16), x([1, 1, 2], F16), x([1, 1, 2 * n + 2], F16), &transposed::<1>(n, 0, 1))?;
    "conv_transpose_x_backward", SOME, |n| conv::conv_transpose_x_backward(x([1, 1, 2], F16), x([1, 1, 2 * n + 2], F16), &transposed::<1>(n, 0, 1))?;
    "unfold4d", ALL, |n| conv::unfold4d(x([1, 1, 3, 3], F32), [1, 1], &conv::UnfoldOptions { stride: [1, 1], padding: [0, n], dilation: [1, 1] })?;
    "fold4d", SOME, |n| conv::fold4d(x([1, 1, n], F16), [1, n], [1, 1], &conv::UnfoldOptions { stride: [1, 1], padding: [0, 0], dilation: [1, 1] })?;
    "fold4d apart", ALL, |n| conv::fold4d(x([1, 1, 2], F32), [1, n + 1], [1, 1], &conv::UnfoldOptions { stride: [1, n], padding: [0, 0], dilation: [1, 1] })?;
    "deform_conv2d", SOME, |n| conv::deform_conv2d(x([1, 1, 1, 1], F16), x([1, 2, 1, 2 * n + 1], F16), x([1, 1, 1, 1], F16), None, None, &deformed(n))?;
    "deform_conv2d channels", SOME, |n| conv::deform_conv2d(x([1, n, 1, 1], F16), x([1, 2, 1, 1], F16), x([1, n, 1, 1], F16), None, None, &deformed(0))?;
    "deform_conv2d_backward", SOME, |n| conv::deform_conv2d_backward(x([1, 1, 1, 1], F16), x([1, 2, 1, 2 * n + 1], F16), x([1, 1, 1, 1], F16), None, None, x([1, 1, 1, 2 * n + 1], F16), &deformed(n))?;
    "ctc time", SOME, |n| loss::ctc_loss(x([n, 1, 2], F32), x([1, 1], I64), Tensor::full([1], n as i64, I64)?, x([1], I64), 1)?;
    "ctc labels", SOME, |n| loss::ctc_loss(x([3, 1, 2], F32), x([1, n], I64), Tensor::full([1], 3, I64)?, Tensor::full([1], n as i64, I64)?, 1)?;
    "ctc batch", SOME, |n| loss::ctc_loss(x([1, n, 2], F16), x([n, 1], I64), Tensor::full([1], 1, I64)?.expand(&[n])?, x([n], I64), 1)?;
    "ctc backward", SOME, |n| loss::ctc_loss_backward(x([n, 1, 2], F16), x([1, 1], I64), Tensor::full([1], n as i64, I64)?, Tensor::full([1], 1, I64)?, x([1], F16), 1)?;
    "ctc backward of many labels", SOME, |n| loss::ctc_loss_backward(x([2, 1, 2], F16), x([1, n], I64), Tensor::full([1], 2, I64)?, Tensor::full([1], n as i64, I64)?, x([1], F16), 1)?;
    "ctc backward of a batch", SOME, |n| loss::ctc_loss_backward(x([1, n, 2], F16), x([n, 1], I64), Tensor::full([1], 1, I64)?.expand(&[n])?, x([n], I64), x([n], F16), 1)?;
    "random", ALL, |n| random::random(&mut random::Generator::new(1), [n].into(), random::Distribution::Standard, F16)?;
    "quantize", SOME, |n| quant::quantize(x([n], F16), x([1], F32), None, scheme())?;
    "quantize_dynamic", SOME, |n| quant::quantize_dynamic(x([n], F32), scheme())?;
    "dequantize", SOME, |n| quant::dequantize(quant::quantize(x([n], F32), x([1], F32), None, scheme())?, F64)?;
    "quantize blocks", SOME, |n| quant::quantize(x([n], F32), x([n], F32), None, blocks([1]))?;
    "quantize_dynamic blocks", SOME, |n| quant::quantize_dynamic(x([n], F32), blocks([1]))?;
    "quantize_dynamic blocks of rows", SOME, |n| quant::quantize_dynamic(x([n, 2, 1], F32), blocks([2, 1]))?;
    "dequantize blocks of rows", SOME, |n| quant::dequantize(quant::QTensor::new(x([n, 2, 1], I8), x([n], F32), None, blocks([2, 1]))?, F32)?;
    "dequantize no blocks of rows", ALL, |n| quant::dequantize(quant::quantize(x([n, 2, 0], F32), x([0], F32), None, blocks([2, 1]))?, F32)?;
    "bytes of quantized", SOME, |n| quant::quantize(x([n], F32), x([1], F32), None, scheme())?.to_bytes(QuantParam::F32)?;
};

/// Names the case that a child runs.
const CASE: &str = "FLEX_OUT_OF_MEMORY_CASE";
/// The size from which on the child's allocator refuses.
const REFUSE: &str = "FLEX_OUT_OF_MEMORY_REFUSE";

/// What a child runs. In a run of the tests without a parent it does nothing.
#[test]
fn one_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let (_, most, run) = CASES.iter().find(|(name, ..)| *name == case).expect("a case");
    let refuse = std::env::var(REFUSE).ok().map(|size| size.parse().expect("a size"));
    let sizes = match refuse {
        Some(SMALL_LIMIT) => &SMALL_SIZES[..],
        Some(_) => &SIZES,
        None => &SIZES_OF_LIMITED,
    };
    for &n in sizes.iter().filter(|n| *n <= most) {
        eprintln!("size {n}");
        LARGEST.store(refuse.unwrap_or(usize::MAX), Ordering::Relaxed);
        let result = run(n);
        LARGEST.store(usize::MAX, Ordering::Relaxed);
        if let Err(error) = result {
            eprintln!("{error}");
        }
    }
}

/// The longest that a case may take. A child writes less to its standard error than a pipe holds.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs every case in a process that `command` starts, given the path of this program; returns what failed.
/// Cases take one or two cores, mostly one, so two of them run at a time.
fn failures(refuse: Option<usize>, command: &(dyn Fn(&str) -> Command + Sync)) -> Vec<String> {
    let program = std::env::current_exe().expect("the path of this program");
    let program = program.to_str().expect("a path in UTF-8");
    let next = AtomicUsize::new(0);
    let run = || {
        let mut failed = Vec::new();
        while let Some((name, ..)) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
            failed.extend(failure(name, refuse, command(program)));
        }
        failed
    };
    std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(run));
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Runs a case in a process that `command` starts; returns what failed.
fn failure(name: &str, refuse: Option<usize>, mut command: Command) -> Option<String> {
    command.env(CASE, name).env("RAYON_NUM_THREADS", "2").env("RUST_BACKTRACE", "0").env_remove(REFUSE);
    if let Some(size) = refuse {
        command.env(REFUSE, size.to_string());
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a child");
    let start = Instant::now();
    while child.try_wait().expect("a child").is_none() && start.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Ends a child that takes too long, and does nothing to one that has ended.
    child.kill().expect("a child");
    let Output { status, stderr, .. } = child.wait_with_output().expect("a child");
    let stderr = String::from_utf8_lossy(&stderr);
    // Tasks cannot return an error. For requests below 1 MiB, which nobody made sure of, they panic.
    let panicked_well = refuse == Some(SMALL_LIMIT)
        && status.code() == Some(101)
        && (stderr.contains("more than the system has left") || stderr.contains("bytes of memory left"));
    let text = stderr.trim().replace('\n', " | ");
    let failed = !status.success() && !panicked_well;
    failed.then(|| format!("{name}: {status} after {:?}: {text}", start.elapsed()))
}

#[test]
fn an_allocator_that_refuses_never_ends_the_process() {
    for limit in [32 << 20, SMALL_LIMIT] {
        let failed = failures(Some(limit), &|program| {
            let mut command = Command::new(program);
            command.args(["--exact", "one_case", "--nocapture"]);
            command
        });
        let failed_of = format!("{limit} bytes: {} of {} cases", failed.len(), CASES.len());
        assert!(failed.is_empty(), "{failed_of}:\n{}", failed.join("\n"));
    }
}

/// The limit of the address space in KiB: what the program and its threads take at the start, and some.
const ADDRESS_SPACE: usize = 1 << 20;

#[test]
fn a_limit_of_the_address_space_never_ends_the_process() {
    let limited = |command: &str| format!("ulimit -v {ADDRESS_SPACE} && {command}");
    match Command::new("sh").arg("-c").arg(limited("exit 7")).status() {
        Ok(status) if status.code() == Some(7) => {}
        other => {
            skipped::skipped(&format!("`sh -c 'ulimit -v'` does not work here: {other:?}"));
            return;
        }
    }
    let failed = failures(None, &|program| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(limited(r#"exec "$0" "$@""#)).args([
            program,
            "--exact",
            "one_case",
            "--nocapture",
        ]);
        command
    });
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), CASES.len(), failed.join("\n"));
}
