//! Results have the same bits for every number of threads and in every repetition. The inputs are large
//! enough for the work to be divided (`crates/flex-tensor/src/parallel.rs`: on two threads 16 MiB moved, or 4
//! million operations).
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_tensor::backend::Backend;
use burn_tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn_tensor::{
    Distribution, IndexingUpdateOp, Int, Shape, Tensor, TensorData, activation, module, signal,
};
use burn_tests::support::Stream;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

type B = Flex;

/// Numbers in [-1, 1).
fn float<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D> {
    let mut stream = Stream::new(seed);
    let values = (0..shape.iter().product()).map(|_| (2.0 * stream.unit() - 1.0) as f32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(values, shape), &Default::default())
}

fn int<const D: usize>(shape: [usize; D], bound: i128, seed: u64) -> Tensor<B, D, Int> {
    let mut stream = Stream::new(seed);
    let values = (0..shape.iter().product()).map(|_| stream.int(0, bound) as i32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(values, shape), &Default::default())
}

/// A computation to repeat.
struct Workload {
    name: &'static str,
    run: Box<dyn Fn() -> Vec<TensorData> + Send + Sync>,
}

/// A workload whose inputs are made once: `name: (inputs) => outputs`.
macro_rules! workloads {
    ($($name:ident: ($($x:ident = $value:expr),*) => [$($out:expr),+];)*) => {
        vec![$({
            $(let $x = $value;)*
            Workload {
                name: stringify!($name),
                run: Box::new(move || {
                    $(let $x = $x.clone();)*
                    vec![$($out.into_data()),+]
                }),
            }
        }),*]
    };
}

fn reductions() -> Vec<Workload> {
    workloads! {
        sum: (x = float::<B, 1>([4_300_003], 1)) => [x.clone().sum(), x.mean()];
        sum_rows: (x = float::<B, 2>([1_100, 4_003], 2)) => [x.clone().sum_dim(1), x.sum_dim(0)];
        sum_of_a_transposed: (x = float::<B, 2>([1_100, 4_003], 3)) => [x.transpose().mean_dim(1)];
        prod: (x = float::<B, 2>([1_100, 4_003], 4)) => [(x + 1.0).prod_dim(0)];
        extremes: (x = float::<B, 2>([1_100, 4_003], 5)) => [x.clone().max_dim(0), x.clone().argmin(1), x.max()];
        cumsum: (x = float::<B, 2>([1_100, 1_003], 6)) => [x.clone().cumsum(0), x.cumsum(1)];
        cumsum_of_one_line: (x = float::<B, 1>([1_200_003], 7)) => [x.cumsum(0)];
        var: (x = float::<B, 2>([1_100, 1_003], 8)) => [x.var(1)];
    }
}

fn orders() -> Vec<Workload> {
    workloads! {
        sort_rows: (x = float::<B, 2>([600, 1_003], 1)) => [x.sort(1)];
        sort_one_line: (x = float::<B, 1>([600_003], 2)) => [x.sort(0)];
        argsort: (x = int([600, 1_003], 40, 3)) => [x.argsort(1)];
        topk: (x = float::<B, 2>([600, 1_003], 4)) => [x.topk(9, 1)];
        gather: (x = float::<B, 2>([600, 1_003], 5), i = int([600, 1_003], 1_003, 6)) => [x.gather(1, i)];
        select: (x = float::<B, 2>([1_003, 600], 7), i = int([7_200], 1_003, 8)) => [x.select(0, i)];
        // Many updates hit the same element, so a change of their order shows.
        scatter_add: (x = float::<B, 2>([60, 1_003], 9), i = int([800, 1_003], 60, 10), v = float::<B, 2>([800, 1_003], 11))
            => [x.scatter(0, i, v, IndexingUpdateOp::Add)];
        scatter_one_line: (x = float::<B, 1>([1_003], 12), i = int([700_003], 1_003, 13), v = float::<B, 1>([700_003], 14))
            => [x.scatter(0, i, v, IndexingUpdateOp::Add)];
        select_add: (x = float::<B, 2>([60, 1_003], 15), i = int([800], 60, 16), v = float::<B, 2>([800, 1_003], 17))
            => [x.select_assign(0, i, v, IndexingUpdateOp::Add)];
    }
}

