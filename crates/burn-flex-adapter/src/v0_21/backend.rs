//! The backend and its device.

use super::{FlexQTensor, FlexTensor, convert};
use crate::stream;
use alloc::string::String;
use burn_backend_21::ops::TransactionOps;
use burn_backend_21::{
    Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, Device, DeviceId, DeviceOps, Element,
    ExecutionError, bf16, f16,
};
use core::fmt;
use core::marker::PhantomData;
use flex_core::quant;

/// The CPU backend. `F` and `I` are the element types of tensors created without naming a dtype.
///
/// In types, both parameters have defaults (`type B = Flex;`). In expressions Rust infers them instead, so a
/// call needs an alias, as in `B::seed(&device, 42)`, or angle brackets: `<Flex>::seed(&device, 42)`.
///
/// Burn keeps the default dtypes per device for the life of the process. If a program uses several
/// `Flex<_, _>`, the first to use the device (or a call of `set_default_dtypes`) decides for all of them. The
/// types that scalars are read as (`into_scalar`) are always `F` and `I`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flex<F = f32, I = i32> {
    elements: PhantomData<(F, I)>,
}

/// Default float element types of [`Flex`].
pub trait FlexFloat: Element {}
impl FlexFloat for f64 {}
impl FlexFloat for f32 {}
impl FlexFloat for f16 {}
impl FlexFloat for bf16 {}

/// Default integer element types of [`Flex`].
pub trait FlexInt: Element {}
impl FlexInt for i64 {}
impl FlexInt for i32 {}
impl FlexInt for i16 {}
impl FlexInt for i8 {}
impl FlexInt for u64 {}
impl FlexInt for u32 {}
impl FlexInt for u16 {}
impl FlexInt for u8 {}

/// The one device of [`Flex`]: the machine's processor.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FlexDevice;

impl fmt::Debug for FlexDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cpu")
    }
}

impl fmt::Display for FlexDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cpu")
    }
}

impl Device for FlexDevice {
    fn from_id(_: DeviceId) -> Self {
        Self
    }

    fn to_id(&self) -> DeviceId {
        DeviceId::new(0, 0)
    }
}

impl DeviceOps for FlexDevice {}

impl<F: FlexFloat, I: FlexInt> BackendTypes for Flex<F, I> {
    type Device = FlexDevice;

    type FloatTensorPrimitive = FlexTensor;
    type FloatElem = F;

    type IntTensorPrimitive = FlexTensor;
    type IntElem = I;

    type BoolTensorPrimitive = FlexTensor;
    type BoolElem = bool;

    type QuantizedTensorPrimitive = FlexQTensor;
}

impl<F: FlexFloat, I: FlexInt> Backend for Flex<F, I> {
    fn name(_: &FlexDevice) -> String {
        "flex".into()
    }

    fn seed(_: &FlexDevice, seed: u64) {
        stream::seed(seed);
    }

    fn memory_cleanup(_: &FlexDevice) {
        crate::memory::cleanup();
    }

    fn sync(_: &FlexDevice) -> Result<(), ExecutionError> {
        crate::deferred::evaluate_all().map_err(convert::execution_error)
    }

    fn device_count(_: u16) -> usize {
        1
    }

    fn dtype_usage(_: &FlexDevice, dtype: DType) -> DTypeUsageSet {
        match dtype {
            // Quantized arithmetic works too: on the codes where they suffice, otherwise on dequantized
            // floats.
            DType::QFloat(scheme)
                if convert::scheme("dtype_usage", &scheme)
                    .is_ok_and(|scheme| quant::is_supported(&scheme)) =>
            {
                DTypeUsage::general()
            }
            _ if convert::dtype::stored(dtype).is_some() => DTypeUsage::general(),
            _ => DTypeUsageSet::empty(),
        }
    }
}

impl<F: FlexFloat, I: FlexInt> TransactionOps<Self> for Flex<F, I> {}
