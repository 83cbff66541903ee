//! The elements of an axis that contribute to each output element, and their weights.

use super::nearest::source;
use super::{Interpolation, cubic_weights};
use crate::error::Result;
use crate::float::Real;
use crate::storage;
use alloc::vec::Vec;
use core::f64::consts::PI;
use num_traits::Float;

/// `K` neighbouring elements per output `i`, from `starts[i]` on. Some may be up to `K / 2` outside of the
/// axis.
pub(super) struct Taps<A, const K: usize> {
    pub input: usize,
    /// `K`, unknown to the compiler.
    pub taps: usize,
    /// First tap, increased by [`PAD`](Self::PAD) so that it is not negative.
    pub starts: Vec<usize>,
    pub weights: Vec<[A; K]>,
    /// Whether taps outside of the axis repeat the border element; otherwise they are skipped and have weight
    /// zero.
    pub repeat_border: bool,
}

impl<A: Real, const K: usize> Taps<A, K> {
    /// How far taps extend past both ends of the axis.
    pub const PAD: usize = K / 2;

    /// Taps that resample `input` elements to `output` elements.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) under the name `op`.
    ///
    /// # Panics
    /// Panics if `K` is not the number of taps of `mode`: 1, 2 and 4 (6 is not checked).
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
        let mut starts = storage::try_list(op, output)?;
        let mut weights = storage::try_list(op, output)?;
        for i in 0..output {
            let mut w = [0.0; K];
            let first = tap(&axis, i, &mut w);
            starts.push((first + Self::PAD as isize) as usize);
            weights.push(w.map(A::from_f64));
        }
        Ok(Self { input, taps: K, starts, weights, repeat_border: mode != Interpolation::Lanczos3 })
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
            return Some(at.saturating_sub(Self::PAD).min(self.input - 1));
        }
        at.checked_sub(Self::PAD).filter(|at| *at < self.input)
    }

    /// A non-empty range that contains the elements that outputs `i` read.
    pub fn reach(&self, i: core::ops::Range<usize>) -> core::ops::Range<usize> {
        let low = self.starts[i.start].saturating_sub(Self::PAD).min(self.input - 1);
        let high = (self.starts[i.end - 1] + K).saturating_sub(Self::PAD);
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
