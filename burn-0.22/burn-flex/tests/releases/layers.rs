//! Convolutions, pooling and other layers, forward and backward.

use super::super::burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, FloatTensorOps,
    GridSampleOptions, InterpolateMode, InterpolateOptions, ModuleOps, UnfoldOptions,
};
use super::super::{max_pool1d_with_indices, max_pool2d_with_indices};
use super::*;

/// Calls of the modules' methods.
pub fn log(log: &mut Log, dtype: DType) {
    let picture = || tensor(&[2, 4, 6, 5], dtype);
    let row = || tensor(&[2, 4, 9], dtype);
    let volume = || tensor(&[1, 2, 4, 3, 3], dtype);
    let bias = || Some(tensor(&[4], dtype));
    let weight = || tensor(&[4, 2, 3, 3], dtype);
    let conv = || ConvOptions::new([2, 1], [1, 0], [1, 1], 2);
    let heads = || tensor(&[1, 2, 4, 3], dtype);
    calls! { log, dtype.name(),
        embedding(tensor(&[5, 3], dtype), indices(&[4, 0, 2, 2], &[2, 2]));
        embedding_backward(tensor(&[5, 3], dtype), tensor(&[2, 2, 3], dtype), indices(&[4, 0, 2, 2], &[2, 2]));
        linear(tensor(&[2, 3, 4], dtype), tensor(&[4, 4], dtype), bias());
        layer_norm(tensor(&[2, 4], dtype), tensor(&[4], dtype), bias(), 1e-5);
        attention(heads(), heads(), heads(), None, None, AttentionModuleOptions::default());
        conv1d(row(), tensor(&[4, 4, 3], dtype), bias(), ConvOptions::new([1], [2], [2], 1));
        conv2d(picture(), weight(), bias(), conv());
        conv2d_x_backward(picture(), weight(), tensor(&[2, 4, 3, 3], dtype), conv());
        conv2d_weight_backward(picture(), weight(), tensor(&[2, 4, 3, 3], dtype), conv());
        conv2d_bias_backward(picture(), tensor(&[4], dtype), tensor(&[2, 4, 3, 3], dtype));
        conv3d(volume(), tensor(&[4, 2, 2, 2, 2], dtype), bias(), ConvOptions::new([1; 3], [0; 3], [1; 3], 1));
        conv_transpose1d(row(), tensor(&[4, 4, 3], dtype), bias(), ConvTransposeOptions::new([2], [1], [1], [1], 1));
        conv_transpose2d(
            picture(), tensor(&[4, 2, 3, 3], dtype), None, ConvTransposeOptions::new([2; 2], [1; 2], [1; 2], [1; 2], 1),
        );
        deform_conv2d(
            picture(), tensor(&[2, 18, 4, 3], dtype), tensor(&[4, 4, 3, 3], dtype), None, bias(),
            DeformConvOptions::new([1; 2], [0; 2], [1; 2], 1, 1),
        );
        unfold4d(picture(), [2, 2], UnfoldOptions::new([1; 2], [0; 2], [1; 2]));
        avg_pool1d(row(), 3, 2, 1, false, true);
        avg_pool2d(picture(), [2, 3], [2, 1], [1, 1], true, false);
        avg_pool2d_backward(picture(), tensor(&[2, 4, 3, 3], dtype), [2, 3], [2, 1], [0, 0], true, false);
        adaptive_avg_pool1d(row(), 4);
        adaptive_avg_pool2d(picture(), [2, 3]);
        adaptive_avg_pool2d_backward(picture(), tensor(&[2, 4, 2, 3], dtype));
        max_pool1d(row(), 3, 2, 1, 1, false);
        max_pool2d(picture(), [2, 2], [2, 2], [0, 1], [1, 1], true);
        interpolate(picture(), [9, 4], InterpolateOptions::new(InterpolateMode::Nearest));
        interpolate(picture(), [9, 4], InterpolateOptions::new(InterpolateMode::Bilinear).with_align_corners(false));
        interpolate(picture(), [9, 4], InterpolateOptions::new(InterpolateMode::Bicubic));
        interpolate(picture(), [9, 4], InterpolateOptions::new(InterpolateMode::Lanczos3));
        interpolate_backward(
            picture(), tensor(&[2, 4, 9, 4], dtype), [9, 4], InterpolateOptions::new(InterpolateMode::Bilinear),
        );
        float_grid_sample_2d(picture(), tensor(&[2, 3, 3, 2], dtype), GridSampleOptions::new(InterpolateMode::Bilinear));
    }
    backward(log, dtype);
}

