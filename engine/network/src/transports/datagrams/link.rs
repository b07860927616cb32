//! Link of a packet transport: a machine and its frame queue.

use crate::channels::Machine;
use crate::transports::framing::HEADER_BYTES;
use crate::transports::links::{LinkState, Linked};
use bytes::Bytes;
use quorate_types::{Lane, Time};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// One connection.
pub struct PacketLink {
    state: LinkState,
    pub machine: Box<dyn Machine>,
    /// Index of the socket for its packets.
    pub port: usize,
    /// Deadline of the machine's timer, as listed in the transport's alarms.
    pub alarm: Option<Time>,
    /// Frames to pass to the machine in the next poll.
    queue: VecDeque<(Bytes, Lane)>,
    queued_bytes: usize,
    /// Queued bytes that later frames may overtake.
    bulk_bytes: usize,
}

impl PacketLink {
    pub fn new(state: LinkState, machine: Box<dyn Machine>, port: usize) -> PacketLink {
        PacketLink { state, machine, port, alarm: None, queue: VecDeque::new(), queued_bytes: 0, bulk_bytes: 0 }
    }

    /// Removes and returns the next frame for the machine.
    pub fn next_frame(&mut self) -> Option<(Bytes, Lane)> {
        let (frame, lane) = self.queue.pop_front()?;
        let bytes = frame.len() + HEADER_BYTES;
        self.queued_bytes -= bytes;
        self.bulk_bytes -= if lane == Lane::Bulk { bytes } else { 0 };
        Some((frame, lane))
    }
}

impl Deref for PacketLink {
    type Target = LinkState;

    fn deref(&self) -> &LinkState {
        &self.state
    }
}

impl DerefMut for PacketLink {
    fn deref_mut(&mut self) -> &mut LinkState {
        &mut self.state
    }
}

impl Linked for PacketLink {
    fn partial_bytes(&self) -> usize {
        self.machine.partial_bytes()
    }

    fn queued_bytes(&self) -> usize {
        self.queued_bytes + self.machine.unsent_bytes()
    }

    /// Queues a frame unless it does not fit behind the frames ahead of it: bulk frames are ahead of other bulk only.
    fn push(&mut self, frame: Bytes, lane: Lane, max_bytes: usize) -> bool {
        let is_bulk = lane == Lane::Bulk;
        let overtaken = if is_bulk { 0 } else { self.bulk_bytes + self.machine.unsent_bulk_bytes() };
        let (waiting, bytes) = (self.queued_bytes().saturating_sub(overtaken), frame.len() + HEADER_BYTES);
        if waiting > 0 && waiting + bytes > max_bytes {
            return false;
        }
        self.queued_bytes += bytes;
        self.bulk_bytes += if is_bulk { bytes } else { 0 };
        self.queue.push_back((frame, lane));
        true
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.machine.set_frame_limit(bytes);
    }

    fn is_blocked(&self) -> bool {
        false
    }
}
