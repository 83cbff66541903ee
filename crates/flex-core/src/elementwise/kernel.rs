//! Kernels: what happens to a run of elements, once layouts are out of the way.
//!
//! A [`Kernel`] sees bytes, so that one driver serves every dtype; the adapters here give the bytes their types and
//! hold the loops. The loops are plain Rust compiled inside `flex_math::simd::dispatch`, which vectorises them for
//! the instruction set of the machine.

use crate::Element;
use core::marker::PhantomData;
use flex_math::simd::{Simd, WithSimd, dispatch, prefetch_ahead};

/// Computes a run of output elements from runs of `N` operands.
pub(crate) trait Kernel<const N: usize>: Sync {
    /// Writes every element of `out`.
    fn run(&self, out: &mut [u8], src: [Src<'_>; N]);

    /// Writes rows of equal length. Kernels of cheap functions, for which a call per row costs more than a short row,
    /// have their own way.
    fn run_rows(&self, out: &mut [u8], rows: Rows<'_, N>) {
        let bytes = out.len() / rows.starts.len();
        for (k, out) in out.chunks_exact_mut(bytes).enumerate() {
            self.run(out, core::array::from_fn(|n| rows.src[n].row(k, rows.starts[k][n], rows.len)));
        }
    }
}

/// The operands of several rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, const N: usize> {
    /// The operands.
    pub src: [RowSrc<'a>; N],
    /// Elements per row.
    pub len: usize,
    /// For each row, where it starts in the buffer of each operand that is not flat.
    pub starts: &'a [[usize; N]],
}

/// An operand of several rows.
#[derive(Clone, Copy)]
pub(crate) enum RowSrc<'a> {
    /// One run over all rows, and the size of an element.
    Each(&'a [u8], usize),
    /// One element for all rows.
    Same(&'a [u8]),
    /// The operand lies in the output.
    Out,
    /// A buffer in which each row is a slice, and the size of an element.
    Slices(&'a [u8], usize),
    /// A buffer in which each row is one element that stands for all, and its size.
    Elements(&'a [u8], usize),
}

impl<'a> RowSrc<'a> {
    /// The operand of row `k`.
    fn row(self, k: usize, start: usize, len: usize) -> Src<'a> {
        match self {
            RowSrc::Each(bytes, size) => Src::Each(&bytes[k * len * size..][..len * size]),
            RowSrc::Same(bytes) => Src::Same(bytes),
            RowSrc::Out => Src::Out,
            RowSrc::Slices(bytes, size) => Src::Each(&bytes[start * size..][..len * size]),
            RowSrc::Elements(bytes, size) => Src::Same(&bytes[start * size..][..size]),
        }
    }
}

/// An operand of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Src<'a> {
    /// As many elements as the output.
    Each(&'a [u8]),
    /// One element that stands for all.
    Same(&'a [u8]),
    /// The operand lies in the output, element for element, and is overwritten. At most one operand of a run, of
    /// the output's element size.
    Out,
}

/// [`Src`] with its type.
#[derive(Clone, Copy)]
pub(crate) enum Typed<'a, T> {
    Each(&'a [T]),
    Same(T),
    Out,
}

impl<'a> Src<'a> {
    /// The operand as elements of `T`.
    #[inline]
    pub(crate) fn typed<T: Element>(self) -> Typed<'a, T> {
        match self {
            Src::Each(bytes) => Typed::Each(bytemuck::cast_slice(bytes)),
            Src::Same(bytes) => Typed::Same(bytemuck::pod_read_unaligned(bytes)),
            Src::Out => Typed::Out,
        }
    }
}

/// A function of one element.
pub(crate) trait Fn1<A> {
    /// Type of the result.
    type Out: Element;
    /// The result.
    fn at(a: A) -> Self::Out;
}

/// A function of two elements.
pub(crate) trait Fn2<T> {
    /// Type of the result.
    type Out: Element;
    /// Whether the function costs less than moving its operands, so that each way of passing them gets a loop.
    const IS_LIGHT: bool = true;
    /// The result.
    fn at(a: T, b: T) -> Self::Out;
}

/// A function of an element and two constants.
pub(crate) trait Fn3<T> {
    /// Type of the result.
    type Out: Element;
    /// The result.
    fn at(a: T, p: T, q: T) -> Self::Out;
}

/// [`Fn1`] as a kernel.
pub(crate) struct Map1<A, F>(PhantomData<fn(A) -> F>);

impl<A: Element, F: Fn1<A> + 'static> Map1<A, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<1> = &Self(PhantomData);
}

impl<A: Element, F: Fn1<A> + 'static> Kernel<1> for Map1<A, F> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        dispatch(Loop1::<A, F> { out: bytemuck::cast_slice_mut(out), a: a.typed() });
    }
}

struct Loop1<'a, A, F: Fn1<A>> {
    out: &'a mut [F::Out],
    a: Typed<'a, A>,
}

