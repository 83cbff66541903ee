//! The description of a backend: dtypes, accuracy, known limits.

use crate::compare::Tolerance;
use crate::layouts::{LAYOUTS, Layout};
use burn_backend::{BoolStore, DType, FloatDType, IntDType};

/// The parts of a backend to test, and the accuracy to ask for.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Float dtypes.
    pub floats: Vec<FloatDType>,
    /// Integer dtypes.
    pub ints: Vec<IntDType>,
    /// Boolean stores.
    pub bools: Vec<BoolStore>,
    /// Factor on every tolerance; 1 for a backend that rounds as accurately as the suite's defaults ask.
    pub slack: f64,
    /// Wider tolerances of some methods, each with its reason.
    pub accuracies: Vec<Accuracy>,
    /// Whether the backend distinguishes subnormal numbers from zero, in operands and results.
    pub subnormals: bool,
    /// Whether each check runs in a stream of its own. Backends that queue operations need it when some are
    /// known to panic: `burn-fusion` keeps the operation that panicked at the head of its stream's queue.
    /// Every later call of that stream panics too, while the queue grows.
    pub isolated: bool,
    /// The layouts of operands: all of [`LAYOUTS`], or some of them if each layout costs the compilation of a
    /// kernel.
    pub layouts: Vec<Layout>,
    /// Methods or dtypes left out, each with its reason.
    pub limits: Vec<Limit>,
    /// A file with tables of what the suite runs. Every family's test compares its table with what it ran.
    pub document: Option<&'static str>,
}

/// A known limit of a backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Trait method.
    pub method: &'static str,
    /// The dtypes concerned; all dtypes if empty.
    pub dtypes: Vec<DType>,
    /// The failures concerned: those whose report contains this text. With `None` the method is not run at
    /// all.
    pub case: Option<&'static str>,
    /// Whether the checks of `case` are run, and may fail. A check that ends the process is not.
    pub is_run: bool,
    /// The reason, for the report.
    pub reason: &'static str,
}

/// Accuracy of a method for which a backend promises less than the suite asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Trait method. Every row that names the method is concerned, with all of the row's methods.
    pub method: &'static str,
    /// Units in the last place, if the suite asks for fewer.
    pub ulps: f64,
    /// An absolute error, independent of the value.
    pub floor: f64,
    /// An error as a part of the problem's scale.
    pub scaled: f64,
    /// The reason, for the report.
    pub reason: &'static str,
}

impl Limit {
    /// Whether the limit has a case that a text contains, of one of these methods.
    fn is_of(&self, methods: &[&str], text: &str) -> bool {
        (self.method == "*" || methods.contains(&self.method))
            && self.case.is_some_and(|case| text.contains(case))
    }
}

impl Capabilities {
    /// Everything that Burn defines for a CPU.
    pub fn full() -> Self {
        use FloatDType as F;
        use IntDType as I;
        Self {
            floats: vec![F::F32, F::F64, F::F16, F::BF16],
            ints: vec![I::I32, I::I64, I::I16, I::I8, I::U8, I::U16, I::U32, I::U64],
            bools: vec![BoolStore::Native, BoolStore::U8],
            slack: 1.0,
            accuracies: Vec::new(),
            subnormals: true,
            isolated: false,
            layouts: LAYOUTS.to_vec(),
            limits: Vec::new(),
            document: None,
        }
    }

    /// Leaves out a method for some dtypes, or for all if `dtypes` is empty.
    pub fn without(mut self, method: &'static str, dtypes: &[DType], reason: &'static str) -> Self {
        self.limits.push(Limit { method, dtypes: dtypes.to_vec(), case: None, is_run: false, reason });
        self
    }

    /// Expects failures of a method (of any method, if it is `"*"`) whose report contains `case`, such as
    /// `"special values"` or `"[2, 0, 3]"`. The method still runs, and any other failure is an error.
    pub fn except(mut self, method: &'static str, case: &'static str, reason: &'static str) -> Self {
        self.limits.push(Limit { method, dtypes: Vec::new(), case: Some(case), is_run: true, reason });
        self
    }

    /// Leaves out the checks of a method (of any method, if it is `"*"`) whose description contains `case`,
    /// where [`except`](Self::except) would not do: they end the process.
    pub fn without_case(mut self, method: &'static str, case: &'static str, reason: &'static str) -> Self {
        self.limits.push(Limit { method, dtypes: Vec::new(), case: Some(case), is_run: false, reason });
        self
    }

    /// Allows the results of a method an error of this many units in the last place.
    pub fn within(self, method: &'static str, ulps: f64, reason: &'static str) -> Self {
        self.with(Accuracy { method, ulps, floor: 0.0, scaled: 0.0, reason })
    }

    /// Allows the results of a method this absolute error, independent of their value.
    pub fn within_absolute(self, method: &'static str, floor: f64, reason: &'static str) -> Self {
        self.with(Accuracy { method, ulps: 0.0, floor, scaled: 0.0, reason })
    }

