//! Access by indices, repeated indices among them, in every index dtype.

use crate::array::{Array, for_each_index};
use crate::kind::{Bool, Float, Int, Kind};
use crate::release::Backend;
use crate::row::{Context, Row};
use crate::support::{Stream, bools, floats, int_range, ints, over_layouts, over_layouts2, upload, wrap};
use burn_backend::DType;
use burn_backend::tensor::{IndexingUpdateOp, IntTensor};

/// Shapes to index into: short and long axes in every place, an empty one among them.
const SHAPES: [&[usize]; 6] = [&[7], &[33], &[3, 5], &[2, 3, 17], &[2, 0, 3], &[2, 3, 2, 9]];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows = Vec::new();
    macro_rules! row {
        ($check:ident, $kind:ident, $method:ident $(, $update:expr)?) => {
            rows.push(Row::new(&[stringify!($method)], |context| {
                $check::<B, $kind>(context, stringify!($method), B::$method $(, $update)?)
            }))
        };
    }
    row!(gather, Float, float_gather);
    row!(gather, Int, int_gather);
    row!(gather, Bool, bool_gather);
    row!(select, Float, float_select);
    row!(select, Int, int_select);
    row!(select, Bool, bool_select);
    row!(scatter, Float, float_scatter_add, |_, a, b| a + b);
    row!(scatter, Int, int_scatter_add, |dtype, a, b| wrap(dtype, a + b));
    row!(scatter, Bool, bool_scatter_or, |_, a, b| a | b);
    row!(select_update, Float, float_select_add, |_, a, b| a + b);
    row!(select_update, Int, int_select_add, |dtype, a, b| wrap(dtype, a + b));
    row!(select_update, Bool, bool_select_or, |_, a, b| a | b);
    row!(gather_nd, Float, float_gather_nd);
    row!(gather_nd, Int, int_gather_nd);
    row!(scatter_nd, Float, float_scatter_nd, float_update);
    row!(scatter_nd, Int, int_scatter_nd, int_update);
    rows
}

/// How an update combines the old and the new element.
type Update<V> = fn(DType, V, V) -> V;

/// Values to combine: sums and products of a few of them are exact in every float dtype, so the order of
/// updates does not matter; integers wrap.
trait Sample<B: Backend>: Kind<B> {
    fn terms(dtype: DType, shape: &[usize], seed: u64) -> Array<Self::Value>;
}

impl<B: Backend> Sample<B> for Float {
    fn terms(dtype: DType, shape: &[usize], seed: u64) -> Array<f64> {
        let mut stream = Stream::new(!seed);
        // Adding zero turns -0 into 0: the sign would depend on the order.
        floats(dtype, shape, (-4.0, 5.0), seed).map(|x| match stream.unit() {
            special if special < 0.02 => f64::NAN,
            special if special < 0.04 => f64::INFINITY,
            special if special < 0.06 => f64::NEG_INFINITY,
            _ => x.floor() + 0.0,
        })
    }
}

impl<B: Backend> Sample<B> for Int {
    fn terms(dtype: DType, shape: &[usize], seed: u64) -> Array<i128> {
        let (min, max) = int_range(dtype);
        ints(dtype, shape, (min, max + 1), seed)
    }
}

impl<B: Backend> Sample<B> for Bool {
    fn terms(_: DType, shape: &[usize], seed: u64) -> Array<bool> {
        bools(shape, seed)
    }
}

/// Runs a check for data of every dtype against indices of every dtype. Each dtype is run once with all
/// shapes; the other pairs are run with one shape.
fn pairs<B: Backend, K: Kind<B>, S: ?Sized>(
    context: &Context<'_, B>,
    method: &'static str,
    cases: &[&'static S],
    check: impl Fn(DType, DType, &S),
) {
    for (i, dtype) in K::dtypes(context, &[method]).into_iter().enumerate() {
        for (j, index_dtype) in context.ints(&[method]).into_iter().enumerate() {
            let every_case = i == 0 || j == i % 2;
            cases
                .iter()
                .enumerate()
                .filter(|(k, _)| every_case || *k == (i + j) % cases.len())
                .for_each(|(_, case)| check(dtype, index_dtype, case));
        }
    }
}

/// Lengths of index arrays for an axis: none, one, some, more than there are positions. An empty axis has no
/// position to index.
fn lengths(size: usize) -> &'static [usize] {
    if size == 0 { &[0] } else { &[0, 1, 2, 5, 19] }
}

