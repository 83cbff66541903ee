//! Interleaved images: several images of a batch as the innermost axis, along which vectors lie.

use crate::error::Result;
use crate::parallel::thresholds::TASK_CHAIN_ELEMENTS;
use crate::parallel::{Work, for_each_chunk};
use crate::storage::Finish;
use crate::stored::Source;
use crate::{Shape, Tensor};
use alloc::vec::Vec;

/// Cost of interleaving or separating images of this many elements, of sources and outputs together, in
/// multiply-adds of a vector. Beyond 4 MiB a core of Zen 4 takes 1.1 ns for one: for the pointwise
/// convolution of eight images from 1,024 to 512 channels at 14x14, interleaving images costs as much as it
/// gains.
pub(super) fn interleaving_cost(elements: usize) -> f64 {
    if elements <= 1 << 20 { elements as f64 } else { 4.0 * elements as f64 }
}

/// How many images of a batch are interleaved. They divide the batch; with 1, tensors stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Images(pub usize);

impl Images {
    /// Computes a tensor of shape `shape` by `run`, which works on interleaved images.
    ///
    /// `run` gets the interleaved images of `source`, the shape of its result (`shape` with interleaved
    /// images), and the `finish` that it must call for the elements that it has computed. If images are
    /// interleaved, `run` gets no `finish`: the elements are not in their final order before its result is
    /// separated again, and this function calls `finish` after that.
    ///
    /// # Errors
    /// The errors of `run`; not enough memory.
    pub fn through(
        self,
        source: &Tensor,
        shape: &Shape,
        finish: Option<Finish<'_>>,
        run: impl FnOnce(Source<'_>, Shape, Option<Finish<'_>>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.0 == 1 {
            return run(Source::of(source), shape.clone(), finish);
        }
        let mixed = self.interleave(source.clone())?;
        let out = run(Source::of(&mixed), self.shape(shape), None)?;
        let mut out = self.separate(out, shape.clone())?;
        if let Some(finish) = finish {
            let size = out.dtype().size();
            let bytes = out.dense_bytes_mut().expect("a result that nothing shares");
            let work = Work::Bytes(2 * bytes.len());
            let task = TASK_CHAIN_ELEMENTS;
            for_each_chunk(bytes, task * size, work, |k, piece| finish(k * task, piece));
        }
        Ok(out)
    }

    /// `[batch, channels, spatial...]` as a contiguous tensor `[batch / images, channels, spatial...,
    /// images]`.
    ///
    /// # Errors
    /// Not enough memory.
    fn interleave(self, source: Tensor) -> Result<Tensor> {
        if self.0 == 1 {
            return source.into_contiguous();
        }
        let mut shape = source.shape().clone();
        shape[0] /= self.0;
        shape.insert(1, self.0);
        let mut axes: Vec<usize> = (0..shape.rank()).collect();
        let images = axes.remove(1);
        axes.push(images);
        source.reshape(shape)?.permute(&axes)?.into_contiguous()
    }

    /// The interleaved shape of `[batch, channels, spatial...]`.
    fn shape(self, shape: &Shape) -> Shape {
        let mut shape = shape.clone();
        if self.0 > 1 {
            shape[0] /= self.0;
            shape.push(self.0);
        }
        shape
    }

    /// The tensor of this shape whose interleaved images are `source`.
    ///
    /// # Errors
    /// Not enough memory.
    fn separate(self, source: Tensor, shape: Shape) -> Result<Tensor> {
        if self.0 == 1 {
            return Ok(source);
        }
        let last = source.rank() - 1;
        let mut axes: Vec<usize> = (0..last).collect();
        axes.insert(1, last);
        source.permute(&axes)?.into_contiguous()?.reshape(shape)
    }
}

/// `[batch, groups * channels, spatial...]` as a contiguous tensor `[groups, batch, spatial..., channels]`.
///
/// # Errors
/// Not enough memory.
pub(super) fn channels_inside(source: Tensor, groups: usize) -> Result<Tensor> {
    let mut shape = source.shape().clone();
    shape[1] /= groups;
    shape.insert(1, groups);
    let mut axes: Vec<usize> = (0..shape.rank()).collect();
    axes.swap(0, 1);
    let channels = axes.remove(2);
    axes.push(channels);
    source.reshape(shape)?.permute(&axes)?.into_contiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_is_undone() {
        let values: Vec<f32> = (0..240).map(|i| i as f32).collect();
        let x = Tensor::from_slice(&values, [6, 4, 2, 5]).unwrap();
        for images in [1, 2, 3, 6] {
            let images = Images(images);
            let mixed = images.interleave(x.clone()).unwrap();
            assert_eq!(mixed.shape(), &images.shape(x.shape()));
            let back = images.separate(mixed, x.shape().clone()).unwrap();
            assert!(back.shape() == x.shape() && back.to_vec::<f32>() == values);
        }
        let mixed = Images(3).interleave(x.clone()).unwrap();
        // Image 4 is the second one of the second group.
        assert_eq!(mixed.shape().to_vec(), [2, 4, 2, 5, 3]);
        assert_eq!(mixed.to_vec::<f32>()[((4 + 2) * 10 + 7) * 3 + 1], values[(4 * 4 + 2) * 10 + 7]);
        let inside = channels_inside(x, 2).unwrap();
        assert_eq!(inside.shape().to_vec(), [2, 6, 2, 5, 2]);
        assert_eq!(inside.to_vec::<f32>()[((6 + 4) * 10 + 7) * 2 + 1], values[(4 * 4 + 3) * 10 + 7]);
    }
}
