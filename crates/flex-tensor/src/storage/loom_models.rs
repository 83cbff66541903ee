//! Models of the pool's slots: loom runs every order of the threads' steps, and every value that a load may
//! return.

use super::block::{self, Block};
use core::array::from_fn;
use core::ptr::null_mut;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use slots::Slots;

/// What the slots' code takes from loom here.
mod sync {
    pub(super) use core::sync::atomic::Ordering;
    pub(super) use loom::sync::atomic::AtomicPtr;
}

// The code of the pool over loom's pointers. The pool itself is a static, which loom's pointers cannot be.
#[path = "slots.rs"]
mod slots;

const CAPACITY: usize = 64;

/// Slots, and a cell for each block, which stands for the memory of the block: loom does not watch that.
struct Model {
    slots: Slots,
    addresses: [usize; 2],
    memory: [UnsafeCell<usize>; 2],
}

// SAFETY: loom reports accesses that overlap, or that have no order between them.
unsafe impl Sync for Model {}

impl Model {
    fn new() -> Arc<Self> {
        let blocks: [Block; 2] = from_fn(|_| Block::new(CAPACITY).unwrap());
        let model = Self {
            slots: Slots(from_fn(|_| sync::AtomicPtr::new(null_mut()))),
            addresses: from_fn(|k| blocks[k].as_slice().as_ptr().addr()),
            memory: from_fn(|_| UnsafeCell::new(0)),
        };
        for block in blocks {
            assert!(model.slots.keep(block).is_none(), "there are more slots than blocks");
        }
        Arc::new(model)
    }

    /// Takes a block, writes to it, and returns it. Whether there was a block.
    fn use_block(&self) -> bool {
        let Some(block) = self.slots.take(CAPACITY) else { return false };
        let address = block.as_slice().as_ptr().addr();
        let k = self.addresses.iter().position(|&known| known == address).expect("a block of the slots");
        // SAFETY: loom reports accesses that overlap.
        self.memory[k].with_mut(|memory| unsafe { *memory += 1 });
        assert!(self.slots.keep(block).is_none(), "a slot is free for every block");
        true
    }
}

#[test]
fn loom_a_block_belongs_to_one_thread_at_a_time() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
    builder.check(|| {
        let model = Model::new();
        let threads: [_; 2] = from_fn(|_| {
            let model = model.clone();
            thread::spawn(move || model.use_block())
        });
        let used = threads.map(|thread| thread.join().unwrap());
        assert!(used[0] && used[1], "a block for each thread");
        assert_eq!(model.slots.count(), 2, "every block is in a slot again");
        while model.slots.take(CAPACITY).is_some() {}
    });
}
