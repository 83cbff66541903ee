//! Float elements as drivers see them: bytes and a dtype.
//!
//! Drivers are compiled for the computing types f32 and f64 alone. Halves are converted when a block is read
//! and when it is written; a driver checks the dtype once per block. So halves add no machine code to an
//! operation.

use crate::float::Real;
use crate::storage::Scratch;
use crate::walk::gather_row;
use crate::{DType, Element, Tensor, bf16, f16};
use bytemuck::{cast_slice, cast_slice_mut};
use core::ops::Range;
use flex_math::StoredFloat;
use flex_math::simd::vectorize;

/// A type that drivers compute in, and the conversions of the dtypes that are computed in it.
pub(crate) trait Computing: Real {
    /// Writes the elements of `src`, in this type, to all of `dst`.
    fn widen(dtype: DType, src: &[u8], dst: &mut [Self]);
    /// Writes `src`, rounded to the dtype, to all of `dst`.
    fn narrow(dtype: DType, src: &[Self], dst: &mut [u8]);
}

impl Computing for f32 {
    fn widen(dtype: DType, src: &[u8], dst: &mut [f32]) {
        match dtype {
            DType::F16 => f16::widen_slice(cast_slice(src), dst),
            DType::BF16 => bf16::widen_slice(cast_slice(src), dst),
            _ => dst.copy_from_slice(cast_slice(src)),
        }
    }

    fn narrow(dtype: DType, src: &[f32], dst: &mut [u8]) {
        match dtype {
            DType::F16 => f16::narrow_slice(src, cast_slice_mut(dst)),
            DType::BF16 => bf16::narrow_slice(src, cast_slice_mut(dst)),
            _ => dst.copy_from_slice(cast_slice(src)),
        }
    }
}

impl Computing for f64 {
    fn widen(_: DType, src: &[u8], dst: &mut [f64]) {
        dst.copy_from_slice(cast_slice(src));
    }

    fn narrow(_: DType, src: &[f64], dst: &mut [u8]) {
        dst.copy_from_slice(cast_slice(src));
    }
}

/// Binds `$A` to the type that a float dtype is computed in, and evaluates `$body` (of type `Result<_>`) once
/// per arm. Other dtypes give an error.
macro_rules! computing {
    ($op:expr, $dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F64 => {
                type $A = f64;
                $body
            }
            $crate::DType::F32 | $crate::DType::F16 | $crate::DType::BF16 => {
                type $A = f32;
                $body
            }
            other => Err($crate::Error::dtype($op, other, "a float dtype (f64, f32, f16, bf16)")),
        }
    };
}

/// Elements that a driver reads.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    dtype: DType,
}

impl<'a> Source<'a> {
    /// The elements of a contiguous tensor.
    pub fn of(tensor: &'a Tensor) -> Self {
        debug_assert!(tensor.is_contiguous());
        let (start, len) = (tensor.layout().offset(), tensor.num_elements());
        Self::buffer(tensor).slice(start..start + len)
    }

    /// The whole buffer of a tensor.
    pub fn buffer(tensor: &'a Tensor) -> Self {
        Self { bytes: tensor.storage_bytes(), dtype: tensor.dtype() }
    }

    /// Number of elements.
    #[inline]
    pub fn len(self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Bytes of an element.
    #[inline]
    pub fn size(self) -> usize {
        self.dtype.size()
    }

    /// A range of the elements.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> Self {
        let size = self.dtype.size();
        Self { bytes: &self.bytes[range.start * size..range.end * size], ..self }
    }

    /// The elements as bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The elements themselves, if they are stored in the type `A`.
    #[inline]
    pub fn values<A: Computing>(self) -> Option<&'a [A]> {
        (self.dtype == A::DTYPE).then(|| cast_slice(self.bytes))
    }

    /// Element `i`, exactly.
    pub fn get(self, i: usize) -> f64 {
        match self.dtype {
            DType::F64 => cast_slice::<u8, f64>(self.bytes)[i],
            DType::F32 => cast_slice::<u8, f32>(self.bytes)[i].into(),
            DType::F16 => Element::to_f64(cast_slice::<u8, f16>(self.bytes)[i]),
            _ => Element::to_f64(cast_slice::<u8, bf16>(self.bytes)[i]),
        }
    }

    /// Copies the bytes of elements that are `stride` apart, from number `start` on, to `out`.
    pub fn gather(self, start: usize, stride: isize, out: &mut [u8]) {
        match self.size() {
            1 => gather_row(self.bytes, start, stride, out),
            2 => gather_row::<u16>(cast_slice(self.bytes), start, stride, cast_slice_mut(out)),
            4 => gather_row::<u32>(cast_slice(self.bytes), start, stride, cast_slice_mut(out)),
            _ => gather_row::<u64>(cast_slice(self.bytes), start, stride, cast_slice_mut(out)),
        }
    }

    /// Writes elements that are stored like these in the type `A` to all of `dst`.
    pub fn convert<A: Computing>(self, bytes: &[u8], dst: &mut [A]) {
        A::widen(self.dtype, bytes, dst);
    }

    /// Writes the elements in the type `A` to all of `dst`.
    #[inline]
    pub fn read<A: Computing>(self, dst: &mut [A]) {
        A::widen(self.dtype, self.bytes, dst);
    }

    /// The elements in the type `A`. They are in `scratch` where they have to be converted.
    #[inline]
    pub fn load<'b, A: Computing>(self, scratch: &'b mut Scratch<A>) -> &'b [A]
    where
        'a: 'b,
    {
        if let Some(values) = self.values() {
            return values;
        }
        let block = scratch.elements(self.len());
        self.read(block);
        block
    }
}

