//! Kernels: what happens to a run of elements, once layouts are out of the way.
//!
//! A [`Kernel`] sees bytes, so that one driver serves every dtype. [`element`](super::element) and
//! [`float`](super::float) make kernels out of functions; [`Kernels`] lists the kernels of one operation by
//! dtype.

use crate::error::{Error, Result};
use crate::{DType, Element};

/// Computes a run of output elements from runs of `N` operands.
pub(crate) trait Kernel<const N: usize>: Sync {
    /// Writes every element of `out`.
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]);
    /// The same kernel over many rows, if it spends less on each than a call of [`run`](Self::run).
    fn by_rows(&self) -> Option<&dyn RowKernel<N>> {
        None
    }
}

/// Computes rows of equal length. Not a method of [`Kernel`] with a default, of which each kernel would get a
/// copy.
pub(crate) trait RowKernel<const N: usize> {
    /// Writes every element of `out`.
    fn run_rows(&self, out: &mut [u8], rows: RowBatch<'_, N>);
}

/// An operand of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Src<'a> {
    /// As many elements as the output.
    Each(&'a [u8]),
    /// One element that stands for all.
    Same(&'a [u8]),
    /// The operand lies in the output, element for element, and is overwritten. At most one operand of a run,
    /// of the output's element size.
    Out,
}

/// [`Src`] with its type.
#[derive(Clone, Copy)]
pub(crate) enum Typed<'a, T> {
    Each(&'a [T]),
    Same(T),
    Out,
}

impl<'a> Src<'a> {
    /// The operand as elements of `T`.
    #[inline]
    pub(crate) fn typed<T: Element>(self) -> Typed<'a, T> {
        match self {
            Src::Each(bytes) => Typed::Each(bytemuck::cast_slice(bytes)),
            Src::Same(bytes) => Typed::Same(bytemuck::pod_read_unaligned(bytes)),
            Src::Out => Typed::Out,
        }
    }
}

/// The operands of several rows.
#[derive(Clone, Copy)]
pub(crate) struct RowBatch<'a, const N: usize> {
    /// The operands.
    pub src: [RowSrc<'a>; N],
    /// Elements per row.
    pub len: usize,
    /// For each row, where it starts in the buffer of each operand that is not flat.
    pub starts: &'a [[usize; N]],
}

/// An operand of several rows.
#[derive(Clone, Copy)]
pub(crate) enum RowSrc<'a> {
    /// One run over all rows, and the size of an element.
    Each(&'a [u8], usize),
    /// One element for all rows.
    Same(&'a [u8]),
    /// The operand lies in the output.
    Out,
    /// A buffer in which each row is a slice, and the size of an element.
    Slices(&'a [u8], usize),
    /// A buffer in which each row is one element that stands for all, and its size.
    Elements(&'a [u8], usize),
}

impl<'a, const N: usize> RowBatch<'a, N> {
    /// The operands of row `k`.
    #[inline(always)]
    pub(super) fn row(&self, k: usize) -> [Src<'a>; N] {
        core::array::from_fn(
            #[inline(always)]
            |n| self.src[n].row(k, self.starts[k][n], self.len),
        )
    }
}

impl<'a> RowSrc<'a> {
    /// The operand of row `k`, which starts at element `start` of a buffer that is not flat.
    #[inline(always)]
    fn row(self, k: usize, start: usize, len: usize) -> Src<'a> {
        match self {
            RowSrc::Each(bytes, size) => Src::Each(&bytes[k * len * size..][..len * size]),
            RowSrc::Same(bytes) => Src::Same(bytes),
            RowSrc::Out => Src::Out,
            RowSrc::Slices(bytes, size) => Src::Each(&bytes[start * size..][..len * size]),
            RowSrc::Elements(bytes, size) => Src::Same(&bytes[start * size..][..size]),
        }
    }
}

/// Runs a kernel over rows of equal length.
pub(super) fn run_rows<const N: usize>(kernel: &dyn Kernel<N>, out: &mut [u8], rows: RowBatch<'_, N>) {
    if let Some(kernel) = kernel.by_rows() {
        return kernel.run_rows(out, rows);
    }
    let bytes = out.len() / rows.starts.len();
    for k in 0..rows.starts.len() {
        // Not `chunks_exact_mut`, which divides by the length.
        kernel.run(&mut out[k * bytes..][..bytes], rows.row(k));
    }
}

/// Elements that pass through the stack at a time, where an operand is converted, constant, or lies in the
/// output: 2 KiB of f32 per operand stay in the first-level cache.
pub(super) const BLOCK: usize = 512;

/// Bytes of an operand's block in [`through_blocks`].
const BLOCK_BYTES: usize = 2048;

/// Runs a kernel over slices alone: constants, and operands that lie in the output, pass through blocks on
/// the stack. So a kernel needs loops for the common ways of passing operands only, and no copy of its code
/// for the others, at the price of some loads and stores in the first-level cache.
///
/// `size` is the number of bytes of an operand's element, `out_size` of an element of the output.
pub(super) fn through_blocks<const N: usize>(
    kernel: &dyn Kernel<N>,
    size: usize,
    out_size: usize,
    out: &mut [u8],
    src: [Src<'_>; N],
) {
    if src.iter().any(|src| matches!(src, Src::Out)) {
        return with_copies(kernel, &[size; N], out_size, out, src);
    }
    let len = BLOCK_BYTES / size;
    let mut blocks = [[0u64; BLOCK_BYTES / size_of::<u64>()]; N];
    for (block, src) in blocks.iter_mut().zip(src) {
        if let Src::Same(value) = src {
            let block: &mut [u8] = bytemuck::cast_slice_mut(block);
            let used = (out.len() / out_size).min(len) * size;
            block[..used].chunks_exact_mut(size).for_each(|element| element.copy_from_slice(value));
        }
    }
    for (k, out) in out.chunks_mut(len * out_size).enumerate() {
        let bytes = out.len() / out_size * size;
        let slices = core::array::from_fn(|n| match src[n] {
            Src::Each(all) => Src::Each(&all[k * len * size..][..bytes]),
            Src::Same(_) | Src::Out => Src::Each(&bytemuck::cast_slice(&blocks[n])[..bytes]),
        });
        kernel.run(out, slices);
    }
}

/// Runs a kernel whose operand lies in the output over copies of it, in blocks on the stack.
///
/// `sizes` are the numbers of bytes of the operands' elements, `out_size` of an element of the output.
#[inline(never)]
pub(super) fn with_copies<const N: usize>(
    kernel: &dyn Kernel<N>,
    sizes: &[usize; N],
    out_size: usize,
    out: &mut [u8],
    src: [Src<'_>; N],
) {
    let mut block = [0u64; BLOCK_BYTES / size_of::<u64>()];
    let block: &mut [u8] = bytemuck::cast_slice_mut(&mut block);
    let len = BLOCK_BYTES / out_size;
    for (k, out) in out.chunks_mut(BLOCK_BYTES).enumerate() {
        let block = &mut block[..out.len()];
        block.copy_from_slice(out);
        let elements = out.len() / out_size;
        let src = core::array::from_fn(|n| match src[n] {
            Src::Each(all) => Src::Each(&all[k * len * sizes[n]..][..elements * sizes[n]]),
            Src::Same(value) => Src::Same(value),
            Src::Out => Src::Each(block),
        });
        kernel.run(out, src);
    }
}

/// The kernels over f64, f32, f16 and bf16.
pub(super) type FloatKernels<const N: usize> = [&'static dyn Kernel<N>; 4];

/// The kernels over i64, i32, i16, i8, u64, u32, u16 and u8.
pub(super) type IntegerKernels<const N: usize> = [&'static dyn Kernel<N>; 8];

/// The kernels of one operation, by dtype.
pub(super) struct Kernels<const N: usize> {
    /// The kernels over floats, if the operation takes floats.
    pub floats: Option<FloatKernels<N>>,
    /// The kernels over integers, if the operation takes integers.
    pub integers: Option<IntegerKernels<N>>,
}

impl<const N: usize> Kernels<N> {
    /// Of an operation that takes floats alone.
    pub(super) const fn floats(floats: FloatKernels<N>) -> Self {
        Self { floats: Some(floats), integers: None }
    }

    /// Of an operation that takes integers alone.
    pub(super) const fn integers(integers: IntegerKernels<N>) -> Self {
        Self { floats: None, integers: Some(integers) }
    }

    /// Of an operation that takes all numbers.
    pub(super) const fn numbers(floats: FloatKernels<N>, integers: IntegerKernels<N>) -> Self {
        Self { floats: Some(floats), integers: Some(integers) }
    }

    /// The kernel over `dtype`.
    ///
    /// # Errors
    /// A dtype that the operation does not take, in the name of `op`.
    #[inline]
    pub(super) fn get(&self, op: &'static str, dtype: DType) -> Result<&'static dyn Kernel<N>> {
        let kernel = match number_of(dtype) {
            Some(NumberIndex::Float(k)) => self.floats.as_ref().map(|kernels| kernels[k]),
            Some(NumberIndex::Integer(k)) => self.integers.as_ref().map(|kernels| kernels[k]),
            None => None,
        };
        kernel.ok_or_else(|| {
            let expected = match (self.floats.is_some(), self.integers.is_some()) {
                (true, false) => "a float dtype (f64, f32, f16, bf16)",
                (false, true) => "an integer dtype",
                _ => "a float or integer dtype",
            };
            Error::dtype(op, dtype, expected)
        })
    }
}

/// The place of a dtype in [`FloatKernels`] or [`IntegerKernels`].
enum NumberIndex {
    Float(usize),
    Integer(usize),
}

#[inline]
fn number_of(dtype: DType) -> Option<NumberIndex> {
    Some(match dtype {
        DType::F64 => NumberIndex::Float(0),
        DType::F32 => NumberIndex::Float(1),
        DType::F16 => NumberIndex::Float(2),
        DType::BF16 => NumberIndex::Float(3),
        DType::I64 => NumberIndex::Integer(0),
        DType::I32 => NumberIndex::Integer(1),
        DType::I16 => NumberIndex::Integer(2),
        DType::I8 => NumberIndex::Integer(3),
        DType::U64 => NumberIndex::Integer(4),
        DType::U32 => NumberIndex::Integer(5),
        DType::U16 => NumberIndex::Integer(6),
        DType::U8 => NumberIndex::Integer(7),
        _ => return None,
    })
}
