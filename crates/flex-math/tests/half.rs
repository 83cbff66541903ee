//! Half precision: conversions against the `half` crate, exhaustively, and the drivers against f32.

use flex_math::Operand::{Each, Out, Same};
use flex_math::half::{Half, bf16, convert, f16, from_f32, to_f32};
use flex_math::simd::{EveryLevel, Simd, Vector};
use flex_math::*;

fn widen<H: Half>(src: &[H]) -> Vec<f32> {
    let mut dst = vec![0.0; src.len()];
    to_f32(src, &mut dst);
    dst
}

fn narrow<H: Half>(src: &[f32]) -> Vec<H> {
    let mut dst = vec![H::default(); src.len()];
    from_f32(src, &mut dst);
    dst
}

#[test]
fn widening_is_exact_for_every_pattern() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    for (h, got) in all.iter().zip(widen(&all)) {
        let want = h.to_f32();
        assert!(
            got == want && got.is_sign_negative() == want.is_sign_negative() || got.is_nan() && want.is_nan(),
            "{h:?}"
        );
    }
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for (h, got) in all.iter().zip(widen(&all)) {
        let want = h.to_f32();
        assert!(
            got == want && got.is_sign_negative() == want.is_sign_negative() || got.is_nan() && want.is_nan(),
            "{h:?}"
        );
    }
}

/// Patterns around every half value, every tie between neighbours, and the tie's neighbours.
fn around_every_half(widen: impl Fn(u16) -> f32) -> Vec<f32> {
    let mut x = Vec::new();
    for bits in 0..=u16::MAX {
        let here = widen(bits);
        let next = widen(bits.wrapping_add(1));
        let tie = f32::from_bits((here.to_bits() as u64).midpoint(next.to_bits() as u64) as u32);
        let arithmetic_tie = ((here as f64 + next as f64) / 2.0) as f32;
        for v in [here, tie, arithmetic_tie] {
            x.extend([
                v,
                f32::from_bits(v.to_bits().wrapping_sub(1)),
                f32::from_bits(v.to_bits().wrapping_add(1)),
            ]);
        }
    }
    // And an even spread over all f32.
    x.extend((0..1 << 20).map(|i: u32| f32::from_bits(i.wrapping_mul(4093))));
    x
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let x = around_every_half(|bits| f16::from_bits(bits).to_f32());
    for (x, got) in x.iter().zip(narrow::<f16>(&x)) {
        let want = f16::from_f32(*x);
        assert!(
            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
            "{x:e}: {got:?}, expected {want:?}"
        );
    }
    let x = around_every_half(|bits| bf16::from_bits(bits).to_f32());
    for (x, got) in x.iter().zip(narrow::<bf16>(&x)) {
        let want = bf16::from_f32(*x);
        assert!(
            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
            "{x:e}: {got:?}, expected {want:?}"
        );
    }
}

/// Tries all f32 bit patterns; takes minutes.
#[test]
#[ignore = "minutes"]
fn narrowing_exhaustive() {
    for block in 0..1u32 << 12 {
        let x: Vec<f32> = (0..1u32 << 20).map(|i| f32::from_bits(block << 20 | i)).collect();
        for (x, got) in x.iter().zip(narrow::<f16>(&x)) {
            let want = f16::from_f32(*x);
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}");
        }
        for (x, got) in x.iter().zip(narrow::<bf16>(&x)) {
            let want = bf16::from_f32(*x);
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}");
        }
    }
}

/// Lengths around the lengths of vectors.
fn lengths() -> impl Iterator<Item = usize> {
    (0..70).chain([255, 256, 257, 1000])
}

