//! Short vectors and short lists.

use smallvec::{Array, SmallVec};

/// The items in a vector. `SmallVec`'s own way to collect them has two loops, and so the code of the iterator
/// twice, which is up to two kilobytes for each place that collects.
pub fn collected<A: Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut vector = SmallVec::new();
    items.for_each(|item| vector.push(item));
    vector
}

/// Sorts a list by a key; items of equal keys keep their order. For lists that are short, nearly sorted, or
/// in reverse order. Insertion sort, since the library's sorts are up to five kilobytes of code for each type
/// and key.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    if list.is_sorted_by(|a, b| key(a) > key(b)) {
        list.reverse();
    }
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && key(&list[at]) < key(&list[at - 1]) {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn lists_are_sorted_and_equal_keys_keep_their_order() {
        for code in 0..5usize.pow(5) {
            for len in 0..=5u32 {
                let digit = |place: u32| code / 5usize.pow(place) % 5;
                let mut list: Vec<(usize, u32)> = (0..len).map(|place| (digit(place), place)).collect();
                let mut want = list.clone();
                want.sort_by_key(|&(key, _)| key);
                sort_by_key(&mut list, |&(key, _)| key);
                assert_eq!(list, want);
            }
        }
    }
}
