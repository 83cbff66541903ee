//! Burn on NVIDIA GPUs through CUDA.
//!
//! [`Cuda`] runs each operation as it comes; [`CudaFused`] collects operations and compiles chains of them
//! into one kernel. Both are in every build, and both train inside of `Autodiff`.
//!
//! The crate is built and linked without CUDA. At run time it loads the driver, NVRTC (which compiles the
//! kernels), and the headers that kernels include.
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
//! # Failures that no call reports
//!
//! Kernels run long after the call that asked for them, on another thread, so most failures are not reported
//! to any caller: the output is whatever its memory held. [`Cuda`] is an alias of Burn's own backend, so this
//! crate cannot put checks inside of its calls. Three checks come before a model runs, and cost nothing while
//! it runs: [`checked`] to make the device, [`DTypeTable::require`] of [`supported`] for the dtypes that the
//! model casts to, and the [`check`](MemoryLimits::check) of [`info`]'s `memory` for large tensors. No check
//! catches a cast to a dtype that was not asked about, an intermediate result that outgrows the limit, or an
//! operation whose kernel's results differ from Burn's documentation (`tests/conformance.rs`).
//!
//! `Backend::sync` reports the failures since its last call, on the thread that computed: each thread has a
//! stream, which it shares with other threads where there are more than 128. Trust results that a thread read
//! only if its next call of `sync` returns `Ok`.
//!
//! A panic that is caught leaves arguments behind: cubecl collects the arguments of a launch in a
//! thread-local buffer, and the arguments of the rejected launch stay there. The next kernel started from
//! that thread computes with them, without an error, or accesses memory beyond its buffers, after which every
//! call of the process fails. After such a panic, run one operation whose result you discard, or do not use
//! that thread again.
//!
//! # Known limits
//!
//! The crate ran on two kinds of GPU, NVIDIA's H200 and H100 (`docs/gpu.md` of the repository tells what was
//! tested, and how fast it was). cubecl 0.10 has no kernels for f64 on CUDA. Products of f32 are as accurate
//! as TF32, which has 11 significant bits. Do not make tensors without axes, which crash when they are read,
//! or without elements, whose errors are reported at a later read.
//!
//! # Features
//!
//! * `autotune`: matrix products, convolutions and reductions time several kernels at their first use with a
//!   shape, and keep the fastest.
#![deny(missing_docs)]

mod devices;
mod driver;

pub use burn_flex_gpu::{DTypeTable, DeviceError, DeviceKind, KernelLimits, MemoryLimits, Support};
pub use cubecl::cuda::{CudaDevice, CudaRuntime};
pub use devices::{check, checked, devices, info, supported};

use burn_cubecl::CubeBackend;

/// A device description with the value that selects the device.
pub type DeviceInfo = burn_flex_gpu::DeviceInfo<CudaDevice>;

/// Runs each operation as a separate kernel. `F` and `I` are the default elements; `BT` is the element that
/// stores a boolean.
pub type Cuda<F = f32, I = i32, BT = u8> = CubeBackend<CudaRuntime, F, I, BT>;

/// Runs chains of operations as one kernel.
pub type CudaFused<F = f32, I = i32, BT = u8> = burn_fusion::Fusion<Cuda<F, I, BT>>;
