//! An off-path sender, and the checker of its effects.

use super::addresses::address;
use super::{Event, Load, World};
use crate::faults::FaultSpec;
use crate::hostile::TICK;
use crate::links::{Purpose, Random};
use crate::network::Links;
use crate::off_path::{FIRST_PACKETS, Forgery, MAX_SEEN, Seen, handshake, junk, stranger};
use crate::oracle::Oracle;
use crate::spec::SimSpec;
use bytes::Bytes;
use quorate_adversary::oracles::Property;
use quorate_consensus::Protocol;
use quorate_network::channels::Loss;
use quorate_types::Time;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Round trips within which two honest ends must connect despite an off-path sender.
pub const CONNECTED_WITHIN_ROUND_TRIPS: u32 = 8;
/// Additional time allowed: three retransmissions of an overtaken handshake packet, after 50, 100 and 200 ms. DTLS
/// needs them even without an attack.
const REPETITIONS: Duration = Duration::from_millis(350);
/// Bytes that an endpoint may send to an unverified address per byte received from it.
const MAX_AMPLIFICATION: usize = 3;
/// ID of the first client that an off-path sender claims to be.
const FIRST_CLIENT: u128 = 0x0ff_9a74;

/// Off-path sender, with its targets and the end of its attack.
struct Attack {
    kind: Forgery,
    /// Packets to each target per [`TICK`].
    per_tick: f64,
    /// Fraction of a packet that is due.
    owed: f64,
    targets: Vec<usize>,
    until: Time,
}

/// The off-path senders of a run.
pub(super) struct OffPath {
    pub judge: Judge,
    attacks: Vec<Attack>,
    /// First packets of connections that it may send.
    firsts: Vec<Bytes>,
    seen: VecDeque<Seen>,
    dice: Random,
}

impl OffPath {
    /// `has_chaos` is set if faults are drawn from the seed.
    pub fn new(spec: &SimSpec, seed: u64, has_chaos: bool) -> OffPath {
        let faults = &spec.network.faults;
        let alone = !faults.is_empty() && faults.iter().all(|fault| matches!(fault, FaultSpec::OffPath { .. }));
        OffPath {
            judge: Judge { times: alone && !has_chaos && !spec.network.loses(), ..Judge::default() },
            attacks: Vec::new(),
            firsts: Vec::new(),
            seen: VecDeque::new(),
            dice: Random::new(seed, Purpose::OffPath, 0),
        }
    }

    /// Returns a packet to one of `ends` endpoints at a time, with the source address `claimed` or an arbitrary one.
    fn forge(&mut self, at: Time, kind: Forgery, to: usize, ends: usize, claimed: Option<usize>) -> Option<Foreign> {
        let (to, packet, sender) = match kind {
            Forgery::Handshakes => (to, handshake(&self.firsts, &mut self.dice), None),
            Forgery::Junk => (to, junk(&mut self.dice), None),
            Forgery::Replays => {
                // An off-path attacker cannot send a copy before the original has arrived.
                let passed = |seen: &&Seen| seen.to == to && seen.arrives < at;
                let drawn = self.dice.below(self.seen.iter().filter(passed).count().max(1) as u64) as usize;
                let seen = self.seen.iter().filter(passed).nth(drawn)?;
                (to, seen.packet.clone(), Some(seen.from))
            }
        };
        let claimed = claimed.filter(|claimed| Some(*claimed) != sender).or_else(|| {
            let drawn = self.dice.below(ends as u64 + 1) as usize;
            (drawn < ends && drawn != to && Some(drawn) != sender).then_some(drawn)
        });
        let source = claimed.map_or_else(|| stranger(&mut self.dice), address);
        Some(Foreign { kind, source, to, packet })
    }
}

/// Packet from an off-path sender.
pub(super) struct Foreign {
    kind: Forgery,
    source: SocketAddr,
    to: usize,
    packet: Bytes,
}