/// `shape` with another size of one axis.
fn with_axis(shape: &[usize], axis: usize, size: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[axis] = size;
    shape
}

/// Indices below `size`, repeated ones among them.
fn indices(dtype: DType, shape: &[usize], size: usize, seed: u64) -> Array<i128> {
    ints(dtype, shape, (0, size as i128), seed)
}

fn gather<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(usize, K::Tensor, IntTensor<B>) -> K::Tensor,
) {
    pairs::<B, K, [usize]>(context, method, &SHAPES, |dtype, index_dtype, shape| {
        for axis in 0..shape.len() {
            for &length in lengths(shape[axis]) {
                let array = K::sample(dtype, shape, 1);
                let index = indices(index_dtype, &with_axis(shape, axis, length), shape[axis], 2);
                over_layouts2::<B, K, Int>(context, (dtype, &array), (index_dtype, &index), |t, ti, a, i| {
                    let want = Array::from_fn(i.shape(), |at| a.at_on_axis(at, axis, i.at(at) as usize));
                    K::expect(run(axis, t, ti), dtype, &want).map_err(|e| format!("axis {axis}: {e}"))
                });
            }
        }
    });
}

fn select<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, usize, IntTensor<B>) -> K::Tensor,
) {
    pairs::<B, K, [usize]>(context, method, &SHAPES, |dtype, index_dtype, shape| {
        for axis in 0..shape.len() {
            for &length in lengths(shape[axis]) {
                let array = K::sample(dtype, shape, 1);
                let index = indices(index_dtype, &[length], shape[axis], 2);
                over_layouts2::<B, K, Int>(context, (dtype, &array), (index_dtype, &index), |t, ti, a, i| {
                    let want = Array::from_fn(with_axis(a.shape(), axis, length), |at| {
                        a.at_on_axis(at, axis, i.at(&[at[axis]]) as usize)
                    });
                    K::expect(run(t, axis, ti), dtype, &want).map_err(|e| format!("axis {axis}: {e}"))
                });
            }
        }
    });
}

/// Runs an update of `data` by `values` at `index`: every layout of the data with every layout of the
/// indices, and with every layout of the values.
fn over_layouts3<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    (dtype, data, values): (DType, &Array<K::Value>, &Array<K::Value>),
    (index_dtype, index): (DType, &Array<i128>),
    run: impl Fn([K::Tensor; 2], IntTensor<B>, [&Array<K::Value>; 2], &Array<i128>) -> Result<(), String>,
) {
    over_layouts2::<B, K, Int>(context, (dtype, data), (index_dtype, index), |t, ti, a, i| {
        run([t, upload::<B, K>(context, values, dtype)], ti, [a, values], i)
    });
    over_layouts2::<B, K, K>(context, (dtype, data), (dtype, values), |t, tv, a, v| {
        run([t, tv], upload::<B, Int>(context, index, index_dtype), [a, v], index)
    });
}

fn scatter<B: Backend, K: Sample<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(usize, K::Tensor, IntTensor<B>, K::Tensor) -> K::Tensor,
    update: Update<K::Value>,
) {
    pairs::<B, K, [usize]>(context, method, &SHAPES, |dtype, index_dtype, shape| {
        for axis in 0..shape.len() {
            for &length in lengths(shape[axis]) {
                let shape_of_index = with_axis(shape, axis, length);
                let (data, values) = (K::terms(dtype, shape, 1), K::terms(dtype, &shape_of_index, 2));
                let index = indices(index_dtype, &shape_of_index, shape[axis], 3);
                let (data, index) = ((dtype, &data, &values), (index_dtype, &index));
                over_layouts3::<B, K>(context, data, index, |[t, tv], ti, [a, v], i| {
                    let mut want = a.clone();
                    for_each_index(i.shape(), |at| {
                        let target = with_axis(at, axis, i.at(at) as usize);
                        want.set(&target, update(dtype, want.at(&target), v.at(at)));
                    });
                    K::expect(run(axis, t, ti, tv), dtype, &want).map_err(|e| format!("axis {axis}: {e}"))
                });
            }
        }
    });
}

