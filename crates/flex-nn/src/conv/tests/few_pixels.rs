//! Convolutions of images with few pixels: interleaved images, skipped padding, and gradients of weights with
//! vectors along channels. They have enough products for their programs to be compared.

use super::*;
use flex_math::simd::{self, Level};

#[test]
fn images_with_few_pixels() {
    for (x, w, o) in [
        // Batches of less than a vector, of a vector, and of more; of a prime number; too large to interleave
        // as a whole.
        ([7, 40, 4, 4], [48, 40, 3, 3], options(1, 1, 1, 1)),
        ([16, 32, 4, 4], [40, 32, 3, 3], options(1, 1, 1, 1)),
        ([19, 32, 4, 3], [41, 32, 3, 3], options(1, 1, 1, 1)),
        ([40, 33, 2, 2], [65, 33, 3, 3], options(1, 1, 1, 1)),
        ([37, 33, 2, 2], [65, 33, 3, 3], options(1, 1, 1, 1)),
        // One position, all of whose taps but one are padding; no padding.
        ([16, 130, 1, 1], [130, 130, 3, 3], options(1, 1, 1, 1)),
        ([8, 64, 5, 5], [64, 64, 3, 3], options(1, 0, 1, 1)),
        // Pointwise, with and without stride.
        ([8, 100, 7, 7], [90, 100, 1, 1], options(1, 0, 1, 1)),
        ([16, 128, 8, 8], [70, 128, 1, 1], options(2, 0, 1, 1)),
        // Strides, dilations and groups; other kernels.
        ([16, 32, 8, 8], [72, 32, 3, 3], options(2, 1, 1, 1)),
        ([16, 32, 7, 9], [36, 32, 3, 3], options(3, 2, 1, 1)),
        ([16, 32, 6, 6], [32, 32, 3, 3], options(1, 2, 2, 1)),
        ([16, 96, 4, 4], [72, 48, 3, 3], options(1, 1, 1, 2)),
        ([9, 24, 5, 6], [24, 24, 5, 2], options(1, 2, 1, 1)),
        ([8, 3, 20, 20], [32, 3, 7, 7], options(2, 3, 1, 1)),
    ] {
        check_conv::<f32, 2>(&x, &w, &o);
    }
    check_conv::<f64, 2>(&[16, 32, 4, 4], &[40, 32, 3, 3], &options(1, 1, 1, 1));
    check_conv::<f16, 2>(&[16, 32, 4, 4], &[40, 32, 3, 3], &options(1, 1, 1, 1));
    check_conv::<bf16, 2>(&[16, 32, 8, 8], &[72, 32, 3, 3], &options(2, 1, 1, 1));
    check_conv::<f32, 1>(&[16, 48, 20], &[48, 48, 5], &options(1, 2, 1, 1));
    check_conv::<f32, 3>(&[4, 24, 3, 4, 4], &[24, 24, 3, 3, 3], &options(1, 1, 1, 1));
}

#[test]
fn transposed_images_with_few_pixels() {
    for (stride, padding, padding_out, dilation, groups) in
        [(1, 1, 0, 1, 1), (2, 1, 1, 1, 1), (2, 0, 0, 2, 2), (3, 1, 2, 1, 1)]
    {
        let o = ConvTransposeOptions {
            stride: [stride; 2],
            padding: [padding; 2],
            padding_out: [padding_out; 2],
            dilation: [dilation; 2],
            groups,
        };
        check_transpose::<f32, 2>(&[16, 48, 4, 4], &[48, 40, 3, 3], &o);
        check_transpose::<f32, 2>(&[5, 64, 5, 3], &[64, 64, 3, 4], &o);
    }
}

/// The shapes of ResNet-18 at 64x64 and of the last stage of ResNet-50 take the programs for few pixels;
/// large images do not.
#[test]
fn the_choice_follows_from_the_shape() {
    let choose = |x: [usize; 4], w: [usize; 4], stride, padding, direction| {
        let g = Geometry::conv("t", &x, &w, &options::<2>(stride, padding, 1, 1)).unwrap();
        let choice = Choice::new("t", &g, direction, false).unwrap();
        (choice.images.0, choice::along_channels("t", &g).unwrap().is_some())
    };
    for direction in [Direction::Gather, Direction::Spread] {
        assert_eq!(choose([16, 512, 2, 2], [512, 512, 3, 3], 1, 1, direction), (16, true));
        assert_eq!(choose([16, 256, 4, 4], [512, 256, 3, 3], 2, 1, direction), (16, true));
        // Three vectors of 64 bytes, or five shorter ones.
        let images = if simd::level() == Level::WideVectors { 8 } else { 1 };
        assert_eq!(choose([8, 512, 6, 6], [2048, 512, 1, 1], 1, 0, direction), (images, true));
        assert_eq!(choose([2, 3, 224, 224], [64, 3, 7, 7], 2, 3, direction), (1, false));
        assert_eq!(choose([1, 256, 14, 14], [256, 256, 3, 3], 1, 1, direction).0, 1);
    }
    // Three vectors and one position, which is computed apart.
    assert_eq!(choose([8, 512, 7, 7], [2048, 512, 1, 1], 1, 0, Direction::Gather).0, 1);
}

