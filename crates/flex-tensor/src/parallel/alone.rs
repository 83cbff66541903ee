//! The stand-in for a pool of threads where there is none: without the `rayon` feature, and in the model
//! tests, which make their own threads.

use super::Tasks;

/// Number of threads that parallel sections use.
pub(super) fn threads() -> usize {
    1
}

/// Whether a helper is awake or on its way.
pub(super) fn is_awake() -> bool {
    false
}

/// Counts work that an awake helper would have sped up.
pub(super) fn work_alone(_nanoseconds: usize) {}

/// Calls `task` with each number of `0..tasks` once.
pub(super) fn run(tasks: usize, task: &dyn Tasks) {
    (0..tasks).for_each(|k| task.run(k));
}
