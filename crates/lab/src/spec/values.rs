//! Keys of a spec whose value has a small grammar: durations, faults and paths of recordings.

use super::choices::nearest;
use quorate_operator::{BadValue, Interval, as_text};
use quorate_simulator::hostile::Hostility;
use quorate_types::ReplicaId;
use std::fmt;
use std::str::FromStr;

/// Fault to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `silent:3`, `slow=50:1`, `equivocate:0@4s`: the replica misbehaves, from the start or from this time after the
    /// measurement began.
    Misbehave(ReplicaId, Misbehaviour, Option<Interval>),
    /// `crash:2@4s`: the replica is killed this long after the measurement began.
    Crash(ReplicaId, Interval),
    /// `hostile:flood`, `hostile:flood@1s+500ms`: a client without keys attacks, from the start or from this time after
    /// the measurement began, to the end or for this duration. Only in the simulator.
    Hostile(Hostility, Option<Interval>, Option<Interval>),
    /// `restart:2@8s+500ms`: the replica is killed this long after the measurement began, and restarted this much
    /// later; [`DEFAULT_AWAY`] if that is omitted.
    Restart(ReplicaId, Interval, Interval),
}

/// Default downtime of a replica that is restarted.
pub const DEFAULT_AWAY: Interval = Interval::from_millis(1000);

pub use quorate_byzantine::Fault as Misbehaviour;

impl Fault {
    /// Returns the replica at fault; `None` for a client.
    pub fn replica(self) -> Option<ReplicaId> {
        match self {
            Fault::Misbehave(replica, ..) | Fault::Crash(replica, _) | Fault::Restart(replica, ..) => Some(replica),
            Fault::Hostile(..) => None,
        }
    }

    /// Returns the start after the measurement began; `None` if the fault exists from the start.
    pub fn at(self) -> Option<Interval> {
        match self {
            Fault::Misbehave(_, _, at) | Fault::Hostile(_, at, _) => at,
            Fault::Crash(_, at) | Fault::Restart(_, at, _) => Some(at),
        }
    }

    /// Returns the time after the measurement began at which the fault is over, in milliseconds; `None` if it lasts.
    pub fn over_ms(self) -> Option<u64> {
        match self {
            Fault::Restart(_, at, away) => Some(at.as_millis() + away.as_millis()),
            Fault::Misbehave(..) | Fault::Crash(..) | Fault::Hostile(..) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Misbehave(replica, how, None) => write!(f, "{how}:{replica}"),
            Fault::Misbehave(replica, how, Some(at)) => write!(f, "{how}:{replica}@{at}"),
            Fault::Crash(replica, at) => write!(f, "crash:{replica}@{at}"),
            Fault::Hostile(client, None, _) => write!(f, "hostile:{client}"),
            Fault::Hostile(client, Some(at), None) => write!(f, "hostile:{client}@{at}"),
            Fault::Hostile(client, Some(at), Some(time)) => write!(f, "hostile:{client}@{at}+{time}"),
            Fault::Restart(replica, at, DEFAULT_AWAY) => write!(f, "restart:{replica}@{at}"),
            Fault::Restart(replica, at, away) => write!(f, "restart:{replica}@{at}+{away}"),
        }
    }
}

/// Names of the faults that are not misbehaviour.
const CRASH: &str = "crash";
const RESTART: &str = "restart";
const HOSTILE: &str = "hostile";

impl FromStr for Fault {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Fault, BadValue> {
        let bad = |why: String| BadValue {
            kind: "fault",
            given: text.to_string(),
            why,
            forms: "KIND:R or KIND:R@TIME, where R is a replica from 0, as in silent:3, slow=50:1, equivocate:0@4s, \
                    crash:2@4s, restart:1@4s+500ms, or hostile:CLIENT@TIME+TIME as in hostile:flood; \
                    docs/BYZANTINE.md and docs/SIMULATOR.md list the kinds",
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad(" (which replica?)".into()))?;
        let (number, at) = match rest.split_once('@') {
            Some((number, at)) => (number, Some(at)),
            None => (rest, None),
        };
        if kind == HOSTILE {
            return hostile(number, at).map_err(|why| bad(format!(" ({why})")));
        }
        let replica = match number.parse::<u16>() {
            Ok(replica) => ReplicaId(replica),
            Err(_) => return Err(bad(format!(" (`{number}` is not a replica)"))),
        };
        let (at, away) = match at.and_then(|at| at.split_once('+')) {
            Some((at, away)) if kind == RESTART => (Some(at), Some(away)),
            _ => (at, None),
        };
        let interval = |text: &str| text.parse::<Interval>().map_err(|error| bad(format!(" ({error})")));
        let (at, away) = (at.map(interval).transpose()?, away.map(interval).transpose()?);
        if kind == RESTART {
            let forms = "restart:R@TIME or restart:R@TIME+AWAY, where R is a replica from 0, as in restart:2@4s+500ms";
            return at
                .map(|at| Fault::Restart(replica, at, away.unwrap_or(DEFAULT_AWAY)))
                .ok_or_else(|| BadValue { forms, ..bad(" (when?)".into()) });
        }
        if kind == CRASH {
            let forms = "crash:R@TIME, where R is a replica from 0, as in crash:2@4s";
            return at.map(|at| Fault::Crash(replica, at)).ok_or_else(|| BadValue { forms, ..bad(" (when?)".into()) });
        }
        let names: Vec<&str> =
            Misbehaviour::ALL.iter().map(|how| how.name()).chain([CRASH, RESTART, HOSTILE]).collect();
        let name = kind.split_once(['=', '#']).map_or(kind, |(name, _)| name);
        match kind.parse::<Misbehaviour>() {
            Ok(how) => Ok(Fault::Misbehave(replica, how, at)),
            Err(error) if names.contains(&name) => Err(bad(format!(" ({})", error.why))),
            Err(_) => Err(bad(match nearest(name, &names) {
                Some(name) => format!(" (did you mean `{name}`?)"),
                None => String::new(),
            })),
        }
    }
}

/// Parses the part after `hostile:`.
fn hostile(client: &str, times: Option<&str>) -> Result<Fault, String> {
    let client = client.parse::<Hostility>().map_err(|error| error.to_string())?;
    let (at, time) = match times.map(|times| times.split_once('+').map_or((times, None), |(at, time)| (at, Some(time))))
    {
        None => (None, None),
        Some((at, time)) => (Some(at), time),
    };
    let interval = |text: &str| text.parse::<Interval>().map_err(|error| error.to_string());
    Ok(Fault::Hostile(client, at.map(interval).transpose()?, time.map(interval).transpose()?))
}

as_text!(Fault);

/// Replicas to record, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The only replica to record; `None` for all.
    pub replica: Option<ReplicaId>,
    /// The file, or the directory of the files.
    pub path: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replica {
            Some(replica) => write!(f, "{replica}:{}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

impl FromStr for Record {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Record, BadValue> {
        let one = text.split_once(':').and_then(|(number, path)| Some((number.parse::<u16>().ok()?, path)));
        let (replica, path) = one.map_or((None, text), |(number, path)| (Some(ReplicaId(number)), path));
        if path.is_empty() {
            let forms = "a directory, or R:FILE where R is a replica from 0, as in 2:replica-2.recording";
            return Err(BadValue {
                kind: "place for recordings",
                given: text.to_owned(),
                why: " (where?)".into(),
                forms,
            });
        }
        Ok(Record { replica, path: path.to_owned() })
    }
}

as_text!(Record);
