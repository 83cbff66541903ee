//! Results have the same bits on any number of threads: every kind of operation that uses threads, on shapes
//! around the sizes at which work is cut, and its gradients.
#![cfg(feature = "rayon")]
#![allow(missing_docs)]

mod common;

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_tensor::module::{self, conv_transpose2d, conv2d, interpolate};
use burn_tensor::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, UnfoldOptions,
};
use burn_tensor::{
    Distribution, FloatDType, IndexingUpdateOp, IntDType, Tensor, TensorData, activation, signal,
};
use common::{bool, float, int};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, OnceLock};

const FLOATS: [FloatDType; 4] = [FloatDType::F32, FloatDType::F64, FloatDType::F16, FloatDType::BF16];

/// A random number generator of shapes: a few cases per run, the same in every run.
struct Shapes(u64);

impl Shapes {
    fn pick(&mut self, sizes: &[usize]) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sizes[(self.0 >> 33) as usize % sizes.len()]
    }
}

/// One thread, then several.
fn pools() -> &'static [ThreadPool] {
    static POOLS: OnceLock<Vec<ThreadPool>> = OnceLock::new();
    POOLS.get_or_init(|| {
        let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        [1, 2, 3, 5, 8, 64].map(pool).into()
    })
}

/// Computes on each pool and compares the bits.
fn check(what: &str, compute: impl Fn() -> Vec<TensorData> + Sync) {
    // One test at a time, so that helpers are free to come.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let run = |pool: &ThreadPool| {
        pool.install(|| {
            // Wakes helpers, with which smaller operations use threads too.
            let _ = float::<Flex, 2>([256, 256], 1).matmul(float([256, 256], 2)).into_data();
            compute()
        })
    };
    let (alone, several) = pools().split_first().expect("pools");
    let expected = run(alone);
    for pool in several {
        for (i, (got, expected)) in run(pool).iter().zip(&expected).enumerate() {
            assert_eq!(got.shape, expected.shape, "{what}: shape of result {i}");
            let threads = pool.current_num_threads();
            assert!(got.bytes == expected.bytes, "{what}: other bits in result {i} on {threads} threads");
        }
    }
}

fn f<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<Flex, D> {
    float::<Flex, D>(shape, seed)
}

#[test]
fn matrix_products() {
    // The sides of tiles, parts and blocks, and long sums.
    let (sides, terms) = ([1, 2, 6, 16, 24, 48, 63, 64, 65, 128, 256, 300], [3, 64, 511, 513, 1024, 1400]);
    let mut shapes = Shapes(1);
    for round in 0..24 {
        let dtype = FLOATS[round % 4];
        let (m, n, k) = (shapes.pick(&sides), shapes.pick(&sides), shapes.pick(&terms));
        let batch = if m * n * k < 1 << 22 { shapes.pick(&[1, 2, 3, 7]) } else { 1 };
        let (left, right) = (shapes.pick(&[0, 1]) == 1, shapes.pick(&[0, 1]) == 1);
        check(&format!("matmul {dtype:?} {batch} x [{m}, {k}] {left} [{k}, {n}] {right}"), || {
            let side = |rows, cols, turned: bool, seed| {
                if turned {
                    f([batch, cols, rows], seed).swap_dims(1, 2)
                } else {
                    f([batch, rows, cols], seed)
                }
            };
            vec![side(m, k, left, 1).cast(dtype).matmul(side(k, n, right, 2).cast(dtype)).into_data()]
        });
    }
    for (m, n, k) in [(128, 64, 1100), (192, 32, 1400), (100, 5, 20_000), (2, 500_000, 3), (5000, 1, 300)] {
        check(&format!("matmul [{m}, {k}] [{k}, {n}]"), || {
            vec![
                f([m, k], 1).matmul(f([k, n], 2)).into_data(),
                f([m, k], 1).matmul(f([n, k], 2).transpose()).into_data(),
                module::linear(f([m, k], 1), f([k, n], 2), Some(f([n], 3))).into_data(),
            ]
        });
    }
    for dtype in [IntDType::I8, IntDType::I32, IntDType::I64] {
        check(&format!("matmul {dtype:?}"), || {
            let side = |shape, seed| int::<Flex, 2>(shape, 100, seed).cast(dtype);
            vec![side([131, 700], 1).matmul(side([700, 97], 2)).into_data()]
        });
    }
}

#[test]
fn elementwise_operations_and_movement() {
    for dtype in FLOATS {
        check(&format!("elementwise {dtype:?}"), || {
            let (a, b) = (f([700, 501], 1).cast(dtype), f([700, 501], 2).cast(dtype));
            vec![
                (a.clone() * b.clone() + 1.5).into_data(),
                (a.clone() + f([700, 1], 3).cast(dtype)).into_data(),
                (a.clone().transpose() / 3.0).into_data(),
                a.clone().exp().into_data(),
                activation::gelu(a.clone().swap_dims(0, 1)).into_data(),
                a.clone().mask_where(bool([700, 501], 4), b.clone()).into_data(),
                a.clone().lower(b.clone()).into_data(),
                a.clone().int().into_data(),
                Tensor::cat(vec![a.clone(), b.clone()], 1).into_data(),
                a.clone().repeat_dim(1, 3).into_data(),
                a.clone().flip([1]).into_data(),
                a.slice_assign([3..600, 7..400], b.slice([3..600, 7..400])).into_data(),
            ]
        });
    }
}

