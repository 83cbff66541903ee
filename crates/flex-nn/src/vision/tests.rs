use super::*;
use crate::{Element, Slice, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const MODES: [Interpolation; 5] = [
    Interpolation::Nearest,
    Interpolation::NearestExact,
    Interpolation::Bilinear,
    Interpolation::Bicubic,
    Interpolation::Lanczos3,
];

fn values(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
        })
        .collect()
}

fn tensor<T: Element>(v: &[f64], shape: impl Into<crate::Shape>) -> Tensor {
    Tensor::from_slice(&v.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>(), shape).unwrap()
}

fn to_f64(t: &Tensor) -> Vec<f64> {
    dispatch!(float "test", t.dtype(), T => Ok(t.to_vec::<T>().into_iter().map(Element::to_f64).collect::<Vec<f64>>()))
        .unwrap()
}

#[track_caller]
fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (k, (&g, &e)) in got.iter().zip(expected).enumerate() {
        let same = g == e || (g.is_nan() && e.is_nan());
        assert!(same || (g - e).abs() <= tolerance, "element {k}: {g}, expected {e}");
    }
}

fn cubic(x: f64) -> f64 {
    let (a, x) = (-0.75, x.abs());
    match x {
        _ if x < 1.0 => (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0,
        _ if x < 2.0 => a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a,
        _ => 0.0,
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc =
        |x: f64| if x == 0.0 { 1.0 } else { (core::f64::consts::PI * x).sin() / (core::f64::consts::PI * x) };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// Weights of all input elements in output `i`, from the definition of the kernel.
fn weights(input: usize, output: usize, i: usize, mode: Interpolation, align: bool) -> Vec<f64> {
    let mut w = vec![0.0; input];
    let x = match (align, output) {
        (true, 1) => 0.0,
        (true, _) => i as f64 * (input - 1) as f64 / (output - 1) as f64,
        _ => (i as f64 + 0.5) * input as f64 / output as f64 - 0.5,
    };
    let clamp = |p: isize| p.clamp(0, input as isize - 1) as usize;
    let near = x.floor() as isize;
    match mode {
        Interpolation::Nearest => w[i * input / output] = 1.0,
        Interpolation::NearestExact => w[(2 * i + 1) * input / (2 * output)] = 1.0,
        Interpolation::Bilinear => {
            for p in near - 1..=near + 2 {
                w[clamp(p)] += (1.0 - (x - p as f64).abs()).max(0.0);
            }
        }
        Interpolation::Bicubic => {
            for p in near - 2..=near + 3 {
                w[clamp(p)] += cubic(x - p as f64);
            }
        }
        Interpolation::Lanczos3 => {
            for (p, w) in w.iter_mut().enumerate() {
                *w = lanczos(x - p as f64);
            }
            let sum: f64 = w.iter().sum();
            w.iter_mut().for_each(|w| *w /= sum);
        }
    }
    w
}

fn check<T: Element>(input: [usize; 2], size: [usize; 2], mode: Interpolation, align: bool, tolerance: f64) {
    let [h, w] = input;
    let x: Vec<f64> = values(6 * h * w, 1).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let g: Vec<f64> = values(6 * size[0] * size[1], 2).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let (mut y, mut dx) = (vec![], vec![0.0; x.len()]);
    for p in 0..6 {
        for i in 0..size[0] {
            let wy = weights(h, size[0], i, mode, align);
            for j in 0..size[1] {
                let wx = weights(w, size[1], j, mode, align);
                let mut sum = 0.0;
                for r in (0..h).filter(|r| wy[*r] != 0.0) {
                    for c in (0..w).filter(|c| wx[*c] != 0.0) {
                        sum += wy[r] * wx[c] * x[(p * h + r) * w + c];
                        dx[(p * h + r) * w + c] += wy[r] * wx[c] * g[(p * size[0] + i) * size[1] + j];
                    }
                }
                y.push(sum);
            }
        }
    }
    let (x, g) = (tensor::<T>(&x, [2, 3, h, w]), tensor::<T>(&g, [2, 3, size[0], size[1]]));
    let out = interpolate(x.clone(), size, mode, align).unwrap();
    assert_eq!(out.shape().as_slice(), [2, 3, size[0], size[1]]);
    assert_close(&to_f64(&out), &y, tolerance);
    let back = interpolate_backward(x, g, size, mode, align).unwrap();
    // Several gradients add up in one element.
    let terms = (size[0] as f64 / h as f64).max(1.0) * (size[1] as f64 / w as f64).max(1.0);
    assert_close(&to_f64(&back), &dx, tolerance * (1.0 + terms));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn resizing_and_its_gradient_match_the_kernel(
        input in [1usize..20, 1..40], size in [1usize..40, 1..40], mode in 0usize..5, align in any::<bool>(),
    ) {
        check::<f64>(input, size, MODES[mode], align, 1e-13);
        check::<f32>(input, size, MODES[mode], align, 2e-6);
    }
}

#[test]
fn half_precision_is_computed_in_f32() {
    for mode in MODES {
        check::<f16>([9, 33], [20, 17], mode, false, 3e-3);
        check::<bf16>([9, 33], [20, 70], mode, true, 3e-2);
    }
}

#[test]
fn whole_factors_and_large_images() {
    for mode in MODES {
        for factor in [1, 2, 3, 4] {
            check::<f32>([5, 16], [5 * factor, 16 * factor], mode, false, 2e-6);
        }
        // Several tasks per image.
        let x = tensor::<f32>(&values(3 * 100 * 90, 1), [1, 3, 100, 90]);
        let whole = interpolate(x.clone(), [800, 700], mode, false).unwrap();
        let one = interpolate(x.narrow(1, 2, 1).unwrap(), [800, 700], mode, false).unwrap();
        assert_eq!(whole.narrow(1, 2, 1).unwrap().to_vec::<f32>(), one.to_vec::<f32>());
    }
}

#[test]
fn known_values() {
    // PyTorch: interpolate(tensor([[1, 2], [3, 4]]), size = 4, mode = "bilinear").
    let x = tensor::<f32>(&[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2]);
    let run = |mode, align| interpolate(x.clone(), [4, 4], mode, align).unwrap().to_vec::<f32>();
    assert_eq!(run(Interpolation::Bilinear, false)[..8], [1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5]);
    let aligned: Vec<f64> = run(Interpolation::Bilinear, true)[..4].iter().map(|v| *v as f64).collect();
    assert_close(&aligned, &[1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0], 1e-6);
    assert_eq!(run(Interpolation::Nearest, false)[..8], [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
    // PyTorch: mode = "bicubic", first row.
    let cubic: Vec<f64> = run(Interpolation::Bicubic, false)[..4].iter().map(|v| *v as f64).collect();
    assert_close(&cubic, &[0.68359375, 1.015625, 1.5625, 1.89453125], 1e-5);
}

#[test]
fn an_infinity_stays_where_its_taps_are() {
    for mode in MODES {
        let mut data = values(20 * 40, 1);
        data[10 * 40 + 20] = f64::INFINITY;
        let x = tensor::<f32>(&data, [1, 1, 20, 40]);
        for (size, align) in [([40, 80], false), ([9, 11], false), ([40, 79], true)] {
            let out = interpolate(x.clone(), size, mode, align).unwrap().to_vec::<f32>();
            for i in 0..size[0] {
                let rows = (i as f64 * 20.0 / size[0] as f64 - 10.0).abs();
                for j in 0..size[1] {
                    // The widest kernel extends over three elements, and positions are off by at most half an
                    // element.
                    let cols = (j as f64 * 40.0 / size[1] as f64 - 20.0).abs();
                    let far = rows > 5.0 || cols > 6.0;
                    assert!(!far || out[i * size[1] + j].is_finite(), "{mode:?} {i} {j}");
                }
            }
            // Shrinking by nearest neighbours may skip the non-finite element.
            assert!(size[0] < 20 || out.iter().any(|v| !v.is_finite()), "{mode:?}");
        }
    }
}

#[test]
fn layouts_do_not_matter_and_shared_inputs_stay() {
    let data = values(2 * 3 * 12 * 20, 4);
    let base = tensor::<f32>(&data, [2, 3, 12, 20]);
    let views = [
        base.clone().swap_axes(2, 3).unwrap(),
        base.clone().flip(&[1, 3]).unwrap(),
        base.clone().slice(&[Slice::full(), Slice::full(), Slice::new(1, None, 2)]).unwrap(),
        base.clone().narrow(1, 0, 1).unwrap().expand(&[2, 4, 12, 20]).unwrap(),
    ];
    for view in views {
        let copy = tensor::<f32>(&to_f64(&view), view.shape().clone());
        let grid = tensor::<f32>(&values(2 * 5 * 7 * 2, 5), [2, 5, 7, 2]);
        for mode in MODES {
            let run = |x: &Tensor| to_f64(&interpolate(x.clone(), [17, 9], mode, false).unwrap());
            assert_eq!(run(&view), run(&copy));
            if mode != Interpolation::Lanczos3 {
                let run = |x: &Tensor| {
                    to_f64(&grid_sample(x.clone(), grid.clone(), mode, GridPadding::Border, true).unwrap())
                };
                assert_eq!(run(&view), run(&copy));
            }
        }
    }
    assert_eq!(to_f64(&base), data.iter().map(|&v| v as f32 as f64).collect::<Vec<_>>());
}

/// Position in pixels after padding, from the definition: reflections are applied one by one.
fn confine(mut x: f64, size: usize, padding: GridPadding, align: bool) -> f64 {
    let last = (size - 1) as f64;
    if padding == GridPadding::Zeros {
        return x;
    }
    if padding == GridPadding::Reflection {
        let (low, high) = if align { (0.0, last) } else { (-0.5, last + 0.5) };
        while low < high && !(low..=high).contains(&x) {
            x = if x < low { 2.0 * low - x } else { 2.0 * high - x };
        }
    }
    x.clamp(0.0, last)
}

fn naive_sample(
    x: &[f64],
    [h, w]: [usize; 2],
    [gx, gy]: [f64; 2],
    mode: Interpolation,
    padding: GridPadding,
    align: bool,
) -> f64 {
    let pixel = |g: f64, size: usize| match align {
        true => (g + 1.0) / 2.0 * (size - 1) as f64,
        false => ((g + 1.0) * size as f64 - 1.0) / 2.0,
    };
    let at = |r: f64, c: f64| {
        let inside = r >= 0.0 && c >= 0.0 && r < h as f64 && c < w as f64;
        if inside { x[r as usize * w + c as usize] } else { 0.0 }
    };
    let (px, py) = (pixel(gx, w), pixel(gy, h));
    let (cx, cy) = (confine(px, w, padding, align), confine(py, h, padding, align));
    let mut sum = 0.0;
    match mode {
        Interpolation::Nearest | Interpolation::NearestExact => {
            sum = at(cy.round_ties_even(), cx.round_ties_even())
        }
        Interpolation::Bilinear => {
            for r in [cy.floor(), cy.floor() + 1.0] {
                for c in [cx.floor(), cx.floor() + 1.0] {
                    sum += (1.0 - (cy - r).abs()) * (1.0 - (cx - c).abs()) * at(r, c);
                }
            }
        }
        _ => {
            for dy in -1..=2 {
                for dx in -1..=2 {
                    let (r, c) = (py.floor() + dy as f64, px.floor() + dx as f64);
                    let v = at(confine(r, h, padding, align), confine(c, w, padding, align));
                    sum += cubic(py - r) * cubic(px - c) * v;
                }
            }
        }
    }
    sum
}

fn check_grid<T: Element>(size: [usize; 2], out: [usize; 2], tolerance: f64) {
    let [h, w] = size;
    let x: Vec<f64> = values(2 * 3 * h * w, 7).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    // Coordinates between -3 and 3, and exact corners.
    let mut grid: Vec<f64> =
        values(2 * out[0] * out[1] * 2, 8).iter().map(|&v| T::from_f64(3.0 * v).to_f64()).collect();
    let corners = [-1.0, -1.0, 1.0, 1.0, 0.0, 0.0];
    let n = grid.len().min(corners.len());
    grid[..n].copy_from_slice(&corners[..n]);
    let points = out[0] * out[1];
    for mode in &MODES[..4] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for align in [false, true] {
                let mut expected = vec![];
                for p in 0..6 {
                    for k in 0..points {
                        let at = (p / 3 * points + k) * 2;
                        let plane = &x[p * h * w..(p + 1) * h * w];
                        expected.push(naive_sample(
                            plane,
                            size,
                            [grid[at], grid[at + 1]],
                            *mode,
                            padding,
                            align,
                        ));
                    }
                }
                let got = grid_sample(
                    tensor::<T>(&x, [2, 3, h, w]),
                    tensor::<T>(&grid, [2, out[0], out[1], 2]),
                    *mode,
                    padding,
                    align,
                )
                .unwrap();
                assert_eq!(got.shape().as_slice(), [2, 3, out[0], out[1]]);
                // Rounding may move a point that lies on a boundary to either side.
                let jumps = matches!(mode, Interpolation::Nearest | Interpolation::NearestExact);
                let got = to_f64(&got);
                let off = got
                    .iter()
                    .zip(&expected)
                    .filter(|(g, e)| (*g - *e).abs() > tolerance || g.is_nan())
                    .count();
                let allowed = if jumps { got.len() / 50 } else { 0 };
                assert!(off <= allowed, "{mode:?} {padding:?} {align}: {off} of {} differ", got.len());
            }
        }
    }
}

#[test]
fn sampled_points_match_the_definition() {
    for (size, out) in [([5, 7], [9, 11]), ([1, 1], [3, 3]), ([1, 8], [4, 4]), ([33, 20], [40, 60])] {
        check_grid::<f64>(size, out, 1e-11);
        check_grid::<f32>(size, out, 2e-4);
    }
    check_grid::<f16>([6, 5], [7, 8], 2e-2);
    check_grid::<bf16>([6, 5], [7, 8], 2e-1);
}

#[test]
fn points_that_are_nowhere() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = tensor::<f32>(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 1, 2, 3]);
    let coordinates = [nan, inf, -inf, 1e30, -1e30, f32::MAX as f64, -f32::MAX as f64];
    let grid: Vec<f64> = coordinates.iter().flat_map(|&c| [c, -1.0, -1.0, c, c, c]).collect();
    let grid = tensor::<f32>(&grid, [1, 7, 3, 2]);
    for align in [false, true] {
        for mode in [Interpolation::Nearest, Interpolation::Bilinear] {
            let run =
                |padding| grid_sample(x.clone(), grid.clone(), mode, padding, align).unwrap().to_vec::<f32>();
            assert_eq!(run(GridPadding::Zeros), [0.0; 21]);
            let border = run(GridPadding::Border);
            assert_eq!(border[..9], [1.0, 1.0, 1.0, 3.0, 4.0, 6.0, 1.0, 1.0, 1.0]);
            assert_eq!(border[9..15], [3.0, 4.0, 6.0, 1.0, 1.0, 1.0]);
            let reflected = run(GridPadding::Reflection);
            assert_eq!(reflected[..9], [1.0; 9]);
            assert!(reflected.iter().all(|v| (1.0..=6.0).contains(v)));
        }
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            let out = grid_sample(x.clone(), grid.clone(), Interpolation::Bicubic, padding, align).unwrap();
            assert!(out.to_vec::<f32>()[..9].iter().all(|v| v.is_nan()));
        }
    }
    // Elements outside of the image are zero even next to an infinity.
    let x = tensor::<f32>(&[inf, 1.0], [1, 1, 1, 2]);
    let grid = tensor::<f32>(&[-2.0, 0.0, 1.5, 0.0, -1.0, 0.0], [1, 1, 3, 2]);
    let out = grid_sample(x, grid, Interpolation::Bilinear, GridPadding::Zeros, false).unwrap();
    assert_eq!(out.to_vec::<f32>(), [0.0, 0.0, f32::INFINITY]);
}

