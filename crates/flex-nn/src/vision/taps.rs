//! The elements of an axis that contribute to each output element, and their weights.

use super::nearest::source;
use super::{Interpolation, cubic_weights};
use crate::error::Result;
use crate::float::Real;
use crate::storage;
use alloc::vec::Vec;
use core::f64::consts::PI;
use num_traits::Float;

/// The most taps of a mode.
pub(super) const MOST: usize = 6;

/// Some neighbouring elements per output `i`, from `starts[i]` on. Up to half of them may be outside of the
/// axis.
pub(super) struct Taps<A> {
    pub input: usize,
    /// The number of taps: 1, 2, 4 or 6.
    pub count: usize,
    /// First tap, increased by [`pad`](Self::pad) so that it is not negative.
    starts: Vec<usize>,
    /// `count` weights per output.
    weights: Vec<A>,
    /// Whether taps outside of the axis repeat the border element; otherwise they are skipped and have weight
    /// zero.
    pub repeat_border: bool,
}

impl<A: Real> Taps<A> {
    /// Taps that resample `input` elements to `output` elements.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) under the name `op`.
    pub fn new(
        op: &'static str,
        input: usize,
        output: usize,
        mode: Interpolation,
        align_corners: bool,
    ) -> Result<Self> {
        let scale = match align_corners {
            true if output > 1 => (input - 1) as f64 / (output - 1) as f64,
            true => 0.0,
            false => input as f64 / output as f64,
        };
        let axis = ResampledAxis { input, output, mode, align_corners, scale };
        let count = match mode {
            Interpolation::Nearest | Interpolation::NearestExact => 1,
            Interpolation::Bilinear => 2,
            Interpolation::Bicubic => 4,
            Interpolation::Lanczos3 => MOST,
        };
        let mut starts = storage::try_list(op, output)?;
        let mut weights = storage::try_list(op, output.saturating_mul(count))?;
        for i in 0..output {
            let mut w = [0.0; MOST];
            let first = tap(&axis, i, &mut w[..count]);
            starts.push((first + (count / 2) as isize) as usize);
            weights.extend(w[..count].iter().map(|w| A::from_f64(*w)));
        }
        Ok(Self { input, count, starts, weights, repeat_border: mode != Interpolation::Lanczos3 })
    }

    /// How far taps extend past both ends of the axis.
    #[inline(always)]
    pub fn pad(&self) -> usize {
        self.count / 2
    }

    /// The weights of the taps of output `i`.
    #[inline(always)]
    pub fn weights(&self, i: usize) -> &[A] {
        &self.weights[i * self.count..][..self.count]
    }

    /// Where each output begins, and the weights of its taps, of which there must be `K`.
    #[inline(always)]
    pub fn each<const K: usize>(&self) -> impl Iterator<Item = (usize, &[A; K])> {
        debug_assert_eq!(K, self.count);
        self.starts.iter().copied().zip(self.weights.as_chunks::<K>().0)
    }

    /// Number of output elements.
    pub fn output(&self) -> usize {
        self.starts.len()
    }

    /// The element that tap `k` of output `i` reads; `None` if it is outside of the axis and skipped.
    #[inline(always)]
    pub fn element(&self, i: usize, k: usize) -> Option<usize> {
        let at = self.starts[i] + k;
        if self.repeat_border {
            return Some(at.saturating_sub(self.pad()).min(self.input - 1));
        }
        at.checked_sub(self.pad()).filter(|at| *at < self.input)
    }

    /// A non-empty range that contains the elements that outputs `i` read.
    pub fn reach(&self, i: core::ops::Range<usize>) -> core::ops::Range<usize> {
        let low = self.starts[i.start].saturating_sub(self.pad()).min(self.input - 1);
        let high = (self.starts[i.end - 1] + self.count).saturating_sub(self.pad());
        low..high.clamp(low + 1, self.input)
    }
}

/// An axis of `input` elements that become `output` elements.
struct ResampledAxis {
    input: usize,
    output: usize,
    mode: Interpolation,
    align_corners: bool,
    /// Distance between the positions of neighbouring outputs.
    scale: f64,
}

/// The first tap of output `i`, and the weights `w` of all its taps. A function of f64 alone: the weights are
/// rounded to the computing type.
fn tap(axis: &ResampledAxis, i: usize, w: &mut [f64]) -> isize {
    let &ResampledAxis { input, output, mode, align_corners, scale } = axis;
    let position = match align_corners {
        true => i as f64 * scale,
        false => (i as f64 + 0.5) * scale - 0.5,
    };
    let x = match mode {
        Interpolation::Bilinear => position.clamp(0.0, (input - 1) as f64),
        _ => position,
    };
    let floor = Float::floor(x).clamp(-1.0, (input - 1) as f64);
    let t = x - floor;
    let pad = w.len() / 2;
    let first = match mode {
        Interpolation::Nearest => source(i, input, output, false) as isize,
        Interpolation::NearestExact => source(i, input, output, true) as isize,
        _ => floor as isize + 1 - pad as isize,
    };
    match mode {
        Interpolation::Nearest | Interpolation::NearestExact => w.copy_from_slice(&[1.0]),
        Interpolation::Bilinear => w.copy_from_slice(&[1.0 - t, t]),
        Interpolation::Bicubic => w.copy_from_slice(&cubic_weights(t)),
        Interpolation::Lanczos3 => {
            for (k, w) in w.iter_mut().enumerate() {
                let inside = (0..input as isize).contains(&(first + k as isize));
                *w = if inside { lanczos3(t + (pad - 1) as f64 - k as f64) } else { 0.0 };
            }
            let sum: f64 = w.iter().sum();
            w.iter_mut().for_each(|w| *w /= sum);
        }
    }
    first
}

/// The Lanczos kernel with three lobes.
fn lanczos3(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    if x.abs() >= 3.0 {
        return 0.0;
    }
    let (a, b) = (PI * x, PI * x / 3.0);
    Float::sin(a) * Float::sin(b) / (a * b)
}
