//! Results that wait for their readers, through the engine's face: reductions of them, the switch, computing
//! on demand, forked processes.
#![cfg(feature = "std")]

#[cfg(unix)]
#[path = "../../flex-tensor/tests/common/mod.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod common;

use flex_core::elementwise::{Binary, Unary, binary, binary_scalar, cast, deferred, unary};
use flex_core::storage::pool as blocks;
use flex_core::{DType, Result, Scalar, Tensor, movement, reduce};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

/// Held by each test: the switch, and computing on demand, are the whole process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn values(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|k: usize| (k * 37 % 1009) as f32 / 252.0 - 2.0).collect();
    Tensor::from_slice(&values, shape).unwrap()
}

fn times(x: Tensor, by: f64) -> Tensor {
    binary_scalar(Binary::Mul, x, Scalar::Float(by)).unwrap()
}

fn bits(tensor: Tensor) -> Vec<u8> {
    tensor.into_bytes().unwrap().to_vec()
}

/// How often the engine has allocated memory so far.
fn allocations() -> u64 {
    let stats = blocks::stats();
    stats.hits + stats.misses
}

/// Reductions of a matrix.
const REDUCTIONS: [(&str, fn(Tensor) -> Result<Tensor>); 14] = [
    ("sums of rows", |x| reduce::sum_dim(x, 1)),
    ("means of rows", |x| reduce::mean_dim(x, 1)),
    ("maxima of rows", |x| reduce::max_dim(x, 1)),
    ("minima of rows", |x| reduce::min_dim(x, 1)),
    ("products of rows", |x| reduce::prod_dim(x, 1)),
    ("sums of columns", |x| reduce::sum_dim(x, 0)),
    ("means of columns", |x| reduce::mean_dim(x, 0)),
    ("maxima of columns", |x| reduce::max_dim(x, 0)),
    ("products of columns", |x| reduce::prod_dim(x, 0)),
    ("sum", reduce::sum),
    ("mean", reduce::mean),
    ("maximum", reduce::max),
    ("minimum", reduce::min),
    ("product", reduce::prod),
];

#[test]
fn reductions_of_what_waits() {
    let _alone = alone();
    // Operations of every dtype.
    deferred::set_least_bytes(1);
    // Rows shorter and longer than a tile, than an accumulator's block, and than a fold takes; columns that
    // are split among tasks and that are not; fewer elements than several tasks have.
    let shapes = [
        [40_000, 3],
        [9000, 16],
        [1000, 101],
        [300, 1024],
        [70, 1500],
        [100, 3000],
        [33, 4096],
        [31, 4097],
        [20, 9000],
        [5, 20_000],
        [2, 140_000],
        // Rows of whole blocks: of a power of two, of other numbers, and so long that tasks share them.
        [20, 8192],
        [7, 12_288],
        [3, 40_960],
        [2, 163_840],
        [2, 131_072],
        [2, 131_071],
        [2, 262_144],
        // Rows of halves that end within a block, and columns in tiles.
        [6, 20_481],
        [3, 9000],
        [16, 8200],
        [70, 8200],
    ];
    for shape in shapes {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
            let x = cast(values(&shape), dtype).unwrap();
            x.evaluate().unwrap();
            let chain = || {
                let y = binary(Binary::Mul, x.clone(), x.clone()).unwrap();
                binary_scalar(Binary::Add, y, Scalar::Int(1)).unwrap()
            };
            // Tiles are whole rows.
            let of_rows = || {
                let sums = reduce::max_dim(binary_scalar(Binary::Add, x.clone(), Scalar::Int(1)).unwrap(), 1);
                binary(Binary::Sub, x.clone(), sums.unwrap()).unwrap()
            };
            for (name, reduce) in REDUCTIONS {
                for chain in [&chain as &dyn Fn() -> Tensor, &of_rows] {
                    let ready = chain();
                    ready.evaluate().unwrap();
                    let want = bits(reduce(ready.clone()).unwrap());
                    let unheld = chain();
                    assert!(unheld.waits());
                    let what = format!("{name} of {shape:?} {dtype:?}");
                    assert!(bits(reduce(unheld).unwrap()) == want, "{what}");
                    let held = chain();
                    assert!(bits(reduce(held.clone()).unwrap()) == want, "{what}, held");
                    assert!(bits(held) == bits(ready), "{what}: what is held");
                }
            }
        }
    }
    deferred::set_least_bytes(deferred::LEAST_BYTES);
}

