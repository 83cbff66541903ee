//! How codes stand for numbers.

use core::fmt;

/// How the codes of a quantized tensor are to be read, and how bytes lay them out.
///
/// Schemes describe more than the engine computes; [`is_supported`](super::is_supported) tells which ones it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantScheme {
    /// What a code is.
    pub value: QuantValue,
    /// Precision of the scales.
    pub param: QuantParam,
    /// How bytes lay the codes out.
    pub store: QuantStore,
    /// What a scale holds for.
    pub level: QuantLevel,
    /// What is done to a code apart from scaling it.
    pub mode: QuantMode,
}

/// What a code is: an integer of the full range of its bits (`F`) or of one that is symmetric around zero (`S`), or a
/// float of few bits, named for those of its exponent and its mantissa.
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

/// How bytes lay codes out. Tensors hold one code per byte, whatever their scheme says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantStore {
    /// Each in a byte of its own.
    Native,
    /// Several in a byte, neighbours along this axis, counted from the innermost one.
    PackedNative(usize),
    /// Several in a `u32`, neighbours along this axis, counted from the innermost one.
    PackedU32(usize),
}

/// What a scale holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantLevel {
    /// The whole tensor.
    Tensor,
    /// A block of this size.
    Block(BlockSize),
}

/// What is done to a code apart from scaling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantMode {
    /// Nothing: the code zero stands for the number zero.
    Symmetric,
}

/// Precision of the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantParam {
    /// That of `f32`.
    F32,
    /// That of `f16`.
    F16,
    /// That of `bf16`.
    BF16,
    /// A power of two of 8 bits.
    UE8M0,
    /// A float of 8 bits without a sign.
    UE4M3,
}

/// Size of a block along each of the trailing axes, of which there are at most [`MAX_DIMS`](Self::MAX_DIMS). It is 1
/// along the axes before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockSize {
    sizes: [u8; Self::MAX_DIMS],
    len: u8,
}

impl BlockSize {
    /// Axes that have a block size, at most.
    pub const MAX_DIMS: usize = 5;

    /// A block of these sizes.
    ///
    /// # Panics
    /// When there are more than [`MAX_DIMS`](Self::MAX_DIMS).
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

    /// A block of these sizes, without the 1s that they begin with, unless there is nothing else.
    ///
    /// # Panics
    /// When there are more than [`MAX_DIMS`](Self::MAX_DIMS) others.
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
