//! Average, maximum and adaptive pooling of one and two spatial axes, and their gradients.

use crate::array::Array;
use crate::compare::Tolerance;
use crate::kind::{Float, Int};
use crate::operands::{Sum, expect_sums, over_operands, sums, take};
use crate::release;
use crate::row::{Context, Row};
use crate::support::{expect_float, floats, over_layouts, read_int, upload};
use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, DType, TensorMetadata, get_device_settings};

type T<B> = FloatTensor<B>;

/// The windows over the spatial axes. Cases state two axes; 1-D pooling uses the last one.
#[derive(Clone, Debug)]
struct Windows {
    input: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    ceil: bool,
}

/// The positions that a window covers, and their number including padding.
struct Window {
    taps: Vec<usize>,
    padded: usize,
}

impl Windows {
    fn new(input: [usize; 2], kernel: [usize; 2], stride: [usize; 2]) -> Self {
        let [input, kernel, stride] = [input, kernel, stride].map(|sizes| sizes.to_vec());
        Self { input, kernel, stride, padding: vec![0; 2], dilation: vec![1; 2], ceil: false }
    }

    fn padding(mut self, padding: [usize; 2]) -> Self {
        self.padding = padding.to_vec();
        self
    }

    fn dilation(mut self, dilation: [usize; 2]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }

    fn with(mut self, axes: usize, ceil: bool) -> Self {
        for sizes in
            [&mut self.input, &mut self.kernel, &mut self.stride, &mut self.padding, &mut self.dilation]
        {
            sizes.drain(..2 - axes);
        }
        self.ceil = ceil;
        self
    }

    /// The windows of one axis. A window that ceil mode adds has to start before the padding on the right;
    /// positions beyond the padding do not count.
    fn axis(&self, k: usize) -> Vec<Window> {
        let (input, padding, stride) = (self.input[k], self.padding[k], self.stride[k]);
        let room = input + 2 * padding - self.dilation[k] * (self.kernel[k] - 1) - 1;
        let count = if self.ceil { room.div_ceil(stride) } else { room / stride } + 1;
        let starts = (0..count).map(|i| i * stride).filter(|&start| !self.ceil || start < input + padding);
        let window = |start: usize| {
            let taps = (0..self.kernel[k]).map(|tap| start + tap * self.dilation[k]);
            let taps: Vec<usize> = taps.filter(|&at| at < input + 2 * padding).collect();
            let inside = |&at: &usize| at.checked_sub(padding).filter(|&at| at < input);
            Window { padded: taps.len(), taps: taps.iter().filter_map(inside).collect() }
        };
        starts.map(window).collect()
    }

    fn output(&self) -> Vec<usize> {
        (0..self.input.len()).map(|k| self.axis(k).len()).collect()
    }

    /// All windows in row-major order, with flat positions.
    fn all(&self) -> Vec<Window> {
        cross((0..self.input.len()).map(|k| (self.input[k], self.axis(k))))
    }
}

/// Windows of several axes, combined from the size and the windows of each axis.
fn cross(axes: impl Iterator<Item = (usize, Vec<Window>)>) -> Vec<Window> {
    axes.fold(vec![Window { taps: vec![0], padded: 1 }], |outer, (size, inner)| {
        let pairs = outer.iter().flat_map(|o| inner.iter().map(move |i| (o, i)));
        let join = |(o, i): (&Window, &Window)| Window {
            taps: o.taps.iter().flat_map(|row| i.taps.iter().map(move |at| row * size + at)).collect(),
            padded: o.padded * i.padded,
        };
        pairs.map(join).collect()
    })
}

/// Batches and channels; the numbers of channels are around the width of vectors.
const PLANES: [[usize; 2]; 2] = [[2, 3], [1, 17]];

