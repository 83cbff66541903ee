//! Index tensors: range-checked once, then read as `usize`.

use super::each_row::for_each_row;
use crate::error::{Error, Result, integer_range};
use crate::layout::Layout;
use crate::parallel::{self, Work};
use crate::walk::Walk;
use crate::{Bytes, Element, Tensor, storage};
use flex_math::simd::vectorize_lean;

/// Indices that are converted at a time: 2 KiB, well inside the first-level cache.
pub(super) const BLOCK: usize = 256;

/// The elements of an integer tensor that [`Indices::checked`] found to be in range.
///
/// The indices are not negative, so their bits, read as an unsigned integer, are their value: four widths
/// suffice.
pub(super) struct Indices<'a> {
    data: Data<'a>,
    layout: &'a Layout,
}

enum Data<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl<'a> Indices<'a> {
    /// Reads `tensor` after checking that its elements lie in `0..size`; `size` is the size of the indexed
    /// `axis`.
    ///
    /// # Errors
    /// A dtype that is not an integer, or an index out of range (the first in row-major order is reported).
    pub(super) fn checked(op: &'static str, tensor: &'a Tensor, axis: usize, size: usize) -> Result<Self> {
        check_indices(op, tensor, axis, size)?;
        let data = match tensor.dtype().size() {
            1 => Data::U8(tensor.storage()),
            2 => Data::U16(tensor.storage()),
            4 => Data::U32(tensor.storage()),
            _ => Data::U64(tensor.storage()),
        };
        Ok(Self { data, layout: tensor.layout() })
    }

    #[inline]
    pub(super) fn get(&self, position: usize) -> usize {
        match self.data {
            Data::U8(data) => data[position].into(),
            Data::U16(data) => data[position].into(),
            Data::U32(data) => data[position] as usize,
            Data::U64(data) => data[position] as usize,
        }
    }

    /// Reads `out.len()` indices from the buffer, from `start` on with stride `stride`.
    pub(super) fn read(&self, start: usize, stride: isize, out: &mut [usize]) {
        fn convert<T: Copy>(
            data: &[T],
            start: usize,
            stride: isize,
            out: &mut [usize],
            widen: impl Fn(T) -> usize,
        ) {
            if stride == 1 {
                let row = &data[start..start + out.len()];
                out.iter_mut().zip(row).for_each(|(o, &i)| *o = widen(i));
            } else {
                let mut at = start;
                for o in out {
                    *o = widen(data[at]);
                    at = at.wrapping_add_signed(stride);
                }
            }
        }
        match self.data {
            Data::U8(data) => convert(data, start, stride, out, usize::from),
            Data::U16(data) => convert(data, start, stride, out, usize::from),
            Data::U32(data) => convert(data, start, stride, out, |i| i as usize),
            Data::U64(data) => convert(data, start, stride, out, |i| i as usize),
        }
    }

    /// Reads `out.len()` indices from index `first` on. The tensor must be contiguous, but may start anywhere
    /// in its buffer.
    pub(super) fn read_contiguous(&self, first: usize, out: &mut [usize]) {
        self.read(self.layout.offset() + first, 1, out);
    }

    /// All indices in row-major order.
    pub(super) fn to_list(&self, op: &'static str) -> Result<List> {
        let mut list = List::new(op, self.layout.num_elements())?;
        self.for_each_block(list.as_mut(), |out, indices| out.copy_from_slice(indices));
        Ok(list)
    }

    /// Splits `out`, which has one element per index in row-major order, into blocks; calls `f` with each and
    /// its indices.
    pub(super) fn for_each_block(&self, out: &mut [usize], f: impl Fn(&mut [usize], &[usize]) + Sync) {
        if out.is_empty() {
            return;
        }
        let walk = Walk::new([&Layout::contiguous(self.layout.shape().clone()), self.layout]);
        let inner = walk.inner();
        for_each_row(&walk, out, 2 * size_of::<usize>(), |[_, start], row| {
            let mut block = [0usize; BLOCK];
            for (k, out) in row.chunks_mut(BLOCK).enumerate() {
                let block = &mut block[..out.len()];
                let start = start.wrapping_add_signed((k * BLOCK) as isize * inner.strides[1]);
                self.read(start, inner.strides[1], block);
                f(out, block);
            }
        });
    }
}

/// The value that all `indices` have, if they are equal. Index tensors are often repeated along an axis to
/// address whole slices, and a slice is moved faster than its elements one by one. `None` for fewer than 16
/// indices.
pub(super) fn repeated(indices: &[usize]) -> Option<usize> {
    let (&first, &last) = (indices.first()?, indices.last()?);
    if indices.len() < 16 || first != last {
        return None;
    }
    let differ = vectorize_lean(
        #[inline(always)]
        || indices.iter().fold(0, |differ, &i| differ | (i ^ first)),
    );
    (differ == 0).then_some(first)
}

