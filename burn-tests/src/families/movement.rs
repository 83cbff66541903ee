//! Operations that move elements without computing: views, concatenation, repetition, slice assignment.

use crate::array::{Array, for_each_index};
use crate::kind::{Bool, Float, Int, Kind};
use crate::row::{Context, Row};
use crate::support::{SHAPES, over_layouts, over_layouts2, upload};
use burn_backend::{Backend, DType, Shape, Slice};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows = Vec::new();
    macro_rules! kinds {
        ($check:ident: $float:ident, $int:ident, $bool:ident) => {
            kinds!(@one $check, Float, $float);
            kinds!(@one $check, Int, $int);
            kinds!(@one $check, Bool, $bool);
        };
        (@one $check:ident, $kind:ident, $method:ident) => {
            rows.push(Row::new(&[stringify!($method)], |context| {
                $check::<B, $kind>(context, stringify!($method), B::$method)
            }))
        };
    }
    kinds!(reshape: float_reshape, int_reshape, bool_reshape);
    kinds!(transpose: float_transpose, int_transpose, bool_transpose);
    kinds!(swap_dims: float_swap_dims, int_swap_dims, bool_swap_dims);
    kinds!(permute: float_permute, int_permute, bool_permute);
    kinds!(flip: float_flip, int_flip, bool_flip);
    kinds!(slice: float_slice, int_slice, bool_slice);
    kinds!(slice_assign: float_slice_assign, int_slice_assign, bool_slice_assign);
    kinds!(expand: float_expand, int_expand, bool_expand);
    kinds!(unfold: float_unfold, int_unfold, bool_unfold);
    kinds!(repeat: float_repeat_dim, int_repeat_dim, bool_repeat_dim);
    kinds!(cat: float_cat, int_cat, bool_cat);
    rows
}

/// Runs `check` for every dtype and shape, on a sample that holds special values.
fn samples<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    check: impl Fn(DType, &Array<K::Value>),
) {
    for dtype in K::dtypes(context, &[method]) {
        for shape in SHAPES {
            check(dtype, &K::sample(dtype, shape, 1));
        }
    }
}

fn reshape<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, Shape) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for target in reshapes(array.shape()) {
            over_layouts::<B, K>(context, dtype, array, |t, a| {
                K::expect(run(t, target.clone().into()), dtype, &a.reshape(target.clone()))
            });
        }
    });
}

/// Shapes with the same number of elements: flat, with axes of size one added, axes merged, split and
/// exchanged.
fn reshapes(shape: &[usize]) -> Vec<Vec<usize>> {
    let elements: usize = shape.iter().product();
    let mut targets = vec![
        shape.to_vec(),
        vec![elements],
        shape.iter().rev().copied().collect(),
        [&[1], shape, &[1]].concat(),
        shape.iter().flat_map(|&n| [n, 1]).collect(),
    ];
    if let [head @ .., a, b] = shape {
        targets.push([head, &[a * b]].concat());
    }
    if let [a, b, tail @ ..] = shape {
        targets.push([&[a * b], tail].concat());
    }
    for factor in [2, 3] {
        if elements % factor == 0 {
            targets.push(vec![factor, elements / factor]);
            targets.push(vec![elements / factor, 1, factor]);
        }
    }
    targets
}

fn transpose<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        let rank = array.shape().len();
        if rank < 2 {
            return;
        }
        over_layouts::<B, K>(context, dtype, array, |t, a| {
            K::expect(run(t), dtype, &a.permute(&swapped(rank, rank - 2, rank - 1)))
        });
    });
}

/// The axes in order, except that `a` and `b` are exchanged.
fn swapped(rank: usize, a: usize, b: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(a, b);
    axes
}

fn swap_dims<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, usize, usize) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        let rank = array.shape().len();
        for (a, b) in (0..rank).flat_map(|a| (0..rank).map(move |b| (a, b))) {
            over_layouts::<B, K>(context, dtype, array, |t, content| {
                K::expect(run(t, a, b), dtype, &content.permute(&swapped(rank, a, b)))
            });
        }
    });
}

fn permute<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, &[usize]) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        let rank = array.shape().len();
        let mut orders: Vec<Vec<usize>> =
            (0..rank.max(1)).map(|shift| (0..rank).map(|k| (k + shift) % rank).collect()).collect();
        orders.push((0..rank).rev().collect());
        if rank == 4 {
            orders.push(vec![2, 0, 3, 1]);
        }
        for axes in &orders {
            over_layouts::<B, K>(context, dtype, array, |t, a| {
                K::expect(run(t, axes), dtype, &a.permute(axes))
            });
        }
    });
}