#[test]
fn reductions_scans_and_sorts() {
    for dtype in FLOATS {
        for shape in [[3, 200_003], [200_003, 3], [611, 700]] {
            check(&format!("reductions {dtype:?} {shape:?}"), || {
                let x = f(shape, 1).cast(dtype);
                let mut results = vec![x.clone().sum().into_data(), x.clone().mean().into_data()];
                for dim in 0..2 {
                    results.extend([
                        x.clone().sum_dim(dim).into_data(),
                        x.clone().var(dim).into_data(),
                        x.clone().prod_dim(dim).into_data(),
                        x.clone().max_dim(dim).into_data(),
                        x.clone().argmin(dim).into_data(),
                        x.clone().cumsum(dim).into_data(),
                        activation::softmax(x.clone(), dim).into_data(),
                        activation::log_softmax(x.clone(), dim).into_data(),
                    ]);
                }
                results
            });
        }
        check(&format!("sorts {dtype:?}"), || {
            let x = f([3, 60_001], 1).cast(dtype);
            let (sorted, indices) = x.clone().sort_with_indices(1);
            let wide = f([600, 500], 2).cast(dtype);
            vec![
                sorted.into_data(),
                indices.into_data(),
                wide.clone().argsort_descending(0).into_data(),
                wide.topk(7, 1).into_data(),
            ]
        });
    }
}

#[test]
fn indexing() {
    for dtype in FLOATS {
        check(&format!("indexing {dtype:?}"), || {
            let x = f([300, 700], 1).cast(dtype);
            let wide = int::<Flex, 2>([300, 700], 300, 2);
            // Many values add up at each position.
            let few = int::<Flex, 1>([20_000], 13, 3);
            let rows = f([20_000, 17], 4).cast(dtype);
            let add = IndexingUpdateOp::Add;
            vec![
                x.clone().gather(0, wide.clone()).into_data(),
                x.clone().scatter(0, wide.clone() / 20, x.clone(), add).into_data(),
                x.clone().scatter(1, wide / 20, x.clone(), add).into_data(),
                x.clone().select(0, few.clone()).into_data(),
                f([13, 17], 5).cast(dtype).select_assign(0, few.clone(), rows.clone(), add).into_data(),
                f([17, 13], 5).cast(dtype).select_assign(1, few, rows.transpose(), add).into_data(),
                bool::<Flex, 2>([300, 700], 6).argwhere().into_data(),
            ]
        });
    }
}

#[test]
fn convolutions_whose_pixels_end_with_part_of_a_vector() {
    // 49 and 196 pixels are whole vectors and a few: products of matrices multiply these apart.
    for (inputs, outputs, size, kernel, stride) in [
        (96, 80, 14, 1, 1),
        (600, 300, 14, 1, 1),
        (40, 48, 14, 3, 2),
        (64, 100, 28, 3, 2),
        (90, 70, 28, 1, 2),
    ] {
        check(&format!("conv2d {inputs}x{size} -> {outputs}, {kernel}, stride {stride}"), || {
            let options = ConvOptions::new([stride; 2], [kernel / 2; 2], [1; 2], 1);
            let weight = f([outputs, inputs, kernel, kernel], 2);
            vec![conv2d(f([1, inputs, size, size], 1), weight, Some(f([outputs], 3)), options).into_data()]
        });
    }
}

