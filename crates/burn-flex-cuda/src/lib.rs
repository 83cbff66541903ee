//! Burn on NVIDIA GPUs through CUDA.
//!
//! [`Cuda`] runs each operation as it comes; [`CudaFused`] collects operations and compiles chains of them into one kernel.
//! Both are in every build, and both train inside of `Autodiff`.
//!
//! The crate needs nothing of CUDA to be built and linked: what it needs to run, it loads when it runs. That is the driver,
//! NVRTC (which compiles the kernels), and the headers that the kernels include.
//!
//! ```no_run
//! use burn_flex_cuda::{Cuda, check, devices, supported};
//!
//! for info in devices()? {
//!     println!("{info}\n{}", supported(&info.device)?);
//! }
//! let device = Default::default();
//! check(&device)?; // from here on, `Cuda` tensors can be made on it
//! # Ok::<(), burn_flex_cuda::DeviceError>(())
//! ```
//!
//! # What goes wrong without a word
//!
//! Kernels run long after the call that asked for them, on another thread, so most failures reach nobody. Three guards cost
//! nothing while a model runs: [`check`] before the first tensor, [`supported`] for the dtypes that the model uses, and
//! [`DeviceInfo::memory`] for large tensors. `Backend::sync` reports what failed since the last call; results that were read
//! before it are to be trusted only when it returns `Ok`.
//!
//! # Features
//!
//! * `autotune`: matrix products, convolutions and reductions time several kernels at their first use with a shape, and keep
//!   the fastest.
#![deny(missing_docs)]

mod devices;
mod driver;

pub use burn_flex_gpu::{DTypeTable, DeviceError, DeviceKind, KernelLimits, MemoryLimits, Support};
pub use cubecl::cuda::{CudaDevice, CudaRuntime};
pub use devices::{check, devices, supported};

use burn_cubecl::CubeBackend;

/// A device, and what it is selected by.
pub type DeviceInfo = burn_flex_gpu::DeviceInfo<CudaDevice>;

/// Each operation as a kernel of its own. `F` and `I` are the default elements, `BT` is what stores a boolean.
pub type Cuda<F = f32, I = i32, BT = u8> = CubeBackend<CudaRuntime, F, I, BT>;

/// Chains of operations as one kernel.
pub type CudaFused<F = f32, I = i32, BT = u8> = burn_fusion::Fusion<Cuda<F, I, BT>>;
