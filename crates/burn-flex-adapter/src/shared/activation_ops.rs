//! Activation functions and their gradients.

macro_rules! activation_ops {
    () => {
        ops! {
            relu(tensor: T) => unary(U::Relu, tensor.0);
            relu_backward(output: T, grad: T) => binary(B::ReluGrad, output.0, grad.0);
            leaky_relu(tensor: T, negative_slope: Scalar) =>
                elementwise::leaky_relu(tensor.0, scalar(negative_slope).to_f64());
            prelu(tensor: T, alpha: T) => elementwise::prelu(tensor.0, alpha.0);
            gelu(tensor: T) => unary(U::Gelu, tensor.0);
            gelu_backward(x: T, grad: T) => binary(B::GeluGrad, x.0, grad.0);
            sigmoid(tensor: T) => unary(U::Sigmoid, tensor.0);
            sigmoid_backward(output: T, grad: T) => binary(B::SigmoidGrad, output.0, grad.0);
            hard_sigmoid(tensor: T, alpha: Scalar, beta: Scalar) =>
                elementwise::hard_sigmoid(tensor.0, scalar(alpha).to_f64(), scalar(beta).to_f64());
            log_sigmoid(tensor: T) => unary(U::LogSigmoid, tensor.0);
            log_sigmoid_backward(x: T, grad: T) => binary(B::LogSigmoidGrad, x.0, grad.0);
            softmax(tensor: T, dim: usize) => norm::softmax(tensor.0, dim);
            log_softmax(tensor: T, dim: usize) => norm::log_softmax(tensor.0, dim);
            softmin(tensor: T, dim: usize) => norm::softmin(tensor.0, dim);
        }
    };
}
