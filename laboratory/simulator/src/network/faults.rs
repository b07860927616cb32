//! Schedules of faults.

use super::end::End;
use super::endpoints::Endpoints;
use crate::clock::{NS_PER_MS, TRUE_RATE, ms_to_ns};
use crate::hostile::{Hostility, SERVED_WITHIN_MS};
use crate::off_path::{Forgery, MAX_PACKETS_PER_S, PACKETS_PER_S};
use quorate_adversary::byzantine::{Fault, Misbehaviour, Times};
use quorate_network::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use quorate_types::{FeatureLevel, ReplicaId, Time, choice};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

choice!(
    /// Part of a journal that survives a crash.
    #[derive(Default)]
    Leaves, "rest of a journal",
    /// All records, and a last one: the replica was asked to stop. It sends nothing more.
    Stopped = "stopped",
    /// All written records: the process died, but the machine stayed up.
    #[default]
    Written = "written",
    /// All flushed records: the machine lost power.
    Flushed = "flushed",
    /// All flushed records, and a torn part of the records being flushed: the machine lost power during a write.
    Torn = "torn",
    /// Nothing. The replica restarts without its journal, and detects that.
    Nothing = "nothing",
);

/// Wire versions that a program may speak.
const SPOKEN: RangeInclusive<u8> = OLDEST_WIRE_VERSION..=NEWEST_WIRE_VERSION;

impl Leaves {
    /// All except an orderly stop.
    pub const CRASHES: [Leaves; 4] = [Leaves::Written, Leaves::Flushed, Leaves::Torn, Leaves::Nothing];
}

/// Crash point of a replica, counted from its start: before and after each record is written, before each message is
/// signed, before it is sent, and after it is sent.
pub type Point = u64;

/// One entry of a fault schedule: from `at_ms` for `for_ms`, in milliseconds of virtual time since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultSpec {
    /// A replica crashes for good. Its messages in flight still arrive.
    Crash { at_ms: f64, replica: u16 },
    /// A replica crashes and restarts with the rest of its journal.
    Restart {
        at_ms: f64,
        for_ms: f64,
        replica: u16,
        /// `stopped`, `written`, `flushed`, `torn` or `nothing`; see [`Leaves`].
        #[serde(default)]
        journal: Leaves,
    },
    /// A replica stops in order, and restarts with a program that speaks the wire versions up to `wire_version`. A
    /// transport over streams, whose model has no handshakes, knows no versions.
    Upgrade { at_ms: f64, for_ms: f64, replica: u16, wire_version: u8 },
    /// An operator orders the feature level `level`, which all replicas have signed. Their programs support it.
    Level { at_ms: f64, level: u16 },
    /// A replica crashes and restarts. It loses its disk, unless f others are misbehaving or have lost theirs and not
    /// recovered; in that case its journal keeps the flushed records.
    LoseDisk { at_ms: f64, for_ms: f64, replica: u16 },
    /// A replica crashes at a [`Point`], and restarts.
    Strike {
        /// Number of the crash point, from 1.
        point: Point,
        for_ms: f64,
        /// Replica to strike. A schedule may strike each replica once.
        replica: u16,
        #[serde(default)]
        journal: Leaves,
    },
    /// A replica's clock drifts, and with it its timers.
    Drift {
        at_ms: f64,
        for_ms: f64,
        replica: u16,
        /// Drift in parts per million; negative if the clock is slow.
        ppm: f64,
    },
    /// A replica's wall clock, from which its blocks get their times, is wrong. Its timers are right.
    Skew {
        at_ms: f64,
        for_ms: f64,
        replica: u16,
        /// How much the clock is ahead; negative if it is behind.
        skew_ms: f64,
    },
    /// A replica does nothing. Messages to it are delayed.
    Pause { at_ms: f64, for_ms: f64, replica: u16 },
    /// A replica's CPU takes `factor` times as long.
    SlowCpu { at_ms: f64, for_ms: f64, replica: u16, factor: f64 },
    /// A replica's disk takes `factor` times as long to make its journal durable.
    SlowDisk { at_ms: f64, for_ms: f64, replica: u16, factor: f64 },
    /// Messages between two groups of endpoints are lost.
    Cut {
        at_ms: f64,
        for_ms: f64,
        from: Vec<End>,
        to: Vec<End>,
        /// Messages in the other direction still arrive.
        #[serde(default)]
        one_way: bool,
    },
    /// Packets between two groups of endpoints take `by_ms` longer, in one direction.
    Spike { at_ms: f64, for_ms: f64, from: Vec<End>, to: Vec<End>, by_ms: f64 },
    /// Packets between two groups of endpoints are lost with an additional probability, in one direction.
    Lose { at_ms: f64, for_ms: f64, from: Vec<End>, to: Vec<End>, probability: f64 },
    /// A replica misbehaves.
    Misbehave {
        #[serde(default)]
        at_ms: f64,
        /// Duration; by default, to the end of the run.
        #[serde(default)]
        for_ms: Option<f64>,
        /// Period between the starts of a recurring misbehaviour. By default it does not recur.
        #[serde(default)]
        every_ms: Option<f64>,
        replica: u16,
        /// `silent`, `slow=50`, `equivocate` and so on; see [`Fault`].
        fault: Fault,
    },
    /// A client without a replica's key attacks the cluster. If the schedule has no other kind of fault, each bundle of
    /// an honest client must be executed within a time limit.
    Hostile {
        at_ms: f64,
        for_ms: f64,
        client: Hostility,
        /// The client shares the honest clients' link, as behind a proxy. All then share one queue, and the time limit
        /// does not apply.
        #[serde(default)]
        shares_link: bool,
        /// The time limit, in milliseconds.
        #[serde(default = "served_within_ms")]
        within_ms: f64,
    },
    /// An off-path attacker sends packets with arbitrary source addresses. Needs a packet transport. If the schedule
    /// has no other kind of fault, each bundle of an honest client must be executed within a time limit, and on a
    /// network without loss all pairs must be connected within [round trips](crate::CONNECTED_WITHIN_ROUND_TRIPS).
    OffPath {
        at_ms: f64,
        for_ms: f64,
        packets: Forgery,
        /// Packets per second to each target.
        #[serde(default = "packets_per_s")]
        packets_per_s: f64,
        /// Attacked endpoints; all by default.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        to: Vec<End>,
        /// The time limit, in milliseconds.
        #[serde(default = "served_within_ms")]
        within_ms: f64,
    },
}

