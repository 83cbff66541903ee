//! Layers of models that are not among the [benched ones](crate::models): as burn-nn has them, with weights
//! that are the same on every backend. They run in the full set alone.

use super::{Cases, Family, backward, permutation, tensor};
use burn::backend::Autodiff;
use burn::module::Initializer;
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::nn::gru::GruConfig;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{
    BatchNormConfig, GroupNormConfig, InstanceNormConfig, LayerNormConfig, LstmConfig, RmsNormConfig,
    RotaryEncodingConfig, SwiGluConfig,
};
use burn_tensor::activation::{hard_swish, mish, softmax, softplus};
use burn_tensor::backend::Backend;
use burn_tensor::module::{conv_transpose2d, conv1d, conv2d, conv3d, interpolate};
use burn_tensor::ops::{ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn_tensor::{Bool, Tensor};

/// Weights of layers whose numbers do not matter, only that every backend has the same.
const SAME: Initializer = Initializer::Constant { value: 0.01 };

impl<B: Backend> Cases<B> {
    pub(super) fn layers(&mut self) {
        self.family = Family::Layers;
        self.short = false;
        self.norms();
        self.activations();
        self.convolutions();
        self.sequences();
        self.changes_of_layout();
    }

    fn norms(&mut self) {
        let image = |d: &B::Device| tensor::<B, 4>([1, 320, 64, 64], d);
        let group = move |d: &B::Device| (GroupNormConfig::new(32, 320).init::<B>(d), image(d));
        self.add("group_norm_320x64x64", 8 * 320 * 64 * 64, group, |(norm, x)| norm.forward(x.clone()));
        self.add(
            "instance_norm_4x64x128x128",
            8 * 4 * 64 * 128 * 128,
            |d| (InstanceNormConfig::new(64).init::<B>(d), tensor::<B, 4>([4, 64, 128, 128], d)),
            |(norm, x)| norm.forward(x.clone()),
        );
        self.add(
            "rms_norm_128x2048",
            8 * 128 * 2048,
            |d| (RmsNormConfig::new(2048).init::<B>(d), tensor::<B, 3>([1, 128, 2048], d)),
            |(norm, x)| norm.forward(x.clone()),
        );
        // Of ConvNeXt: over the channels of images.
        self.add(
            "layer_norm_channels_96x56x56",
            8 * 96 * 56 * 56,
            |d| (LayerNormConfig::new(96).init::<B>(d), tensor::<B, 4>([1, 96, 56, 56], d)),
            |(norm, x)| norm.forward(x.clone().permute([0, 2, 3, 1])).permute([0, 3, 1, 2]),
        );
        self.add(
            "batch_norm_grad_16x64x56x56",
            5 * 4 * 16 * 64 * 56 * 56,
            |d| {
                let norm = BatchNormConfig::new(64).init::<Autodiff<B>>(d);
                (norm, tensor::<Autodiff<B>, 4>([16, 64, 56, 56], d))
            },
            |(norm, x)| backward(norm.forward(x.clone().require_grad())),
        );
    }

    fn activations(&mut self) {
        let images = [4, 64, 112, 112];
        let bytes = 8 * images.iter().product::<usize>();
        let image = move |d: &B::Device| tensor::<B, 4>(images, d);
        self.add("hard_swish_3m", bytes, image, |x| hard_swish(x.clone()));
        self.add("mish_3m", bytes, image, |x| mish(x.clone()));
        self.add("softplus_3m", bytes, image, |x| softplus(x.clone(), 1.0));
        self.add(
            "softmax_8x50257",
            8 * 8 * 50257,
            |d| tensor::<B, 2>([8, 50257], d),
            |x| softmax(x.clone(), 1),
        );
        self.add(
            "causal_softmax_12x512x512",
            8 * 12 * 512 * 512,
            |d| (tensor::<B, 3>([12, 512, 512], d), Tensor::<B, 2, Bool>::tril_mask([512, 512], 0, d)),
            |(x, mask)| softmax(x.clone().mask_fill(mask.clone().unsqueeze(), f32::NEG_INFINITY), 2),
        );
        self.add(
            "cross_entropy_grad_256x32000",
            0,
            |d| {
                let loss = CrossEntropyLossConfig::new().init::<Autodiff<B>>(d);
                (loss, tensor::<Autodiff<B>, 2>([256, 32000], d), permutation::<Autodiff<B>>(256, d))
            },
            |(loss, x, classes)| backward(loss.forward(x.clone().require_grad(), classes.clone())),
        );
    }

    fn convolutions(&mut self) {
        for (name, channels, kernel, [padding, dilation], groups) in [
            ("conv_dilated_64x56_k3_d2", 64, [3, 3], [[2, 2], [2, 2]], 1),
            ("conv_1x7_64x56", 64, [1, 7], [[0, 3], [1, 1]], 1),
            ("conv_64x56_k5", 64, [5, 5], [[2, 2], [1, 1]], 1),
            ("conv_groups32_128x56_k3", 128, [3, 3], [[1, 1], [1, 1]], 32),
        ] {
            let options = ConvOptions::new([1, 1], padding, dilation, groups);
            let operands = move |d: &B::Device| {
                let weight = tensor::<B, 4>([channels, channels / groups, kernel[0], kernel[1]], d);
                (tensor::<B, 4>([1, channels, 56, 56], d), weight, options.clone())
            };
            self.add(name, 0, operands, |(x, w, options)| {
                conv2d(x.clone(), w.clone(), None, options.clone())
            });
            self.flops(2 * 56 * 56 * channels * channels / groups * kernel[0] * kernel[1]);
        }
        for (name, kernel, padding) in [("conv_transpose_k4s2", 4, 1), ("conv_transpose_k2s2", 2, 0)] {
            self.add(
                format!("{name}_128x64x64"),
                0,
                move |d| (tensor::<B, 4>([1, 128, 64, 64], d), tensor::<B, 4>([128, 64, kernel, kernel], d)),
                move |(x, w)| {
                    let options = ConvTransposeOptions::new([2, 2], [padding; 2], [0, 0], [1, 1], 1);
                    conv_transpose2d(x.clone(), w.clone(), None, options)
                },
            );
            self.flops(2 * 64 * 64 * 128 * 64 * kernel * kernel);
        }
        // Of Whisper, and of Mamba.
        for (name, channels, len, kernel, stride, padding, groups) in [
            ("conv1d_80x3000_o384_k3", [80, 384], 3000, 3, 1, 1, 1),
            ("conv1d_384x3000_o384_k3_s2", [384, 384], 3000, 3, 2, 1, 1),
            ("dwconv1d_1536x512_k4", [1536, 1536], 512, 4, 1, 3, 1536),
        ] {
            let [c, o] = channels;
            self.add(
                name,
                0,
                move |d| (tensor::<B, 3>([1, c, len], d), tensor::<B, 3>([o, c / groups, kernel], d)),
                move |(x, w)| {
                    let options = ConvOptions::new([stride], [padding], [1], groups);
                    conv1d(x.clone(), w.clone(), None, options)
                },
            );
            self.flops(2 * len / stride * o * c / groups * kernel);
        }
        self.add(
            "conv3d_16x16x56x56_o32_k3",
            0,
            |d| (tensor::<B, 5>([1, 16, 16, 56, 56], d), tensor::<B, 5>([32, 16, 3, 3, 3], d)),
            |(x, w)| conv3d(x.clone(), w.clone(), None, ConvOptions::new([1; 3], [1; 3], [1; 3], 1)),
        );
        self.flops(2 * 16 * 56 * 56 * 16 * 32 * 27);
        for (name, mode) in [("nearest", InterpolateMode::Nearest), ("bilinear", InterpolateMode::Bilinear)] {
            self.add(
                format!("{name}2_320x64x64"),
                4 * 5 * 320 * 64 * 64,
                move |d| (tensor::<B, 4>([1, 320, 64, 64], d), InterpolateOptions::new(mode.clone())),
                |(x, options)| interpolate(x.clone(), [128, 128], options.clone()),
            );
        }
    }

    fn sequences(&mut self) {
        self.add(
            "gru_8x64x256",
            0,
            |d| {
                let layer = GruConfig::new(256, 256, true).with_initializer(SAME).init::<B>(d);
                (layer, tensor::<B, 3>([8, 64, 256], d))
            },
            |(layer, x)| layer.forward(x.clone(), None),
        );
        self.add(
            "lstm_grad_16x32x64",
            0,
            |d| {
                let layer = LstmConfig::new(64, 64, true).with_initializer(SAME).init::<Autodiff<B>>(d);
                (layer, tensor::<Autodiff<B>, 3>([16, 32, 64], d))
            },
            |(layer, x)| backward(layer.forward(x.clone(), None).0),
        );
        for (name, batch, width) in [("mha_4x128x512", 4, 512), ("mha_16x128x256", 16, 256)] {
            let inputs =
                move |d: &B::Device| (attention(width).init::<B>(d), tensor::<B, 3>([batch, 128, width], d));
            self.add(name, 0, inputs, |(layer, x)| layer.forward(MhaInput::self_attn(x.clone())).context);
        }
        self.add(
            "mha_grad_16x128x256",
            0,
            |d| (attention(256).init::<Autodiff<B>>(d), tensor::<Autodiff<B>, 3>([16, 128, 256], d)),
            |(layer, x)| backward(layer.forward(MhaInput::self_attn(x.clone().require_grad())).context),
        );
        self.add(
            "rope_32x128x64",
            8 * 32 * 128 * 64,
            |d| (RotaryEncodingConfig::new(512, 64).init::<B>(d), tensor::<B, 4>([1, 32, 128, 64], d)),
            |(layer, x)| layer.forward(x.clone()),
        );
        self.add(
            "swiglu_128x768x2048",
            0,
            |d| {
                let layer = SwiGluConfig::new(768, 2048).with_initializer(SAME).init::<B>(d);
                (layer, tensor::<B, 3>([1, 128, 768], d))
            },
            |(layer, x)| layer.forward(x.clone()),
        );
        self.flops(2 * 2 * 128 * 768 * 2048);
    }

    /// Each ends with an addition, so that the elements are moved.
    fn changes_of_layout(&mut self) {
        self.add(
            "pixel_shuffle_256x64x64",
            8 * 256 * 64 * 64,
            |d| tensor::<B, 4>([1, 256, 64, 64], d),
            |x| {
                let phases = x.clone().reshape([1, 64, 2, 2, 64, 64]).permute([0, 1, 4, 2, 5, 3]);
                phases.reshape([1, 64, 128, 128]) + 1.0
            },
        );
        // The windows of a Swin transformer.
        self.add(
            "windows_96x56x56",
            8 * 96 * 56 * 56,
            |d| tensor::<B, 4>([1, 96, 56, 56], d),
            |x| {
                let parts = x.clone().permute([0, 2, 3, 1]).reshape([1, 8, 7, 8, 7, 96]);
                parts.permute([0, 1, 3, 2, 4, 5]).reshape([64, 49, 96]) + 1.0
            },
        );
        let photos = |d: &B::Device| tensor::<B, 4>([8, 3, 224, 224], d);
        let bytes = 8 * 8 * 3 * 224 * 224;
        self.add("channels_last_8x3x224x224", bytes, photos, |x| {
            x.clone().permute([0, 2, 3, 1]).reshape([8 * 224 * 224, 3]) + 1.0
        });
        self.add(
            "patches_8x3x224x224_k16_o384",
            0,
            move |d| (photos(d), tensor::<B, 4>([384, 3, 16, 16], d)),
            |(x, w)| {
                let patches =
                    conv2d(x.clone(), w.clone(), None, ConvOptions::new([16; 2], [0; 2], [1; 2], 1));
                patches.reshape([8, 384, 196]).swap_dims(1, 2) + 1.0
            },
        );
        self.flops(2 * 8 * 196 * 384 * 3 * 256);
    }
}

/// Attention over rows of `width` elements, with eight heads.
fn attention(width: usize) -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(width, 8).with_dropout(0.0).with_initializer(SAME)
}
