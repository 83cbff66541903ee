//! Results must not depend on the layouts of operands: every pair of layouts, broadcasts, shared and unique
//! buffers.

use super::super::*;
use super::*;
use crate::storage::Adopted;
use crate::{BoolStore, Bytes, Scalar, f16};
use proptest::prelude::*;

/// Subtraction is asymmetric, so it shows swapped operands.
fn check_sub(a: Tensor, b: Tensor, what: &str) {
    let shape = crate::layout::broadcast_shapes("test", a.shape(), b.shape()).unwrap().to_vec();
    let (x, y) = (broadcast::<f32>(&a, &shape), broadcast::<f32>(&b, &shape));
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
    let got = binary(Binary::Sub, a, b).unwrap();
    assert_eq!(got.shape().to_vec(), shape, "{what}");
    assert_eq!(elements::<f32>(&got), want, "{what}");
}

fn counted(n: usize) -> Tensor {
    Tensor::from_slice(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), [n]).unwrap()
}

fn scaled(n: usize) -> Tensor {
    Tensor::from_slice(&(0..n).map(|i| i as f32 * 1000.0).collect::<Vec<_>>(), [n]).unwrap()
}

/// Operands that repeat their elements along axes: the result has each distinct element once in memory.
#[test]
fn repeated_elements_are_computed_once() {
    let expand = |sizes: [usize; 3]| {
        let n = sizes.iter().product();
        scaled(n).reshape(sizes).unwrap().expand(&[20, 30, 40]).unwrap()
    };
    let all = counted(24_000).reshape([20, 30, 40]).unwrap();
    for (a, b, distinct) in [
        (expand([20, 1, 1]), expand([20, 1, 40]), 800),
        (expand([1, 30, 1]), expand([1, 30, 1]), 30),
        (expand([20, 1, 1]), expand([1, 30, 1]), 600),
        (expand([20, 30, 1]), expand([1, 1, 40]), 24_000),
        (expand([20, 1, 1]), all.clone(), 24_000),
        // Fewer axes, and axes of size 1.
        (expand([20, 1, 40]), scaled(40), 800),
        (scaled(20).reshape([20, 1, 1]).unwrap(), scaled(1).expand(&[30, 40]).unwrap(), 20),
    ] {
        check_sub(a.clone(), b.clone(), "repeated");
        let got = binary(Binary::Sub, a, b).unwrap();
        got.evaluate().unwrap();
        assert_eq!(got.storage_len(), distinct * size_of::<f32>());
    }
    let negated = unary(Unary::Neg, expand([1, 30, 1])).unwrap();
    assert_eq!((negated.shape().to_vec(), negated.storage_len()), (vec![20, 30, 40], 30 * size_of::<f32>()));
    let one = unary(Unary::Exp, expand([1, 1, 1]).flip(&[0]).unwrap()).unwrap();
    assert_eq!((elements::<f32>(&one), one.storage_len()), (vec![1.0; 24_000], size_of::<f32>()));
    let turned = expand([20, 1, 1]).flip(&[0]).unwrap();
    let flags = compare(Compare::Lt, turned, expand([1, 1, 40]), BoolStore::Native).unwrap();
    assert_eq!((flags.shape().to_vec(), flags.storage_len()), (vec![20, 30, 40], 800));
    let halves = cast(expand([20, 1, 1]), DType::F16).unwrap();
    let halves =
        binary(Binary::Mul, full([20, 30, 40], Scalar::Float(0.5), DType::F16).unwrap(), halves).unwrap();
    let want: Vec<f16> = (0..24_000).map(|i| f16::from_f32((i / 1200) as f32 * 500.0)).collect();
    assert_eq!(elements::<f16>(&halves), want);
}

