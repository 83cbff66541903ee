//! Kernels over floats: plain functions and flex-math's vector functions. Half precision is computed in f32, see `half.rs`.

use super::half::{Blocks, Inlined, Light};
use super::kernel::{BLOCK, Fn1, Fn2, Fn3, Kernel, Map1, Map2, Map3, Src, Typed};
use crate::{Element, bf16, f16};
use core::marker::PhantomData;
use flex_math::half::Half;
use flex_math::{BinaryFn, UnaryFn};

/// One function's kernels over the two float types that compute.
pub(crate) trait Family<const N: usize>: Sized + 'static {
    /// The kernel over f32, which half precision uses too.
    const SINGLE: &'static dyn Kernel<N>;
    /// The kernel over f64.
    const DOUBLE: &'static dyn Kernel<N>;

    /// The kernel over a half whose result is of that type too.
    fn half<H: Half + Element>() -> &'static dyn Kernel<N> {
        Blocks::<H, H, Self, N>::KERNEL
    }
}

/// The kernels of a float dtype.
pub(crate) trait Float: Element {
    /// The kernel of a function whose result has this dtype.
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N>;
    /// The kernel of a function whose result is a boolean.
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N>;
}

/// A function of plain elements.
pub(crate) struct Plain<F>(PhantomData<F>);

/// A question about plain elements.
pub(crate) struct Predicate<F>(PhantomData<F>);

macro_rules! impl_plain {
    ($($n:literal $f:ident $map:ident |$x:pat_param| $call:expr;)*) => {$(
        impl<F: $f<f32, Out = f32> + $f<f64, Out = f64> + 'static> Family<$n> for Plain<F> {
            const SINGLE: &'static dyn Kernel<$n> = $map::<f32, F>::KERNEL;
            const DOUBLE: &'static dyn Kernel<$n> = $map::<f64, F>::KERNEL;

            fn half<H: Half + Element>() -> &'static dyn Kernel<$n> {
                Inlined::<H, F, $n>::KERNEL
            }
        }

        impl<F: $f<f32, Out = f32> + 'static> Light<$n> for F {
            #[inline(always)]
            fn apply($x: [f32; $n]) -> f32 {
                $call
            }
        }

        impl<F: $f<f32, Out = u8> + $f<f64, Out = u8> + 'static> Family<$n> for Predicate<F> {
            const SINGLE: &'static dyn Kernel<$n> = $map::<f32, F>::KERNEL;
            const DOUBLE: &'static dyn Kernel<$n> = $map::<f64, F>::KERNEL;
        }
    )*};
}

impl_plain! {
    1 Fn1 Map1 |[a]| F::at(a);
    2 Fn2 Map2 |[a, b]| F::at(a, b);
}

impl<F: Fn3<f32> + Fn3<f64> + 'static> Family<3> for Plain<F> {
    const SINGLE: &'static dyn Kernel<3> = Map3::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<3> = Map3::<f64, F>::KERNEL;

    fn half<H: Half + Element>() -> &'static dyn Kernel<3> {
        Inlined::<H, F, 3>::KERNEL
    }
}

impl<F: Fn3<f32> + 'static> Light<3> for F {
    #[inline(always)]
    fn apply([a, p, q]: [f32; 3]) -> f32 {
        F::at(a, p, q)
    }
}

/// A function of whole vectors.
pub(crate) struct Vectors<F>(PhantomData<F>);

impl<F: UnaryFn<f32> + UnaryFn<f64> + Default + 'static> Family<1> for Vectors<F> {
    const SINGLE: &'static dyn Kernel<1> = Math1::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<1> = Math1::<f64, F>::KERNEL;
}

impl<F: BinaryFn<f32> + BinaryFn<f64> + Default + 'static> Family<2> for Vectors<F> {
    const SINGLE: &'static dyn Kernel<2> = Math2::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<2> = Math2::<f64, F>::KERNEL;
}

impl Float for f32 {
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::SINGLE
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::SINGLE
    }
}

impl Float for f64 {
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::DOUBLE
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::DOUBLE
    }
}

impl Float for f16 {
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::half::<f16>()
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        Blocks::<f16, u8, K, N>::KERNEL
    }
}

impl Float for bf16 {
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        K::half::<bf16>()
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        Blocks::<bf16, u8, K, N>::KERNEL
    }
}

/// A vector function of one operand as a kernel.
struct Math1<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element + flex_math::Float, F: UnaryFn<T> + Default + 'static> Math1<T, F> {
    const KERNEL: &'static dyn Kernel<1> = &Self(PhantomData);
}

impl<T: Element + flex_math::Float, F: UnaryFn<T> + Default + 'static> Kernel<1> for Math1<T, F> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        match a.typed::<T>() {
            Typed::Each(a) => flex_math::map(F::default(), a, out),
            Typed::Same(a) => out.fill(flex_math::eval_scalar(F::default(), a)),
            Typed::Out => flex_math::map_in_place(F::default(), out),
        }
    }
}

/// A vector function of two operands as a kernel.
///
/// These functions cost enough that a constant operand may come from a filled block, which saves two more
/// compiled copies of each.
struct Math2<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element + flex_math::Float, F: BinaryFn<T> + Default + 'static> Math2<T, F> {
    const KERNEL: &'static dyn Kernel<2> = &Self(PhantomData);
}

impl<T: Element + flex_math::Float, F: BinaryFn<T> + Default + 'static> Kernel<2> for Math2<T, F> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        let f = F::default();
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let mut block = [T::ZERO; BLOCK];
        match (a.typed::<T>(), b.typed::<T>()) {
            (Typed::Each(a), Typed::Each(b)) => flex_math::map2(f, a, b, out),
            (Typed::Out, Typed::Each(b)) => flex_math::map2_in_place(f, out, b),
            (Typed::Each(a), Typed::Same(b)) => {
                block.fill(b);
                for (out, a) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)) {
                    flex_math::map2(f, a, &block[..a.len()], out);
                }
            }
            (Typed::Out, Typed::Same(b)) => {
                block.fill(b);
                for out in out.chunks_mut(BLOCK) {
                    let len = out.len();
                    flex_math::map2_in_place(f, out, &block[..len]);
                }
            }
            (Typed::Same(a), Typed::Each(b)) => {
                block.fill(a);
                for (out, b) in out.chunks_mut(BLOCK).zip(b.chunks(BLOCK)) {
                    flex_math::map2(f, &block[..b.len()], b, out);
                }
            }
            (Typed::Each(a), Typed::Out) => {
                for (out, a) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)) {
                    block[..a.len()].copy_from_slice(out);
                    flex_math::map2(f, a, &block[..a.len()], out);
                }
            }
            (Typed::Same(a), Typed::Out) => {
                for out in out.chunks_mut(BLOCK) {
                    let block = &mut block[..out.len()];
                    block.copy_from_slice(out);
                    out.fill(a);
                    flex_math::map2_in_place(f, out, block);
                }
            }
            (Typed::Out, Typed::Out) => {
                for out in out.chunks_mut(BLOCK) {
                    let block = &mut block[..out.len()];
                    block.copy_from_slice(out);
                    flex_math::map2_in_place(f, out, block);
                }
            }
            (Typed::Same(a), Typed::Same(b)) => {
                out.fill(a);
                block.fill(b);
                for out in out.chunks_mut(BLOCK) {
                    let len = out.len();
                    flex_math::map2_in_place(f, out, &block[..len]);
                }
            }
        }
    }
}
