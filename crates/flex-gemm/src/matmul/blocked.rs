//! The blocked driver of matrix products, compiled once for all kernels that multiply packed operands.
//!
//! The scheme of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008). A *line* is
//! a row of the left operand or a column of the right operand: it runs along the terms of the sums. Lines are
//! [packed](Packed) into strips, in which the terms of several lines alternate. Strips of the right operand
//! are wide and are called panels. A strip times a panel is a *tile* of sums. Sums that no longer change are
//! handed to the epilogue of the kernel, which writes elements of any type.
//!
//! The driver knows bytes and no element types. A kernel says how its operands are packed ([`Lines`]), how a
//! strip is multiplied by a panel and what becomes of the sums ([`TileKernel`]). Both are called once per
//! group of strips or per tile, never per element. `tests/int8.rs` is a kernel written for this interface in
//! one file: products of i8 whose epilogue scales, adds a bias and writes f32.

use super::gemm::Threads;
use crate::Bytes;
use crate::parallel::{self, Work};
use crate::storage;
use bytemuck::Pod;
use core::ops::Range;

/// Bytes of the sums that a task holds at a time: one tile for each of its strips.
const SUMS: usize = 8 * 1024;
/// Packed strips start at multiples of this many bytes, a cache line.
const ALIGN: usize = 64;

/// How lines are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// Number of lines.
    pub lines: usize,
    /// Number of packed terms of a line. A packed term may hold several terms of the sum.
    pub terms: usize,
    /// Number of lines per strip.
    pub width: usize,
    /// Whether the last strip has as many lines as the others, the rest of which are zeros. Otherwise it may
    /// be narrower.
    pub pad: bool,
    /// Bytes of a packed term of one line.
    pub term: usize,
    /// Bytes that are read for a packed term of one line.
    pub source: usize,
    /// Bytes of the kernel's notes about a strip, such as the sums of its lines.
    pub notes: usize,
    /// Number of strips that one task packs.
    pub group: usize,
}

impl Packing {
    /// Number of strips.
    fn strips(&self) -> usize {
        self.lines.div_ceil(self.width)
    }

    /// Bytes from the start of a strip to its notes, and to the next strip. Saturates, so that the allocation
    /// is refused.
    fn strides(&self) -> (usize, usize) {
        let terms = self.width.saturating_mul(self.term).saturating_mul(self.terms);
        let aligned = |len: usize| len.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        (aligned(terms), aligned(terms).saturating_add(aligned(self.notes)))
    }

    /// Number of lines of strip `index`, without and with lines of zeros, the bytes of its terms, and
    /// [`strides`](Self::strides).
    fn parts(&self, index: usize) -> (usize, usize, usize, (usize, usize)) {
        let lines = self.width.min(self.lines - index * self.width);
        let width = if self.pad { self.width } else { lines };
        (lines, width, width * self.term * self.terms, self.strides())
    }
}

/// An operand that can be packed: the rows of a left operand, or the columns of a right operand.
pub(crate) trait Lines: Sync {
    /// How the lines are packed.
    fn packing(&self) -> Packing;

    /// Writes every term and every note of these strips.
    ///
    /// In a strip of `width` lines, packed term `p` of line `i` is at `(p * width + i) * term`.
    fn pack(&self, strips: Strips<'_>);
}

/// Neighbouring strips that are being packed. They hold arbitrary bytes.
pub(crate) struct Strips<'a> {
    /// Number of the first strip.
    pub first: usize,
    /// The strips, each of [`stride`](Self::stride) bytes.
    pub bytes: &'a mut [u8],
    /// Bytes from a strip to the next.
    pub stride: usize,
    packing: Packing,
}

/// A strip of an operand. `B` is `&[u8]`, or `&mut [u8]` while it is being packed.
#[derive(Debug)]
pub(crate) struct Strip<B> {
    /// Number of the first line.
    pub first: usize,
    /// Number of lines of the operand.
    pub lines: usize,
    /// Number of lines together with lines of zeros.
    pub width: usize,
    /// The packed terms.
    pub terms: B,
    /// The kernel's notes.
    pub notes: B,
}

impl<'a> Strips<'a> {
    /// The strips one by one.
    pub fn each(self) -> impl Iterator<Item = Strip<&'a mut [u8]>> {
        let Self { first, bytes, stride, packing } = self;
        bytes.chunks_exact_mut(stride).enumerate().map(move |(i, bytes)| {
            let (lines, width, len, (notes, _)) = packing.parts(first + i);
            let (terms, notes) = bytes.split_at_mut(notes);
            let (terms, notes) = (&mut terms[..len], &mut notes[..packing.notes]);
            Strip { first: (first + i) * packing.width, lines, width, terms, notes }
        })
    }
}

/// A packed operand. It may serve many products.
pub(crate) struct Packed {
    buffer: Bytes,
    packing: Packing,
    stride: usize,
}

impl Packed {
    /// Packs all lines.
    ///
    /// # Panics
    /// When the system does not have enough memory.
    pub fn new(lines: &dyn Lines, threads: Threads) -> Self {
        let packing = lines.packing();
        let stride = packing.strides().1;
        let mut buffer = storage::alloc(packing.strips().saturating_mul(stride));
        let work = match threads {
            Threads::Pool => {
                let read = packing.lines.saturating_mul(packing.terms).saturating_mul(packing.source);
                read.saturating_add(buffer.len())
            }
            Threads::One => 0,
        };
        let group = packing.group;
        // Lines without terms or notes have nothing to pack.
        let chunk = group.saturating_mul(stride).max(1);
        parallel::for_each_chunk(&mut buffer, chunk, Work::Bytes(work), |task, bytes| {
            lines.pack(Strips { first: task * group, bytes, stride, packing });
        });
        Self { buffer, packing, stride }
    }

