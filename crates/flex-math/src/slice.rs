//! Drivers that run a function over slices: loads, stores, tails. All the unsafe code of the kernels is here.
//!
//! A driver walks over whole vectors and finishes with one vector that holds the rest, padded with ones, so that
//! the last elements go through the same instructions as the others.

use crate::simd::{Scalar, Simd, Vector, WithSimd, dispatch, prefetch_ahead};
use crate::{BinaryFn, Float, UnaryFn};
use core::marker::PhantomData;

/// Writes `f(src[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map<T: Float, F: UnaryFn<T>>(f: F, src: &[T], dst: &mut [T]) {
    same_len("map", src.len(), dst.len());
    // SAFETY: both point to `src.len()` elements, which is `dst.len()`; `src` and `dst` are a shared and an
    // exclusive borrow, so they do not overlap, and `src` is initialised.
    unsafe { run1(f, Each(src.as_ptr()), AsIs(dst.as_mut_ptr()), src.len()) }
}

/// Replaces each element by `f` of it.
pub fn map_in_place<T: Float, F: UnaryFn<T>>(f: F, data: &mut [T]) {
    let ptr = data.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed; source and destination are the same elements,
    // which `run1` allows.
    unsafe { run1(f, Each(ptr.cast_const()), AsIs(ptr), data.len()) }
}

/// Writes `f(a[i], b[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2<T: Float, F: BinaryFn<T>>(f: F, a: &[T], b: &[T], dst: &mut [T]) {
    same_len("map2", a.len(), b.len());
    same_len("map2", a.len(), dst.len());
    // SAFETY: the three slices have the same length, the sources are initialised, and `dst`, borrowed
    // exclusively, overlaps neither.
    unsafe { run2(f, Each(a.as_ptr()), Each(b.as_ptr()), AsIs(dst.as_mut_ptr()), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b[i])`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_in_place<T: Float, F: BinaryFn<T>>(f: F, a: &mut [T], b: &[T]) {
    same_len("map2_in_place", a.len(), b.len());
    let ptr = a.as_mut_ptr();
    // SAFETY: both slices have the same length and are initialised; the destination is the first source itself,
    // borrowed exclusively, so it does not overlap the second.
    unsafe { run2(f, Each(ptr.cast_const()), Each(b.as_ptr()), AsIs(ptr), a.len()) }
}

/// Writes `f(a[i], b)` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_scalar_rhs<T: Float, F: BinaryFn<T>>(f: F, a: &[T], b: T, dst: &mut [T]) {
    same_len("map2_scalar_rhs", a.len(), dst.len());
    // SAFETY: `a` and `dst` have the same length, `a` is initialised, and `dst`, borrowed exclusively, does not
    // overlap it.
    unsafe { run2(f, Each(a.as_ptr()), Same(b), AsIs(dst.as_mut_ptr()), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b)`.
pub fn map2_scalar_rhs_in_place<T: Float, F: BinaryFn<T>>(f: F, a: &mut [T], b: T) {
    let ptr = a.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Each(ptr.cast_const()), Same(b), AsIs(ptr), a.len()) }
}

/// Writes `f(a, b[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_scalar_lhs<T: Float, F: BinaryFn<T>>(f: F, a: T, b: &[T], dst: &mut [T]) {
    same_len("map2_scalar_lhs", b.len(), dst.len());
    // SAFETY: `b` and `dst` have the same length, `b` is initialised, and `dst`, borrowed exclusively, does not
    // overlap it.
    unsafe { run2(f, Same(a), Each(b.as_ptr()), AsIs(dst.as_mut_ptr()), b.len()) }
}

/// Replaces each `b[i]` by `f(a, b[i])`.
pub fn map2_scalar_lhs_in_place<T: Float, F: BinaryFn<T>>(f: F, a: T, b: &mut [T]) {
    let ptr = b.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Same(a), Each(ptr.cast_const()), AsIs(ptr), b.len()) }
}

/// `f(x)` for one number, by the same code as the slices.
pub fn eval_scalar<T: Float, F: UnaryFn<T>>(f: F, x: T) -> T {
    let mut one = [x];
    map_in_place(f, &mut one);
    one[0]
}

/// `f(a, b)` for one pair of numbers, by the same code as the slices.
pub fn eval2_scalar<T: Float, F: BinaryFn<T>>(f: F, a: T, b: T) -> T {
    let mut one = [a];
    map2_scalar_rhs_in_place(f, &mut one, b);
    one[0]
}

#[inline]
#[track_caller]
pub(crate) fn same_len(op: &str, expected: usize, got: usize) {
    assert!(
        expected == got,
        "flex_math::{op}: slices of {expected} and {got} elements, expected the same length"
    );
}

/// The lanes of a vector as a slice.
#[inline(always)]
pub(crate) fn lanes<S: Simd, T: Scalar>(v: &Vector<S, T>) -> &[T] {
    bytemuck::cast_slice(core::slice::from_ref(v))
}

