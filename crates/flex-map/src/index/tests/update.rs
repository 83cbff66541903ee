//! Compares scatter and its relatives with updates one by one, in the order of the definition.

use super::*;
use proptest::prelude::*;

/// Updates by definition: in `f64`, in row-major order of the updates, at the positions that `target` gives.
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
            // Products stay below the limits of 8 bits: at most two updates have the same target.
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
    for_every_number!(check);
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
    let alone = t.materialise().unwrap();
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
    // In this order: threads share columns, threads share outer blocks, one long column.
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
    // In this order: threads share rows, threads share outer blocks.
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
            // The same indices, with gaps in memory.
            let mut apart_shape = index_shape.clone();
            apart_shape.push(1);
            let mut pair = apart_shape.clone();
            pair[batch.len() + 1] = 2;
            let apart = contiguous.clone().reshape(apart_shape).unwrap().expand(&pair).unwrap();
            let apart = apart.materialise().unwrap();
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
    // In f16, 2048 + 1 rounds to 2048.
    let count = 10_000;
    let ones = Tensor::full([count], Scalar::Int(1), DType::F16).unwrap();
    let zero = Tensor::full([1], Scalar::Int(0), DType::F16).unwrap();
    let indices = Tensor::full([count], Scalar::Int(0), DType::I64).unwrap();
    let got = scatter(0, zero.clone(), indices.clone(), ones.clone(), Update::Add).unwrap();
    assert_eq!(got.item::<f16>(), f16::from_f32(count as f32));
    let got = select_update(zero, 0, indices, ones, Update::Add).unwrap();
    assert_eq!(got.item::<f16>(), f16::from_f32(count as f32));
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
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

/// The blocks that a task updates have more bytes than 32 bits count, if one element of each changes.
#[test]
fn few_updates_of_long_blocks() {
    let one = |shape: &[usize]| Tensor::full(shape, 1.0, DType::F32).unwrap();
    for n in [524_288, 524_289, 1 << 20] {
        let sevens = Tensor::from_slice(&[7i32], [1]).unwrap();
        let got = scatter(0, one(&[n]), sevens.clone(), one(&[1]), Update::Add).unwrap();
        let rows = select_update(one(&[n]), 0, sevens, one(&[1]), Update::Add).unwrap();
        for got in [got, rows] {
            let got = got.to_vec::<f32>();
            assert!(got.iter().enumerate().all(|(i, x)| *x == if i == 7 { 2.0 } else { 1.0 }), "{n}");
        }
    }
    let (wide, zeros) = (one(&[2, 262_144]), Tensor::full([2, 1], 0.0, DType::F32).unwrap());
    let slices = [crate::Slice::full(), crate::Slice { start: 0, end: Some(1), step: 1 }];
    let got = crate::movement::slice_assign(wide, &slices, zeros).unwrap().to_vec::<f32>();
    assert!(got.iter().enumerate().all(|(i, x)| *x == if i % 262_144 == 0 { 0.0 } else { 1.0 }));
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
