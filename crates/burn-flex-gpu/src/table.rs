//! The table of the dtypes that a device computes correctly.

use crate::DeviceError;
use burn_backend::{Backend, BoolDType, BoolStore, DType, Element};
use std::fmt;

/// The dtypes that are probed, in the order of the table.
pub const DTYPES: [DType; 14] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool(BoolStore::U32),
    DType::Bool(BoolStore::U8),
];

/// The results of the probes of one dtype; each failed probe holds its first error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// The dtype.
    pub dtype: DType,
    /// Tensors come back as they were sent.
    pub transfer: Result<(), String>,
    /// Copies, sums and products (for booleans: logic) are right.
    pub arithmetic: Result<(), String>,
    /// `exp`, `log`, `tanh`, `sqrt` and `sin` have relative errors of at most 32 machine epsilons of f64 and
    /// f32, and 8 of f16 (0.8 %) and bf16 (6 %); for dtypes that are not floats, as `arithmetic`.
    pub maths: Result<(), String>,
}

impl Support {
    /// Whether a model may use the dtype.
    pub fn is_full(&self) -> bool {
        self.problem().is_none()
    }

    /// What went wrong first.
    pub fn problem(&self) -> Option<&str> {
        [&self.transfer, &self.arithmetic, &self.maths]
            .into_iter()
            .find_map(|r| r.as_ref().err())
            .map(String::as_str)
    }
}

/// What a device computes correctly, found by running kernels on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DTypeTable {
    rows: Vec<Support>,
    /// The stores of booleans that the runtime claims, in the order in which Burn falls back to them.
    bools: Vec<BoolStore>,
}

impl DTypeTable {
    pub(crate) fn new(rows: Vec<Support>, bools: Vec<BoolStore>) -> Self {
        Self { rows, bools }
    }

    /// What was found, dtype by dtype.
    pub fn rows(&self) -> &[Support] {
        &self.rows
    }

    /// The findings for a dtype; `None` for a dtype that is not probed.
    pub fn get(&self, dtype: DType) -> Option<&Support> {
        self.rows.iter().find(|row| row.dtype == dtype)
    }

    /// Whether a model may use the dtype.
    pub fn supports(&self, dtype: DType) -> bool {
        self.get(dtype).is_some_and(Support::is_full)
    }

    /// Whether a model may use all of these dtypes.
    ///
    /// # Errors
    /// [`DeviceError::DType`] with the error of the first dtype that a model may not use.
    pub fn require(&self, dtypes: &[DType]) -> Result<(), DeviceError> {
        let problem = |&dtype: &DType| match self.get(dtype) {
            Some(row) => row.problem().map(|problem| (dtype, problem.to_string())),
            None => Some((dtype, "it is not among the dtypes that are probed".into())),
        };
        match dtypes.iter().find_map(problem) {
            Some((dtype, problem)) => Err(DeviceError::DType { dtype, problem }),
            None => Ok(()),
        }
    }

    /// [`require`](Self::require) for the default dtypes of a backend type.
    ///
    /// # Errors
    /// The errors of `require`.
    pub fn require_defaults<B: Backend>(&self) -> Result<(), DeviceError> {
        // Not `get_device_settings`, which fixes the defaults of a device at the first call, even if the
        // call's type is then refused.
        let boolean = self.stored_as(B::BoolElem::dtype().into());
        self.require(&[B::FloatElem::dtype(), B::IntElem::dtype(), boolean.into()])
    }

    /// The store that Burn uses on this device for the booleans of a type: the type's own, or else another
    /// one that the runtime claims.
    fn stored_as(&self, own: BoolDType) -> BoolDType {
        if self.bools.contains(&own) { own } else { self.bools.first().copied().unwrap_or(own) }
    }
}

impl fmt::Display for DTypeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let mark = |outcome: &Result<(), String>| if outcome.is_ok() { "yes" } else { "no" };
            let (transfer, arithmetic, maths) =
                (mark(&row.transfer), mark(&row.arithmetic), mark(&row.maths));
            let name = format!("{:?}", row.dtype);
            write!(f, "{name:<10} transfer {transfer:<3}  arithmetic {arithmetic:<3}  maths {maths:<3}")?;
            match row.problem() {
                Some(problem) => writeln!(f, "  {problem}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_probe_rules_a_dtype_out() {
        let good = Support { dtype: DType::F32, transfer: Ok(()), arithmetic: Ok(()), maths: Ok(()) };
        let bad = Support { dtype: DType::F64, maths: Err("exp(1) is 0".into()), ..good.clone() };
        let table = DTypeTable::new(vec![good, bad], Vec::new());
        assert!(table.supports(DType::F32));
        assert!(!table.supports(DType::F64));
        assert!(!table.supports(DType::I8), "what was not probed is not vouched for");
        assert_eq!(table.get(DType::F64).and_then(Support::problem), Some("exp(1) is 0"));
        assert!(table.to_string().contains("maths no   exp(1) is 0"));
        assert_eq!(table.require(&[DType::F32]), Ok(()));
        let refused = |dtype| table.require(&[DType::F32, dtype]).unwrap_err().to_string();
        assert_eq!(refused(DType::F64), "F64 cannot be used on this device: exp(1) is 0");
        assert!(refused(DType::I8).contains("not among"), "{}", refused(DType::I8));
    }

    #[test]
    fn booleans_fall_back_to_a_store_that_the_runtime_has() {
        let stored_as =
            |own, claimed: &[BoolStore]| DTypeTable::new(Vec::new(), claimed.to_vec()).stored_as(own);
        assert_eq!(stored_as(BoolStore::U8, &[BoolStore::U32]), BoolStore::U32);
        assert_eq!(stored_as(BoolStore::U32, &[BoolStore::U8, BoolStore::U32]), BoolStore::U32);
        assert_eq!(stored_as(BoolStore::Native, &[BoolStore::U8, BoolStore::U32]), BoolStore::U8);
        assert_eq!(stored_as(BoolStore::U8, &[]), BoolStore::U8);
    }
}