/// The gradient of a mean along an axis: a tensor of one number times an element of each row.
#[test]
fn one_number_times_expanded_elements() {
    let (rows, row) = (300, 1000);
    let number = full([rows, row], Scalar::Float(0.25), DType::F32).unwrap();
    let each = scaled(rows).reshape([rows, 1]).unwrap();
    let got = binary(Binary::Mul, number, each).unwrap();
    let want: Vec<f32> = (0..rows * row).map(|i| (i / row) as f32 * 250.0).collect();
    assert_eq!((got.shape().to_vec(), elements::<f32>(&got)), (vec![rows, row], want));
    assert_eq!(got.storage_len(), rows * size_of::<f32>());
}

#[test]
fn every_pair_of_layouts_shared_and_unique() {
    for (left, a) in views(counted) {
        for (right, b) in views(scaled) {
            let what = alloc::format!("{left} - {right}");
            // Shared buffers: the originals must not change.
            let (before_a, before_b) = (elements::<f32>(&a), elements::<f32>(&b));
            check_sub(a.clone(), b.clone(), &what);
            assert_eq!(elements::<f32>(&a), before_a, "{what}");
            assert_eq!(elements::<f32>(&b), before_b, "{what}");
        }
    }
    // Unique buffers on either side: written in place if the layout allows.
    let n = views(counted).len();
    for i in 0..n {
        for j in 0..n {
            let (left, a) = views(counted).swap_remove(i);
            let (right, b) = views(scaled).swap_remove(j);
            let what = alloc::format!("{left} - {right}");
            let shared_b = b.clone();
            check_sub_unique(a, b, &what);
            let (_, a) = views(counted).swap_remove(i);
            let shared_a = a.clone();
            check_sub_unique(a, shared_b, &what);
            drop(shared_a);
        }
    }
}

fn check_sub_unique(a: Tensor, b: Tensor, what: &str) {
    let (x, y) = (elements::<f32>(&a), elements::<f32>(&b));
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
    let got = binary(Binary::Sub, a, b).unwrap();
    assert_eq!(elements::<f32>(&got), want, "{what}");
}

#[test]
fn unique_operands_lend_their_buffer_and_keep_their_layout() {
    let address = |t: &Tensor| t.storage::<f32>().as_ptr();
    let a = counted(12).reshape([3, 4]).unwrap().swap_axes(0, 1).unwrap();
    let (at, layout) = (address(&a), a.layout().clone());
    let out = unary(Unary::Neg, a).unwrap();
    assert_eq!((address(&out), out.layout()), (at, &layout));
    let out = binary_scalar(Binary::Add, out, Scalar::Int(1)).unwrap();
    assert_eq!((address(&out), out.layout()), (at, &layout));
    let out = binary(Binary::Mul, out, counted(3)).unwrap();
    assert_eq!((address(&out), out.layout()), (at, &layout));
    // The unique operand on the right, a row on the left.
    let out = binary(Binary::Sub, counted(3), out).unwrap();
    assert_eq!((address(&out), out.layout()), (at, &layout));
    // A shared transposed operand keeps its order in the fresh output.
    let shared = out.clone();
    let fresh = unary(Unary::Abs, shared).unwrap();
    assert!(address(&fresh) != at && fresh.layout().strides() == out.layout().strides());
    // A tensor on both sides is not unique.
    let both = binary(Binary::Sub, out.clone(), out.clone()).unwrap();
    assert!(address(&both) != at);
    assert_eq!(elements::<f32>(&both), vec![0.0; 12]);
    // A broadcast operand cannot hold the output.
    let row = counted(3);
    let wide = binary(Binary::Add, row, out.clone()).unwrap();
    assert_eq!(wide.shape().to_vec(), vec![4, 3]);
}

