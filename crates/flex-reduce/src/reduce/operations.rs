//! The reductions: sums, means, products, extremes, and whether any or all elements are true.
//!
//! Variants that share their inner loop are one type with a field, so that the loop is compiled once: sum and
//! mean; maximum and minimum; any and all.

use super::lift::{Arith, Lift, LoopVectors, WideSum};
use super::order::Order;
use super::reducer::{Reducer, fold_lanes, fold_quarters, lift_padded};
use super::sizes::{LANES, QUARTER};
use crate::Element;
use flex_math::fold_halves;
use flex_math::simd::Levels;
use flex_math::simd::prefetch_ahead;

/// The partial result `acc` of elements, combined `copies >= 1` times, by doubling.
pub(super) fn repeat<A: Copy>(acc: A, copies: usize, combine: impl Fn(A, A) -> A) -> A {
    let (mut base, mut rest, mut result) = (acc, copies - 1, acc);
    while rest > 0 {
        if rest & 1 == 1 {
            result = combine(result, base);
        }
        rest >>= 1;
        if rest > 0 {
            base = combine(base, base);
        }
    }
    result
}

/// The result of explicit vector code, or of a loop over lanes if there is no such code.
#[inline(always)]
fn explicit_or_lanes<W: LoopVectors, T: Element, R: Reducer<T>>(
    r: R,
    explicit: Option<R::Acc>,
    row: &[T],
) -> R::Acc {
    // Not `unwrap_or_else`: its closure would be a separate function, compiled for the baseline instruction
    // set.
    match explicit {
        Some(value) => value,
        None => fold_quarters::<W, T, R>(r, row),
    }
}

/// Sum, or the mean of floats. Halves are summed in f32, and divided before they are rounded.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    /// Whether to divide by the number of elements.
    pub mean: bool,
}

