//! Softmax and normalisation of the rows of a matrix of 1,024 by 1,024, and their gradients.

use super::{Cases, Family, backward, other, suffix, tensor, tensor_of};
use burn::backend::Autodiff;
use burn_flex::autodiff;
use burn_tensor::activation::{log_softmax, softmax};
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::{DType, Tensor, TensorPrimitive};

const N: usize = 1024;
const EPSILON: f64 = 1e-5;

/// A tensor that tracks gradients.
type Tracked<B, const D: usize> = Tensor<Autodiff<B>, D>;

impl<B: Backend> Cases<B> {
    pub(super) fn rows(&mut self) {
        self.family = Family::Norm;
        self.short = true;
        let square = |d: &B::Device| tensor::<B, 2>([N, N], d);
        let bytes = 8 * N * N;
        self.add("softmax_1024", bytes, square, |a| softmax(a.clone(), 1));
        self.short = false;
        self.add("log_softmax_1024", bytes, square, |a| log_softmax(a.clone(), 1));
        self.add("softmax_dim0_1024", bytes, square, |a| softmax(a.clone(), 0));
        for dtype in [DType::F64, DType::F16, DType::BF16] {
            let bytes = 2 * dtype.size() * N * N;
            let name = format!("softmax{}_1024", suffix(dtype));
            self.add(name, bytes, move |d| tensor_of::<B, 2>([N, N], dtype, d), |a| softmax(a.clone(), 1));
        }
        let scaled = move |d: &B::Device| (square(d), tensor::<B, 1>([N], d), tensor::<B, 1>([N], d));
        self.add("layer_norm_1024", bytes, scaled, |(x, g, b)| layer_norm(x.clone(), g.clone(), b.clone()));
        self.gradient("softmax_grad_1024", |x| softmax(x, 1));
        self.gradient("log_softmax_grad_1024", |x| log_softmax(x, 1));
        self.layer_norm_gradient("layer_norm_grad_1024", layer_norm);
        // The functions with one-pass gradients on Flex; on other backends, these functions call Burn's own.
        self.gradient("softmax_grad_fused_1024", |x| autodiff::softmax(x, 1));
        self.gradient("log_softmax_grad_fused_1024", |x| autodiff::log_softmax(x, 1));
        self.layer_norm_gradient("layer_norm_grad_fused_1024", |x, gamma, beta| {
            autodiff::layer_norm(x, gamma, Some(beta), EPSILON)
        });
    }

    fn layer_norm_gradient(
        &mut self,
        name: &str,
        f: impl Fn(Tracked<B, 2>, Tracked<B, 1>, Tracked<B, 1>) -> Tracked<B, 2> + Copy + 'static,
    ) {
        self.add(
            name,
            5 * 4 * N * N,
            |d| (tensor::<Autodiff<B>, 2>([N, N], d), tensor::<Autodiff<B>, 1>([N], d), weights::<B>(d)),
            move |(x, g, w)| {
                let (x, g) = (x.clone().require_grad(), g.clone().require_grad());
                backward(f(inner(x), g.clone(), g) * w.clone())
            },
        );
    }

    /// Adds the forward and backward pass of a function of rows, weighted by a constant. Five matrices pass
    /// through memory: the input, the output and its gradient, the weights, and the input's gradient.
    fn gradient(&mut self, name: &str, f: impl Fn(Tracked<B, 2>) -> Tracked<B, 2> + Copy + 'static) {
        self.add(
            name,
            5 * 4 * N * N,
            |d| (tensor::<Autodiff<B>, 2>([N, N], d), weights::<B>(d)),
            move |(x, w)| backward(f(inner(x.clone().require_grad())) * w.clone()),
        );
    }
}

/// The tensor as the result of an operation, a view, which is what such a function gets in a model. Burn's
/// softmax detaches its operand to find the largest elements. A tensor whose own gradient is asked for asks
/// for it when detached too, so these elements would get a gradient that nobody reads.
fn inner<B: Backend>(x: Tracked<B, 2>) -> Tracked<B, 2> {
    x.unsqueeze::<3>().squeeze_dim(0)
}

fn weights<B: Backend>(device: &<Autodiff<B> as burn_tensor::backend::BackendTypes>::Device) -> Tracked<B, 2>
where
    Autodiff<B>: AutodiffBackend,
{
    other([N, N], DType::F32, device)
}

/// Layer normalization by the same backend call as Burn's own layer, which keeps its parameters in a module.
fn layer_norm<B: Backend>(x: Tensor<B, 2>, gamma: Tensor<B, 1>, beta: Tensor<B, 1>) -> Tensor<B, 2> {
    let float = |t: TensorPrimitive<B>| t.tensor();
    let (x, gamma, beta) = (x.into_primitive(), gamma.into_primitive(), beta.into_primitive());
    let y = B::layer_norm(float(x), float(gamma), Some(float(beta)), EPSILON);
    Tensor::from_primitive(TensorPrimitive::Float(y))
}
