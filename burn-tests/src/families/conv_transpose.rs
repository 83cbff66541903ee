//! Transposed convolution of one, two and three spatial axes, and its gradients.
//!
//! By definition it is the gradient of a convolution with respect to its input: every product that the convolution takes
//! from `x` to the output goes the other way. So the cases are those of convolution with both sides exchanged, and what
//! the convolution's windows leave over at the end of an axis is the output padding.

use super::conv::{Geometry, add_bias, bias_grad, geometries};
use crate::array::Array;
use crate::operands::{expect_sums, over_operands, sums, take};
use crate::row::{Context, Row};
use crate::support::floats;
use burn_backend::Backend;
use burn_backend::ops::ConvTransposeOptions;
use burn_backend::tensor::FloatTensor;

type T<B> = FloatTensor<B>;

/// The methods for some number of axes.
struct Methods<B: Backend> {
    axes: usize,
    names: [&'static str; 4],
    forward: fn(T<B>, T<B>, Option<T<B>>, &Geometry) -> T<B>,
    x: fn(T<B>, T<B>, &Geometry) -> T<B>,
    weight: fn(T<B>, T<B>, T<B>, &Geometry) -> T<B>,
    bias: fn(T<B>, T<B>, T<B>) -> T<B>,
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! methods {
        ($axes:literal, $forward:ident, $x:ident, $weight:ident, $bias:ident) => {
            Methods {
                axes: $axes,
                names: [stringify!($forward), stringify!($x), stringify!($weight), stringify!($bias)],
                forward: |x, w, b, g| B::$forward(x, w, b, options::<$axes>(g)),
                x: |w, d, g| B::$x(w, d, options::<$axes>(g)),
                weight: |x, w, d, g| B::$weight(x, w, d, options::<$axes>(g)),
                bias: B::$bias,
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
    all.into_iter().map(|m| Row::new(&m.names.clone(), move |context| check(context, &m))).collect()
}

/// Options of the transposed convolution that `g` is the adjoint of.
fn options<const N: usize>(g: &Geometry) -> ConvTransposeOptions<N> {
    let array = |sizes: &[usize]| sizes.try_into().expect("one size for each axis");
    // What the last window does not reach.
    let left = (0..N).map(|k| {
        let reach = g.dilation[k] * (g.kernel[k] - 1) + 1;
        (g.input[k] + 2 * g.padding[k] - reach) % g.stride[k]
    });
    let left: Vec<usize> = left.collect();
    ConvTransposeOptions::new(array(&g.stride), array(&g.padding), array(&left), array(&g.dilation), g.groups)
}

fn check<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    for dtype in context.floats(&m.names) {
        for g in geometries(m.axes) {
            // The transposed convolution goes from the output of `g` to its input.
            let (x_shape, out_shape) = (g.out_shape(), g.x_shape());
            let sample = |shape: &[usize], seed| floats(dtype, shape, (-1.0, 1.0), seed);
            let (x, weight) = (sample(&x_shape, 1), sample(&g.weight_shape(), 2));
            let (bias, grad) = (sample(&[g.channels[0]], 3), sample(&out_shape, 4));
            let forward = |of: &[Array<f64>]| {
                let (x, w) = (of[0].data(), of[1].data());
                sums(out_shape.clone(), |add| g.visit(|out, k, i| add(out, x[i] * w[k])))
            };
            let case = format!("adjoint of {g:?}");
            over_operands(context, dtype, &case, &[&x, &weight], forward, |t, want| {
                let [x, w] = take(t);
                expect_sums(context, (m.forward)(x, w, None, &g), dtype, want)
            });
            let biased = |of: &[Array<f64>]| {
                let mut out = forward(of);
                add_bias(&mut out, &of[2]);
                out
            };
            over_operands(context, dtype, &case, &[&x, &weight, &bias], biased, |t, want| {
                let [x, w, b] = take(t);
                expect_sums(context, (m.forward)(x, w, Some(b), &g), dtype, want)
            });
            let gradients = |of: &[Array<f64>]| {
                let [x, w, d] = [0, 1, 2].map(|k| of[k].data());
                let x_grad = sums(x_shape.clone(), |add| g.visit(|out, k, i| add(i, w[k] * d[out])));
                let w_grad = sums(g.weight_shape(), |add| g.visit(|out, k, i| add(k, x[i] * d[out])));
                (x_grad, w_grad)
            };
            over_operands(context, dtype, &case, &[&x, &weight, &grad], gradients, |t, want| {
                let [x, w, d] = take(t);
                let got = (m.x)(w.clone(), d.clone(), &g);
                expect_sums(context, got, dtype, &want.0).map_err(|e| format!("x: {e}"))?;
                let got = (m.weight)(x, w, d, &g);
                expect_sums(context, got, dtype, &want.1).map_err(|e| format!("weight: {e}"))
            });
            let want = |of: &[Array<f64>]| bias_grad(&of[2]);
            over_operands(context, dtype, &case, &[&x, &bias, &grad], want, |t, want| {
                let [x, b, d] = take(t);
                expect_sums(context, (m.bias)(x, b, d), dtype, want)
            });
        }
    }
}
