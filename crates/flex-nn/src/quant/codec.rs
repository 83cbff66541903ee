//! The number that a code stands for, before scaling.

use super::QuantValue;

/// How codes of one value type are decoded and encoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codec {
    /// Integers from `low` to `high`.
    Int { low: f32, high: f32 },
    /// Floats of few bits.
    Mini(MiniFloat),
}

impl Codec {
    pub fn new(value: QuantValue) -> Self {
        use QuantValue::*;
        match value {
            Q8F | Q8S | Q4F | Q4S | Q2F | Q2S => {
                let (low, high) = value.range();
                Codec::Int { low, high }
            }
            E4M3 => {
                Codec::Mini(MiniFloat { bits: 8, mantissa: 3, bias: 7, largest: 0x7E, special: Special::Nan })
            }
            E5M2 => Codec::Mini(MiniFloat {
                bits: 8,
                mantissa: 2,
                bias: 15,
                largest: 0x7B,
                special: Special::Ieee,
            }),
            E2M1 => {
                Codec::Mini(MiniFloat { bits: 4, mantissa: 1, bias: 1, largest: 0x7, special: Special::None })
            }
        }
    }
}

/// Whether codes are integers.
pub(super) fn is_int(value: QuantValue) -> bool {
    matches!(Codec::new(value), Codec::Int { .. })
}

/// The code of `x`, a number that has been divided by its scale: rounded half away from zero and clamped to
/// `low..=high`. NaN becomes zero.
#[inline(always)]
pub(super) fn encode_int(x: f32, low: f32, high: f32) -> i8 {
    // Above 2^23 all f32 values are integers. So adding this constant rounds to an integer, ties to even, and
    // leaves the integer in the low bits. A conversion with `as` would saturate, which vector instructions do
    // not.
    const ROUND: f32 = 8_388_608.0;
    let x = if x > high { high } else { x };
    let x = if x < low { low } else { x };
    let a = if x.is_nan() { 0.0 } else { x.abs() };
    let even = (a + ROUND) - ROUND;
    let away = if a - even == 0.5 { even + 1.0 } else { even };
    let code = (away + ROUND).to_bits();
    (if x < 0.0 { code.wrapping_neg() } else { code }) as i8
}

/// A float of 8 bits or fewer: sign, exponent and mantissa, in the formats of the Open Compute Project (OFP8
/// Formats Specification 1.0; Microscaling Formats Specification 1.0 for E2M1).
#[derive(Clone, Copy, Debug)]
pub(super) struct MiniFloat {
    /// Total number of bits.
    bits: u32,
    /// Bits of the mantissa.
    mantissa: u32,
    /// Bias of the exponent.
    bias: i32,
    /// Code of the largest finite number.
    largest: u8,
    special: Special,
}

/// Meaning of the codes above the largest finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    /// The format has no such codes.
    None,
    /// All are NaN.
    Nan,
    /// The first one is infinity, the others are NaN.
    Ieee,
}

impl MiniFloat {
    fn sign(self) -> u8 {
        1 << (self.bits - 1)
    }

    /// The number that a code stands for; bits above the format's width are ignored.
    pub fn decode(self, code: u8) -> f32 {
        let magnitude = code & (self.sign() - 1);
        let number = if magnitude > self.largest {
            let infinite = self.special == Special::Ieee && magnitude == self.largest + 1;
            if infinite { f32::INFINITY } else { f32::NAN }
        } else {
            let exponent = (magnitude >> self.mantissa) as i32;
            let fraction = (magnitude & ((1 << self.mantissa) - 1)) as f32;
            let hidden = if exponent == 0 { 0.0 } else { (1 << self.mantissa) as f32 };
            (hidden + fraction) * power_of_two(exponent.max(1) - self.bias - self.mantissa as i32)
        };
        if code & self.sign() != 0 { -number } else { number }
    }

    /// The numbers of all codes.
    pub fn table(self) -> [f32; 256] {
        core::array::from_fn(|code| self.decode(code as u8))
    }

