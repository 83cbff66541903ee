//! Real models on real data, written once for every Burn backend.
//!
//! Each example keeps its model, its data and its training loop here, generic over the backend. The programs
//! under `examples/` only choose a backend and talk to the user, and the benches time exactly the same loops.
#![deny(missing_docs)]

pub mod digits;
pub mod models;
pub mod pictures;
#[cfg(feature = "embed")]
pub mod sentences;
pub mod weights;
