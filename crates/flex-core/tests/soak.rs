//! Many threads compute for a long time, with a bound on the pool: every result has the bits that it has
//! alone, and the memory of the process does not grow once the pool and the system's allocator are warm.
//!
//! ```console
//! cargo test --release -p flex-core --test soak -- --ignored --nocapture    # 10 minutes
//! ```
//!
//! `FLEX_SOAK_SECONDS` sets another duration. `cargo test` runs the same for some seconds.
#![allow(missing_docs)]

use flex_core::DType::{BF16, F16, F32, F64, I32, I64};
use flex_core::elementwise::{Binary, Compare, Unary, binary, cast, compare, mask_fill, unary};
use flex_core::quant::{self, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue};
use flex_core::random::{Distribution, Generator};
use flex_core::storage::pool as blocks;
use flex_core::vision::{self, Interpolation};
use flex_core::{BoolStore, DType, Result, Shape, Tensor, parallel};
use flex_core::{attention, conv, fft, index, matmul, movement, norm, pool, random, reduce, sort};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Callers at the same time.
const CALLERS: usize = 8;

/// What the pool may keep.
const LIMIT: usize = 512 << 20;

/// Pairs of an operation and its shapes.
const CASES: u64 = 1000;

/// Results that callers hold on to, so that blocks are freed late, and by other threads.
const HELD: usize = 32;

/// What the mean of resident memory may grow by, from the second fifth of the time to the last: it rises and
/// falls with the sizes that are in use.
const GROWTH: usize = 64 << 20;

/// Mean of some numbers; zero if there are none.
fn mean(numbers: &[usize]) -> usize {
    numbers.iter().sum::<usize>() / numbers.len().max(1)
}

/// Shapes, options and values of one case. Equal seeds give equal cases.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014): any seed will do, 0 and 1 too.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n
    }

    /// One of `1..=most`; each power of two about as likely as the others, and odd numbers among them.
    fn dim(&mut self, most: usize) -> usize {
        let top = 1 << self.below(most.ilog2() as usize + 1);
        (top + self.below(top)).min(most)
    }

    /// Two sizes with a product of at most `most`.
    fn dims(&mut self, most: usize) -> [usize; 2] {
        let first = self.dim(most);
        let dims = [first, self.dim(most / first)];
        if self.below(2) == 0 { dims } else { [dims[1], dims[0]] }
    }

    fn float(&mut self) -> DType {
        [F32, F32, F32, F16, BF16, F64][self.below(6)]
    }

    fn values(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        random::random(&mut Generator::new(self.next()), Shape::from(shape), normal, dtype)
    }

    /// Integers of `0..below`.
    fn integers(&mut self, shape: &[usize], below: usize) -> Result<Tensor> {
        let range = Distribution::Uniform { low: 0.0, high: below as f64 };
        random::random(&mut Generator::new(self.next()), Shape::from(shape), range, I64)
    }
}

const NATIVE: BoolStore = BoolStore::Native;

