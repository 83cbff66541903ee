//! Operations that move elements: parts that do not fit together.

use super::{BadCall, calls};
use burn_backend::{Backend, DType, Shape, Slice};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    macro_rules! of_kind {
        ($make:ident, $value:expr; $cat:ident, $repeat:ident, $assign:ident, $mask_where:ident, $mask_fill:ident,
         $expand:ident) => {
            calls!(list, t,
                "cat", "no tensors": $cat(vec![], 0);
                "cat", "an axis out of range": $cat(vec![t.$make(&[2, 3]), t.$make(&[2, 3])], 2);
                "cat", "an axis out of range, of one tensor": $cat(vec![t.$make(&[2, 3])], usize::MAX);
                "cat", "scalars": $cat(vec![t.$make(&[]), t.$make(&[])], 0);
                "cat", "another size on another axis": $cat(vec![t.$make(&[2, 3]), t.$make(&[2, 4])], 0);
                "cat", "another rank": $cat(vec![t.$make(&[2, 3]), t.$make(&[3])], 0);
                "cat", "a third one that differs":
                    $cat(vec![t.$make(&[2, 3]), t.$make(&[4, 3]), t.$make(&[2, 2])], 0);
                "cat", "sizes whose sum overflows": $cat(
                    vec![B::$expand(t.$make(&[1]), Shape::new([1 << 59])); 16], 0);
                "repeat", "an axis out of range": $repeat(t.$make(&[2, 3]), 2, 2);
                "repeat", "a scalar": $repeat(t.$make(&[]), 0, 2);
                "repeat", "more elements than memory": $repeat(t.$make(&[2, 3]), 0, usize::MAX);
                "repeat", "a product that wraps to zero": $repeat(t.$make(&[4, 1]), 0, 1 << 62);
                "slice_assign", "a value of another shape":
                    $assign(t.$make(&[4, 5]), &[Slice::new(0, Some(2), 1)], t.$make(&[3, 5]));
                "slice_assign", "a value of another rank":
                    $assign(t.$make(&[4, 5]), &[Slice::new(0, Some(1), 1)], t.$make(&[5]));
                "slice_assign", "more slices than axes":
                    $assign(t.$make(&[4]), &[Slice::full(), Slice::full()], t.$make(&[4]));
                "slice_assign", "a value as large as the range before it is cut to the axis":
                    $assign(t.$make(&[4]), &[Slice::new(2, Some(6), 1)], t.$make(&[4]));
                "slice_assign", "a step of zero":
                    $assign(t.$make(&[4]), &[Slice { start: 0, end: None, step: 0 }], t.$make(&[4]));
                "mask_where", "a mask of another shape":
                    $mask_where(t.$make(&[2, 3]), t.b(&[2, 4]), t.$make(&[2, 3]));
                "mask_where", "a value of another shape":
                    $mask_where(t.$make(&[2, 3]), t.b(&[2, 3]), t.$make(&[3, 3]));
                "mask_fill", "a mask of another shape": $mask_fill(t.$make(&[2, 3]), t.b(&[3, 2]), $value.into());
            );
        };
    }
    of_kind!(f, 1.0; float_cat, float_repeat_dim, float_slice_assign, float_mask_where, float_mask_fill, float_expand);
    of_kind!(i, 1; int_cat, int_repeat_dim, int_slice_assign, int_mask_where, int_mask_fill, int_expand);
    of_kind!(b, true; bool_cat, bool_repeat_dim, bool_slice_assign, bool_mask_where, bool_mask_fill, bool_expand);
    calls!(list, t,
        "cat", "another dtype": float_cat(vec![t.f(&[2]), t.float(DType::F64, &[2])], 0);
        "cat", "another dtype": int_cat(vec![t.i(&[2]), t.int(DType::U32, &[2], &[1])], 0);
        "slice_assign", "a value of another dtype":
            float_slice_assign(t.f(&[4]), &[Slice::new(0, Some(2), 1)], t.float(DType::F16, &[2]));
        "slice_assign", "a value of another dtype":
            int_slice_assign(t.i(&[4]), &[Slice::new(0, Some(2), 1)], t.int(DType::I64, &[2], &[1]));
        "mask_where", "a value of another dtype":
            float_mask_where(t.f(&[2]), t.b(&[2]), t.float(DType::BF16, &[2]));
        "mask_where", "a value of another dtype":
            int_mask_where(t.i(&[2]), t.b(&[2]), t.int(DType::I8, &[2], &[1]));
    );
    list
}
