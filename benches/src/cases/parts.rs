//! The parts that models spend their time in: convolutions, linear layers, attention, and their gradients.

use super::{Cases, backward, other, tensor};
use burn::backend::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::module::{attention, conv2d, linear};
use burn_tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn_tensor::{DType, Tensor};

/// What a case computes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The result.
    Forward,
    /// The result, and the gradients of all operands.
    Gradients,
    /// The result, and the gradients of the weights alone: the first layer of a model.
    WeightGradients,
}

impl Pass {
    /// The pass's part of a case's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Forward => "",
            Self::Gradients => "_grad",
            Self::WeightGradients => "_wgrad",
        }
    }

    /// Products of the forward pass's size: itself, and one for each gradient.
    fn products(self) -> usize {
        match self {
            Self::Forward => 1,
            Self::WeightGradients => 2,
            Self::Gradients => 3,
        }
    }
}

/// Sizes of a convolution with "same" padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    /// Images.
    pub batch: usize,
    /// Input and output channels.
    pub channels: [usize; 2],
    /// Height and width.
    pub size: usize,
    /// Height and width of the kernel.
    pub kernel: usize,
    /// Stride along both axes.
    pub stride: usize,
    /// Groups.
    pub groups: usize,
}

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A convolution.
    Conv(Conv, Pass),
    /// A linear layer with a bias. Burn stores its weights as `[inputs, outputs]`.
    Linear {
        /// Rows of the input.
        rows: usize,
        /// Width of the input.
        inputs: usize,
        /// Width of the result.
        outputs: usize,
        /// What is computed.
        pass: Pass,
    },
    /// A product with a transposed matrix, `[outputs, inputs]`, without a bias: the head of a language model.
    Head {
        /// Rows of the input.
        rows: usize,
        /// Width of the input.
        inputs: usize,
        /// Number of tokens.
        outputs: usize,
    },
    /// Attention of all heads of a batch.
    Attention {
        /// Heads of all sequences together.
        heads: usize,
        /// Queries of a head.
        queries: usize,
        /// Keys of a head.
        keys: usize,
        /// Width of a head.
        width: usize,
        /// Whether a query sees the keys up to its own alone.
        causal: bool,
        /// What is computed.
        pass: Pass,
    },
}

impl Part {
    /// The name of the part's case.
    pub fn name(&self) -> String {
        match *self {
            Self::Conv(Conv { batch, channels: [c, o], size, kernel, stride, groups }, pass) => {
                assert_eq!(groups, 1, "the name of a part has no groups");
                format!("conv2d{}_b{batch}_c{c}_h{size}_o{o}_k{kernel}_s{stride}", pass.suffix())
            }
            Self::Linear { rows, inputs, outputs, pass } => {
                format!("linear{}_{rows}x{inputs}x{outputs}", pass.suffix())
            }
            Self::Head { rows, inputs, outputs } => format!("linear_{rows}x{inputs}x{outputs}_T"),
            Self::Attention { heads, queries, keys, width, causal, pass } => {
                let causal = if causal { "_causal" } else { "" };
                let queries = if queries == keys { String::new() } else { format!("_q{queries}") };
                format!("attention{causal}{}_h{heads}{queries}_s{keys}_d{width}", pass.suffix())
            }
        }
    }

    /// Floating-point operations. Causal attention is counted without its masked half.
    pub fn flops(&self) -> usize {
        match *self {
            Self::Conv(Conv { batch, channels: [c, o], size, kernel, stride, groups }, pass) => {
                let pixels = batch * size.div_ceil(stride).pow(2);
                2 * pass.products() * pixels * o * (c / groups) * kernel * kernel
            }
            Self::Linear { rows, inputs, outputs, pass } => 2 * pass.products() * rows * inputs * outputs,
            Self::Head { rows, inputs, outputs } => 2 * rows * inputs * outputs,
            Self::Attention { heads, queries, keys, width, causal, pass } => {
                let pairs = if causal { queries * (2 * keys - queries + 1) / 2 } else { queries * keys };
                4 * pass.products() * heads * pairs * width
            }
        }
    }
}

impl<B: Backend> Cases<B> {
    /// Adds the case of a part.
    pub(super) fn part(&mut self, part: Part) {
        self.named_part(part.name(), part);
    }

    /// Adds the case of a part under another name than its own.
    pub(super) fn named_part(&mut self, name: String, part: Part) {
        match part {
            Part::Conv(conv, Pass::Forward) => self.add(
                name,
                0,
                move |d| (conv.operands::<B>(d), conv.options()),
                |((x, w), options)| conv2d(x.clone(), w.clone(), None, options.clone()),
            ),
            Part::Conv(conv, pass) => self.add(
                name,
                0,
                move |d| (conv.operands::<Autodiff<B>>(d), conv.options()),
                move |((x, w), options)| {
                    backward(conv2d(input(x, pass), w.clone().require_grad(), None, options.clone()))
                },
            ),
            Part::Linear { rows, inputs, outputs, pass: Pass::Forward } => self.add(
                name,
                0,
                move |d| linear_operands::<B>(rows, inputs, outputs, d),
                |(x, w, b)| linear(x.clone(), w.clone(), Some(b.clone())),
            ),
            Part::Linear { rows, inputs, outputs, pass } => self.add(
                name,
                0,
                move |d| linear_operands::<Autodiff<B>>(rows, inputs, outputs, d),
                move |(x, w, b)| {
                    let (w, b) = (w.clone().require_grad(), b.clone().require_grad());
                    backward(linear(input(x, pass), w, Some(b)))
                },
            ),
            Part::Head { rows, inputs, outputs } => self.add(
                name,
                0,
                move |d| (tensor::<B, 2>([rows, inputs], d), tensor::<B, 2>([outputs, inputs], d)),
                |(x, w)| linear(x.clone(), w.clone().transpose(), None),
            ),
            Part::Attention { heads, queries, keys, width, causal, pass: Pass::Forward } => self.add(
                name,
                0,
                move |d| attention_operands::<B>(heads, queries, keys, width, d),
                move |(q, k, v)| attention(q.clone(), k.clone(), v.clone(), None, None, seen(causal)),
            ),
            Part::Attention { heads, queries, keys, width, causal, .. } => self.add(
                name,
                0,
                move |d| attention_operands::<Autodiff<B>>(heads, queries, keys, width, d),
                move |(q, k, v)| {
                    let operand = |x: &Tensor<Autodiff<B>, 4>| x.clone().require_grad();
                    let (q, k, v) = (operand(q), operand(k), operand(v));
                    backward(attention(q, k, v, None, None, seen(causal)))
                },
            ),
        }
        self.flops(part.flops());
    }
}

