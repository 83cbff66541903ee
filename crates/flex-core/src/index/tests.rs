use super::*;
use crate::{BoolStore, DType, Element, Layout, Result, Scalar, Shape, Slice, Tensor, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// All indices of a shape in row-major order.
fn coordinates(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut list = vec![vec![]];
    for &size in shape {
        list = list
            .into_iter()
            .flat_map(|index| (0..size).map(move |i| [index.clone(), vec![i]].concat()))
            .collect();
    }
    list
}

fn pick<T: Element>(tensor: &Tensor, index: &[usize]) -> T {
    tensor.storage::<T>()[tensor.layout().position(index)]
}

fn elements<T: Element>(tensor: &Tensor) -> Vec<T> {
    coordinates(tensor.shape()).iter().map(|i| pick(tensor, i)).collect()
}

/// A deterministic sequence of numbers below `bound`.
fn sequence(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |bound| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % bound.max(1)
    }
}

/// Small whole numbers, exact in every dtype.
fn numbers<T: Element>(shape: &[usize], seed: u64) -> Tensor {
    let mut next = sequence(seed);
    let count = shape.iter().product();
    let values: Vec<T> = (0..count).map(|_| T::from_u64(next(7) as u64)).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

fn index_tensor<I: Element>(shape: &[usize], bound: usize, seed: u64) -> Tensor {
    let mut next = sequence(seed);
    let count = shape.iter().product();
    let values: Vec<I> = (0..count).map(|_| I::from_u64(next(bound) as u64)).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

/// Tensors of this shape in several layouts, made by `make` from the shape of a buffer.
fn layouts(shape: &[usize], make: impl Fn(&[usize]) -> Tensor) -> Vec<Tensor> {
    let rank = shape.len();
    let backwards: Vec<usize> = (0..rank).rev().collect();
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let doubled: Vec<usize> = shape.iter().map(|s| 2 * s).collect();
    let mut list = vec![
        make(shape),
        make(&reversed).permute(&backwards).unwrap(),
        make(shape).flip(&backwards).unwrap(),
        make(&doubled).slice(&vec![Slice::new(1, None, 2); rank]).unwrap(),
    ];
    for axis in 0..rank {
        let mut one = shape.to_vec();
        one[axis] = 1;
        list.push(make(&one).expand(shape).unwrap());
    }
    if rank > 0 {
        list.push(behind_others(shape, &make));
    }
    if rank > 0 && shape[rank - 1] > 0 {
        // Overlapping windows.
        let mut base = shape[..rank - 1].to_vec();
        let width = shape[rank - 1];
        base.push(width + 1);
        let windows = make(&base).unfold(rank - 1, width, 1).unwrap();
        list.push(windows.narrow(rank - 1, 0, 1).unwrap().reshape(shape.to_vec()).unwrap());
    }
    list
}

/// A tensor that is contiguous, but not from the start of its buffer.
fn behind_others(shape: &[usize], make: impl Fn(&[usize]) -> Tensor) -> Tensor {
    let mut base = shape.to_vec();
    base[0] += 3;
    make(&base).narrow(0, 3, shape[0]).unwrap()
}

fn gather_by_definition<T: Element>(axis: usize, t: &Tensor, indices: &Tensor) -> Vec<T> {
    coordinates(indices.shape())
        .into_iter()
        .map(|mut i| {
            i[axis] = pick::<i64>(indices, &i) as usize;
            pick(t, &i)
        })
        .collect()
}

#[test]
fn gather_of_every_layout_and_axis() {
    for axis in 0..3 {
        let shape = [3, 4, 5];
        let mut index_shape = shape;
        index_shape[axis] = 7;
        let mut corner = [2, 2, 2];
        corner[axis] = 3;
        for t in layouts(&shape, |s| numbers::<f32>(s, 1)) {
            for index_shape in [index_shape, corner] {
                for indices in layouts(&index_shape, |s| index_tensor::<i64>(s, shape[axis], 2)) {
                    let got = gather(axis, t.clone(), indices.clone()).unwrap();
                    assert_eq!(got.shape(), indices.shape());
                    assert_eq!(elements::<f32>(&got), gather_by_definition::<f32>(axis, &t, &indices));
                }
            }
        }
    }
}

#[test]
fn long_rows_are_shared_by_threads_at_any_point() {
    for (shape, axis) in [([3, 100_001], 1), ([100_001, 3], 0), ([1, 300_000], 1), ([300_000, 1], 0)] {
        let t = numbers::<f32>(&shape, 3);
        let indices = index_tensor::<i64>(&shape, shape[axis], 4);
        let got = gather(axis, t.clone(), indices.clone()).unwrap();
        let (t, indices) = (t.to_vec::<f32>(), indices.to_vec::<i64>());
        let want = indices.iter().enumerate().map(|(at, &i)| match axis {
            0 => t[i as usize * shape[1] + at % shape[1]],
            _ => t[at / shape[1] * shape[1] + i as usize],
        });
        assert!(got.to_vec::<f32>().into_iter().eq(want));
    }
}

fn select_by_definition<T: Element>(t: &Tensor, axis: usize, indices: &Tensor) -> Vec<T> {
    let mut shape = t.shape().to_vec();
    shape[axis] = indices.num_elements();
    coordinates(&shape)
        .into_iter()
        .map(|mut i| {
            i[axis] = pick::<i64>(indices, &[i[axis]]) as usize;
            pick(t, &i)
        })
        .collect()
}

#[test]
fn select_of_every_layout_and_axis() {
    for shape in [vec![5], vec![3, 4, 5], vec![1, 4, 1], vec![2, 3, 0], vec![2, 2, 3, 17]] {
        for axis in 0..shape.len() {
            for t in layouts(&shape, |s| numbers::<f32>(s, 5)) {
                if shape[axis] == 0 {
                    continue;
                }
                for count in [0, 1, 9] {
                    for indices in layouts(&[count], |s| index_tensor::<i64>(s, shape[axis], 6)) {
                        let got = select(t.clone(), axis, indices.clone()).unwrap();
                        assert_eq!(elements::<f32>(&got), select_by_definition::<f32>(&t, axis, &indices));
                    }
                }
            }
        }
    }
    let t = numbers::<f32>(&[400, 500], 7);
    for axis in 0..2 {
        for t in [t.clone(), t.clone().swap_axes(0, 1).unwrap()] {
            let indices = index_tensor::<i64>(&[701], 400, 8);
            let got = select(t.clone(), axis, indices.clone()).unwrap();
            assert!(elements::<f32>(&got) == select_by_definition::<f32>(&t, axis, &indices));
        }
    }
}

#[test]
fn embedding_looks_rows_up() {
    let weights = numbers::<f32>(&[6, 5], 9);
    for weights in [weights.clone(), numbers::<f32>(&[5, 6], 9).swap_axes(0, 1).unwrap()] {
        let indices = index_tensor::<i64>(&[2, 3], 6, 10);
        let got = embedding(weights.clone(), indices.clone()).unwrap();
        assert_eq!(got.shape().as_slice(), [2, 3, 5]);
        let flat = indices.reshape([6]).unwrap();
        assert_eq!(got.to_vec::<f32>(), select_by_definition::<f32>(&weights, 0, &flat));
    }
}

/// Updates by definition: in `f64`, in row-major order of the updates, at the places that `target` names.
fn update_by_definition(
    t: &Tensor,
    values: &Tensor,
    update: Update,
    target: impl Fn(&[usize]) -> Vec<usize>,
) -> Vec<f64> {
    let read = |t: &Tensor, i: &[usize]| {
        let at = t.layout().position(i);
        let number: Result<f64> = dispatch!(any "test", t.dtype(), T => Ok(t.storage::<T>()[at].to_f64()));
        number.unwrap()
    };
    let base = Layout::contiguous(t.shape().clone());
    let mut out: Vec<f64> = coordinates(t.shape()).iter().map(|i| read(t, i)).collect();
    for i in coordinates(values.shape()) {
        let (o, v) = (&mut out[base.position(&target(&i))], read(values, &i));
        *o = match update {
            Update::Assign => v,
            Update::Add => *o + v,
            Update::Mul => *o * v,
            Update::Min => (*o).min(v),
            Update::Max => (*o).max(v),
            Update::Or => ((*o as u64) | (v as u64)) as f64,
        };
    }
    out
}

fn to_f64(t: &Tensor) -> Vec<f64> {
    let numbers: Result<Vec<f64>> = dispatch!(any "test", t.dtype(), T => Ok(elements::<T>(t).into_iter().map(Element::to_f64).collect()));
    numbers.unwrap()
}

const UPDATES: [Update; 6] = [Update::Assign, Update::Add, Update::Mul, Update::Min, Update::Max, Update::Or];

#[test]
fn scatter_of_every_dtype_and_update() {
    fn check<T: Element>() {
        for update in UPDATES {
            if T::IS_FLOAT && update == Update::Or {
                continue;
            }
            // Products stay below the limits of 8 bits: at most two updates meet.
            let t = numbers::<T>(&[6, 3], 11);
            let indices =
                Tensor::from_slice(&[0i64, 5, 1, 1, 2, 3, 5, 4, 4, 3, 1, 0, 0, 2, 5], [5, 3]).unwrap();
            let values = Tensor::from_slice(
                &[3u8, 1, 2, 0, 5, 2, 1, 3, 1, 4, 2, 3, 2, 1, 1].map(|v| T::from_u64(v as u64)),
                [5, 3],
            )
            .unwrap();
            let want =
                update_by_definition(&t, &values, update, |i| vec![pick::<i64>(&indices, i) as usize, i[1]]);
            let got = scatter(0, t, indices, values, update).unwrap();
            assert_eq!(got.dtype(), T::DTYPE);
            assert_eq!(to_f64(&got), want, "{:?} {update:?}", T::DTYPE);
        }
    }
    check::<f64>();
    check::<f32>();
    check::<f16>();
    check::<bf16>();
    check::<i64>();
    check::<i32>();
    check::<i16>();
    check::<i8>();
    check::<u64>();
    check::<u32>();
    check::<u16>();
    check::<u8>();
}

fn check_scatter(axis: usize, t: &Tensor, indices: &Tensor, values: &Tensor, update: Update) {
    let want = update_by_definition(t, values, update, |i| {
        let mut i = i.to_vec();
        i[axis] = pick::<i64>(indices, &i) as usize;
        i
    });
    let before = elements::<f32>(t);
    let shared = scatter(axis, t.clone(), indices.clone(), values.clone(), update).unwrap();
    assert!(to_f64(&shared) == want, "{:?} {axis} {update:?}", t.layout());
    assert!(elements::<f32>(t) == before, "the shared original changed");
    let alone = crate::movement::materialise::materialise(t).unwrap();
    let buffer = alone.storage::<f32>().as_ptr();
    let got = scatter(axis, alone, indices.clone(), values.clone(), update).unwrap();
    assert!(to_f64(&got) == want);
    assert_eq!(got.storage::<f32>().as_ptr(), buffer, "in place");
}

#[test]
fn scatter_of_every_layout_and_axis() {
    for axis in 0..3 {
        let shape = [3, 4, 5];
        let mut index_shape = shape;
        index_shape[axis] = 7;
        let mut corner = [2, 2, 2];
        corner[axis] = 3;
        for t in layouts(&shape, |s| numbers::<f32>(s, 12)) {
            for index_shape in [index_shape, corner] {
                let all_indices = layouts(&index_shape, |s| index_tensor::<i64>(s, shape[axis], 13));
                let all_values = layouts(&index_shape, |s| numbers::<f32>(s, 14));
                for (indices, values) in all_indices.iter().zip(&all_values) {
                    check_scatter(axis, &t, indices, values, Update::Add);
                    check_scatter(axis, &t, &all_indices[0], values, Update::Assign);
                }
            }
        }
    }
}

#[test]
fn large_scatters_take_every_path() {
    // Columns shared by threads, outer blocks shared by threads, one long column.
    for (shape, index_shape, axis) in [
        (vec![50, 1100], vec![90, 1100], 0),
        (vec![90, 40, 11], vec![90, 130, 11], 1),
        (vec![90, 40, 11], vec![80, 130, 9], 1),
        (vec![1000, 97], vec![1000, 97], 1),
        (vec![5000], vec![99_999], 0),
    ] {
        let t = numbers::<f32>(&shape, 15);
        let indices = index_tensor::<i64>(&index_shape, shape[axis], 16);
        let values = numbers::<f32>(&index_shape, 17);
        check_scatter(axis, &t, &indices, &values, Update::Add);
        check_scatter(axis, &t, &indices, &values, Update::Assign);
        let indices = behind_others(&index_shape, |s| index_tensor::<i64>(s, shape[axis], 18));
        let values = behind_others(&index_shape, |s| numbers::<f32>(s, 19));
        check_scatter(axis, &t, &indices, &values, Update::Add);
    }
}

fn check_select_update(t: &Tensor, axis: usize, indices: &Tensor, values: &Tensor, update: Update) {
    let want = update_by_definition(t, values, update, |i| {
        let mut i = i.to_vec();
        i[axis] = pick::<i64>(indices, &[i[axis]]) as usize;
        i
    });
    let before = elements::<f32>(t);
    let got = select_update(t.clone(), axis, indices.clone(), values.clone(), update).unwrap();
    assert!(to_f64(&got) == want, "{:?} {axis} {update:?}", t.layout());
    assert!(elements::<f32>(t) == before, "the shared original changed");
}

#[test]
fn select_update_of_every_layout_and_axis() {
    for axis in 0..3 {
        let shape = [3, 4, 5];
        let mut value_shape = shape;
        value_shape[axis] = 7;
        for t in layouts(&shape, |s| numbers::<f32>(s, 18)) {
            for values in layouts(&value_shape, |s| numbers::<f32>(s, 19)) {
                for indices in layouts(&[7], |s| index_tensor::<i64>(s, shape[axis], 20)) {
                    check_select_update(&t, axis, &indices, &values, Update::Add);
                    check_select_update(&t, axis, &indices, &values, Update::Assign);
                }
            }
        }
    }
    // Rows shared by threads, outer blocks shared by threads.
    for (shape, axis) in
        [(vec![1001, 70], 0), (vec![3, 200, 70], 1), (vec![100, 30, 9], 1), (vec![300, 99], 1)]
    {
        let mut value_shape = shape.clone();
        value_shape[axis] = 2000;
        let t = numbers::<f32>(&shape, 21);
        let indices = index_tensor::<i64>(&[2000], shape[axis], 22);
        check_select_update(&t, axis, &indices, &numbers::<f32>(&value_shape, 23), Update::Add);
        check_select_update(&t, axis, &indices, &numbers::<f32>(&value_shape, 24), Update::Assign);
    }
}

#[test]
fn embedding_backward_adds_rows_to_zeros() {
    let weights = numbers::<f32>(&[6, 3], 25);
    let indices = index_tensor::<i64>(&[2, 4], 6, 26);
    let grad = numbers::<f64>(&[2, 4, 3], 27);
    let zeros = Tensor::full([6, 3], Scalar::Int(0), DType::F64).unwrap();
    let want = update_by_definition(&zeros, &grad, Update::Add, |i| {
        vec![pick::<i64>(&indices, &i[..2]) as usize, i[2]]
    });
    let got = embedding_backward(weights.clone(), grad.clone(), indices.clone()).unwrap();
    assert_eq!((got.dtype(), to_f64(&got)), (DType::F64, want));
    let error = embedding_backward(weights, grad.narrow(2, 0, 2).unwrap(), indices).unwrap_err();
    assert!(error.to_string().starts_with("embedding_backward: got a tensor of shape [2, 4, 2]"));
}

#[test]
fn coordinates_address_any_number_of_leading_axes() {
    let shape = [3, 4, 5];
    for k in 0..=3 {
        for batch in [vec![], vec![6], vec![2, 3]] {
            let mut index_shape = batch.clone();
            index_shape.push(k);
            let mut next = sequence(28);
            let count: usize = batch.iter().product();
            let flat: Vec<i64> = (0..count)
                .flat_map(|_| (0..k).map(|axis| next(shape[axis]) as i64).collect::<Vec<_>>())
                .collect();
            let contiguous = Tensor::from_slice(&flat, index_shape.clone()).unwrap();
            // The same indices, apart in memory.
            let mut apart_shape = index_shape.clone();
            apart_shape.push(1);
            let mut pair = apart_shape.clone();
            pair[batch.len() + 1] = 2;
            let apart = contiguous.clone().reshape(apart_shape).unwrap().expand(&pair).unwrap();
            let apart = crate::movement::materialise::materialise(&apart).unwrap();
            let apart = apart.narrow(batch.len() + 1, 1, 1).unwrap().reshape(index_shape.clone()).unwrap();
            for indices in [contiguous, apart] {
                let address = |i: &[usize]| {
                    let mut at: Vec<usize> = (0..k)
                        .map(|axis| pick::<i64>(&indices, &[&i[..batch.len()], &[axis]].concat()) as usize)
                        .collect();
                    at.extend(&i[batch.len()..]);
                    at
                };
                let out_shape = [&batch[..], &shape[k..]].concat();
                for t in layouts(&shape, |s| numbers::<f32>(s, 29)) {
                    let got = gather_nd(t.clone(), indices.clone()).unwrap();
                    assert_eq!(got.shape().as_slice(), out_shape);
                    let want: Vec<f32> =
                        coordinates(&out_shape).iter().map(|i| pick(&t, &address(i))).collect();
                    assert_eq!(elements::<f32>(&got), want);
                    let values = numbers::<f32>(&out_shape, 30);
                    for update in &UPDATES[..5] {
                        let want = update_by_definition(&t, &values, *update, address);
                        let before = elements::<f32>(&t);
                        let got = scatter_nd(t.clone(), indices.clone(), values.clone(), *update).unwrap();
                        assert_eq!(to_f64(&got), want, "{update:?}");
                        assert_eq!(elements::<f32>(&t), before);
                    }
                }
            }
        }
    }
}

#[test]
fn large_gathers_by_coordinates() {
    let t = numbers::<f32>(&[300, 40], 31);
    let (rows, columns) =
        (index_tensor::<i64>(&[70_000, 1], 300, 32), index_tensor::<i64>(&[70_000, 1], 40, 33));
    let indices = crate::movement::cat(vec![rows.clone(), columns.clone()], 1).unwrap();
    let got = gather_nd(t.clone(), indices).unwrap().to_vec::<f32>();
    let (flat, rows, columns) = (t.to_vec::<f32>(), rows.to_vec::<i64>(), columns.to_vec::<i64>());
    let want = rows.iter().zip(&columns).map(|(&r, &c)| flat[(r * 40 + c) as usize]);
    assert!(got.into_iter().eq(want));
    let got = gather_nd(t.clone(), index_tensor::<i64>(&[3000, 1], 300, 34)).unwrap();
    let want = select(t, 0, index_tensor::<i64>(&[3000], 300, 34)).unwrap();
    assert!(got.to_vec::<f32>() == want.to_vec::<f32>());
}

#[test]
fn every_index_dtype_reads_the_same() {
    fn check<I: Element>() {
        let t = numbers::<f32>(&[100, 3], 35);
        let want = select_by_definition::<f32>(&t, 0, &index_tensor::<i64>(&[300], 100, 36));
        let indices = index_tensor::<I>(&[300], 100, 36);
        assert_eq!(select(t.clone(), 0, indices.clone()).unwrap().to_vec::<f32>(), want);
        let strided = index_tensor::<I>(&[300, 1], 100, 36).expand(&[300, 3]).unwrap();
        assert_eq!(gather(0, t.clone(), strided).unwrap().to_vec::<f32>(), want);
        let wide = indices.reshape([3, 100]).unwrap().swap_axes(0, 1).unwrap();
        let got = gather(0, t.clone(), wide.clone()).unwrap();
        for i in [[0, 0], [99, 2], [57, 1]] {
            assert_eq!(
                pick::<f32>(&got, &i),
                pick::<f32>(&t, &[pick::<I>(&wide, &i).to_i64() as usize, i[1]])
            );
        }
    }
    check::<i64>();
    check::<i32>();
    check::<i16>();
    check::<i8>();
    check::<u64>();
    check::<u32>();
    check::<u16>();
    check::<u8>();
}

#[test]
fn every_dtype_is_read() {
    fn check<T: Element>() {
        let t = numbers::<T>(&[5, 4], 37);
        let indices = index_tensor::<i64>(&[5, 4], 5, 38);
        assert_eq!(
            gather(0, t.clone(), indices.clone()).unwrap().to_vec::<T>(),
            gather_by_definition::<T>(0, &t, &indices)
        );
        let one = index_tensor::<i64>(&[7], 4, 39);
        let got = select(t.clone(), 1, one.clone()).unwrap();
        assert_eq!((got.dtype(), got.to_vec::<T>()), (T::DTYPE, select_by_definition::<T>(&t, 1, &one)));
    }
    check::<f64>();
    check::<f32>();
    check::<f16>();
    check::<bf16>();
    check::<i64>();
    check::<i32>();
    check::<i16>();
    check::<i8>();
    check::<u64>();
    check::<u32>();
    check::<u16>();
    check::<u8>();
}

#[test]
fn booleans_are_read_and_joined_by_or() {
    let t = Tensor::from_bools(&[true, false, false, true], [4]).unwrap();
    let indices = Tensor::from_slice(&[3i64, 1, 1, 0], [4]).unwrap();
    let got = select(t.clone(), 0, indices.clone()).unwrap();
    assert_eq!((got.dtype(), got.to_vec::<u8>()), (DType::Bool(BoolStore::Native), vec![1, 0, 0, 1]));
    let values = Tensor::from_bools(&[false, true, false, false], [4]).unwrap();
    for (update, want) in [
        (Update::Or, [1, 1, 0, 1]),
        (Update::Add, [1, 1, 0, 1]),
        (Update::Max, [1, 1, 0, 1]),
        (Update::Mul, [0, 0, 0, 0]),
        (Update::Min, [0, 0, 0, 0]),
        (Update::Assign, [0, 0, 0, 0]),
    ] {
        let got = scatter(0, t.clone(), indices.clone(), values.clone(), update).unwrap();
        assert_eq!((got.dtype(), got.to_vec::<u8>()), (t.dtype(), want.to_vec()), "{update:?}");
        let got = select_update(t.clone(), 0, indices.clone(), values.clone(), update).unwrap();
        assert_eq!(got.to_vec::<u8>(), want, "{update:?}");
    }
}

#[test]
fn nan_propagates_and_integers_wrap() {
    let zero = Tensor::from_slice(&[0i64, 0], [2]).unwrap();
    for update in [Update::Min, Update::Max, Update::Add, Update::Mul] {
        for (there, values) in [(1.0, [f32::NAN, 2.0]), (1.0, [2.0, f32::NAN]), (f32::NAN, [1.0, 2.0])] {
            let t = Tensor::from_slice(&[there], [1]).unwrap();
            let v = Tensor::from_slice(&values, [2]).unwrap();
            assert!(scatter(0, t.clone(), zero.clone(), v.clone(), update).unwrap().item::<f32>().is_nan());
            assert!(select_update(t, 0, zero.clone(), v, update).unwrap().item::<f32>().is_nan());
            let t = Tensor::from_slice(&[f16::from_f32(there)], [1, 1]).unwrap();
            let v = Tensor::from_slice(&values.map(f16::from_f32), [2, 1]).unwrap();
            let zero = zero.clone().reshape([2, 1]).unwrap();
            assert!(scatter_nd(t, zero, v, update).unwrap().item::<f16>().is_nan());
        }
    }
    let t = Tensor::from_slice(&[i32::MAX], [1]).unwrap();
    let v = Tensor::from_slice(&[1i32, 1], [2]).unwrap();
    assert_eq!(scatter(0, t, zero.clone(), v, Update::Add).unwrap().item::<i32>(), i32::MIN + 1);
    let t = Tensor::from_slice(&[100u8], [1]).unwrap();
    let v = Tensor::from_slice(&[2u8, 2], [2]).unwrap();
    assert_eq!(scatter(0, t, zero, v, Update::Mul).unwrap().item::<u8>(), 144);
}

#[test]
fn half_sums_do_not_stagnate() {
    // In f16, 2048 + 1 is 2048.
    let count = 10_000;
    let ones = Tensor::full([count], Scalar::Int(1), DType::F16).unwrap();
    let zero = Tensor::full([1], Scalar::Int(0), DType::F16).unwrap();
    let indices = Tensor::full([count], Scalar::Int(0), DType::I64).unwrap();
    let got = scatter(0, zero.clone(), indices.clone(), ones.clone(), Update::Add).unwrap();
    assert_eq!(got.item::<f16>(), f16::from_f32(count as f32));
    let got = select_update(zero, 0, indices, ones, Update::Add).unwrap();
    assert_eq!(got.item::<f16>(), f16::from_f32(count as f32));
}

#[test]
fn nonzero_lists_what_is_true() {
    for shape in [
        vec![],
        vec![7],
        vec![3, 5],
        vec![2, 1, 9],
        vec![4, 3, 2, 5],
        vec![3, 0],
        vec![300, 301],
        vec![9, 70_001],
    ] {
        for density in [1, 2, 9, 1000] {
            let mut next = sequence(40);
            let count = shape.iter().product();
            let values: Vec<bool> = (0..count).map(|_| next(density) == 0).collect();
            let mask = Tensor::from_bools(&values, shape.clone()).unwrap();
            let backwards: Vec<usize> = (0..shape.len()).rev().collect();
            for mask in [mask.clone(), mask.permute(&backwards).unwrap()] {
                if count > 100_000 && density < 9 {
                    continue;
                }
                let got = nonzero(mask.clone(), DType::I32).unwrap();
                let want: Vec<Vec<usize>> =
                    coordinates(mask.shape()).into_iter().filter(|i| pick::<u8>(&mask, i) != 0).collect();
                assert_eq!(got.shape().as_slice(), [want.len(), shape.len()]);
                assert!(got.to_vec::<i32>().into_iter().eq(want.concat().into_iter().map(|i| i as i32)));
            }
        }
    }
    let mask = Tensor::full([128], Scalar::Bool(true), DType::Bool(BoolStore::U8)).unwrap();
    assert_eq!(nonzero(mask.clone(), DType::I8).unwrap().to_vec::<i8>()[127], 127);
    assert_eq!(nonzero(mask, DType::U64).unwrap().dtype(), DType::U64);
    let message = |t: Tensor, dtype| nonzero(t, dtype).unwrap_err().to_string();
    let wide = Tensor::full([129], Scalar::Bool(true), DType::Bool(BoolStore::U8)).unwrap();
    assert!(message(wide.clone(), DType::I8).starts_with("nonzero: got a tensor of shape [129]"));
    assert!(message(wide, DType::F32).starts_with("nonzero: dtype f32"));
    assert!(message(numbers::<i32>(&[2], 1), DType::I64).starts_with("nonzero: dtype i32"));
}

#[test]
fn bad_indices_are_refused_before_anything_is_written() {
    fn check<I: Element>(bad: I, shown: &str) {
        let t = || numbers::<f32>(&[5, 4], 41);
        let expect = |error: crate::Error, op: &str| {
            let want = alloc::format!("{op}: index {shown} is out of range for axis 0 of size 5");
            assert_eq!(error.to_string(), want);
        };
        let one = Tensor::from_slice(&[I::from_u64(4), bad, I::ZERO], [3]).unwrap();
        let two = Tensor::from_slice(&[I::from_u64(4), bad, I::ZERO, I::ZERO], [1, 4]).unwrap();
        expect(select(t(), 0, one.clone()).unwrap_err(), "select");
        expect(select(t(), 0, one.clone().flip(&[0]).unwrap()).unwrap_err(), "select");
        expect(gather(0, t(), two.clone()).unwrap_err(), "gather");
        let expanded = two.clone().swap_axes(0, 1).unwrap().expand(&[4, 4]).unwrap();
        expect(gather(0, t(), expanded).unwrap_err(), "gather");
        let values = numbers::<f32>(&[1, 4], 1);
        expect(scatter(0, t(), two, values, Update::Add).unwrap_err(), "scatter");
        let rows = numbers::<f32>(&[3, 4], 1);
        expect(select_update(t(), 0, one.clone(), rows.clone(), Update::Add).unwrap_err(), "select_update");
        expect(embedding(t(), one.clone().reshape([1, 3]).unwrap()).unwrap_err(), "embedding");
        let coordinates = one.clone().reshape([3, 1]).unwrap();
        expect(gather_nd(t(), coordinates.clone()).unwrap_err(), "gather_nd");
        expect(scatter_nd(t(), coordinates, rows.clone(), Update::Add).unwrap_err(), "scatter_nd");
        let grad = rows.reshape([3, 1, 4]).unwrap();
        let error = embedding_backward(t(), grad, one.reshape([3, 1]).unwrap()).unwrap_err();
        expect(error, "embedding_backward");
    }
    check(-1i64, "-1");
    check(5i64, "5");
    check(i64::MIN, "-9223372036854775808");
    check(-1i32, "-1");
    check(i16::MAX, "32767");
    check(-128i8, "-128");
    check(u64::MAX, "18446744073709551615");
    check(u32::MAX, "4294967295");
    check(5u16, "5");
    check(255u8, "255");
    // Far into a long index tensor.
    let mut long = vec![0i32; 500_000];
    long[400_001] = 7;
    let long = Tensor::from_slice(&long, [500_000]).unwrap();
    assert!(select(numbers::<f32>(&[7], 1), 0, long).unwrap_err().to_string().contains("index 7 "));
    // An empty axis has no valid index, but no index is fine.
    let empty = numbers::<f32>(&[0, 3], 1);
    let none = Tensor::from_slice::<i64>(&[], [0]).unwrap();
    assert_eq!(select(empty.clone(), 0, none).unwrap().shape().as_slice(), [0, 3]);
    let zero = Tensor::from_slice(&[0i64], [1]).unwrap();
    assert!(select(empty, 0, zero).unwrap_err().to_string().ends_with("axis 0 of size 0"));
}

#[test]
fn shapes_and_dtypes_are_checked() {
    let t = || numbers::<f32>(&[5, 4], 1);
    let i = |shape: &[usize]| index_tensor::<i64>(shape, 4, 2);
    let starts = |result: Result<Tensor>, want: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(want), "{message}");
    };
    starts(gather(2, t(), i(&[5, 4])), "gather: axis 2");
    starts(gather(0, t(), i(&[5, 5])), "gather: shapes [5, 4] and [5, 5]");
    starts(gather(0, t(), i(&[5])), "gather: shapes");
    starts(gather(0, t(), t()), "gather: dtype f32");
    starts(select(t(), 2, i(&[1])), "select: axis 2");
    starts(select(t(), 0, i(&[1, 1])), "select: got a tensor of shape [1, 1]");
    starts(select(t(), 0, t().reshape([20]).unwrap()), "select: dtype f32");
    starts(select(t(), 0, i(&[1]).expand(&[1 << 60]).unwrap_or(i(&[0, 0]))), "select: ");
    starts(scatter(0, t(), i(&[5, 4]), numbers::<f32>(&[5, 3], 1), Update::Add), "scatter: shapes");
    starts(scatter(0, t(), i(&[5, 4]), numbers::<i32>(&[5, 4], 1), Update::Add), "scatter: operands");
    starts(scatter(0, t(), i(&[5, 4]), t(), Update::Or), "scatter: dtype f32");
    starts(scatter(0, t(), t(), t(), Update::Add), "scatter: dtype f32");
    starts(select_update(t(), 1, i(&[3]), t(), Update::Add), "select_update: shapes");
    starts(
        select_update(t(), 0, i(&[5]), numbers::<f64>(&[5, 4], 1), Update::Add),
        "select_update: operands",
    );
    starts(embedding(numbers::<f32>(&[4], 1), i(&[1])), "embedding: got");
    starts(gather_nd(t(), i(&[2, 3])), "gather_nd: got a tensor of shape [2, 3]");
    starts(gather_nd(t(), Tensor::from_slice(&[0i64], Shape::new([])).unwrap()), "gather_nd: got");
    starts(gather_nd(t(), numbers::<f32>(&[2, 0], 1)), "gather_nd: dtype f32");
    starts(scatter_nd(t(), i(&[2, 1]), numbers::<f32>(&[2, 3], 1), Update::Add), "scatter_nd: got");
}

