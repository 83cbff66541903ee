//! Short vectors.

use smallvec::{Array, SmallVec};

/// The items in a vector. `SmallVec`'s own way to collect them has two loops, and so the code of the iterator
/// twice, which is up to two kilobytes for each place that collects.
pub fn collected<A: Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut vector = SmallVec::new();
    items.for_each(|item| vector.push(item));
    vector
}
