//! Devices, and other things, that a machine may lack.

use std::fmt::Display;
use std::io::Write;

/// Whether the device of a test is present, or another thing that the test needs. If not, one line says which
/// test is skipped and why: the condition of [`testgen_all`](crate::testgen_all).
pub fn present<E: Display>(outcome: Result<(), E>) -> bool {
    let Err(reason) = outcome else { return true };
    let thread = std::thread::current();
    // Written directly to stderr, because the test harness hides the output of passing tests. If stderr is
    // closed, nothing can be done.
    let _ = writeln!(std::io::stderr(), "{}", notice(thread.name().unwrap_or("a test"), &reason));
    false
}

fn notice(test: &str, reason: &dyn Display) -> String {
    format!("{test} skipped: {reason}").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_one_line() {
        assert!(present(Ok::<_, &str>(())));
        assert!(!present(Err("no driver")));
        assert_eq!(notice("matmul", &"no driver,\nno device"), "matmul skipped: no driver, no device");
    }
}
