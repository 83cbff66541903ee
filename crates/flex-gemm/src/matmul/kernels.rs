//! The kernels that multiply matrices of each dtype. A new kernel is registered here.

use super::gemm::{MatLayout, MatMut, MatRef, PanelShape, Threads, gemm_plus_row};
use super::gemv::VectorKernel;
use super::loops::Loops;
use super::plan::RightOperand;
use super::{bf16, half, int};
use crate::error::{Error, Result};
use crate::float::Real;
use crate::parallel::{self, Work};
use crate::{DType, f16};
use bytemuck::Pod;
use core::marker::PhantomData;

/// The kernels of a dtype.
pub(crate) struct ProductKernels {
    /// Products of matrices.
    pub gemm: Gemm,
    /// Products by right operands that are kept packed, if there are any.
    pub panels: Option<&'static dyn PanelKernel>,
    /// Products with a vector.
    pub vectors: &'static dyn VectorKernel,
}

/// `dst = a @ b`, plus the bias in each row if there is one; `dst` is row-major and not empty.
pub(crate) type Gemm = fn(&mut [u8], MatBytes<'_>, MatBytes<'_>, Option<&[u8]>, Threads);

/// Products by right operands that are kept packed.
pub(crate) trait PanelKernel: Sync {
    /// The panels that products of `rows` rows by this operand should read, from the second product on, and
    /// their bytes; `None` if panels gain nothing.
    fn shape(&self, rows: usize, right: MatLayout, operand: RightOperand) -> Option<(PanelShape, usize)>;

    /// Writes the panels of an operand.
    fn pack(&self, shape: PanelShape, right: MatBytes<'_>, to: &mut [u8]);

    /// As [`Gemm`], for a right operand that is to be kept in panels. The bits do not depend on whether it
    /// was packed already.
    fn multiply(
        &self,
        dst: &mut [u8],
        a: MatBytes<'_>,
        b: MatBytes<'_>,
        bias: Option<&[u8]>,
        panels: KeptPanels<'_>,
        threads: Threads,
    );
}

/// The shape of the panels in which a right operand is to be kept, and the panels, as soon as they are
/// packed.
pub(crate) type KeptPanels<'a> = (PanelShape, Option<&'a [u8]>);

/// A matrix of elements of any type.
#[derive(Clone, Copy)]
pub(crate) struct MatBytes<'a> {
    /// The bytes of the slice that the layout's positions index.
    pub bytes: &'a [u8],
    /// The layout, in elements.
    pub layout: MatLayout,
}

impl<'a> MatBytes<'a> {
    /// The matrix, for code that knows the type of its elements.
    ///
    /// # Panics
    /// When an element lies outside of the bytes.
    pub fn of<T: Pod>(self) -> MatRef<'a, T> {
        MatRef::new(bytemuck::cast_slice(self.bytes), self.layout)
    }
}

/// The kernels of each dtype: `dtypes => type, function(argument)`. The function takes what a [`Gemm`] takes
/// after this argument. Signed integers share the kernels of the unsigned type of their width: the low bits
/// of sums and products do not depend on the sign.
macro_rules! table {
    ($op:ident, $dtype:ident, $expected:literal; $($pattern:pat => $ty:ty, $by:ident($how:expr);)*) => {
        match $dtype {
            $($pattern => Ok(ProductKernels {
                gemm: |dst, a, b, bias, threads| $by::<$ty>($how, dst, a, b, bias, threads),
                panels: None,
                vectors: &Loops::<$ty>(PhantomData),
            }),)*
            _ => Err(Error::dtype($op, $dtype, $expected)),
        }
    };
}

