//! Views compose: any chain of views reads the elements that the definition names.

use super::{download, holds, same, shape, upload};
use crate::array::Array;
use crate::kind::{Bool, Float, Int, Kind};
use crate::support::Stream;
use burn_backend::{Backend, BoolStore, DType, Shape, Slice};
use proptest::prelude::*;

/// A view of a tensor of known shape.
#[derive(Debug)]
enum View {
    Permute(Vec<usize>),
    SwapDims(usize, usize),
    Flip(Vec<usize>),
    Slice(Vec<Slice>),
    Expand(Vec<usize>),
    Reshape(Vec<usize>),
}

impl View {
    /// A random view of this shape.
    fn draw(shape: &[usize], stream: &mut Stream) -> Self {
        let rank = shape.len();
        let mut below = |n: usize| stream.int(0, n as i128) as usize;
        match below(6) {
            0 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                (1..rank).rev().for_each(|i| axes.swap(i, below(i + 1)));
                Self::Permute(axes)
            }
            1 if rank > 0 => Self::SwapDims(below(rank), below(rank)),
            2 => Self::Flip((0..rank).filter(|_| below(2) == 0).collect()),
            3 => {
                let slices = shape.iter().map(|&size| {
                    let start = below(size + 1);
                    let end = start + below(size - start + 1);
                    let step = [1, 1, 2, 3, -1, -2][below(6)];
                    // The whole axis is drawn more often than by chance.
                    match below(3) {
                        0 => Slice::new(0, None, step),
                        _ => Slice::new(start as isize, Some(end as isize), step),
                    }
                });
                Self::Slice(slices.collect())
            }
            4 => {
                let mut wide: Vec<usize> =
                    shape.iter().map(|&size| if size == 1 { 1 + below(3) } else { size }).collect();
                if rank < 6 && below(2) == 0 {
                    wide.insert(0, 1 + below(3));
                }
                let small = wide.iter().product::<usize>() <= 20_000;
                Self::Expand(if small { wide } else { shape.to_vec() })
            }
            _ => Self::Reshape(factor(shape.iter().product(), &mut below)),
        }
    }

    fn apply<B: Backend, K: Kind<B>>(&self, tensor: K::Tensor) -> K::Tensor {
        match self {
            Self::Permute(axes) => K::permute(tensor, axes),
            Self::SwapDims(a, b) => K::swap_dims(tensor, *a, *b),
            Self::Flip(axes) => K::flip(tensor, axes),
            Self::Slice(slices) => K::slice(tensor, slices),
            Self::Expand(shape) => K::expand(tensor, Shape::from(shape.clone())),
            Self::Reshape(shape) => K::reshape(tensor, Shape::from(shape.clone())),
        }
    }

    /// The contents of the view, by definition.
    fn read<T: Copy>(&self, array: &Array<T>) -> Array<T> {
        let shape = array.shape();
        match self {
            Self::Permute(axes) => array.permute(axes),
            Self::SwapDims(a, b) => {
                let mut axes: Vec<usize> = (0..shape.len()).collect();
                axes.swap(*a, *b);
                array.permute(&axes)
            }
            Self::Flip(axes) => Array::from_fn(shape.to_vec(), |index| {
                let mut source = index.to_vec();
                axes.iter().for_each(|&a| source[a] = shape[a] - 1 - source[a]);
                array.at(&source)
            }),
            Self::Slice(slices) => {
                // Positions of each axis; a negative step starts at the last position of the range.
                let positions: Vec<Vec<usize>> = (slices.iter().zip(shape))
                    .map(|(slice, &size)| {
                        let end = slice.end.map_or(size, |end| end as usize);
                        let range = slice.start as usize..end;
                        let step = slice.step.unsigned_abs();
                        if slice.step > 0 {
                            range.step_by(step).collect()
                        } else {
                            range.rev().step_by(step).collect()
                        }
                    })
                    .collect();
                let out: Vec<usize> = positions.iter().map(Vec::len).collect();
                Array::from_fn(out, |index| {
                    let source: Vec<usize> = index.iter().zip(&positions).map(|(&i, p)| p[i]).collect();
                    array.at(&source)
                })
            }
            Self::Expand(wide) => Array::from_fn(wide.clone(), |index| {
                let local = &index[wide.len() - shape.len()..];
                let source: Vec<usize> =
                    local.iter().zip(shape).map(|(&i, &size)| if size == 1 { 0 } else { i }).collect();
                array.at(&source)
            }),
            Self::Reshape(shape) => array.reshape(shape.clone()),
        }
    }
}

