//! Detection of an unreported smaller path MTU: long packets vanish although short ones arrive (RFC 8899).
//!
//! An end that sends packets of more than [`SHORT_BYTES`] probes the path once a second with a packet as long as its
//! longest one, followed by a short one. Each echo reports the length of the longest packet received since the last
//! echo. If several short probes in a row are answered although no long packet arrived, long packets vanish on this
//! path. From then on new packets are short, and long ones, such as retransmissions, are split into fragments. One long
//! probe per minute tests whether long packets pass again.
//!
//! ```text
//! probe     0x57  to 8  number 4  zeros
//! echo      0x58  to 8  number 4  longest 2      of the packets that have arrived since the last echo, in bytes
//! fragment  0x59  to 8  packet 2  at 2  total 2  bytes
//! ```

use crate::channels::Output;
use crate::channels::envelope::{ECHO, FRAGMENT, PROBE, TOKEN_BYTES, Token};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Packet length that every network carries, excluding the headers of UDP and IP, in bytes (RFC 9000, section 14).
pub const SHORT_BYTES: usize = 1_200;
const HEAD_BYTES: usize = 1 + TOKEN_BYTES;
const SHORT_PROBE_BYTES: usize = HEAD_BYTES + 4 + 2;
const FRAGMENT_HEAD_BYTES: usize = HEAD_BYTES + 2 + 2 + 2;
/// Time between two probes of a path that carries long packets.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// First wait for an answer; it doubles while neither probe is answered.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(4);
/// Short probes answered in a row, without any long packet arriving, until long packets are considered lost because of
/// their length. At a loss rate of 5 % per packet, this happens by chance once in 10^6 periods.
const MAX_MISSES: u32 = 6;
/// Interval between probes that test whether long packets pass again.
const RAISE_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of packets kept while fragments are missing.
const MAX_PARTIAL: usize = 16;

/// Time for which incomplete packets are kept.
const PARTIAL_LIFE: Duration = Duration::from_secs(1);

/// Outstanding pair of packets, short and long, whose echoes show whether long packets pass.
struct Probe {
    number: u32,
    /// Whether the short probe was answered.
    is_answered: bool,
}

/// A partly received packet.
struct Partial {
    packet: u16,
    total: usize,
    began: Time,
    parts: BTreeMap<u16, Bytes>,
}

/// Tracks whether the path of one connection carries long packets.
#[derive(Default)]
pub struct PathLimit {
    /// Longest packet that this end has sent, in bytes.
    long_bytes: usize,
    /// Whether long packets vanish.
    is_short: bool,
    probe: Option<Probe>,
    probes: u32,
    misses: u32,
    wait: Duration,
    probe_at: Option<Time>,
    /// When long packets were last known to arrive.
    checked_at: Option<Time>,
    /// Length of the longest packet received since the last echo, in bytes.
    longest_received: usize,
    fragmented: u16,
    partial: VecDeque<Partial>,
}

impl PathLimit {
    pub fn due(&self) -> Option<Time> {
        let expiry = self.partial.front().map(|oldest| oldest.began + PARTIAL_LIFE);
        [self.probe_at, expiry].into_iter().flatten().min()
    }

    /// Drops packets whose fragments have been missing for too long. Returns whether the next probe is due.
    pub fn is_probe_due(&mut self, now: Time) -> bool {
        while self.partial.front().is_some_and(|oldest| now >= oldest.began + PARTIAL_LIFE) {
            self.partial.pop_front();
        }
        self.probe_at.is_some_and(|at| at <= now)
    }

    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns the bytes held for incomplete packets.
    pub fn held_bytes(&self) -> usize {
        self.partial.iter().flat_map(|partial| partial.parts.values()).map(Bytes::len).sum()
    }

    /// Inspects the packets about to be sent, starting at the index `from` of `out`. Splits long ones if they vanish on
    /// this path, and otherwise plans a probe.
    pub fn sends(&mut self, now: Time, out: &mut Vec<Output>, from: usize) {
        let lengths = out[from..].iter().map(|said| if let Output::Packet(packet) = said { packet.len() } else { 0 });
        let longest = lengths.max().unwrap_or(0);
        if longest <= SHORT_BYTES {
            return;
        }
        self.long_bytes = self.long_bytes.max(longest);
        if self.is_short {
            for said in out.split_off(from) {
                match said {
                    Output::Packet(packet) if packet.len() > SHORT_BYTES => self.split(&packet, out),
                    other => out.push(other),
                }
            }
        } else if self.probe_at.is_none() {
            let next = self.checked_at.map_or(now, |checked| now.max(checked + PROBE_PERIOD));
            self.probe_at = Some(next);
        }
    }

