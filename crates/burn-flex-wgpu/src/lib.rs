//! Burn on GPUs through [wgpu](https://wgpu.rs): Vulkan, Metal or WebGPU.
//!
//! [`Wgpu`] runs each operation as it comes; [`WgpuFused`] collects operations and compiles chains of them into one kernel.
//! Both are in every build, and both train inside of `Autodiff`.
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
//! # What goes wrong without a word
//!
//! Kernels run long after the call that asked for them, on another thread, so most failures reach nobody: the output keeps
//! the zeros that it was made of. [`Wgpu`] is an alias of Burn's own backend, so no guard can sit in a call of it; these come
//! before, and cost nothing while a model runs:
//!
//! * [`checked`] to make the device. Without a usable one, Burn's first call would panic on a thread of the runtime; and it
//!   refuses a type whose default dtypes the adapter computes wrong, as `Wgpu<f64>` on most. ([`check`] is its first half.)
//! * [`DTypeTable::require`] of [`supported`] for the dtypes that the model casts to: adapters claim dtypes that they compute
//!   wrong, and those without kernels yield zeros.
//! * [`info`] for large tensors: the [`check`](MemoryLimits::check) of its `memory` refuses what no kernel could be given.
//!
//! What nothing refuses: a cast to a dtype that was not asked about, an intermediate result that outgrows the limit, and the
//! operations that Burn's kernels compute otherwise than its documents say (`tests/conformance.rs` lists those that are known,
//! among them reductions that drop NaN and convolutions with a stride above the kernel's extent).
//!
//! `Backend::sync` reports the kernels that could not be compiled since the last call; results that were read before it are
//! to be trusted only when it returns `Ok`.
//!
//! After a panic in a call that was caught, the next kernel of that thread computes with leftovers of the refused one (cubecl
//! collects the arguments of a launch in a thread-local buffer): make one throwaway operation, or leave the thread.
//!
//! # Features
//!
//! * `spirv`: where the device speaks Vulkan, kernels are compiled to SPIR-V instead of WGSL.
//! * `autotune`: matrix products, convolutions and reductions time several kernels at their first use with a shape, and keep
//!   the fastest. Worth its warm-up on a GPU, and not on a software adapter.
#![deny(missing_docs)]

mod adapter;
mod devices;
mod scratch;

pub use burn_flex_gpu::{DTypeTable, DeviceError, DeviceKind, KernelLimits, MemoryLimits, Support};
pub use cubecl::wgpu::{WgpuDevice, WgpuRuntime};
pub use devices::{check, checked, devices, info};
pub use scratch::supported;

use burn_cubecl::CubeBackend;

/// An adapter, and what it is selected by.
pub type DeviceInfo = burn_flex_gpu::DeviceInfo<WgpuDevice>;

/// Each operation as a kernel of its own. `F` and `I` are the default elements, `BT` is what stores a boolean.
pub type Wgpu<F = f32, I = i32, BT = u32> = CubeBackend<WgpuRuntime, F, I, BT>;

/// Chains of operations as one kernel.
pub type WgpuFused<F = f32, I = i32, BT = u32> = burn_fusion::Fusion<Wgpu<F, I, BT>>;
