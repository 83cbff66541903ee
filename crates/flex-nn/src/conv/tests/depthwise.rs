//! Depthwise convolutions.

use super::*;
use crate::conv::choice::{Choice, Direction};
use crate::conv::depthwise::Depthwise;
use flex_math::simd::HasVectors;

/// Channels: as many as such convolutions take at least, and a number that tasks do not share evenly.
const CHANNELS: [usize; 2] = [8, 37];

fn options<const N: usize>(
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
    groups: usize,
) -> ConvOptions<N> {
    ConvOptions { stride, padding, dilation, groups }
}

/// Whether the forward convolution is computed channel by channel, where the level has vectors.
fn is_depthwise<const N: usize>(x: &[usize], w: &[usize], options: &ConvOptions<N>) -> bool {
    let g = Geometry::conv("t", x, w, options).unwrap();
    let choice = Choice::new("t", &g, Direction::Gather, true).unwrap();
    let units = x[0] * options.groups;
    choice.winograd.is_none() && Depthwise::of(&choice.program, units, false).is_some()
        || HasVectors::here().is_none()
}

/// Checks a convolution of f32, f64 and f16 and its gradients. `spatial` has the sizes of the input.
fn check<const N: usize>(spatial: [usize; N], kernel: [usize; N], by: [[usize; N]; 3]) {
    for (batch, channels) in [1, 3].into_iter().zip(CHANNELS) {
        let x: Vec<usize> = [batch, channels].into_iter().chain(spatial).collect();
        let w: Vec<usize> = [channels, 1].into_iter().chain(kernel).collect();
        let [stride, padding, dilation] = by;
        let options = options(stride, padding, dilation, channels);
        assert!(is_depthwise(&x, &w, &options), "{x:?} {w:?} {options:?}");
        check_conv::<f32, N>(&x, &w, &options);
        check_conv::<f64, N>(&x, &w, &options);
        check_conv::<f16, N>(&x, &w, &options);
    }
}

/// Rows shorter and longer than a vector, than each tile, and than several tiles; numbers of rows that tiles
/// divide and not.
#[test]
fn rows_of_every_length() {
    for (high, wide) in [
        (1, 1),
        (7, 7),
        (14, 14),
        (3, 8),
        (9, 15),
        (8, 16),
        (6, 17),
        (5, 31),
        (4, 33),
        (28, 28),
        (13, 47),
        (2, 64),
        (5, 65),
        (9, 100),
        (1, 130),
    ] {
        check([high, wide], [3, 3], [[1, 1], [1, 1], [1, 1]]);
    }
}

/// Kernels of one to three blocks of rows, with and without padding, more on an axis than the kernel needs,
/// and with columns that are not neighbours.
#[test]
fn kernels_of_every_height() {
    for high in 1..=8 {
        check([11, 20], [high, 4], [[1, 1], [high / 2, 2], [1, 1]]);
        check([12, 19], [high, 2], [[1, 1], [0, 0], [1, 1]]);
    }
    check([6, 9], [3, 3], [[1, 1], [5, 20], [1, 1]]);
    check([15, 22], [3, 3], [[1, 1], [2, 3], [2, 3]]);
    check([9, 9], [1, 5], [[1, 1], [0, 2], [1, 1]]);
    check([9, 9], [5, 1], [[1, 1], [2, 0], [1, 1]]);
}

#[test]
fn strides() {
    for (high, wide) in [(7, 7), (14, 15), (9, 34), (56, 56), (5, 131)] {
        check([high, wide], [3, 3], [[2, 2], [1, 1], [1, 1]]);
        check([high, wide], [2, 5], [[2, 2], [0, 2], [1, 1]]);
    }
    check([20, 21], [7, 7], [[2, 2], [3, 3], [1, 1]]);
    check([20, 21], [3, 3], [[1, 2], [1, 1], [1, 1]]);
    check([20, 21], [3, 3], [[2, 1], [1, 1], [1, 1]]);
    check([20, 41], [4, 3], [[3, 3], [1, 1], [1, 1]]);
    check([20, 41], [3, 3], [[2, 2], [2, 2], [2, 2]]);
    check([21, 20], [3, 2], [[4, 2], [3, 2], [1, 1]]);
}

#[test]
fn one_axis() {
    // Shorter and longer than a tile is wide (8, 16 and 64 columns, by the size of vectors), and than
    // several.
    for len in [1, 7, 8, 9, 16, 17, 40, 63, 64, 65, 131, 300] {
        check([len], [3], [[1], [1], [1]]);
        check([len], [4], [[2], [2], [1]]);
    }
    check([200], [4], [[1], [3], [1]]);
    check([150], [3], [[1], [4], [4]]);
    // One row of outputs, with taps in three rows that are neighbours and that are not.
    check([1, 150], [3, 3], [[1, 1], [1, 1], [1, 1]]);
    check([1, 150], [3, 3], [[1, 1], [2, 1], [2, 1]]);
}

/// Channels of their own over three axes, also where windows are deeper than the output, which has one plane.
#[test]
fn three_axes() {
    for (depth, padding) in [(1, [1, 1, 1]), (3, [0, 1, 1]), (4, [1, 0, 0])] {
        for (groups, batch) in [(8, 1), (1, 8)] {
            let x = [batch, groups, depth, 5, 6];
            let w = [groups, 1, 3, 3, 3];
            let options = options([1; 3], padding, [1; 3], groups);
            check_conv::<f32, 3>(&x, &w, &options);
            check_conv::<f16, 3>(&x, &w, &options);
        }
    }
}

