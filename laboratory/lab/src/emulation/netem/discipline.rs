//! Parameters of netem for the packets of each link. Pure: no I/O and no clock.

use crate::emulation::plan::{Change, Link, Normal, Plan};
use quorate_simulator::links::{Loss, Purpose, Random};
use std::sync::Arc;

/// Packets that a link or an interface can queue; the kernel drops further ones.
pub const LIMIT_PACKETS: u32 = 200_000;
/// Rate in bytes per second that makes transmission time negligible. With a rate set, netem keeps a link's packets in
/// order.
pub const NO_TIME: u64 = 1 << 40;
/// Entries of a table of delays.
const TABLE_ENTRIES: usize = 2048;
/// Table value that stands for one unit of the spread.
const TABLE_UNIT: f64 = 8192.0;
/// Largest multiple of the spread in a table: entries have 16 bits.
const TABLE_RANGE: f64 = 3.99;
/// Maximum spread, in nanoseconds, that the kernel's arithmetic can handle.
const MAX_SPREAD_NS: f64 = 2e9;

/// Parameters of netem for one link.
#[derive(Clone, PartialEq, Debug)]
pub struct Discipline {
    pub delay_ns: u64,
    /// Maximum deviation of a delay from `delay_ns`, distributed uniformly or by the table.
    pub spread_ns: u64,
    /// Multiples of the spread, in 8192ths, all equally probable.
    pub table: Option<Arc<Vec<i16>>>,
    pub loss: Loss,
    /// Bytes per second. A rate also keeps packets in order.
    pub rate: Option<u64>,
    /// Seed of the kernel's random numbers, supported since Linux 6.6.
    pub seed: u64,
}

/// Returns a feature of the plan that netem does not emulate as the router does; `None` if it supports all of it.
pub fn lack(plan: &Plan) -> Option<&'static str> {
    let is_bursty = |loss: &Loss| matches!(loss, Loss::Bursts { .. });
    let spread_ns = Spread::of(plan).map_or(0.0, |spread| spread.ns);
    let lacks = [
        (plan.queue_bytes > 0, "counts an interface's queue in packets, not in bytes (`queue_bytes`)"),
        (plan.bit_error_rate > 0.0, "damages long and short packets with the same probability (`bit_error_rate`)"),
        (plan.duplication > 0.0, "cannot duplicate on several links of one interface (`duplication`)"),
        (plan.reordering > 0.0, "reorders by sending packets without a delay (`reordering`)"),
        (plan.last_leg.as_ref().is_some_and(is_bursty), "cannot share bursts among senders (bursts in a star)"),
        (spread_ns > MAX_SPREAD_NS, "cannot vary delays by more than 2 s (jitter, or a normal distribution)"),
    ];
    lacks.into_iter().find_map(|(is_asked, what)| is_asked.then_some(what))
}

/// Distribution of the varying part of the delay.
struct Spread {
    /// Middle of the distribution: an offset from the link's own delay, or the delay itself if it replaces the links'
    /// delays.
    middle_ns: f64,
    ns: f64,
    table: Option<Arc<Vec<i16>>>,
}

impl Spread {
    fn of(plan: &Plan) -> Option<Spread> {
        let jitter_ns = plan.jitter_ns as f64;
        let Some(normal) = plan.normal else {
            let half = jitter_ns / 2.0;
            return (jitter_ns > 0.0).then_some(Spread { middle_ns: half, ns: half, table: None });
        };
        let values = quantiles(&normal, jitter_ns);
        let middle_ns = (normal.mean_ns + jitter_ns / 2.0).round();
        let most = values.iter().map(|value| (value - middle_ns).abs()).fold(0.0, f64::max);
        let ns = (most / TABLE_RANGE).ceil();
        let entry = |value: &f64| ((value - middle_ns) / ns.max(1.0) * TABLE_UNIT).round() as i16;
        let table = (ns > 0.0).then(|| Arc::new(values.iter().map(entry).collect()));
        Some(Spread { middle_ns, ns, table })
    }
}

/// Returns equally probable delays: normally distributed, clamped, and with a uniform jitter.
fn quantiles(normal: &Normal, jitter_ns: f64) -> Vec<f64> {
    /// Entries per quantile of the normal distribution, which differ by their jitter only.
    const STEPS: usize = 32;
    let middle = |at: usize, of: usize| (at as f64 + 0.5) / of as f64;
    let drawn = |share: f64| {
        let value = normal.mean_ns + normal.deviation_ns * normal_quantile(share);
        value.clamp(normal.least_ns, normal.most_ns)
    };
    let steps = if jitter_ns > 0.0 { STEPS } else { 1 };
    let rows = TABLE_ENTRIES / steps;
    let row = |at: usize| {
        let base = drawn(middle(at, rows));
        (0..steps).map(move |step| if steps > 1 { base + jitter_ns * middle(step, steps) } else { base })
    };
    (0..rows).flat_map(row).collect()
}

/// Returns the quantile of the standard normal distribution at this probability.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        let below = 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2);
        if below < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// State of a link during a run.
