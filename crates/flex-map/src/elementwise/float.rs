//! Functions of floats as kernels, over vectors. Halves are computed in f32 and rounded once.
//!
//! A function is light when it costs little more than moving its operands. Then each way of passing a
//! constant gets a loop, and halves are converted in registers: adding 65,536 f16 in the caches takes 0.10 ns
//! per element in this way (f32: 0.13), and took 0.19 through arrays of f32 (one thread of Zen 4). All other
//! functions are heavy: constants and halves pass through blocks on the stack, which saves compiled copies of
//! long code.
//!
//! A constant operand of a function of halves may come as the half or as f32; scalars come as f32, so that
//! they are not rounded to the half first.

use super::element::{Fn1, Fn3, Map1, UniformMap3};
use super::kernel::{
    BLOCK, FloatKernels, Kernel, RowBatch, RowKernel, RowSrc, Src, Typed, run_rows, through_blocks,
};
use crate::{Element, bf16, f16};
use core::convert::Infallible;
use core::marker::PhantomData;
use flex_math::half::{Half, from_f32, to_f32};
use flex_math::simd::{Dispatch, EveryLevel, HasVectors, Simd, Vector};
use flex_math::{
    BinaryFn, Float, Operand, Row2, StoredFloat, UnaryFn, apply, apply2, apply2_rows, map2, map2_in_place,
};

/// A function of one float, of either computing type.
pub(super) trait FloatFn1: UnaryFn<f32> + UnaryFn<f64> + Default + 'static {}
impl<F: UnaryFn<f32> + UnaryFn<f64> + Default + 'static> FloatFn1 for F {}

/// A function of two floats, of either computing type.
pub(super) trait FloatFn2: BinaryFn<f32> + BinaryFn<f64> + Default + 'static {}
impl<F: BinaryFn<f32> + BinaryFn<f64> + Default + 'static> FloatFn2 for F {}

/// A function of a float and two constants.
pub(super) trait FloatFn3: Copy + Default + Send + Sync + 'static {
    /// The function's value in every lane of `x`.
    fn eval<S: Simd, T: Float>(self, x: Vector<S, T>, p: Vector<S, T>, q: Vector<S, T>) -> Vector<S, T>;
}

/// The kernels of a light function of one float.
pub(super) const fn light1<F: FloatFn1>() -> FloatKernels<1> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        &Light::<f16, F>(PhantomData),
        &Light::<bf16, F>(PhantomData),
    ]
}

/// The kernels of a light function of two floats.
pub(super) const fn light2<F: FloatFn2>() -> FloatKernels<2> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        &Light::<f16, F>(PhantomData),
        &Light::<bf16, F>(PhantomData),
    ]
}

/// The kernels of a light function of a float and two constants.
pub(super) const fn light3<F: FloatFn3>() -> FloatKernels<3> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        &Light::<f16, F>(PhantomData),
        &Light::<bf16, F>(PhantomData),
    ]
}

/// The kernels of a light function of one float that rounds nothing. They compute on the bits of halves: with
/// a conversion to f32 and back, relu of 4,096 bf16 took twice as long as relu of f32.
pub(super) const fn selecting1<F: FloatFn1 + Fn1<f16> + Fn1<bf16>>() -> FloatKernels<1> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        Map1::<f16, F>::KERNEL,
        Map1::<bf16, F>::KERNEL,
    ]
}

/// [`selecting1`] for a function of the sign bit, which lies at the same place in halves of both types.
pub(super) const fn signs1<F: FloatFn1 + Fn1<f16>>() -> FloatKernels<1> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        Map1::<f16, F>::KERNEL,
        Map1::<f16, F>::KERNEL,
    ]
}

/// [`selecting1`] for a function of a float and two constants.
pub(super) const fn selecting3<F: FloatFn3 + Fn3<f16> + Fn3<bf16>>() -> FloatKernels<3> {
    [
        &Light::<f64, F>(PhantomData),
        &Light::<f32, F>(PhantomData),
        UniformMap3::<f16, F>::KERNEL,
        UniformMap3::<bf16, F>::KERNEL,
    ]
}

