//! Reasons why a program cannot use its GPU.

use burn_backend::DType;
use thiserror::Error;

/// Why a device cannot be used. The message says what is missing and what to do about it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceError {
    /// A required library cannot be loaded.
    #[error("{api}: the library {library} is missing. {remedy}")]
    Library {
        /// The interface to the GPU.
        api: &'static str,
        /// The file that was looked for.
        library: &'static str,
        /// What to install.
        remedy: &'static str,
    },
    /// The library is installed, but finds no driver, or the driver does not start.
    #[error("{api}: the driver does not start: {reason}. {remedy}")]
    Driver {
        /// The interface to the GPU.
        api: &'static str,
        /// What the library said.
        reason: String,
        /// What to install or start.
        remedy: &'static str,
    },
    /// The driver runs, but reports no device.
    #[error("{api}: no device was found. {remedy}")]
    NoDevice {
        /// The interface to the GPU.
        api: &'static str,
        /// What to check.
        remedy: &'static str,
    },
    /// There are devices, but not the requested one.
    #[error("{api}: there is no device {device}; there is {}", .present.join(", "))]
    Absent {
        /// The interface to the GPU.
        api: &'static str,
        /// The requested device.
        device: String,
        /// The devices that exist.
        present: Vec<String>,
    },
    /// The device exists, but fails to do what was asked.
    #[error("{device}: {reason}")]
    Failed {
        /// The device.
        device: String,
        /// The device's message.
        reason: String,
    },
    /// The device computes a dtype wrong, or has no kernels for it.
    #[error("{dtype:?} cannot be used on this device: {problem}")]
    DType {
        /// The dtype.
        dtype: DType,
        /// What a probe found.
        problem: String,
    },
    /// A tensor is too large to be bound to a kernel.
    #[error(
        "a tensor that takes {bytes} bytes is larger than the {limit} bytes that a kernel on this device can be given"
    )]
    TooLarge {
        /// Size of the tensor, in bytes, with its padding.
        bytes: u64,
        /// Size of the largest one, in bytes.
        limit: u64,
    },
}
