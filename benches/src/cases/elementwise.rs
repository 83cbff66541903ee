//! One pass over all elements: maths, arithmetic, comparisons, masks, casts, random numbers; operands in
//! several layouts.

use super::{Cases, Family, backward, integers, other, suffix, tensor, tensor_of};
use burn::backend::Autodiff;
use burn_tensor::activation::{gelu, relu, sigmoid, silu};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Distribution, FloatDType, Tensor};

/// Lengths that every run measures, and lengths that a full run adds.
const SIZES: [(usize, bool); 6] =
    [(1, false), (64, false), (4096, true), (65_536, true), (1_048_576, true), (16_777_216, true)];

impl<B: Backend> Cases<B> {
    pub(super) fn elementwise(&mut self) {
        for (n, short) in SIZES {
            self.short = short;
            self.maths(n, DType::F32);
            self.simple(n, DType::F32);
            self.whole(n);
        }
        self.short = false;
        for n in [4096, 65_536, 1_048_576] {
            for dtype in [DType::F64, DType::F16, DType::BF16] {
                self.maths(n, dtype);
                self.simple(n, dtype);
            }
            for dtype in [DType::I32, DType::I64] {
                self.integers(n, dtype);
            }
        }
        for n in [64, 4096] {
            self.views(n);
        }
        self.family = Family::Maths;
        self.add(
            "gelu_grad_1048576",
            20 << 20,
            |d| (tensor::<Autodiff<B>, 1>([1 << 20], d), other::<Autodiff<B>, 1>([1 << 20], DType::F32, d)),
            |(x, w)| backward(gelu(x.clone().require_grad()) * w.clone()),
        );
    }

    fn integers(&mut self, n: usize, dtype: DType) {
        self.family_of(n, Family::Simple);
        let (s, size) = (suffix(dtype), dtype.size());
        let one = move |d: &B::Device| integers::<B, 1>([n], dtype, d);
        let two =
            move |d: &B::Device| (integers::<B, 1>([n], dtype, d), integers::<B, 1>([n], dtype, d).neg());
        self.add(format!("add{s}_{n}"), 3 * n * size, two, |(a, b)| a.clone() + b.clone());
        self.add(format!("mul{s}_{n}"), 3 * n * size, two, |(a, b)| a.clone() * b.clone());
        self.add(format!("greater{s}_{n}"), n * (2 * size + 1), two, |(a, b)| a.clone().greater(b.clone()));
        self.add(format!("cast_f32{s}_{n}"), n * (size + 4), one, |a| a.clone().float());
        self.family_of(n, Family::Reduce);
        self.add(format!("sum{s}_{n}"), n * size, one, |a| a.clone().sum());
        self.add(format!("argmax{s}_{n}"), n * size, one, |a| a.clone().argmax(0));
    }

    /// Operations that move no data: the cost of a tensor's handle.
    fn views(&mut self, n: usize) {
        self.family = Family::Small;
        let one = move |d: &B::Device| tensor::<B, 1>([n], d);
        self.add(format!("clone_reshape_{n}"), 0, one, move |a| a.clone().reshape([n, 1]));
        self.add(format!("slice_{n}"), 0, one, move |a| a.clone().slice(n / 4..n - n / 4));
    }

    fn family_of(&mut self, n: usize, large: Family) {
        self.family = if n <= 4096 { Family::Small } else { large };
    }

