//! Indexing: indices outside of their axis, index tensors of the wrong shape.

use super::{BadCall, calls};
use crate::release::Backend;
use burn_backend::tensor::IndexingUpdateOp as Update;
use burn_backend::{DType, IntDType};
use futures_lite::future::block_on;

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    macro_rules! of_kind {
        ($make:ident; $gather:ident, $scatter:ident, $select:ident, $update:ident) => {
            calls!(list, t,
                "gather", "an axis out of range": $gather(2, t.$make(&[2, 3]), t.i(&[2, 3]));
                "gather", "a scalar": $gather(0, t.$make(&[]), t.i(&[]));
                "gather", "indices of another rank": $gather(0, t.$make(&[2, 3]), t.i(&[2]));
                "gather", "indices larger on another axis": $gather(0, t.$make(&[2, 3]), t.i(&[2, 4]));
                "gather", "an index of the axis' size": $gather(1, t.$make(&[2, 3]), t.ints(&[2, 2], &[0, 1, 2, 3]));
                "gather", "a negative index": $gather(1, t.$make(&[2, 3]), t.ints(&[2, 2], &[0, 1, -1, 0]));
                "gather", "the smallest index": $gather(0, t.$make(&[2, 3]), t.int(DType::I64, &[1, 1], &[i64::MIN.into()]));
                "gather", "an index that wraps in 32 bits":
                    $gather(0, t.$make(&[2, 3]), t.int(DType::I64, &[1, 1], &[1 << 32]));
                "gather", "the largest unsigned index":
                    $gather(0, t.$make(&[2, 3]), t.int(DType::U64, &[1, 1], &[u64::MAX.into()]));
                "gather", "an index into an empty axis": $gather(0, t.$make(&[0, 3]), t.i(&[1, 3]));
                "scatter", "an axis out of range": $scatter(2, t.$make(&[2, 3]), t.i(&[2, 3]), t.$make(&[2, 3]));
                "scatter", "indices of another rank": $scatter(0, t.$make(&[2, 3]), t.i(&[2]), t.$make(&[2]));
                "scatter", "indices larger on another axis":
                    $scatter(0, t.$make(&[2, 3]), t.i(&[2, 4]), t.$make(&[2, 4]));
                "scatter", "values of another shape": $scatter(0, t.$make(&[2, 3]), t.i(&[2, 3]), t.$make(&[2, 2]));
                "scatter", "an index of the axis' size":
                    $scatter(0, t.$make(&[2, 3]), t.ints(&[2, 3], &[0, 0, 0, 0, 0, 2]), t.$make(&[2, 3]));
                "scatter", "a negative index":
                    $scatter(0, t.$make(&[2, 3]), t.ints(&[1, 3], &[-1, 0, 1]), t.$make(&[1, 3]));
                "scatter", "an index that wraps in 32 bits":
                    $scatter(0, t.$make(&[2, 3]), t.int(DType::I64, &[1, 1], &[-(1 << 32)]), t.$make(&[1, 1]));
                "select", "an axis out of range": $select(t.$make(&[2, 3]), 2, t.i(&[2]));
                "select", "a scalar": $select(t.$make(&[]), 0, t.i(&[1]));
                "select", "indices of two axes": $select(t.$make(&[2, 3]), 0, t.i(&[2, 1]));
                "select", "indices without an axis": $select(t.$make(&[2, 3]), 0, t.i(&[]));
                "select", "an index of the axis' size": $select(t.$make(&[2, 3]), 0, t.ints(&[3], &[0, 1, 2]));
                "select", "a negative index": $select(t.$make(&[2, 3]), 1, t.ints(&[3], &[0, -3, 1]));
                "select", "a large unsigned index": $select(t.$make(&[2, 3]), 1, t.int(DType::U8, &[1], &[255]));
                "select", "an index into an empty axis": $select(t.$make(&[2, 0]), 1, t.i(&[1]));
                "select", "an axis out of range": $update(t.$make(&[2, 3]), 2, t.i(&[2]), t.$make(&[2, 3]));
                "select", "indices of two axes": $update(t.$make(&[2, 3]), 0, t.i(&[2, 1]), t.$make(&[2, 3]));
                "select", "values of another shape": $update(t.$make(&[2, 3]), 0, t.i(&[2]), t.$make(&[3, 3]));
                "select", "an index of the axis' size":
                    $update(t.$make(&[2, 3]), 0, t.ints(&[2], &[0, 2]), t.$make(&[2, 3]));
                "select", "a negative index": $update(t.$make(&[2, 3]), 1, t.ints(&[1], &[-1]), t.$make(&[2, 1]));
            );
        };
    }
    of_kind!(f; float_gather, float_scatter_add, float_select, float_select_add);
    of_kind!(i; int_gather, int_scatter_add, int_select, int_select_add);
    of_kind!(b; bool_gather, bool_scatter_or, bool_select, bool_select_or);

    macro_rules! nd {
        ($make:ident; $gather:ident, $scatter:ident) => {
            calls!(list, t,
                "gather_nd", "more coordinates than axes": $gather(t.$make(&[2, 3]), t.i(&[4, 3]));
                "gather_nd", "indices without an axis": $gather(t.$make(&[2, 3]), t.i(&[]));
                "gather_nd", "a first coordinate out of range": $gather(t.$make(&[2, 3]), t.ints(&[2, 2], &[0, 0, 2, 0]));
                "gather_nd", "a last coordinate out of range": $gather(t.$make(&[2, 3]), t.ints(&[2, 2], &[0, 0, 0, 3]));
                "gather_nd", "a negative coordinate": $gather(t.$make(&[2, 3]), t.ints(&[1, 1], &[-1]));
                "scatter_nd", "more coordinates than axes":
                    $scatter(t.$make(&[2, 3]), t.i(&[4, 3]), t.$make(&[4]), Update::Add);
                "scatter_nd", "values of another shape":
                    $scatter(t.$make(&[2, 3]), t.i(&[4, 1]), t.$make(&[4, 2]), Update::Add);
                "scatter_nd", "values for another number of coordinates":
                    $scatter(t.$make(&[2, 3]), t.i(&[4, 1]), t.$make(&[5, 3]), Update::Assign);
                "scatter_nd", "a coordinate out of range":
                    $scatter(t.$make(&[2, 3]), t.ints(&[2, 2], &[0, 0, 0, 3]), t.$make(&[2]), Update::Mul);
                "scatter_nd", "a negative coordinate":
                    $scatter(t.$make(&[2, 3]), t.ints(&[1, 1], &[-2]), t.$make(&[1, 3]), Update::Max);
            );
        };
    }
    nd!(f; float_gather_nd, float_scatter_nd);
    nd!(i; int_gather_nd, int_scatter_nd);

    calls!(list, t,
        "scatter", "values of another dtype": float_scatter_add(0, t.f(&[2]), t.i(&[2]), t.float(DType::F64, &[2]));
        "scatter", "values of another dtype": int_scatter_add(0, t.i(&[2]), t.i(&[2]), t.int(DType::I64, &[2], &[1]));
        "select", "values of another dtype": float_select_add(t.f(&[2]), 0, t.i(&[2]), t.float(DType::F16, &[2]));
        "select", "values of another dtype": int_select_add(t.i(&[2]), 0, t.i(&[2]), t.int(DType::U8, &[2], &[1]));
        "scatter_nd", "values of another dtype":
            float_scatter_nd(t.f(&[2]), t.i(&[2, 1]), t.float(DType::F64, &[2]), Update::Add);
        "embedding", "weights of one axis": embedding(t.f(&[6]), t.i(&[1, 2]));
        "embedding", "weights of three axes": embedding(t.f(&[2, 3, 4]), t.i(&[1, 2]));
        "embedding", "an index of the number of rows": embedding(t.f(&[4, 3]), t.ints(&[2, 2], &[0, 1, 2, 4]));
        "embedding", "a negative index": embedding(t.f(&[4, 3]), t.ints(&[1, 2], &[-1, 0]));
        "embedding", "an index into no rows": embedding(t.f(&[0, 3]), t.i(&[1, 2]));
        "embedding_backward", "weights of one axis": embedding_backward(t.f(&[6]), t.f(&[1, 2, 6]), t.i(&[1, 2]));
        "embedding_backward", "a gradient of another width":
            embedding_backward(t.f(&[4, 3]), t.f(&[1, 2, 4]), t.i(&[1, 2]));
        "embedding_backward", "a gradient for other indices":
            embedding_backward(t.f(&[4, 3]), t.f(&[2, 2, 3]), t.i(&[1, 2]));
        "embedding_backward", "an index of the number of rows":
            embedding_backward(t.f(&[4, 3]), t.f(&[1, 2, 3]), t.ints(&[1, 2], &[0, 4]));
        "embedding_backward", "a negative index":
            embedding_backward(t.f(&[4, 3]), t.f(&[1, 2, 3]), t.ints(&[1, 2], &[0, -4]));
    );
    // Asynchronous: the future has to be waited for.
    list.push(BadCall::new("nonzero", "bool_argwhere", "an index dtype too narrow for the axis", |t| {
        drop(block_on(B::bool_argwhere(t.b(&[300]), IntDType::I8)));
    }));
    list
}
