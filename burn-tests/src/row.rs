//! A row of the suite: some trait methods and the check that exercises them.

use crate::capability::{Accuracy, Capabilities, Limit};
use crate::compare::{Tolerance, is_subnormal, round_to};
use crate::trace::{self, Trace};
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType, StreamId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The context of a check.
pub struct Context<'a, B: Backend> {
    /// The device of the tensors.
    pub device: Device<B>,
    /// The description of the backend.
    pub capabilities: &'a Capabilities,
    methods: &'a [&'static str],
    log: Log,
}

/// The outcomes of a row's checks.
#[derive(Default)]
struct Log {
    failures: RefCell<Vec<String>>,
    checks: RefCell<usize>,
    /// The number of checks left out, by reason.
    left_out: RefCell<BTreeMap<&'static str, usize>>,
}

/// What a check says of itself, and the check: `Ok(false)` if it does not apply.
type What<'a> = Box<dyn FnOnce() -> String + 'a>;
type Check<'a> = Box<dyn FnOnce() -> Result<bool, String> + 'a>;

impl Log {
    fn leave_out(&self, reason: &'static str) {
        *self.left_out.borrow_mut().entry(reason).or_insert(0) += 1;
    }

    fn record(&self, what: What<'_>, outcome: Result<(), String>) {
        *self.checks.borrow_mut() += 1;
        if let Err(reason) = outcome {
            self.failures.borrow_mut().push(format!("{}: {reason}", what()));
        }
    }

    /// Records the outcome of a check that may panic. Not generic, because each backend has a thousand
    /// checks. Calls `settle` in the stream of a check that fails, and of a check that does not apply, which
    /// may have made some of its operands.
    fn attempt(&self, isolated: bool, what: What<'_>, run: Check<'_>, settle: &dyn Fn()) {
        let run = || {
            let outcome = catch_unwind(AssertUnwindSafe(run));
            let outcome = outcome.unwrap_or_else(|payload| Err(panic_text(&*payload)));
            if !matches!(outcome, Ok(true)) {
                let _ = catch_unwind(AssertUnwindSafe(settle));
            }
            outcome
        };
        match if isolated { fresh_stream().executes(run) } else { run() } {
            Ok(false) => {}
            Ok(true) => self.record(what, Ok(())),
            Err(reason) => self.record(what, Err(reason)),
        }
    }
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

    /// A tolerance of this many ULP, or wider if the backend promises less.
    pub fn ulps(&self, ulps: f64) -> Tolerance {
        self.tolerance(Tolerance::ulps(ulps))
    }

    /// A tolerance with the backend's slack factor, and wide enough for the accuracy that the backend states
    /// for the row's methods.
    pub fn tolerance(&self, Tolerance { ulps, relative, absolute, floor, flushes }: Tolerance) -> Tolerance {
        let slack = self.capabilities.slack;
        let [ulps, relative, absolute, floor] = [ulps, relative, absolute, floor].map(|part| part * slack);
        self.capabilities.widen(self.methods, Tolerance { ulps, relative, absolute, floor, flushes })
    }

    /// The values of a list, rounded to a dtype, without subnormal numbers if the backend does not support
    /// them.
    pub fn representable(&self, dtype: DType, values: &[f64]) -> Vec<f64> {
        let rounded = values.iter().map(|&x| round_to(dtype, x));
        rounded.filter(|&x| self.capabilities.subnormals || !is_subnormal(dtype, x)).collect()
    }

    fn allowed(&self, dtypes: impl Iterator<Item = DType>, methods: &[&str]) -> Vec<DType> {
        dtypes.filter(|&d| methods.iter().all(|m| self.capabilities.limit(m, d).is_none())).collect()
    }

    /// Records the outcome of one comparison. `what` is called only if the comparison failed.
    pub fn check(&self, what: impl FnOnce() -> String, outcome: Result<(), String>) {
        self.log.record(Box::new(what), outcome);
    }

    /// [`check`](Self::check) of a computation that may panic.
    pub fn attempt(&self, what: impl FnOnce() -> String, run: impl FnOnce() -> Result<(), String>) {
        self.attempt_if(what, || run().map(|()| true));
    }

    /// [`attempt`](Self::attempt) of a check that may not apply (`Ok(false)`); such a check is not counted.
    pub fn attempt_if(&self, what: impl FnOnce() -> String, run: impl FnOnce() -> Result<bool, String>) {
        // A device may report a failure at a later call, where it would pass for the failure of another
        // check.
        let isolated = self.capabilities.isolated;
        let settle = || {
            let sync = || drop(B::sync(&self.device));
            if isolated { sibling_stream().executes(sync) } else { sync() }
        };
        let mut what: What<'_> = Box::new(what);
        if self.capabilities.has_cases_left_out() {
            let text = what();
            if let Some(limit) = self.capabilities.leaves_out(self.methods, &text) {
                self.log.leave_out(limit.reason);
                // The operands were made before.
                return settle();
            }
            what = Box::new(|| text);
        }
        self.log.attempt(isolated, what, Box::new(run), &settle);
    }
}

/// A stream in which nothing has run yet. The numbers of threads' streams start at zero.
fn fresh_stream() -> StreamId {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    StreamId { value: NEXT.fetch_add(1, Ordering::Relaxed) }
}

