//! Finds out which dtypes a device computes correctly, by comparing its results with known ones.
//!
//! Drivers and compilers claim dtypes that they get wrong: kernels that did not compile leave their outputs
//! as whatever the memory held, and 64-bit functions that exist on paper return 32-bit accuracy. So a claim
//! to support a dtype is always tested. Only a "no" is believed untested: a dtype that the runtime does not
//! offer is sent and read back, but no kernel is compiled for it.

use crate::DeviceError;
use crate::table::{DTYPES, DTypeTable, Support};
use burn_backend::tensor::Device;
use burn_backend::{Backend, BoolStore, DType, DTypeUsage, ExecutionError, Shape, TensorData, bf16, f16};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A device that a failing kernel may break. Public only for the crates that open devices.
pub struct Scratch<B: Backend> {
    /// The device.
    pub device: Device<B>,
    /// Returns the device's errors since the last call, except the errors that [`Backend::sync`] reports.
    pub complaints: Box<dyn Fn() -> Option<String>>,
}

/// Probes all dtypes of the device `name` and returns what works. `fresh` opens another device after each
/// failure, since a failing kernel can leave its device unusable. Public only for the crates that open
/// devices.
///
/// # Errors
/// When there is no device to probe, or when it reports the failure of work that came before the probes.
pub fn probe<B: Backend>(
    name: &str,
    fresh: impl FnMut() -> Result<Scratch<B>, DeviceError>,
) -> Result<DTypeTable, DeviceError> {
    // The runtime panics where it cannot open a device.
    let failed = |reason| DeviceError::Failed { device: name.to_string(), reason };
    catch_unwind(AssertUnwindSafe(|| probe_all(name, fresh)))
        .unwrap_or_else(|panic| Err(failed(panic_message(&*panic))))
}

fn probe_all<B: Backend>(
    name: &str,
    mut fresh: impl FnMut() -> Result<Scratch<B>, DeviceError>,
) -> Result<DTypeTable, DeviceError> {
    let mut scratch = fresh()?;
    // A stream may be shared with other threads. The failures of their work are no findings about a dtype.
    B::sync(&scratch.device).map_err(|e| DeviceError::Failed {
        device: name.to_string(),
        reason: format!("work that came before the probes failed: {}", first_line(&e.to_string())),
    })?;
    let stores = [BoolStore::U8, BoolStore::U32, BoolStore::Native];
    let bools =
        stores.into_iter().filter(|&store| B::supports_dtype(&scratch.device, store.into())).collect();
    let mut rows = Vec::new();
    for dtype in DTYPES {
        let row = probe_dtype(&scratch, dtype);
        let offered = offers::<B>(&scratch.device, dtype);
        if !row.is_full() && offered {
            scratch = fresh()?;
        }
        rows.push(row);
    }
    Ok(DTypeTable::new(rows, bools))
}

/// The first line of a panic's message. Public only for the crates that open devices.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.map_or_else(|| "it panicked".to_string(), |text| format!("it panicked: {}", first_line(text)))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether the runtime says that its kernels can compute with a dtype.
fn offers<B: Backend>(device: &Device<B>, dtype: DType) -> bool {
    B::dtype_usage(device, dtype).is_superset(DTypeUsage::Storage | DTypeUsage::Arithmetic)
}

fn probe_dtype<B: Backend>(scratch: &Scratch<B>, dtype: DType) -> Support {
    let device = &scratch.device;
    let attempt = |what: &str, run: &dyn Fn() -> Outcome| {
        let caught = |run: &dyn Fn() -> Outcome| {
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panic_message(&*panic)))
        };
        let outcome = caught(run);
        // The output of a kernel that never ran is whatever the memory held: the device's error says more.
        let said = caught(&|| B::sync(device).map_err(|e| e.to_string())).err();
        match said.or_else(|| (scratch.complaints)()) {
            Some(said) => Err(format!("{what}: {}", first_line(&said))),
            None => outcome.map_err(|reason| format!("{what}: {reason}")),
        }
    };
    let transfer = attempt("transfer", &|| transfer::<B>(device, dtype));
    if !offers::<B>(device, dtype) {
        let no = Err("the runtime has no kernels for it".to_string());
        return Support { dtype, transfer, arithmetic: no.clone(), maths: no };
    }
    let arithmetic =
        transfer.clone().and_then(|()| attempt("arithmetic", &|| arithmetic::<B>(device, dtype)));
    let maths = match dtype.is_float() {
        true => arithmetic.clone().and_then(|()| maths::<B>(scratch, dtype, &attempt)),
        false => arithmetic.clone(),
    };
    Support { dtype, transfer, arithmetic, maths }
}

