//! Schedule of the packets in an emulated network: a state machine without I/O and clock.
//!
//! A packet passes the queue of the sender's interface, is lost or travels, and passes the queue of the receiver's
//! interface. Packets of one flow are never reordered, unless the plan says so.

use crate::emulation::packet::Flow;
use crate::emulation::plan::{Change, Link, Plan};
use quorate_simulator::links::{Loss, LossProcess, Purpose, Random};
use quorate_types::Time;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Maximum bytes of all packets in flight. Packets beyond it are dropped and counted.
pub const MAX_HELD_BYTES: u64 = 512 << 20;
/// Number of flows above which idle ones are forgotten.
const MANY_FLOWS: usize = 1 << 14;

/// Packet that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery<P> {
    pub to: usize,
    pub due: Time,
    pub packet: P,
}

/// Packets and bytes that the router passed on, and packets that it dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets sent from endpoint to endpoint.
    pub packets: u64,
    /// Bytes of these packets, IP headers included.
    pub bytes: u64,
    /// Packets lost by chance, flipped bits included.
    pub lost: u64,
    /// Packets lost to a cut of the link.
    pub cut: u64,
    /// Packets dropped by the full queue of a sender's interface.
    pub queue_dropped: u64,
    /// Packets dropped beyond [`MAX_HELD_BYTES`], which is no property of the network.
    pub overflowed: u64,
}

struct Way {
    link: Link,
    loss: LossProcess,
    /// Number of faults that presently cut the link.
    cuts: u32,
    spike_ns: u64,
    /// Probability of loss added by a fault.
    lose: f64,
}

/// Network interfaces of an endpoint: the time at which each becomes idle.
#[derive(Clone, Copy, Default)]
struct Nic {
    egress_free_ns: u64,
    ingress_free_ns: u64,
}

struct Held<P> {
    due_ns: u64,
    /// Order among packets with the same due time.
    number: u64,
    to: usize,
    bytes: u64,
    /// Whether the receiver's interface is still ahead.
    is_before_nic: bool,
    packet: P,
}

impl<P> Held<P> {
    fn key(&self) -> (u64, u64) {
        (self.due_ns, self.number)
    }
}

