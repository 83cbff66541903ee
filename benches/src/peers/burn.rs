//! Peers that are Burn backends: the cases are generic over them.

use super::{Peer, attempt};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use crate::cases::finished_cases;
use crate::cases::{Case, cases};
use crate::timing::{Queued, Run};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
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

fn peer(name: &'static str, cases: Vec<Case>, wait: Option<Wait>) -> Box<dyn Peer> {
    let cases = cases.into_iter().map(|case| (case.name.clone(), case)).collect();
    Box::new(Burn { name, cases, wait })
}

/// The backend that everybody is compared with.
pub fn flex() -> Box<dyn Peer> {
    peer("flex", cases::<burn_flex::Flex>(), None)
}

/// The other backends on the CPU, as far as this program was built with them.
pub fn cpu_backends() -> Vec<Box<dyn Peer>> {
    vec![
        #[cfg(feature = "upstream")]
        peer("upstream", cases::<upstream_flex::Flex>(), None),
        #[cfg(feature = "ndarray")]
        peer("ndarray", cases::<burn_ndarray::NdArray>(), None),
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
            all.push(fused::<burn_flex_wgpu::WgpuFused>("wgpu-fused"));
        }
        Err(error) => eprintln!("wgpu left out: {error}"),
    }
    #[cfg(feature = "cuda")]
    match burn_flex_cuda::check(&Default::default()) {
        Ok(()) => {
            all.push(queued::<burn_flex_cuda::Cuda>("cuda"));
            all.push(fused::<burn_flex_cuda::CudaFused>("cuda-fused"));
        }
        Err(error) => eprintln!("cuda left out: {error}"),
    }
    all
}

/// Kernels run after their calls return: a sample queues many and waits once.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn queued<B: Backend>(name: &'static str) -> Box<dyn Peer> {
    peer(name, cases::<B>(), Some(wait::<B>))
}

/// Operations are collected and run together later. Several calls would become one kernel, without what was dropped
/// meanwhile, so each call is waited for.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn fused<B: Backend>(name: &'static str) -> Box<dyn Peer> {
    peer(name, finished_cases::<B>(wait::<B>), None)
}

/// An error is a panic: the case was not computed.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn wait<B: Backend>() {
    let device = Default::default();
    B::sync(&device).unwrap_or_else(|e| panic!("{}: {e}", B::name(&device)));
}
