//! Functions of single elements as kernels: plain loops, which the compiler vectorises.
//!
//! Integers, comparisons and casts are computed in this way, and halves where only their bits matter. Floats
//! have [vectors](super::float).
//!
//! A function of some element types is compiled as one loop per [level](Levels), over *runs* of a constant
//! number of elements. [`LoopKernel`] prepares what the loop reads, and is compiled once for all functions.

use super::kernel::{FloatKernels, IntegerKernels, Kernel, Src, with_copies};
use crate::{Element, bf16, f16};
use core::hint::black_box;
use core::marker::PhantomData;
use flex_math::simd::{
    Dispatch, EveryLevel, HasVectors, LeveledLoop, Levels, LoopArgs, LoopCode, OperandRuns, prefetch_ahead,
};

/// A function of one element.
pub(crate) trait Fn1<A> {
    /// Type of the result.
    type Out: Element;
    /// The instruction sets that the loop gains from.
    const LEVELS: Levels = Levels::Lean;
    /// See [`Fn2::IS_LIGHT`].
    const IS_LIGHT: bool = true;
    /// See [`LoopCode::NEEDS_VECTORS`].
    const NEEDS_VECTORS: bool = false;
    /// Whether the loop prefetches.
    const PREFETCHES: bool = true;
    /// See [`Fn3::FIXED`].
    const FIXED: [bool; 1] = [false];
    /// The result.
    fn at(a: A) -> Self::Out;
}

/// A function of two elements.
pub(crate) trait Fn2<T> {
    /// Type of the result.
    type Out: Element;
    /// The instruction sets that the loop gains from.
    const LEVELS: Levels = Levels::Lean;
    /// Whether the function costs less than moving its operands. Then its loop is unrolled.
    const IS_LIGHT: bool = true;
    /// See [`LoopCode::NEEDS_VECTORS`].
    const NEEDS_VECTORS: bool = false;
    /// Whether the loop prefetches.
    const PREFETCHES: bool = true;
    /// See [`Fn3::FIXED`].
    const FIXED: [bool; 2] = [false; 2];
    /// How constants are passed.
    const CONSTANTS: Constants = Constants::Runs;
    /// The result.
    fn at(a: T, b: T) -> Self::Out;
}

/// How a function of two elements takes constants.
pub(crate) enum Constants {
    /// As runs of equal elements. Where reading is the bottleneck, this takes longer than its own loop: to
    /// compare 65,536 i64 with a number takes 3.7 us in place of 3.0 (one thread of Zen 4).
    Runs,
    /// In a loop of its own on the right, and as a run on the left.
    Right,
    /// In a loop of its own on the right. The function commutes: a constant on the left goes there too.
    Commuting,
    /// In a loop of its own on each side.
    Both,
}

/// A function of three elements.
pub(crate) trait Fn3<A, B = A, C = B> {
    /// Type of the result.
    type Out: Element;
    /// The instruction sets that the loop gains from.
    const LEVELS: Levels = Levels::Lean;
    /// See [`Fn2::IS_LIGHT`].
    const IS_LIGHT: bool = true;
    /// See [`LoopCode::NEEDS_VECTORS`].
    const NEEDS_VECTORS: bool = false;
    /// Whether the loop prefetches.
    const PREFETCHES: bool = true;
    /// The operands that are always constants. Values that depend on them alone are computed once.
    const FIXED: [bool; 3] = [false; 3];
    /// The result.
    fn at(a: A, b: B, c: C) -> Self::Out;
}

/// Bytes of a run of the widest operand. The loop over a run has a constant length, is all vectors, and is
/// unrolled, and fetches ahead. Doubling 1 Mi f32 takes 46 us with it, and took 52 without; 4,096 take 0.24
/// us and took 0.31.
const RUN_BYTES: usize = 256;

/// Bytes of a run where fewer than [`RUN_BYTES`] are computed, and at the baseline.
const SHORT_RUN_BYTES: usize = 32;

