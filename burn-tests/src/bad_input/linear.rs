//! Matrix products, normalisation and attention: operands that do not fit together.

use super::{BadCall, calls};
use burn_backend::ops::AttentionModuleOptions;
use burn_backend::{Backend, DType, Shape};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    macro_rules! matmul {
        ($make:ident, $method:ident, $expand:ident, $other:expr) => {
            calls!(list, t,
                "matmul", "inner sizes that differ": $method(t.$make(&[2, 3]), t.$make(&[4, 5]));
                "matmul", "transposed operands": $method(t.$make(&[3, 2]), t.$make(&[3, 5]));
                "matmul", "batches that differ": $method(t.$make(&[2, 3, 4]), t.$make(&[3, 4, 5]));
                "matmul", "batches that differ, of one row": $method(t.$make(&[2, 1, 4]), t.$make(&[3, 4, 1]));
                "matmul", "outer batches that differ": $method(t.$make(&[2, 2, 3, 4]), t.$make(&[3, 2, 4, 5]));
                "matmul", "inner batches that differ": $method(t.$make(&[2, 2, 3, 4]), t.$make(&[2, 3, 4, 5]));
                "matmul", "a batch and none": $method(t.$make(&[2, 3, 4]), t.$make(&[0, 4, 5]));
                "matmul", "a vector on the right": $method(t.$make(&[2, 3]), t.$make(&[3]));
                "matmul", "a vector on the left": $method(t.$make(&[3]), t.$make(&[3, 2]));
                "matmul", "scalars": $method(t.$make(&[]), t.$make(&[]));
                "matmul", "another dtype": $method(t.$make(&[2, 3]), $other(t));
                "matmul", "a product that overflows": $method(
                    B::$expand(t.$make(&[1, 1]), Shape::new([1 << 40, 1])),
                    B::$expand(t.$make(&[1, 1]), Shape::new([1, 1 << 40])));
            );
        };
    }
    matmul!(f, float_matmul, float_expand, |t: &super::Fixture<B>| t.float(DType::F64, &[3, 2]));
    matmul!(i, int_matmul, int_expand, |t: &super::Fixture<B>| t.int(DType::I64, &[3, 2], &[1]));
    calls!(list, t,
        "linear", "a weight of one axis": linear(t.f(&[2, 3]), t.f(&[3]), None);
        "linear", "a weight of three axes": linear(t.f(&[2, 3]), t.f(&[1, 3, 4]), None);
        "linear", "a weight of another width": linear(t.f(&[2, 3]), t.f(&[4, 5]), None);
        "linear", "an input without axes": linear(t.f(&[]), t.f(&[1, 5]), None);
        "linear", "a bias of another width": linear(t.f(&[2, 3]), t.f(&[3, 5]), Some(t.f(&[4])));
        "linear", "a bias of two axes": linear(t.f(&[2, 3]), t.f(&[3, 5]), Some(t.f(&[1, 5])));
        "linear", "a weight of another dtype": linear(t.f(&[2, 3]), t.float(DType::F16, &[3, 5]), None);
        "linear", "a bias of another dtype":
            linear(t.f(&[2, 3]), t.f(&[3, 5]), Some(t.float(DType::F64, &[5])));
        "linear_x_backward", "a gradient of another width": linear_x_backward(t.f(&[3, 5]), t.f(&[2, 4]));
        "linear_x_backward", "a weight of one axis": linear_x_backward(t.f(&[5]), t.f(&[2, 5]));
        "linear_x_backward", "another dtype": linear_x_backward(t.f(&[3, 5]), t.float(DType::F64, &[2, 5]));
        "linear_weight_backward", "another number of rows": linear_weight_backward(t.f(&[2, 3]), t.f(&[4, 5]));
        "linear_weight_backward", "other leading axes":
            linear_weight_backward(t.f(&[2, 6, 3]), t.f(&[3, 4, 5]));
        "linear_weight_backward", "another rank": linear_weight_backward(t.f(&[2, 6, 3]), t.f(&[12, 5]));
        "linear_weight_backward", "another dtype":
            linear_weight_backward(t.f(&[2, 3]), t.float(DType::F64, &[2, 5]));
        "linear_bias_backward", "a scalar": linear_bias_backward(t.f(&[]));
        "cross", "a size other than three": float_cross(t.f(&[2, 4]), t.f(&[2, 4]), 1);
        "cross", "an axis out of range": float_cross(t.f(&[2, 3]), t.f(&[2, 3]), 2);
        "cross", "shapes that differ": float_cross(t.f(&[2, 3]), t.f(&[4, 3]), 1);
        "cross", "ranks that differ": float_cross(t.f(&[2, 3]), t.f(&[3]), 1);
        "cross", "another dtype": float_cross(t.f(&[2, 3]), t.float(DType::F64, &[2, 3]), 1);
        "layer_norm", "a scalar": layer_norm(t.f(&[]), t.f(&[1]), None, 1e-5);
        "layer_norm", "a scale of another width": layer_norm(t.f(&[2, 3]), t.f(&[4]), None, 1e-5);
        "layer_norm", "a scale of two axes": layer_norm(t.f(&[2, 3]), t.f(&[1, 3]), None, 1e-5);
        "layer_norm", "a shift of another width":
            layer_norm(t.f(&[2, 3]), t.f(&[3]), Some(t.f(&[2])), 1e-5);
        "layer_norm", "a scale of another dtype":
            layer_norm(t.f(&[2, 3]), t.float(DType::F64, &[3]), None, 1e-5);
    );

    macro_rules! attention {
        ($($fault:literal: $q:expr, $k:expr, $v:expr;)*) => {$(
            calls!(list, t,
                "attention", $fault:
                    attention(t.f(&$q), t.f(&$k), t.f(&$v), None, None, AttentionModuleOptions::default());
            );
        )*};
    }
    attention! {
        "a query of three axes": [2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8];
        "a key of three axes": [1, 2, 4, 8], [2, 4, 8], [1, 2, 4, 8];
        "a value of five axes": [1, 2, 4, 8], [1, 2, 4, 8], [1, 1, 2, 4, 8];
        "another batch of the key": [2, 2, 4, 8], [3, 2, 4, 8], [3, 2, 4, 8];
        "another batch of the value": [2, 2, 4, 8], [2, 2, 4, 8], [1, 2, 4, 8];
        "other heads of the key": [1, 2, 4, 8], [1, 3, 4, 8], [1, 3, 4, 8];
        "another depth of the key": [1, 2, 4, 8], [1, 2, 4, 16], [1, 2, 4, 8];
        "another length of the value": [1, 2, 4, 8], [1, 2, 6, 8], [1, 2, 5, 8];
    }
    let capped = |softcap| AttentionModuleOptions { softcap: Some(softcap), ..Default::default() };
    for softcap in [0.0, -3.0, f64::NAN] {
        list.push(BadCall::new("attention", "attention", "a softcap that is not positive", move |t| {
            let [q, k, v] = [(); 3].map(|()| t.f(&[1, 1, 2, 4]));
            drop(B::attention(q, k, v, None, None, capped(softcap)));
        }));
    }
    macro_rules! extras {
        ($($fault:literal: $t:ident => $value:expr, $mask:expr, $bias:expr;)*) => {$(
            calls!(list, $t,
                "attention", $fault: attention(
                    $t.f(&[1, 2, 3, 8]), $t.f(&[1, 2, 4, 8]), $value, $mask, $bias, AttentionModuleOptions::default());
            );
        )*};
    }
    extras! {
        "a mask of other keys": t => t.f(&[1, 2, 4, 8]), Some(t.b(&[1, 2, 3, 5])), None;
        "a mask of other heads": t => t.f(&[1, 2, 4, 8]), Some(t.b(&[1, 3, 3, 4])), None;
        "a mask of five axes": t => t.f(&[1, 2, 4, 8]), Some(t.b(&[1, 1, 2, 3, 4])), None;
        "a bias of other queries": t => t.f(&[1, 2, 4, 8]), None, Some(t.f(&[1, 2, 2, 4]));
        "a bias of another dtype": t => t.f(&[1, 2, 4, 8]), None, Some(t.float(DType::F64, &[1, 2, 3, 4]));
        "a value of another dtype": t => t.float(DType::F16, &[1, 2, 4, 8]), None, None;
    }
    list
}
