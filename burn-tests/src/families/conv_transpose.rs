//! Transposed convolution of one, two and three spatial axes, and its gradients.
//!
//! A transposed convolution is the gradient of a convolution with respect to its input: every product that
//! the convolution takes from `x` to the output goes the other way. So the cases are the cases of convolution
//! with input and output exchanged. Elements at the end of an axis that no window of the convolution covers
//! become output padding.

use super::conv::{Geometry, Methods};
use crate::row::Row;
use burn_backend::Backend;
use burn_backend::ops::ConvTransposeOptions;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! methods {
        ($axes:literal, $forward:ident, $x:ident, $weight:ident, $bias:ident) => {
            Methods {
                axes: $axes,
                names: [stringify!($forward), stringify!($x), stringify!($weight), stringify!($bias)],
                forward: |x, w, b, g| B::$forward(x, w, b, options::<$axes>(g)),
                x: |_, w, d, g| B::$x(w, d, options::<$axes>(g)),
                weight: |x, w, d, g| B::$weight(x, w, d, options::<$axes>(g)),
                bias: B::$bias,
                transposed: true,
            }
        };
    }
    let all: [Methods<B>; 3] = [
        methods!(
            1,
            conv_transpose1d,
            conv_transpose1d_x_backward,
            conv_transpose1d_weight_backward,
            conv_transpose1d_bias_backward
        ),
        methods!(
            2,
            conv_transpose2d,
            conv_transpose2d_x_backward,
            conv_transpose2d_weight_backward,
            conv_transpose2d_bias_backward
        ),
        methods!(
            3,
            conv_transpose3d,
            conv_transpose3d_x_backward,
            conv_transpose3d_weight_backward,
            conv_transpose3d_bias_backward
        ),
    ];
    all.into_iter().map(Methods::row).collect()
}

/// Options of the transposed convolution that `g` is the adjoint of.
fn options<const N: usize>(g: &Geometry) -> ConvTransposeOptions<N> {
    let array = |sizes: &[usize]| sizes.try_into().expect("one size for each axis");
    // The elements that the last window does not cover.
    let left = (0..N).map(|k| {
        let reach = g.dilation[k] * (g.kernel[k] - 1) + 1;
        (g.input[k] + 2 * g.padding[k] - reach) % g.stride[k]
    });
    let left: Vec<usize> = left.collect();
    ConvTransposeOptions::new(array(&g.stride), array(&g.padding), array(&left), array(&g.dilation), g.groups)
}
