//! Weights into a model.

use super::path::Path;
use super::{Error, Stored, TorchNames, Weights};
use burn::module::{ModuleMapper, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

/// The model with the weights of the same places; `lend` leaves them in their memory.
pub fn load<B: Backend, M: TorchNames<B>>(weights: &Weights, model: M, lend: bool) -> Result<M, Error> {
    let mut reader = Reader { weights, lend, path: Path::new::<B, M>(), error: None };
    let model = model.map(&mut reader);
    match reader.error {
        Some(error) => Err(error),
        None => Ok(model),
    }
}

/// Gives each parameter the tensor of its place. After the first error it changes nothing more.
struct Reader<'a> {
    weights: &'a Weights,
    lend: bool,
    path: Path,
    error: Option<Error>,
}

impl<B: Backend> ModuleMapper<B> for Reader<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if self.error.is_some() {
            return param;
        }
        match self.stored(param.lazy_shape().to_vec()) {
            Ok(stored) => {
                let tensor = self.tensor(&stored, &param.lazy_device());
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.error = Some(error);
                param
            }
        }
    }
}

impl Reader<'_> {
    /// The tensor of the current place, of the shape that the model's shape asks for.
    fn stored(&self, mut needed: Vec<usize>) -> Result<Stored, Error> {
        if self.path.is_transposed() {
            needed.reverse();
        }
        let place = self.path.place();
        let source = self.weights.source.clone();
        let Some(whole) = self.weights.tensors.get(&place.name) else {
            return Err(Error::Missing { source, name: place.name });
        };
        if !whole.dtype.is_float() {
            return Err(Error::NoFloats { source, name: place.name, dtype: whole.dtype });
        }
        let (part, parts) = place.part.unwrap_or((0, 1));
        match whole.part(part, parts) {
            Some(stored) if stored.shape == needed => Ok(stored),
            _ => {
                if let Some(rows) = needed.first_mut() {
                    *rows *= parts;
                }
                Err(Error::Shape { source, name: place.name, came: whole.shape.clone(), needed })
            }
        }
    }

    /// The stored tensor in Burn's orientation.
    fn tensor<B: Backend, const D: usize>(&self, stored: &Stored, device: &B::Device) -> Tensor<B, D> {
        let shared = || Tensor::from_data(stored.data(), device);
        match (self.path.is_transposed(), self.lend) {
            (false, true) => shared(),
            (true, true) => shared().swap_dims(0, 1),
            // Data of a transposed view is laid out anew.
            (true, false) => Tensor::from_data(shared().swap_dims(0, 1).into_data(), device),
            (false, false) => {
                let copy =
                    TensorData::from_bytes_vec(stored.bytes.to_vec(), stored.shape.clone(), stored.dtype);
                Tensor::from_data(copy, device)
            }
        }
    }
}
