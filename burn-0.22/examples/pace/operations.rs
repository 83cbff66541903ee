//! Operations on tensors of `f32`, where nothing else is said.

use super::Bench;
use burn::backend::Flex;
use burn::signal::rfft;
use burn::tensor::activation::{gelu, softmax};
use burn::tensor::module::{attention, conv2d, embedding, layer_norm, linear, max_pool2d};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions, MaxPoolOptions};
use burn::tensor::quantization::{QuantScheme, QuantStore};
use burn::tensor::{Device, Distribution, FloatDType, IndexingUpdateOp, Int, Tensor, TensorData};
use burn_backend::ops::FloatTensorOps;

/// Elements of a large vector: 4 MB.
const LARGE: usize = 1 << 20;
/// Rows and columns of a large matrix, which has as many elements.
const SIDE: usize = 1 << 10;

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Default, device)
}

/// The numbers below `n` in another order; `n` is a power of two.
fn permutation(n: usize, device: &Device) -> Tensor<1, Int> {
    let places: Vec<i32> = (0..n).map(|i| (i * 421 % n) as i32).collect();
    Tensor::from_data(TensorData::new(places, [n]), device)
}

/// Operations on few elements: through Burn's user API, which calls the backend through burn-dispatch, and
/// by the backend's trait.
pub(super) fn small(bench: &Bench) {
    let device = &bench.device;
    for n in [1, 64, 4096] {
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let data = TensorData::new(values, [n]);
        let x = Tensor::<1>::from_data(data.clone(), device);
        let y = x.clone() * 2.0;
        bench.time(&format!("add, {n} elements"), || x.clone() + y.clone());
        let x = <Flex as FloatTensorOps<Flex>>::float_from_data(data, &Default::default());
        let y = <Flex as FloatTensorOps<Flex>>::float_mul_scalar(x.clone(), 2.0.into());
        bench.time(&format!("add, {n} elements, by the trait"), || {
            <Flex as FloatTensorOps<Flex>>::float_add(x.clone(), y.clone())
        });
    }
    let x = random([8, 8], device);
    bench.time("mul_scalar, 64 elements", || x.clone() * 1.5);
    bench.time("exp, 64 elements", || x.clone().exp());
    bench.time("sum, 64 elements", || x.clone().sum());
    bench.time("transpose, 64 elements", || x.clone().transpose());
    bench.time("softmax, 8x8", || softmax(x.clone(), 1));
    bench.time("matmul, 8x8", || x.clone().matmul(x.clone()));
}

pub(super) fn elementwise(bench: &Bench) {
    let device = &bench.device;
    let [a, b] = [(); 2].map(|()| random([SIDE, SIDE], device));
    let row = random([1, SIDE], device);
    let mask = a.clone().greater(b.clone());
    let halves = a.clone().cast(FloatDType::BF16);
    bench.time("add, 1 Mi", || a.clone() + b.clone());
    bench.time("add, 1 Mi bf16", || halves.clone() + halves.clone());
    bench.time("add a row, 1 Mi", || a.clone() + row.clone());
    bench.time("add the transposed, 1 Mi", || a.clone() + b.clone().transpose());
    bench.time("exp, 1 Mi", || a.clone().exp());
    bench.time("gelu, 1 Mi", || gelu(a.clone()));
    bench.time("tanh(a b + a) clamped, 1 Mi", || (a.clone() * b.clone() + a.clone()).tanh().clamp(-0.5, 0.5));
    bench.time("greater, 1 Mi", || a.clone().greater(b.clone()));
    bench.time("mask_where, 1 Mi", || a.clone().mask_where(mask.clone(), b.clone()));
    bench.time("cast to bf16, 1 Mi", || a.clone().cast(FloatDType::BF16));
    bench.time("cast to i32, 1 Mi", || a.clone().int());
    bench.time("normal random numbers, 1 Mi", || {
        Tensor::<1>::random([LARGE], Distribution::Normal(0.0, 1.0), device)
    });
}

/// Operations that move elements.
pub(super) fn moving(bench: &Bench) {
    let device = &bench.device;
    let [a, b] = [(); 2].map(|()| random([SIDE, SIDE], device));
    let half = random([SIDE / 2, SIDE / 2], device);
    let places = permutation(SIDE, device);
    let each = places.clone().unsqueeze_dim::<2>(0).repeat_dim(0, SIDE);
    bench.time("copy of the transposed, 1 Mi", || a.clone().transpose().reshape([LARGE]));
    bench.time("cat of 2 along rows, 1 Mi each", || Tensor::cat(vec![a.clone(), b.clone()], 1));
    bench.time("slice_assign of 512x512 in 1 Mi", || {
        a.clone().slice_assign([100..100 + SIDE / 2, 200..200 + SIDE / 2], half.clone())
    });
    bench.time("select of 1,024 rows of 1,024", || a.clone().select(0, places.clone()));
    bench.time("gather along rows, 1 Mi", || a.clone().gather(1, each.clone()));
    bench.time("scatter-add along rows, 1 Mi", || {
        a.clone().scatter(1, each.clone(), b.clone(), IndexingUpdateOp::Add)
    });
}

