//! The trait methods of Burn for the operations of the file, and their calls.

use super::Given;
use crate::release::Backend;
use burn_backend::IntDType;
use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, GridSampleOptions, GridSamplePaddingMode,
    InterpolateMode, InterpolateOptions, UnfoldOptions,
};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use serde_json::Value;

/// Calls of one float tensor: the file's name and the method.
macro_rules! unary {
    ($with:ident) => {
        $with! {
            "exp" float_exp, "log" float_log, "log1p" float_log1p, "sqrt" float_sqrt, "sin" float_sin, "cos" float_cos,
            "tan" float_tan, "sinh" float_sinh, "cosh" float_cosh, "tanh" float_tanh, "asin" float_asin,
            "acos" float_acos, "atan" float_atan, "asinh" float_asinh, "acosh" float_acosh, "atanh" float_atanh,
            "erf" float_erf, "recip" float_recip, "floor" float_floor, "ceil" float_ceil, "trunc" float_trunc,
            "round" float_round, "sign" float_sign, "abs" float_abs, "relu" relu, "gelu" gelu, "sigmoid" sigmoid,
            "log_sigmoid" log_sigmoid
        }
    };
}

/// Calls of one float tensor along an axis.
macro_rules! along {
    ($with:ident) => {
        $with! {
            "softmax" softmax, "log_softmax" log_softmax, "cumsum" float_cumsum, "cumprod" float_cumprod,
            "cummax" float_cummax, "cummin" float_cummin, "sum_dim" float_sum_dim, "mean_dim" float_mean_dim,
            "prod_dim" float_prod_dim, "max_dim" float_max_dim, "min_dim" float_min_dim
        }
    };
}

/// The methods that an operation of the file exercises.
pub(super) fn methods(op: &str) -> Option<&'static [&'static str]> {
    macro_rules! names {
        ($($op:literal $method:ident),* $(,)?) => {
            match op {
                $($op => return Some(&[stringify!($method)]),)*
                _ => {}
            }
        };
    }
    unary!(names);
    along!(names);
    Some(match op {
        "leaky_relu" => &["leaky_relu"],
        "hard_sigmoid" => &["hard_sigmoid"],
        "clamp" => &["float_clamp"],
        "powf" => &["float_powf"],
        "remainder" => &["float_remainder"],
        "atan2" => &["float_atan2"],
        "sigmoid_backward" => &["sigmoid", "sigmoid_backward"],
        "gelu_backward" => &["gelu_backward"],
        "log_sigmoid_backward" => &["log_sigmoid_backward"],
        "sort" => &["float_sort", "float_sort_with_indices", "float_argsort"],
        "argmax" => &["float_argmax"],
        "argmin" => &["float_argmin"],
        "layer_norm" => &["layer_norm"],
        "matmul" => &["float_matmul"],
        "linear" => &["linear"],
        "cross" => &["float_cross"],
        "conv1d" => &["conv1d", "conv1d_x_backward", "conv1d_weight_backward", "conv1d_bias_backward"],
        "conv2d" => &["conv2d", "conv2d_x_backward", "conv2d_weight_backward", "conv2d_bias_backward"],
        "conv3d" => &["conv3d", "conv3d_x_backward", "conv3d_weight_backward", "conv3d_bias_backward"],
        "conv_transpose1d" => &[
            "conv_transpose1d",
            "conv_transpose1d_x_backward",
            "conv_transpose1d_weight_backward",
            "conv_transpose1d_bias_backward",
        ],
        "conv_transpose2d" => &[
            "conv_transpose2d",
            "conv_transpose2d_x_backward",
            "conv_transpose2d_weight_backward",
            "conv_transpose2d_bias_backward",
        ],
        "conv_transpose3d" => &[
            "conv_transpose3d",
            "conv_transpose3d_x_backward",
            "conv_transpose3d_weight_backward",
            "conv_transpose3d_bias_backward",
        ],
        "max_pool2d" => &["max_pool2d_with_indices", "max_pool2d_with_indices_backward"],
        "avg_pool2d" => &["avg_pool2d", "avg_pool2d_backward"],
        "adaptive_avg_pool2d" => &["adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"],
        "interpolate" => &["interpolate", "interpolate_backward"],
        "grid_sample" => &["float_grid_sample_2d"],
        "unfold4d" => &["unfold4d"],
        "attention" => &["attention"],
        "ctc_loss" => &["ctc_loss"],
        "embedding" => &["embedding"],
        "rfft" => &["rfft"],
        "irfft" => &["irfft"],
        "gather" => &["float_gather"],
        "scatter_add" => &["float_scatter_add"],
        "select" => &["float_select"],
        "select_add" => &["float_select_add"],
        "int_remainder" => &["int_remainder"],
        "int_div" => &["int_div"],
        "int_powi" => &["int_powi"],
        "bitwise_right_shift" => &["bitwise_right_shift"],
        "bitwise_left_shift" => &["bitwise_left_shift"],
        _ => return None,
    })
}

