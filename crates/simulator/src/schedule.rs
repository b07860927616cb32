//! What is going to happen: a heap ordered by time, and by order of entry within one time.

use quorate_types::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events yet to come.
pub struct Schedule<E> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Schedule<E> {
        Schedule { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<E> Schedule<E> {
    /// Enters an event.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                u32::try_from(self.events.len() - 1).expect("fewer than 2^32 events wait at a time")
            }
        };
        self.sequence += 1;
        self.heap.push(Reverse((time, self.sequence, slot)));
    }

    /// When the next event happens.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse((time, _, slot)) = self.heap.pop()?;
        let event = self.events[slot as usize].take().expect("a slot is in the heap as long as it is full");
        self.free.push(slot);
        Some((time, event))
    }
}
