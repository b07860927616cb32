//! Random faults and network conditions, drawn from the seed.

use crate::clock::TRUE_RATE;
use crate::faults::{Change, FULL_SPEED, Leaves, pairs};
use crate::links::{Purpose, Random};
use crate::network::{Delay, End, LinkSpec, NetworkSpec};
use quorate_consensus::Config;
use quorate_consensus::voting::clock::MAX_AGE_VIEWS;
use quorate_types::Time;
use std::time::Duration;

/// Maximum probability that a packet is lost, duplicated or reordered.
const MAX_PACKETS: f64 = 0.1;
/// Returns links with individual delays, or none for two thirds of the seeds and for networks that define their delays.
/// Partial synchrony does not guarantee equal delays, and unequal ones change the order of messages.
const MAX_FLUSH: Duration = Duration::from_millis(5);
/// Maximum drift of a clock in either direction.
const MAX_DRIFT_PPM: u64 = 200_000;

/// Every third seed has links of unequal delay.
const UNEQUAL_EVERY: u64 = 3;
/// Minimum distance of a replica, relative to the maximum.
const MIN_DISTANCE: f64 = 0.05;
/// Maximum delay between two replicas, in view timeouts.
const MAX_DELAY_VIEW_TIMEOUTS: f64 = 0.125;

/// Returns links with individual delays, or none for two thirds of the seeds and for networks that define their delays.
/// Partial synchrony does not guarantee equal delays, and unequal ones change the order of messages.
pub fn unequal_links(seed: u64, network: &NetworkSpec, replicas: usize, view_timeout: Duration) -> Vec<LinkSpec> {
    let mean_ms = match &network.delay {
        Delay::Constant { mean_ms } | Delay::Normal { mean_ms, .. } => *mean_ms,
        Delay::Matrix { .. } => return Vec::new(),
    };
    if seed % UNEQUAL_EVERY != UNEQUAL_EVERY - 1 || !network.links.is_empty() {
        return Vec::new();
    }
    let mut random = Random::new(seed, Purpose::Distances, 0);
    let farthest_ms = view_timeout.as_secs_f64() * 1000.0 * MAX_DELAY_VIEW_TIMEOUTS;
    // Log-uniform between the mean delay of the network and the maximum, which nearly fills a view.
    let scale_ms = mean_ms * (farthest_ms / mean_ms).max(1.0).powf(random.unit());
    let places: Vec<f64> = (0..replicas).map(|_| MIN_DISTANCE + random.unit() * (1.0 - MIN_DISTANCE)).collect();
    let name = |at: usize| End::Replica(at as u16);
    let all: Vec<usize> = (0..replicas).collect();
    let link = |(from, to): (usize, usize)| {
        let delay_ms = Some(scale_ms * (places[from] + places[to]) / 2.0);
        LinkSpec { from: name(from), to: name(to), delay_ms, loss: None }
    };
    pairs(&all, &all, false).into_iter().map(link).collect()
}

/// Faults and network conditions drawn from a seed.
pub struct Chaos {
    pub changes: Vec<(Time, Change)>,
    /// Time for a journal to become durable.
    pub flush: Duration,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a datagram arrives twice.
    pub duplication: f64,
    /// Probability that a packet is reordered.
    pub reordering: f64,
    /// Replicas outside the set that heals at the end: at most f, which have crashed for good by then.
    pub outside: Vec<usize>,
    /// Maximum number of replicas that lack their disks at the same time. All may lose them in turn.
    pub disks: usize,
}