/// A loop over runs of elements as a kernel.
///
/// A constant operand is passed as one run of equal elements, which the loop reads again and again, or as one
/// element if the operand is [fixed](Fn3::FIXED).
pub(super) struct LoopKernel<const N: usize> {
    code: LeveledLoop<RunLoop<N>>,
    /// Elements of a run.
    run: usize,
    /// Bytes of an element of each operand, and of the output.
    sizes: [usize; N],
    out_size: usize,
    /// Which operands the loop reads once, as [`Fn3::FIXED`] has it.
    fixed: [bool; N],
}

/// The arguments of the loops over `N` operands.
struct RunLoop<const N: usize>;

impl<const N: usize> LoopArgs for RunLoop<N> {
    /// By reference: passed by value, the arguments would be copied just after they were written, which takes
    /// as long as the loop over a short run.
    type Of<'a> = &'a mut RunArgs<'a, N>;
}

/// The output and the operands of a loop over runs.
struct RunArgs<'a, const N: usize> {
    out: &'a mut [u8],
    src: [RunSrc<'a>; N],
}

/// An operand of a loop over runs.
#[derive(Clone, Copy)]
struct RunSrc<'a> {
    bytes: &'a [u8],
    /// 1 for an operand with as many elements as the output. 0 for a constant: one run that is read again and
    /// again, or one element where the loop reads the constant once.
    stride: usize,
}

/// Memory of one run.
type RunBlock = [u64; RUN_BYTES / size_of::<u64>()];

impl<const N: usize> Kernel<N> for LoopKernel<N> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        self.run_by(EveryLevel, out, src);
    }
}

/// A loop that needs vectors.
pub(super) struct LoopForVectors<const N: usize>(LoopKernel<N>);

impl<const N: usize> LoopForVectors<N> {
    /// [`Kernel::run`].
    #[inline(always)]
    fn run(&self, vectors: HasVectors, out: &mut [u8], src: [Src<'_>; N]) {
        self.0.run_by(vectors, out, src);
    }
}

/// A loop as a kernel among the levels `D`.
struct LoopRun<'k, const N: usize, D> {
    kernel: &'k LoopKernel<N>,
    levels: D,
}

impl<const N: usize, D: Dispatch + Sync> Kernel<N> for LoopRun<'_, N, D> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]) {
        self.kernel.run_by(self.levels, out, src);
    }
}

impl<const N: usize> LoopKernel<N> {
    /// [`run`](Kernel::run) among the levels `D`.
    fn run_by<D: Dispatch + Sync>(&self, levels: D, out: &mut [u8], src: [Src<'_>; N]) {
        let mut args = RunArgs { out, src: [RunSrc { bytes: &[], stride: 1 }; N] };
        for n in 0..N {
            match src[n] {
                Src::Each(bytes) => {
                    // Products, since a division takes as long as the loop over a short run.
                    let is_as_long = bytes.len() * self.out_size == args.out.len() * self.sizes[n];
                    assert!(is_as_long, "kernel: operand length");
                    args.src[n].bytes = bytes;
                }
                // A constant is one element here, or one run, which `run_with_constant` makes of it.
                Src::Same(bytes) if self.fixed[n] || bytes.len() > self.sizes[n] => {
                    args.src[n] = RunSrc { bytes, stride: 0 };
                }
                Src::Same(element) => return self.run_with_constant(levels, args.out, src, n, element),
                Src::Out => {
                    let run = LoopRun { kernel: self, levels };
                    return with_copies(&run, &self.sizes, self.out_size, args.out, src);
                }
            }
        }
        levels.run_loop(&self.code, &mut args);
    }

    /// [`run_by`](Self::run_by) where operand `n` is a constant, of which it makes a run.
    #[inline(never)]
    fn run_with_constant<D: Dispatch + Sync>(
        &self,
        levels: D,
        out: &mut [u8],
        src: [Src<'_>; N],
        n: usize,
        element: &[u8],
    ) {
        let block = equal_elements(element);
        let run: &[u8] = &bytemuck::cast_slice(&block)[..self.run * self.sizes[n]];
        self.run_by(levels, out, core::array::from_fn(|i| if i == n { Src::Same(run) } else { src[i] }));
    }
}

/// Copies of an element of 1, 2, 4 or 8 bytes.
fn equal_elements(element: &[u8]) -> RunBlock {
    let mut word = [0; size_of::<u64>()];
    match *element {
        [byte] => word = [byte; 8],
        [a, b] => word = [a, b, a, b, a, b, a, b],
        [a, b, c, d] => word = [a, b, c, d, a, b, c, d],
        _ => word.copy_from_slice(element),
    }
    [u64::from_ne_bytes(word); RUN_BYTES / size_of::<u64>()]
}

impl<'a> RunSrc<'a> {
    #[inline(always)]
    fn typed<T: Element>(self) -> TypedRunSrc<'a, T> {
        TypedRunSrc { elements: bytemuck::cast_slice(self.bytes), stride: self.stride }
    }
}

/// [`RunSrc`] with its type.
#[derive(Clone, Copy)]
struct TypedRunSrc<'a, T> {
    elements: &'a [T],
    stride: usize,
}

