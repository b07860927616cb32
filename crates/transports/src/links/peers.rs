//! The replicas of the committee as one transport sees them: which it dials, and when again, and what waits for those
//! who are not connected.

use crate::LinkId;
use crate::config::LinkConfig;
use bytes::Bytes;
use quorate_types::Address;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// One replica.
pub struct Peer {
    pub address: Address,
    /// Where its host's name led to the last time, if it has a name.
    pub known: Vec<SocketAddr>,
    /// Whether this end dials.
    pub dials: bool,
    /// The established link.
    pub link: Option<LinkId>,
    /// When to dial; none while a dial or a link lives, and for those who dial us.
    pub dial_at: Option<Instant>,
    /// Dials that failed since the last link that worked.
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

    /// The last link worked: the next wait is the shortest again.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// Which of the host's addresses to dial: another one after each failure.
    pub fn next_known(&self) -> Option<SocketAddr> {
        (!self.known.is_empty()).then(|| self.known[self.failures as usize % self.known.len()])
    }

    /// Keeps a frame for the next link, at the cost of the oldest ones: protocols say again what matters, and the
    /// newest of it matters most. Returns how many frames were given up.
    pub fn park(&mut self, frame: Bytes, max_bytes: usize) -> u64 {
        self.parked_bytes += frame.len();
        self.parked.push_back(frame);
        let mut given_up = 0;
        while self.parked_bytes > max_bytes {
            let oldest = self.parked.pop_front().expect("what has bytes has frames");
            self.parked_bytes -= oldest.len();
            given_up += 1;
        }
        given_up
    }

    /// Takes what waited for a link, oldest first.
    pub fn unpark(&mut self) -> VecDeque<Bytes> {
        self.parked_bytes = 0;
        std::mem::take(&mut self.parked)
    }

    /// Plans the next dial.
    pub fn dial_later(&mut self, now: Instant, config: &LinkConfig) {
        assert!(self.dials, "only the end that dials dials again");
        let doubled = config.reconnect_min_ms.saturating_mul(1 << self.failures.min(32));
        let wait = Duration::from_millis(doubled.min(config.reconnect_max_ms));
        self.failures = self.failures.saturating_add(1);
        self.dial_at = Some(now + wait - jitter(wait / 2));
    }
}

/// A random part of `most`, so that those who lost the same remote do not all come back at once.
fn jitter(most: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    most.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
