//! Short vectors and short lists.

use smallvec::{Array, SmallVec};

/// The items in a vector. `SmallVec`'s own way to collect them has two loops, and so the code of the iterator
/// twice, which is up to two kilobytes for each place that collects.
pub fn collected<A: Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut vector = SmallVec::new();
    items.for_each(|item| vector.push(item));
    vector
}

/// Sorts a short list by a key; items of equal keys keep their order. Insertion sort, since the library's
/// sorts are up to five kilobytes of code for each type and key.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && key(&list[at]) < key(&list[at - 1]) {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}
