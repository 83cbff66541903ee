//! Convolution of one, two and three spatial axes, and its gradients.

use crate::array::Array;
use crate::kind::Float;
use crate::operands::{Sum, expect_sums, over_operands, sums, take};
use crate::row::{Context, Row};
use crate::support::{floats, upload};
use burn_backend::ops::ConvOptions;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

type T<B> = FloatTensor<B>;

/// Sizes of a convolution. Cases state three spatial axes; a convolution of fewer axes uses the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub batch: usize,
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    pub groups: usize,
    pub input: Vec<usize>,
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub padding: Vec<usize>,
    pub dilation: Vec<usize>,
}

impl Geometry {
    /// Stride and dilation 1, no padding.
    pub fn new(
        batch: usize,
        channels: [usize; 2],
        groups: usize,
        input: [usize; 3],
        kernel: [usize; 3],
    ) -> Self {
        let ([input, kernel], ones) = ([input.to_vec(), kernel.to_vec()], vec![1; 3]);
        Self {
            batch,
            channels,
            groups,
            input,
            kernel,
            stride: ones.clone(),
            padding: vec![0; 3],
            dilation: ones,
        }
    }

    pub fn stride(mut self, stride: [usize; 3]) -> Self {
        self.stride = stride.to_vec();
        self
    }

    pub fn padding(mut self, padding: [usize; 3]) -> Self {
        self.padding = padding.to_vec();
        self
    }

    pub fn dilation(mut self, dilation: [usize; 3]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }

    /// Keeps the last `n` spatial axes.
    pub fn with_axes(mut self, n: usize) -> Self {
        for sizes in
            [&mut self.input, &mut self.kernel, &mut self.stride, &mut self.padding, &mut self.dilation]
        {
            sizes.drain(..sizes.len() - n);
        }
        self
    }

    /// Spatial sizes of the output: the positions where the dilated kernel fits into the padded input.
    pub fn output(&self) -> Vec<usize> {
        let axis = |k: usize| {
            let reach = self.dilation[k] * (self.kernel[k] - 1) + 1;
            (self.input[k] + 2 * self.padding[k] - reach) / self.stride[k] + 1
        };
        (0..self.input.len()).map(axis).collect()
    }

    pub fn x_shape(&self) -> Vec<usize> {
        [vec![self.batch, self.channels[0]], self.input.clone()].concat()
    }

    pub fn weight_shape(&self) -> Vec<usize> {
        [vec![self.channels[1], self.channels[0] / self.groups], self.kernel.clone()].concat()
    }

    pub fn out_shape(&self) -> Vec<usize> {
        [vec![self.batch, self.channels[1]], self.output()].concat()
    }

    /// Yields the flat indices in input, weight and output of every product that the convolution sums.
    pub fn visit(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (output, [ins, outs]) = (self.output(), self.channels);
        let volume = |sizes: &[usize]| sizes.iter().product::<usize>();
        // Pairs of an output position and a tap whose input position is not padding.
        let mut pairs = vec![(0, 0, 0)];
        for k in 0..output.len() {
            let mut next = Vec::new();
            for &(x, w, o) in &pairs {
                for i in 0..output[k] {
                    for tap in 0..self.kernel[k] {
                        let at = (i * self.stride[k] + tap * self.dilation[k]).checked_sub(self.padding[k]);
                        if let Some(at) = at.filter(|&at| at < self.input[k]) {
                            let index = (x * self.input[k] + at, w * self.kernel[k] + tap, o * output[k] + i);
                            next.push(index);
                        }
                    }
                }
            }
            pairs = next;
        }
        let (group_ins, group_outs) = (ins / self.groups, outs / self.groups);
        let [input, kernel, output] = [&self.input, &self.kernel, &output].map(|sizes| volume(sizes));
        for n in 0..self.batch {
            for oc in 0..outs {
                for ic in 0..group_ins {
                    let channel = oc / group_outs * group_ins + ic;
                    for &(x, w, o) in &pairs {
                        f(
                            (n * ins + channel) * input + x,
                            (oc * group_ins + ic) * kernel + w,
                            (n * outs + oc) * output + o,
                        );
                    }
                }
            }
        }
    }
}

