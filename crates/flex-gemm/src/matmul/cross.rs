//! The cross product of vectors of three elements.

use crate::error::{Error, Result, check_axis, check_same_dtype};
use crate::layout::{broadcast_shapes, expand_like};
use crate::parallel::{self, Work};
use crate::{Blank, DType, Tensor, bf16, f16};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use flex_math::Half;
use flex_math::half::{from_f32, to_f32};
use flex_math::simd::vectorize_lean;

/// Number of halves that are converted at a time: whole groups of three.
const BLOCK: usize = 192;

/// The cross product along `axis`, which has size 3 in both operands; the other axes broadcast.
///
/// f16 and bf16 are computed in f32 and rounded once; integers wrap.
///
/// # Errors
/// Different dtypes, booleans, an axis out of range or of a size other than 3, shapes that do not broadcast.
pub fn cross(lhs: Tensor, rhs: Tensor, axis: usize) -> Result<Tensor> {
    let op = "cross";
    let dtype = lhs.dtype();
    check_same_dtype(op, dtype, rhs.dtype())?;
    if lhs.rank() != rhs.rank() {
        return Err(Error::shapes(op, lhs.shape(), rhs.shape(), "the same number of axes"));
    }
    check_axis(op, axis, lhs.rank())?;
    if lhs.shape()[axis] != 3 || rhs.shape()[axis] != 3 {
        let expected = alloc::format!("size 3 on axis {axis} of both");
        return Err(Error::shapes(op, lhs.shape(), rhs.shape(), expected));
    }
    let Some(kernel) = kernel(dtype) else {
        return Err(Error::dtype(op, dtype, "a float or integer dtype"));
    };
    let shape = broadcast_shapes(op, lhs.shape(), rhs.shape())?;
    let stretch = |t: Tensor| -> Result<Tensor> {
        let layout = expand_like(op, t.layout(), &shape)?;
        t.with_layout(layout).into_contiguous()
    };
    let (lhs, rhs) = (stretch(lhs)?, stretch(rhs)?);
    let inner: usize = shape[axis + 1..].iter().product();
    let (count, size) = (shape.iter().product::<usize>(), dtype.size());
    // Groups of three runs of `inner` elements.
    let group = 3 * inner * size;
    let bytes = |tensor: &Tensor| tensor.layout().offset() * size..(tensor.layout().offset() + count) * size;
    let (a, b) = (&lhs.storage_bytes()[bytes(&lhs)], &rhs.storage_bytes()[bytes(&rhs)]);
    let mut blank = Blank::new(op, shape.clone(), dtype)?;
    let out = blank.bytes();
    if group > 0 {
        let chunk = parallel::rows_per_task(3 * group) * group;
        let work = Work::Bytes(3 * out.len());
        parallel::for_each_chunk(out, chunk, work, |task, out| {
            let range = task * chunk..task * chunk + out.len();
            kernel(out, &a[range.clone()], &b[range], inner);
        });
    }
    Ok(blank.finish())
}

/// Writes the cross products of groups of three runs, whose length is passed.
type CrossKernel = fn(&mut [u8], &[u8], &[u8], usize);

fn kernel(dtype: DType) -> Option<CrossKernel> {
    Some(match dtype {
        DType::F64 => groups::<f64>,
        DType::F32 => groups::<f32>,
        DType::F16 => halves::<f16>,
        DType::BF16 => halves::<bf16>,
        DType::U64 | DType::I64 => groups::<u64>,
        DType::U32 | DType::I32 => groups::<u32>,
        DType::U16 | DType::I16 => groups::<u16>,
        DType::U8 | DType::I8 => groups::<u8>,
        DType::Bool(_) => return None,
    })
}

/// An element type that cross products are computed in.
trait Det: Pod {
    /// `a * b - c * d`.
    fn det(a: Self, b: Self, c: Self, d: Self) -> Self;
}

