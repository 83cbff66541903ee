//! Operations behind neural-network modules: embedding, linear, convolution, pooling, resampling, attention,
//! normalisation, CTC and Fourier transforms.

macro_rules! module_ops {
    () => {
        ops! {
            embedding(weights: T, indices: T) => index::embedding(weights.0, indices.0);
            embedding_backward(weights: T, output_grad: T, indices: T) =>
                index::embedding_backward(weights.0, output_grad.0, indices.0);
            linear(x: T, weight: T, bias: Option<T>) => matmul::linear(x.0, weight.0, optional(bias));
            linear_x_backward(weight: T, output_grad: T) => matmul::linear_x_backward(weight.0, output_grad.0);
            linear_weight_backward(x: T, output_grad: T) => matmul::linear_weight_backward(x.0, output_grad.0);
            linear_bias_backward(output_grad: T) => matmul::linear_bias_backward(output_grad.0);
            layer_norm(tensor: T, gamma: T, beta: Option<T>, epsilon: f64) =>
                norm::layer_norm(tensor.0, gamma.0, optional(beta), epsilon);
            attention(query: T, key: T, value: T, mask: Option<T>, attn_bias: Option<T>, options: AttentionModuleOptions) =>
                attention::attention(
                    query.0, key.0, value.0, optional(mask), optional(attn_bias), attention_options(options),
                );
        }

        // Convolution.
        ops! {
            conv1d(x: T, weight: T, bias: Option<T>, options: ConvOptions<1>) =>
                options::conv(x.0, weight.0, optional(bias), options);
            conv1d_x_backward(x: T, weight: T, output_grad: T, options: ConvOptions<1>) =>
                options::conv_x_backward(x.0, weight.0, output_grad.0, options);
            conv1d_weight_backward(x: T, weight: T, output_grad: T, options: ConvOptions<1>) =>
                options::conv_weight_backward(x.0, weight.0, output_grad.0, options);
            conv1d_bias_backward(_x: T, bias: T, output_grad: T) => conv::conv_bias_backward::<1>(bias.0, output_grad.0);

            conv2d(x: T, weight: T, bias: Option<T>, options: ConvOptions<2>) =>
                options::conv(x.0, weight.0, optional(bias), options);
            conv2d_x_backward(x: T, weight: T, output_grad: T, options: ConvOptions<2>) =>
                options::conv_x_backward(x.0, weight.0, output_grad.0, options);
            conv2d_weight_backward(x: T, weight: T, output_grad: T, options: ConvOptions<2>) =>
                options::conv_weight_backward(x.0, weight.0, output_grad.0, options);
            conv2d_bias_backward(_x: T, bias: T, output_grad: T) => conv::conv_bias_backward::<2>(bias.0, output_grad.0);

            conv3d(x: T, weight: T, bias: Option<T>, options: ConvOptions<3>) =>
                options::conv(x.0, weight.0, optional(bias), options);
            conv3d_x_backward(x: T, weight: T, output_grad: T, options: ConvOptions<3>) =>
                options::conv_x_backward(x.0, weight.0, output_grad.0, options);
            conv3d_weight_backward(x: T, weight: T, output_grad: T, options: ConvOptions<3>) =>
                options::conv_weight_backward(x.0, weight.0, output_grad.0, options);
            conv3d_bias_backward(_x: T, bias: T, output_grad: T) => conv::conv_bias_backward::<3>(bias.0, output_grad.0);

            unfold4d(x: T, kernel_size: [usize; 2], options: UnfoldOptions) =>
                conv::unfold4d(x.0, kernel_size, &unfold_options(options));
        }

        // Transposed convolution.
        ops! {
            conv_transpose1d(x: T, weight: T, bias: Option<T>, options: ConvTransposeOptions<1>) =>
                conv::conv_transpose(x.0, weight.0, optional(bias), &conv_transpose_options(options));
            conv_transpose1d_x_backward(weight: T, output_grad: T, options: ConvTransposeOptions<1>) =>
                conv::conv_transpose_x_backward(weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose1d_weight_backward(x: T, weight: T, output_grad: T, options: ConvTransposeOptions<1>) =>
                conv::conv_transpose_weight_backward(x.0, weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose1d_bias_backward(_x: T, bias: T, output_grad: T) =>
                conv::conv_bias_backward::<1>(bias.0, output_grad.0);

            conv_transpose2d(x: T, weight: T, bias: Option<T>, options: ConvTransposeOptions<2>) =>
                conv::conv_transpose(x.0, weight.0, optional(bias), &conv_transpose_options(options));
            conv_transpose2d_x_backward(weight: T, output_grad: T, options: ConvTransposeOptions<2>) =>
                conv::conv_transpose_x_backward(weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose2d_weight_backward(x: T, weight: T, output_grad: T, options: ConvTransposeOptions<2>) =>
                conv::conv_transpose_weight_backward(x.0, weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose2d_bias_backward(_x: T, bias: T, output_grad: T) =>
                conv::conv_bias_backward::<2>(bias.0, output_grad.0);

            conv_transpose3d(x: T, weight: T, bias: Option<T>, options: ConvTransposeOptions<3>) =>
                conv::conv_transpose(x.0, weight.0, optional(bias), &conv_transpose_options(options));
            conv_transpose3d_x_backward(weight: T, output_grad: T, options: ConvTransposeOptions<3>) =>
                conv::conv_transpose_x_backward(weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose3d_weight_backward(x: T, weight: T, output_grad: T, options: ConvTransposeOptions<3>) =>
                conv::conv_transpose_weight_backward(x.0, weight.0, output_grad.0, &conv_transpose_options(options));
            conv_transpose3d_bias_backward(_x: T, bias: T, output_grad: T) =>
                conv::conv_bias_backward::<3>(bias.0, output_grad.0);
        }

        // Deformable convolution.
        ops! {
            deform_conv2d(
                x: T, offset: T, weight: T, mask: Option<T>, bias: Option<T>, options: DeformConvOptions<2>,
            ) => conv::deform_conv2d(
                x.0, offset.0, weight.0, optional(mask), optional(bias), &deform_conv_options(options),
            );
        }

        fn deform_conv2d_backward(
            x: T,
            offset: T,
            weight: T,
            mask: Option<T>,
            bias: Option<T>,
            output_grad: T,
            options: DeformConvOptions<2>,
        ) -> DeformConv2dBackward<Self> {
            let (mask, bias, options) = (optional(mask), optional(bias), deform_conv_options(options));
            let grads =
                conv::deform_conv2d_backward(x.0, offset.0, weight.0, mask, bias, output_grad.0, &options)
                    .or_panic();
            DeformConv2dBackward {
                x_grad: T(grads.x),
                offset_grad: T(grads.offset),
                weight_grad: T(grads.weight),
                mask_grad: grads.mask.map(T),
                bias_grad: grads.bias.map(T),
            }
        }

        // Average pooling.
        ops! {
            avg_pool1d(x: T, kernel: usize, stride: usize, padding: usize, count_include_pad: bool, ceil_mode: bool) =>
                pool::avg_pool(x.0, &convert::avg_pool_options([kernel], [stride], [padding], count_include_pad, ceil_mode));
            avg_pool1d_backward(
                x: T, grad: T, kernel: usize, stride: usize, padding: usize, count_include_pad: bool, ceil_mode: bool,
            ) => pool::avg_pool_backward(x.0, grad.0, &convert::avg_pool_options([kernel], [stride], [padding], count_include_pad, ceil_mode));
            avg_pool2d(
                x: T, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], count_include_pad: bool, ceil_mode: bool,
            ) => pool::avg_pool(x.0, &convert::avg_pool_options(kernel, stride, padding, count_include_pad, ceil_mode));
            avg_pool2d_backward(
                x: T, grad: T, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], count_include_pad: bool,
                ceil_mode: bool,
            ) => pool::avg_pool_backward(x.0, grad.0, &convert::avg_pool_options(kernel, stride, padding, count_include_pad, ceil_mode));
            adaptive_avg_pool1d(x: T, output_size: usize) => pool::adaptive_avg_pool(x.0, [output_size]);
            adaptive_avg_pool1d_backward(x: T, grad: T) => pool::adaptive_avg_pool_backward::<1>(x.0, grad.0);
            adaptive_avg_pool2d(x: T, output_size: [usize; 2]) => pool::adaptive_avg_pool(x.0, output_size);
            adaptive_avg_pool2d_backward(x: T, grad: T) => pool::adaptive_avg_pool_backward::<2>(x.0, grad.0);
        }

        // Max pooling.
        ops! {
            max_pool1d(x: T, kernel: usize, stride: usize, padding: usize, dilation: usize, ceil_mode: bool) =>
                pool::max_pool(x.0, &convert::max_pool_options([kernel], [stride], [padding], [dilation], ceil_mode));
            max_pool2d(
                x: T, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil_mode: bool,
            ) => pool::max_pool(x.0, &convert::max_pool_options(kernel, stride, padding, dilation, ceil_mode));
        }

        fn max_pool1d_with_indices_backward(
            x: T,
            kernel: usize,
            stride: usize,
            padding: usize,
            dilation: usize,
            ceil_mode: bool,
            output_grad: T,
            indices: T,
        ) -> MaxPool1dBackward<Self> {
            let options = convert::max_pool_options([kernel], [stride], [padding], [dilation], ceil_mode);
            let x_grad = pool::max_pool_backward(x.0, output_grad.0, indices.0, &options).or_panic();
            MaxPool1dBackward { x_grad }
        }

        fn max_pool2d_with_indices_backward(
            x: T,
            kernel: [usize; 2],
            stride: [usize; 2],
            padding: [usize; 2],
            dilation: [usize; 2],
            ceil_mode: bool,
            output_grad: T,
            indices: T,
        ) -> MaxPool2dBackward<Self> {
            let options = convert::max_pool_options(kernel, stride, padding, dilation, ceil_mode);
            let x_grad = pool::max_pool_backward(x.0, output_grad.0, indices.0, &options).or_panic();
            MaxPool2dBackward { x_grad }
        }

        // Resampling.
        ops! {
            interpolate(x: T, output_size: [usize; 2], options: InterpolateOptions) =>
                vision::interpolate(x.0, output_size, interpolation(options.mode), options.align_corners);
            interpolate_backward(x: T, grad: T, output_size: [usize; 2], options: InterpolateOptions) =>
                vision::interpolate_backward(x.0, grad.0, output_size, interpolation(options.mode), options.align_corners);
        }

        // Connectionist temporal classification.
        fn has_ctc_loss_backward() -> bool {
            true
        }

        ops! {
            ctc_loss(log_probs: T, targets: T, input_lengths: T, target_lengths: T, blank: usize) =>
                loss::ctc_loss(log_probs.0, targets.0, input_lengths.0, target_lengths.0, blank);
            ctc_loss_backward(
                log_probs: T, targets: T, input_lengths: T, target_lengths: T, grad_loss: T, blank: usize,
            ) => loss::ctc_loss_backward(
                log_probs.0, targets.0, input_lengths.0, target_lengths.0, grad_loss.0, blank,
            );
        }
    };
}