/// Cases for convolutions of `n` axes; transposed convolutions use them with input and output exchanged.
pub(crate) fn geometries(n: usize) -> Vec<Geometry> {
    let plain = |channels, groups| Geometry::new(2, channels, groups, [3, 5, 9], [2, 3, 3]);
    let mut all = vec![
        plain([3, 5], 1).padding([1, 1, 1]),
        // Channel counts below and above the widths of vectors and tiles.
        Geometry::new(1, [16, 17], 1, [3, 4, 6], [1, 3, 3]).padding([0, 1, 1]),
        Geometry::new(1, [17, 33], 1, [2, 3, 7], [1, 1, 1]),
        Geometry::new(2, [4, 3], 1, [3, 5, 7], [1, 1, 1]).stride([1, 2, 2]),
        plain([4, 6], 2).padding([0, 1, 0]),
        // Depthwise, and with several outputs per input.
        plain([17, 17], 17).padding([1, 1, 1]),
        plain([5, 10], 5).stride([1, 2, 2]),
        // Every option at once, different along each axis.
        plain([4, 4], 2).stride([1, 2, 3]).padding([1, 2, 1]).dilation([1, 2, 2]),
        // More padding than kernel, strides that skip elements, a kernel that covers the input.
        Geometry::new(1, [2, 3], 1, [2, 3, 5], [1, 2, 2]).padding([2, 2, 3]),
        Geometry::new(1, [2, 2], 1, [4, 7, 9], [1, 2, 2]).stride([2, 3, 4]),
        Geometry::new(2, [3, 2], 1, [2, 4, 6], [2, 4, 6]),
        // Rows around the width of vectors.
        Geometry::new(1, [1, 1], 1, [1, 2, 17], [1, 1, 5]).padding([0, 0, 2]),
        Geometry::new(1, [2, 1], 1, [1, 1, 65], [1, 1, 3]).dilation([1, 1, 3]).padding([0, 0, 3]),
        Geometry::new(0, [3, 4], 1, [2, 3, 5], [1, 2, 3]).padding([0, 1, 1]),
    ];
    all.iter_mut().for_each(|g| *g = g.clone().with_axes(n));
    all
}