fn select_update<B: Backend, K: Sample<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, usize, IntTensor<B>, K::Tensor) -> K::Tensor,
    update: Update<K::Value>,
) {
    pairs::<B, K, [usize]>(context, method, &SHAPES, |dtype, index_dtype, shape| {
        for axis in 0..shape.len() {
            for &length in lengths(shape[axis]) {
                let (data, values) =
                    (K::terms(dtype, shape, 1), K::terms(dtype, &with_axis(shape, axis, length), 2));
                let index = indices(index_dtype, &[length], shape[axis], 3);
                let (data, index) = ((dtype, &data, &values), (index_dtype, &index));
                over_layouts3::<B, K>(context, data, index, |[t, tv], ti, [a, v], i| {
                    let mut want = a.clone();
                    for_each_index(v.shape(), |at| {
                        let target = with_axis(at, axis, i.at(&[at[axis]]) as usize);
                        want.set(&target, update(dtype, want.at(&target), v.at(at)));
                    });
                    K::expect(run(t, axis, ti, tv), dtype, &want).map_err(|e| format!("axis {axis}: {e}"))
                });
            }
        }
    });
}

/// Coordinates of slices.
struct Coordinates {
    /// Shape of the data.
    data: &'static [usize],
    /// Leading axes of the index tensor.
    batch: &'static [usize],
    /// Leading axes of the data that are addressed.
    k: usize,
}

const COORDINATES: [&Coordinates; 9] = [
    &Coordinates { data: &[7], batch: &[5], k: 1 },
    &Coordinates { data: &[65], batch: &[33], k: 1 },
    &Coordinates { data: &[3, 5], batch: &[2], k: 1 },
    &Coordinates { data: &[3, 5], batch: &[2, 4], k: 2 },
    &Coordinates { data: &[3, 5], batch: &[], k: 1 },
    &Coordinates { data: &[3, 5], batch: &[0], k: 2 },
    &Coordinates { data: &[2, 3, 17], batch: &[4], k: 2 },
    &Coordinates { data: &[2, 3, 2, 9], batch: &[2, 3], k: 3 },
    &Coordinates { data: &[2, 3, 2, 9], batch: &[11], k: 4 },
];

impl Coordinates {
    /// Coordinates below the smallest size, so that they stay in range when a layout exchanges axes.
    fn any(&self, dtype: DType, seed: u64) -> Array<i128> {
        let least = self.data[..self.k].iter().min().expect("an axis");
        indices(dtype, &[self.batch, &[self.k]].concat(), *least, seed)
    }

    /// Coordinates that address each position at most once.
    fn distinct(&self, seed: u64) -> Array<i128> {
        let leading = &self.data[..self.k];
        let places: usize = leading.iter().product();
        let mut stream = Stream::new(seed);
        let mut free: Vec<usize> = (0..places).collect();
        let mut flat: Vec<usize> = Vec::new();
        for _ in 0..self.batch.iter().product() {
            flat.push(free.swap_remove(stream.int(0, free.len() as i128) as usize));
        }
        let coordinates = flat.iter().flat_map(|&place| {
            (0..self.k).map(move |axis| {
                let inner: usize = leading[axis + 1..].iter().product();
                (place / inner % leading[axis]) as i128
            })
        });
        Array::new([self.batch, &[self.k]].concat(), coordinates.collect())
    }

    /// Shape of the values that are gathered or scattered.
    fn values(&self) -> Vec<usize> {
        [self.batch, &self.data[self.k..]].concat()
    }

