//! The order of elements. Every extreme is the maximum of a key of the elements.
//!
//! Integers and halves are compared by keys that are unsigned integers, which take a few operations on bits.
//! For halves, a vector holds twice as many keys as f32 values, and nothing is converted: the maxima of 1,024
//! rows of 1,024 f16 take 34 us on two threads of a Xeon (f32: 54), and took 112 in f32.

use super::lift::Lift;
use core::marker::PhantomData;

/// The extreme that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Want {
    Max,
    Min,
}

/// An order of elements by keys: the wanted extreme has the largest key.
pub(crate) trait Order<T: Lift>: Copy + Send + Sync + 'static {
    /// An order with the same extremes but for the sign of zeros. With it, a search finds the value of an
    /// extreme by the loops that are compiled for reductions anyway.
    type ByValue: Order<T>;
    /// An order whose keys are equal for the same elements: one for both extremes, so that the loops that
    /// look for an element are compiled once.
    type Equality: Order<T>;
    /// Whether the compiler vectorises a plain loop that looks for the largest key.
    const VECTORISES: bool = false;
    fn key(self, value: T) -> T::Wide;
    /// The element of a key; for the key of a NaN, a NaN.
    fn element(self, wide: T::Wide) -> T;
    /// The order of reductions.
    fn by_value(self) -> Self::ByValue;
    /// The order that elements are looked for with.
    fn equality(self) -> Self::Equality;
}

/// An extreme that is known when the loops are compiled.
pub(crate) trait Wanted: Copy + Send + Sync + 'static {
    const WANT: Want;
}

macro_rules! wanted {
    ($($name:ident)*) => {$(
        #[doc = concat!("[`Want::", stringify!($name), "`].")]
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Wanted for $name {
            const WANT: Want = Want::$name;
        }
    )*};
}

wanted!(Max Min);

/// An extreme `W` of f32 or f64, by keys of the same type.
#[derive(Clone, Copy)]
pub(crate) struct FloatOrder<W>(PhantomData<fn() -> W>);

impl<W> FloatOrder<W> {
    /// The order.
    pub(crate) const NEW: Self = Self(PhantomData);
}

macro_rules! impl_float_order {
    ($($ty:ty),*) => {$(
        impl<W: Wanted> Order<$ty> for FloatOrder<W> {
            type ByValue = Self;
            type Equality = FloatOrder<Max>;
            #[inline(always)]
            fn key(self, value: $ty) -> $ty {
                match W::WANT {
                    Want::Max => value,
                    Want::Min => -value,
                }
            }
            #[inline(always)]
            fn element(self, wide: $ty) -> $ty {
                self.key(wide)
            }
            fn by_value(self) -> Self {
                self
            }
            fn equality(self) -> FloatOrder<Max> {
                FloatOrder::NEW
            }
        }
    )*};
}

impl_float_order!(f64, f32);

const SIGN: u16 = 0x8000;

/// An extreme `W` of f16 or bf16, read as their bits. With `EQUAL_ZEROS`, zeros have equal keys, so that a
/// search for positions finds the first; otherwise -0.0 comes before 0.0, which keeps the sign.
///
/// One compiled loop serves both half types. The extreme is a constant: as fields, its masks made maxima of
/// columns a quarter slower. The field has 32 bits because the compiler computes with the bits of a structure
/// of 16-bit fields in 64-bit lanes.
#[derive(Clone, Copy)]
pub(crate) struct HalfOrder<W, const EQUAL_ZEROS: bool> {
    /// The bits of infinity; greater magnitudes are NaN.
    infinity: u32,
    want: PhantomData<fn() -> W>,
}

impl<W, const EQUAL_ZEROS: bool> HalfOrder<W, EQUAL_ZEROS> {
    /// The order of the half type whose infinity has these bits.
    pub fn new(infinity: u16) -> Self {
        Self { infinity: infinity.into(), want: PhantomData }
    }
}

impl<W: Wanted, const EQUAL_ZEROS: bool> Order<u16> for HalfOrder<W, EQUAL_ZEROS> {
    type ByValue = HalfOrder<W, false>;
    type Equality = HalfOrder<Max, EQUAL_ZEROS>;

    /// NaN gets the largest key. Negative numbers become the complement of their magnitude: two's complement
    /// with `EQUAL_ZEROS`, which makes zeros equal, otherwise ones'. Then the sign bit is inverted for
    /// unsigned order.
    #[inline(always)]
    fn key(self, value: u16) -> u16 {
        let bits = match W::WANT {
            Want::Max => value,
            Want::Min => value ^ SIGN,
        };
        let magnitude = bits & !SIGN;
        let negative = (bits as i16 >> 15) as u16;
        let complement = magnitude ^ negative;
        let complement = if EQUAL_ZEROS { complement.wrapping_sub(negative) } else { complement };
        if magnitude > self.infinity as u16 { u16::MAX } else { complement ^ SIGN }
    }