#[cfg(feature = "rayon")]
#[test]
fn sums_are_the_same_bits_on_any_number_of_threads() {
    // Values whose sum depends on the order.
    let values = |shape: &[usize]| {
        let mut next = sequence(50);
        let count = shape.iter().product();
        let list: Vec<f32> =
            (0..count).map(|_| (next(1000) as f32 - 500.0) * 0.1f32.powi(next(8) as i32)).collect();
        Tensor::from_slice(&list, shape.to_vec()).unwrap()
    };
    let run = || {
        let rows = select_update(
            values(&[64, 200]),
            0,
            index_tensor::<i64>(&[3000], 64, 51),
            values(&[3000, 200]),
            Update::Add,
        );
        let columns = scatter(
            0,
            values(&[64, 1000]),
            index_tensor::<i64>(&[300, 1000], 64, 52),
            values(&[300, 1000]),
            Update::Add,
        );
        let blocks = scatter(
            1,
            values(&[64, 10, 30]),
            index_tensor::<i64>(&[64, 99, 30], 10, 53),
            values(&[64, 99, 30]),
            Update::Add,
        );
        [rows, columns, blocks].map(|t| t.unwrap().to_vec::<f32>())
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let want = pool(1).install(run);
    for threads in [2, 8] {
        assert!(pool(threads).install(run) == want, "{threads} threads");
    }
}

proptest! {
    #[test]
    fn scatter_then_gather_of_a_permutation_is_the_identity(
        (axis, shape) in prop::collection::vec(1usize..7, 1..4).prop_flat_map(|s| (0..s.len(), Just(s))),
        seed in any::<u64>(),
    ) {
        let mut next = sequence(seed);
        let size = shape[axis];
        let mut order: Vec<i64> = (0..size as i64).collect();
        (1..size).for_each(|i| order.swap(i, next(i + 1)));
        let mut line = vec![1; shape.len()];
        line[axis] = size;
        let indices = Tensor::from_slice(&order, line).unwrap().expand(&shape).unwrap();
        let values = numbers::<i16>(&shape, seed);
        let target = Tensor::empty(shape.clone(), DType::I16).unwrap();
        let scattered = scatter(axis, target, indices.clone(), values.clone(), Update::Assign).unwrap();
        let back = gather(axis, scattered, indices).unwrap();
        prop_assert_eq!(back.to_vec::<i16>(), values.to_vec::<i16>());
    }
}
