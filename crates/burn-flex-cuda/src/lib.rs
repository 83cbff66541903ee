//! Burn on NVIDIA GPUs through CUDA.
//!
//! [`Cuda`] runs each operation as it comes; [`CudaFused`] collects operations and compiles chains of them into one kernel.
//! Both are in every build, and both train inside of `Autodiff`.
//!
//! The crate needs nothing of CUDA to be built and linked: what it needs to run, it loads when it runs. That is the driver,
//! NVRTC (which compiles the kernels), and the headers that the kernels include.
//!
//! ```no_run
//! use burn_flex_cuda::{Cuda, CudaDevice, checked, devices, supported};
//!
//! for info in devices()? {
//!     println!("{info}\n{}", supported(&info.device)?);
//! }
//! let device = checked::<Cuda>(CudaDevice::default())?; // from here on, `Cuda` tensors can be made on it
//! # Ok::<(), burn_flex_cuda::DeviceError>(())
//! ```
//!
//! # What goes wrong without a word
//!
//! Kernels run long after the call that asked for them, on another thread, so most failures reach nobody. [`Cuda`] is an
//! alias of Burn's own backend, so no guard can sit in a call of it. Three come before, and cost nothing while a model runs:
//! [`checked`] to make the device, [`DTypeTable::require`] of [`supported`] for the dtypes that the model casts to, and the
//! [`check`](MemoryLimits::check) of [`info`]'s `memory` for large tensors. What nothing refuses: a cast to a dtype that was not
//! asked about, an intermediate result that outgrows the limit, and what Burn's kernels compute otherwise than its documents
//! say (`tests/conformance.rs`). `Backend::sync` reports what failed since the last call; results that were read
//! before it are to be trusted only when it returns `Ok`.
//!
//! After a panic in a call that was caught, the next kernel of that thread computes with leftovers of the refused one (cubecl
//! collects the arguments of a launch in a thread-local buffer): make one throwaway operation, or leave the thread.
//!
//! **This crate was never run on a GPU.** It is built, linked, and tested up to the missing driver.
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
pub use devices::{check, checked, devices, info, supported};

use burn_cubecl::CubeBackend;

/// A device, and what it is selected by.
pub type DeviceInfo = burn_flex_gpu::DeviceInfo<CudaDevice>;

/// Each operation as a kernel of its own. `F` and `I` are the default elements, `BT` is what stores a boolean.
pub type Cuda<F = f32, I = i32, BT = u8> = CubeBackend<CudaRuntime, F, I, BT>;

/// Chains of operations as one kernel.
pub type CudaFused<F = f32, I = i32, BT = u8> = burn_fusion::Fusion<Cuda<F, I, BT>>;
