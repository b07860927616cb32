//! One end of a connection of robust UDP, above its channel.

use super::received::{MAX_WORDS, Received};
use super::sending::Sending;
use crate::channels::{Loss, Machine, Output, RemoteIdentity, Repairs};
use crate::transports::config::PacketConfig;
use crate::transports::pieces::{Assembler, Packer};
use crate::transports::retransmission::RetransmissionConfig;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{Lane, Time};
use std::time::Duration;

const DATA: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const MISSING: u8 = 3;
/// Kind, first missing number, latest number, and number of bitmap words.
const HEAD_BYTES: usize = 1 + 8 + 4 + 1;
const WORD_BYTES: usize = 8;
const NUMBER_BYTES: usize = 8;
const MAX_DATA_HEAD_BYTES: usize = HEAD_BYTES + WORD_BYTES * MAX_WORDS + NUMBER_BYTES;
const RANGE_BYTES: usize = 8 + 2;
/// Received packets are acknowledged at once after 1/N of the window.
const ACKNOWLEDGED_SHARE: usize = 4;
/// Wait for reordered packets to fill a gap: 1/N of the round-trip time, or a fixed time before the first measurement.
const REORDERING_SHARE: u32 = 4;
const FIRST_REORDERING: Duration = Duration::from_millis(1);

/// One end of a connection.
pub struct RudpMachine {
    config: RetransmissionConfig,
    mtu_budget: usize,
    /// Packet length below the MTU budget, if the path carries no longer packets.
    short: Option<usize>,
    /// Prefix of each packet, for the machine below.
    prefix: Bytes,
    keepalive: Duration,
    /// When the newest data packet was sent.
    sent_at: Time,
    urgent: Packer,
    bulk: Packer,
    sending: Sending,
    received: Received,
    assembler: Assembler,
    /// When to send a standalone acknowledgement, unless another packet carries it first.
    acknowledge_at: Option<Time>,
    /// Bytes received since the last acknowledgement.
    unacknowledged_bytes: usize,
    /// When to send a NACK for missing packets.
    ask_at: Option<Time>,
    /// When pacing allows the next packet.
    go_on_at: Option<Time>,
    is_open: bool,
}

impl RudpMachine {
    /// Creates a machine whose packets have at most `mtu_budget` bytes.
    pub fn new(packets: &PacketConfig, config: RetransmissionConfig, mtu_budget: usize) -> RudpMachine {
        RudpMachine {
            keepalive: Duration::from_millis(packets.keepalive_ms),
            sent_at: Time(0),
            mtu_budget,
            short: None,
            prefix: Bytes::new(),
            urgent: Packer::new(0, 2),
            bulk: Packer::new(1, 2),
            sending: Sending::new(&config),
            received: Received::default(),
            assembler: Assembler::new(config.window_bytes + 2 * MAX_FRAME_BYTES, false),
            acknowledge_at: None,
            unacknowledged_bytes: 0,
            ask_at: None,
            go_on_at: None,
            is_open: false,
            config,
        }
    }

    fn lose(&mut self, why: Loss, out: &mut Vec<Output>) {
        self.is_open = false;
        out.push(Output::Lost(why));
    }

    /// Returns the header of a packet, which acknowledges the received packets.
    fn head(&mut self, kind: u8, bytes: usize) -> BytesMut {
        (self.acknowledge_at, self.unacknowledged_bytes) = (None, 0);
        let mut packet = BytesMut::with_capacity(self.prefix.len() + bytes);
        packet.extend_from_slice(&self.prefix);
        packet.put_u8(kind);
        packet.put_u64_le(self.received.missing());
        packet.put_u32_le(self.received.latest());
        let words_at = packet.len();
        packet.put_u8(0);
        for word in self.received.later() {
            packet.put_u64_le(word);
            packet[words_at] += 1;
        }
        packet
    }

    /// Sends a data packet with the pieces that `fill` appends.
    fn put(&mut self, number: u64, bytes: usize, out: &mut Vec<Output>, fill: impl FnOnce(&mut BytesMut)) -> Bytes {
        let mut packet = self.head(DATA, MAX_DATA_HEAD_BYTES + bytes);
        packet.put_u64_le(number);
        let start = packet.len();
        fill(&mut packet);
        let packet = packet.freeze();
        out.push(Output::Packet(packet.clone()));
        packet.slice(start..)
    }

