//! Sampling of images at given points.

use super::{GridPadding, Interpolation, check_image, cubic_weights};
use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::float::Real;
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Element, Tensor, storage};
use alloc::vec::Vec;
use flex_math::simd::vectorize_lean;

/// Samples `x`, `[batch, channels, height, width]`, at the points of `grid`, `[batch, out_height, out_width,
/// 2]`. The result is `[batch, channels, out_height, out_width]`.
///
/// A point is `(x, y)`. The coordinates -1 and 1 are the centres of the first and last elements with
/// `align_corners`, and their outer edges without. Points may lie outside of the image; `padding` defines the
/// values there. As in PyTorch, a NaN or infinite coordinate counts as outside with `Zeros`; with `Border`,
/// NaN counts as 0 pixels and infinity as the nearest border; with `Reflection`, both count as 0 pixels;
/// `Bicubic` gives NaN for both.
///
/// # Errors
/// Fails if a dtype is not a float or differs from the dtype of `x`, a rank is not 4, a spatial axis of `x`
/// is empty, batches differ, points are not pairs, or the mode is [`Interpolation::Lanczos3`].
pub fn grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: Interpolation,
    padding: GridPadding,
    align_corners: bool,
) -> Result<Tensor> {
    const OP: &str = "grid_sample";
    check_image(OP, &x)?;
    check_same_dtype(OP, x.dtype(), grid.dtype())?;
    check_rank(OP, grid.shape(), 4, "a grid [batch, height, width, 2]")?;
    if grid.shape()[0] != x.shape()[0] || grid.shape()[3] != 2 {
        return Err(Error::shapes(OP, x.shape(), grid.shape(), "a grid [batch, height, width, 2]"));
    }
    let (x, grid) = (x.into_contiguous()?, grid.into_contiguous()?);
    let rule = Rule { padding, align_corners };
    computing!(OP, x.dtype(), A => match mode {
        Interpolation::Nearest | Interpolation::NearestExact => run::<A>(OP, &x, &grid, 1, rule, sample_block::<A, 1>),
        Interpolation::Bilinear => run::<A>(OP, &x, &grid, 2, rule, sample_block::<A, 2>),
        Interpolation::Bicubic => run::<A>(OP, &x, &grid, 4, rule, sample_block::<A, 4>),
        Interpolation::Lanczos3 => {
            Err(Error::argument(OP, "mode", "Lanczos3", "Nearest, Bilinear or Bicubic"))
        }
    })
}

/// Points per task: their taps fit into the second-level cache and are used for all channels.
const BLOCK: usize = 1024;

/// A block of points and the planes of an image, of `size` rows and columns each, to sample at them.
struct PointBlock<'a, A> {
    rule: Rule,
    grid: &'a [[A; 2]],
    size: [usize; 2],
    src: &'a [A],
}