/// A shape of this many elements.
fn factor(count: usize, below: &mut impl FnMut(usize) -> usize) -> Vec<usize> {
    let mut shape = Vec::new();
    let mut rest = count;
    while shape.len() < 5 && (rest > 1 || below(3) == 0) {
        let divisors: Vec<usize> =
            (1..=rest.max(1)).filter(|d| rest % d == 0 && (*d <= 64 || *d == rest)).collect();
        let size = divisors[below(divisors.len())];
        shape.push(size);
        rest /= size;
    }
    if rest != 1 || (shape.is_empty() && below(2) == 0) {
        shape.push(rest);
    }
    shape
}

/// Applies chains of views. Then compares the elements of the view, and the elements of a result computed
/// from the view, on a shared buffer and on an unshared one.
fn chains<B: Backend, K: Kind<B>>(
    name: &str,
    dtype: DType,
    element: fn(usize) -> K::Value,
    compute: fn(K::Tensor) -> K::Tensor,
    computed: fn(K::Value) -> K::Value,
) {
    let inputs = (shape(), prop::collection::vec(any::<u32>(), 0..6));
    holds(name, 300, inputs, |(shape, seeds)| {
        let mut next = 0;
        let array = Array::from_fn(shape, |_| {
            next += 1;
            element(next)
        });
        let base = upload::<B, K>(&array, dtype);
        let (mut tensor, mut want) = (base.clone(), array.clone());
        let mut views = Vec::new();
        for seed in seeds {
            let view = View::draw(want.shape(), &mut Stream::new(seed as u64));
            tensor = view.apply::<B, K>(tensor);
            want = view.read(&want);
            views.push(view);
            same(format_args!("{views:?}"), &download::<B, K>(tensor.clone()), &want)?;
        }
        let result = want.map(computed);
        same(format_args!("computed from {views:?}"), &download::<B, K>(compute(tensor.clone())), &result)?;
        same(format_args!("the base of {views:?}"), &download::<B, K>(base), &array)?;
        same(format_args!("computed in place from {views:?}"), &download::<B, K>(compute(tensor)), &result)
    });
}

/// Views of float tensors.
pub fn float_views<B: Backend>() {
    chains::<B, Float>(
        "float_views",
        DType::F32,
        |k| k as f64,
        |t| B::float_mul_scalar(t, 3.0.into()),
        |x| 3.0 * x,
    );
}

/// Views of integer tensors.
pub fn int_views<B: Backend>() {
    chains::<B, Int>(
        "int_views",
        DType::I32,
        |k| k as i128,
        |t| B::int_add_scalar(t, 5i64.into()),
        |x| x + 5,
    );
}

/// Views of boolean tensors.
pub fn bool_views<B: Backend>() {
    chains::<B, Bool>(
        "bool_views",
        DType::Bool(BoolStore::Native),
        |k| (k * k) % 7 < 3,
        |t| B::bool_not(t),
        |x| !x,
    );
}

