//! The kernel that multiplies matrices of each element type. A new kernel is registered here.

use super::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into};
use super::lane::Lane;
use super::{bf16, half, int};
use crate::f16;

/// An element type with a kernel for matrix products.
pub(crate) trait Multiply: Lane {
    /// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major.
    fn gemm(dst: &mut [Self], a: MatRef<'_, Self>, b: MatRef<'_, Self>, accumulate: bool, threads: Threads);
}

macro_rules! kernels {
    ($($ty:ty => $gemm:path;)*) => {$(
        impl Multiply for $ty {
            fn gemm(
                dst: &mut [Self],
                a: MatRef<'_, Self>,
                b: MatRef<'_, Self>,
                accumulate: bool,
                threads: Threads,
            ) {
                $gemm(dst, a, b, accumulate, threads);
            }
        }
    )*};
}

kernels! {
    f32 => real;
    f64 => real;
    f16 => half::gemm;
    crate::bf16 => bf16::gemm;
    u8 => int::gemm;
    u16 => int::gemm;
    u32 => int::gemm;
    u64 => int::gemm;
}

/// Products of f32 and f64.
fn real<T: crate::float::Real>(
    dst: &mut [T],
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    accumulate: bool,
    threads: Threads,
) {
    let layout = MatLayout::row_major(a.layout().rows, b.layout().cols);
    let beta = if accumulate { T::ONE } else { T::ZERO };
    gemm_into(MatMut::new(dst, layout), a, b, T::ONE, beta, threads);
}