fn drivers<H: Half>(of: impl Fn(f32) -> H, to: impl Fn(H) -> f32) {
    let mark = of(-7.0);
    for len in lengths() {
        let a: Vec<H> = (0..len).map(|i| of(i as f32 * 0.03 - 4.0)).collect();
        let b: Vec<H> = (0..len).map(|i| of(1.5 - i as f32 * 0.01)).collect();
        let unary: Vec<H> = a.iter().map(|&x| of(eval_scalar(Gelu, to(x)))).collect();
        let pair = |x: f32, y: f32| of(eval2_scalar(Atan2, x, y));
        let both: Vec<H> = a.iter().zip(&b).map(|(&x, &y)| pair(to(x), to(y))).collect();
        let rhs: Vec<H> = a.iter().map(|&x| pair(to(x), 0.3)).collect();
        let lhs: Vec<H> = b.iter().map(|&y| pair(0.3, to(y))).collect();

        let fresh = |run: &dyn Fn(&mut [H]), want: &[H]| {
            let mut got = vec![mark; len + 2];
            run(&mut got[1..=len]);
            assert!(got[0] == mark && got[len + 1] == mark);
            assert_eq!(&got[1..=len], want);
        };
        fresh(&|dst| apply(EveryLevel, Gelu, Each(&a), dst), &unary);
        fresh(&|dst| apply2(EveryLevel, Atan2, Each(&a), Each(&b), dst), &both);
        fresh(&|dst| apply2(EveryLevel, Atan2, Each(&a), Same(0.3), dst), &rhs);
        fresh(&|dst| apply2(EveryLevel, Atan2, Same(0.3), Each(&b), dst), &lhs);

        let wide: Vec<f32> = a.iter().map(|&x| to(x)).collect();
        assert_eq!(widen(&a), wide);
        fresh(&|dst| from_f32(&wide, dst), &a);
        let other: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
        fresh(&|dst| convert(&other, dst), &other.iter().map(|x| of(x.to_f32())).collect::<Vec<_>>());

        let in_place = |from: &[H], run: &dyn Fn(&mut [H]), want: &[H]| {
            let mut data = from.to_vec();
            run(&mut data);
            assert_eq!(data, want);
        };
        in_place(&a, &|data| apply(EveryLevel, Gelu, Out, data), &unary);
        in_place(&a, &|data| apply2(EveryLevel, Atan2, Out, Each(&b), data), &both);
        in_place(&b, &|data| apply2(EveryLevel, Atan2, Each(&a), Out, data), &both);
        in_place(&a, &|data| apply2(EveryLevel, Atan2, Out, Same(0.3), data), &rhs);
        in_place(&b, &|data| apply2(EveryLevel, Atan2, Same(0.3), Out, data), &lhs);
    }
}

#[test]
fn drivers_round_the_f32_result_once() {
    drivers(f16::from_f32, f16::to_f32);
    drivers(bf16::from_f32, bf16::to_f32);
}

/// The identity, for signalling NaN too.
#[derive(Clone, Copy)]
struct AsItIs;

impl UnaryFn<f32> for AsItIs {
    fn eval<S: Simd>(self, x: Vector<S, f32>) -> Vector<S, f32> {
        x
    }
}

fn nan_stays_nan<H: Half + Default>(is_nan: impl Fn(H) -> bool) {
    let all: Vec<H> = (0..=u16::MAX).map(H::from_pattern).collect();
    let mut got = vec![H::default(); all.len()];
    let mut check = |run: &dyn Fn(&mut [H]), want: &dyn Fn(H) -> bool| {
        run(&mut got);
        for (&x, &y) in all.iter().zip(&got) {
            assert_eq!(is_nan(y), want(x), "{x:?} gave {y:?}");
        }
    };
    check(&|dst| apply(EveryLevel, AsItIs, Each(&all), dst), &|x| is_nan(x));
    check(&|dst| apply(EveryLevel, Sin, Each(&all), dst), &|x| !H::widen(x.bits()).is_finite());
    check(&|dst| apply(EveryLevel, Gelu, Each(&all), dst), &|x| is_nan(x));
    check(&|dst| apply2(EveryLevel, Atan2, Each(&all), Each(&all), dst), &|x| is_nan(x));
    // NaN payloads that rounding would carry into the sign, or cut off.
    for bits in [0x7fff_ffff, 0xffff_ffff, 0x7fff_8000, 0x7f80_0001, 0xff80_7fff] {
        let nan = f32::from_bits(bits);
        check(&|dst| apply2(EveryLevel, Atan2, Each(&all), Same(nan), dst), &|_| true);
        check(&|dst| apply2(EveryLevel, Atan2, Same(nan), Each(&all), dst), &|_| true);
        check(&|dst| apply(EveryLevel, AsItIs, Same(nan), dst), &|_| true);
        check(&|dst| from_f32(&vec![nan; dst.len()], dst), &|_| true);
    }
    check(&|dst| convert::<f16, H>(&vec![f16::from_bits(0x7fff); dst.len()], dst), &|_| true);
    check(&|dst| convert::<bf16, H>(&vec![bf16::from_bits(0x7f81); dst.len()], dst), &|_| true);
}

#[test]
fn nan_of_every_payload_stays_nan() {
    nan_stays_nan(f16::is_nan);
    nan_stays_nan(bf16::is_nan);
}