    /// The code of the nearest number, ties to even. Numbers beyond the largest finite number become the
    /// largest. NaN becomes NaN if the format has one, and zero otherwise.
    #[inline(always)]
    pub fn encode(self, x: f32) -> u8 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        if x.is_nan() {
            return if self.special == Special::None { 0 } else { sign | (self.sign() - 1) };
        }
        let a = x.abs();
        let smallest_exponent = 1 - self.bias;
        let exponent = ((a.to_bits() >> 23) as i32 - 127).max(smallest_exponent);
        // Larger exponents would overflow the number of steps below.
        if exponent > smallest_exponent + (self.largest >> self.mantissa) as i32 - 1 {
            return sign | self.largest;
        }
        // Adding and subtracting 2^23 rounds to an integer, ties to even. A carry goes into the exponent.
        let steps = a * power_of_two(self.mantissa as i32 - exponent);
        let steps = ((steps + 8_388_608.0) - 8_388_608.0) as u32;
        let code = (((exponent - smallest_exponent) as u32) << self.mantissa) + steps;
        sign | code.min(self.largest as u32) as u8
    }
}

/// `2^exponent`, for exponents of normal f32 numbers.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mini(value: QuantValue) -> MiniFloat {
        match Codec::new(value) {
            Codec::Mini(mini) => mini,
            Codec::Int { .. } => panic!("an integer"),
        }
    }

    #[test]
    fn integers_round_half_away_from_zero() {
        let mut x = -130.0f32;
        while x < 130.0 {
            for x in [x, x.next_up(), x.next_down()] {
                assert_eq!(encode_int(x, -127.0, 127.0), x.round().clamp(-127.0, 127.0) as i8, "{x}");
            }
            x += 0.25;
        }
        assert_eq!(encode_int(f32::NAN, -8.0, 7.0), 0);
        assert_eq!(encode_int(f32::INFINITY, -8.0, 7.0), 7);
        assert_eq!(encode_int(f32::NEG_INFINITY, -8.0, 7.0), -8);
        assert_eq!(encode_int(0.49999997, -8.0, 7.0), 0);
    }

    #[test]
    fn known_values_of_the_tiny_floats() {
        let e4m3 = mini(QuantValue::E4M3);
        for (code, want) in [
            (0x00, 0.0),
            (0x01, 2f32.powi(-9)),
            (0x08, 2f32.powi(-6)),
            (0x38, 1.0),
            (0x7E, 448.0),
            (0xBC, -1.5),
        ] {
            assert_eq!(e4m3.decode(code), want);
        }
        assert!(e4m3.decode(0x7F).is_nan() && e4m3.decode(0xFF).is_nan());
        let e5m2 = mini(QuantValue::E5M2);
        for (code, want) in [(0x01, 2f32.powi(-16)), (0x3C, 1.0), (0x7B, 57344.0), (0x7C, f32::INFINITY)] {
            assert_eq!(e5m2.decode(code), want);
        }
        assert!(e5m2.decode(0x7D).is_nan());
        let e2m1 = mini(QuantValue::E2M1);
        let all = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, want) in all.into_iter().enumerate() {
            assert_eq!(e2m1.decode(code as u8), want);
            assert_eq!(e2m1.decode(code as u8 | 8), -want);
        }
        for value in [QuantValue::E4M3, QuantValue::E5M2, QuantValue::E2M1] {
            assert_eq!(mini(value).decode(mini(value).largest), value.range().1);
        }
    }

    #[test]
    fn encoding_finds_the_nearest_number() {
        for value in [QuantValue::E4M3, QuantValue::E5M2, QuantValue::E2M1] {
            let mini = mini(value);
            for code in 0..=mini.largest {
                for (sign, code) in [(1.0, code), (-1.0, code | mini.sign())] {
                    assert_eq!(mini.encode(mini.decode(code)), code);
                    if code & (mini.sign() - 1) == mini.largest {
                        continue;
                    }
                    let (a, b) = (mini.decode(code), mini.decode(code + 1));
                    let middle = (a + b) / 2.0;
                    let even = if code % 2 == 0 { code } else { code + 1 };
                    assert_eq!(mini.encode(middle), even);
                    let (below, above) =
                        (f32::from_bits(middle.to_bits() - 1), f32::from_bits(middle.to_bits() + 1));
                    assert_eq!(mini.encode(below), code, "{sign}");
                    assert_eq!(mini.encode(above), code + 1);
                }
            }
            assert_eq!(mini.encode(f32::INFINITY), mini.largest);
            assert_eq!(mini.encode(-1e30), mini.largest | mini.sign());
            assert_eq!(mini.encode(1e-30), 0);
            assert_eq!(mini.encode(f32::from_bits(1)), 0);
            let nan = mini.decode(mini.encode(f32::NAN));
            assert!(if mini.special == Special::None { nan == 0.0 } else { nan.is_nan() });
        }
    }
}
