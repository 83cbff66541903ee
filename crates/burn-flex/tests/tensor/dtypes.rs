//! Every dtype through the basic operations, and checks of what `dtype_usage` promises.

use crate::common::panic_message;
use burn_backend::DTypeUsage;
use burn_flex::{Flex, FlexDevice, FlexQTensor};
use burn_tensor::backend::{Backend, BackendTypes};
use burn_tensor::quantization::{QuantScheme, QuantStore};
use burn_tensor::{
    BoolStore, DType, Element, ElementConversion, FloatDType, Int, IntDType, Tensor, TensorData, bf16, f16,
};

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];
const INTS: [DType; 8] =
    [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];

fn floats(values: &[f32], dtype: DType) -> Tensor<Flex, 1> {
    let data = TensorData::new(values.to_vec(), [values.len()]).convert_dtype(dtype);
    Tensor::from_data(data, (&FlexDevice, dtype))
}

fn ints(values: &[i32], dtype: DType) -> Tensor<Flex, 1, Int> {
    let data = TensorData::new(values.to_vec(), [values.len()]).convert_dtype(dtype);
    Tensor::from_data(data, (&FlexDevice, dtype))
}

fn read(data: TensorData) -> Vec<f64> {
    data.iter::<f64>().collect()
}

#[test]
fn every_float_dtype_computes_and_keeps_its_dtype() {
    for dtype in FLOATS {
        let x = floats(&[1.0, 4.0, -2.0, 0.5], dtype);
        assert_eq!(x.dtype(), dtype);
        let outputs = [
            (x.clone() + x.clone(), vec![2.0, 8.0, -4.0, 1.0]),
            (x.clone() * 2.0, vec![2.0, 8.0, -4.0, 1.0]),
            (x.clone().abs().sqrt().square(), vec![1.0, 4.0, 2.0, 0.5]),
            (x.clone().sum(), vec![3.5]),
            (x.clone().max(), vec![4.0]),
            (x.clone().cumsum(0), vec![1.0, 5.0, 3.0, 3.5]),
            (x.clone().sort(0), vec![-2.0, 0.5, 1.0, 4.0]),
            (x.clone().clamp(-1.0, 1.0), vec![1.0, 1.0, -1.0, 0.5]),
            (x.clone().select(0, ints(&[2, 0], DType::I32)), vec![-2.0, 1.0]),
            (
                x.clone().reshape([2, 2]).matmul(x.clone().reshape([2, 2])).reshape([4]),
                vec![-7.0, 6.0, -3.0, -7.75],
            ),
            (x.clone().mask_fill(x.clone().lower_elem(0.0), 9.0), vec![1.0, 4.0, 9.0, 0.5]),
        ];
        for (k, (out, expected)) in outputs.into_iter().enumerate() {
            assert_eq!(out.dtype(), dtype, "operation {k}");
            for (a, b) in read(out.into_data()).iter().zip(&expected) {
                assert!((a - b).abs() <= 0.01 * b.abs(), "{dtype:?}, operation {k}: {a}, expected {b}");
            }
        }
        for other in FLOATS {
            assert_eq!(read(x.clone().cast(other).into_data()), [1.0, 4.0, -2.0, 0.5]);
        }
    }
}

