//! Shape arithmetic of a matrix product: the operands, the number of products, and the algorithm. Computes no
//! values.

use super::gemm::MatLayout;
use super::gemv::MIN_BLOCK;
use super::half;
use crate::error::{Error, Result};
use crate::layout::{Layout, broadcast_shapes, checked_num_elements, stretched_stride};
use crate::parallel::thresholds::{PRODUCTS_PER_THREAD, WAKE_MULTIPLICATIONS};
use crate::{DType, Shape};
use smallvec::SmallVec;

/// An axis along which products repeat: its size and the strides of both operands along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub size: usize,
    pub lhs: isize,
    pub rhs: isize,
}

/// Strides of the matrices of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strides2 {
    pub row: isize,
    pub col: isize,
}

impl Strides2 {
    /// Whether neighbours along one of the axes are neighbours in memory. Other operands are copied before
    /// use: each of their elements would cost a cache line several times.
    fn has_unit(self, rows: usize, cols: usize) -> bool {
        self.row == 1 || self.col == 1 || (rows == 1 && cols == 1)
    }
}

/// What is known of the right operand of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RightOperand {
    /// The weight of a layer: many products will read the same numbers.
    Weight,
    /// Nothing: it may be a weight, or a result that one product reads.
    Any,
}

/// How the products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// The output has no elements.
    Empty,
    /// The sums have no terms.
    Zeros,
    /// One operand is a vector; the memory traffic of the other operand limits the speed.
    Gemv,
    /// Matrix products one after the other, each on all threads if the product is large enough.
    Gemm,
    /// Many matrix products, each on one thread.
    BatchedGemm,
}

/// `batch` products `[m, k] @ [k, n]`, written row-major one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProductPlan {
    /// Shape of the output.
    pub shape: Shape,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub lhs: Strides2,
    pub rhs: Strides2,
    /// What is known of the right operand.
    pub operand: RightOperand,
    pub lhs_offset: usize,
    pub rhs_offset: usize,
    /// The batch axes, outermost first, without axes of size one.
    pub batch: SmallVec<[BatchAxis; 4]>,
    /// Whether the operand has to be made contiguous first (neither of its strides is 1).
    pub copy_lhs: bool,
    /// See `copy_lhs`.
    pub copy_rhs: bool,
}

impl ProductPlan {
    /// Plans `lhs @ rhs` over the last two axes; the leading axes broadcast.
    ///
    /// # Errors
    /// A rank below two, different inner sizes, leading axes that do not broadcast, an output too large.
    pub fn new(op: &'static str, lhs: &Layout, rhs: &Layout) -> Result<Self> {
        for layout in [lhs, rhs] {
            if layout.rank() < 2 {
                return Err(Error::shape(op, layout.shape(), "at least two axes"));
            }
        }
        let (ls, rs) = (lhs.shape(), rhs.shape());
        let (lr, rr) = (ls.len(), rs.len());
        let (m, k, n) = (ls[lr - 2], ls[lr - 1], rs[rr - 1]);
        if rs[rr - 2] != k {
            return Err(Error::shapes(op, ls, rs, "[.., m, k] and [.., k, n]"));
        }
        let lead = broadcast_shapes(op, &ls[..lr - 2], &rs[..rr - 2])
            .map_err(|_| Error::shapes(op, ls, rs, "leading axes of equal sizes, or size 1"))?;
        let with_lead = |rows, cols| {
            if lead.is_empty() {
                return Shape::new([rows, cols]);
            }
            lead.iter().copied().chain([rows, cols]).collect()
        };
        let shape = with_lead(m, n);
        checked_num_elements(op, &shape)?;
        let mut batch = SmallVec::new();
        if !lead.is_empty() {
            let (left, right) = (with_lead(m, k), with_lead(k, n));
            // After broadcasting, the operands may have more elements than the output.
            checked_num_elements(op, &left)?;
            checked_num_elements(op, &right)?;
            batch.extend((0..lead.len()).filter(|&axis| lead[axis] != 1).map(|axis| BatchAxis {
                size: lead[axis],
                lhs: stretched_stride(lhs, &left, axis),
                rhs: stretched_stride(rhs, &right, axis),
            }));
        }
        let (l, r) = (&lhs.strides()[lr - 2..], &rhs.strides()[rr - 2..]);
        let mut plan = Self {
            m,
            n,
            k,
            lhs: unit_strides(l[0], l[1], m, k),
            rhs: unit_strides(r[0], r[1], k, n),
            operand: RightOperand::Any,
            lhs_offset: lhs.offset(),
            rhs_offset: rhs.offset(),
            batch,
            copy_lhs: false,
            copy_rhs: false,
            shape,
        };
        plan.merge();
        plan.copy_lhs = !plan.lhs.has_unit(plan.m, plan.k);
        plan.copy_rhs = !plan.rhs.has_unit(plan.k, plan.n);
        Ok(plan)
    }