    /// Sends a new packet with the frames that the packer holds, possibly none.
    fn put_new(&mut self, now: Time, is_bulk: bool, out: &mut Vec<Output>) {
        self.sent_at = now;
        let mtu_budget = self.short.unwrap_or(self.mtu_budget) - MAX_DATA_HEAD_BYTES;
        let mut packer = std::mem::replace(if is_bulk { &mut self.bulk } else { &mut self.urgent }, Packer::new(0, 0));
        let pieces = self
            .put(self.sending.next(), packer.packet_bytes(mtu_budget), out, |packet| packer.pack(packet, mtu_budget));
        *(if is_bulk { &mut self.bulk } else { &mut self.urgent }) = packer;
        self.sending.depart(now, pieces);
    }

    /// Sends requested retransmissions, then new packets as far as window and pacing allow.
    fn transmit(&mut self, now: Time, out: &mut Vec<Output>) {
        self.go_on_at = None;
        while let Some((number, pieces)) = self.sending.next_again(now) {
            self.put(number, pieces.len(), out, |packet| packet.extend_from_slice(&pieces));
        }
        while self.sending.has_room() {
            let is_bulk = self.urgent.is_empty();
            if is_bulk && self.bulk.is_empty() {
                return;
            }
            if let Some(wait) = self.sending.pace.as_mut().and_then(|pace| pace.wait(now)) {
                self.go_on_at = Some(wait);
                return;
            }
            self.put_new(now, is_bulk, out);
        }
    }

    fn take_data(&mut self, now: Time, mut packet: Bytes, out: &mut Vec<Output>) -> Result<(), Loss> {
        if packet.len() < NUMBER_BYTES {
            return Err(Loss::Violation("a packet of data has no number"));
        }
        let number = packet.get_u64_le();
        let bytes = packet.len();
        if !self.received.note(number) {
            // The remote retransmits a received packet: the acknowledgement was lost.
            self.acknowledge_at = Some(now);
            return Ok(());
        }
        self.assembler.take(packet, |frame| out.push(Output::Frame(frame)))?;
        self.unacknowledged_bytes += bytes;
        let is_much = self.unacknowledged_bytes >= self.config.window_bytes / ACKNOWLEDGED_SHARE;
        let at = if is_much { now } else { now + self.sending.trips.ack_delay() };
        self.acknowledge_at = Some(self.acknowledge_at.map_or(at, |before| before.min(at)));
        if self.received.has_gap() {
            let patience = self.sending.trips.smoothed().map_or(FIRST_REORDERING, |trip| trip / REORDERING_SHARE);
            self.ask_at.get_or_insert(now + patience);
        } else {
            self.ask_at = None;
        }
        Ok(())
    }

    fn take(&mut self, now: Time, mut packet: Bytes, out: &mut Vec<Output>) -> Result<(), Loss> {
        if packet.len() < HEAD_BYTES {
            return Err(Loss::Violation("a packet is too short"));
        }
        let (kind, missing, latest) = (packet.get_u8(), packet.get_u64_le(), packet.get_u32_le());
        let words = usize::from(packet.get_u8());
        if words > MAX_WORDS || packet.len() < words * WORD_BYTES {
            return Err(Loss::Violation("a packet is shorter than it says"));
        }
        let mut bits = packet.split_to(words * WORD_BYTES);
        let words = std::iter::from_fn(|| bits.has_remaining().then(|| bits.get_u64_le()));
        let numbers = words.zip((missing.saturating_add(1)..).step_by(64));
        let later = numbers.flat_map(|(word, first)| {
            (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| first.saturating_add(bit))
        });
        if !self.sending.acknowledged(now, missing, later, latest) {
            return Err(Loss::Violation("it acknowledges a packet that was never sent"));
        }
        match kind {
            DATA => self.take_data(now, packet, out)?,
            ACKNOWLEDGE => {}
            MISSING => self.take_request(now, missing, latest, packet)?,
            _ => return Err(Loss::Violation("a packet is of an unknown kind")),
        }
        Ok(())
    }