impl FaultSpec {
    /// Returns a misbehaviour that lasts to the end of the run.
    pub fn misbehave(at_ms: f64, replica: u16, fault: impl Into<Fault>) -> FaultSpec {
        FaultSpec::Misbehave { at_ms, for_ms: None, every_ms: None, replica, fault: fault.into() }
    }

    /// Returns the link ends named by the fault.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        let (from, to): (&[End], &[End]) = match self {
            FaultSpec::Cut { from, to, .. } | FaultSpec::Spike { from, to, .. } | FaultSpec::Lose { from, to, .. } => {
                (from, to)
            }
            FaultSpec::OffPath { to, .. } => (&[], to),
            _ => (&[], &[]),
        };
        from.iter().chain(to)
    }

    /// Returns the reason why a schedule cannot contain both faults; `None` if it can.
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
            | FaultSpec::Upgrade { replica, .. }
            | FaultSpec::LoseDisk { replica, .. }
            | FaultSpec::Strike { replica, .. }
            | FaultSpec::Drift { replica, .. }
            | FaultSpec::Skew { replica, .. }
            | FaultSpec::Misbehave { replica, .. } => vec![*replica],
            FaultSpec::Cut { .. } | FaultSpec::Spike { .. } | FaultSpec::Lose { .. } | FaultSpec::OffPath { .. } => {
                self.ends().filter_map(replica).collect()
            }
            FaultSpec::Hostile { .. } | FaultSpec::Level { .. } => Vec::new(),
        }
    }

    /// Returns the start and the duration in milliseconds, 0 if the fault has none.
    fn times_ms(&self) -> (f64, f64) {
        match *self {
            FaultSpec::Crash { at_ms, .. } | FaultSpec::Level { at_ms, .. } => (at_ms, 0.0),
            FaultSpec::Misbehave { at_ms, for_ms, .. } => (at_ms, for_ms.unwrap_or(0.0)),
            FaultSpec::Strike { for_ms, .. } => (0.0, for_ms),
            FaultSpec::Pause { at_ms, for_ms, .. }
            | FaultSpec::Restart { at_ms, for_ms, .. }
            | FaultSpec::Upgrade { at_ms, for_ms, .. }
            | FaultSpec::LoseDisk { at_ms, for_ms, .. }
            | FaultSpec::Cut { at_ms, for_ms, .. }
            | FaultSpec::Hostile { at_ms, for_ms, .. }
            | FaultSpec::OffPath { at_ms, for_ms, .. }
            | FaultSpec::SlowCpu { at_ms, for_ms, .. }
            | FaultSpec::SlowDisk { at_ms, for_ms, .. }
            | FaultSpec::Drift { at_ms, for_ms, .. }
            | FaultSpec::Skew { at_ms, for_ms, .. }
            | FaultSpec::Lose { at_ms, for_ms, .. }
            | FaultSpec::Spike { at_ms, for_ms, .. } => (at_ms, for_ms),
        }
    }

    /// Returns the reason why a cluster of `replicas` cannot have this fault; `None` if it can.
    pub fn misfit(&self, replicas: usize) -> Option<String> {
        let absent = self.replicas().into_iter().find(|replica| usize::from(*replica) >= replicas);
        match (absent, self) {
            (Some(absent), _) => Some(format!("names replica {absent}, but the last one is {}", replicas - 1)),
            (None, FaultSpec::Misbehave { for_ms, every_ms, .. })
                if *for_ms == Some(0.0) || every_ms.is_some_and(|every| for_ms.is_none_or(|lasts| every <= lasts)) =>
            {
                Some("is always on or always off; expected 0 < for_ms < every_ms, or neither key".to_owned())
            }
            (None, FaultSpec::Lose { probability, .. }) if !(0.0..=1.0).contains(probability) => {
                Some(format!("has the probability {probability}; expected 0 to 1"))
            }
            (None, FaultSpec::Upgrade { wire_version, .. }) if !SPOKEN.contains(wire_version) => Some(format!(
                "restarts with wire version {wire_version}; expected {} to {}",
                SPOKEN.start(),
                SPOKEN.end()
            )),
            (None, FaultSpec::Level { level: 0, .. }) => Some("orders level 0; expected at least 1".to_owned()),
            (None, FaultSpec::OffPath { packets_per_s, .. }) if !(1.0..=MAX_PACKETS_PER_S).contains(packets_per_s) => {
                Some(format!("sends {packets_per_s} packets_per_s; expected 1 to {MAX_PACKETS_PER_S}"))
            }
            (None, FaultSpec::Strike { journal: Leaves::Stopped, .. }) => {
                Some("stops a replica at a point; expected a `journal` of a crash, or kind `restart`".to_owned())
            }
            (None, FaultSpec::Misbehave { replica, fault, .. }) => fault.misfit(ReplicaId(*replica), replicas),
            _ => None,
        }
    }
}