/// Operations that combine the elements of a row, a column or a tensor.
pub(super) fn reductions(bench: &Bench) {
    let device = &bench.device;
    let a = random([SIDE, SIDE], device);
    let vector = random([1 << 16], device);
    let scale = random([SIDE], device);
    bench.time("sum, 1 Mi", || a.clone().sum());
    bench.time("sum of rows, 1 Mi", || a.clone().sum_dim(1));
    bench.time("sum of columns, 1 Mi", || a.clone().sum_dim(0));
    bench.time("max of rows, 1 Mi", || a.clone().max_dim(1));
    bench.time("argmax of rows, 1 Mi", || a.clone().argmax(1));
    bench.time("running sum of rows, 1 Mi", || a.clone().cumsum(1));
    bench.time("sort, 64 Ki", || vector.clone().sort(0));
    bench.time("topk, 10 of each of 1,024 rows", || a.clone().topk(10, 1));
    bench.time("softmax of rows, 1 Mi", || softmax(a.clone(), 1));
    bench
        .time("layer_norm of rows, 1 Mi", || layer_norm(a.clone(), scale.clone(), Some(scale.clone()), 1e-5));
    let [tracked, weight] = [(); 2].map(|()| random([SIDE, SIDE], &device.clone().autodiff()));
    bench.time("softmax of rows and its gradient, 1 Mi", || {
        (softmax(tracked.clone().require_grad(), 1) * weight.clone()).sum().backward()
    });
}

pub(super) fn products(bench: &Bench) {
    let device = &bench.device;
    let [a, b] = [(); 2].map(|()| random([512, 512], device));
    let row = random([1, 512], device);
    let bias = random([512], device);
    let batch = random([8, 128, 64], device);
    let halves = a.clone().cast(FloatDType::BF16);
    let scheme = QuantScheme::default().with_store(QuantStore::Native);
    let codes = b.clone().quantize_dynamic(&scheme);
    bench.time("matmul, 512x512", || a.clone().matmul(b.clone()));
    bench.time("matmul, 512x512 bf16", || halves.clone().matmul(halves.clone()));
    bench.time("matmul, a row by 512x512", || row.clone().matmul(b.clone()));
    bench.time("matmul, 8 of 128x64 by 64x128", || batch.clone().matmul(batch.clone().swap_dims(1, 2)));
    bench.time("linear, 512x512 with a bias", || linear(a.clone(), b.clone(), Some(bias.clone())));
    bench.time("matmul, 512x512 by codes of 8 bits", || a.clone().matmul(codes.clone()));
    bench.time("quantize to codes of 8 bits, 256 Ki", || a.clone().quantize_dynamic(&scheme));
}

/// Operations behind layers.
pub(super) fn modules(bench: &Bench) {
    let device = &bench.device;
    let x = random([1, 64, 56, 56], device);
    let conv = |groups| ConvOptions::new([1; 2], [1; 2], [1; 2], groups);
    let (weight, depthwise) = (random([64, 64, 3, 3], device), random([64, 1, 3, 3], device));
    let pool = MaxPoolOptions { stride: [2; 2], padding: [(1, 1); 2], ..MaxPoolOptions::new([3; 2]) };
    let heads = random([1, 8, 256, 64], device);
    let words = random([8192, 256], device);
    let places = permutation(1024, device).unsqueeze_dim::<2>(0);
    let signal = random([64, 4096], device);
    bench.time("conv2d 3x3, 64 to 64 channels of 56x56", || conv2d(x.clone(), weight.clone(), None, conv(1)));
    bench.time("conv2d 3x3, each of 64 channels of 56x56", || {
        conv2d(x.clone(), depthwise.clone(), None, conv(64))
    });
    bench.time("max_pool2d 3x3, 64 channels of 56x56", || max_pool2d(x.clone(), pool.clone()));
    bench.time("attention, 8 heads of 256x64", || {
        attention(heads.clone(), heads.clone(), heads.clone(), None, None, AttentionModuleOptions::default())
    });
    bench.time("embedding of 1,024 in 256 numbers", || embedding(words.clone(), places.clone()));
    bench.time("rfft, 64 of 4,096", || rfft(signal.clone(), 1, None));
}
