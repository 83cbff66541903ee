//! The same contents in every memory layout that a backend can be handed.

use crate::array::Array;
use crate::kind::Kind;
pub use crate::layouts::{LAYOUTS, Layout};
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType, Shape, Slice, TensorData};
use std::cell::OnceCell;
use std::rc::Rc;

/// An array from which tensors in each layout are made. What the host prepares for a layout is kept: the
/// checks of an operation ask for each layout of an operand many times.
pub struct Operand<'a, B: Backend, K: Kind<B>> {
    array: &'a Array<K::Value>,
    dtype: DType,
    arranged: [OnceCell<Option<Arranged<B, K>>>; LAYOUTS.len()],
}

/// What the host prepares for a layout.
struct Arranged<B: Backend, K: Kind<B>> {
    /// What the tensor is a view of.
    base: Rc<TensorData>,
    /// Contents of the view.
    content: Array<K::Value>,
    view: Box<dyn Fn(K::Tensor) -> K::Tensor>,
}

/// A tensor in some layout, with its contents.
pub struct Laid<B: Backend, K: Kind<B>> {
    /// The tensor under test.
    pub tensor: K::Tensor,
    /// Its contents. In [`Layout::Expanded`] and [`Layout::Overlapping`] elements repeat.
    pub content: Array<K::Value>,
    /// The tensor that `tensor` is a view of.
    base: K::Tensor,
    base_data: Rc<TensorData>,
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
    data: Rc<TensorData>,
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

impl<'a, B: Backend, K: Kind<B>> Operand<'a, B, K> {
    /// An operand with the contents of an array.
    pub fn new(array: &'a Array<K::Value>, dtype: DType) -> Self {
        Self { array, dtype, arranged: Default::default() }
    }

    /// A new tensor in a layout. `None` if the shape does not allow the layout, such as a transposed vector.
    pub fn lay_out(&self, layout: Layout, device: &Device<B>) -> Option<Laid<B, K>> {
        let place = LAYOUTS.iter().position(|&known| known == layout).expect("one of all layouts");
        let arranged = self.arranged[place].get_or_init(|| arrange(self.array, self.dtype, layout));
        let Arranged { base: base_data, content, view } = arranged.as_ref()?;
        let base = K::from_data(TensorData::clone(base_data), device);
        crate::trace::operand(self.dtype, layout);
        Some(Laid {
            tensor: view(base.clone()),
            content: content.clone(),
            base,
            base_data: base_data.clone(),
        })
    }
}

/// Prepares an array for a layout, if its shape allows the layout.
fn arrange<B: Backend, K: Kind<B>>(
    array: &Array<K::Value>,
    dtype: DType,
    layout: Layout,
) -> Option<Arranged<B, K>> {
    let shape = array.shape().to_vec();
    let rank = shape.len();
    let garbage = K::garbage(dtype);
    // A view of `base` holds `content`.
    let make =
        |base: Array<K::Value>, content: Array<K::Value>, view: Box<dyn Fn(K::Tensor) -> K::Tensor>| {
            Some(Arranged { base: Rc::new(K::encode(&base, dtype)), content, view })
        };
    let content = || array.clone();
    match layout {
        Layout::Contiguous => make(content(), content(), Box::new(|t| t)),
        Layout::Transposed if rank >= 2 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(rank - 2, rank - 1);
            make(array.permute(&axes), content(), Box::new(move |t| K::swap_dims(t, rank - 2, rank - 1)))
        }
        Layout::Permuted if rank >= 3 => {
            let forward: Vec<usize> = (0..rank).map(|k| (k + 1) % rank).collect();
            let back: Vec<usize> = (0..rank).map(|k| (k + rank - 1) % rank).collect();
            make(array.permute(&forward), content(), Box::new(move |t| K::permute(t, &back)))
        }
        Layout::Flipped if rank >= 1 => {
            let axes: Vec<usize> = (0..rank).collect();
            let flipped =
                Array::from_fn(shape.clone(), |index| array.at_positions(|k, size| size - 1 - index[k]));
            make(flipped, content(), Box::new(move |t| K::flip(t, &axes)))
        }
        Layout::Stepped if rank >= 1 && !array.is_empty() => {
            let wide: Vec<usize> = shape.iter().map(|&size| 2 * size).collect();
            let base = Array::from_fn(wide, |index| {
                if index.iter().all(|i| i % 2 == 0) {
                    array.at_positions(|k, _| index[k] / 2)
                } else {
                    garbage
                }
            });
            let slices = vec![Slice::new(0, None, 2); rank];
            make(base, content(), Box::new(move |t| K::slice(t, &slices)))
        }
        Layout::Offset if rank >= 1 && !array.is_empty() => {
            let wide: Vec<usize> = shape.iter().map(|&size| size + 3).collect();
            let base = Array::from_fn(wide, |index| {
                let inside = index.iter().zip(&shape).all(|(&i, &size)| i >= 1 && i <= size);
                if inside { array.at_positions(|k, _| index[k] - 1) } else { garbage }
            });
            let slices: Vec<Slice> =
                shape.iter().map(|&size| Slice::new(1, Some(size as isize + 1), 1)).collect();
            make(base, content(), Box::new(move |t| K::slice(t, &slices)))
        }
        Layout::Expanded if rank >= 1 && shape[0] > 1 && !array.is_empty() => {
            let mut one = shape.clone();
            one[0] = 1;
            let base = Array::from_fn(one, |index| array.at(index));
            let content = Array::from_fn(shape.clone(), |index| array.at_on_axis(index, 0, 0));
            make(base, content, Box::new(move |t| K::expand(t, Shape::from(shape.clone()))))
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
            make(base, content, Box::new(move |t| K::unfold(t, rank - 2, size, 1)))
        }
        _ => None,
    }
}
