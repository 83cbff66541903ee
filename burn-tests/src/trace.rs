//! The dtypes and layouts that a row ran, recorded by the functions that make and read tensors, so that no
//! row can claim more than it did.

use crate::layouts::Layout;
use burn_backend::DType;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The dtypes and layouts that one row ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Dtypes of the operands.
    pub operands: BTreeSet<Name>,
    /// Layouts of the operands.
    pub layouts: BTreeSet<Layout>,
    /// Dtypes of the results that were read back and compared.
    pub results: BTreeSet<Name>,
}

/// A dtype by its position in [`NAMES`]: `DType` has no order.
pub type Name = usize;

/// The dtypes that the suite knows, with their short names.
pub const NAMES: [(DType, &str); 14] = {
    use burn_backend::BoolStore as S;
    [
        (DType::F64, "f64"),
        (DType::F32, "f32"),
        (DType::F16, "f16"),
        (DType::BF16, "bf16"),
        (DType::I64, "i64"),
        (DType::I32, "i32"),
        (DType::I16, "i16"),
        (DType::I8, "i8"),
        (DType::U64, "u64"),
        (DType::U32, "u32"),
        (DType::U16, "u16"),
        (DType::U8, "u8"),
        (DType::Bool(S::Native), "bool"),
        (DType::Bool(S::U8), "bool as u8"),
    ]
};

thread_local! {
    // Rows reach the recording functions from closures deep inside the families. A parameter through all of
    // them could be forgotten, which would make the record wrong.
    static CURRENT: RefCell<Trace> = RefCell::default();
}

/// Records an operand.
pub fn operand(dtype: DType, layout: Layout) {
    CURRENT.with_borrow_mut(|trace| {
        trace.operands.extend(name(dtype));
        trace.layouts.insert(layout);
    });
}

/// Records a result.
pub fn result(dtype: DType) {
    CURRENT.with_borrow_mut(|trace| trace.results.extend(name(dtype)));
}

/// Returns what this thread recorded since the last call.
pub fn take() -> Trace {
    CURRENT.take()
}

fn name(dtype: DType) -> Option<Name> {
    NAMES.iter().position(|(d, _)| *d == dtype)
}

/// Records the dtype of a result and compares it with the expected one.
///
/// # Errors
/// Fails if the dtypes differ.
pub fn check_dtype(got: DType, want: DType) -> Result<(), String> {
    result(got);
    if got == want { Ok(()) } else { Err(format!("got dtype {got:?}, expected {want:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_starts_empty_after_it_was_taken() {
        operand(DType::F16, Layout::Flipped);
        result(DType::I64);
        let trace = take();
        assert_eq!(trace.operands, BTreeSet::from([2]));
        assert_eq!(trace.layouts, BTreeSet::from([Layout::Flipped]));
        assert_eq!(trace.results, BTreeSet::from([4]));
        assert_eq!(take(), Trace::default());
    }
}
