//! The mapping between codes and numbers.

use core::fmt;

/// The meaning of the codes of a quantized tensor, and their byte layout.
///
/// A scheme may describe more than the engine supports; see [`is_supported`](super::is_supported).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuantScheme {
    /// Value type of a code.
    pub value: QuantValue,
    /// Precision of the scales.
    pub param: QuantParam,
    /// Byte layout of the codes.
    pub store: QuantStore,
    /// The part of the tensor that shares a scale.
    pub level: QuantLevel,
    /// Whether the scheme names a scale of the whole tensor, in `f32`. With blocks, the scales of the blocks
    /// are relative to it. Without blocks it is the one scale that there is anyway, and the field only keeps
    /// how the scheme was written.
    pub tensor_scale: bool,
    /// Mapping of codes to numbers apart from the scale.
    pub mode: QuantMode,
}

/// A scheme of one level of scales reads as Burn 0.21's, which has no other: errors print schemes.
impl fmt::Debug for QuantScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, param, store, level, tensor_scale, mode } = self;
        let mut fields = f.debug_struct("QuantScheme");
        fields.field("value", value).field("param", param).field("store", store).field("level", level);
        if *tensor_scale {
            fields.field("tensor_scale", tensor_scale);
        }
        fields.field("mode", mode).finish()
    }
}

/// Value type of a code: an integer that uses the full range of its bits (`F`) or a range symmetric around
/// zero (`S`), or a float of few bits, named for the number of its exponent (`E`) and mantissa (`M`) bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantValue {
    /// An integer from -128 to 127.
    Q8F,
    /// A float of 8 bits.
    E5M2,
    /// A float of 8 bits.
    E4M3,
    /// An integer from -8 to 7.
    Q4F,
    /// A float of 4 bits.
    E2M1,
    /// An integer from -2 to 1.
    Q2F,
    /// An integer from -127 to 127.
    Q8S,
    /// An integer from -7 to 7.
    Q4S,
    /// An integer from -1 to 1.
    Q2S,
}

impl QuantValue {
    /// Bits of a code.
    pub const fn size_bits(self) -> usize {
        match self {
            QuantValue::Q8F | QuantValue::Q8S | QuantValue::E4M3 | QuantValue::E5M2 => 8,
            QuantValue::Q4F | QuantValue::Q4S | QuantValue::E2M1 => 4,
            QuantValue::Q2F | QuantValue::Q2S => 2,
        }
    }

    /// The lowest and the highest finite number that a code stands for, before scaling.
    pub const fn range(self) -> (f32, f32) {
        match self {
            QuantValue::Q8F => (-128.0, 127.0),
            QuantValue::Q4F => (-8.0, 7.0),
            QuantValue::Q2F => (-2.0, 1.0),
            QuantValue::Q8S => (-127.0, 127.0),
            QuantValue::Q4S => (-7.0, 7.0),
            QuantValue::Q2S => (-1.0, 1.0),
            QuantValue::E4M3 => (-448.0, 448.0),
            QuantValue::E5M2 => (-57344.0, 57344.0),
            QuantValue::E2M1 => (-6.0, 6.0),
        }
    }
}

/// Byte layout of codes. In memory, tensors hold one code per byte for every scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantStore {
    /// One byte per code.
    Native,
    /// Several codes per byte: neighbours along this axis, counted from the innermost one.
    PackedNative(usize),
    /// Several codes per `u32`: neighbours along this axis, counted from the innermost one.
    PackedU32(usize),
}

/// The part of a tensor that shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantLevel {
    /// The whole tensor.
    Tensor,
    /// A block of this size.
    Block(BlockSize),
}

/// Mapping of codes to numbers apart from the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantMode {
    /// No offset: the code zero stands for the number zero.
    Symmetric,
}

/// Precision of the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantParam {
    /// `f32`.
    F32,
    /// `f16`.
    F16,
    /// `bf16`.
    BF16,
    /// A power of two, stored in 8 bits.
    UE8M0,
    /// An unsigned float of 8 bits.
    UE4M3,
}

impl QuantParam {
    /// Bits of the mantissa, exponent of the smallest normal number, and the largest number.
    const fn format(self) -> (i32, i32, f32) {
        match self {
            QuantParam::F32 => (23, -126, f32::MAX),
            QuantParam::F16 => (10, -14, 65504.0),
            QuantParam::BF16 => (7, -126, f32::from_bits(0x7F7F_0000)),
            QuantParam::UE8M0 => (0, -126, f32::from_bits(0x7F00_0000)),
            QuantParam::UE4M3 => (3, -6, 448.0),
        }
    }

    /// The largest number of this precision.
    pub const fn largest(self) -> f32 {
        self.format().2
    }

    /// The smallest number of this precision that is not below a positive normal `scale`, or the
    /// [largest](Self::largest) if there is none. A scale that is rounded down would clip the largest number
    /// of its block.
    pub fn round_up(self, scale: f32) -> f32 {
        let (mantissa, smallest_exponent, largest) = self.format();
        let exponent = ((scale.to_bits() >> 23) as i32 - 127).max(smallest_exponent);
        // In f64, which has the steps of the smallest bf16 as normal numbers.
        let step = f64::from_bits(((exponent - mantissa + 1023) as u64) << 52);
        let steps = scale as f64 / step;
        let whole = steps as u32;
        let steps = whole + u32::from((whole as f64) < steps);
        ((steps as f64 * step) as f32).min(largest)
    }

    /// Bytes of a scale.
    pub const fn size(self) -> usize {
        match self {
            QuantParam::F32 => 4,
            QuantParam::F16 | QuantParam::BF16 => 2,
            QuantParam::UE8M0 | QuantParam::UE4M3 => 1,
        }
    }
}

/// Size of a block along each of the trailing axes, at most [`MAX_DIMS`](Self::MAX_DIMS) of them. The size is
/// 1 along the axes before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockSize {
    sizes: [u8; Self::MAX_DIMS],
    len: u8,
}

impl BlockSize {
    /// Most axes that can have a block size.
    pub const MAX_DIMS: usize = 5;

    /// A block of these sizes.
    ///
    /// # Panics
    /// Panics if there are more than [`MAX_DIMS`](Self::MAX_DIMS) sizes.
    pub fn new(sizes: impl AsRef<[u8]>) -> Self {
        let given = sizes.as_ref();
        let most = Self::MAX_DIMS;
        assert!(
            given.len() <= most,
            "BlockSize: the number of sizes is {}, expected at most {most}",
            given.len()
        );
        let mut sizes = [1; Self::MAX_DIMS];
        sizes[..given.len()].copy_from_slice(given);
        Self { sizes, len: given.len() as u8 }
    }

    /// A block of these sizes without the leading 1s, unless all sizes are 1.
    ///
    /// # Panics
    /// Panics if more than [`MAX_DIMS`](Self::MAX_DIMS) sizes remain.
    pub fn new_trim(sizes: impl AsRef<[u8]>) -> Self {
        let sizes = sizes.as_ref();
        let first = sizes.iter().position(|&size| size != 1).unwrap_or(0);
        Self::new(&sizes[first..])
    }

    /// The sizes.
    pub fn as_slice(&self) -> &[u8] {
        &self.sizes[..self.len as usize]
    }
}

impl fmt::Debug for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockSize({:?})", self.as_slice())
    }
}
