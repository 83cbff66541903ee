//! What `burn-flex-wgpu` and `burn-flex-cuda` share: reports on devices, errors that say what is missing, and tables of
//! the dtypes that a device computes right.
#![deny(missing_docs)]

mod cache;
mod device;
mod error;
mod probe;
mod table;

pub use cache::Cache;
pub use device::{DeviceInfo, DeviceKind, KernelLimits, MemoryLimits};
pub use error::DeviceError;
pub use probe::{Scratch, probe};
pub use table::{DTYPES, DTypeTable, Support};
