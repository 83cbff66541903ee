//! Resizing and its gradient, sampling at points, and unfolding of windows.

use crate::array::Array;
use crate::compare::{Tolerance, round_to};
use crate::kind::Float;
use crate::operands::{Sum, expect_sums, over_operands, sums, take};
use crate::release;
use crate::row::{Context, Row};
use crate::support::{expect_float, floats, over_layouts};
use burn_backend::ops::{
    GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions, UnfoldOptions,
};
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["interpolate", "interpolate_backward"], interpolate),
        Row::new(&["float_grid_sample_2d"], grid_sample),
        Row::new(&["float_grid_sample_2d"], grid_sample_far),
        Row::new(&["unfold4d"], unfold),
    ]
}

/// Elements of an axis with their weights in an output. `None` is an element outside of the image.
type Taps = Vec<(Option<usize>, f64)>;

/// Keys' cubic convolution with `a = -0.75`.
fn cubic(x: f64) -> f64 {
    let (a, x) = (-0.75, x.abs());
    match x {
        _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// The Lanczos kernel with three lobes.
fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| {
        let x = std::f64::consts::PI * x;
        if x == 0.0 { 1.0 } else { x.sin() / x }
    };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// The elements of an axis of `input` elements that contribute to output `i` of `output`, and their weights.
fn resize_taps(i: usize, input: usize, output: usize, mode: &InterpolateMode, align: bool) -> Taps {
    let (size, last) = (input as f64, input as f64 - 1.0);
    let x = match align {
        true if output > 1 => i as f64 * last / (output as f64 - 1.0),
        true => 0.0,
        false => (i as f64 + 0.5) * size / output as f64 - 0.5,
    };
    let clamped = |k: f64| Some(k.clamp(0.0, last) as usize);
    let floor = x.floor();
    if release::is_nearest_exact(mode) {
        return vec![(clamped(((i as f64 + 0.5) * size / output as f64).floor()), 1.0)];
    }
    match mode {
        InterpolateMode::Nearest => vec![(Some(i * input / output), 1.0)],
        InterpolateMode::Bilinear => {
            let x = x.clamp(0.0, last);
            let t = x - x.floor();
            vec![(clamped(x.floor()), 1.0 - t), (clamped(x.floor() + 1.0), t)]
        }
        // Beyond the border, the border element repeats.
        InterpolateMode::Bicubic => {
            (-1..=2).map(|k| (clamped(floor + k as f64), cubic(x - floor - k as f64))).collect()
        }
        // Elements beyond the border are skipped, and the other weights are scaled to a sum of one.
        InterpolateMode::Lanczos3 => {
            let all = (-2..=3).map(|k| floor + k as f64).filter(|k| (0.0..=last).contains(k));
            let all: Vec<(f64, f64)> = all.map(|k| (k, lanczos(x - k))).collect();
            let sum: f64 = all.iter().map(|(_, weight)| weight).sum();
            all.into_iter().map(|(k, weight)| (Some(k as usize), weight / sum)).collect()
        }
        #[allow(unreachable_patterns, reason = "Burn 0.21 has no other mode")]
        _ => unreachable!("returned above"),
    }
}

fn interpolate<B: Backend>(context: &Context<'_, B>) {
    const SIZES: [([usize; 2], [usize; 2]); 9] = [
        ([3, 5], [3, 5]),
        ([3, 5], [6, 10]),
        ([4, 6], [2, 3]),
        ([5, 7], [9, 4]),
        ([2, 9], [7, 33]),
        ([7, 33], [3, 8]),
        ([1, 1], [3, 2]),
        ([5, 6], [1, 1]),
        ([9, 1], [4, 17]),
    ];
    use InterpolateMode::{Bicubic, Bilinear, Lanczos3, Nearest};
    for dtype in context.floats(&["interpolate", "interpolate_backward"]) {
        for (from, to) in SIZES {
            for (mode, align) in [Nearest, Bilinear, Bicubic, Lanczos3]
                .into_iter()
                .flat_map(|mode| [false, true].map(|align| (mode.clone(), align)))
            {
                let options = || InterpolateOptions::new(mode.clone()).with_align_corners(align);
                let (x_shape, out_shape) = (vec![2, 3, from[0], from[1]], vec![2, 3, to[0], to[1]]);
                let x = floats(dtype, &x_shape, (-2.0, 2.0), 1);
                let grad = floats(dtype, &out_shape, (-2.0, 2.0), 2);
                let taps = |k: usize| -> Vec<Taps> {
                    (0..to[k]).map(|i| resize_taps(i, from[k], to[k], &mode, align)).collect()
                };
                let (rows, columns) = (taps(0), taps(1));
                // Yields the flat indices of input and output and the weight of every term.
                let visit = |f: &mut dyn FnMut(usize, usize, f64)| {
                    for p in 0..6 {
                        for (i, row) in rows.iter().enumerate() {
                            for (j, column) in columns.iter().enumerate() {
                                let o = (p * to[0] + i) * to[1] + j;
                                for (r, wr) in row {
                                    for (c, wc) in column {
                                        let (Some(r), Some(c)) = (r, c) else { continue };
                                        f((p * from[0] + r) * from[1] + c, o, wr * wc);
                                    }
                                }
                            }
                        }
                    }
                };
                let want = |of: &[Array<f64>]| {
                    let (x, grad) = (of[0].data(), of[1].data());
                    let out = sums(out_shape.clone(), |add| visit(&mut |i, o, weight| add(o, x[i] * weight)));
                    let x_grad =
                        sums(x_shape.clone(), |add| visit(&mut |i, o, weight| add(i, grad[o] * weight)));
                    // Weights come from positions, whose rounding errors grow with the image size.
                    let slip = match mode {
                        InterpolateMode::Nearest => 0.0,
                        _ => (from[0] + from[1]) as f64,
                    };
                    (out.map(|sum| sum.blurred(slip)), x_grad.map(|sum| sum.blurred(slip)))
                };
                let case = format!("{from:?} to {to:?} {mode:?} align {align}");
                over_operands(context, dtype, &case, &[&x, &grad], want, |t, want| {
                    let [x, grad] = take(t);
                    let got = B::interpolate(x.clone(), to, options());
                    expect_sums(context, got, dtype, &want.0)?;
                    let got = B::interpolate_backward(x, grad, to, options());
                    expect_sums(context, got, dtype, &want.1).map_err(|e| format!("gradient: {e}"))
                });
            }
        }
    }
}

/// Maps a position into the axis as the padding mode says.
fn confine(x: f64, size: usize, padding: GridSamplePaddingMode, align: bool) -> f64 {
    let last = size as f64 - 1.0;
    match padding {
        GridSamplePaddingMode::Zeros => x,
        GridSamplePaddingMode::Border => x.clamp(0.0, last),
        GridSamplePaddingMode::Reflection => {
            let (low, high) = if align { (0.0, last) } else { (-0.5, last + 0.5) };
            let mut x = x;
            // Reflects back and forth until the position is inside.
            while high > low && !(low..=high).contains(&x) {
                x = if x < low { 2.0 * low - x } else { 2.0 * high - x };
            }
            if high > low { x.clamp(0.0, last) } else { 0.0 }
        }
    }
}

/// The elements of an axis that contribute to a normalised coordinate, and their weights.
fn sample_taps(
    coordinate: f64,
    size: usize,
    mode: &InterpolateMode,
    padding: GridSamplePaddingMode,
    align: bool,
) -> Taps {
    let extent = size as f64;
    let x = match align {
        true => (coordinate + 1.0) / 2.0 * (extent - 1.0),
        false => ((coordinate + 1.0) * extent - 1.0) / 2.0,
    };
    let element = |k: f64| (0.0..extent).contains(&k).then_some(k as usize);
    match mode {
        InterpolateMode::Nearest => {
            vec![(element(confine(x, size, padding, align).round_ties_even()), 1.0)]
        }
        InterpolateMode::Bilinear => {
            let x = confine(x, size, padding, align);
            let t = x - x.floor();
            vec![(element(x.floor()), 1.0 - t), (element(x.floor() + 1.0), t)]
        }
        // Neighbours are mapped into the axis one by one.
        _ => {
            let floor = x.floor();
            let tap = |k: i32| {
                let at = floor + k as f64;
                (element(confine(at, size, padding, align)), cubic(x - at))
            };
            (-1..=2).map(tap).collect()
        }
    }
}

const MODES: [InterpolateMode; 3] =
    [InterpolateMode::Nearest, InterpolateMode::Bilinear, InterpolateMode::Bicubic];
const PADDINGS: [GridSamplePaddingMode; 3] =
    [GridSamplePaddingMode::Zeros, GridSamplePaddingMode::Border, GridSamplePaddingMode::Reflection];

fn grid_options() -> Vec<(InterpolateMode, GridSamplePaddingMode, bool)> {
    let modes = MODES.into_iter().flat_map(|mode| PADDINGS.map(|padding| (mode.clone(), padding)));
    modes.flat_map(|(mode, padding)| [false, true].map(|align| (mode.clone(), padding, align))).collect()
}

/// Samples of `x` at the points of `grid`.
fn sampled(
    x: &Array<f64>,
    grid: &Array<f64>,
    (mode, padding, align): &(InterpolateMode, GridSamplePaddingMode, bool),
) -> Array<f64> {
    let [batch, channels, height, width] = x.shape().try_into().expect("an image");
    let [_, out_height, out_width, _] = grid.shape().try_into().expect("a grid");
    let mut out = vec![0.0; batch * channels * out_height * out_width];
    let points = out_height * out_width;
    for p in 0..batch * points {
        let taps = |at: usize, size| sample_taps(grid.data()[2 * p + at], size, mode, *padding, *align);
        let (columns, rows) = (taps(0, width), taps(1, height));
        for c in 0..channels {
            let plane = p / points * channels + c;
            let mut sum = Sum::default();
            for (row, wr) in &rows {
                for (column, wc) in &columns {
                    if let (Some(row), Some(column)) = (row, column) {
                        sum.add(x.data()[(plane * height + row) * width + column] * wr * wc);
                    }
                }
            }
            out[plane * points + p % points] = sum.value();
        }
    }
    Array::new(vec![batch, channels, out_height, out_width], out)
}

/// Tolerance for rounding of positions of a few elements, in the arithmetic of the dtype, times slopes of a
/// few per element.
fn sample_tolerance(dtype: DType) -> Tolerance {
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    Tolerance { absolute: epsilon * 8.0, ..Tolerance::ulps(1.0) }
}

fn grid_sample<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_grid_sample_2d"]) {
        for ([height, width], [out_height, out_width]) in
            [([5, 7], [3, 4]), ([4, 9], [2, 17]), ([1, 3], [3, 2]), ([6, 1], [1, 5])]
        {
            for options in grid_options() {
                let x = floats(dtype, &[2, 3, height, width], (-2.0, 2.0), 1);
                let grid = floats(dtype, &[2, out_height, out_width, 2], (-2.5, 2.5), 2)
                    .map(|x| ((x * 8.0).floor() + 0.5) / 8.0);
                let grid = off_ties(dtype, &grid, [width, height], &options);
                let want = |of: &[Array<f64>]| sampled(&of[0], &of[1], &options);
                let case = format!("{height}x{width} at {out_height}x{out_width} {options:?}");
                over_operands(context, dtype, &case, &[&x, &grid], want, |t, want| {
                    let [x, grid] = take(t);
                    let (mode, padding, align) = options.clone();
                    let options =
                        GridSampleOptions::new(mode).with_padding_mode(padding).with_align_corners(align);
                    let got = B::float_grid_sample_2d(x, grid, options);
                    expect_float::<B>(
                        got,
                        dtype,
                        want,
                        sample_tolerance(dtype),
                        8.0 * context.capabilities.slack,
                    )
                });
            }
        }
    }
}