/// Checker of the effects of off-path packets. It knows senders and lengths, but no tokens or protocols.
#[derive(Default)]
pub(super) struct Judge {
    /// Whether nothing else delays handshakes, so that their time is checked.
    times: bool,
    /// Kind and source of the off-path packet being handled.
    handling: Option<(Forgery, SocketAddr)>,
    /// Bytes received from off-path senders by source address, and bytes sent there because of them.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
    /// Unconnected pairs, with the start of their attempt and the time allowed.
    pending: BTreeMap<(usize, usize), (Time, Duration)>,
}

impl Judge {
    fn report(oracle: &mut Oracle, what: String) {
        oracle.report(Property::OffPath, what);
    }

    /// Observes that an honest end dials another. Further attempts count as part of the first.
    pub fn dials(&mut self, now: Time, one: usize, other: usize, links: &Links) {
        if self.times {
            let round_trip = links.longest_delay(one, other) + links.longest_delay(other, one);
            let within = round_trip * CONNECTED_WITHIN_ROUND_TRIPS + REPETITIONS;
            self.pending.entry((one.min(other), one.max(other))).or_insert((now, within));
        }
    }

    /// Observes that both ends of a pair have established their connection.
    pub fn is_established(&mut self, now: Time, one: usize, other: usize, oracle: &mut Oracle) {
        self.check_times(now, oracle);
        self.pending.remove(&(one.min(other), one.max(other)));
    }

    /// Checks that no pair takes too long to connect.
    fn check_times(&self, now: Time, oracle: &mut Oracle) {
        let late = self.pending.iter().find(|(_, (since, within))| now.since(*since) > *within);
        if let Some(((one, other), (since, within))) = late {
            let what = format!(
                "endpoints {one} and {other} dial since {since:?} and are not connected at {now:?}, \
                                beyond {CONNECTED_WITHIN_ROUND_TRIPS} round trips and repetitions, {within:?}"
            );
            Judge::report(oracle, what);
        }
    }

    /// Observes that a packet starts a connection.
    pub fn begins(&self, at: usize, oracle: &mut Oracle) {
        if let Some((kind, source)) = self.handling {
            Judge::report(oracle, format!("a connection of endpoint {at} begins with {kind} from {source}"));
        }
    }

    /// Observes that an end changes the address to which it sends. No honest endpoint changes its own.
    pub fn moves(at: usize, other: usize, to: SocketAddr, oracle: &mut Oracle) {
        Judge::report(oracle, format!("the connection of endpoint {at} with {other} has moved to {to}"));
    }

    /// Observes that a frame is delivered.
    pub fn delivers(&self, at: usize, other: usize, oracle: &mut Oracle) {
        // A copy of a genuine packet may arrive before the original.
        if let Some((kind @ (Forgery::Handshakes | Forgery::Junk), source)) = self.handling {
            Judge::report(oracle, format!("endpoint {at} takes {kind} from {source} for a frame of {other}"));
        }
    }

    /// Observes that a connection, or an attempt, has ended.
    pub fn loses(&self, at: usize, other: usize, why: &Loss, oracle: &mut Oracle) {
        if let Some((kind, source)) = self.handling {
            let what = format!("{kind} from {source} end the connection of endpoint {at} with {other}: {why}");
            Judge::report(oracle, what);
        }
    }

    /// Observes that an endpoint sends to an address that may be unverified.
    pub fn answers(&mut self, to: SocketAddr, bytes: usize, oracle: &mut Oracle) {
        let Some((kind, _)) = self.handling else { return };
        let (received, sent) = self.bytes.entry(to).or_default();
        *sent += bytes;
        if *sent > MAX_AMPLIFICATION * *received {
            Judge::report(oracle, format!("{sent} bytes are sent to {to} for {received} bytes, the last of {kind}"));
        }
    }
}

