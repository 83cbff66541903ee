//! Compares gather, select, embedding, mask_select and nonzero with their definitions.

use super::*;

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
    for_every_number!(check);
}

/// Where the masks of the tests below are true: everywhere, nowhere, or for one of so many elements.
fn mask_of(shape: &[usize], one_of: usize, seed: u64) -> Tensor {
    let mut next = sequence(seed);
    let values: Vec<bool> = (0..shape.iter().product()).map(|_| one_of != 0 && next(one_of) == 0).collect();
    Tensor::from_bools(&values, shape.to_vec()).unwrap()
}

fn mask_select_by_definition<T: Element>(t: &Tensor, mask: &Tensor) -> Vec<T> {
    let chosen = coordinates(t.shape()).into_iter().filter(|i| pick::<u8>(mask, i) != 0);
    chosen.map(|i| pick(t, &i)).collect()
}

#[test]
fn mask_select_of_every_dtype_and_layout() {
    fn check<T: Element>() {
        for shape in [vec![7], vec![5, 67], vec![3, 1, 64], vec![2, 3, 4, 5], vec![3, 0], vec![0]] {
            for one_of in [0, 1, 2, 9] {
                let masks = layouts(&shape, |s| mask_of(s, one_of, 50));
                for t in layouts(&shape, |s| numbers::<T>(s, 51)) {
                    for mask in &masks {
                        let got = mask_select(t.clone(), mask.clone()).unwrap();
                        let want = mask_select_by_definition::<T>(&t, mask);
                        assert_eq!((got.dtype(), got.shape().as_slice()), (T::DTYPE, &[want.len()][..]));
                        assert_eq!(got.to_vec::<T>(), want, "{:?} {:?}", t.layout(), mask.layout());
                    }
                }
            }
        }
    }
    for_every_number!(check);
    let (yes, no) = (mask_of(&[], 1, 1), mask_of(&[], 0, 1));
    let number = numbers::<f32>(&[], 52);
    let stored = DType::Bool(BoolStore::U8);
    assert_eq!(mask_select(number.clone(), yes.clone()).unwrap().to_vec::<f32>(), number.to_vec::<f32>());
    assert_eq!(mask_select(number, no.with_dtype(stored)).unwrap().shape().as_slice(), [0]);
    assert_eq!(mask_select(yes.clone().with_dtype(stored), yes).unwrap().dtype(), stored);
}

#[test]
fn mask_select_of_several_tasks() {
    for shape in [vec![9, 70_001], vec![70_001, 3], vec![1 << 17]] {
        for one_of in [0, 1, 2, 9, 1000] {
            let backwards: Vec<usize> = (0..shape.len()).rev().collect();
            let (t, mask) = (numbers::<i16>(&shape, 53), mask_of(&shape, one_of, 54));
            let views = [(t.clone(), mask.clone()), (t, mask.flip(&backwards).unwrap())];
            for (t, mask) in views {
                let turned =
                    [t.clone().permute(&backwards).unwrap(), mask.clone().permute(&backwards).unwrap()];
                for [t, mask] in [[t, mask], turned] {
                    let (values, truths) = (t.to_vec::<i16>(), mask.to_vec::<u8>());
                    let chosen = values.into_iter().zip(truths).filter(|&(_, truth)| truth != 0);
                    let want: Vec<i16> = chosen.map(|(value, _)| value).collect();
                    assert_eq!(mask_select(t, mask).unwrap().to_vec::<i16>(), want);
                }
            }
        }
    }
}

#[test]
fn mask_select_refuses_what_is_no_mask_of_the_tensor() {
    let message = |mask| mask_select(numbers::<f32>(&[2, 3], 55), mask).unwrap_err().to_string();
    assert!(message(numbers::<u8>(&[2, 3], 1)).starts_with("mask_select: dtype u8"));
    for shape in [&[3][..], &[1, 3], &[3, 2], &[6], &[2, 3, 1]] {
        assert!(message(mask_of(shape, 1, 1)).starts_with("mask_select: "), "{shape:?}");
    }
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