/// Pointwise convolutions with one or two positions more than whole vectors of f32 and of f64.
#[test]
fn odd_positions() {
    for (size, groups) in [([7, 7], 1), ([5, 5], 2), ([2, 17], 1), ([2, 9], 1), ([3, 5], 1)] {
        let [h, w] = size;
        let (x, w) = ([3, 80, h, w], [140, 80 / groups, 1, 1]);
        check_conv::<f32, 2>(&x, &w, &options(1, 0, 1, groups));
        check_conv::<f64, 2>(&x, &w, &options(1, 0, 1, groups));
    }
    // Every second position, through planes.
    check_conv::<f32, 2>(&[2, 80, 14, 14], &[70, 80, 1, 1], &options(2, 0, 1, 1));
}

/// Gradients of weights whose images are summed in parts, and of a batch that cannot be cut.
#[test]
fn gradients_of_many_images() {
    for (batch, summed) in [(12, 6), (13, 13)] {
        let (x, w) = ([batch, 64, 16, 17], [9, 64, 3, 3]);
        let g = Geometry::conv("t", &x, &w, &options::<2>(1, 1, 1, 1)).unwrap();
        assert_eq!(choice::along_channels("t", &g).unwrap().unwrap().summed, summed);
        check_conv::<f32, 2>(&x, &w, &options(1, 1, 1, 1));
    }
}

/// One output channel with one pixel: the last position of the last run is computed apart, for each part of
/// the images.
#[test]
fn gradients_of_one_pixel_of_many_images() {
    for (x, w) in [([64, 2731, 3], [1, 2731, 3]), ([128, 4097, 1], [1, 4097, 1])] {
        check_conv::<f32, 1>(&x, &w, &options(1, 0, 1, 1));
    }
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn results_with_few_pixels_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (x, w) = (random::<f32>(&[16, 64, 5, 5], 1), random::<f32>(&[72, 64, 3, 3], 2));
            let o = options::<2>(1, 1, 1, 1);
            let y = conv(x.clone(), w.clone(), None, &o).unwrap();
            let dx = conv_x_backward(x.clone(), w.clone(), y.clone(), &o).unwrap();
            let dw = conv_weight_backward(x, w, y.clone(), &o).unwrap();
            [y, dx, dw].map(|t| t.to_vec::<f32>())
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(5));
}

#[test]
fn infinities_stay_in_their_windows_with_few_pixels() {
    let o = options::<2>(1, 1, 1, 1);
    let mut xv = values(16 * 40 * 16, 1);
    // The first pixel of image 3, and the last of image 5.
    xv[3 * 40 * 16] = f64::INFINITY;
    xv[5 * 40 * 16 + 15] = f64::NAN;
    let (x, w) = (tensor::<f32>(&xv, &[16, 40, 4, 4]), random::<f32>(&[40, 40, 3, 3], 2));
    let y = to_f64::<f32>(&conv(x.clone(), w.clone(), None, &o).unwrap());
    let bad = |y: &[f64]| y.iter().filter(|v| !v.is_finite()).count();
    // A coefficient of zero would make NaN of infinity.
    assert_eq!(bad(&y), 40 * (4 + 4));
    let dw = conv_weight_backward(x, w, random::<f32>(&[16, 40, 4, 4], 5), &o).unwrap();
    let dw = to_f64::<f32>(&dw);
    let (mut want, grad) = (vec![0.0; 40 * 40 * 9], values(16 * 40 * 16, 5));
    products(&[16, 40, 4, 4], &[40, 40, 3, 3], &[16, 40, 4, 4], &o, |i, w, g| want[w] += xv[i] * grad[g]);
    assert!(dw.iter().zip(&want).all(|(got, want)| got.is_finite() == want.is_finite()));
}

/// To compare programs takes no time that grows with a padding.
#[test]
fn huge_paddings_are_refused_at_once() {
    for padding in [700_001, 3 << 20] {
        let (x, w) = (random::<f32>(&[1, 1, 4, 4], 1), random::<f32>(&[2, 1, 3, 3], 2));
        let error = conv(x, w, None, &options::<2>(1, padding, 1, 1)).unwrap_err().to_string();
        assert!(error.starts_with("conv: "), "{error}");
    }
}
