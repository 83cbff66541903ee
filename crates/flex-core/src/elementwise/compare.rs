//! Comparisons, boolean connectives and predicates. Booleans are bytes holding 0 or 1.

use super::binary::{BitAnd, BitOr, BitXor, bitwise};
use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::float::{Float, Predicate};
use super::kernel::{Fn1, Fn2, Kernel, Map2};
use super::{Compare, Logical};
use crate::error::{Error, Result, check_same_dtype};
use crate::{BoolStore, DType, Element, Scalar, Tensor, bf16, f16};
use core::cmp::Ordering;

/// Compares pairs of elements of two tensors of one dtype, which broadcast together. NaN is unequal to everything.
/// Booleans compare with each other however they are stored.
///
/// # Errors
/// Different dtypes, shapes that do not broadcast, or a `store` other than one byte per boolean.
pub fn compare(op: Compare, lhs: Tensor, rhs: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    let dtype = lhs.dtype();
    if !(dtype.is_bool() && check_bool(name, rhs.dtype()).is_ok()) {
        check_same_dtype(name, dtype, rhs.dtype())?;
    }
    compare_inputs(op, dtype, [Input::Tensor(lhs), Input::Tensor(rhs)], store)
}

/// Compares each element with a number, as numbers: an `i8` is less than 300, a `u8` greater than -1, no integer
/// equals 2.5, and NaN is unequal to everything. For float tensors the number is rounded to their dtype first, so
/// that `0.1` equals what a tensor stores for it, but a finite number beyond the dtype's range stays finite.
///
/// # Errors
/// A dtype that the engine does not store, or a `store` other than one byte per boolean.
pub fn compare_scalar(op: Compare, lhs: Tensor, rhs: Scalar, store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    let dtype = lhs.dtype();
    let plan = dispatch!(any name, dtype, T => Ok(plan_scalar::<T>(op, rhs)))?;
    match plan {
        ScalarPlan::Compare(op, value) => {
            compare_inputs(op, dtype, [Input::Tensor(lhs), Input::Scalar(value)], store)
        }
        ScalarPlan::Always(answer) => {
            Tensor::full(lhs.shape().clone(), Scalar::Bool(answer), bool_dtype(name, store)?)
        }
    }
}

/// Applies a connective to two boolean tensors, which broadcast together. The result is stored as the left one is.
///
/// # Errors
/// A tensor that is not boolean, or shapes that do not broadcast.
pub fn logical(op: Logical, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let (name, kernel) = match op {
        Logical::And => ("logical_and", bitwise::<BitAnd>("logical_and", DType::U8)?),
        Logical::Or => ("logical_or", bitwise::<BitOr>("logical_or", DType::U8)?),
        Logical::Xor => ("logical_xor", bitwise::<BitXor>("logical_xor", DType::U8)?),
    };
    let dtype = check_bool(name, lhs.dtype())?;
    check_bool(name, rhs.dtype())?;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true; 2] };
    run(op, [Input::Tensor(lhs), Input::Tensor(rhs)])
}

/// Negates a boolean tensor.
///
/// # Errors
/// A tensor that is not boolean.
pub fn logical_not(tensor: Tensor) -> Result<Tensor> {
    let name = "logical_not";
    let dtype = check_bool(name, tensor.dtype())?;
    let kernel = bitwise::<BitXor>(name, DType::U8)?;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true; 2] };
    run(op, [Input::Tensor(tensor), Input::Scalar(ScalarBytes::new(1u8))])
}

/// Which elements are NaN.
///
/// # Errors
/// A tensor that is not of floats, or a `store` other than one byte per boolean.
pub fn is_nan(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = "is_nan";
    let kernel = dispatch!(float name, tensor.dtype(), T => Ok(T::kernel::<1, Predicate<IsNan>>()))?;
    test(name, kernel, tensor, store)
}

/// Which elements are infinite, of either sign.
///
/// # Errors
/// A tensor that is not of floats, or a `store` other than one byte per boolean.
pub fn is_inf(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = "is_inf";
    let kernel = dispatch!(float name, tensor.dtype(), T => Ok(T::kernel::<1, Predicate<IsInf>>()))?;
    test(name, kernel, tensor, store)
}

fn test(
    name: &'static str,
    kernel: &'static dyn Kernel<1>,
    tensor: Tensor,
    store: BoolStore,
) -> Result<Tensor> {
    let op = Op { name, kernel, dtype: bool_dtype(name, store)?, cost: Cost::Memory, reuse: [false] };
    run(op, [Input::Tensor(tensor)])
}

