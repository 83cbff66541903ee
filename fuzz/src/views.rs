//! Programs of views, copies and operations in place, against a naive model.

use crate::numbers::{DTYPES, Few, bits, from_bytes, tensor};
use arbitrary::{Arbitrary, Result, Unstructured};
use flex_core::elementwise::{self, Binary, Unary};
use flex_core::{BoolStore, DType, Scalar, Slice, Tensor, movement, reduce, sort};

/// Runs a program. After it, every tensor has the shape and the bits of its model, clones included.
pub fn views(bytes: &[u8]) {
    // An input that is too short to decode ends the program; what was computed so far is checked.
    let _ = run(&mut Unstructured::new(bytes));
}

/// Larger tensors are not made: the model is slow.
const LARGEST: usize = 4096;

/// What a tensor has to hold: a shape, and the bits of the elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    shape: Vec<usize>,
    bits: Vec<u64>,
}

impl Model {
    /// Every element of a new shape, from the index of an element of this model.
    fn map(&self, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count = shape.iter().product();
        let mut bits = Vec::with_capacity(count);
        let mut index = vec![0; shape.len()];
        for flat in 0..count {
            let mut rest = flat;
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            bits.push(self.bits[self.flat(&from(&index))]);
        }
        Self { shape, bits }
    }

    fn flat(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.shape).fold(0, |flat, (i, size)| {
            assert!(i < size, "the model's own fault");
            flat * size + i
        })
    }

    fn check(&self, tensor: &Tensor, dtype: DType, what: &str) {
        assert_eq!(tensor.dtype(), dtype, "{what}: dtype");
        assert_eq!(tensor.shape().as_slice(), self.shape, "{what}: shape");
        let bytes = tensor.clone().into_bytes().expect("memory");
        assert_eq!(from_bytes(&bytes, dtype), self.bits, "{what}: elements, {:?}", tensor.layout());
    }
}

/// The indices along an axis that a slice selects. Not a list, which would be long for an axis of an empty
/// tensor.
struct Indices {
    first: i128,
    step: i128,
    len: usize,
}

impl Indices {
    /// `None` for a step of zero.
    fn of(slice: &Slice, size: usize) -> Option<Self> {
        if slice.step == 0 {
            return None;
        }
        let (size, step) = (size as i128, slice.step as i128);
        let bound = |i: isize| (if i < 0 { size + i as i128 } else { i as i128 }).clamp(0, size);
        let (start, end) = (bound(slice.start), slice.end.map_or(size, bound));
        let len = (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        Some(Self { first: if step > 0 { start } else { end - 1 }, step, len: len as usize })
    }

    fn len(&self) -> usize {
        self.len
    }

    fn at(&self, i: usize) -> usize {
        (self.first + i as i128 * self.step) as usize
    }
}

/// The model and its engine's result have to agree on whether there is a result.
fn agree(
    what: &str,
    got: flex_core::Result<Tensor>,
    want: Option<Model>,
    dtype: DType,
) -> Option<(Tensor, Model)> {
    match (got, want) {
        (Ok(tensor), Some(model)) => {
            model.check(&tensor, dtype, what);
            Some((tensor, model))
        }
        (Err(_), None) => None,
        (Ok(tensor), None) => {
            panic!("{what}: expected an error, got a result of {:?}", tensor.shape().as_slice())
        }
        (Err(error), Some(model)) => panic!("{what}: expected {:?}, got {error}", model.shape),
    }
}

fn bound(u: &mut Unstructured<'_>) -> Result<isize> {
    Ok(match u.int_in_range(0..=15u8)? {
        0 => isize::MIN,
        1 => isize::MAX,
        2 => u.arbitrary()?,
        _ => u.int_in_range(-18..=18)?,
    })
}

fn slices(u: &mut Unstructured<'_>, rank: usize) -> Result<Vec<Slice>> {
    let most = rank + usize::from(u.ratio(1, 16)?);
    let count = u.int_in_range(0..=most)?;
    let one = |u: &mut Unstructured<'_>| -> Result<Slice> {
        let step = match u.int_in_range(0..=15u8)? {
            0..=5 => 1,
            6..=8 => -1,
            9 => bound(u)?,
            _ => u.int_in_range(-4..=4)?,
        };
        let end = if u.ratio(1, 3)? { None } else { Some(bound(u)?) };
        Ok(Slice { start: bound(u)?, end, step })
    };
    (0..count).map(|_| one(u)).collect()
}

