//! Convolution: channels, kernels and options for which no output exists.

use super::{BadCall, calls};
use crate::release::pads;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, UnfoldOptions};
use burn_backend::{Backend, DType};

/// Options of a plain convolution. Calls change single fields, so that bad options bypass `ConvOptions::new`.
fn plain<const N: usize>() -> ConvOptions<N> {
    ConvOptions { stride: [1; N], padding: pads([0; N]), dilation: [1; N], groups: 1 }
}

fn transposed<const N: usize>() -> ConvTransposeOptions<N> {
    ConvTransposeOptions { stride: [1; N], padding: [0; N], padding_out: [0; N], dilation: [1; N], groups: 1 }
}

fn unfold() -> UnfoldOptions {
    UnfoldOptions { stride: [1; 2], padding: [0; 2], dilation: [1; 2] }
}

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    forward(&mut list);
    backward(&mut list);
    transpose(&mut list);
    calls!(list, t,
        "unfold4d", "an input of three axes": unfold4d(t.f(&[2, 4, 4]), [2, 2], unfold());
        "unfold4d", "a kernel of zero": unfold4d(t.f(&[1, 2, 4, 4]), [0, 2], unfold());
        "unfold4d", "a kernel larger than the input": unfold4d(t.f(&[1, 2, 4, 4]), [2, 5], unfold());
        "unfold4d", "a stride of zero":
            unfold4d(t.f(&[1, 2, 4, 4]), [2, 2], UnfoldOptions { stride: [0, 1], ..unfold() });
        "unfold4d", "a dilation of zero":
            unfold4d(t.f(&[1, 2, 4, 4]), [2, 2], UnfoldOptions { dilation: [1, 0], ..unfold() });
        "unfold4d", "a dilated kernel larger than the input":
            unfold4d(t.f(&[1, 2, 4, 4]), [2, 2], UnfoldOptions { dilation: [4, 1], ..unfold() });
        "unfold4d", "a padding that overflows":
            unfold4d(t.f(&[1, 2, 4, 4]), [2, 2], UnfoldOptions { padding: [usize::MAX, 0], ..unfold() });
        "unfold4d", "more windows than memory":
            unfold4d(t.f(&[1, 2, 4, 4]), [2, 2], UnfoldOptions { padding: [1 << 40, 1 << 40], ..unfold() });
    );
    list
}

