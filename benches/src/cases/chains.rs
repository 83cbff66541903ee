//! Chains of elementwise operations, as models and optimizers have them. Each row says in its bytes what has
//! to pass through memory if the chain is one pass.

use super::{Cases, Family, other, tensor};
use burn_tensor::activation::relu;
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Tensor};

/// Parameters of ResNet-18.
const PARAMETERS: usize = 11 << 20;

impl<B: Backend> Cases<B> {
    pub(super) fn chains(&mut self) {
        self.family = Family::Chains;
        self.short = true;
        let images = [8, 256, 56, 56];
        let bytes = 4 * images.iter().product::<usize>();
        let two = move |d: &B::Device| (tensor::<B, 4>(images, d), other::<B, 4>(images, DType::F32, d));
        let channels = |d: &B::Device| tensor::<B, 4>([1, 256, 1, 1], d);
        self.add("chain_add_8x256x56", 3 * bytes, two, |(x, y)| x.clone() + y.clone());
        // As burn-nn normalises a batch, with a residual block's end.
        self.add(
            "chain_bn_add_relu_8x256x56",
            3 * bytes,
            move |d| (two(d), channels(d)),
            |((x, y), c)| {
                let normed = x.clone().sub(c.clone()).div(c.clone()).mul(c.clone()).add(c.clone());
                relu(normed + y.clone())
            },
        );
        let n = 16 << 20;
        let one = move |d: &B::Device| tensor::<B, 1>([n], d);
        self.add("chain_one_16777216", 8 * n, one, |x| x.clone().mul_scalar(1.5));
        self.add("chain_eight_16777216", 8 * n, one, |x| {
            let y = x.clone().mul_scalar(1.5).add_scalar(0.5).abs().sub_scalar(1.0);
            relu(y).mul_scalar(0.25).clamp(0.0, 0.5).neg()
        });
        let state = |d: &B::Device| {
            let parameters = || tensor::<B, 1>([PARAMETERS], d);
            (parameters(), parameters(), parameters(), other::<B, 1>([PARAMETERS], DType::F32, d))
        };
        // Reads four tensors and writes three.
        self.add("chain_adam_11534336", 7 * 4 * PARAMETERS, state, |(x, m, v, g)| adam(x, m, v, g));
        self.add("chain_add_11534336", 3 * 4 * PARAMETERS, state, |(x, m, ..)| x.clone() + m.clone());
        self.short = false;
        let rows =
            |d: &B::Device| (tensor::<B, 2>([4096, 1024], d), other::<B, 2>([4096, 1024], DType::F32, d));
        // The gradient of softmax, written with plain operations: a reduction within a chain.
        self.add("chain_softmax_grad_4096x1024", 3 * (16 << 20), rows, |(y, g)| {
            let sum = (g.clone() * y.clone()).sum_dim(1);
            y.clone() * (g.clone() - sum)
        });
    }
}

/// A step of Adam, as burn-optim takes it.
fn adam<B: Backend>(
    x: &Tensor<B, 1>,
    m: &Tensor<B, 1>,
    v: &Tensor<B, 1>,
    g: &Tensor<B, 1>,
) -> (Tensor<B, 1>, Tensor<B, 1>, Tensor<B, 1>) {
    let m = m.clone().mul_scalar(0.9).add(g.clone().mul_scalar(0.1));
    let v = v.clone().mul_scalar(0.999).add(g.clone().square().mul_scalar(0.001));
    let update = m.clone().mul_scalar(0.3).div(v.clone().sqrt().add_scalar(1e-8));
    (x.clone() - update.mul_scalar(1e-3), m, v)
}