    /// Handles a NACK. Numbers between its ranges have arrived.
    fn take_request(&mut self, now: Time, missing: u64, latest: u32, mut packet: Bytes) -> Result<(), Loss> {
        let mut came_from = missing;
        while packet.len() >= RANGE_BYTES {
            let (first, length) = (packet.get_u64_le(), packet.get_u16_le());
            if first < came_from || !self.sending.acknowledged(now, missing, came_from..first, latest) {
                return Err(Loss::Violation("it asks for a packet that was never sent"));
            }
            self.sending.asked_for(now, first, length);
            came_from = first.saturating_add(length.into());
        }
        Ok(())
    }

    /// Sends a NACK for missing packets, and schedules its repetition.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        let ranges = self.received.ranges();
        let mut packet = self.head(MISSING, HEAD_BYTES + WORD_BYTES * MAX_WORDS + RANGE_BYTES * ranges.len());
        for (first, length) in ranges {
            packet.put_u64_le(first);
            packet.put_u16_le(length);
        }
        out.push(Output::Packet(packet.freeze()));
        let trips = &self.sending.trips;
        let answered = trips.smoothed().map_or(4 * FIRST_REORDERING, |trip| trip + trip / REORDERING_SHARE);
        self.ask_at = Some(now + answered.max(FIRST_REORDERING));
    }
}

impl Machine for RudpMachine {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        (self.is_open, self.sent_at) = (true, now);
        out.push(Output::Established);
        self.transmit(now, out);
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        if !self.is_open {
            return;
        }
        self.sending.heard(now);
        if let Err(why) = self.take(now, packet, out) {
            return self.lose(why, out);
        }
        self.transmit(now, out);
    }

    fn send(&mut self, _: Time, frame: Bytes, lane: Lane, _: &mut Vec<Output>) {
        match lane {
            Lane::Ordinary | Lane::Vote => self.urgent.push(frame),
            Lane::Bulk => self.bulk.push(frame),
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.is_open {
            self.transmit(now, out);
        }
    }

    fn due(&self) -> Option<Time> {
        let idle = (self.sending.in_flight_bytes() == 0).then(|| self.sent_at + self.keepalive);
        let timers = [self.acknowledge_at, self.ask_at, self.go_on_at, self.sending.timeout_at(), idle];
        timers.into_iter().flatten().min().filter(|_| self.is_open)
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        if !self.is_open {
            return;
        }
        let limit_ms = self.config.unacknowledged_ms;
        if self.sending.silence(now).is_some_and(|silence| silence >= Duration::from_millis(limit_ms)) {
            return self.lose(Loss::Silent(limit_ms), out);
        }
        self.sending.on_timer(now);
        self.transmit(now, out);
        if self.sending.in_flight_bytes() == 0 && now.since(self.sent_at) >= self.keepalive {
            // This packet must be acknowledged, so a dead remote is detected.
            self.put_new(now, false, out);
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask(now, out);
        }
        if self.acknowledge_at.is_some_and(|at| at <= now) {
            let packet = self.head(ACKNOWLEDGE, HEAD_BYTES + WORD_BYTES * MAX_WORDS);
            out.push(Output::Packet(packet.freeze()));
        }
    }

    fn begin_with(&mut self, prefix: Bytes) -> bool {
        self.prefix = prefix;
        true
    }

    fn heard(&mut self, now: Time) {
        self.sending.heard(now);
    }

    fn shorten(&mut self, bytes: Option<usize>) {
        self.short = bytes.map(|bytes| bytes.min(self.mtu_budget));
    }

    fn close(&mut self, _: Time, _: &mut Vec<Output>) {
        self.is_open = false;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        None
    }

    fn unsent_bytes(&self) -> usize {
        self.urgent.bytes() + self.bulk.bytes() + self.sending.in_flight_bytes()
    }

    fn unsent_bulk_bytes(&self) -> usize {
        self.bulk.bytes()
    }

    fn partial_bytes(&self) -> usize {
        self.assembler.held_bytes()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.assembler.set_frame_limit(bytes);
    }

    fn repairs(&self) -> Repairs {
        Repairs {
            retransmissions: self.sending.repeated,
            timeouts: Some(self.sending.timeouts),
            round_trip: self.sending.trips.smoothed(),
        }
    }
}
