//! Deformable convolution and its gradients.
//!
//! Each tap of the kernel reads its own position: the position that a convolution would read, plus an offset
//! per output element. The input is interpolated between the four neighbours of that position (zero outside
//! of the image) and multiplied by a mask.

use super::conv::{Geometry, add_bias, bias_grad};
use crate::array::{Array, for_each_index};
use crate::operands::{Sum, expect_sums, over_operands, sums, take};
use crate::row::{Context, Row};
use crate::support::floats;
use burn_backend::ops::DeformConvOptions;
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![Row::new(&["deform_conv2d"], forward), Row::new(&["deform_conv2d_backward"], backward)]
}

/// Sizes of a deformable convolution.
#[derive(Clone, Debug)]
struct Deformed {
    /// Sizes of the convolution whose positions the offsets move.
    conv: Geometry,
    /// Groups of channels that share offsets and masks.
    offset_groups: usize,
}

/// One product: a weight, a mask, and an input element with its share in the interpolated value.
struct Term {
    x: usize,
    weight: usize,
    /// Position of the offset along y; the offset along x is one plane further.
    offset: usize,
    mask: usize,
    out: usize,
    share: f64,
    /// Derivatives of the share with respect to the position along y and x.
    slopes: [f64; 2],
}

fn cases() -> [Deformed; 5] {
    let new = |offset_groups, conv: Geometry| Deformed { conv: conv.with_axes(2), offset_groups };
    [
        new(1, Geometry::new(2, [3, 4], 1, [1, 5, 6], [1, 3, 3]).padding([0, 1, 1])),
        new(2, Geometry::new(1, [4, 6], 2, [1, 5, 7], [1, 2, 3]).stride([1, 1, 2]).padding([0, 1, 0])),
        // More groups of offsets than of channels.
        new(
            4,
            Geometry::new(2, [4, 2], 1, [1, 7, 6], [1, 2, 2])
                .stride([1, 2, 1])
                .padding([0, 0, 2])
                .dilation([1, 2, 3]),
        ),
        // Channel counts below and above the widths of vectors.
        new(2, Geometry::new(1, [16, 17], 1, [1, 3, 4], [1, 2, 2]).padding([0, 0, 1])),
        new(1, Geometry::new(1, [3, 3], 3, [1, 4, 9], [1, 1, 1])),
    ]
}

/// The two sizes of a plane.
fn pair(sizes: &[usize]) -> [usize; 2] {
    sizes.try_into().expect("two spatial axes")
}

impl Deformed {
    fn taps(&self) -> usize {
        self.conv.kernel.iter().product()
    }

    /// Shape of the mask; offsets have twice the channels.
    fn mask_shape(&self) -> Vec<usize> {
        [vec![self.conv.batch, self.offset_groups * self.taps()], self.conv.output()].concat()
    }

    fn offset_shape(&self) -> Vec<usize> {
        let mut shape = self.mask_shape();
        shape[1] *= 2;
        shape
    }

    fn options(&self) -> DeformConvOptions<2> {
        let g = &self.conv;
        let [stride, padding, dilation] = [&g.stride, &g.padding, &g.dilation].map(|sizes| pair(sizes));
        DeformConvOptions::new(stride, padding, dilation, g.groups, self.offset_groups)
    }

    /// Yields every product that the convolution with these offsets sums.
    fn visit(&self, offsets: &Array<f64>, mut f: impl FnMut(Term)) {
        let g = &self.conv;
        let ([height, width], [out_height, out_width]) = (pair(&g.input), pair(&g.output()));
        let plane = out_height * out_width;
        let [ins, outs] = g.channels;
        let (group_ins, group_outs) = (ins / g.groups, outs / g.groups);
        let per_offset_group = ins / self.offset_groups;
        for_each_index(&[g.batch, outs, group_ins, g.kernel[0], g.kernel[1]], |index| {
            let &[n, oc, ic, row, column] = index else { unreachable!("five axes") };
            let channel = oc / group_outs * group_ins + ic;
            let tap = channel / per_offset_group * self.taps() + row * g.kernel[1] + column;
            for_each_index(&[out_height, out_width], |at| {
                let inner = at[0] * out_width + at[1];
                let mask = (n * self.offset_groups * self.taps() + tap) * plane + inner;
                let offset = (2 * (n * self.offset_groups * self.taps() + tap)) * plane + inner;
                let position = [0, 1].map(|k| {
                    let base = at[k] * g.stride[k] + [row, column][k] * g.dilation[k];
                    base as f64 - g.padding[k] as f64 + offsets.data()[offset + k * plane]
                });
                let low = position.map(f64::floor);
                for (i, j) in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)] {
                    let corner = [low[0] + i, low[1] + j];
                    let inside =
                        (0.0..height as f64).contains(&corner[0]) && (0.0..width as f64).contains(&corner[1]);
                    if inside {
                        let near = [0, 1].map(|k| 1.0 - (position[k] - corner[k]).abs());
                        let sign = [2.0 * i - 1.0, 2.0 * j - 1.0];
                        let image = (n * ins + channel) * height + corner[0] as usize;
                        f(Term {
                            x: image * width + corner[1] as usize,
                            weight: ((oc * group_ins + ic) * g.kernel[0] + row) * g.kernel[1] + column,
                            offset,
                            mask,
                            out: (n * outs + oc) * plane + inner,
                            share: near[0] * near[1],
                            slopes: [sign[0] * near[1], sign[1] * near[0]],
                        });
                    }
                }
            });
        });
    }

    /// Widens the error bound of sums: their shares come from positions, whose rounding errors grow with the
    /// image size.
    fn blur(&self, sums: Array<Sum>) -> Array<Sum> {
        sums.map(|sum| sum.blurred(self.conv.input.iter().sum::<usize>() as f64))
    }

    /// Input, offsets, weight, mask, bias, gradient of the output.
    fn sample(&self, dtype: DType) -> [Array<f64>; 6] {
        let of = |shape: &[usize], range, seed| floats(dtype, shape, range, seed);
        [
            of(&self.conv.x_shape(), (-1.0, 1.0), 1),
            of(&self.offset_shape(), (-2.0, 2.0), 2),
            of(&self.conv.weight_shape(), (-1.0, 1.0), 3),
            of(&self.mask_shape(), (0.0, 1.0), 4),
            of(&[self.conv.channels[1]], (-1.0, 1.0), 5),
            of(&self.conv.out_shape(), (-1.0, 1.0), 6),
        ]
    }
}