fn forward<B: Backend>(list: &mut Vec<BadCall<B>>) {
    macro_rules! options {
        ($($fault:literal: $options:expr;)*) => {$(
            calls!(list, t, "conv", $fault: conv2d(t.f(&[1, 4, 6, 6]), t.f(&[4, 4, 3, 3]), None, $options););
        )*};
    }
    options! {
        "a stride of zero": ConvOptions { stride: [1, 0], ..plain() };
        "a dilation of zero": ConvOptions { dilation: [0, 1], ..plain() };
        "no groups": ConvOptions { groups: 0, ..plain() };
        "groups that do not divide the channels": ConvOptions { groups: 3, ..plain() };
        "groups that the weight is not made for": ConvOptions { groups: 2, ..plain() };
        "the largest number of groups": ConvOptions { groups: usize::MAX, ..plain() };
        "a dilated kernel larger than the input": ConvOptions { dilation: [3, 1], ..plain() };
        "a dilated kernel larger than the padded input":
            ConvOptions { dilation: [1, 8], padding: pads([0, 5]), ..plain() };
        "a padding that overflows": ConvOptions { padding: pads([usize::MAX, 0]), ..plain() };
        "a padding whose double wraps": ConvOptions { padding: pads([1 << 63, 0]), ..plain() };
        "a dilation that overflows": ConvOptions { dilation: [usize::MAX, 1], ..plain() };
        "more outputs than memory": ConvOptions { padding: pads([1 << 40, 1 << 40]), ..plain() };
    }
    macro_rules! shapes {
        ($($fault:literal: $method:ident($x:expr, $weight:expr);)*) => {$(
            calls!(list, t, "conv", $fault: $method(t.f(&$x), t.f(&$weight), None, plain()););
        )*};
    }
    shapes! {
        "a pointwise weight for fewer channels": conv2d([1, 4, 5, 5], [2, 3, 1, 1]);
        "a pointwise weight for more channels": conv2d([1, 4, 5, 5], [2, 8, 1, 1]);
        "a pointwise weight for one channel": conv2d([2, 4, 8, 8], [4, 1, 1, 1]);
        "a weight for fewer channels": conv2d([1, 4, 5, 5], [2, 3, 3, 3]);
        "an input of three axes": conv2d([4, 5, 5], [2, 4, 3, 3]);
        "an input of five axes": conv2d([1, 1, 4, 5, 5], [2, 4, 3, 3]);
        "a weight of three axes": conv2d([1, 4, 5, 5], [2, 4, 3]);
        "a scalar weight": conv2d([1, 4, 5, 5], []);
        "a kernel larger than the input": conv2d([1, 4, 5, 5], [2, 4, 6, 1]);
        "a kernel of zero": conv2d([1, 4, 5, 5], [2, 4, 0, 3]);
        "an image of zero": conv2d([1, 4, 0, 5], [2, 4, 1, 1]);
        "a pointwise weight for more channels": conv1d([1, 4, 5], [2, 5, 1]);
        "an input of two axes": conv1d([4, 5], [2, 4, 3]);
        "a weight of four axes": conv1d([1, 4, 5], [2, 4, 3, 3]);
        "a kernel larger than the input": conv1d([1, 4, 5], [2, 4, 6]);
        "a pointwise weight for fewer channels": conv3d([1, 4, 3, 3, 3], [2, 2, 1, 1, 1]);
        "an input of four axes": conv3d([4, 3, 3, 3], [2, 4, 1, 1, 1]);
        "a kernel larger than the input": conv3d([1, 4, 3, 3, 3], [2, 4, 1, 4, 1]);
    }
    calls!(list, t,
        "conv", "a stride of zero":
            conv1d(t.f(&[1, 4, 5]), t.f(&[2, 4, 3]), None, ConvOptions { stride: [0], ..plain() });
        "conv", "a dilation of zero":
            conv3d(t.f(&[1, 1, 3, 3, 3]), t.f(&[2, 1, 2, 2, 2]), None, ConvOptions { dilation: [1, 0, 1], ..plain() });
        "conv", "outputs that the groups do not divide":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[3, 2, 3, 3]), None, ConvOptions { groups: 2, ..plain() });
        "conv", "a bias of another width":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[2, 4, 3, 3]), Some(t.f(&[3])), plain());
        "conv", "a bias of one element":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[2, 4, 1, 1]), Some(t.f(&[1])), plain());
        "conv", "a bias of two axes":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[2, 4, 3, 3]), Some(t.f(&[1, 2])), plain());
        "conv", "a bias of another dtype":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[2, 4, 3, 3]), Some(t.float(DType::F64, &[2])), plain());
        "conv", "a weight of another dtype":
            conv2d(t.f(&[1, 4, 5, 5]), t.float(DType::F16, &[2, 4, 3, 3]), None, plain());
        "conv", "a depthwise weight for other channels":
            conv2d(t.f(&[1, 4, 5, 5]), t.f(&[3, 1, 3, 3]), None, ConvOptions { groups: 4, ..plain() });
    );
}

