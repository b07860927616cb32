//! What goes wrong, and when, on a schedule.

use crate::clock::TRUE_RATE;
use crate::hostile::{Hostility, SERVED_WITHIN_MS};
use crate::network::End;
use quorate_byzantine::{Fault, Misbehaviour};
use quorate_types::{ReplicaId, Time, choice};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

choice!(
    /// What a crash leaves of a journal.
    #[derive(Default)]
    Leaves, "rest of a journal",
    /// All that was written: the process died, and the machine did not.
    #[default]
    Written = "written",
    /// All that was flushed: the machine lost its power.
    Flushed = "flushed",
    /// All that was flushed, and a part of what was being flushed, torn anywhere: the machine lost its power while it wrote.
    Torn = "torn",
    /// Nothing: the replica comes back without its memory, and knows it.
    Nothing = "nothing",
);

/// A point of a replica's life between deciding something and having said it, counted from its start: each record before it is written
/// and after, each message before it is signed, before it is sent and after.
pub type Point = u64;

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
    /// A replica crashes and comes back, from what the crash leaves of its journal.
    Restart {
        /// When it crashes.
        at_ms: f64,
        /// How long it is down.
        for_ms: f64,
        /// Who.
        replica: u16,
        /// What is left: `written`, `flushed`, `torn` or `nothing`; see [`Leaves`].
        #[serde(default)]
        journal: Leaves,
    },
    /// A replica is struck down between deciding something and having said it, and comes back.
    Strike {
        /// At which [`Point`] of its life, from 1.
        point: Point,
        /// How long it is down.
        for_ms: f64,
        /// Who; each replica once.
        replica: u16,
        /// What is left.
        #[serde(default)]
        journal: Leaves,
    },
    /// A replica's clock, and with it its alarms, gains or loses.
    Drift {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// Who.
        replica: u16,
        /// Parts in a million that it gains; it loses if they are negative.
        ppm: f64,
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
    /// A replica's disk takes so many times as long to make its journal durable.
    SlowDisk {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// Who.
        replica: u16,
        /// 1 is the time that the table of costs says.
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
    /// A replica misbehaves, for good.
    Misbehave {
        /// From when.
        #[serde(default)]
        at_ms: f64,
        /// Who.
        replica: u16,
        /// How, and perhaps a parameter: `silent`, `slow=50`, `equivocate`; [`Fault`] lists them.
        fault: Fault,
    },
    /// A client without replicas' keys does its worst. As long as nothing else goes wrong in the schedule, each bundle of the honest has
    /// to be executed within a bound.
    Hostile {
        /// From when.
        at_ms: f64,
        /// How long.
        for_ms: f64,
        /// What it does.
        client: Hostility,
        /// Whether it comes over the link of the honest, as through a proxy: then there is one queue for all, and the bound is not kept.
        #[serde(default)]
        shares_link: bool,
        /// The bound, in milliseconds.
        #[serde(default = "served_within_ms")]
        within_ms: f64,
    },
}

impl FaultSpec {
    /// The ends of links that it names.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        let (from, to): (&[End], &[End]) = match self {
            FaultSpec::Cut { from, to, .. } | FaultSpec::Spike { from, to, .. } => (from, to),
            _ => (&[], &[]),
        };
        from.iter().chain(to)
    }

    /// Why it cannot be together with another, if it cannot.
    pub(crate) fn clash(&self, other: &FaultSpec) -> Option<String> {
        match (self, other) {
            (FaultSpec::Strike { replica, .. }, FaultSpec::Strike { replica: same, .. }) if replica == same => {
                Some(format!("strikes replica {replica} down again"))
            }
            (FaultSpec::Misbehave { replica, .. }, FaultSpec::Misbehave { replica: same, .. }) if replica == same => {
                Some(format!("makes replica {replica} misbehave in a second way"))
            }
            _ => None,
        }
    }

    /// The replicas that it names.
    fn replicas(&self) -> Vec<u16> {
        let replica = |end: &End| match end {
            End::Replica(replica) => Some(*replica),
            End::Named(_) => None,
        };
        match self {
            FaultSpec::Crash { replica, .. }
            | FaultSpec::Pause { replica, .. }
            | FaultSpec::SlowCpu { replica, .. }
            | FaultSpec::SlowDisk { replica, .. }
            | FaultSpec::Restart { replica, .. }
            | FaultSpec::Strike { replica, .. }
            | FaultSpec::Drift { replica, .. }
            | FaultSpec::Misbehave { replica, .. } => vec![*replica],
            FaultSpec::Cut { .. } | FaultSpec::Spike { .. } => self.ends().filter_map(replica).collect(),
            FaultSpec::Hostile { .. } => Vec::new(),
        }
    }

    /// Its numbers, each with its key and the least and the most that it may be.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, f64, f64, f64)> {
        let times =
            |at_ms: &f64, for_ms: &f64| vec![("at_ms", *at_ms, 0.0, MOST_MS), ("for_ms", *for_ms, 0.0, MOST_MS)];
        match self {
            FaultSpec::Crash { at_ms, .. } | FaultSpec::Misbehave { at_ms, .. } => times(at_ms, &0.0),
            FaultSpec::Pause { at_ms, for_ms, .. }
            | FaultSpec::Restart { at_ms, for_ms, .. }
            | FaultSpec::Cut { at_ms, for_ms, .. } => times(at_ms, for_ms),
            FaultSpec::Hostile { at_ms, for_ms, within_ms, .. } => {
                [times(at_ms, for_ms), vec![("within_ms", *within_ms, 0.0, MOST_MS)]].concat()
            }
            FaultSpec::Strike { for_ms, point, .. } => {
                [times(&0.0, for_ms), vec![("point", *point as f64, 1.0, f64::MAX)]].concat()
            }
            FaultSpec::SlowCpu { at_ms, for_ms, factor, .. } | FaultSpec::SlowDisk { at_ms, for_ms, factor, .. } => {
                [times(at_ms, for_ms), vec![("factor", *factor, LEAST_FACTOR, MOST_FACTOR)]].concat()
            }
            FaultSpec::Drift { at_ms, for_ms, ppm, .. } => {
                [times(at_ms, for_ms), vec![("ppm", *ppm, -MOST_LOSS_PPM, MOST_GAIN_PPM)]].concat()
            }
            FaultSpec::Spike { at_ms, for_ms, by_ms, .. } => {
                [times(at_ms, for_ms), vec![("by_ms", *by_ms, 0.0, MOST_MS)]].concat()
            }
        }
    }

    /// Why a cluster of so many replicas cannot have it, if it cannot.
    pub fn misfit(&self, replicas: usize) -> Option<String> {
        let absent = self.replicas().into_iter().find(|replica| usize::from(*replica) >= replicas);
        match (absent, self) {
            (Some(absent), _) => Some(format!("names replica {absent}, and the last one is {}", replicas - 1)),
            (None, FaultSpec::Misbehave { replica, fault, .. }) => fault.misfit(ReplicaId(*replica), replicas),
            _ => None,
        }
    }
}

