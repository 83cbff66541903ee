//! The cross product of vectors of three elements.

use super::lane::Lane;
use crate::Tensor;
use crate::error::{Error, Result, check_axis, check_same_dtype};
use crate::layout::{broadcast_shapes, expand_like};
use crate::parallel::{self, Work};
use flex_math::simd::vectorize_lean;

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
    if dtype.is_bool() {
        return Err(Error::dtype(op, dtype, "a float or integer dtype"));
    }
    let shape = broadcast_shapes(op, lhs.shape(), rhs.shape())?;
    let stretch = |t: Tensor| -> Result<Tensor> {
        let layout = expand_like(op, t.layout(), &shape)?;
        t.with_layout(layout).into_contiguous()
    };
    let (lhs, rhs) = (stretch(lhs)?, stretch(rhs)?);
    let inner: usize = shape[axis + 1..].iter().product();
    if dtype.is_float() {
        dispatch!(float op, dtype, T => compute::<T>(op, &lhs, &rhs, inner))
    } else {
        dispatch!(bits op, dtype, T => compute::<T>(op, &lhs, &rhs, inner))
    }
}

fn compute<T: Lane>(op: &'static str, lhs: &Tensor, rhs: &Tensor, inner: usize) -> Result<Tensor> {
    let (a, b) = (lhs.as_slice::<T>().expect("contiguous"), rhs.as_slice::<T>().expect("contiguous"));
    Tensor::build::<T>(op, lhs.shape().clone(), lhs.dtype(), |out| {
        // Groups of three runs of `inner` elements.
        let group = 3 * inner;
        if group == 0 {
            return;
        }
        let groups = parallel::rows_per_task(3 * group * size_of::<T>());
        let work = Work::Bytes(3 * size_of_val(out));
        parallel::for_each_chunk(out, groups * group, work, |task, out| {
            let start = task * groups * group;
            let (a, b) = (&a[start..start + out.len()], &b[start..start + out.len()]);
            vectorize_lean(
                #[inline(always)]
                || {
                    if inner == 1 {
                        triples(out, a, b);
                    } else {
                        let groups = out.chunks_exact_mut(group);
                        for ((out, a), b) in groups.zip(a.chunks_exact(group)).zip(b.chunks_exact(group)) {
                            runs(out, a, b, inner);
                        }
                    }
                },
            );
        });
    })
}

/// The cross products of vectors that lie one after the other.
#[inline(always)]
fn triples<T: Lane>(out: &mut [T], a: &[T], b: &[T]) {
    let (out, a, b) = (out.as_chunks_mut::<3>().0, a.as_chunks::<3>().0, b.as_chunks::<3>().0);
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        let (a, b) = (a.map(T::widen), b.map(T::widen));
        *out = [
            T::narrow(T::det(a[1], b[2], a[2], b[1])),
            T::narrow(T::det(a[2], b[0], a[0], b[2])),
            T::narrow(T::det(a[0], b[1], a[1], b[0])),
        ];
    }
}

/// The cross products of `inner` vectors whose components lie `inner` apart.
#[inline(always)]
fn runs<T: Lane>(out: &mut [T], a: &[T], b: &[T], inner: usize) {
    for (c, out) in out.chunks_exact_mut(inner).enumerate() {
        let (next, after) = ((c + 1) % 3 * inner, (c + 2) % 3 * inner);
        let (a1, a2) = (&a[next..next + inner], &a[after..after + inner]);
        let (b1, b2) = (&b[next..next + inner], &b[after..after + inner]);
        for j in 0..inner {
            out[j] = T::narrow(T::det(a1[j].widen(), b2[j].widen(), a2[j].widen(), b1[j].widen()));
        }
    }
}
