//! Kernels over floats: plain functions and flex-math's vector functions. Half precision is computed in f32, see `half.rs`.

use super::half::{Blocks, Direct, ParametricFn};
use super::kernel::{BLOCK, Fn1, Fn2, Fn3, Kernel, Map1, Map2, Map3, Src, Typed};
use crate::{Element, bf16, f16};
use core::marker::PhantomData;
use flex_math::{BinaryFn, UnaryFn};

/// One function's kernels over the four float types.
pub(crate) trait Family<const N: usize>: Sized + 'static {
    /// The kernel over f32.
    const SINGLE: &'static dyn Kernel<N>;
    /// The kernel over f64.
    const DOUBLE: &'static dyn Kernel<N>;
    /// The kernel over f16.
    const F16: &'static dyn Kernel<N> = Blocks::<f16, Self, N>::KERNEL;
    /// The kernel over bf16.
    const BF16: &'static dyn Kernel<N> = Blocks::<bf16, Self, N>::KERNEL;
}

/// The kernels of a float dtype.
pub(crate) trait Float: Element {
    /// The kernel of a function.
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N>;
}

macro_rules! impl_float {
    ($($ty:ty: $kernel:ident;)*) => {$(
        impl Float for $ty {
            fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
                K::$kernel
            }
        }
    )*};
}

impl_float! {
    f32: SINGLE;
    f64: DOUBLE;
    f16: F16;
    bf16: BF16;
}

/// A function of plain elements.
pub(crate) struct Plain<F>(PhantomData<F>);

/// A function of plain elements that only [selects](super::number::Select). Relu of 4,096 bf16 converted to f32 and back took twice
/// as long as that of f32.
pub(crate) struct Selected<F>(PhantomData<F>);

/// A question about plain elements.
pub(crate) struct Predicate<F>(PhantomData<F>);

macro_rules! impl_plain {
    ($($n:literal $f:ident $vector:path, $map:ident;)*) => {$(
        impl<F> Family<$n> for Plain<F>
        where
            F: $f<f32, Out = f32> + $f<f64, Out = f64> + $vector + Default + 'static,
        {
            const SINGLE: &'static dyn Kernel<$n> = $map::<f32, F>::KERNEL;
            const DOUBLE: &'static dyn Kernel<$n> = $map::<f64, F>::KERNEL;
            const F16: &'static dyn Kernel<$n> = Direct::<f16, F, $n>::KERNEL;
            const BF16: &'static dyn Kernel<$n> = Direct::<bf16, F, $n>::KERNEL;
        }
    )*};
}

impl_plain! {
    1 Fn1 UnaryFn<f32>, Map1;
    2 Fn2 BinaryFn<f32>, Map2;
    3 Fn3 ParametricFn, Map3;
}

/// Families whose functions take halves as they are.
macro_rules! impl_by_elements {
    ($($family:ident $n:literal $f:ident $map:ident: $single:ty, $double:ty, $f16:ty, $bf16:ty;)*) => {$(
        impl<F> Family<$n> for $family<F>
        where
            F: $f<f32, Out = $single> + $f<f64, Out = $double> + $f<f16, Out = $f16> + $f<bf16, Out = $bf16> + 'static,
        {
            const SINGLE: &'static dyn Kernel<$n> = $map::<f32, F>::KERNEL;
            const DOUBLE: &'static dyn Kernel<$n> = $map::<f64, F>::KERNEL;
            const F16: &'static dyn Kernel<$n> = $map::<f16, F>::KERNEL;
            const BF16: &'static dyn Kernel<$n> = $map::<bf16, F>::KERNEL;
        }
    )*};
}

impl_by_elements! {
    Predicate 1 Fn1 Map1: u8, u8, u8, u8;
    Predicate 2 Fn2 Map2: u8, u8, u8, u8;
    Selected 1 Fn1 Map1: f32, f64, f16, bf16;
    Selected 3 Fn3 Map3: f32, f64, f16, bf16;
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

/// A function of whole vectors that takes little longer than moving its operands.
pub(crate) struct LightVectors<F>(PhantomData<F>);

impl<F: UnaryFn<f32> + UnaryFn<f64> + Default + 'static> Family<1> for LightVectors<F> {
    const SINGLE: &'static dyn Kernel<1> = Math1::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<1> = Math1::<f64, F>::KERNEL;
    const F16: &'static dyn Kernel<1> = Direct::<f16, F, 1>::KERNEL;
    const BF16: &'static dyn Kernel<1> = Direct::<bf16, F, 1>::KERNEL;
}

/// Functions of plain elements, each of one expression over [`Number`](super::number::Number)s, for [`Plain`], or over what
/// implements [`Select`](super::number::Select), for [`Selected`]: elements of a tensor, and vectors of f32 for halves.
macro_rules! plain_fn {
    ($($name:ident<$bound:ident>: |$($x:ident),+| $value:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;

        impl $name {
            #[inline(always)]
            fn of<T: $bound>($($x: T),+) -> T {
                $value
            }
        }

        plain_fn!(@impls $bound $name $($x)+);
    )*};
    (@impls $bound:ident $name:ident $a:ident) => {
        impl<T: $bound + Element> Fn1<T> for $name {
            type Out = T;
            #[inline(always)]
            fn at($a: T) -> T {
                Self::of($a)
            }
        }
        plain_fn!(@half UnaryFn $name $a);
    };
    (@impls $bound:ident $name:ident $a:ident $b:ident) => {
        impl<T: $bound + Element> Fn2<T> for $name {
            type Out = T;
            #[inline(always)]
            fn at($a: T, $b: T) -> T {
                Self::of($a, $b)
            }
        }
        plain_fn!(@half BinaryFn $name $a $b);
    };
    (@impls $bound:ident $name:ident $a:ident $b:ident $c:ident) => {
        impl<T: $bound + Element> Fn3<T> for $name {
            type Out = T;
            #[inline(always)]
            fn at($a: T, $b: T, $c: T) -> T {
                Self::of($a, $b, $c)
            }
        }
        impl ParametricFn for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, $a: Vector<S, f32>, $b: Vector<S, f32>, $c: Vector<S, f32>) -> Vector<S, f32> {
                Self::of($a, $b, $c)
            }
        }
    };
    (@half $math:ident $name:ident $($x:ident)+) => {
        impl flex_math::$math<f32> for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, $($x: Vector<S, f32>),+) -> Vector<S, f32> {
                Self::of($($x),+)
            }
        }
    };
}
pub(super) use plain_fn;

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
