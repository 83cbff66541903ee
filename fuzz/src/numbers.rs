//! Numbers, dtypes and tensors decoded from a fuzzer's input.

use arbitrary::{Arbitrary, Result, Unstructured};
use flex_core::{BoolStore, Bytes, DType, Tensor};

/// Every dtype.
pub const DTYPES: [DType; 14] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool(BoolStore::Native),
    DType::Bool(BoolStore::U8),
];

/// A size or an option: mostly small, often at a limit.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub usize);

impl<'a> Arbitrary<'a> for Size {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let near = |centre: usize, u: &mut Unstructured<'a>| -> Result<usize> {
            Ok(centre.wrapping_add(u.int_in_range(0..=8)?).wrapping_sub(4))
        };
        Ok(Size(match u.int_in_range(0..=15u8)? {
            0..=8 => u.int_in_range(0..=8)?,
            9 => u.arbitrary::<u8>()?.into(),
            10 => u.arbitrary::<u16>()?.into(),
            11 => u.arbitrary()?,
            12 => usize::MAX - u.int_in_range(0..=4)?,
            13 => near(isize::MAX as usize, u)?,
            14 => {
                let shift = u.int_in_range(8..=usize::BITS - 1)?;
                near(1 << shift, u)?
            }
            _ => {
                let divisor = u.int_in_range(2..=9)?;
                near(usize::MAX / divisor, u)?
            }
        }))
    }
}

/// A size of an operand: so small that every operation on it ends soon.
#[derive(Clone, Copy, Debug)]
pub struct Few(pub usize);

impl<'a> Arbitrary<'a> for Few {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Few([0, 1, 1, 2, 2, 3, 4, 9][u.int_in_range(0..=7)?]))
    }
}

/// Elements of a dtype; no boolean is other than 0 and 1.
pub fn bits(u: &mut Unstructured<'_>, dtype: DType, count: usize) -> Result<Vec<u64>> {
    let mask = u64::MAX >> (64 - 8 * dtype.size());
    let start: u64 = u.arbitrary()?;
    let odd: [u64; 4] = u.arbitrary()?;
    let element = |k: usize| {
        // Few of the inputs' bytes are elements: most follow from a number.
        let mixed = (start ^ k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let element = if k % 7 == 5 { odd[k / 7 % 4] } else { mixed ^ mixed >> 29 };
        if dtype.is_bool() { element & 1 } else { element & mask }
    };
    Ok((0..count).map(element).collect())
}

/// Row-major bytes of elements.
pub fn to_bytes(bits: &[u64], dtype: DType) -> Vec<u8> {
    bits.iter().flat_map(|b| b.to_ne_bytes()[native(dtype.size())].to_vec()).collect()
}

/// Elements of row-major bytes.
pub fn from_bytes(bytes: &[u8], dtype: DType) -> Vec<u64> {
    let element = |part: &[u8]| {
        let mut word = [0; 8];
        word[native(dtype.size())].copy_from_slice(part);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(dtype.size()).map(element).collect()
}

/// The bytes of a word that hold a number of `size` bytes.
fn native(size: usize) -> core::ops::Range<usize> {
    if cfg!(target_endian = "little") { 0..size } else { 8 - size..8 }
}

/// A tensor of these elements.
pub fn tensor(bits: &[u64], shape: &[usize], dtype: DType) -> Tensor {
    let bytes = Bytes::adopt(Owned(to_bytes(bits, dtype)));
    Tensor::from_bytes(bytes, shape, dtype).expect("as many bytes as the shape needs")
}

/// Memory of the fuzzer that the engine adopts, so AddressSanitizer sees reads past its end.
struct Owned(Vec<u8>);

impl flex_core::storage::Adopted for Owned {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A small tensor for an operation: mostly of a given dtype and rank, in one of several layouts.
pub fn operand(u: &mut Unstructured<'_>, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    let how: u8 = u.arbitrary()?;
    let dtype = if how % 32 == 31 { DTYPES[u.int_in_range(0..=13)?] } else { dtype };
    let mut shape = shape.to_vec();
    if how % 16 == 7 {
        shape.push(1);
    }
    let count: usize = shape.iter().product();
    let last = shape.len().saturating_sub(1);
    Ok(match how / 32 {
        // One element, repeated: always for gradients of large results, whose memory would be refused.
        how if how == 1 || count > 1 << 15 => {
            tensor(&bits(u, dtype, 1)?, &vec![1; shape.len()], dtype).expand(&shape).expect("axes of size 1")
        }
        // The first axis varies fastest.
        2 if last > 0 => {
            shape.swap(0, last);
            tensor(&bits(u, dtype, count)?, &shape, dtype).swap_axes(0, last).expect("two axes")
        }
        3 if last > 0 => tensor(&bits(u, dtype, count)?, &shape, dtype).flip(&[0, last]).expect("two axes"),
        _ => tensor(&bits(u, dtype, count)?, &shape, dtype),
    })
}

/// Reads every element of a result.
pub fn read(tensor: &Tensor) {
    let bytes = tensor.clone().into_bytes().map(|bytes| bytes.iter().fold(0u8, |a, b| a ^ b));
    std::hint::black_box(bytes.ok());
}