/// Calls of the methods that compute gradients.
fn backward(log: &mut Log, dtype: DType) {
    let t = |shape: &[usize]| tensor(shape, dtype);
    let conv1 = || ConvOptions::new([2], [1], [1], 2);
    let conv3 = || ConvOptions::new([1, 2, 1], [0, 1, 0], [1; 3], 1);
    let back1 = || ConvTransposeOptions::new([2], [1], [1], [1], 1);
    let back2 = || ConvTransposeOptions::new([2; 2], [1; 2], [1; 2], [1; 2], 1);
    let back3 = || ConvTransposeOptions::new([2; 3], [1; 3], [1; 3], [1; 3], 1);
    let deform = || DeformConvOptions::new([1; 2], [0; 2], [1; 2], 1, 1);
    let (line, kernel, out) = (|| t(&[2, 4, 9]), || t(&[4, 2, 3]), || t(&[2, 4, 5]));
    let (volume, kernel3, out3) = (|| t(&[1, 2, 4, 4, 3]), || t(&[4, 2, 2, 2, 2]), || t(&[1, 4, 3, 3, 2]));
    calls! { log, dtype.name(),
        linear_x_backward(t(&[4, 5]), t(&[2, 3, 5]));
        linear_weight_backward(t(&[2, 3, 4]), t(&[2, 3, 5]));
        linear_bias_backward(t(&[2, 3, 5]));
        conv1d_x_backward(line(), kernel(), out(), conv1());
        conv1d_weight_backward(line(), kernel(), out(), conv1());
        conv1d_bias_backward(line(), t(&[4]), out());
        conv3d_x_backward(volume(), kernel3(), out3(), conv3());
        conv3d_weight_backward(volume(), kernel3(), out3(), conv3());
        conv3d_bias_backward(volume(), t(&[4]), out3());
        conv_transpose1d_x_backward(t(&[4, 3, 3]), t(&[2, 3, 18]), back1());
        conv_transpose1d_weight_backward(line(), t(&[4, 3, 3]), t(&[2, 3, 18]), back1());
        conv_transpose1d_bias_backward(line(), t(&[3]), t(&[2, 3, 18]));
        conv_transpose2d_x_backward(t(&[4, 2, 3, 3]), t(&[1, 2, 8, 6]), back2());
        conv_transpose2d_weight_backward(t(&[1, 4, 4, 3]), t(&[4, 2, 3, 3]), t(&[1, 2, 8, 6]), back2());
        conv_transpose2d_bias_backward(t(&[1, 4, 4, 3]), t(&[2]), t(&[1, 2, 8, 6]));
        conv_transpose3d(t(&[1, 2, 2, 3, 2]), t(&[2, 2, 3, 3, 3]), Some(t(&[2])), back3());
        conv_transpose3d_x_backward(t(&[2, 2, 3, 3, 3]), t(&[1, 2, 4, 6, 4]), back3());
        conv_transpose3d_weight_backward(t(&[1, 2, 2, 3, 2]), t(&[2, 2, 3, 3, 3]), t(&[1, 2, 4, 6, 4]), back3());
        conv_transpose3d_bias_backward(t(&[1, 2, 2, 3, 2]), t(&[2]), t(&[1, 2, 4, 6, 4]));
        avg_pool1d_backward(line(), t(&[2, 4, 5]), 3, 2, 1, false, false);
        adaptive_avg_pool1d_backward(line(), t(&[2, 4, 4]));
    }
    record(log, format!("deform_conv2d_backward, {}", dtype.name()), || {
        let picture = t(&[2, 4, 6, 5]);
        let grads = Flex::deform_conv2d_backward(
            picture,
            t(&[2, 18, 4, 3]),
            t(&[4, 4, 3, 3]),
            Some(t(&[2, 9, 4, 3])),
            Some(t(&[4])),
            t(&[2, 4, 4, 3]),
            deform(),
        );
        let always = [grads.x_grad, grads.offset_grad, grads.weight_grad];
        texts(always.into_iter().chain(grads.mask_grad).chain(grads.bias_grad))
    });
    let picture = || t(&[2, 3, 6, 5]);
    record(log, format!("max_pool2d_with_indices, {}", dtype.name()), || {
        let (values, places) = max_pool2d_with_indices(picture());
        let back = Flex::max_pool2d_with_indices_backward(
            picture(),
            [3, 2],
            [2, 2],
            [1, 0],
            [1, 1],
            false,
            values.clone(),
            places.clone(),
        );
        texts([values, places, back.x_grad])
    });
    record(log, format!("max_pool1d_with_indices, {}", dtype.name()), || {
        let (values, places) = max_pool1d_with_indices(line());
        let back =
            Flex::max_pool1d_with_indices_backward(line(), 3, 2, 1, 1, false, values.clone(), places.clone());
        texts([values, places, back.x_grad])
    });
    assert!(Flex::has_ctc_loss_backward());
    let scores = || Flex::log_softmax(t(&[5, 2, 4]), 2);
    let (targets, lengths) = (|| indices(&[1, 2, 3, 1, 0, 2], &[2, 3]), |n| indices(&[n, n - 1], &[2]));
    calls! { log, dtype.name(),
        ctc_loss(scores(), targets(), lengths(5), lengths(3), 0);
        ctc_loss_backward(scores(), targets(), lengths(5), lengths(3), t(&[2]), 0);
    }
}
