//! One harness and one set of cases, generic over the backend, so that every peer runs exactly the same
//! calls.
//!
//! Peers are timed in turn (A B C A B C ...): a disturbance of the machine affects all of them alike, and the
//! ratios between their medians stay valid. Each number of threads has a process of its own; PyTorch, NumPy
//! and ONNX Runtime run in Python processes beside it.
#![deny(missing_docs)]

pub mod args;
mod call;
mod cases;
mod chart;
pub mod check;
pub mod files;
mod limits;
pub mod markdown;
pub mod memory;
pub mod models;
pub mod peers;
mod report;
pub mod section;
mod select;
mod timing;
pub mod turn;

pub use call::{Call, Numbers};
pub use cases::{Case, Conv, Family, Part, Pass, cases, part_cases};
pub use chart::svg;
pub use limits::{Limits, Stream};
pub use report::{Report, Row, Section, Summary};
pub use select::select;
pub use timing::{Budget, Queued, Reported, Run, time_in_turn};