impl<A: Element, F: Fn1<A>> WithSimd for Loop1<'_, A, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        match self.a {
            Typed::Each(a) => each1(self.out, a, F::at),
            Typed::Same(a) => self.out.fill(F::at(a)),
            // Across types of one size the old bits are read as the one and written as the other.
            Typed::Out => {
                for o in self.out {
                    *o = F::at(bytemuck::cast(*o));
                }
            }
        }
    }
}

/// Elements between two prefetches: the loop over them has a constant length, and is all vectors. Doubling 1 Mi f32 takes 46 us so,
/// and took 52 without; 4,096 take 0.24 and took 0.31.
const RUN: usize = 64;

#[inline(always)]
pub(crate) fn each1<A: Copy, O>(out: &mut [O], a: &[A], f: impl Fn(A) -> O) {
    assert!(out.len() == a.len(), "kernel: operand length");
    let (outs, out) = out.as_chunks_mut::<RUN>();
    let (runs, a) = a.as_chunks::<RUN>();
    for (out, a) in outs.iter_mut().zip(runs) {
        prefetch_ahead(a.as_ptr(), RUN);
        prefetch_ahead(out.as_ptr(), RUN);
        fixed1(out, a, &f);
    }
    for (o, a) in out.iter_mut().zip(a) {
        *o = f(*a);
    }
}

/// A function of its own, whose arguments are known not to overlap.
#[inline(always)]
fn fixed1<A: Copy, O>(out: &mut [O; RUN], a: &[A; RUN], f: impl Fn(A) -> O) {
    for (o, a) in out.iter_mut().zip(a) {
        *o = f(*a);
    }
}

/// [`Fn2`] as a kernel.
pub(crate) struct Map2<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element, F: Fn2<T> + 'static> Map2<T, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<2> = &Self(PhantomData);
}

impl<T: Element, F: Fn2<T> + 'static> Kernel<2> for Map2<T, F> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        dispatch(Loop2::<T, F> { out: bytemuck::cast_slice_mut(out), a: a.typed(), b: b.typed() });
    }

    fn run_rows(&self, out: &mut [u8], rows: Rows<'_, 2>) {
        let [a, b] = rows.src.map(TypedRows::new);
        let out = bytemuck::cast_slice_mut(out);
        dispatch(RowLoop2::<T, F> { out, a, b, len: rows.len, starts: rows.starts });
    }
}

/// [`RowSrc`] with its type.
#[derive(Clone, Copy)]
enum TypedRows<'a, T> {
    Flat(Typed<'a, T>),
    Slices(&'a [T]),
    Elements(&'a [T]),
}

impl<'a, T: Element> TypedRows<'a, T> {
    #[inline]
    fn new(src: RowSrc<'a>) -> Self {
        match src {
            RowSrc::Each(bytes, _) => Self::Flat(Src::Each(bytes).typed()),
            RowSrc::Same(bytes) => Self::Flat(Src::Same(bytes).typed()),
            RowSrc::Out => Self::Flat(Typed::Out),
            RowSrc::Slices(bytes, _) => Self::Slices(bytemuck::cast_slice(bytes)),
            RowSrc::Elements(bytes, _) => Self::Elements(bytemuck::cast_slice(bytes)),
        }
    }

    #[inline(always)]
    fn row(self, k: usize, start: usize, len: usize) -> Typed<'a, T> {
        match self {
            Self::Flat(Typed::Each(values)) => Typed::Each(&values[k * len..][..len]),
            Self::Flat(typed) => typed,
            Self::Slices(values) => Typed::Each(&values[start..][..len]),
            Self::Elements(values) => Typed::Same(values[start]),
        }
    }
}

/// `starts.len()` rows of `len` elements.
struct RowLoop2<'a, T, F: Fn2<T>> {
    out: &'a mut [F::Out],
    a: TypedRows<'a, T>,
    b: TypedRows<'a, T>,
    len: usize,
    starts: &'a [[usize; 2]],
}

impl<T: Element, F: Fn2<T>> WithSimd for RowLoop2<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        for (k, starts) in self.starts.iter().enumerate() {
            // Not `chunks_exact_mut`, which divides by the length.
            let out = &mut self.out[k * self.len..][..self.len];
            let a = self.a.row(k, starts[0], self.len);
            let b = self.b.row(k, starts[1], self.len);
            Loop2::<T, F> { out, a, b }.with_simd::<S>();
        }
    }
}

/// One run. Not a single row: what each way of passing operands prepares is then done for all of them before the loop over
/// rows, which took 170 of the 1,800 instructions of a product of 64 elements with a number.
struct Loop2<'a, T, F: Fn2<T>> {
    out: &'a mut [F::Out],
    a: Typed<'a, T>,
    b: Typed<'a, T>,
}

