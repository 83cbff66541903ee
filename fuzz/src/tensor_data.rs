//! Burn's `TensorData` into tensors and back.

use crate::data::{contents, count, shape};
use crate::numbers::read;
use crate::quantized;
use arbitrary::{Result, Unstructured};
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps, QTensorOps};
use burn_backend::quantization as burn;
use burn_backend::{AllocationProperty, BoolStore, Bytes, DType, TensorData};
use burn_flex::{FlexDevice, FlexTensor};
use flex_core::quant;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

type Flex = burn_flex::Flex;

/// Makes a tensor of data. Either it gives the same data back, or the engine panics with a message that
/// begins with the name of the operation.
pub fn tensor_data(bytes: &[u8]) {
    listen();
    // An input that is too short to decode is no case.
    let _ = run(&mut Unstructured::new(bytes));
}

thread_local! {
    /// Whether a panic on this thread is expected.
    static EXPECTED: RefCell<bool> = const { RefCell::new(false) };
}

/// Keeps expected panics silent. libFuzzer's hook would end the process.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !EXPECTED.with(|expected| *expected.borrow()) {
                hook(info);
            }
        }));
    });
}

/// The result, or the message of the panic.
fn caught<T>(run: impl FnOnce() -> T) -> core::result::Result<T, String> {
    EXPECTED.with(|expected| *expected.borrow_mut() = true);
    let result = catch_unwind(AssertUnwindSafe(run));
    EXPECTED.with(|expected| *expected.borrow_mut() = false);
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_string(),
    })
}

/// The engine's messages begin with the name of an operation.
fn is_the_engines(message: &str) -> bool {
    let operations = [
        "from_data: ",
        "float_from_data: ",
        "int_from_data: ",
        "bool_from_data: ",
        "q_from_data: ",
        "quantized from_data: ",
    ];
    operations.iter().any(|operation| message.starts_with(operation))
}

fn dtype(u: &mut Unstructured<'_>) -> Result<DType> {
    Ok(match u.int_in_range(0..=17u8)? {
        0 => DType::F64,
        1 => DType::F32,
        2 => DType::Flex32,
        3 => DType::F16,
        4 => DType::BF16,
        5 => DType::I64,
        6 => DType::I32,
        7 => DType::I16,
        8 => DType::I8,
        9 => DType::U64,
        10 => DType::U32,
        11 => DType::U16,
        12 => DType::U8,
        13 => DType::Bool(BoolStore::Native),
        14 => DType::Bool(BoolStore::U8),
        15 => DType::Bool(BoolStore::U32),
        _ => DType::QFloat(to_burn(quantized::scheme(u)?)),
    })
}

fn to_burn(scheme: quant::QuantScheme) -> burn::QuantScheme {
    use burn::QuantValue as To;
    use quant::QuantValue as From;
    burn::QuantScheme {
        value: match scheme.value {
            From::Q8F => To::Q8F,
            From::E5M2 => To::E5M2,
            From::E4M3 => To::E4M3,
            From::Q4F => To::Q4F,
            From::E2M1 => To::E2M1,
            From::Q2F => To::Q2F,
            From::Q8S => To::Q8S,
            From::Q4S => To::Q4S,
            From::Q2S => To::Q2S,
        },
        param: match scheme.param {
            quant::QuantParam::F32 => burn::QuantParam::F32,
            quant::QuantParam::F16 => burn::QuantParam::F16,
            quant::QuantParam::BF16 => burn::QuantParam::BF16,
            quant::QuantParam::UE8M0 => burn::QuantParam::UE8M0,
            quant::QuantParam::UE4M3 => burn::QuantParam::UE4M3,
        },
        store: match scheme.store {
            quant::QuantStore::Native => burn::QuantStore::Native,
            quant::QuantStore::PackedNative(axis) => burn::QuantStore::PackedNative(axis),
            quant::QuantStore::PackedU32(axis) => burn::QuantStore::PackedU32(axis),
        },
        level: match scheme.level {
            quant::QuantLevel::Tensor => burn::QuantLevel::Tensor,
            quant::QuantLevel::Block(sizes) => burn::QuantLevel::block(sizes.as_slice()),
        },
        mode: burn::QuantMode::Symmetric,
    }
}

