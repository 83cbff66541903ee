//! Sorting, and moving elements to positions and back.

use super::{download, holds, same, upload};
use crate::array::Array;
use crate::kind::{Float, Int, Kind};
use crate::release::Backend;
use crate::support::Stream;
use burn_backend::{DType, IntDType};
use proptest::prelude::*;

/// A shape of rank one to six, an axis of it, and a seed.
fn lines() -> impl Strategy<Value = (Vec<usize>, usize, u64)> {
    (prop::collection::vec(super::size(), 1..=6), any::<prop::sample::Index>(), any::<u32>()).prop_map(
        |(shape, axis, seed)| {
            let shape = super::bounded(shape);
            let axis = axis.index(shape.len());
            (shape, axis, seed as u64)
        },
    )
}

/// Checks the result of a sort: the positions are a permutation that keeps equal elements in order; the
/// values are the elements at these positions, in ascending (or descending) order.
fn check_sorted<T: Copy + PartialEq + std::fmt::Debug>(
    array: &Array<T>,
    axis: usize,
    before: impl Fn(T, T) -> bool,
    values: &Array<T>,
    positions: &Array<i128>,
) -> Result<(), String> {
    if values.shape() != array.shape() || positions.shape() != array.shape() {
        return Err(format!("shapes {:?} and {:?}", values.shape(), positions.shape()));
    }
    let mut outcome = Ok(());
    let mut first = array.shape().to_vec();
    first[axis] = 1;
    crate::array::for_each_index(&first, |index| {
        if outcome.is_err() {
            return;
        }
        let (line, sorted, at) =
            (array.line(axis, index), values.line(axis, index), positions.line(axis, index));
        let mut seen = vec![false; line.len()];
        for k in 0..line.len() {
            let Some(source) = usize::try_from(at[k]).ok().filter(|&i| i < line.len() && !seen[i]) else {
                outcome = Err(format!("positions {at:?} are no permutation"));
                return;
            };
            seen[source] = true;
            if line[source] != sorted[k] {
                outcome = Err(format!("position {source} of {line:?} does not hold {:?}", sorted[k]));
                return;
            }
            if k > 0 && before(sorted[k], sorted[k - 1]) {
                outcome = Err(format!("{sorted:?} is not sorted"));
            } else if k > 0 && sorted[k] == sorted[k - 1] && at[k] < at[k - 1] {
                outcome = Err(format!("positions {at:?} of {sorted:?} swap equal elements"));
            }
        }
    });
    outcome
}

/// Sorting floats with many equal ones, in both directions; argsort agrees.
pub fn float_sort<B: Backend>() {
    holds("float_sort", 300, (lines(), any::<bool>()), |((shape, axis, seed), descending)| {
        let array = super::small(&shape, seed);
        let tensor = || upload::<B, Float>(&array, DType::F32);
        let (values, at) = B::float_sort_with_indices(tensor(), axis, descending, IntDType::I64);
        let (values, at) = (download::<B, Float>(values), download::<B, Int>(at));
        check_sorted(&array, axis, |a, b| if descending { a > b } else { a < b }, &values, &at)?;
        same("float_sort", &download::<B, Float>(B::float_sort(tensor(), axis, descending)), &values)?;
        let argsort = B::float_argsort(tensor(), axis, descending, IntDType::I64);
        same("float_argsort", &download::<B, Int>(argsort), &at)
    });
}

/// Sorting integers with many equal ones, in both directions; argsort agrees.
pub fn int_sort<B: Backend>() {
    holds("int_sort", 300, (lines(), any::<bool>()), |((shape, axis, seed), descending)| {
        let mut stream = Stream::new(seed);
        let array = Array::from_fn(shape, |_| stream.int(-9, 10));
        let tensor = || upload::<B, Int>(&array, DType::I64);
        let (values, at) = B::int_sort_with_indices(tensor(), axis, descending);
        let (values, at) = (download::<B, Int>(values), download::<B, Int>(at));
        check_sorted(&array, axis, |a, b| if descending { a > b } else { a < b }, &values, &at)?;
        same("int_sort", &download::<B, Int>(B::int_sort(tensor(), axis, descending)), &values)?;
        same("int_argsort", &download::<B, Int>(B::int_argsort(tensor(), axis, descending)), &at)
    });
}

/// The largest `k` are the first `k` of a descending sort, and the positions lead to them.
pub fn top_k_is_the_head_of_sort<B: Backend>() {
    let inputs = (lines(), any::<prop::sample::Index>());
    holds("top_k_is_the_head_of_sort", 300, inputs, |((shape, axis, seed), k)| {
        let array = super::small(&shape, seed);
        let k = k.index(shape[axis] + 1);
        let tensor = || upload::<B, Float>(&array, DType::F32);
        let head = array.map_axis(axis, k, |line| {
            let mut line = line.to_vec();
            line.sort_by(|a, b| b.total_cmp(a));
            line.truncate(k);
            line
        });
        same(format_args!("top {k}"), &download::<B, Float>(B::float_topk(tensor(), axis, k)), &head)?;
        let at = B::float_argtopk(tensor(), axis, k, IntDType::I64);
        let gathered = B::float_gather(axis, tensor(), at);
        same(format_args!("positions of the top {k}"), &download::<B, Float>(gathered), &head)
    });
}

