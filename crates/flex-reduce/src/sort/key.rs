//! Unsigned keys that have the order of the elements.
//!
//! A key is a bijection of the element's bits, except for equal elements with different bits: all NaN share
//! the greatest key, and both zeros of a float share a key. The keys of a descending order are complemented,
//! so that a stable ascending sort of keys is a stable sort of the elements in either direction.

use crate::{DType, Element};
use flex_math::simd::vectorize_lean;

/// The raw bits of an element, or its key.
pub(super) trait SortKey: Element + Digits {
    /// A key and an index in one integer, ordered by the key first.
    type Packed: Digits + Default;
    const BITS: u32;
    fn pack(self, index: u32) -> Self::Packed;
    fn key(packed: Self::Packed) -> Self;
    fn index(packed: Self::Packed) -> u32;
    /// The key of a float's bits; `inf` is the magnitude of infinity.
    fn of_float(self, inf: Self) -> Self;
    /// The key of a signed integer's bits; the function is its own inverse.
    fn of_signed(self) -> Self;
    /// The bits of a float from its key; NaN and zero become canonical.
    fn to_float(self) -> Self;
    /// Inverts all bits if `flip` is all ones.
    fn xor(self, flip: Self) -> Self;
    /// Whether these bits of a float cannot be restored from the key: NaN and -0.0.
    fn is_special_float(self, inf: Self) -> bool;
}

/// An unsigned integer that a radix sort splits into digits.
pub(super) trait Digits: Copy + Ord + Send + Sync + bytemuck::Pod {
    /// The digit at bit `shift`, one of `MASK + 1` values.
    fn digit<const MASK: usize>(self, shift: u32) -> usize;
}

macro_rules! impl_digits {
    ($($ty:ty),*) => {$(
        impl Digits for $ty {
            #[inline(always)]
            fn digit<const MASK: usize>(self, shift: u32) -> usize {
                (self >> shift) as usize & MASK
            }
        }
    )*};
}

impl_digits!(u8, u16, u32, u64, u128);

macro_rules! impl_key {
    ($($ty:ty => $packed:ty;)*) => {$(
        impl SortKey for $ty {
            type Packed = $packed;
            const BITS: u32 = <$ty>::BITS;
            #[inline(always)]
            fn pack(self, index: u32) -> $packed { (self as $packed) << 32 | index as $packed }
            #[inline(always)]
            fn key(packed: $packed) -> Self { (packed >> 32) as $ty }
            #[inline(always)]
            fn index(packed: $packed) -> u32 { packed as u32 }
            #[inline(always)]
            fn of_float(self, inf: Self) -> Self {
                let sign = !(<$ty>::MAX >> 1);
                let negative = (0 as $ty).wrapping_sub(self >> (<$ty>::BITS - 1));
                let magnitude = self & !sign;
                // Canonical zero and NaN, without branches.
                let bits = if magnitude == 0 { 0 } else { self };
                let key = bits ^ (if magnitude == 0 { 0 } else { negative } | sign);
                if magnitude > inf { <$ty>::MAX } else { key }
            }
            #[inline(always)]
            fn of_signed(self) -> Self { self ^ !(<$ty>::MAX >> 1) }
            #[inline(always)]
            fn to_float(self) -> Self {
                let sign = !(<$ty>::MAX >> 1);
                let positive = (0 as $ty).wrapping_sub(self >> (<$ty>::BITS - 1));
                self ^ (!positive | sign)
            }
            #[inline(always)]
            fn xor(self, flip: Self) -> Self { self ^ flip }
            #[inline(always)]
            fn is_special_float(self, inf: Self) -> bool {
                let sign = !(<$ty>::MAX >> 1);
                (self & !sign > inf) | (self == sign)
            }
        }
    )*};
}

impl_key! { u8 => u64; u16 => u64; u32 => u64; u64 => u128; }

/// What the bits of a dtype mean.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KeyKind {
    Float,
    Signed,
    Unsigned,
}

/// The map between elements, as raw bits, and keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyMap<B> {
    kind: KeyKind,
    /// All ones for a descending order, otherwise 0.
    flip: B,
    /// Magnitude of infinity, for floats.
    inf: B,
}

