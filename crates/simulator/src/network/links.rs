//! What happens to packets between two endpoints.

use super::end::End;
use super::spec::{Delay, Loss, NetworkSpec, Packets, Topology};
use crate::random::{Purpose, Random};
use quorate_types::Time;

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;

/// When a packet, or all packets of a message, reach the other end's network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// When it arrives; none if it is lost.
    pub arrives: Option<Time>,
    /// When it arrives a second time.
    pub again: Option<Time>,
}

/// The good and the bad state of a link that loses in bursts.
#[derive(Clone, Copy)]
struct Chance {
    loss: Loss,
    is_bad: bool,
}

/// One ordered pair.
struct Link {
    delay_ns: u64,
    chance: Chance,
    /// How many faults cut it at present.
    cuts: u16,
    spike_ns: u64,
}

/// All links of a network.
pub struct Links {
    ends: usize,
    links: Vec<Link>,
    /// For each sender, the router's leg to each: in a star only.
    legs: Option<Vec<Chance>>,
    normal: Option<[f64; 4]>,
    jitter_ns: u64,
    packets: Packets,
    /// Survival of the bits of a full packet.
    egress_ps_per_byte: u64,
    ingress_ps_per_byte: u64,
    egress_free: Vec<u64>,
    ingress_free: Vec<u64>,
    random: Vec<Random>,
    /// Whether each packet needs a draw of its own.
    is_plain: bool,
    /// Packets that were lost, cuts included.
    pub lost: u64,
    /// Packets that were dropped for flipped bits.
    pub corrupted: u64,
}

fn nanos(ms: f64) -> u64 {
    (ms * NS_PER_MS) as u64
}

/// Picoseconds for a byte; 0 for no limit.
fn per_byte(mbit_per_s: f64) -> u64 {
    if mbit_per_s == 0.0 { 0 } else { (8e6 / mbit_per_s) as u64 }
}

impl Links {
    /// The links between `replicas` replicas and, as the last endpoint, the clients.
    pub fn new(spec: &NetworkSpec, replicas: usize, seed: u64) -> Links {
        let ends = replicas + 1;
        let chance = Chance { loss: spec.loss, is_bad: false };
        let legs = if spec.topology == Topology::Star { 2.0 } else { 1.0 };
        let regions = Regions::new(&spec.delay, replicas);
        let mut links = Vec::with_capacity(ends * ends);
        for from in 0..ends {
            for to in 0..ends {
                let delay_ns = nanos(legs * regions.delay_ms(from, to));
                links.push(Link { delay_ns, chance, cuts: 0, spike_ns: 0 });
            }
        }
        let normal = match spec.delay {
            Delay::Normal { mean_ms, deviation_ms, least_ms, most_ms } => {
                Some([mean_ms * legs, deviation_ms * legs, least_ms * legs, most_ms * legs])
            }
            _ => None,
        };
        let mut all = Links {
            ends,
            links,
            legs: (spec.topology == Topology::Star).then(|| vec![chance; ends]),
            normal,
            jitter_ns: nanos(spec.jitter.most_ms * legs),
            packets: spec.packets,
            egress_ps_per_byte: per_byte(spec.bandwidth.egress_mbit_per_s),
            ingress_ps_per_byte: per_byte(spec.bandwidth.ingress_mbit_per_s),
            egress_free: vec![0; ends],
            ingress_free: vec![0; ends],
            random: (0..ends).map(|end| Random::new(seed, Purpose::Links, end as u64)).collect(),
            is_plain: !spec.loses() && spec.packets.duplication == 0.0 && spec.packets.reordering == 0.0,
            lost: 0,
            corrupted: 0,
        };
        for link in &spec.links {
            let end = |end: &End| match end {
                End::Replica(replica) => usize::from(*replica),
                End::Named(_) => replicas,
            };
            let (from, to) = (end(&link.from), end(&link.to));
            if from >= ends || to >= ends {
                continue;
            }
            let changed = &mut all.links[from * ends + to];
            changed.delay_ns = link.delay_ms.map_or(changed.delay_ns, nanos);
            changed.chance.loss = link.loss.unwrap_or(changed.chance.loss);
        }
        all
    }

    /// How many packets a message travels in.
    pub fn fragments(&self, bytes: usize) -> u64 {
        let room = (self.packets.mtu_bytes - self.packets.header_bytes) as usize;
        bytes.div_ceil(room).max(1) as u64
    }

    /// Bytes of a message that a packet has room for.
    pub fn packet_room(&self) -> usize {
        (self.packets.mtu_bytes - self.packets.header_bytes) as usize
    }

    /// A cut begins or ends; cuts add up.
    pub fn cut(&mut self, from: usize, to: usize, begins: bool) {
        let cuts = &mut self.links[from * self.ends + to].cuts;
        *cuts = if begins { *cuts + 1 } else { cuts.saturating_sub(1) };
    }

