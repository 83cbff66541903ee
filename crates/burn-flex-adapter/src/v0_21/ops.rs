//! The traits of operations, with the methods that other releases do not share.

use super::backend::{Flex, FlexFloat, FlexInt};
use super::burn_backend::get_device_settings;
use super::burn_backend::ops::{
    ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps, ModuleOps, QTensorOps,
};
use super::vocabulary::*;
use flex_core::fft;

impl<F: FlexFloat, I: FlexInt> FloatTensorOps<Self> for Flex<F, I> {
    float_ops! {}

    ops! {
        float_scatter_add(dim: usize, tensor: T, indices: T, value: T) =>
            index::scatter(dim, tensor.0, indices.0, value.0, Update::Add);
        float_select_add(tensor: T, dim: usize, indices: T, value: T) =>
            index::select_update(tensor.0, dim, indices.0, value.0, Update::Add);
    }

    fn float_device(_tensor: &T) -> FlexDevice {
        FlexDevice
    }
}

impl<F: FlexFloat, I: FlexInt> IntTensorOps<Self> for Flex<F, I> {
    int_ops! {}

    ops! {
        int_scatter_add(dim: usize, tensor: T, indices: T, value: T) =>
            index::scatter(dim, tensor.0, indices.0, value.0, Update::Add);
        int_select_add(tensor: T, dim: usize, indices: T, value: T) =>
            index::select_update(tensor.0, dim, indices.0, value.0, Update::Add);
    }

    fn int_device(_tensor: &T) -> FlexDevice {
        FlexDevice
    }
}

impl<F: FlexFloat, I: FlexInt> BoolTensorOps<Self> for Flex<F, I> {
    bool_ops! {}

    fn bool_device(_tensor: &T) -> FlexDevice {
        FlexDevice
    }
}

impl<F: FlexFloat, I: FlexInt> ActivationOps<Self> for Flex<F, I> {
    activation_ops! {}
}

impl<F: FlexFloat, I: FlexInt> QTensorOps<Self> for Flex<F, I> {
    quantized_ops! {}

    fn q_device(_tensor: &Q) -> FlexDevice {
        FlexDevice
    }
}

impl<F: FlexFloat, I: FlexInt> ModuleOps<Self> for Flex<F, I> {
    module_ops! {}

    fn max_pool1d_with_indices(
        x: T,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
    ) -> MaxPool1dWithIndices<Self> {
        let dtype = pool_index_dtype::<F, I>(&x);
        let options = convert::max_pool_options([kernel], [stride], [padding], [dilation], ceil_mode);
        let (output, indices) = pool::max_pool_with_indices(x.0, &options, dtype).or_panic();
        MaxPool1dWithIndices { output, indices }
    }

    fn max_pool2d_with_indices(
        x: T,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> MaxPool2dWithIndices<Self> {
        let dtype = pool_index_dtype::<F, I>(&x);
        let options = convert::max_pool_options(kernel, stride, padding, dilation, ceil_mode);
        let (output, indices) = pool::max_pool_with_indices(x.0, &options, dtype).or_panic();
        MaxPool2dWithIndices { output, indices }
    }

    // Fourier transforms.
    fn rfft(signal: T, dim: usize, n: Option<usize>) -> (T, T) {
        fft::rfft(signal.0, dim, n).or_panic()
    }

    ops! {
        irfft(spectrum_re: T, spectrum_im: T, dim: usize, n: Option<usize>) =>
            fft::irfft(spectrum_re.0, spectrum_im.0, dim, n);
    }
}

/// Indices of max pooling address the flattened spatial axes. Their dtype is the device's default integer
/// dtype if it holds them.
fn pool_index_dtype<F: FlexFloat, I: FlexInt>(x: &T) -> flex_core::DType {
    let preferred = get_device_settings::<Flex<F, I>>(&FlexDevice).int_dtype;
    let spatial = x.0.shape().iter().skip(2).product();
    convert::index_dtype(dtype::int(preferred), spatial)
}