    /// Turns batch axes along which `rhs` is shared into rows of `lhs`, innermost first, then joins the
    /// remaining axes.
    fn merge(&mut self) {
        while let Some(axis) = self.batch.last() {
            let continues = axis.lhs == (self.m as isize).wrapping_mul(self.lhs.row);
            if axis.rhs != 0 || !(continues || self.m == 1) {
                break;
            }
            if self.m == 1 {
                self.lhs.row = axis.lhs;
                // The stride of a single column does not matter; see `unit_strides`.
                self.lhs = unit_strides(self.lhs.row, self.lhs.col, axis.size, self.k);
            }
            self.m *= axis.size;
            self.batch.pop();
        }
        if self.batch.is_empty() {
            return;
        }
        let mut joined: SmallVec<[BatchAxis; 4]> = SmallVec::new();
        for axis in self.batch.drain(..) {
            match joined.last_mut() {
                Some(outer)
                    if outer.lhs == axis.lhs.wrapping_mul(axis.size as isize)
                        && outer.rhs == axis.rhs.wrapping_mul(axis.size as isize) =>
                {
                    *outer = BatchAxis { size: outer.size * axis.size, ..axis };
                }
                _ => joined.push(axis),
            }
        }
        self.batch = joined;
    }

    /// Number of products.
    pub fn batch_size(&self) -> usize {
        self.batch.iter().map(|axis| axis.size).product()
    }

