//! safetensors files: mapped when read, written tensor by tensor.

use super::{Error, Stored, Weights};
use burn::tensor::{AllocationProperty, DType};
use safetensors::{Dtype, SafeTensors, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

impl Weights {
    /// Maps a safetensors file into memory. Its pages are read when a tensor is first used.
    ///
    /// The file must not be changed as long as the weights or a model that they were lent to exist.
    ///
    /// # Errors
    /// The file can't be read, is no safetensors file, or holds elements that Burn has no type for.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io(path.to_owned(), error);
        let file = File::open(path).map_err(io)?;
        // The system's own error for a mapped folder speaks of devices.
        if file.metadata().map_err(io)?.is_dir() {
            let kind = std::io::ErrorKind::IsADirectory;
            return Err(io(std::io::Error::new(kind, "a folder came, and a safetensors file is needed")));
        }
        // SAFETY: the pages are only read. A program that cuts or writes the file meanwhile would change what
        // they hold, or end this process by a signal; the function's contract excludes it, as every reader of
        // mapped files must, since no system call can.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        let bytes = bytes::Bytes::from_owner(map);
        let parsed =
            SafeTensors::deserialize(&bytes).map_err(|error| Error::Format(path.to_owned(), error))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.iter() {
            let dtype = to_burn(view.dtype()).ok_or_else(|| Error::Dtype {
                source: path.to_owned(),
                name: name.to_owned(),
                dtype: view.dtype().to_string(),
            })?;
            let stored = Stored {
                bytes: bytes.slice_ref(view.data()),
                shape: view.shape().to_vec(),
                dtype,
                property: AllocationProperty::File,
            };
            tensors.insert(name.to_owned(), stored);
        }
        Ok(Self { source: Some(path.to_owned()), tensors })
    }

    /// Writes all tensors to a safetensors file.
    ///
    /// # Errors
    /// The file can't be written, or a tensor's dtype has no name in the format.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let tensors = self.tensors.iter().map(|(name, tensor)| {
            let dtype = to_file(tensor.dtype).ok_or_else(|| Error::Dtype {
                source: path.to_owned(),
                name: name.clone(),
                dtype: format!("{:?}", tensor.dtype),
            })?;
            Ok((name, Written { tensor, dtype }))
        });
        let tensors = tensors.collect::<Result<Vec<_>, Error>>()?;
        safetensors::serialize_to_file(tensors, None, path)
            .map_err(|error| Error::Format(path.to_owned(), error))
    }
}

/// A tensor as the format sees it.
struct Written<'a> {
    tensor: &'a Stored,
    dtype: Dtype,
}

impl View for Written<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.tensor.bytes)
    }

    fn data_len(&self) -> usize {
        self.tensor.bytes.len()
    }
}

/// The dtypes that both sides have.
const DTYPES: [(Dtype, DType); 12] = [
    (Dtype::F64, DType::F64),
    (Dtype::F32, DType::F32),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::I64, DType::I64),
    (Dtype::I32, DType::I32),
    (Dtype::I16, DType::I16),
    (Dtype::I8, DType::I8),
    (Dtype::U64, DType::U64),
    (Dtype::U32, DType::U32),
    (Dtype::U16, DType::U16),
    (Dtype::U8, DType::U8),
];

fn to_burn(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::BOOL => Some(DType::U8),
        _ => DTYPES.iter().find(|(file, _)| *file == dtype).map(|(_, burn)| *burn),
    }
}

fn to_file(dtype: DType) -> Option<Dtype> {
    DTYPES.iter().find(|(_, burn)| *burn == dtype).map(|(file, _)| *file)
}
