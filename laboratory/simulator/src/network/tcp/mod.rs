//! Stand-in for the kernel's TCP: both directions of a connection, packet by packet, in virtual time.
//!
//! An [`Endpoint`] is a state machine without I/O. Its inputs are bytes to send, segments that arrive, and the time;
//! its outputs are segments to send and the time to wake it. It handles positions in a stream, not bytes. It behaves as
//! Linux does by default, with Reno: selective acknowledgements, time stamps, proportional rate reduction, loss
//! detection by time (RACK) and tail-loss probes (RFC 8985), delayed acknowledgements, and timers that run in ticks of
//! the kernel's clock. There is no receive window, no handshake and no pacing (ADR 038).

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
    /// Minimum of what the timeout adds to the smoothed round trip, in nanoseconds, as in Linux.
    pub rto_min_ns: u64,
    pub rto_max_ns: u64,
    /// Tick of the kernel's clock in nanoseconds, which all timers are rounded up to; 0: timers are exact.
    pub tick_ns: u64,
    /// Maximum bytes of a segment without headers.
    pub segment_bytes: u32,
    /// Whether segments that overtake others reveal their loss.
    pub fast_retransmit: bool,
    /// Whether the last segment is repeated before the timeout.
    pub tail_loss_probe: bool,
}

/// A packet of a connection. Every packet acknowledges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Position of its first byte in the stream.
    pub begin: u64,
    /// Bytes of the stream; 0 in an acknowledgement that travels alone.
    pub bytes: u32,
    /// The sender had no more to send.
    pub pushes: bool,
    /// The first byte that its sender has not received.
    pub acknowledges: u64,
    /// What its sender has received beyond that, the latest first.
    pub holds: Vec<Range<u64>>,
    /// It acknowledges something that had arrived before (RFC 2883).
    pub tells_duplicate: bool,
    /// When it was sent.
    pub stamp: Time,
    /// The stamp that it echoes (RFC 7323).
    pub echo: Time,
}

/// Action that an endpoint requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Todo {
    Send(Segment),
    /// Call [`Endpoint::on_timer`] at this time.
    Wake(Time),
}

/// What an endpoint counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounts {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Expired retransmission timeouts.
    pub rto_events: u64,
    pub tail_loss_probes: u64,
}

impl TcpCounts {
    /// Adds those of another endpoint.
    pub fn add(&mut self, other: TcpCounts) {
        self.retransmissions += other.retransmissions;
        self.rto_events += other.rto_events;
        self.tail_loss_probes += other.tail_loss_probes;
    }
}
