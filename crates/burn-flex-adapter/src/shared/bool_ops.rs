//! Operations on bool tensors. Results are stored like their input unless the trait names a dtype.

macro_rules! bool_ops {
    () => {
        // Creation and conversion.
        ops! {
            bool_empty(shape: Shape, _device: &FlexDevice, dtype: BoolDType) =>
                Tensor::empty(shape, dtype::created("empty", DType::Bool(dtype)));
            bool_zeros(shape: Shape, _device: &FlexDevice, dtype: BoolDType) => convert::full_bools(shape, false, dtype);
            bool_ones(shape: Shape, _device: &FlexDevice, dtype: BoolDType) => convert::full_bools(shape, true, dtype);
            bool_into_int(tensor: T, out_dtype: IntDType) => elementwise::cast(tensor.0, dtype::int(out_dtype));
            bool_into_float(tensor: T, out_dtype: FloatDType) =>
                elementwise::cast(tensor.0, dtype::float("cast", out_dtype));
        }

        fn bool_from_data(data: TensorData, _device: &FlexDevice) -> T {
            from_data(data, "bool_from_data", "a bool dtype", |dtype| dtype.is_bool()).or_panic()
        }

        async fn bool_into_data(tensor: T) -> core::result::Result<TensorData, ExecutionError> {
            into_data(tensor)
        }

        fn bool_to_device(tensor: T, _device: &FlexDevice) -> T {
            tensor
        }

        // Views.
        ops! {
            bool_reshape(tensor: T, shape: Shape) => movement::reshape(tensor.0, shape.into());
            bool_slice(tensor: T, slices: &[Slice]) => tensor.0.slice(&convert::slices(slices));
            bool_transpose(tensor: T) => transpose(tensor);
            bool_swap_dims(tensor: T, dim1: usize, dim2: usize) => tensor.0.swap_axes(dim1, dim2);
            bool_permute(tensor: T, axes: &[usize]) => tensor.0.permute(axes);
            bool_flip(tensor: T, axes: &[usize]) => tensor.0.flip(axes);
            bool_expand(tensor: T, shape: Shape) => tensor.0.expand(&shape);
            bool_unfold(tensor: T, dim: usize, size: usize, step: usize) => tensor.0.unfold(dim, size, step);
        }

        // Movement and indexing.
        ops! {
            bool_cat(tensors: Vec<T>, dim: usize) => movement::cat(inner(tensors), dim);
            bool_repeat_dim(tensor: T, dim: usize, times: usize) => movement::repeat(tensor.0, dim, times);
            bool_slice_assign(tensor: T, slices: &[Slice], value: T) =>
                movement::slice_assign(tensor.0, &convert::slices(slices), value.0);
            bool_mask_where(tensor: T, mask: T, value: T) => elementwise::mask_where(tensor.0, mask.0, value.0);
            bool_mask_fill(tensor: T, mask: T, value: Scalar) =>
                elementwise::mask_fill(tensor.0, mask.0, flex_core::Scalar::Bool(convert::truth(value)));
            bool_gather(dim: usize, tensor: T, indices: T) => index::gather(dim, tensor.0, indices.0);
            bool_scatter_or(dim: usize, tensor: T, indices: T, value: T) =>
                index::scatter(dim, tensor.0, indices.0, value.0, Update::Or);
            bool_select(tensor: T, dim: usize, indices: T) => index::select(tensor.0, dim, indices.0);
            bool_select_or(tensor: T, dim: usize, indices: T, value: T) =>
                index::select_update(tensor.0, dim, indices.0, value.0, Update::Or);
        }

        async fn bool_argwhere(tensor: T, out_dtype: IntDType) -> T {
            index::nonzero(tensor.0, dtype::int(out_dtype)).or_panic()
        }

        // Logic.
        ops! {
            bool_not(tensor: T) => logical_not(tensor.0);
            bool_and(lhs: T, rhs: T) => logical(Logical::And, lhs.0, rhs.0);
            bool_or(lhs: T, rhs: T) => logical(Logical::Or, lhs.0, rhs.0);
            bool_xor(lhs: T, rhs: T) => logical(Logical::Xor, lhs.0, rhs.0);
            bool_equal(lhs: T, rhs: T) => { let store = store_of(&lhs); compare(C::Eq, lhs.0, rhs.0, store) };
            bool_not_equal(lhs: T, rhs: T) => { let store = store_of(&lhs); compare(C::Ne, lhs.0, rhs.0, store) };
            bool_equal_elem(lhs: T, rhs: Scalar) => if convert::truth(rhs) { Ok(lhs.0) } else { logical_not(lhs.0) };
            bool_not_equal_elem(lhs: T, rhs: Scalar) => if convert::truth(rhs) { logical_not(lhs.0) } else { Ok(lhs.0) };
            bool_any(tensor: T) => { let store = store_of(&tensor); reduce::any(tensor.0, store) };
            bool_any_dim(tensor: T, dim: usize) => { let store = store_of(&tensor); reduce::any_dim(tensor.0, dim, store) };
            bool_all(tensor: T) => { let store = store_of(&tensor); reduce::all(tensor.0, store) };
            bool_all_dim(tensor: T, dim: usize) => { let store = store_of(&tensor); reduce::all_dim(tensor.0, dim, store) };
        }
    };
}
