//! Functions of single elements as kernels: plain loops, which the compiler vectorises.
//!
//! Integers, comparisons and casts are computed so, and halves where only their bits matter. Floats have
//! [vectors](super::float).

use super::kernel::{BLOCK, FloatKernels, IntegerKernels, Kernel, Src, Typed, through_blocks};
use crate::{Element, bf16, f16};
use core::marker::PhantomData;
use flex_math::simd::{Gains, Levels, prefetch_ahead, vectorize_with};

/// A function of one element.
pub(crate) trait Fn1<A> {
    /// Type of the result.
    type Out: Element;
    /// The instruction sets that the loop gains from.
    const LEVELS: Levels = Levels::Lean;
    /// The result.
    fn at(a: A) -> Self::Out;
}

/// A function of two elements.
pub(crate) trait Fn2<T> {
    /// Type of the result.
    type Out: Element;
    /// The instruction sets that the loop gains from.
    const LEVELS: Levels = Levels::Lean;
    /// Whether the function costs less than moving its operands. Then its loop is unrolled, and a constant on
    /// the right gets a loop of its own.
    const IS_LIGHT: bool = true;
    /// Whether a constant on the left gets a loop of its own too.
    const IS_LIGHT_LEFT: bool = false;
    /// The result.
    fn at(a: T, b: T) -> Self::Out;
}

/// A function of an element and two constants.
pub(crate) trait Fn3<T> {
    /// The result.
    fn at(a: T, p: T, q: T) -> T;
}

/// [`Fn1`] as a kernel.
pub(crate) struct Map1<A, F>(PhantomData<fn(A) -> F>);

impl<A: Element, F: Fn1<A> + 'static> Map1<A, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<1> = &Self(PhantomData);
}

impl<A, F: Fn1<A>> Gains for Map1<A, F> {
    const LEVELS: Levels = F::LEVELS;
}

impl<A: Element, F: Fn1<A> + 'static> Kernel<1> for Map1<A, F> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        let Typed::Each(values) = a.typed::<A>() else {
            return through_blocks(self, size_of::<A>(), size_of::<F::Out>(), out, [a]);
        };
        let out = bytemuck::cast_slice_mut(out);
        vectorize_with::<Self, _>(
            #[inline(always)]
            move |vectors| each1(vectors, true, out, values, F::at),
        );
    }
}

/// Bytes of the widest operand between two prefetches. The loop over them has a constant length, is all
/// vectors, and is unrolled. Doubling 1 Mi f32 takes 46 us with it, and took 52 without; 4,096 take 0.24 us
/// and took 0.31.
const RUN_BYTES: usize = 256;

/// Bytes of the widest operand that are computed together where fewer than [`RUN_BYTES`] are left.
const SHORT_RUN_BYTES: usize = 32;

