//! Kernels over floats: flex-math's vector functions, and half precision computed in f32.

use super::kernel::{BLOCK, Fn1, Fn2, Fn3, Kernel, Map1, Map2, Map3, Src, Typed};
use crate::{Element, bf16, f16};
use core::marker::PhantomData;
use flex_math::half::{Half, from_f32, to_f32};
use flex_math::{BinaryFn, UnaryFn};

/// One function's kernels over the two float types that compute.
pub(crate) trait Family<const N: usize>: 'static {
    /// The kernel over f32, which half precision uses too.
    const SINGLE: &'static dyn Kernel<N>;
    /// The kernel over f64.
    const DOUBLE: &'static dyn Kernel<N>;
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

impl<F: Fn1<f32> + Fn1<f64> + 'static> Family<1> for Plain<F> {
    const SINGLE: &'static dyn Kernel<1> = Map1::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<1> = Map1::<f64, F>::KERNEL;
}

impl<F: Fn2<f32> + Fn2<f64> + 'static> Family<2> for Plain<F> {
    const SINGLE: &'static dyn Kernel<2> = Map2::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<2> = Map2::<f64, F>::KERNEL;
}

impl<F: Fn3<f32> + Fn3<f64> + 'static> Family<3> for Plain<F> {
    const SINGLE: &'static dyn Kernel<3> = Map3::<f32, F>::KERNEL;
    const DOUBLE: &'static dyn Kernel<3> = Map3::<f64, F>::KERNEL;
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
        Halved::<f16, f16, K, N>::KERNEL
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        Halved::<f16, u8, K, N>::KERNEL
    }
}

impl Float for bf16 {
    fn kernel<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        Halved::<bf16, bf16, K, N>::KERNEL
    }
    fn test<const N: usize, K: Family<N>>() -> &'static dyn Kernel<N> {
        Halved::<bf16, u8, K, N>::KERNEL
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

/// An f32 kernel over operands of type `H`, block by block through f32. The output is `H`, rounded once, or a type
/// that the f32 kernel writes itself.
///
/// A constant operand may come as `H` or as f32; scalars come as f32, so that they are not rounded to `H` first.
struct Halved<H, O, K, const N: usize>(PhantomData<fn(H, K) -> O>);

impl<H: Half + Element, O: Element, K: Family<N>, const N: usize> Halved<H, O, K, N> {
    const KERNEL: &'static dyn Kernel<N> = &Self(PhantomData);
}

impl<H: Half + Element, O: Element, K: Family<N>, const N: usize> Kernel<N> for Halved<H, O, K, N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        run_halved::<H, O, N>(K::SINGLE, out, src);
    }
}

/// [`Halved`] as a kernel of one operand.
pub(super) fn halved<H: Half + Element, O: Element, K: Family<1>>() -> &'static dyn Kernel<1> {
    Halved::<H, O, K, 1>::KERNEL
}

/// Not generic over the function, so that there is one copy for all.
fn run_halved<H: Half + Element, O: Element, const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    src: [Src<'_>; N],
) {
    let halves_out = O::DTYPE == H::DTYPE;
    let mut result = [0f32; BLOCK];
    let mut operands = [[0f32; BLOCK]; N];
    let mut same = [[0u8; 4]; N];
    for (same, src) in same.iter_mut().zip(src) {
        if let Src::Same(bytes) = src {
            *same = match bytes.try_into() {
                Ok(single) => single,
                Err(_) => H::widen(bytemuck::pod_read_unaligned::<H>(bytes).bits()).to_ne_bytes(),
            };
        }
    }
    for (k, out) in out.chunks_mut(BLOCK * size_of::<O>()).enumerate() {
        let len = out.len() / size_of::<O>();
        for (operand, src) in operands.iter_mut().zip(src) {
            match src {
                Src::Each(bytes) => {
                    let halves: &[H] = bytemuck::cast_slice(bytes);
                    to_f32(&halves[k * BLOCK..][..len], &mut operand[..len]);
                }
                Src::Out if halves_out => to_f32::<H>(bytemuck::cast_slice(out), &mut result[..len]),
                Src::Out => to_f32::<H>(bytemuck::cast_slice(out), &mut operand[..len]),
                Src::Same(_) => {}
            }
        }
        let block: [Src<'_>; N] = core::array::from_fn(|n| match src[n] {
            Src::Same(_) => Src::Same(&same[n]),
            Src::Out if halves_out => Src::Out,
            _ => Src::Each(bytemuck::cast_slice(&operands[n][..len])),
        });
        if halves_out {
            kernel.run(bytemuck::cast_slice_mut(&mut result[..len]), block);
            from_f32::<H>(&result[..len], bytemuck::cast_slice_mut(out));
        } else {
            kernel.run(out, block);
        }
    }
}
