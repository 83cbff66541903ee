//! A conformance suite for backends of Burn 0.21 and, as the package in `burn-0.22/burn-tests`, of Burn 0.22.
//!
//! One line gives a backend all of its tests:
//!
//! ```ignore
//! burn_tests::testgen_all!(burn_flex::Flex);
//! burn_tests::testgen_all!(MyBackend, my_capabilities());
//! ```
//!
//! The second form describes what the backend is to be tested for: see [`Capabilities`].
//!
//! Each family of trait methods is one test. Its rows run the method for every dtype and every memory layout,
//! on tensors whose buffer is shared and on tensors that own theirs, and compare with `f64` (or `i128`)
//! arithmetic written from the definition.
#![deny(missing_docs)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

pub mod array;
pub mod bad_input;
pub mod capability;
pub mod compare;
pub mod coverage;
pub mod defects;
pub mod families;
pub mod gradients;
pub mod kind;
pub mod layout;
pub mod layouts;
pub mod operands;
pub mod presence;
pub mod properties;
mod release {
    #![allow(unused_imports, reason = "a release may need nothing of a kind")]
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/release.rs"));
}
pub mod row;
pub mod samples;
pub mod support;
pub mod trace;
pub mod transfer;

pub use capability::{Capabilities, Limit};
pub use presence::present;
pub use row::run_rows;

/// Passes the names of all families to another macro of this crate, after that macro's other arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! with_families {
    ($macro:ident; $($arguments:tt)*) => {
        $crate::$macro! { $($arguments)*;
            float_unary, float_binary, comparison, integer, boolean, reduction, movement, index, mask, sort, create,
            random, cast, backend, activation, matmul, conv, conv_transpose, deform_conv, pool, vision, norm,
            attention, ctc, fft, quantization, quantized, golden
        }
    };
}

/// Generates the tests of a backend, in the module where the macro is called. The third argument is a
/// condition, for backends whose device a machine may lack: if it is false, the tests pass at once. An
/// attribute in front of the arguments (`testgen_all!(#[ignore = "slow"] MyBackend, capabilities(), true)`)
/// is put on each test.
#[macro_export]
macro_rules! testgen_all {
    ($backend:ty) => {
        $crate::testgen_all!($backend, $crate::Capabilities::full());
    };
    ($backend:ty, $capabilities:expr) => {
        $crate::testgen_all!($backend, $capabilities, true);
    };
    ($backend:ty, $capabilities:expr, $present:expr) => {
        $crate::with_families!(testgen; $backend, $capabilities, $present);
    };
    (#[$attribute:meta] $backend:ty, $capabilities:expr, $present:expr) => {
        $crate::with_families!(testgen; #[$attribute] $backend, $capabilities, $present);
    };
}

/// Generates the tests of some families: `testgen!(MyBackend, capabilities(), true; comparison, matmul);`. As
/// in [`testgen_all`], an attribute may stand in front.
#[macro_export]
macro_rules! testgen {
    (#[$attribute:meta] $backend:ty, $capabilities:expr, $present:expr; $($family:ident),* $(,)?) => {
        $($crate::testgen!(@test (#[$attribute]) $backend, $capabilities, $present, $family);)*
    };
    ($backend:ty, $capabilities:expr, $present:expr; $($family:ident),* $(,)?) => {
        $($crate::testgen!(@test () $backend, $capabilities, $present, $family);)*
    };
    (@test ($($attribute:tt)*) $backend:ty, $capabilities:expr, $present:expr, $family:ident) => {
            #[test]
            $($attribute)*
            fn $family() {
                if $present {
                    let rows = $crate::families::$family::rows::<$backend>();
                    $crate::coverage::run_family::<$backend>(&$capabilities, stringify!($family), rows);
                }
            }
    };
}

/// The rows of every family, by its name.
#[doc(hidden)]
#[macro_export]
macro_rules! collect_rows {
    ($backend:ty; $($family:ident),* $(,)?) => {
        vec![$((stringify!($family), $crate::families::$family::rows::<$backend>())),*]
    };
}

/// The rows of every family, by its name.
pub fn all_rows<B: burn_backend::Backend>() -> Vec<(&'static str, Vec<row::Row<B>>)> {
    with_families!(collect_rows; B)
}

/// The name of the threads on which [`run_all`] runs rows, by which a panic hook knows their panics.
pub const THREAD: &str = "rows";

/// Runs the rows of every family, on as many threads as the machine has cores. A row for which `skip` gives a
/// reason is left out, and the reason is printed. Returns the family name and the outcome of each row.
///
/// # Panics
/// Panics if the system refuses a thread.
pub fn run_all<B: burn_backend::Backend>(
    capabilities: &Capabilities,
    skip: impl Fn(&str, &row::Row<B>) -> Option<&'static str> + Sync,
) -> Vec<(&'static str, row::Record)> {
    let next = AtomicUsize::new(0);
    // Rows may hold what other threads must not have, so each thread makes all rows, and runs those it is the
    // first to ask for.
    let run_some = || {
        let families = all_rows::<B>().into_iter();
        let rows = families.flat_map(|(family, rows)| rows.into_iter().map(move |row| (family, row)));
        let mut records = Vec::new();
        let mut turn = next.fetch_add(1, Relaxed);
        for (index, (family, row)) in rows.enumerate() {
            if index != turn {
                continue;
            }
            turn = next.fetch_add(1, Relaxed);
            match skip(family, &row) {
                Some(reason) => println!("{family}: {}: left out: {reason}", row.methods.join(", ")),
                None => records.push((index, (family, row::run_row(capabilities, row)))),
            }
        }
        records
    };
    let mut records = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let start = |_| thread::Builder::new().name(THREAD.into()).spawn_scoped(scope, run_some);
        let running: Vec<_> = (0..threads).map(|n| start(n).expect("a thread")).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("rows catch panics")).collect::<Vec<_>>()
    });
    records.sort_by_key(|&(index, _)| index);
    records.into_iter().map(|(_, record)| record).collect()
}

/// [`run_all`] for a backend that has to pass.
///
/// # Panics
/// Panics with the rows that failed.
pub fn pass_all<B: burn_backend::Backend>(
    capabilities: &Capabilities,
    skip: impl Fn(&str, &row::Row<B>) -> Option<&'static str> + Sync,
) {
    let records = run_all(capabilities, skip).into_iter();
    let report: Vec<String> =
        records.filter_map(|(family, record)| Some(format!("{family}: {}", record.report()?))).collect();
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}
