//! The GPU kernel, for every runtime of cubecl.

use crate::Scale;
use burn_backend::TensorMetadata;
use burn_backend::tensor::FloatTensor;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};
use cubecl::prelude::*;
use cubecl::std::tensor::layout::linear::LinearView;
use cubecl::{calculate_cube_count_elemwise, cube, tensor_vector_size_parallel};

/// Each invocation computes one vector. A linear view finds the vector in any layout of the tensor.
#[cube(launch, address_type = "dynamic")]
fn scale_kernel<F: Float, N: Size>(
    input: &LinearView<Vector<F, N>>,
    output: &mut LinearView<Vector<F, N>, ReadWrite>,
    alpha: InputScalar,
    #[define(F)] _dtype: StorageType,
) {
    // The number of invocations is rounded up to whole cubes, so the last invocations may have nothing to do.
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    output[ABSOLUTE_POS] = input[ABSOLUTE_POS] * Vector::new(alpha.get::<F>());
}

impl<R: CubeRuntime, F: FloatElement, I: IntElement, BT: BoolElement> Scale for CubeBackend<R, F, I, BT> {
    fn scale(tensor: FloatTensor<Self>, alpha: f32) -> FloatTensor<Self> {
        let (client, shape, dtype) = (tensor.client.clone(), tensor.shape(), tensor.dtype);
        let output: CubeTensor<R> = empty_device_dtype(client.clone(), tensor.device.clone(), shape, dtype);
        let elements = output.meta.num_elements();
        if elements == 0 {
            return output;
        }
        // Elements per load: neighbours in memory; 1 if the last axis is strided.
        let (loads, last) = (client.io_optimized_vector_sizes(dtype.size()), tensor.rank() - 1);
        let vector = tensor_vector_size_parallel(loads, tensor.meta.shape(), tensor.meta.strides(), last);
        let invocations = elements / vector as usize;
        let cube_dim = CubeDim::new(&client, invocations);
        let address = tensor.required_address_type().max(output.required_address_type());
        scale_kernel::launch::<R>(
            &client,
            calculate_cube_count_elemwise(&client, invocations, cube_dim),
            cube_dim,
            address,
            vector,
            tensor.into_linear_view(),
            output.clone().into_linear_view(),
            InputScalar::new(alpha, dtype),
            dtype.into(),
        );
        output
    }
}
