//! Kernels over half precision, computed in f32 and rounded once: vector by vector where the function costs little more
//! than moving its operands, through the kernel over f32, block by block, otherwise.
//!
//! A constant operand may come as the half or as f32; scalars come as f32, so that they are not rounded to the half first.

use super::float::Family;
use super::kernel::{BLOCK, Fn1, Kernel, Map1, Src};
use crate::Element;
use core::marker::PhantomData;
use flex_math::half::{Half, Operand, from_f32, map_half, map2_half, to_f32};
use flex_math::simd::{Scalar, Simd, Vector};
use flex_math::{BinaryFn, UnaryFn};

/// A light function as a kernel that has it, and the conversions, inlined. Adding 65,536 f16 in the caches takes 0.10 ns per
/// element so (f32: 0.13), and took 0.19 through arrays of f32 (one thread of Zen 4).
pub(super) struct Direct<H, F, const N: usize>(PhantomData<fn(H) -> F>);

impl<H: Half + Element, F: UnaryFn<f32> + Default + 'static> Direct<H, F, 1> {
    pub(super) const KERNEL: &'static dyn Kernel<1> = &Self(PhantomData);
}

impl<H: Half + Element, F: UnaryFn<f32> + Default + 'static> Kernel<1> for Direct<H, F, 1> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        map_half::<H, F>(F::default(), operand(a), bytemuck::cast_slice_mut(out));
    }
}

impl<H: Half + Element, F: BinaryFn<f32> + Default + 'static> Direct<H, F, 2> {
    pub(super) const KERNEL: &'static dyn Kernel<2> = &Self(PhantomData);
}

impl<H: Half + Element, F: BinaryFn<f32> + Default + 'static> Kernel<2> for Direct<H, F, 2> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        map2_half::<H, F>(F::default(), operand(a), operand(b), bytemuck::cast_slice_mut(out));
    }
}

/// A function of a number and two parameters, evaluated on whole vectors.
pub(super) trait ParametricFn: Copy + Default + Send + Sync + 'static {
    /// The function's value in every lane of `x`.
    fn eval<S: Simd>(self, x: Vector<S, f32>, p: Vector<S, f32>, q: Vector<S, f32>) -> Vector<S, f32>;
}

/// A [`ParametricFn`] with its parameters.
#[derive(Clone, Copy)]
struct With<F> {
    f: F,
    p: f32,
    q: f32,
}

impl<F: ParametricFn> UnaryFn<f32> for With<F> {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, f32>) -> Vector<S, f32> {
        self.f.eval(x, self.p.splat(), self.q.splat())
    }
}

impl<H: Half + Element, F: ParametricFn> Direct<H, F, 3> {
    pub(super) const KERNEL: &'static dyn Kernel<3> = &Self(PhantomData);
}

impl<H: Half + Element, F: ParametricFn> Kernel<3> for Direct<H, F, 3> {
    fn run(&self, out: &mut [u8], [a, p, q]: [Src<'_>; 3]) {
        let (Operand::Same(p), Operand::Same(q)) = (operand::<H>(p), operand::<H>(q)) else {
            unreachable!("the parameters are constants");
        };
        map_half::<H, _>(With { f: F::default(), p, q }, operand(a), bytemuck::cast_slice_mut(out));
    }
}

fn operand<H: Half + Element>(src: Src<'_>) -> Operand<'_, H> {
    match src {
        Src::Each(bytes) => Operand::Each(bytemuck::cast_slice(bytes)),
        Src::Same(bytes) => Operand::Same(constant::<H>(bytes)),
        Src::Out => Operand::Out,
    }
}

/// A constant operand, whichever way it came. NaN gets a payload that halves have room for, as `map_half` asks of what a function
/// brings with it.
fn constant<H: Half + Element>(bytes: &[u8]) -> f32 {
    let value = match bytes.try_into() {
        Ok(single) => f32::from_ne_bytes(single),
        Err(_) => H::widen(bytemuck::pod_read_unaligned::<H>(bytes).bits()),
    };
    if value.is_nan() { f32::NAN } else { value }
}

/// An f32 kernel over operands and an output of type `H`, block by block through f32.
pub(super) struct Blocks<H, K, const N: usize>(PhantomData<fn(H) -> K>);

impl<H: Half + Element, K: Family<N>, const N: usize> Blocks<H, K, N> {
    pub(super) const KERNEL: &'static dyn Kernel<N> = &Self(PhantomData);
}

impl<H: Half + Element, K: Family<N>, const N: usize> Kernel<N> for Blocks<H, K, N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        run_blocks::<H, H, N>(K::SINGLE, out, src);
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

/// Operands of type `H` through a kernel over f32. The output is `H`, rounded once, or a type that the kernel writes itself. Not
/// generic over the function, so that there is one copy for all.
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