#[test]
fn reductions_of_copies_that_wait() {
    let _alone = alone();
    deferred::set_least_bytes(1);
    // Channels are moved to the front, as batch norm's are.
    for [n, c, len] in [[4, 6, 2100], [3, 5, 64], [2, 3, 70_001], [70, 3, 100], [1, 8, 100], [5, 1, 100]] {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
            let x = cast(values(&[n, c, len]), dtype).unwrap();
            x.evaluate().unwrap();
            let chain = || binary(Binary::Mul, x.clone(), x.clone()).unwrap();
            let turned = |x: Tensor| x.swap_axes(0, 1).unwrap();
            for (name, reduce) in REDUCTIONS {
                let what = format!("{name} of {:?} {dtype:?}", [n, c, len]);
                for waits in [false, true] {
                    let source = || {
                        let source = chain();
                        if !waits {
                            source.evaluate().unwrap();
                        }
                        source
                    };
                    let eager = source();
                    eager.evaluate().unwrap();
                    let eager = turned(eager).to_contiguous().unwrap().reshape([c, n * len]).unwrap();
                    let want = bits(reduce(eager.clone()).unwrap());
                    let copy =
                        |source: Tensor| movement::reshape(turned(source), [c, n * len].into()).unwrap();
                    let unheld = copy(source());
                    assert_eq!(unheld.waits(), n > 1 && c > 1 || waits, "{what}");
                    assert!(bits(reduce(unheld).unwrap()) == want, "{what}");
                    let (held, held_source) = (copy(source()), source());
                    assert!(bits(reduce(held.clone()).unwrap()) == want, "{what}, held");
                    assert!(bits(held) == bits(eager), "{what}: the copy");
                    assert!(bits(reduce(copy(held_source.clone())).unwrap()) == want, "{what}, held source");
                    assert!(bits(held_source) == bits(chain()), "{what}: the source");
                }
            }
        }
    }
    deferred::set_least_bytes(deferred::LEAST_BYTES);
}

#[test]
fn a_copy_of_a_chain_that_stores_another_result() {
    let _alone = alone();
    let [x, y] = [1.0, 0.5].map(|by| times(values(&[6, 5, 6000]), by));
    y.evaluate().unwrap();
    let chain = || {
        let middle = binary(Binary::Add, x.clone(), y.clone()).unwrap();
        let top = times(middle.clone(), 2.0).swap_axes(0, 1).unwrap();
        (middle, movement::reshape(top, [5, 36_000].into()).unwrap())
    };
    let (want_middle, want) = chain();
    want_middle.evaluate().unwrap();
    want.evaluate().unwrap();
    let (middle, copy) = chain();
    assert!(middle.waits() && copy.waits());
    let sums = reduce::sum_dim(copy, 1).unwrap();
    assert!(bits(sums) == bits(reduce::sum_dim(want, 1).unwrap()));
    assert!(!middle.waits() && bits(middle) == bits(want_middle));
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn copies_that_wait_are_read_by_several_threads() {
    let _alone = alone();
    let x = values(&[30, 40, 700]);
    let want = bits(x.clone().swap_axes(0, 1).unwrap().to_contiguous().unwrap());
    let waiting = || {
        let turned = times(x.clone(), 1.0).swap_axes(0, 1).unwrap();
        let copy = movement::reshape(turned, [40, 21_000].into()).unwrap();
        assert!(copy.waits());
        copy
    };
    let allocations_of = |read: &dyn Fn()| {
        let before = allocations();
        read();
        allocations() - before
    };
    let copy = waiting();
    let of_one_reader = allocations_of(&|| copy.evaluate().unwrap());
    for _ in 0..10 {
        let (copy, start) = (waiting(), Barrier::new(4));
        let read = || {
            start.wait();
            copy.evaluate().unwrap();
        };
        let of_readers =
            allocations_of(&|| std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(read)))));
        assert_eq!(of_readers, of_one_reader, "one reader makes the copy, the others wait for it");
        assert!(!copy.waits());
        let mut written = copy.clone();
        drop(copy);
        assert!(written.dense_bytes_mut().is_some(), "the copy is a plain buffer");
        assert!(bits(written) == want);
    }
    let [short, small] = [[30, 700, 40], [30, 40, 7]].map(|shape| values(&shape));
    for x in [short, small] {
        let [a, b, c] = x.shape()[..] else { unreachable!("three axes") };
        let copy = movement::reshape(x.swap_axes(0, 2).unwrap(), [c, a * b].into()).unwrap();
        assert!(!copy.waits(), "short runs, or few elements");
    }
    let wrong = movement::reshape(x.swap_axes(0, 1).unwrap(), [40, 7].into());
    assert!(wrong.unwrap_err().to_string().contains("reshape"));
}