/// The lanes of a vector as a slice to write to.
#[inline(always)]
pub(crate) fn lanes_mut<S: Simd, T: Scalar>(v: &mut Vector<S, T>) -> &mut [T] {
    bytemuck::cast_slice_mut(core::slice::from_mut(v))
}

/// Where a driver takes an operand from: a vector at a time, whole or the last.
pub(crate) trait Source<T: Float>: Copy {
    /// # Safety
    ///
    /// A whole vector from element `i` on must be readable.
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T>;
    /// # Safety
    ///
    /// `rest` elements from `i` on, fewer than a vector, must be readable.
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T>;
}

/// Where a driver puts its results.
pub(crate) trait Destination<T: Float>: Copy {
    /// # Safety
    ///
    /// A whole vector from element `i` on must be writable.
    unsafe fn put<S: Simd>(self, i: usize, value: Vector<S, T>);
    /// # Safety
    ///
    /// `rest` elements from `i` on, fewer than a vector, must be writable.
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, T>);
}

/// One element per result.
#[derive(Clone, Copy)]
pub(crate) struct Each<T>(pub *const T);

/// The same element for every result.
#[derive(Clone, Copy)]
pub(crate) struct Same<T>(pub T);

/// The results as they are.
#[derive(Clone, Copy)]
pub(crate) struct AsIs<T>(pub *mut T);

impl<T: Float> Source<T> for Each<T> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T> {
        prefetch_ahead(self.0.wrapping_add(i), T::lanes::<S>());
        // SAFETY: the caller vouches for a whole vector from `i` on; the load needs no alignment.
        unsafe { T::vload_unaligned::<S>(self.0.add(i)) }
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T> {
        let mut x: Vector<S, T> = T::one().splat();
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that the lanes hold as many.
        unsafe {
            core::ptr::copy_nonoverlapping(self.0.add(i), lanes_mut(&mut x)[..rest].as_mut_ptr(), rest)
        };
        x
    }
}

impl<T: Float> Source<T> for Same<T> {
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
        prefetch_ahead(self.0.cast_const().wrapping_add(i), T::lanes::<S>());
        // SAFETY: the caller vouches for a whole vector from `i` on; the store needs no alignment.
        unsafe { T::vstore_unaligned(self.0.add(i), value) }
    }

    #[inline(always)]
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, T>) {
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that the lanes hold as many.
        unsafe { core::ptr::copy_nonoverlapping(lanes(&value)[..rest].as_ptr(), self.0.add(i), rest) }
    }
}

/// The loop of the unary drivers.
///
/// # Safety
///
/// `src` must be readable and `dst` writable for `len` elements, and the two must either be the very same elements or not
/// overlap.
#[inline(always)]
pub(crate) unsafe fn run1<T: Float, F: UnaryFn<T>, A: Source<T>, D: Destination<T>>(
    f: F,
    src: A,
    dst: D,
    len: usize,
) {
    // SAFETY: the constant stands for an operand that is never looked at; the caller vouches for the others.
    unsafe { run2(First(f), src, Same(T::one()), dst, len) }
}

/// A function of one number as one of two that leaves the second alone.
#[derive(Clone, Copy)]
struct First<F>(F);

impl<T: Float, F: UnaryFn<T>> BinaryFn<T> for First<F> {
    #[inline(always)]
    fn eval<S: Simd>(self, a: Vector<S, T>, _: Vector<S, T>) -> Vector<S, T> {
        self.0.eval(a)
    }
}

/// The loop of the binary drivers.
///
/// # Safety
///
/// Both operands must be readable and `dst` writable for `len` elements, and `dst` must either be the very elements of an
/// operand or not overlap it.
#[inline(always)]
pub(crate) unsafe fn run2<T: Float, F, A, B, D>(f: F, a: A, b: B, dst: D, len: usize)
where
    F: BinaryFn<T>,
    A: Source<T>,
    B: Source<T>,
    D: Destination<T>,
{
    dispatch(Run2 { f, a, b, dst, len, element: PhantomData::<T> });
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
    A: Source<T>,
    B: Source<T>,
    D: Destination<T>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { f, a, b, dst, len, .. } = self;
        let step = T::lanes::<S>();
        let whole = len - len % step;
        let mut i = 0;
        while i < whole {
            // SAFETY: `Run2` is built in `run2` alone, whose caller vouches for `len` elements of every buffer, and
            // `i + step <= whole <= len`. If the destination is an operand, each element is read before it is written.
            unsafe { dst.put(i, f.eval(a.whole::<S>(i), b.whole::<S>(i))) };
            i += step;
        }
        if i < len {
            let rest = len - i;
            // SAFETY: likewise; `rest < step` elements remain from `i` on.
            unsafe { dst.put_rest(i, rest, f.eval(a.rest::<S>(i, rest), b.rest::<S>(i, rest))) };
        }
    }
}