/// The methods of a convolution, or of a transposed one, over `axes` axes.
pub(crate) struct Methods<B: Backend> {
    pub axes: usize,
    /// Names of the methods in the following fields.
    pub names: [&'static str; 4],
    pub forward: fn(T<B>, T<B>, Option<T<B>>, &Geometry) -> T<B>,
    pub x: fn(T<B>, T<B>, T<B>, &Geometry) -> T<B>,
    pub weight: fn(T<B>, T<B>, T<B>, &Geometry) -> T<B>,
    pub bias: fn(T<B>, T<B>, T<B>) -> T<B>,
    /// Whether the methods map the output of a geometry to its input.
    pub transposed: bool,
}

impl<B: Backend> Methods<B> {
    /// The row of these methods.
    pub fn row(self) -> Row<B> {
        Row::new(&self.names.clone(), move |context| check(context, &self))
    }
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! methods {
        ($axes:literal, $forward:ident, $x:ident, $weight:ident, $bias:ident) => {
            Methods {
                axes: $axes,
                names: [stringify!($forward), stringify!($x), stringify!($weight), stringify!($bias)],
                forward: |x, w, b, g| B::$forward(x, w, b, options::<$axes>(g)),
                x: |x, w, d, g| B::$x(x, w, d, options::<$axes>(g)),
                weight: |x, w, d, g| B::$weight(x, w, d, options::<$axes>(g)),
                bias: B::$bias,
                transposed: false,
            }
        };
    }
    let all: [Methods<B>; 3] = [
        methods!(1, conv1d, conv1d_x_backward, conv1d_weight_backward, conv1d_bias_backward),
        methods!(2, conv2d, conv2d_x_backward, conv2d_weight_backward, conv2d_bias_backward),
        methods!(3, conv3d, conv3d_x_backward, conv3d_weight_backward, conv3d_bias_backward),
    ];
    let mut rows: Vec<Row<B>> = all.into_iter().map(Methods::row).collect();
    rows.push(Row::new(&["conv2d"], deep));
    rows.push(Row::new(&["conv2d"], nan));
    rows
}

fn options<const N: usize>(g: &Geometry) -> ConvOptions<N> {
    let array = |sizes: &[usize]| sizes.try_into().expect("one size for each axis");
    ConvOptions::new(array(&g.stride), array(&g.padding), array(&g.dilation), g.groups)
}

/// Adds the bias: one term per output, from the output's channel.
pub(crate) fn add_bias(out: &mut Array<Sum>, bias: &Array<f64>) {
    let shape = out.shape().to_vec();
    let plane: usize = shape[2..].iter().product();
    let mut o = 0;
    *out = out.map(|mut sum| {
        sum.add(bias.data()[o / plane % shape[1]]);
        o += 1;
        sum
    });
}

/// Gradient of the bias: the sum over all axes but the channels.
pub(crate) fn bias_grad(grad: &Array<f64>) -> Array<Sum> {
    let shape = grad.shape();
    let plane: usize = shape[2..].iter().product();
    sums([shape[1]], |add| {
        grad.data().iter().enumerate().for_each(|(o, &g)| add(o / plane % shape[1], g));
    })
}

fn check<B: Backend>(context: &Context<'_, B>, m: &Methods<B>) {
    for dtype in context.floats(&m.names) {
        for g in geometries(m.axes) {
            let (x_shape, out_shape) =
                if m.transposed { (g.out_shape(), g.x_shape()) } else { (g.x_shape(), g.out_shape()) };
            // Yields the flat indices in x, weight and output of every product.
            let visit = |f: &mut dyn FnMut(usize, usize, usize)| {
                g.visit(|a, w, b| if m.transposed { f(b, w, a) } else { f(a, w, b) });
            };
            let sample = |shape: &[usize], seed| floats(dtype, shape, (-1.0, 1.0), seed);
            let (x, weight) = (sample(&x_shape, 1), sample(&g.weight_shape(), 2));
            let (bias, grad) = (sample(&[out_shape[1]], 3), sample(&out_shape, 4));
            let forward = |of: &[Array<f64>]| {
                let [x, w] = [0, 1].map(|k| of[k].data());
                sums(out_shape.clone(), |add| visit(&mut |i, k, o| add(o, x[i] * w[k])))
            };
            let case = format!("{}{g:?}", if m.transposed { "transposed " } else { "" });
            over_operands(context, dtype, &case, &[&x, &weight], forward, |t, want| {
                let [x, w] = take(t);
                expect_sums(context, (m.forward)(x, w, None, &g), dtype, want)
            });
            let biased = |of: &[Array<f64>]| {
                let mut out = forward(of);
                add_bias(&mut out, &of[2]);
                out
            };
            over_operands(context, dtype, &case, &[&x, &weight, &bias], biased, |t, want| {
                let [x, w, b] = take(t);
                expect_sums(context, (m.forward)(x, w, Some(b), &g), dtype, want)
            });
            let gradients = |of: &[Array<f64>]| {
                let [x, w, d] = [0, 1, 2].map(|k| of[k].data());
                let x_grad = sums(x_shape.clone(), |add| visit(&mut |i, k, o| add(i, w[k] * d[o])));
                let w_grad = sums(g.weight_shape(), |add| visit(&mut |i, k, o| add(k, x[i] * d[o])));
                (x_grad, w_grad)
            };
            over_operands(context, dtype, &case, &[&x, &weight, &grad], gradients, |t, want| {
                let [x, w, d] = take(t);
                let got = (m.x)(x.clone(), w.clone(), d.clone(), &g);
                expect_sums(context, got, dtype, &want.0).map_err(|e| format!("x: {e}"))?;
                let got = (m.weight)(x, w, d, &g);
                expect_sums(context, got, dtype, &want.1).map_err(|e| format!("weight: {e}"))
            });
            let want = |of: &[Array<f64>]| bias_grad(&of[2]);
            over_operands(context, dtype, &case, &[&x, &bias, &grad], want, |t, want| {
                let [x, b, d] = take(t);
                expect_sums(context, (m.bias)(x, b, d), dtype, want)
            });
        }
    }
}

/// Sums of thousands of terms of one sign: an accumulator in half precision would stop growing.
fn deep<B: Backend>(context: &Context<'_, B>) {
    let g = Geometry::new(1, [1203, 3], 1, [1, 3, 4], [1, 3, 3]).padding([0, 1, 1]).with_axes(2);
    for dtype in context.floats(&["conv2d"]) {
        let x = floats(dtype, &g.x_shape(), (0.0, 0.1), 1);
        let weight = floats(dtype, &g.weight_shape(), (0.0, 0.1), 2);
        let want = sums(g.out_shape(), |add| g.visit(|i, w, o| add(o, x.data()[i] * weight.data()[w])));
        context.attempt(
            || format!("{dtype:?} {g:?}"),
            || {
                let up = |array| upload::<B, Float>(context, array, dtype);
                let got = B::conv2d(up(&x), up(&weight), None, options(&g));
                expect_sums(context, got, dtype, &want)
            },
        );
    }
}

/// NaN reaches the outputs whose window contains it, and no others.
fn nan<B: Backend>(context: &Context<'_, B>) {
    let shapes = [[3, 4], [16, 17], [4, 4]];
    for (channels, groups) in shapes.into_iter().zip([1, 1, 4]) {
        let g = Geometry::new(2, channels, groups, [1, 7, 19], [1, 3, 3]).padding([0, 1, 1]).with_axes(2);
        for dtype in context.floats(&["conv2d"]) {
            check_nan(context, dtype, &g);
        }
    }
}

fn check_nan<B: Backend>(context: &Context<'_, B>, dtype: DType, g: &Geometry) {
    let mut k = 0;
    let x = floats(dtype, &g.x_shape(), (-1.0, 1.0), 1).map(|x| {
        k += 1;
        if k == 40 { f64::NAN } else { x }
    });
    let weight = floats(dtype, &g.weight_shape(), (-1.0, 1.0), 2);
    let want = |of: &[Array<f64>]| {
        sums(g.out_shape(), |add| g.visit(|x, w, o| add(o, of[0].data()[x] * of[1].data()[w])))
    };
    over_operands(context, dtype, &format!("NaN {g:?}"), &[&x, &weight], want, |t, want| {
        let [x, w] = take(t);
        expect_sums(context, B::conv2d(x, w, None, options(g)), dtype, want)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_a_convolution() {
        // [1, 2, 3, 4] with the kernel [10, 100], padding one, stride two, dilation two.
        let g = Geometry::new(1, [1, 1], 1, [1, 1, 4], [1, 1, 2])
            .padding([0, 0, 1])
            .stride([1, 1, 2])
            .dilation([1, 1, 2])
            .with_axes(1);
        let (x, w) = ([1.0, 2.0, 3.0, 4.0], [10.0, 100.0]);
        let out = sums(g.out_shape(), |add| g.visit(|i, k, o| add(o, x[i] * w[k])));
        assert_eq!(out.shape(), [1, 1, 2]);
        assert_eq!(out.map(Sum::value).data(), [200.0, 20.0 + 400.0]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let g = Geometry::new(1, [4, 2], 2, [1, 1, 1], [1, 1, 1]).with_axes(1);
        let mut seen = Vec::new();
        g.visit(|x, w, o| seen.push((x, w, o)));
        assert_eq!(seen, [(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 1)]);
    }
}