fn forward<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["deform_conv2d"]) {
        for g in cases() {
            let [x, offset, weight, mask, bias, _] = g.sample(dtype);
            let want = |of: &[Array<f64>], mask: Option<&Array<f64>>| {
                g.blur(sums(g.conv.out_shape(), |add| {
                    g.visit(&of[1], |t| {
                        let mask = mask.map_or(1.0, |mask| mask.data()[t.mask]);
                        add(t.out, of[0].data()[t.x] * t.share * of[2].data()[t.weight] * mask);
                    });
                }))
            };
            let case = format!("{g:?}");
            let plain = |of: &[Array<f64>]| want(of, None);
            over_operands(context, dtype, &case, &[&x, &offset, &weight], plain, |t, want| {
                let [x, offset, weight] = take(t);
                let got = B::deform_conv2d(x, offset, weight, None, None, g.options());
                expect_sums(context, got, dtype, want)
            });
            let full = |of: &[Array<f64>]| {
                let mut out = want(of, Some(&of[3]));
                add_bias(&mut out, &of[4]);
                out
            };
            let all = [&x, &offset, &weight, &mask, &bias];
            over_operands(context, dtype, &case, &all, full, |t, want| {
                let [x, offset, weight, mask, bias] = take(t);
                let got = B::deform_conv2d(x, offset, weight, Some(mask), Some(bias), g.options());
                expect_sums(context, got, dtype, want).map_err(|e| format!("with mask and bias: {e}"))
            });
        }
    }
}

/// Gradients of input, offsets, weight, mask and bias.
fn gradients(g: &Deformed, of: &[Array<f64>], masked: bool) -> [Array<Sum>; 5] {
    let [x, _, w, m, _, d] = [0, 1, 2, 3, 4, 5].map(|k| of[k].data());
    let mask = |t: &Term| if masked { m[t.mask] } else { 1.0 };
    let plane: usize = g.conv.output().iter().product();
    let of_terms = |shape: Vec<usize>, each: &dyn Fn(&Term, &mut dyn FnMut(usize, f64))| {
        g.blur(sums(shape, |add| g.visit(&of[1], |t| each(&t, &mut *add))))
    };
    [
        of_terms(g.conv.x_shape(), &|t, add| add(t.x, t.share * w[t.weight] * mask(t) * d[t.out])),
        of_terms(g.offset_shape(), &|t, add| {
            for (k, slope) in t.slopes.into_iter().enumerate() {
                add(t.offset + k * plane, slope * x[t.x] * w[t.weight] * mask(t) * d[t.out]);
            }
        }),
        of_terms(g.conv.weight_shape(), &|t, add| add(t.weight, t.share * x[t.x] * mask(t) * d[t.out])),
        of_terms(g.mask_shape(), &|t, add| add(t.mask, t.share * x[t.x] * w[t.weight] * d[t.out])),
        bias_grad(&of[5]),
    ]
}

fn backward<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["deform_conv2d_backward"]) {
        for g in cases() {
            let all = g.sample(dtype);
            for full in [false, true] {
                let want = |of: &[Array<f64>]| gradients(&g, of, full);
                let case = format!("{g:?} mask and bias: {full}");
                let operands: Vec<&Array<f64>> = all.iter().collect();
                over_operands(context, dtype, &case, &operands, want, |t, want| {
                    let [x, offset, weight, mask, bias, grad] = take(t);
                    let (mask, bias) = (full.then_some(mask), full.then_some(bias));
                    let got = B::deform_conv2d_backward(x, offset, weight, mask, bias, grad, g.options());
                    if got.mask_grad.is_some() != full || got.bias_grad.is_some() != full {
                        return Err("gradients of what was not there, or none of what was".into());
                    }
                    let got = [
                        ("x", Some(got.x_grad)),
                        ("offset", Some(got.offset_grad)),
                        ("weight", Some(got.weight_grad)),
                        ("mask", got.mask_grad),
                        ("bias", got.bias_grad),
                    ];
                    got.into_iter().zip(want).try_for_each(|((name, got), want)| match got {
                        Some(got) => {
                            expect_sums(context, got, dtype, want).map_err(|e| format!("{name}: {e}"))
                        }
                        None => Ok(()),
                    })
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_offsets_it_is_a_convolution() {
        let [g, ..] = cases();
        let mut products = 0;
        g.visit(
            &Array::new(g.offset_shape(), vec![0.0; 2 * g.mask_shape().iter().product::<usize>()]),
            |t| {
                assert!(t.share == 1.0 || t.share == 0.0);
                products += (t.share == 1.0) as usize;
            },
        );
        // Nine taps over 5 x 6 elements, without the taps in the padding.
        assert_eq!(products, 2 * 3 * 4 * (3 * 5 - 2) * (3 * 6 - 2));
    }
}