/// Declares a loop that computes each element of an output from as many elements of some operands,
/// [`RUN_BYTES`] at a time where the level has vectors. The arguments of the loop: whether the level has
/// vectors, whether to prefetch, the output, the operands, and the function.
///
/// The elements after the last whole run are computed in short runs. The last short run ends with the last
/// element and may overlap the run before it. The compiler would vectorise a loop over single elements, into
/// more code than the runs take.
macro_rules! each {
    ($($(#[$doc:meta])* $name:ident $runs:ident $run:ident: $($x:ident $ty:ident),+;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<O, $($ty: Copy),+>(
            has_vectors: bool,
            prefetches: bool,
            out: &mut [O],
            $($x: &[$ty],)+
            f: impl Fn($($ty),+) -> O,
        ) {
            $(assert!(out.len() == $x.len(), "kernel: operand length");)+
            if !has_vectors {
                for (k, o) in out.iter_mut().enumerate() {
                    *o = f($($x[k]),+);
                }
                return;
            }
            const fn per_run<T>(bytes: usize) -> usize {
                bytes / size_of::<T>()
            }
            // A match on a constant: the other loops are not compiled.
            match const { widest(&[size_of::<O>(), $(size_of::<$ty>()),+]) } {
                1 => $runs::<{ per_run::<u8>(RUN_BYTES) }, { per_run::<u8>(SHORT_RUN_BYTES) }, O, $($ty),+>(prefetches, out, $($x,)+ f),
                2 => $runs::<{ per_run::<u16>(RUN_BYTES) }, { per_run::<u16>(SHORT_RUN_BYTES) }, O, $($ty),+>(prefetches, out, $($x,)+ f),
                4 => $runs::<{ per_run::<u32>(RUN_BYTES) }, { per_run::<u32>(SHORT_RUN_BYTES) }, O, $($ty),+>(prefetches, out, $($x,)+ f),
                _ => $runs::<{ per_run::<u64>(RUN_BYTES) }, { per_run::<u64>(SHORT_RUN_BYTES) }, O, $($ty),+>(prefetches, out, $($x,)+ f),
            }
        }

        #[inline(always)]
        fn $runs<const N: usize, const SHORT: usize, O, $($ty: Copy),+>(
            prefetches: bool,
            out: &mut [O],
            $($x: &[$ty],)+
            f: impl Fn($($ty),+) -> O,
        ) {
            let len = out.len();
            let whole = len / N * N;
            for (k, out) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
                if prefetches {
                    prefetch_ahead(out.as_ptr(), N);
                }
                $(
                    let $x = $x[k * N..].first_chunk().expect("as long as the output");
                    if prefetches {
                        prefetch_ahead($x.as_ptr(), N);
                    }
                )+
                $run(out, $($x,)+ &f);
            }
            if whole == len {
                return;
            }
            if len < SHORT {
                for k in 0..len {
                    // Unknown to the compiler, which therefore does not vectorise this loop.
                    let k = core::hint::black_box(k);
                    out[k] = f($($x[k]),+);
                }
                return;
            }
            for at in (whole..len).step_by(SHORT) {
                let from = at.min(len - SHORT);
                let out: &mut [O; SHORT] = out[from..].first_chunk_mut().expect("a short run is left");
                $(let $x = $x[from..].first_chunk().expect("as long as the output");)+
                $run(out, $($x,)+ &f);
            }
        }

        /// A function of its own, whose arguments are known not to overlap.
        #[inline(always)]
        fn $run<const N: usize, O, $($ty: Copy),+>(
            out: &mut [O; N],
            $($x: &[$ty; N],)+
            f: impl Fn($($ty),+) -> O,
        ) {
            for (k, o) in out.iter_mut().enumerate() {
                *o = f($($x[k]),+);
            }
        }
    )*};
}

/// The largest of some sizes.
const fn widest(sizes: &[usize]) -> usize {
    let (mut widest, mut i) = (0, 0);
    while i < sizes.len() {
        if sizes[i] > widest {
            widest = sizes[i];
        }
        i += 1;
    }
    widest
}

each! {
    /// One operand.
    each1 runs1 run1: a A;
    /// Two operands.
    each2 runs2 run2: a A, b B;
    /// Three operands.
    each3 runs3 run3: a A, b B, c C;
}

/// [`each2`] for functions that take longer than the loop: it is not unrolled by hand.
#[inline(always)]
fn each2_heavy<O, A: Copy, B: Copy>(out: &mut [O], a: &[A], b: &[B], f: impl Fn(A, B) -> O) {
    assert!(out.len() == a.len() && out.len() == b.len(), "kernel: operand length");
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = f(*a, *b);
    }
}

/// [`Fn2`] as a kernel.
pub(crate) struct Map2<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element, F: Fn2<T> + 'static> Map2<T, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<2> = &Self(PhantomData);
}

impl<T, F> Clone for Map2<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F> Copy for Map2<T, F> {}

impl<T, F: Fn2<T>> Gains for Map2<T, F> {
    const LEVELS: Levels = F::LEVELS;
}

impl<T, F: Fn2<T>> PairFn<T> for Map2<T, F> {
    type Out = F::Out;
    const IS_LIGHT: bool = F::IS_LIGHT;
    const IS_LIGHT_LEFT: bool = F::IS_LIGHT_LEFT;
    #[inline(always)]
    fn at(self, a: T, b: T) -> F::Out {
        F::at(a, b)
    }
}

impl<T: Element, F: Fn2<T> + 'static> Kernel<2> for Map2<T, F> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; 2]) {
        run_pairs(self, out, src);
    }
}

/// A kernel's function of two elements, which may take a number from the kernel.
pub(super) trait PairFn<T>: Copy + Gains {
    /// See [`Fn2`].
    type Out: Element;
    const IS_LIGHT: bool;
    const IS_LIGHT_LEFT: bool;
    fn at(self, a: T, b: T) -> Self::Out;
}

