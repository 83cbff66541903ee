//! Convolutions: stride, padding, dilation and groups, plain, transposed and deformable.

use super::check::Cases;
use super::smooth;
use crate::array::Array;
use burn_backend::Backend;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions};

const RANGE: (f64, f64) = (-1.0, 1.0);

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    plain(cases);
    transposed(cases);
    deformable(cases);
}

/// Kernel, stride, padding, dilation and groups of one spatial axis; the other axes of a case rotate through
/// the list.
const OPTIONS: [(usize, usize, usize, usize, usize); 9] = [
    (3, 1, 0, 1, 1),
    (3, 1, 1, 1, 1),
    (3, 2, 1, 1, 2),
    (2, 3, 0, 1, 1),
    (3, 1, 2, 2, 1),
    (2, 2, 3, 2, 4),
    (1, 1, 0, 1, 1),
    (1, 2, 1, 1, 2),
    (5, 1, 2, 1, 4),
];

/// An option for each spatial axis, different per axis so that mixed-up axes show.
fn per_axis<const N: usize>(k: usize, pick: fn((usize, usize, usize, usize, usize)) -> usize) -> [usize; N] {
    core::array::from_fn(|axis| pick(OPTIONS[(k + 3 * axis) % OPTIONS.len()]))
}

/// Adds the case with and without a bias.
fn with_and_without_bias<B: Backend>(
    cases: &mut Cases<B>,
    method: &'static str,
    name: String,
    (x, weight, channels): (Array<f64>, Array<f64>, usize),
    run: impl Fn(
        burn_backend::tensor::FloatTensor<B>,
        burn_backend::tensor::FloatTensor<B>,
        Option<burn_backend::tensor::FloatTensor<B>>,
    ) -> burn_backend::tensor::FloatTensor<B>
    + Copy
    + 'static,
) {
    let inputs = [x.clone(), weight.clone(), smooth(&[channels], RANGE, 3)];
    cases.add(&[method], format!("{name} with a bias"), inputs, move |[x, w, b]| run(x, w, Some(b)));
    cases.add(&[method], name, [x, weight], move |[x, w]| run(x, w, None));
}

fn plain<B: Backend>(cases: &mut Cases<B>) {
    macro_rules! conv {
        ($method:ident, $n:literal, $size:expr) => {
            for (k, (.., groups)) in OPTIONS.into_iter().enumerate() {
                let (kernel, stride, padding, dilation): ([_; $n], _, _, _) =
                    (per_axis(k, |o| o.0), per_axis(k, |o| o.1), per_axis(k, |o| o.2), per_axis(k, |o| o.3));
                let options = ConvOptions::new(stride, padding, dilation, groups);
                // Sizes that stride and dilation do not divide, large enough for the kernel.
                let sizes: [usize; $n] = core::array::from_fn(|axis| {
                    let window = dilation[axis] * (kernel[axis] - 1) + 1;
                    ($size + axis).max((window + axis).saturating_sub(2 * padding[axis]))
                });
                let x = smooth(&[&[2, 4][..], &sizes].concat(), RANGE, 1);
                let weight = smooth(&[&[4, 4 / groups][..], &kernel].concat(), RANGE, 2);
                let name = format!("{options:?} of {sizes:?} by {kernel:?}");
                // The options are not `Copy`, so each call makes its own.
                let run =
                    move |x, w, b| B::$method(x, w, b, ConvOptions::new(stride, padding, dilation, groups));
                with_and_without_bias(cases, stringify!($method), name, (x, weight, 4), run);
            }
        };
    }
    conv!(conv1d, 1, 6);
    conv!(conv2d, 2, 3);
    conv!(conv3d, 3, 2);
    // One channel in, and depthwise with a multiplier.
    let run = |x, w, b| B::conv2d(x, w, b, ConvOptions::new([1, 1], [1, 1], [1, 1], 1));
    let inputs = (smooth(&[1, 1, 4, 3], RANGE, 1), smooth(&[3, 1, 3, 3], RANGE, 2), 3);
    with_and_without_bias(cases, "conv2d", "one channel in".into(), inputs, run);
    let run = |x, w, b| B::conv2d(x, w, b, ConvOptions::new([1, 2], [1, 0], [1, 1], 3));
    let inputs = (smooth(&[1, 3, 4, 5], RANGE, 1), smooth(&[6, 1, 3, 2], RANGE, 2), 6);
    with_and_without_bias(cases, "conv2d", "depthwise, two for each channel".into(), inputs, run);
}