#[test]
fn empty_batches_and_grids() {
    let x = Tensor::empty([0, 3, 4, 4], DType::F32).unwrap();
    for mode in MODES {
        assert_eq!(interpolate(x.clone(), [2, 9], mode, false).unwrap().shape().as_slice(), [0, 3, 2, 9]);
        let g = Tensor::empty([0, 3, 2, 9], DType::F32).unwrap();
        assert_eq!(interpolate_backward(x.clone(), g, [2, 9], mode, true).unwrap().shape(), x.shape());
    }
    let x = Tensor::full([1, 3, 4, 4], 1.0, DType::F32).unwrap();
    let grid = Tensor::empty([1, 0, 5, 2], DType::F32).unwrap();
    let out = grid_sample(x, grid, Interpolation::Nearest, GridPadding::Zeros, true).unwrap();
    assert_eq!(out.shape().as_slice(), [1, 3, 0, 5]);
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let x = Tensor::full([1, 2, 4, 4], 1.0, DType::F32).unwrap();
    let int = Tensor::full([1, 2, 4, 4], 1, DType::I32).unwrap();
    let flat = Tensor::full([2, 4, 4], 1.0, DType::F32).unwrap();
    let empty = Tensor::empty([1, 2, 0, 4], DType::F32).unwrap();
    let mode = Interpolation::Bilinear;
    for (x, size) in [
        (&int, [2, 2]),
        (&flat, [2, 2]),
        (&empty, [2, 2]),
        (&x, [0, 2]),
        (&x, [2, 0]),
        (&x, [usize::MAX / 2, usize::MAX / 2]),
    ] {
        let e = interpolate(x.clone(), size, mode, false).unwrap_err().to_string();
        assert!(e.starts_with("interpolate: "), "{e}");
        let e = interpolate_backward(x.clone(), x.clone(), size, mode, false).unwrap_err().to_string();
        assert!(e.starts_with("interpolate_backward: "), "{e}");
    }
    for grad in [x.clone(), Tensor::full([1, 2, 2, 2], 1.0, DType::F64).unwrap()] {
        let e = interpolate_backward(x.clone(), grad, [2, 2], mode, false).unwrap_err().to_string();
        assert!(e.starts_with("interpolate_backward: "), "{e}");
    }
    let grid = Tensor::full([1, 3, 3, 2], 0.0, DType::F32).unwrap();
    for (x, grid, mode) in [
        (&x, &grid, Interpolation::Lanczos3),
        (&int, &grid, mode),
        (&flat, &grid, mode),
        (&empty, &grid, mode),
        (&x, &Tensor::full([1, 3, 3, 3], 0.0, DType::F32).unwrap(), mode),
        (&x, &Tensor::full([2, 3, 3, 2], 0.0, DType::F32).unwrap(), mode),
        (&x, &Tensor::full([1, 3, 2], 0.0, DType::F32).unwrap(), mode),
        (&x, &Tensor::full([1, 3, 3, 2], 0.0, DType::F64).unwrap(), mode),
    ] {
        let e =
            grid_sample(x.clone(), grid.clone(), mode, GridPadding::Zeros, false).unwrap_err().to_string();
        assert!(e.starts_with("grid_sample: "), "{e}");
    }
}
