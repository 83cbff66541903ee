//! The cases: names and shapes as `PEERS.md` lists them, generic over the backend.

use burn::backend::Autodiff;
use burn_tensor::activation::{gelu, relu, sigmoid, softmax};
use burn_tensor::backend::Backend;
use burn_tensor::module::{attention, avg_pool2d, conv2d, max_pool2d};
use burn_tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn_tensor::signal::rfft;
use burn_tensor::{Distribution, Int, Tensor, TensorData};
use flex_examples::digits::{Digits, TrainConfig, train};
use std::hint::black_box;

/// A case and how to set it up on one backend.
pub struct Case {
    /// Name, shared by all backends.
    pub name: String,
    /// Makes the inputs and returns the call to time.
    pub setup: Box<dyn Fn() -> Box<dyn FnMut()>>,
}

struct Cases<B: Backend> {
    list: Vec<Case>,
    device: B::Device,
}

/// Values in [0.1, 1), the same on every backend.
fn values(n: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| 0.1 + 0.9 * next()).collect()
}

fn tensor<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let n = shape.iter().product();
    Tensor::from_data(TensorData::new(values(n), shape), device)
}

/// [`tensor`] with the values in another order, so that two operands differ.
fn other<B: Backend>(n: usize, device: &B::Device) -> Tensor<B, 1> {
    Tensor::from_data(TensorData::new(values(n).into_iter().rev().collect(), [n]), device)
}

