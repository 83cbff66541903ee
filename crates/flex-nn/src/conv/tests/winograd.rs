//! Winograd's method against sums in f64.

use super::*;
use crate::conv::images::Images;
use crate::conv::winograd::{Tiling, Winograd};
use crate::skipped::skipped;
use crate::storage::prepared;
use flex_math::simd::HasVectors;

/// The vectors that tiles need; at the baseline, says that the test is skipped.
fn vectors() -> Option<HasVectors> {
    let vectors = HasVectors::here();
    if vectors.is_none() {
        skipped("this process is at the baseline, which computes no tiles");
    }
    vectors
}

/// The larger number; NaN if the second is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if b <= a { a } else { b }
}

/// [`error_of`] for kernels of 3x3.
fn error(x: [usize; 4], rows: usize, padding: [usize; 2], images: usize, reversed: bool) -> f64 {
    error_of([3, 3], x, rows, padding, images, reversed)
}

/// Largest error of the method with any tiling, relative to the largest sum of magnitudes, for a convolution
/// of `x` with `rows` kernels, or for its input gradient.
fn error_of(
    kernel: [usize; 2],
    x: [usize; 4],
    rows: usize,
    padding: [usize; 2],
    images: usize,
    reversed: bool,
) -> f64 {
    let vectors = HasVectors::here().expect("tests ask for vectors first");
    let o = ConvOptions { padding, ..options::<2>(1, 0, 1, 1) };
    let ws = [rows, x[1], kernel[0], kernel[1]];
    let grid = |k: usize| x[k + 2] + 2 * padding[k] + 1 - kernel[k];
    let ys = [x[0], rows, grid(0), grid(1)];
    let [xt, wt, gt] = [(&x, 1), (&ws, 2), (&ys, 3)].map(|(shape, seed)| random::<f32>(shape, seed));
    let (xv, wv, gv) = (to_f64::<f32>(&xt), to_f64::<f32>(&wt), to_f64::<f32>(&gt));
    let (source, shape) = if reversed { (gt, x) } else { (xt, ys) };
    let bias: Vec<f32> = (0..shape[1]).map(|channel| channel as f32 * 0.25).collect();
    let mut want = Sums::new(shape.iter().product());
    let plane = shape[2] * shape[3];
    (0..want.value.len()).for_each(|i| want.add(i, bias[i / plane % shape[1]].into()));
    products(&x, &ws, &ys, &o, |i, w, k| {
        if reversed { want.add(i, gv[k] * wv[w]) } else { want.add(k, xv[i] * wv[w]) }
    });
    let g = Geometry::conv("t", &x, &ws, &o).unwrap().merged();
    assert!(!Tiling::all(&g).is_empty(), "a kernel without tiles");
    let largest = want.magnitude.iter().fold(0.0f64, |largest, &m| largest.max(m));
    let error = |&tiling: &Tiling| {
        let winograd = Winograd::new("t", vectors, &g, tiling, images, reversed).unwrap();
        let (images, shape) = (Images(images), Shape::from(shape));
        let kernels = winograd.kernels(1, &wt).expect("tame kernels");
        let run = |source: Source<'_>, shape, finish: Option<Finish<'_>>| {
            winograd.run("t", 1, source, kernels, &bias, shape, finish)
        };
        let got = to_f64::<f32>(&images.through(&source, &shape, None, run).unwrap());
        let errors = got.iter().zip(&want.value).map(|(got, want)| (got - want).abs());
        errors.fold(0.0, larger)
    };
    Tiling::all(&g).iter().map(error).fold(0.0, larger) / largest
}

#[test]
fn tiles_cover_outputs_of_any_size() {
    let Some(_) = vectors() else { return };
    for reversed in [false, true] {
        for (height, width) in [(3, 3), (4, 5), (6, 6), (7, 2), (2, 9), (9, 8), (14, 14), (5, 67), (70, 6)] {
            for padding in [[0, 0], [1, 1], [2, 2], [0, 1], [2, 1]] {
                if height + 2 * padding[0] < 3 || width + 2 * padding[1] < 3 {
                    continue;
                }
                for (batch, images) in [(1, 1), (2, 1), (3, 3), (10, 5)] {
                    let error = error([batch, 3, height, width], 9, padding, images, reversed);
                    assert!(error < 2e-6, "{height}x{width} {padding:?} {images} {reversed}: {error}");
                }
            }
        }
    }
}

/// Kernels of 3 and 5 along one axis, over rows and over columns: lengths around one, two and more tiles of
/// two and of four outputs, around a vector of tiles, and more tiles than are kept (192).
#[test]
fn tiles_along_one_axis() {
    let Some(_) = vectors() else { return };
    for taps in [3, 5] {
        for len in [1, 2, 3, 4, 5, 6, 7, 9, 31, 32, 33, 65, 391, 801] {
            for padding in 0..taps {
                if len + 2 * padding < taps {
                    continue;
                }
                for (across, batch, images) in [(1, 1, 1), (1, 3, 3), (4, 2, 1), (3, 4, 2)] {
                    for reversed in [false, true] {
                        let of_row =
                            error_of([1, taps], [batch, 5, across, len], 9, [0, padding], images, reversed);
                        assert!(
                            of_row < 2e-6,
                            "{taps} {across}x{len} {padding} {images} {reversed}: {of_row}"
                        );
                    }
                }
                let of_column = error_of([taps, 1], [1, 33, len, 1], 17, [padding, 0], 1, padding == 1);
                assert!(of_column < 2e-6, "{taps} {len} {padding}: {of_column}");
            }
        }
    }
}

