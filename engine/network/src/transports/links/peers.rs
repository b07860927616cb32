//! Peers of one transport: when to dial them, and the frames kept while they are not connected.

use crate::transports::LinkId;
use crate::transports::config::LinkConfig;
use bytes::Bytes;
use quorate_types::Address;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// One replica of the committee.
pub struct Peer {
    pub address: Address,
    /// Last addresses to which its host name resolved, if it has one.
    pub known: Vec<SocketAddr>,
    /// Whether this end dials, rather than the peer.
    pub dials: bool,
    /// `None` until a handshake has completed; frames are then parked.
    pub link: Option<LinkId>,
    /// Time of the next dial; `None` while a dial or a link exists, and for peers that dial this end.
    pub dial_at: Option<Instant>,
    /// Failed dials since the last working link.
    failures: u32,
    parked: VecDeque<Bytes>,
    parked_bytes: usize,
}

impl Peer {
    pub fn new(address: Address, dials: bool, now: Instant) -> Peer {
        Peer {
            address,
            known: Vec::new(),
            dials,
            link: None,
            dial_at: dials.then_some(now),
            failures: 0,
            parked: VecDeque::new(),
            parked_bytes: 0,
        }
    }

    /// Notes that a link worked: the backoff restarts at the shortest delay.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// Returns the next of the host's addresses to dial: a different one after each failure.
    pub fn next_known(&self) -> Option<SocketAddr> {
        (!self.known.is_empty()).then(|| self.known[self.failures as usize % self.known.len()])
    }

    /// Keeps a frame for the next link and drops the oldest ones beyond the limit: protocols resend important messages,
    /// and the newest messages matter most. Returns the number of dropped frames.
    pub fn park(&mut self, frame: Bytes, max_bytes: usize) -> u64 {
        self.parked_bytes += frame.len();
        self.parked.push_back(frame);
        let mut given_up = 0;
        while self.parked_bytes > max_bytes {
            let oldest = self.parked.pop_front().expect("parked bytes belong to parked frames");
            self.parked_bytes -= oldest.len();
            given_up += 1;
        }
        given_up
    }

    /// Removes and returns the frames kept for the link, oldest first.
    pub fn unpark(&mut self) -> VecDeque<Bytes> {
        self.parked_bytes = 0;
        std::mem::take(&mut self.parked)
    }

    /// Schedules the next dial.
    pub fn dial_later(&mut self, now: Instant, config: &LinkConfig) {
        assert!(self.dials, "only the end that dials dials again");
        let doubled = config.min_reconnect_ms.saturating_mul(1 << self.failures.min(32));
        let wait = Duration::from_millis(doubled.min(config.max_reconnect_ms));
        self.failures = self.failures.saturating_add(1);
        self.dial_at = Some(now + wait - jitter(wait / 2));
    }
}

/// Returns a random part of `most`, so that ends that have lost the same remote do not all redial at once.
fn jitter(most: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    most.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
