//! Future events: a heap ordered by time, and by insertion at equal times.

use quorate_types::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Queue of future events.
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
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                u32::try_from(self.events.len() - 1).expect("fewer than 2^32 events are pending")
            }
        };
        self.sequence += 1;
        self.heap.push(Reverse((time, self.sequence, slot)));
    }

    /// Returns the time of the next event.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse((time, _, slot)) = self.heap.pop()?;
        let event = self.events[slot as usize].take().expect("each slot in the heap is full");
        self.free.push(slot);
        Some((time, event))
    }
}
