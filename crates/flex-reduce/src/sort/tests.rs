//! Against a stable sort by comparison, over every dtype and kind of layout.

use super::*;
use crate::dtype::Element;
use crate::{BoolStore, Slice, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Order by the definition: NaN equal to NaN and greater than the rest, zeros equal.
fn order<T: Element>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        #[allow(clippy::eq_op)]
        let nan = |x: &T| x != x;
        nan(a).cmp(&nan(b))
    })
}

/// The index of each element of a sorted row.
fn sorted<T: Element>(row: &[T], descending: bool) -> Vec<usize> {
    let mut index: Vec<usize> = (0..row.len()).collect();
    index.sort_by(|&a, &b| if descending { order(&row[b], &row[a]) } else { order(&row[a], &row[b]) });
    index
}

/// Elements along `axis`, one list per position of the other axes.
fn lanes<T: Element>(t: &Tensor, axis: usize) -> Vec<Vec<T>> {
    let last = t.rank() - 1;
    let n = t.shape()[axis];
    let flat = t.clone().swap_axes(axis, last).unwrap().to_vec::<T>();
    if n == 0 { vec![] } else { flat.chunks(n).map(|c| c.to_vec()).collect() }
}

/// Bits, so that zeros and NaN are told apart.
fn bits<T: Element>(x: &[T]) -> Vec<Vec<u8>> {
    x.iter().map(|v| bytemuck::bytes_of(v).to_vec()).collect()
}

fn check_tensor<T: Element>(t: &Tensor) {
    let before = bits(&t.to_vec::<T>());
    for axis in 0..t.rank() {
        let n = t.shape()[axis];
        let rows = lanes::<T>(t, axis);
        for descending in [false, true] {
            let want: Vec<Vec<usize>> = rows.iter().map(|r| sorted(r, descending)).collect();
            let values: Vec<Vec<T>> =
                want.iter().zip(&rows).map(|(w, r)| w.iter().map(|&i| r[i]).collect()).collect();
            let what =
                alloc::format!("{:?} along {axis} of {:?}, descending {descending}", t.dtype(), t.layout());
            let same = |got: &Tensor| bits(&lanes::<T>(got, axis).concat()) == bits(&values.concat());
            let indices = |got: &Tensor| -> Vec<Vec<usize>> {
                dispatch!(int "test", got.dtype(), I => {
                    Ok(lanes::<I>(got, axis).iter().map(|l| l.iter().map(|i| i.to_i64() as usize).collect()).collect())
                })
                .unwrap()
            };
            let got = super::sort(t.clone(), axis, descending).unwrap();
            assert!(got.shape() == t.shape() && got.dtype() == t.dtype() && same(&got), "sort of {what}");
            let own = Tensor::from_slice(&t.to_vec::<T>(), t.shape().clone()).unwrap().with_dtype(t.dtype());
            assert!(same(&super::sort(own.clone(), axis, descending).unwrap()), "sort of owned {what}");
            let (got, index) = sort_with_indices(own, axis, descending, DType::I64).unwrap();
            assert!(same(&got) && indices(&index) == want, "sort_with_indices of {what}");
            for dtype in [DType::I32, DType::U16] {
                let index = argsort(t.clone(), axis, descending, dtype).unwrap();
                assert!(index.dtype() == dtype && indices(&index) == want, "argsort of {what}");
            }
            for k in [0, 1, 2, 10, n / 2, n] {
                if !descending || k > n {
                    continue;
                }
                let head = |lists: &[Vec<usize>]| lists.iter().map(|l| l[..k].to_vec()).collect::<Vec<_>>();
                let top: Vec<T> = values.iter().flat_map(|v| v[..k].to_vec()).collect();
                let (got, index) = topk_with_indices(t.clone(), axis, k, DType::I32).unwrap();
                assert!(
                    got.shape()[axis] == k && bits(&lanes::<T>(&got, axis).concat()) == bits(&top),
                    "topk {k} of {what}"
                );
                if k > 0 {
                    assert_eq!(indices(&index), head(&want), "topk_with_indices {k} of {what}");
                    assert_eq!(
                        indices(&argtopk(t.clone(), axis, k, DType::I64).unwrap()),
                        head(&want),
                        "{what}"
                    );
                }
                let got = super::topk(t.clone(), axis, k).unwrap();
                assert!(bits(&lanes::<T>(&got, axis).concat()) == bits(&top), "topk {k} of {what}");
            }
        }
    }
    assert!(bits(&t.to_vec::<T>()) == before, "the shared original was written");
}

