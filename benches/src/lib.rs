//! One harness and one set of cases, generic over the backend, so that every peer runs the very same calls.
//!
//! Peers are timed in turn (A B C A B C ...) within one process: what disturbs the machine disturbs them alike, and the
//! ratios between their medians survive.
#![deny(missing_docs)]

mod cases;
mod chart;
mod limits;
mod python;
mod report;
mod timing;

pub use cases::{Case, Family, cases};
pub use chart::svg;
pub use limits::{Limits, Stream};
pub use python::Python;
pub use report::{Report, Row, Summary};
pub use timing::{Budget, Run, time_in_turn};