fn backward<B: Backend>(list: &mut Vec<BadCall<B>>) {
    macro_rules! gradients {
        ($($fault:literal: $x:expr, $weight:expr, $grad:expr, $options:expr;)*) => {$(
            calls!(list, t,
                "conv_x_backward", $fault: conv2d_x_backward(t.f(&$x), t.f(&$weight), t.f(&$grad), $options);
                "conv_weight_backward", $fault:
                    conv2d_weight_backward(t.f(&$x), t.f(&$weight), t.f(&$grad), $options);
            );
        )*};
    }
    gradients! {
        "a gradient of another height": [2, 4, 5, 5], [3, 4, 3, 3], [2, 3, 4, 3], plain();
        "a gradient of other channels": [2, 4, 5, 5], [3, 4, 3, 3], [2, 4, 3, 3], plain();
        "a gradient of another batch": [2, 4, 5, 5], [3, 4, 3, 3], [3, 3, 3, 3], plain();
        "a gradient of three axes": [2, 4, 5, 5], [3, 4, 3, 3], [3, 3, 3], plain();
        "an input of three axes": [4, 5, 5], [3, 4, 3, 3], [2, 3, 3, 3], plain();
        "an input of five axes": [2, 1, 4, 5, 5], [3, 4, 3, 3], [2, 3, 3, 3], plain();
        "a gradient that ignores the stride":
            [2, 4, 5, 5], [3, 4, 3, 3], [2, 3, 3, 3], ConvOptions { stride: [2, 2], ..plain() };
        "a pointwise weight for fewer channels": [2, 4, 5, 5], [3, 2, 1, 1], [2, 3, 5, 5], plain();
        "a stride of zero": [2, 4, 5, 5], [3, 4, 3, 3], [2, 3, 3, 3], ConvOptions { stride: [0, 1], ..plain() };
        "no groups": [2, 4, 5, 5], [3, 4, 3, 3], [2, 3, 3, 3], ConvOptions { groups: 0, ..plain() };
        "a kernel larger than the input": [2, 4, 2, 2], [3, 4, 3, 3], [2, 3, 1, 1], plain();
    }
    calls!(list, t,
        "conv_x_backward", "a gradient of another length":
            conv1d_x_backward(t.f(&[1, 2, 5]), t.f(&[3, 2, 3]), t.f(&[1, 3, 4]), plain());
        "conv_weight_backward", "a gradient of another length":
            conv1d_weight_backward(t.f(&[1, 2, 5]), t.f(&[3, 2, 3]), t.f(&[1, 3, 2]), plain());
        "conv_x_backward", "a gradient of another depth":
            conv3d_x_backward(t.f(&[1, 1, 3, 3, 3]), t.f(&[1, 1, 2, 2, 2]), t.f(&[1, 1, 3, 2, 2]), plain());
        "conv_weight_backward", "a gradient of another depth":
            conv3d_weight_backward(t.f(&[1, 1, 3, 3, 3]), t.f(&[1, 1, 2, 2, 2]), t.f(&[1, 1, 1, 2, 2]), plain());
        "conv_x_backward", "a gradient of another dtype":
            conv2d_x_backward(t.f(&[2, 4, 5, 5]), t.f(&[3, 4, 3, 3]), t.float(DType::F64, &[2, 3, 3, 3]), plain());
        "conv_bias_backward", "a gradient of other channels":
            conv2d_bias_backward(t.f(&[2, 4, 5, 5]), t.f(&[3]), t.f(&[2, 4, 3, 3]));
        "conv_bias_backward", "a gradient of three axes":
            conv2d_bias_backward(t.f(&[2, 4, 5, 5]), t.f(&[3]), t.f(&[2, 3, 3]));
        "conv_bias_backward", "a bias of two axes":
            conv1d_bias_backward(t.f(&[2, 4, 5]), t.f(&[1, 3]), t.f(&[2, 3, 3]));
        "conv_bias_backward", "a gradient of another dtype":
            conv3d_bias_backward(t.f(&[1, 1, 2, 2, 2]), t.f(&[3]), t.float(DType::F16, &[1, 3, 2, 2, 2]));
    );
}

