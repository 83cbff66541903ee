//! Matrix products.

use super::{Cases, Family, suffix, tensor, tensor_of};
use burn_tensor::DType;
use burn_tensor::backend::Backend;

impl<B: Backend> Cases<B> {
    pub(super) fn matmul(&mut self) {
        self.family = Family::Matmul;
        self.short = true;
        for n in [64, 128, 256, 512, 1024, 2048] {
            self.square(n, DType::F32);
        }
        let vector = |d: &B::Device| (tensor::<B, 2>([1, 4096], d), tensor::<B, 2>([4096, 4096], d));
        let weights = 4 * 4096 * 4096;
        self.add("gemv_1x4096x4096", weights, vector, |(a, b)| a.clone().matmul(b.clone()));
        self.add("gemv_1x4096x4096_T", weights, vector, |(a, b)| a.clone().matmul(b.clone().transpose()));
        self.add(
            "bmm_12x512x64",
            0,
            |d| (tensor::<B, 3>([12, 512, 64], d), tensor::<B, 3>([12, 64, 512], d)),
            |(a, b)| a.clone().matmul(b.clone()),
        );
        self.flops(2 * 12 * 512 * 512 * 64);
        self.short = false;
        for n in [16, 32] {
            self.square(n, DType::F32);
        }
        for dtype in [DType::F64, DType::F16, DType::BF16] {
            self.square(512, dtype);
        }
    }

    fn square(&mut self, n: usize, dtype: DType) {
        self.add(
            format!("matmul{}_{n}", suffix(dtype)),
            0,
            move |d| (tensor_of::<B, 2>([n, n], dtype, d), tensor_of::<B, 2>([n, n], dtype, d)),
            |(a, b)| a.clone().matmul(b.clone()),
        );
        self.flops(2 * n * n * n);
    }
}