#[test]
fn broadcasts_of_every_kind() {
    let shapes: &[(&[usize], &[usize])] = &[
        (&[3, 4, 5], &[5]),
        (&[3, 4, 5], &[4, 1]),
        (&[3, 4, 5], &[3, 1, 1]),
        (&[3, 4, 5], &[3, 1, 5]),
        (&[3, 1, 5], &[4, 1]),
        (&[1], &[3, 4]),
        (&[], &[3, 4]),
        (&[1, 1], &[1]),
        (&[7, 40], &[7, 1]),
        (&[7, 40], &[40]),
        (&[100, 3], &[3]),
        (&[100, 3], &[100, 1]),
        (&[2, 3, 7, 7], &[3, 1, 1]),
        (&[0, 3], &[3]),
        (&[3, 1], &[1, 0]),
    ];
    for &(left, right) in shapes {
        let (n, m) = (left.iter().product(), right.iter().product());
        let (a, b) = (counted(n).reshape(left.to_vec()).unwrap(), scaled(m).reshape(right.to_vec()).unwrap());
        check_sub(a.clone(), b.clone(), "left - right");
        check_sub(b, a, "right - left");
        let (a, b) = (counted(n).reshape(left.to_vec()).unwrap(), scaled(m).reshape(right.to_vec()).unwrap());
        let want = elements::<f32>(&binary(Binary::Sub, a.clone(), b.clone()).unwrap());
        let shared = b.clone();
        assert_eq!(elements::<f32>(&binary(Binary::Sub, a, b).unwrap()), want, "{left:?} {right:?} in place");
        drop(shared);
    }
}

#[test]
fn sizes_beyond_one_chunk_and_one_tile() {
    // Larger than a chunk of 64 KiB, with rows that do not divide it, transposed operands with short and long
    // rows.
    for (rows, columns) in [(300, 257), (20_001, 3), (3, 20_001), (40, 5000), (5000, 40), (1, 70_000)] {
        let n = rows * columns;
        let a = counted(n).reshape([rows, columns]).unwrap();
        let t = scaled(n).reshape([columns, rows]).unwrap().swap_axes(0, 1).unwrap();
        let narrow = counted(n + rows).reshape([rows, columns + 1]).unwrap().narrow(1, 1, columns).unwrap();
        let what = alloc::format!("{rows} x {columns}");
        check_sub(a.clone(), t.clone(), &what);
        check_sub(t.clone(), a.clone(), &what);
        check_sub(narrow.clone(), a.clone(), &what);
        check_sub(narrow.clone(), t.clone(), &what);
        check_sub(a.clone(), a.clone().flip(&[0]).unwrap(), &what);
        check_sub(a.clone(), a.clone().flip(&[1]).unwrap(), &what);
        check_sub(a.clone(), scaled(columns), &what);
        check_sub(a.clone(), scaled(rows).reshape([rows, 1]).unwrap(), &what);
        check_sub(narrow, scaled(rows).reshape([rows, 1]).unwrap(), &what);
        let want = elements::<f32>(&binary(Binary::Sub, a.clone(), t.clone()).unwrap());
        // In place, with a transposed right side.
        let unique = unary(Unary::Abs, a.clone()).unwrap();
        let at = unique.storage::<f32>().as_ptr();
        let got = binary(Binary::Sub, unique, t).unwrap();
        assert_eq!(got.storage::<f32>().as_ptr(), at);
        assert_eq!(elements::<f32>(&got), want, "{what}");
    }
}

#[test]
fn masks_of_every_layout() {
    let bits = |n: usize| {
        let bools: Vec<bool> = (0..n).map(|i| i % 3 == 1 || i % 7 == 2).collect();
        Tensor::from_bools(&bools, [n]).unwrap()
    };
    for (left, t) in views(counted) {
        for (middle, m) in views(bits) {
            let v = scaled(5);
            let (x, k, y) = (elements::<f32>(&t), elements::<u8>(&m), broadcast::<f32>(&v, &[3, 4, 5]));
            let want: Vec<f32> = (0..60).map(|i| if k[i] != 0 { y[i] } else { x[i] }).collect();
            let got = mask_where(t.clone(), m.clone(), v).unwrap();
            assert_eq!(elements::<f32>(&got), want, "{left}, {middle}");
            let want: Vec<f32> = (0..60).map(|i| if k[i] != 0 { -1.5 } else { x[i] }).collect();
            let got = mask_fill(t.clone(), m.clone(), Scalar::Float(-1.5)).unwrap();
            assert_eq!(elements::<f32>(&got), want, "{left}, {middle}");
        }
    }
}

