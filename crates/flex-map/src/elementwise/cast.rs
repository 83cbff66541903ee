//! Conversion between dtypes.

use super::driver::{Cost, Input, Op, run};
use super::element::{Fn1, Map1};
use super::float::ThroughSingle;
use super::kernel::{BLOCK, Kernel, Src, Typed, through_blocks};
use crate::error::Result;
use crate::{DType, Element, Tensor, bf16, f16};
use core::marker::PhantomData;
use flex_math::half::{Half, convert, from_f32, from_f64, i64_to_odd, to_f32, to_odd, u64_to_odd};
use flex_math::simd::Levels;
use num_traits::AsPrimitive;

/// Converts each element to `dtype`, with the rules of Rust's `as`. Floats to integers truncate and saturate
/// (NaN becomes 0), integers to narrower integers wrap, and conversions to a float round once, to nearest
/// even. A number becomes false if it is zero, otherwise true; booleans become 0 and 1.
///
/// Nothing is copied if the bits stay the same: to the same dtype, between integers of one width, between the
/// two ways of storing booleans, and from booleans to integers of 8 bits.
///
/// # Errors
/// Too little memory for the result.
pub fn cast(tensor: Tensor, dtype: DType) -> Result<Tensor> {
    let from = tensor.dtype();
    if from == dtype {
        return Ok(tensor);
    }
    let is_integer = |d: DType| d.is_int() || d.is_uint();
    let same_bits = from.is_bool() && (dtype.is_bool() || matches!(dtype, DType::U8 | DType::I8))
        || is_integer(from) && is_integer(dtype) && from.size() == dtype.size();
    if same_bits {
        return Ok(tensor.with_dtype(dtype));
    }
    let kernel = kernel(from, dtype)?;
    let op = Op { name: "cast", kernel, dtype, cost: Cost::Memory, reuse: [true], light: None };
    run(op, [Input::Tensor(tensor)])
}

fn kernel(from: DType, to: DType) -> Result<&'static dyn Kernel<1>> {
    // Booleans are bytes holding the numbers 0 and 1.
    let from = if from.is_bool() { DType::U8 } else { from };
    if to.is_bool() {
        return if from.is_float() {
            dispatch!(float "cast", from, T => Ok(T::through::<NotZero>()))
        } else {
            dispatch!(bits "cast", from, T => Ok(Map1::<T, NotZero>::KERNEL))
        };
    }
    if to.is_float() {
        return dispatch!(number "cast", from, S => dispatch!(float "cast", to, D => Ok(D::kernel_from::<S>())));
    }
    if from.is_float() {
        return dispatch!(float "cast", from, S => dispatch!(int "cast", to, D => Ok(D::kernel_from::<S>())));
    }
    // Signed and unsigned targets get the same bits, and so do narrower targets from signed and unsigned
    // sources.
    if to.size() < from.size() {
        dispatch!(bits "cast", from, S => dispatch!(bits "cast", to, D => Ok(Resized::<S, D>::narrower())))
    } else {
        dispatch!(int "cast", from, S => dispatch!(bits "cast", to, D => Ok(Resized::<S, D>::wider())))
    }
}

/// The casts of integers that change their width. The kernels of other pairs are not compiled.
struct Resized<S, D>(PhantomData<fn(S) -> D>);

impl<S: CastSource, D: Element> Resized<S, D>
where
    S::Wide: AsPrimitive<D>,
{
    fn narrower() -> &'static dyn Kernel<1> {
        if const { size_of::<D>() < size_of::<S>() } {
            Map1::<S, As<D>>::KERNEL
        } else {
            unreachable!("the target is narrower")
        }
    }

    fn wider() -> &'static dyn Kernel<1> {
        if const { size_of::<D>() > size_of::<S>() } {
            Map1::<S, As<D>>::KERNEL
        } else {
            unreachable!("a cast between integers of one width keeps the bits")
        }
    }
}

/// An element type to convert from.
trait CastSource: Element {
    /// The type that the element converts from: f32 for halves, itself otherwise.
    type Wide: Copy + AsPrimitive<f32> + AsPrimitive<f64> + AsPrimitive<i64> + AsPrimitive<u64>;
    /// The element as `Wide`, exactly.
    fn wide(self) -> Self::Wide;
    /// The kernel that converts to a half, rounding once.
    fn to_half<H: Half + Element>() -> &'static dyn Kernel<1>;
    /// The kernel that converts to f32.
    const TO_SINGLE: &'static dyn Kernel<1>;
    /// The kernel of a function of the element's number; for halves, of the function in f32, which represents
    /// them exactly.
    fn through<F: Fn1<Self> + Fn1<f32> + 'static>() -> &'static dyn Kernel<1> {
        Map1::<Self, F>::KERNEL
    }
}