impl<T: Element, F: Fn2<T>> WithSimd for Loop2<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { out, a, b } = self;
        match (a, b) {
            (Typed::Each(a), Typed::Each(b)) => each2::<T, F>(out, a, b),
            (Typed::Each(a), Typed::Same(b)) if F::IS_LIGHT => each1(out, a, |a| F::at(a, b)),
            (Typed::Out, Typed::Each(b)) if F::IS_LIGHT => {
                assert!(out.len() == b.len(), "kernel: operand length");
                for (o, b) in out.iter_mut().zip(b) {
                    *o = F::at(bytemuck::cast(*o), *b);
                }
            }
            (Typed::Out, Typed::Same(b)) if F::IS_LIGHT => {
                for o in out.iter_mut() {
                    *o = F::at(bytemuck::cast(*o), b);
                }
            }
            (Typed::Same(a), Typed::Same(b)) => out.fill(F::at(a, b)),
            // What is left shares one more loop: constants, and operands that lie in the output, pass through
            // blocks, at the price of some loads and stores in the first cache.
            (a, b) => {
                let (mut block_a, mut block_b) = (Block::new(a), Block::new(b));
                for (k, out) in out.chunks_mut(BLOCK).enumerate() {
                    let a = block_a.load(a, k, out);
                    let b = block_b.load(b, k, out);
                    each2::<T, F>(out, a, b);
                }
            }
        }
    }
}

#[inline(always)]
fn each2<T: Element, F: Fn2<T>>(out: &mut [F::Out], a: &[T], b: &[T]) {
    assert!(out.len() == a.len() && out.len() == b.len(), "kernel: operand length");
    let (outs, out) = out.as_chunks_mut::<RUN>();
    let (runs_a, a) = a.as_chunks::<RUN>();
    let (runs_b, b) = b.as_chunks::<RUN>();
    for ((out, a), b) in outs.iter_mut().zip(runs_a).zip(runs_b) {
        prefetch_ahead(a.as_ptr(), RUN);
        prefetch_ahead(b.as_ptr(), RUN);
        prefetch_ahead(out.as_ptr(), RUN);
        fixed2::<T, F>(out, a, b);
    }
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = F::at(*a, *b);
    }
}

/// See [`fixed1`].
#[inline(always)]
fn fixed2<T: Element, F: Fn2<T>>(out: &mut [F::Out; RUN], a: &[T; RUN], b: &[T; RUN]) {
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = F::at(*a, *b);
    }
}

/// Elements that pass through the stack at a time, where an operand is converted or constant: 2 KiB of f32 per operand
/// stay in the first cache.
pub(super) const BLOCK: usize = 512;

/// Contiguous room for a stretch of an operand that is not contiguous beside its output.
struct Block<T>([T; BLOCK]);

impl<T: Element> Block<T> {
    /// Filled with the operand, if it is constant.
    #[inline(always)]
    fn new(operand: Typed<'_, T>) -> Self {
        Self(match operand {
            Typed::Same(value) => [value; BLOCK],
            _ => [T::ZERO; BLOCK],
        })
    }

    /// The stretch of the operand that goes with `out`, the `k`-th block of the output.
    #[inline(always)]
    fn load<'a, O: Element>(&'a mut self, operand: Typed<'a, T>, k: usize, out: &[O]) -> &'a [T] {
        let block = &mut self.0[..out.len()];
        match operand {
            Typed::Each(values) => return &values[k * BLOCK..][..out.len()],
            Typed::Same(_) => {}
            // Of one size, since it lies there.
            Typed::Out => block.copy_from_slice(bytemuck::cast_slice(out)),
        }
        block
    }
}

/// [`Fn3`] as a kernel; the second and third operand are [`Src::Same`].
pub(crate) struct Map3<T, F>(PhantomData<fn(T) -> F>);

impl<T: Element, F: Fn3<T, Out = T> + 'static> Map3<T, F> {
    pub(crate) const KERNEL: &'static dyn Kernel<3> = &Self(PhantomData);
}

impl<T: Element, F: Fn3<T, Out = T> + 'static> Kernel<3> for Map3<T, F> {
    fn run(&self, out: &mut [u8], [a, p, q]: [Src<'_>; 3]) {
        let (Typed::Same(p), Typed::Same(q)) = (p.typed(), q.typed()) else {
            unreachable!("the parameters are constants");
        };
        dispatch(Loop3::<T, F> { out: bytemuck::cast_slice_mut(out), a: a.typed(), p, q, f: PhantomData });
    }
}

struct Loop3<'a, T, F> {
    out: &'a mut [T],
    a: Typed<'a, T>,
    p: T,
    q: T,
    f: PhantomData<F>,
}

impl<T: Element, F: Fn3<T, Out = T>> WithSimd for Loop3<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { out, a, p, q, .. } = self;
        match a {
            Typed::Each(a) => each1(out, a, |a| F::at(a, p, q)),
            Typed::Same(a) => out.fill(F::at(a, p, q)),
            Typed::Out => {
                for o in out {
                    *o = F::at(*o, p, q);
                }
            }
        }
    }
}
