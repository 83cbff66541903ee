//! The slice drivers: every length around the widths of the vectors, at every alignment, in all forms.

mod common;

use common::same;
use flex_math::simd::EveryLevel;
use flex_math::*;

/// One element more than three of the widest vectors of the narrowest element type.
const MAX_LEN: usize = 3 * 16 + 1;
const OFFSETS: usize = 4;

/// Checks that the driver wrote `want` to its slice and nothing around it.
fn assert_window<T: Float>(got: &[T], at: usize, want: &[T], around: T, what: &str) {
    for (i, g) in got.iter().enumerate() {
        let w = if i >= at && i < at + want.len() { want[i - at] } else { around };
        assert!(same(*g, w), "{what}: element {i} of {} at {at} is {g}, expected {w}", want.len());
    }
}

fn unary<T: Float, F: UnaryFn<T>>(f: F, value: impl Fn(usize) -> T) {
    let mark = <T as num_traits::NumCast>::from(-7).unwrap();
    for len in 0..=MAX_LEN {
        for at in 0..OFFSETS {
            let src: Vec<T> = (0..at + len + 2).map(&value).collect();
            let want: Vec<T> = src[at..at + len].iter().map(|&x| eval_scalar(f, x)).collect();
            let mut dst = vec![mark; src.len() + 1];
            map(f, &src[at..at + len], &mut dst[at + 1..at + 1 + len]);
            assert_window(&dst, at + 1, &want, mark, "map");
            let mut data = vec![mark; at + len + 3];
            data[at..at + len].copy_from_slice(&src[at..at + len]);
            map_in_place(f, &mut data[at..at + len]);
            assert_window(&data, at, &want, mark, "map_in_place");
        }
    }
}

#[test]
fn unary_forms() {
    unary(Exp, |i| i as f32 * 0.25 - 3.0);
    unary(Exp, |i| i as f64 * 0.25 - 3.0);
    unary(Gelu, |i| i as f32 * 0.25 - 3.0);
    unary(Sin, |i| if i % 7 == 0 { 1e20 } else { i as f32 });
    unary(Ln, |i| i as f64 - 3.0);
}

fn binary<T: Float, F: BinaryFn<T>>(f: F, value: impl Fn(usize) -> T) {
    let mark = <T as num_traits::NumCast>::from(-7).unwrap();
    for len in 0..=MAX_LEN {
        for at in 0..OFFSETS {
            let a: Vec<T> = (0..at + len + 2).map(|i| value(i + 1)).collect();
            let b: Vec<T> = (0..at + len + 2).map(|i| value(2 * i)).collect();
            let (a, b) = (&a[at..at + len], &b[at..at + len]);
            let s = value(5);
            let pairs = |x: &dyn Fn(usize) -> (T, T)| -> Vec<T> {
                (0..len).map(|i| eval2_scalar(f, x(i).0, x(i).1)).collect()
            };
            let both = pairs(&|i| (a[i], b[i]));
            let rhs = pairs(&|i| (a[i], s));
            let lhs = pairs(&|i| (s, b[i]));

            let fresh = |run: &dyn Fn(&mut [T]), want: &[T], what: &str| {
                let mut dst = vec![mark; at + len + 3];
                run(&mut dst[at + 1..at + 1 + len]);
                assert_window(&dst, at + 1, want, mark, what);
            };
            fresh(&|dst| map2(f, a, b, dst), &both, "map2");
            let same = Operand::Same(s);
            fresh(&|dst| apply2(EveryLevel, f, Operand::Each(a), same, dst), &rhs, "a constant on the right");
            fresh(&|dst| apply2(EveryLevel, f, same, Operand::Each(b), dst), &lhs, "a constant on the left");

            let in_place = |from: &[T], run: &dyn Fn(&mut [T]), want: &[T], what: &str| {
                let mut data = vec![mark; at + len + 3];
                data[at..at + len].copy_from_slice(from);
                run(&mut data[at..at + len]);
                assert_window(&data, at, want, mark, what);
            };
            in_place(a, &|data| map2_in_place(f, data, b), &both, "map2_in_place");
            let in_data = Operand::Out;
            in_place(a, &|data| apply2(EveryLevel, f, in_data, same, data), &rhs, "a constant on the right");
            in_place(b, &|data| apply2(EveryLevel, f, same, in_data, data), &lhs, "a constant on the left");
        }
    }
}

#[test]
fn binary_forms() {
    binary(Pow, |i| i as f32 * 0.25 - 2.0);
    binary(Atan2, |i| i as f64 * 0.25 - 2.0);
}

#[test]
fn closures_run_once_and_return() {
    let x = [1.0f32; 100];
    assert_eq!(simd::vectorize(|| x.iter().sum::<f32>()), 100.0);
    assert!(!simd::isa_name().is_empty());
}

#[test]
#[should_panic(expected = "flex_math::map: slices of 3 and 2 elements, expected the same length")]
fn map_rejects_different_lengths() {
    map(Exp, &[0.0f32; 3], &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "flex_math::map2: slices of 3 and 4 elements")]
fn map2_rejects_different_lengths() {
    map2(Pow, &[0.0f64; 3], &[0.0; 4], &mut [0.0; 3]);
}

#[test]
#[should_panic(expected = "flex_math::map2_in_place: slices of 3 and 2 elements")]
fn map2_in_place_rejects_different_lengths() {
    map2_in_place(Pow, &mut [0.0f64; 3], &[0.0; 2]);
}
