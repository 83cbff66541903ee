//! Weights by the names that PyTorch's models give them, in memory or in a safetensors file.
//!
//! ```no_run
//! # use flex_examples::{models::mlp::MlpConfig, weights::{Error, Weights}};
//! # fn main() -> Result<(), Error> {
//! # type B = burn_flex::Flex;
//! # let device = Default::default();
//! let model = MlpConfig::new().init::<B>(&device);
//! Weights::of(&model).save("mlp.safetensors".as_ref())?;
//! let same = Weights::open("mlp.safetensors".as_ref())?.load(MlpConfig::new().blank::<B>(&device))?;
//! # let _ = same;
//! # Ok(())
//! # }
//! ```
//!
//! [`Weights::open`] maps the file into memory, and [`Weights::lend`] gives a model that computes on these
//! pages: a tensor costs memory when it is read, and never a second copy. [`Weights::load`] gives tensors of
//! their own.

mod error;
mod file;
mod path;
mod published;
mod read;
mod write;

pub use error::Error;

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{AllocationProperty, Bytes, DType, TensorData};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A model whose weights have names in PyTorch.
///
/// The rules that hold for all modules are applied first: `gamma` and `beta` of a norm are `weight` and
/// `bias`.
pub trait TorchNames<B: Backend>: Module<B> {
    /// Whether the weights of linear layers are `[d_output, d_input]` in PyTorch, the transpose of Burn's.
    const LINEARS_ARE_TRANSPOSED: bool = true;

    /// PyTorch's place for the parameter at this path of field names, such as `layers.0.norm.weight`.
    fn place(path: &str) -> Place;
}

/// Where a parameter is found among PyTorch's: a tensor, or one of the equal parts of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the tensor.
    pub name: String,
    /// The part's number and the number of parts along the first axis, where the tensor holds several
    /// parameters.
    pub part: Option<(usize, usize)>,
}

impl From<String> for Place {
    fn from(name: String) -> Self {
        Self { name, part: None }
    }
}

/// The path after these replacements, one after the other.
pub(crate) fn renamed(path: &str, replacements: &[(&str, &str)]) -> String {
    replacements.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

/// Tensors by name, in the order of their names. Clones and parts share the memory.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// The file that the weights came from, for errors.
    source: Option<PathBuf>,
    tensors: BTreeMap<String, Stored>,
}

/// A tensor in memory that others may share.
#[derive(Clone, Debug)]
struct Stored {
    bytes: bytes::Bytes,
    shape: Vec<usize>,
    dtype: DType,
    /// Tells backends whether the memory is a file's.
    property: AllocationProperty,
}

impl Weights {
    /// The weights of a model. Memory of the model is copied.
    pub fn of<B: Backend, M: TorchNames<B>>(model: &M) -> Self {
        write::collect(model)
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The tensor of this name; it shares the memory.
    pub fn get(&self, name: &str) -> Option<TensorData> {
        self.tensors.get(name).map(Stored::data)
    }

    /// The shape of the tensor of this name, which has `D` axes.
    ///
    /// # Errors
    /// There is no such tensor, or it has another number of axes.
    pub fn dims<const D: usize>(&self, name: &str) -> Result<[usize; D], Error> {
        let Some(stored) = self.tensors.get(name) else {
            return Err(Error::Missing { source: self.source.clone(), name: name.to_owned() });
        };
        stored.shape.as_slice().try_into().map_err(|_| Error::Rank {
            source: self.source.clone(),
            name: name.to_owned(),
            came: stored.shape.clone(),
            needed: D,
        })
    }

    /// The number of different values that follow a prefix, up to the next dot: of `h.`, the number of
    /// layers.
    pub(crate) fn parts(&self, prefix: &str) -> usize {
        let parts = self.names().filter_map(|name| name.strip_prefix(prefix)?.split('.').next());
        parts.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Adds a tensor, or replaces the tensor of this name.
    pub fn insert(&mut self, name: impl Into<String>, data: TensorData) {
        let stored = Stored {
            shape: data.shape.to_vec(),
            dtype: data.dtype,
            bytes: bytes::Bytes::from_owner(Owner(data.bytes)),
            property: AllocationProperty::Other,
        };
        self.tensors.insert(name.into(), stored);
    }

    /// Removes a prefix from all names that have it: files often hold a model as a part of another.
    pub fn without_prefix(mut self, prefix: &str) -> Self {
        let short = |name: String| name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name);
        self.tensors = self.tensors.into_iter().map(|(name, tensor)| (short(name), tensor)).collect();
        self
    }

    /// The model with these weights, in tensors of their own that lie as Burn's modules make them.
    ///
    /// # Errors
    /// A tensor is missing, or has another shape than the model's, or no floats.
    pub fn load<B: Backend, M: TorchNames<B>>(&self, model: M) -> Result<M, Error> {
        read::load(self, model, false)
    }

    /// The model with these weights, which stay where they are: the model's tensors are views of the file or
    /// of this collection, and the weights of linear layers are transposed views. A backend that can't use
    /// foreign memory copies it. For inference; an optimizer would copy the tensors at its first step.
    ///
    /// MiniLM so takes 49 MB of resident memory on this project's backend, in place of 186 MB, and the same
    /// time for 16 and for 128 tokens. An LSTM of width 256 takes 1.1 times as long for a batch of 8 (two
    /// cores of Zen 4).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn lend<B: Backend, M: TorchNames<B>>(&self, model: M) -> Result<M, Error> {
        read::load(self, model, true)
    }
}

impl Stored {
    fn data(&self) -> TensorData {
        TensorData::from_bytes(
            Bytes::from_shared(self.bytes.clone(), self.property),
            self.shape.clone(),
            self.dtype,
        )
    }

    /// One of `parts` equal parts along the first axis; `None` if it can't be cut so.
    fn part(&self, part: usize, parts: usize) -> Option<Self> {
        let rows = *self.shape.first()?;
        if !rows.is_multiple_of(parts) {
            return None;
        }
        let len = self.bytes.len() / parts;
        let mut cut = Self { bytes: self.bytes.slice(part * len..(part + 1) * len), ..self.clone() };
        cut.shape[0] = rows / parts;
        Some(cut)
    }
}

/// Burn's bytes as the owner of shared memory.
struct Owner(Bytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
