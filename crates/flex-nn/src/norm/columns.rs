//! Lines that are summed element by element, and functions of a line, with constants for each column.

use crate::float::Real;
use crate::storage::Scratch;
use crate::stored::{Sink, Source};
use bytemuck::cast_slice;
use flex_math::simd::vectorize_lean;

/// The number of columns of a line should be a multiple of this: loops compute whole groups in vectors, and
/// the remaining columns one by one.
pub(super) const CHUNK: usize = 16;

/// The computation on a line `x`. The constants are rows of columns.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LineKernel {
    /// Adds `x` to a row of sums.
    Sum,
    /// Adds `x - mean` to the first row of sums, and its square to the second. The constants are `mean`.
    Apart,
    /// Adds `g` to the first row of sums, and `g (x - mean) scale` to the second. The constants are `mean`
    /// and `scale`.
    Products,
    /// Writes `(x - mean) * scale + shift`. The constants are these three.
    Affine,
    /// Replaces `g` by `(g - of_grad - (x - mean) * of_product) * slope`. The constants are `mean`,
    /// `of_grad`, `of_product` and `slope`.
    Gradient,
}

impl LineKernel {
    /// Rows of sums.
    pub fn sums(self) -> usize {
        if self == Self::Sum { 1 } else { 2 }
    }

    /// Rows of constants.
    pub fn constants(self) -> usize {
        match self {
            Self::Sum => 0,
            Self::Apart => 1,
            Self::Products => 2,
            Self::Affine => 3,
            Self::Gradient => 4,
        }
    }
}

/// Room for halves in f32.
pub(super) type LineScratch = [Scratch<f32>; 3];

/// Computes a line. `constants` are the bytes of numbers of the computing type; `grad` is empty where the
/// kernel needs none or has it in `to`.
pub(super) fn compute(
    kernel: LineKernel,
    x: Source<'_>,
    grad: Source<'_>,
    to: &mut Sink<'_>,
    constants: &[f64],
    scratch: &mut LineScratch,
) {
    if let (Some(x), Some(grad), Some(to)) = (x.values::<f64>(), grad.values(), to.values()) {
        return compute_as(kernel, x, grad, to, constants);
    }
    let [x_room, grad_room, to_room] = scratch;
    let (x, grad, constants) = (x.load(x_room), grad.load(grad_room), cast_slice::<f64, f32>(constants));
    if let Some(to) = to.values() {
        return compute_as(kernel, x, grad, to, constants);
    }
    let room = to_room.elements(x.len());
    if kernel == LineKernel::Gradient {
        to.source().read(room);
    }
    compute_as(kernel, x, grad, room, constants);
    to.write(room);
}

/// All kernels in one dispatch, which costs more machine code than a loop.
#[inline(never)]
fn compute_as<F: Real>(kernel: LineKernel, x: &[F], grad: &[F], to: &mut [F], constants: &[F]) {
    vectorize_lean(
        #[inline(always)]
        move || match kernel {
            LineKernel::Sum => to.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x),
            LineKernel::Apart => {
                let (sums, squares) = to.split_at_mut(to.len() / 2);
                for ((x, mean), (sum, square)) in x.iter().zip(constants).zip(sums.iter_mut().zip(squares)) {
                    let apart = *x - *mean;
                    *sum += apart;
                    *square += apart * apart;
                }
            }
            LineKernel::Products => {
                let (mean, scale) = constants.split_at(constants.len() / 2);
                let (sums, products) = to.split_at_mut(to.len() / 2);
                let operands = x.iter().zip(grad).zip(mean).zip(scale);
                for ((((x, grad), mean), scale), (sum, product)) in
                    operands.zip(sums.iter_mut().zip(products))
                {
                    *sum += *grad;
                    *product += *grad * ((*x - *mean) * *scale);
                }
            }
            LineKernel::Affine => {
                let (mean, rest) = constants.split_at(constants.len() / 3);
                let (scale, shift) = rest.split_at(mean.len());
                for ((((to, x), mean), scale), shift) in to.iter_mut().zip(x).zip(mean).zip(scale).zip(shift)
                {
                    *to = (*x - *mean) * *scale + *shift;
                }
            }
            LineKernel::Gradient => {
                let (first, last) = constants.split_at(constants.len() / 2);
                let (mean, of_grad) = first.split_at(first.len() / 2);
                let (of_product, slope) = last.split_at(mean.len());
                let constants = mean.iter().zip(of_grad).zip(of_product).zip(slope);
                for ((grad, x), (((mean, of_grad), of_product), slope)) in to.iter_mut().zip(x).zip(constants)
                {
                    *grad = (*grad - *of_grad - (*x - *mean) * *of_product) * *slope;
                }
            }
        },
    );
}