fn served_within_ms() -> f64 {
    SERVED_WITHIN_MS
}

fn packets_per_s() -> f64 {
    PACKETS_PER_S
}

/// Returns the time limit for bundles of honest clients if a schedule has only hostile clients and off-path senders;
/// `None` if it has other faults too.
pub fn served_within(faults: &[FaultSpec]) -> Option<Duration> {
    let within = faults.iter().map(|fault| match fault {
        FaultSpec::Hostile { within_ms, .. } | FaultSpec::OffPath { within_ms, .. } => {
            Some(time(*within_ms).since(Time(0)))
        }
        _ => None,
    });
    within.collect::<Option<Vec<Duration>>>()?.into_iter().max()
}

/// Returns the number of hostile clients of a schedule, each with a link of its own, if one of them favours one replica
/// and all other faults are hostile clients and misbehaving replicas, which delay neither honest replicas nor their
/// messages.
pub fn favours(faults: &[FaultSpec]) -> Option<u64> {
    let mut clients = 0;
    let mut favours = false;
    for fault in faults {
        match fault {
            FaultSpec::Hostile { client, shares_link: false, .. } => {
                clients += 1;
                favours |= client.favours_one();
            }
            FaultSpec::Misbehave { .. } => {}
            _ => return None,
        }
    }
    favours.then_some(clients)
}

/// Returns the misbehaving replicas of a schedule.
pub fn misbehaviour(faults: &[FaultSpec]) -> impl Iterator<Item = (ReplicaId, Misbehaviour)> {
    faults.iter().filter_map(|fault| match fault {
        FaultSpec::Misbehave { at_ms, for_ms, every_ms, replica, fault } => {
            let span = |ms: f64| time(ms).since(Time(0));
            let times = Times { start: span(*at_ms), lasts: for_ms.map(span), every: every_ms.map(span) };
            Some((ReplicaId(*replica), Misbehaviour { fault: *fault, times }))
        }
        _ => None,
    })
}

/// Crash of a replica at a crash point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strike {
    pub replica: usize,
    pub point: Point,
    pub leaves: Leaves,
    /// Time until the restart.
    pub down: Duration,
}