    /// Position in the data of an element of the values.
    fn target(&self, index: &Array<i128>, at: &[usize]) -> Vec<usize> {
        let (batch, inner) = at.split_at(self.batch.len());
        let outer = (0..self.k).map(|axis| index.at(&[batch, &[axis]].concat()) as usize);
        outer.chain(inner.iter().copied()).collect()
    }
}

fn gather_nd<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, IntTensor<B>) -> K::Tensor,
) {
    pairs::<B, K, Coordinates>(context, method, &COORDINATES, |dtype, index_dtype, case| {
        let array = K::sample(dtype, case.data, 1);
        let check = |t, ti, a: &Array<K::Value>, i: &Array<i128>| {
            let want = Array::from_fn(case.values(), |at| a.at(&case.target(i, at)));
            K::expect(run(t, ti), dtype, &want)
        };
        let index = case.any(index_dtype, 2);
        over_layouts2::<B, K, Int>(context, (dtype, &array), (index_dtype, &index), check);
        let index = case.distinct(2);
        over_layouts::<B, K>(context, dtype, &array, |t, a| {
            check(t, upload::<B, Int>(context, &index, index_dtype), a, &index)
        });
    });
}

/// Each position is addressed once, except by additions: Burn leaves other colliding updates undefined.
fn scatter_nd<B: Backend, K: Sample<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, IntTensor<B>, K::Tensor, IndexingUpdateOp) -> K::Tensor,
    update: fn(IndexingUpdateOp, DType, K::Value, K::Value) -> K::Value,
) {
    use IndexingUpdateOp as Op;
    pairs::<B, K, Coordinates>(context, method, &COORDINATES, |dtype, index_dtype, case| {
        for op in [Op::Assign, Op::Add, Op::Mul, Op::Min, Op::Max] {
            let (data, values) = (K::terms(dtype, case.data, 1), K::terms(dtype, &case.values(), 2));
            let check = |[t, tv]: [K::Tensor; 2], ti, [a, v]: [&Array<K::Value>; 2], i: &Array<i128>| {
                let mut want = a.clone();
                for_each_index(v.shape(), |at| {
                    let target = case.target(i, at);
                    want.set(&target, update(op, dtype, want.at(&target), v.at(at)));
                });
                K::expect(run(t, ti, tv, op), dtype, &want).map_err(|e| format!("{op:?}: {e}"))
            };
            // Some layouts repeat contents, so distinct indices are only used contiguous.
            let index = case.distinct(3);
            over_layouts2::<B, K, K>(context, (dtype, &data), (dtype, &values), |t, tv, a, v| {
                check([t, tv], upload::<B, Int>(context, &index, index_dtype), [a, v], &index)
            });
            if op == Op::Add {
                let index = case.any(index_dtype, 3);
                over_layouts3::<B, K>(context, (dtype, &data, &values), (index_dtype, &index), check);
            }
        }
    });
}

fn float_update(op: IndexingUpdateOp, _: DType, old: f64, new: f64) -> f64 {
    match op {
        IndexingUpdateOp::Assign => new,
        IndexingUpdateOp::Add => old + new,
        IndexingUpdateOp::Mul => old * new,
        _ if old.is_nan() || new.is_nan() => f64::NAN,
        IndexingUpdateOp::Min => old.min(new),
        IndexingUpdateOp::Max => old.max(new),
    }
}

fn int_update(op: IndexingUpdateOp, dtype: DType, old: i128, new: i128) -> i128 {
    match op {
        IndexingUpdateOp::Assign => new,
        IndexingUpdateOp::Add => wrap(dtype, old + new),
        IndexingUpdateOp::Mul => wrap(dtype, old.wrapping_mul(new)),
        IndexingUpdateOp::Min => old.min(new),
        IndexingUpdateOp::Max => old.max(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_address_places_of_the_data() {
        let case = Coordinates { data: &[3, 5, 2], batch: &[15], k: 2 };
        let index = case.distinct(1);
        let mut places: Vec<Vec<usize>> = (0..15).map(|b| case.target(&index, &[b, 1])).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), 15, "each place once");
        assert!(places.iter().all(|p| p[0] < 3 && p[1] < 5 && p[2] == 1));
    }
}