impl<T: Lift> Reducer<T> for Sum {
    type Acc = T::Wide;
    type Out = T;
    const ROUNDS: bool = T::IS_FLOAT;
    const LONGEST: usize = T::LONGEST;
    const LIFTS_SLICES: bool = T::CONVERTS;
    #[inline(always)]
    fn identity(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Wide {
        value.widen()
    }
    #[inline(always)]
    fn combine(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.add(b)
    }
    #[inline(always)]
    fn fold_row<W: LoopVectors>(self, row: &[T]) -> T::Wide {
        explicit_or_lanes::<W, T, Self>(self, T::sum_row::<W>(row), row)
    }
    #[inline(always)]
    fn lift_all<W: LoopVectors>(self, from: &[T], to: &mut [T::Wide]) {
        T::widen_all::<W>(from, to);
    }
    #[inline]
    fn finish(self, acc: T::Wide, n: usize, copies: usize) -> T {
        match (self.mean, copies) {
            // Copies do not change a mean.
            (true, _) => T::from_f64(acc.to_f64() / n as f64),
            (false, 1) => T::narrow(acc),
            (false, _) => T::narrow(repeat(acc, copies, T::Wide::add)),
        }
    }
}

/// Product; halves are computed in f32.
#[derive(Clone, Copy)]
pub(crate) struct Prod;

impl<T: Lift> Reducer<T> for Prod {
    type Acc = T::Wide;
    type Out = T;
    const ROUNDS: bool = T::IS_FLOAT;
    const LONGEST: usize = T::LONGEST;
    const LIFTS_SLICES: bool = T::CONVERTS;
    const LEVELS: Levels = T::PRODUCT_LEVELS;
    #[inline(always)]
    fn identity(self) -> T::Wide {
        T::Wide::ONE
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Wide {
        value.widen()
    }
    #[inline(always)]
    fn combine(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.mul(b)
    }
    #[inline(always)]
    fn fold_row<W: LoopVectors>(self, row: &[T]) -> T::Wide {
        explicit_or_lanes::<W, T, Self>(self, T::product_row(row), row)
    }
    #[inline(always)]
    fn lift_all<W: LoopVectors>(self, from: &[T], to: &mut [T::Wide]) {
        T::widen_all::<W>(from, to);
    }
    #[inline]
    fn finish(self, acc: T::Wide, _n: usize, copies: usize) -> T {
        T::narrow(if copies == 1 { acc } else { repeat(acc, copies, T::Wide::mul) })
    }
}

/// Mean of integers, accumulated in a wider type.
#[derive(Clone, Copy)]
pub(crate) struct IntMean {
    /// Whether the bits are signed integers.
    pub signed: bool,
}

impl<T: WideSum> Reducer<T> for IntMean {
    type Acc = T::Sum;
    type Out = T;
    const ROUNDS: bool = false;
    /// Sums of 128 bits have no vectors: means of 64 rows of 1,024 i64 take 20 us at the baseline, and 34
    /// with AVX2 (Zen 4).
    const LEVELS: Levels = if size_of::<T>() == 8 { Levels::Baseline } else { Levels::Lean };
    #[inline(always)]
    fn identity(self) -> T::Sum {
        T::Sum::default()
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Sum {
        value.widen_biased(self.signed)
    }
    #[inline(always)]
    fn combine(self, a: T::Sum, b: T::Sum) -> T::Sum {
        T::add_wide(a, b)
    }
    #[inline]
    fn finish(self, acc: T::Sum, n: usize, _copies: usize) -> T {
        T::mean(acc, n, self.signed)
    }
}

/// The extreme that comes last in an order; NaN if any element is NaN.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<O> {
    /// The order, in which NaN is above all numbers.
    pub order: O,
}

impl<T: Lift, O: Order<T>> Reducer<T> for Extreme<O> {
    type Acc = T::Wide;
    type Out = T;
    const ROUNDS: bool = false;
    const IS_PLAIN: bool = O::VECTORISES;
    /// Halves come as `u16` and take several operations on bits. AVX2 does not compare unsigned integers of
    /// 64 bits: maxima of i64 took 2.3 times as long with it (Zen 5).
    const LEVELS: Levels = match (T::IS_FLOAT, size_of::<T>()) {
        (true, _) | (false, 2 | 8) => Levels::All,
        _ => Levels::Lean,
    };
    #[inline(always)]
    fn identity(self) -> T::Wide {
        T::Wide::LOWEST
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Wide {
        self.order.key(value)
    }
    #[inline(always)]
    fn combine(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.max(b)
    }
    /// Propagating NaN takes four instructions per vector. For floats, one instruction finds the maximum of
    /// the numbers, and NaN is recorded separately, for two vectors at once.
    #[inline(always)]
    fn fold_row<W: LoopVectors>(self, row: &[T]) -> T::Wide {
        if !T::IS_FLOAT {
            // Quarters of lanes of 16 bits are half a vector of AVX-512, and the compiler takes them apart:
            // maxima of 1,024 rows of 1,024 f16 took 147 us, and take 41 (one thread of Zen 4).
            return match size_of::<T>() {
                2 => fold_lanes::<W, LANES, T, Self>(self, row),
                _ => fold_quarters::<W, T, Self>(self, row),
            };
        }
        // Separate short arrays: loops over longer arrays are unrolled too late for the arrays to be kept in
        // registers.
        let [mut a, mut b, mut c, mut d, mut nan, mut nan2] = [[T::Wide::LOWEST; QUARTER]; 6];
        let (quarters, rest) = row.as_chunks::<QUARTER>();
        let (chunks, quarters) = quarters.as_chunks::<4>();
        for [w, x, y, z] in chunks {
            prefetch_ahead(w.as_ptr(), LANES);
            self.fold_pair(w, x, &mut a, &mut b, &mut nan);
            self.fold_pair(y, z, &mut c, &mut d, &mut nan2);
        }
        for x in quarters {
            for l in 0..QUARTER {
                a[l] = a[l].max(self.order.key(x[l]));
            }
        }
        let rest = lift_padded::<W, QUARTER, T, Self>(self, rest);
        for l in 0..QUARTER {
            a[l] = a[l].max(b[l]).max(c[l].max(d[l])).max(nan[l].max(nan2[l]).max(rest[l]));
        }
        fold_halves(&mut a, |a, b| a.max(b))
    }
    #[inline]
    fn finish(self, acc: T::Wide, _n: usize, _copies: usize) -> T {
        self.order.element(acc)
    }
}

impl<O> Extreme<O> {
    /// Replaces elements of `a` and `b` by larger numbers of `x` and `y`; where either `x` or `y` is NaN,
    /// sets `nan` to NaN.
    #[inline(always)]
    fn fold_pair<T: Lift>(
        self,
        x: &[T; QUARTER],
        y: &[T; QUARTER],
        a: &mut [T::Wide; QUARTER],
        b: &mut [T::Wide; QUARTER],
        nan: &mut [T::Wide; QUARTER],
    ) where
        O: Order<T>,
    {
        for l in 0..QUARTER {
            let x = self.order.key(x[l]);
            a[l] = if x > a[l] { x } else { a[l] };
        }
        for l in 0..QUARTER {
            let y = self.order.key(y[l]);
            b[l] = if y > b[l] { y } else { b[l] };
        }
        for l in 0..QUARTER {
            let either = self.order.key(x[l]).is_nan() | self.order.key(y[l]).is_nan();
            nan[l] = if either { T::Wide::NAN } else { nan[l] };
        }
    }
}

/// Raw bits, for the logical reductions.
pub(crate) trait RawBits: Element {
    const EVERY: Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! impl_bits {
    ($($ty:ty),*) => {$(
        impl RawBits for $ty {
            const EVERY: Self = <$ty>::MAX;
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}

impl_bits!(u8, u16, u32, u64);

/// Whether any element is non-zero; or all are, as the negation of "any is zero".
#[derive(Clone, Copy)]
pub(crate) struct Truth<B> {
    /// The bits that make a value non-zero: all but the sign of a float.
    mask: B,
    /// The bits of an element that is zero: none, or all if zeros are looked for.
    zero: B,
}

impl<B: RawBits> Truth<B> {
    pub fn new(mask: B, all: bool) -> Self {
        Self { mask, zero: if all { B::EVERY } else { B::ZERO } }
    }
}

impl<B: RawBits> Reducer<B> for Truth<B> {
    type Acc = B;
    type Out = u8;
    const ROUNDS: bool = false;
    #[inline(always)]
    fn identity(self) -> B {
        B::ZERO
    }
    #[inline(always)]
    fn lift(self, value: B) -> B {
        // A comparison of two booleans would not be vectorised: 65,536 f32 took 30 us.
        let truth = if value.and(self.mask) == B::ZERO { B::ZERO } else { B::EVERY };
        truth.xor(self.zero)
    }
    #[inline(always)]
    fn combine(self, a: B, b: B) -> B {
        a.or(b)
    }
    #[inline]
    fn finish(self, acc: B, _n: usize, _copies: usize) -> u8 {
        ((acc == B::ZERO) == (self.zero == B::EVERY)) as u8
    }
}
