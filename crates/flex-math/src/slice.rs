//! Drivers that run a function over slices: loads, stores, tails. A function of one vector needs no unsafe
//! code: its driver has it.
//!
//! A driver walks over whole vectors. The last vector ends with the last element and may overlap the vector
//! before it, so that every element goes through the same instructions. A slice shorter than a vector is
//! padded with ones.

use crate::simd::{Dispatch, EveryLevel, Scalar, Simd, Vector, WithSimd, has_vectors, prefetch_ahead};
use crate::{BinaryFn, Float, UnaryFn};
use core::marker::PhantomData;

/// Writes `f(src[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map<T: Float, F: UnaryFn<T>>(f: F, src: &[T], dst: &mut [T]) {
    same_len("map", src.len(), dst.len());
    // SAFETY: both pointers have `src.len()` elements, which is `dst.len()`; `src` and `dst` are a shared and
    // an exclusive borrow, so they do not overlap, and `src` is initialised.
    unsafe { run1(EveryLevel, f, Each(src.as_ptr()), AsIs(dst.as_mut_ptr()), src.len()) }
}

/// Replaces each `data[i]` by `f(data[i])`.
pub fn map_in_place<T: Float, F: UnaryFn<T>>(f: F, data: &mut [T]) {
    let ptr = data.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed. Source and destination are the same
    // elements, which `run1` allows.
    unsafe { run1(EveryLevel, f, Each(ptr.cast_const()), AsIs(ptr), data.len()) }
}