    #[inline(always)]
    fn element(self, wide: u16) -> u16 {
        let complement = wide ^ SIGN;
        let negative = (complement as i16 >> 15) as u16;
        let magnitude = if EQUAL_ZEROS { complement.wrapping_add(negative) } else { complement } ^ negative;
        // The key of NaN gives a magnitude whose bits are all 1, which is a NaN.
        let bits = magnitude & !SIGN | negative & SIGN;
        if W::WANT == Want::Min { bits ^ SIGN } else { bits }
    }

    fn by_value(self) -> HalfOrder<W, false> {
        HalfOrder { infinity: self.infinity, want: PhantomData }
    }

    fn equality(self) -> HalfOrder<Max, EQUAL_ZEROS> {
        HalfOrder { infinity: self.infinity, want: PhantomData }
    }
}

/// The order for an extreme of integers, which are read as unsigned.
#[derive(Clone, Copy)]
pub(crate) struct IntOrder<U> {
    /// Bits to invert: the sign bit turns the signed order into an unsigned one; inverting all bits reverses
    /// the order.
    flip: U,
}

macro_rules! impl_int_order {
    ($($ty:ty),*) => {$(
        impl IntOrder<$ty> {
            /// The order for the extreme `want` of integers, which may be `signed`.
            pub fn new(want: Want, signed: bool) -> Self {
                let sign = if signed { !(<$ty>::MAX >> 1) } else { 0 };
                match want {
                    Want::Max => Self { flip: sign },
                    Want::Min => Self { flip: !sign },
                }
            }
        }

        impl Order<$ty> for IntOrder<$ty> {
            type ByValue = Self;
            type Equality = Self;
            const VECTORISES: bool = true;
            #[inline(always)]
            fn key(self, value: $ty) -> $ty {
                value ^ self.flip
            }
            #[inline(always)]
            fn element(self, wide: $ty) -> $ty {
                wide ^ self.flip
            }
            fn by_value(self) -> Self {
                self
            }
            fn equality(self) -> Self {
                self
            }
        }
    )*};
}

impl_int_order!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::lift::Arith;
    use crate::{bf16, f16};

    #[test]
    fn keys_order_as_the_values_do() {
        let values = [i8::MIN, -127, -3, -1, 0, 1, 2, 126, 127];
        for want in [Want::Max, Want::Min] {
            let order = IntOrder::<u8>::new(want, true);
            for a in values {
                for b in values {
                    let key = |x: i8| match want {
                        Want::Max => x as i32,
                        Want::Min => -(x as i32),
                    };
                    let (la, lb) = (order.key(a as u8), order.key(b as u8));
                    assert_eq!(la.cmp(&lb), key(a).cmp(&key(b)), "{want:?} {a} {b}");
                }
                assert_eq!(order.element(order.key(a as u8)) as i8, a);
            }
        }
    }

    /// Every half against some others, as f32 orders them.
    fn halves_order_as_their_values<W: Wanted>(value: fn(u16) -> f32, [infinity, one]: [u16; 2]) {
        let want = W::WANT;
        let some = [0, 1, one, infinity - 1, infinity, infinity + 1, 0x7fff].map(|bits| [bits, bits | SIGN]);
        let turned = |bits| match want {
            Want::Max => value(bits),
            Want::Min => -value(bits),
        };
        let (equal, ordered) = (HalfOrder::<W, true>::new(infinity), HalfOrder::<W, false>::new(infinity));
        for a in 0..=u16::MAX {
            let (x, back) = (turned(a), ordered.element(ordered.key(a)));
            assert!(if x.is_nan() { value(back).is_nan() } else { back == a }, "{want:?} {a:#x}");
            assert_eq!(equal.key(back), equal.key(a), "{want:?} {a:#x}");
            assert!(ordered.key(a) > u16::LOWEST);
            for b in some.into_iter().flatten() {
                let y = turned(b);
                let by_value =
                    x.is_nan().cmp(&y.is_nan()).then(x.partial_cmp(&y).unwrap_or(core::cmp::Ordering::Equal));
                assert_eq!(equal.key(a).cmp(&equal.key(b)), by_value, "{want:?} {a:#x} {b:#x}");
                let numbers = !x.is_nan() && !y.is_nan();
                let by_bits = if numbers { x.total_cmp(&y) } else { by_value };
                assert_eq!(ordered.key(a).cmp(&ordered.key(b)), by_bits, "{want:?} {a:#x} {b:#x}");
            }
        }
    }

    #[test]
    fn f16_is_ordered_by_its_bits_as_by_its_values() {
        let value = |bits| f16::from_bits(bits).to_f32();
        halves_order_as_their_values::<Max>(value, [0x7c00, 0x3c00]);
        halves_order_as_their_values::<Min>(value, [0x7c00, 0x3c00]);
    }

    #[test]
    fn bf16_is_ordered_by_its_bits_as_by_its_values() {
        let value = |bits| bf16::from_bits(bits).to_f32();
        halves_order_as_their_values::<Max>(value, [0x7f80, 0x3f80]);
        halves_order_as_their_values::<Min>(value, [0x7f80, 0x3f80]);
    }
}