#[test]
fn every_integer_dtype_computes_and_keeps_its_dtype() {
    for dtype in INTS {
        let x = ints(&[1, 4, 2, 7], dtype);
        assert_eq!(x.dtype(), dtype);
        let outputs = [
            (x.clone() + x.clone(), vec![2.0, 8.0, 4.0, 14.0]),
            (x.clone() * 3, vec![3.0, 12.0, 6.0, 21.0]),
            (x.clone().sum(), vec![14.0]),
            (x.clone().mean(), vec![3.0]),
            (x.clone().mean_dim(0), vec![3.0]),
            (x.clone().max(), vec![7.0]),
            (x.clone().argmax(0), vec![3.0]),
            (x.clone().sort_descending(0), vec![7.0, 4.0, 2.0, 1.0]),
            (x.clone().gather(0, x.clone().remainder_scalar(4)), vec![4.0, 1.0, 2.0, 7.0]),
            (x.clone().powi_scalar(2), vec![1.0, 16.0, 4.0, 49.0]),
            (
                x.clone().reshape([2, 2]).matmul(x.clone().reshape([2, 2])).reshape([4]),
                vec![9.0, 32.0, 16.0, 57.0],
            ),
        ];
        for (k, (out, expected)) in outputs.into_iter().enumerate() {
            assert_eq!(out.dtype(), dtype, "operation {k}");
            assert_eq!(read(out.into_data()), expected, "{dtype:?}, operation {k}");
        }
        for other in INTS {
            assert_eq!(read(x.clone().cast(other).into_data()), [1.0, 4.0, 2.0, 7.0]);
        }
        for other in FLOATS {
            let out = x.clone().float().cast(other);
            assert_eq!(read(out.into_data()), [1.0, 4.0, 2.0, 7.0]);
        }
    }
}

#[test]
fn requested_index_and_bool_dtypes_are_honoured() {
    use burn_tensor::ops::{BoolTensorOps, FloatTensorOps};
    use burn_tensor::{BoolDType, TensorMetadata};
    let x = || floats(&[1.0, 4.0, -2.0, 0.5], DType::F32).into_primitive().tensor();
    for dtype in INTS {
        let int = IntDType::from(dtype);
        assert_eq!(<Flex>::float_argmax(x(), 0, int).dtype(), dtype);
        assert_eq!(<Flex>::float_argmin(x(), 0, int).dtype(), dtype);
        assert_eq!(<Flex>::float_argsort(x(), 0, false, int).dtype(), dtype);
        assert_eq!(<Flex>::float_argtopk(x(), 0, 2, int).dtype(), dtype);
        assert_eq!(<Flex>::float_max_dim_with_indices(x(), 0, int).1.dtype(), dtype);
        assert_eq!(<Flex>::float_sort_with_indices(x(), 0, true, int).1.dtype(), dtype);
        assert_eq!(<Flex>::float_into_int(x(), int).dtype(), dtype);
    }
    for store in [BoolDType::Native, BoolDType::U8] {
        let bool = || <Flex>::float_greater_elem(x(), 0.0.into(), store);
        assert_eq!(bool().dtype(), DType::Bool(store));
        assert_eq!(<Flex>::bool_not(bool()).dtype(), DType::Bool(store));
        assert_eq!(<Flex>::bool_any(bool()).dtype(), DType::Bool(store));
        assert_eq!(<Flex>::bool_equal(bool(), bool()).dtype(), DType::Bool(store));
        assert_eq!(<Flex>::float_any(x(), store).dtype(), DType::Bool(store));
        assert_eq!(<Flex>::float_is_nan(x(), store).dtype(), DType::Bool(store));
        assert_eq!(<Flex>::bool_zeros([3].into(), &FlexDevice, store).dtype(), DType::Bool(store));
        let data = TensorData::from([true, false]).convert_dtype(DType::Bool(store));
        assert_eq!(<Flex>::bool_from_data(data, &FlexDevice).dtype(), DType::Bool(store));
    }
    let message = panic_message(|| drop(<Flex>::float_greater_elem(x(), 0.0.into(), BoolDType::U32)));
    assert!(message.contains("bool(u32)"), "{message}");
}

