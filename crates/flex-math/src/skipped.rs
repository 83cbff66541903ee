//! Reports the tests that are skipped on a machine that lacks something. Other crates include this file in
//! their tests.

extern crate std;

use std::io::Write;

/// Says in one line that the running test is skipped, or a part of it, and why.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    // Written directly to stderr, because the test harness hides the output of passing tests. If stderr is
    // closed, nothing can be done.
    let _ = writeln!(std::io::stderr(), "{} skipped: {reason}", thread.name().unwrap_or("a test"));
}