macro_rules! det {
    ($($ty:ty: |$a:ident, $b:ident, $c:ident, $d:ident| $det:expr;)*) => {$(
        impl Det for $ty {
            #[inline(always)]
            fn det($a: Self, $b: Self, $c: Self, $d: Self) -> Self { $det }
        }
    )*};
}
det! {
    f32: |a, b, c, d| a * b - c * d;
    f64: |a, b, c, d| a * b - c * d;
    u8: |a, b, c, d| a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d));
    u16: |a, b, c, d| a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d));
    u32: |a, b, c, d| a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d));
    u64: |a, b, c, d| a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d));
}

fn groups<T: Det>(out: &mut [u8], a: &[u8], b: &[u8], inner: usize) {
    let (out, a, b): (&mut [T], &[T], &[T]) = (cast_slice_mut(out), cast_slice(a), cast_slice(b));
    vectorize_lean(
        #[inline(always)]
        || {
            if inner == 1 {
                return triples(out, a, b);
            }
            for (run, out) in out.chunks_exact_mut(inner).enumerate() {
                let [a1, b2, a2, b1] = factors(run, inner, a, b);
                for j in 0..out.len().min(a1.len()).min(a2.len()).min(b1.len()).min(b2.len()) {
                    out[j] = T::det(a1[j], b2[j], a2[j], b1[j]);
                }
            }
        },
    );
}

/// [`groups`] of halves: blocks are converted to f32 and rounded once.
fn halves<H: Half>(out: &mut [u8], a: &[u8], b: &[u8], inner: usize) {
    let (out, a, b): (&mut [H], &[H], &[H]) = (cast_slice_mut(out), cast_slice(a), cast_slice(b));
    let mut wide = [[0f32; BLOCK]; 5];
    let [result, operands @ ..] = &mut wide;
    if inner == 1 {
        let [wide_a, wide_b, ..] = operands;
        for ((out, a), b) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).zip(b.chunks(BLOCK)) {
            let len = out.len();
            to_f32(a, &mut wide_a[..len]);
            to_f32(b, &mut wide_b[..len]);
            let (a, b) = (cast_slice(&wide_a[..len]), cast_slice(&wide_b[..len]));
            groups::<f32>(cast_slice_mut(&mut result[..len]), a, b, 1);
            from_f32(&result[..len], out);
        }
        return;
    }
    for (run, out) in out.chunks_exact_mut(inner).enumerate() {
        let factors = factors(run, inner, a, b);
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let len = out.len();
            for (to, from) in operands.iter_mut().zip(factors) {
                to_f32(&from[block * BLOCK..][..len], &mut to[..len]);
            }
            let [a1, b2, a2, b1] = operands.each_ref().map(|wide| &wide[..len]);
            for (j, y) in result[..len].iter_mut().enumerate() {
                *y = f32::det(a1[j], b2[j], a2[j], b1[j]);
            }
            from_f32(&result[..len], out);
        }
    }
}

/// The runs that make up run number `run` of the output: `a1`, `b2`, `a2` and `b1` of `a1 * b2 - a2 * b1`.
#[inline(always)]
fn factors<'a, T>(run: usize, inner: usize, a: &'a [T], b: &'a [T]) -> [&'a [T]; 4] {
    let component = run % 3;
    let next = (run - component + (component + 1) % 3) * inner;
    let after = (run - component + (component + 2) % 3) * inner;
    [&a[next..next + inner], &b[after..after + inner], &a[after..after + inner], &b[next..next + inner]]
}

/// The cross products of vectors that lie one after the other.
#[inline(always)]
fn triples<T: Det>(out: &mut [T], a: &[T], b: &[T]) {
    let (out, a, b) = (out.as_chunks_mut::<3>().0, a.as_chunks::<3>().0, b.as_chunks::<3>().0);
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out =
            [T::det(a[1], b[2], a[2], b[1]), T::det(a[2], b[0], a[0], b[2]), T::det(a[0], b[1], a[1], b[0])];
    }
}
