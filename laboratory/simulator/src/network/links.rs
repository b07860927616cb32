//! Links between endpoints: delay, bandwidth, loss, reordering.

use super::delay::Delay;
use super::endpoints::Endpoints;
use super::placement::{ClientsAt, place};
use super::routes::Route;
use super::spec::{NetworkSpec, Packets, Topology};
use crate::clock::ms_to_ns;
use crate::links::{Loss, LossProcess, Purpose, Random};
use quorate_network::transports::BULK_AHEAD_BYTES;
use quorate_types::{ReplicaId, Time};
use std::time::Duration;

/// Arrival of a packet, or of all packets of a message, at the receiver's network interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// Arrival time; `None` if lost.
    pub arrives: Option<Time>,
    /// Arrival time of a duplicate.
    pub again: Option<Time>,
}

/// Link of one ordered pair.
struct Link {
    delay_ns: u64,
    loss: LossProcess,
    /// Number of faults that presently cut the link.
    cuts: u16,
    spike_ns: u64,
    /// Probability of loss added by a fault.
    lose: f64,
}

/// All links of a network.
pub struct Links {
    ends: usize,
    links: Vec<Link>,
    /// The router's hop to each endpoint, in a star.
    legs: Option<Vec<LossProcess>>,
    /// Mean, deviation, minimum and maximum of a normally distributed delay, in milliseconds.
    normal: Option<[f64; 4]>,
    jitter_ns: u64,
    packets: Packets,
    egress_ps_per_byte: u64,
    ingress_ps_per_byte: u64,
    /// Maximum length of a sender's queue, in bytes; 0 is unlimited.
    queue_bytes: u64,
    egress_free: Vec<u64>,
    /// Time at which each interface has sent all messages that overtook others.
    overtaking_free: Vec<u64>,
    /// Bytes of bulk messages in an interface's queue that cannot be overtaken, because all links of a replica have
    /// already passed them to the operating system.
    ahead_bytes: u64,
    ingress_free: Vec<u64>,
    random: Vec<Random>,
    /// Packets are never lost, duplicated or reordered.
    is_plain: bool,
    /// Number of packets lost, including cuts.
    pub lost: u64,
    /// Number of packets dropped because of flipped bits.
    pub corrupted: u64,
}

/// Converts a bandwidth to picoseconds per byte; 0 means no limit.
fn per_byte(mbit_per_s: f64) -> u64 {
    if mbit_per_s == 0.0 { 0 } else { (8e6 / mbit_per_s) as u64 }
}

impl Links {
    /// Returns the links between `replicas` replicas and, as the last endpoint, one client machine.
    pub fn new(spec: &NetworkSpec, replicas: usize, seed: u64) -> Links {
        let one = place(&ClientsAt::One, &spec.delay, replicas, 1, "network").expect("one machine always has a place");
        Links::between(spec, &Endpoints { replicas, machines: &one, delay: &spec.delay }, seed)
    }

    /// Returns the links between these endpoints.
    pub fn between(spec: &NetworkSpec, endpoints: &Endpoints<'_>, seed: u64) -> Links {
        let ends = endpoints.count();
        let legs = if spec.topology == Topology::Star { 2.0 } else { 1.0 };
        let link =
            |Route { delay_ns, loss }| Link { delay_ns, loss: LossProcess::new(loss), cuts: 0, spike_ns: 0, lose: 0.0 };
        let links = spec.routes(endpoints).into_iter().map(link).collect();
        let normal = match spec.delay {
            Delay::Normal { mean_ms, deviation_ms, min_ms, max_ms } => {
                Some([mean_ms * legs, deviation_ms * legs, min_ms * legs, max_ms * legs])
            }
            _ => None,
        };
        Links {
            ends,
            links,
            legs: (spec.topology == Topology::Star).then(|| vec![LossProcess::new(spec.loss); ends]),
            normal,
            jitter_ns: ms_to_ns(spec.jitter.max_ms * legs),
            packets: spec.packets,
            egress_ps_per_byte: per_byte(spec.bandwidth.egress_mbit_per_s),
            ingress_ps_per_byte: per_byte(spec.bandwidth.ingress_mbit_per_s),
            queue_bytes: if spec.bandwidth.has_drops() { spec.bandwidth.queue_bytes } else { 0 },
            egress_free: vec![0; ends],
            overtaking_free: vec![0; ends],
            ahead_bytes: (BULK_AHEAD_BYTES * endpoints.replicas.saturating_sub(1)) as u64,
            ingress_free: vec![0; ends],
            random: (0..ends).map(|end| Random::new(seed, Purpose::Links, end as u64)).collect(),
            is_plain: !spec.loses() && spec.packets.duplication == 0.0 && spec.packets.reordering == 0.0,
            lost: 0,
            corrupted: 0,
        }
    }

