//! Reductions, scans and sorts: axes that do not exist, extremes of empty lines, index dtypes that are too
//! narrow.

use super::{BadCall, calls};
use burn_backend::{Backend, BoolStore, DType, IntDType};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    macro_rules! axis {
        ($($operation:literal: $make:ident $method:ident($($arg:expr),*);)*) => {$(
            calls!(list, t,
                $operation, "an axis out of range": $method(t.$make(&[2, 3]), 2 $(, $arg)*);
                $operation, "the axis of a scalar": $method(t.$make(&[]), 0 $(, $arg)*);
            );
        )*};
    }
    axis! {
        "sum": f float_sum_dim();
        "prod": f float_prod_dim();
        "mean": f float_mean_dim();
        "max": f float_max_dim();
        "min": f float_min_dim();
        "max_abs": f float_max_abs_dim();
        "max": f float_max_dim_with_indices(IntDType::I32);
        "min": f float_min_dim_with_indices(IntDType::I32);
        "argmax": f float_argmax(IntDType::I64);
        "argmin": f float_argmin(IntDType::I64);
        "any": f float_any_dim(BoolStore::Native);
        "all": f float_all_dim(BoolStore::Native);
        "cumsum": f float_cumsum();
        "cumprod": f float_cumprod();
        "cummin": f float_cummin();
        "cummax": f float_cummax();
        "sort": f float_sort(false);
        "sort": f float_sort_with_indices(true, IntDType::I32);
        "argsort": f float_argsort(false, IntDType::I32);
        "topk": f float_topk(1);
        "argtopk": f float_argtopk(1, IntDType::I32);
        "softmax": f softmax();
        "log_softmax": f log_softmax();
        "softmin": f softmin();
        "sum": i int_sum_dim();
        "prod": i int_prod_dim();
        "mean": i int_mean_dim();
        "max": i int_max_dim();
        "min": i int_min_dim();
        "max_abs": i int_max_abs_dim();
        "max": i int_max_dim_with_indices();
        "min": i int_min_dim_with_indices();
        "argmax": i int_argmax();
        "argmin": i int_argmin();
        "any": i int_any_dim(BoolStore::Native);
        "all": i int_all_dim(BoolStore::U8);
        "cumsum": i int_cumsum();
        "cumprod": i int_cumprod();
        "cummin": i int_cummin();
        "cummax": i int_cummax();
        "sort": i int_sort(false);
        "sort": i int_sort_with_indices(true);
        "argsort": i int_argsort(false);
        "topk": i int_topk(1);
        "argtopk": i int_argtopk(1);
        "any": b bool_any_dim();
        "all": b bool_all_dim();
    }
    macro_rules! nothing {
        ($($operation:literal: $make:ident $whole:ident $along:ident;)*) => {$(
            calls!(list, t,
                $operation, "no elements": $whole(t.$make(&[0, 3]));
                $operation, "an axis of no elements": $along(t.$make(&[0, 3]), 0);
            );
        )*};
    }
    nothing! {
        "max": f float_max float_max_dim;
        "min": f float_min float_min_dim;
        "max_abs": f float_max_abs float_max_abs_dim;
        "max": i int_max int_max_dim;
        "min": i int_min int_min_dim;
        "max_abs": i int_max_abs int_max_abs_dim;
    }
    calls!(list, t,
        "argmax", "an axis of no elements": float_argmax(t.f(&[2, 0]), 1, IntDType::I32);
        "argmin", "an axis of no elements": float_argmin(t.f(&[2, 0]), 1, IntDType::I32);
        "argmax", "an axis of no elements": int_argmax(t.i(&[2, 0]), 1);
        "argmin", "an axis of no elements": int_argmin(t.i(&[2, 0]), 1);
        "argmax", "an index dtype too narrow for the axis": float_argmax(t.f(&[300]), 0, IntDType::U8);
        "argmin", "an index dtype too narrow for the axis": float_argmin(t.f(&[2, 129]), 1, IntDType::I8);
        "max", "an index dtype too narrow for the axis": float_max_dim_with_indices(t.f(&[300]), 0, IntDType::I8);
        "min", "an index dtype too narrow for the axis": float_min_dim_with_indices(t.f(&[300]), 0, IntDType::U8);
        "argsort", "an index dtype too narrow for the axis": float_argsort(t.f(&[300]), 0, false, IntDType::I8);
        "sort", "an index dtype too narrow for the axis": float_sort_with_indices(t.f(&[300]), 0, true, IntDType::U8);
        "argtopk", "an index dtype too narrow for the axis": float_argtopk(t.f(&[300]), 0, 2, IntDType::I8);
        "topk", "more than there are": float_topk(t.f(&[2, 3]), 1, 4);
        "topk", "the largest number of them": float_topk(t.f(&[2, 3]), 1, usize::MAX);
        "topk", "more than there are": int_topk(t.i(&[2, 3]), 0, 3);
        "argtopk", "more than there are": float_argtopk(t.f(&[2, 3]), 1, 4, IntDType::I64);
        "argtopk", "more than there are": int_argtopk(t.i(&[2, 3]), 0, 3);
    );
    let first = list.len();
    calls!(list, t,
        "any", "an unknown store": float_any(t.f(&[2]), BoolStore::U32);
        "all", "an unknown store": float_all(t.f(&[2]), BoolStore::U32);
        "any", "an unknown store": int_any_dim(t.i(&[2, 2]), 1, BoolStore::U32);
        "all", "an unknown store": int_all_dim(t.i(&[2, 2]), 1, BoolStore::U32);
    );
    list[first..].iter_mut().for_each(|call| call.legal_with = Some(DType::Bool(BoolStore::U32)));
    list
}
