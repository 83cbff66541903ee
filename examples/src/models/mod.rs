//! Models that people run and train, of the size that they have, written with burn-nn.
//!
//! Each has a configuration with two methods: `init` draws random weights, the same in each run, and `blank`
//! gives a model to load [weights](crate::weights) into. Their names are those of the same model in PyTorch.
//!
//! | model | PyTorch's counterpart, whose names it uses |
//! | --- | --- |
//! | [`resnet`]: ResNet-18 and ResNet-50 | torchvision's `resnet18` and `resnet50` |
//! | [`minilm`]: a BERT encoder for sentences | the transformer of `sentence-transformers/all-MiniLM-L6-v2` |
//! | [`gpt2`]: a decoder with a cache of keys and values | Hugging Face's `GPT2Model` |
//! | [`lstm`]: `burn::nn::Lstm` | `torch.nn.LSTM` with one layer |
//! | [`mlp`]: two linear layers | `torch.nn.Sequential(Linear, ReLU, Linear)` |
//! | [`transformer`]: an encoder that classifies sequences | `torch.nn.TransformerEncoder` and a head |

pub mod gpt2;
pub mod lstm;
pub mod minilm;
pub mod mlp;
pub mod resnet;
pub mod transformer;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use std::sync::{Mutex, PoisonError};

/// Seed of random weights.
const SEED: u64 = 20;

/// The model with its weights drawn. Burn draws a parameter when it is first used; here it is done in the
/// order of the fields, so that the values do not depend on that use.
fn drawn<B: Backend, M: Module<B>>(model: M, device: &B::Device) -> M {
    struct Draw;
    impl<B: Backend> ModuleVisitor<B> for Draw {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            drop(param.val());
        }
    }
    // A backend has one generator for all threads.
    static GENERATOR: Mutex<()> = Mutex::new(());
    let _alone = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    B::seed(device, SEED);
    model.visit(&mut Draw);
    model
}