    /// Returns the replica with the shortest delay from an endpoint; the lowest number if there are several.
    pub fn nearest(&self, from: usize, replicas: usize) -> ReplicaId {
        let nearest = (0..replicas).min_by_key(|to| self.links[from * self.ends + to].delay_ns);
        ReplicaId(nearest.expect("a cluster has a replica") as u16)
    }

    /// Returns the longest delay of a packet on a link without queues and faults.
    pub fn longest_delay(&self, from: usize, to: usize) -> Duration {
        let constant_ns = self.links[from * self.ends + to].delay_ns;
        let longest_ns = self.normal.map_or(constant_ns, |[.., max_ms]| ms_to_ns(max_ms).max(constant_ns));
        Duration::from_nanos(longest_ns + self.jitter_ns)
    }

    /// Returns the number of packets of a message.
    pub fn fragments(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.packet_room()).max(1) as u64
    }

    /// Returns the message bytes that fit in a packet.
    pub fn packet_room(&self) -> usize {
        (self.packets.mtu_bytes - self.packets.header_bytes) as usize
    }

    /// Begins or ends a cut. Cuts may overlap: a link works again after the last one ends.
    pub fn cut(&mut self, from: usize, to: usize, begins: bool) {
        let cuts = &mut self.links[from * self.ends + to].cuts;
        *cuts = if begins { *cuts + 1 } else { cuts.saturating_sub(1) };
    }

    pub fn spike(&mut self, from: usize, to: usize, by_ns: u64) {
        self.links[from * self.ends + to].spike_ns = by_ns;
    }

    /// Sets the probability of loss added by a fault.
    pub fn lose(&mut self, from: usize, to: usize, probability: f64) {
        self.is_plain &= probability == 0.0;
        self.links[from * self.ends + to].lose = probability;
    }

    /// Ends all cuts, spikes and losses by faults.
    pub fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| (link.cuts, link.spike_ns, link.lose) = (0, 0, 0.0));
    }

    /// Stops loss, reordering and duplication.
    pub fn calm(&mut self) {
        self.links.iter_mut().for_each(|link| link.loss.set(Loss::default()));
        self.legs.iter_mut().flatten().for_each(|leg| leg.set(Loss::default()));
        let Packets { duplication, reordering, bit_error_rate, .. } = &mut self.packets;
        (*duplication, *reordering, *bit_error_rate) = (0.0, 0.0, 0.0);
    }

    /// Sends a message of `bytes` at `now`, behind the sender interface's queue. It arrives only if all its packets do.
    pub fn send(&mut self, now: Time, from: usize, to: usize, bytes: usize) -> Fate {
        let begins = now.0.max(self.egress_free[from]);
        if self.is_full(begins - now.0) {
            self.lost += self.fragments(bytes);
            return Fate { arrives: None, again: None };
        }
        self.send_at(begins, from, to, bytes)
    }

    /// Returns whether an interface's queue is full, given the time to send its contents.
    fn is_full(&self, wait_ns: u64) -> bool {
        self.queue_bytes > 0 && wait_ns.saturating_mul(1000) >= self.queue_bytes.saturating_mul(self.egress_ps_per_byte)
    }

    /// Returns the time at which the sender's interface begins a message that overtakes bulk messages; `None` if there
    /// are none to overtake.
    fn overtaking_at(&self, now: Time, from: usize) -> Option<u64> {
        let ahead = now.0 + (self.ahead_bytes * self.egress_ps_per_byte).div_ceil(1000);
        Some(ahead.max(self.overtaking_free[from])).filter(|begins| *begins < self.egress_free[from])
    }

    /// Sends a message that overtakes the bulk messages in the sender's queues, which are delayed by its transmission
    /// time. Messages whose arrival is already scheduled keep it, but later ones are delayed. Returns `None`, and sends
    /// nothing, if there is nothing to overtake.
    pub fn overtake(&mut self, now: Time, from: usize, to: usize, bytes: usize) -> Option<Fate> {
        let begins = self.overtaking_at(now, from)?;
        let behind = self.egress_free[from];
        let fate = self.send_at(begins, from, to, bytes);
        let leaves = self.egress_free[from];
        self.overtaking_free[from] = leaves;
        self.egress_free[from] = behind + (leaves - begins);
        Some(fate)
    }

    fn send_at(&mut self, begins: u64, from: usize, to: usize, bytes: usize) -> Fate {
        let fragments = self.fragments(bytes);
        let wire = bytes as u64 + fragments * u64::from(self.packets.header_bytes);
        let leaves = begins + (wire * self.egress_ps_per_byte).div_ceil(1000);
        self.egress_free[from] = leaves;
        let link = &self.links[from * self.ends + to];
        if link.cuts > 0 {
            self.lost += fragments;
            return Fate { arrives: None, again: None };
        }
        if self.is_plain && self.normal.is_none() && self.jitter_ns == 0 {
            return Fate { arrives: Some(Time(leaves + link.delay_ns + link.spike_ns)), again: None };
        }
        if !self.is_plain && !self.survives(from, to, fragments, wire) {
            return Fate { arrives: None, again: None };
        }
        let arrives = Some(Time(leaves + self.travel(from, to)));
        let doubled = self.random[from].chance(self.packets.duplication);
        let again = doubled.then(|| Time(leaves + self.travel(from, to)));
        Fate { arrives, again }
    }

    /// Returns the time at which the receiver's interface has received a message that reaches it at `now`.
    pub fn taken_in(&mut self, now: Time, to: usize, bytes: usize) -> Time {
        if self.ingress_ps_per_byte == 0 {
            return now;
        }
        let wire = bytes as u64 + self.fragments(bytes) * u64::from(self.packets.header_bytes);
        let done = now.0.max(self.ingress_free[to]) + (wire * self.ingress_ps_per_byte).div_ceil(1000);
        self.ingress_free[to] = done;
        Time(done)
    }

    /// Returns whether receivers' interfaces have a queue.
    pub fn has_ingress(&self) -> bool {
        self.ingress_ps_per_byte > 0
    }

    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let link = &self.links[from * self.ends + to];
        let random = &mut self.random[from];
        let mut nanos_there = link.delay_ns + link.spike_ns;
        if let Some([mean, deviation, least, most]) = self.normal {
            let drawn = (mean + deviation * random.normal()).clamp(least, most);
            nanos_there = ms_to_ns(drawn) + link.spike_ns;
        }
        if self.jitter_ns > 0 {
            nanos_there += random.below(self.jitter_ns);
        }
        if random.chance(self.packets.reordering) {
            nanos_there += random.below(ms_to_ns(self.packets.reordering_ms).max(1));
        }
        nanos_there
    }

    fn survives(&mut self, from: usize, to: usize, fragments: u64, wire: u64) -> bool {
        let random = &mut self.random[from];
        let link = &mut self.links[from * self.ends + to];
        let mut lost = !link.loss.passes(random, fragments);
        if link.lose > 0.0 {
            lost |= (0..fragments).any(|_| random.chance(link.lose));
        }
        if let Some(legs) = &mut self.legs {
            lost |= !legs[to].passes(random, fragments);
        }
        self.lost += u64::from(lost);
        let rate = self.packets.bit_error_rate;
        if rate > 0.0 && !lost {
            // 1 - (1 - rate)^bits, computed without loss of precision for small rates.
            let spoilt = -libm::expm1((wire * 8) as f64 * libm::log1p(-rate.min(0.999_999)));
            if random.chance(spoilt) {
                self.corrupted += 1;
                return false;
            }
        }
        !lost
    }
}