/// The bytes in one of the kinds of memory that Burn passes.
fn memory(u: &mut Unstructured<'_>, bytes: &[u8]) -> Result<Bytes> {
    let start = u.int_in_range(0..=8)?;
    Ok(match u.int_in_range(0..=3u8)? {
        0 => Bytes::from_bytes_vec(bytes.to_vec()),
        // Aligned for words.
        1 => {
            let mut words = Bytes::from_elems(vec![0u64; bytes.len() / 8]);
            words.extend_from_byte_slice(&bytes[bytes.len() / 8 * 8..]);
            words.copy_from_slice(bytes);
            words
        }
        // Shared memory that begins at any address.
        kind => {
            let whole = [&vec![0xAA; start][..], bytes].concat();
            let label = if kind == 2 { AllocationProperty::Other } else { AllocationProperty::Native };
            Bytes::from_shared(bytes::Bytes::from(whole).slice(start..), label)
        }
    })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let (shape, dtype) = (shape(u)?, dtype(u)?);
    let size = match dtype {
        DType::QFloat(_) => 1,
        _ => dtype.size(),
    };
    let mut needed = count(&shape).and_then(|count| count.checked_mul(size));
    if let DType::QFloat(_) = dtype {
        // One scale for the whole tensor.
        needed = needed.and_then(|needed| needed.checked_add(4));
    }
    let bytes = contents(u, needed)?;
    let fits = count(&shape).is_some_and(|count| count as u128 * size as u128 == bytes.len() as u128);
    let data =
        || -> Result<TensorData> { Ok(TensorData::from_bytes(memory(u, &bytes)?, shape.clone(), dtype)) };
    let mut data = data;
    // The method that fits the dtype, and one that may not.
    let fitting = match dtype {
        DType::QFloat(_) => 3,
        DType::Bool(_) => 2,
        dtype if dtype.is_int() || dtype.is_uint() => 1,
        _ => 0,
    };
    let first = data()?;
    let wrong = data()?;
    let other = u.int_in_range(0..=3)?;
    for (kind, data) in [(fitting, first), (other, wrong)] {
        if kind == 3 {
            match caught(|| Flex::q_from_data(data, &FlexDevice)) {
                Ok(tensor) => {
                    let back = caught(|| block_on(Flex::q_into_data(tensor)))
                        .unwrap_or_else(|message| panic!("q_into_data: {message}"));
                    let back = back.expect("memory");
                    assert_eq!(back.shape.as_slice(), shape);
                    assert_eq!(back.dtype, dtype);
                }
                Err(message) => assert!(is_the_engines(&message), "{message}"),
            }
            continue;
        }
        let result = caught(|| match kind {
            0 => Flex::float_from_data(data, &FlexDevice),
            1 => Flex::int_from_data(data, &FlexDevice),
            _ => Flex::bool_from_data(data, &FlexDevice),
        });
        match result {
            Ok(tensor) => {
                assert!(kind == fitting, "{dtype:?} was accepted as another kind");
                assert!(fits, "{} bytes made a tensor of shape {shape:?} and {dtype:?}", bytes.len());
                check(tensor, kind, &shape, dtype, &bytes);
            }
            Err(message) => {
                assert!(is_the_engines(&message), "{message}");
                assert!(!fits || kind != fitting, "{message}");
            }
        }
    }
    Ok(())
}

/// Data comes back as it went in, before and after an operation that may write in place.
fn check(tensor: FlexTensor, kind: usize, shape: &[usize], dtype: DType, bytes: &[u8]) {
    let changed = match kind {
        0 => Flex::float_neg(tensor.clone()),
        1 => Flex::int_neg(tensor.clone()),
        _ => Flex::bool_not(tensor.clone()),
    };
    read(changed.as_core());
    let back = match kind {
        0 => block_on(Flex::float_into_data(tensor)),
        1 => block_on(Flex::int_into_data(tensor)),
        _ => block_on(Flex::bool_into_data(tensor)),
    };
    let back = back.expect("memory");
    assert_eq!(back.shape.as_slice(), shape);
    let want: Vec<u8> = match dtype {
        DType::Bool(BoolStore::U32) => {
            bytes.chunks(4).map(|word| u8::from(word.iter().any(|&b| b != 0))).collect()
        }
        DType::Bool(_) => bytes.iter().map(|&b| u8::from(b != 0)).collect(),
        _ => bytes.to_vec(),
    };
    assert_eq!(*back.bytes, *want, "other bytes came back");
}

/// The result of a future of `Flex`, none of which waits.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => unreachable!("nothing to wait for"),
    }
}
