//! Losses with kernels of their own.

mod ctc;
#[cfg(test)]
mod tests;

pub use ctc::{ctc_loss, ctc_loss_backward};
