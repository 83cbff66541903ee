//! Reductions and scans of matrices of 1,024 by 1,024, along either axis.

use super::{Cases, Family, integers, suffix, tensor, tensor_of};
use burn_tensor::DType;
use burn_tensor::backend::Backend;

const N: usize = 1024;

impl<B: Backend> Cases<B> {
    pub(super) fn reduce(&mut self) {
        let square = |d: &B::Device| tensor::<B, 2>([N, N], d);
        let bytes = 4 * N * N;
        self.family = Family::Reduce;
        self.short = true;
        self.add("sum_dim0_1024", bytes, square, |a| a.clone().sum_dim(0));
        self.add("sum_dim1_1024", bytes, square, |a| a.clone().sum_dim(1));
        self.add("argmax_dim1_1024", bytes, square, |a| a.clone().argmax(1));
        self.short = false;
        self.add("argmax_dim0_1024", bytes, square, |a| a.clone().argmax(0));
        for (dim, name) in [(0, "dim0"), (1, "dim1")] {
            let along = move |d: &B::Device| (tensor::<B, 2>([N, N], d), dim);
            self.add(format!("mean_{name}_1024"), bytes, along, |(a, dim)| a.clone().mean_dim(*dim));
            self.add(format!("max_{name}_1024"), bytes, along, |(a, dim)| a.clone().max_dim(*dim));
            self.add(format!("sum_{name}.t_1024"), bytes, along, |(a, dim)| {
                a.clone().transpose().sum_dim(*dim)
            });
            for dtype in [DType::F64, DType::F16, DType::BF16] {
                let along = move |d: &B::Device| (tensor_of::<B, 2>([N, N], dtype, d), dim);
                let (s, bytes) = (suffix(dtype), dtype.size() * N * N);
                self.add(format!("sum_{name}{s}_1024"), bytes, along, |(a, dim)| a.clone().sum_dim(*dim));
                self.add(format!("max_{name}{s}_1024"), bytes, along, |(a, dim)| a.clone().max_dim(*dim));
            }
            for dtype in [DType::I32, DType::I64] {
                let along = move |d: &B::Device| (integers::<B, 2>([N, N], dtype, d), dim);
                let (s, bytes) = (suffix(dtype), dtype.size() * N * N);
                self.add(format!("sum_{name}{s}_1024"), bytes, along, |(a, dim)| a.clone().sum_dim(*dim));
            }
        }
        self.family = Family::Scan;
        for (dim, name) in [(0, "dim0"), (1, "dim1")] {
            let along = move |d: &B::Device| (tensor::<B, 2>([N, N], d), dim);
            self.add(format!("cumsum_{name}_1024"), 2 * bytes, along, |(a, dim)| a.clone().cumsum(*dim));
            self.add(format!("cumprod_{name}_1024"), 2 * bytes, along, |(a, dim)| a.clone().cumprod(*dim));
            self.add(format!("cummax_{name}_1024"), 2 * bytes, along, |(a, dim)| a.clone().cummax(*dim));
        }
    }
}