/// Operations of models, and others. Each draws its shapes and returns its results.
const OPERATIONS: &[fn(&mut Draw) -> Result<Vec<Tensor>>] = &[
    // A layer of a network of convolutions.
    |d| {
        let (dtype, batch, [inner, outer]) = (d.float(), d.dim(8), [d.dim(24), d.dim(24)]);
        let (size, stride) = (5 + d.dim(28), 1 + d.below(2));
        let shape = [batch, inner, size, size + d.below(3)];
        let x = d.values(&shape, dtype)?;
        let weight = d.values(&[outer, inner, 3, 3], dtype)?;
        let bias = d.values(&[outer], dtype)?;
        let options = conv::ConvOptions { stride: [stride; 2], padding: [1; 2], dilation: [1; 2], groups: 1 };
        let y = conv::conv(x.clone(), weight.clone(), Some(bias), &options)?;
        let grads = [
            conv::conv_x_backward(x.clone(), weight.clone(), y.clone(), &options)?,
            conv::conv_weight_backward(x, weight, y.clone(), &options)?,
        ];
        let max = pool::MaxPoolOptions {
            kernel: [2; 2],
            stride: [2; 2],
            padding: [0; 2],
            dilation: [1; 2],
            ceil_mode: true,
        };
        let y = pool::max_pool(unary(Unary::Relu, y)?, &max)?;
        Ok([y].into_iter().chain(grads).collect())
    },
    // Attention, and the layers around it.
    |d| {
        let (dtype, [batch, heads]) = (d.float(), [d.dim(4), d.dim(8)]);
        let [queries, keys, width] = [d.dim(160), d.dim(160), d.dim(96)];
        let query = d.values(&[batch, heads, queries, width], dtype)?;
        let key = d.values(&[batch, heads, keys, width], dtype)?;
        let value = d.values(&[batch, heads, keys, width], dtype)?;
        let options = attention::AttentionOptions { scale: None, softcap: None, is_causal: d.below(2) == 0 };
        let y = attention::attention(query, key, value, None, None, options)?;
        let y = y.swap_axes(1, 2)?.reshape([batch * queries, heads * width])?;
        let gamma = d.values(&[heads * width], dtype)?;
        let y = norm::layer_norm(y, gamma, None, 1e-5)?;
        let outer = d.dim(256);
        let weight = d.values(&[heads * width, outer], dtype)?;
        let y = matmul::linear(y, weight, Some(d.values(&[outer], dtype)?))?;
        Ok(vec![norm::softmax(unary(Unary::Gelu, y)?, 1)?])
    },
    // Products of any shapes.
    |d| {
        let [dtype, other] = [d.float(), [I32, F32][d.below(2)]];
        let [m, k, n] = [d.dim(300), d.dim(700), d.dim(300)];
        let wide = matmul::matmul(d.values(&[m, k], dtype)?, d.values(&[n, k], dtype)?.swap_axes(0, 1)?)?;
        let [batch, rows] = [d.dim(40), d.dim(40)];
        let batches = matmul::matmul(d.values(&[batch, rows, 17], other)?, d.values(&[1, 17, rows], other)?)?;
        Ok(vec![wide, batches])
    },
    // Elementwise operations over broadcast, transposed and strided operands.
    |d| {
        let (dtype, [rows, columns]) = (d.float(), d.dims(400_000));
        let x = d.values(&[rows, columns], dtype)?;
        let y = binary(Binary::Mul, x.clone(), d.values(&[1, columns], dtype)?)?;
        let z = binary(Binary::Add, x.swap_axes(0, 1)?, unary(Unary::Exp, y)?.swap_axes(0, 1)?)?;
        let mask = compare(Compare::Gt, z.clone().flip(&[0])?, z.clone(), NATIVE)?;
        let z = mask_fill(z, mask, 0.5.into())?;
        Ok(vec![unary(Unary::Tanh, z.clone().narrow(0, columns / 3, columns - columns / 3)?)?, cast(z, F16)?])
    },
    // Large tensors: their blocks make others give way.
    |d| {
        let n = (1 + d.below(12)) * 300_000 + d.below(1000);
        let x = d.values(&[n], F32)?;
        Ok(vec![binary(Binary::Add, x.clone(), unary(Unary::Neg, x)?)?])
    },
    // Reductions and scans.
    |d| {
        let (dtype, [rows, columns]) = (d.float(), d.dims(200_000));
        let x = d.values(&[rows, columns], dtype)?;
        let axis = d.below(2);
        let (largest, at) = reduce::max_dim_with_indices(x.clone(), axis, I32)?;
        let sums = [reduce::sum_dim(x.clone(), axis)?, reduce::mean_dim(x.clone(), 1 - axis)?];
        let all = [reduce::sum(x.clone())?, reduce::cumsum(x, axis)?, largest, at];
        Ok(sums.into_iter().chain(all).collect())
    },
    // Sorting.
    |d| {
        let (dtype, [rows, columns]) = (d.float(), d.dims(60_000));
        let x = d.values(&[rows, columns], dtype)?;
        let axis = d.below(2);
        let (sorted, at) = sort::sort_with_indices(x.clone(), axis, d.below(2) == 0, I64)?;
        Ok(vec![sorted, at, sort::topk(x, 1, 1 + d.below(columns))?])
    },
    // Indexing and movement.
    |d| {
        let (dtype, [rows, columns], count) = (d.float(), d.dims(40_000), d.dim(500));
        let x = d.values(&[rows, columns], dtype)?;
        let at = d.integers(&[count], rows)?;
        let taken = index::select(x.clone(), 0, at.clone())?;
        let added = index::select_update(x.clone(), 0, at, taken.clone(), index::Update::Add)?;
        let width = 1 + d.below(columns);
        let cells = index::gather(1, x.clone(), d.integers(&[rows, width], columns)?)?;
        let joined = movement::cat(vec![x, taken], 0)?;
        Ok(vec![added, cells, movement::repeat(joined, 1, 1 + d.below(3))?])
    },
    // Images.
    |d| {
        let (dtype, channels) = (d.float(), d.dim(4));
        let [size, to] = [[d.dim(90), d.dim(90)], [d.dim(120), d.dim(120)]];
        let shape = [d.dim(3), channels, size[0], size[1]];
        let x = d.values(&shape, dtype)?;
        let kinds = [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic];
        let resized = vision::interpolate(x.clone(), to, kinds[d.below(3)], d.below(2) == 0)?;
        Ok(vec![resized, pool::adaptive_avg_pool(x, [d.dim(7), d.dim(7)])?])
    },
    // Transforms.
    |d| {
        let [rows, n] = [d.dim(50), d.dim(2000)];
        let (re, im) = fft::rfft(d.values(&[rows, n], F32)?, 1, None)?;
        let back = fft::irfft(re.clone(), im.clone(), 1, Some(n))?;
        Ok(vec![re, im, back])
    },
    // Quantization.
    |d| {
        let scheme = QuantScheme {
            value: QuantValue::Q8S,
            param: QuantParam::F32,
            store: QuantStore::Native,
            level: QuantLevel::Tensor,
            mode: QuantMode::Symmetric,
        };
        let shape = d.dims(100_000);
        let x = d.values(&shape, F32)?;
        Ok(vec![quant::dequantize(quant::quantize_dynamic(x, scheme)?, F32)?])
    },
];