/// Returns the strikes of a schedule.
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

/// Start or end of a fault.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Crash for good.
    Crash(usize),
    /// Crash with a restart at the given time.
    Down(usize, Leaves, Time),
    /// Orderly stop of a replica until the given time, and the newest wire version that it speaks from then on.
    Upgrade(usize, u8, Time),
    /// Order of a feature level.
    Level(FeatureLevel),
    /// Crash of a replica until the given time. It loses its disk if fewer replicas than allowed lack theirs at that
    /// moment.
    LoseDisk(usize, Time),
    /// Rate of the replica's clock, relative to [`TRUE_RATE`].
    Clock(usize, u64),
    /// How much the replica's wall clock is ahead, in milliseconds.
    Skew(usize, i64),
    /// Pause until the given time.
    Pause(usize, Time),
    /// CPU time relative to normal, in thousandths.
    Speed(usize, u64),
    /// Flush time relative to normal, in thousandths.
    Disk(usize, u64),
    /// Start (true) or end (false) of a cut between pairs.
    Cut(Vec<(usize, usize)>, bool),
    /// Extra delay between pairs, in nanoseconds.
    Spike(Vec<(usize, usize)>, u64),
    /// Additional loss between pairs, as a probability.
    Lose(Vec<(usize, usize)>, f64),
    /// Off-path sender, with its packets per second to each target, until the given time.
    OffPath(Forgery, f64, Vec<usize>, Time),
    /// Hostile client until the given time. The flag is set if it shares the honest clients' link.
    Hostile(Hostility, bool, Time),
}

impl Change {
    /// Describes the change, using `name` for endpoints.
    pub fn describe(&self, name: impl Fn(usize) -> String) -> String {
        let ways = |pairs: &[(usize, usize)]| {
            let words = pairs.iter().map(|(from, to)| format!("{} to {}", name(*from), name(*to)));
            words.collect::<Vec<_>>().join(", ")
        };
        match self {
            Change::Crash(replica) => format!("R{replica} crashes for good"),
            Change::Down(replica, leaves, until) => {
                format!("R{replica} crashes until {until:?}; its journal: {leaves:?}")
            }
            Change::Upgrade(replica, version, until) => {
                format!("R{replica} stops until {until:?}, and then speaks wire versions up to {version}")
            }
            Change::Level(level) => format!("an operator orders feature level {level}"),
            Change::LoseDisk(replica, until) => {
                format!("R{replica} crashes until {until:?}, and loses its disk if that makes no more than f faults")
            }
            Change::Clock(replica, rate) => format!("R{replica}'s clock advances {rate} us per second"),
            Change::Skew(replica, ms) => format!("R{replica}'s wall clock is {ms} ms ahead"),
            Change::Pause(replica, until) => format!("R{replica} pauses until {until:?}"),
            Change::Speed(replica, thousandths) => {
                format!("R{replica}'s processor takes {} times as long", *thousandths as f64 / FULL_SPEED as f64)
            }
            Change::Disk(replica, thousandths) => {
                format!("R{replica}'s disk takes {} times as long", *thousandths as f64 / FULL_SPEED as f64)
            }
            Change::Cut(pairs, true) => format!("cut: {}", ways(pairs)),
            Change::Cut(pairs, false) => format!("reconnected: {}", ways(pairs)),
            Change::OffPath(packets, packets_per_s, targets, until) => {
                let targets = targets.iter().map(|target| name(*target)).collect::<Vec<_>>().join(", ");
                format!("off the path until {until:?}: {packets}, {packets_per_s} per second to each of {targets}")
            }
            Change::Hostile(client, _, until) => format!("hostile client until {until:?}: {client}"),
            Change::Lose(pairs, probability) => format!("lost with probability {probability}: {}", ways(pairs)),
            Change::Spike(pairs, by_ns) => format!("delayed by {} ms: {}", *by_ns as f64 / NS_PER_MS, ways(pairs)),
        }
    }
}

/// Maximum time in a schedule, in milliseconds: one hour.
pub(crate) const MAX_MS: f64 = 3_600_000.0;
/// Range of the slowdown of a CPU or a disk, relative to the cost table.
pub(crate) const MIN_FACTOR: f64 = 0.001;
pub(crate) const MAX_FACTOR: f64 = 1e6;
/// Range of a clock's drift. Below 1,000,000 ppm, since a clock must not stop.
pub(crate) const MAX_LOSS_PPM: f64 = 999_000.0;
pub(crate) const MAX_GAIN_PPM: f64 = 9e6;
/// Normal speed of a CPU or a disk, in thousandths.
pub const FULL_SPEED: u64 = 1000;