impl<B: Backend> Cases<B> {
    /// A case over some inputs; what `call` returns is dropped within the measured time, as a user's would be.
    fn add<I: 'static, R: 'static>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Fn(&B::Device) -> I + 'static,
        call: impl Fn(&I) -> R + Copy + 'static,
    ) {
        let device = self.device.clone();
        let setup = move || -> Box<dyn FnMut()> {
            let inputs = inputs(&device);
            Box::new(move || drop(black_box(call(black_box(&inputs)))))
        };
        self.list.push(Case { name: name.into(), setup: Box::new(setup) });
    }

    fn elementwise(&mut self, n: usize) {
        let one = move |d: &B::Device| tensor::<B, 1>([n], d);
        let two = move |d: &B::Device| (tensor::<B, 1>([n], d), other::<B>(n, d));
        type T<B> = Tensor<B, 1>;
        self.add(format!("add_{n}"), two, |(a, b): &(T<B>, T<B>)| a.clone() + b.clone());
        self.add(format!("mul_scalar_{n}"), one, |a: &T<B>| a.clone() * 1.5);
        self.add(format!("exp_{n}"), one, |a: &T<B>| a.clone().exp());
        self.add(format!("log_{n}"), one, |a: &T<B>| a.clone().log());
        self.add(format!("tanh_{n}"), one, |a: &T<B>| a.clone().tanh());
        self.add(format!("sin_{n}"), one, |a: &T<B>| a.clone().sin());
        self.add(format!("erf_{n}"), one, |a: &T<B>| a.clone().erf());
        self.add(format!("sigmoid_{n}"), one, |a: &T<B>| sigmoid(a.clone()));
        self.add(format!("gelu_{n}"), one, |a: &T<B>| gelu(a.clone()));
        self.add(format!("relu_{n}"), one, |a: &T<B>| relu(a.clone()));
        self.add(format!("powf_{n}"), two, |(a, b): &(T<B>, T<B>)| a.clone().powf(b.clone()));
        self.add(format!("sum_{n}"), one, |a: &T<B>| a.clone().sum());
        self.add(format!("max_{n}"), one, |a: &T<B>| a.clone().max());
        self.add(format!("cumsum_{n}"), one, |a: &T<B>| a.clone().cumsum(0));
        self.add(format!("greater_{n}"), two, |(a, b): &(T<B>, T<B>)| a.clone().greater(b.clone()));
        if n <= 1 << 20 {
            self.add(format!("sort_{n}"), one, |a: &T<B>| a.clone().sort(0));
            let device = self.device.clone();
            self.add(
                format!("rand_{n}"),
                move |_| (n, device.clone()),
                |(n, d): &(usize, B::Device)| Tensor::<B, 1>::random([*n], Distribution::Normal(0.0, 1.0), d),
            );
        }
    }

    fn matmul(&mut self) {
        type T2<B> = (Tensor<B, 2>, Tensor<B, 2>);
        for n in [64, 128, 256, 512, 1024, 2048] {
            self.add(
                format!("matmul_{n}"),
                move |d| (tensor::<B, 2>([n, n], d), tensor::<B, 2>([n, n], d)),
                |(a, b): &T2<B>| a.clone().matmul(b.clone()),
            );
        }
        let vector = |d: &B::Device| (tensor::<B, 2>([1, 4096], d), tensor::<B, 2>([4096, 4096], d));
        self.add("gemv_1x4096x4096", vector, |(a, b): &T2<B>| a.clone().matmul(b.clone()));
        self.add("gemv_1x4096x4096_T", vector, |(a, b): &T2<B>| a.clone().matmul(b.clone().transpose()));
        self.add(
            "bmm_12x512x64",
            |d| (tensor::<B, 3>([12, 512, 64], d), tensor::<B, 3>([12, 64, 512], d)),
            |(a, b): &(Tensor<B, 3>, Tensor<B, 3>)| a.clone().matmul(b.clone()),
        );
    }

    fn rows(&mut self) {
        let square = |d: &B::Device| tensor::<B, 2>([1024, 1024], d);
        type T<B> = Tensor<B, 2>;
        self.add("sum_dim0_1024", square, |a: &T<B>| a.clone().sum_dim(0));
        self.add("sum_dim1_1024", square, |a: &T<B>| a.clone().sum_dim(1));
        self.add("argmax_dim1_1024", square, |a: &T<B>| a.clone().argmax(1));
        self.add("softmax_1024", square, |a: &T<B>| softmax(a.clone(), 1));
        // Flattening a transposed matrix forces the copy on every backend, lazily transposed or not.
        self.add("transpose_copy_1024", square, |a: &T<B>| a.clone().transpose().reshape([1024 * 1024]));
        self.add(
            "bcast_add_row_1024",
            move |d| (tensor::<B, 2>([1024, 1024], d), tensor::<B, 2>([1, 1024], d)),
            |(a, b): &(T<B>, T<B>)| a.clone() + b.clone(),
        );
        self.add(
            "cat_dim1_1024",
            move |d| (square(d), square(d)),
            |(a, b): &(T<B>, T<B>)| Tensor::cat(vec![a.clone(), b.clone()], 1),
        );
        self.add("sort_dim1_1024", square, |a: &T<B>| a.clone().sort(1));
        self.add("topk_dim1_1024", square, |a: &T<B>| a.clone().topk(10, 1));
        self.add(
            "select_rows_1024",
            move |d| {
                let order: Vec<i32> = (0..1024).map(|i| (i * 389) % 1024).collect();
                (
                    square(d),
                    Tensor::<B, 1, Int>::from_data(TensorData::new(order, [1024]).convert::<B::IntElem>(), d),
                )
            },
            |(a, i): &(T<B>, Tensor<B, 1, Int>)| a.clone().select(0, i.clone()),
        );
    }

    fn conv(
        &mut self,
        name: &str,
        b: usize,
        [c, o]: [usize; 2],
        h: usize,
        k: usize,
        stride: usize,
        groups: usize,
    ) {
        self.add(
            name,
            move |d| {
                let options = ConvOptions::new([stride; 2], [k / 2; 2], [1; 2], groups);
                (tensor::<B, 4>([b, c, h, h], d), tensor::<B, 4>([o, c / groups, k, k], d), options)
            },
            |(x, w, options): &(Tensor<B, 4>, Tensor<B, 4>, ConvOptions<2>)| {
                conv2d(x.clone(), w.clone(), None, options.clone())
            },
        );
    }

    fn modules(&mut self) {
        self.conv("conv2d_b1_c3_h224_o64_k7_s2", 1, [3, 64], 224, 7, 2, 1);
        self.conv("conv2d_b1_c64_h56_o64_k3_s1", 1, [64, 64], 56, 3, 1, 1);
        self.conv("conv2d_b1_c64_h56_o64_k1_s1", 1, [64, 64], 56, 1, 1, 1);
        self.conv("conv2d_b8_c128_h28_o128_k3_s1", 8, [128, 128], 28, 3, 1, 1);
        self.conv("conv2d_b1_c512_h7_o512_k3_s1", 1, [512, 512], 7, 3, 1, 1);
        self.conv("dwconv_c128_h56_k3", 1, [128, 128], 56, 3, 1, 128);
        let image = |d: &B::Device| tensor::<B, 4>([4, 64, 112, 112], d);
        self.add("maxpool_4x64x112_k3s2", image, |x: &Tensor<B, 4>| {
            max_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false)
        });
        self.add("avgpool_4x64x112_k3s2", image, |x: &Tensor<B, 4>| {
            avg_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], true, false)
        });
        for (h, s, d) in [(12, 128, 64), (12, 512, 64), (8, 2048, 64)] {
            self.add(
                format!("attention_h{h}_s{s}_d{d}"),
                move |device| tensor::<B, 4>([1, h, s, d], device),
                |x: &Tensor<B, 4>| {
                    attention(x.clone(), x.clone(), x.clone(), None, None, AttentionModuleOptions::default())
                },
            );
        }
        for n in [1024, 4096, 65536] {
            self.add(
                format!("rfft_16x{n}"),
                move |d| tensor::<B, 2>([16, n], d),
                |x: &Tensor<B, 2>| rfft(x.clone(), 1, None),
            );
        }
    }

    /// One epoch of the example's own training loop.
    fn digits(&mut self) {
        self.add(
            "digits_train_epoch",
            |d| (Digits::load().split().train, TrainConfig { epochs: 1, ..Default::default() }, d.clone()),
            |(digits, config, device): &(Digits, TrainConfig, B::Device)| {
                train::<Autodiff<B>>(digits, config, device, |_| ())
            },
        );
    }
}

/// All cases on backend `B`. The list has the same names in the same order for every backend.
pub fn cases<B: Backend>() -> Vec<Case> {
    let mut cases = Cases::<B> { list: Vec::new(), device: Default::default() };
    for n in [4096, 65_536, 1_048_576, 16_777_216] {
        cases.elementwise(n);
    }
    cases.matmul();
    cases.rows();
    cases.modules();
    cases.digits();
    cases.list
}
