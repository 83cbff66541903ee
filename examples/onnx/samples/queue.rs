//! A queue of two stacks: what comes in first goes out first.

#[derive(Default)]
pub struct Queue<T> {
    arrived: Vec<T>,
    leaving: Vec<T>,
}

impl<T> Queue<T> {
    pub fn push(&mut self, value: T) {
        self.arrived.push(value);
    }

    pub fn pop(&mut self) -> Option<T> {
        if self.leaving.is_empty() {
            self.leaving.extend(self.arrived.drain(..).rev());
        }
        self.leaving.pop()
    }
}