/// A stream that a device reports the failures of the current one to. `cubecl` deals streams to those of the
/// device by the lowest bits of their numbers. In the current stream a call would not reach the device after
/// a panic (see [`Capabilities::isolated`]).
fn sibling_stream() -> StreamId {
    StreamId { value: StreamId::current().value ^ (1 << 48) }
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

/// The outcome of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The methods that the row names.
    pub methods: Vec<&'static str>,
    /// The dtypes and layouts that ran.
    pub trace: Trace,
    /// Descriptions of the failures.
    pub failures: Vec<String>,
}

impl Record {
    /// The report on a row: the first failures, `None` if there are none.
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

/// Runs rows. This is the assertion of every generated test.
///
/// # Panics
/// Panics with a report if a check failed, or if a row checked nothing without stating a reason.
pub fn run_rows<B: Backend>(capabilities: &Capabilities, rows: Vec<Row<B>>) {
    let report: Vec<String> = run(capabilities, rows).iter().filter_map(Record::report).collect();
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}

/// Runs rows, and returns the outcome of each.
pub fn run<B: Backend>(capabilities: &Capabilities, rows: Vec<Row<B>>) -> Vec<Record> {
    rows.into_iter().map(|row| run_row(capabilities, row)).collect()
}

/// Runs a row.
pub fn run_row<B: Backend>(capabilities: &Capabilities, row: Row<B>) -> Record {
    let context =
        Context::<B> { device: Default::default(), capabilities, methods: &row.methods, log: Log::default() };
    trace::take();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (row.run)(&context))) {
        context.check(|| "the check itself".into(), Err(panic_text(&*payload)));
    }
    let trace = trace::take();
    let mut failures = context.log.failures.into_inner();
    let mut expected = BTreeMap::new();
    failures.retain(|failure| match capabilities.expects(&row.methods, failure) {
        Some(limit) => {
            *expected.entry(limit.reason).or_insert(0) += 1;
            false
        }
        None => true,
    });
    let methods = row.methods.join(", ");
    let cases_left_out = context.log.left_out.into_inner();
    for (reason, count) in &cases_left_out {
        println!("{methods}: {count} checks left out: {reason}");
    }
    for (reason, count) in expected {
        println!("{methods}: limited in {count} checks: {reason}");
    }
    for accuracy in capabilities.accuracies_of(&row.methods) {
        let Accuracy { ulps, floor, scaled, reason, .. } = accuracy;
        println!("{methods}: less accurate ({ulps} ULP, {scaled} of the scale, {floor}): {reason}");
    }
    let left_out = |l: &&Limit| l.case.is_none() && row.methods.contains(&l.method);
    match capabilities.limits.iter().find(left_out) {
        Some(limit) => println!("{methods}: limited: {}", limit.reason),
        None if context.log.checks.into_inner() == 0 && cases_left_out.is_empty() => {
            failures.push("checked nothing".into())
        }
        None => {}
    }
    Record { methods: row.methods, trace, failures }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_flex::Flex;

    /// The streams that two checks of a row ran in.
    fn streams(isolated: bool) -> Vec<u64> {
        let seen = std::rc::Rc::new(RefCell::new(Vec::new()));
        let sink = seen.clone();
        let row = Row::<Flex>::new(&["a"], move |context| {
            for _ in 0..2 {
                let note = || {
                    sink.borrow_mut().push(StreamId::current().value);
                    Ok(())
                };
                context.attempt(|| "a check".into(), note);
            }
        });
        assert_eq!(run_row(&Capabilities { isolated, ..Capabilities::full() }, row).report(), None);
        seen.take()
    }

    #[test]
    fn isolated_checks_have_streams_of_their_own() {
        let own = StreamId::current().value;
        assert_eq!(streams(false), [own, own]);
        let isolated = streams(true);
        assert!(isolated[0] != isolated[1] && !isolated.contains(&own), "{isolated:?}");
        assert_eq!(StreamId::current().value, own);
    }

    #[test]
    fn the_device_is_settled_after_each_check_that_does_not_pass() {
        let settled = |outcome: Result<bool, String>| {
            let calls = std::cell::Cell::new(0);
            let settle = || calls.set(calls.get() + 1);
            Log::default().attempt(false, Box::new(String::new), Box::new(|| outcome), &settle);
            calls.get()
        };
        assert_eq!([Ok(true), Ok(false), Err("wrong".into())].map(settled), [0, 1, 1]);
    }

    #[test]
    fn a_row_asks_for_what_its_methods_promise() {
        let capabilities = Capabilities { slack: 2.0, subnormals: false, ..Capabilities::full() }.within(
            "b",
            16.0,
            "an approximation",
        );
        let row = Row::<Flex>::new(&["a", "b"], |context| {
            let ulps = |ulps| Tolerance { flushes: true, ..Tolerance::ulps(ulps) };
            assert_eq!(context.ulps(4.0), ulps(16.0), "what the method promises");
            assert_eq!(context.ulps(20.0), ulps(40.0), "the slack");
            assert_eq!(context.representable(DType::F32, &[1e-40, 0.0, 1.0]), [0.0, 1.0]);
            context.check(|| "done".into(), Ok(()));
        });
        assert_eq!(run_row(&capabilities, row).report(), None);
    }
}