/// The axes' selected indices; `None` where the slices are refused.
fn selected(slices: &[Slice], shape: &[usize]) -> Option<Vec<Indices>> {
    if slices.len() > shape.len() {
        return None;
    }
    let all = Slice::full();
    (0..shape.len()).map(|k| Indices::of(slices.get(k).unwrap_or(&all), shape[k])).collect()
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let dtype = DTYPES[u.int_in_range(0..=13)?];
    let rank = u.int_in_range(0..=5)?;
    let shape: Vec<usize> = (0..rank)
        .map(|_| Ok(if u.ratio(1, 8)? { 17 } else { Few::arbitrary(u)?.0 }))
        .collect::<Result<_>>()?;
    let count: usize = shape.iter().product();
    if count > LARGEST {
        return Ok(());
    }
    let model = Model { bits: bits(u, dtype, count)?, shape };
    let mut all = vec![(tensor(&model.bits, &model.shape, dtype), model)];
    let mut result = Ok(());
    for _ in 0..24 {
        result = step(u, dtype, &mut all);
        if result.is_err() || u.is_empty() {
            break;
        }
        if all.len() > 5 {
            all.swap_remove(0);
        }
    }
    for (tensor, model) in &all {
        model.check(tensor, dtype, "at the end");
        consume(tensor, model, dtype);
    }
    result
}

