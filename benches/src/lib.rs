//! One harness and one set of cases, generic over the backend, so that every peer runs the very same calls.
//!
//! Peers are timed in turn (A B C A B C ...) within one process: what disturbs the machine disturbs them alike, and the
//! ratios between their medians survive.
#![deny(missing_docs)]

mod cases;
mod report;
mod timing;

pub use cases::{Case, cases};
pub use report::{Row, print_table, worst_and_mean};
pub use timing::{Budget, time_in_turn};