fn products() -> Vec<Workload> {
    let options = |groups| ConvOptions::new([1, 1], [1, 1], [1, 1], groups);
    let one = |options: ConvOptions<2>| move || options.clone();
    let (whole, grouped) = (one(options(1)), one(options(16)));
    workloads! {
        matmul: (a = float::<B, 2>([233, 187], 1), b = float::<B, 2>([187, 251], 2)) => [a.matmul(b)];
        matmul_of_a_long_sum: (a = float::<B, 2>([7, 60_001], 3), b = float::<B, 2>([60_001, 9], 4)) => [a.matmul(b)];
        matmul_of_a_batch: (a = float::<B, 3>([12, 65, 67], 5), b = float::<B, 3>([12, 67, 66], 6)) => [a.matmul(b)];
        matrix_vector: (a = float::<B, 2>([1_100, 4_003], 7), b = float::<B, 2>([4_003, 1], 8))
            => [a.clone().matmul(b.clone()), b.transpose().matmul(a.transpose())];
        conv: (x = float::<B, 4>([2, 16, 29, 31], 9), w = float::<B, 4>([24, 16, 3, 3], 10))
            => [module::conv2d(x, w, None, whole())];
        conv_of_groups: (x = float::<B, 4>([2, 16, 93, 91], 11), w = float::<B, 4>([16, 1, 3, 3], 12))
            => [module::conv2d(x, w, None, grouped())];
        attention: (q = float::<B, 4>([2, 3, 70, 32], 13), k = float::<B, 4>([2, 3, 90, 32], 14), v = float::<B, 4>([2, 3, 90, 32], 15))
            => [module::attention(q, k, v, None, None, AttentionModuleOptions::default())];
        softmax: (x = float::<B, 2>([600, 1_003], 16)) => [activation::softmax(x.clone(), 1), activation::softmax(x, 0)];
        log_softmax: (x = float::<B, 2>([600, 1_003], 17)) => [activation::log_softmax(x, 1)];
        exp: (x = float::<B, 2>([600, 1_003], 18)) => [x.exp()];
        pool: (x = float::<B, 4>([2, 16, 143, 141], 19))
            => [module::max_pool2d(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false),
                module::avg_pool2d(x, [3, 3], [2, 2], [1, 1], true, false)];
        fft: (x = float::<B, 2>([300, 1_024], 20)) => [{ let (re, im) = signal::rfft(x, 1, None); Tensor::cat(vec![re, im], 0) }];
    }
}

/// Forward and backward pass of a small network with every kind of layer that sums gradients.
fn training() -> Vec<Workload> {
    type A = Autodiff<B>;
    vec![Workload {
        name: "backward",
        run: Box::new(|| {
            let x = float::<A, 4>([4, 8, 25, 23], 1);
            let kernel = float::<A, 4>([16, 8, 3, 3], 2).require_grad();
            let bias = float::<A, 1>([16], 3).require_grad();
            let weight = float::<A, 2>([16 * 25 * 23, 40], 4).require_grad();
            let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
            let y = module::conv2d(x, kernel.clone(), Some(bias.clone()), options);
            let y = activation::gelu(y).reshape([4, 16 * 25 * 23]).matmul(weight.clone());
            let loss = activation::log_softmax(y, 1).slice([0..4, 3..4]).mean().neg();
            let grads = loss.backward();
            let of = |data: Option<TensorData>| data.expect("a gradient");
            vec![
                loss.into_data(),
                of(kernel.grad(&grads).map(Tensor::into_data)),
                of(bias.grad(&grads).map(Tensor::into_data)),
                of(weight.grad(&grads).map(Tensor::into_data)),
            ]
        }),
    }]
}

fn random() -> Vec<Workload> {
    // The random stream belongs to the process: only one test at a time may seed it.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    vec![Workload {
        name: "random",
        run: Box::new(|| {
            let _guard = ONE_AT_A_TIME.lock().expect("no panic under the lock");
            let device = Default::default();
            <B>::seed(&device, 7);
            [Distribution::Default, Distribution::Normal(0.0, 1.0), Distribution::Bernoulli(0.3)]
                .map(|d| Tensor::<B, 1>::random(Shape::new([1_100_003]), d, &device).into_data())
                .into()
        }),
    }]
}

fn bits(data: &[TensorData]) -> Vec<&[u8]> {
    data.iter().map(TensorData::as_bytes).collect()
}