/// Draws faults for a period of `lasts`. At most `faults` replicas at a time fail for good or lack their journal. Other
/// faults last up to two view timeouts.
pub fn chaos(seed: u64, replicas: usize, faults: usize, lasts: Duration, config: &Config) -> Chaos {
    let view_timeout = config.view_timeout();
    // Twice as much as any replica accepts.
    let max_skew = (config.max_clock_skew() + view_timeout * MAX_AGE_VIEWS) * 2;
    let mut random = Random::new(seed, Purpose::Faults, 0);
    let mut order: Vec<usize> = (0..replicas).collect();
    for at in (1..replicas).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let outside = order[..random.below(faults as u64 + 1) as usize].to_vec();
    // Recovery from a lost disk needs answers from all other replicas that heal.
    let disks = faults - outside.len();
    let mut changes = Vec::new();
    for replica in &outside {
        if random.chance(0.5) {
            changes.push((Time(random.time_below(lasts).as_nanos() as u64), Change::Crash(*replica)));
        }
    }
    let gap = (view_timeout / 2).max(Duration::from_millis(1));
    let mut now = Time(0) + random.time_below(gap);
    while now < Time(0) + lasts {
        let until = now + random.time_below(view_timeout * 2);
        let span = Span { now, until, view_timeout, max_skew };
        draw(&mut random, replicas, disks > 0, span, &mut changes);
        now = now + random.time_below(gap) + Duration::from_nanos(1);
    }
    changes.sort_by_key(|(time, _)| *time);
    let mut rate = |most: f64| if random.chance(0.5) { random.unit() * most } else { 0.0 };
    let (loss, duplication, reordering) = (rate(MAX_PACKETS), rate(MAX_PACKETS), rate(MAX_PACKETS));
    let flush = if random.chance(0.75) { random.time_below(MAX_FLUSH) } else { Duration::ZERO };
    Chaos { changes, flush, loss, duplication, reordering, outside, disks }
}

/// Start and end of a fault, and the unit of its size.
struct Span {
    now: Time,
    until: Time,
    view_timeout: Duration,
    /// Maximum error of a wall clock in either direction.
    max_skew: Duration,
}

fn draw(random: &mut Random, replicas: usize, loses_disks: bool, span: Span, changes: &mut Vec<(Time, Change)>) {
    let Span { now, until, view_timeout, max_skew } = span;
    let all: Vec<usize> = (0..replicas).collect();
    let one = *random.pick(&all);
    let other = *random.pick(&all);
    let mut lasts = |begin: Change, end: Change| changes.extend([(now, begin), (until, end)]);
    let mut cut = |pairs: Vec<(usize, usize)>| lasts(Change::Cut(pairs.clone(), true), Change::Cut(pairs, false));
    match random.below(11) {
        0 => changes.push((now, Change::Pause(one, until))),
        1 => {
            let factor = FULL_SPEED * (2 + random.below(50));
            lasts(Change::Speed(one, factor), Change::Speed(one, FULL_SPEED));
        }
        2 => cut(pairs(&[one], &[other], random.chance(0.5))),
        3 => cut(pairs(&[one], &all, random.chance(0.5))),
        4 => {
            let (left, right): (Vec<usize>, Vec<usize>) = all.iter().partition(|_| random.chance(0.5));
            cut(pairs(&left, &right, true));
        }
        5 => {
            let by = random.time_below(view_timeout).as_nanos() as u64;
            let pairs = pairs(&[one], &all, false);
            lasts(Change::Spike(pairs.clone(), by), Change::Spike(pairs, 0));
        }
        6 => {
            let rate = TRUE_RATE - MAX_DRIFT_PPM + random.below(2 * MAX_DRIFT_PPM + 1);
            lasts(Change::Clock(one, rate), Change::Clock(one, TRUE_RATE));
        }
        7 => {
            let most = max_skew.as_millis() as u64;
            let skew = random.below(2 * most + 1) as i64 - most as i64;
            lasts(Change::Skew(one, skew), Change::Skew(one, 0));
        }
        _ => {
            let kinds = if loses_disks { &Leaves::CRASHES[..] } else { &Leaves::CRASHES[..Leaves::CRASHES.len() - 1] };
            changes.push(match *random.pick(kinds) {
                Leaves::Nothing => (now, Change::LoseDisk(one, until)),
                // Half of the processes that end on a machine that stays up are asked to stop.
                Leaves::Written if until.0.is_multiple_of(2) => (now, Change::Down(one, Leaves::Stopped, until)),
                leaves => (now, Change::Down(one, leaves, until)),
            });
        }
    }
}
