//! The limits of the machine: bandwidth by the size of the data, and peak throughput of fused multiply-adds.

use flex_math::simd::{Scalar, Simd, Vector, WithSimd, dispatch};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The limits of this machine, as measured in this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bandwidth of `c = a + b` over arrays of these sizes.
    pub streams: Vec<Stream>,
    /// Floating-point operations per second of f32 fused multiply-adds, on all threads.
    pub flops: f64,
}

/// Bandwidth at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes of the three arrays together.
    pub footprint: usize,
    /// Bytes per second with plain stores.
    pub plain: f64,
    /// Bytes per second with non-temporal stores, if the machine has them.
    pub non_temporal: Option<f64>,
}

impl Stream {
    /// The higher bandwidth of the two kinds of stores.
    pub fn best(&self) -> f64 {
        self.plain.max(self.non_temporal.unwrap_or(0.0))
    }
}

impl Limits {
    /// Measures on this many threads, for about a second.
    pub fn measure(threads: usize) -> Self {
        let streams = [1 << 12, 1 << 16, 1 << 20, 1 << 24].map(|n| stream(n, threads)).to_vec();
        Self { streams, flops: peak_flops(threads) }
    }

    /// Measures the peak throughput once more and keeps the higher result: in a second, other programs can
    /// hold all but one of the processors. A run for two threads had half of the peak that the next run had.
    pub fn measure_peak_again(&mut self, threads: usize) {
        self.flops = self.flops.max(peak_flops(threads));
    }

    /// Fewest seconds that a case can take, by the bytes that it moves and the operations that it computes.
    pub fn seconds(&self, bytes: usize, flops: usize) -> f64 {
        let moved = self.bandwidth(bytes).map_or(0.0, |bandwidth| bytes as f64 / bandwidth);
        moved.max(flops as f64 / self.flops)
    }

    /// Bandwidth at the measured size nearest to `bytes`; `None` for 0 bytes.
    fn bandwidth(&self, bytes: usize) -> Option<f64> {
        let distance = |s: &&Stream| ((s.footprint as f64).ln() - (bytes.max(1) as f64).ln()).abs();
        (bytes > 0)
            .then(|| self.streams.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))))?
            .map(Stream::best)
    }
}

/// Below this many elements only one thread is measured: handing work to a second thread takes longer than
/// the work.
const ALL_THREADS_FROM: usize = 1 << 15;

/// Samples of each limit, of which the best counts: a limit is what undisturbed code reaches.
const SAMPLES: usize = 12;

/// Seconds from the moment when all threads are ready until every thread has done the `work` on its share.
fn seconds_in_parallel<T: Send>(shares: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) -> f64 {
    let shares: Vec<T> = shares.into_iter().collect();
    let barrier = Barrier::new(shares.len());
    let run = |share| {
        barrier.wait();
        let start = Instant::now();
        work(share);
        start.elapsed()
    };
    let slowest = thread::scope(|scope| {
        let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| run(share))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(Duration::MAX)
    });
    slowest.as_secs_f64()
}

fn stream(n: usize, threads: usize) -> Stream {
    let (a, b) = (vec![1f32; n], vec![2f32; n]);
    let mut c = vec![0f32; n];
    let footprint = 12 * n;
    let share = if n < ALL_THREADS_FROM { n } else { n.div_ceil(threads) };
    let repeats = (4_000_000 / n).max(2);
    let mut bandwidth = |add: fn(&[f32], &[f32], &mut [f32])| {
        let mut sample = || {
            let shares = c.chunks_mut(share).zip(a.chunks(share)).zip(b.chunks(share));
            let seconds = seconds_in_parallel(shares, |((c, a), b)| {
                for _ in 0..repeats {
                    add(a, b, black_box(&mut *c));
                }
            });
            (repeats * footprint) as f64 / seconds
        };
        (0..SAMPLES).map(|_| sample()).fold(0.0, f64::max)
    };
    let plain = bandwidth(add_plain);
    #[cfg(target_arch = "x86_64")]
    let non_temporal = Some(bandwidth(add_non_temporal));
    #[cfg(not(target_arch = "x86_64"))]
    let non_temporal = None;
    Stream { footprint, plain, non_temporal }
}