/// A list of numbers in a pooled buffer: fresh memory from the system would cost more, page by page, than
/// filling it.
pub(super) struct List(Bytes);

impl List {
    /// `len` numbers of arbitrary value.
    pub(super) fn new(op: &'static str, len: usize) -> Result<Self> {
        Ok(Self(storage::scratch(op, len.saturating_mul(size_of::<usize>()))?))
    }
}

impl AsRef<[usize]> for List {
    fn as_ref(&self) -> &[usize] {
        bytemuck::cast_slice(&self.0)
    }
}

impl AsMut<[usize]> for List {
    fn as_mut(&mut self) -> &mut [usize] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// `Ok` if all elements of an integer tensor lie in `0..size`, the size of `axis`.
///
/// # Errors
/// In the name of `op`: a dtype that is not an integer, or the first index, in row-major order, that is out
/// of range.
pub fn check_indices(op: &'static str, tensor: &Tensor, axis: usize, size: usize) -> Result<()> {
    let dtype = tensor.dtype();
    let values = integer_range(op, dtype)?;
    // Read as unsigned numbers, the negative numbers of a signed dtype are those above its largest one.
    let limit = (size as i128).min(values.end() + 1) as u64;
    let search = dispatch!(bits op, dtype, T => Ok(first_in_row::<T> as Search))?;
    let outside = first_outside(tensor, limit, search);
    match outside {
        None => Ok(()),
        Some(bits) if i128::from(bits) > *values.end() => {
            let range = values.end() - values.start() + 1;
            Err(Error::index(op, i128::from(bits) - range, axis, size))
        }
        Some(index) => Err(Error::index(op, index, axis, size)),
    }
}

/// Finds the first element of a row, read as an unsigned number, that is not below the limit.
type Search = fn(&[u8], StridedRow, u64) -> Option<u64>;

/// Elements of a buffer: `len` elements, `stride` apart, from element `start` on.
struct StridedRow {
    start: usize,
    stride: isize,
    len: usize,
}

/// [`Search`] for one width.
fn first_in_row<T: Element>(
    data: &[u8],
    StridedRow { start, stride, len }: StridedRow,
    limit: u64,
) -> Option<u64> {
    let data: &[T] = bytemuck::cast_slice(data);
    let outside = |v: &u64| *v >= limit;
    if stride == 1 {
        let row = &data[start..start + len];
        // The largest element, which is found in vectors of `T`, in place of a comparison of each with
        // `limit`, which would widen them to 64 bits.
        let largest = vectorize_lean(
            #[inline(always)]
            || row.iter().fold(T::ZERO, |largest, &v| if v > largest { v } else { largest }),
        );
        if !outside(&(largest.to_i64() as u64)) {
            return None;
        }
    }
    let element = |i| data[start.wrapping_add_signed(i as isize * stride)].to_i64() as u64;
    (0..len).map(element).find(outside)
}

/// The first element in row-major order, read as an unsigned number, that is not below `limit`.
fn first_outside(tensor: &Tensor, limit: u64, search: Search) -> Option<u64> {
    if tensor.num_elements() == 0 {
        return None;
    }
    let (data, size) = (tensor.storage_bytes(), tensor.dtype().size());
    // Axes that only repeat elements are checked once.
    let mut layout = tensor.layout().clone();
    for axis in 0..layout.rank() {
        if layout.strides()[axis] == 0 {
            layout = layout.narrow(axis, 0, 1).expect("an axis that is not empty");
        }
    }
    let walk = Walk::new([&Layout::contiguous(layout.shape().clone()), &layout]);
    let inner = walk.inner();
    let stride = inner.strides[1];
    let row_outside = |start: usize, len: usize| search(data, StridedRow { start, stride, len }, limit);
    let work = Work::Bytes(layout.num_elements() * size);
    if walk.rows() == 1 {
        let block = parallel::rows_per_task(size);
        let found = parallel::map_blocks(inner.size, block, work, |range| {
            let start = walk.offsets()[1].wrapping_add_signed(range.start as isize * stride);
            row_outside(start, range.len())
        });
        return found.into_iter().flatten().next();
    }
    let block = parallel::rows_per_task(inner.size * size);
    let found = parallel::map_blocks(walk.rows(), block, work, |rows| {
        let mut found = None;
        walk.for_each_row(rows, |[_, start]| {
            if found.is_none() {
                found = row_outside(start, inner.size);
            }
        });
        found
    });
    found.into_iter().flatten().next()
}
