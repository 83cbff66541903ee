//! Operations of every family, with shapes, options and values that follow from a seed: the cases of
//! `soak.rs` and `threads.rs`.

mod operations;

pub use operations::OPERATIONS;

use flex_core::DType::{BF16, F16, F32, F64, I64};
use flex_core::random::{self, Distribution, Generator};
use flex_core::{DType, Result, Shape, Tensor};

/// What an operation does with the inputs that were drawn for it. The inputs are its own, so that it may
/// write over them.
pub type Run = Box<dyn FnOnce() -> Result<Vec<Tensor>>>;

/// Draws inputs for an operation.
pub type Operation = fn(&mut Draw) -> Result<Run>;

/// The name and the results of a case. All operations have a turn, one case after the other. Calls `ready`
/// when the inputs are drawn.
pub fn compute(case: u64, ready: impl FnOnce()) -> (&'static str, Result<Vec<Tensor>>) {
    let (name, operation) = OPERATIONS[case as usize % OPERATIONS.len()];
    let results = operation(&mut Draw(case)).and_then(|run| {
        ready();
        run()
    });
    (name, results)
}

/// Shapes, options and values of one case. Equal seeds give equal cases.
pub struct Draw(pub u64);

/// Sizes at which kernels cut their work, or go over to another algorithm.
const EDGES: [usize; 19] =
    [4, 6, 8, 16, 24, 32, 48, 64, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 32 << 10, 64 << 10, 128 << 10];

impl Draw {
    pub fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014): any seed will do, 0 and 1 too.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n
    }

    pub fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One of `1..=most`: next to one of the [`EDGES`], or any size, each power of two about as likely as the
    /// others.
    pub fn dim(&mut self, most: usize) -> usize {
        let edges = EDGES.partition_point(|&edge| edge <= most);
        if edges > 0 && self.flag() {
            return (EDGES[self.below(edges)] - 1 + self.below(3)).min(most);
        }
        let top = 1 << self.below(most.ilog2() as usize + 1);
        (top + self.below(top)).min(most)
    }

    /// Two sizes with a product of at most `most`, and often not far below.
    pub fn dims(&mut self, most: usize) -> [usize; 2] {
        let first = self.dim(most);
        let second = if self.flag() { most / first } else { self.dim(most / first) };
        if self.flag() { [first, second] } else { [second, first] }
    }

    pub fn float(&mut self) -> DType {
        self.pick(&[F32, F32, F32, F16, BF16, F64])
    }

    /// Normal numbers.
    pub fn values(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        random::random(&mut Generator::new(self.next()), Shape::from(shape), normal, dtype)
    }

    /// Integers of `0..below`.
    pub fn integers(&mut self, shape: &[usize], below: usize) -> Result<Tensor> {
        let range = Distribution::Uniform { low: 0.0, high: below as f64 };
        random::random(&mut Generator::new(self.next()), Shape::from(shape), range, I64)
    }
}
