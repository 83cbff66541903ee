//! The peers. A peer is asked for a case by the case's name, and returns the case or `None`.

mod burn;
#[cfg(feature = "upstream-22")]
mod burn_22;
#[cfg(feature = "candle")]
mod candle;
#[cfg(any(
    feature = "candle",
    feature = "numr",
    feature = "upstream-22",
    feature = "wgpu",
    feature = "cuda"
))]
#[cfg_attr(
    not(any(feature = "candle", feature = "numr", feature = "upstream-22")),
    allow(dead_code, reason = "GPUs ask for dtypes alone")
)]
mod name;
#[cfg(feature = "numr")]
mod numr;
mod python;

pub use burn::{cpu_backend, cpu_backends, flex, gpu_backends, wait};
pub use python::{Library, Python};

#[cfg(any(feature = "candle", feature = "numr", feature = "upstream-22"))]
use crate::call::Call;
#[cfg(any(feature = "candle", feature = "numr"))]
use crate::call::Numbers;
use crate::timing::Run;
#[cfg(any(feature = "candle", feature = "numr", feature = "upstream-22"))]
use name::Name;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// A library or backend that is timed.
pub trait Peer {
    /// The name at the head of the peer's columns.
    fn name(&self) -> &str;

    /// Sets up the case of this name and runs it once; `None` if the peer does not have the case or cannot
    /// run it.
    fn case(&self, name: &str) -> Option<Box<dyn Run>>;

    /// The numbers that the case of this name computes; `None` if the peer cannot run the case, or its result
    /// cannot be read.
    fn numbers(&self, _name: &str) -> Option<Vec<f64>> {
        None
    }

    /// What there is to say about how the peer runs the case that was set up last.
    fn note(&self) -> Option<String> {
        None
    }
}

/// The peers in this process that find their calls by the cases' names, if this program was built with them.
pub fn libraries() -> Vec<Box<dyn Peer>> {
    vec![
        #[cfg(feature = "upstream-22")]
        Box::new(Table { name: "upstream-22", call: burn_22::call_of }),
        #[cfg(feature = "candle")]
        Box::new(Table { name: "candle", call: candle::call_of }),
        #[cfg(feature = "numr")]
        Box::new(Table { name: "numr", call: numr::call_of }),
    ]
}

/// Whether a case is being set up. Of the whole process, since threads of the peer may panic.
static ATTEMPTING: AtomicBool = AtomicBool::new(false);

/// Whether a panic only shows that a peer cannot run a case.
pub(crate) fn is_attempting() -> bool {
    ATTEMPTING.load(Ordering::Relaxed)
}

/// Runs `prepare` and returns its result; `None` if it panics, which is how a peer shows that it cannot run a
/// case.
fn attempt<R>(prepare: impl FnOnce() -> Option<R>) -> Option<R> {
    ATTEMPTING.store(true, Ordering::Relaxed);
    let found = catch_unwind(AssertUnwindSafe(prepare)).ok().flatten();
    ATTEMPTING.store(false, Ordering::Relaxed);
    found
}

/// A library's calls, looked up by the names of the cases.
#[cfg(any(feature = "candle", feature = "numr", feature = "upstream-22"))]
struct Table {
    name: &'static str,
    call: fn(&Name) -> Option<Call>,
}

#[cfg(any(feature = "candle", feature = "numr", feature = "upstream-22"))]
impl Peer for Table {
    fn name(&self) -> &str {
        self.name
    }

    fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        attempt(|| ((self.call)(&Name::parse(name))?.numbers)())
    }

    fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        attempt(|| {
            let mut run = (self.call)(&Name::parse(name))?.run;
            run();
            Some(Box::new(run) as Box<dyn Run>)
        })
    }
}

/// Wraps a function that can fail; its first run, during the setup of the case, shows whether it does.
#[cfg(any(feature = "candle", feature = "numr"))]
fn call<I: 'static, R: Numbers + 'static, E: std::fmt::Debug>(
    inputs: I,
    f: impl Fn(&I) -> Result<R, E> + 'static,
) -> Option<Call> {
    Some(Call::new(inputs, move |inputs| f(inputs).expect("the peer can run the case"), || ()))
}
