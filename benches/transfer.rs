//! `cargo bench -p flex-benches --features wgpu --bench transfer`: the speed of transfers to a device and
//! back.
//!
//! Each backend that was built in and whose device is present gets a table of the dtypes that the device
//! computes correctly. `Flex`, which adopts the host's memory, gives the lower bound. A numeric argument sets
//! the largest size in KiB.

use burn_flex::Flex;
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Int, Tensor, TensorData};
use std::hint::black_box;
use std::time::Instant;

/// Sizes of the tensors in bytes.
const SIZES: [usize; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];
const DTYPES: [DType; 7] =
    [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8];
/// Transfers per size; their median is reported.
const SAMPLES: usize = 15;

fn main() {
    let kib = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok());
    let largest = kib.map_or(SIZES[4], |kib| kib << 10);
    measure::<Flex>("flex", largest, |_| true);
    #[cfg(feature = "wgpu")]
    match burn_flex_wgpu::supported(&Default::default()) {
        Ok(table) => measure::<burn_flex_wgpu::Wgpu>("wgpu", largest, |dtype| table.supports(dtype)),
        Err(error) => eprintln!("wgpu left out: {error}"),
    }
    #[cfg(feature = "cuda")]
    match burn_flex_cuda::supported(&Default::default()) {
        Ok(table) => measure::<burn_flex_cuda::Cuda>("cuda", largest, |dtype| table.supports(dtype)),
        Err(error) => eprintln!("cuda left out: {error}"),
    }
}

fn measure<B: Backend>(name: &str, largest: usize, supported: impl Fn(DType) -> bool) {
    println!("\n{name}: {}\n", B::name(&B::Device::default()));
    println!("| dtype | bytes | to device us | GB/s | and back us | GB/s |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for dtype in DTYPES.into_iter().filter(|&dtype| supported(dtype)) {
        for bytes in SIZES.into_iter().filter(|&bytes| bytes <= largest) {
            let [there, back] = round_trips::<B>(dtype, bytes);
            let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
            let [there_us, back_us] = [there, back].map(|seconds| seconds * 1e6);
            let (up, down) = (rate(there), rate(back));
            println!("| {dtype:?} | {bytes} | {there_us:.1} | {up:.2} | {back_us:.1} | {down:.2} |");
        }
    }
}

/// Median seconds of the transfers to the device and back.
fn round_trips<B: Backend>(dtype: DType, bytes: usize) -> [f64; 2] {
    let device = B::Device::default();
    let n = bytes / dtype.size();
    let wait = || B::sync(&device).unwrap_or_else(|e| panic!("{}: {e}", B::name(&device)));
    let mut samples = [Vec::new(), Vec::new()];
    for k in 0..SAMPLES {
        // Each sample sends different memory, because an upload may keep the memory that it received.
        let sent = TensorData::new((0..n).map(|i| ((i + k) % 100) as f32).collect::<Vec<_>>(), [n])
            .convert_dtype(dtype);
        let expected = sent.clone();
        wait();
        let (there, back, got) = if dtype.is_float() {
            timed(sent, |data| Tensor::<B, 1>::from_data(data, (&device, dtype)), wait, Tensor::into_data)
        } else {
            timed(
                sent,
                |data| Tensor::<B, 1, Int>::from_data(data, (&device, dtype)),
                wait,
                Tensor::into_data,
            )
        };
        assert!(got == expected, "{}: what came back is not what was sent", B::name(&device));
        samples[0].push(there);
        samples[1].push(back);
    }
    samples.map(median)
}

/// Returns the seconds until the data is on the device and the device is idle, the seconds back, and the data
/// that came back.
fn timed<T>(
    sent: TensorData,
    send: impl Fn(TensorData) -> T,
    wait: impl Fn(),
    fetch: impl Fn(T) -> TensorData,
) -> (f64, f64, TensorData) {
    let start = Instant::now();
    let tensor = send(black_box(sent));
    wait();
    let there = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let got = black_box(fetch(tensor));
    (there, start.elapsed().as_secs_f64(), got)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
