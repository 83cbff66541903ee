//! What a backend says of itself: dtypes, accuracy, known limits.

use burn_backend::{BoolStore, DType, FloatDType, IntDType};

/// What to test a backend for.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Float dtypes.
    pub floats: Vec<FloatDType>,
    /// Integer dtypes.
    pub ints: Vec<IntDType>,
    /// Boolean stores.
    pub bools: Vec<BoolStore>,
    /// Factor on every tolerance, one for a backend that rounds as well as the suite's defaults ask.
    pub slack: f64,
    /// Methods or dtypes left out, each with its reason.
    pub limits: Vec<Limit>,
    /// A file with tables of what the suite runs, which every family's test holds to what it ran.
    pub document: Option<&'static str>,
}

/// Something that a backend is known not to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Trait method.
    pub method: &'static str,
    /// The dtypes concerned; all when empty.
    pub dtypes: Vec<DType>,
    /// Why, for the report.
    pub reason: &'static str,
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
            limits: Vec::new(),
            document: None,
        }
    }

    /// Leaves out a method, for some dtypes or (with none named) for all.
    pub fn without(mut self, method: &'static str, dtypes: &[DType], reason: &'static str) -> Self {
        self.limits.push(Limit { method, dtypes: dtypes.to_vec(), reason });
        self
    }

    /// Holds the tables in a file to what the suite runs: see [`coverage`](crate::coverage).
    pub fn documented_in(mut self, path: &'static str) -> Self {
        self.document = Some(path);
        self
    }

    /// The reason to leave out a method for a dtype, if there is one.
    pub fn limit(&self, method: &str, dtype: DType) -> Option<&'static str> {
        (self.limits.iter())
            .find(|l| l.method == method && (l.dtypes.is_empty() || l.dtypes.contains(&dtype)))
            .map(|l| l.reason)
    }
}