fn served_within_ms() -> f64 {
    SERVED_WITHIN_MS
}

/// How long an honest client may wait beside the hostile ones of a schedule; none if something else goes wrong in it too.
pub fn served_within(faults: &[FaultSpec]) -> Option<Duration> {
    let within = faults.iter().map(|fault| match fault {
        FaultSpec::Hostile { within_ms, .. } => Some(time(*within_ms).since(Time(0))),
        _ => None,
    });
    within.collect::<Option<Vec<Duration>>>()?.into_iter().max()
}

/// Who misbehaves according to a schedule, and how.
pub fn misbehaviour(faults: &[FaultSpec]) -> impl Iterator<Item = (ReplicaId, Misbehaviour)> {
    faults.iter().filter_map(|fault| match fault {
        FaultSpec::Misbehave { at_ms, replica, fault } => {
            let start = time(*at_ms).since(Time(0));
            Some((ReplicaId(*replica), Misbehaviour { fault: *fault, start }))
        }
        _ => None,
    })
}

/// A replica is struck down at a point of its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strike {
    /// Who.
    pub replica: usize,
    /// Where.
    pub point: Point,
    /// What that leaves of its journal.
    pub leaves: Leaves,
    /// How long it is down.
    pub down: Duration,
}

/// Who is struck down according to a schedule.
pub fn strikes(faults: &[FaultSpec]) -> Vec<Strike> {
    let strike = |fault: &FaultSpec| match fault {
        FaultSpec::Strike { point, for_ms, replica, journal } => Some(Strike {
            replica: usize::from(*replica),
            point: *point,
            leaves: *journal,
            down: time(*for_ms).since(Time(0)),
        }),
        _ => None,
    };
    faults.iter().filter_map(strike).collect()
}

