//! Comparisons, boolean connectives and predicates. Booleans are bytes holding 0 or 1.

use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::element::{Fn1, Fn2, Map2, PairFn, integers2, predicate1, run_pairs, wrapping2};
use super::integer::{BitAnd, BitOr, BitXor};
use super::kernel::{FloatKernels, Kernel, Kernels, Src};
use super::number::{Compared, FloatBits, nan, rank};
use super::{Compare, Logical};
use crate::error::{Error, Result, check_same_dtype};
use crate::{BoolStore, DType, Element, Scalar, Tensor, bf16, f16};
use core::cmp::Ordering;
use core::marker::PhantomData;
use flex_math::simd::{Gains, Levels};

/// Compares pairs of elements of two tensors of one dtype, which broadcast together. NaN is unequal to
/// everything. Booleans may be stored in different ways.
///
/// # Errors
/// Different dtypes, shapes that do not broadcast, or a `store` other than one byte per boolean.
pub fn compare(op: Compare, lhs: Tensor, rhs: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    let dtype = lhs.dtype();
    if !(dtype.is_bool() && rhs.dtype().is_bool()) {
        check_same_dtype(name, dtype, rhs.dtype())?;
    }
    compare_inputs(op, dtype, [Input::Tensor(lhs), Input::Tensor(rhs)], store)
}

/// Compares each element with a number by value: an `i8` is less than 300, a `u8` greater than -1, no integer
/// equals 2.5, and NaN is unequal to everything. For float tensors the number is rounded to their dtype
/// first, so that `0.1` equals a tensor's 0.1; but a finite number beyond the dtype's range does not become
/// infinite.
///
/// # Errors
/// Too little memory for the result.
pub fn compare_scalar(op: Compare, lhs: Tensor, rhs: Scalar, store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    let dtype = lhs.dtype();
    let plan = dispatch!(any name, dtype, T => Ok(plan_scalar::<T>(op, rhs)))?;
    match plan {
        ScalarPlan::Compare(op, value) => {
            compare_inputs(op, dtype, [Input::Tensor(lhs), Input::Scalar(value)], store)
        }
        ScalarPlan::Always(answer) => {
            Tensor::full(lhs.shape().clone(), Scalar::Bool(answer), DType::Bool(store))
        }
    }
}

/// Applies a connective to two boolean tensors, which broadcast together. The result is stored in the way of
/// `lhs`.
///
/// # Errors
/// A tensor that is not boolean, or shapes that do not broadcast.
pub fn logical(op: Logical, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let (name, kernel) = match op {
        Logical::And => ("logical_and", Map2::<u8, BitAnd>::KERNEL),
        Logical::Or => ("logical_or", Map2::<u8, BitOr>::KERNEL),
        Logical::Xor => ("logical_xor", Map2::<u8, BitXor>::KERNEL),
    };
    let dtype = check_bool(name, lhs.dtype())?;
    check_bool(name, rhs.dtype())?;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true; 2], light: None };
    run(op, [Input::Tensor(lhs), Input::Tensor(rhs)])
}

/// Negates a boolean tensor.
///
/// # Errors
/// A tensor that is not boolean.
pub fn logical_not(tensor: Tensor) -> Result<Tensor> {
    let name = "logical_not";
    let dtype = check_bool(name, tensor.dtype())?;
    let kernel = Map2::<u8, BitXor>::KERNEL;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true; 2], light: None };
    run(op, [Input::Tensor(tensor), Input::Scalar(ScalarBytes::new(1u8))])
}

/// Which elements are NaN.
///
/// # Errors
/// A tensor that is not of floats.
pub fn is_nan(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = "is_nan";
    const KERNELS: Kernels<1> = Kernels::floats(predicate1::<IsNan>());
    let kernel = KERNELS.get(name, tensor.dtype())?;
    test(name, kernel, tensor, store)
}

/// Which elements are infinite, of either sign.
///
/// # Errors
/// A tensor that is not of floats.
pub fn is_inf(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let name = "is_inf";
    const KERNELS: Kernels<1> = Kernels::floats(predicate1::<IsInf>());
    let kernel = KERNELS.get(name, tensor.dtype())?;
    test(name, kernel, tensor, store)
}

fn test(
    name: &'static str,
    kernel: &'static dyn Kernel<1>,
    tensor: Tensor,
    store: BoolStore,
) -> Result<Tensor> {
    let op = Op { name, kernel, dtype: DType::Bool(store), cost: Cost::Memory, reuse: [false], light: None };
    run(op, [Input::Tensor(tensor)])
}

fn compare_inputs(op: Compare, dtype: DType, [lhs, rhs]: [Input; 2], store: BoolStore) -> Result<Tensor> {
    let name = op.name();
    // Booleans are bytes, which compare like numbers.
    let number = if dtype.is_bool() { DType::U8 } else { dtype };
    let (kernels, swap) = match op {
        Compare::Eq => (&EQUAL, false),
        Compare::Ne => (&NOT_EQUAL, false),
        Compare::Lt => (&LESS, false),
        Compare::Le => (&AT_MOST, false),
        Compare::Gt => (&LESS, true),
        Compare::Ge => (&AT_MOST, true),
    };
    let kernel = kernels.get(name, number)?;
    let inputs = if swap { [rhs, lhs] } else { [lhs, rhs] };
    // A boolean is one byte: a comparison of bytes may be written over an operand.
    let op =
        Op { name, kernel, dtype: DType::Bool(store), cost: Cost::Memory, reuse: [true; 2], light: None };
    run(op, inputs)
}

