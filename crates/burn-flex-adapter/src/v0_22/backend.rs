//! The backend and its device.

use super::{FlexQTensor, FlexTensor, convert};
use crate::stream;
use alloc::string::String;
use burn_backend_22::distributed::DistributedOps;
use burn_backend_22::ops::TransactionOps;
use burn_backend_22::quantization::{QuantScheme, QuantStore};
use burn_backend_22::{
    Backend, BackendTypes, BoolStore, DType, DTypeUsage, DTypeUsageSet, Device, DeviceId, DeviceOps,
    DeviceSettings, ExecutionError, GraphUnsupported,
};
use burn_std_22::quantization::QuantConfig;
use core::fmt;
use flex_core::quant;

/// The CPU backend.
///
/// It computes in every float and integer dtype. A tensor that is made without naming a dtype has the default
/// dtype of the device: `f32` or `i32`, unless the program sets another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flex;

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

impl DeviceOps for FlexDevice {
    fn defaults(&self) -> DeviceSettings {
        let scheme = QuantScheme::default().with_store(QuantStore::Native);
        let quantization = QuantConfig::new(scheme, Default::default());
        DeviceSettings::new(DType::F32, DType::I32, DType::Bool(BoolStore::Native), quantization)
    }
}

impl BackendTypes for Flex {
    type Device = FlexDevice;

    type FloatTensorPrimitive = FlexTensor;
    type IntTensorPrimitive = FlexTensor;
    type BoolTensorPrimitive = FlexTensor;
    type QuantizedTensorPrimitive = FlexQTensor;

    type GraphPrimitive = GraphUnsupported;
}

impl Backend for Flex {
    /// The name of upstream's backend, since programs compare it.
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

    /// There is no queue. A result that waits is computed by its reader, or by `sync`.
    fn flush(_: &FlexDevice) -> Result<(), ExecutionError> {
        Ok(())
    }

    fn device_count(_: u16) -> usize {
        1
    }

    fn dtype_usage(_: &FlexDevice, dtype: DType) -> DTypeUsageSet {
        match dtype {
            // Quantized arithmetic works too: on the codes where they suffice, otherwise on dequantized
            // floats.
            DType::QFloat(scheme)
                if convert::scheme("dtype_usage", &scheme).is_ok_and(|scheme| {
                    scheme == convert::stored(scheme) && quant::is_supported(&scheme)
                }) =>
            {
                DTypeUsage::general()
            }
            _ if convert::dtype::stored(dtype).is_some() => DTypeUsage::general(),
            _ => DTypeUsageSet::empty(),
        }
    }
}

impl TransactionOps<Self> for Flex {}

/// There is one device, so nothing is distributed, and the trait's defaults serve.
impl DistributedOps<Self> for Flex {}