fn add_plain(a: &[f32], b: &[f32], c: &mut [f32]) {
    flex_math::simd::vectorize(
        #[inline(always)]
        || c.iter_mut().zip(a).zip(b).for_each(|((c, a), b)| *c = a + b),
    );
}

#[cfg(target_arch = "x86_64")]
fn add_non_temporal(a: &[f32], b: &[f32], c: &mut [f32]) {
    use std::arch::x86_64::{_mm_add_ps, _mm_loadu_ps, _mm_sfence, _mm_stream_ps};
    // Non-temporal stores need 16-byte alignment: the elements before and after use plain stores.
    let start = c.as_ptr().align_offset(16).min(c.len());
    let end = start + (c.len() - start) / 4 * 4;
    add_plain(&a[..start], &b[..start], &mut c[..start]);
    add_plain(&a[end..], &b[end..], &mut c[end..]);
    let middle = a[start..end]
        .chunks_exact(4)
        .zip(b[start..end].chunks_exact(4))
        .zip(c[start..end].chunks_exact_mut(4));
    for ((a, b), c) in middle {
        // SAFETY: SSE is part of x86-64; each chunk has four elements, and `c` is 16-byte aligned by the
        // choice of `start`.
        unsafe {
            _mm_stream_ps(c.as_mut_ptr(), _mm_add_ps(_mm_loadu_ps(a.as_ptr()), _mm_loadu_ps(b.as_ptr())))
        };
    }
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Multiply-adds in twelve independent chains, enough to hide a latency of six cycles on two units.
struct Chains {
    steps: usize,
}

impl WithSimd for Chains {
    /// A value that depends on every chain, and the number of operations.
    type Output = (f32, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> (f32, usize) {
        // Hidden from the compiler: 1 is a fixed point of this map, and a chain of ones would be removed.
        let (scale, offset): (Vector<S, f32>, Vector<S, f32>) =
            (black_box(0.999f32).splat(), black_box(0.001f32).splat());
        let mut chains: [Vector<S, f32>; 12] = core::array::from_fn(|k| (k as f32).splat());
        for _ in 0..self.steps {
            for x in &mut chains {
                *x = x.mul_add(scale, offset);
            }
        }
        let lanes = size_of::<Vector<S, f32>>() / size_of::<f32>();
        (chains.into_iter().map(|x| x.reduce_add()).sum(), 2 * self.steps * chains.len() * lanes)
    }
}

fn peak_flops(threads: usize) -> f64 {
    const STEPS: usize = 400_000;
    let operations = dispatch(Chains { steps: 1 }).1 * STEPS * threads;
    let sample = || {
        seconds_in_parallel(0..threads, |_| {
            black_box(dispatch(Chains { steps: STEPS }));
        })
    };
    (0..SAMPLES).map(|_| operations as f64 / sample()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_binds_is_the_one_that_applies() {
        let stream = |footprint, plain| Stream { footprint, plain, non_temporal: None };
        let limits = Limits { streams: vec![stream(1000, 100.0), stream(1_000_000, 10.0)], flops: 50.0 };
        assert_eq!(limits.seconds(1000, 0), 10.0);
        assert_eq!(limits.seconds(1_000_000, 0), 1e5);
        assert_eq!(limits.seconds(1000, 5000), 100.0);
        assert_eq!(limits.seconds(0, 50), 1.0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn non_temporal_stores_reach_every_element() {
        for (n, skip) in [(0, 0), (1, 0), (100, 1), (103, 3)] {
            let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut c = vec![0f32; n];
            let skip = skip.min(n);
            add_non_temporal(&a[skip..], &a[skip..], &mut c[skip..]);
            assert!(c[skip..].iter().zip(&a[skip..]).all(|(c, a)| *c == 2.0 * a));
        }
    }
}