type Outcome = Result<(), String>;

/// Sends bytes and checks that they come back unchanged, for numbers of elements that do not fill a word.
fn transfer<B: Backend>(device: &Device<B>, dtype: DType) -> Outcome {
    for n in [1, 3, 33] {
        let sent = sample(dtype, n);
        let got = match dtype {
            DType::Bool(_) => wait(B::bool_into_data(B::bool_from_data(TensorData::clone(&sent), device)))?,
            _ if dtype.is_float() => wait(B::float_into_data(B::float_from_data(sent.clone(), device)))?,
            _ => wait(B::int_into_data(B::int_from_data(sent.clone(), device)))?,
        };
        if got.bytes[..] != sent.bytes[..] {
            return Err(format!("{n} elements came back as others"));
        }
    }
    Ok(())
}

/// Elements whose bytes are all different, as far as the dtype allows.
fn sample(dtype: DType, n: usize) -> TensorData {
    match dtype {
        DType::Bool(_) => booleans(dtype, &(0..n).map(|i| i % 3 == 0).collect::<Vec<_>>(), [n]),
        _ => {
            let bytes = (0..n * dtype.size()).map(|i| i as u8).collect();
            TensorData::from_bytes_vec(bytes, [n], dtype)
        }
    }
}

const ROWS: usize = 3;
const COLUMNS: usize = 11;

/// Checks `a * b - a` of transposed operands, and sums of rows, with integers that every dtype represents.
fn arithmetic<B: Backend>(device: &Device<B>, dtype: DType) -> Outcome {
    if matches!(dtype, DType::Bool(_)) {
        return logic::<B>(device, dtype);
    }
    let (a, b) = operands(dtype);
    let n = ROWS * COLUMNS;
    let [a_data, b_data] = [(0..n).map(&a).collect::<Vec<_>>(), (0..n).map(&b).collect()]
        .map(|values| numbers(dtype, &values, [ROWS, COLUMNS]));
    let (computed, sums) = match dtype.is_float() {
        true => {
            let a = B::float_from_data(a_data, device);
            let sums = B::float_sum_dim(a.clone(), 1);
            let (a, b) = (B::float_swap_dims(a, 0, 1), B::float_from_data(b_data, device));
            let product = B::float_mul(a.clone(), B::float_swap_dims(b, 0, 1));
            (wait(B::float_into_data(B::float_sub(product, a)))?, wait(B::float_into_data(sums))?)
        }
        false => {
            let a = B::int_from_data(a_data, device);
            let sums = B::int_sum_dim(a.clone(), 1);
            let (a, b) = (B::int_swap_dims(a, 0, 1), B::int_from_data(b_data, device));
            let product = B::int_mul(a.clone(), B::int_swap_dims(b, 0, 1));
            (wait(B::int_into_data(B::int_sub(product, a)))?, wait(B::int_into_data(sums))?)
        }
    };
    let transposed = (0..n).map(|k| k % ROWS * COLUMNS + k / ROWS);
    let want: Vec<f64> = transposed.map(|i| a(i) * b(i) - a(i)).collect();
    compare("a * b - a", &decode(&computed)?, &want, 0.0)?;
    let want: Vec<f64> = (0..ROWS).map(|r| (0..COLUMNS).map(|c| a(r * COLUMNS + c)).sum()).collect();
    compare("a sum", &decode(&sums)?, &want, 0.0)
}

