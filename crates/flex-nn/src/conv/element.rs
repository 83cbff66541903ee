//! Operands and results in the type that a convolution is computed in.

use crate::error::Result;
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::stored::{Computing, Source};
use crate::{Blank, DType, Shape, Tensor};
use bytemuck::Pod;
use core::ops::Deref;

/// Values in the computed type: the tensor's own memory, or a converted copy.
pub(super) enum Values<'a, T> {
    Borrowed(&'a [T]),
    Owned(Scratch<T>),
}

impl<'a, A: Computing> Values<'a, A> {
    /// Borrows the stored values, or converts them if the computed type differs.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) under the name `op`.
    pub fn of(op: &'static str, values: Source<'a>) -> Result<Self> {
        Ok(match values.values() {
            Some(values) => Self::Borrowed(values),
            None => {
                let mut copy = Scratch::new(op, values.len())?;
                let bytes = values.size() + size_of::<A>();
                let task = parallel::rows_per_task(bytes);
                let work = Work::Bytes(bytes.saturating_mul(values.len()));
                parallel::for_each_chunk(&mut copy, task, work, |k, out: &mut [A]| {
                    values.slice(k * task..k * task + out.len()).read(out);
                });
                Self::Owned(copy)
            }
        })
    }
}

impl<T: Pod> Deref for Values<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Borrowed(values) => values,
            Self::Owned(values) => values,
        }
    }
}

/// A result tensor under construction, written in the computed type.
pub(super) struct Output<A> {
    blank: Blank,
    dtype: DType,
    wide: Option<Scratch<A>>,
}

impl<A: Computing> Output<A> {
    /// A tensor of arbitrary contents.
    pub fn new(op: &'static str, shape: Shape, dtype: DType) -> Result<Self> {
        let mut blank = Blank::new(op, shape, dtype)?;
        let len = blank.bytes().len() / dtype.size();
        let wide = (dtype != A::DTYPE).then(|| Scratch::new(op, len)).transpose()?;
        Ok(Self { blank, dtype, wide })
    }

    /// The elements.
    pub fn values(&mut self) -> &mut [A] {
        match &mut self.wide {
            Some(wide) => wide,
            None => bytemuck::cast_slice_mut(self.blank.bytes()),
        }
    }

    /// Returns the tensor; its elements are rounded here if the stored type differs from the computed type.
    pub fn finish(mut self) -> Tensor {
        if let Some(wide) = &self.wide {
            A::narrow(self.dtype, wide, self.blank.bytes());
        }
        self.blank.finish()
    }
}
