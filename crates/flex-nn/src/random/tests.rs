use super::*;
use crate::{bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

const COUNT: usize = 200_000;

const UNIT: Distribution = Distribution::Uniform { low: 0.0, high: 1.0 };

fn draw<T: Element>(seed: u64, count: usize, distribution: Distribution) -> Vec<T> {
    let tensor = random(&mut Generator::new(seed), Shape::from([count]), distribution, T::DTYPE).unwrap();
    assert_eq!(tensor.dtype(), T::DTYPE);
    tensor.to_vec::<T>()
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
}

/// Kolmogorov's statistic: `sqrt(n)` times the largest distance from `cdf`. It exceeds 1.95 for one correct
/// sample in 1,000.
fn kolmogorov(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let distance = |(i, &v): (usize, &f64)| {
        let want = cdf(v);
        (want - i as f64 / n).abs().max(((i + 1) as f64 / n - want).abs())
    };
    sorted.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

fn to_f64<T: Element>(values: Vec<T>) -> Vec<f64> {
    values.into_iter().map(T::to_f64).collect()
}

#[test]
fn uniform_floats_fill_their_range_evenly() {
    fn check<T: Element>(resolution: f64) {
        for (low, high) in [(0.0, 1.0), (-3.0, 5.0), (2.0, 2.5)] {
            let values = to_f64(draw::<T>(7, COUNT, Distribution::Uniform { low, high }));
            assert!(values.iter().all(|&v| low <= v && v < high));
            let (mean, variance) = moments(&values);
            let (want_mean, want_variance) = ((low + high) / 2.0, (high - low) * (high - low) / 12.0);
            let deviation = (want_variance / COUNT as f64).sqrt();
            assert!((mean - want_mean).abs() < 4.0 * deviation + resolution * high.abs(), "{mean}");
            assert!((variance / want_variance - 1.0).abs() < 0.01 + 4.0 * resolution, "{variance}");
            if resolution == 0.0 {
                assert!(kolmogorov(&values, |v| (v - low) / (high - low)) < 1.95);
            }
        }
    }
    check::<f32>(0.0);
    check::<f64>(0.0);
    check::<f16>(1.0 / 2048.0);
    check::<bf16>(1.0 / 256.0);
}

#[test]
fn the_end_of_the_range_is_never_drawn() {
    fn check<T: Element>(low: f64, high: f64) {
        let values = draw::<T>(8, COUNT, Distribution::Uniform { low, high });
        let (low, high) = (T::from_f64(low), T::from_f64(high));
        assert!(values.iter().all(|&v| low <= v && v < high), "{low:?} {high:?}");
    }
    // Ranges of one or a few values, in which results often round to the end.
    check::<f32>(1.0, 1.0 + f32::EPSILON as f64);
    check::<f32>(16_777_215.0, 16_777_218.0);
    check::<f32>(-1.0, 0.0);
    check::<f32>(-2.0, -1.0);
    check::<f32>(0.0, 1e-44);
    check::<f64>(1.0, 1.0 + f64::EPSILON);
    check::<f16>(0.0, 1.0);
    check::<f16>(1000.0, 1001.0);
    check::<f16>(-1.0, 0.0);
    check::<bf16>(0.0, 1.0);
    check::<bf16>(100.0, 101.0);
    let same = draw::<f32>(8, 10, Distribution::Uniform { low: 2.5, high: 2.5 });
    assert_eq!(same, vec![2.5; 10]);
    for (high, below) in
        [(1.0f32, 1.0 - f32::EPSILON / 2.0), (0.0, -f32::from_bits(1)), (-1.0, -1.0 - f32::EPSILON)]
    {
        assert_eq!(largest_below(high), below);
    }
}

#[test]
fn normal_floats_have_the_shape_of_the_bell() {
    fn check<T: Element>(resolution: f64) {
        for (mean, std) in [(0.0, 1.0), (3.0, 0.5)] {
            let values = to_f64(draw::<T>(9, COUNT, Distribution::Normal { mean, std }));
            let (got_mean, variance) = moments(&values);
            let n = COUNT as f64;
            assert!((got_mean - mean).abs() < 4.0 * std / n.sqrt() + resolution, "{got_mean}");
            assert!((variance / (std * std) - 1.0).abs() < 4.0 * (2.0 / n).sqrt() + resolution, "{variance}");
            let z = |v: f64| (v - mean) / std;
            let fourth = values.iter().map(|&v| z(v).powi(4)).sum::<f64>() / n;
            assert!((fourth - 3.0).abs() < 4.0 * (96.0 / n).sqrt() + resolution, "{fourth}");
            if resolution == 0.0 {
                let cdf = |v| 0.5 * (1.0 + libm::erf(z(v) * core::f64::consts::FRAC_1_SQRT_2));
                assert!(kolmogorov(&values, cdf) < 1.95);
            }
        }
    }
    check::<f32>(0.0);
    check::<f64>(0.0);
    check::<f16>(0.01);
    check::<bf16>(0.05);
    assert_eq!(draw::<f32>(9, 5, Distribution::Normal { mean: 1.5, std: 0.0 }), vec![1.5; 5]);
}

#[test]
fn neighbours_and_partners_are_not_correlated() {
    for distribution in
        [Distribution::Normal { mean: 0.0, std: 1.0 }, Distribution::Uniform { low: -1.0, high: 1.0 }]
    {
        let values = to_f64(draw::<f32>(10, COUNT, distribution));
        let (_, variance) = moments(&values);
        // Lags within a group of lanes, within a block, and between the two halves that Box and Muller pair.
        for lag in [1, 15, 16, 17, 64, block::LEN / 2, block::LEN] {
            let pairs = COUNT - lag;
            let product: f64 = (0..pairs).map(|i| values[i] * values[i + lag]).sum();
            let correlation = product / pairs as f64 / variance;
            assert!(correlation.abs() < 4.0 / (pairs as f64).sqrt(), "lag {lag}: {correlation}");
        }
    }
}

#[test]
fn integers_are_even_over_their_range() {
    fn check<T: Element>(low: i64, high: i64) {
        let (values, range) = (
            draw::<T>(11, COUNT, Distribution::Uniform { low: low as f64, high: high as f64 }),
            (high - low) as usize,
        );
        let mut counts = vec![0f64; range];
        values.iter().for_each(|v| counts[(v.to_i64() - low) as usize] += 1.0);
        let want = COUNT as f64 / range as f64;
        let chi: f64 = counts.iter().map(|c| (c - want) * (c - want) / want).sum();
        // The statistic has mean `range - 1` and twice that as variance.
        let freedom = (range - 1) as f64;
        assert!((chi - freedom).abs() < 4.0 * (2.0 * freedom).sqrt() + 1e-9, "{chi} for {freedom}");
    }
    check::<i64>(-5, 12);
    check::<i32>(0, 10);
    check::<i16>(-300, -200);
    check::<i8>(-128, 128);
    check::<u64>(3, 4);
    check::<u32>(7, 1007);
    check::<u16>(0, 1000);
    check::<u8>(0, 256);
    // Ranges that need two words.
    for (low, high) in [(0f64, 3e9), (-1e18, 1e18), (0.0, 4_294_967_296.0)] {
        let values = to_f64(draw::<i64>(12, COUNT, Distribution::Uniform { low, high }));
        assert!(values.iter().all(|&v| low <= v && v < high));
        assert!(kolmogorov(&values, |v| (v - low) / (high - low)) < 1.95);
    }
    for values in [
        to_f64(draw::<u64>(13, COUNT, Distribution::Standard)),
        to_f64(draw::<i64>(13, COUNT, Distribution::Standard))
            .into_iter()
            .map(|v| v + 2f64.powi(63))
            .collect(),
        to_f64(draw::<i8>(13, COUNT, Distribution::Standard))
            .into_iter()
            .enumerate()
            .map(|(i, v)| (v + 128.0 + (i % 997) as f64 / 997.0) * 2f64.powi(56))
            .collect(),
    ] {
        assert!(kolmogorov(&values, |v| v / 2f64.powi(64)) < 1.95);
    }
}

#[test]
fn integer_bounds_lose_fractions_and_are_held_to_the_dtype() {
    let set = |low, high| {
        let mut values = draw::<u8>(14, 10_000, Distribution::Uniform { low, high });
        values.sort();
        values.dedup();
        (values[0], values[values.len() - 1])
    };
    assert_eq!(set(0.0, 1.0), (0, 0));
    assert_eq!(set(2.9, 5.9), (2, 4));
    assert_eq!(set(3.2, 3.7), (3, 3));
    assert_eq!(set(-100.0, 1e9), (0, 255));
    let normal = to_f64(draw::<i32>(15, COUNT, Distribution::Normal { mean: 0.0, std: 100.0 }));
    let (mean, variance) = moments(&normal);
    assert!(mean.abs() < 1.0 && (variance.sqrt() - 100.0).abs() < 1.0);
    let held = draw::<u8>(15, 1000, Distribution::Normal { mean: 255.0, std: 100.0 });
    assert!(held.iter().filter(|&&v| v == 255).count() > 400);
}

#[test]
fn bernoulli_for_every_dtype() {
    for dtype in [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool(crate::BoolStore::Native),
        DType::Bool(crate::BoolStore::U8),
    ] {
        for probability in [0.0, 0.1, 0.5, 1.0] {
            let mut generator = Generator::new(16);
            let shape = Shape::from([COUNT / 4]);
            let tensor =
                random(&mut generator, shape, Distribution::Bernoulli { probability }, dtype).unwrap();
            assert_eq!(tensor.dtype(), dtype);
            let values: Result<Vec<f64>> =
                dispatch!(any "test", dtype, T => Ok(to_f64(tensor.to_vec::<T>())));
            let values = values.unwrap();
            assert!(values.iter().all(|&v| v == 0.0 || v == 1.0));
            let (mean, n) = (moments(&values).0, values.len() as f64);
            let deviation = (probability * (1.0 - probability) / n).sqrt();
            assert!((mean - probability).abs() <= 4.0 * deviation, "{dtype:?} {probability} {mean}");
            assert_eq!(
                generator.counter,
                Generator::new(16).counter + (COUNT / 4).div_ceil(block::LEN) as u64 * block::COUNTERS
            );
        }
    }
    let coin = random(
        &mut Generator::new(1),
        Shape::from([COUNT]),
        Distribution::Standard,
        DType::Bool(crate::BoolStore::Native),
    );
    let ones = coin.unwrap().to_vec::<u8>().iter().filter(|&&b| b == 1).count();
    assert!((ones as f64 - COUNT as f64 / 2.0).abs() < 4.0 * (COUNT as f64 / 4.0).sqrt());
}

#[test]
fn the_stream_moves_on_and_does_not_overlap() {
    let mut generator = Generator::new(17);
    let a = random(&mut generator, Shape::from([1500]), UNIT, DType::F32).unwrap().to_vec::<f32>();
    let b = random(&mut generator, Shape::from([1500]), UNIT, DType::F32).unwrap().to_vec::<f32>();
    let whole = draw::<f32>(17, 4096, UNIT);
    assert_eq!(a, whole[..1500]);
    // The second tensor starts at a new block.
    assert_eq!(b, whole[2048..2048 + 1500]);
    assert_ne!(draw::<f32>(18, 1500, UNIT), a);
    // A part that was taken in advance gives the same numbers as the stream.
    let mut generator = Generator::new(17);
    let mut part = generator.take(1500);
    assert_eq!(random(&mut part, Shape::from([1500]), UNIT, DType::F32).unwrap().to_vec::<f32>(), a);
    assert_eq!(random(&mut generator, Shape::from([1500]), UNIT, DType::F32).unwrap().to_vec::<f32>(), b);
    // 64-bit integers use twice the words; blocks still share no words.
    let wide = draw::<u64>(17, 3000, Distribution::Standard);
    let mut sorted = wide.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), wide.len());
    for count in [0, 1, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025] {
        assert_eq!(draw::<f32>(17, count, UNIT), whole[..count]);
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        assert_eq!(draw::<f64>(17, count, normal), draw::<f64>(17, 4096, normal)[..count]);
    }
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn the_same_bits_on_any_number_of_threads() {
    let run = || {
        let normal = Distribution::Normal { mean: 1.0, std: 2.0 };
        let floats = draw::<f32>(19, 100_003, normal);
        let doubles = draw::<f64>(19, 100_003, UNIT);
        let ints = draw::<i32>(19, 100_003, Distribution::Standard);
        (floats.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), doubles, ints)
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let want = pool(1).install(run);
    for threads in [2, 8] {
        assert!(pool(threads).install(run) == want, "{threads} threads");
    }
}

/// The numbers of a short tensor are the first numbers of a longer tensor.
#[test]
fn few_numbers_begin_as_many_do() {
    fn check<T: Element>(distribution: Distribution) {
        let many = draw::<T>(3, 2 * block::LEN, distribution);
        let half = block::LEN / 2;
        let around =
            [0, 1, philox::GROUP, half - philox::GROUP, half, block::LEN, block::LEN + philox::GROUP];
        for count in around.into_iter().flat_map(|n| n.saturating_sub(1)..n + 2) {
            assert!(draw::<T>(3, count, distribution) == many[..count], "{distribution:?}: {count}");
        }
    }
    let normal = Distribution::Normal { mean: 1.0, std: 3.0 };
    check::<f32>(UNIT);
    check::<f64>(UNIT);
    check::<bf16>(UNIT);
    check::<f32>(normal);
    check::<f64>(normal);
    check::<f16>(normal);
    check::<i32>(normal);
    check::<i8>(Distribution::Standard);
    check::<u64>(Distribution::Standard);
    check::<f32>(Distribution::Bernoulli { probability: 0.3 });
}

#[test]
fn parameters_are_checked() {
    let message = |distribution, dtype| {
        random(&mut Generator::new(0), Shape::from([2]), distribution, dtype).unwrap_err().to_string()
    };
    let f32 = DType::F32;
    for probability in [-0.1, 1.1, f64::NAN] {
        assert!(message(Distribution::Bernoulli { probability }, f32).starts_with("random: probability"));
    }
    for std in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(
            message(Distribution::Normal { mean: 0.0, std }, f32).starts_with("random: standard deviation")
        );
    }
    assert!(message(Distribution::Normal { mean: f64::NAN, std: 1.0 }, f32).starts_with("random: mean"));
    for (low, high) in [(1.0, 0.0), (0.0, f64::NAN), (0.0, f64::INFINITY)] {
        assert!(message(Distribution::Uniform { low, high }, f32).starts_with("random: high"));
    }
    assert!(message(Distribution::Uniform { low: f64::NAN, high: 1.0 }, f32).starts_with("random: low"));
    assert!(message(Distribution::Uniform { low: -3e38, high: 3e38 }, f32).starts_with("random: range"));
    assert!(message(Distribution::Uniform { low: 0.0, high: 1e6 }, DType::F16).starts_with("random: range"));
    assert!(message(UNIT, DType::Bool(crate::BoolStore::Native)).starts_with("random: dtype"));
    let huge =
        random(&mut Generator::new(0), Shape::from([usize::MAX, 2]), UNIT, f32).unwrap_err().to_string();
    assert!(huge.starts_with("random: a tensor of shape"));
}
