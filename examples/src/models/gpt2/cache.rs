//! What a decoder keeps of the tokens that it has seen.

use burn::tensor::{Tensor, backend::Backend};

/// The keys and values of all layers, in memory for a number of tokens that is fixed from the start.
#[derive(Clone, Debug)]
pub struct Cache<B: Backend> {
    layers: Vec<LayerCache<B>>,
    /// Tokens that all layers have.
    len: usize,
    capacity: usize,
}

/// The keys and values of one layer, each of shape `[n, heads, capacity, width of a head]`.
#[derive(Clone, Debug)]
pub(super) struct LayerCache<B: Backend> {
    keys: Tensor<B, 4>,
    values: Tensor<B, 4>,
}

impl<B: Backend> Cache<B> {
    /// Zeros in the given shape of a layer's keys and values.
    pub(super) fn new(layers: usize, shape: [usize; 4], device: &B::Device) -> Self {
        let layer =
            || LayerCache { keys: Tensor::zeros(shape, device), values: Tensor::zeros(shape, device) };
        Self { layers: (0..layers).map(|_| layer()).collect(), len: 0, capacity: shape[2] }
    }

    /// Number of tokens in the cache.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most tokens that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all tokens, and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the tokens after the first `len`, and keeps the memory.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn layers(&mut self) -> impl Iterator<Item = &mut LayerCache<B>> {
        self.layers.iter_mut()
    }

    /// Counts tokens that all layers have been given.
    pub(super) fn advance(&mut self, tokens: usize) {
        self.len += tokens;
    }
}

impl<B: Backend> LayerCache<B> {
    /// Writes the keys and values of new tokens after `len` others, and returns those of all tokens.
    pub(super) fn push(
        &mut self,
        len: usize,
        keys: Tensor<B, 4>,
        values: Tensor<B, 4>,
    ) -> (Tensor<B, 4>, Tensor<B, 4>) {
        (Self::write(&mut self.keys, len, keys), Self::write(&mut self.values, len, values))
    }

    /// `inplace` gives the only handle to the operation, which so writes into the cache itself.
    fn write(cached: &mut Tensor<B, 4>, len: usize, new: Tensor<B, 4>) -> Tensor<B, 4> {
        let [n, heads, tokens, width] = new.dims();
        let to = len + tokens;
        cached.inplace(|cached| cached.slice_assign([0..n, 0..heads, len..to, 0..width], new));
        cached.clone().slice([0..n, 0..heads, 0..to, 0..width])
    }
}