fn digit(i: usize) -> i64 {
    ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64 % 1000 - 500
}

fn check<T: Element>(dtype: DType, value: impl Fn(usize) -> T) {
    let make = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        Tensor::from_slice(&(0..count).map(&value).collect::<Vec<T>>(), shape).unwrap().with_dtype(dtype)
    };
    for n in [0, 1, 2, 3, 7, 8, 31, 64, 65, 159, 160, 161, 700, 2048, 5000] {
        check_tensor::<T>(&make(&[n]));
    }
    let base = make(&[4, 5, 170]);
    check_tensor::<T>(&base);
    check_tensor::<T>(&base.clone().permute(&[2, 0, 1]).unwrap());
    check_tensor::<T>(&base.clone().flip(&[0, 2]).unwrap());
    check_tensor::<T>(
        &base.clone().slice(&[Slice::new(1, None, 1), Slice::full(), Slice::new(0, None, 3)]).unwrap(),
    );
    check_tensor::<T>(&base.clone().narrow(2, 0, 1).unwrap().expand(&[4, 5, 9]).unwrap());
    check_tensor::<T>(&base.narrow(2, 0, 12).unwrap().unfold(2, 3, 1).unwrap());
    check_tensor::<T>(&make(&[3, 0]));
}

fn special(i: usize) -> f64 {
    match i % 11 {
        0 => 0.0,
        1 => -0.0,
        2 if i % 3 == 0 => f64::NAN,
        3 if i % 5 == 0 => f64::INFINITY,
        4 if i % 5 == 0 => f64::NEG_INFINITY,
        _ => digit(i) as f64 / 8.0,
    }
}

#[test]
fn floats() {
    check::<f32>(DType::F32, |i| special(i) as f32);
    check::<f32>(DType::F32, |i| digit(i) as f32);
    check::<f64>(DType::F64, special);
    // NaN of both signs and of different payloads are equal, and keep their bits.
    check::<f16>(DType::F16, |i| match special(i) {
        x if x.is_nan() => f16::from_bits(0x7e00 | (i as u16 & 0x81ff)),
        x => f16::from_f64(x),
    });
    check::<bf16>(DType::BF16, |i| bf16::from_f64(special(i)));
}

#[test]
fn integers_and_bools() {
    check::<i8>(DType::I8, |i| digit(i) as i8);
    check::<i16>(DType::I16, |i| digit(i) as i16);
    check::<i32>(DType::I32, |i| digit(i) as i32);
    check::<i64>(DType::I64, |i| digit(i) << 40);
    check::<u8>(DType::U8, |i| digit(i) as u8);
    check::<u16>(DType::U16, |i| digit(i) as u16);
    check::<u32>(DType::U32, |i| digit(i) as u32);
    check::<u64>(DType::U64, |i| digit(i) as u64);
    check::<u8>(DType::Bool(BoolStore::Native), |i| (digit(i) > 0) as u8);
}

#[test]
fn long_rows_are_sorted_in_parallel() {
    let n = 300_000;
    let values: Vec<f32> = (0..n).map(|i| special(i) as f32 + (i % 7) as f32).collect();
    check_large(&values);
    let ints: Vec<i64> = (0..n).map(digit).collect();
    check_large(&ints);
}