/// The kernels of a heavy function of one float.
pub(super) const fn heavy1<F: FloatFn1>() -> FloatKernels<1> {
    // Without constants a function of one float has one loop, light or heavy.
    [
        &Light::<f64, F>(PhantomData),
        HeavyHalves::<F>::SINGLE1,
        HeavyHalves::<F>::F16_1,
        HeavyHalves::<F>::BF16_1,
    ]
}

/// The kernels of a heavy function of two floats.
pub(super) const fn heavy2<F: FloatFn2>() -> FloatKernels<2> {
    [
        &Heavy::<f64, F>(PhantomData),
        HeavyHalves::<F>::SINGLE2,
        HeavyHalves::<F>::F16_2,
        HeavyHalves::<F>::BF16_2,
    ]
}

/// A light function over the stored type `E`.
struct Light<E, F>(PhantomData<fn(E) -> F>);

/// The stored type of a light function's elements.
trait LightElement: StoredFloat + Element {
    /// The levels that the function is compiled for.
    type Levels: Dispatch;
    /// The kernel at other levels.
    type Otherwise<const N: usize>: Kernel<N>;

    /// The levels, if the process is at one of them; otherwise a kernel made of the function over f32.
    fn levels<const N: usize>(single: &'static dyn Kernel<N>) -> Result<Self::Levels, Self::Otherwise<N>>;
}

macro_rules! light_elements {
    ($($float:ty)*; $($half:ty)*) => {
        $(impl LightElement for $float {
            type Levels = EveryLevel;
            type Otherwise<const N: usize> = Infallible;

            #[inline(always)]
            fn levels<const N: usize>(_: &'static dyn Kernel<N>) -> Result<EveryLevel, Infallible> {
                Ok(EveryLevel)
            }
        })*
        $(impl LightElement for $half {
            type Levels = HasVectors;
            type Otherwise<const N: usize> = ThroughSingle<$half, N>;

            #[inline(always)]
            fn levels<const N: usize>(
                single: &'static dyn Kernel<N>,
            ) -> Result<HasVectors, ThroughSingle<$half, N>> {
                HasVectors::here().ok_or(ThroughSingle::rounded(single))
            }
        })*
    };
}

light_elements!(f64 f32; f16 bf16);

impl<const N: usize> Kernel<N> for Infallible {
    fn run(&self, _: &mut [u8], _: [Src<'_>; N]) {
        match *self {}
    }
}

impl<E: LightElement, F: UnaryFn<E::Compute> + UnaryFn<f32> + Default + 'static> Kernel<1> for Light<E, F> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        match E::levels(&Light::<f32, F>(PhantomData)) {
            Ok(levels) => apply(levels, F::default(), operand::<E>(a), bytemuck::cast_slice_mut(out)),
            Err(kernel) => kernel.run(out, [a]),
        }
    }
}

impl<E: LightElement, F: BinaryFn<E::Compute> + BinaryFn<f32> + Default + 'static> Kernel<2> for Light<E, F> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        match E::levels(&Light::<f32, F>(PhantomData)) {
            Ok(levels) => {
                let (a, b) = (operand::<E>(a), operand::<E>(b));
                apply2(levels, F::default(), a, b, bytemuck::cast_slice_mut(out));
            }
            Err(kernel) => kernel.run(out, [a, b]),
        }
    }

    fn by_rows(&self) -> Option<&dyn RowKernel<2>> {
        Some(self)
    }
}

impl<E: LightElement, F: BinaryFn<E::Compute> + BinaryFn<f32> + Default + 'static> RowKernel<2>
    for Light<E, F>
{
    fn run_rows(&self, out: &mut [u8], rows: RowBatch<'_, 2>) {
        let levels = match E::levels(&Light::<f32, F>(PhantomData)) {
            Ok(levels) => levels,
            Err(kernel) => return run_rows(&kernel, out, rows),
        };
        let RowBatch { src: [a, b], len, starts } = rows;
        let out = bytemuck::cast_slice_mut::<_, E>(out);
        let (a, b) = (RowOperand::new(a), RowOperand::new(b));
        apply2_rows(levels, F::default(), &mut TypedRows { out, a, b, len, starts, next: 0 });
    }
}

