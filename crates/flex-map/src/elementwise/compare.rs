//! Comparisons, boolean connectives and predicates. Booleans are bytes holding 0 or 1.

use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::element::{
    Constants, Fixed, Fn1, Fn2, Fn3, LoopForVectors, LoopsByConstants, Map1, Map2, Map3, WithConstants,
    predicate1,
};
use super::integer::{BitAnd, BitLogic, BitOr, BitXor};
use super::kernel::{Kernel, Kernels, Src};
use super::number::{Compared, FloatBits, nan, rank};
use super::{Compare, Logical};
use crate::error::{Error, Result, check_same_dtype};
use crate::{BoolStore, DType, Element, Scalar, Tensor, bf16, f16};
use core::cmp::Ordering;
use core::marker::PhantomData;
use flex_math::simd::Levels;

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
    let kernel = Map1::<u8, Negation>::KERNEL;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true], light: None };
    run(op, [Input::Tensor(tensor)])
}

/// 1 for 0, and 0 for 1.
struct Negation;
impl Fn1<u8> for Negation {
    type Out = u8;
    #[inline(always)]
    fn at(a: u8) -> u8 {
        a ^ 1
    }
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

/// The kernels of equality: the comparison of halves, and the flags of other numbers.
macro_rules! equality {
    ($halves:ident, $flags:expr) => {
        Kernels::numbers(
            [
                &Question::commuting::<f64, IsEqual>($flags),
                &Question::commuting::<f32, IsEqual>($flags),
                &Question::commuting::<u16, ComparedHalves<$halves>>(0),
                &Question::commuting::<u16, ComparedHalves<$halves>>(BF16),
            ],
            [
                &Question::commuting::<u64, IsEqual>($flags),
                &Question::commuting::<u32, IsEqual>($flags),
                &Question::commuting::<u16, IsEqual>($flags),
                &Question::commuting::<u8, IsEqual>($flags),
                &Question::commuting::<u64, IsEqual>($flags),
                &Question::commuting::<u32, IsEqual>($flags),
                &Question::commuting::<u16, IsEqual>($flags),
                &Question::commuting::<u8, IsEqual>($flags),
            ],
        )
    };
}

/// The kernels of an order: the comparison of floats, and the flags of integers.
macro_rules! order {
    ($floats:ident, $flags:expr) => {
        Kernels::numbers(
            [
                WithConstants::<f64, $floats>::KERNEL,
                WithConstants::<f32, $floats>::KERNEL,
                &Question::new::<u16, ComparedHalves<$floats>>(0),
                &Question::new::<u16, ComparedHalves<$floats>>(BF16),
            ],
            [
                &Question::new::<i64, IsLess>($flags),
                &Question::new::<i32, IsLess>($flags),
                &Question::new::<i16, IsLess>($flags),
                &Question::new::<i8, IsLess>($flags),
                &Question::new::<i64, IsLess>($flags | UNSIGNED),
                &Question::new::<i32, IsLess>($flags | UNSIGNED),
                &Question::new::<i16, IsLess>($flags | UNSIGNED),
                &Question::new::<i8, IsLess>($flags | UNSIGNED),
            ],
        )
    };
}

static EQUAL: Kernels<2> = equality!(Eq, 0);
static NOT_EQUAL: Kernels<2> = equality!(Ne, FLIPS);
static LESS: Kernels<2> = order!(Lt, 0);
static AT_MOST: Kernels<2> = order!(Le, FLIPS | SWAPS);

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

/// Comparisons as functions that kernels are made of. For floats, `a <= b` is not `!(b < a)`: both are false
/// for NaN.
macro_rules! comparison {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        struct $name;
        impl<T: Compared> Fn2<T> for $name {
            type Out = u8;
            const CONSTANTS: Constants = Constants::Both;
            const LEVELS: Levels = levels_of::<T>();
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

/// 1 Mi i64 take 290 us with AVX-512, and 328 with AVX2 (one thread of Zen 5).
const fn levels_of<T>() -> Levels {
    if size_of::<T>() == 8 { Levels::All } else { Levels::Lean }
}

// Comparisons share loops, which take the comparison as flags.

/// The answer is flipped: not equal, or not less.
const FLIPS: u8 = 1;
/// The integers are unsigned.
const UNSIGNED: u8 = 2;
/// The halves are bf16, not f16.
const BF16: u8 = 4;
/// The operands are swapped: `a <= b` is `!(b < a)`. The loop does not read this flag.
const SWAPS: u8 = 8;

/// A comparison by loops whose third operand, a constant, is the flags. Comparing 65,536 f32 with a constant
/// takes 3.4 us in a loop of its own, and took 6.1 with the constant in blocks on the stack; 4,096 take 0.33
/// and took 1.8 (one thread of Zen 4).
struct Question {
    loops: LoopsByConstants<3>,
    flags: u8,
}

impl Question {
    const fn new<T: Element, F: Fn3<T, T, u8> + 'static>(flags: u8) -> Self {
        Self::of::<T, F>(Some(Map3::<T, T, u8, Fixed<F, true, false>>::VECTOR_LOOP), flags)
    }

    /// A comparison that commutes.
    const fn commuting<T: Element, F: Fn3<T, T, u8> + 'static>(flags: u8) -> Self {
        Self::of::<T, F>(None, flags)
    }

    const fn of<T: Element, F: Fn3<T, T, u8> + 'static>(
        left: Option<&'static LoopForVectors<3>>,
        flags: u8,
    ) -> Self {
        let slices = Map3::<T, T, u8, F>::LOOP;
        let right = Map3::<T, T, u8, Fixed<F, false, true>>::VECTOR_LOOP;
        Self { loops: LoopsByConstants { slices, left, right }, flags }
    }
}