    /// Strip `index`.
    pub fn strip(&self, index: usize) -> Strip<&[u8]> {
        let bytes = &self.buffer[index * self.stride..][..self.stride];
        let (lines, width, len, (notes, _)) = self.packing.parts(index);
        let notes = &bytes[notes..][..self.packing.notes];
        Strip { first: index * self.packing.width, lines, width, terms: &bytes[..len], notes }
    }
}

/// Sizes of the tiles and blocks of a kernel, apart from those that follow from the packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileSizes {
    /// Number of packed terms that one call multiplies at most. The sums of blocks are added up in order.
    pub block: usize,
    /// Bytes of a sum.
    pub sum: usize,
    /// Number of strips of the left operand per task. A block of a panel stays in the cache for all of them.
    pub strips: usize,
}

/// A kernel that multiplies strips by panels.
pub(crate) trait TileKernel: Sync {
    /// The sizes.
    fn sizes(&self) -> TileSizes;

    /// `sums = left @ right`, or `sums += left @ right` if `add`, for a block of the terms of a strip and the
    /// same block of a panel. The sums are row-major: a row per line of the strip, a column per line of the
    /// panel, lines of zeros included.
    fn multiply(&self, left: &[u8], right: &[u8], sums: &mut [u8], add: bool);

    /// The epilogue: writes the sums of a tile to the output, in its element type.
    fn finish(&self, tile: Tile<'_>, out: TileRows<'_>);
}

/// A tile whose sums are complete.
pub(crate) struct Tile<'a> {
    /// The strip, whose lines are the rows of the tile.
    pub left: Strip<&'a [u8]>,
    /// The panel, whose lines are the columns of the tile.
    pub right: Strip<&'a [u8]>,
    /// The sums, row-major, rows and columns of zeros included.
    pub sums: &'a mut [u8],
}

/// The rows of the output that a tile lies in.
pub(crate) struct TileRows<'a> {
    bytes: &'a mut [u8],
    /// Number of elements of a whole row.
    len: usize,
    /// The columns of the tile.
    columns: Range<usize>,
}

impl<'a> TileRows<'a> {
    /// The whole rows, the number of elements of each, and the columns of the tile.
    pub fn parts<T: Pod>(self) -> (&'a mut [T], usize, Range<usize>) {
        (bytemuck::cast_slice_mut(self.bytes), self.len, self.columns)
    }
}

/// The sums of a task.
#[repr(C, align(64))]
struct TaskSums([u8; SUMS]);

/// Multiplies the lines of `left` by the lines of `right`. `out` is row-major, with a row per line of `left`
/// and a column per line of `right`; the epilogue of the kernel decides what its elements are.
///
/// # Panics
/// When the operands differ in the number of terms, `out` has another size, or the tiles of a task have more
/// than 8 KiB of sums.
pub(crate) fn multiply(kernel: &dyn TileKernel, left: &Packed, right: &Packed, out: &mut [u8], work: Work) {
    if out.is_empty() {
        return;
    }
    let (l, r, sizes) = (left.packing, right.packing, kernel.sizes());
    let row = out.len() / l.lines;
    assert!(
        l.terms == r.terms && row * l.lines == out.len() && row.is_multiple_of(r.lines),
        "gemm: the packed operands and the output do not fit together"
    );
    let size = l.width * r.width * sizes.sum;
    assert!(sizes.strips * size <= SUMS, "gemm: {} tiles of {size} bytes per task", sizes.strips);
    let rows = l.width.saturating_mul(row);
    parallel::for_each_chunk(out, rows.saturating_mul(sizes.strips), work, |task, out| {
        let mut sums = TaskSums([0; SUMS]);
        let strips = out.len().div_ceil(rows);
        for panel in 0..r.strips() {
            if l.terms == 0 {
                // No block sets the sums, and the epilogue of the panel before may have changed them.
                sums.0.fill(0);
            }
            let mut start = 0;
            while start < l.terms {
                let block = sizes.block.min(l.terms - start);
                let right = right.strip(panel);
                let b = block_of(&right, r.term, start, block);
                for (s, sums) in sums.0.chunks_exact_mut(size).enumerate().take(strips) {
                    let left = left.strip(task * sizes.strips + s);
                    let sums = &mut sums[..left.width * right.width * sizes.sum];
                    kernel.multiply(block_of(&left, l.term, start, block), b, sums, start > 0);
                }
                start += block;
            }
            for (s, (bytes, sums)) in out.chunks_mut(rows).zip(sums.0.chunks_exact_mut(size)).enumerate() {
                let (left, right) = (left.strip(task * sizes.strips + s), right.strip(panel));
                let columns = right.first..right.first + right.lines;
                let sums = &mut sums[..left.width * right.width * sizes.sum];
                kernel.finish(Tile { left, right, sums }, TileRows { bytes, len: r.lines, columns });
            }
        }
    });
}

/// The bytes of `len` packed terms from `start` on.
fn block_of<'a>(strip: &Strip<&'a [u8]>, term: usize, start: usize, len: usize) -> &'a [u8] {
    let bytes = strip.width * term;
    &strip.terms[start * bytes..][..len * bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_beyond_the_address_space_are_not_shorter_than_they_are() {
        let packing =
            |terms| Packing { lines: 2, terms, width: 32, pad: true, term: 4, source: 1, notes: 0, group: 1 };
        assert_eq!(packing(3).strides(), (384, 384));
        // 128 bytes for each term, which wrap to none.
        assert_eq!(packing((usize::MAX >> 7) + 1).strides(), (usize::MAX, usize::MAX));
        let most = (usize::MAX >> 7) - 1;
        assert_eq!(packing(most).strides(), (most << 7, most << 7));
    }
}
