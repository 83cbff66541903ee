//! Real models on real data, written once for every Burn backend.
//!
//! Each example keeps its model, its data and its training loop here, generic over the backend, so that the
//! programs under `examples/` only choose a backend and talk to the user, and the benches time the very same
//! loops.
#![deny(missing_docs)]

pub mod digits;
