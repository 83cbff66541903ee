//! Peers that are Burn backends: the cases are generic over them.

#[cfg(any(feature = "wgpu", feature = "cuda"))]
use super::name::Name;
use super::{Peer, attempt};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use crate::cases::cases;
use crate::cases::{Case, finished_cases};
use crate::timing::{Queued, Run};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use burn_tensor::DType;
use burn_tensor::backend::Backend;
use std::collections::HashMap;

/// Waits until a device is idle.
type Wait = fn();
/// Whether a peer computes the case of this name correctly.
type Vouched = Box<dyn Fn(&str) -> bool>;

struct Burn {
    name: &'static str,
    cases: HashMap<String, Case>,
    /// For backends whose calls return before the work is done.
    wait: Option<Wait>,
    vouched: Vouched,
}

impl Burn {
    fn known(&self, name: &str) -> Option<&Case> {
        self.cases.get(name).filter(|_| (self.vouched)(name))
    }
}

impl Peer for Burn {
    fn name(&self) -> &str {
        self.name
    }

    fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        let case = self.known(name)?;
        attempt(|| ((case.setup)().numbers)())
    }

    fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        let case = self.known(name)?;
        attempt(|| {
            let mut call = (case.setup)().run;
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

fn peer(name: &'static str, cases: Vec<Case>, wait: Option<Wait>, vouched: Vouched) -> Box<dyn Peer> {
    let cases = cases.into_iter().map(|case| (case.name.clone(), case)).collect();
    Box::new(Burn { name, cases, wait, vouched })
}

/// A backend on the CPU with these cases, whose calls return after the work is done.
pub fn cpu_backend(name: &'static str, cases: Vec<Case>) -> Box<dyn Peer> {
    peer(name, cases, None, Box::new(|_| true))
}

/// The backend that all peers are compared with. Its operations may wait until their results are read, so
/// every call ends when its results are computed.
pub fn flex() -> Box<dyn Peer> {
    cpu_backend("flex", finished_cases::<burn_flex::Flex>(wait::<burn_flex::Flex>))
}

/// The other CPU backends that this program was built with.
pub fn cpu_backends() -> Vec<Box<dyn Peer>> {
    vec![
        #[cfg(feature = "upstream")]
        cpu_backend("upstream", finished_cases::<upstream_flex::Flex>(wait::<upstream_flex::Flex>)),
        #[cfg(feature = "ndarray")]
        cpu_backend("ndarray", finished_cases::<burn_ndarray::NdArray>(wait::<burn_ndarray::NdArray>)),
    ]
}

/// The GPU backends that this program was built with and whose device is present. If a backend is left out,
/// prints the reason.
///
/// Each backend gets the cases whose dtypes its device computed correctly in a trial. Many wrong kernels
/// report no error; such a kernel often did nothing, which is fast.
pub fn gpu_backends() -> Vec<Box<dyn Peer>> {
    #[allow(unused_mut, reason = "without features there is none")]
    let mut all = Vec::new();
    #[cfg(feature = "wgpu")]
    match burn_flex_wgpu::supported(&Default::default()) {
        Ok(table) => {
            let right = move |dtype| table.supports(dtype);
            all.push(queued::<burn_flex_wgpu::Wgpu>("wgpu", right.clone()));
            all.push(fused::<burn_flex_wgpu::WgpuFused>("wgpu-fused", right));
        }
        Err(error) => eprintln!("wgpu left out: {error}"),
    }
    #[cfg(feature = "cuda")]
    match burn_flex_cuda::supported(&Default::default()) {
        Ok(table) => {
            let right = move |dtype| table.supports(dtype);
            all.push(queued::<burn_flex_cuda::Cuda>("cuda", right.clone()));
            all.push(fused::<burn_flex_cuda::CudaFused>("cuda-fused", right));
        }
        Err(error) => eprintln!("cuda left out: {error}"),
    }
    all
}

/// A backend whose kernels run after their calls return: a sample queues many calls and waits once.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn queued<B: Backend>(name: &'static str, right: impl Fn(DType) -> bool + 'static) -> Box<dyn Peer> {
    peer(name, cases::<B>(), Some(wait::<B>), vouched_by(right))
}

/// A backend that collects operations and runs them together later. Several calls would become one kernel
/// without the results that were dropped meanwhile. So every call waits until the device is idle.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn fused<B: Backend>(name: &'static str, right: impl Fn(DType) -> bool + 'static) -> Box<dyn Peer> {
    peer(name, finished_cases::<B>(wait::<B>), None, vouched_by(right))
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn vouched_by(right: impl Fn(DType) -> bool + 'static) -> Vouched {
    Box::new(move |name| Name::parse(name).dtypes().all(&right))
}

/// Panics on an error, because then the case was not computed.
pub fn wait<B: Backend>() {
    let device = Default::default();
    B::sync(&device).unwrap_or_else(|e| panic!("{}: {e}", B::name(&device)));
}
