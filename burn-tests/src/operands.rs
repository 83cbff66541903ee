//! Several float operands at once: every layout of each of them, and sums with the error bound that their
//! terms give.

use crate::array::Array;
use crate::compare::{Tolerance, compare, is_close};
use crate::kind::Float;
use crate::layout::{Laid, Layout, Operand};
use crate::row::Context;
use crate::support::read_float;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

/// A compensated sum (Neumaier) with a second word for the part that rounding loses, so that the oracle is
/// more accurate than the tested backend in `f64` too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    high: f64,
    low: f64,
    magnitude: f64,
    terms: usize,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let sum = self.high + term;
        self.low +=
            if self.high.abs() >= term.abs() { (self.high - sum) + term } else { (term - sum) + self.high };
        self.high = sum;
        self.magnitude += term.abs();
        self.terms += 1;
    }

    /// The sum.
    pub fn value(self) -> f64 {
        // With infinities among the terms, the lost part is NaN.
        if self.low.is_finite() { self.high + self.low } else { self.high }
    }

    /// The sum with a wider error bound: each term may be off by epsilon times `slip`, in addition to the
    /// rounding of the summation.
    pub fn blurred(self, slip: f64) -> Self {
        Self { magnitude: self.magnitude + slip * (self.terms as f64).sqrt(), ..self }
    }

    /// The sum times a factor.
    pub fn scaled(self, factor: f64) -> Self {
        let magnitude = self.magnitude * factor.abs();
        Self { high: self.high * factor, low: self.low * factor, magnitude, ..self }
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

/// The expectation of an operation that sums products: `out[o]` is the sum over all `(o, product)` that
/// `visit` yields.
pub fn sums(shape: impl Into<Vec<usize>>, visit: impl FnOnce(&mut dyn FnMut(usize, f64))) -> Array<Sum> {
    let shape = shape.into();
    let mut out = vec![Sum::default(); shape.iter().product()];
    visit(&mut |o, product| out[o].add(product));
    Array::new(shape, out)
}

/// Compares a tensor with sums. Each element may be off by the rounding errors of summing its terms in the
/// dtype's accumulator, and by one rounding to the dtype.
///
/// # Errors
/// The first mismatch.
pub fn expect_sums<B: Backend>(
    context: &Context<'_, B>,
    tensor: FloatTensor<B>,
    dtype: DType,
    want: &Array<Sum>,
) -> Result<(), String> {
    compare(&read_float::<B>(tensor, dtype)?, want, |got, want: Sum| {
        let tolerance = context.tolerance(Tolerance::accumulated(dtype, want.terms));
        is_close(dtype, got, want.value(), tolerance, want.magnitude)
    })
}

/// Passes the operands of a call by value.
///
/// # Panics
/// Panics if there are not `N` operands.
pub fn take<T, const N: usize>(operands: Vec<T>) -> [T; N] {
    operands.try_into().unwrap_or_else(|all: Vec<T>| panic!("{} operands, not {N}", all.len()))
}

/// Runs a call on float operands: with all operands contiguous, with each operand in every layout while the
/// others are contiguous, and with all in the same layout. Each time on shared buffers (which must be
/// unchanged afterwards) and as their only owner.
///
/// `want` computes the expectation from the contents of the operands. Two of the layouts change the contents;
/// `want` is called again only for these. `case` names the case in reports.
pub fn over_operands<B: Backend, W>(
    context: &Context<'_, B>,
    dtype: DType,
    case: &str,
    arrays: &[&Array<f64>],
    want: impl Fn(&[Array<f64>]) -> W,
    run: impl Fn(Vec<FloatTensor<B>>, &W) -> Result<(), String>,
) {
    over_operands_dyn(context, dtype, case, arrays, &want, &run);
}

/// [`over_operands`], compiled once for all calls.
fn over_operands_dyn<B: Backend, W>(
    context: &Context<'_, B>,
    dtype: DType,
    case: &str,
    arrays: &[&Array<f64>],
    want: &dyn Fn(&[Array<f64>]) -> W,
    run: &dyn Fn(Vec<FloatTensor<B>>, &W) -> Result<(), String>,
) {
    let contents: Vec<Array<f64>> = arrays.iter().map(|&a| a.clone()).collect();
    let plain = want(&contents);
    let operands: Vec<Operand<'_, B, Float>> = arrays.iter().map(|&a| Operand::new(a, dtype)).collect();
    for layouts in assignments(&context.capabilities.layouts, arrays.len()) {
        // An operand whose shape does not allow the layout, such as a transposed bias, is contiguous instead.
        let laid = || -> Option<Vec<Laid<B, Float>>> {
            let mut any = layouts.iter().all(|&layout| layout == Layout::Contiguous);
            let lay = |operand: &Operand<'_, B, Float>, layout| operand.lay_out(layout, &context.device);
            let all = operands.iter().zip(&layouts).map(|(operand, &layout)| {
                let laid = lay(operand, layout);
                any |= layout != Layout::Contiguous && laid.is_some();
                laid.or_else(|| lay(operand, Layout::Contiguous)).expect("any array can be contiguous")
            });
            let all = all.collect();
            any.then_some(all)
        };
        let name = |owner: &str| format!("{dtype:?} {case} {layouts:?} {owner}");
        let check = |tensors: Vec<FloatTensor<B>>, held: &[Array<f64>]| {
            if same(held, &contents) { run(tensors, &plain) } else { run(tensors, &want(held)) }
        };
        let mut present = false;
        context.attempt_if(
            || name("shared"),
            || {
                let Some(laid) = laid() else { return Ok(false) };
                present = true;
                let (mut tensors, mut held, mut witnesses) = (Vec::new(), Vec::new(), Vec::new());
                for operand in laid {
                    let (tensor, content, witness) = operand.share();
                    tensors.push(tensor);
                    held.push(content);
                    witnesses.push(witness);
                }
                check(tensors, &held)?;
                witnesses.into_iter().try_for_each(|witness| witness.verify()).map(|()| true)
            },
        );
        if present {
            context.attempt(
                || name("unique"),
                || {
                    let laid = laid().expect("the layouts exist, as above");
                    let (tensors, held): (Vec<_>, Vec<_>) = laid.into_iter().map(Laid::unique).unzip();
                    check(tensors, &held)
                },
            );
        }
    }
}

/// The layouts of `n` operands in each run.
fn assignments(layouts: &[Layout], n: usize) -> Vec<Vec<Layout>> {
    let mut all = vec![vec![Layout::Contiguous; n]];
    for &layout in layouts.iter().filter(|&&layout| layout != Layout::Contiguous) {
        for k in 0..n {
            all.push(vec![Layout::Contiguous; n]);
            all.last_mut().expect("just pushed")[k] = layout;
        }
        if n > 1 {
            all.push(vec![layout; n]);
        }
    }
    all
}

/// Equality of bits, so that NaN equals a NaN with the same bits.
fn same(a: &[Array<f64>], b: &[Array<f64>]) -> bool {
    let same = |a: &Array<f64>, b: &Array<f64>| {
        a.len() == b.len() && a.data().iter().zip(b.data()).all(|(a, b)| a.to_bits() == b.to_bits())
    };
    a.iter().zip(b).all(|(a, b)| same(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LAYOUTS;

    #[test]
    fn sums_keep_what_rounding_loses() {
        let sum: Sum = [1e16, 1.0, -1e16].into_iter().collect();
        assert_eq!((sum.value(), sum.magnitude, sum.terms), (1.0, 2e16 + 1.0, 3));
        assert_eq!(sum.scaled(-2.0).value(), -2.0);
        assert_eq!(sum.blurred(4e16).magnitude, 2e16 + 1.0 + 4e16 * 3f64.sqrt());
        let infinite: Sum = [1.0, f64::INFINITY].into_iter().collect();
        assert_eq!(infinite.value(), f64::INFINITY);
        let nan: Sum = [f64::INFINITY, f64::NEG_INFINITY].into_iter().collect();
        assert!(nan.value().is_nan());
    }

    #[test]
    fn every_operand_meets_every_layout() {
        let all = assignments(&LAYOUTS, 2);
        for layout in LAYOUTS {
            for k in 0..2 {
                assert!(all.iter().any(|a| a[k] == layout && a[1 - k] == Layout::Contiguous));
            }
            assert!(all.contains(&vec![layout; 2]));
        }
        assert_eq!(assignments(&LAYOUTS, 1).len(), LAYOUTS.len());
        let some = assignments(&[Layout::Contiguous, Layout::Flipped], 2);
        assert!(some.iter().flatten().all(|l| [Layout::Contiguous, Layout::Flipped].contains(l)));
        assert_eq!(some.len(), 4);
    }
}