/// One change of the world.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The replica ends.
    Crash(usize),
    /// The replica is gone until then, and that is what is left of its journal.
    Down(usize, Leaves, Time),
    /// The replica's clock runs by so many nanoseconds in a million.
    Clock(usize, u64),
    /// The replica does nothing until then.
    Pause(usize, Time),
    /// The replica's processor takes so many thousandths of its time.
    Speed(usize, u64),
    /// The replica's disk takes so many thousandths of its time to make a journal durable.
    Disk(usize, u64),
    /// Pairs are cut, or no longer.
    Cut(Vec<(usize, usize)>, bool),
    /// Pairs are slower by so many nanoseconds.
    Spike(Vec<(usize, usize)>, u64),
    /// A hostile client works until then; whether it shares the link of the honest.
    Hostile(Hostility, bool, Time),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = |pairs: &[(usize, usize)]| {
            pairs.iter().map(|(from, to)| format!("R{from} to R{to}")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Change::Crash(replica) => write!(f, "R{replica} crashes for good"),
            Change::Down(replica, leaves, until) => {
                write!(f, "R{replica} crashes until {until:?}; what is left of its journal: {leaves:?}")
            }
            Change::Clock(replica, rate) => write!(f, "R{replica}'s clock makes {rate} us in a second"),
            Change::Pause(replica, until) => write!(f, "R{replica} does nothing until {until:?}"),
            Change::Speed(replica, thousandths) => {
                write!(f, "R{replica}'s processor takes {} times as long", *thousandths as f64 / FULL_SPEED as f64)
            }
            Change::Disk(replica, thousandths) => {
                write!(f, "R{replica}'s disk takes {} times as long", *thousandths as f64 / FULL_SPEED as f64)
            }
            Change::Cut(pairs, true) => write!(f, "cut: {}", ways(pairs)),
            Change::Cut(pairs, false) => write!(f, "no longer cut: {}", ways(pairs)),
            Change::Hostile(client, _, until) => write!(f, "a hostile client until {until:?}: {client}"),
            Change::Spike(pairs, by_ns) => write!(f, "{} ms later: {}", *by_ns as f64 / NS_PER_MS, ways(pairs)),
        }
    }
}

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// Longest time in a schedule, in milliseconds: an hour.
pub(crate) const MOST_MS: f64 = 3_600_000.0;
/// A processor is at most so many times as fast as the table of costs says, or as slow.
const LEAST_FACTOR: f64 = 0.001;
const MOST_FACTOR: f64 = 1e6;
/// A clock never stands still, and gains at most a factor of 10.
const MOST_LOSS_PPM: f64 = 999_000.0;
const MOST_GAIN_PPM: f64 = 9e6;
/// A processor at its own speed.
pub const FULL_SPEED: u64 = 1000;

fn time(ms: f64) -> Time {
    Time((ms.max(0.0) * NS_PER_MS) as u64)
}

/// The ordered pairs from some to others, and perhaps back.
pub(crate) fn pairs(from: &[usize], to: &[usize], both_ways: bool) -> Vec<(usize, usize)> {
    let forth = from.iter().flat_map(|one| to.iter().map(move |other| (*one, *other)));
    let mut pairs: Vec<_> = forth.filter(|(one, other)| one != other).collect();
    if both_ways {
        pairs.extend(pairs.clone().into_iter().map(|(one, other)| (other, one)));
        pairs.sort_unstable();
        pairs.dedup();
    }
    pairs
}

/// A schedule as changes, ends included, in order of time.
///
/// # Panics
/// If it names a replica that is not there; see [`FaultSpec::misfit`].
pub fn changes(faults: &[FaultSpec], replicas: usize) -> Vec<(Time, Change)> {
    let misfit = faults.iter().find_map(|fault| fault.misfit(replicas));
    assert_eq!(misfit, None, "a schedule is checked before it is run");
    let end = |end: &End| match end {
        End::Replica(replica) => usize::from(*replica),
        End::Named(_) => replicas,
    };
    let ends = |list: &[End]| list.iter().map(end).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for fault in faults {
        match fault {
            FaultSpec::Crash { at_ms, replica } => {
                changes.push((time(*at_ms), Change::Crash(usize::from(*replica))));
            }
            FaultSpec::Pause { at_ms, for_ms, replica } => {
                changes.push((time(*at_ms), Change::Pause(usize::from(*replica), time(at_ms + for_ms))));
            }
            FaultSpec::SlowCpu { at_ms, for_ms, replica, factor } => {
                let replica = usize::from(*replica);
                changes.push((
                    time(*at_ms),
                    Change::Speed(replica, (factor.clamp(LEAST_FACTOR, MOST_FACTOR) * FULL_SPEED as f64) as u64),
                ));
                changes.push((time(at_ms + for_ms), Change::Speed(replica, FULL_SPEED)));
            }
            FaultSpec::SlowDisk { at_ms, for_ms, replica, factor } => {
                let replica = usize::from(*replica);
                let thousandths = (factor.clamp(LEAST_FACTOR, MOST_FACTOR) * FULL_SPEED as f64) as u64;
                changes.push((time(*at_ms), Change::Disk(replica, thousandths)));
                changes.push((time(at_ms + for_ms), Change::Disk(replica, FULL_SPEED)));
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
            FaultSpec::Restart { at_ms, for_ms, replica, journal } => {
                let down = Change::Down(usize::from(*replica), *journal, time(at_ms + for_ms));
                changes.push((time(*at_ms), down));
            }
            FaultSpec::Drift { at_ms, for_ms, replica, ppm } => {
                let (replica, gain) = (usize::from(*replica), ppm.clamp(-MOST_LOSS_PPM, MOST_GAIN_PPM) as i64);
                changes.push((time(*at_ms), Change::Clock(replica, TRUE_RATE.saturating_add_signed(gain))));
                changes.push((time(at_ms + for_ms), Change::Clock(replica, TRUE_RATE)));
            }
            FaultSpec::Hostile { at_ms, for_ms, client, shares_link, .. } => {
                let until = time(at_ms + for_ms);
                changes.push((time(*at_ms), Change::Hostile(*client, *shares_link, until)));
            }
            FaultSpec::Misbehave { .. } | FaultSpec::Strike { .. } => {}
        }
    }
    changes.sort_by_key(|(time, _)| *time);
    changes
}