fn cases(axes: usize, dilated: bool) -> Vec<Windows> {
    let mut all = vec![
        Windows::new([5, 7], [1, 1], [1, 1]),
        Windows::new([6, 9], [2, 3], [2, 3]),
        Windows::new([7, 8], [3, 3], [2, 2]).padding([1, 1]),
        Windows::new([4, 17], [2, 3], [1, 1]).padding([1, 1]),
        // Windows that skip elements, and a window that covers all elements.
        Windows::new([7, 10], [2, 2], [3, 4]),
        Windows::new([4, 6], [4, 6], [1, 1]),
        Windows::new([3, 37], [3, 5], [3, 2]).padding([1, 2]),
        Windows::new([1, 65], [1, 2], [1, 2]).padding([0, 1]),
    ];
    if dilated {
        all.push(Windows::new([9, 12], [3, 2], [1, 1]).dilation([2, 3]));
        all.push(Windows::new([8, 11], [3, 3], [2, 3]).dilation([2, 4]).padding([1, 1]));
    }
    all.into_iter().flat_map(|w| [false, true].map(|ceil| w.clone().with(axes, ceil))).collect()
}

fn shape(planes: [usize; 2], spatial: &[usize]) -> Vec<usize> {
    [&planes[..], spatial].concat()
}

/// The sum over each window of every plane, times the window's factor.
fn window_sums(
    x: &Array<f64>,
    out: Vec<usize>,
    windows: &[Window],
    factor: impl Fn(&Window) -> f64,
) -> Array<Sum> {
    let plane = x.len() / (x.shape()[0] * x.shape()[1]).max(1);
    let planes = x.data().chunks(plane);
    let of =
        |plane: &[f64], w: &Window| w.taps.iter().map(|&at| plane[at]).collect::<Sum>().scaled(factor(w));
    Array::new(out, planes.flat_map(|plane| windows.iter().map(move |w| of(plane, w))).collect())
}

/// The adjoint of [`window_sums`].
fn spread(
    grad: &Array<f64>,
    x_shape: Vec<usize>,
    windows: &[Window],
    factor: impl Fn(&Window) -> f64,
) -> Array<Sum> {
    let plane: usize = x_shape[2..].iter().product();
    sums(x_shape, |add| {
        for (p, grads) in grad.data().chunks(windows.len()).enumerate() {
            for (w, g) in windows.iter().zip(grads) {
                w.taps.iter().for_each(|at| add(p * plane + at, g * factor(w)));
            }
        }
    })
}

