//! Peers that are Burn backends: the cases are generic over them.

use super::{Peer, attempt};
use crate::cases::{Case, cases};
use crate::timing::{Queued, Run};
use burn_tensor::backend::Backend;
use std::collections::HashMap;

/// Waits until a device has nothing left to do.
type Wait = fn();

struct Burn {
    name: &'static str,
    cases: HashMap<String, Case>,
    /// For backends whose calls return before their work is done.
    wait: Option<Wait>,
}

impl Peer for Burn {
    fn name(&self) -> &str {
        self.name
    }

    fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        let case = self.cases.get(name)?;
        attempt(|| {
            let mut call = (case.setup)();
            call();
            Some(match self.wait {
                None => Box::new(call) as Box<dyn Run>,
                Some(wait) => {
                    wait();
                    Box::new(Queued { call, wait })
                }
            })
        })
    }
}

fn peer<B: Backend>(name: &'static str, wait: Option<Wait>) -> Box<dyn Peer> {
    let cases = cases::<B>().into_iter().map(|case| (case.name.clone(), case)).collect();
    Box::new(Burn { name, cases, wait })
}

/// The backend that everybody is compared with.
pub fn flex() -> Box<dyn Peer> {
    peer::<burn_flex::Flex>("flex", None)
}

/// The other backends on the CPU, as far as this program was built with them.
pub fn cpu_backends() -> Vec<Box<dyn Peer>> {
    vec![
        #[cfg(feature = "upstream")]
        peer::<upstream_flex::Flex>("upstream", None),
        #[cfg(feature = "ndarray")]
        peer::<burn_ndarray::NdArray>("ndarray", None),
    ]
}

/// The backends on GPUs that this program was built with and whose device is there. Says why one is not.
pub fn gpu_backends() -> Vec<Box<dyn Peer>> {
    #[allow(unused_mut, reason = "without features there is none")]
    let mut all = Vec::new();
    #[cfg(feature = "wgpu")]
    match burn_flex_wgpu::check(&Default::default()) {
        Ok(()) => {
            all.push(queued::<burn_flex_wgpu::Wgpu>("wgpu"));
            all.push(queued::<burn_flex_wgpu::WgpuFused>("wgpu-fused"));
        }
        Err(error) => eprintln!("wgpu left out: {error}"),
    }
    #[cfg(feature = "cuda")]
    match burn_flex_cuda::check(&Default::default()) {
        Ok(()) => {
            all.push(queued::<burn_flex_cuda::Cuda>("cuda"));
            all.push(queued::<burn_flex_cuda::CudaFused>("cuda-fused"));
        }
        Err(error) => eprintln!("cuda left out: {error}"),
    }
    all
}

/// A device's kernels run after their calls return. An error is a panic: the case was not computed.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn queued<B: Backend>(name: &'static str) -> Box<dyn Peer> {
    peer::<B>(
        name,
        Some(|| {
            B::sync(&Default::default())
                .unwrap_or_else(|e| panic!("{name}: {e}", name = B::name(&Default::default())))
        }),
    )
}