/// Planes of more rows than a task holds at a time.
#[test]
fn bands() {
    check([120, 100], [3, 3], [[1, 1], [1, 1], [1, 1]]);
    check([61, 260], [5, 2], [[1, 1], [2, 0], [1, 1]]);
    check([121, 140], [3, 3], [[2, 2], [1, 1], [1, 1]]);
}

#[test]
fn other_convolutions_are_not_computed_channel_by_channel() {
    let forward = |x: [usize; 4], w: [usize; 4], groups| {
        is_depthwise(&x, &w, &options([1, 1], [1, 1], [1, 1], groups)) && HasVectors::here().is_some()
    };
    assert!(!forward([1, 16, 20, 20], [16, 2, 3, 3], 8));
    assert!(!forward([1, 16, 20, 20], [32, 1, 3, 3], 16));
    assert!(!forward([1, 4, 20, 20], [4, 1, 3, 3], 4));
    assert!(!forward([1, 16, 20, 20], [16, 1, 1, 1], 16));
    assert_eq!(forward([1, 8, 40, 40], [8, 1, 32, 32], 8), HasVectors::here().is_some());
    assert!(!forward([1, 8, 40, 40], [8, 1, 33, 32], 8));
}

/// The zeros of the padding must not come from memory that a task used before.
#[test]
fn infinities_stay_in_their_windows() {
    let (high, wide, channels) = (9, 19, 8);
    let mut x = vec![1f32; channels * high * wide];
    x[3 * high * wide + 4 * wide + wide - 1] = f32::INFINITY;
    x[4 * high * wide] = f32::NAN;
    let x = Tensor::from_slice(&x, [1, channels, high, wide]).unwrap();
    let w = Tensor::from_slice(&vec![1f32; channels * 9], [channels, 1, 3, 3]).unwrap();
    let y = conv(x, w, None, &options([1, 1], [1, 1], [1, 1], channels)).unwrap().to_vec::<f32>();
    for (at, y) in y.into_iter().enumerate() {
        let (channel, row, col) = (at / (high * wide), at / wide % high, at % wide);
        let near = |r: usize, c: usize| row.abs_diff(r) <= 1 && col.abs_diff(c) <= 1;
        match channel {
            3 if near(4, wide - 1) => assert_eq!(y, f32::INFINITY, "{row} {col}"),
            4 if near(0, 0) => assert!(y.is_nan(), "{row} {col}"),
            _ => {
                let inside = |at: usize, len: usize| (at.min(1) + 1 + (len - 1 - at).min(1)) as f32;
                assert_eq!(y, inside(row, high) * inside(col, wide), "{channel} {row} {col}");
            }
        }
    }
}

/// A window of the gradient reads an infinity if it reads its place, and not if it reaches over a row's end.
#[test]
fn infinities_count_for_the_taps_that_read_them() {
    let (high, wide, channels) = (9, 19, 8);
    let mut x = vec![1f32; channels * high * wide];
    x[3 * high * wide + 4 * wide + wide - 1] = f32::INFINITY;
    x[5 * high * wide + 4 * wide] = f32::INFINITY;
    let x = Tensor::from_slice(&x, [1, channels, high, wide]).unwrap();
    let grad = Tensor::from_slice(&vec![1f32; channels * high * wide], [1, channels, high, wide]).unwrap();
    let w = Tensor::from_slice(&vec![1f32; channels * 9], [channels, 1, 3, 3]).unwrap();
    let options = options([1, 1], [1, 1], [1, 1], channels);
    let dw = conv_weight_backward(x, w, grad, &options).unwrap().to_vec::<f32>();
    for (at, dw) in dw.into_iter().enumerate() {
        let reads = match (at / 9, at % 3) {
            (3, col) => col > 0,
            (5, col) => col < 2,
            _ => false,
        };
        assert_eq!(dw == f32::INFINITY, reads, "{at}: {dw}");
        assert!(!dw.is_nan(), "{at}");
    }
}

/// Passes that write every second or third row and column of the output.
#[test]
fn transposed_convolutions() {
    for (size, kernel, stride, padding, padding_out) in [
        ([7, 7], [3, 3], [2, 2], [1, 1], [1, 1]),
        ([7, 20], [3, 4], [2, 2], [1, 1], [0, 0]),
        ([14, 17], [2, 2], [2, 2], [0, 0], [0, 0]),
        ([5, 9], [5, 5], [3, 3], [2, 2], [1, 0]),
        ([9, 33], [3, 3], [1, 2], [1, 1], [0, 1]),
        ([9, 33], [3, 3], [2, 1], [1, 1], [1, 0]),
        ([60, 70], [3, 3], [2, 2], [1, 1], [1, 1]),
    ] {
        for (batch, channels) in [1, 3].into_iter().zip(CHANNELS) {
            let [x, w] = [[batch, channels, size[0], size[1]], [channels, 1, kernel[0], kernel[1]]];
            let options =
                ConvTransposeOptions { stride, padding, padding_out, dilation: [1, 1], groups: channels };
            check_transpose::<f32, 2>(&x, &w, &options);
            check_transpose::<f64, 2>(&x, &w, &options);
            check_transpose::<f16, 2>(&x, &w, &options);
        }
    }
}