impl<P> PartialEq for Held<P> {
    fn eq(&self, other: &Held<P>) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Held<P> {}

impl<P> PartialOrd for Held<P> {
    fn partial_cmp(&self, other: &Held<P>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Held<P> {
    /// The packet with the earliest due time is the greatest.
    fn cmp(&self, other: &Held<P>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Packets in flight through a network.
pub struct Scheduler<P> {
    plan: Plan,
    ways: Vec<Way>,
    legs: Option<Vec<LossProcess>>,
    nics: Vec<Nic>,
    /// Arrival time of each flow's last packet; kept only if delays vary.
    flows: HashMap<(usize, usize, Flow), u64>,
    delays_vary: bool,
    random: Vec<Random>,
    held: BinaryHeap<Held<P>>,
    held_bytes: u64,
    numbers: u64,
    correction_ns: u64,
    pub counts: Counts,
}

impl<P: Clone> Scheduler<P> {
    pub fn new(plan: Plan) -> Scheduler<P> {
        assert_eq!(plan.links.len(), plan.ends * plan.ends, "a plan has a link for each ordered pair");
        let way = |link: &Link| Way { link: *link, loss: LossProcess::new(link.loss), cuts: 0, spike_ns: 0, lose: 0.0 };
        let has_spikes = plan.changes.iter().any(|(_, change)| matches!(change, Change::Spike(..)));
        Scheduler {
            ways: plan.links.iter().map(way).collect(),
            legs: plan.last_leg.map(|loss| vec![LossProcess::new(loss); plan.ends]),
            nics: vec![Nic::default(); plan.ends],
            flows: HashMap::new(),
            delays_vary: plan.normal.is_some() || plan.jitter_ns > 0 || has_spikes,
            random: (0..plan.ends).map(|end| Random::new(plan.seed, Purpose::Links, end as u64)).collect(),
            held: BinaryHeap::new(),
            held_bytes: 0,
            numbers: 0,
            correction_ns: 0,
            counts: Counts::default(),
            plan,
        }
    }

    /// Subtracts the router's own processing time from each packet's delay, down to zero.
    pub fn set_correction(&mut self, correction_ns: u64) {
        self.correction_ns = correction_ns;
    }

    /// Accepts a packet that endpoint `from` sent at `now`.
    pub fn submit(&mut self, now: Time, from: usize, to: usize, flow: Flow, bytes: usize, packet: P) {
        let bytes = bytes as u64;
        self.counts.packets += 1;
        self.counts.bytes += bytes;
        let begins = now.0.max(self.nics[from].egress_free_ns);
        if self.is_full(begins - now.0) {
            self.counts.queue_dropped += 1;
            return;
        }
        let leaves = begins + (bytes * self.plan.egress_ps_per_byte).div_ceil(1000);
        self.nics[from].egress_free_ns = leaves;
        if self.ways[from * self.plan.ends + to].cuts > 0 {
            self.counts.cut += 1;
            return;
        }
        if !self.survives(from, to, bytes) {
            self.counts.lost += 1;
            return;
        }
        if self.random[from].chance(self.plan.duplication) {
            let again = leaves + self.travel(from, to);
            self.hold(again, to, bytes, true, packet.clone());
        }
        let mut arrives = leaves + self.travel(from, to);
        if self.random[from].chance(self.plan.reordering) {
            arrives += self.random[from].below(self.plan.reordering_ns.max(1));
        } else if self.delays_vary {
            arrives = self.behind_its_flow(now, (from, to, flow), arrives);
        }
        self.hold(arrives, to, bytes, true, packet);
    }

    /// Delivers a packet to `to` at `due`, less the correction, without loss and bypassing the interfaces.
    pub fn pass(&mut self, due: Time, to: usize, bytes: usize, packet: P) {
        self.hold(due.0, to, bytes as u64, false, packet);
    }

    /// Returns the correction in nanoseconds.
    pub fn correction(&self) -> u64 {
        self.correction_ns
    }

    /// Returns the next packet that is due at `now` or earlier.
    pub fn pop(&mut self, now: Time) -> Option<Delivery<P>> {
        while self.held.peek().is_some_and(|first| first.due_ns <= now.0) {
            let Held { due_ns, to, bytes, is_before_nic, packet, .. } = self.held.pop()?;
            self.held_bytes -= bytes;
            if is_before_nic && self.plan.ingress_ps_per_byte > 0 {
                let nic = &mut self.nics[to];
                let taken_in = due_ns.max(nic.ingress_free_ns) + (bytes * self.plan.ingress_ps_per_byte).div_ceil(1000);
                nic.ingress_free_ns = taken_in;
                self.hold(taken_in, to, bytes, false, packet);
                continue;
            }
            return Some(Delivery { to, due: Time(due_ns), packet });
        }
        None
    }

    /// Returns the time of the next call to [`Scheduler::pop`].
    pub fn next_at(&self) -> Option<Time> {
        self.held.peek().map(|first| Time(first.due_ns))
    }

    /// Returns the bytes of all packets in flight.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub fn change(&mut self, change: &Change) {
        let ends = self.plan.ends;
        match change {
            Change::Cut(pairs, begins) => pairs.iter().for_each(|(from, to)| {
                let cuts = &mut self.ways[from * ends + to].cuts;
                *cuts = if *begins { *cuts + 1 } else { cuts.saturating_sub(1) };
            }),
            Change::Spike(pairs, by_ns) => {
                pairs.iter().for_each(|(from, to)| self.ways[from * ends + to].spike_ns = *by_ns);
            }
            Change::Lose(pairs, probability) => {
                pairs.iter().for_each(|(from, to)| self.ways[from * ends + to].lose = *probability);
            }
            Change::Heal => {
                for way in &mut self.ways {
                    (way.cuts, way.spike_ns, way.lose) = (0, 0, 0.0);
                    way.loss.set(Loss::default());
                }
                self.legs.iter_mut().flatten().for_each(|leg| leg.set(Loss::default()));
                let Plan { duplication, reordering, bit_error_rate, .. } = &mut self.plan;
                (*duplication, *reordering, *bit_error_rate) = (0.0, 0.0, 0.0);
            }
        }
    }

    /// Returns whether an interface's queue is full, given the time to send its contents.
    fn is_full(&self, wait_ns: u64) -> bool {
        let Plan { queue_bytes, egress_ps_per_byte, .. } = self.plan;
        let is_limited = queue_bytes > 0 && egress_ps_per_byte > 0;
        is_limited && wait_ns.saturating_mul(1000) >= queue_bytes.saturating_mul(egress_ps_per_byte)
    }

    fn survives(&mut self, from: usize, to: usize, bytes: u64) -> bool {
        let random = &mut self.random[from];
        let way = &mut self.ways[from * self.plan.ends + to];
        let mut passes = way.loss.passes(random, 1);
        passes &= way.lose == 0.0 || !random.chance(way.lose);
        if let Some(legs) = &mut self.legs {
            passes &= legs[to].passes(random, 1);
        }
        let rate = self.plan.bit_error_rate;
        if rate > 0.0 && passes {
            // 1 - (1 - rate)^bits, computed without loss of precision for small rates.
            let spoilt = -libm::expm1((bytes * 8) as f64 * libm::log1p(-rate.min(0.999_999)));
            passes = !random.chance(spoilt);
        }
        passes
    }

    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let (way, random) = (&self.ways[from * self.plan.ends + to], &mut self.random[from]);
        let mut travel_ns = match &self.plan.normal {
            Some(normal) => {
                let drawn = normal.mean_ns + normal.deviation_ns * random.normal();
                drawn.clamp(normal.least_ns, normal.most_ns) as u64
            }
            None => way.link.delay_ns,
        };
        travel_ns += way.spike_ns;
        if self.plan.jitter_ns > 0 {
            travel_ns += random.below(self.plan.jitter_ns);
        }
        travel_ns.saturating_sub(self.correction_ns)
    }

    fn behind_its_flow(&mut self, now: Time, flow: (usize, usize, Flow), arrives_ns: u64) -> u64 {
        if self.flows.len() >= MANY_FLOWS && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, last| *last > now.0);
        }
        let last = self.flows.entry(flow).or_insert(0);
        *last = arrives_ns.max(*last);
        *last
    }

    fn hold(&mut self, due_ns: u64, to: usize, bytes: u64, is_before_nic: bool, packet: P) {
        if self.held_bytes + bytes > MAX_HELD_BYTES {
            self.counts.overflowed += 1;
            return;
        }
        self.held_bytes += bytes;
        self.numbers += 1;
        self.held.push(Held { due_ns, number: self.numbers, to, bytes, is_before_nic, packet });
    }
}