/// The rows of a [`RowKernel`] with their types. Types are given to whole buffers and not to each row, since
/// a row of 1,024 f32 takes 100 ns.
struct TypedRows<'a, E: StoredFloat> {
    /// The outputs of the rows that are left.
    out: &'a mut [E],
    a: RowOperand<'a, E>,
    b: RowOperand<'a, E>,
    len: usize,
    starts: &'a [[usize; 2]],
    next: usize,
}

impl<'a, E: StoredFloat + Element> Iterator for TypedRows<'a, E> {
    type Item = Row2<'a, E>;

    #[inline]
    fn next(&mut self) -> Option<Row2<'a, E>> {
        let &[a, b] = self.starts.get(self.next)?;
        let (out, rest) = core::mem::take(&mut self.out).split_at_mut(self.len);
        let (a, b) = (self.a.row(self.next, a, self.len), self.b.row(self.next, b, self.len));
        self.out = rest;
        self.next += 1;
        Some((a, b, out))
    }
}

/// [`RowSrc`] with its type.
#[derive(Clone, Copy)]
enum RowOperand<'a, E: StoredFloat> {
    /// The same for every row: a constant, or the output.
    Fixed(Operand<'a, E>),
    /// One run over all rows.
    Each(&'a [E]),
    /// A buffer in which each row is a slice.
    Slices(&'a [E]),
    /// A buffer in which each row is one element that stands for all.
    Elements(&'a [E]),
}

impl<'a, E: StoredFloat + Element> RowOperand<'a, E> {
    fn new(src: RowSrc<'a>) -> Self {
        match src {
            RowSrc::Each(bytes, _) => Self::Each(bytemuck::cast_slice(bytes)),
            RowSrc::Same(bytes) => Self::Fixed(operand(Src::Same(bytes))),
            RowSrc::Out => Self::Fixed(Operand::Out),
            RowSrc::Slices(bytes, _) => Self::Slices(bytemuck::cast_slice(bytes)),
            RowSrc::Elements(bytes, _) => Self::Elements(bytemuck::cast_slice(bytes)),
        }
    }

    /// The operand of row `k`, which starts at element `start` of a buffer that is not flat.
    #[inline]
    fn row(self, k: usize, start: usize, len: usize) -> Operand<'a, E> {
        match self {
            Self::Fixed(operand) => operand,
            Self::Each(values) => Operand::Each(&values[k * len..][..len]),
            Self::Slices(values) => Operand::Each(&values[start..][..len]),
            Self::Elements(values) => Operand::Same(values[start].to_compute()),
        }
    }
}

impl<E: LightElement, F: FloatFn3> Kernel<3> for Light<E, F> {
    fn run(&self, out: &mut [u8], [a, p, q]: [Src<'_>; 3]) {
        let levels = match E::levels(&Light::<f32, F>(PhantomData)) {
            Ok(levels) => levels,
            Err(kernel) => return kernel.run(out, [a, p, q]),
        };
        let (Operand::Same(p), Operand::Same(q)) = (operand::<E>(p), operand::<E>(q)) else {
            unreachable!("the parameters are constants");
        };
        let f = With { f: F::default(), p: E::constant(p), q: E::constant(q) };
        apply(levels, f, operand::<E>(a), bytemuck::cast_slice_mut(out));
    }
}

/// A [`FloatFn3`] with its parameters.
#[derive(Clone, Copy)]
struct With<F, T> {
    f: F,
    p: T,
    q: T,
}

impl<F: FloatFn3, T: Float> UnaryFn<T> for With<F, T> {
    const IS_LIGHT: bool = true;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        self.f.eval(x, self.p.splat(), self.q.splat())
    }
}

fn operand<E: StoredFloat + Element>(src: Src<'_>) -> Operand<'_, E> {
    match src {
        Src::Each(bytes) => Operand::Each(bytemuck::cast_slice(bytes)),
        Src::Same(bytes) => Operand::Same(constant::<E>(bytes)),
        Src::Out => Operand::Out,
    }
}

/// A constant operand in the computing type, in which it may have come, or in the stored type.
fn constant<E: StoredFloat + Element>(bytes: &[u8]) -> E::Compute {
    if bytes.len() == size_of::<E::Compute>() {
        bytemuck::pod_read_unaligned(bytes)
    } else {
        bytemuck::pod_read_unaligned::<E>(bytes).to_compute()
    }
}

/// A heavy function of two floats, computed in the type that they are stored in.
struct Heavy<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element + Float, F: BinaryFn<T> + Default + 'static> Kernel<2> for Heavy<T, F> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        match (a.typed::<T>(), b.typed::<T>()) {
            (Typed::Each(a), Typed::Each(b)) => map2(F::default(), a, b, bytemuck::cast_slice_mut(out)),
            (Typed::Out, Typed::Each(b)) => map2_in_place(F::default(), bytemuck::cast_slice_mut(out), b),
            _ => through_blocks(self, size_of::<T>(), size_of::<T>(), out, [a, b]),
        }
    }
}

