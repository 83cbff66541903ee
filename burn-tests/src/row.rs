//! A row of the suite: some trait methods and the check that exercises them.

use crate::capability::{Capabilities, Limit};
use crate::compare::Tolerance;
use crate::trace::{self, Trace};
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a check gets.
pub struct Context<'a, B: Backend> {
    /// Where to put tensors.
    pub device: Device<B>,
    /// What the backend says of itself.
    pub capabilities: &'a Capabilities,
    failures: RefCell<Vec<String>>,
    checks: RefCell<usize>,
}

impl<B: Backend> Context<'_, B> {
    /// Float dtypes for which none of these methods is limited.
    pub fn floats(&self, methods: &[&str]) -> Vec<DType> {
        self.allowed(self.capabilities.floats.iter().map(|&d| d.into()), methods)
    }

    /// Integer dtypes for which none of these methods is limited.
    pub fn ints(&self, methods: &[&str]) -> Vec<DType> {
        self.allowed(self.capabilities.ints.iter().map(|&d| d.into()), methods)
    }

    /// Boolean dtypes for which none of these methods is limited.
    pub fn bools(&self, methods: &[&str]) -> Vec<DType> {
        self.allowed(self.capabilities.bools.iter().map(|&d| d.into()), methods)
    }

    /// This many ULP, with the slack that the backend asks for.
    pub fn ulps(&self, ulps: f64) -> Tolerance {
        Tolerance::ulps(ulps * self.capabilities.slack)
    }

    fn allowed(&self, dtypes: impl Iterator<Item = DType>, methods: &[&str]) -> Vec<DType> {
        dtypes.filter(|&d| methods.iter().all(|m| self.capabilities.limit(m, d).is_none())).collect()
    }

    /// Records the outcome of one comparison. `what` is asked for only when it failed.
    pub fn check(&self, what: impl FnOnce() -> String, outcome: Result<(), String>) {
        *self.checks.borrow_mut() += 1;
        if let Err(reason) = outcome {
            self.failures.borrow_mut().push(format!("{}: {reason}", what()));
        }
    }

    /// [`check`](Self::check) of a computation that may panic.
    pub fn attempt(&self, what: impl FnOnce() -> String, run: impl FnOnce() -> Result<(), String>) {
        let outcome =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panic_text(&*payload)));
        self.check(what, outcome);
    }

    /// [`attempt`](Self::attempt) of something that may turn out not to apply (`Ok(false)`), which counts for nothing.
    pub fn attempt_if(&self, what: impl FnOnce() -> String, run: impl FnOnce() -> Result<bool, String>) {
        match catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panic_text(&*payload))) {
            Ok(false) => {}
            Ok(true) => self.check(what, Ok(())),
            Err(reason) => self.check(what, Err(reason)),
        }
    }
}

/// The message of a caught panic.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".into()))
}

/// Trait methods and the check that exercises them.
pub struct Row<B: Backend> {
    /// The methods, by their names in Burn's traits.
    pub methods: Vec<&'static str>,
    /// The check.
    pub run: Box<dyn Fn(&Context<'_, B>)>,
}

impl<B: Backend> Row<B> {
    /// A row.
    pub fn new(methods: &[&'static str], run: impl Fn(&Context<'_, B>) + 'static) -> Self {
        Self { methods: methods.to_vec(), run: Box::new(run) }
    }
}

/// Most failures of a row that are printed.
const SHOWN: usize = 5;

/// What came of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The methods that the row names.
    pub methods: Vec<&'static str>,
    /// Dtypes and layouts.
    pub trace: Trace,
    /// What failed.
    pub failures: Vec<String>,
}

impl Record {
    /// What to say of a row of which something failed: its first failures.
    pub fn report(&self) -> Option<String> {
        let first = self.failures.get(..SHOWN).unwrap_or(&self.failures).join("\n    ");
        let tail = match self.failures.len() {
            0 => return None,
            n if n > SHOWN => format!("\n    and {} more", n - SHOWN),
            _ => String::new(),
        };
        Some(format!("{}:\n    {first}{tail}", self.methods.join(", ")))
    }
}

/// Runs rows and panics with a report when any check failed, or when a row checked nothing without saying why.
///
/// # Panics
/// See above: this is the assertion of every generated test.
pub fn run_rows<B: Backend>(capabilities: &Capabilities, rows: Vec<Row<B>>) {
    let report: Vec<String> = run(capabilities, rows).iter().filter_map(Record::report).collect();
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}

/// Runs rows: what came of each.
pub fn run<B: Backend>(capabilities: &Capabilities, rows: Vec<Row<B>>) -> Vec<Record> {
    rows.into_iter().map(|row| run_row(capabilities, row)).collect()
}

/// Runs a row.
pub fn run_row<B: Backend>(capabilities: &Capabilities, row: Row<B>) -> Record {
    let context = Context::<B> {
        device: Default::default(),
        capabilities,
        failures: RefCell::default(),
        checks: RefCell::default(),
    };
    trace::take();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (row.run)(&context))) {
        context.check(|| "the check itself".into(), Err(panic_text(&*payload)));
    }
    let trace = trace::take();
    let mut failures = context.failures.into_inner();
    let mut expected = BTreeMap::new();
    failures.retain(|failure| match capabilities.expects(&row.methods, failure) {
        Some(limit) => {
            *expected.entry(limit.reason).or_insert(0) += 1;
            false
        }
        None => true,
    });
    let methods = row.methods.join(", ");
    for (reason, count) in expected {
        println!("{methods}: limited in {count} checks: {reason}");
    }
    let left_out = |l: &&Limit| l.case.is_none() && row.methods.contains(&l.method);
    match capabilities.limits.iter().find(left_out) {
        Some(limit) => println!("{methods}: limited: {}", limit.reason),
        None if context.checks.into_inner() == 0 => failures.push("checked nothing".into()),
        None => {}
    }
    Record { methods: row.methods, trace, failures }
}