    fn split(&mut self, packet: &[u8], out: &mut Vec<Output>) {
        self.fragmented = self.fragmented.wrapping_add(1);
        let most = SHORT_BYTES - FRAGMENT_HEAD_BYTES;
        for (index, part) in packet.chunks(most).enumerate() {
            let mut fragment = BytesMut::with_capacity(FRAGMENT_HEAD_BYTES + part.len());
            fragment.put_u8(FRAGMENT);
            fragment.extend_from_slice(&packet[1..HEAD_BYTES]);
            fragment.put_u16_le(self.fragmented);
            fragment.put_u16_le((index * most) as u16);
            fragment.put_u16_le(packet.len() as u16);
            fragment.extend_from_slice(part);
            out.push(Output::Packet(fragment.freeze()));
        }
    }

    /// Records the length of a received packet.
    pub fn received(&mut self, bytes: usize) {
        self.longest_received = self.longest_received.max(bytes);
    }

    /// Builds the echo of a probe.
    pub fn echo(&mut self, probe: &[u8], to: Token) -> Option<Bytes> {
        if probe.len() < SHORT_PROBE_BYTES {
            return None;
        }
        let mut echo = BytesMut::with_capacity(SHORT_PROBE_BYTES);
        echo.put_u8(ECHO);
        echo.put_u64_le(to);
        echo.extend_from_slice(&probe[HEAD_BYTES..HEAD_BYTES + 4]);
        echo.put_u16_le(u16::try_from(std::mem::take(&mut self.longest_received)).unwrap_or(u16::MAX));
        Some(echo.freeze())
    }

    /// Handles the remote's answer to a probe: long packets pass, or only short ones do.
    pub fn echoed(&mut self, now: Time, mut echo: &[u8], out: &mut Vec<Output>) {
        if echo.len() < SHORT_PROBE_BYTES {
            return;
        }
        echo.advance(HEAD_BYTES);
        let (number, longest) = (echo.get_u32_le(), usize::from(echo.get_u16_le()));
        if longest > SHORT_BYTES {
            (self.probe, self.probe_at, self.misses, self.checked_at) = (None, None, 0, Some(now));
            if std::mem::take(&mut self.is_short) {
                out.push(Output::PathCarries { before: SHORT_BYTES, bytes: self.long_bytes });
            }
        } else if let Some(probe) = self.probe.as_mut().filter(|probe| probe.number == number) {
            probe.is_answered = true;
        }
    }

    /// Evaluates the last probe and sends the next one to the end `to`.
    pub fn timer(&mut self, now: Time, to: Token, out: &mut Vec<Output>) {
        match self.probe.take() {
            Some(probe) if probe.is_answered => (self.misses, self.wait) = (self.misses + 1, FIRST_WAIT),
            Some(_) => self.wait = (2 * self.wait).min(LAST_WAIT),
            None => (self.misses, self.wait) = (0, FIRST_WAIT),
        }
        if self.misses >= MAX_MISSES && !self.is_short {
            self.is_short = true;
            self.probe_at = Some(now + RAISE_PERIOD);
            return out.push(Output::PathCarries { before: self.long_bytes, bytes: SHORT_BYTES });
        }
        self.probes = self.probes.wrapping_add(1);
        for bytes in [self.long_bytes, SHORT_PROBE_BYTES] {
            let mut probe = BytesMut::with_capacity(bytes);
            probe.put_u8(PROBE);
            probe.put_u64_le(to);
            probe.put_u32_le(self.probes);
            probe.resize(bytes, 0);
            out.push(Output::Packet(probe.freeze()));
        }
        self.probe = Some(Probe { number: self.probes, is_answered: false });
        self.probe_at = Some(now + if self.is_short { RAISE_PERIOD } else { self.wait });
    }

    /// Takes a fragment. Returns its packet once all fragments have arrived. Incomplete packets are dropped if there
    /// are too many, or after a second.
    pub fn join(&mut self, now: Time, mut fragment: Bytes) -> Option<Bytes> {
        if fragment.len() <= FRAGMENT_HEAD_BYTES {
            return None;
        }
        fragment.advance(HEAD_BYTES);
        let (packet, at, total) = (fragment.get_u16_le(), fragment.get_u16_le(), usize::from(fragment.get_u16_le()));
        let place = self.partial.iter().position(|partial| partial.packet == packet && partial.total == total);
        let place = place.unwrap_or_else(|| {
            if self.partial.len() == MAX_PARTIAL {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial { packet, total, began: now, parts: BTreeMap::new() });
            self.partial.len() - 1
        });
        let partial = &mut self.partial[place];
        let held: usize = partial.parts.values().map(Bytes::len).sum();
        if held + fragment.len() > total {
            return None;
        }
        // A copy, because a slice would keep the memory of a whole packet batch alive.
        partial.parts.entry(at).or_insert_with(|| Bytes::copy_from_slice(&fragment));
        let mut whole = BytesMut::with_capacity(total);
        for (at, part) in &partial.parts {
            if usize::from(*at) != whole.len() {
                return None;
            }
            whole.extend_from_slice(part);
        }
        if whole.len() < total {
            return None;
        }
        self.partial.remove(place);
        Some(whole.freeze())
    }
}