/// Elements that a driver writes.
pub(crate) struct Sink<'a> {
    bytes: &'a mut [u8],
    dtype: DType,
}

impl<'a> Sink<'a> {
    /// The elements that are stored in `bytes`.
    pub fn new(bytes: &'a mut [u8], dtype: DType) -> Self {
        Self { bytes, dtype }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// The elements as bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// The same elements, lent.
    pub fn part(&mut self, range: Range<usize>) -> Sink<'_> {
        let size = self.dtype.size();
        Sink { bytes: &mut self.bytes[range.start * size..range.end * size], dtype: self.dtype }
    }

    /// The elements as they are now.
    pub fn source(&self) -> Source<'_> {
        Source { bytes: self.bytes, dtype: self.dtype }
    }

    /// The elements themselves, if they are stored in the type `A`.
    #[inline]
    pub fn values<A: Computing>(&mut self) -> Option<&mut [A]> {
        if self.dtype == A::DTYPE { Some(cast_slice_mut(self.bytes)) } else { None }
    }

    /// Writes all elements, rounded.
    #[inline]
    pub fn write<A: Computing>(&mut self, values: &[A]) {
        A::narrow(self.dtype, values, self.bytes);
    }

    /// Rounds values to elements of 16 bits, as these are stored, and writes them to `bits`.
    pub fn round<A: Computing>(&self, values: &[A], bits: &mut [u16]) {
        A::narrow(self.dtype, values, cast_slice_mut(bits));
    }

    /// Sets every element to `value`, rounded.
    pub fn fill<A: Computing>(&mut self, value: A) {
        if let Some(values) = self.values() {
            return values.fill(value);
        }
        let mut bits = [0u16];
        self.round(&[value], &mut bits);
        cast_slice_mut(self.bytes).fill(bits[0]);
    }

    /// Sets every element to `value`, which is rounded once, from f64.
    pub fn set(&mut self, value: f64) {
        match self.dtype {
            DType::F64 => cast_slice_mut(self.bytes).fill(value),
            DType::F32 => cast_slice_mut(self.bytes).fill(value as f32),
            DType::F16 => cast_slice_mut(self.bytes).fill(<f16 as Element>::from_f64(value)),
            _ => cast_slice_mut(self.bytes).fill(<bf16 as Element>::from_f64(value)),
        }
    }

    /// Lets `f` write values for all elements in the type `A`. The slice passed to `f` holds arbitrary
    /// values.
    #[inline]
    pub fn through<A: Computing, R>(&mut self, scratch: &mut Scratch<A>, f: impl FnOnce(&mut [A]) -> R) -> R {
        let len = self.len();
        let converts = self.dtype != A::DTYPE;
        // One call, so that `f` is compiled once.
        let result = f(if converts { scratch.elements(len) } else { cast_slice_mut(self.bytes) });
        if converts {
            self.write(&scratch[..len]);
        }
        result
    }
}

/// Writes the low `size` bytes of the values, as integers of that size.
pub(crate) fn low_bits(values: &[u64], size: usize, out: &mut [u8]) {
    vectorize(
        #[inline(always)]
        || match size {
            1 => convert(values, out, |value| value as u8),
            2 => convert(values, cast_slice_mut(out), |value| value as u16),
            4 => convert(values, cast_slice_mut(out), |value| value as u32),
            _ => out.copy_from_slice(cast_slice(values)),
        },
    );
}

/// `f` of each element of `from`.
#[inline(always)]
pub(crate) fn convert<A: Copy, B>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f(from));
}