/// `sample` computes one block of points in all channels, given the outputs of each channel, with `taps` taps
/// per axis.
fn run<A: Computing>(
    op: &'static str,
    x: &Tensor,
    grid: &Tensor,
    taps: usize,
    rule: Rule,
    sample: fn(&PointBlock<'_, A>, &mut [Sink<'_>]),
) -> Result<Tensor> {
    let [batch, channels, height, width] = core::array::from_fn(|k| x.shape()[k]);
    let [out_height, out_width] = [grid.shape()[1], grid.shape()[2]];
    let (plane, points) = (height * width, out_height * out_width);
    if x.dtype() != A::DTYPE {
        storage::ensure(
            op,
            (x.num_elements().saturating_add(grid.num_elements())).saturating_mul(size_of::<A>()),
        )?;
    }
    // Elements are read in any order, so half precision is converted once for the whole image.
    let (mut wide_x, mut wide_grid) = (Scratch::default(), Scratch::default());
    let src = Source::of(x).load::<A>(&mut wide_x);
    let grid = Source::of(grid).load::<A>(&mut wide_grid);
    let dtype = x.dtype();
    let mut blank = Blank::new(op, [batch, channels, out_height, out_width].into(), dtype)?;
    let out = blank.bytes();
    if out.is_empty() {
        return Ok(blank.finish());
    }
    // A task computes one block of points in all channels of an image.
    let blocks = points.div_ceil(BLOCK);
    let list = channels.saturating_mul(size_of::<Sink<'_>>()).saturating_add(size_of::<Vec<Sink<'_>>>());
    storage::ensure(op, (batch * blocks).saturating_mul(list))?;
    let mut tasks: Vec<Vec<Sink<'_>>> =
        storage::try_collect(op, (0..batch * blocks).map(|_| storage::list(channels)))?;
    for (p, out) in out.chunks_exact_mut(points * dtype.size()).enumerate() {
        for (k, block) in out.chunks_mut(BLOCK * dtype.size()).enumerate() {
            tasks[p / channels * blocks + k].push(Sink::new(block, dtype));
        }
    }
    let work = Work::Flops((batch * points).saturating_mul(32 * taps + 2 * taps * taps * channels));
    parallel::for_each_chunk(&mut tasks, 1, work, |task, rows| {
        let (image, block) = (task / blocks, task % blocks);
        let start = image * points + block * BLOCK;
        let grid = &grid[2 * start..2 * (start + rows[0][0].len())];
        let src = &src[image * channels * plane..][..channels * plane];
        sample(&PointBlock { rule, grid: grid.as_chunks().0, size: [height, width], src }, &mut rows[0]);
    });
    drop(tasks);
    Ok(blank.finish())
}

/// Samples all planes of an image at a block of points; there is one row of the output per plane.
fn sample_block<A: Computing, const K: usize>(block: &PointBlock<'_, A>, rows: &mut [Sink<'_>]) {
    let mut narrow = Scratch::default();
    let mut picks: Vec<Pick<A, K>> = Vec::with_capacity(BLOCK);
    choose(&block.rule, block.grid, block.size, &mut picks);
    for (src, out) in block.src.chunks_exact(block.size[0] * block.size[1]).zip(rows) {
        out.through(&mut narrow, |out| sample(&picks, src, out));
    }
}

/// Appends the taps of each point of `grid` in an image of size `[height, width]` to `picks`. Functions of
/// the computing type alone, this one and the next, so that halves share the code of f32.
fn choose<A: Real, const K: usize>(
    rule: &Rule,
    grid: &[[A; 2]],
    [height, width]: [usize; 2],
    picks: &mut Vec<Pick<A, K>>,
) {
    vectorize_lean(
        #[inline(always)]
        || {
            picks.extend(grid.iter().map(
                #[inline(always)]
                |[x, y]| {
                    let (cols, wx) = rule.taps::<A, K>(*x, width);
                    let (rows, wy) = rule.taps::<A, K>(*y, height);
                    Pick { cols, rows: rows.map(|r| if r == OUTSIDE { r } else { r * width }), wx, wy }
                },
            ))
        },
    );
}

/// Writes the value of each pick in the image `src` to `out`.
fn sample<A: Real, const K: usize>(picks: &[Pick<A, K>], src: &[A], out: &mut [A]) {
    vectorize_lean(
        #[inline(always)]
        || {
            for (o, pick) in out.iter_mut().zip(picks) {
                *o = pick.value(src);
            }
        },
    );
}

/// A position outside of every image; the sum of two of them does not overflow and is outside too.
const OUTSIDE: usize = usize::MAX / 4;

/// The elements that contribute to a point, and their weights per axis.
struct Pick<A, const K: usize> {
    cols: [usize; K],
    /// Start positions of the rows.
    rows: [usize; K],
    wx: [A; K],
    wy: [A; K],
}