    /// A link becomes slower, by nothing again at the end.
    pub fn spike(&mut self, from: usize, to: usize, by_ns: u64) {
        self.links[from * self.ends + to].spike_ns = by_ns;
    }

    /// No cut and no spike is left.
    pub fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| (link.cuts, link.spike_ns) = (0, 0));
    }

    /// Nothing is lost, held up, or doubled any more.
    pub fn calm(&mut self) {
        self.links.iter_mut().for_each(|link| link.chance.loss = Loss::default());
        self.legs.iter_mut().flatten().for_each(|leg| leg.loss = Loss::default());
        let Packets { duplication, reordering, bit_error_rate, .. } = &mut self.packets;
        (*duplication, *reordering, *bit_error_rate) = (0.0, 0.0, 0.0);
    }

    /// Sends a message of `bytes` from `now` on; it is queued behind what the sender's card has to send. All its packets have to
    /// arrive.
    pub fn send(&mut self, now: Time, from: usize, to: usize, bytes: usize) -> Fate {
        let fragments = self.fragments(bytes);
        let wire = bytes as u64 + fragments * u64::from(self.packets.header_bytes);
        let begins = now.0.max(self.egress_free[from]);
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

    /// When the receiver's card has taken a message of `bytes` that reaches it now in.
    pub fn taken_in(&mut self, now: Time, to: usize, bytes: usize) -> Time {
        if self.ingress_ps_per_byte == 0 {
            return now;
        }
        let wire = bytes as u64 + self.fragments(bytes) * u64::from(self.packets.header_bytes);
        let done = now.0.max(self.ingress_free[to]) + (wire * self.ingress_ps_per_byte).div_ceil(1000);
        self.ingress_free[to] = done;
        Time(done)
    }

    /// Whether receivers' cards have a queue.
    pub fn has_ingress(&self) -> bool {
        self.ingress_ps_per_byte > 0
    }

    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let link = &self.links[from * self.ends + to];
        let random = &mut self.random[from];
        let mut nanos_there = link.delay_ns + link.spike_ns;
        if let Some([mean, deviation, least, most]) = self.normal {
            let drawn = (mean + deviation * random.normal()).clamp(least, most);
            nanos_there = nanos(drawn) + link.spike_ns;
        }
        if self.jitter_ns > 0 {
            nanos_there += random.below(self.jitter_ns);
        }
        if random.chance(self.packets.reordering) {
            nanos_there += random.below(nanos(self.packets.reordering_ms).max(1));
        }
        nanos_there
    }

    fn survives(&mut self, from: usize, to: usize, fragments: u64, wire: u64) -> bool {
        let random = &mut self.random[from];
        let link = &mut self.links[from * self.ends + to];
        let mut lost = !passes(&mut link.chance, random, fragments);
        if let Some(legs) = &mut self.legs {
            lost |= !passes(&mut legs[to], random, fragments);
        }
        self.lost += u64::from(lost);
        let rate = self.packets.bit_error_rate;
        if rate > 0.0 && !lost {
            // 1 - (1 - rate)^bits, without losing a small rate's digits.
            let spoilt = -libm::expm1((wire * 8) as f64 * libm::log1p(-rate.min(0.999_999)));
            if random.chance(spoilt) {
                self.corrupted += 1;
                return false;
            }
        }
        !lost
    }
}

/// Whether all of so many packets pass.
fn passes(chance: &mut Chance, random: &mut Random, packets: u64) -> bool {
    let mut passed = true;
    for _ in 0..packets {
        match chance.loss {
            Loss::Independent { probability } => passed &= !random.chance(probability),
            Loss::Bursts { enter, leave, good, bad } => {
                let change = if chance.is_bad { leave } else { enter };
                chance.is_bad ^= random.chance(change);
                passed &= !random.chance(if chance.is_bad { bad } else { good });
            }
        }
    }
    passed
}

/// Who is where.
struct Regions<'a> {
    delay: &'a Delay,
    of: Vec<usize>,
}

impl<'a> Regions<'a> {
    fn new(delay: &'a Delay, replicas: usize) -> Regions<'a> {
        let mut of = Vec::new();
        if let Delay::Matrix { regions, placement, clients, .. } = delay {
            let named =
                |name: &String| regions.iter().position(|region| region == name).expect("the file was validated");
            of = (0..replicas).map(|at| placement.get(at).map_or(at % regions.len(), named)).collect();
            of.push(clients.as_ref().map_or(0, named));
        }
        Regions { delay, of }
    }

    fn delay_ms(&self, from: usize, to: usize) -> f64 {
        match self.delay {
            Delay::Constant { mean_ms } | Delay::Normal { mean_ms, .. } => *mean_ms,
            Delay::Matrix { one_way_ms, .. } => one_way_ms[self.of[from]][self.of[to]],
        }
    }
}
