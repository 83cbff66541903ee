//! The traits of operations, with the methods that other releases do not share.

use super::backend::Flex;
use super::burn_backend::ops::{
    ActivationOps, BatchNormTrain, BatchNormTrainBackward, BoolTensorOps, FloatTensorOps, IntTensorOps,
    ModuleOps, QTensorOps,
};
use super::vocabulary::*;

impl FloatTensorOps<Self> for Flex {
    float_ops! {}

    ops! {
        float_scatter(dim: usize, tensor: T, indices: T, value: T, op: IndexingUpdateOp) =>
            index::scatter(dim, tensor.0, indices.0, value.0, update(op));
        float_select_assign(tensor: T, dim: usize, indices: T, value: T, op: IndexingUpdateOp) =>
            index::select_update(tensor.0, dim, indices.0, value.0, update(op));
        float_sum_dims(tensor: T, dims: &[usize]) => reduce::sum_dims(tensor.0, dims);
        float_hypot(lhs: T, rhs: T) => binary(B::Hypot, lhs.0, rhs.0);
    }

    async fn float_mask_select(tensor: T, mask: T) -> T {
        index::mask_select(tensor.0, mask.0).or_panic()
    }

    fn float_topk_with_indices(tensor: T, dim: usize, k: usize, out_dtype: IntDType) -> (T, T) {
        sort::topk_with_indices(tensor.0, dim, k, dtype::int(out_dtype)).or_panic()
    }
}

impl IntTensorOps<Self> for Flex {
    int_ops! {}

    ops! {
        int_scatter(dim: usize, tensor: T, indices: T, value: T, op: IndexingUpdateOp) =>
            index::scatter(dim, tensor.0, indices.0, value.0, update(op));
        int_select_assign(tensor: T, dim: usize, indices: T, value: T, op: IndexingUpdateOp) =>
            index::select_update(tensor.0, dim, indices.0, value.0, update(op));
    }

    async fn int_mask_select(tensor: T, mask: T) -> T {
        index::mask_select(tensor.0, mask.0).or_panic()
    }

    fn int_topk_with_indices(tensor: T, dim: usize, k: usize) -> (T, T) {
        let dtype = axis_index_dtype(&tensor, dim);
        sort::topk_with_indices(tensor.0, dim, k, dtype).or_panic()
    }
}

impl BoolTensorOps<Self> for Flex {
    bool_ops! {}

    async fn bool_mask_select(tensor: T, mask: T) -> T {
        index::mask_select(tensor.0, mask.0).or_panic()
    }
}

impl ActivationOps<Self> for Flex {
    activation_ops! {}
}

impl QTensorOps<Self> for Flex {
    quantized_ops! {}

    fn q_topk_with_indices(tensor: Q, dim: usize, k: usize, out_dtype: IntDType) -> (Q, T) {
        let pick = |t| sort::argtopk(t, dim, k, dtype::int(out_dtype));
        quantized_ops::by_index("topk_with_indices", tensor.into_core(), dim, pick).or_panic()
    }
}

impl ModuleOps<Self> for Flex {
    module_ops! {}

    ops! {
        fold4d(x: T, output_size: [usize; 2], kernel_size: [usize; 2], options: UnfoldOptions) =>
            conv::fold4d(x.0, output_size, kernel_size, &unfold_options(options));
        adaptive_avg_pool3d(x: T, output_size: [usize; 3]) => pool::adaptive_avg_pool3d(x.0, output_size);
        adaptive_avg_pool3d_backward(x: T, grad: T) => pool::adaptive_avg_pool3d_backward(x.0, grad.0);
        batch_norm(x: T, gamma: T, beta: T, mean: T, variance: T, epsilon: f64) =>
            norm::batch_norm(x.0, gamma.0, beta.0, mean.0, variance.0, epsilon);
    }

    fn batch_norm_train(x: T, gamma: T, beta: T, epsilon: f64) -> BatchNormTrain<Self> {
        let (output, mean, variance) = norm::batch_norm_train(x.0, gamma.0, beta.0, epsilon).or_panic();
        BatchNormTrain { output, mean, variance }
    }

    fn batch_norm_train_backward(
        x: T,
        gamma: T,
        mean: T,
        variance: T,
        epsilon: f64,
        grad: T,
    ) -> BatchNormTrainBackward<Self> {
        let (x_grad, gamma_grad, beta_grad) =
            norm::batch_norm_train_backward(x.0, gamma.0, mean.0, variance.0, epsilon, grad.0).or_panic();
        BatchNormTrainBackward { x_grad, gamma_grad, beta_grad }
    }

    fn max_pool1d_with_indices(
        x: T,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool1dWithIndices<Self> {
        let options = convert::max_pool_options([kernel], [stride], [padding], [dilation], ceil_mode);
        let (output, indices) =
            pool::max_pool_with_indices(x.0, &options, dtype::int(indices_dtype)).or_panic();
        MaxPool1dWithIndices { output, indices }
    }

    fn max_pool2d_with_indices(
        x: T,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Self> {
        let options = convert::max_pool_options(kernel, stride, padding, dilation, ceil_mode);
        let (output, indices) =
            pool::max_pool_with_indices(x.0, &options, dtype::int(indices_dtype)).or_panic();
        MaxPool2dWithIndices { output, indices }
    }
}
