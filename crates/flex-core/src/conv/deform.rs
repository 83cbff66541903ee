use super::*;
/// x
pub fn deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: &DeformConvOptions,
) -> Result<Tensor> {
    let _ = (&x, &offset, &weight, &mask, &bias, &options);
    Err(crate::Error::argument("deform_conv2d", "operation", "pending", "an implementation"))
}
/// x
pub fn deform_conv2d_backward(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    grad: Tensor,
    options: &DeformConvOptions,
) -> Result<DeformConvGradients> {
    let _ = (&x, &offset, &weight, &mask, &bias, &options, grad);
    Err(crate::Error::argument("deform_conv2d", "operation", "pending", "an implementation"))
}