/// One operation on one of the tensors. Its result comes to the others, or takes the place of its operand.
fn step(u: &mut Unstructured<'_>, dtype: DType, all: &mut Vec<(Tensor, Model)>) -> Result<()> {
    let at = u.int_in_range(0..=all.len() - 1)?;
    let other = u.int_in_range(0..=all.len() - 1)?;
    // The operand stays, and shares its memory with the result; or the operation may write in place.
    let keep = bool::arbitrary(u)?;
    let second = all[other].clone();
    let (t, m) = if keep || all.len() == 1 { all[at].clone() } else { all.swap_remove(at) };
    let rank = m.shape.len();
    let axis = u.int_in_range(0..=rank)?;
    let result = match u.int_in_range(0..=13u8)? {
        0 => {
            let b = u.int_in_range(0..=rank)?;
            let want = (axis < rank && b < rank).then(|| {
                let mut shape = m.shape.clone();
                shape.swap(axis, b);
                m.map(shape, |index| {
                    let mut from = index.to_vec();
                    from.swap(axis, b);
                    from
                })
            });
            agree("swap_axes", t.swap_axes(axis, b), want, dtype)
        }
        1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            for k in (1..rank).rev() {
                axes.swap(k, u.int_in_range(0..=k)?);
            }
            if u.ratio(1, 16)? {
                axes.push(axis);
            }
            let want = (axes.len() == rank).then(|| {
                m.map(axes.iter().map(|&a| m.shape[a]).collect(), |index| {
                    let mut from = vec![0; rank];
                    axes.iter().zip(index).for_each(|(&a, &i)| from[a] = i);
                    from
                })
            });
            agree("permute", t.permute(&axes), want, dtype)
        }
        2 => {
            let axes: Vec<usize> = (0..u.int_in_range(0..=3)?)
                .map(|_| u.int_in_range(0..=rank.max(1) - 1))
                .collect::<Result<_>>()?;
            let twice = (1..axes.len()).any(|k| axes[..k].contains(&axes[k]));
            let want = (!twice && axes.iter().all(|&a| a < rank)).then(|| {
                m.map(m.shape.clone(), |index| {
                    (0..rank)
                        .map(|a| if axes.contains(&a) { m.shape[a] - 1 - index[a] } else { index[a] })
                        .collect()
                })
            });
            agree("flip", t.flip(&axes), want, dtype)
        }
        3 | 4 => {
            let slices = slices(u, rank)?;
            let want = selected(&slices, &m.shape).map(|lists| {
                m.map(lists.iter().map(Indices::len).collect(), |index| {
                    index.iter().zip(&lists).map(|(&i, list)| list.at(i)).collect()
                })
            });
            agree("slice", t.slice(&slices), want, dtype)
        }
        5 => {
            let size = m.shape.get(axis).copied().unwrap_or(0);
            let (start, len) = (u.int_in_range(0..=size + 1)?, u.int_in_range(0..=size + 1)?);
            let want = (axis < rank && start + len <= size).then(|| {
                let mut shape = m.shape.clone();
                shape[axis] = len;
                m.map(shape, |index| {
                    let mut from = index.to_vec();
                    from[axis] += start;
                    from
                })
            });
            agree("narrow", t.narrow(axis, start, len), want, dtype)
        }
        6 => {
            let mut shape: Vec<usize> =
                (0..u.int_in_range(0..=2)?).map(|_| u.int_in_range(0..=3)).collect::<Result<_>>()?;
            let lead = shape.len();
            for &size in &m.shape {
                shape.push(if size == 1 || u.ratio(1, 32)? { u.int_in_range(0..=4)? } else { size });
            }
            if shape.iter().product::<usize>() > LARGEST {
                return Ok(());
            }
            let fits = m.shape.iter().zip(&shape[lead..]).all(|(have, want)| have == want || *have == 1);
            let want = fits.then(|| {
                m.map(shape.clone(), |index| {
                    (0..rank).map(|a| if m.shape[a] == 1 { 0 } else { index[lead + a] }).collect()
                })
            });
            agree("expand", t.expand(&shape), want, dtype)
        }
        7 => {
            let len = m.shape.get(axis).copied().unwrap_or(0);
            let (size, step) = (u.int_in_range(0..=len + 1)?, u.int_in_range(0..=5)?);
            let mut shape = m.shape.clone();
            let fits = axis < rank && step > 0;
            if fits {
                shape[axis] = if size > len { 0 } else { (len - size) / step + 1 };
                shape.push(size);
                if shape.iter().product::<usize>() > LARGEST {
                    return Ok(());
                }
            }
            let want = fits.then(|| {
                m.map(shape, |index| {
                    let mut from = index[..rank].to_vec();
                    from[axis] = from[axis] * step + index[rank];
                    from
                })
            });
            agree("unfold", t.unfold(axis, size, step), want, dtype)
        }
        8 => {
            // The sizes' prime factors, dealt to other axes.
            let mut shape = vec![1; u.int_in_range(1..=4)?];
            for &size in &m.shape {
                let (mut rest, mut prime) = (size, 2);
                while rest > 1 {
                    // An axis of an empty tensor may be huge. What no small number divides is one factor.
                    if prime > LARGEST {
                        prime = rest;
                    }
                    while rest % prime == 0 {
                        let k = u.int_in_range(0..=shape.len() - 1)?;
                        shape[k] *= prime;
                        rest /= prime;
                    }
                    prime += 1;
                }
                if size == 0 {
                    shape[0] = 0;
                }
            }
            if u.ratio(1, 32)? {
                shape[0] += 1;
            }
            let fits = shape.iter().product::<usize>() == m.bits.len();
            let want = fits.then(|| Model { shape: shape.clone(), bits: m.bits.clone() });
            agree("reshape", t.reshape(shape), want, dtype)
        }
        9 => {
            let (o, om) = second;
            let fits = axis < rank
                && om.shape.len() == rank
                && (0..rank).all(|a| a == axis || om.shape[a] == m.shape[a]);
            if m.bits.len() + om.bits.len() > LARGEST {
                return Ok(());
            }
            let want = fits.then(|| {
                let (mut shape, len) = (m.shape.clone(), m.shape[axis]);
                shape[axis] += om.shape[axis];
                let sum = Model { shape, bits: Vec::new() };
                let joined = {
                    let inner: usize = m.shape[axis + 1..].iter().product();
                    let outer: usize = m.shape[..axis].iter().product();
                    let (a, b) = (len * inner, om.shape[axis] * inner);
                    // `outer` may be huge where there is nothing to join.
                    (0..if a != 0 || b != 0 { outer } else { 0 })
                        .flat_map(|k| [&m.bits[k * a..(k + 1) * a], &om.bits[k * b..(k + 1) * b]].concat())
                        .collect()
                };
                Model { bits: joined, ..sum }
            });
            agree("cat", movement::cat(vec![t, o], axis), want, dtype)
        }
        10 | 11 => {
            let slices = slices(u, rank)?;
            let lists = selected(&slices, &m.shape);
            let region: Vec<usize> = lists.iter().flatten().map(Indices::len).collect();
            // The value is one of the tensors where that fits, and else one element repeated.
            let (value, vm) = if second.1.shape == region || lists.is_none() {
                second
            } else {
                let one = bits(u, dtype, 1)?;
                let value = tensor(&one, &vec![1; rank], dtype).expand(&region).expect("axes of size 1");
                let count = region.iter().product();
                (value, Model { shape: region, bits: vec![one[0]; count] })
            };
            let want = lists.map(|lists| {
                let mut want = m.clone();
                // Where each element of the value goes: the slice of a model whose elements are their
                // positions.
                let places = Model { shape: m.shape.clone(), bits: (0..m.bits.len() as u64).collect() };
                let places = places.map(vm.shape.clone(), |index| {
                    index.iter().zip(&lists).map(|(&i, list)| list.at(i)).collect()
                });
                places.bits.iter().zip(&vm.bits).for_each(|(&to, &bits)| want.bits[to as usize] = bits);
                want
            });
            agree("slice_assign", movement::slice_assign(t, &slices, value), want, dtype)
        }
        _ => {
            let number = i64::arbitrary(u)?;
            let mask = u64::MAX >> (64 - 8 * dtype.size());
            let sign = 1u64 << (8 * dtype.size() - 1);
            let (got, change): (_, Box<dyn Fn(u64) -> u64>) = if dtype.is_bool() {
                (elementwise::logical_not(t), Box::new(|bits| bits ^ 1))
            } else if dtype.is_float() {
                (elementwise::unary(Unary::Neg, t), Box::new(move |bits| bits ^ sign))
            } else {
                // A number that the dtype holds.
                let number = number & 0x7F;
                let got = elementwise::binary_scalar(Binary::Add, t, Scalar::Int(number));
                (got, Box::new(move |bits| bits.wrapping_add(number as u64) & mask))
            };
            let want = Model { shape: m.shape.clone(), bits: m.bits.iter().map(|&b| change(b)).collect() };
            agree("an operation in place", got, Some(want), dtype)
        }
    };
    if let Some(result) = result {
        all.push(result);
    } else if all.is_empty() {
        unreachable!("the only tensor is never removed");
    }
    Ok(())
}