/// The pooling methods for `axes` spatial axes.
struct Methods<B: Backend> {
    axes: usize,
    names: [&'static str; 7],
    avg: fn(T<B>, &Windows, bool) -> T<B>,
    avg_grad: fn(T<B>, T<B>, &Windows, bool) -> T<B>,
    adaptive: fn(T<B>, &[usize]) -> T<B>,
    adaptive_grad: fn(T<B>, T<B>) -> T<B>,
    max: fn(T<B>, &Windows) -> T<B>,
    max_indices: fn(T<B>, &Windows) -> (T<B>, IntTensor<B>),
    max_grad: fn(T<B>, &Windows, T<B>, IntTensor<B>) -> T<B>,
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! rows {
        ($axes:literal, $sizes:ident, $avg:ident, $avg_grad:ident, $adaptive:ident, $adaptive_grad:ident, $max:ident,
         $indices:ident, $max_grad:ident) => {{
            let methods = || Methods::<B> {
                axes: $axes,
                names: [
                    stringify!($avg),
                    stringify!($avg_grad),
                    stringify!($adaptive),
                    stringify!($adaptive_grad),
                    stringify!($max),
                    stringify!($indices),
                    stringify!($max_grad),
                ],
                avg: |x, w, pad| {
                    B::$avg(x, $sizes(&w.kernel), $sizes(&w.stride), $sizes(&w.padding), pad, w.ceil)
                },
                avg_grad: |x, g, w, pad| {
                    B::$avg_grad(x, g, $sizes(&w.kernel), $sizes(&w.stride), $sizes(&w.padding), pad, w.ceil)
                },
                adaptive: |x, size| B::$adaptive(x, $sizes(size)),
                adaptive_grad: B::$adaptive_grad,
                max: |x, w| {
                    let (kernel, stride) = ($sizes(&w.kernel), $sizes(&w.stride));
                    B::$max(x, kernel, stride, $sizes(&w.padding), $sizes(&w.dilation), w.ceil)
                },
                max_indices: |x, w| {
                    let (kernel, stride) = ($sizes(&w.kernel), $sizes(&w.stride));
                    let got = release::$indices::<B>(
                        x,
                        kernel,
                        stride,
                        $sizes(&w.padding),
                        $sizes(&w.dilation),
                        w.ceil,
                    );
                    (got.output, got.indices)
                },
                max_grad: |x, w, g, i| {
                    let (kernel, stride) = ($sizes(&w.kernel), $sizes(&w.stride));
                    B::$max_grad(x, kernel, stride, $sizes(&w.padding), $sizes(&w.dilation), w.ceil, g, i)
                        .x_grad
                },
            };
            [
                Row::new(&[stringify!($avg), stringify!($avg_grad)], move |c| average(c, &methods())),
                Row::new(&[stringify!($adaptive), stringify!($adaptive_grad)], move |c| {
                    adaptive(c, &methods())
                }),
                Row::new(&[stringify!($max), stringify!($indices)], move |c| maximum(c, &methods())),
                Row::new(&[stringify!($max_grad)], move |c| maximum_backward(c, &methods())),
            ]
        }};
    }
    fn one(sizes: &[usize]) -> usize {
        sizes[0]
    }
    fn two(sizes: &[usize]) -> [usize; 2] {
        [sizes[0], sizes[1]]
    }
    let single = rows!(
        1,
        one,
        avg_pool1d,
        avg_pool1d_backward,
        adaptive_avg_pool1d,
        adaptive_avg_pool1d_backward,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool1d_with_indices_backward
    );
    let double = rows!(
        2,
        two,
        avg_pool2d,
        avg_pool2d_backward,
        adaptive_avg_pool2d,
        adaptive_avg_pool2d_backward,
        max_pool2d,
        max_pool2d_with_indices,
        max_pool2d_with_indices_backward
    );
    single.into_iter().chain(double).collect()
}

fn average<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    for dtype in context.floats(&m.names[..2]) {
        for (w, planes) in cases(m.axes, false).into_iter().flat_map(|w| PLANES.map(|p| (w.clone(), p))) {
            let (windows, x_shape) = (w.all(), shape(planes, &w.input));
            let out_shape = shape(planes, &w.output());
            let x = with_nan(&floats(dtype, &x_shape, (-2.0, 2.0), 1));
            let grad = floats(dtype, &out_shape, (-2.0, 2.0), 2);
            for include_pad in [false, true] {
                let factor = |w: &Window| 1.0 / if include_pad { w.padded } else { w.taps.len() } as f64;
                let want = |of: &[Array<f64>]| {
                    (
                        window_sums(&of[0], out_shape.clone(), &windows, factor),
                        spread(&of[1], x_shape.clone(), &windows, factor),
                    )
                };
                let case = format!("{planes:?} {w:?} padding counts: {include_pad}");
                over_operands(context, dtype, &case, &[&x, &grad], want, |t, want| {
                    let [x, grad] = take(t);
                    expect_sums(context, (m.avg)(x.clone(), &w, include_pad), dtype, &want.0)?;
                    let got = (m.avg_grad)(x, grad, &w, include_pad);
                    expect_sums(context, got, dtype, &want.1).map_err(|e| format!("gradient: {e}"))
                });
            }
        }
    }
}

/// Window `i` of `n` runs from `floor(i * size / n)` to `ceil((i + 1) * size / n)`.
fn adaptive_windows(input: &[usize], output: &[usize]) -> Vec<Window> {
    cross(input.iter().zip(output).map(|(&size, &n)| {
        let window = |i: usize| {
            let taps: Vec<usize> = (i * size / n..((i + 1) * size).div_ceil(n)).collect();
            Window { padded: taps.len(), taps }
        };
        (size, (0..n).map(window).collect())
    }))
}

