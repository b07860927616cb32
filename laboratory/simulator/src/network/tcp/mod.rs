//! Model of the kernel's TCP: both directions of a connection, packet by packet, in virtual time.
//!
//! An [`Endpoint`] is a state machine without I/O. Its inputs are bytes to send, received segments, and the time; its
//! outputs are segments to send and the time of the next call. It handles positions in a stream, not bytes. It behaves
//! like Linux with default settings and Reno: selective acknowledgements, timestamps, proportional rate reduction,
//! time-based loss detection (RACK) and tail loss probes (RFC 8985), delayed acknowledgements, and timers that run in
//! ticks of the kernel's clock. There is no receive window, no handshake and no pacing (ADR 038).

mod clock;
mod congestion;
mod endpoint;
mod receiver;
mod round_trip;
mod scoreboard;
mod sender;

pub use endpoint::Endpoint;

use quorate_types::Time;
use std::ops::Range;

/// Settings of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOptions {
    /// Retransmission timeout before the first measured round trip, in nanoseconds.
    pub rto_initial_ns: u64,
    /// Minimum difference between the timeout and the smoothed round trip, in nanoseconds, as in Linux.
    pub rto_min_ns: u64,
    pub rto_max_ns: u64,
    /// Tick of the kernel's clock in nanoseconds, to which all timers are rounded up; 0 for exact timers.
    pub tick_ns: u64,
    /// Maximum size of a segment without headers, in bytes.
    pub segment_bytes: u32,
    /// Whether segments that overtake others reveal their loss.
    pub fast_retransmit: bool,
    /// Whether to retransmit the last segment before the timeout.
    pub tail_loss_probe: bool,
}

/// A packet of a connection. Every packet carries an acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Position of its first byte in the stream.
    pub begin: u64,
    /// Bytes of the stream; 0 in a pure acknowledgement.
    pub bytes: u32,
    /// Whether the sender had no more data.
    pub pushes: bool,
    /// Position of the first byte that its sender has not received.
    pub acknowledges: u64,
    /// SACK ranges that its sender has received beyond it, the latest first.
    pub holds: Vec<Range<u64>>,
    /// Whether it acknowledges a duplicate (RFC 2883).
    pub tells_duplicate: bool,
    /// Send time, which the acknowledgement echoes.
    pub stamp: Time,
    /// The echoed timestamp (RFC 7323).
    pub echo: Time,
}

/// Action that an endpoint requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Todo {
    Send(Segment),
    /// Call [`Endpoint::on_timer`] at this time.
    Wake(Time),
}

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounts {
    pub retransmissions: u64,
    /// Expired retransmission timeouts.
    pub rto_events: u64,
    pub tail_loss_probes: u64,
}

impl TcpCounts {
    /// Adds the counters of another endpoint.
    pub fn add(&mut self, other: TcpCounts) {
        self.retransmissions += other.retransmissions;
        self.rto_events += other.rto_events;
        self.tail_loss_probes += other.tail_loss_probes;
    }
}
