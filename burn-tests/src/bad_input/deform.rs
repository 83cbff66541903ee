//! Deformable convolution: offsets, masks and groups that do not fit the other arguments.

use super::{BadCall, Fixture};
use burn_backend::ops::DeformConvOptions;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

type Tensor<B> = FloatTensor<B>;

/// The arguments of a valid call, to be made invalid in one place.
struct Arguments<B: Backend> {
    x: Tensor<B>,
    offset: Tensor<B>,
    weight: Tensor<B>,
    mask: Option<Tensor<B>>,
    bias: Option<Tensor<B>>,
    grad: Tensor<B>,
    options: DeformConvOptions<2>,
}

impl<B: Backend> Arguments<B> {
    /// Two images of four channels, a kernel of 3 by 3, an output of 3 by 3.
    fn legal(t: &Fixture<B>) -> Self {
        Self {
            x: t.f(&[2, 4, 5, 5]),
            offset: t.f(&[2, 18, 3, 3]),
            weight: t.f(&[3, 4, 3, 3]),
            mask: Some(t.f(&[2, 9, 3, 3])),
            bias: Some(t.f(&[3])),
            grad: t.f(&[2, 3, 3, 3]),
            options: DeformConvOptions {
                stride: [1, 1],
                padding: [0, 0],
                dilation: [1, 1],
                weight_groups: 1,
                offset_groups: 1,
            },
        }
    }
}

type Spoil<B> = fn(&Fixture<B>, &mut Arguments<B>);

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let both: [(&str, Spoil<B>); 19] = [
        ("an input of three axes", |t, a| a.x = t.f(&[4, 5, 5])),
        ("an input of other channels", |t, a| a.x = t.f(&[2, 3, 5, 5])),
        ("an input of another dtype", |t, a| a.x = t.float(DType::F64, &[2, 4, 5, 5])),
        ("offsets for fewer taps", |t, a| a.offset = t.f(&[2, 16, 3, 3])),
        ("offsets of another height", |t, a| a.offset = t.f(&[2, 18, 4, 3])),
        ("offsets of another batch", |t, a| a.offset = t.f(&[1, 18, 3, 3])),
        ("offsets of three axes", |t, a| a.offset = t.f(&[18, 3, 3])),
        ("a weight of three axes", |t, a| a.weight = t.f(&[3, 4, 3])),
        ("a mask for the offsets' channels", |t, a| a.mask = Some(t.f(&[2, 18, 3, 3]))),
        ("a mask of another width", |t, a| a.mask = Some(t.f(&[2, 9, 3, 2]))),
        ("a mask of another dtype", |t, a| a.mask = Some(t.float(DType::F16, &[2, 9, 3, 3]))),
        ("a bias of another width", |t, a| a.bias = Some(t.f(&[4]))),
        ("a stride of zero", |_, a| a.options.stride = [1, 0]),
        ("a dilation of zero", |_, a| a.options.dilation = [0, 1]),
        ("no weight groups", |_, a| a.options.weight_groups = 0),
        ("no offset groups", |_, a| a.options.offset_groups = 0),
        ("offset groups that do not divide the channels", |_, a| a.options.offset_groups = 3),
        ("a dilated kernel larger than the input", |_, a| a.options.dilation = [3, 3]),
        ("a padding that overflows", |_, a| a.options.padding = [usize::MAX, 0]),
    ];
    let gradient: [(&str, Spoil<B>); 4] = [
        ("a gradient of another height", |t, a| a.grad = t.f(&[2, 3, 2, 3])),
        ("a gradient of other channels", |t, a| a.grad = t.f(&[2, 4, 3, 3])),
        ("a gradient of another batch", |t, a| a.grad = t.f(&[1, 3, 3, 3])),
        ("a gradient of another dtype", |t, a| a.grad = t.float(DType::F64, &[2, 3, 3, 3])),
    ];
    let spoiled = |t: &Fixture<B>, spoil: Spoil<B>| {
        let mut arguments = Arguments::legal(t);
        spoil(t, &mut arguments);
        arguments
    };
    let mut list = Vec::new();
    for (fault, spoil) in both {
        list.push(BadCall::new("deform_conv2d", "deform_conv2d", fault, move |t| {
            let Arguments { x, offset, weight, mask, bias, options, .. } = spoiled(t, spoil);
            drop(B::deform_conv2d(x, offset, weight, mask, bias, options));
        }));
    }
    for (fault, spoil) in both.into_iter().chain(gradient) {
        list.push(BadCall::new("deform_conv2d", "deform_conv2d_backward", fault, move |t| {
            let Arguments { x, offset, weight, mask, bias, grad, options } = spoiled(t, spoil);
            drop(B::deform_conv2d_backward(x, offset, weight, mask, bias, grad, options));
        }));
    }
    list
}
