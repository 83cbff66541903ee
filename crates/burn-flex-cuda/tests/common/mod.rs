//! What the tests of this folder share.

use burn_flex_cuda::{CudaDevice, check};
use std::io::Write;
use std::sync::OnceLock;

/// Whether there is a GPU. Says so once where there is none.
pub fn present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| match check(&CudaDevice::default()) {
        Ok(()) => true,
        Err(error) => {
            // Past the harness, which keeps what passing tests print.
            let _ = writeln!(std::io::stderr(), "cuda tests skipped: {error}");
            false
        }
    })
}
