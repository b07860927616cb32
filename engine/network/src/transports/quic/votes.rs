//! Votes in datagrams (RFC 9221): they wait for no lost packet, and are not retransmitted.

use crate::channels::{Loss, Output, RemoteIdentity};
use crate::transports::config::QuicVotes;
use crate::transports::lanes::SendLane;
use bytes::Bytes;
use quinn_proto::{Connection, SendDatagramError};
use quorate_types::limits::MAX_FRAME_BYTES;
use std::collections::VecDeque;

/// Maximum bytes of datagrams that the library buffers per end, received or to be sent. Before the other end is
/// authenticated, the oldest received ones are dropped; further ones to be sent wait in this module.
pub const BUFFER_BYTES: usize = 256 << 10;

/// Votes of one end of a connection.
pub struct Votes {
    carriage: QuicVotes,
    waiting: VecDeque<Bytes>,
    bytes: usize,
    /// Free space of the library's buffer while it is empty.
    buffer_space: usize,
    /// Bytes in the library's buffer.
    buffered: usize,
    frame_limit: usize,
}

impl Votes {
    pub fn new(carriage: QuicVotes) -> Votes {
        let waiting = VecDeque::new();
        Votes { carriage, waiting, bytes: 0, buffer_space: 0, buffered: 0, frame_limit: MAX_FRAME_BYTES }
    }

    /// Returns the unsent bytes of votes.
    pub fn unsent_bytes(&self) -> usize {
        self.bytes + self.buffered
    }

    pub fn set_frame_limit(&mut self, bytes: usize) {
        self.frame_limit = bytes;
    }

    /// Notes that the library has its session keys.
    pub fn begin(&mut self, connection: &mut Connection) {
        self.buffer_space = connection.datagrams().send_buffer_space();
    }

    /// Queues a vote; appends it to the `others` if it does not travel in a datagram.
    pub fn push(&mut self, frame: Bytes, others: &mut SendLane) {
        match self.carriage {
            QuicVotes::Stream => others.push(frame),
            QuicVotes::Datagrams => {
                self.bytes += frame.len();
                self.waiting.push_back(frame);
            }
        }
    }

    /// Passes as many votes to the library as its buffer accepts. Those that fit into no datagram are appended to the
    /// `others`.
    pub fn write(&mut self, connection: &mut Connection, others: &mut SendLane) {
        while let Some(frame) = self.waiting.pop_front() {
            match connection.datagrams().send(frame.clone(), false) {
                Ok(()) => {}
                Err(SendDatagramError::Blocked(frame)) => return self.waiting.push_front(frame),
                // It is too long, or the other end accepts no datagrams.
                Err(_) => others.push(frame.clone()),
            }
            self.bytes -= frame.len();
        }
    }

    /// Counts the votes that the library still buffers.
    pub fn account(&mut self, connection: &mut Connection) {
        if self.carriage == QuicVotes::Datagrams {
            self.buffered = self.buffer_space.saturating_sub(connection.datagrams().send_buffer_space());
        }
    }

    /// Reports the received votes. Only replicas may send votes.
    ///
    /// # Errors
    /// If a client has sent a vote, or a vote exceeds the frame limit.
    pub fn read(&self, connection: &mut Connection, remote: RemoteIdentity, out: &mut Vec<Output>) -> Result<(), Loss> {
        while let Some(frame) = connection.datagrams().recv() {
            if matches!(remote, RemoteIdentity::Client(_)) {
                return Err(Loss::Violation("it is a client and sent a datagram, which only replicas may"));
            }
            if frame.len() > self.frame_limit {
                return Err(Loss::FrameTooLong { bytes: frame.len(), limit: self.frame_limit });
            }
            // A copy, so that a kept vote does not keep the whole packet batch alive.
            out.push(Output::Frame(Bytes::copy_from_slice(&frame)));
        }
        Ok(())
    }
}
