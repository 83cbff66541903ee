//! Concatenation.

use crate::error::{Error, Result, check_axis, check_same_dtype};
use crate::layout::Layout;
use crate::parallel::{self, Work};
use crate::walk::{Walk, copy_to_contiguous};
use crate::{Element, Shape, Tensor, storage};
use alloc::vec::Vec;

const OP: &str = "cat";

/// Concatenates the tensors along `axis`. They have the same dtype, the same rank and the same sizes of the
/// other axes. A tensor of size zero along `axis` adds nothing.
///
/// # Errors
/// No tensors, an axis out of range, or tensors that do not fit together.
pub fn cat(tensors: Vec<Tensor>, axis: usize) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::argument(OP, "number of tensors", 0, "at least 1"));
    };
    check_axis(OP, axis, first.rank())?;
    let (dtype, mut shape) = (first.dtype(), first.shape().clone());
    let mut total = 0usize;
    for tensor in &tensors {
        check_same_dtype(OP, dtype, tensor.dtype())?;
        let other = tensor.shape();
        let fits = other.len() == shape.len() && (0..shape.len()).all(|k| k == axis || other[k] == shape[k]);
        if !fits {
            let expected = alloc::format!("equal sizes on every axis other than {axis}");
            return Err(Error::shapes(OP, first.shape(), other, expected));
        }
        total = total
            .checked_add(other[axis])
            .ok_or_else(|| Error::Overflow { op: OP, shape: other.to_vec() })?;
    }
    shape.as_mut_slice()[axis] = total;
    if tensors.len() == 1 {
        return Ok(tensors.into_iter().next().expect("one tensor"));
    }
    let parts: Vec<Tensor> = tensors.into_iter().filter(|tensor| tensor.shape()[axis] != 0).collect();
    dispatch!(bits OP, dtype, T => {
        Tensor::try_build::<T>(OP, shape.clone(), dtype, |out| {
            if out.is_empty() {
                return Ok(());
            }
            if shape[..axis].iter().product::<usize>() == 1 {
                copy_blocks::<T>(&parts, out);
            } else {
                copy_rows::<T>(&Runs::list(parts, axis)?, shape[axis..].iter().product(), out);
            }
            Ok(())
        })
    })
}

/// Concatenates along the outermost axis: each tensor is one block of the output.
fn copy_blocks<T: Element>(parts: &[Tensor], out: &mut [T]) {
    let work = Work::Bytes(2 * size_of_val(out));
    let mut rest = out;
    let mut blocks: Vec<(&Tensor, &mut [T])> = Vec::with_capacity(parts.len());
    for tensor in parts {
        let (block, tail) = rest.split_at_mut(tensor.num_elements());
        blocks.push((tensor, block));
        rest = tail;
    }
    parallel::for_each_chunk(&mut blocks, 1, work, |_, block| {
        let (tensor, block) = &mut block[0];
        copy_to_contiguous(tensor.storage::<T>(), tensor.layout(), block);
    });
}

/// Concatenates along an inner axis: each row of the output, of `row` elements, takes one run of elements
/// from each tensor.
fn copy_rows<T: Element>(runs: &[Runs], row: usize, out: &mut [T]) {
    let sources: Vec<(&[T], &Runs)> = runs.iter().map(|run| (run.tensor.storage::<T>(), run)).collect();
    let rows = parallel::rows_per_task(2 * row * size_of::<T>());
    let work = Work::Bytes(2 * size_of_val(out));
    parallel::for_each_chunk(out, rows * row, work, |k, out| {
        for (i, mut out) in out.chunks_exact_mut(row).enumerate() {
            for (src, run) in &sources {
                let start = run.start(k * rows + i);
                let (piece, rest) = out.split_at_mut(run.len);
                copy_run(piece, &src[start..start + run.len]);
                out = rest;
            }
        }
    });
}

/// `copy_from_slice`, without the call for lengths at which the call costs more than the copy.
#[inline(always)]
fn copy_run<T: Copy>(to: &mut [T], from: &[T]) {
    if to.len() <= 4 {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    } else {
        to.copy_from_slice(from);
    }
}

/// A tensor as contiguous runs of `len` elements, one run per index of the axes before the concatenated one.
struct Runs {
    tensor: Tensor,
    len: usize,
    starts: Starts,
}

enum Starts {
    /// Run `row` starts at `offset + row * stride`.
    Even { offset: usize, stride: isize },
    /// The start of each run.
    Listed(Vec<usize>),
}

impl Runs {
    /// The runs of each tensor. Not a part of the functions that are compiled for each width of elements.
    #[inline(never)]
    fn list(tensors: Vec<Tensor>, axis: usize) -> Result<Vec<Self>> {
        let mut list = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            list.push(Self::new(tensor, axis)?);
        }
        Ok(list)
    }

    fn new(tensor: Tensor, axis: usize) -> Result<Self> {
        let part = |tensor: &Tensor, axes: core::ops::Range<usize>| {
            let layout = tensor.layout();
            let shape = Shape::from(layout.shape()[axes.clone()].to_vec());
            Layout::new(shape, layout.strides()[axes].into(), layout.offset())
        };
        let rank = tensor.rank();
        let tensor =
            if part(&tensor, axis..rank).is_contiguous() { tensor } else { tensor.into_contiguous()? };
        let outer = part(&tensor, 0..axis);
        let walk = Walk::new([&Layout::contiguous(outer.shape().clone()), &outer]);
        let starts = if walk.axes().len() == 1 {
            Starts::Even { offset: walk.offsets()[1], stride: walk.inner().strides[1] }
        } else {
            let mut list = storage::try_list(OP, outer.num_elements())?;
            walk.for_each_row(0..walk.rows(), |[_, start]| {
                let inner = walk.inner();
                list.extend(
                    (0..inner.size).map(|i| start.wrapping_add_signed(i as isize * inner.strides[1])),
                );
            });
            Starts::Listed(list)
        };
        Ok(Self { len: tensor.shape()[axis..].iter().product(), tensor, starts })
    }

    #[inline(always)]
    fn start(&self, row: usize) -> usize {
        match &self.starts {
            Starts::Even { offset, stride } => offset.wrapping_add_signed(row as isize * stride),
            Starts::Listed(list) => list[row],
        }
    }
}