/// Moves coordinates away from ties of nearest sampling, along either axis (the overlapping layouts exchange
/// the two).
fn off_ties(
    dtype: DType,
    grid: &Array<f64>,
    sizes: [usize; 2],
    (_, padding, align): &(InterpolateMode, GridSamplePaddingMode, bool),
) -> Array<f64> {
    let tie = |c: f64, size: usize| {
        let extent = size as f64;
        let x = if *align { (c + 1.0) / 2.0 * (extent - 1.0) } else { ((c + 1.0) * extent - 1.0) / 2.0 };
        let x = confine(x, size, *padding, *align);
        (x - x.floor() - 0.5).abs() < 1e-3
    };
    grid.map(|c| {
        let mut c = round_to(dtype, c);
        while sizes.iter().any(|&size| tie(c, size)) {
            c = round_to(dtype, c + c.abs().max(1.0) / 64.0);
        }
        c
    })
}

/// Points at the exact corners and far outside.
fn grid_sample_far<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_grid_sample_2d"]) {
        let x = floats(dtype, &[1, 2, 5, 7], (-2.0, 2.0), 1);
        // Positions that every dtype computes exactly; none of those far away is a tie.
        let points = [
            -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 0.0, 0.0, 100.0, -100.0, -4.0, 6.0, 1000.0, 0.125, 0.125,
            -2000.0,
        ];
        let grid = Array::new([1, 2, 4, 2], points.to_vec());
        for options in grid_options() {
            let want = |of: &[Array<f64>]| sampled(&of[0], &of[1], &options);
            over_operands(context, dtype, &format!("{options:?}"), &[&x, &grid], want, |t, want| {
                let [x, grid] = take(t);
                let (mode, padding, align) = options.clone();
                let options =
                    GridSampleOptions::new(mode).with_padding_mode(padding).with_align_corners(align);
                let got = B::float_grid_sample_2d(x, grid, options);
                // Positions of thousands of elements may be rounded more coarsely by that factor.
                let tolerance = sample_tolerance(dtype);
                expect_float::<B>(got, dtype, want, tolerance, 4000.0 * context.capabilities.slack)
            });
        }
    }
}