#[derive(Clone, Debug)]
struct Way {
    link: Link,
    cuts: u32,
    spike_ns: u64,
    lose: f64,
}

/// Present disciplines of all links of a plan.
pub struct Disciplines {
    ends: usize,
    ways: Vec<Way>,
    last_leg: Loss,
    replaces_delays: bool,
    spread: Option<Spread>,
    rate: Option<u64>,
    correction_ns: u64,
    seeds: Vec<u64>,
}

impl Disciplines {
    pub fn new(plan: &Plan) -> Disciplines {
        assert_eq!(plan.links.len(), plan.ends * plan.ends, "a plan has a link for each ordered pair");
        let has_spikes = plan.changes.iter().any(|(_, change)| matches!(change, Change::Spike(..)));
        let spread = Spread::of(plan);
        let keeps_order = spread.is_some() || has_spikes;
        let nic = bytes_per_second(plan.ingress_ps_per_byte);
        let mut random = Random::new(plan.seed, Purpose::Links, 0);
        Disciplines {
            ends: plan.ends,
            ways: plan.links.iter().map(|link| Way { link: *link, cuts: 0, spike_ns: 0, lose: 0.0 }).collect(),
            last_leg: plan.last_leg.unwrap_or_default(),
            replaces_delays: plan.normal.is_some(),
            spread,
            rate: nic.or(keeps_order.then_some(NO_TIME)),
            correction_ns: 0,
            seeds: plan.links.iter().map(|_| random.bits()).collect(),
        }
    }

    /// Subtracts the kernel's own processing time from all delays, down to zero.
    pub fn set_correction(&mut self, correction_ns: u64) {
        self.correction_ns = correction_ns;
    }

    /// Returns the discipline of the probes' link.
    pub fn of_probes(&self, delay_ns: u64) -> Discipline {
        let delay_ns = delay_ns.saturating_sub(self.correction_ns);
        let loss = Loss::default();
        Discipline { delay_ns, spread_ns: 0, table: None, loss, rate: None, seed: 0 }
    }

    /// Returns the discipline of an ordered pair.
    pub fn of(&self, from: usize, to: usize) -> Discipline {
        let at = from * self.ends + to;
        let way = &self.ways[at];
        let own_ns = if self.replaces_delays { 0 } else { way.link.delay_ns };
        let middle_ns = self.spread.as_ref().map_or(0.0, |spread| spread.middle_ns) as u64;
        let loss = if way.cuts > 0 {
            Loss::Independent { probability: 1.0 }
        } else {
            either(way.link.loss, either(self.last_leg, Loss::Independent { probability: way.lose }))
        };
        Discipline {
            delay_ns: (own_ns + middle_ns + way.spike_ns).saturating_sub(self.correction_ns),
            spread_ns: self.spread.as_ref().map_or(0.0, |spread| spread.ns) as u64,
            table: self.spread.as_ref().and_then(|spread| spread.table.clone()),
            loss,
            rate: self.rate,
            seed: self.seeds[at],
        }
    }

    /// Returns whether a fault cuts an ordered pair now.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.ways[from * self.ends + to].cuts > 0
    }

    /// Applies a change. Returns the ordered pairs whose discipline it may affect.
    pub fn change(&mut self, change: &Change) -> Vec<(usize, usize)> {
        let ends = self.ends;
        let pairs = match change {
            Change::Cut(pairs, _) | Change::Spike(pairs, _) | Change::Lose(pairs, _) => pairs.clone(),
            Change::Heal => (0..ends * ends).map(|at| (at / ends, at % ends)).collect(),
        };
        for (from, to) in &pairs {
            let way = &mut self.ways[from * ends + to];
            match change {
                Change::Cut(_, true) => way.cuts += 1,
                Change::Cut(_, false) => way.cuts = way.cuts.saturating_sub(1),
                Change::Spike(_, by_ns) => way.spike_ns = *by_ns,
                Change::Lose(_, probability) => way.lose = *probability,
                Change::Heal => {
                    let link = Link { loss: Loss::default(), ..way.link };
                    *way = Way { link, cuts: 0, spike_ns: 0, lose: 0.0 };
                    self.last_leg = Loss::default();
                }
            }
        }
        pairs.into_iter().filter(|(from, to)| from != to).collect()
    }
}

/// Combines two losses that a packet is exposed to one after the other. The second must be independent.
fn either(first: Loss, second: Loss) -> Loss {
    let Loss::Independent { probability: other } = second else { unreachable!("`lack` refuses other bursts") };
    let both = |one: f64| 1.0 - (1.0 - one) * (1.0 - other);
    match first {
        Loss::Independent { probability } => Loss::Independent { probability: both(probability) },
        Loss::Bursts { enter, leave, good, bad } => Loss::Bursts { enter, leave, good: both(good), bad: both(bad) },
    }
}

/// Returns the rate of an interface, in bytes per second; `None` if a byte takes no time.
pub fn bytes_per_second(ps_per_byte: u64) -> Option<u64> {
    1_000_000_000_000u64.checked_div(ps_per_byte)
}