/// For each line along the axis, the positions of its elements in some order.
fn shuffles(shape: &[usize], axis: usize, seed: u64) -> Array<i128> {
    let mut stream = Stream::new(seed);
    Array::<i128>::from_fn(shape.to_vec(), |_| 0).map_axis(axis, shape[axis], |line| {
        let mut order: Vec<i128> = (0..line.len() as i128).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, stream.int(0, i as i128 + 1) as usize);
        }
        order
    })
}

/// Gathering by permutations and scattering to the same positions gives the tensor back.
pub fn scatter_inverts_gather<B: Backend>() {
    holds("scatter_inverts_gather", 300, lines(), |(shape, axis, seed)| {
        let array = super::small(&shape, seed);
        let at = || upload::<B, Int>(&shuffles(&shape, axis, seed), DType::I64);
        let gathered = B::float_gather(axis, upload::<B, Float>(&array, DType::F32), at());
        let zeros = upload::<B, Float>(&array.map(|_| 0.0), DType::F32);
        same("float", &download::<B, Float>(B::float_scatter_add(axis, zeros, at(), gathered)), &array)?;
        let integers = array.map(|x| x as i128);
        let gathered = B::int_gather(axis, upload::<B, Int>(&integers, DType::I32), at());
        let zeros = upload::<B, Int>(&integers.map(|_| 0), DType::I32);
        same("int", &download::<B, Int>(B::int_scatter_add(axis, zeros, at(), gathered)), &integers)
    });
}

/// `<gather(x), y> = <x, scatter_add(0, y)>`, also with repeated positions; the same for select.
pub fn gather_has_an_adjoint<B: Backend>() {
    holds("gather_has_an_adjoint", 300, (lines(), super::size()), |((shape, axis, seed), count)| {
        let x = super::small(&shape, seed);
        let size = shape[axis];
        let mut picked = shape.clone();
        picked[axis] = if size == 0 { 0 } else { count };
        let y = super::small(&picked, seed + 1);
        let mut stream = Stream::new(seed + 2);
        let mut at = |shape: &[usize]| {
            let positions = Array::from_fn(shape.to_vec(), |_| stream.int(0, size as i128));
            <Int as Kind<B>>::from_data(<Int as Kind<B>>::encode(&positions, DType::I64), &Default::default())
        };
        let (tx, ty) = (|| upload::<B, Float>(&x, DType::F32), || upload::<B, Float>(&y, DType::F32));
        let zeros = || upload::<B, Float>(&x.map(|_| 0.0), DType::F32);
        let positions = at(&picked);
        let gathered = download::<B, Float>(B::float_gather(axis, tx(), positions.clone()));
        let scattered = download::<B, Float>(B::float_scatter_add(axis, zeros(), positions, ty()));
        adjoint("gather", (&gathered, &y), (&x, &scattered))?;
        let positions = at(&picked[axis..axis + 1]);
        let selected = download::<B, Float>(B::float_select(tx(), axis, positions.clone()));
        let added = download::<B, Float>(B::float_select_add(zeros(), axis, positions, ty()));
        adjoint("select", (&selected, &y), (&x, &added))
    });
}

/// Whether two inner products of small integers are the same.
pub(super) fn adjoint(
    what: &str,
    left: (&Array<f64>, &Array<f64>),
    right: (&Array<f64>, &Array<f64>),
) -> Result<(), String> {
    let dot = |(a, b): (&Array<f64>, &Array<f64>)| {
        if a.shape() != b.shape() {
            return Err(format!("{what}: shapes {:?} and {:?}", a.shape(), b.shape()));
        }
        Ok(a.data().iter().zip(b.data()).map(|(x, y)| x * y).sum::<f64>())
    };
    let (left, right) = (dot(left)?, dot(right)?);
    if left == right { Ok(()) } else { Err(format!("{what}: {left} is not {right}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sorts_are_caught() {
        let array = Array::new([4], vec![3.0, 1.0, 3.0, 2.0]);
        let check = |values: [f64; 4], at: [i128; 4]| {
            let (values, at) = (Array::new([4], values.to_vec()), Array::new([4], at.to_vec()));
            check_sorted(&array, 0, |a, b| a < b, &values, &at)
        };
        assert_eq!(check([1.0, 2.0, 3.0, 3.0], [1, 3, 0, 2]), Ok(()));
        assert!(check([1.0, 2.0, 3.0, 3.0], [1, 3, 2, 0]).is_err(), "not stable");
        assert!(check([2.0, 1.0, 3.0, 3.0], [3, 1, 0, 2]).is_err(), "not sorted");
        assert!(check([1.0, 2.0, 3.0, 3.0], [1, 3, 0, 0]).is_err(), "a position twice");
        assert!(check([1.0, 2.0, 3.0, 4.0], [1, 3, 0, 2]).is_err(), "another value");
    }
}