/// The results of a case and a hash of their bytes.
fn compute(case: u64) -> (Vec<Tensor>, u64) {
    let mut draw = Draw(case);
    let operation = OPERATIONS[case as usize % OPERATIONS.len()];
    let results = operation(&mut draw).unwrap_or_else(|error| panic!("case {case}: {error}"));
    let mut hash = DefaultHasher::new();
    for tensor in &results {
        hash.write(&tensor.clone().into_bytes().expect("memory"));
    }
    (results, hash.finish())
}

/// Bytes of memory that the process holds; `None` where the system does not tell.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib << 10)
}

/// The wrong case that was found first; `u64::MAX` if none was.
static WRONG: AtomicU64 = AtomicU64::new(u64::MAX);

/// Computes cases until `end`, and hands their results to whoever comes next to drop them.
fn call(caller: usize, want: &[u64], held: &Mutex<Vec<Vec<Tensor>>>, done: &AtomicU64, end: &AtomicBool) {
    let mut draw = Draw(caller as u64 ^ 0xDEAD);
    while !end.load(Relaxed) {
        let case = draw.below(want.len());
        let (results, hash) = compute(case as u64);
        if hash != want[case] {
            let _ = WRONG.compare_exchange(u64::MAX, case as u64, Relaxed, Relaxed);
        }
        done.fetch_add(1, Relaxed);
        let dropped = {
            let mut held = held.lock().expect("no panic");
            held.push(results);
            if held.len() > HELD { Some(held.swap_remove(draw.below(HELD))) } else { None }
        };
        drop(dropped);
    }
}

/// Ends the callers, also when the thread that watches them panics: they would be waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn soak(time: Duration, cases: u64) {
    blocks::set_limit(LIMIT);
    let want: Vec<u64> = (0..cases).map(|case| compute(case).1).collect();
    println!("{cases} cases, {CALLERS} callers, a pool of {} threads, {time:.0?}", parallel::threads());
    let (held, done, end) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = End(&end);
        for caller in 0..CALLERS {
            let (want, held, done, end) = (&want, &held, &done, &end);
            scope.spawn(move || call(caller, want, held, done, end));
        }
        let start = Instant::now();
        let (mut samples, mut shown) = (Vec::new(), Duration::ZERO);
        while start.elapsed() < time {
            std::thread::sleep((time / 100).min(Duration::from_secs(1)));
            let now = resident().unwrap_or(0);
            samples.push(now);
            let stats = blocks::stats();
            assert!(stats.cached_bytes <= LIMIT, "{stats:?}");
            if start.elapsed() - shown >= Duration::from_secs(10) {
                shown = start.elapsed();
                println!(
                    "{:>4} s: {:>8} cases, {:>5} MiB resident, {:>4} MiB wait in the pool, {:>4} MiB live, \
                     {} hits, {} misses, {} evictions",
                    shown.as_secs(),
                    done.load(Relaxed),
                    now >> 20,
                    stats.cached_bytes >> 20,
                    stats.live_bytes >> 20,
                    stats.hits,
                    stats.misses,
                    stats.evictions
                );
            }
            assert_eq!(WRONG.load(Relaxed), u64::MAX, "this case has other bits than alone");
        }
        drop(ends);
        let fifth = samples.len() / 5;
        let [second, last] = [mean(&samples[fifth..2 * fifth]), mean(&samples[4 * fifth..])];
        println!(
            "{} cases; resident on average {} MiB in the second fifth of the time, {} MiB in the last; at most {} MiB",
            done.load(Relaxed),
            second >> 20,
            last >> 20,
            samples.iter().max().unwrap_or(&0) >> 20
        );
        // In a short run, the pool is not yet warm.
        if time >= Duration::from_secs(300) {
            assert!(last <= second + GROWTH, "resident memory grows: {second} bytes, then {last}");
        }
    });
    assert_eq!(WRONG.load(Relaxed), u64::MAX, "this case has other bits than alone");
    // Every block comes back.
    drop(held);
    let live = blocks::stats().live_bytes;
    assert!(live < 64 << 10, "{live} bytes of blocks were not returned");
}

#[test]
fn results_of_many_callers_have_the_bits_that_they_have_alone() {
    soak(Duration::from_secs(4), 11 * 8);
}

#[test]
#[ignore = "takes 10 minutes"]
fn ten_minutes_of_many_callers_leave_memory_as_it_is() {
    let seconds = std::env::var("FLEX_SOAK_SECONDS").map_or(600, |text| text.parse().expect("seconds"));
    soak(Duration::from_secs(seconds), CASES);
}
