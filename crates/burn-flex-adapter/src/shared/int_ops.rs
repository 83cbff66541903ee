//! Operations on integer tensors. Arithmetic wraps as two's complement.
//!
//! If the trait names no dtype for indices (`int_argmax`, `int_argsort`, ...), they have the tensor's dtype,
//! as in the trait's own defaults, unless it is too narrow for the axis.

macro_rules! int_ops {
    () => {
        // Creation and conversion.
        ops! {
            int_empty(shape: Shape, _device: &FlexDevice, dtype: IntDType) => Tensor::empty(shape, dtype::int(dtype));
            int_zeros(shape: Shape, _device: &FlexDevice, dtype: IntDType) => elementwise::full(shape, 0, dtype::int(dtype));
            int_ones(shape: Shape, _device: &FlexDevice, dtype: IntDType) => elementwise::full(shape, 1, dtype::int(dtype));
            int_full(shape: Shape, fill_value: Scalar, _device: &FlexDevice, dtype: IntDType) =>
                elementwise::full(shape, scalar(fill_value), dtype::int(dtype));
            int_arange(range: Range<i64>, _device: &FlexDevice, dtype: IntDType) =>
                movement::arange(range.start, range.end, 1, dtype::int(dtype));
            int_arange_step(range: Range<i64>, step: usize, _device: &FlexDevice, dtype: IntDType) =>
                movement::arange(range.start, range.end, step, dtype::int(dtype));
            int_cast(tensor: T, dtype: IntDType) => cast(tensor.0, dtype::int(dtype));
            int_into_float(tensor: T, out_dtype: FloatDType) => cast(tensor.0, dtype::float("cast", out_dtype));
        }

        fn int_from_data(data: TensorData, _device: &FlexDevice) -> T {
            from_data(data, "int_from_data", "an integer dtype", |dtype| dtype.is_int() || dtype.is_uint())
                .or_panic()
        }

        async fn int_into_data(tensor: T) -> core::result::Result<TensorData, ExecutionError> {
            into_data(tensor)
        }

        fn int_random(shape: Shape, distribution: Distribution, _device: &FlexDevice, dtype: IntDType) -> T {
            random::int(shape, distribution, dtype)
        }

        fn int_to_device(tensor: T, _device: &FlexDevice) -> T {
            tensor
        }

        // Views.
        ops! {
            int_reshape(tensor: T, shape: Shape) => movement::reshape(tensor.0, shape.into());
            int_slice(tensor: T, slices: &[Slice]) => tensor.0.slice(&convert::slices(slices));
            int_transpose(tensor: T) => transpose(tensor);
            int_swap_dims(tensor: T, dim1: usize, dim2: usize) => tensor.0.swap_axes(dim1, dim2);
            int_permute(tensor: T, axes: &[usize]) => tensor.0.permute(axes);
            int_flip(tensor: T, axes: &[usize]) => tensor.0.flip(axes);
            int_expand(tensor: T, shape: Shape) => tensor.0.expand(&shape);
            int_unfold(tensor: T, dim: usize, size: usize, step: usize) => tensor.0.unfold(dim, size, step);
        }

        // Movement and indexing.
        ops! {
            int_cat(tensors: Vec<T>, dim: usize) => movement::cat(inner(tensors), dim);
            int_repeat_dim(tensor: T, dim: usize, times: usize) => movement::repeat(tensor.0, dim, times);
            int_slice_assign(tensor: T, slices: &[Slice], value: T) =>
                movement::slice_assign(tensor.0, &convert::slices(slices), value.0);
            int_mask_where(tensor: T, mask: T, value: T) => elementwise::mask_where(tensor.0, mask.0, value.0);
            int_mask_fill(tensor: T, mask: T, value: Scalar) => elementwise::mask_fill(tensor.0, mask.0, scalar(value));
            int_gather(dim: usize, tensor: T, indices: T) => index::gather(dim, tensor.0, indices.0);
            int_gather_nd(data: T, indices: T) => index::gather_nd(data.0, indices.0);
            int_scatter_nd(data: T, indices: T, values: T, reduction: IndexingUpdateOp) =>
                index::scatter_nd(data.0, indices.0, values.0, update(reduction));
            int_select(tensor: T, dim: usize, indices: T) => index::select(tensor.0, dim, indices.0);
        }

        // Arithmetic.
        ops! {
            int_add(lhs: T, rhs: T) => binary(B::Add, lhs.0, rhs.0);
            int_add_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Add, lhs.0, scalar(rhs));
            int_sub(lhs: T, rhs: T) => binary(B::Sub, lhs.0, rhs.0);
            int_sub_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Sub, lhs.0, scalar(rhs));
            int_mul(lhs: T, rhs: T) => binary(B::Mul, lhs.0, rhs.0);
            int_mul_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Mul, lhs.0, scalar(rhs));
            int_div(lhs: T, rhs: T) => binary(B::Div, lhs.0, rhs.0);
            int_div_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Div, lhs.0, scalar(rhs));
            int_remainder(lhs: T, rhs: T) => binary(B::Rem, lhs.0, rhs.0);
            int_remainder_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Rem, lhs.0, scalar(rhs));
            int_powi(lhs: T, rhs: T) => convert::powers(lhs.0, rhs.0);
            int_powi_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Pow, lhs.0, scalar(rhs));
            int_powi_scalar_impl(lhs: T, rhs: Scalar) => binary_scalar(B::Pow, lhs.0, scalar(rhs));
            int_clamp(tensor: T, min: Scalar, max: Scalar) =>
                elementwise::clamp(tensor.0, Some(scalar(min)), Some(scalar(max)));
            int_clamp_min(tensor: T, min: Scalar) => elementwise::clamp(tensor.0, Some(scalar(min)), None);
            int_clamp_max(tensor: T, max: Scalar) => elementwise::clamp(tensor.0, None, Some(scalar(max)));
            int_matmul(lhs: T, rhs: T) => matmul::int_matmul(lhs.0, rhs.0);
            int_abs(tensor: T) => unary(U::Abs, tensor.0);
            int_neg(tensor: T) => unary(U::Neg, tensor.0);
            int_sign(tensor: T) => unary(U::Sign, tensor.0);
        }

        // Bits.
        ops! {
            bitwise_and(lhs: T, rhs: T) => binary(B::BitAnd, lhs.0, rhs.0);
            bitwise_and_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::BitAnd, lhs.0, scalar(rhs));
            bitwise_or(lhs: T, rhs: T) => binary(B::BitOr, lhs.0, rhs.0);
            bitwise_or_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::BitOr, lhs.0, scalar(rhs));
            bitwise_xor(lhs: T, rhs: T) => binary(B::BitXor, lhs.0, rhs.0);
            bitwise_xor_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::BitXor, lhs.0, scalar(rhs));
            bitwise_not(tensor: T) => unary(U::BitNot, tensor.0);
            bitwise_left_shift(lhs: T, rhs: T) => binary(B::Shl, lhs.0, rhs.0);
            bitwise_left_shift_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Shl, lhs.0, scalar(rhs));
            bitwise_right_shift(lhs: T, rhs: T) => binary(B::Shr, lhs.0, rhs.0);
            bitwise_right_shift_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Shr, lhs.0, scalar(rhs));
        }

        // Comparison.
        ops! {
            int_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Eq, lhs.0, rhs.0, dtype::mask("equal", out_dtype));
            int_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Eq, lhs.0, scalar(rhs), dtype::mask("equal", out_dtype));
            int_not_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Ne, lhs.0, rhs.0, dtype::mask("not_equal", out_dtype));
            int_not_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Ne, lhs.0, scalar(rhs), dtype::mask("not_equal", out_dtype));
            int_greater(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Gt, lhs.0, rhs.0, dtype::mask("greater", out_dtype));
            int_greater_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Gt, lhs.0, scalar(rhs), dtype::mask("greater", out_dtype));
            int_greater_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Ge, lhs.0, rhs.0, dtype::mask("greater_equal", out_dtype));
            int_greater_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Ge, lhs.0, scalar(rhs), dtype::mask("greater_equal", out_dtype));
            int_lower(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Lt, lhs.0, rhs.0, dtype::mask("lower", out_dtype));
            int_lower_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Lt, lhs.0, scalar(rhs), dtype::mask("lower", out_dtype));
            int_lower_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Le, lhs.0, rhs.0, dtype::mask("lower_equal", out_dtype));
            int_lower_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Le, lhs.0, scalar(rhs), dtype::mask("lower_equal", out_dtype));
        }

        // Reductions and scans.
        ops! {
            int_sum(tensor: T) => reduce::sum(tensor.0);
            int_sum_dim(tensor: T, dim: usize) => reduce::sum_dim(tensor.0, dim);
            int_prod(tensor: T) => reduce::prod(tensor.0);
            int_prod_dim(tensor: T, dim: usize) => reduce::prod_dim(tensor.0, dim);
            int_mean(tensor: T) => reduce::mean(tensor.0);
            int_mean_dim(tensor: T, dim: usize) => reduce::mean_dim(tensor.0, dim);
            int_max(tensor: T) => reduce::max(tensor.0);
            int_max_dim(tensor: T, dim: usize) => reduce::max_dim(tensor.0, dim);
            int_min(tensor: T) => reduce::min(tensor.0);
            int_min_dim(tensor: T, dim: usize) => reduce::min_dim(tensor.0, dim);
            int_max_abs(tensor: T) => reduce::max_abs(tensor.0);
            int_max_abs_dim(tensor: T, dim: usize) => reduce::max_abs_dim(tensor.0, dim);
            int_argmax(tensor: T, dim: usize) => {
                let dtype = axis_index_dtype(&tensor, dim);
                reduce::argmax(tensor.0, dim, dtype)
            };
            int_argmin(tensor: T, dim: usize) => {
                let dtype = axis_index_dtype(&tensor, dim);
                reduce::argmin(tensor.0, dim, dtype)
            };
            int_any(tensor: T, out_dtype: BoolDType) => reduce::any(tensor.0, dtype::truth("any", out_dtype));
            int_any_dim(tensor: T, dim: usize, out_dtype: BoolDType) =>
                reduce::any_dim(tensor.0, dim, dtype::truth("any_dim", out_dtype));
            int_all(tensor: T, out_dtype: BoolDType) => reduce::all(tensor.0, dtype::truth("all", out_dtype));
            int_all_dim(tensor: T, dim: usize, out_dtype: BoolDType) =>
                reduce::all_dim(tensor.0, dim, dtype::truth("all_dim", out_dtype));
            int_cumsum(tensor: T, dim: usize) => reduce::cumsum(tensor.0, dim);
            int_cumprod(tensor: T, dim: usize) => reduce::cumprod(tensor.0, dim);
            int_cummin(tensor: T, dim: usize) => reduce::cummin(tensor.0, dim);
            int_cummax(tensor: T, dim: usize) => reduce::cummax(tensor.0, dim);
        }

        fn int_max_dim_with_indices(tensor: T, dim: usize) -> (T, T) {
            let dtype = axis_index_dtype(&tensor, dim);
            reduce::max_dim_with_indices(tensor.0, dim, dtype).or_panic()
        }

        fn int_min_dim_with_indices(tensor: T, dim: usize) -> (T, T) {
            let dtype = axis_index_dtype(&tensor, dim);
            reduce::min_dim_with_indices(tensor.0, dim, dtype).or_panic()
        }

        // Order.
        ops! {
            int_sort(tensor: T, dim: usize, descending: bool) => sort::sort(tensor.0, dim, descending);
            int_argsort(tensor: T, dim: usize, descending: bool) => {
                let dtype = axis_index_dtype(&tensor, dim);
                sort::argsort(tensor.0, dim, descending, dtype)
            };
            int_topk(tensor: T, dim: usize, k: usize) => sort::topk(tensor.0, dim, k);
            int_argtopk(tensor: T, dim: usize, k: usize) => {
                let dtype = axis_index_dtype(&tensor, dim);
                sort::argtopk(tensor.0, dim, k, dtype)
            };
        }

        fn int_sort_with_indices(tensor: T, dim: usize, descending: bool) -> (T, T) {
            let dtype = axis_index_dtype(&tensor, dim);
            sort::sort_with_indices(tensor.0, dim, descending, dtype).or_panic()
        }
    };
}