fn compare_inputs(op: Compare, dtype: DType, [lhs, rhs]: [Input; 2], store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    let (kernel, swap) = match op {
        Compare::Eq => (equality::<Eq>(name, dtype)?, false),
        Compare::Ne => (equality::<Ne>(name, dtype)?, false),
        Compare::Lt => (order::<Lt>(name, dtype)?, false),
        Compare::Le => (order::<Le>(name, dtype)?, false),
        Compare::Gt => (order::<Lt>(name, dtype)?, true),
        Compare::Ge => (order::<Le>(name, dtype)?, true),
    };
    let inputs = if swap { [rhs, lhs] } else { [lhs, rhs] };
    // One byte each: a comparison of bytes may take the place of an operand.
    let op = Op { name, kernel, dtype: bool_dtype(name, store)?, cost: Cost::Memory, reuse: [true; 2] };
    run(op, inputs)
}

/// A question about two floats.
trait FloatTest:
    Fn2<f32, Out = u8> + Fn2<f64, Out = u8> + Fn2<f16, Out = u8> + Fn2<bf16, Out = u8> + 'static
{
}
impl<F> FloatTest for F where
    F: Fn2<f32, Out = u8> + Fn2<f64, Out = u8> + Fn2<f16, Out = u8> + Fn2<bf16, Out = u8> + 'static
{
}

fn equality<F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>>
where
    F: FloatTest + Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64>,
{
    if dtype.is_float() {
        return dispatch!(float name, dtype, T => Ok(T::kernel::<2, Predicate<F>>()));
    }
    dispatch!(bits name, dtype, T => Ok(Map2::<T, F>::KERNEL))
}

fn order<F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>>
where
    F: FloatTest,
    F: Fn2<i8> + Fn2<i16> + Fn2<i32> + Fn2<i64> + Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64>,
{
    if dtype.is_float() {
        return dispatch!(float name, dtype, T => Ok(T::kernel::<2, Predicate<F>>()));
    }
    if dtype.is_bool() {
        return dispatch!(bits name, dtype, _T => Ok(Map2::<u8, F>::KERNEL));
    }
    dispatch!(int name, dtype, T => Ok(Map2::<T, F>::KERNEL))
}

/// What is left of a comparison with a number once the dtype is known.
#[derive(Clone, Copy, Debug)]
enum ScalarPlan {
    /// A comparison with a number of the dtype.
    Compare(Compare, ScalarBytes),
    /// The same answer for every element.
    Always(bool),
}

fn plan_scalar<T: Element>(op: Compare, value: Scalar) -> ScalarPlan {
    if T::IS_FLOAT { plan_float::<T>(op, value) } else { plan_integer::<T>(op, value) }
}

fn plan_float<T: Element>(op: Compare, value: Scalar) -> ScalarPlan {
    let own: T = value.cast();
    let number = ScalarBytes::new(own);
    let rounded = own.to_f64();
    if rounded.is_infinite() && value.to_f64().is_finite() {
        // Too large for the dtype: between its largest number and infinity.
        let op = match (op, rounded > 0.0) {
            (Compare::Eq, _) => return ScalarPlan::Always(false),
            (Compare::Ne, _) => return ScalarPlan::Always(true),
            (Compare::Lt | Compare::Le, true) => Compare::Lt,
            (Compare::Gt | Compare::Ge, true) => Compare::Ge,
            (Compare::Lt | Compare::Le, false) => Compare::Le,
            (Compare::Gt | Compare::Ge, false) => Compare::Gt,
        };
        return ScalarPlan::Compare(op, number);
    }
    ScalarPlan::Compare(op, number)
}

fn plan_integer<T: Element>(op: Compare, value: Scalar) -> ScalarPlan {
    // The largest integer not above the value, and whether the value lies above it.
    let (floor, fractional) = match value {
        Scalar::Float(v) if v.is_nan() => return ScalarPlan::Always(op == Compare::Ne),
        Scalar::Float(v) => {
            // Saturates far outside of every integer dtype; there no fraction matters.
            let whole = v as i128;
            let above = v - whole as f64;
            (if above < 0.0 { whole.saturating_sub(1) } else { whole }, above != 0.0)
        }
        Scalar::Int(v) => (v.into(), false),
        Scalar::UInt(v) => (v.into(), false),
        Scalar::Bool(v) => (v.into(), false),
    };
    let (min, max) = integer_bounds::<T>();
    // x < 2.5 and x <= 2.5 say x <= 2; x > 2.5 and x >= 2.5 say x > 2.
    let op = match (op, fractional) {
        (Compare::Eq, true) => return ScalarPlan::Always(false),
        (Compare::Ne, true) => return ScalarPlan::Always(true),
        (Compare::Lt | Compare::Le, true) => Compare::Le,
        (Compare::Gt | Compare::Ge, true) => Compare::Gt,
        (op, false) => op,
    };
    let outside = if floor < min {
        Ordering::Less
    } else if floor > max {
        Ordering::Greater
    } else {
        let own = if floor < 0 { T::from_i64(floor as i64) } else { T::from_u64(floor as u64) };
        return ScalarPlan::Compare(op, ScalarBytes::new(own));
    };
    ScalarPlan::Always(match op {
        Compare::Eq => false,
        Compare::Ne => true,
        Compare::Lt | Compare::Le => outside == Ordering::Greater,
        Compare::Gt | Compare::Ge => outside == Ordering::Less,
    })
}

