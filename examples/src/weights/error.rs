//! What can be wrong with weights.

use burn::tensor::DType;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// What is wrong with weights or their file.
#[derive(Debug)]
pub enum Error {
    /// The file can't be read or written.
    Io(PathBuf, std::io::Error),
    /// The file holds no safetensors, or can't be written as such.
    Format(PathBuf, safetensors::SafeTensorError),
    /// A tensor of the file has elements that Burn has no type for.
    Dtype {
        /// The file.
        source: PathBuf,
        /// Name of the tensor.
        name: String,
        /// What the file says.
        dtype: String,
    },
    /// The model needs a tensor that is not there.
    Missing {
        /// The file, if the weights came from one.
        source: Option<PathBuf>,
        /// Name of the tensor.
        name: String,
    },
    /// A tensor has another shape than the model's.
    Shape {
        /// The file, if the weights came from one.
        source: Option<PathBuf>,
        /// Name of the tensor.
        name: String,
        /// The shape that came.
        came: Vec<usize>,
        /// The shape that the model needs.
        needed: Vec<usize>,
    },
    /// A tensor has another number of axes than the model's.
    Rank {
        /// The file, if the weights came from one.
        source: Option<PathBuf>,
        /// Name of the tensor.
        name: String,
        /// The shape that came.
        came: Vec<usize>,
        /// The number of axes that the model needs.
        needed: usize,
    },
    /// The `config.json` beside the file holds something else.
    Config(PathBuf, String),
    /// The number of attention heads is not known, or does not divide the model's width.
    Heads {
        /// The file, if the weights came from one.
        source: Option<PathBuf>,
        /// Width of the model.
        width: usize,
        /// The number that `config.json` tells.
        heads: Option<usize>,
        /// Widths whose number of heads is known without that file, with these numbers.
        known: &'static [(usize, usize)],
    },
    /// A tensor of the model has no floats.
    NoFloats {
        /// The file, if the weights came from one.
        source: Option<PathBuf>,
        /// Name of the tensor.
        name: String,
        /// What came.
        dtype: DType,
    },
}

/// The start of a message: the file's name where there is one.
struct Prefix<'a>(Option<&'a Path>);

impl Display for Prefix<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(f, "{}: ", path.display()),
            None => Ok(()),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}{error}", Prefix(Some(path))),
            Self::Format(path, error) => write!(f, "{}no safetensors file: {error}", Prefix(Some(path))),
            Self::Config(path, error) => write!(f, "{}no model's config: {error}", Prefix(Some(path))),
            Self::Heads { source, width, heads: Some(heads), .. } => write!(
                f,
                "{}{heads} attention heads by config.json, and a divisor of the width {width} is needed",
                Prefix(source.as_deref())
            ),
            Self::Heads { source, width, heads: None, known } => {
                let known: Vec<usize> = known.iter().map(|(width, _)| *width).collect();
                write!(
                    f,
                    "{}a model of width {width}, and the number of its attention heads is needed: from the \
                     model's config.json in the same folder, or by a width of {known:?}",
                    Prefix(source.as_deref())
                )
            }
            Self::Dtype { source, name, dtype } => {
                write!(
                    f,
                    "{}tensor `{name}` has elements of type {dtype}, which Burn lacks",
                    Prefix(Some(source))
                )
            }
            Self::Missing { source, name } => {
                write!(f, "{}tensor `{name}` is missing", Prefix(source.as_deref()))
            }
            Self::Shape { source, name, came, needed } => write!(
                f,
                "{}tensor `{name}` has shape {came:?}, and the model needs {needed:?}",
                Prefix(source.as_deref())
            ),
            Self::Rank { source, name, came, needed } => write!(
                f,
                "{}tensor `{name}` has shape {came:?}, and the model needs {needed} axes",
                Prefix(source.as_deref())
            ),
            Self::NoFloats { source, name, dtype } => {
                write!(
                    f,
                    "{}tensor `{name}` holds {dtype:?}, and the model needs floats",
                    Prefix(source.as_deref())
                )
            }
        }
    }
}

impl std::error::Error for Error {}