/// Computes a run of the kernel's output.
#[inline(always)]
pub(super) fn run_pairs<T: Element, F: PairFn<T> + Kernel<2>>(
    kernel: &F,
    out: &mut [u8],
    [a, b]: [Src<'_>; 2],
) {
    let f = *kernel;
    let (values, other) = match (a.typed::<T>(), b.typed::<T>()) {
        (Typed::Each(a), Typed::Each(b)) => (a, Other::Right(b)),
        (Typed::Each(a), Typed::Same(b)) if F::IS_LIGHT => (a, Other::RightConstant(b)),
        (Typed::Same(a), Typed::Each(b)) if F::IS_LIGHT_LEFT => (b, Other::LeftConstant(a)),
        _ => return through_blocks(kernel, size_of::<T>(), size_of::<F::Out>(), out, [a, b]),
    };
    let out = bytemuck::cast_slice_mut(out);
    vectorize_with::<F, _>(
        #[inline(always)]
        move |vectors| match other {
            Other::Right(b) if F::IS_LIGHT => each2(vectors, true, out, values, b, move |a, b| f.at(a, b)),
            Other::Right(b) => each2_heavy(out, values, b, move |a, b| f.at(a, b)),
            Other::RightConstant(b) if F::IS_LIGHT => each1(vectors, true, out, values, move |a| f.at(a, b)),
            Other::LeftConstant(a) if F::IS_LIGHT_LEFT => {
                each1(vectors, true, out, values, move |b| f.at(a, b))
            }
            _ => {}
        },
    );
}

/// The second operand of a loop over the elements of a first.
#[derive(Clone, Copy)]
enum Other<'a, T> {
    Right(&'a [T]),
    RightConstant(T),
    LeftConstant(T),
}

/// [`Fn3`] as a kernel; the second and third operand are [`Src::Same`].
pub(crate) struct Map3<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element, F: Fn3<T> + 'static> Map3<T, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<3> = &Self(PhantomData);
}

impl<T: Element, F: Fn3<T>> Gains for Map3<T, F> {
    /// Halves take a dozen operations on bits: clamping 65,536 of them takes 5 us with AVX-512, and 6.7 with
    /// AVX2 (one thread of Zen 5).
    const LEVELS: Levels = if T::IS_FLOAT { Levels::All } else { Levels::Lean };
}

impl<T: Element, F: Fn3<T> + 'static> Kernel<3> for Map3<T, F> {
    fn run(&self, out: &mut [u8], [a, p, q]: [Src<'_>; 3]) {
        let (Typed::Same(p), Typed::Same(q)) = (p.typed(), q.typed()) else {
            unreachable!("the parameters are constants");
        };
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let a = match a.typed() {
            Typed::Each(a) => Some(a),
            Typed::Same(a) => return fill(out, F::at(a, p, q)),
            Typed::Out => None,
        };
        vectorize_with::<Self, _>(
            // `move`: a parameter that is captured by reference is loaded again in every iteration.
            #[inline(always)]
            move |vectors| {
                // An operand in the output passes through a block on the stack, so that there is one loop.
                let mut block = [T::ZERO; BLOCK];
                let len = if a.is_some() { out.len() } else { BLOCK };
                for (k, out) in out.chunks_mut(len.max(1)).enumerate() {
                    let a = match a {
                        Some(a) => &a[k * len..][..out.len()],
                        None => {
                            block[..out.len()].copy_from_slice(out);
                            &block[..out.len()]
                        }
                    };
                    each1(vectors, true, out, a, move |a| F::at(a, p, q));
                }
            },
        );
    }
}

/// A function of its own, since the loop is vectorised.
#[inline(never)]
fn fill<T: Element>(out: &mut [T], value: T) {
    out.fill(value);
}

/// Declares lists of the kernels that a function of elements makes.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident = $f:ident $map:ident $kernels:ident<$n:literal>: $($ty:ty)*;)*) => {$(
        $(#[$doc])*
        pub(super) const fn $name<F>() -> $kernels<$n>
        where
            F: $($f<$ty> +)* 'static,
        {
            [$($map::<$ty, F>::KERNEL),*]
        }
    )*};
}

lists! {
    /// The kernels of a function of each integer type.
    integers1 = Fn1 Map1 IntegerKernels<1>: i64 i32 i16 i8 u64 u32 u16 u8;
    /// The kernels of a function of integers in which signed and unsigned give the same bits.
    wrapping1 = Fn1 Map1 IntegerKernels<1>: u64 u32 u16 u8 u64 u32 u16 u8;
    /// The kernels of a function of each integer type.
    integers2 = Fn2 Map2 IntegerKernels<2>: i64 i32 i16 i8 u64 u32 u16 u8;
    /// The kernels of a function of integers in which signed and unsigned give the same bits.
    wrapping2 = Fn2 Map2 IntegerKernels<2>: u64 u32 u16 u8 u64 u32 u16 u8;
    /// The kernels of a function of each integer type.
    integers3 = Fn3 Map3 IntegerKernels<3>: i64 i32 i16 i8 u64 u32 u16 u8;
    /// The kernels of a question about floats.
    predicate1 = Fn1 Map1 FloatKernels<1>: f64 f32 f16 bf16;
}