fn flip<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, &[usize]) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        let rank = array.shape().len();
        let sets =
            (0..rank).map(|axis| vec![axis]).chain([vec![], (0..rank).collect(), (0..rank).rev().collect()]);
        for axes in sets {
            over_layouts::<B, K>(context, dtype, array, |t, a| {
                let want = Array::from_fn(a.shape(), |index| {
                    let mut source = index.to_vec();
                    axes.iter().for_each(|&axis| source[axis] = a.shape()[axis] - 1 - index[axis]);
                    a.at(&source)
                });
                K::expect(run(t, &axes), dtype, &want)
            });
        }
    });
}

/// The positions that a slice takes along an axis, in the slice's order: a negative step starts at the end of
/// its range.
fn positions(slice: Slice, size: usize) -> Vec<usize> {
    let absolute = |i: isize| if i < 0 { i + size as isize } else { i } as usize;
    let range = absolute(slice.start)..slice.end.map_or(size, absolute);
    let step = slice.step.unsigned_abs();
    if slice.step > 0 { range.step_by(step).collect() } else { range.rev().step_by(step).collect() }
}

/// Combinations of ranges and steps for a shape. No slice is empty: Burn does not pass empty slices to
/// backends.
fn slices(shape: &[usize]) -> Vec<Vec<Slice>> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let of_axis = |size: usize| {
        let (n, half) = (size as isize, size as isize / 2);
        [
            Slice::full(),
            Slice::new(half, None, 1),
            Slice::new(0, None, 2),
            Slice::new(0, None, -1),
            Slice::new(-n, Some(n - half), 1),
            Slice::new(half, None, -2),
            Slice::new(0, Some(-half.min(n - 1)).filter(|&end| end != 0), 3),
            Slice::new(n - 1, Some(n), 1),
            Slice::new(0, None, -(n + 1)),
        ]
    };
    let variants = of_axis(1).len();
    (0..if shape.is_empty() { 1 } else { variants })
        .map(|k| {
            shape.iter().enumerate().map(|(axis, &size)| of_axis(size)[(k + 2 * axis) % variants]).collect()
        })
        .collect()
}

/// For each axis, the positions that its slice takes.
fn region(slices: &[Slice], shape: &[usize]) -> Vec<Vec<usize>> {
    slices.iter().zip(shape).map(|(&slice, &size)| positions(slice, size)).collect()
}

fn slice<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, &[Slice]) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for slices in slices(array.shape()) {
            let region = region(&slices, array.shape());
            let shape: Vec<usize> = region.iter().map(Vec::len).collect();
            over_layouts::<B, K>(context, dtype, array, |t, a| {
                let want = Array::from_fn(shape.clone(), |index| {
                    a.at(&index.iter().zip(&region).map(|(&i, axis)| axis[i]).collect::<Vec<_>>())
                });
                K::expect(run(t, &slices), dtype, &want).map_err(|e| format!("{slices:?}: {e}"))
            });
        }
    });
}

fn slice_assign<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, &[Slice], K::Tensor) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for slices in slices(array.shape()) {
            let region = region(&slices, array.shape());
            let shape: Vec<usize> = region.iter().map(Vec::len).collect();
            let value = K::sample(dtype, &shape, 2);
            over_layouts2::<B, K, K>(context, (dtype, array), (dtype, &value), |t, v, a, value| {
                let mut want = a.clone();
                for_each_index(&shape, |index| {
                    let target: Vec<usize> = index.iter().zip(&region).map(|(&i, axis)| axis[i]).collect();
                    want.set(&target, value.at(index));
                });
                K::expect(run(t, &slices, v), dtype, &want).map_err(|e| format!("{slices:?}: {e}"))
            });
        }
    });
}

fn expand<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, Shape) -> K::Tensor,
) {
    for dtype in K::dtypes(context, &[method]) {
        for target in SHAPES {
            // Each axis expanded alone, all axes, no axis, and new leading axes.
            let rank = target.len();
            let mut sources: Vec<Vec<usize>> = vec![vec![1; rank], target.to_vec()];
            sources.extend((0..rank).map(|axis| {
                let mut source = target.to_vec();
                source[axis] = 1;
                source
            }));
            sources.extend((1..=rank).map(|skip| target[skip..].to_vec()));
            for source in sources {
                over_layouts::<B, K>(context, dtype, &K::sample(dtype, &source, 1), |t, a| {
                    let want = Array::from_fn(target, |index| {
                        let local = &index[rank - source.len()..];
                        let index: Vec<usize> =
                            local.iter().zip(&source).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
                        a.at(&index)
                    });
                    K::expect(run(t, target.to_vec().into()), dtype, &want)
                        .map_err(|e| format!("to {target:?}: {e}"))
                });
            }
        }
    }
}