fn within(threads: usize, f: impl FnOnce() -> Vec<TensorData> + Send) -> Vec<TensorData> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
}

/// Repetitions on 8 threads.
const REPETITIONS: usize = 100;

/// Checks that the bits are the same with 1, 2 and 8 threads, and in every repetition.
fn check(workloads: Vec<Workload>) {
    for Workload { name, run } in &workloads {
        let first = within(1, run);
        assert!(first.iter().all(|data| !data.as_bytes().is_empty()), "{name}: no output");
        assert!(bits(&first) == bits(&within(2, run)), "{name}: other bits with 2 threads");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().expect("a pool");
        for repetition in 0..REPETITIONS {
            let again = pool.install(run);
            assert!(
                bits(&first) == bits(&again),
                "{name}: other bits with 8 threads, repetition {repetition}"
            );
        }
    }
}

macro_rules! same_bits {
    ($($group:ident)*) => {$(
        #[test]
        fn $group() {
            super::check(super::$group());
        }
    )*};
}

mod same_bits {
    same_bits!(reductions orders products training random);
}

#[test]
fn threads_share_tensors_clones_and_views() {
    const THREADS: usize = 16;
    const ROUNDS: usize = 20;
    let x = float::<B, 2>([257, 129], 1);
    let w = float::<B, 2>([129, 65], 2);
    type Job = fn(&Tensor<B, 2>, &Tensor<B, 2>) -> Tensor<B, 2>;
    let jobs: [Job; 8] = [
        |x, _| x.clone().exp() + 1.0,
        |x, _| x.clone().transpose().sum_dim(1),
        |x, w| x.clone().matmul(w.clone()),
        |x, _| x.clone().slice([3..250, 1..100]).flip([0, 1]).mul_scalar(3.0),
        |x, _| activation::softmax(x.clone(), 1),
        |x, _| x.clone().slice_fill([0..9, 0..9], 4.0).cumsum(1),
        |x, _| Tensor::cat(vec![x.clone(), x.clone().flip([1])], 0).sort(0),
        |x, w| x.clone().slice([0..1, 0..129]).expand([65, 129]).add(w.clone().transpose()),
    ];
    let want: Vec<TensorData> = jobs.iter().map(|job| job(&x, &w).into_data()).collect();
    let before = [x.to_data(), w.to_data()];
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (x, w, want, start) = (&x, &w, &want, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let k = (thread + round) % jobs.len();
                    assert_eq!(jobs[k](x, w).into_data(), want[k], "job {k} on thread {thread}");
                }
            });
        }
    });
    assert_eq!([x.to_data(), w.to_data()], before);
}

#[test]
fn tensors_may_be_dropped_on_other_threads_than_made_them() {
    const MAKERS: usize = 8;
    const EACH: usize = 200;
    let shared = Arc::new(float::<B, 2>([65, 33], 1));
    let before = shared.to_data();
    let (send, receive) = mpsc::channel::<(Tensor<B, 2>, f32)>();
    let receive = Arc::new(Mutex::new(receive));
    thread::scope(|scope| {
        for maker in 0..MAKERS {
            let (send, shared) = (send.clone(), Arc::clone(&shared));
            scope.spawn(move || {
                for k in 0..EACH {
                    // New buffers of many sizes, and views of a tensor that all threads hold.
                    let value = (maker * EACH + k) as f32;
                    let fresh = Tensor::full([1 + k % 70, 1 + k % 50], value, &Default::default());
                    send.send((fresh, value)).expect("a receiver");
                    let view = Tensor::clone(&shared).slice([k % 65..k % 65 + 1, 0..33]).transpose();
                    send.send((
                        view.sub(Tensor::clone(&shared).slice([k % 65..k % 65 + 1, 0..33]).transpose()),
                        0.0,
                    ))
                    .expect("a receiver");
                }
            });
        }
        drop(send);
        for _ in 0..MAKERS {
            let receive = Arc::clone(&receive);
            scope.spawn(move || {
                loop {
                    let Ok((tensor, value)) = receive.lock().expect("no panic under the lock").recv() else {
                        return;
                    };
                    // The buffer was written on another thread; this thread changes it in place and frees it.
                    let data = (tensor + 1.0).into_data();
                    assert!(data.iter::<f32>().all(|v| v == value + 1.0), "{value}");
                }
            });
        }
    });
    assert_eq!(shared.to_data(), before);
}
