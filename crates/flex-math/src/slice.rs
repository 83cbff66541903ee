//! Drivers that run a function over slices: loads, stores, tails. All the unsafe code of the kernels is here.
//!
//! A driver walks over whole vectors and finishes with one vector that holds the rest, padded with ones, so that
//! the last elements go through the same instructions as the others.

use crate::simd::{Simd, Vector, WithSimd, dispatch};
use crate::{BinaryFn, Float, UnaryFn};

/// Writes `f(src[i])` to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map<T: Float, F: UnaryFn<T>>(f: F, src: &[T], dst: &mut [T]) {
    same_len("map", src.len(), dst.len());
    // SAFETY: both point to `src.len()` elements, which is `dst.len()`; `src` and `dst` are a shared and an
    // exclusive borrow, so they do not overlap, and `src` is initialised.
    unsafe { run1(f, src.as_ptr(), dst.as_mut_ptr(), src.len()) }
}

/// Replaces each element by `f` of it.
pub fn map_in_place<T: Float, F: UnaryFn<T>>(f: F, data: &mut [T]) {
    let ptr = data.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed; source and destination are the same elements,
    // which `run1` allows.
    unsafe { run1(f, ptr, ptr, data.len()) }
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
    unsafe {
        run2(
            f,
            Each(a.as_ptr()),
            Each(b.as_ptr()),
            dst.as_mut_ptr(),
            a.len(),
        )
    }
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
    unsafe { run2(f, Each(ptr.cast_const()), Each(b.as_ptr()), ptr, a.len()) }
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
    unsafe { run2(f, Each(a.as_ptr()), Same(b), dst.as_mut_ptr(), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b)`.
pub fn map2_scalar_rhs_in_place<T: Float, F: BinaryFn<T>>(f: F, a: &mut [T], b: T) {
    let ptr = a.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Each(ptr.cast_const()), Same(b), ptr, a.len()) }
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
    unsafe { run2(f, Same(a), Each(b.as_ptr()), dst.as_mut_ptr(), b.len()) }
}

/// Replaces each `b[i]` by `f(a, b[i])`.
pub fn map2_scalar_lhs_in_place<T: Float, F: BinaryFn<T>>(f: F, a: T, b: &mut [T]) {
    let ptr = b.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Same(a), Each(ptr.cast_const()), ptr, b.len()) }
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
pub(crate) fn lanes<S: Simd, T: Float>(v: &Vector<S, T>) -> &[T] {
    bytemuck::cast_slice(core::slice::from_ref(v))
}

/// The lanes of a vector as a slice to write to.
#[inline(always)]
pub(crate) fn lanes_mut<S: Simd, T: Float>(v: &mut Vector<S, T>) -> &mut [T] {
    bytemuck::cast_slice_mut(core::slice::from_mut(v))
}

/// # Safety
///
/// `src` must be valid for reading and `dst` for writing `len` elements, and the two must either be
/// the same pointer or not overlap.
#[inline(always)]
unsafe fn run1<T: Float, F: UnaryFn<T>>(f: F, src: *const T, dst: *mut T, len: usize) {
    dispatch(Run1 { f, src, dst, len });
}

struct Run1<T, F> {
    f: F,
    src: *const T,
    dst: *mut T,
    len: usize,
}

impl<T: Float, F: UnaryFn<T>> WithSimd for Run1<T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // SAFETY: `Run1` is built in `run1` alone, whose caller vouches for the pointers and the length.
        unsafe { walk1::<S, T, F>(self.f, self.src, self.dst, self.len) }
    }
}

/// The loop of the unary drivers, inside the dispatched function.
///
/// # Safety
///
/// As [`run1`].
#[inline(always)]
pub(crate) unsafe fn walk1<S: Simd, T: Float, F: UnaryFn<T>>(
    f: F,
    src: *const T,
    dst: *mut T,
    len: usize,
) {
    let step = T::lanes::<S>();
    let whole = len - len % step;
    let mut i = 0;
    while i < whole {
        // SAFETY: `i + step <= whole <= len`, so the whole vector is inside both buffers; the loads and stores
        // need no alignment. If both are the same buffer, each element is read before it is written.
        unsafe {
            let x = T::vload_unaligned::<S>(src.add(i));
            T::vstore_unaligned(dst.add(i), f.eval(x));
        }
        i += step;
    }
    if i < len {
        let mut x: Vector<S, T> = T::one().splat();
        let rest = len - i;
        // SAFETY: `rest < step` elements remain from `i` on in the source, and the lanes of `x`, a local, hold more.
        unsafe {
            core::ptr::copy_nonoverlapping(src.add(i), lanes_mut(&mut x)[..rest].as_mut_ptr(), rest)
        };
        let y = f.eval(x);
        // SAFETY: likewise for the destination and the lanes of `y`.
        unsafe { core::ptr::copy_nonoverlapping(lanes(&y)[..rest].as_ptr(), dst.add(i), rest) };
    }
}

/// An operand of a binary driver: a vector at a time, whole or the last.
trait Operand<T: Float>: Copy {
    /// # Safety
    ///
    /// A whole vector from element `i` on must be readable.
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T>;
    /// # Safety
    ///
    /// `rest` elements from `i` on, fewer than a vector, must be readable.
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T>;
}

/// One element per result.
#[derive(Clone, Copy)]
struct Each<T>(*const T);

/// The same element for every result.
#[derive(Clone, Copy)]
struct Same<T>(T);

impl<T: Float> Operand<T> for Each<T> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, T> {
        // SAFETY: the caller vouches for a whole vector from `i` on; the load needs no alignment.
        unsafe { T::vload_unaligned::<S>(self.0.add(i)) }
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, T> {
        let mut x: Vector<S, T> = T::one().splat();
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that the lanes hold as many.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.0.add(i),
                lanes_mut(&mut x)[..rest].as_mut_ptr(),
                rest,
            )
        };
        x
    }
}

impl<T: Float> Operand<T> for Same<T> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, _: usize) -> Vector<S, T> {
        self.0.splat()
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, _: usize, _: usize) -> Vector<S, T> {
        self.0.splat()
    }
}

/// # Safety
///
/// Both operands must be readable and `dst` writable for `len` elements, and `dst` must either be the very pointer
/// of an operand or not overlap it.
#[inline(always)]
unsafe fn run2<T: Float, F: BinaryFn<T>, A: Operand<T>, B: Operand<T>>(
    f: F,
    a: A,
    b: B,
    dst: *mut T,
    len: usize,
) {
    dispatch(Run2 { f, a, b, dst, len });
}

struct Run2<T, F, A, B> {
    f: F,
    a: A,
    b: B,
    dst: *mut T,
    len: usize,
}

impl<T: Float, F: BinaryFn<T>, A: Operand<T>, B: Operand<T>> WithSimd for Run2<T, F, A, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // SAFETY: `Run2` is built in `run2` alone, whose caller vouches for the operands, `dst` and the length.
        unsafe { walk_operands::<S, T, F, A, B>(self.f, self.a, self.b, self.dst, self.len) }
    }
}

/// The loop of the binary drivers over two arrays, inside a dispatched function.
///
/// # Safety
///
/// `a` and `b` must be readable and `dst` writable for `len` elements, and `dst` must either be `a` or `b` itself or not
/// overlap it.
#[inline(always)]
pub(crate) unsafe fn walk2<S: Simd, T: Float, F: BinaryFn<T>>(
    f: F,
    a: *const T,
    b: *const T,
    dst: *mut T,
    len: usize,
) {
    // SAFETY: the caller vouches for the same.
    unsafe { walk_operands::<S, T, F, _, _>(f, Each(a), Each(b), dst, len) }
}

/// The loop of the binary drivers.
///
/// # Safety
///
/// As [`run2`].
#[inline(always)]
unsafe fn walk_operands<S: Simd, T: Float, F: BinaryFn<T>, A: Operand<T>, B: Operand<T>>(
    f: F,
    a: A,
    b: B,
    dst: *mut T,
    len: usize,
) {
    let step = T::lanes::<S>();
    let whole = len - len % step;
    let mut i = 0;
    while i < whole {
        // SAFETY: `i + step <= whole <= len`, so the whole vector is inside every buffer. If the destination is an
        // operand, each element is read before it is written.
        unsafe {
            let y = f.eval(a.whole::<S>(i), b.whole::<S>(i));
            T::vstore_unaligned(dst.add(i), y);
        }
        i += step;
    }
    if i < len {
        let rest = len - i;
        // SAFETY: `rest < step` elements remain from `i` on in every buffer.
        unsafe {
            let y = f.eval(a.rest::<S>(i, rest), b.rest::<S>(i, rest));
            core::ptr::copy_nonoverlapping(lanes(&y)[..rest].as_ptr(), dst.add(i), rest);
        }
    }
}