fn transpose<B: Backend>(list: &mut Vec<BadCall<B>>) {
    macro_rules! options {
        ($($fault:literal: $options:expr;)*) => {$(
            calls!(list, t,
                "conv_transpose", $fault:
                    conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 3, 3]), None, $options);
            );
        )*};
    }
    options! {
        "a stride of zero": ConvTransposeOptions { stride: [0, 1], ..transposed() };
        "a dilation of zero": ConvTransposeOptions { dilation: [1, 0], ..transposed() };
        "no groups": ConvTransposeOptions { groups: 0, ..transposed() };
        "groups that do not divide the channels": ConvTransposeOptions { groups: 3, ..transposed() };
        "a padding that leaves no output": ConvTransposeOptions { padding: [3, 0], ..transposed() };
        "a padding that overflows": ConvTransposeOptions { padding: [0, usize::MAX], ..transposed() };
        "an output padding that overflows": ConvTransposeOptions { padding_out: [usize::MAX, 0], ..transposed() };
        "a stride that overflows": ConvTransposeOptions { stride: [usize::MAX, 1], ..transposed() };
        "more outputs than memory": ConvTransposeOptions { stride: [1 << 40, 1 << 40], ..transposed() };
    }
    calls!(list, t,
        "conv_transpose", "a weight for other channels":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[3, 2, 3, 3]), None, transposed());
        "conv_transpose", "a pointwise weight for other channels":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[5, 2, 1, 1]), None, transposed());
        "conv_transpose", "an input of three axes":
            conv_transpose2d(t.f(&[4, 3, 3]), t.f(&[4, 2, 3, 3]), None, transposed());
        "conv_transpose", "a weight of three axes":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[4, 3, 3]), None, transposed());
        "conv_transpose", "a kernel of zero":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 0, 3]), None, transposed());
        "conv_transpose", "a bias of another width":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 3, 3]), Some(t.f(&[4])), transposed());
        "conv_transpose", "a weight of another dtype":
            conv_transpose2d(t.f(&[1, 4, 3, 3]), t.float(DType::F64, &[4, 2, 3, 3]), None, transposed());
        "conv_transpose", "a weight for other channels":
            conv_transpose1d(t.f(&[1, 4, 3]), t.f(&[2, 4, 3]), None, transposed());
        "conv_transpose", "a stride of zero":
            conv_transpose1d(t.f(&[1, 4, 3]), t.f(&[4, 2, 3]), None, ConvTransposeOptions { stride: [0], ..transposed() });
        "conv_transpose", "a weight for other channels":
            conv_transpose3d(t.f(&[1, 4, 2, 2, 2]), t.f(&[2, 4, 1, 1, 1]), None, transposed());
        "conv_transpose_x_backward", "a gradient of other channels":
            conv_transpose2d_x_backward(t.f(&[4, 2, 3, 3]), t.f(&[1, 4, 5, 5]), transposed());
        "conv_transpose_x_backward", "a gradient smaller than the kernel":
            conv_transpose2d_x_backward(t.f(&[4, 2, 3, 3]), t.f(&[1, 2, 2, 5]), transposed());
        "conv_transpose_x_backward", "a gradient of three axes":
            conv_transpose2d_x_backward(t.f(&[4, 2, 3, 3]), t.f(&[2, 5, 5]), transposed());
        "conv_transpose_x_backward", "a gradient of other channels":
            conv_transpose1d_x_backward(t.f(&[4, 2, 3]), t.f(&[1, 3, 5]), transposed());
        "conv_transpose_x_backward", "a gradient of other channels":
            conv_transpose3d_x_backward(t.f(&[4, 2, 1, 1, 1]), t.f(&[1, 3, 2, 2, 2]), transposed());
        "conv_transpose_weight_backward", "a gradient of another height":
            conv_transpose2d_weight_backward(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 3, 3]), t.f(&[1, 2, 6, 5]), transposed());
        "conv_transpose_weight_backward", "a gradient of another batch":
            conv_transpose2d_weight_backward(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 3, 3]), t.f(&[2, 2, 5, 5]), transposed());
        "conv_transpose_weight_backward", "no groups":
            conv_transpose2d_weight_backward(t.f(&[1, 4, 3, 3]), t.f(&[4, 2, 3, 3]), t.f(&[1, 2, 5, 5]),
                ConvTransposeOptions { groups: 0, ..transposed() });
        "conv_transpose_weight_backward", "a gradient of another length":
            conv_transpose1d_weight_backward(t.f(&[1, 4, 3]), t.f(&[4, 2, 3]), t.f(&[1, 2, 4]), transposed());
        "conv_transpose_weight_backward", "a gradient of another depth":
            conv_transpose3d_weight_backward(
                t.f(&[1, 2, 2, 2, 2]), t.f(&[2, 1, 1, 1, 1]), t.f(&[1, 1, 3, 2, 2]), transposed());
        "conv_bias_backward", "a gradient of other channels":
            conv_transpose2d_bias_backward(t.f(&[1, 4, 3, 3]), t.f(&[2]), t.f(&[1, 4, 5, 5]));
    );
}