/// An integer type to convert from.
trait IntegerSource: Element {
    /// The element as f32, rounded to odd by [`to_odd`], so that it can be rounded once more.
    fn to_odd(self) -> f32;
}

/// [`IntegerSource::to_odd`].
struct ToOdd;
impl<S: IntegerSource> Fn1<S> for ToOdd {
    type Out = f32;
    #[inline(always)]
    fn at(a: S) -> f32 {
        a.to_odd()
    }
}

macro_rules! impl_source {
    ($($ty:ty: $half:ident, $to_half:expr;)*) => {$(
        impl CastSource for $ty {
            type Wide = $ty;
            const TO_SINGLE: &'static dyn Kernel<1> = Map1::<$ty, As<f32>>::KERNEL;
            #[inline(always)]
            fn wide(self) -> $ty {
                self
            }
            fn to_half<$half: Half + Element>() -> &'static dyn Kernel<1> {
                $to_half
            }
        }
    )*};
}

impl_source! {
    f32: H, ToHalf::<f32, H>::KERNEL;
    f64: H, ToHalf::<f64, H>::KERNEL;
}

macro_rules! impl_integer_source {
    ($($ty:ty: |$x:ident| $odd:expr;)*) => {$(
        impl_source!($ty: H, ThroughOdd::<$ty, H>::KERNEL;);
        impl IntegerSource for $ty {
            #[inline(always)]
            fn to_odd(self) -> f32 {
                let $x = self;
                $odd
            }
        }
    )*};
}

impl_integer_source! {
    i8: |x| x as f32;
    i16: |x| x as f32;
    i32: |x| to_odd(x as f64);
    i64: |x| i64_to_odd(x);
    u8: |x| x as f32;
    u16: |x| x as f32;
    u32: |x| to_odd(x as f64);
    u64: |x| u64_to_odd(x);
}

macro_rules! impl_half_source {
    ($($ty:ty)*) => {$(
        impl CastSource for $ty {
            type Wide = f32;
            const TO_SINGLE: &'static dyn Kernel<1> = &Widen::<$ty>(PhantomData);
            #[inline(always)]
            fn wide(self) -> f32 {
                <$ty>::widen(self.bits())
            }
            fn to_half<H: Half + Element>() -> &'static dyn Kernel<1> {
                ToHalf::<$ty, H>::KERNEL
            }
            fn through<F: Fn1<Self> + Fn1<f32> + 'static>() -> &'static dyn Kernel<1> {
                Converted::<Self, F>::KERNEL
            }
        }
    )*};
}

impl_half_source!(f16 bf16);

/// The kernel of a function of f32 whose operand is a half.
struct Converted<H, F>(PhantomData<fn(H) -> F>);

impl<H: Half + Element, F: Fn1<f32> + 'static> Converted<H, F> {
    const KERNEL: &'static dyn Kernel<1> =
        &ThroughSingle::<H, 1>::converted(Map1::<f32, F>::KERNEL, size_of::<F::Out>());
}

/// A dtype to convert to: an integer from floats, a float from any number.
trait CastTarget: Element {
    /// The kernel that converts from `S`.
    fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1>;
}

impl CastTarget for f32 {
    fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1> {
        S::TO_SINGLE
    }
}

impl CastTarget for f64 {
    fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1> {
        S::through::<As<f64>>()
    }
}

impl CastTarget for f16 {
    fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1> {
        S::to_half::<f16>()
    }
}

impl CastTarget for bf16 {
    fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1> {
        S::to_half::<bf16>()
    }
}

macro_rules! impl_integer_target {
    ($($ty:ty: $conversion:ty;)*) => {$(
        impl CastTarget for $ty {
            fn kernel_from<S: CastSource>() -> &'static dyn Kernel<1> {
                S::through::<$conversion>()
            }
        }
    )*};
}

impl_integer_target! {
    i8: Truncate<i8>;
    i16: Truncate<i16>;
    i32: Truncate<i32>;
    i64: As<i64>;
    u8: Truncate<u8>;
    u16: Truncate<u16>;
    u32: Truncate<u32>;
    u64: As<u64>;
}

