//! Pooling and resampling: windows without elements, gradients and indices of another output.

use super::{BadCall, calls};
use crate::release;
use burn_backend::ops::{GridSampleOptions, InterpolateMode, InterpolateOptions};
use burn_backend::{Backend, DType};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    average(&mut list);
    max(&mut list);
    resample(&mut list);
    list
}

fn average<B: Backend>(list: &mut Vec<BadCall<B>>) {
    macro_rules! windows {
        ($($fault:literal: $kernel:expr, $stride:expr, $padding:expr;)*) => {$(
            calls!(list, t,
                "avg_pool", $fault: avg_pool2d(t.f(&[1, 2, 5, 5]), $kernel, $stride, $padding, true, false);
                "avg_pool", $fault: avg_pool1d(t.f(&[1, 2, 5]), $kernel[1], $stride[1], $padding[1], false, false);
                "avg_pool_backward", $fault:
                    avg_pool2d_backward(t.f(&[1, 2, 5, 5]), t.f(&[1, 2, 4, 4]), $kernel, $stride, $padding, true, true);
            );
        )*};
    }
    windows! {
        "a kernel of zero": [2, 0], [1, 1], [0, 0];
        "a stride of zero": [2, 2], [1, 0], [0, 0];
        "a kernel larger than the input": [2, 9], [1, 1], [0, 0];
        "a kernel larger than the padded input": [2, 9], [1, 1], [0, 1];
        "the largest kernel": [2, usize::MAX], [1, 1], [0, 0];
        "a padding that overflows": [2, 2], [1, 1], [0, usize::MAX];
    }
    calls!(list, t,
        "avg_pool", "an input of three axes": avg_pool2d(t.f(&[2, 5, 5]), [2, 2], [1, 1], [0, 0], true, false);
        "avg_pool", "an input of two axes": avg_pool1d(t.f(&[2, 5]), 2, 1, 0, true, false);
        "avg_pool", "an image of zero": avg_pool2d(t.f(&[1, 2, 0, 5]), [1, 1], [1, 1], [0, 0], true, false);
        "avg_pool_backward", "a gradient of another height":
            avg_pool2d_backward(t.f(&[1, 2, 5, 5]), t.f(&[1, 2, 5, 4]), [2, 2], [1, 1], [0, 0], true, false);
        "avg_pool_backward", "a gradient of other channels":
            avg_pool2d_backward(t.f(&[1, 2, 5, 5]), t.f(&[1, 3, 4, 4]), [2, 2], [1, 1], [0, 0], true, false);
        "avg_pool_backward", "a gradient of another dtype": avg_pool2d_backward(
            t.f(&[1, 2, 5, 5]), t.float(DType::F64, &[1, 2, 4, 4]), [2, 2], [1, 1], [0, 0], true, false);
        "avg_pool_backward", "a gradient of another length":
            avg_pool1d_backward(t.f(&[1, 2, 5]), t.f(&[1, 2, 5]), 2, 1, 0, true, false);
        "adaptive_avg_pool", "an input of three axes": adaptive_avg_pool2d(t.f(&[2, 5, 5]), [2, 2]);
        "adaptive_avg_pool", "an image of zero": adaptive_avg_pool2d(t.f(&[1, 2, 5, 0]), [2, 2]);
        "adaptive_avg_pool", "more outputs than memory": adaptive_avg_pool2d(t.f(&[1, 2, 5, 5]), [1 << 40, 1 << 40]);
        "adaptive_avg_pool", "an input of two axes": adaptive_avg_pool1d(t.f(&[2, 5]), 2);
        "adaptive_avg_pool_backward", "a gradient of three axes":
            adaptive_avg_pool2d_backward(t.f(&[1, 2, 5, 5]), t.f(&[2, 2, 2]));
        "adaptive_avg_pool_backward", "a gradient of another batch":
            adaptive_avg_pool2d_backward(t.f(&[1, 2, 5, 5]), t.f(&[3, 2, 2, 2]));
        "adaptive_avg_pool_backward", "a gradient of other channels":
            adaptive_avg_pool1d_backward(t.f(&[1, 2, 5]), t.f(&[1, 4, 2]));
    );
}

