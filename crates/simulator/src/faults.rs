//! What goes wrong, and when: on a schedule, or drawn from the seed.

use crate::network::End;
use crate::random::{Purpose, Random};
use quorate_types::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One entry of a fault schedule. Times are in milliseconds of virtual time since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultSpec {
    /// A replica ends for good: what it has sent is on its way.
    Crash {
        /// When.
        at_ms: f64,
        /// Who.
        replica: u16,
    },
    /// A replica does nothing for a while; what reaches it waits.
    Pause {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// Who.
        replica: u16,
    },
    /// A replica's processor takes so many times as long.
    SlowCpu {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// Who.
        replica: u16,
        /// 1 is its own speed.
        factor: f64,
    },
    /// Nothing gets from some endpoints to others.
    Cut {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// The senders.
        from: Vec<End>,
        /// The receivers.
        to: Vec<End>,
        /// Whether the other direction stays whole.
        #[serde(default)]
        one_way: bool,
    },
    /// Packets from some endpoints to others take longer.
    Spike {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// The senders.
        from: Vec<End>,
        /// The receivers.
        to: Vec<End>,
        /// By how much, in milliseconds.
        by_ms: f64,
    },
}

/// One change of the world.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The replica ends.
    Crash(usize),
    /// The replica does nothing until then.
    Pause(usize, Time),
    /// The replica's processor takes so many thousandths of its time.
    Speed(usize, u64),
    /// Pairs are cut, or no longer.
    Cut(Vec<(usize, usize)>, bool),
    /// Pairs are slower by so many nanoseconds.
    Spike(Vec<(usize, usize)>, u64),
}

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// A processor at its own speed.
pub const FULL_SPEED: u64 = 1000;

fn time(ms: f64) -> Time {
    Time((ms.max(0.0) * NS_PER_MS) as u64)
}

fn pairs(from: &[usize], to: &[usize], both_ways: bool) -> Vec<(usize, usize)> {
    let forth = from.iter().flat_map(|one| to.iter().map(move |other| (*one, *other)));
    let mut pairs: Vec<_> = forth.filter(|(one, other)| one != other).collect();
    if both_ways {
        pairs.extend(pairs.clone().into_iter().map(|(one, other)| (other, one)));
        pairs.sort_unstable();
        pairs.dedup();
    }
    pairs
}

/// A schedule as changes, ends included, in order of time. Replicas that are not there are passed over.
pub fn changes(faults: &[FaultSpec], replicas: usize) -> Vec<(Time, Change)> {
    let end = |end: &End| match end {
        End::Replica(replica) => Some(usize::from(*replica)).filter(|at| *at < replicas),
        End::Named(_) => Some(replicas),
    };
    let ends = |list: &[End]| list.iter().filter_map(end).collect::<Vec<_>>();
    let known = |replica: u16| usize::from(replica) < replicas;
    let mut changes = Vec::new();
    for fault in faults {
        match fault {
            FaultSpec::Crash { at_ms, replica } if known(*replica) => {
                changes.push((time(*at_ms), Change::Crash(usize::from(*replica))));
            }
            FaultSpec::Pause { at_ms, for_ms, replica } if known(*replica) => {
                changes.push((time(*at_ms), Change::Pause(usize::from(*replica), time(at_ms + for_ms))));
            }
            FaultSpec::SlowCpu { at_ms, for_ms, replica, factor } if known(*replica) => {
                let replica = usize::from(*replica);
                changes.push((
                    time(*at_ms),
                    Change::Speed(replica, (factor.clamp(0.001, 1e6) * FULL_SPEED as f64) as u64),
                ));
                changes.push((time(at_ms + for_ms), Change::Speed(replica, FULL_SPEED)));
            }
            FaultSpec::Cut { at_ms, for_ms, from, to, one_way } => {
                let pairs = pairs(&ends(from), &ends(to), !one_way);
                changes.push((time(*at_ms), Change::Cut(pairs.clone(), true)));
                changes.push((time(at_ms + for_ms), Change::Cut(pairs, false)));
            }
            FaultSpec::Spike { at_ms, for_ms, from, to, by_ms } => {
                let pairs = pairs(&ends(from), &ends(to), false);
                changes.push((time(*at_ms), Change::Spike(pairs.clone(), time(*by_ms).0)));
                changes.push((time(at_ms + for_ms), Change::Spike(pairs, 0)));
            }
            _ => {}
        }
    }
    changes.sort_by_key(|(time, _)| *time);
    changes
}

/// Trouble drawn from a seed.
pub struct Chaos {
    /// What happens.
    pub changes: Vec<(Time, Change)>,
    /// Loss of packets, from 0 to 0.1.
    pub loss: f64,
    /// Datagrams that arrive twice.
    pub duplication: f64,
    /// Packets that fall behind.
    pub reordering: f64,
    /// The replicas outside the core that is healed at the end: at most f, crashed or cut off for good.
    pub outside: Vec<usize>,
}

/// Trouble for so long, for `replicas` replicas of which `faults` may fail for good. Faults last up to two view timeouts.
pub fn chaos(seed: u64, replicas: usize, faults: usize, lasts: Duration, view_timeout: Duration) -> Chaos {
    let mut random = Random::new(seed, Purpose::Faults, 0);
    let mut order: Vec<usize> = (0..replicas).collect();
    for at in (1..replicas).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let outside = order[..random.below(faults as u64 + 1) as usize].to_vec();
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
        draw(&mut random, replicas, now, until, view_timeout, &mut changes);
        now = now + random.time_below(gap) + Duration::from_nanos(1);
    }
    changes.sort_by_key(|(time, _)| *time);
    let mut rate = |most: f64| if random.chance(0.5) { random.unit() * most } else { 0.0 };
    let (loss, duplication, reordering) = (rate(0.1), rate(0.1), rate(0.1));
    Chaos { changes, loss, duplication, reordering, outside }
}

fn draw(
    random: &mut Random,
    replicas: usize,
    now: Time,
    until: Time,
    view_timeout: Duration,
    changes: &mut Vec<(Time, Change)>,
) {
    let all: Vec<usize> = (0..replicas).collect();
    let one = *random.pick(&all);
    let other = *random.pick(&all);
    match random.below(7) {
        0 => changes.push((now, Change::Pause(one, until))),
        1 => {
            let factor = FULL_SPEED * (2 + random.below(50));
            changes.extend([(now, Change::Speed(one, factor)), (until, Change::Speed(one, FULL_SPEED))]);
        }
        2 | 3 => {
            let pairs = pairs(&[one], &[other], random.chance(0.5));
            changes.extend([(now, Change::Cut(pairs.clone(), true)), (until, Change::Cut(pairs, false))]);
        }
        4 => {
            let pairs = pairs(&[one], &all, random.chance(0.5));
            changes.extend([(now, Change::Cut(pairs.clone(), true)), (until, Change::Cut(pairs, false))]);
        }
        5 => {
            let (left, right): (Vec<usize>, Vec<usize>) = all.iter().partition(|_| random.chance(0.5));
            let pairs = pairs(&left, &right, true);
            changes.extend([(now, Change::Cut(pairs.clone(), true)), (until, Change::Cut(pairs, false))]);
        }
        _ => {
            let by = random.time_below(view_timeout).as_nanos() as u64;
            let pairs = pairs(&[one], &all, false);
            changes.extend([(now, Change::Spike(pairs.clone(), by)), (until, Change::Spike(pairs, 0))]);
        }
    }
}