/// The operands of the arithmetic of a dtype, element by element.
fn operands(dtype: DType) -> (impl Fn(usize) -> f64, impl Fn(usize) -> f64) {
    // For 64 bits, products exceed 32 bits, and f32 would round the operands.
    let unit = if dtype.size() == 8 { ((1u64 << 33) + 1) as f64 } else { 1.0 };
    // Each dtype has operands of its own: a kernel that never ran may leave the results of another dtype,
    // which were in its memory before.
    let shift = DTYPES.iter().position(|&d| d == dtype).unwrap_or_default();
    (move |i| unit * ((i + shift) % 7 + 1) as f64, move |i| ((i + shift) % 5 + 2) as f64)
}

fn logic<B: Backend>(device: &Device<B>, dtype: DType) -> Outcome {
    let a: Vec<bool> = (0..33).map(|i| i % 2 == 0).collect();
    let b: Vec<bool> = (0..33).map(|i| i % 3 == 0).collect();
    let send = |values: &[bool]| B::bool_from_data(booleans(dtype, values, [33]), device);
    let computed = wait(B::bool_into_data(B::bool_and(send(&a), B::bool_not(send(&b)))))?;
    let want: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| f64::from(u8::from(a && !b))).collect();
    compare("a and not b", &decode(&computed)?, &want, 0.0)
}

/// A function of the backend: its name, the function, and a reference on the CPU.
type Function<B> = (
    &'static str,
    fn(burn_backend::tensor::FloatTensor<B>) -> burn_backend::tensor::FloatTensor<B>,
    fn(f64) -> f64,
);

fn maths<B: Backend>(
    scratch: &Scratch<B>,
    dtype: DType,
    attempt: &dyn Fn(&str, &dyn Fn() -> Outcome) -> Outcome,
) -> Outcome {
    let functions: [Function<B>; 5] = [
        ("exp", B::float_exp, f64::exp),
        ("log", B::float_log, f64::ln),
        ("tanh", B::float_tanh, f64::tanh),
        ("sqrt", B::float_sqrt, f64::sqrt),
        ("sin", B::float_sin, f64::sin),
    ];
    // Eighths are exact in every float dtype; none of the functions is near a zero at any of them.
    let inputs: Vec<f64> = (0..13).map(|i| 0.125 + 0.125 * f64::from(i)).filter(|&x| x != 1.0).collect();
    for (name, device_function, host_function) in functions {
        attempt(name, &|| {
            let sent = B::float_from_data(numbers(dtype, &inputs, [inputs.len()]), &scratch.device);
            let computed = decode(&wait(B::float_into_data(device_function(sent)))?)?;
            let want: Vec<f64> = inputs.iter().map(|&x| host_function(x)).collect();
            compare(name, &computed, &want, tolerance(dtype))
        })?;
    }
    Ok(())
}

/// The largest relative error of a function. In f32 and f64, 32 epsilons: WGSL lets a logarithm be off by
/// 2^-21 near one, which is 30 epsilons of f32 at 7/8. In halves 8 epsilons, which are 0.8 % of an f16 and
/// 6 % of a bf16.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 32.0 * f64::EPSILON,
        DType::F16 => 8.0 * f64::from(f16::EPSILON),
        DType::BF16 => 8.0 * f64::from(bf16::EPSILON),
        _ => 32.0 * f64::from(f32::EPSILON),
    }
}

fn compare(what: &str, got: &[f64], want: &[f64], relative: f64) -> Outcome {
    if got.len() != want.len() {
        return Err(format!("{what} has {} elements, not {}", got.len(), want.len()));
    }
    for (got, want) in got.iter().zip(want) {
        // Written so that NaN is an error.
        let close = (got - want).abs() <= relative * want.abs();
        if !close {
            return Err(format!("{what} is {got:e}, not {want:e}"));
        }
    }
    Ok(())
}

