//! A cache of answers per device.

use std::sync::{Mutex, PoisonError};

/// Answers by device. The first caller finds the answer, while other callers wait for it. Public for the
/// crates that open devices only.
#[derive(Debug)]
pub struct Cache<D, V>(Mutex<Vec<(D, V)>>);

impl<D: Clone + PartialEq, V: Clone> Cache<D, V> {
    /// An empty cache.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The answer for a device; errors are not kept, since a driver may be installed meanwhile.
    ///
    /// # Errors
    /// The errors of `find`.
    pub fn get_or_find<E>(&self, device: &D, find: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        // Entries are pushed complete, so a panic in `find` leaves the list intact.
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, value)) = entries.iter().find(|(d, _)| d == device) {
            return Ok(value.clone());
        }
        let value = find()?;
        entries.push((device.clone(), value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_and_errors_are_not() {
        let cache = Cache::new();
        assert_eq!(cache.get_or_find(&1, || Err::<u8, _>("none yet")), Err("none yet"));
        assert_eq!(cache.get_or_find(&1, || Ok::<_, ()>(5)), Ok(5));
        assert_eq!(cache.get_or_find(&1, || Ok::<_, ()>(6)), Ok(5));
        assert_eq!(cache.get_or_find(&2, || Ok::<_, ()>(6)), Ok(6));
    }
}
