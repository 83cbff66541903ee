//! Malformed calls: each must panic with a message that names the operation, and must damage nothing else.
//!
//! ```ignore
//! burn_tests::testgen_bad_input!(burn_flex::Flex);
//! ```
//!
//! A call runs twice: once with clones of its operands held elsewhere, which must keep their bytes, and once
//! as the only owner of the operands, so that a memory checker can catch a backend that writes in place.
//! After each call, tensors of every kind that were made before all calls must be intact, and the backend
//! must still compute.

mod conv;
mod create;
mod deform;
mod elementwise;
mod fixture;
mod index;
mod linear;
mod movement;
mod pool;
mod quant;
mod reduce;
mod signal;
mod view;

pub use fixture::Fixture;
use fixture::Witnesses;

use crate::capability::Capabilities;
use crate::row::panic_text;
use burn_backend::{Backend, DType};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A call that a backend has to refuse.
pub struct BadCall<B: Backend> {
    /// The name that the message has to contain.
    pub operation: &'static str,
    /// Trait method.
    pub method: String,
    /// What is wrong with the arguments.
    pub fault: &'static str,
    /// A dtype that makes the call legal on backends that list it among their capabilities.
    pub legal_with: Option<DType>,
    run: Box<dyn Fn(&Fixture<B>)>,
}

impl<B: Backend> BadCall<B> {
    /// A call that no backend may accept.
    pub fn new(
        operation: &'static str,
        method: impl Into<String>,
        fault: &'static str,
        run: impl Fn(&Fixture<B>) + 'static,
    ) -> Self {
        Self { operation, method: method.into(), fault, legal_with: None, run: Box::new(run) }
    }
}

/// Adds calls to a list: `operation, fault: method(arguments);`, where the arguments may use the fixture
/// `$t`.
macro_rules! calls {
    ($list:ident, $t:ident, $($operation:literal, $fault:literal: $method:ident($($arg:expr),* $(,)?);)*) => {$(
        $list.push($crate::bad_input::BadCall::new(
            $operation,
            stringify!($method),
            $fault,
            |$t: &$crate::bad_input::Fixture<B>| {
                // Not every call needs an operand.
                let _ = $t;
                drop(B::$method($($arg),*));
            },
        ));
    )*};
}
use calls;

/// All calls, by family.
pub fn table<B: Backend>() -> Vec<(&'static str, Vec<BadCall<B>>)> {
    vec![
        ("create", create::calls()),
        ("view", view::calls()),
        ("movement", movement::calls()),
        ("index", index::calls()),
        ("elementwise", elementwise::calls()),
        ("reduce", reduce::calls()),
        ("linear", linear::calls()),
        ("conv", conv::calls()),
        ("deform", deform::calls()),
        ("pool", pool::calls()),
        ("signal", signal::calls()),
        ("quant", quant::calls()),
    ]
}

/// Least number of calls in the table.
pub const AT_LEAST: usize = 250;

/// Runs the calls of one family.
///
/// # Panics
/// Panics with a report if the backend accepts a call, does not name the operation, or is not intact
/// afterwards.
pub fn run_family<B: Backend>(capabilities: &Capabilities, family: &str) {
    let calls = table::<B>().into_iter().find(|(name, _)| *name == family).expect("a family of the table").1;
    assert!(!calls.is_empty(), "{family}: no calls");
    let witnesses = Witnesses::<B>::new();
    let mut report = Vec::new();
    for call in calls {
        if let Some(limit) = capabilities.limit(&call.method, DType::F32) {
            println!("{}: limited: {limit}", call.method);
            continue;
        }
        if call.legal_with.is_some_and(|dtype| handles(capabilities, dtype)) {
            continue;
        }
        for shared in [true, false] {
            let outcome = refuse(&call, shared).and_then(|()| witnesses.verify());
            if let Err(reason) = outcome {
                let owner = if shared { "shared" } else { "unique" };
                report.push(format!("{} of {} ({owner}): {reason}", call.method, call.fault));
            }
        }
    }
    assert!(report.is_empty(), "\n{}\n{} complaints\n", report.join("\n"), report.len());
}

fn handles(capabilities: &Capabilities, dtype: DType) -> bool {
    let Capabilities { floats, ints, bools, .. } = capabilities;
    floats.iter().any(|&d| DType::from(d) == dtype)
        || ints.iter().any(|&d| DType::from(d) == dtype)
        || bools.iter().any(|&d| DType::from(d) == dtype)
}

/// Makes the call and checks how the backend refused it.
fn refuse<B: Backend>(call: &BadCall<B>, shared: bool) -> Result<(), String> {
    let fixture = Fixture::<B>::new(shared);
    let outcome = refused(call.operation, || (call.run)(&fixture));
    fixture.verify()?;
    outcome
}

/// `Ok` if a call panics with a message that names the operation.
///
/// # Errors
/// Fails if the call returns, or panics with another message.
pub fn refused(operation: &str, call: impl FnOnce()) -> Result<(), String> {
    let payload = match quietly(|| catch_unwind(AssertUnwindSafe(call))) {
        Ok(()) => return Err("was accepted".into()),
        Err(payload) => payload,
    };
    let message = panic_text(&*payload);
    if names(&message, operation) { Ok(()) } else { Err(format!("does not name `{operation}`: {message}")) }
}

/// Whether a message names an operation: the name must start a word or a part of a word (`float_add: ...`),
/// so that `padding` does not count as `add`.
fn names(message: &str, operation: &str) -> bool {
    message
        .match_indices(operation)
        .any(|(at, _)| message[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric()))
}

/// Runs `f` without the output of the panic hook on this thread, since these tests panic hundreds of times.
fn quietly<R>(f: impl FnOnce() -> R) -> R {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = f();
    QUIET.set(false);
    result
}

/// Generates the tests of malformed calls for a backend, one per family, in the module where the macro is
/// called.
#[macro_export]
macro_rules! testgen_bad_input {
    ($backend:ty) => {
        $crate::testgen_bad_input!($backend, $crate::Capabilities::full());
    };
    ($backend:ty, $capabilities:expr) => {
        $crate::testgen_bad_input!(@each $backend, $capabilities;
            create, view, movement, index, elementwise, reduce, linear, conv, deform, pool, signal, quant);

        #[test]
        fn the_table_is_complete() {
            let tested = [
                "create", "view", "movement", "index", "elementwise", "reduce", "linear", "conv", "deform",
                "pool", "signal", "quant",
            ];
            let table = $crate::bad_input::table::<$backend>();
            assert_eq!(table.iter().map(|(name, _)| *name).collect::<Vec<_>>(), tested);
            let count: usize = table.iter().map(|(_, calls)| calls.len()).sum();
            println!("{count} malformed calls");
            assert!(count >= $crate::bad_input::AT_LEAST, "{count} malformed calls");
        }
    };
    (@each $backend:ty, $capabilities:expr; $($family:ident),*) => {$(
        #[test]
        fn $family() {
            $crate::bad_input::run_family::<$backend>(&$capabilities, stringify!($family));
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_starts_a_word() {
        assert!(names("panicked: add: shapes differ", "add"));
        assert!(names("panicked: float_add: shapes differ", "add"));
        assert!(!names("panicked: conv: padding", "add"));
        assert!(!names("panicked: index out of bounds: the len is 3", "select"));
    }
}
