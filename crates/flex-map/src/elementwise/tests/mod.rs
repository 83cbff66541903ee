//! Every operation against its definition: loops over indices in f64 or i128.

mod cast;
mod compare;
mod layouts;
mod numbers;
mod unary;

use crate::dtype::Element;
use crate::{DType, Shape, Slice, Tensor};
use alloc::vec;
use alloc::vec::Vec;

/// Lengths around the widths of vectors, blocks of kernels, and chunks of tasks.
const LENGTHS: &[usize] = &[0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 511, 512, 513, 1025];

/// The element at each index in row-major order, read through the layout alone.
fn elements<T: Element>(tensor: &Tensor) -> Vec<T> {
    let shape = tensor.shape().to_vec();
    (0..tensor.num_elements())
        .map(|flat| tensor.storage::<T>()[tensor.layout().position(&index(&shape, flat))])
        .collect()
}

/// The index with this row-major number.
fn index(shape: &[usize], flat: usize) -> Vec<usize> {
    let mut rest = flat;
    let mut index = vec![0; shape.len()];
    for k in (0..shape.len()).rev() {
        index[k] = rest % shape[k];
        rest /= shape[k];
    }
    index
}

/// The elements of `tensor` broadcast to `shape`, in row-major order.
fn broadcast<T: Element>(tensor: &Tensor, shape: &[usize]) -> Vec<T> {
    let lead = shape.len() - tensor.rank();
    let count = shape.iter().product();
    (0..count)
        .map(|flat| {
            let wide = index(shape, flat);
            let own: Vec<usize> = tensor
                .shape()
                .iter()
                .enumerate()
                .map(|(k, &size)| if size == 1 { 0 } else { wide[lead + k] })
                .collect();
            tensor.storage::<T>()[tensor.layout().position(&own)]
        })
        .collect()
}

/// Views of one shape over one buffer: every kind of layout that a tensor can have.
fn views(make: impl Fn(usize) -> Tensor) -> Vec<(&'static str, Tensor)> {
    let of = |shape: [usize; 3]| make(shape.iter().product()).reshape(Shape::from(shape)).unwrap();
    let every_other = |n: usize| Slice::new(0, Some(n as isize), 2);
    vec![
        ("contiguous", of([3, 4, 5])),
        ("transposed", of([3, 5, 4]).swap_axes(1, 2).unwrap()),
        ("permuted", of([4, 5, 3]).permute(&[2, 0, 1]).unwrap()),
        ("flipped", of([3, 4, 5]).flip(&[0, 2]).unwrap()),
        ("flipped and permuted", of([5, 4, 3]).flip(&[1]).unwrap().permute(&[2, 1, 0]).unwrap()),
        ("stepped", of([3, 4, 10]).slice(&[Slice::full(), Slice::full(), every_other(10)]).unwrap()),
        ("narrowed", of([5, 4, 7]).narrow(0, 1, 3).unwrap().narrow(2, 2, 5).unwrap()),
        ("expanded inside", of([3, 4, 1]).expand(&[3, 4, 5]).unwrap()),
        ("expanded outside", of([1, 4, 5]).expand(&[3, 4, 5]).unwrap()),
        ("overlapping windows", make(3 * 8).reshape([3, 8]).unwrap().unfold(1, 5, 1).unwrap()),
    ]
}

/// Small integers that every dtype represents, of either sign if the dtype is signed.
fn small<T: Element>(n: usize) -> Tensor {
    let unsigned = !T::IS_FLOAT && T::bounds().0 == T::ZERO;
    let values: Vec<T> =
        (0..n as i64).map(|i| (i * 7 % 13) - if unsigned { 0 } else { 6 }).map(T::from_i64).collect();
    Tensor::from_slice(&values, [n]).unwrap()
}

/// Whether `got` is within `ulps` of `want`, in units of the dtype's epsilon, with a tolerance for subnormal
/// results. NaN equals only NaN; infinities and zeros equal only themselves.
fn close(got: f64, want: f64, epsilon: f64, ulps: f64, tiny: f64) -> bool {
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    if want.is_infinite() || got.is_infinite() {
        return want == got;
    }
    (got - want).abs() <= ulps * epsilon * want.abs() + tiny
}

/// Epsilon and smallest subnormal of a dtype.
fn precision(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (f64::EPSILON, f64::from_bits(1)),
        DType::F32 => (f32::EPSILON as f64, f32::from_bits(1) as f64),
        DType::F16 => (2f64.powi(-10), 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-7), 2f64.powi(-133)),
        other => panic!("{other:?} is not a float dtype"),
    }
}