/// Kernels that read the layout: comparisons, sums, running sums and sorting.
fn consume(tensor: &Tensor, model: &Model, dtype: DType) {
    use elementwise::Compare;
    let equal = elementwise::compare(Compare::Eq, tensor.clone(), tensor.clone(), BoolStore::Native);
    let equal = equal.expect("operands of one shape").to_vec::<u8>();
    if !dtype.is_float() {
        assert!(equal.len() == model.bits.len() && equal.iter().all(|&b| b == 1), "compare");
    }
    if !dtype.is_int() && !dtype.is_uint() {
        return;
    }
    let (unused, mask) = (64 - 8 * dtype.size() as u32, u64::MAX >> (64 - 8 * dtype.size()));
    let signed = |bits: u64| (bits << unused) as i64 >> unused;
    for axis in 0..model.shape.len() {
        let len = model.shape[axis];
        let product = |sizes: &[usize]| sizes.iter().fold(1usize, |n, &size| n.saturating_mul(size));
        let (inner, outer) = (product(&model.shape[axis + 1..]), product(&model.shape[..axis]));
        // An empty tensor has a sum at each place of the other axes, and these may be of any size. One may be
        // huge beside an axis of size 0.
        if inner.max(outer) > LARGEST || inner * outer > LARGEST {
            continue;
        }
        let at = |o: usize, j: usize, i: usize| (o * len + j) * inner + i;
        let mut sums = vec![0u64; outer * inner];
        let (mut running, mut sorted) = (model.bits.clone(), model.bits.clone());
        for o in 0..outer {
            for i in 0..inner {
                let mut column: Vec<u64> = (0..len).map(|j| model.bits[at(o, j, i)]).collect();
                let sum = &mut sums[o * inner + i];
                for j in 0..len {
                    *sum = sum.wrapping_add(column[j]) & mask;
                    running[at(o, j, i)] = *sum;
                }
                match dtype.is_int() {
                    true => column.sort_by_key(|&bits| signed(bits)),
                    false => column.sort(),
                }
                (0..len).for_each(|j| sorted[at(o, j, i)] = column[j]);
            }
        }
        let mut shape = model.shape.clone();
        Model { shape: shape.clone(), bits: running }.check(
            &reduce::cumsum(tensor.clone(), axis).expect("an axis"),
            dtype,
            "cumsum",
        );
        Model { shape: shape.clone(), bits: sorted }.check(
            &sort::sort(tensor.clone(), axis, false).expect("an axis"),
            dtype,
            "sort",
        );
        shape[axis] = 1;
        Model { shape, bits: sums }.check(
            &reduce::sum_dim(tensor.clone(), axis).expect("an axis"),
            dtype,
            "sum_dim",
        );
    }
}
