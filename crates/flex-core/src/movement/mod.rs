//! Data movement.

pub(crate) mod materialise;