#[test]
fn masks_reuse_tensor_or_value_but_never_the_mask() {
    let mask = || Tensor::from_bools(&[true, false, true], [3]).unwrap();
    let shared = counted(3);
    let t = mask_fill(shared.clone(), mask(), Scalar::Int(9)).unwrap();
    assert_eq!(elements::<f32>(&t), [9.0, 1.0, 9.0]);
    assert_eq!(elements::<f32>(&shared), [0.0, 1.0, 2.0]);
    let at = t.storage::<f32>().as_ptr();
    let t = mask_where(t, mask(), scaled(3)).unwrap();
    assert_eq!((t.storage::<f32>().as_ptr(), elements::<f32>(&t)), (at, vec![0.0, 1.0, 2000.0]));
    let value = scaled(3);
    let at = value.storage::<f32>().as_ptr();
    let t = mask_where(shared.clone(), mask(), value).unwrap();
    assert_eq!((t.storage::<f32>().as_ptr(), elements::<f32>(&t)), (at, vec![0.0, 1.0, 2000.0]));
    // A tensor of bytes, like the mask.
    let flags = Tensor::from_bools(&[false, false, true], [3]).unwrap();
    let t = mask_fill(flags.clone(), mask(), Scalar::Bool(true)).unwrap();
    assert_eq!(elements::<u8>(&t), [1, 0, 1]);
    let row = mask().reshape([1, 3]).unwrap();
    let wide = mask_where(counted(2).reshape([2, 1]).unwrap(), row, counted(1)).unwrap();
    assert_eq!(elements::<f32>(&wide), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    // A mask of one element decides for all elements.
    let one = Tensor::from_bools(&[true], [1]).unwrap();
    assert_eq!(elements::<f32>(&mask_where(counted(3), one, scaled(3)).unwrap()), [0.0, 1000.0, 2000.0]);
    let halves = Tensor::from_slice(&[f16::ONE; 3], [3]).unwrap();
    let t = mask_fill(halves, mask(), Scalar::Float(0.1)).unwrap();
    assert_eq!(elements::<f16>(&t), [f16::from_f64(0.1), f16::ONE, f16::from_f64(0.1)]);
}

#[test]
fn zero_sized_tensors_give_zero_sized_results() {
    let e = Tensor::empty([3, 0], DType::F32).unwrap();
    assert_eq!(unary(Unary::Exp, e.clone()).unwrap().shape().to_vec(), vec![3, 0]);
    assert_eq!(binary(Binary::Add, e.clone(), counted(1)).unwrap().shape().to_vec(), vec![3, 0]);
    let c = compare_scalar(Compare::Lt, e.clone(), Scalar::Int(0), BoolStore::U8).unwrap();
    assert_eq!((c.shape().to_vec(), c.dtype()), (vec![3, 0], DType::Bool(BoolStore::U8)));
    assert_eq!(cast(e.clone(), DType::I64).unwrap().dtype(), DType::I64);
    assert!(binary(Binary::Add, e, counted(2)).unwrap_err().to_string().starts_with("add: shapes"));
}

#[test]
fn rows_long_enough_for_kernels() {
    // A row beside a matrix, a column beside it, and a matrix whose rows are not adjacent, for each kind of
    // kernel.
    let matrix = || small::<f32>(20 * 40).reshape([20, 40]).unwrap();
    let apart = small::<f32>(20 * 50).reshape([20, 50]).unwrap().narrow(1, 3, 40).unwrap();
    let row = small::<f32>(40);
    let column = small::<f32>(20).reshape([20, 1]).unwrap();
    let shape = [20, 40];
    for other in [row.clone(), column.clone(), apart.clone()] {
        let (x, y) = (broadcast::<f32>(&matrix(), &shape), broadcast::<f32>(&other, &shape));
        let expect = |got: Tensor, f: &dyn Fn(f32, f32) -> f32, what: &str| {
            for (k, got) in elements::<f32>(&got).into_iter().enumerate() {
                let want = f(x[k], y[k]);
                assert!(
                    close(got as f64, want as f64, f32::EPSILON as f64, 4.0, 0.0),
                    "{what}: {got} {want}"
                );
            }
        };
        let shared = matrix();
        expect(binary(Binary::Sub, shared.clone(), other.clone()).unwrap(), &|a, b| a - b, "sub");
        expect(binary(Binary::Sub, other.clone(), shared.clone()).unwrap(), &|a, b| b - a, "sub swapped");
        expect(binary(Binary::Sub, matrix(), other.clone()).unwrap(), &|a, b| a - b, "sub in place");
        expect(
            binary(Binary::Sub, other.clone(), matrix()).unwrap(),
            &|a, b| b - a,
            "sub in place on the right",
        );
        expect(
            binary(Binary::Div, other.clone(), matrix()).unwrap(),
            &|a, b| b / a,
            "div in place on the right",
        );
        expect(binary(Binary::Atan2, shared.clone(), other.clone()).unwrap(), &f32::atan2, "atan2");
        expect(binary(Binary::Atan2, other.clone(), matrix()).unwrap(), &|a, b| b.atan2(a), "atan2 in place");
        let rem = |a: f32, b: f32| if b == 0.0 { f32::NAN } else { a - (a / b).floor() * b };
        expect(binary(Binary::Rem, matrix(), other.clone()).unwrap(), &rem, "remainder");
        let half = |t: &Tensor| cast(t.clone(), DType::F16).unwrap();
        let halves = binary(Binary::Mul, half(&shared), half(&other)).unwrap();
        expect(cast(halves, DType::F32).unwrap(), &|a, b| a * b, "halves");
        let less = compare(Compare::Lt, shared.clone(), other.clone(), BoolStore::Native).unwrap();
        expect(cast(less, DType::F32).unwrap(), &|a, b| (a < b) as u8 as f32, "lower");
        let mask = compare_scalar(Compare::Gt, other.clone(), Scalar::Int(0), BoolStore::Native).unwrap();
        let chosen = mask_where(shared.clone(), mask.clone(), other.clone()).unwrap();
        expect(chosen, &|a, b| if b > 0.0 { b } else { a }, "mask_where");
        expect(
            mask_fill(matrix(), mask, Scalar::Int(50)).unwrap(),
            &|a, b| if b > 0.0 { 50.0 } else { a },
            "mask_fill",
        );
    }
    let got = clamp(apart.clone(), Some(Scalar::Int(-2)), Some(Scalar::Int(3))).unwrap();
    let want: Vec<f32> = elements::<f32>(&apart).iter().map(|x| x.clamp(-2.0, 3.0)).collect();
    assert_eq!(elements::<f32>(&got), want);
    assert_eq!(
        elements::<f32>(&unary(Unary::Neg, apart.clone()).unwrap()),
        elements::<f32>(&apart).iter().map(|x| -x).collect::<Vec<_>>()
    );
}

#[test]
fn large_tensors_on_several_threads() {
    let n = 1_300_003;
    let (a, b) = (counted(n), scaled(n));
    let check = |got: Tensor, f: &dyn Fn(usize) -> f32| {
        let got = got.as_slice::<f32>().unwrap().to_vec();
        assert!((0..n).all(|i| got[i] == f(i)));
    };
    check(binary(Binary::Sub, a.clone(), b.clone()).unwrap(), &|i| i as f32 - i as f32 * 1000.0);
    check(unary(Unary::Neg, a.clone()).unwrap(), &|i| -(i as f32));
    check(binary(Binary::Sub, counted(n), b).unwrap(), &|i| i as f32 - i as f32 * 1000.0);
    let mask = compare_scalar(Compare::Lt, a.clone(), Scalar::Int(1_000_000), BoolStore::Native).unwrap();
    check(mask_fill(a, mask, Scalar::Int(0)).unwrap(), &|i| if i < 1_000_000 { 0.0 } else { i as f32 });
    let (rows, columns) = (1300, 1000);
    let m = counted(rows * columns).reshape([rows, columns]).unwrap();
    let got = binary(Binary::Add, m.clone(), scaled(columns)).unwrap();
    let at = |i: usize| i as f32 + (i % columns) as f32 * 1000.0;
    assert!(got.as_slice::<f32>().unwrap().iter().enumerate().all(|(i, &x)| x == at(i)));
    let turned = scaled(rows * columns).reshape([columns, rows]).unwrap().swap_axes(0, 1).unwrap();
    let got = binary(Binary::Add, m, turned).unwrap();
    let at = |i: usize| i as f32 + (i % columns * rows + i / columns) as f32 * 1000.0;
    assert!(got.as_slice::<f32>().unwrap().iter().enumerate().all(|(i, &x)| x == at(i)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_layouts_agree_with_the_definition(
        sizes in prop::collection::vec(1usize..6, 1..5),
        seed in any::<u64>(),
    ) {
        let mut state = seed;
        let mut next = move |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut operand = |unit: fn(usize) -> Tensor| {
            let rank = sizes.len();
            let mut order: Vec<usize> = (0..rank).collect();
            for k in (1..rank).rev() {
                order.swap(k, next(k + 1));
            }
            let own: Vec<usize> =
                sizes.iter().map(|&s| if next(4) == 0 { 1 } else { s * (1 + next(2)) }).collect();
            let stored: Vec<usize> = order.iter().map(|&k| own[k]).collect();
            let mut inverse = vec![0; rank];
            for (k, &o) in order.iter().enumerate() {
                inverse[o] = k;
            }
            let mut t = unit(own.iter().product()).reshape(stored).unwrap().permute(&inverse).unwrap();
            for k in 0..rank {
                if own[k] > 1 && own[k] != sizes[k] {
                    let step = if next(2) == 0 { 2 } else { -2 };
                    let mut slices = vec![Slice::full(); rank];
                    slices[k] = Slice::new(0, None, step);
                    t = t.slice(&slices).unwrap();
                }
                if next(4) == 0 {
                    t = t.flip(&[k]).unwrap();
                }
            }
            t
        };
        let (a, b) = (operand(counted), operand(scaled));
        check_sub(a.clone(), b.clone(), "shared");
        let shape = crate::layout::broadcast_shapes("test", a.shape(), b.shape()).unwrap().to_vec();
        let want: Vec<f32> =
            broadcast::<f32>(&a, &shape).iter().zip(broadcast::<f32>(&b, &shape)).map(|(x, y)| x - y).collect();
        drop(b.clone());
        let got = binary(Binary::Sub, a, b).unwrap();
        prop_assert_eq!(elements::<f32>(&got), want);
    }
}

#[test]
fn an_operation_on_memory_that_may_only_be_read_writes_elsewhere() {
    static VALUES: [f32; 3] = [1.0, 2.0, 3.0];
    struct Lent;

    impl Adopted for Lent {
        fn bytes(&self) -> &[u8] {
            bytemuck::cast_slice(&VALUES)
        }

        fn is_writable(&self) -> bool {
            false
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            unreachable!("nobody asks for memory that may only be read")
        }
    }

    let t = Tensor::from_bytes(Bytes::adopt(Lent), [3], DType::F32).unwrap();
    let doubled = binary_scalar(Binary::Mul, t, Scalar::Float(2.0)).unwrap();
    assert_eq!(doubled.to_vec::<f32>(), [2.0, 4.0, 6.0]);
    assert_eq!(VALUES, [1.0, 2.0, 3.0]);
}
