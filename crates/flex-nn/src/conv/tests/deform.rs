//! Deformable convolution against its definition and central differences.

use super::*;

/// Deformable convolution from its definition, in f64, without bias.
fn naive_deform(
    x: (&[f64], &[usize]),
    offset: &[f64],
    weight: (&[f64], &[usize]),
    mask: Option<&[f64]>,
    o: &DeformConvOptions,
) -> Vec<f64> {
    let ((x, xs), (w, ws)) = (x, weight);
    let out =
        |k: usize| (xs[2 + k] + 2 * o.padding[k] - o.dilation[k] * (ws[2 + k] - 1) - 1) / o.stride[k] + 1;
    let (oh, ow, taps) = (out(0), out(1), ws[2] * ws[3]);
    let mut y = vec![0.0; xs[0] * ws[0] * oh * ow];
    for b in 0..xs[0] {
        for m in 0..ws[0] {
            for c in 0..ws[1] {
                let channel = m / (ws[0] / o.weight_groups) * ws[1] + c;
                let group = channel / (xs[1] / o.offset_groups);
                for at in 0..oh * ow {
                    for tap in 0..taps {
                        let row = b * o.offset_groups * taps + group * taps + tap;
                        let py = (at / ow * o.stride[0] + tap / ws[3] * o.dilation[0]) as f64
                            - o.padding[0] as f64
                            + offset[2 * row * oh * ow + at];
                        let px = (at % ow * o.stride[1] + tap % ws[3] * o.dilation[1]) as f64
                            - o.padding[1] as f64
                            + offset[(2 * row + 1) * oh * ow + at];
                        // The weight of a pixel falls linearly with its distance.
                        let mut sample = 0.0;
                        for i in 0..xs[2] {
                            for j in 0..xs[3] {
                                let near = (1.0 - (py - i as f64).abs()).max(0.0)
                                    * (1.0 - (px - j as f64).abs()).max(0.0);
                                sample += near * x[((b * xs[1] + channel) * xs[2] + i) * xs[3] + j];
                            }
                        }
                        let m_value = mask.map_or(1.0, |mask| mask[row * oh * ow + at]);
                        y[(b * ws[0] + m) * oh * ow + at] +=
                            sample * m_value * w[(m * ws[1] + c) * taps + tap];
                    }
                }
            }
        }
    }
    y
}

/// Operands of a deformable convolution whose samples stay clear of the kinks between pixels.
struct Deform {
    x: (Vec<f64>, [usize; 4]),
    offset: (Vec<f64>, [usize; 4]),
    weight: (Vec<f64>, [usize; 4]),
    mask: Option<(Vec<f64>, [usize; 4])>,
    options: DeformConvOptions,
}

impl Deform {
    fn new(x: [usize; 4], w: [usize; 4], masked: bool, options: DeformConvOptions) -> Self {
        let o = &options;
        let out =
            |k: usize| (x[2 + k] + 2 * o.padding[k] - o.dilation[k] * (w[2 + k] - 1) - 1) / o.stride[k] + 1;
        let rows = o.offset_groups * w[2] * w[3];
        let (os, ms) = ([x[0], 2 * rows, out(0), out(1)], [x[0], rows, out(0), out(1)]);
        let filled = |shape: [usize; 4], seed| (values(shape.iter().product(), seed), shape);
        let mut offset = filled(os, 2);
        // Multiples of 1/64, moved off the integers.
        offset.0.iter_mut().for_each(|v| *v = *v * 2.5 + 1.0 / 256.0);
        Self { x: filled(x, 1), offset, weight: filled(w, 3), mask: masked.then(|| filled(ms, 4)), options }
    }

    fn naive(&self) -> Vec<f64> {
        let mask = self.mask.as_ref().map(|m| &m.0[..]);
        naive_deform(
            (&self.x.0, &self.x.1),
            &self.offset.0,
            (&self.weight.0, &self.weight.1),
            mask,
            &self.options,
        )
    }

    fn tensors<T: Element>(&self) -> (Tensor, Tensor, Tensor, Option<Tensor>) {
        let of = |v: &(Vec<f64>, [usize; 4])| tensor::<T>(&v.0, &v.1);
        (of(&self.x), of(&self.offset), of(&self.weight), self.mask.as_ref().map(of))
    }

    fn cases() -> Vec<Self> {
        let options = |stride, padding, dilation, weight_groups, offset_groups| DeformConvOptions {
            stride: [stride; 2],
            padding: [padding; 2],
            dilation: [dilation; 2],
            weight_groups,
            offset_groups,
        };
        vec![
            Self::new([2, 4, 6, 7], [3, 4, 3, 3], true, options(1, 1, 1, 1, 1)),
            Self::new([1, 4, 7, 6], [6, 2, 2, 3], false, options(2, 2, 2, 2, 2)),
            Self::new([2, 6, 5, 5], [9, 2, 3, 2], true, options(1, 0, 1, 3, 2)),
            Self::new([1, 2, 9, 12], [10, 2, 1, 1], true, options(1, 3, 1, 1, 2)),
        ]
    }
}

#[test]
fn deformable_samples_follow_their_definition() {
    for case in Deform::cases() {
        let want = case.naive();
        let (x, offset, weight, mask) = case.tensors::<f64>();
        let got = deform_conv2d(x, offset, weight, mask, None, &case.options).unwrap();
        for (got, want) in got.to_vec::<f64>().iter().zip(&want) {
            assert!((got - want).abs() < 1e-12, "{got} for {want}");
        }
        let (x, offset, weight, mask) = case.tensors::<f32>();
        let bias = random::<f32>(&case.weight.1[..1], 9);
        let got = deform_conv2d(x, offset, weight, mask, Some(bias.clone()), &case.options).unwrap();
        let plane: usize = got.shape()[2..].iter().product();
        let bias = to_f64::<f32>(&bias);
        for (i, (got, want)) in to_f64::<f32>(&got).iter().zip(&want).enumerate() {
            let want = want + bias[i / plane % bias.len()];
            assert!((got - want).abs() < 1e-4, "{got} for {want}");
        }
    }
}