    /// Allows the results of a method this error, as a part of the problem's scale: for a sum, of the sum of
    /// absolute values.
    pub fn within_scaled(self, method: &'static str, scaled: f64, reason: &'static str) -> Self {
        self.with(Accuracy { method, ulps: 0.0, floor: 0.0, scaled, reason })
    }

    fn with(mut self, accuracy: Accuracy) -> Self {
        self.accuracies.push(accuracy);
        self
    }

    /// The accuracies that concern a row.
    pub fn accuracies_of<'a>(&'a self, methods: &'a [&'static str]) -> impl Iterator<Item = &'a Accuracy> {
        self.accuracies.iter().filter(move |accuracy| methods.contains(&accuracy.method))
    }

    /// The tolerance, widened to the accuracy that the backend states for these methods.
    pub fn widen(&self, methods: &[&'static str], tolerance: Tolerance) -> Tolerance {
        let plain = Tolerance { flushes: tolerance.flushes || !self.subnormals, ..tolerance };
        self.accuracies_of(methods).fold(plain, |wide, accuracy| Tolerance {
            ulps: wide.ulps.max(accuracy.ulps),
            floor: wide.floor.max(accuracy.floor),
            absolute: wide.absolute.max(accuracy.scaled),
            ..wide
        })
    }

    /// The limit that expects a failure, if there is one.
    pub fn expects(&self, methods: &[&str], failure: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.is_run && limit.is_of(methods, failure))
    }

    /// The limit that leaves out a check with this description, if there is one.
    pub fn leaves_out(&self, methods: &[&str], what: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| !limit.is_run && limit.is_of(methods, what))
    }

    /// Whether checks are left out that only their descriptions name.
    pub(crate) fn has_cases_left_out(&self) -> bool {
        self.limits.iter().any(|limit| !limit.is_run && limit.case.is_some())
    }

    /// Compares the tables in a file with what the suite runs: see [`coverage`](crate::coverage).
    pub fn documented_in(mut self, path: &'static str) -> Self {
        self.document = Some(path);
        self
    }

    /// The reason to leave out a method for a dtype, if there is one.
    pub fn limit(&self, method: &str, dtype: DType) -> Option<&'static str> {
        (self.limits.iter())
            .filter(|l| l.case.is_none())
            .find(|l| l.method == method && (l.dtypes.is_empty() || l.dtypes.contains(&dtype)))
            .map(|l| l.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracies_widen_the_rows_that_name_their_method() {
        let all = Capabilities::full()
            .within("float_exp", 16.0, "an approximation")
            .within_absolute("float_exp", 1e-6, "another")
            .within("float_log", 2.0, "better than asked");
        let asked = Tolerance { relative: 1e-3, ..Tolerance::ulps(4.0) };
        assert_eq!(
            all.widen(&["float_sin", "float_exp"], asked),
            Tolerance { ulps: 16.0, floor: 1e-6, ..asked }
        );
        assert_eq!(all.widen(&["float_log"], asked), asked, "never narrower");
        let scaled = all.clone().within_scaled("float_sin", 1e-2, "ten bits");
        assert_eq!(scaled.widen(&["float_sin"], asked), Tolerance { absolute: 1e-2, ..asked });
        assert_eq!(all.widen(&["float_sin"], asked), asked);
        let flushes = Capabilities { subnormals: false, ..all };
        assert!(flushes.widen(&["float_sin"], asked).flushes);
    }

    #[test]
    fn a_limit_on_cases_leaves_the_method_to_be_run() {
        let all =
            Capabilities::full().except("float_exp", "special", "no NaN").except("*", "[0]", "no empty ones");
        assert_eq!(all.limit("float_exp", DType::F32), None);
        let reason = |methods: &[&str], failure| all.expects(methods, failure).map(|l| l.reason);
        assert!(!all.has_cases_left_out());
        let spared = all.clone().without_case("*", "[0]", "crashes").without_case("float_log", " []", "too");
        assert!(spared.has_cases_left_out());
        let left_out = |methods: &[&str], what| spared.leaves_out(methods, what).map(|l| l.reason);
        assert_eq!(left_out(&["float_exp"], "F32 [0] Contiguous"), Some("crashes"));
        assert_eq!(left_out(&["float_exp"], "F32 [] Contiguous"), None);
        assert_eq!(left_out(&["float_log"], "F32 [] Contiguous"), Some("too"));
        assert_eq!(left_out(&["float_exp"], "F32 special values"), None, "it is run, and may fail");
        assert_eq!(reason(&["float_exp"], "F32 special values: 0"), Some("no NaN"));
        assert_eq!(reason(&["float_exp"], "F32 [3] Transposed: 0"), None);
        assert_eq!(reason(&["float_log"], "F32 special values: 0"), None);
        assert_eq!(reason(&["float_log"], "F32 [0]: 0"), Some("no empty ones"));
        let whole = all.without("float_log", &[DType::F64], "slow");
        assert_eq!(whole.limit("float_log", DType::F64), Some("slow"));
        assert_eq!(whole.expects(&["float_log"], "slow"), None, "what is not run does not fail");
    }
}