impl<B: SortKey> KeyMap<B> {
    /// The map for a dtype whose elements have the size of `B`.
    pub fn new(dtype: DType, descending: bool) -> Self {
        let inf = match dtype {
            DType::F64 => f64::INFINITY.to_bits(),
            DType::F32 => f32::INFINITY.to_bits() as u64,
            DType::F16 => crate::f16::INFINITY.to_bits() as u64,
            DType::BF16 => crate::bf16::INFINITY.to_bits() as u64,
            _ => 0,
        };
        let kind = match () {
            _ if dtype.is_float() => KeyKind::Float,
            _ if dtype.is_int() => KeyKind::Signed,
            _ => KeyKind::Unsigned,
        };
        let flip = if descending { B::from_u64(u64::MAX) } else { B::ZERO };
        Self { kind, flip, inf: B::from_u64(inf) }
    }

    /// Writes the key of each element; returns whether [`elements`](Self::elements) restores all elements
    /// from the keys. Sorting takes so much longer that AVX-512 would not be noticed.
    #[inline]
    pub fn keys(&self, bits: &[B], keys: &mut [B]) -> bool {
        vectorize_lean(
            #[inline(always)]
            || self.keys_inline(bits, keys),
        )
    }

    /// [`keys`](Self::keys), for callers that are vectorised themselves.
    #[inline(always)]
    pub fn keys_inline(&self, bits: &[B], keys: &mut [B]) -> bool {
        let flip = self.flip;
        match self.kind {
            KeyKind::Float => {
                let (inf, mut special) = (self.inf, false);
                for (k, &b) in keys.iter_mut().zip(bits) {
                    *k = b.of_float(inf).xor(flip);
                    special |= b.is_special_float(inf);
                }
                !special
            }
            KeyKind::Signed => {
                for (k, &b) in keys.iter_mut().zip(bits) {
                    *k = b.of_signed().xor(flip);
                }
                true
            }
            KeyKind::Unsigned => {
                for (k, &b) in keys.iter_mut().zip(bits) {
                    *k = b.xor(flip);
                }
                true
            }
        }
    }

    /// Writes the element of each key; NaN and zeros of floats become canonical.
    pub fn elements(&self, keys: &[B], bits: &mut [B]) {
        let flip = self.flip;
        vectorize_lean(
            #[inline(always)]
            || match self.kind {
                KeyKind::Float => {
                    for (b, &k) in bits.iter_mut().zip(keys) {
                        *b = k.xor(flip).to_float();
                    }
                }
                KeyKind::Signed => {
                    for (b, &k) in bits.iter_mut().zip(keys) {
                        *b = k.xor(flip).of_signed();
                    }
                }
                KeyKind::Unsigned => {
                    for (b, &k) in bits.iter_mut().zip(keys) {
                        *b = k.xor(flip);
                    }
                }
            },
        );
    }

    /// The keys that elements of different bits share: of the zeros and of NaN.
    pub fn shared_keys(&self) -> [B; 2] {
        [B::ZERO.of_float(self.inf).xor(self.flip), B::from_u64(u64::MAX).xor(self.flip)]
    }

    pub fn key(&self, bits: B) -> B {
        let mut key = [B::ZERO];
        self.keys_inline(&[bits], &mut key);
        key[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn keys_order_floats() {
        let ascending = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -f32::MIN_POSITIVE,
            -1e-45,
            0.0,
            1e-45,
            f32::MIN_POSITIVE,
            1.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        let bits: Vec<u32> = ascending.iter().map(|x| x.to_bits()).collect();
        for descending in [false, true] {
            let map = KeyMap::<u32>::new(DType::F32, descending);
            let mut keys = vec![0; bits.len()];
            assert!(!map.keys(&bits, &mut keys));
            assert!(keys.windows(2).all(|w| if descending { w[0] > w[1] } else { w[0] < w[1] }));
            let mut back = vec![0; bits.len()];
            map.elements(&keys, &mut back);
            assert_eq!(back[..11], bits[..11]);
            assert!(f32::from_bits(back[11]).is_nan());
            let negative_nan = (-f32::NAN).to_bits() | 1;
            assert_eq!(map.key(negative_nan), keys[11]);
            assert_eq!(map.key((-0.0f32).to_bits()), keys[5]);
            assert_eq!(map.shared_keys(), [keys[5], keys[11]]);
        }
        let map = KeyMap::<u16>::new(DType::BF16, false);
        assert!(map.keys(&[0x3f80, 0x8001], &mut [0; 2]));
        assert!(!map.keys(&[0x3f80, 0x8000], &mut [0; 2]));
    }

    #[test]
    fn keys_order_integers() {
        let map = KeyMap::<u8>::new(DType::I8, false);
        assert!((i8::MIN..i8::MAX).all(|x| map.key(x as u8) < map.key((x + 1) as u8)));
        let map = KeyMap::<u64>::new(DType::U64, true);
        assert!(map.key(5) < map.key(4) && map.key(u64::MAX) == 0);
    }
}
