//! Convolutions that are computed as products of matrices.

use super::*;
use crate::conv::choice::{Choice, Direction};
use crate::conv::lowering::Lowered;
use crate::skipped::skipped;
use flex_math::simd::{Level, level};

fn options<const N: usize>(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions<N> {
    ConvOptions { stride: [stride; N], padding: [padding; N], dilation: [dilation; N], groups }
}

/// Checks a convolution of f32 and of f64, and that it is computed as a product.
fn check<const N: usize>(x: &[usize], w: &[usize], options: &ConvOptions<N>) {
    let g = Geometry::conv("t", x, w, options).unwrap();
    let choice = Choice::new("t", &g, Direction::Gather, true).unwrap();
    assert!(choice.winograd.is_none(), "{x:?} {w:?}");
    assert!(Lowered::of(&choice.program, 1000).is_some(), "{x:?} {w:?}");
    check_conv::<f32, N>(x, w, options);
    check_conv::<f64, N>(x, w, options);
}

/// Positions that are whole vectors, whole panels and neither; rows that are whole strips and not; and more
/// images than one for each thread.
#[test]
fn pointwise_convolutions() {
    for (x, w) in [
        ([1, 16, 12, 12], [48, 16, 1, 1]),
        ([2, 17, 12, 11], [50, 17, 1, 1]),
        ([1, 20, 14, 14], [101, 20, 1, 1]),
        ([17, 16, 16, 8], [48, 16, 1, 1]),
    ] {
        check::<2>(&x, &w, &options(1, 0, 1, 1));
    }
    check::<2>(&[1, 32, 13, 17], &[98, 16, 1, 1], &options(1, 0, 1, 2));
    check::<1>(&[2, 19, 200], &[53, 19, 1], &options(1, 0, 1, 1));
    check::<3>(&[1, 16, 5, 6, 7], &[49, 16, 1, 1, 1], &options(1, 0, 1, 1));
}

/// Rows of outputs longer and shorter than a vector and than a panel, and more terms than are summed at a
/// time.
#[test]
fn windows_of_planes() {
    check::<2>(&[2, 20, 25, 24], &[48, 20, 1, 1], &options(2, 0, 1, 1));
    check::<2>(&[1, 5, 19, 21], &[49, 5, 3, 3], &options(2, 1, 1, 1));
    check::<2>(&[1, 4, 9, 150], &[50, 4, 2, 5], &options(1, 0, 1, 1));
    check::<2>(&[2, 12, 20, 9], &[100, 6, 3, 3], &options(1, 2, 2, 2));
    check::<2>(&[1, 70, 12, 12], &[52, 70, 3, 3], &options(2, 1, 1, 1));
    check::<2>(&[17, 6, 12, 12], &[48, 6, 3, 3], &options(2, 1, 1, 1));
    check::<2>(&[1, 9, 40, 3], &[48, 9, 4, 3], &options(1, 1, 1, 1));
    // Rows of one output: as many stretches as a panel has columns.
    check::<2>(&[1, 6, 160, 2], &[50, 6, 3, 2], &options(1, 0, 1, 1));
    check::<2>(&[1, 6, 160, 4], &[50, 6, 3, 3], &options(2, 0, 1, 1));
    check::<3>(&[1, 3, 6, 7, 8], &[51, 3, 3, 2, 3], &options(2, 1, 1, 1));
    check::<1>(&[2, 7, 130], &[60, 7, 7], &options(3, 3, 1, 1));
}

/// Fewer positions than a panel has columns, down to fewer than a vector has.
#[test]
fn few_positions() {
    if level() == Level::WideVectors {
        return skipped("the widest vectors are summed over windows");
    }
    for side in 2..7 {
        check::<2>(&[1, 20, side, side], &[50, 20, 1, 1], &options(1, 0, 1, 1));
        check::<2>(&[1, 7, 2 * side, 2 * side], &[61, 7, 3, 3], &options(2, 1, 1, 1));
    }
    check::<1>(&[2, 33, 5], &[48, 33, 1], &options(1, 0, 1, 1));
}

/// The choice of layers of ResNet-50.
#[test]
fn layers_with_many_channels_are_products() {
    let choose = |x: [usize; 4], w: [usize; 4], stride, padding| {
        let g = Geometry::conv("t", &x, &w, &options::<2>(stride, padding, 1, 1)).unwrap();
        let choice = Choice::new("t", &g, Direction::Gather, true).unwrap();
        choice.winograd.is_none() && Lowered::of(&choice.program, 1000).is_some()
    };
    assert!(choose([1, 64, 56, 56], [256, 64, 1, 1], 1, 0));
    assert!(choose([1, 1024, 14, 14], [256, 1024, 1, 1], 1, 0));
    assert!(choose([1, 512, 28, 28], [1024, 512, 1, 1], 2, 0));
    assert!(choose([1, 128, 56, 56], [128, 128, 3, 3], 2, 1));
    assert!(choose([1, 512, 14, 14], [512, 512, 3, 3], 2, 1));
    // 49 positions fill three of the widest vectors, and not a panel; with shorter vectors they fill panels.
    assert_eq!(choose([1, 512, 7, 7], [2048, 512, 1, 1], 1, 0), level() != Level::WideVectors);
    // Tiles of shorter vectors have fewer rows, so fewer output channels pay.
    assert_eq!(choose([1, 64, 56, 56], [32, 64, 1, 1], 1, 0), level() != Level::WideVectors);
    // The same for a batch, whose images may be interleaved.
    assert_eq!(choose([8, 512, 14, 14], [512, 512, 3, 3], 2, 1), level() != Level::WideVectors);
}

/// Checks a transposed convolution of f32, f64 and bf16, and that its passes are computed as products where
/// they pay.
fn check_passes<const N: usize>(x: &[usize], w: &[usize], options: &ConvTransposeOptions<N>) {
    let g = Geometry::conv_transpose("t", x, w, options).unwrap();
    let choice = Choice::new("t", &g, Direction::Spread, true).unwrap();
    let lowered = Lowered::of(&choice.program, x[0]);
    let spread = lowered.is_some_and(|lowered| !lowered.is_in_order());
    assert_eq!(spread, level() != Level::WideVectors, "{x:?} {w:?}");
    check_transpose::<f32, N>(x, w, options);
    check_transpose::<f64, N>(x, w, options);
    check_transpose::<bf16, N>(x, w, options);
}

/// Passes whose outputs alternate, of equal numbers and not; outputs without a tap; several blocks of outputs
/// and of channels; groups; one and three axes.
#[test]
fn passes_of_transposed_convolutions() {
    check_passes::<2>(&[2, 9, 10, 9], &[9, 30, 4, 4], &transposed_options(2, 1, 0, 1));
    check_passes::<2>(&[2, 20, 7, 6], &[20, 24, 2, 2], &transposed_options(2, 0, 0, 1));
    check_passes::<2>(&[2, 18, 5, 8], &[18, 25, 3, 3], &transposed_options(2, 1, 1, 1));
    check_passes::<2>(&[3, 17, 6, 7], &[17, 26, 3, 3], &transposed_options(2, 1, 0, 1));
    check_passes::<2>(&[2, 16, 6, 7], &[16, 24, 1, 1], &transposed_options(2, 0, 1, 1));
    check_passes::<2>(&[5, 16, 5, 5], &[16, 31, 6, 6], &transposed_options(3, 2, 0, 1));
    check_passes::<2>(&[3, 32, 6, 5], &[32, 24, 4, 4], &transposed_options(2, 1, 0, 2));
    check_passes::<2>(&[6, 16, 3, 4], &[16, 530, 2, 2], &transposed_options(2, 0, 0, 1));
    check_passes::<2>(&[8, 16, 40, 41], &[16, 28, 2, 2], &transposed_options(2, 0, 0, 1));
    check_passes::<2>(&[8, 16, 8, 7], &[16, 130, 2, 2], &transposed_options(2, 0, 0, 1));
    check_passes::<1>(&[2, 17, 50], &[17, 24, 16], &transposed_options(8, 4, 0, 1));
    check_passes::<1>(&[1, 40, 3000], &[40, 25, 4], &transposed_options(2, 1, 0, 1));
    check_passes::<3>(&[2, 16, 3, 4, 5], &[16, 24, 2, 2, 2], &transposed_options(2, 0, 0, 1));
}

/// Input gradients: with a stride of 1, whose coefficients are sorted for one product, and with a stride of
/// 2.
#[test]
fn gradients_of_inputs() {
    for (x, w, stride, padding) in [
        ([1, 25, 12, 13], [7, 25, 5, 5], 1, 2),
        ([2, 50, 9, 8], [4, 50, 2, 3], 1, 1),
        ([4, 48, 12, 12], [20, 48, 3, 3], 2, 1),
        ([3, 26, 9, 9], [16, 26, 1, 1], 2, 0),
    ] {
        check_conv::<f32, 2>(&x, &w, &options(stride, padding, 1, 1));
        check_conv::<f64, 2>(&x, &w, &options(stride, padding, 1, 1));
        check_conv::<f16, 2>(&x, &w, &options(stride, padding, 1, 1));
    }
}