    fn maths(&mut self, n: usize, dtype: DType) {
        self.family_of(n, Family::Maths);
        let (s, bytes) = (suffix(dtype), 2 * n * dtype.size());
        let one = move |d: &B::Device| tensor_of::<B, 1>([n], dtype, d);
        self.add(format!("exp{s}_{n}"), bytes, one, |a| a.clone().exp());
        self.add(format!("log{s}_{n}"), bytes, one, |a| a.clone().log());
        self.add(format!("tanh{s}_{n}"), bytes, one, |a| a.clone().tanh());
        self.add(format!("sin{s}_{n}"), bytes, one, |a| a.clone().sin());
        self.add(format!("erf{s}_{n}"), bytes, one, |a| a.clone().erf());
        self.add(format!("sigmoid{s}_{n}"), bytes, one, |a| sigmoid(a.clone()));
        self.add(format!("gelu{s}_{n}"), bytes, one, |a| gelu(a.clone()));
        let two = move |d: &B::Device| (tensor_of::<B, 1>([n], dtype, d), other::<B, 1>([n], dtype, d));
        self.add(format!("powf{s}_{n}"), 3 * n * dtype.size(), two, |(a, b)| a.clone().powf(b.clone()));
        let short = std::mem::replace(&mut self.short, false);
        self.add(format!("cos{s}_{n}"), bytes, one, |a| a.clone().cos());
        self.add(format!("silu{s}_{n}"), bytes, one, |a| silu(a.clone()));
        self.add(format!("log1p{s}_{n}"), bytes, one, |a| a.clone().log1p());
        self.add(format!("sqrt{s}_{n}"), bytes, one, |a| a.clone().sqrt());
        self.short = short;
    }

    fn simple(&mut self, n: usize, dtype: DType) {
        self.family_of(n, Family::Simple);
        let (s, size) = (suffix(dtype), dtype.size());
        let one = move |d: &B::Device| tensor_of::<B, 1>([n], dtype, d);
        let two = move |d: &B::Device| (tensor_of::<B, 1>([n], dtype, d), other::<B, 1>([n], dtype, d));
        self.add(format!("add{s}_{n}"), 3 * n * size, two, |(a, b)| a.clone() + b.clone());
        self.add(format!("mul_scalar{s}_{n}"), 2 * n * size, one, |a| a.clone() * 1.5);
        self.add(format!("relu{s}_{n}"), 2 * n * size, one, |a| relu(a.clone()));
        self.add(format!("greater{s}_{n}"), n * (2 * size + 1), two, |(a, b)| a.clone().greater(b.clone()));
        let short = std::mem::replace(&mut self.short, false);
        self.add(format!("mul{s}_{n}"), 3 * n * size, two, |(a, b)| a.clone() * b.clone());
        self.add(format!("clamp{s}_{n}"), 2 * n * size, one, |a| a.clone().clamp(0.2, 0.8));
        let masked = move |d: &B::Device| {
            let (a, b) = (tensor_of::<B, 1>([n], dtype, d), other::<B, 1>([n], dtype, d));
            let mask = a.clone().greater(b.clone());
            (a, b, mask)
        };
        self.add(format!("where{s}_{n}"), n * (3 * size + 1), masked, |(a, b, m)| {
            a.clone().mask_where(m.clone(), b.clone())
        });
        self.add(format!("mask_fill{s}_{n}"), n * (2 * size + 1), masked, |(a, _, m)| {
            a.clone().mask_fill(m.clone(), 0.5)
        });
        for (to, name) in [(FloatDType::F64, "f64"), (FloatDType::F32, "f32"), (FloatDType::F16, "f16")] {
            if dtype != to.into() {
                let bytes = n * (size + DType::from(to).size());
                self.add(
                    format!("cast_{name}{s}_{n}"),
                    bytes,
                    move |d| (tensor_of::<B, 1>([n], dtype, d), to),
                    |(a, to)| a.clone().cast(*to),
                );
            }
        }
        self.short = short;
    }