impl Kernel<2> for Question {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        let flags = Src::Same(core::slice::from_ref(&self.flags));
        let src = if self.flags & SWAPS != 0 { [b, a] } else { [a, b] };
        self.loops.run(out, src, |a, b| [a, b, flags]);
    }
}

/// Whether two numbers have the same bits, or two floats are equal.
struct IsEqual;

impl<T: Element> Fn3<T, T, u8> for IsEqual {
    type Out = u8;
    const LEVELS: Levels = levels_of::<T>();
    const FIXED: [bool; 3] = [false, false, true];
    #[inline(always)]
    fn at(a: T, b: T, flags: u8) -> u8 {
        ((a == b) != (flags & FLIPS != 0)) as u8
    }
}

/// Whether an integer is less than another.
struct IsLess;

impl<T: BitLogic + PartialOrd> Fn3<T, T, u8> for IsLess {
    type Out = u8;
    const LEVELS: Levels = levels_of::<T>();
    const FIXED: [bool; 3] = [false, false, true];
    #[inline(always)]
    fn at(a: T, b: T, flags: u8) -> u8 {
        // With the sign bit flipped, the bits of an unsigned integer have the order of signed ones.
        let bias = if flags & UNSIGNED != 0 { T::bounds().0 } else { T::ZERO };
        (((a ^ bias) < (b ^ bias)) != (flags & FLIPS != 0)) as u8
    }
}

/// A comparison of halves by integer operations, which vectorise: the ranks of the halves are compared. The
/// two types differ in the bits of infinity alone, and so share the code.
struct ComparedHalves<F>(PhantomData<F>);

impl<F: Fn2<i16, Out = u8>> Fn3<u16, u16, u8> for ComparedHalves<F> {
    type Out = u8;
    /// A comparison takes a dozen operations on bits: 65,536 take 3.8 us with AVX-512, and 5.2 with AVX2 (one
    /// thread of Zen 5).
    const LEVELS: Levels = Levels::All;
    const FIXED: [bool; 3] = [false, false, true];
    #[inline(always)]
    fn at(a: u16, b: u16, flags: u8) -> u8 {
        // The bits of infinity; greater magnitudes are NaN.
        let infinite = if flags & BF16 != 0 { bf16::INFINITE } else { f16::INFINITE };
        let is_nan = |x: u16| x & (u16::MAX >> 1) > infinite;
        // NaN compares as 1 with 0: it is unequal, not less, and not at most.
        let (a, b) = if is_nan(a) | is_nan(b) { (1, 0) } else { (rank(a), rank(b)) };
        F::at(a, b)
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