fn max<B: Backend>(list: &mut Vec<BadCall<B>>) {
    macro_rules! windows {
        ($($fault:literal: $kernel:expr, $stride:expr, $padding:expr, $dilation:expr;)*) => {$(
            calls!(list, t,
                "max_pool", $fault:
                    max_pool2d(t.f(&[1, 2, 5, 5]), $kernel, $stride, $padding, $dilation, false);
                "max_pool", $fault:
                    max_pool1d(t.f(&[1, 2, 5]), $kernel[0], $stride[0], $padding[0], $dilation[0], false);
            );
            let name = "max_pool_with_indices";
            list.push(BadCall::new(name, "max_pool2d_with_indices", $fault, |t| {
                let x = t.f(&[1, 2, 5, 5]);
                drop(release::max_pool2d_with_indices::<B>(x, $kernel, $stride, $padding, $dilation, false));
            }));
            list.push(BadCall::new(name, "max_pool1d_with_indices", $fault, |t| {
                let (kernel, stride, padding, dilation) = ($kernel[0], $stride[0], $padding[0], $dilation[0]);
                let x = t.f(&[1, 2, 5]);
                drop(release::max_pool1d_with_indices::<B>(x, kernel, stride, padding, dilation, false));
            }));
        )*};
    }
    windows! {
        "a kernel of zero": [0, 2], [1, 1], [0, 0], [1, 1];
        "a stride of zero": [2, 2], [0, 1], [0, 0], [1, 1];
        "a dilation of zero": [2, 2], [1, 1], [0, 0], [0, 1];
        "a dilated kernel larger than the input": [3, 1], [1, 1], [0, 0], [3, 1];
        "the largest dilation": [2, 1], [1, 1], [0, 0], [usize::MAX, 1];
        "a padding that overflows": [2, 2], [1, 1], [usize::MAX, 0], [1, 1];
    }
    calls!(list, t,
        "max_pool", "an input of three axes": max_pool2d(t.f(&[2, 5, 5]), [2, 2], [1, 1], [0, 0], [1, 1], false);
        "max_pool", "an input of four axes": max_pool1d(t.f(&[1, 2, 5, 5]), 2, 1, 0, 1, false);
        "max_pool", "an image of zero": max_pool2d(t.f(&[1, 2, 0, 5]), [1, 1], [1, 1], [0, 0], [1, 1], false);
    );
    macro_rules! backward {
        ($($fault:literal: $grad:expr, $indices:expr, $values:expr;)*) => {$(
            calls!(list, t,
                "max_pool_backward", $fault: max_pool2d_with_indices_backward(
                    t.f(&[1, 2, 5, 5]), [2, 2], [1, 1], [0, 0], [1, 1], false, t.f(&$grad), t.ints(&$indices, &$values));
            );
        )*};
    }
    backward! {
        "a gradient of another height": [1, 2, 5, 4], [1, 2, 4, 4], [0];
        "a gradient of other channels": [1, 1, 4, 4], [1, 2, 4, 4], [0];
        "indices of another shape": [1, 2, 4, 4], [1, 2, 4, 5], [0];
        "indices of three axes": [1, 2, 4, 4], [2, 4, 4], [0];
        "an index of the size of the plane": [1, 2, 4, 4], [1, 2, 4, 4], [0, 1, 25];
        "a negative index": [1, 2, 4, 4], [1, 2, 4, 4], [-1];
    }
    calls!(list, t,
        "max_pool_backward", "an index that wraps in 32 bits": max_pool2d_with_indices_backward(
            t.f(&[1, 1, 2, 2]), [2, 2], [1, 1], [0, 0], [1, 1], false, t.f(&[1, 1, 1, 1]),
            t.int(DType::I64, &[1, 1, 1, 1], &[1 << 32]));
        "max_pool_backward", "an index of the length": max_pool1d_with_indices_backward(
            t.f(&[1, 2, 5]), 2, 1, 0, 1, false, t.f(&[1, 2, 4]), t.ints(&[1, 2, 4], &[5]));
        "max_pool_backward", "a gradient of another dtype": max_pool1d_with_indices_backward(
            t.f(&[1, 2, 5]), 2, 1, 0, 1, false, t.float(DType::F64, &[1, 2, 4]), t.i(&[1, 2, 4]));
    );
}

fn resample<B: Backend>(list: &mut Vec<BadCall<B>>) {
    let options = InterpolateOptions::new;
    for mode in [
        || InterpolateMode::Nearest,
        || InterpolateMode::Bilinear,
        || InterpolateMode::Bicubic,
        || InterpolateMode::Lanczos3,
    ] {
        macro_rules! interpolate {
            ($($fault:literal: $x:expr, $size:expr;)*) => {$(
                list.push(BadCall::new("interpolate", "interpolate", $fault, move |t| {
                    drop(B::interpolate(t.f(&$x), $size, options(mode())));
                }));
            )*};
        }
        interpolate! {
            "an input of three axes": [2, 5, 5], [3, 3];
            "an image of zero": [1, 2, 5, 0], [3, 3];
            "an output of zero": [1, 2, 5, 5], [0, 3];
            "more outputs than memory": [1, 2, 5, 5], [1 << 40, 1 << 40];
        }
        macro_rules! backward {
            ($($fault:literal: $grad:expr, $size:expr;)*) => {$(
                list.push(BadCall::new("interpolate_backward", "interpolate_backward", $fault, move |t| {
                    drop(B::interpolate_backward(t.f(&[1, 2, 5, 5]), t.f(&$grad), $size, options(mode())));
                }));
            )*};
        }
        backward! {
            "a gradient of another height": [1, 2, 4, 3], [3, 3];
            "a gradient of other channels": [1, 3, 3, 3], [3, 3];
            "an output of zero": [1, 2, 0, 3], [0, 3];
        }
    }
    let sample = |mode| GridSampleOptions::new(mode);
    macro_rules! grid {
        ($($fault:literal: $t:ident => $x:expr, $grid:expr, $mode:ident;)*) => {$(
            list.push(BadCall::new("grid_sample", "float_grid_sample_2d", $fault, move |$t| {
                drop(B::float_grid_sample_2d($x, $grid, sample(InterpolateMode::$mode)));
            }));
        )*};
    }
    grid! {
        "an input of three axes": t => t.f(&[2, 5, 5]), t.f(&[1, 3, 3, 2]), Bilinear;
        "a grid of three axes": t => t.f(&[1, 2, 5, 5]), t.f(&[3, 3, 2]), Bilinear;
        "a grid of three coordinates": t => t.f(&[1, 2, 5, 5]), t.f(&[1, 3, 3, 3]), Nearest;
        "a grid of another batch": t => t.f(&[2, 2, 5, 5]), t.f(&[1, 3, 3, 2]), Bilinear;
        "a grid of another dtype": t => t.f(&[1, 2, 5, 5]), t.float(DType::F64, &[1, 3, 3, 2]), Bicubic;
        "an image of zero": t => t.f(&[1, 2, 0, 5]), t.f(&[1, 3, 3, 2]), Bilinear;
        "a mode that it has not": t => t.f(&[1, 2, 5, 5]), t.f(&[1, 3, 3, 2]), Lanczos3;
    }
}