/// Channels and output channels around the sizes of blocks (16 and 64 channels, 8 output channels, and 16
/// where 256 and more have one vector of tiles), and as many tiles as are kept (192), and more.
#[test]
fn tiles_of_many_channels() {
    let Some(_) = vectors() else { return };
    for (x, rows) in [
        ([1, 16, 9, 9], 8),
        ([2, 17, 8, 12], 7),
        ([1, 65, 12, 12], 17),
        ([16, 64, 12, 16], 3),
        ([17, 5, 16, 13], 1),
        ([1, 129, 6, 7], 33),
        ([1, 20, 7, 7], 263),
        ([4, 259, 3, 3], 9),
    ] {
        for images in [1, x[0]] {
            for reversed in [false, true] {
                let error = error(x, rows, [1, 1], images, reversed);
                assert!(error < 2e-6, "{x:?} {rows} {images} {reversed}: {error}");
            }
        }
    }
}

#[test]
fn other_kernels_and_strides_have_no_tiles() {
    let make = |kernel: [usize; 2], stride, padding, dilation| {
        let o = options::<2>(stride, padding, dilation, 1);
        let g = Geometry::conv("t", &[2, 4, 9, 9], &[4, 4, kernel[0], kernel[1]], &o).unwrap().merged();
        Tiling::all(&g).len()
    };
    assert_eq!(make([3, 3], 1, 1, 1), 2);
    assert_eq!((make([1, 3], 1, 0, 1), make([1, 5], 1, 0, 1)), (1, 1));
    // A kernel along columns of several elements takes steps of a row.
    for other in [make([3, 2], 1, 1, 1), make([3, 1], 1, 0, 1), make([5, 5], 1, 1, 1), make([1, 7], 1, 0, 1)]
    {
        assert_eq!(other, 0);
    }
    assert_eq!((make([3, 3], 2, 1, 1), make([3, 3], 1, 1, 2), make([3, 3], 1, 3, 1)), (0, 0, 0));
}

/// Operands that tiles are chosen for, but that have values whose transforms overflow.
#[test]
fn huge_values_are_multiplied_directly() {
    let Some(_) = vectors() else { return };
    let (xs, ws) = ([1, 64, 28, 28], [64, 64, 3, 3]);
    let o = options::<2>(1, 1, 1, 1);
    let g = Geometry::conv("t", &xs, &ws, &o).unwrap();
    assert!(Choice::new("t", &g, Direction::Gather, true).unwrap().winograd.is_some());
    let w = random::<f32>(&ws, 2);
    for huge in [f64::INFINITY, f64::NAN, 3e38, 1e12, 1e6, 1e4, 1500.0] {
        let mut xv = values(64 * 28 * 28, 1);
        xv[28 * 14 + 14] = huge;
        let y = conv(tensor::<f32>(&xv, &xs), w.clone(), None, &o).unwrap();
        // Positions outside of the windows of the value are those without it.
        xv[28 * 14 + 14] = 0.0;
        let plain = to_f64::<f32>(&conv(tensor::<f32>(&xv, &xs), w.clone(), None, &o).unwrap());
        for (i, (got, want)) in to_f64::<f32>(&y).into_iter().zip(plain).enumerate() {
            let (row, column) = (i / 28 % 28, i % 28);
            if !(13..=15).contains(&row) || !(13..=15).contains(&column) {
                assert!((got - want).abs() < 1e-3, "{huge} {row} {column}: {got} for {want}");
            }
        }
    }
}

/// Bits of the gradient or the convolution of `x` by `w`.
fn bits(x: &Tensor, w: &Tensor, o: &ConvOptions<2>, reversed: bool) -> Vec<u32> {
    let y = if reversed {
        let [batch, _, height, width] = x.shape()[..] else { unreachable!("four axes") };
        let image = [batch, w.shape()[1] * o.groups, height, width];
        let image = Tensor::full(image, 0.0, DType::F32).unwrap();
        conv_x_backward(image, w.clone(), x.clone(), o)
    } else {
        conv(x.clone(), w.clone(), None, o)
    };
    y.unwrap().to_vec::<f32>().into_iter().map(f32::to_bits).collect()
}

/// The same values in a buffer of their own.
fn fresh(t: &Tensor) -> Tensor {
    Tensor::from_slice(&t.to_vec::<f32>(), t.shape().to_vec()).unwrap()
}

