//! Products of every dtype, layout and shape against the definition.

use super::gemm::{MatLayout, MatRef, Threads};
use super::*;
use crate::layout::Layout;
use crate::{DType, Element, Shape, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

mod int8;
mod panels;

/// The contribution of an element type to the oracle.
trait Sample: Element {
    /// Reproducible values: small floats, integers that overflow when multiplied.
    fn sample(seed: u64) -> Self;
    /// The sum of products by definition: floats in f64, integers modulo 2^64.
    fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> (f64, u64);
    /// Asserts that `got` is the sum of `terms` products `want`.
    fn check(got: Self, want: (f64, u64), terms: usize, what: &str);
}

/// Reproducible numbers in -0.5..0.5, for the tests of the kernels.
pub(super) fn noise<T: Element>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            T::from_f64((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5)
        })
        .collect()
}

fn mix(seed: u64) -> u64 {
    let z = (seed.wrapping_add(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z ^ (z >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (z >> 31)
}

macro_rules! float_sample {
    ($($ty:ty, $epsilon:expr, $round:expr;)*) => {$(
        impl Sample for $ty {
            fn sample(seed: u64) -> Self {
                <$ty as Element>::from_f64((mix(seed) >> 40) as f64 / (1u64 << 24) as f64 - 0.5)
            }
            fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> (f64, u64) {
                (pairs.map(|(a, b)| a.to_f64() * b.to_f64()).sum(), 0)
            }
            fn check(got: Self, want: (f64, u64), terms: usize, what: &str) {
                let got = Element::to_f64(got);
                // Sums of terms of size at most 1/4, then one rounding to the type.
                let bound = $epsilon * (1.0 + terms as f64) + $round * want.0.abs();
                assert!((got - want.0).abs() <= bound, "{what}: {got} for {}", want.0);
            }
        }
    )*};
}
float_sample! {
    f32, 1e-7, 0.0;
    f64, 2e-16, 0.0;
    f16, 1e-7, 4.9e-4;
    bf16, 1e-7, 4e-3;
}

macro_rules! int_sample {
    ($($ty:ty),*) => {$(
        impl Sample for $ty {
            fn sample(seed: u64) -> Self { mix(seed) as $ty }
            fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> (f64, u64) {
                (0.0, pairs.fold(0u64, |s, (a, b)| s.wrapping_add((a as u64).wrapping_mul(b as u64))))
            }
            fn check(got: Self, want: (f64, u64), _: usize, what: &str) {
                assert_eq!(got, want.1 as $ty, "{what}");
            }
        }
    )*};
}
int_sample!(i8, i16, i32, i64, u8, u16, u32, u64);

fn sample<T: Sample>(shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<T> = (0..count).map(|i| T::sample(seed * 1_000_003 + i as u64)).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

/// A tensor of this shape in the memory layout number `kind`.
fn in_layout<T: Sample>(shape: &[usize], kind: usize, seed: u64) -> Tensor {
    let rank = shape.len();
    let mut dims = shape.to_vec();
    match kind % 7 {
        0 => sample::<T>(shape, seed),
        1 => {
            dims.swap(rank - 1, rank - 2);
            sample::<T>(&dims, seed).swap_axes(rank - 1, rank - 2).unwrap()
        }
        2 => sample::<T>(shape, seed).flip(&[rank - 1]).unwrap(),
        3 => {
            // Every second column.
            dims[rank - 1] *= 2;
            let wide = sample::<T>(&dims, seed);
            let mut strides = wide.layout().strides().to_vec();
            strides[rank - 1] = 2;
            let layout = Layout::new(Shape::from(shape.to_vec()), strides.into(), 0);
            wide.with_layout(layout)
        }
        4 => {
            dims[rank - 2] = 1;
            sample::<T>(&dims, seed).expand(shape).unwrap()
        }
        5 => {
            dims[rank - 2] += 3;
            sample::<T>(&dims, seed).narrow(rank - 2, 2, shape[rank - 2]).unwrap()
        }
        _ => {
            let overlapping = sample::<T>(&[shape.iter().sum::<usize>() * 4], seed);
            let strides: Vec<isize> = (0..rank).map(|axis| 1 + (axis % 2) as isize).collect();
            overlapping.with_layout(Layout::new(Shape::from(shape.to_vec()), strides.into(), 1))
        }
    }
}

fn check_product<T: Sample>(lhs: Tensor, rhs: Tensor) {
    let what = alloc::format!("{:?} @ {:?}", lhs.layout(), rhs.layout());
    let got = matmul(lhs.clone(), rhs.clone()).unwrap();
    let rank = got.rank();
    let shape = got.shape().to_vec();
    let (m, n, k) = (shape[rank - 2], shape[rank - 1], *lhs.shape().last().unwrap());
    let mut lead = shape[..rank - 2].to_vec();
    let batch: usize = lead.iter().product();
    lead.extend([m, k]);
    let a = lhs.expand(&lead).unwrap().to_vec::<T>();
    lead.truncate(rank - 2);
    lead.extend([k, n]);
    let b = rhs.expand(&lead).unwrap().to_vec::<T>();
    let got = got.to_vec::<T>();
    for i in 0..batch * m {
        for j in 0..n {
            let base = i / m.max(1) * k * n;
            let want = T::dot((0..k).map(|p| (a[i * k + p], b[base + p * n + j])));
            T::check(got[i * n + j], want, k, &what);
        }
    }
}

fn every_layout<T: Sample>(shapes: &[(&[usize], &[usize])]) {
    for (l, r) in shapes {
        for kind in 0..49 {
            check_product::<T>(in_layout::<T>(l, kind, 1), in_layout::<T>(r, kind / 7, 2));
        }
    }
}

const SMALL: &[(&[usize], &[usize])] = &[
    (&[1, 1], &[1, 1]),
    (&[3, 5], &[5, 4]),
    (&[1, 33], &[33, 17]),
    (&[18, 31], &[31, 1]),
    (&[33, 17], &[17, 65]),
    (&[2, 3, 4], &[2, 4, 5]),
    (&[3, 1, 2, 7], &[2, 7, 3]),
    (&[2, 1, 9], &[1, 9, 8]),
    (&[5, 4, 6], &[1, 6, 1]),
];

#[test]
fn floats_match_the_definition_in_every_layout() {
    every_layout::<f32>(SMALL);
    every_layout::<f64>(SMALL);
}

#[test]
fn halves_round_once() {
    every_layout::<f16>(SMALL);
    every_layout::<bf16>(SMALL);
    // Few rows, by a small and by a large operand, and several blocks of the sum, the rows and the columns.
    let few = [(2, 70, 33), (3, 1030, 1020), (4, 1020, 1030), (5, 6, 1100), (5, 520, 2100)];
    for (m, n, k) in few.into_iter().chain([(1030, 3, 513), (65, 130, 1100), (460, 70, 130)]) {
        check_product::<f16>(sample::<f16>(&[m, k], 1), sample::<f16>(&[k, n], 2));
        check_product::<f16>(sample::<f16>(&[m, k], 1), in_layout::<f16>(&[k, n], 1, 2));
        check_product::<bf16>(in_layout::<bf16>(&[m, k], 1, 1), in_layout::<bf16>(&[k, n], 1, 2));
    }
    // A sum that f16 cannot accumulate.
    let k = 11008;
    let (a, b) =
        (Tensor::full([1, k], 0.1, DType::F16).unwrap(), Tensor::full([k, 2], 0.1, DType::F16).unwrap());
    let got = matmul(a.clone(), b.clone()).unwrap().to_vec::<f16>();
    assert!((got[0].to_f32() - 110.0).abs() < 0.2, "{got:?}");
    let got = matmul(b.swap_axes(0, 1).unwrap(), a.swap_axes(0, 1).unwrap()).unwrap().to_vec::<f16>();
    assert!((got[1].to_f32() - 110.0).abs() < 0.2, "{got:?}");
}

#[test]
fn integers_wrap_exactly() {
    every_layout::<i8>(SMALL);
    every_layout::<u8>(SMALL);
    every_layout::<i16>(SMALL);
    every_layout::<u16>(SMALL);
    every_layout::<i32>(SMALL);
    every_layout::<u32>(SMALL);
    every_layout::<i64>(SMALL);
    every_layout::<u64>(SMALL);
    // Packed panels, strips, blocks of the sum.
    for (m, n, k) in [(37, 70, 600), (64, 64, 64), (3, 129, 515)] {
        check_product::<u8>(sample::<u8>(&[m, k], 1), sample::<u8>(&[k, n], 2));
        check_product::<i32>(sample::<i32>(&[m, k], 1), in_layout::<i32>(&[k, n], 1, 2));
        check_product::<i64>(in_layout::<i64>(&[m, k], 1, 1), sample::<i64>(&[k, n], 2));
    }
}

/// Products of integers straight by their kernel, added to what is there and not.
fn check_integers<T: Sample + lane::Lane>(m: usize, n: usize, k: usize) {
    let values =
        |len: usize, seed: u64| (0..len as u64).map(|i| T::sample(seed << 32 | i)).collect::<Vec<T>>();
    let (a, b, old) = (values(m * k, 1), values(k * n, 2), values(m * n, 3));
    let want: Vec<u64> =
        (0..m * n).map(|at| T::dot((0..k).map(|p| (a[at / n * k + p], b[p * n + at % n]))).1).collect();
    let transposed = |from: &[T], rows: usize, cols: usize| {
        (0..rows * cols).map(|at| from[at % rows * cols + at / rows]).collect::<Vec<T>>()
    };
    let (at, bt) = (transposed(&a, m, k), transposed(&b, k, n));
    for (a, b) in [
        (MatRef::new(&a, MatLayout::row_major(m, k)), MatRef::new(&b, MatLayout::row_major(k, n))),
        (MatRef::new(&at, MatLayout::col_major(m, k)), MatRef::new(&bt, MatLayout::col_major(k, n))),
    ] {
        for accumulate in [false, true] {
            let mut got = old.clone();
            int::gemm(&mut got, a, b, accumulate, Threads::Pool);
            for ((got, want), old) in got.iter().zip(&want).zip(&old) {
                let old = if accumulate { T::dot([(*old, T::ONE)].into_iter()).1 } else { 0 };
                T::check(*got, (0.0, want.wrapping_add(old)), k, &alloc::format!("{m}x{n}x{k}"));
            }
        }
    }
}

#[test]
fn integers_around_every_edge_of_a_tile_match_the_definition() {
    for m in [3, 4, 5, 31, 32, 33] {
        for k in [1, 63, 64, 65, 511, 512, 513, 1025] {
            // A panel has 64, 32 and 16 columns.
            for edge in [-1, 0, 1] {
                check_integers::<u8>(m, 64usize.wrapping_add_signed(edge), k);
                check_integers::<u16>(m, 64usize.wrapping_add_signed(edge), k);
                check_integers::<u32>(m, 64usize.wrapping_add_signed(edge), k);
                check_integers::<u64>(m, 32usize.wrapping_add_signed(edge), k);
            }
        }
    }
    // Up to this size, nothing is packed.
    for k in [15, 16, 17] {
        check_integers::<u32>(16, 16, k);
    }
}

#[test]
fn products_with_long_vectors_match_the_definition() {
    // (outputs, terms): cut along the sum, along the outputs, and not at all, in both orientations.
    for (n, k) in [(1, 200_000), (3, 70_001), (5, 66_000), (100, 5_000), (17_000, 40), (2_000, 300)] {
        for kind in [0, 1] {
            check_product::<f32>(sample::<f32>(&[1, k], 1), in_layout::<f32>(&[k, n], kind, 2));
            check_product::<f32>(in_layout::<f32>(&[n, k], kind, 1), sample::<f32>(&[k, 1], 2));
        }
        check_product::<bf16>(sample::<bf16>(&[1, k], 1), sample::<bf16>(&[k, n], 2));
        check_product::<i32>(sample::<i32>(&[n, k], 1), sample::<i32>(&[k, 1], 2));
    }
}

/// Rows and columns around groups of four and eight, and sums and terms around one, two and four vectors.
fn vectors_around_every_edge<T: Sample>() {
    for k in [1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100] {
        for n in [1, 2, 4, 5, 7, 9, 15, 17, 31, 33, 63, 64, 65, 100, 129, 530] {
            for kind in [0, 1] {
                check_product::<T>(sample::<T>(&[1, k], 1), in_layout::<T>(&[k, n], kind, 2));
            }
        }
    }
}

#[test]
fn vectors_around_every_edge_match_the_definition() {
    vectors_around_every_edge::<f32>();
    vectors_around_every_edge::<f64>();
    vectors_around_every_edge::<f16>();
    vectors_around_every_edge::<bf16>();
    vectors_around_every_edge::<u8>();
    vectors_around_every_edge::<i16>();
    vectors_around_every_edge::<i32>();
    vectors_around_every_edge::<i64>();
}

#[test]
fn large_and_batched_products_use_threads_and_stay_right() {
    check_product::<f32>(sample::<f32>(&[160, 170], 1), sample::<f32>(&[170, 180], 2));
    check_product::<f32>(sample::<f32>(&[24, 40, 30], 1), sample::<f32>(&[24, 30, 50], 2));
    check_product::<f32>(sample::<f32>(&[2, 3, 40, 30], 1), in_layout::<f32>(&[3, 30, 50], 1, 2));
    check_product::<f32>(sample::<f32>(&[64, 1, 200], 1), sample::<f32>(&[64, 200, 100], 2));
    check_product::<i32>(sample::<i32>(&[6, 40, 30], 1), sample::<i32>(&[6, 30, 50], 2));
    check_product::<f16>(sample::<f16>(&[6, 40, 30], 1), sample::<f16>(&[1, 30, 50], 2));
}

#[test]
fn empty_products_have_their_shape_and_empty_sums_are_zero() {
    for dtype in [DType::F32, DType::BF16, DType::I16, DType::U64] {
        let of = |shape: &[usize]| Tensor::empty(shape.to_vec(), dtype).unwrap();
        let shape = |t: Tensor| t.shape().to_vec();
        assert_eq!(shape(matmul(of(&[0, 3]), of(&[3, 4])).unwrap()), vec![0, 4]);
        assert_eq!(shape(matmul(of(&[2, 3]), of(&[3, 0])).unwrap()), vec![2, 0]);
        assert_eq!(shape(matmul(of(&[0, 2, 3]), of(&[1, 3, 4])).unwrap()), vec![0, 2, 4]);
        for (m, n) in [(2, 4), (1, 4), (2, 1)] {
            // The pool hands out used buffers: this one is not zero.
            drop(Tensor::full([m, n], 7.0, dtype).unwrap());
            let zeros = matmul(of(&[m, 0]), of(&[0, n])).unwrap();
            assert!(zeros.into_bytes().unwrap().iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn nan_and_infinity_follow_arithmetic() {
    let a = Tensor::from_slice(&[f32::NAN, 0.0, f32::INFINITY, 1.0], [2, 2]).unwrap();
    let b = Tensor::from_slice(&[0.0f32, 1.0, 2.0, -1.0], [2, 2]).unwrap();
    let got = matmul(a, b).unwrap().to_vec::<f32>();
    assert!(got[0].is_nan() && got[1].is_nan() && got[2].is_nan(), "{got:?}");
    assert_eq!(got[3], f32::INFINITY);
    // A buffer full of NaN does not leak into the result.
    drop(Tensor::full([64, 64], f64::NAN, DType::F32).unwrap());
    let got = matmul(sample::<f32>(&[64, 8], 1), sample::<f32>(&[8, 64], 2)).unwrap();
    assert!(got.to_vec::<f32>().iter().all(|v| v.is_finite()));
}

#[test]
fn bad_operands_are_refused() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    let message = |l: Tensor, r: Tensor| matmul(l, r).unwrap_err().to_string();
    assert!(message(f(&[2, 3]), f(&[4, 5])).starts_with("matmul: shapes [2, 3] and [4, 5]"));
    assert!(message(f(&[2, 2, 3]), f(&[3, 3, 5])).contains("leading axes"));
    assert!(message(f(&[3]), f(&[3, 5])).starts_with("matmul: got a tensor of shape [3]"));
    let i = Tensor::empty([3, 5], DType::I32).unwrap();
    assert!(message(f(&[2, 3]), i).starts_with("matmul: operands have dtypes f32 and i32"));
    let b = Tensor::from_bools(&[true; 4], [2, 2]).unwrap();
    assert!(message(b.clone(), b).starts_with("matmul: dtype bool"));
}

#[test]
fn linear_adds_the_bias_once() {
    for x_shape in [&[7usize][..], &[5, 7], &[1, 7], &[2, 3, 7], &[0, 7], &[3000, 7]] {
        let x = sample::<f32>(x_shape, 1);
        let (w, b) = (in_layout::<f32>(&[7, 9], 1, 2), sample::<f32>(&[9], 3));
        let got = linear(x.clone(), w.clone(), Some(b.clone())).unwrap();
        let mut shape = x_shape.to_vec();
        *shape.last_mut().unwrap() = 9;
        assert_eq!(got.shape().to_vec(), shape);
        let (x, w, b) = (x.to_vec::<f32>(), w.to_vec::<f32>(), b.to_vec::<f32>());
        for (i, y) in got.to_vec::<f32>().iter().enumerate() {
            let terms = (0..7).map(|p| x[i / 9 * 7 + p] as f64 * w[p * 9 + i % 9] as f64);
            let want = b[i % 9] as f64 + terms.sum::<f64>();
            assert!((*y as f64 - want).abs() < 1e-6, "{x_shape:?} {y} {want}");
        }
    }
    // Without terms the result is the bias; halves are rounded once.
    let bias = Tensor::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let x = Tensor::empty([2, 0], DType::F32).unwrap();
    let w = Tensor::empty([0, 2], DType::F32).unwrap();
    assert_eq!(linear(x, w, Some(bias)).unwrap().to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
    let x = Tensor::full([3, 4], 1.0, DType::F16).unwrap();
    let w = Tensor::full([4, 2], 0.25, DType::F16).unwrap();
    let b = Tensor::full([2], 2048.0, DType::F16).unwrap();
    assert_eq!(linear(x, w, Some(b)).unwrap().to_vec::<f16>(), [f16::from_f32(2048.0); 6]);
}

#[test]
fn linear_adds_the_bias_to_each_product_of_a_batch() {
    fn check<T: Sample + PartialEq>() {
        let (w, b) = (sample::<T>(&[6, 4], 2), sample::<T>(&[4], 3));
        // Rows of a part of an axis are no rows of one matrix.
        let x = sample::<T>(&[3, 7, 6], 1).narrow(1, 2, 4).unwrap();
        let plan = ProductPlan::new("linear", x.layout(), w.layout()).unwrap();
        assert_eq!((plan.m, plan.batch_size()), (4, 3));
        let want = linear(x.to_contiguous().unwrap(), w.clone(), Some(b.clone())).unwrap();
        assert!(linear(x, w, Some(b)).unwrap().to_vec::<T>() == want.to_vec::<T>(), "{:?}", T::DTYPE);
    }
    check::<f32>();
    check::<f16>();
}

#[test]
fn linear_gradients_match_the_definition() {
    let x = in_layout::<f64>(&[2, 3, 5], 1, 1);
    let w = sample::<f64>(&[5, 4], 2);
    let g = in_layout::<f64>(&[2, 3, 4], 2, 3);
    let dx = linear_x_backward(w.clone(), g.clone()).unwrap();
    let dw = linear_weight_backward(x.clone(), g.clone()).unwrap();
    let db = linear_bias_backward(g.clone()).unwrap();
    assert_eq!((dx.shape().to_vec(), dw.shape().to_vec()), (vec![2, 3, 5], vec![5, 4]));
    assert_eq!(db.shape().to_vec(), vec![4]);
    let (x, w, g) = (x.to_vec::<f64>(), w.to_vec::<f64>(), g.to_vec::<f64>());
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-14, "{got} {want}");
    for (i, got) in dx.to_vec::<f64>().into_iter().enumerate() {
        close(got, (0..4).map(|o| g[i / 5 * 4 + o] * w[i % 5 * 4 + o]).sum());
    }
    for (i, got) in dw.to_vec::<f64>().into_iter().enumerate() {
        close(got, (0..6).map(|r| x[r * 5 + i / 4] * g[r * 4 + i % 4]).sum());
    }
    for (i, got) in db.to_vec::<f64>().into_iter().enumerate() {
        close(got, (0..6).map(|r| g[r * 4 + i]).sum());
    }
    let empty = linear_bias_backward(Tensor::empty([0, 3], DType::F32).unwrap()).unwrap();
    assert_eq!(empty.to_vec::<f32>(), [0.0; 3]);
    // A naive f32 sum of these ones stalls at 2^24.
    let ones = Tensor::full([1, 1], 1.0, DType::F32).unwrap().expand(&[20_000_000, 1]).unwrap();
    assert_eq!(linear_bias_backward(ones).unwrap().to_vec::<f32>(), [2e7]);
}

#[test]
fn linear_refuses_bad_shapes() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    let start = |r: Result<Tensor>, s: &str| {
        let message = r.unwrap_err().to_string();
        assert!(message.starts_with(s), "{message}");
    };
    start(linear(f(&[2, 3]), f(&[4, 5]), None), "linear: ");
    start(linear(f(&[2, 3]), f(&[3]), None), "linear: ");
    start(linear(f(&[2, 3]), f(&[3, 4]), Some(f(&[3]))), "linear: ");
    start(linear(f(&[]), f(&[3, 4]), None), "linear: ");
    start(linear_x_backward(f(&[3, 4]), f(&[2, 3])), "linear_x_backward: ");
    start(linear_weight_backward(f(&[2, 3]), f(&[4, 3])), "linear_weight_backward: ");
    start(linear_weight_backward(f(&[]), f(&[])), "linear_weight_backward: ");
    start(linear_bias_backward(f(&[])), "linear_bias_backward: ");
}

#[test]
fn products_of_one_kind_refuse_the_other() {
    let [float, int] = [DType::F32, DType::I32].map(|dtype| Tensor::full([2, 2], 3.0, dtype).unwrap());
    assert_eq!(float_matmul(float.clone(), float.clone()).unwrap().to_vec::<f32>(), [18.0; 4]);
    assert_eq!(int_matmul(int.clone(), int.clone()).unwrap().to_vec::<i32>(), [18; 4]);
    let refused = |product: Result<Tensor>, op: &str, dtype: &str, expected: &str| {
        let want = alloc::format!("{op}: dtype {dtype} is not supported, expected {expected}");
        assert_eq!(product.unwrap_err().to_string(), want);
    };
    let [floats, ints] = ["a float dtype (f64, f32, f16, bf16)", "an integer dtype"];
    refused(float_matmul(int.clone(), int.clone()), "matmul", "i32", floats);
    refused(int_matmul(float.clone(), float), "matmul", "f32", ints);
    refused(linear(int.clone(), int, None), "linear", "i32", floats);
}

fn check_cross<T: Sample>() {
    for (l, r, axis) in [
        (&[4usize, 3][..], &[4usize, 3][..], 1),
        (&[3, 5], &[3, 1], 0),
        (&[2, 3, 17], &[1, 3, 17], 1),
        (&[1, 3], &[70, 3], 1),
        (&[0, 3], &[0, 3], 1),
    ] {
        for kind in 0..3 {
            let (a, b) = (in_layout::<T>(l, kind, 1), in_layout::<T>(r, 0, 2));
            let got = cross(a.clone(), b.clone(), axis).unwrap();
            let shape = got.shape().to_vec();
            let (a, b) = (a.expand(&shape).unwrap().to_vec::<T>(), b.expand(&shape).unwrap().to_vec::<T>());
            let inner: usize = shape[axis + 1..].iter().product();
            for (i, got) in got.to_vec::<T>().into_iter().enumerate() {
                let c = i / inner % 3;
                let base = i - c * inner;
                let (p, q) = (base + (c + 1) % 3 * inner, base + (c + 2) % 3 * inner);
                let (plus, minus) = (T::dot([(a[p], b[q])].into_iter()), T::dot([(a[q], b[p])].into_iter()));
                T::check(got, (plus.0 - minus.0, plus.1.wrapping_sub(minus.1)), 2, "cross");
            }
        }
    }
}

#[test]
fn cross_matches_the_definition() {
    check_cross::<f32>();
    check_cross::<f64>();
    check_cross::<f16>();
    check_cross::<bf16>();
    check_cross::<i8>();
    check_cross::<i32>();
    check_cross::<u64>();
}

#[test]
fn cross_refuses_bad_shapes() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    for (l, r, axis) in [
        (f(&[2, 3]), f(&[2, 3]), 0),
        (f(&[2, 3]), f(&[2, 3]), 2),
        (f(&[2, 3]), f(&[4, 3]), 1),
        (f(&[3]), f(&[2, 3]), 0),
    ] {
        assert!(cross(l, r, axis).unwrap_err().to_string().starts_with("cross: "));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_shapes_and_layouts(
        dims in (1usize..4, 1usize..4, 1usize..70, 1usize..70, 1usize..70),
        kinds in (0usize..7, 0usize..7),
        shared in (any::<bool>(), any::<bool>()),
    ) {
        let (b0, b1, m, n, k) = dims;
        let l = [if shared.0 { 1 } else { b0 }, b1, m, k];
        let r = [b0, if shared.1 { 1 } else { b1 }, k, n];
        check_product::<f32>(in_layout::<f32>(&l, kinds.0, 1), in_layout::<f32>(&r, kinds.1, 2));
        check_product::<i32>(in_layout::<i32>(&l, kinds.0, 1), in_layout::<i32>(&r, kinds.1, 2));
    }
}
