//! Convolution, pooling, attention, Fourier transforms.

use super::{Cases, Family, tensor};
use burn::backend::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::module::{attention, avg_pool2d, conv2d, max_pool2d};
use burn_tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn_tensor::signal::rfft;

impl<B: Backend> Cases<B> {
    /// A convolution with "same" padding.
    fn conv(&mut self, name: &str, shape: Conv) {
        let Conv { batch: b, channels: [c, o], size: h, kernel: k, stride, groups } = shape;
        self.add(
            name,
            0,
            move |d| {
                let options = ConvOptions::new([stride; 2], [k / 2; 2], [1; 2], groups);
                (tensor::<B, 4>([b, c, h, h], d), tensor::<B, 4>([o, c / groups, k, k], d), options)
            },
            |(x, w, options)| conv2d(x.clone(), w.clone(), None, options.clone()),
        );
        self.flops(2 * b * o * (h / stride).pow(2) * (c / groups) * k * k);
    }

    pub(super) fn modules(&mut self) {
        self.family = Family::Module;
        self.short = true;
        for (name, batch, channels, size, kernel, stride, groups) in [
            ("conv2d_b1_c3_h224_o64_k7_s2", 1, [3, 64], 224, 7, 2, 1),
            ("conv2d_b1_c64_h56_o64_k3_s1", 1, [64, 64], 56, 3, 1, 1),
            ("conv2d_b1_c64_h56_o64_k1_s1", 1, [64, 64], 56, 1, 1, 1),
            ("conv2d_b8_c128_h28_o128_k3_s1", 8, [128, 128], 28, 3, 1, 1),
            ("conv2d_b1_c512_h7_o512_k3_s1", 1, [512, 512], 7, 3, 1, 1),
            ("dwconv_c128_h56_k3", 1, [128, 128], 56, 3, 1, 128),
        ] {
            self.conv(name, Conv { batch, channels, size, kernel, stride, groups });
        }
        let image = |d: &B::Device| tensor::<B, 4>([4, 64, 112, 112], d);
        let pooled = 4 * 4 * 64 * (112 * 112 + 56 * 56);
        self.add("maxpool_4x64x112_k3s2", pooled, image, |x| {
            max_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false)
        });
        self.add("avgpool_4x64x112_k3s2", pooled, image, |x| {
            avg_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], true, false)
        });
        for (h, s, d) in [(12, 128, 64), (12, 512, 64), (8, 2048, 64)] {
            self.add(
                format!("attention_h{h}_s{s}_d{d}"),
                0,
                move |device| tensor::<B, 4>([1, h, s, d], device),
                |x| attention(x.clone(), x.clone(), x.clone(), None, None, AttentionModuleOptions::default()),
            );
            self.flops(4 * h * s * s * d);
        }
        for n in [1024, 4096, 65536] {
            self.add(
                format!("rfft_16x{n}"),
                0,
                move |d| tensor::<B, 2>([16, n], d),
                |x| rfft(x.clone(), 1, None),
            );
            // The customary count for a real transform: 2.5 n log2(n).
            self.flops(16 * 5 * n * n.ilog2() as usize / 2);
        }
        self.short = false;
        self.add(
            "maxpool_grad_4x64x112_k3s2",
            2 * pooled,
            |d| tensor::<Autodiff<B>, 4>([4, 64, 112, 112], d),
            |x| max_pool2d(x.clone().require_grad(), [3, 3], [2, 2], [1, 1], [1, 1], false).sum().backward(),
        );
        self.add(
            "conv2d_grad_b1_c64_h56_o64_k3_s1",
            0,
            |d| (tensor::<Autodiff<B>, 4>([1, 64, 56, 56], d), tensor::<Autodiff<B>, 4>([64, 64, 3, 3], d)),
            |(x, w)| {
                let options = ConvOptions::new([1; 2], [1; 2], [1; 2], 1);
                conv2d(x.clone().require_grad(), w.clone().require_grad(), None, options).sum().backward()
            },
        );
        // The convolution itself, and one product for each of the two gradients.
        self.flops(3 * 2 * 64 * 56 * 56 * 64 * 9);
    }
}

/// Sizes of a convolution.
struct Conv {
    batch: usize,
    /// Input and output channels.
    channels: [usize; 2],
    /// Height and width.
    size: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
}
