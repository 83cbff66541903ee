//! Shared by `burn-flex-wgpu` and `burn-flex-cuda`: reports on devices, errors that say what is missing, and
//! tables of the dtypes that a device computes correctly.
#![deny(missing_docs)]

mod cache;
mod device;
mod error;
mod probe;
mod table;

pub use device::{DeviceInfo, DeviceKind, KernelLimits, MemoryLimits};
pub use error::DeviceError;
pub use table::{DTYPES, DTypeTable, Support};

// For `burn-flex-wgpu` and `burn-flex-cuda` only. Their users see none of these items, which may change with
// any version.
#[doc(hidden)]
pub use cache::Cache;
#[doc(hidden)]
pub use probe::{Scratch, panic_message, probe};
