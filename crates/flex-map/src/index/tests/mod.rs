//! Helpers of the tests of reads and updates, and tests of invalid input.

/// Calls a function of a type of numbers with each of them.
macro_rules! for_every_number {
    ($check:ident) => {
        $check::<f64>();
        $check::<f32>();
        $check::<f16>();
        $check::<bf16>();
        $check::<i64>();
        $check::<i32>();
        $check::<i16>();
        $check::<i8>();
        $check::<u64>();
        $check::<u32>();
        $check::<u16>();
        $check::<u8>();
    };
}

mod read;
mod update;

use super::*;
use crate::layout::coordinates;
use crate::{BoolStore, DType, Element, Layout, Result, Scalar, Shape, Slice, Tensor, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

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
    // An invalid index far into a long index tensor.
    let mut long = vec![0i32; 500_000];
    long[400_001] = 7;
    let long = Tensor::from_slice(&long, [500_000]).unwrap();
    assert!(select(numbers::<f32>(&[7], 1), 0, long).unwrap_err().to_string().contains("index 7 "));
    // An axis of size zero has no valid index, but an empty index tensor is valid.
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
    starts(select(t(), 0, i(&[1]).expand(&[usize::MAX >> 4]).unwrap_or(i(&[0, 0]))), "select: ");
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