fn check_large<T: Element>(values: &[T]) {
    let n = values.len();
    let t = Tensor::from_slice(values, [n]).unwrap();
    for descending in [false, true] {
        let want = sorted(values, descending);
        let want_values: Vec<T> = want.iter().map(|&i| values[i]).collect();
        let got = super::sort(t.clone(), 0, descending).unwrap().to_vec::<T>();
        assert!(bits(&got) == bits(&want_values));
        let (got, index) = sort_with_indices(t.clone(), 0, descending, DType::U32).unwrap();
        assert!(bits(&got.to_vec::<T>()) == bits(&want_values));
        assert!(index.to_vec::<u32>().iter().zip(&want).all(|(&a, &b)| a as usize == b));
        for k in [1, 100, 20_000] {
            if descending {
                let (got, index) = topk_with_indices(t.clone(), 0, k, DType::I64).unwrap();
                assert!(bits(&got.to_vec::<T>()) == bits(&want_values[..k]));
                assert!(index.to_vec::<i64>().iter().zip(&want).all(|(&a, &b)| a as usize == b));
            }
        }
    }
}

#[test]
fn topk_of_ordered_rows() {
    // The worst cases of the threshold: every element passes, or all are equal.
    let n = 5000;
    for values in [(0..n).collect::<Vec<i32>>(), (0..n).rev().collect(), vec![7; n as usize]] {
        let t = Tensor::from_slice(&values, [n as usize]).unwrap();
        let want = sorted(&values, true);
        let got = argtopk(t, 0, 33, DType::I32).unwrap().to_vec::<i32>();
        assert!(got.iter().zip(&want).all(|(&a, &b)| a as usize == b) && got.len() == 33);
    }
}

#[test]
fn bad_arguments_are_refused_in_the_name_of_the_operation() {
    let t = Tensor::from_slice(&vec![1.0f32; 600], [2, 300]).unwrap();
    let message = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert_eq!(
        message(super::sort(t.clone(), 2, false)),
        "sort: axis 2 is out of range for a tensor of rank 2"
    );
    assert!(message(argsort(t.clone(), 1, false, DType::I8)).starts_with("argsort: index dtype is i8"));
    assert!(message(argsort(t.clone(), 1, false, DType::F32)).starts_with("argsort: dtype f32"));
    assert!(
        sort_with_indices(t.clone(), 2, true, DType::I64)
            .unwrap_err()
            .to_string()
            .starts_with("sort_with_indices")
    );
    assert_eq!(message(super::topk(t.clone(), 0, 3)), "topk: k is 3, expected at most 2, the size of axis 0");
    assert!(message(argtopk(t.clone(), 1, 301, DType::I64)).starts_with("argtopk: k is 301"));
    assert!(
        topk_with_indices(t.clone(), 1, 5, DType::U8)
            .unwrap_err()
            .to_string()
            .starts_with("topk_with_indices")
    );
    assert_eq!(super::topk(t, 1, 0).unwrap().shape().to_vec(), [2, 0]);
}

/// No rows, of lengths for which each would be sorted in parallel, and for which memory would not suffice.
#[test]
fn rows_that_do_not_exist_are_sorted() {
    // As long as a shape can be on machines of 32 bits.
    let long = (u32::MAX as usize).min(isize::MAX as usize / 8);
    for shape in [[0, 3], [3, 0], [0, 200_000], [200_000, 0], [0, long]] {
        let t = Tensor::empty(shape, DType::F32).unwrap();
        for axis in [0, 1] {
            assert_eq!(sort(t.clone(), axis, false).unwrap().shape().to_vec(), shape);
            assert_eq!(argsort(t.clone(), axis, true, DType::I64).unwrap().shape().to_vec(), shape);
            let (values, indices) = sort_with_indices(t.clone(), axis, false, DType::I64).unwrap();
            assert_eq!((values.shape().to_vec(), indices.shape().to_vec()), (shape.to_vec(), shape.to_vec()));
            assert!(topk(t.clone(), axis, 0).is_ok());
        }
    }
}