fn unfold<B: Backend>(context: &Context<'_, B>) {
    // Sizes, kernel, stride, padding, dilation.
    let cases = [
        ([2, 3, 5, 7], [2, 3], [1, 1], [0, 0], [1, 1]),
        ([2, 3, 6, 9], [2, 3], [2, 3], [0, 0], [1, 1]),
        ([1, 2, 4, 6], [3, 3], [1, 2], [1, 2], [1, 1]),
        ([1, 17, 7, 9], [2, 2], [3, 1], [0, 1], [2, 3]),
        ([2, 1, 3, 3], [3, 3], [1, 1], [0, 0], [1, 1]),
        ([1, 2, 5, 33], [1, 1], [2, 2], [0, 0], [1, 1]),
    ];
    for dtype in context.floats(&["unfold4d"]) {
        for (shape, kernel, stride, padding, dilation) in cases {
            let x = floats(dtype, &shape, (-2.0, 2.0), 1);
            let [batch, channels, height, width] = shape;
            let count = |k: usize, size: usize| {
                (size + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) / stride[k] + 1
            };
            let (rows, columns) = (count(0, height), count(1, width));
            over_layouts::<B, Float>(context, dtype, &x, |t, x| {
                let area = kernel[0] * kernel[1];
                let want = Array::from_fn([batch, channels * area, rows * columns], |index| {
                    let (tap, at) = (index[1] % area, index[2]);
                    let place = |k: usize, i: usize, tap: usize| {
                        (i * stride[k] + tap * dilation[k]).checked_sub(padding[k])
                    };
                    let row = place(0, at / columns, tap / kernel[1]).filter(|&row| row < height);
                    let column = place(1, at % columns, tap % kernel[1]).filter(|&column| column < width);
                    match (row, column) {
                        (Some(row), Some(column)) => x.at(&[index[0], index[1] / area, row, column]),
                        _ => 0.0,
                    }
                });
                let got = B::unfold4d(t, kernel, UnfoldOptions::new(stride, padding, dilation));
                expect_float::<B>(got, dtype, &want, Tolerance::EXACT, 0.0)
                    .map_err(|e| format!("kernel {kernel:?} {stride:?} {padding:?} {dilation:?}: {e}"))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_keep_what_needs_no_resizing() {
        for mode in [
            InterpolateMode::Nearest,
            InterpolateMode::Bilinear,
            InterpolateMode::Bicubic,
            InterpolateMode::Lanczos3,
        ] {
            for (input, output, align) in [(5, 9, false), (9, 5, true), (7, 3, false), (1, 4, false)] {
                for i in 0..output {
                    let sum: f64 = resize_taps(i, input, output, &mode, align).iter().map(|t| t.1).sum();
                    assert!((sum - 1.0).abs() < 1e-12, "{mode:?} {i} of {input} to {output}: {sum}");
                }
            }
            for i in 0..4 {
                let own: f64 = resize_taps(i, 4, 4, &mode, false)
                    .iter()
                    .filter(|(k, _)| *k == Some(i))
                    .map(|t| t.1)
                    .sum();
                assert!((own - 1.0).abs() < 1e-12, "{mode:?}: {own}");
            }
        }
    }

    #[test]
    fn positions_are_reflected_at_edges_or_centres() {
        let reflect = |x, align| confine(x, 4, GridSamplePaddingMode::Reflection, align);
        assert_eq!([reflect(-1.0, true), reflect(4.0, true), reflect(7.0, true)], [1.0, 2.0, 1.0]);
        assert_eq!([reflect(-1.0, false), reflect(4.25, false), reflect(7.0, false)], [0.0, 2.75, 0.0]);
    }
}