/// Converts a float to an integer of at most 32 bits, with the results of `as`. The language's saturating
/// conversion does not vectorise; this one does: 4096 f32 to i32 take 0.9 us instead of 2.3.
struct Truncate<D>(PhantomData<D>);
impl<S: CastSource, D: Element> Fn1<S> for Truncate<D>
where
    i64: AsPrimitive<D>,
{
    type Out = D;
    #[inline(always)]
    fn at(a: S) -> D {
        /// 1.5 * 2^52: adding it to an integer below 2^51 leaves that integer in the low bits.
        const MAGIC: f64 = 6_755_399_441_055_744.0;
        let (min, max) = D::bounds();
        let (min, max) = (min.to_f64(), max.to_f64());
        let x: f64 = a.wide().as_();
        let x = if x.is_nan() { 0.0 } else { x };
        let x = if x < min { min } else { x };
        let x = if x > max { max } else { x };
        let nearest = (x + MAGIC) - MAGIC;
        let beyond = if x < 0.0 { -1.0 } else { 1.0 };
        let whole = if nearest.abs() > x.abs() { nearest - beyond } else { nearest };
        ((whole + MAGIC).to_bits() as i64).as_()
    }
}

struct As<D>(PhantomData<D>);
impl<S: CastSource, D: Element> Fn1<S> for As<D>
where
    S::Wide: AsPrimitive<D>,
{
    type Out = D;
    /// AVX-512 alone converts integers of 64 bits to floats: 65,536 i64 become f32 in 8 us, and in 13 with
    /// AVX2 (one thread of Zen 5).
    const LEVELS: Levels =
        if size_of::<S>() == 8 && !S::IS_FLOAT && D::IS_FLOAT { Levels::All } else { Levels::Lean };
    #[inline(always)]
    fn at(a: S) -> D {
        a.wide().as_()
    }
}

/// Converts a half to f32.
struct Widen<H>(PhantomData<fn(H)>);

impl<H: Half + Element> Kernel<1> for Widen<H> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        let out: &mut [f32] = bytemuck::cast_slice_mut(out);
        match a.typed::<H>() {
            Typed::Each(a) => to_f32(a, out),
            Typed::Same(a) => out.fill(H::widen(a.bits())),
            Typed::Out => unreachable!("an operand in the output has its size"),
        }
    }
}

/// A float type that slices of halves are rounded from.
trait FloatSource: Element {
    /// Converts all elements to halves, each rounded once.
    fn round<H: Half>(src: &[Self], dst: &mut [H]);
}

macro_rules! impl_float_source {
    ($($ty:ty: $round:ident;)*) => {$(
        impl FloatSource for $ty {
            #[inline]
            fn round<H: Half>(src: &[$ty], dst: &mut [H]) {
                $round(src, dst);
            }
        }
    )*};
}

impl_float_source! {
    f32: from_f32;
    f64: from_f64;
    f16: convert;
    bf16: convert;
}

/// Rounds a float to a half.
struct ToHalf<S, H>(PhantomData<fn(S) -> H>);

impl<S: FloatSource, H: Half + Element> ToHalf<S, H> {
    const KERNEL: &'static dyn Kernel<1> = &Self(PhantomData);
}

impl<S: FloatSource, H: Half + Element> Kernel<1> for ToHalf<S, H> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        match a.typed::<S>() {
            Typed::Each(a) => S::round::<H>(a, bytemuck::cast_slice_mut(out)),
            _ => through_blocks(self, size_of::<S>(), size_of::<H>(), out, [a]),
        }
    }
}

/// Rounds an integer to a half, by way of f32.
struct ThroughOdd<S, H>(PhantomData<fn(S) -> H>);

impl<S: IntegerSource, H: Half + Element> ThroughOdd<S, H> {
    const KERNEL: &'static dyn Kernel<1> =
        &RoundOdd::<H> { odd: Map1::<S, ToOdd>::KERNEL, size: size_of::<S>(), half: PhantomData };
}

/// Rounds f32 that a kernel rounds to odd.
struct RoundOdd<H> {
    odd: &'static dyn Kernel<1>,
    /// Bytes of an element that the kernel takes.
    size: usize,
    half: PhantomData<fn() -> H>,
}

impl<H: Half + Element> Kernel<1> for RoundOdd<H> {
    fn run(&self, out: &mut [u8], [a]: [Src<'_>; 1]) {
        let Src::Each(bytes) = a else {
            return through_blocks(self, self.size, size_of::<H>(), out, [a]);
        };
        let out: &mut [H] = bytemuck::cast_slice_mut(out);
        let mut block = [0f32; BLOCK];
        for (from, out) in bytes.chunks(BLOCK * self.size).zip(out.chunks_mut(BLOCK)) {
            let block = &mut block[..out.len()];
            self.odd.run(bytemuck::cast_slice_mut(block), [Src::Each(from)]);
            from_f32(block, out);
        }
    }
}

/// True for all but zero, NaN included.
struct NotZero;
impl<S: CastSource> Fn1<S> for NotZero
where
    S::Wide: Element,
{
    type Out = u8;
    #[inline(always)]
    fn at(a: S) -> u8 {
        (a.wide() != S::Wide::ZERO) as u8
    }
}