/// Finds the kernels of a dtype for an operation of some name. A program links the kernels of the functions
/// that it calls: products of integers are 75 KB that most models do without.
pub(crate) type KernelsOf = fn(&'static str, DType) -> Result<ProductKernels>;

/// The kernels of the float dtypes.
///
/// # Errors
/// Other dtypes have none.
pub(crate) fn float_kernels(op: &'static str, dtype: DType) -> Result<ProductKernels> {
    let kernels = table! { op, dtype, "a float dtype (f64, f32, f16, bf16)";
        DType::F32 => f32, real(None);
        DType::F64 => f64, real(None);
        DType::F16 => f16, add(half::gemm);
        // By the instruction for pairs of bf16, and by way of f32 where the machine lacks it.
        DType::BF16 => crate::bf16, add(bf16::gemm);
    };
    kernels.map(|kernels| match dtype {
        DType::F32 => ProductKernels { panels: Some(&F32Panels), ..kernels },
        _ => kernels,
    })
}

/// Products of f32 by panels.
struct F32Panels;

impl PanelKernel for F32Panels {
    fn shape(&self, rows: usize, right: MatLayout, operand: RightOperand) -> Option<(PanelShape, usize)> {
        let shape = PanelShape::of::<f32>(rows, right, operand)?;
        Some((shape, shape.len().saturating_mul(size_of::<f32>())))
    }

    fn pack(&self, shape: PanelShape, right: MatBytes<'_>, to: &mut [u8]) {
        shape.pack::<f32>(right.of(), bytemuck::cast_slice_mut(to));
    }

    fn multiply(
        &self,
        dst: &mut [u8],
        a: MatBytes<'_>,
        b: MatBytes<'_>,
        bias: Option<&[u8]>,
        panels: KeptPanels<'_>,
        threads: Threads,
    ) {
        real::<f32>(Some(panels), dst, a, b, bias, threads);
    }
}

/// The kernels of the integer dtypes.
///
/// # Errors
/// Other dtypes have none.
pub(crate) fn int_kernels(op: &'static str, dtype: DType) -> Result<ProductKernels> {
    table! { op, dtype, "an integer dtype";
        DType::U8 | DType::I8 => u8, add(int::gemm);
        DType::U16 | DType::I16 => u16, add(int::gemm);
        DType::U32 | DType::I32 => u32, add(int::gemm);
        DType::U64 | DType::I64 => u64, add(int::gemm);
    }
}

/// The kernels of all numbers.
///
/// # Errors
/// Booleans have none.
pub(crate) fn number_kernels(op: &'static str, dtype: DType) -> Result<ProductKernels> {
    match dtype {
        DType::Bool(_) => Err(Error::dtype(op, dtype, "a float or integer dtype")),
        _ if dtype.is_float() => float_kernels(op, dtype),
        _ => int_kernels(op, dtype),
    }
}

/// [`Gemm`] of f32 and f64. The right operand may be kept in panels.
fn real<T: Real>(
    panels: Option<KeptPanels<'_>>,
    dst: &mut [u8],
    a: MatBytes<'_>,
    b: MatBytes<'_>,
    bias: Option<&[u8]>,
    threads: Threads,
) {
    let layout = MatLayout::row_major(a.layout.rows, b.layout.cols);
    let dst = MatMut::new(bytemuck::cast_slice_mut::<u8, T>(dst), layout);
    let panels = panels.map(|(shape, panels)| (shape, panels.map(bytemuck::cast_slice)));
    gemm_plus_row(dst, a.of(), b.of(), bias.map(bytemuck::cast_slice), panels, threads);
}

/// `dst = a @ b`, or `dst += a @ b` if the flag is set.
type GemmAdd<T> = fn(&mut [T], MatRef<'_, T>, MatRef<'_, T>, bool, Threads);

/// [`Gemm`] by a kernel that adds to the output, whose rows it sets to the bias first.
fn add<T: Pod>(
    gemm: GemmAdd<T>,
    dst: &mut [u8],
    a: MatBytes<'_>,
    b: MatBytes<'_>,
    bias: Option<&[u8]>,
    threads: Threads,
) {
    if let Some(bias) = bias {
        fill_rows(dst, bias, threads);
    }
    gemm(bytemuck::cast_slice_mut(dst), a.of(), b.of(), bias.is_some(), threads);
}

/// Sets every row of a row-major matrix to `row`.
pub(crate) fn fill_rows(out: &mut [u8], row: &[u8], threads: Threads) {
    if row.is_empty() {
        return;
    }
    let fill = |chunk: &mut [u8]| chunk.chunks_exact_mut(row.len()).for_each(|to| to.copy_from_slice(row));
    if threads == Threads::One {
        return fill(out);
    }
    let (bytes, rows) = (out.len(), parallel::rows_per_task(row.len()));
    parallel::for_each_chunk(out, rows * row.len(), Work::Bytes(bytes), |_, chunk| fill(chunk));
}