fn time(ms: f64) -> Time {
    Time(ms_to_ns(ms))
}

/// Returns the ordered pairs of different endpoints in `from` and `to`.
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

/// Returns the starts and ends of a schedule's faults, ordered by time.
///
/// # Panics
/// If a fault does not fit the cluster; see [`FaultSpec::misfit`].
pub fn changes(faults: &[FaultSpec], endpoints: &Endpoints<'_>) -> Vec<(Time, Change)> {
    let misfit = faults.iter().find_map(|fault| fault.misfit(endpoints.replicas));
    assert_eq!(misfit, None, "the schedule was not checked against the cluster");
    let ends = |list: &[End]| list.iter().flat_map(|end| endpoints.of(end)).collect::<Vec<_>>();
    let thousandths = |factor: f64| (factor.clamp(MIN_FACTOR, MAX_FACTOR) * FULL_SPEED as f64) as u64;
    let mut changes = Vec::new();
    for fault in faults {
        let (at_ms, for_ms) = fault.times_ms();
        let (at, until) = (time(at_ms), time(at_ms + for_ms));
        let (begin, end) = match fault {
            FaultSpec::Crash { replica, .. } => (Change::Crash(usize::from(*replica)), None),
            FaultSpec::Pause { replica, .. } => (Change::Pause(usize::from(*replica), until), None),
            FaultSpec::SlowCpu { replica, factor, .. } => {
                let replica = usize::from(*replica);
                (Change::Speed(replica, thousandths(*factor)), Some(Change::Speed(replica, FULL_SPEED)))
            }
            FaultSpec::SlowDisk { replica, factor, .. } => {
                let replica = usize::from(*replica);
                (Change::Disk(replica, thousandths(*factor)), Some(Change::Disk(replica, FULL_SPEED)))
            }
            FaultSpec::Cut { from, to, one_way, .. } => {
                let pairs = pairs(&ends(from), &ends(to), !one_way);
                (Change::Cut(pairs.clone(), true), Some(Change::Cut(pairs, false)))
            }
            FaultSpec::Spike { from, to, by_ms, .. } => {
                let pairs = pairs(&ends(from), &ends(to), false);
                (Change::Spike(pairs.clone(), ms_to_ns(*by_ms)), Some(Change::Spike(pairs, 0)))
            }
            FaultSpec::Lose { from, to, probability, .. } => {
                let pairs = pairs(&ends(from), &ends(to), false);
                (Change::Lose(pairs.clone(), *probability), Some(Change::Lose(pairs, 0.0)))
            }
            FaultSpec::Restart { replica, journal, .. } => (Change::Down(usize::from(*replica), *journal, until), None),
            FaultSpec::Upgrade { replica, wire_version, .. } => {
                (Change::Upgrade(usize::from(*replica), *wire_version, until), None)
            }
            FaultSpec::Level { level, .. } => (Change::Level(FeatureLevel(*level)), None),
            FaultSpec::LoseDisk { replica, .. } => (Change::LoseDisk(usize::from(*replica), until), None),
            FaultSpec::Drift { replica, ppm, .. } => {
                let (replica, gain) = (usize::from(*replica), ppm.clamp(-MAX_LOSS_PPM, MAX_GAIN_PPM) as i64);
                let drifting = Change::Clock(replica, TRUE_RATE.saturating_add_signed(gain));
                (drifting, Some(Change::Clock(replica, TRUE_RATE)))
            }
            FaultSpec::Skew { replica, skew_ms, .. } => {
                let replica = usize::from(*replica);
                (Change::Skew(replica, *skew_ms as i64), Some(Change::Skew(replica, 0)))
            }
            FaultSpec::Hostile { client, shares_link, .. } => (Change::Hostile(*client, *shares_link, until), None),
            FaultSpec::OffPath { packets, packets_per_s, to, .. } => {
                let targets = if to.is_empty() { (0..endpoints.count()).collect() } else { ends(to) };
                (Change::OffPath(*packets, *packets_per_s, targets, until), None)
            }
            FaultSpec::Misbehave { .. } | FaultSpec::Strike { .. } => continue,
        };
        changes.push((at, begin));
        changes.extend(end.map(|end| (until, end)));
    }
    changes.sort_by_key(|(time, _)| *time);
    changes
}