/// Whether a convolution of an image of this side would use prepared points, without a use of the weight.
/// `None` if it does not use tiles.
fn is_prepared(w: &Tensor, o: &ConvOptions<2>, side: usize) -> Option<bool> {
    let xs = [1, w.shape()[1] * o.groups, side, side];
    let g = Geometry::conv("t", &xs, w.shape(), o).unwrap();
    let winograd = Choice::new("t", &g, Direction::Gather, true).unwrap().winograd?;
    Some(winograd.prepared(o.groups, w).is_some())
}

/// Lets forms of weights be kept, whatever `FLEX_PREPARE` says.
fn keep_forms() {
    prepared::set_limit(usize::MAX);
}

/// The sides of images, groups and kernels, with rows that do not fill a block of 8 or 16.
const PREPARED: [(usize, usize, [usize; 4], [usize; 2]); 5] = [
    (28, 1, [64, 64, 3, 3], [1, 1]),
    (28, 2, [74, 48, 3, 3], [1, 1]),
    (28, 1, [129, 96, 1, 3], [0, 1]),
    (28, 1, [128, 160, 1, 5], [0, 2]),
    (7, 1, [263, 64, 3, 3], [1, 1]),
];

#[test]
fn a_weight_that_is_used_again_gives_the_same_bits() {
    let Some(_) = vectors() else { return };
    keep_forms();
    for (side, groups, ws, padding) in PREPARED {
        let o = ConvOptions { padding, ..options::<2>(1, 0, 1, groups) };
        let w = random::<f32>(&ws, 2);
        for reversed in [false, true] {
            let channels = if reversed { ws[0] } else { ws[1] * groups };
            let x = random::<f32>(&[1, channels, side, side], 1);
            let want = bits(&x, &fresh(&w), &o, reversed);
            let w = fresh(&w);
            for call in 1..=4 {
                assert_eq!(bits(&x, &w, &o, reversed), want, "{ws:?} {reversed}: call {call}");
                let prepared = is_prepared(&w, &o, side);
                assert_eq!(prepared, Some(call > 1 && !reversed), "{ws:?} {reversed}: call {call}");
            }
            // The other direction has another form.
            let channels = if reversed { ws[1] * groups } else { ws[0] };
            let other = random::<f32>(&[1, channels, side, side], 3);
            let want = bits(&other, &fresh(&w), &o, !reversed);
            for _ in 0..3 {
                assert_eq!(bits(&other, &w, &o, !reversed), want, "{ws:?} {reversed}: the other direction");
            }
        }
    }
}

#[test]
fn a_weight_that_changes_is_prepared_anew() {
    let Some(_) = vectors() else { return };
    keep_forms();
    let (x, o) = (random::<f32>(&[1, 64, 28, 28], 1), options::<2>(1, 1, 1, 1));
    let mut w = random::<f32>(&[64, 64, 3, 3], 2);
    let mut last = Vec::new();
    for step in 0..3 {
        let want = bits(&x, &fresh(&w), &o, false);
        assert_ne!(want, last);
        for call in 0..3 {
            assert_eq!(bits(&x, &w, &o, false), want, "step {step}, call {call}");
        }
        assert_eq!(is_prepared(&w, &o, 28), Some(true));
        w.dense_mut::<f32>().expect("nobody else has it")[100 * step] += 1.0;
        assert_eq!(is_prepared(&w, &o, 28), Some(false));
        last = want;
    }
    // Values that tiles are not for.
    w.dense_mut::<f32>().expect("nobody else has it")[5] = f32::INFINITY;
    let want = bits(&x, &fresh(&w), &o, false);
    for _ in 0..3 {
        assert_eq!(bits(&x, &w, &o, false), want);
        assert_eq!(is_prepared(&w, &o, 28), Some(false));
    }
}

#[test]
fn views_of_one_buffer_have_forms_of_their_own() {
    let Some(_) = vectors() else { return };
    let (x, o) = (random::<f32>(&[1, 64, 28, 28], 1), options::<2>(1, 1, 1, 1));
    let both = random::<f32>(&[130, 64, 3, 3], 2);
    let views = [(1, 64), (65, 64), (0, 130), (2, 72)].map(|(start, len)| {
        let view = both.clone().narrow(0, start, len).unwrap();
        let want = bits(&x, &fresh(&view), &o, false);
        (view, want)
    });
    for _ in 0..3 {
        for (view, want) in &views {
            assert_eq!(&bits(&x, view, &o, false), want, "{:?}", view.layout());
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
#[cfg(feature = "std")]
fn threads_share_a_weight() {
    let Some(_) = vectors() else { return };
    keep_forms();
    let (x, o) = (random::<f32>(&[1, 64, 28, 28], 1), options::<2>(1, 1, 1, 1));
    for seed in 0..8 {
        let w = random::<f32>(&[80, 64, 3, 3], 2 + seed);
        let want = bits(&x, &fresh(&w), &o, false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..3).for_each(|_| assert_eq!(bits(&x, &w, &o, false), want)));
            }
        });
        assert_eq!(is_prepared(&w, &o, 28), Some(true));
    }
}
