//! Convolution, pooling, attention, Fourier transforms.

use super::parts::{Conv, Part, Pass};
use super::{Cases, Family, backward, tensor};
use burn::backend::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::module::{avg_pool2d, max_pool2d};
use burn_tensor::signal::rfft;

impl<B: Backend> Cases<B> {
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
            let conv = Conv { batch, channels, size, kernel, stride, groups };
            self.named_part(name.into(), Part::Conv(conv, Pass::Forward));
        }
        let image = |d: &B::Device| tensor::<B, 4>([4, 64, 112, 112], d);
        let pooled = 4 * 4 * 64 * (112 * 112 + 56 * 56);
        self.add("maxpool_4x64x112_k3s2", pooled, image, |x| {
            max_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false)
        });
        self.add("avgpool_4x64x112_k3s2", pooled, image, |x| {
            avg_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], true, false)
        });
        for (heads, keys, width) in [(12, 128, 64), (12, 512, 64), (8, 2048, 64)] {
            let (queries, causal, pass) = (keys, false, Pass::Forward);
            self.part(Part::Attention { heads, queries, keys, width, causal, pass });
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
            |x| backward(max_pool2d(x.clone().require_grad(), [3, 3], [2, 2], [1, 1], [1, 1], false)),
        );
        // Of MobileNet, EfficientNet and ConvNeXt.
        for (channels, size, kernel) in [(384, 14, 3), (672, 14, 5), (960, 7, 3), (96, 56, 7)] {
            let name = format!("dwconv_c{channels}_h{size}_k{kernel}");
            let conv = Conv { batch: 1, channels: [channels; 2], size, kernel, stride: 1, groups: channels };
            self.named_part(name, Part::Conv(conv, Pass::Forward));
        }
        let conv = Conv { batch: 1, channels: [64, 64], size: 56, kernel: 3, stride: 1, groups: 1 };
        self.part(Part::Conv(conv, Pass::Gradients));
    }
}