#[test]
fn usage_says_what_works() {
    for dtype in FLOATS.into_iter().chain(INTS).chain([BoolStore::Native, BoolStore::U8].map(DType::Bool)) {
        assert_eq!(Flex::<f32, i32>::dtype_usage(&FlexDevice, dtype), DTypeUsage::general(), "{dtype:?}");
        assert!(<Flex>::supports_dtype(&FlexDevice, dtype));
    }
    for dtype in [DType::Flex32, DType::Bool(BoolStore::U32)] {
        assert!(<Flex>::dtype_usage(&FlexDevice, dtype).is_empty(), "{dtype:?}");
    }
    let scheme = QuantScheme::default();
    let native = scheme.with_store(QuantStore::Native);
    assert_eq!(<Flex>::dtype_usage(&FlexDevice, DType::QFloat(native)), DTypeUsage::general());
    let packed = scheme.with_store(QuantStore::PackedU32(1));
    assert!(<Flex>::dtype_usage(&FlexDevice, DType::QFloat(packed)).is_empty());
    let message = panic_message(|| drop(floats(&[1.0], DType::F32).cast(FloatDType::Flex32)));
    assert!(message.contains("flex32"), "{message}");
}

#[test]
fn data_of_wider_bools_and_flex32_is_read() {
    use burn_tensor::TensorMetadata;
    use burn_tensor::ops::{BoolTensorOps, FloatTensorOps};
    let wide = TensorData::from([true, false]).convert_dtype(DType::Bool(BoolStore::U32));
    assert_eq!(<Flex>::bool_from_data(wide, &FlexDevice).dtype(), DType::Bool(BoolStore::Native));
    let words = |bytes: Vec<u8>| TensorData::from_bytes_vec(bytes, [2], DType::Bool(BoolStore::U32));
    let read = <Flex>::bool_from_data(words(vec![0, 0, 1, 0, 0, 0, 0, 0]), &FlexDevice);
    assert_eq!(read.into_core().to_vec::<u8>(), [1, 0]);
    // As many bytes as the shape needs, and no others.
    for len in [0, 4, 7, 9, 12] {
        let message = panic_message(|| drop(<Flex>::bool_from_data(words(vec![0; len]), &FlexDevice)));
        assert!(message.contains("from_data: number of bytes is"), "{len}: {message}");
    }
    let mut flex32 = TensorData::from([1.5f32, 2.5]);
    flex32.dtype = DType::Flex32;
    let tensor = <Flex>::float_from_data(flex32, &FlexDevice);
    assert_eq!((tensor.dtype(), tensor.into_core().to_vec::<f32>()), (DType::F32, vec![1.5, 2.5]));
}

/// Has to compile: any pair of element types is a backend, with and without autodiff.
#[test]
fn default_element_types_are_selectable() {
    fn check<B>(float: DType, int: DType)
    where
        B: Backend + BackendTypes<Device = FlexDevice, QuantizedTensorPrimitive = FlexQTensor>,
    {
        assert_eq!((B::FloatElem::dtype(), B::IntElem::dtype()), (float, int));
        // Scalars have the backend's element type, whatever the tensor's dtype.
        let x = Tensor::<B, 1>::from_data([1.5, 2.0], &FlexDevice).sum().into_scalar();
        assert_eq!(x.elem::<f32>(), 3.5);
    }
    check::<Flex>(DType::F32, DType::I32);
    check::<Flex<f64, i64>>(DType::F64, DType::I64);
    check::<Flex<f16, i8>>(DType::F16, DType::I8);
    check::<Flex<bf16, u8>>(DType::BF16, DType::U8);
    fn autodiff<B: burn_tensor::backend::AutodiffBackend>() {}
    autodiff::<burn_autodiff::Autodiff<Flex>>();
    autodiff::<burn_autodiff::Autodiff<Flex<f64, i64>>>();
}

#[test]
fn handles_of_the_ir_round_trip() {
    use burn_ir::{BackendIr, TensorHandle};
    use burn_tensor::Shape;
    let x = floats(&[1.0, 2.0], DType::F32).into_primitive().tensor();
    let handle = <Flex as BackendIr>::float_tensor_handle(x.clone());
    let tensor_handle = TensorHandle { handle, shape: Shape::new([2]) };
    assert!(<Flex as BackendIr>::float_tensor(tensor_handle.clone()).shares_storage(&x));
    let message = panic_message(|| drop(<Flex as BackendIr>::bool_tensor(tensor_handle)));
    assert!(message.starts_with("bool_tensor: "), "{message}");
}