impl<A: Real, const K: usize> Pick<A, K> {
    /// The weighted sum of the elements; elements outside of the image are zero.
    #[inline(always)]
    fn value(&self, src: &[A]) -> A {
        let mut sum = A::ZERO;
        for (row, wy) in self.rows.iter().zip(&self.wy) {
            let mut line = A::ZERO;
            for (col, wx) in self.cols.iter().zip(&self.wx) {
                line += src.get(row + col).copied().unwrap_or(A::ZERO) * *wx;
            }
            sum += line * *wy;
        }
        sum
    }
}

/// How a coordinate is mapped to elements.
#[derive(Clone, Copy)]
struct Rule {
    padding: GridPadding,
    align_corners: bool,
}

impl Rule {
    /// The elements of an axis of `size` that contribute to a normalised coordinate, and their weights.
    #[inline(always)]
    fn taps<A: Real, const K: usize>(self, coordinate: A, size: usize) -> ([usize; K], [A; K]) {
        let c = <A as Element>::from_f64;
        let extent = c(size as f64);
        let x = if self.align_corners {
            (coordinate + A::ONE) * c(0.5) * (extent - A::ONE)
        } else {
            ((coordinate + A::ONE) * extent - A::ONE) * c(0.5)
        };
        let (mut elements, mut weights) = ([OUTSIDE; K], [A::ONE; K]);
        match K {
            1 => elements[0] = self.element(round_ties_even(self.confine(x, size)), size),
            2 => {
                let x = self.confine(x, size);
                let floor = num_traits::Float::floor(x);
                let t = x - floor;
                elements[0] = self.element(floor, size);
                elements[1] = self.element(floor + A::ONE, size);
                // An infinite position has only elements outside of the image, which count as zero.
                let finite = num_traits::Float::is_finite(x);
                weights[0] = if finite { A::ONE - t } else { A::ZERO };
                weights[1] = if finite { t } else { A::ZERO };
            }
            _ => {
                let floor = num_traits::Float::floor(x);
                for (k, element) in elements.iter_mut().enumerate() {
                    *element = self.element(self.confine(floor + c(k as f64 - 1.0), size), size);
                }
                weights.copy_from_slice(&cubic_weights(x - floor));
            }
        }
        (elements, weights)
    }

    /// Maps a position into the axis, unless the padding is `Zeros`.
    #[inline(always)]
    fn confine<A: Real>(self, x: A, size: usize) -> A {
        let c = <A as Element>::from_f64;
        let last = c((size - 1) as f64);
        // NaN becomes 0.
        let clip = |x: A| if x > A::ZERO { if x < last { x } else { last } } else { A::ZERO };
        match self.padding {
            GridPadding::Zeros => x,
            GridPadding::Border => clip(x),
            GridPadding::Reflection => {
                let (low, span) =
                    if self.align_corners { (A::ZERO, last) } else { (c(-0.5), c(size as f64)) };
                if span == A::ZERO {
                    return A::ZERO;
                }
                let distance = num_traits::Float::abs(x - low);
                let turns = num_traits::Float::floor(distance / span);
                let rest = distance % span;
                let odd = turns * c(0.5) != num_traits::Float::floor(turns * c(0.5));
                clip(if odd { span - rest + low } else { rest + low })
            }
        }
    }

    /// The element at an integer position; [`OUTSIDE`] if there is none.
    #[inline(always)]
    fn element<A: Real>(self, position: A, size: usize) -> usize {
        let inside = position >= A::ZERO && position < <A as Element>::from_f64(size as f64);
        if !inside {
            return OUTSIDE;
        }
        let element = Element::to_i64(position) as usize;
        if element < size { element } else { OUTSIDE }
    }
}

/// Rounds to the nearest integer, ties to even.
#[inline(always)]
fn round_ties_even<A: Real>(x: A) -> A {
    let half = <A as Element>::from_f64(0.5);
    let floor = num_traits::Float::floor(x);
    let odd = floor * half != num_traits::Float::floor(floor * half);
    let up = x - floor > half || (x - floor == half && odd);
    if up { floor + A::ONE } else { floor }
}