fn transposed<B: Backend>(cases: &mut Cases<B>) {
    macro_rules! conv {
        ($method:ident, $n:literal, $size:expr) => {
            for (k, (.., groups)) in OPTIONS.into_iter().enumerate() {
                let (kernel, stride, padding, dilation): ([_; $n], [_; $n], [_; $n], [_; $n]) =
                    (per_axis(k, |o| o.0), per_axis(k, |o| o.1), per_axis(k, |o| o.2), per_axis(k, |o| o.3));
                // The padding is limited so that the output has at least one element.
                let sizes: [usize; $n] = core::array::from_fn(|axis| $size + axis);
                let padding: [usize; $n] = core::array::from_fn(|axis| {
                    let full = (sizes[axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1;
                    padding[axis].min((full - 1) / 2)
                });
                // Every other case has the largest output padding that the stride allows.
                let out: [usize; $n] = core::array::from_fn(|axis| (k % 2) * (stride[axis] - 1));
                let options = ConvTransposeOptions::new(stride, padding, out, dilation, groups);
                let x = smooth(&[&[2, 4][..], &sizes].concat(), RANGE, 1);
                let weight = smooth(&[&[4, 4 / groups][..], &kernel].concat(), RANGE, 2);
                let name = format!("{options:?} of {sizes:?} by {kernel:?}");
                let run = move |x, w, b| {
                    B::$method(x, w, b, ConvTransposeOptions::new(stride, padding, out, dilation, groups))
                };
                with_and_without_bias(cases, stringify!($method), name, (x, weight, 4), run);
            }
        };
    }
    conv!(conv_transpose1d, 1, 4);
    conv!(conv_transpose2d, 2, 2);
    conv!(conv_transpose3d, 3, 2);
}

fn deformable<B: Backend>(cases: &mut Cases<B>) {
    // Kernel, stride, padding, dilation, weight groups, offset groups.
    let all = [
        ([3, 3], [1, 1], [1, 1], [1, 1], 1, 1),
        ([3, 2], [1, 2], [0, 1], [1, 2], 2, 1),
        ([2, 2], [2, 1], [1, 0], [1, 1], 1, 2),
        ([1, 3], [1, 1], [0, 1], [1, 1], 2, 2),
    ];
    for (kernel, stride, padding, dilation, groups, offset_groups) in all {
        let size = [4, 5];
        let out: [usize; 2] = core::array::from_fn(|a| {
            (size[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1
        });
        let taps = kernel[0] * kernel[1];
        let x = smooth(&[1, 4, size[0], size[1]], RANGE, 1);
        // Positions between grid points, where bilinear interpolation has a derivative, and beyond the
        // border.
        let offset = smooth(&[1, 2 * offset_groups * taps, out[0], out[1]], (-1.5, 1.5), 2)
            .map(|d| d.floor() + 0.125 + 0.75 * d.fract().abs());
        let weight = smooth(&[2, 4 / groups, kernel[0], kernel[1]], RANGE, 3);
        let mask = smooth(&[1, offset_groups * taps, out[0], out[1]], (0.1, 1.0), 4);
        let bias = smooth(&[2], RANGE, 5);
        let options = move || DeformConvOptions::new(stride, padding, dilation, groups, offset_groups);
        let name = format!("{:?} by {kernel:?}", options());
        cases.add(
            &["deform_conv2d"],
            format!("{name}, mask and bias"),
            [x.clone(), offset.clone(), weight.clone(), mask.clone(), bias.clone()],
            move |[x, offset, w, mask, b]| B::deform_conv2d(x, offset, w, Some(mask), Some(b), options()),
        );
        cases.add(
            &["deform_conv2d"],
            format!("{name}, bias"),
            [x.clone(), offset.clone(), weight.clone(), bias],
            move |[x, offset, w, b]| B::deform_conv2d(x, offset, w, None, Some(b), options()),
        );
        cases.add(
            &["deform_conv2d"],
            format!("{name}, mask"),
            [x.clone(), offset.clone(), weight.clone(), mask],
            move |[x, offset, w, mask]| B::deform_conv2d(x, offset, w, Some(mask), None, options()),
        );
        cases.add(&["deform_conv2d"], name, [x, offset, weight], move |[x, offset, w]| {
            B::deform_conv2d(x, offset, w, None, None, options())
        });
    }
}