impl<'a, T> TypedRunSrc<'a, T> {
    /// The elements of the run that starts at element `from` of the output.
    #[inline(always)]
    fn run(self, from: usize, run: usize) -> &'a [T] {
        let from = from * self.stride;
        check_run(self.elements.len(), from, run);
        &self.elements[from..][..run]
    }
}

/// Checks that `len` elements have a run from `from` on. One function refuses slices that are too short, in
/// place of two panics with their messages for each slice of each loop.
#[inline(always)]
fn check_run(len: usize, from: usize, run: usize) {
    if from > len || len - from < run {
        wrong_length();
    }
}

#[cold]
#[inline(never)]
fn wrong_length() -> ! {
    panic!("kernel: operand length");
}

/// Declares functions of some elements as kernels.
macro_rules! maps {
    ($($(#[$doc:meta])* $map:ident<$($ty:ident),+> of $function:ident<$($parameter:ident),+>, $n:literal: $($i:tt $x:ident: $xt:ident),+;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $map<$($ty,)+ F>(PhantomData<fn($($ty),+) -> F>);

        impl<$($ty: Element,)+ F: $function<$($parameter),+> + 'static> $map<$($ty,)+ F> {
            const CODE: LoopKernel<$n> = LoopKernel {
                code: LeveledLoop::new::<Self>(),
                run: RUN_BYTES / Self::WIDEST,
                sizes: [$(size_of::<$xt>()),+],
                out_size: size_of::<F::Out>(),
                fixed: F::FIXED,
            };
            /// The function as a kernel. Does not compile if the function needs vectors.
            pub(super) const LOOP: &'static LoopKernel<$n> = {
                assert!(!F::NEEDS_VECTORS);
                &Self::CODE
            };
            /// The function as a kernel that needs vectors.
            #[allow(dead_code, reason = "no function of one element needs vectors")]
            pub(super) const VECTOR_LOOP: &'static LoopForVectors<$n> = &LoopForVectors(Self::CODE);
            /// [`LOOP`](Self::LOOP) as any kernel.
            pub(crate) const KERNEL: &'static dyn Kernel<$n> = Self::LOOP;
        }

        impl<$($ty: Element,)+ F: $function<$($parameter),+>> LoopCode<RunLoop<$n>> for $map<$($ty,)+ F> {
            const LEVELS: Levels = F::LEVELS;
            const NEEDS_VECTORS: bool = F::NEEDS_VECTORS;

            #[inline(always)]
            fn run(RunArgs { out, src: [$($x),+] }: &mut RunArgs<'_, $n>, has_vectors: bool) {
                let (run, short) = (RUN_BYTES / Self::WIDEST, SHORT_RUN_BYTES / Self::WIDEST);
                let out: &mut [F::Out] = bytemuck::cast_slice_mut(out);
                let len = out.len();
                if len == 0 {
                    return;
                }
                $(let $x = $x.typed::<$xt>();)+
                if !F::IS_LIGHT {
                    // Unknown to the compiler, the length keeps the loop over a run short.
                    return Self::runs(out, $($x,)+ 0, black_box(run).min(len));
                }
                let mut done = 0;
                if has_vectors && len >= run {
                    // A match on a constant: the other loops are not compiled.
                    match const { Self::WIDEST } {
                        1 => Self::whole_runs::<RUN_BYTES>(out, $($x),+),
                        2 => Self::whole_runs::<{ RUN_BYTES / 2 }>(out, $($x),+),
                        4 => Self::whole_runs::<{ RUN_BYTES / 4 }>(out, $($x),+),
                        _ => Self::whole_runs::<{ RUN_BYTES / 8 }>(out, $($x),+),
                    }
                    done = len / run * run;
                }
                if len >= short {
                    Self::runs(out, $($x,)+ done, short);
                } else {
                    // A run of an element: no vectors.
                    Self::runs(out, $($x,)+ done, 1);
                }
            }
        }

        impl<$($ty: Element,)+ F: $function<$($parameter),+>> $map<$($ty,)+ F> {
            /// Bytes of the widest element.
            const WIDEST: usize = widest(&[$(size_of::<$xt>(),)+ size_of::<F::Out>()]);

            /// Computes all whole runs of `N` elements, and fetches ahead.
            #[inline(always)]
            fn whole_runs<const N: usize>(out: &mut [F::Out], $($x: TypedRunSrc<'_, $xt>),+) {
                let fixed = ($($x.elements[0],)+);
                let out = out.as_chunks_mut::<N>().0;
                let count = out.len();
                $(let $x = OperandRuns::<_, N>::new($x.elements, $x.stride, if F::FIXED[$i] { 0 } else { count });)+
                for (k, out) in out.iter_mut().enumerate() {
                    if F::PREFETCHES {
                        prefetch_ahead(out.as_ptr(), N);
                    }
                    $(
                        let $x: &[$xt] = if F::FIXED[$i] { &[] } else { $x.get(k) };
                        if F::PREFETCHES && !F::FIXED[$i] {
                            prefetch_ahead($x.as_ptr(), N);
                        }
                    )+
                    Self::each(out, $($x,)+ fixed);
                }
            }

            /// Computes runs of a constant length, from element `first` on. The last run ends with the last
            /// element and may overlap the run before it. A loop over single elements after the last whole
            /// run would be vectorised, into more code.
            #[inline(always)]
            fn runs(out: &mut [F::Out], $($x: TypedRunSrc<'_, $xt>,)+ first: usize, run: usize) {
                let fixed = ($($x.elements[0],)+);
                let len = out.len();
                let mut at = first;
                while at < len {
                    let from = at.min(len - run);
                    check_run(len, from, run);
                    let out = &mut out[from..][..run];
                    $(let $x = if F::FIXED[$i] { &[] } else { $x.run(from, run) };)+
                    Self::each(out, $($x,)+ fixed);
                    at += run;
                }
            }

            /// Computes a run. A function of its own, whose arguments are known not to overlap.
            #[inline(always)]
            fn each(out: &mut [F::Out], $($x: &[$xt],)+ fixed: ($($xt,)+)) {
                let mut k = 0;
                while k < out.len() {
                    out[k] = F::at($(if F::FIXED[$i] { fixed.$i } else { $x[k] }),+);
                    k += 1;
                }
            }
        }
    )*};
}

maps! {
    /// A function of one element.
    Map1<A> of Fn1<A>, 1: 0 a: A;
    /// A function of two elements of one type.
    Map2<T> of Fn2<T>, 2: 0 a: T, 1 b: T;
    /// A function of three elements.
    Map3<A, B, C> of Fn3<A, B, C>, 3: 0 a: A, 1 b: B, 2 c: C;
}

/// A function with another loop, for a constant as its first operand (`A`) or as its second (`B`).
///
/// Such loops are compiled for vectors alone. The baseline takes the constant as a run, as it does for other
/// functions. With SSE2, to compare 65,536 f16 with a number takes 12.5 us, and took 51.7 in a loop of its
/// own; to add a number to as many i32 takes 10.5 us, and took 7.3 (one thread of Zen 4).
pub(super) struct Fixed<F, const A: bool, const B: bool>(PhantomData<fn() -> F>);

impl<T, F: Fn2<T>, const A: bool, const B: bool> Fn2<T> for Fixed<F, A, B> {
    type Out = F::Out;
    const LEVELS: Levels = F::LEVELS;
    const IS_LIGHT: bool = F::IS_LIGHT;
    const NEEDS_VECTORS: bool = true;
    const PREFETCHES: bool = F::PREFETCHES;
    const FIXED: [bool; 2] = [A, B];
    #[inline(always)]
    fn at(a: T, b: T) -> F::Out {
        F::at(a, b)
    }
}

impl<X, Y, Z, F: Fn3<X, Y, Z>, const A: bool, const B: bool> Fn3<X, Y, Z> for Fixed<F, A, B> {
    type Out = F::Out;
    const LEVELS: Levels = F::LEVELS;
    const IS_LIGHT: bool = F::IS_LIGHT;
    const NEEDS_VECTORS: bool = true;
    const PREFETCHES: bool = F::PREFETCHES;
    const FIXED: [bool; 3] = [A || F::FIXED[0], B || F::FIXED[1], F::FIXED[2]];
    #[inline(always)]
    fn at(a: X, b: Y, c: Z) -> F::Out {
        F::at(a, b, c)
    }
}

/// [`Map2`] with loops of their own for constants, as [`Fn2::CONSTANTS`] has it.
pub(super) struct WithConstants<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element, F: Fn2<T> + 'static> WithConstants<T, F> {
    /// The function as a kernel.
    pub(super) const KERNEL: &'static dyn Kernel<2> = match F::CONSTANTS {
        Constants::Runs => Map2::<T, F>::KERNEL,
        Constants::Right => &Self::loops(Some(Map2::<T, F>::VECTOR_LOOP)),
        Constants::Commuting => &Self::loops(None),
        Constants::Both => &Self::loops(Some(Map2::<T, Fixed<F, true, false>>::VECTOR_LOOP)),
    };

    const fn loops(left: Option<&'static LoopForVectors<2>>) -> LoopsByConstants<2> {
        let right = Map2::<T, Fixed<F, false, true>>::VECTOR_LOOP;
        LoopsByConstants { slices: Map2::<T, F>::LOOP, left, right }
    }
}

