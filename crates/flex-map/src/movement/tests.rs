use super::*;
use crate::layout::coordinates;
use crate::{BoolStore, Layout, Shape};
use crate::{bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// The elements in row-major order, read one by one by the layout.
fn elements<T: Element>(tensor: &Tensor) -> Vec<T> {
    coordinates(tensor.shape()).iter().map(|i| tensor.storage::<T>()[tensor.layout().position(i)]).collect()
}

fn iota(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_slice(&(0..count as i32).collect::<Vec<_>>(), shape.to_vec()).unwrap()
}

fn pick(tensor: &Tensor, index: &[usize]) -> i32 {
    tensor.storage::<i32>()[tensor.layout().position(index)]
}

/// Tensors of one shape in every kind of layout.
fn layouts(shape: &[usize]) -> Vec<Tensor> {
    let rank = shape.len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let mut list = vec![
        iota(shape),
        iota(&shape.iter().rev().copied().collect::<Vec<_>>()).permute(&reversed).unwrap(),
        iota(shape).flip(&reversed).unwrap(),
        iota(&shape.iter().map(|s| 2 * s).collect::<Vec<_>>())
            .slice(&vec![Slice::new(0, None, -2); rank])
            .unwrap(),
    ];
    for axis in 0..rank {
        let mut one = shape.to_vec();
        one[axis] = 1;
        list.push(iota(&one).expand(shape).unwrap());
        if axis + 1 == rank && shape[axis] > 0 && rank > 1 {
            // Overlapping windows: the next-to-last axis slides over the last.
            let mut base = shape[..rank - 2].to_vec();
            base.push(shape[rank - 2] + shape[rank - 1]);
            let windows = iota(&base).unfold(rank - 2, shape[rank - 1], 1).unwrap();
            list.push(windows.narrow(rank - 2, 0, shape[rank - 2]).unwrap());
        }
    }
    list
}

#[test]
fn cat_of_every_layout_on_every_axis() {
    for axis in 0..3 {
        let shape = |n: usize| {
            let mut shape = [3, 4, 5];
            shape[axis] = n;
            shape
        };
        for a in layouts(&shape(2)) {
            for b in layouts(&shape(3)) {
                let parts = vec![a.clone(), iota(&shape(0)), b.clone(), a.clone()];
                let got = cat(parts, axis).unwrap();
                assert_eq!(got.shape().as_slice(), shape(7));
                let want: Vec<i32> = coordinates(&shape(7))
                    .into_iter()
                    .map(|mut i| {
                        let (part, skip) = match i[axis] {
                            0..2 => (&a, 0),
                            2..5 => (&b, 2),
                            _ => (&a, 5),
                        };
                        i[axis] -= skip;
                        pick(part, &i)
                    })
                    .collect();
                assert_eq!(elements::<i32>(&got), want);
            }
        }
    }
}

#[test]
fn cat_in_parallel_and_of_every_dtype() {
    let a = iota(&[300, 500]);
    let b = iota(&[500, 300]).swap_axes(0, 1).unwrap();
    let got = cat(vec![a.clone(), b.clone()], 1).unwrap();
    for i in [0, 1, 150, 299] {
        for j in [0, 499, 500, 777, 999] {
            let want = if j < 500 { pick(&a, &[i, j]) } else { pick(&b, &[i, j - 500]) };
            assert_eq!(pick(&got, &[i, j]), want);
        }
    }
    let got = cat(vec![a.clone(), b.clone()], 0).unwrap();
    assert_eq!(elements::<i32>(&got), [elements::<i32>(&a), elements::<i32>(&b)].concat());

    fn check<T: Element>(one: T, two: T) {
        let (a, b) = (Tensor::from_slice(&[one, two], [2]), Tensor::from_slice(&[two], [1]));
        let got = cat(vec![a.unwrap(), b.unwrap()], 0).unwrap();
        assert_eq!((got.dtype(), got.to_vec::<T>()), (T::DTYPE, vec![one, two, two]));
    }
    check(1f64, -2.5);
    check(1f32, f32::INFINITY);
    check(f16::ONE, f16::MIN);
    check(bf16::ONE, bf16::MIN);
    check(1i64, -2);
    check(1i16, -2);
    check(1i8, -2);
    check(1u64, u64::MAX);
    check(1u32, 7);
    check(1u16, 7);
    check(1u8, 7);
    let bools = Tensor::from_bools(&[true, false], [1, 2]).unwrap();
    let got = cat(vec![bools.clone(), bools], 1).unwrap();
    assert_eq!((got.dtype(), got.to_vec::<u8>()), (DType::Bool(BoolStore::Native), vec![1, 0, 1, 0]));
}

#[test]
fn cat_refuses_what_does_not_fit() {
    let message = |tensors, axis| cat(tensors, axis).unwrap_err().to_string();
    assert!(message(vec![], 0).starts_with("cat: number of tensors is 0"));
    assert!(message(vec![iota(&[2, 3])], 2).starts_with("cat: axis 2"));
    assert!(message(vec![iota(&[2, 3]), iota(&[2, 4])], 0).starts_with("cat: shapes [2, 3] and [2, 4]"));
    assert!(message(vec![iota(&[2, 3]), iota(&[2, 3, 1])], 0).starts_with("cat: shapes"));
    let float = Tensor::from_slice(&[1f32], [1]).unwrap();
    assert!(message(vec![iota(&[1]), float], 0).starts_with("cat: operands have dtypes"));
    // An axis of size zero does not hide an overflow.
    let huge = Tensor::empty([0, isize::MAX as usize / 16], DType::U8).unwrap();
    assert!(message(vec![huge.clone(); 8], 1).starts_with("cat: a tensor of shape"));
    assert_eq!(cat(vec![iota(&[0, 3]), iota(&[0, 3])], 1).unwrap().shape().as_slice(), [0, 6]);
}

#[test]
fn repeat_of_every_layout_on_every_axis() {
    for shape in [[2, 3, 4], [1, 1, 5], [3, 2, 1], [2, 0, 3]] {
        for tensor in layouts(&shape) {
            for axis in 0..3 {
                for times in [0, 1, 2, 3, 17] {
                    let got = repeat(tensor.clone(), axis, times).unwrap();
                    let mut want_shape = shape;
                    want_shape[axis] *= times;
                    assert_eq!(got.shape().as_slice(), want_shape);
                    let want: Vec<i32> = coordinates(&want_shape)
                        .into_iter()
                        .map(|mut i| {
                            i[axis] %= shape[axis];
                            pick(&tensor, &i)
                        })
                        .collect();
                    assert_eq!(elements::<i32>(&got), want, "{shape:?} axis {axis} times {times}");
                }
            }
        }
    }
    // Long runs are copied rather than doubled, in parallel.
    let tensor = iota(&[2, 1000]);
    let got = repeat(tensor.clone(), 1, 300).unwrap();
    for (i, j) in [(0, 0), (0, 299_999), (1, 0), (1, 123_456)] {
        assert_eq!(pick(&got, &[i, j]), pick(&tensor, &[i, j % 1000]));
    }
    let got = repeat(iota(&[100_000, 3]), 1, 5).unwrap();
    for (i, j) in [(0, 0), (99_999, 14), (50_001, 7), (33_333, 3)] {
        assert_eq!(pick(&got, &[i, j]), (i * 3 + j % 3) as i32);
    }
    assert!(repeat(iota(&[2]), 1, 2).unwrap_err().to_string().starts_with("repeat: axis 1"));
    assert!(repeat(iota(&[2]), 0, usize::MAX).unwrap_err().to_string().starts_with("repeat: a tensor"));
}

/// `slice_assign` by definition, on row-major elements.
fn assign_by_definition(tensor: &Tensor, slices: &[Slice], value: &Tensor) -> Vec<i32> {
    let mut want = elements::<i32>(tensor);
    let base = Layout::contiguous(tensor.shape().clone());
    for index in coordinates(value.shape()) {
        let at: Vec<usize> = (0..tensor.rank())
            .map(|axis| match slices.get(axis) {
                None => index[axis],
                Some(slice) => {
                    let range = slice.to_range(tensor.shape()[axis]);
                    let step = slice.step.unsigned_abs();
                    if slice.step > 0 {
                        range.start + index[axis] * step
                    } else {
                        range.end - 1 - index[axis] * step
                    }
                }
            })
            .collect();
        want[base.position(&at)] = pick(value, &index);
    }
    want
}

fn check_assign(tensor: &Tensor, slices: &[Slice]) {
    let shape = tensor.clone().slice(slices).unwrap().shape().clone();
    for value in layouts(&shape) {
        let before = elements::<i32>(tensor);
        let want = assign_by_definition(tensor, slices, &value);
        let got = slice_assign(tensor.clone(), slices, value.clone()).unwrap();
        assert_eq!(elements::<i32>(&got), want, "shared, {slices:?}");
        assert_eq!(elements::<i32>(tensor), before, "the shared original changed");
        // A copy of the same layout in a buffer that nothing else shares.
        let mut unique = tensor.to_contiguous().unwrap();
        if !unique.is_unique() {
            unique = tensor.materialise().unwrap();
        }
        let buffer = unique.storage::<i32>().as_ptr();
        let got = slice_assign(unique, slices, value.clone()).unwrap();
        assert_eq!(elements::<i32>(&got), want, "unique, {slices:?}");
        if value.num_elements() < tensor.num_elements() {
            assert_eq!(got.storage::<i32>().as_ptr(), buffer, "in place");
        }
    }
}

#[test]
fn slice_assign_of_every_layout_and_step() {
    let slices = [
        vec![],
        vec![Slice::new(1, Some(3), 1)],
        vec![Slice::new(0, None, 2), Slice::new(0, None, -1), Slice::new(1, Some(-1), 3)],
        vec![Slice::new(-2, None, -1), Slice::new(0, Some(0), 1)],
        vec![Slice::new(0, None, -3), Slice::new(4, None, 1), Slice::new(0, None, -2)],
        vec![Slice::full(), Slice::full(), Slice::new(2, Some(3), 1)],
        vec![Slice::new(0, None, -1); 3],
    ];
    for tensor in layouts(&[4, 5, 6]) {
        for slices in &slices {
            check_assign(&tensor, slices);
        }
    }
    let scalar = slice_assign(iota(&[]), &[], Tensor::from_slice(&[7i32], Shape::new([])).unwrap()).unwrap();
    assert_eq!(scalar.item::<i32>(), 7);
}

#[test]
fn slice_assign_in_place_of_a_transposed_buffer() {
    let tensor = iota(&[3, 4]).swap_axes(0, 1).unwrap();
    let buffer = tensor.storage::<i32>().as_ptr();
    let value = Tensor::from_slice(&[-1i32, -2, -3], [1, 3]).unwrap();
    let want = assign_by_definition(&tensor, &[Slice::new(2, Some(3), 1)], &value);
    let got = slice_assign(tensor, &[Slice::new(2, Some(3), 1)], value).unwrap();
    assert_eq!(elements::<i32>(&got), want);
    assert_eq!(got.storage::<i32>().as_ptr(), buffer);
}

#[test]
fn slice_assign_in_parallel() {
    let tensor = iota(&[700, 601]);
    for slices in [
        vec![Slice::new(3, Some(690), 1), Slice::new(5, Some(600), 1)],
        vec![Slice::new(0, None, -2), Slice::new(0, None, -1)],
        vec![Slice::new(0, None, 1), Slice::new(0, None, 2)],
    ] {
        let shape = tensor.clone().slice(&slices).unwrap().shape().clone();
        let value = iota(&shape.iter().rev().copied().collect::<Vec<_>>()).swap_axes(0, 1).unwrap();
        let want = assign_by_definition(&tensor, &slices, &value);
        let got = slice_assign(tensor.clone(), &slices, value).unwrap();
        assert!(elements::<i32>(&got) == want, "{slices:?}");
    }
    let long = iota(&[600_000]);
    let slices = [Slice::new(0, None, -3)];
    let value = iota(&[200_000]);
    let want = assign_by_definition(&long, &slices, &value);
    assert!(elements::<i32>(&slice_assign(long, &slices, value).unwrap()) == want);
}

#[test]
fn slice_assign_refuses_what_does_not_fit() {
    let message =
        |slices: &[Slice], value: Tensor| slice_assign(iota(&[4, 5]), slices, value).unwrap_err().to_string();
    assert!(message(&[Slice::full()], iota(&[4, 4])).starts_with("slice_assign: shapes [4, 5] and [4, 4]"));
    assert!(message(&[Slice::full()], iota(&[5])).starts_with("slice_assign: shapes"));
    assert!(message(&[Slice::full(); 3], iota(&[4, 5])).starts_with("slice_assign: number of slices is 3"));
    let zero = Slice { start: 0, end: None, step: 0 };
    assert!(message(&[zero], iota(&[4, 5])).starts_with("slice_assign: step is 0"));
    let float = Tensor::from_slice(&[1f32], [1, 1]).unwrap();
    assert!(message(&[Slice::full()], float).starts_with("slice_assign: operands have dtypes"));
}

#[test]
fn arange_counts_in_every_dtype() {
    fn check<T: Element>(low: i64, high: i64) {
        for (start, end, step) in
            [(0, 10, 1), (0, 10, 3), (0, 9, 3), (5, 6, 100), (5, 5, 1), (9, 2, 1), (low, high, 17)]
        {
            let want: Vec<i64> = (start..end).step_by(step).collect();
            let got = arange(start, end, step, T::DTYPE).unwrap();
            assert_eq!(got.dtype(), T::DTYPE);
            let got: Vec<i64> = got.to_vec::<T>().into_iter().map(Element::to_i64).collect();
            assert_eq!(got, want);
        }
    }
    check::<i64>(-500, 500);
    check::<i32>(-500, 500);
    check::<i16>(-500, 500);
    check::<i8>(-128, 128);
    check::<u64>(0, 500);
    check::<u32>(0, 500);
    check::<u16>(0, 500);
    check::<u8>(0, 256);
    let long = arange(-7, 300_000, 1, DType::I32).unwrap().to_vec::<i32>();
    assert!(long.iter().copied().eq(-7..300_000));
    let edge = arange(i64::MAX - 2, i64::MAX, 1, DType::I64).unwrap().to_vec::<i64>();
    assert_eq!(edge, [i64::MAX - 2, i64::MAX - 1]);
    if usize::BITS == 64 {
        let edge = arange(i64::MIN, i64::MAX, usize::MAX, DType::I64).unwrap().to_vec::<i64>();
        assert_eq!(edge, [i64::MIN]);
    }
    let edge = arange(i64::MAX - 2, i64::MAX, usize::MAX, DType::I64).unwrap().to_vec::<i64>();
    assert_eq!(edge, [i64::MAX - 2]);

    let message = |start, end, step, dtype| arange(start, end, step, dtype).unwrap_err().to_string();
    assert!(message(0, 1, 0, DType::I32).starts_with("arange: step is 0"));
    assert!(message(0, 1, 1, DType::F32).starts_with("arange: dtype f32"));
    assert!(message(0, 300, 1, DType::U8).starts_with("arange: range is 0..300"));
    assert!(message(-1, 3, 1, DType::U64).starts_with("arange: range is -1..3"));
    // Of 32 bits, no shape holds so many elements.
    let want =
        if usize::BITS == 64 { "arange: a tensor of shape" } else { "arange: range is -9223372036854775808" };
    assert!(message(i64::MIN, i64::MAX, 1, DType::I64).starts_with(want));
}

proptest! {
    #[test]
    fn slice_assign_of_any_region(
        shape in prop::collection::vec(1usize..6, 1..4),
        cuts in prop::collection::vec((-7isize..7, prop::option::of(-7isize..8), 1isize..4, any::<bool>()), 3),
        permuted in any::<bool>(),
    ) {
        let slices: Vec<Slice> = cuts[..shape.len()]
            .iter()
            .map(|&(start, end, step, back)| Slice::new(start, end, if back { -step } else { step }))
            .collect();
        let tensor = if permuted {
            let axes: Vec<usize> = (0..shape.len()).rev().collect();
            iota(&axes.iter().map(|&a| shape[a]).collect::<Vec<_>>()).permute(&axes).unwrap()
        } else {
            iota(&shape)
        };
        check_assign(&tensor, &slices);
    }
}

#[test]
fn regions_whose_axes_interleave_are_copied_too() {
    // Strides 2 and 3 over sizes 3 and 2: positions 0, 3, 2, 5, 4, 7, each once.
    let dst_layout = Layout::new(Shape::from(vec![3, 2]), smallvec::smallvec![2, 3], 0);
    let src: Vec<u32> = (10..16).collect();
    let mut dst = vec![0u32; 8];
    copy_into_view(&mut dst, &dst_layout, &src, &Layout::contiguous(Shape::from(vec![3, 2])));
    assert_eq!(dst, [10, 0, 12, 11, 14, 13, 0, 15]);
}