#[test]
fn sums_over_several_axes_of_what_waits() {
    let _alone = alone();
    deferred::set_least_bytes(1);
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let x = cast(values(&[8 * 30, 100]), dtype).unwrap().reshape([8, 30, 10, 10]).unwrap();
        let chain = || binary(Binary::Mul, x.clone(), x.clone()).unwrap();
        for axes in [&[0usize, 2, 3][..], &[2, 3], &[0, 1], &[0, 1, 2, 3], &[3]] {
            let (ready, waiting) = (chain(), chain());
            ready.evaluate().unwrap();
            assert!(waiting.waits());
            let want = bits(reduce::sum_dims(ready, axes).unwrap());
            assert!(bits(reduce::sum_dims(waiting, axes).unwrap()) == want, "{dtype:?} over {axes:?}");
        }
    }
    deferred::set_least_bytes(deferred::LEAST_BYTES);
}

#[test]
fn operations_that_are_not_light_wait_where_no_cache_holds_them() {
    let _alone = alone();
    let exp = |count| unary(Unary::Exp, Tensor::full([count], 1.0, DType::F32).unwrap()).unwrap();
    assert!(!exp(1 << 20).waits());
    assert!(exp(1 << 23).waits());
    let halved = |count| times(Tensor::full([count], 1.0, DType::F32).unwrap(), 0.5);
    assert!(!halved(1 << 15).waits());
    assert!(halved(1 << 16).waits());
    // One that is not light computes the operand that waits.
    let light = halved(1 << 16);
    assert!(!unary(Unary::Exp, light.clone()).unwrap().waits() && !light.waits());
}

#[test]
fn a_reduction_within_a_chain() {
    let _alone = alone();
    // The gradient of softmax: y (g - sum(g y)).
    let run = || {
        let (y, g) = (values(&[300, 1024]), unary(Unary::Neg, values(&[300, 1024])).unwrap());
        let sum = reduce::sum_dim(binary(Binary::Mul, g.clone(), y.clone()).unwrap(), 1).unwrap();
        binary(Binary::Mul, y, binary(Binary::Sub, g, sum).unwrap()).unwrap()
    };
    assert_same_at_once(run);
}

/// `run` waits for its reader, and computes the same bits at once.
fn assert_same_at_once(run: impl Fn() -> Tensor) {
    let waiting = run();
    assert!(waiting.waits());
    let waited = bits(waiting);
    deferred::set_least_bytes(usize::MAX);
    let at_once = run();
    assert!(!at_once.waits());
    deferred::set_least_bytes(deferred::LEAST_BYTES);
    assert!(waited == bits(at_once));
}

