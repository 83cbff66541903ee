//! A few operations of each kind, with results that are known: a check for targets on which no test runs,
//! such as WebAssembly in Node.js.
//!
//! ```console
//! cargo build --release --target wasm32-unknown-unknown -p flex-core --example portable
//! node crates/flex-core/examples/portable.mjs target/wasm32-unknown-unknown/release/examples/portable.wasm
//! ```

use flex_core::conv::{ConvOptions, conv};
use flex_core::elementwise::{Binary, Unary, binary, unary};
use flex_core::{DType, Error, Tensor, fft, matmul, norm, random, reduce, sort};

/// `0, 1, ...` modulo 7.
fn numbers(shape: &[usize]) -> Result<Tensor, Error> {
    let n = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    Tensor::from_slice(&values, shape)
}

fn main() -> Result<(), Error> {
    // Long enough for threads, for chains and for results past the caches.
    let n = 3 << 20;
    let x = numbers(&[n])?;
    let doubled = binary(Binary::Add, x.clone(), x.clone())?;
    let chain = unary(Unary::Sqrt, binary(Binary::Mul, doubled, x)?)?;
    let expected = |i: usize| (2.0 * ((i % 7) * (i % 7)) as f32).sqrt();
    assert!(chain.to_vec::<f32>().iter().enumerate().all(|(i, &y)| y == expected(i)));

    let (a, b) = (numbers(&[300, 200])?, Tensor::full([200, 100], 0.5, DType::F32)?);
    let product = matmul::matmul(a.clone(), b)?.to_vec::<f32>();
    let row = |i: usize| (0..200).map(|k| ((i * 200 + k) % 7) as f32 * 0.5).sum::<f32>();
    assert!(product.iter().enumerate().all(|(i, &y)| y == row(i / 100)));

    let total = reduce::sum(numbers(&[700, 700])?)?.item::<f32>();
    assert_eq!(total, 3.0 * 490_000.0);
    let shares = norm::softmax(a, 1)?;
    let sums = reduce::sum_dim(shares, 1)?.to_vec::<f32>();
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5));

    let options = ConvOptions { stride: [1; 2], padding: [1; 2], dilation: [1; 2], groups: 1 };
    let ones = |shape: [usize; 4]| Tensor::full(shape, 1.0, DType::F32);
    let image = conv(ones([1, 8, 32, 32])?, ones([16, 8, 3, 3])?, None, &options)?.to_vec::<f32>();
    assert_eq!((image[0], image[1], image[33]), (32.0, 48.0, 72.0));

    let (sorted, _) = sort::sort_with_indices(numbers(&[1000])?, 0, true, DType::I32)?;
    assert!(sorted.to_vec::<f32>().is_sorted_by(|a, b| a >= b));
    let (real, _) = fft::rfft(numbers(&[64])?, 0, None)?;
    assert_eq!(real.to_vec::<f32>()[0], (0..64).map(|i| (i % 7) as f32).sum::<f32>());
    let drawn = random::random(
        &mut random::Generator::new(1),
        [1000].into(),
        random::Distribution::Uniform { low: 0.0, high: 1.0 },
        DType::F32,
    )?;
    assert!(drawn.to_vec::<f32>().iter().all(|v| (0.0..1.0).contains(v)));
    Ok(())
}