#[test]
fn deformable_gradients_agree_with_central_differences() {
    for case in Deform::cases() {
        let y = case.naive();
        let g = values(y.len(), 8);
        let loss = |case: &Deform| case.naive().iter().zip(&g).map(|(y, g)| y * g).sum::<f64>();
        let (x, offset, weight, mask) = case.tensors::<f64>();
        let shape =
            deform_conv2d(x.clone(), offset.clone(), weight.clone(), mask.clone(), None, &case.options);
        let shape = shape.unwrap().shape().to_vec();
        let grad = tensor::<f64>(&g, &shape);
        let bias = random::<f64>(&shape[1..2], 1);
        let got =
            deform_conv2d_backward(x, offset, weight, mask, Some(bias), grad.clone(), &case.options).unwrap();
        let want = conv_bias_backward::<2>(random::<f64>(&shape[1..2], 1), grad).unwrap();
        assert_eq!(got.bias.unwrap().to_vec::<f64>(), want.to_vec::<f64>());
        assert_eq!(got.mask.is_some(), case.mask.is_some());
        let select: [(Option<Tensor>, fn(&mut Deform) -> &mut Vec<f64>); 4] = [
            (Some(got.x), |d| &mut d.x.0),
            (Some(got.offset), |d| &mut d.offset.0),
            (Some(got.weight), |d| &mut d.weight.0),
            (got.mask, |d| &mut d.mask.as_mut().expect("checked").0),
        ];
        for (got, field) in select {
            let Some(got) = got else { continue };
            for (i, &got) in got.to_vec::<f64>().iter().enumerate().step_by(5) {
                let h = 1e-5;
                let at = |h: f64| {
                    let mut moved = Deform {
                        x: case.x.clone(),
                        offset: case.offset.clone(),
                        weight: case.weight.clone(),
                        mask: case.mask.clone(),
                        options: case.options.clone(),
                    };
                    field(&mut moved)[i] += h;
                    loss(&moved)
                };
                let want = (at(h) - at(-h)) / (2.0 * h);
                assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "[{i}]: {got} for {want}");
            }
        }
    }
}

#[test]
fn deformable_without_offsets_is_a_convolution() {
    let o = DeformConvOptions {
        stride: [1; 2],
        padding: [1; 2],
        dilation: [1; 2],
        weight_groups: 2,
        offset_groups: 1,
    };
    let conv_options = options::<2>(1, 1, 1, 2);
    let (x, w) = (random::<bf16>(&[2, 4, 9, 40], 1), random::<bf16>(&[6, 2, 3, 3], 2));
    let offset = tensor::<bf16>(&vec![0.0; 2 * 18 * 360], &[2, 18, 9, 40]);
    let y = deform_conv2d(x.clone(), offset.clone(), w.clone(), None, None, &o).unwrap();
    let want = conv(x.clone(), w.clone(), None, &conv_options).unwrap();
    assert_eq!(y.to_vec::<bf16>(), want.to_vec::<bf16>());
    let got = deform_conv2d_backward(x.clone(), offset, w.clone(), None, None, y.clone(), &o).unwrap();
    let close = |a: &Tensor, b: &Tensor| {
        let (a, b) = (to_f64::<bf16>(a), to_f64::<bf16>(b));
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 0.01 * (1.0 + b.abs()))
    };
    assert!(close(&got.x, &conv_x_backward(x.clone(), w.clone(), y.clone(), &conv_options).unwrap()));
    assert!(close(&got.weight, &conv_weight_backward(x, w, y, &conv_options).unwrap()));
}

#[test]
fn deformable_operands_that_do_not_fit_are_refused() {
    let o = DeformConvOptions {
        stride: [1; 2],
        padding: [0; 2],
        dilation: [1; 2],
        weight_groups: 1,
        offset_groups: 2,
    };
    let (x, w) = (random::<f32>(&[1, 4, 5, 5], 1), random::<f32>(&[3, 4, 3, 3], 2));
    let (offset, mask) = (random::<f32>(&[1, 36, 3, 3], 1), random::<f32>(&[1, 18, 3, 3], 1));
    let check = |offset: &Tensor, mask: &Tensor, o: &DeformConvOptions, part: &str| {
        let y = deform_conv2d(x.clone(), offset.clone(), w.clone(), Some(mask.clone()), None, o);
        let message = y.unwrap_err().to_string();
        assert!(message.starts_with("deform_conv2d: ") && message.contains(part), "{message}");
    };
    assert!(deform_conv2d(x.clone(), offset.clone(), w.clone(), Some(mask.clone()), None, &o).is_ok());
    check(&mask, &mask, &o, "[1, 36, 3, 3]");
    check(&offset, &offset, &o, "[1, 18, 3, 3]");
    check(&offset, &mask, &DeformConvOptions { offset_groups: 3, ..o.clone() }, "offset_groups");
    check(&offset, &mask, &DeformConvOptions { offset_groups: 0, ..o.clone() }, "offset_groups");
    check(&offset, &mask, &DeformConvOptions { weight_groups: 0, ..o.clone() }, "groups");
    check(&offset, &random::<f64>(&[1, 18, 3, 3], 1), &o, "dtype");
    let grad = random::<f32>(&[1, 3, 3, 4], 1);
    let result = deform_conv2d_backward(x.clone(), offset, w.clone(), None, None, grad, &o);
    assert!(result.unwrap_err().to_string().starts_with("deform_conv2d_backward: "));
}