/// The kernels of a heavy function over f32, and over halves by way of them.
struct HeavyHalves<F>(PhantomData<F>);

impl<F: FloatFn1> HeavyHalves<F> {
    const SINGLE1: &'static dyn Kernel<1> = &Light::<f32, F>(PhantomData);
    const F16_1: &'static dyn Kernel<1> = &ThroughSingle::<f16, 1>::rounded(Self::SINGLE1);
    const BF16_1: &'static dyn Kernel<1> = &ThroughSingle::<bf16, 1>::rounded(Self::SINGLE1);
}

impl<F: FloatFn2> HeavyHalves<F> {
    const SINGLE2: &'static dyn Kernel<2> = &Heavy::<f32, F>(PhantomData);
    const F16_2: &'static dyn Kernel<2> = &ThroughSingle::<f16, 2>::rounded(Self::SINGLE2);
    const BF16_2: &'static dyn Kernel<2> = &ThroughSingle::<bf16, 2>::rounded(Self::SINGLE2);
}

/// A kernel over f32 as one over operands of the half type `H`, which pass through blocks of f32. One copy of
/// this code serves all functions.
pub(super) struct ThroughSingle<H, const N: usize> {
    /// The kernel over f32.
    single: &'static dyn Kernel<N>,
    /// The size of its results, where they are the results and not rounded to `H`.
    result_size: Option<usize>,
    half: PhantomData<fn(H)>,
}

impl<H: Half + Element, const N: usize> ThroughSingle<H, N> {
    /// A function whose results are rounded to `H`, once.
    pub(super) const fn rounded(single: &'static dyn Kernel<N>) -> Self {
        Self { single, result_size: None, half: PhantomData }
    }

    /// A function whose results are of another type, of `size` bytes.
    pub(super) const fn converted(single: &'static dyn Kernel<N>, size: usize) -> Self {
        Self { single, result_size: Some(size), half: PhantomData }
    }
}

impl<H: Half + Element, const N: usize> Kernel<N> for ThroughSingle<H, N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        let rounded = self.result_size.is_none();
        let out_size = self.result_size.unwrap_or(size_of::<H>());
        let mut result = [0f32; BLOCK];
        let mut operands = [[0f32; BLOCK]; N];
        let mut same = [[0u8; 4]; N];
        for (same, src) in same.iter_mut().zip(src) {
            if let Src::Same(bytes) = src {
                *same = H::constant(constant::<H>(bytes)).to_ne_bytes();
            }
        }
        for (k, out) in out.chunks_mut(BLOCK * out_size).enumerate() {
            let len = out.len() / out_size;
            for (operand, src) in operands.iter_mut().zip(src) {
                match src {
                    Src::Each(bytes) => {
                        let halves: &[H] = bytemuck::cast_slice(bytes);
                        to_f32(&halves[k * BLOCK..][..len], &mut operand[..len]);
                    }
                    Src::Out if rounded => to_f32::<H>(bytemuck::cast_slice(out), &mut result[..len]),
                    Src::Out => to_f32::<H>(bytemuck::cast_slice(out), &mut operand[..len]),
                    Src::Same(_) => {}
                }
            }
            let block: [Src<'_>; N] = core::array::from_fn(|n| match src[n] {
                Src::Same(_) => Src::Same(&same[n]),
                Src::Out if rounded => Src::Out,
                _ => Src::Each(bytemuck::cast_slice(&operands[n][..len])),
            });
            if rounded {
                self.single.run(bytemuck::cast_slice_mut(&mut result[..len]), block);
                from_f32::<H>(&result[..len], bytemuck::cast_slice_mut(out));
            } else {
                self.single.run(out, block);
            }
        }
    }
}
