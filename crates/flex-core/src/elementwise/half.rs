//! Kernels over half precision, computed in f32 and rounded once: in one loop with the conversions where the function costs less
//! than moving its operands, through the kernel over f32 otherwise; block by block either way.
//!
//! A constant operand may come as the half or as f32; scalars come as f32, so that they are not rounded to the half first.

use super::float::Family;
use super::kernel::{BLOCK, Fn1, Kernel, Map1, Src, Typed};
use crate::Element;
use core::marker::PhantomData;
use flex_math::half::{Half, from_f32, narrow_inlined, to_f32, widen_inlined};
use flex_math::simd::{Simd, WithSimd, dispatch};

/// A light function of `N` numbers.
pub(super) trait Light<const N: usize>: 'static {
    /// The result.
    fn apply(x: [f32; N]) -> f32;
}

/// A light function as a kernel that has it inlined.
pub(super) struct Inlined<H, F, const N: usize>(PhantomData<fn(H) -> F>);

impl<H: Half + Element, F: Light<N>, const N: usize> Inlined<H, F, N> {
    pub(super) const KERNEL: &'static dyn Kernel<N> = &Self(PhantomData);
}

impl<H: Half + Element, F: Light<N>, const N: usize> Kernel<N> for Inlined<H, F, N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        let mut wide = [[0.0; RUN]; N];
        for (wide, src) in wide.iter_mut().zip(src) {
            if let Src::Same(bytes) = src {
                wide.fill(constant::<H>(bytes));
            }
        }
        let src = src.map(|src| match src {
            Src::Each(bytes) => Typed::Each(bytemuck::cast_slice(bytes)),
            Src::Same(_) => Typed::Same(H::ZERO),
            Src::Out => Typed::Out,
        });
        dispatch(Loop::<H, F, N> { out: bytemuck::cast_slice_mut(out), src, wide, f: PhantomData });
    }
}

/// Elements that are converted, computed and rounded at a time. Few enough to stay in the first-level cache; so many that the compiler
/// does not try to keep them in registers, where it splits vectors: adding 65,536 bf16 took 44 us in runs of 32, and takes 7.
const RUN: usize = 256;

struct Loop<'a, H, F, const N: usize> {
    out: &'a mut [H],
    src: [Typed<'a, H>; N],
    /// The constants, where there are any.
    wide: [[f32; RUN]; N],
    f: PhantomData<F>,
}

impl<H: Half + Element, F: Light<N>, const N: usize> WithSimd for Loop<'_, H, F, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { out, src, mut wide, .. } = self;
        for operand in &src {
            assert!(
                !matches!(operand, Typed::Each(values) if values.len() != out.len()),
                "kernel: operand length"
            );
        }
        let (runs, rest) = out.as_chunks_mut::<RUN>();
        let whole = runs.len() * RUN;
        for (k, out) in runs.iter_mut().enumerate() {
            for (wide, src) in wide.iter_mut().zip(&src) {
                load::<S, H>(src, k * RUN, out, wide);
            }
            narrow_inlined::<S, H>(&compute::<F, N>(&wide), out);
        }
        for (wide, src) in wide.iter_mut().zip(&src) {
            load::<S, H>(src, whole, rest, &mut wide[..rest.len()]);
        }
        narrow_inlined::<S, H>(&compute::<F, N>(&wide)[..rest.len()], rest);
    }
}

/// The elements of an operand that go with `out`, whose first one is the element `at`. A constant is there already.
#[inline(always)]
fn load<S: Simd, H: Half>(src: &Typed<'_, H>, at: usize, out: &[H], wide: &mut [f32]) {
    match src {
        Typed::Each(values) => widen_inlined::<S, H>(&values[at..][..out.len()], wide),
        Typed::Same(_) => {}
        Typed::Out => widen_inlined::<S, H>(out, wide),
    }
}

#[inline(always)]
fn compute<F: Light<N>, const N: usize>(x: &[[f32; RUN]; N]) -> [f32; RUN] {
    let mut out = [0.0; RUN];
    for (i, out) in out.iter_mut().enumerate() {
        *out = F::apply(core::array::from_fn(
            #[inline(always)]
            |n| x[n][i],
        ));
    }
    out
}

/// A constant operand, whichever way it came.
fn constant<H: Half + Element>(bytes: &[u8]) -> f32 {
    match bytes.try_into() {
        Ok(single) => f32::from_ne_bytes(single),
        Err(_) => H::widen(bytemuck::pod_read_unaligned::<H>(bytes).bits()),
    }
}

/// An f32 kernel over operands of type `H`, block by block through f32. The output is `H`, rounded once, or a type
/// that the f32 kernel writes itself.
pub(super) struct Blocks<H, O, K, const N: usize>(PhantomData<fn(H, K) -> O>);

impl<H: Half + Element, O: Element, K: Family<N>, const N: usize> Blocks<H, O, K, N> {
    pub(super) const KERNEL: &'static dyn Kernel<N> = &Self(PhantomData);
}

impl<H: Half + Element, O: Element, K: Family<N>, const N: usize> Kernel<N> for Blocks<H, O, K, N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        run_blocks::<H, O, N>(K::SINGLE, out, src);
    }
}

/// The kernel of a function of f32 whose operand is a half and whose result something else.
pub(super) fn through_single<H: Half + Element, F: Fn1<f32> + 'static>() -> &'static dyn Kernel<1> {
    struct Through<H, F>(PhantomData<fn(H) -> F>);

    impl<H: Half + Element, F: Fn1<f32> + 'static> Kernel<1> for Through<H, F> {
        fn run(&self, out: &mut [u8], src: [Src<'_>; 1]) {
            run_blocks::<H, F::Out, 1>(Map1::<f32, F>::KERNEL, out, src);
        }
    }

    &Through::<H, F>(PhantomData)
}

/// Not generic over the function, so that there is one copy for all.
fn run_blocks<H: Half + Element, O: Element, const N: usize>(
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
            *same = constant::<H>(bytes).to_ne_bytes();
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