fn adaptive<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    const SIZES: [([usize; 2], [usize; 2]); 6] = [
        ([6, 9], [2, 3]),
        ([7, 10], [3, 4]),
        ([7, 10], [1, 1]),
        ([3, 5], [3, 5]),
        // More windows than elements.
        ([3, 4], [5, 7]),
        ([5, 65], [2, 17]),
    ];
    for dtype in context.floats(&m.names[2..4]) {
        for ((input, output), planes) in SIZES.into_iter().flat_map(|s| PLANES.map(|p| (s, p))) {
            let (input, output) = (&input[2 - m.axes..], &output[2 - m.axes..]);
            let windows = adaptive_windows(input, output);
            let (x_shape, out_shape) = (shape(planes, input), shape(planes, output));
            let x = with_nan(&floats(dtype, &x_shape, (-2.0, 2.0), 1));
            let grad = floats(dtype, &out_shape, (-2.0, 2.0), 2);
            let factor = |w: &Window| 1.0 / w.taps.len() as f64;
            let want = |of: &[Array<f64>]| {
                (
                    window_sums(&of[0], out_shape.clone(), &windows, factor),
                    spread(&of[1], x_shape.clone(), &windows, factor),
                )
            };
            let case = format!("{planes:?} {input:?} to {output:?}");
            over_operands(context, dtype, &case, &[&x, &grad], want, |t, want| {
                let [x, grad] = take(t);
                expect_sums(context, (m.adaptive)(x.clone(), output), dtype, &want.0)?;
                let got = (m.adaptive_grad)(x, grad);
                expect_sums(context, got, dtype, &want.1).map_err(|e| format!("gradient: {e}"))
            });
        }
    }
}

/// One NaN, in the last plane: the windows that contain it give NaN, and no others.
fn with_nan(array: &Array<f64>) -> Array<f64> {
    let (mut k, last) = (0, array.len().saturating_sub(2));
    array.map(|x| {
        k += 1;
        if k - 1 == last { f64::NAN } else { x }
    })
}

/// The largest element of a window and its first position; if the window contains NaN, NaN and the position
/// of some NaN.
fn largest(plane: &[f64], w: &Window) -> (f64, usize) {
    let mut taps = w.taps.iter().map(|&at| (plane[at], at));
    let first = taps.next().expect("a window sees an element");
    taps.fold(
        first,
        |(max, at), (x, k)| {
            if !max.is_nan() && (x > max || x.is_nan()) { (x, k) } else { (max, at) }
        },
    )
}

/// The largest elements and their flat indices in the plane.
fn maxima(x: &Array<f64>, w: &Windows) -> (Array<f64>, Array<usize>) {
    let windows = w.all();
    let plane: usize = w.input.iter().product();
    let planes = x.data().chunks(plane);
    let all: Vec<(f64, usize)> =
        planes.flat_map(|plane| windows.iter().map(move |w| largest(plane, w))).collect();
    let out = shape([x.shape()[0], x.shape()[1]], &w.output());
    let values = all.iter().map(|(value, _)| *value).collect();
    (Array::new(out.clone(), values), Array::new(out, all.iter().map(|(_, at)| *at).collect()))
}

/// Values on a coarse grid, so that windows contain several equal maxima, some of them negative.
fn coarse(dtype: DType, shape: &[usize]) -> Array<f64> {
    floats(dtype, shape, (-8.0, 2.0), 1).map(|x| (x / 2.0).round() * 2.0)
}

fn maximum<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    for dtype in context.floats(&m.names[4..6]) {
        for (w, planes) in cases(m.axes, true).into_iter().flat_map(|w| PLANES.map(|p| (w.clone(), p))) {
            let plain = coarse(dtype, &shape(planes, &w.input));
            let lowest = plain.map(|x| if x < 0.0 { f64::NEG_INFINITY } else { x });
            for x in [&plain, &with_nan(&plain), &lowest] {
                over_layouts::<B, Float>(context, dtype, x, |t, x| {
                    let (want, places) = maxima(x, &w);
                    let told = |e| format!("{planes:?} {w:?}: {e}");
                    let got = (m.max)(t.clone(), &w);
                    expect_float::<B>(got, dtype, &want, Tolerance::EXACT, 0.0).map_err(told)?;
                    let (got, indices) = (m.max_indices)(t, &w);
                    expect_float::<B>(got, dtype, &want, Tolerance::EXACT, 0.0).map_err(told)?;
                    let int = indices.dtype();
                    check_places(x, &w, &want, &places, &read_int::<B>(indices, int)?).map_err(told)
                });
            }
        }
    }
}