/// Permuting and reshaping there and back changes nothing.
pub fn round_trips<B: Backend>() {
    holds("round_trips", 200, (shape(), any::<u32>()), |(shape, seed)| {
        let mut stream = Stream::new(seed as u64);
        let mut below = |n: usize| stream.int(0, n as i128) as usize;
        let array = super::small(&shape, seed as u64);
        let upload = || upload::<B, Float>(&array, DType::F32);
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        (1..shape.len()).rev().for_each(|i| axes.swap(i, below(i + 1)));
        let mut back = axes.clone();
        axes.iter().enumerate().for_each(|(k, &axis)| back[axis] = k);
        let permuted = B::float_permute(B::float_permute(upload(), &axes), &back);
        same(format_args!("permute {axes:?}"), &download::<B, Float>(permuted), &array)?;
        let other = factor(array.len(), &mut below);
        let reshaped = B::float_reshape(upload(), Shape::from(other.clone()));
        let reshaped = B::float_reshape(reshaped, Shape::from(shape.clone()));
        same(format_args!("reshape to {other:?}"), &download::<B, Float>(reshaped), &array)?;
        // A permuted tensor has its elements moved; flattening twice gives the same order.
        let flat = |t| B::float_reshape(t, [array.len()].into());
        let moved = flat(B::float_permute(upload(), &axes));
        same("flattened", &download::<B, Float>(moved), &array.permute(&axes).reshape([array.len()]))
    });
}

/// The parts of a concatenation can be sliced out of it again.
pub fn cat_and_slice<B: Backend>() {
    let inputs = (shape(), prop::collection::vec(super::size(), 1..5), any::<prop::sample::Index>());
    holds("cat_and_slice", 200, inputs, |(mut shape, sizes, axis)| {
        if shape.is_empty() {
            shape.push(1);
        }
        let axis = axis.index(shape.len());
        let parts: Vec<Array<f64>> = (sizes.iter().enumerate())
            .map(|(k, &size)| {
                shape[axis] = size;
                super::small(&super::bounded(shape.clone()), k as u64)
            })
            .collect();
        // Cutting large shapes may have left parts that do not fit together.
        let fits = |a: &[usize], b: &[usize]| (0..a.len()).all(|k| k == axis || a[k] == b[k]);
        if !parts.iter().all(|part| fits(part.shape(), parts[0].shape())) {
            return Ok(());
        }
        let tensors = || parts.iter().map(|part| upload::<B, Float>(part, DType::F32)).collect();
        let whole = B::float_cat(tensors(), axis);
        let mut start = 0;
        for part in &parts {
            let size = part.shape()[axis];
            let mut slices = vec![Slice::new(0, None, 1); shape.len()];
            slices[axis] = Slice::new(start as isize, Some((start + size) as isize), 1);
            let got = B::float_slice(whole.clone(), &slices);
            same(format_args!("axis {axis} from {start}"), &download::<B, Float>(got), part)?;
            start += size;
        }
        Ok(())
    });
}

/// Arithmetic and comparisons on permuted views whose shapes broadcast.
pub fn broadcasting<B: Backend>() {
    let inputs = (shape(), any::<u32>());
    holds("broadcasting", 300, inputs, |(shape, seed)| {
        let mut stream = Stream::new(seed as u64);
        let mut below = |n: usize| stream.int(0, n as i128) as usize;
        let mut narrow =
            || shape.iter().map(|&size| if below(3) == 0 { 1 } else { size }).collect::<Vec<_>>();
        let (left, right) = (super::small(&narrow(), 1), super::small(&narrow(), 2));
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        (1..shape.len()).rev().for_each(|i| axes.swap(i, below(i + 1)));
        let mut back = axes.clone();
        axes.iter().enumerate().for_each(|(k, &axis)| back[axis] = k);
        let a = || upload::<B, Float>(&left, DType::F32);
        let b = || B::float_permute(upload::<B, Float>(&right.permute(&axes), DType::F32), &back);
        let results = [
            ("add", B::float_add(a(), b()), left.zip(&right, |x, y| x + y)),
            ("sub", B::float_sub(b(), a()), right.zip(&left, |x, y| x - y)),
            ("mul", B::float_mul(a(), b()), left.zip(&right, |x, y| x * y)),
        ];
        for (name, got, want) in results {
            same(
                format_args!("{name} {:?} {:?} {axes:?}", left.shape(), right.shape()),
                &download::<B, Float>(got),
                &want,
            )?;
        }
        let lower = B::float_lower(a(), b(), burn_backend::BoolDType::Native);
        same("lower", &download::<B, Bool>(lower), &left.zip(&right, |x, y| x < y))
    });
}