/// The loops of a function, by which of its first two operands is a constant.
pub(super) struct LoopsByConstants<const N: usize> {
    pub slices: &'static LoopKernel<N>,
    /// For a constant on the left. Without it, the operands are swapped.
    pub left: Option<&'static LoopForVectors<N>>,
    /// For a constant on the right.
    pub right: &'static LoopForVectors<N>,
}

impl<const N: usize> LoopsByConstants<N> {
    /// Runs the loop for two operands, which `src` completes to all operands.
    #[inline(always)]
    pub(super) fn run<'a>(
        &self,
        out: &mut [u8],
        [a, b]: [Src<'a>; 2],
        src: impl Fn(Src<'a>, Src<'a>) -> [Src<'a>; N],
    ) {
        let is_constant = |src| matches!(src, Src::Same(_));
        if !is_constant(a) && !is_constant(b) {
            return self.slices.run_by(EveryLevel, out, src(a, b));
        }
        match (HasVectors::here(), self.left) {
            (None, _) => self.slices.run_by(EveryLevel, out, src(a, b)),
            (Some(vectors), _) if is_constant(b) => self.right.run(vectors, out, src(a, b)),
            (Some(vectors), Some(left)) => left.run(vectors, out, src(a, b)),
            (Some(vectors), None) => self.right.run(vectors, out, src(b, a)),
        }
    }
}

impl Kernel<2> for LoopsByConstants<2> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; 2]) {
        self.run(out, src, |a, b| [a, b]);
    }
}

/// [`Map3`] of elements of one type.
pub(crate) type UniformMap3<T, F> = Map3<T, T, T, F>;

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
    integers2 = Fn2 WithConstants IntegerKernels<2>: i64 i32 i16 i8 u64 u32 u16 u8;
    /// The kernels of a function of integers in which signed and unsigned give the same bits.
    wrapping2 = Fn2 WithConstants IntegerKernels<2>: u64 u32 u16 u8 u64 u32 u16 u8;
    /// The kernels of a function of each integer type.
    integers3 = Fn3 UniformMap3 IntegerKernels<3>: i64 i32 i16 i8 u64 u32 u16 u8;
    /// The kernels of a question about floats.
    predicate1 = Fn1 Map1 FloatKernels<1>: f64 f32 f16 bf16;
}