fn numbers<S: Into<Shape>>(dtype: DType, values: &[f64], shape: S) -> TensorData {
    TensorData::new(values.to_vec(), shape).convert_dtype(dtype)
}

fn booleans<S: Into<Shape>>(dtype: DType, values: &[bool], shape: S) -> TensorData {
    let width = if dtype == DType::Bool(BoolStore::U32) { 4 } else { 1 };
    let bytes =
        values.iter().flat_map(|&v| u32::from(v).to_ne_bytes().into_iter().take(width).collect::<Vec<_>>());
    TensorData::from_bytes_vec(bytes.collect(), shape, dtype)
}

fn decode(data: &TensorData) -> Result<Vec<f64>, String> {
    match data.dtype {
        DType::Bool(BoolStore::U32) => {
            Ok(data.bytes.chunks(4).map(|word| f64::from(u8::from(word.iter().any(|&b| b != 0)))).collect())
        }
        DType::Bool(_) => Ok(data.bytes.iter().map(|&b| f64::from(u8::from(b != 0))).collect()),
        _ => data.clone().convert_dtype(DType::F64).to_vec().map_err(|e| format!("{e:?}")),
    }
}

fn wait(read: impl Future<Output = Result<TensorData, ExecutionError>> + Send) -> Result<TensorData, String> {
    burn_backend::read_sync(read).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_are_off_by_a_tenth_fail_in_every_dtype() {
        for dtype in DTYPES.into_iter().filter(DType::is_float) {
            assert!(compare("exp", &[1.1], &[1.0], tolerance(dtype)).is_err(), "{dtype:?}");
            assert_eq!(compare("exp", &[1.0], &[1.0], tolerance(dtype)), Ok(()), "{dtype:?}");
        }
        assert!(compare("exp", &[1.01], &[1.0], tolerance(DType::F16)).is_err());
        assert!(compare("exp", &[f64::NAN], &[1.0], tolerance(DType::BF16)).is_err());
    }

    #[test]
    fn arithmetic_in_fewer_bits_gives_other_results() {
        let (a, b) = operands(DType::F64);
        for i in 0..ROWS * COLUMNS {
            assert_ne!(f64::from(a(i) as f32), a(i), "f32 rounds the operand");
            assert_ne!(f64::from(a(i) as f32 * b(i) as f32 - a(i) as f32), a(i) * b(i) - a(i));
            let exact = (a(i) as u64) * (b(i) as u64) - a(i) as u64;
            assert_eq!(exact as f64, a(i) * b(i) - a(i), "f64 and 64-bit integers hold the result");
        }
    }

    #[test]
    fn results_of_one_dtype_are_not_those_of_another_in_the_same_bytes() {
        let bytes = |dtype| {
            let (a, b) = operands(dtype);
            let n = ROWS * COLUMNS;
            let products: Vec<f64> = (0..n).map(|i| a(i) * b(i) - a(i)).collect();
            let sums: Vec<f64> = (0..ROWS).map(|r| (0..COLUMNS).map(|c| a(r * COLUMNS + c)).sum()).collect();
            [numbers(dtype, &products, [n]), numbers(dtype, &sums, [ROWS])].map(|data| data.bytes.to_vec())
        };
        let computed: Vec<DType> = DTYPES.into_iter().filter(|d| !matches!(d, DType::Bool(_))).collect();
        for (at, &dtype) in computed.iter().enumerate() {
            let [product, sums] = bytes(dtype);
            for &other in &computed[..at] {
                let [other_product, other_sums] = bytes(other);
                assert!(product != other_product && sums != other_sums, "{dtype:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_panic_is_reported_with_its_message() {
        let said = |run: fn()| panic_message(&*catch_unwind(run).unwrap_err());
        assert_eq!(said(|| panic!("no memory\nat all")), "it panicked: no memory");
        assert_eq!(said(|| panic!("{} left", 5)), "it panicked: 5 left");
        assert_eq!(said(|| std::panic::panic_any(5)), "it panicked");
    }
}