    /// Whole vectors of f32: reductions, scans, sorting and random numbers at every size.
    fn whole(&mut self, n: usize) {
        let one = move |d: &B::Device| tensor::<B, 1>([n], d);
        self.family_of(n, Family::Reduce);
        self.add(format!("sum_{n}"), 4 * n, one, |a| a.clone().sum());
        self.add(format!("max_{n}"), 4 * n, one, |a| a.clone().max());
        let short = std::mem::replace(&mut self.short, false);
        self.add(format!("mean_{n}"), 4 * n, one, |a| a.clone().mean());
        self.add(format!("argmax_{n}"), 4 * n, one, |a| a.clone().argmax(0));
        self.short = short;
        self.family_of(n, Family::Scan);
        self.add(format!("cumsum_{n}"), 8 * n, one, |a| a.clone().cumsum(0));
        let short = std::mem::replace(&mut self.short, false);
        self.add(format!("cumprod_{n}"), 8 * n, one, |a| a.clone().cumprod(0));
        self.add(format!("cummax_{n}"), 8 * n, one, |a| a.clone().cummax(0));
        self.short = short;
        if n > 1 << 20 {
            return;
        }
        self.family_of(n, Family::Order);
        self.add(format!("sort_{n}"), 8 * n, one, |a| a.clone().sort(0));
        self.family_of(n, Family::Random);
        let device = self.device.clone();
        let length = move |_: &B::Device| (n, device.clone());
        let normal = Distribution::Normal(0.0, 1.0);
        self.add(format!("rand_{n}"), 4 * n, length.clone(), move |(n, d)| {
            Tensor::<B, 1>::random([*n], normal, d)
        });
        self.short = false;
        self.add(format!("uniform_{n}"), 4 * n, length.clone(), |(n, d)| {
            Tensor::<B, 1>::random([*n], Distribution::Uniform(0.0, 1.0), d)
        });
        self.add(format!("bernoulli_{n}"), 4 * n, length, |(n, d)| {
            Tensor::<B, 1>::random([*n], Distribution::Bernoulli(0.3), d)
        });
        self.short = short;
    }

    /// Matrices of 1,024 by 1,024 whose operands have another memory layout than the result.
    pub(super) fn layouts(&mut self) {
        self.family = Family::Layout;
        self.short = true;
        const N: usize = 1024;
        let square = |d: &B::Device| tensor::<B, 2>([N, N], d);
        let pair = move |d: &B::Device| (square(d), other::<B, 2>([N, N], DType::F32, d));
        let row = move |d: &B::Device| (square(d), tensor::<B, 2>([1, N], d));
        let column = move |d: &B::Device| (square(d), tensor::<B, 2>([N, 1], d));
        // Flattening a transposed matrix forces the copy on every backend, also where transposing is lazy.
        self.add("transpose_copy_1024", 8 * N * N, square, |a| a.clone().transpose().reshape([N * N]));
        self.add("bcast_add_row_1024", 8 * N * N, row, |(a, b)| a.clone() + b.clone());
        self.short = false;
        self.add("bcast_add_column_1024", 8 * N * N, column, |(a, b)| a.clone() + b.clone());
        self.add(
            "bcast_add_both_1024",
            4 * N * N,
            |d| (tensor::<B, 2>([1, N], d), tensor::<B, 2>([N, 1], d)),
            |(a, b)| a.clone() + b.clone(),
        );
        self.add("add_scalar.t_1024", 8 * N * N, square, |a| a.clone().transpose() + 1.0);
        self.add("exp.t_1024", 8 * N * N, square, |a| a.clone().transpose().exp());
        self.add("add.t_1024", 12 * N * N, pair, |(a, b)| a.clone() + b.clone().transpose());
        self.add("add.tt_1024", 12 * N * N, pair, |(a, b)| a.clone().transpose() + b.clone().transpose());
        self.add("add_row.t_1024", 8 * N * N, row, |(a, b)| a.clone().transpose() + b.clone());
        self.add("greater.t_1024", 9 * N * N, pair, |(a, b)| a.clone().greater(b.clone().transpose()));
        let middle = 4 * (N - 2) * (N - 2);
        self.add("add.sliced_1024", 3 * middle, pair, |(a, b)| {
            a.clone().slice([1..N - 1, 1..N - 1]) + b.clone().slice([0..N - 2, 2..N])
        });
        self.add("exp.sliced_1024", 2 * middle, square, |a| a.clone().slice([1..N - 1, 1..N - 1]).exp());
        self.add("add.flipped_1024", 12 * N * N, pair, |(a, b)| a.clone() + b.clone().flip([1]));
    }
}