#[test]
fn a_norm_of_rows_waits_as_a_whole() {
    let _alone = alone();
    for [rows, n] in [[3000, 100], [300, 1024], [40, 9000]] {
        for dtype in [DType::F32, DType::F16] {
            let x = cast(values(&[rows, n]), dtype).unwrap();
            let (scale, bias) = (values(&[n]), times(values(&[n]), 0.5));
            let [scale, bias] = [scale, bias].map(|t| cast(t, dtype).unwrap());
            let op = |op, a: &Tensor, b: &Tensor| binary(op, a.clone(), b.clone()).unwrap();
            let norm = || {
                let mean = reduce::mean_dim(x.clone(), 1).unwrap();
                let centred = op(Binary::Sub, &x, &mean);
                let variance = reduce::mean_dim(op(Binary::Mul, &centred, &centred), 1).unwrap();
                let variance = binary_scalar(Binary::Add, variance, Scalar::Float(1e-5)).unwrap();
                let normed = op(Binary::Div, &centred, &unary(Unary::Sqrt, variance).unwrap());
                op(Binary::Add, &op(Binary::Mul, &normed, &scale), &bias)
            };
            if dtype == DType::F16 {
                // A product of halves of this size does not wait by itself.
                deferred::set_least_bytes(1);
            }
            assert_same_at_once(norm);
        }
    }
}

#[test]
fn a_softmax_of_single_operations_waits_as_a_whole() {
    let _alone = alone();
    for [rows, n] in [[100_000, 2], [3000, 100], [300, 1024], [40, 9000]] {
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let x = cast(values(&[rows, n]), dtype).unwrap();
            let softmax = |log: bool| {
                let largest = reduce::max_dim(x.clone(), 1).unwrap();
                let shifted = binary(Binary::Sub, x.clone(), largest).unwrap();
                let e = unary(Unary::Exp, shifted.clone()).unwrap();
                let sum = reduce::sum_dim(e.clone(), 1).unwrap();
                match log {
                    false => binary(Binary::Div, e, sum).unwrap(),
                    true => binary(Binary::Sub, shifted, unary(Unary::Ln, sum).unwrap()).unwrap(),
                }
            };
            for log in [false, true] {
                if dtype != DType::F32 {
                    // A quotient of these does not wait by itself, after sums of rows too long to wait.
                    deferred::set_least_bytes(1);
                }
                assert_same_at_once(|| softmax(log));
            }
        }
    }
}

#[test]
fn everything_that_waits_is_computed_on_demand() {
    let _alone = alone();
    let below = times(values(&[100_000]), 2.0);
    let (a, b) = (times(below.clone(), 3.0), unary(Unary::Abs, below).unwrap());
    assert!(a.waits() && b.waits());
    deferred::evaluate_all().unwrap();
    assert!(!a.waits() && !b.waits());
    deferred::evaluate_all().unwrap();
}

#[test]
#[cfg(unix)]
fn a_forked_process_computes_what_waits() {
    let _alone = alone();
    let x = values(&[100_000]);
    let want = bits(times(x.clone(), 3.0));
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Threads that may hold any lock, and have claimed any chain, at the time of the fork.
        for _ in 0..2 {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    times(times(x.clone(), 2.0), 0.5).evaluate().unwrap();
                }
            });
        }
        let ok = (0..100).all(|_| {
            let waiting = times(x.clone(), 3.0);
            common::forked(|| {
                let chains = (0..4).all(|_| {
                    times(times(x.clone(), 3.0), 1.0).evaluate().is_ok() && deferred::evaluate_all().is_ok()
                });
                chains && bits(waiting.clone()) == want
            }) == Some(true)
        });
        let also = (0..10).all(|_| {
            // Computed by a chain and not stored, and a copy that is not made.
            let shared = values(&[2, 3, 100_000]);
            let permuted = shared.clone().permute(&[1, 0, 2]).unwrap();
            let doubled = bits(times(shared.clone(), 2.0));
            let want = [doubled.clone(), doubled, bits(permuted.materialise().unwrap())];
            assert_eq!([&want[0][..4], &want[2][..4]], [(-4f32).to_ne_bytes(), (-2f32).to_ne_bytes()]);
            let held = times(shared, 2.0);
            times(held.clone(), 0.5).evaluate().unwrap();
            let copy = movement::reshape(permuted, [600_000].into()).unwrap();
            assert!(held.waits() && copy.waits());
            let read = || [bits(held.clone()), bits(times(held.clone(), 1.0)), bits(copy.clone())];
            let in_child = common::forked(|| read() == want);
            in_child == Some(true) && read() == want
        });
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ok && also, "a forked process hung, or computed something wrong");
    });
}