fn unfold<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, usize, usize, usize) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for axis in 0..array.shape().len() {
            let n = array.shape()[axis];
            let windows = [(1, 1), (2, 1), (2, 3), (3, 2), (n, 1), (n, 5)];
            for (size, step) in windows.into_iter().filter(|&(size, _)| 0 < size && size <= n) {
                over_layouts::<B, K>(context, dtype, array, |t, a| {
                    let mut shape = a.shape().to_vec();
                    shape[axis] = (n - size) / step + 1;
                    shape.push(size);
                    let want = Array::from_fn(shape, |index| {
                        let (&within, window) = index.split_last().expect("the axis of the window");
                        let mut source = window.to_vec();
                        source[axis] = window[axis] * step + within;
                        a.at(&source)
                    });
                    K::expect(run(t, axis, size, step), dtype, &want)
                        .map_err(|e| format!("axis {axis}, size {size}, step {step}: {e}"))
                });
            }
        }
    });
    for dtype in K::dtypes(context, &[method]) {
        let array = K::sample(dtype, &[2, 5], 1);
        for (axis, size, step) in [(1, 6, 1), (1, 6, 9), (1, 9, 2), (0, 3, 1)] {
            let what = || format!("{dtype:?} no window: axis {axis}, size {size}, step {step}");
            context.attempt(what, || {
                let mut shape = vec![2, 5, size];
                shape[axis] = 0;
                let want = Array::from_fn(shape, |_| unreachable!("an element of no window"));
                let got = run(upload::<B, K>(context, &array, dtype), axis, size, step);
                K::expect(got, dtype, &want)
            });
        }
    }
}

fn repeat<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, usize, usize) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for (axis, times) in (0..array.shape().len()).flat_map(|axis| [1, 2, 3].map(|times| (axis, times))) {
            over_layouts::<B, K>(context, dtype, array, |t, a| {
                let n = a.shape()[axis];
                let want = a.map_axis(axis, times * n, |line| line.repeat(times));
                K::expect(run(t, axis, times), dtype, &want)
            });
        }
    });
}

fn cat<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(Vec<K::Tensor>, usize) -> K::Tensor,
) {
    samples::<B, K>(context, method, |dtype, array| {
        for axis in 0..array.shape().len() {
            let mut shape = array.shape().to_vec();
            shape[axis] += 1;
            let other = K::sample(dtype, &shape, 2);
            over_layouts2::<B, K, K>(context, (dtype, array), (dtype, &other), |ta, tb, a, b| {
                let join = |parts: &[&Array<K::Value>]| {
                    let mut shape = a.shape().to_vec();
                    shape[axis] = parts.iter().map(|part| part.shape()[axis]).sum();
                    Array::from_fn(shape, |index| {
                        let mut index = index.to_vec();
                        for part in parts {
                            match index[axis].checked_sub(part.shape()[axis]) {
                                Some(rest) => index[axis] = rest,
                                None => return part.at(&index),
                            }
                        }
                        unreachable!("the parts add up to the axis")
                    })
                };
                K::expect(run(vec![ta.clone()], axis), dtype, a)?;
                K::expect(run(vec![ta.clone(), tb.clone(), ta.clone()], axis), dtype, &join(&[a, b, a]))?;
                K::expect(run(vec![ta, tb], axis), dtype, &join(&[a, b]))
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_walk_their_range() {
        assert_eq!(positions(Slice::full(), 3), [0, 1, 2]);
        assert_eq!(positions(Slice::new(1, Some(5), 2), 6), [1, 3]);
        assert_eq!(positions(Slice::new(0, None, -1), 3), [2, 1, 0]);
        assert_eq!(positions(Slice::new(1, None, -2), 6), [5, 3, 1]);
        assert_eq!(positions(Slice::new(-3, Some(-1), 1), 5), [2, 3]);
    }

    #[test]
    fn no_slice_is_empty() {
        for shape in SHAPES {
            for slices in slices(shape) {
                assert!(
                    region(&slices, shape).iter().all(|axis| !axis.is_empty()),
                    "{slices:?} of {shape:?}"
                );
            }
        }
    }
}
