//! Pools, windows, interpolation, sampling at positions, and the CTC loss.

use super::check::Cases;
use super::{distinct, indices, smooth};
use crate::release;
use burn_backend::Backend;
use burn_backend::ops::{
    GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions, UnfoldOptions,
};

const RANGE: (f64, f64) = (-1.0, 1.0);

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    pools(cases);
    windows(cases);
    interpolation(cases);
    sampling(cases);
    ctc(cases);
}

/// Size, kernel, stride, padding and dilation of one axis.
const OPTIONS: [[usize; 5]; 7] = [
    [7, 2, 2, 0, 1],
    [6, 3, 2, 1, 1],
    [5, 3, 1, 1, 1],
    // The last window starts beyond the border: it counts only in ceil mode.
    [6, 3, 4, 0, 1],
    [8, 2, 3, 1, 2],
    [5, 1, 1, 0, 1],
    [4, 4, 4, 2, 1],
];

fn pools<B: Backend>(cases: &mut Cases<B>) {
    for (k, [size, kernel, stride, padding, dilation]) in OPTIONS.into_iter().enumerate() {
        // The other axis has options of its own.
        let [size2, kernel2, stride2, padding2, dilation2] = OPTIONS[(k + 2) % OPTIONS.len()];
        let (kernels, strides) = ([kernel, kernel2], [stride, stride2]);
        let (paddings, dilations) = ([padding, padding2], [dilation, dilation2]);
        let line = || distinct(&[2, 2, size], 1);
        let plane = || distinct(&[1, 2, size, size2], 1);
        for ceil in [false, true] {
            let name = format!("size {size} kernel {kernel} stride {stride} padding {padding} ceil {ceil}");
            let name2 = format!("sizes {:?} {kernels:?} {strides:?} {paddings:?} ceil {ceil}", [size, size2]);
            for count in [false, true] {
                let (name, name2) = (format!("{name} count {count}"), format!("{name2} count {count}"));
                cases.add(&["avg_pool1d"], name, [line()], move |[x]| {
                    B::avg_pool1d(x, kernel, stride, padding, count, ceil)
                });
                cases.add(&["avg_pool2d"], name2, [plane()], move |[x]| {
                    B::avg_pool2d(x, kernels, strides, paddings, count, ceil)
                });
            }
            let name = format!("{name} dilation {dilation}");
            cases.add(&["max_pool1d"], name.clone(), [line()], move |[x]| {
                B::max_pool1d(x, kernel, stride, padding, dilation, ceil)
            });
            cases.add(&["max_pool1d_with_indices"], name, [line()], move |[x]| {
                release::max_pool1d_with_indices::<B>(x, kernel, stride, padding, dilation, ceil).output
            });
            let name2 = format!("{name2} dilation {dilations:?}");
            cases.add(&["max_pool2d"], name2.clone(), [plane()], move |[x]| {
                B::max_pool2d(x, kernels, strides, paddings, dilations, ceil)
            });
            cases.add(&["max_pool2d_with_indices"], name2, [plane()], move |[x]| {
                release::max_pool2d_with_indices::<B>(x, kernels, strides, paddings, dilations, ceil).output
            });
        }
    }
    for (size, out) in [(6, 3), (7, 3), (5, 5), (4, 1), (3, 7)] {
        cases.add(
            &["adaptive_avg_pool1d"],
            format!("{size} to {out}"),
            [smooth(&[2, 2, size], RANGE, 1)],
            move |[x]| B::adaptive_avg_pool1d(x, out),
        );
        cases.add(
            &["adaptive_avg_pool2d"],
            format!("[{size}, 5] to [{out}, 2]"),
            [smooth(&[1, 2, size, 5], RANGE, 1)],
            move |[x]| B::adaptive_avg_pool2d(x, [out, 2]),
        );
    }
}

fn windows<B: Backend>(cases: &mut Cases<B>) {
    for (kernel, stride, padding, dilation) in
        [([2, 3], [1, 1], [0, 0], [1, 1]), ([3, 2], [2, 1], [1, 0], [1, 2]), ([2, 2], [2, 2], [1, 1], [1, 1])]
    {
        let name = format!("{kernel:?} {stride:?} {padding:?} {dilation:?}");
        cases.add(&["unfold4d"], name, [smooth(&[2, 2, 4, 5], RANGE, 1)], move |[x]| {
            B::unfold4d(x, kernel, UnfoldOptions::new(stride, padding, dilation))
        });
    }
}

fn interpolation<B: Backend>(cases: &mut Cases<B>) {
    use InterpolateMode as M;
    for mode in [M::Nearest, M::Bilinear, M::Bicubic, M::Lanczos3] {
        for corners in [true, false] {
            for (from, to) in
                [([4, 5], [7, 9]), ([5, 6], [3, 2]), ([3, 4], [3, 4]), ([4, 3], [1, 1]), ([1, 2], [3, 5])]
            {
                let options = InterpolateOptions::new(mode.clone()).with_align_corners(corners);
                let name = format!("{mode:?} {from:?} to {to:?} corners {corners}");
                cases.add(
                    &["interpolate"],
                    name,
                    [smooth(&[1, 2, from[0], from[1]], RANGE, 1)],
                    move |[x]| B::interpolate(x, to, options.clone()),
                );
            }
        }
    }
}

fn sampling<B: Backend>(cases: &mut Cases<B>) {
    use GridSamplePaddingMode as P;
    for padding in [P::Zeros, P::Border, P::Reflection] {
        for corners in [true, false] {
            let (height, width) = (4, 5);
            // Positions a quarter pixel off the centres, inside the image and up to two pixels outside.
            let mut stream = crate::support::Stream::new(3);
            let grid = crate::array::Array::from_fn([1, 3, 4, 2], |index| {
                let size = if index[3] == 0 { width } else { height } as f64;
                let pixel = stream.int(-2, size as i128 + 1) as f64 + 0.25;
                let unit =
                    if corners { pixel * 2.0 / (size - 1.0) } else { (2.0 * pixel + 1.0) / size } - 1.0;
                (unit * 1048576.0).round() / 1048576.0
            });
            let options = GridSampleOptions::new(InterpolateMode::Bilinear)
                .with_padding_mode(padding)
                .with_align_corners(corners);
            let inputs = [smooth(&[1, 2, height, width], RANGE, 1), grid];
            cases.add(
                &["float_grid_sample_2d"],
                format!("{padding:?} corners {corners}"),
                inputs,
                move |[x, grid]| B::float_grid_sample_2d(x, grid, options.clone()),
            );
        }
    }
}

/// Through a log-softmax: the gradient of the loss itself is defined for the scores before it, as in PyTorch.
fn ctc<B: Backend>(cases: &mut Cases<B>) {
    for blank in [0, 3] {
        for input_lengths in [[6, 6], [6, 4]] {
            let name = format!("blank {blank} lengths {input_lengths:?}");
            let other = if blank == 0 { 3 } else { 0 };
            cases.add(
                &["ctc_loss", "log_softmax"],
                name,
                [smooth(&[6, 2, 4], (-2.0, 2.0), 1)],
                move |[x]| {
                    B::ctc_loss(
                        B::log_softmax(x, 2),
                        // Two equal labels in a row, which need a blank between them; the second target is
                        // shorter.
                        indices::<B>(&[2, 3], &[1, 1, 2, other, 2, 1]),
                        indices::<B>(&[2], &input_lengths),
                        indices::<B>(&[2], &[3, 2]),
                        blank,
                    )
                },
            );
        }
    }
}
