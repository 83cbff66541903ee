//! Activation functions, normalisation and softmax.

use super::check::Cases;
use super::{distinct, smooth};
use burn_backend::Backend;

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    macro_rules! unary {
        ($($method:ident),*) => {
            // Kinks are at zero; the last values make exp overflow or underflow.
            $(
                cases.add(&[stringify!($method)], "", [distinct(&[5, 7], 1)], |[x]| B::$method(x));
                let far = super::Array::new([4], vec![-800.0, 800.0, -40.0, 40.0]);
                cases.add(&[stringify!($method)], "far from zero", [far], |[x]| B::$method(x));
            )*
        };
    }
    unary!(relu, gelu, sigmoid, log_sigmoid);
    for slope in [0.125, 0.0, -0.5] {
        cases.add(&["leaky_relu"], format!("slope {slope}"), [distinct(&[5, 7], 1)], move |[x]| {
            B::leaky_relu(x, slope.into())
        });
    }
    cases.add(&["prelu"], "one slope", [distinct(&[3, 5], 1), smooth(&[1, 1], (0.1, 0.4), 2)], |[x, a]| {
        B::prelu(x, a)
    });
    cases.add(
        &["prelu"],
        "by channel",
        [distinct(&[2, 3, 2], 1), smooth(&[1, 3, 1], (0.1, 0.4), 2)],
        |[x, a]| B::prelu(x, a),
    );
    for (alpha, beta) in [(0.25, 0.5), (0.125, 0.25)] {
        // Multiples of 1/128: intermediate f32 arithmetic of the framework keeps these exact.
        cases.add(&["hard_sigmoid"], format!("{alpha} x + {beta}"), [distinct(&[5, 7], 1)], move |[x]| {
            B::hard_sigmoid(x, alpha.into(), beta.into())
        });
    }
    for (shape, axis) in [(&[3, 5][..], 1), (&[3, 5], 0), (&[2, 3, 4], 1), (&[4, 1], 1), (&[17], 0)] {
        let name = format!("{shape:?} axis {axis}");
        macro_rules! softmax {
            ($($method:ident),*) => {
                $(cases.add(&[stringify!($method)], name.clone(), [smooth(shape, (-3.0, 3.0), 1)], move |[x]| {
                    B::$method(x, axis)
                });)*
            };
        }
        softmax!(softmax, log_softmax, softmin);
    }
    for shape in [&[7][..], &[3, 5], &[2, 3, 4], &[2, 2, 2, 3]] {
        let width = [*shape.last().expect("an axis")];
        let (x, gamma) = (smooth(shape, (-2.0, 2.0), 1), smooth(&width, (0.5, 1.5), 2));
        let name = format!("{shape:?}");
        cases.add(
            &["layer_norm"],
            format!("{name} with a bias"),
            [x.clone(), gamma.clone(), smooth(&width, (-1.0, 1.0), 3)],
            |[x, gamma, beta]| B::layer_norm(x, gamma, Some(beta), 1e-2),
        );
        cases.add(&["layer_norm"], name, [x, gamma], |[x, gamma]| B::layer_norm(x, gamma, None, 0.5));
    }
}
