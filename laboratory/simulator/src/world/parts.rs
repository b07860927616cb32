//! Parts of an iteration, between which a thread may be preempted: the work, followed by one write after another. A
//! write's data arrives at the end of the write, so a thread that it wakes on the same core may run before the next
//! write.

use super::{Event, World};
use crate::node::Destination;
use crate::parcel::Parcel;
use quorate_consensus::Protocol;
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// One write: the parcels for an endpoint, and the duration in nanoseconds.
struct Write<M> {
    to: usize,
    parcels: Vec<Parcel<M>>,
    ns: u64,
}

/// An actor's iteration in progress.
pub(super) struct UnderWay<M> {
    /// Number of the present part. Events with another number belong to preempted parts.
    number: u32,
    /// End of the present part; `None` if there is none or it was preempted.
    ends: Option<Time>,
    /// Remaining time of the part when it was preempted.
    left: Option<Duration>,
    /// Write performed by the present part.
    writing: Option<Write<M>>,
    writes: VecDeque<Write<M>>,
}

impl<M> Default for UnderWay<M> {
    fn default() -> UnderWay<M> {
        UnderWay { number: 0, ends: None, left: None, writing: None, writes: VecDeque::new() }
    }
}

impl<M> UnderWay<M> {
    /// Returns whether the iteration has been preempted.
    pub fn is_suspended(&self) -> bool {
        self.left.is_some()
    }

    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Drops all pending writes, as a crash does.
    pub fn forget(&mut self) {
        (self.left, self.writing) = (None, None);
        self.writes.clear();
    }
}

impl<P: Protocol> World<'_, P> {
    pub(super) fn begin_part(&mut self, actor: usize, ns: u64) {
        let part = &mut self.parts[actor];
        let ends = self.now + Duration::from_nanos(ns);
        part.number = part.number.wrapping_add(1);
        part.ends = Some(ends);
        self.schedule.push(ends, Event::TurnEnd(actor as u16, part.number));
    }

    pub(super) fn on_part_end(&mut self, actor: usize, number: u32) {
        let part = &mut self.parts[actor];
        if number != part.number || part.ends.take().is_none() {
            return;
        }
        if let Some(Write { to, parcels, .. }) = part.writing.take() {
            parcels.into_iter().for_each(|parcel| self.ship(self.now, actor, to, parcel));
        }
        match self.parts[actor].writes.pop_front() {
            Some(write) => {
                let ns = write.ns;
                self.parts[actor].writing = Some(write);
                self.begin_part(actor, ns);
            }
            None => self.on_turn_end(actor),
        }
    }

    /// Keeps an iteration's parcels for writes at its end, one write per endpoint in the order of the first parcels.
    /// Each takes `each` nanoseconds. Returns the remaining time of the iteration, for its work.
    pub(super) fn writes_later(
        &mut self,
        actor: usize,
        elapsed: u64,
        each: u64,
        outgoing: impl Iterator<Item = (Destination, Parcel<P::Message>)>,
    ) -> u64 {
        let (replicas, writes) = (self.replicas(), &mut self.parts[actor].writes);
        let mut add = |to: usize, parcel| match writes.iter_mut().find(|write| write.to == to) {
            Some(write) => write.parcels.push(parcel),
            None => writes.push_back(Write { to, parcels: vec![parcel], ns: each }),
        };
        for (destination, parcel) in outgoing {
            match destination {
                Destination::One(to) => add(to, parcel),
                Destination::Others => {
                    (0..replicas).filter(|to| *to != actor).for_each(|to| add(to, parcel.clone()));
                }
            }
        }
        elapsed.saturating_sub(each * writes.len() as u64)
    }

    /// Preempts a thread with an iteration in progress. A thread that is about to begin is not preempted.
    pub(super) fn suspend(&mut self, actor: usize) {
        let Some(ends) = self.parts[actor].ends.take() else { return };
        self.parts[actor].left = Some(ends.since(self.now));
        self.cores.release(self.now, actor);
        self.cores.wait(self.now, actor);
    }

    /// Continues a preempted iteration. Returns false if there is none.
    pub(super) fn resume(&mut self, actor: usize) -> bool {
        let Some(left) = self.parts[actor].left.take() else { return false };
        self.begin_part(actor, left.as_nanos() as u64);
        true
    }
}