/// Checks that an index is the position of the first maximum; for a window with NaN, the position of any NaN;
/// for a window of only `-inf`, any position.
fn check_places(
    x: &Array<f64>,
    w: &Windows,
    values: &Array<f64>,
    places: &Array<usize>,
    got: &Array<i128>,
) -> Result<(), String> {
    if got.shape() != places.shape() {
        return Err(format!("indices of shape {:?}, expected {:?}", got.shape(), places.shape()));
    }
    let (windows, plane) = (w.all(), w.input.iter().product::<usize>());
    for (o, (&at, &want)) in got.data().iter().zip(places.data()).enumerate() {
        let window = &windows[o % windows.len()];
        let value = values.data()[o];
        let right = match value {
            _ if value.is_nan() || value == f64::NEG_INFINITY => {
                let element = || x.data()[o / windows.len() * plane + at as usize];
                window.taps.iter().any(|&tap| tap as i128 == at)
                    && (element() == value || (element().is_nan() && value.is_nan()))
            }
            _ => at == want as i128,
        };
        if !right {
            return Err(format!("index {o} is {at}, expected {want}, of {value}"));
        }
    }
    Ok(())
}

fn maximum_backward<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    let int = get_device_settings::<B>(&context.device).int_dtype.into();
    for dtype in context.floats(&m.names[6..7]) {
        for (w, planes) in cases(m.axes, true).into_iter().flat_map(|w| PLANES.map(|p| (w.clone(), p))) {
            let x = coarse(dtype, &shape(planes, &w.input));
            let places = maxima(&x, &w).1;
            let grad = floats(dtype, places.shape(), (-2.0, 2.0), 2);
            let indices = upload::<B, Int>(context, &places.map(|at| at as i128), int);
            let (plane, per_plane) =
                (w.input.iter().product::<usize>(), w.output().iter().product::<usize>());
            let moved = |of: &[Array<f64>], places: &Array<usize>| {
                sums(of[0].shape(), |add| {
                    for (o, &g) in of[1].data().iter().enumerate() {
                        add(o / per_plane * plane + places.data()[o], g);
                    }
                })
            };
            // For given indices, and for the indices that the forward pass finds.
            let want = |of: &[Array<f64>]| (moved(of, &places), moved(of, &maxima(&of[0], &w).1));
            over_operands(context, dtype, &format!("{planes:?} {w:?}"), &[&x, &grad], want, |t, want| {
                let [x, grad] = take(t);
                let got = (m.max_grad)(x.clone(), &w, grad.clone(), indices.clone());
                expect_sums(context, got, dtype, &want.0)?;
                let (_, found) = (m.max_indices)(x.clone(), &w);
                expect_sums(context, (m.max_grad)(x, &w, grad, found), dtype, &want.1)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceiling_adds_a_window_that_starts_inside() {
        let windows = |input, padding, ceil| {
            Windows::new([1, input], [1, 3], [1, 2]).padding([0, padding]).with(1, ceil)
        };
        assert_eq!(windows(6, 0, false).output(), [2]);
        let added = windows(6, 0, true).all();
        assert_eq!(
            added.iter().map(|w| w.taps.clone()).collect::<Vec<_>>(),
            [vec![0, 1, 2], vec![2, 3, 4], vec![4, 5]]
        );
        // Positions beyond the padding do not count; positions in the padding do.
        assert_eq!(added[2].padded, 2);
        assert_eq!(windows(5, 1, true).all()[2].padded, 3);
        assert_eq!(windows(5, 1, true).all()[2].taps, [3, 4]);
    }

    #[test]
    fn adaptive_windows_overlap_where_they_must() {
        let taps = adaptive_windows(&[5], &[3]).into_iter().map(|w| w.taps).collect::<Vec<_>>();
        assert_eq!(taps, [vec![0, 1], vec![1, 2, 3], vec![3, 4]]);
    }
}
