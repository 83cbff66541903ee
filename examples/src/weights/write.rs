//! Weights out of a model.

use super::path::Path;
use super::{TorchNames, Weights};
use burn::module::{ModuleVisitor, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

/// The weights of a model by PyTorch's names.
pub fn collect<B: Backend, M: TorchNames<B>>(model: &M) -> Weights {
    let mut writer = Writer { path: Path::new::<B, M>(), weights: Weights::default() };
    model.visit(&mut writer);
    writer.weights
}

struct Writer {
    path: Path,
    weights: Weights,
}

impl<B: Backend> ModuleVisitor<B> for Writer {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let tensor = param.val();
        let data = if self.path.is_transposed() { tensor.swap_dims(0, 1) } else { tensor }.into_data();
        let place = self.path.place();
        let data = match place.part {
            Some((part, parts)) => self.with_part(&place.name, data, part, parts),
            None => data,
        };
        self.weights.insert(place.name, data);
    }
}

impl Writer {
    /// The tensor of this name with `data` as one of its equal parts; the parts that did not come yet are
    /// zeros.
    fn with_part(&self, name: &str, data: TensorData, part: usize, parts: usize) -> TensorData {
        let len = data.bytes.len();
        let mut bytes = match self.weights.tensors.get(name) {
            Some(whole) => whole.bytes.to_vec(),
            None => vec![0; parts * len],
        };
        bytes[part * len..(part + 1) * len].copy_from_slice(&data.bytes);
        let mut shape = data.shape.to_vec();
        shape[0] *= parts;
        TensorData::from_bytes_vec(bytes, shape, data.dtype)
    }
}