impl Conv {
    fn operands<B: Backend>(&self, device: &B::Device) -> (Tensor<B, 4>, Tensor<B, 4>) {
        let Self { batch, channels: [c, o], size, kernel, groups, .. } = *self;
        (tensor([batch, c, size, size], device), tensor([o, c / groups, kernel, kernel], device))
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.kernel / 2; 2], [1; 2], self.groups)
    }
}

fn linear_operands<B: Backend>(
    rows: usize,
    inputs: usize,
    outputs: usize,
    device: &B::Device,
) -> (Tensor<B, 2>, Tensor<B, 2>, Tensor<B, 1>) {
    (tensor([rows, inputs], device), tensor([inputs, outputs], device), tensor([outputs], device))
}

/// Queries, keys and values: three tensors, so that all of them are read from memory.
fn attention_operands<B: Backend>(
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    device: &B::Device,
) -> (Tensor<B, 4>, Tensor<B, 4>, Tensor<B, 4>) {
    let keys = [1, heads, keys, width];
    (tensor([1, heads, queries, width], device), tensor(keys, device), other(keys, DType::F32, device))
}

/// The input of a layer, with or without a gradient.
fn input<B: Backend, const D: usize>(x: &Tensor<Autodiff<B>, D>, pass: Pass) -> Tensor<Autodiff<B>, D> {
    if pass == Pass::Gradients { x.clone().require_grad() } else { x.clone() }
}

fn seen(is_causal: bool) -> AttentionModuleOptions {
    AttentionModuleOptions { is_causal, ..Default::default() }
}

/// The cases of these parts on backend `B`; those of one name become one case. `finish` is called at the end
/// of each call, as in [`finished_cases`](super::finished_cases).
pub fn part_cases<B: Backend>(parts: impl IntoIterator<Item = Part>, finish: fn()) -> Vec<super::Case> {
    let mut cases = Cases::<B>::new(finish);
    cases.family = super::Family::Models;
    for part in parts {
        if cases.list.iter().all(|case| case.name != part.name()) {
            cases.part(part);
        }
    }
    cases.list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_by_their_definition() {
        let conv = Conv { batch: 2, channels: [3, 5], size: 7, kernel: 3, stride: 2, groups: 1 };
        // 4 x 4 pixels of 5 channels, each a sum of 27 products.
        assert_eq!(Part::Conv(conv, Pass::Forward).flops(), 2 * (2 * 16 * 5) * 27);
        assert_eq!(Part::Conv(conv, Pass::WeightGradients).flops(), 2 * 2 * (2 * 16 * 5) * 27);
        let linear = Part::Linear { rows: 2, inputs: 3, outputs: 5, pass: Pass::Gradients };
        assert_eq!(linear.flops(), 3 * 2 * 30);
        let attention = |queries, causal| Part::Attention {
            heads: 1,
            queries,
            keys: 4,
            width: 1,
            causal,
            pass: Pass::Forward,
        };
        assert_eq!(attention(4, false).flops(), 4 * 16);
        // Queries see 1, 2, 3 and 4 keys; of two queries, the last see 3 and 4.
        assert_eq!(attention(4, true).flops(), 4 * 10);
        assert_eq!(attention(2, true).flops(), 4 * 7);
    }

    #[test]
    fn names_are_those_that_other_peers_know() {
        let conv = Conv { batch: 8, channels: [128, 128], size: 28, kernel: 3, stride: 1, groups: 1 };
        assert_eq!(Part::Conv(conv, Pass::Forward).name(), "conv2d_b8_c128_h28_o128_k3_s1");
        let attention = |queries, pass| {
            Part::Attention { heads: 12, queries, keys: 128, width: 64, causal: false, pass }.name()
        };
        assert_eq!(attention(128, Pass::Forward), "attention_h12_s128_d64");
        assert_eq!(attention(1, Pass::Gradients), "attention_grad_h12_q1_s128_d64");
    }

    #[test]
    fn a_part_that_occurs_twice_is_one_case() {
        let part = |rows| Part::Linear { rows, inputs: 2, outputs: 3, pass: Pass::Forward };
        let cases = part_cases::<burn_flex::Flex>([part(1), part(2), part(1)], || ());
        assert_eq!(cases.iter().map(|case| case.flops).collect::<Vec<_>>(), [12, 24]);
        for case in &cases {
            assert_eq!(((case.setup)().numbers)().map(|numbers| numbers.len()), Some(case.flops / 4));
        }
    }
}