    /// Multiplications per product.
    pub fn multiplications(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// An upper bound of the bytes that the kernels of `dtype` take while they compute, but for a few MiB.
    pub fn working_memory(&self, dtype: DType, threads: usize) -> usize {
        let (m, n, k) = (self.m, self.n, self.k);
        let area = |rows: usize, cols: usize, bytes: usize| rows.saturating_mul(cols).saturating_mul(bytes);
        // The vector and the sums as accumulators, and a row of sums for each block of terms.
        let vectors = |sums: usize| area(k, 1, 8).saturating_add(area(sums, k / MIN_BLOCK + 2, 8));
        let one = if m == 1 || n == 1 {
            vectors(m.max(n))
        } else {
            // Few rows may be vectors.
            let by_blocks = half::working_memory(m, n, k);
            let by_blocks = if m <= half::SEVERAL_ROWS { by_blocks.max(vectors(n)) } else { by_blocks };
            // Both operands packed, and padded to the widest strips. A strip of four lines and more, and what
            // is noted about it, end with cache lines.
            let packed =
                area(m.saturating_add(n).saturating_add(256), k.saturating_mul(8).saturating_add(32), 1);
            match dtype {
                DType::F32 | DType::F64 => 0,
                DType::F16 => by_blocks,
                // Without an instruction for bf16, and for few rows, as f16.
                DType::BF16 => packed.max(by_blocks),
                _ => packed,
            }
        };
        let at_once = if self.is_by_batch(threads) { self.batch_size().min(threads) } else { 1 };
        one.saturating_mul(at_once)
    }

    /// Whether threads pay for one product even if they have to be woken.
    pub fn is_large(&self) -> bool {
        self.multiplications() >= WAKE_MULTIPLICATIONS
    }

    /// Whether matrix products run side by side on `threads` threads, rather than one after the other.
    pub fn is_by_batch(&self, threads: usize) -> bool {
        let batch = self.batch_size();
        let many = batch >= PRODUCTS_PER_THREAD * threads;
        batch > 1 && (!self.is_large() || many || batch.is_multiple_of(threads))
    }

    /// The algorithm on `threads` threads. The number of threads only affects the choice between
    /// [`Algorithm::Gemm`] and [`Algorithm::BatchedGemm`], which give the same bits.
    pub fn algorithm(&self, threads: usize) -> Algorithm {
        let batch = self.batch_size();
        if batch == 0 || self.m == 0 || self.n == 0 {
            Algorithm::Empty
        } else if self.k == 0 {
            Algorithm::Zeros
        } else if self.m == 1 || self.n == 1 {
            Algorithm::Gemv
        } else if self.is_by_batch(threads) {
            Algorithm::BatchedGemm
        } else {
            Algorithm::Gemm
        }
    }

    /// The layouts of both operands of product number `index`.
    pub fn layouts(&self, index: usize) -> [MatLayout; 2] {
        let (m, n, k) = (self.m, self.n, self.k);
        let (lhs, rhs) = self.offsets(index);
        let matrix = |rows, cols, offset, strides: Strides2| MatLayout {
            rows,
            cols,
            offset,
            row_stride: strides.row,
            col_stride: strides.col,
        };
        [matrix(m, k, lhs, self.lhs), matrix(k, n, rhs, self.rhs)]
    }

    /// Offsets of the matrices of both operands in product number `index`.
    pub fn offsets(&self, index: usize) -> (usize, usize) {
        let (mut rest, mut lhs, mut rhs) = (index, self.lhs_offset, self.rhs_offset);
        for axis in self.batch.iter().rev() {
            let i = (rest % axis.size) as isize;
            rest /= axis.size;
            lhs = lhs.wrapping_add_signed(i * axis.lhs);
            rhs = rhs.wrapping_add_signed(i * axis.rhs);
        }
        (lhs, rhs)
    }
}

/// The strides, with 1 for an axis of size one, whose stride does not matter, if that makes the matrix look
/// contiguous.
fn unit_strides(row: isize, col: isize, rows: usize, cols: usize) -> Strides2 {
    match (rows, cols) {
        (1, _) if col != 1 => Strides2 { row: 1, col },
        (_, 1) if row != 1 => Strides2 { row, col: 1 },
        _ => Strides2 { row, col },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    fn dense(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::from(dims.to_vec()))
    }

    fn plan(lhs: &[usize], rhs: &[usize]) -> ProductPlan {
        ProductPlan::new("matmul", &dense(lhs), &dense(rhs)).unwrap()
    }

    #[test]
    fn a_shared_right_operand_turns_the_batch_into_rows() {
        let p = plan(&[8, 3, 5, 7], &[7, 2]);
        assert_eq!((p.m, p.n, p.k, p.batch_size()), (120, 2, 7, 1));
        assert_eq!(p.shape.to_vec(), vec![8, 3, 5, 2]);
        let p = plan(&[8, 1, 7], &[1, 7, 2]);
        assert_eq!((p.m, p.batch_size(), p.lhs), (8, 1, Strides2 { row: 7, col: 1 }));
        // One row per matrix merges even if the matrices are not adjacent in memory.
        let spread = dense(&[8, 4, 7]).narrow(1, 2, 1).unwrap();
        let p = ProductPlan::new("matmul", &spread, &dense(&[7, 2])).unwrap();
        assert_eq!((p.m, p.batch_size(), p.lhs), (8, 1, Strides2 { row: 28, col: 1 }));
        // Rows that the next matrix does not continue stay a batch.
        let spread = dense(&[8, 4, 7]).narrow(1, 1, 2).unwrap();
        let p = ProductPlan::new("matmul", &spread, &dense(&[7, 2])).unwrap();
        assert_eq!((p.m, p.batch_size()), (2, 8));
    }

    #[test]
    fn batch_axes_join_and_broadcast() {
        let p = plan(&[2, 3, 4, 5], &[2, 3, 5, 6]);
        assert_eq!(p.batch.to_vec(), vec![BatchAxis { size: 6, lhs: 20, rhs: 30 }]);
        let p = plan(&[2, 1, 4, 5], &[3, 5, 6]);
        assert_eq!(p.shape.to_vec(), vec![2, 3, 4, 6]);
        let offsets: Vec<_> = (0..6).map(|i| p.offsets(i)).collect();
        assert_eq!(offsets, vec![(0, 0), (0, 30), (0, 60), (20, 0), (20, 30), (20, 60)]);
    }

    #[test]
    fn operands_without_a_unit_stride_are_copied() {
        let t = dense(&[6, 5]).swap_axes(0, 1).unwrap();
        assert!(!ProductPlan::new("matmul", &t, &dense(&[6, 4])).unwrap().copy_lhs);
        let wide = dense(&[5, 12, 2]).narrow(2, 0, 1).unwrap();
        let stepped = Layout::new(Shape::from(vec![5, 12]), wide.strides()[..2].into(), 0);
        let p = ProductPlan::new("matmul", &stepped, &dense(&[12, 4])).unwrap();
        assert!(p.copy_lhs && !p.copy_rhs);
    }

    #[test]
    fn the_algorithm_follows_the_shape() {
        assert_eq!(plan(&[0, 4], &[4, 5]).algorithm(2), Algorithm::Empty);
        assert_eq!(plan(&[0, 3, 4], &[4, 5]).algorithm(2), Algorithm::Empty);
        assert_eq!(plan(&[3, 0], &[0, 5]).algorithm(2), Algorithm::Zeros);
        assert_eq!(plan(&[1, 4], &[4, 5]).algorithm(2), Algorithm::Gemv);
        assert_eq!(plan(&[3, 4], &[4, 1]).algorithm(2), Algorithm::Gemv);
        assert_eq!(plan(&[64, 64], &[64, 64]).algorithm(2), Algorithm::Gemm);
        assert_eq!(plan(&[12, 512, 64], &[12, 64, 512]).algorithm(2), Algorithm::BatchedGemm);
        assert_eq!(plan(&[3, 512, 512], &[3, 512, 512]).algorithm(2), Algorithm::Gemm);
        assert_eq!(plan(&[3, 32, 32], &[3, 32, 32]).algorithm(2), Algorithm::BatchedGemm);
    }

    #[test]
    fn bad_shapes_are_refused() {
        let err = |l: &[usize], r: &[usize]| {
            ProductPlan::new("matmul", &dense(l), &dense(r)).unwrap_err().to_string()
        };
        assert!(err(&[4], &[4, 5]).starts_with("matmul: got a tensor of shape [4]"));
        assert!(err(&[3, 4], &[5, 6]).contains("[3, 4] and [5, 6]"));
        assert!(err(&[2, 3, 4], &[3, 4, 6]).contains("leading axes"));
        let huge = dense(&[1 << 31, 1]);
        let wide = huge.clone().swap_axes(0, 1).unwrap();
        assert!(
            ProductPlan::new("matmul", &huge, &wide).unwrap_err().to_string().contains("memory can address")
        );
    }
}