fn integer_bounds<T: Element>() -> (i128, i128) {
    let (min, max) = T::bounds();
    // The largest u64 does not pass through i64.
    let max = if min == T::ZERO { max.to_i64() as u64 as i128 } else { max.to_i64() as i128 };
    (min.to_i64().into(), max)
}

/// The dtype of booleans stored in this way.
fn bool_dtype(name: &'static str, store: BoolStore) -> Result<DType> {
    check_bool(name, DType::Bool(store))
}

/// A boolean dtype of one byte.
pub(super) fn check_bool(name: &'static str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::Bool(BoolStore::Native | BoolStore::U8) => Ok(dtype),
        _ => Err(Error::dtype(name, dtype, "a bool dtype of one byte (native, u8)")),
    }
}

impl Compare {
    /// The name that errors use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compare::Eq => "equal",
            Compare::Ne => "not_equal",
            Compare::Lt => "lower",
            Compare::Le => "lower_equal",
            Compare::Gt => "greater",
            Compare::Ge => "greater_equal",
        }
    }
}

/// Elements that compare.
pub(super) trait Compared: Element {
    /// `==`.
    fn equal(self, other: Self) -> bool;
    /// `<`.
    fn less(self, other: Self) -> bool;
    /// `<=`.
    fn at_most(self, other: Self) -> bool;
}

macro_rules! compared_by_operators {
    ($($ty:ty)*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                self <= other
            }
        }
    )*};
}

compared_by_operators!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// By integer operations that vectorise: the bits, with those of negative numbers negated, stand in the order of the numbers
/// and are 0 for both zeros. NaN is told by its magnitude.
macro_rules! compared_by_bits {
    ($($ty:ty)*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                !nan(self) & !nan(other) & (rank(self) == rank(other))
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                !nan(self) & !nan(other) & (rank(self) < rank(other))
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                !nan(self) & !nan(other) & (rank(self) <= rank(other))
            }
        }
    )*};
}

compared_by_bits!(f16 bf16);

#[inline(always)]
fn nan<T: FloatBits>(x: T) -> bool {
    x.magnitude() > T::INFINITE
}

#[inline(always)]
fn rank<T: Element>(x: T) -> i16 {
    let bits: i16 = bytemuck::cast(x);
    let negative = bits >> 15;
    ((bits & i16::MAX) ^ negative) - negative
}

/// Comparisons as kernels.
macro_rules! comparison {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        struct $name;
        impl<T: Compared> Fn2<T> for $name {
            type Out = u8;
            #[inline(always)]
            fn at($a: T, $b: T) -> u8 {
                ($value) as u8
            }
        }
    )*};
}

comparison! {
    Eq: |a, b| a.equal(b);
    Ne: |a, b| !a.equal(b);
    Lt: |a, b| a.less(b);
    Le: |a, b| a.at_most(b);
}

/// Floats by their bits.
trait FloatBits: Element {
    /// An integer of the same size.
    type Bits: PartialOrd;
    /// The bits of infinity; greater magnitudes are NaN.
    const INFINITE: Self::Bits;
    /// All bits but the sign.
    fn magnitude(self) -> Self::Bits;
}

macro_rules! float_bits {
    ($($ty:ty: $bits:ty;)*) => {$(
        impl FloatBits for $ty {
            type Bits = $bits;
            const INFINITE: $bits = <$ty>::INFINITY.to_bits();
            #[inline(always)]
            fn magnitude(self) -> $bits {
                self.to_bits() & (<$bits>::MAX >> 1)
            }
        }
    )*};
}

float_bits! {
    f32: u32;
    f64: u64;
    f16: u16;
    bf16: u16;
}

struct IsNan;
impl<T: FloatBits> Fn1<T> for IsNan {
    type Out = u8;
    #[inline(always)]
    fn at(a: T) -> u8 {
        nan(a) as u8
    }
}

struct IsInf;
impl<T: FloatBits> Fn1<T> for IsInf {
    type Out = u8;
    #[inline(always)]
    fn at(a: T) -> u8 {
        (a.magnitude() == T::INFINITE) as u8
    }
}
