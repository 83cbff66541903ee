//! Operations on float tensors.

macro_rules! float_ops {
    () => {
        // Creation and conversion.
        ops! {
            float_empty(shape: Shape, _device: &FlexDevice, dtype: FloatDType) =>
                Tensor::empty(shape, dtype::created("empty", dtype));
            float_zeros(shape: Shape, _device: &FlexDevice, dtype: FloatDType) =>
                elementwise::full(shape, 0.0, dtype::created("full", dtype));
            float_ones(shape: Shape, _device: &FlexDevice, dtype: FloatDType) =>
                elementwise::full(shape, 1.0, dtype::created("full", dtype));
            float_full(shape: Shape, fill_value: Scalar, _device: &FlexDevice, dtype: FloatDType) =>
                elementwise::full(shape, scalar(fill_value), dtype::created("full", dtype));
            float_cast(tensor: T, dtype: FloatDType) => cast(tensor.0, dtype::float("cast", dtype));
            float_into_int(tensor: T, out_dtype: IntDType) => cast(tensor.0, dtype::int(out_dtype));
        }

        fn float_from_data(data: TensorData, _device: &FlexDevice) -> T {
            from_data(data, "float_from_data", "a float dtype (f64, f32, f16, bf16)", |dtype| dtype.is_float())
                .or_panic()
        }

        async fn float_into_data(tensor: T) -> core::result::Result<TensorData, ExecutionError> {
            into_data(tensor)
        }

        fn float_random(shape: Shape, distribution: Distribution, _device: &FlexDevice, dtype: FloatDType) -> T {
            random::float(shape, distribution, dtype)
        }

        fn float_to_device(tensor: T, _device: &FlexDevice) -> T {
            tensor
        }

        // Views.
        ops! {
            float_reshape(tensor: T, shape: Shape) => movement::reshape(tensor.0, shape.into());
            float_slice(tensor: T, slices: &[Slice]) => tensor.0.slice(&convert::slices(slices));
            float_transpose(tensor: T) => transpose(tensor);
            float_swap_dims(tensor: T, dim1: usize, dim2: usize) => tensor.0.swap_axes(dim1, dim2);
            float_permute(tensor: T, axes: &[usize]) => tensor.0.permute(axes);
            float_flip(tensor: T, axes: &[usize]) => tensor.0.flip(axes);
            float_expand(tensor: T, shape: Shape) => tensor.0.expand(&shape);
            float_unfold(tensor: T, dim: usize, size: usize, step: usize) => tensor.0.unfold(dim, size, step);
        }

        // Movement and indexing.
        ops! {
            float_cat(tensors: Vec<T>, dim: usize) => movement::cat(inner(tensors), dim);
            float_repeat_dim(tensor: T, dim: usize, times: usize) => movement::repeat(tensor.0, dim, times);
            float_slice_assign(tensor: T, slices: &[Slice], value: T) =>
                movement::slice_assign(tensor.0, &convert::slices(slices), value.0);
            float_mask_where(tensor: T, mask: T, value: T) => elementwise::mask_where(tensor.0, mask.0, value.0);
            float_mask_fill(tensor: T, mask: T, value: Scalar) => elementwise::mask_fill(tensor.0, mask.0, scalar(value));
            float_gather(dim: usize, tensor: T, indices: T) => index::gather(dim, tensor.0, indices.0);
            float_gather_nd(data: T, indices: T) => index::gather_nd(data.0, indices.0);
            float_scatter_nd(data: T, indices: T, values: T, reduction: IndexingUpdateOp) =>
                index::scatter_nd(data.0, indices.0, values.0, update(reduction));
            float_select(tensor: T, dim: usize, indices: T) => index::select(tensor.0, dim, indices.0);
            float_grid_sample_2d(tensor: T, grid: T, options: GridSampleOptions) => vision::grid_sample(
                tensor.0, grid.0, interpolation(options.mode), grid_padding(options.padding_mode), options.align_corners,
            );
        }

        // Arithmetic.
        ops! {
            float_add(lhs: T, rhs: T) => binary(B::Add, lhs.0, rhs.0);
            float_add_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Add, lhs.0, scalar(rhs));
            float_sub(lhs: T, rhs: T) => binary(B::Sub, lhs.0, rhs.0);
            float_sub_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Sub, lhs.0, scalar(rhs));
            float_mul(lhs: T, rhs: T) => binary(B::Mul, lhs.0, rhs.0);
            float_mul_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Mul, lhs.0, scalar(rhs));
            float_div(lhs: T, rhs: T) => binary(B::Div, lhs.0, rhs.0);
            float_div_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Div, lhs.0, scalar(rhs));
            float_remainder(lhs: T, rhs: T) => binary(B::Rem, lhs.0, rhs.0);
            float_remainder_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Rem, lhs.0, scalar(rhs));
            float_powf(lhs: T, rhs: T) => binary(B::Pow, lhs.0, rhs.0);
            float_powf_scalar(tensor: T, value: Scalar) => binary_scalar(B::Pow, tensor.0, scalar(value));
            float_powf_scalar_impl(tensor: T, value: Scalar) => binary_scalar(B::Pow, tensor.0, scalar(value));
            float_powi(lhs: T, rhs: T) => convert::powers(lhs.0, rhs.0);
            float_powi_scalar(lhs: T, rhs: Scalar) => binary_scalar(B::Pow, lhs.0, rhs.elem::<i64>().into());
            float_powi_scalar_impl(lhs: T, rhs: Scalar) => binary_scalar(B::Pow, lhs.0, rhs.elem::<i64>().into());
            float_atan2(lhs: T, rhs: T) => binary(B::Atan2, lhs.0, rhs.0);
            float_clamp(tensor: T, min: Scalar, max: Scalar) =>
                elementwise::clamp(tensor.0, Some(scalar(min)), Some(scalar(max)));
            float_clamp_min(tensor: T, min: Scalar) => elementwise::clamp(tensor.0, Some(scalar(min)), None);
            float_clamp_max(tensor: T, max: Scalar) => elementwise::clamp(tensor.0, None, Some(scalar(max)));
            float_matmul(lhs: T, rhs: T) => matmul::float_matmul(lhs.0, rhs.0);
            float_cross(lhs: T, rhs: T, dim: usize) => matmul::cross(lhs.0, rhs.0, dim);
        }

        // Functions of one operand.
        ops! {
            float_abs(tensor: T) => unary(U::Abs, tensor.0);
            float_neg(tensor: T) => unary(U::Neg, tensor.0);
            float_sign(tensor: T) => unary(U::Sign, tensor.0);
            float_recip(tensor: T) => unary(U::Recip, tensor.0);
            float_sqrt(tensor: T) => unary(U::Sqrt, tensor.0);
            float_exp(tensor: T) => unary(U::Exp, tensor.0);
            float_log(tensor: T) => unary(U::Ln, tensor.0);
            float_log1p(tensor: T) => unary(U::Log1p, tensor.0);
            float_erf(tensor: T) => unary(U::Erf, tensor.0);
            float_sin(tensor: T) => unary(U::Sin, tensor.0);
            float_cos(tensor: T) => unary(U::Cos, tensor.0);
            float_tan(tensor: T) => unary(U::Tan, tensor.0);
            float_sinh(tensor: T) => unary(U::Sinh, tensor.0);
            float_cosh(tensor: T) => unary(U::Cosh, tensor.0);
            float_tanh(tensor: T) => unary(U::Tanh, tensor.0);
            float_asin(tensor: T) => unary(U::Asin, tensor.0);
            float_acos(tensor: T) => unary(U::Acos, tensor.0);
            float_atan(tensor: T) => unary(U::Atan, tensor.0);
            float_asinh(tensor: T) => unary(U::Asinh, tensor.0);
            float_acosh(tensor: T) => unary(U::Acosh, tensor.0);
            float_atanh(tensor: T) => unary(U::Atanh, tensor.0);
            float_round(tensor: T) => unary(U::Round, tensor.0);
            float_floor(tensor: T) => unary(U::Floor, tensor.0);
            float_ceil(tensor: T) => unary(U::Ceil, tensor.0);
            float_trunc(tensor: T) => unary(U::Trunc, tensor.0);
        }

        // Comparison.
        ops! {
            float_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Eq, lhs.0, rhs.0, dtype::mask("equal", out_dtype));
            float_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Eq, lhs.0, scalar(rhs), dtype::mask("equal", out_dtype));
            float_not_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Ne, lhs.0, rhs.0, dtype::mask("not_equal", out_dtype));
            float_not_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Ne, lhs.0, scalar(rhs), dtype::mask("not_equal", out_dtype));
            float_greater(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Gt, lhs.0, rhs.0, dtype::mask("greater", out_dtype));
            float_greater_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Gt, lhs.0, scalar(rhs), dtype::mask("greater", out_dtype));
            float_greater_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Ge, lhs.0, rhs.0, dtype::mask("greater_equal", out_dtype));
            float_greater_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Ge, lhs.0, scalar(rhs), dtype::mask("greater_equal", out_dtype));
            float_lower(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Lt, lhs.0, rhs.0, dtype::mask("lower", out_dtype));
            float_lower_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Lt, lhs.0, scalar(rhs), dtype::mask("lower", out_dtype));
            float_lower_equal(lhs: T, rhs: T, out_dtype: BoolDType) =>
                compare(C::Le, lhs.0, rhs.0, dtype::mask("lower_equal", out_dtype));
            float_lower_equal_elem(lhs: T, rhs: Scalar, out_dtype: BoolDType) =>
                compare_scalar(C::Le, lhs.0, scalar(rhs), dtype::mask("lower_equal", out_dtype));
            float_is_nan(tensor: T, out_dtype: BoolDType) =>
                elementwise::is_nan(tensor.0, dtype::mask("is_nan", out_dtype));
            float_is_inf(tensor: T, out_dtype: BoolDType) =>
                elementwise::is_inf(tensor.0, dtype::mask("is_inf", out_dtype));
        }

        // Reductions and scans.
        ops! {
            float_sum(tensor: T) => reduce::sum(tensor.0);
            float_sum_dim(tensor: T, dim: usize) => reduce::sum_dim(tensor.0, dim);
            float_prod(tensor: T) => reduce::prod(tensor.0);
            float_prod_dim(tensor: T, dim: usize) => reduce::prod_dim(tensor.0, dim);
            float_mean(tensor: T) => reduce::mean(tensor.0);
            float_mean_dim(tensor: T, dim: usize) => reduce::mean_dim(tensor.0, dim);
            float_max(tensor: T) => reduce::max(tensor.0);
            float_max_dim(tensor: T, dim: usize) => reduce::max_dim(tensor.0, dim);
            float_min(tensor: T) => reduce::min(tensor.0);
            float_min_dim(tensor: T, dim: usize) => reduce::min_dim(tensor.0, dim);
            float_max_abs(tensor: T) => reduce::max_abs(tensor.0);
            float_max_abs_dim(tensor: T, dim: usize) => reduce::max_abs_dim(tensor.0, dim);
            float_argmax(tensor: T, dim: usize, out_dtype: IntDType) =>
                reduce::argmax(tensor.0, dim, dtype::int(out_dtype));
            float_argmin(tensor: T, dim: usize, out_dtype: IntDType) =>
                reduce::argmin(tensor.0, dim, dtype::int(out_dtype));
            float_any(tensor: T, out_dtype: BoolDType) => reduce::any(tensor.0, dtype::truth("any", out_dtype));
            float_any_dim(tensor: T, dim: usize, out_dtype: BoolDType) =>
                reduce::any_dim(tensor.0, dim, dtype::truth("any_dim", out_dtype));
            float_all(tensor: T, out_dtype: BoolDType) => reduce::all(tensor.0, dtype::truth("all", out_dtype));
            float_all_dim(tensor: T, dim: usize, out_dtype: BoolDType) =>
                reduce::all_dim(tensor.0, dim, dtype::truth("all_dim", out_dtype));
            float_cumsum(tensor: T, dim: usize) => reduce::cumsum(tensor.0, dim);
            float_cumprod(tensor: T, dim: usize) => reduce::cumprod(tensor.0, dim);
            float_cummin(tensor: T, dim: usize) => reduce::cummin(tensor.0, dim);
            float_cummax(tensor: T, dim: usize) => reduce::cummax(tensor.0, dim);
        }

        fn float_max_dim_with_indices(tensor: T, dim: usize, indices_dtype: IntDType) -> (T, T) {
            reduce::max_dim_with_indices(tensor.0, dim, dtype::int(indices_dtype)).or_panic()
        }

        fn float_min_dim_with_indices(tensor: T, dim: usize, indices_dtype: IntDType) -> (T, T) {
            reduce::min_dim_with_indices(tensor.0, dim, dtype::int(indices_dtype)).or_panic()
        }

        // Order.
        ops! {
            float_sort(tensor: T, dim: usize, descending: bool) => sort::sort(tensor.0, dim, descending);
            float_argsort(tensor: T, dim: usize, descending: bool, out_dtype: IntDType) =>
                sort::argsort(tensor.0, dim, descending, dtype::int(out_dtype));
            float_topk(tensor: T, dim: usize, k: usize) => sort::topk(tensor.0, dim, k);
            float_argtopk(tensor: T, dim: usize, k: usize, out_dtype: IntDType) =>
                sort::argtopk(tensor.0, dim, k, dtype::int(out_dtype));
        }

        fn float_sort_with_indices(tensor: T, dim: usize, descending: bool, indices_dtype: IntDType) -> (T, T) {
            sort::sort_with_indices(tensor.0, dim, descending, dtype::int(indices_dtype)).or_panic()
        }
    };
}