/// The inputs of a call, taken one after the other.
struct Inputs<B: Backend>(std::vec::IntoIter<Given<B>>);

impl<B: Backend> Inputs<B> {
    fn float(&mut self) -> FloatTensor<B> {
        match self.0.next() {
            Some(Given::Float(t)) => t,
            _ => panic!("the case has no such float input"),
        }
    }

    fn int(&mut self) -> IntTensor<B> {
        match self.0.next() {
            Some(Given::Int(t)) => t,
            _ => panic!("the case has no such integer input"),
        }
    }

    fn mask_or_bias(&mut self) -> (Option<BoolTensor<B>>, Option<FloatTensor<B>>) {
        match self.0.next() {
            Some(Given::Bool(t)) => (Some(t), None),
            Some(Given::Float(t)) => (None, Some(t)),
            _ => (None, None),
        }
    }
}

/// Runs a case and returns what the file holds for the case: the output, then gradients in the order of the
/// inputs.
pub(super) fn call<B: Backend>(op: &str, params: &Value, inputs: Vec<Given<B>>) -> Vec<Given<B>> {
    let mut x = Inputs(inputs.into_iter());
    let number = |name: &str| params[name].as_f64().unwrap_or_else(|| panic!("{op} has no parameter {name}"));
    let size = |name: &str| number(name) as usize;
    let flag = |name: &str| params[name].as_bool().unwrap_or(false);
    let pair = |name: &str| {
        [
            params[name][0].as_u64().expect("a size") as usize,
            params[name][1].as_u64().expect("a size") as usize,
        ]
    };
    macro_rules! unary_calls {
        ($($op:literal $method:ident),* $(,)?) => {
            match op {
                $($op => return vec![Given::Float(B::$method(x.float()))],)*
                _ => {}
            }
        };
    }
    macro_rules! along_calls {
        ($($op:literal $method:ident),* $(,)?) => {
            match op {
                $($op => return vec![Given::Float(B::$method(x.float(), size("dim")))],)*
                _ => {}
            }
        };
    }
    unary!(unary_calls);
    along!(along_calls);
    let floats = |list: Vec<FloatTensor<B>>| list.into_iter().map(Given::Float).collect();
    let float = |t: FloatTensor<B>| vec![Given::Float(t)];
    let int = |t: IntTensor<B>| vec![Given::Int(t)];
    // Forward and backward of a convolution in `N` axes.
    macro_rules! conv {
        ($n:literal, $forward:ident, $x_grad:ident, $weight_grad:ident, $bias_grad:ident) => {{
            let (input, weight, bias, grad) = (x.float(), x.float(), x.float(), x.float());
            let all = |name: &str| [size(name); $n];
            let options = ConvOptions::new(all("stride"), all("padding"), all("dilation"), size("groups"));
            let (i, w, b, g) = (|| input.clone(), || weight.clone(), || bias.clone(), || grad.clone());
            floats(vec![
                B::$forward(i(), w(), Some(b()), options.clone()),
                B::$x_grad(i(), w(), g(), options.clone()),
                B::$weight_grad(i(), w(), g(), options),
                B::$bias_grad(i(), b(), g()),
            ])
        }};
    }
    macro_rules! conv_transpose {
        ($n:literal, $forward:ident, $x_grad:ident, $weight_grad:ident, $bias_grad:ident) => {{
            let (input, weight, bias, grad) = (x.float(), x.float(), x.float(), x.float());
            let all = |name: &str| [size(name); $n];
            let (stride, padding, out) = (all("stride"), all("padding"), all("padding_out"));
            let options = ConvTransposeOptions::new(stride, padding, out, all("dilation"), size("groups"));
            let (i, w, b, g) = (|| input.clone(), || weight.clone(), || bias.clone(), || grad.clone());
            floats(vec![
                B::$forward(i(), w(), Some(b()), options.clone()),
                B::$x_grad(w(), g(), options.clone()),
                B::$weight_grad(i(), w(), g(), options),
                B::$bias_grad(i(), b(), g()),
            ])
        }};
    }
    match op {
        "leaky_relu" => float(B::leaky_relu(x.float(), number("slope").into())),
        "hard_sigmoid" => float(B::hard_sigmoid(x.float(), number("alpha").into(), number("beta").into())),
        "clamp" => float(B::float_clamp(x.float(), number("min").into(), number("max").into())),
        "powf" => float(B::float_powf(x.float(), x.float())),
        "remainder" => float(B::float_remainder(x.float(), x.float())),
        "atan2" => float(B::float_atan2(x.float(), x.float())),
        // Burn's method takes the output of the sigmoid; PyTorch's derivative was computed from the input.
        "sigmoid_backward" => float(B::sigmoid_backward(B::sigmoid(x.float()), x.float())),
        "gelu_backward" => float(B::gelu_backward(x.float(), x.float())),
        "log_sigmoid_backward" => float(B::log_sigmoid_backward(x.float(), x.float())),
        "sort" => {
            let (t, dim, descending) = (x.float(), size("dim"), flag("descending"));
            let (values, indices) = B::float_sort_with_indices(t.clone(), dim, descending, IntDType::I64);
            let alone = B::float_sort(t.clone(), dim, descending);
            let order = B::float_argsort(t, dim, descending, IntDType::I64);
            // The file has one answer; a backend whose two sort methods disagree fails one of the cases.
            let pick = |a, b| if descending { a } else { b };
            let values = if descending { values } else { alone };
            vec![Given::Float(values), Given::Int(pick(indices, order))]
        }
        "argmax" => int(B::float_argmax(x.float(), size("dim"), IntDType::I64)),
        "argmin" => int(B::float_argmin(x.float(), size("dim"), IntDType::I64)),
        "layer_norm" => float(B::layer_norm(x.float(), x.float(), Some(x.float()), number("epsilon"))),
        "matmul" => float(B::float_matmul(x.float(), x.float())),
        "linear" => float(B::linear(x.float(), x.float(), Some(x.float()))),
        "cross" => float(B::float_cross(x.float(), x.float(), size("dim"))),
        "conv1d" => conv!(1, conv1d, conv1d_x_backward, conv1d_weight_backward, conv1d_bias_backward),
        "conv2d" => conv!(2, conv2d, conv2d_x_backward, conv2d_weight_backward, conv2d_bias_backward),
        "conv3d" => conv!(3, conv3d, conv3d_x_backward, conv3d_weight_backward, conv3d_bias_backward),
        "conv_transpose1d" => conv_transpose!(
            1,
            conv_transpose1d,
            conv_transpose1d_x_backward,
            conv_transpose1d_weight_backward,
            conv_transpose1d_bias_backward
        ),
        "conv_transpose2d" => conv_transpose!(
            2,
            conv_transpose2d,
            conv_transpose2d_x_backward,
            conv_transpose2d_weight_backward,
            conv_transpose2d_bias_backward
        ),
        "conv_transpose3d" => conv_transpose!(
            3,
            conv_transpose3d,
            conv_transpose3d_x_backward,
            conv_transpose3d_weight_backward,
            conv_transpose3d_bias_backward
        ),
        "max_pool2d" => {
            let (t, grad) = (x.float(), x.float());
            let [k, s, p, d] = ["kernel", "stride", "padding", "dilation"].map(|name| [size(name); 2]);
            let pooled = crate::release::max_pool2d_with_indices::<B>(t.clone(), k, s, p, d, flag("ceil"));
            let back = B::max_pool2d_with_indices_backward(t, k, s, p, d, flag("ceil"), grad, pooled.indices);
            floats(vec![pooled.output, back.x_grad])
        }
        "avg_pool2d" => {
            let (t, grad) = (x.float(), x.float());
            let [k, s, p] = ["kernel", "stride", "padding"].map(|name| [size(name); 2]);
            let (count, ceil) = (flag("count_pad"), flag("ceil"));
            let pooled = B::avg_pool2d(t.clone(), k, s, p, count, ceil);
            floats(vec![pooled, B::avg_pool2d_backward(t, grad, k, s, p, count, ceil)])
        }
        "adaptive_avg_pool2d" => {
            let (t, grad) = (x.float(), x.float());
            let pooled = B::adaptive_avg_pool2d(t.clone(), pair("out"));
            floats(vec![pooled, B::adaptive_avg_pool2d_backward(t, grad)])
        }
        "interpolate" => {
            let (t, grad) = (x.float(), x.float());
            let options = || InterpolateOptions::new(mode(params)).with_align_corners(flag("align"));
            let y = B::interpolate(t.clone(), pair("out"), options());
            floats(vec![y, B::interpolate_backward(t, grad, pair("out"), options())])
        }
        "grid_sample" => {
            let padding_mode = match params["padding"].as_str() {
                Some("border") => GridSamplePaddingMode::Border,
                Some("reflection") => GridSamplePaddingMode::Reflection,
                _ => GridSamplePaddingMode::Zeros,
            };
            let options =
                GridSampleOptions { mode: mode(params), padding_mode, align_corners: flag("align") };
            float(B::float_grid_sample_2d(x.float(), x.float(), options))
        }
        "unfold4d" => {
            let [k, s, p, d] = ["kernel", "stride", "padding", "dilation"].map(|name| [size(name); 2]);
            float(B::unfold4d(x.float(), k, UnfoldOptions::new(s, p, d)))
        }
        "attention" => {
            let (q, k, v) = (x.float(), x.float(), x.float());
            let (mask, bias) = x.mask_or_bias();
            let scale = params["scale"].as_f64();
            let options = AttentionModuleOptions { scale, softcap: None, is_causal: flag("causal") };
            float(B::attention(q, k, v, mask, bias, options))
        }
        "ctc_loss" => float(B::ctc_loss(x.float(), x.int(), x.int(), x.int(), 0)),
        "embedding" => float(B::embedding(x.float(), x.int())),
        "rfft" => {
            let (re, im) = B::rfft(x.float(), size("dim"), None);
            floats(vec![re, im])
        }
        "irfft" => float(B::irfft(x.float(), x.float(), size("dim"), Some(size("n")))),
        "gather" => {
            let (t, index) = (x.float(), x.int());
            float(B::float_gather(size("dim"), t, index))
        }
        "scatter_add" => {
            let (t, index, values) = (x.float(), x.int(), x.float());
            float(B::float_scatter_add(size("dim"), t, index, values))
        }
        "select" => float(B::float_select(x.float(), size("dim"), x.int())),
        "select_add" => float(B::float_select_add(x.float(), size("dim"), x.int(), x.float())),
        "int_remainder" => int(B::int_remainder(x.int(), x.int())),
        "int_div" => int(B::int_div(x.int(), x.int())),
        "int_powi" => int(B::int_powi(x.int(), x.int())),
        "bitwise_right_shift" => int(B::bitwise_right_shift(x.int(), x.int())),
        "bitwise_left_shift" => int(B::bitwise_left_shift(x.int(), x.int())),
        _ => panic!("{op} is not called"),
    }
}

fn mode(params: &Value) -> InterpolateMode {
    match params["mode"].as_str() {
        Some("nearest") => InterpolateMode::Nearest,
        Some("bicubic") => InterpolateMode::Bicubic,
        _ => InterpolateMode::Bilinear,
    }
}