#[test]
fn convolutions_and_their_gradients() {
    type B = Autodiff<Flex>;
    let mut shapes = Shapes(2);
    for round in 0..10 {
        let groups = shapes.pick(&[1, 1, 2]);
        let (batch, size) = (shapes.pick(&[1, 2, 5]), shapes.pick(&[9, 28, 33, 56]));
        let (inputs, outputs) =
            (groups * shapes.pick(&[1, 3, 16, 24]), groups * shapes.pick(&[1, 6, 16, 33]));
        let (kernel, stride, dilation) =
            (shapes.pick(&[1, 3, 5]), shapes.pick(&[1, 2]), shapes.pick(&[1, 2]));
        let dtype = if round % 3 == 2 { FLOATS[1 + round % 2] } else { FloatDType::F32 };
        let what = format!(
            "conv2d {dtype:?} {batch}x{inputs}x{size} -> {outputs}, {kernel}, stride {stride}, dilation {dilation}, \
             groups {groups}"
        );
        check(&what, || {
            let x = float::<B, 4>([batch, inputs, size, size], 1).cast(dtype).require_grad();
            let w = float::<B, 4>([outputs, inputs / groups, kernel, kernel], 2).cast(dtype).require_grad();
            let b = float::<B, 1>([outputs], 3).cast(dtype).require_grad();
            let options = ConvOptions::new([stride, stride], [kernel / 2; 2], [dilation, dilation], groups);
            let y = conv2d(x.clone(), w.clone(), Some(b.clone()), options);
            let grads = (y.clone() * y.clone()).sum().backward();
            vec![
                y.into_data(),
                x.grad(&grads).expect("a gradient").into_data(),
                w.grad(&grads).expect("a gradient").into_data(),
                b.grad(&grads).expect("a gradient").into_data(),
            ]
        });
    }
    check("conv1d, conv3d, conv_transpose2d, deform_conv2d, unfold4d", || {
        let options = DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, 1);
        let offset = f([2, 18, 30, 30], 2);
        vec![
            module::conv1d(f([3, 16, 2000], 1), f([24, 16, 5], 2), None, ConvOptions::new([1], [2], [1], 1))
                .into_data(),
            module::conv3d(
                f([1, 8, 20, 20, 20], 1),
                f([12, 8, 3, 3, 3], 2),
                None,
                ConvOptions::new([1; 3], [1; 3], [1; 3], 1),
            )
            .into_data(),
            conv_transpose2d(
                f([2, 16, 40, 40], 1),
                f([16, 8, 3, 3], 2),
                Some(f([8], 3)),
                ConvTransposeOptions::new([2, 2], [1, 1], [1, 1], [1, 1], 1),
            )
            .into_data(),
            module::deform_conv2d(f([2, 8, 30, 30], 1), offset, f([8, 8, 3, 3], 3), None, None, options)
                .into_data(),
            module::unfold4d(f([2, 8, 60, 60], 1), [3, 3], UnfoldOptions::new([1, 1], [1, 1], [1, 1]))
                .into_data(),
        ]
    });
}

#[test]
fn pooling_interpolation_and_their_gradients() {
    type B = Autodiff<Flex>;
    check("pooling", || {
        let x = || float::<B, 4>([3, 16, 61, 60], 1).require_grad();
        let (a, b, c, d) = (x(), x(), x(), x());
        let outputs = [
            module::max_pool2d(a.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false),
            module::avg_pool2d(b.clone(), [3, 3], [1, 2], [1, 1], true, true),
            module::adaptive_avg_pool2d(c.clone(), [7, 9]),
            interpolate(d.clone(), [90, 47], InterpolateOptions::new(InterpolateMode::Bilinear)),
        ];
        let mut results = vec![];
        for (x, y) in [a, b, c, d].into_iter().zip(outputs) {
            let grads = (y.clone() * y.clone()).sum().backward();
            results.extend([y.into_data(), x.grad(&grads).expect("a gradient").into_data()]);
        }
        results
    });
}

#[test]
fn attention_norms_losses_transforms_and_random_numbers() {
    type B = Autodiff<Flex>;
    for (heads, queries, keys, size) in [(2, 300, 300, 64), (8, 64, 77, 40), (1, 1000, 130, 16)] {
        check(&format!("attention {heads} x {queries} x {keys} x {size}"), || {
            let part = |rows, seed| f([2, heads, rows, size], seed);
            let options = AttentionModuleOptions { is_causal: queries == keys, ..Default::default() };
            let (q, k, v) = (part(queries, 1), part(keys, 2), part(keys, 3));
            vec![module::attention(q, k, v, None, None, options).into_data()]
        });
    }
    check("softmax and its gradient", || {
        let x = float::<B, 2>([700, 513], 1).require_grad();
        let y = activation::softmax(x.clone(), 1);
        let grads = (y.clone() * y.clone()).sum().backward();
        vec![y.into_data(), x.grad(&grads).expect("a gradient").into_data()]
    });
    check("ctc_loss", || {
        let lengths =
            |value: i32| Tensor::from_data(TensorData::new(vec![value; 40], [40]), &Default::default());
        let scores = activation::log_softmax(f([120, 40, 30], 1), 2);
        let targets = int::<Flex, 2>([40, 20], 28, 2) + 1;
        vec![module::ctc_loss(scores, targets, lengths(118), lengths(19), 0).into_data()]
    });
    for size in [256, 1024, 8192] {
        check(&format!("rfft {size}"), || {
            let (re, im) = signal::rfft(f([300, size], 1), 1, None);
            vec![re.clone().into_data(), im.clone().into_data(), signal::irfft(re, im, 1, None).into_data()]
        });
    }
    check("random numbers", || {
        use burn_tensor::backend::Backend;
        <Flex>::seed(&Default::default(), 7);
        let random = |distribution| Tensor::<Flex, 2>::random([601, 700], distribution, &Default::default());
        vec![
            random(Distribution::Default).into_data(),
            random(Distribution::Normal(0.0, 2.0)).into_data(),
            random(Distribution::Bernoulli(0.3)).into_data(),
        ]
    });
}
