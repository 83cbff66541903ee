//! Memory: training does not leak, and operations need no more than a stated multiple of their inputs and
//! outputs.
//!
//! Everything runs sequentially in one test, since both the allocator's counts and the resident set belong to
//! the process.
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_flex::{Flex, memory};
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn_tensor::{Distribution, Shape, Tensor, activation, module};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of allocated bytes.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call is passed to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is also the contract of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The counts belong to the process, so only one test may run at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Bytes at the peak of a computation, including its inputs and result, relative to the bytes of inputs and
/// result.
///
/// Each thread has its own buffers, so the number of threads is fixed, independent of the machine.
fn peak_ratio<const D: usize>(
    inputs: &[Tensor<Flex, 4>],
    run: impl FnOnce(&[Tensor<Flex, 4>]) -> Tensor<Flex, D> + Send,
) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().expect("a pool");
    let bytes = |shape: Shape| 4 * shape.num_elements();
    let input_bytes: usize = inputs.iter().map(|x| bytes(x.shape())).sum();
    memory::cleanup();
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let output = pool.install(|| {
        let output = run(inputs);
        // Convolutions wait until somebody reads them.
        <Flex as Backend>::sync(&Default::default()).expect("enough memory");
        output
    });
    let extra = PEAK.load(Relaxed) - before;
    (input_bytes + extra) as f64 / (input_bytes + bytes(output.shape())) as f64
}

/// Not a tensor of one number, which takes no memory until it is read.
fn input(shape: [usize; 4]) -> Tensor<Flex, 4> {
    Tensor::random(shape, Distribution::Default, &Default::default())
}

#[test]
fn peaks_stay_within_a_multiple_of_inputs_and_outputs() {
    let _guard = ONE_AT_A_TIME.lock().expect("no panic under the lock");
    let mut report = Vec::new();
    let mut check = |name: &str, ratio: f64, allowed: f64| {
        println!("{name}: {ratio:.2} of inputs and outputs, {allowed} allowed");
        if ratio > allowed {
            report.push(format!("{name}: {ratio:.2} of inputs and outputs, {allowed} allowed"));
        }
    };
    // Blocks of the pool are up to a quarter larger than their contents.
    let conv = |x: [usize; 4], w: [usize; 4], stride, padding, groups| {
        let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], groups);
        peak_ratio(&[input(x), input(w)], |t| module::conv2d(t[0].clone(), t[1].clone(), None, options))
    };
    check("conv2d 3x3", conv([8, 64, 56, 56], [64, 64, 3, 3], 1, 1, 1), 2.0);
    check("conv2d 7x7, stride 2", conv([2, 3, 224, 224], [64, 3, 7, 7], 2, 3, 1), 2.0);
    check("conv2d 1x1", conv([8, 64, 56, 56], [64, 64, 1, 1], 1, 0, 1), 1.5);
    check("conv2d depthwise", conv([8, 128, 56, 56], [128, 1, 3, 3], 1, 1, 128), 2.0);
    let matmul = |a: [usize; 4], b: [usize; 4]| {
        peak_ratio(&[input(a), input(b)], |t| t[0].clone().matmul(t[1].clone()))
    };
    // Large enough that the memory that each thread packs is small in comparison: up to the size of a
    // second-level cache, 2 MiB on some processors.
    check("matmul", matmul([1, 1, 2048, 2048], [1, 1, 2048, 2048]), 1.5);
    check("matmul of a batch", matmul([16, 12, 128, 64], [16, 12, 64, 128]), 1.5);
    check("matrix and vector", matmul([1, 1, 2048, 2048], [1, 1, 2048, 1]), 1.1);
    let attention = |shape: [usize; 4]| {
        peak_ratio(&[input(shape), input(shape), input(shape)], |t| {
            let [q, k, v] = [t[0].clone(), t[1].clone(), t[2].clone()];
            module::attention(q, k, v, None, None, AttentionModuleOptions::default())
        })
    };
    // The scores would take 16 times the memory of the inputs.
    check("attention", attention([1, 16, 2048, 64]), 1.75);
    let softmax =
        |axis| peak_ratio(&[input([1, 1, 1024, 1024])], |t| activation::softmax(t[0].clone(), axis));
    check("softmax of rows", softmax(3), 1.25);
    check("softmax of columns", softmax(2), 1.75);
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// A step of training: convolution, linear layer, loss, gradients, update.
struct Network<A: AutodiffBackend> {
    kernel: Tensor<A, 4>,
    weight: Tensor<A, 2>,
}

impl<A: AutodiffBackend> Network<A> {
    fn new(device: &A::Device) -> Self {
        let random = Distribution::Uniform(-0.1, 0.1);
        Self {
            kernel: Tensor::random([4, 1, 3, 3], random, device).require_grad(),
            weight: Tensor::random([4 * 64, 10], random, device).require_grad(),
        }
    }

    fn step(&mut self, x: &Tensor<A, 4>) {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        let y = activation::relu(module::conv2d(x.clone(), self.kernel.clone(), None, options));
        let y = y.reshape([2, 4 * 64]).matmul(self.weight.clone());
        let loss = activation::log_softmax(y, 1).slice([0..2, 3..4]).mean().neg();
        let mut grads = loss.backward();
        let updated = |x: &Tensor<A, 2>, grad: Tensor<A::InnerBackend, 2>| {
            Tensor::from_inner(x.clone().inner() - grad * 0.01).require_grad()
        };
        let grad = self.weight.grad_remove(&mut grads).expect("a gradient");
        self.weight = updated(&self.weight, grad);
        let grad = self.kernel.grad_remove(&mut grads).expect("a gradient");
        self.kernel = Tensor::from_inner(self.kernel.clone().inner() - grad * 0.01).require_grad();
    }
}

/// Resident bytes of this process, as the system counts them.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages: usize = statm.split(' ').nth(1).and_then(|v| v.parse().ok()).expect("the second number");
    4096 * pages
}

#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_training_steps_do_not_grow_the_process() {
    type A = Autodiff<Flex>;
    const STEPS: usize = 10_000;
    let _guard = ONE_AT_A_TIME.lock().expect("no panic under the lock");
    let device = Default::default();
    let mut network = Network::<A>::new(&device);
    let x = Tensor::<A, 4>::ones([2, 1, 8, 8], &device);
    // Buffers, threads and tables reach their final size in the first steps.
    for _ in 0..STEPS / 10 {
        network.step(&x);
    }
    let (live, resident_before) = (LIVE.load(Relaxed), resident());
    for _ in 0..STEPS {
        network.step(&x);
    }
    let grown = LIVE.load(Relaxed).saturating_sub(live);
    let resident_grown = resident().saturating_sub(resident_before);
    println!("{STEPS} steps: {grown} more bytes allocated, {resident_grown} more resident");
    // Less than 7 bytes per step: a leaked node, tensor or gradient takes several times as much.
    assert!(grown < 64 * 1024, "{grown} bytes more are allocated after {STEPS} steps");
    assert!(resident_grown < 1024 * 1024, "{resident_grown} bytes more are resident after {STEPS} steps");
    assert!(network.weight.inner().to_data().iter::<f32>().all(|v| v.is_finite()));
    <Flex as Backend>::memory_cleanup(&Default::default());
}