impl<P: Protocol> World<'_, P> {
    /// Starts an off-path sender.
    pub(super) fn forge(&mut self, kind: Forgery, packets_per_s: f64, targets: Vec<usize>, until: Time) {
        assert!(self.connections.are_used(), "the laboratory checks that the transport runs over packets");
        let number = self.off_path.attacks.len() as u16;
        if kind == Forgery::Handshakes && self.off_path.firsts.is_empty() {
            let (now, dice) = (self.now, &mut self.off_path.dice);
            let first = |at: usize| self.connections.first_packet(now, FIRST_CLIENT + at as u128, dice);
            self.off_path.firsts = (0..FIRST_PACKETS).filter_map(first).collect();
        }
        let per_tick = packets_per_s * TICK.as_secs_f64();
        self.off_path.attacks.push(Attack { kind, per_tick, owed: 0.0, targets, until });
        self.schedule.push(self.now, Event::OffPath(number));
    }

    pub(super) fn on_off_path_tick(&mut self, number: usize) {
        self.oracle.check_service(self.now);
        self.off_path.judge.check_times(self.now, &mut self.oracle);
        self.schedule.push(self.now + TICK, Event::OffPath(number as u16));
        let ends = self.replicas() + self.clients.machines();
        let attack = &mut self.off_path.attacks[number];
        if self.now >= attack.until {
            return;
        }
        attack.owed += attack.per_tick;
        let (kind, targets, packets) = (attack.kind, attack.targets.clone(), attack.owed as u64);
        attack.owed -= packets as f64;
        self.trace.add(self.now.0, 1 << 34 | number as u64, packets);
        for to in targets.into_iter().flat_map(|to| (0..packets).map(move |_| to)) {
            let after = self.off_path.dice.below(TICK.as_nanos() as u64);
            let arrives = self.now + Duration::from_nanos(after);
            if let Some(foreign) = self.off_path.forge(arrives, kind, to, ends, None) {
                self.send_foreign(arrives, foreign);
            }
        }
    }

    fn send_foreign(&mut self, arrives: Time, foreign: Foreign) {
        let to = foreign.to as u16;
        self.schedule.push(arrives, Event::Arrive { from: to, to, queued: false, load: Load::Foreign(foreign) });
    }

    /// Reveals an honest endpoint's packet to the off-path senders. Real ones are never that fast, but their packets
    /// may arrive at any time, and the worst time is just before a handshake packet.
    pub(super) fn overhear_packet(&mut self, from: usize, to: usize, packet: &Bytes, arrives: Option<Time>) {
        let is_active = |attack: &Attack| self.now < attack.until && attack.targets.contains(&to);
        let kinds: Vec<Forgery> = self.off_path.attacks.iter().filter(|at| is_active(at)).map(|at| at.kind).collect();
        if kinds.is_empty() {
            return;
        }
        let Some(arrives) = arrives else { return };
        self.off_path.seen.push_back(Seen { arrives, from, to, packet: packet.clone() });
        if self.off_path.seen.len() > MAX_SEEN {
            self.off_path.seen.pop_front();
        }
        if !self.connections.is_beginning(from, to) {
            return;
        }
        let (before, ends) = (Time(arrives.0 - 1).max(self.now), self.replicas() + self.clients.machines());
        for kind in kinds {
            if let Some(foreign) = self.off_path.forge(before, kind, to, ends, Some(from)) {
                self.send_foreign(before, foreign);
            }
        }
    }

    pub(super) fn on_foreign(&mut self, foreign: Foreign) {
        let Foreign { kind, source, to, packet } = foreign;
        if self.is_dead(to) {
            return;
        }
        self.off_path.judge.bytes.entry(source).or_default().0 += packet.len();
        self.off_path.judge.handling = Some((kind, source));
        self.on_packet(source, to, packet);
        self.off_path.judge.handling = None;
    }
}

impl Foreign {
    pub(super) fn bytes(&self) -> usize {
        self.packet.len()
    }
}
