//! The same contents in every memory layout that a backend can be handed.

use crate::array::Array;
use crate::kind::Kind;
pub use crate::layouts::{LAYOUTS, Layout};
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType, Shape, Slice, TensorData};

/// A tensor in some layout, with its contents.
pub struct Laid<B: Backend, K: Kind<B>> {
    /// The tensor under test.
    pub tensor: K::Tensor,
    /// Its contents. In [`Layout::Expanded`] and [`Layout::Overlapping`] elements repeat.
    pub content: Array<K::Value>,
    /// The tensor that `tensor` is a view of.
    base: K::Tensor,
    base_data: TensorData,
}

impl<B: Backend, K: Kind<B>> Laid<B, K> {
    /// Splits off the witness, which can verify that the original was left unchanged.
    pub fn share(self) -> (K::Tensor, Array<K::Value>, Witness<B, K>) {
        (self.tensor, self.content, Witness { base: self.base, data: self.base_data })
    }

    /// Drops every other reference to the buffer, so that the tensor may be overwritten.
    pub fn unique(self) -> (K::Tensor, Array<K::Value>) {
        (self.tensor, self.content)
    }
}

/// Holds the tensor that a view was taken of, and the bytes that it was made from.
pub struct Witness<B: Backend, K: Kind<B>> {
    base: K::Tensor,
    data: TensorData,
}

impl<B: Backend, K: Kind<B>> Witness<B, K> {
    /// Whether the original still holds the bytes it was made from.
    ///
    /// # Errors
    /// Fails if the original has changed.
    pub fn verify(self) -> Result<(), String> {
        let now = K::into_data(self.base);
        if now.as_bytes() == self.data.as_bytes() {
            Ok(())
        } else {
            Err("the shared original was changed".into())
        }
    }
}

/// Lays out an array. `None` if the shape does not allow the layout, such as a transposed vector.
pub fn lay_out<B: Backend, K: Kind<B>>(
    array: &Array<K::Value>,
    dtype: DType,
    layout: Layout,
    device: &Device<B>,
) -> Option<Laid<B, K>> {
    let shape = array.shape().to_vec();
    let rank = shape.len();
    let garbage = K::garbage(dtype);
    // Uploads `base` and takes a view of it that holds `content`.
    let make = |base: Array<K::Value>, content: Array<K::Value>, view: &dyn Fn(K::Tensor) -> K::Tensor| {
        let base_data = K::encode(&base, dtype);
        let base = K::from_data(base_data.clone(), device);
        crate::trace::operand(dtype, layout);
        Some(Laid { tensor: view(base.clone()), content, base, base_data })
    };
    let content = || array.clone();
    match layout {
        Layout::Contiguous => make(content(), content(), &|t| t),
        Layout::Transposed if rank >= 2 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(rank - 2, rank - 1);
            make(array.permute(&axes), content(), &|t| K::swap_dims(t, rank - 2, rank - 1))
        }
        Layout::Permuted if rank >= 3 => {
            let forward: Vec<usize> = (0..rank).map(|k| (k + 1) % rank).collect();
            let back: Vec<usize> = (0..rank).map(|k| (k + rank - 1) % rank).collect();
            make(array.permute(&forward), content(), &|t| K::permute(t, &back))
        }
        Layout::Flipped if rank >= 1 => {
            let axes: Vec<usize> = (0..rank).collect();
            let flipped = Array::from_fn(shape.clone(), |index| {
                let source: Vec<usize> = index.iter().zip(&shape).map(|(&i, &size)| size - 1 - i).collect();
                array.at(&source)
            });
            make(flipped, content(), &|t| K::flip(t, &axes))
        }
        Layout::Stepped if rank >= 1 && !array.is_empty() => {
            let wide: Vec<usize> = shape.iter().map(|&size| 2 * size).collect();
            let base = Array::from_fn(wide, |index| {
                if index.iter().all(|i| i % 2 == 0) {
                    array.at(&index.iter().map(|i| i / 2).collect::<Vec<_>>())
                } else {
                    garbage
                }
            });
            let slices = vec![Slice::new(0, None, 2); rank];
            make(base, content(), &|t| K::slice(t, &slices))
        }
        Layout::Offset if rank >= 1 && !array.is_empty() => {
            let wide: Vec<usize> = shape.iter().map(|&size| size + 3).collect();
            let base = Array::from_fn(wide, |index| {
                let inside = index.iter().zip(&shape).all(|(&i, &size)| i >= 1 && i <= size);
                if inside { array.at(&index.iter().map(|i| i - 1).collect::<Vec<_>>()) } else { garbage }
            });
            let slices: Vec<Slice> =
                shape.iter().map(|&size| Slice::new(1, Some(size as isize + 1), 1)).collect();
            make(base, content(), &|t| K::slice(t, &slices))
        }
        Layout::Expanded if rank >= 1 && shape[0] > 1 && !array.is_empty() => {
            let mut one = shape.clone();
            one[0] = 1;
            let base = Array::from_fn(one, |index| array.at(index));
            let content = Array::from_fn(shape.clone(), |index| {
                let mut source = index.to_vec();
                source[0] = 0;
                array.at(&source)
            });
            make(base, content, &|t| K::expand(t, Shape::from(shape.clone())))
        }
        Layout::Overlapping if rank >= 2 && !array.is_empty() => {
            // [.., windows, size] from a line of windows + size - 1 elements.
            let (windows, size) = (shape[rank - 2], shape[rank - 1]);
            let mut line = shape[..rank - 1].to_vec();
            line[rank - 2] = windows + size - 1;
            let pick = |index: &[usize], k: usize| {
                let mut source = index.to_vec();
                source.extend([k.min(windows - 1), k.saturating_sub(windows - 1)]);
                array.at(&source)
            };
            let base = Array::from_fn(line, |index| pick(&index[..rank - 2], index[rank - 2]));
            let content = Array::from_fn(shape.clone(), |index| {
                pick(&index[..rank - 2], index[rank - 2] + index[rank - 1])
            });
            make(base, content, &|t| K::unfold(t, rank - 2, size, 1))
        }
        _ => None,
    }
}
