//! Burn on GPUs through [wgpu](https://wgpu.rs): Vulkan or Metal.
//!
//! [`Wgpu`] runs each operation as it comes; [`WgpuFused`] collects operations and compiles chains of them
//! into one kernel. Both are in every build, and both train inside of `Autodiff`.
//!
//! ```no_run
//! use burn_flex_wgpu::{Wgpu, WgpuDevice, checked, devices, supported};
//!
//! for info in devices()? {
//!     println!("{info}\n{}", supported(&info.device)?);
//! }
//! let device = checked::<Wgpu>(WgpuDevice::default())?; // from here on, `Wgpu` tensors can be made on it
//! # Ok::<(), burn_flex_wgpu::DeviceError>(())
//! ```
//!
//! # Failures that no call reports
//!
//! Kernels run long after the call that asked for them, on another thread, so most failures are not reported
//! to any caller: the output is whatever its memory held, which is zeros only if the memory is fresh.
//! [`Wgpu`] is an alias of Burn's own backend, so this crate cannot put checks inside of its calls. These
//! checks come before a model runs, and cost nothing while it runs:
//!
//! * [`checked`] to make the device. Without a usable device, Burn's first call would panic on a thread of
//!   the runtime. [`checked`] also refuses a type whose default dtypes the adapter computes wrong, as most
//!   adapters do for `Wgpu<f64>`. ([`check`] is the first half of it.)
//! * [`DTypeTable::require`] of [`supported`] for the dtypes that the model casts to: adapters claim dtypes
//!   that they compute wrong, and dtypes without kernels yield whatever was in memory.
//! * [`info`] for large tensors: the [`check`](MemoryLimits::check) of its `memory` refuses a tensor too
//!   large for any kernel.
//!
//! No check catches a cast to a dtype that was not asked about, an intermediate result that outgrows the
//! limit, or an operation whose kernel's results differ from Burn's documentation (`tests/conformance.rs`
//! lists the known operations, among them reductions that drop NaN and convolutions with a stride above the
//! kernel's extent).
//!
//! `Backend::sync` reports the kernels that could not be compiled and the tensors that were too large, since
//! its last call. It reports them on the thread that computed: each thread has a stream, which it shares with
//! other threads where there are more than 128. Trust results that a thread read only if its next call of
//! `sync` returns `Ok`. That is not enough for a dtype without kernels: the compilation to WGSL panics on the
//! runtime's thread, and neither a read nor `sync` reports it.
//!
//! A panic that is caught leaves arguments behind: cubecl collects the arguments of a launch in a
//! thread-local buffer, and the arguments of the rejected launch stay there. The next kernel started from
//! that thread computes with them, without an error. After such a panic, run one operation whose result you
//! discard, or do not use that thread again.
//!
//! # Features
//!
//! * `spirv`: where the device speaks Vulkan, kernels are compiled to SPIR-V instead of WGSL.
//! * `autotune`: matrix products, convolutions and reductions time several kernels at their first use with a
//!   shape, and keep the fastest. The warm-up is worth its time on a GPU, and not on a software adapter.
#![deny(missing_docs)]

mod adapter;
mod devices;
mod scratch;

pub use burn_flex_gpu::{DTypeTable, DeviceError, DeviceKind, KernelLimits, MemoryLimits, Support};
pub use cubecl::wgpu::{WgpuDevice, WgpuRuntime};
pub use devices::{check, checked, devices, info};
pub use scratch::supported;

use burn_cubecl::CubeBackend;

/// A device description with the value that selects the device.
pub type DeviceInfo = burn_flex_gpu::DeviceInfo<WgpuDevice>;

/// Runs each operation as a separate kernel. `F` and `I` are the default elements; `BT` is the element that
/// stores a boolean.
pub type Wgpu<F = f32, I = i32, BT = u32> = CubeBackend<WgpuRuntime, F, I, BT>;

/// Runs chains of operations as one kernel.
pub type WgpuFused<F = f32, I = i32, BT = u32> = burn_fusion::Fusion<Wgpu<F, I, BT>>;