/// Writes `f(a[i], b[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2<T: Float, F: BinaryFn<T>>(f: F, a: &[T], b: &[T], dst: &mut [T]) {
    same_len("map2", a.len(), b.len());
    same_len("map2", a.len(), dst.len());
    // SAFETY: the three slices have the same length and the sources are initialised. `dst` is borrowed
    // exclusively, so it overlaps neither source.
    unsafe { run2(EveryLevel, f, Each(a.as_ptr()), Each(b.as_ptr()), AsIs(dst.as_mut_ptr()), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b[i])`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_in_place<T: Float, F: BinaryFn<T>>(f: F, a: &mut [T], b: &[T]) {
    same_len("map2_in_place", a.len(), b.len());
    let ptr = a.as_mut_ptr();
    // SAFETY: both slices have the same length and are initialised. The destination is the first source
    // itself, borrowed exclusively, so it does not overlap the second.
    unsafe { run2(EveryLevel, f, Each(ptr.cast_const()), Each(b.as_ptr()), AsIs(ptr), a.len()) }
}

/// An operand of [`apply`] or [`apply2`] whose elements are stored as `E`.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, E: StoredFloat> {
    /// One element per result.
    Each(&'a [E]),
    /// The same number for every result. The stored type need not be able to represent it.
    Same(E::Compute),
    /// The elements of the destination, each before it is overwritten.
    Out,
}

/// Writes `f` of the operand to `dst`, computed in `E::Compute` and rounded once, in a loop that is compiled
/// for `levels`.
///
/// For halves, a NaN that `f` returns must be an operand's NaN or the default NaN: rounding may cut off the
/// payload of any other NaN and turn it into infinity.
///
/// # Panics
///
/// If the lengths differ.
pub fn apply<E: StoredFloat, F: UnaryFn<E::Compute>>(
    levels: impl Dispatch,
    f: F,
    src: Operand<'_, E>,
    dst: &mut [E],
) {
    let (to, len) = (dst.as_mut_ptr(), dst.len());
    match Loaded::new(src, to, len, "apply") {
        Loaded::Constant(value) => fill(dst, E::from_compute(eval_scalar(f, value))),
        // SAFETY: `Loaded::new` returns a pointer to `len` elements, as many as `dst` has. They belong to
        // another slice, which does not overlap `dst`, or to `dst` itself by the same pointer; `dst` is used
        // only through that pointer here.
        Loaded::Each(src) => unsafe { run1(levels, f, E::source(src), E::destination(to), len) },
    }
}

/// [`apply`] for a function of two numbers.
///
/// # Panics
///
/// If the lengths differ.
pub fn apply2<E: StoredFloat, F: BinaryFn<E::Compute>>(
    levels: impl Dispatch,
    f: F,
    a: Operand<'_, E>,
    b: Operand<'_, E>,
    dst: &mut [E],
) {
    let row = LoadedRow::new(a, b, dst);
    levels.dispatch(Apply2 { f, row, more: None });
}

/// The operands of a row, and its destination.
pub type Row2<'a, E> = (Operand<'a, E>, Operand<'a, E>, &'a mut [E]);

/// [`apply2`] of each row. The instruction set is chosen once if the function is
/// [light](BinaryFn::IS_LIGHT): adding a row of 1,024 f32 to a column of as many takes 72 us, and took 91.
///
/// # Panics
///
/// If the lengths of a row differ.
pub fn apply2_rows<'a, E: StoredFloat, F: BinaryFn<E::Compute>>(
    levels: impl Dispatch,
    f: F,
    rows: &mut dyn Iterator<Item = Row2<'a, E>>,
) {
    while let Some(row) = next_row(rows) {
        levels.dispatch(Apply2 { f, row, more: Some(&mut *rows) });
    }
}

#[inline(never)]
fn next_row<'a, E: StoredFloat>(rows: &mut dyn Iterator<Item = Row2<'a, E>>) -> Option<LoadedRow<E>> {
    rows.next().map(|(a, b, dst)| LoadedRow::new(a, b, dst))
}

/// Sets every element of `dst`. Compiled once per type, not once per function.
#[inline(never)]
fn fill<E: Copy>(dst: &mut [E], value: E) {
    dst.fill(value);
}

/// [`apply2`] and [`apply2_rows`]. Pointers are as in [`run2`].
///
/// One operation with several loops, not several operations: each operation costs the compiler another 300
/// lines of intermediate code, for the way to its instruction set.
struct Apply2<'r, 'a, E: StoredFloat, F> {
    f: F,
    row: LoadedRow<E>,
    /// The rows that follow. A function that is not [light](BinaryFn::IS_LIGHT) takes only one row: with a
    /// loop around its loops, the compiler keeps the constants of all of them on the stack, and softmax
    /// over rows of 1,024 f32 takes a quarter longer.
    more: Option<&'r mut dyn Iterator<Item = Row2<'a, E>>>,
}

impl<E: StoredFloat, F: BinaryFn<E::Compute>> WithSimd for Apply2<'_, '_, E, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { f, mut row, mut more } = self;
        loop {
            let LoadedRow { a, b, dst, len } = row;
            let to = E::destination(dst);
            // SAFETY: the row was made by `LoadedRow::new`; see `apply`. Rows are exclusive borrows of their
            // destinations, so no other row reads or writes these elements.
            unsafe {
                match (a, b) {
                    (Loaded::Each(a), Loaded::Each(b)) => {
                        loop2::<S, _, _, _, _, _>(f, E::source(a), E::source(b), to, len)
                    }
                    (Loaded::Each(x), Loaded::Constant(c)) | (Loaded::Constant(c), Loaded::Each(x)) => {
                        let is_first = matches!(a, Loaded::Constant(_));
                        let (x, c) = (E::source(x), Same(c));
                        if const { F::COMMUTES } {
                            loop2::<S, _, _, _, _, _>(f, x, c, to, len)
                        } else if const { size_of::<E>() == size_of::<E::Compute>() } {
                            loop2::<S, _, _, _, _, _>(EitherSide::new(f, is_first), x, c, to, len)
                        } else if is_first {
                            loop2::<S, _, _, _, _, _>(f, c, x, to, len)
                        } else {
                            loop2::<S, _, _, _, _, _>(f, x, c, to, len)
                        }
                    }
                    (Loaded::Constant(a), Loaded::Constant(b)) => fill_with(f, a, b, dst, len),
                }
            }
            let (true, Some(more)) = (F::IS_LIGHT, &mut more) else { return };
            match next_row(*more) {
                Some(next) => row = next,
                None => return,
            }
        }
    }
}

/// A function whose constant operand comes second here, and is its first or its second operand.
///
/// The operands are chosen in vectors, by two instructions. They take no time in light functions of f32 and
/// f64, which wait for loads and stores, and save a loop; by a branch, the compiler would make both loops.
/// Halves get both: their conversions keep the processor busy, and `x / 3` of 4,096 bf16 took 604 ns in place
/// of 564 (one thread of Zen 4).
#[derive(Clone, Copy)]
struct EitherSide<T, F> {
    f: F,
    /// 1 if the constant is the first operand, otherwise 0.
    is_first: T,
}

impl<T: Float, F: BinaryFn<T>> EitherSide<T, F> {
    #[inline(always)]
    fn new(f: F, is_first: bool) -> Self {
        Self { f, is_first: if is_first { T::one() } else { T::zero() } }
    }
}

impl<T: Float, F: BinaryFn<T>> BinaryFn<T> for EitherSide<T, F> {
    const IS_LIGHT: bool = F::IS_LIGHT;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, constant: Vector<S, T>) -> Vector<S, T> {
        let flag: Vector<S, T> = self.is_first.splat();
        let a = flag.gt(T::zero().splat()).select(constant, x);
        let b = flag.gt(T::zero().splat()).select(x, constant);
        self.f.eval(a, b)
    }
}

/// Sets the `len` elements from `dst` on to `f(a, b)`.
///
/// # Safety
///
/// The elements must be writable.
#[inline(never)]
unsafe fn fill_with<E: StoredFloat, F: BinaryFn<E::Compute>>(
    f: F,
    a: E::Compute,
    b: E::Compute,
    dst: *mut E,
    len: usize,
) {
    // SAFETY: the caller vouches for the elements.
    let dst = unsafe { core::slice::from_raw_parts_mut(dst, len) };
    fill(dst, E::from_compute(eval2_scalar(f, a, b)));
}

/// A row whose lengths were checked.
#[derive(Clone, Copy)]
struct LoadedRow<E: StoredFloat> {
    a: Loaded<E>,
    b: Loaded<E>,
    dst: *mut E,
    len: usize,
}

impl<E: StoredFloat> LoadedRow<E> {
    #[inline(always)]
    fn new(a: Operand<'_, E>, b: Operand<'_, E>, dst: &mut [E]) -> Self {
        let (to, len) = (dst.as_mut_ptr(), dst.len());
        let (a, b) = (Loaded::new(a, to, len, "apply2"), Loaded::new(b, to, len, "apply2"));
        Self { a, b, dst: to, len }
    }
}

/// An operand whose length was checked.
#[derive(Clone, Copy)]
enum Loaded<E: StoredFloat> {
    Each(*const E),
    Constant(E::Compute),
}

impl<E: StoredFloat> Loaded<E> {
    /// Checks an operand of the driver `op`, which writes `len` elements to `dst`.
    fn new(operand: Operand<'_, E>, dst: *mut E, len: usize, op: &str) -> Self {
        match operand {
            Operand::Each(src) => {
                same_len(op, src.len(), len);
                Self::Each(src.as_ptr())
            }
            Operand::Same(value) => Self::Constant(E::constant(value)),
            Operand::Out => Self::Each(dst.cast_const()),
        }
    }
}

/// A float type as stored in memory, with the type that its values are computed in.
pub trait StoredFloat: Scalar + PartialEq + core::fmt::Debug + Send + Sync + 'static {
    /// f32 for the halves; for f32 and f64 the type itself.
    type Compute: Float;

    /// The value in the type `Compute`, exactly.
    fn to_compute(self) -> Self::Compute;
    /// The nearest value of this type, ties to even.
    fn from_compute(value: Self::Compute) -> Self;
    /// Prepares a constant operand of a function whose results are rounded to this type: a NaN gets a payload
    /// that this type has room for.
    fn constant(value: Self::Compute) -> Self::Compute;
    /// The slice itself where the type is computed as it is stored.
    fn as_compute(values: &[Self]) -> Option<&[Self::Compute]>;
    /// [`as_compute`](Self::as_compute) of a mutable slice.
    fn as_compute_mut(values: &mut [Self]) -> Option<&mut [Self::Compute]>;
    /// Writes the values of `src` to `dst`, exactly.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    fn widen_slice(src: &[Self], dst: &mut [Self::Compute]);
    /// Writes the nearest values of this type to `dst`, ties to even.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    fn narrow_slice(src: &[Self::Compute], dst: &mut [Self]);
    /// The elements from `src` on as the operand of a driver.
    #[doc(hidden)]
    fn source(src: *const Self) -> impl VectorSource<Self::Compute>;
    /// The elements from `dst` on as the destination of a driver.
    #[doc(hidden)]
    fn destination(dst: *mut Self) -> impl Destination<Self::Compute>;
}

macro_rules! stored_as_computed {
    ($($ty:ty)*) => {$(
        impl StoredFloat for $ty {
            type Compute = $ty;
            #[inline(always)]
            fn to_compute(self) -> $ty {
                self
            }
            #[inline(always)]
            fn from_compute(value: $ty) -> $ty {
                value
            }
            #[inline(always)]
            fn constant(value: $ty) -> $ty {
                value
            }
            #[inline(always)]
            fn as_compute(values: &[$ty]) -> Option<&[$ty]> {
                Some(values)
            }
            #[inline(always)]
            fn as_compute_mut(values: &mut [$ty]) -> Option<&mut [$ty]> {
                Some(values)
            }
            #[inline(always)]
            fn widen_slice(src: &[$ty], dst: &mut [$ty]) {
                dst.copy_from_slice(src);
            }
            #[inline(always)]
            fn narrow_slice(src: &[$ty], dst: &mut [$ty]) {
                dst.copy_from_slice(src);
            }
            #[inline(always)]
            fn source(src: *const $ty) -> impl VectorSource<$ty> {
                Each(src)
            }
            #[inline(always)]
            fn destination(dst: *mut $ty) -> impl Destination<$ty> {
                AsIs(dst)
            }
        }
    )*};
}

stored_as_computed!(f32 f64);

/// `f(x)` for one number, by the code that slices use.
pub fn eval_scalar<T: Float, F: UnaryFn<T>>(f: F, x: T) -> T {
    let mut one = [x];
    map_in_place(f, &mut one);
    one[0]
}

/// `f(a, b)` for one pair of numbers, by the code that slices use.
pub fn eval2_scalar<T: Float, F: BinaryFn<T>>(f: F, a: T, b: T) -> T {
    let mut one = [a];
    map2_in_place(f, &mut one, &[b]);
    one[0]
}

#[inline(always)]
#[track_caller]
pub(crate) fn same_len(op: &str, expected: usize, got: usize) {
    if expected != got {
        different_lengths(op, expected, got)
    }
}

/// Apart from [`same_len`], so that the message is not put together in every driver.
#[cold]
#[inline(never)]
#[track_caller]
fn different_lengths(op: &str, expected: usize, got: usize) -> ! {
    panic!("flex_math::{op}: slices of {expected} and {got} elements, expected the same length")
}

/// The lanes of a vector as a slice.
#[inline(always)]
pub(crate) fn lanes<S: Simd, T: Scalar>(v: &Vector<S, T>) -> &[T] {
    bytemuck::cast_slice(core::slice::from_ref(v))
}

/// The lanes of a vector as a mutable slice.
#[inline(always)]
pub(crate) fn lanes_mut<S: Simd, T: Scalar>(v: &mut Vector<S, T>) -> &mut [T] {
    bytemuck::cast_slice_mut(core::slice::from_mut(v))
}

/// Where a driver reads an operand: whole vectors, and the rest shorter than a vector.
pub trait VectorSource<T: Float>: Copy {
    /// # Safety
    ///
    /// A whole vector from element `i` on must be readable.
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T>;
    /// # Safety
    ///
    /// `rest` elements from `i` on, fewer than a vector, must be readable.
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T>;
    /// Prefetches for a later iteration of a loop that reads `len` elements from `i` on.
    #[inline(always)]
    fn prefetch(self, _i: usize, _len: usize) {}
}

/// Where a driver puts its results.
pub trait Destination<T: Float>: Copy {
    /// Whether results are rounded to halves.
    const ROUNDS: bool = false;
    /// # Safety
    ///
    /// A whole vector from element `i` on must be writable.
    unsafe fn put<S: Simd>(self, i: usize, value: Vector<S, T>);
    /// # Safety
    ///
    /// `rest` elements from `i` on, fewer than a vector, must be writable.
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, T>);
    /// Prefetches for a later iteration of a loop that writes `len` elements from `i` on.
    #[inline(always)]
    fn prefetch(self, _i: usize, _len: usize) {}
}

/// An operand with one element per result.
#[derive(Clone, Copy)]
pub(crate) struct Each<T>(pub *const T);

/// An operand with the same element for every result.
#[derive(Clone, Copy)]
pub(crate) struct Same<T>(pub T);

/// A destination that stores the results unchanged.
#[derive(Clone, Copy)]
pub(crate) struct AsIs<T>(pub *mut T);

impl<T: Float> VectorSource<T> for Each<T> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T> {
        // SAFETY: the caller vouches for a whole vector from `i` on; the load needs no alignment.
        unsafe { T::vload_unaligned::<S>(self.0.add(i)) }
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T> {
        let mut x: Vector<S, T> = T::one().splat();
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that the vector has as
        // many lanes.
        unsafe {
            core::ptr::copy_nonoverlapping(self.0.add(i), lanes_mut(&mut x)[..rest].as_mut_ptr(), rest)
        };
        x
    }

    #[inline(always)]
    fn prefetch(self, i: usize, len: usize) {
        prefetch_ahead(self.0.wrapping_add(i), len);
    }
}

impl<T: Float> VectorSource<T> for Same<T> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, _: usize) -> Vector<S, T> {
        self.0.splat()
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, _: usize, _: usize) -> Vector<S, T> {
        self.0.splat()
    }
}

impl<T: Float> Destination<T> for AsIs<T> {
    #[inline(always)]
    unsafe fn put<S: Simd>(self, i: usize, value: Vector<S, T>) {
        // SAFETY: the caller vouches for a whole vector from `i` on; the store needs no alignment.
        unsafe { T::vstore_unaligned(self.0.add(i), value) }
    }

    #[inline(always)]
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, T>) {
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that the vector has as
        // many lanes.
        unsafe { core::ptr::copy_nonoverlapping(lanes(&value)[..rest].as_ptr(), self.0.add(i), rest) }
    }

    #[inline(always)]
    fn prefetch(self, i: usize, len: usize) {
        prefetch_ahead(self.0.cast_const().wrapping_add(i), len);
    }
}

/// The loop of the unary drivers.
///
/// # Safety
///
/// `src` must be readable and `dst` writable for `len` elements. The two must be the very same elements or
/// not overlap.
#[inline(always)]
pub(crate) unsafe fn run1<T: Float, F: UnaryFn<T>, A: VectorSource<T>, D: Destination<T>>(
    levels: impl Dispatch,
    f: F,
    src: A,
    dst: D,
    len: usize,
) {
    // SAFETY: the constant operand is ignored; the caller vouches for the others.
    unsafe { run2(levels, First(f), src, Same(T::one()), dst, len) }
}

/// A function of one number as a function of two numbers that ignores the second.
#[derive(Clone, Copy)]
struct First<F>(F);

impl<T: Float, F: UnaryFn<T>> BinaryFn<T> for First<F> {
    const IS_LIGHT: bool = F::IS_LIGHT;
    #[inline(always)]
    fn eval<S: Simd>(self, a: Vector<S, T>, _: Vector<S, T>) -> Vector<S, T> {
        self.0.eval(a)
    }
}

/// The function that returns its argument.
#[derive(Clone, Copy)]
pub(crate) struct Identity;

impl<T: Float> UnaryFn<T> for Identity {
    const IS_LIGHT: bool = true;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        x
    }
}

/// The loop of the binary drivers.
///
/// # Safety
///
/// Both operands must be readable and `dst` writable for `len` elements. `dst` must be the very elements of
/// an operand or not overlap that operand.
#[inline(always)]
pub(crate) unsafe fn run2<T: Float, F, A, B, D>(levels: impl Dispatch, f: F, a: A, b: B, dst: D, len: usize)
where
    F: BinaryFn<T>,
    A: VectorSource<T>,
    B: VectorSource<T>,
    D: Destination<T>,
{
    levels.dispatch(Run2 { f, a, b, dst, len, element: PhantomData::<T> });
}

#[inline(always)]
fn prefetch<T: Float>(
    a: impl VectorSource<T>,
    b: impl VectorSource<T>,
    dst: impl Destination<T>,
    i: usize,
    len: usize,
) {
    a.prefetch(i, len);
    b.prefetch(i, len);
    dst.prefetch(i, len);
}

struct Run2<T, F, A, B, D> {
    f: F,
    a: A,
    b: B,
    dst: D,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Float, F, A, B, D> WithSimd for Run2<T, F, A, B, D>
where
    F: BinaryFn<T>,
    A: VectorSource<T>,
    B: VectorSource<T>,
    D: Destination<T>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // SAFETY: `Run2` is built in `run2` alone, whose caller vouches for the same.
        unsafe { loop2::<S, _, _, _, _, _>(self.f, self.a, self.b, self.dst, self.len) }
    }
}

/// Vectors per iteration of the loop of a [light](UnaryFn::IS_LIGHT) function.
const UNROLL: usize = 4;

/// The loop of [`run2`], for one instruction set.
///
/// # Safety
///
/// As [`run2`].
#[inline(always)]
unsafe fn loop2<S: Simd, T: Float, F, A, B, D>(f: F, a: A, b: B, dst: D, len: usize)
where
    F: BinaryFn<T>,
    A: VectorSource<T>,
    B: VectorSource<T>,
    D: Destination<T>,
{
    // Conditions on constants: the compiler translates one of the loops.
    // SAFETY: as the caller vouches.
    unsafe {
        if const { !has_vectors::<S>() } {
            plain_loop::<S, _, _, _, _, _>(f, a, b, dst, len);
        } else {
            vector_loop::<S, _, _, _, _, _>(f, a, b, dst, len);
        }
    }
}

/// [`loop2`] where there are no vectors: the compiler makes them, unless there is more in the loop.
///
/// # Safety
///
/// As [`run2`].
#[inline(always)]
unsafe fn plain_loop<S: Simd, T: Float, F, A, B, D>(f: F, a: A, b: B, dst: D, len: usize)
where
    F: BinaryFn<T>,
    A: VectorSource<T>,
    B: VectorSource<T>,
    D: Destination<T>,
{
    let step = T::lanes::<S>();
    let rest = len % step;
    let mut i = 0;
    while i < len - rest {
        // SAFETY: `i + step <= len`. If the destination is an operand, each element is read before it is
        // written.
        unsafe { dst.put(i, f.eval(a.whole::<S>(i), b.whole::<S>(i))) };
        i += step;
    }
    if rest > 0 {
        // SAFETY: `rest` elements from `i` on end with the last one.
        unsafe { dst.put_rest(i, rest, f.eval(a.rest::<S>(i, rest), b.rest::<S>(i, rest))) };
    }
}

/// The last vector of [`loop2`].
///
/// It ends with the last element, so it may overlap the vector before it. Its operands are read before
/// anything is written, because writing may replace its elements where the destination is an operand.
struct LastVector<S: Simd, T: Scalar> {
    /// Whether there are fewer elements than a vector has.
    is_short: bool,
    /// The first element; 0 if there are fewer than a vector has.
    first: usize,
    a: Vector<S, T>,
    b: Vector<S, T>,
}

impl<S: Simd, T: Float> LastVector<S, T> {
    /// Reads the operands.
    ///
    /// # Safety
    ///
    /// The operands must be readable for `len` elements.
    #[inline(always)]
    unsafe fn read<A: VectorSource<T>, B: VectorSource<T>>(a: A, b: B, len: usize) -> Self {
        let step = T::lanes::<S>();
        // SAFETY: as the caller vouches. There are fewer than `step` elements when the row is short, and
        // otherwise at least `step` from the first on.
        unsafe {
            if len < step {
                Self { is_short: true, first: 0, a: a.rest::<S>(0, len), b: b.rest::<S>(0, len) }
            } else {
                let first = len - step;
                Self { is_short: false, first, a: a.whole::<S>(first), b: b.whole::<S>(first) }
            }
        }
    }

    /// Writes the results.
    ///
    /// # Safety
    ///
    /// `dst` must be writable for `len` elements, as many as were read.
    #[inline(always)]
    unsafe fn write<D: Destination<T>>(self, f: impl BinaryFn<T>, dst: D, len: usize) {
        let value = f.eval(self.a, self.b);
        // SAFETY: as for the reads.
        unsafe {
            if self.is_short {
                dst.put_rest(0, len, value);
            } else {
                dst.put(self.first, value);
            }
        }
    }
}

/// [`loop2`] where there are vectors. A [light](UnaryFn::IS_LIGHT) function is computed in turns of
/// [`UNROLL`] vectors first.
///
/// # Safety
///
/// As [`run2`].
#[inline(always)]
unsafe fn vector_loop<S: Simd, T: Float, F, A, B, D>(f: F, a: A, b: B, dst: D, len: usize)
where
    F: BinaryFn<T>,
    A: VectorSource<T>,
    B: VectorSource<T>,
    D: Destination<T>,
{
    let step = T::lanes::<S>();
    let turn = UNROLL * step;
    // Nothing is left after the last whole turn, and no last vector is read: exp of 64 f32 takes 1,409
    // instructions, and took 1,452 (AVX2).
    let is_whole = len.is_multiple_of(if const { F::IS_LIGHT } { turn } else { step });
    // SAFETY: the caller vouches for `len` elements of every buffer.
    let last = if is_whole { None } else { Some(unsafe { LastVector::<S, T>::read(a, b, len) }) };
    let mut i = 0;
    if const { F::IS_LIGHT } {
        let whole = len - len % turn;
        while i < whole {
            prefetch(a, b, dst, i, turn);
            // All loads come before the stores, which the compiler must not pass. Halves alternate: the
            // compiler would join two vectors of them for a store, by an instruction that takes as long as
            // rounding. 1 Mi bf16 times a number took 86 us, and takes 80 (one thread of Zen 4).
            let mut values = [T::one().splat(); UNROLL];
            let mut k = 0;
            while k < UNROLL {
                let i = i + k * step;
                // SAFETY: a turn begins at a multiple of `turn` below `whole`, so it ends at `whole` at the
                // latest, and `whole <= len`. If the destination is an operand, each element is read before
                // it is written.
                unsafe {
                    values[k] = f.eval(a.whole::<S>(i), b.whole::<S>(i));
                    if const { D::ROUNDS } {
                        dst.put(i, values[k]);
                    }
                }
                k += 1;
            }
            let mut k = 0;
            while const { !D::ROUNDS } && k < UNROLL {
                // SAFETY: as for the loads. If the destination is an operand, each element was read
                // before.
                unsafe { dst.put(i + k * step, values[k]) };
                k += 1;
            }
            i += turn;
        }
    }
    let end = last.as_ref().map_or(len, |last| last.first);
    while i < end {
        if const { !F::IS_LIGHT } {
            prefetch(a, b, dst, i, step);
        }
        // SAFETY: without a last vector, `len` is a multiple of `step`, as `i` is; with one, `step` elements
        // follow `end`. So `i + step <= len`. If the destination is an operand, each element is read before
        // it is written.
        unsafe { dst.put(i, f.eval(a.whole::<S>(i), b.whole::<S>(i))) };
        i += step;
    }
    // Not a turn of the loop above: a choice of operands in it cost a third more instructions of exp at AVX2.
    if let Some(last) = last {
        // SAFETY: as for the reads.
        unsafe { last.write(f, dst, len) };
    }
}