static EQUAL: Kernels<2> = Kernels::numbers(floats2::<Eq>(), wrapping2::<Eq>());
static NOT_EQUAL: Kernels<2> = Kernels::numbers(floats2::<Ne>(), wrapping2::<Ne>());
static LESS: Kernels<2> = Kernels::numbers(floats2::<Lt>(), integers2::<Lt>());
static AT_MOST: Kernels<2> = Kernels::numbers(floats2::<Le>(), integers2::<Le>());

/// A comparison with a number, resolved for a dtype.
#[derive(Clone, Copy, Debug)]
enum ScalarPlan {
    /// A comparison with a number that the dtype holds.
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
        // Too large for the dtype: the number lies between the dtype's largest number and infinity.
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
            // Saturates far outside of every integer dtype, where the fraction does not matter.
            let whole = v as i128;
            let above = v - whole as f64;
            (if above < 0.0 { whole.saturating_sub(1) } else { whole }, above != 0.0)
        }
        Scalar::Int(v) => (v.into(), false),
        Scalar::UInt(v) => (v.into(), false),
        Scalar::Bool(v) => (v.into(), false),
    };
    let (min, max) = T::DTYPE.integer_range().expect("an integer type").into_inner();
    // For integers, x < 2.5 and x <= 2.5 mean x <= 2; x > 2.5 and x >= 2.5 mean x > 2.
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

/// `dtype` if it is a boolean dtype.
fn check_bool(name: &'static str, dtype: DType) -> Result<DType> {
    if dtype.is_bool() { Ok(dtype) } else { Err(Error::dtype(name, dtype, "a bool dtype")) }
}

impl Compare {
    /// The name of the operation in errors.
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

/// Comparisons as functions that kernels are made of.
macro_rules! comparison {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        struct $name;
        impl<T: Compared> Fn2<T> for $name {
            type Out = u8;
            /// `x > 2` is computed as `2 < x`. 65,536 f32 take 3.4 us so, and took 6.1 with the constant in
            /// blocks on the stack; 4,096 take 0.33 and took 1.8 (one thread of Zen 4).
            const IS_LIGHT_LEFT: bool = true;
            /// 1 Mi i64 take 290 us with AVX-512, and 328 with AVX2 (one thread of Zen 5).
            const LEVELS: Levels = if size_of::<T>() == 8 { Levels::All } else { Levels::Lean };
            #[inline(always)]
            fn at($a: T, $b: T) -> u8 {
                ($value) as u8
            }
        }
    )*};
}

comparison! {
    Eq: |a, b| a == b;
    Ne: |a, b| a != b;
    Lt: |a, b| a.less(b);
    Le: |a, b| a.at_most(b);
}

/// The kernels of a comparison of floats.
const fn floats2<F>() -> FloatKernels<2>
where
    F: Fn2<f64, Out = u8> + Fn2<f32, Out = u8> + Fn2<i16, Out = u8> + 'static,
{
    [Map2::<f64, F>::KERNEL, Map2::<f32, F>::KERNEL, Halves::<F>::OF_F16, Halves::<F>::OF_BF16]
}

/// A comparison of halves of one type, by integer operations, which vectorise: the ranks of the halves are
/// compared. The two types differ in the bits of infinity alone, and so share the code.
struct Halves<F> {
    /// The bits of infinity; greater magnitudes are NaN.
    infinite: u16,
    comparison: PhantomData<fn() -> F>,
}

impl<F> Clone for Halves<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Halves<F> {}

impl<F: Fn2<i16, Out = u8> + 'static> Halves<F> {
    const OF_F16: &'static dyn Kernel<2> = &Self::new(f16::INFINITE);
    const OF_BF16: &'static dyn Kernel<2> = &Self::new(bf16::INFINITE);

    const fn new(infinite: u16) -> Self {
        Self { infinite, comparison: PhantomData }
    }
}

/// A comparison takes a dozen operations on bits: 65,536 take 3.8 us with AVX-512, and 5.2 with AVX2 (one
/// thread of Zen 5).
impl<F> Gains for Halves<F> {
    const LEVELS: Levels = Levels::All;
}

impl<F: Fn2<i16, Out = u8>> PairFn<u16> for Halves<F> {
    type Out = u8;
    const IS_LIGHT: bool = true;
    const IS_LIGHT_LEFT: bool = true;
    #[inline(always)]
    fn at(self, a: u16, b: u16) -> u8 {
        let is_nan = |x: u16| x & (u16::MAX >> 1) > self.infinite;
        // NaN compares as 1 with 0: it is unequal, not less, and not at most.
        let (a, b) = if is_nan(a) | is_nan(b) { (1, 0) } else { (rank(a), rank(b)) };
        F::at(a, b)
    }
}

impl<F: Fn2<i16, Out = u8> + 'static> Kernel<2> for Halves<F> {
    fn run(&self, out: &mut [u8], src: [Src<'_>; 2]) {
        run_pairs(self, out, src);
    }
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
