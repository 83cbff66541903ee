//! Sorting, argsort and top-k: of vectors, and of the rows of a matrix of 1,024 by 1,024.

use super::{Cases, Family, integers, tensor};
use burn_tensor::DType;
use burn_tensor::backend::Backend;

impl<B: Backend> Cases<B> {
    pub(super) fn order(&mut self) {
        self.family = Family::Order;
        let square = |d: &B::Device| tensor::<B, 2>([1024, 1024], d);
        let bytes = 8 << 20;
        self.short = true;
        self.add("sort_dim1_1024", bytes, square, |a| a.clone().sort(1));
        self.add("topk_dim1_1024", bytes / 2, square, |a| a.clone().topk(10, 1));
        self.short = false;
        self.add("argsort_dim1_1024", bytes, square, |a| a.clone().argsort(1));
        for n in [65_536, 1_048_576] {
            let line = move |d: &B::Device| tensor::<B, 1>([n], d);
            self.add(format!("argsort_{n}"), 8 * n, line, |a| a.clone().argsort(0));
            self.add(format!("topk_{n}"), 4 * n, line, |a| a.clone().topk(10, 0));
            let int = move |d: &B::Device| integers::<B, 1>([n], DType::I64, d);
            self.add(format!("sort.i64_{n}"), 16 * n, int, |a| a.clone().sort(0));
        }
    }
}
