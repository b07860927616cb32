//! Faults to inject, and their text form.

use super::choices::nearest;
use quorate_adversary::byzantine::behaviours::Silent;
use quorate_operator::{BadValue, Interval, as_text};
use quorate_simulator::hostile::Hostility;
use quorate_simulator::off_path::Forgery;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};
use std::fmt;
use std::str::FromStr;

/// Fault to inject. Times count from the start of the measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `silent:3`, `slow=50:0..4`, `equivocate:0@4s`: the replicas misbehave.
    Misbehave(Signers, Misbehaviour, When),
    /// `crash:2@4s`: the replica is killed.
    Crash(ReplicaId, Interval),
    /// `hostile:flood`, `hostile:flood@1s+500ms`: a client without keys attacks, from the start or this time, to the
    /// end or for this duration. Simulator only.
    Hostile(Hostility, Option<Interval>, Option<Interval>),
    /// `off-path:junk`, `off-path:handshakes@1s+500ms`: an off-path attacker sends packets with arbitrary source
    /// addresses, from the start or this time, to the end or for this duration. Simulator only.
    OffPath(Forgery, Option<Interval>, Option<Interval>),
    /// `skew=2000:1`, `skew=-800:1@1s+500ms`: the replica's wall clock is this many milliseconds ahead, from the start
    /// or this time, to the end or for this duration. Simulator only.
    Skew(ReplicaId, i64, Option<Interval>, Option<Interval>),
    /// `restart:2@8s+500ms`: the replica is killed, and restarted after this downtime, [`DEFAULT_AWAY`] if omitted.
    Restart(ReplicaId, Interval, Interval),
}

/// Times at which replicas misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct When {
    /// First start; `None`: the start of the warm-up.
    pub at: Option<Interval>,
    /// Duration; `None`: to the end.
    pub lasts: Option<Interval>,
    /// Period between starts; `None` if the misbehaviour does not recur.
    pub every: Option<Interval>,
}

impl When {
    /// From the start of the warm-up to the end.
    pub const ALWAYS: When = When { at: None, lasts: None, every: None };

    /// Returns the spans of misbehaviour that begin before `end_ms`, in milliseconds from the start of the measured
    /// time. A start in the warm-up counts as 0. The end of a span may lie beyond `end_ms`; it is `None` if there is
    /// none.
    pub fn spans_ms(self, end_ms: u64) -> impl Iterator<Item = (u64, Option<u64>)> {
        let start = self.at.map_or(0, Interval::as_millis);
        let starts = std::iter::successors(Some(start), move |start| Some(start + self.every?.as_millis()));
        let spans = starts.map(move |start| (start, self.lasts.map(|lasts| start + lasts.as_millis())));
        spans.take_while(move |(start, _)| *start < end_ms)
    }
}

/// Default downtime of a restarted replica.
pub const DEFAULT_AWAY: Interval = Interval::from_millis(1000);

pub use quorate_adversary::byzantine::Fault as Misbehaviour;

impl Fault {
    /// Returns the faulty replicas; none for a hostile client or an off-path attacker.
    pub fn replicas(self) -> Signers {
        match self {
            Fault::Misbehave(replicas, ..) => replicas,
            Fault::Crash(replica, _) | Fault::Restart(replica, ..) | Fault::Skew(replica, ..) => {
                [replica].into_iter().collect()
            }
            Fault::Hostile(..) | Fault::OffPath(..) => Signers::empty(),
        }
    }

    /// Returns whether its replicas are silent from the start to the end.
    pub fn never_speaks(self) -> bool {
        matches!(self, Fault::Misbehave(_, how, When::ALWAYS) if how == Silent.into())
    }

    /// Returns the start, relative to the start of the measured time; `None` if the fault exists from the beginning.
    pub fn at(self) -> Option<Interval> {
        match self {
            Fault::Misbehave(_, _, When { at, .. })
            | Fault::Hostile(_, at, _)
            | Fault::OffPath(_, at, _)
            | Fault::Skew(_, _, at, _) => at,
            Fault::Crash(_, at) | Fault::Restart(_, at, _) => Some(at),
        }
    }

    /// Returns the end, in milliseconds from the start of the measured time; `None` if there is none.
    pub fn over_ms(self) -> Option<u64> {
        match self {
            Fault::Restart(_, at, away) => Some(at.as_millis() + away.as_millis()),
            Fault::Misbehave(..) | Fault::Crash(..) | Fault::Hostile(..) | Fault::OffPath(..) | Fault::Skew(..) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Misbehave(replicas, how, when) => write!(f, "{how}:{}{when}", Replicas(replicas)),
            Fault::Crash(replica, at) => write!(f, "crash:{replica}@{at}"),
            Fault::Hostile(client, at, time) => write!(f, "{HOSTILE}:{client}{}", span(*at, *time)),
            Fault::OffPath(packets, at, time) => write!(f, "{OFF_PATH}:{packets}{}", span(*at, *time)),
            Fault::Skew(replica, ms, at, time) => write!(f, "{SKEW}={ms}:{replica}{}", span(*at, *time)),
            Fault::Restart(replica, at, DEFAULT_AWAY) => write!(f, "restart:{replica}@{at}"),
            Fault::Restart(replica, at, away) => write!(f, "restart:{replica}@{at}+{away}"),
        }
    }
}

/// Formats a start and a duration. The duration counts only with a start.
fn span(at: Option<Interval>, lasts: Option<Interval>) -> When {
    When { at, lasts: lasts.filter(|_| at.is_some()), every: None }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (sign, time) in [('@', self.at), ('+', self.lasts), ('/', self.every)] {
            if let Some(time) = time {
                write!(f, "{sign}{time}")?;
            }
        }
        Ok(())
    }
}

/// Text of a set of replicas: `0..4+7` is 0, 1, 2, 3 and 7.
struct Replicas<'a>(&'a Signers);

/// Minimum number of consecutive replicas written as a range.
const MIN_RANGE: u16 = 3;

impl fmt::Display for Replicas<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<u16> = self.0.iter().map(|replica| replica.0).collect();
        let runs = all.chunk_by(|one, next| one + 1 == *next).map(|run| match (run[0], run.len() as u16) {
            (first, length) if length >= MIN_RANGE => format!("{first}..{}", first + length),
            _ => run.iter().map(u16::to_string).collect::<Vec<_>>().join("+"),
        });
        f.write_str(&runs.collect::<Vec<_>>().join("+"))
    }
}

fn replicas(text: &str) -> Result<Signers, String> {
    let number = |text: &str| match text.parse::<u16>() {
        Ok(number) if usize::from(number) <= MAX_REPLICAS => Ok(number),
        _ => Err(format!("`{text}` is not a replica")),
    };
    let mut all = Signers::empty();
    for part in text.split('+') {
        let (first, end) = match part.split_once("..") {
            Some((first, end)) => (number(first)?, number(end)?),
            None => number(part).map(|one| (one, one + 1))?,
        };
        if first >= end {
            return Err(format!("the range `{part}` is empty: its end is not included"));
        }
        if usize::from(end) > MAX_REPLICAS {
            return Err(format!("`{part}` is not a replica: the highest possible is {}", MAX_REPLICAS - 1));
        }
        (first..end).for_each(|replica| {
            all.insert(ReplicaId(replica));
        });
    }
    Ok(all)
}

fn interval(text: &str) -> Result<Interval, String> {
    text.parse::<Interval>().map_err(|error| error.to_string())
}

impl FromStr for When {
    type Err = String;

    /// Parses `TIME`, `TIME+ON` or `TIME+ON/PERIOD`.
    fn from_str(text: &str) -> Result<When, String> {
        let (at, rest) = text.split_once('+').map_or((text, None), |(at, rest)| (at, Some(rest)));
        let at = Some(interval(at)?);
        let Some(rest) = rest else { return Ok(When { at, ..When::ALWAYS }) };
        let (lasts, every) = rest.split_once('/').map_or((rest, None), |(lasts, every)| (lasts, Some(every)));
        let (lasts, every) = (interval(lasts)?, every.map(interval).transpose()?);
        if lasts.as_millis() == 0 {
            return Err(format!("`{rest}` is never on"));
        }
        match every {
            Some(every) if every <= lasts => {
                Err(format!("`{rest}` is never off: after `/` comes the whole period, longer than {lasts}"))
            }
            _ => Ok(When { at, lasts: Some(lasts), every }),
        }
    }
}

/// Names of the faults that are not misbehaviour.
const CRASH: &str = "crash";
const RESTART: &str = "restart";
const HOSTILE: &str = "hostile";
const OFF_PATH: &str = "off-path";
const SKEW: &str = "skew";
/// Maximum error of a wall clock, in milliseconds: an hour.
const MAX_SKEW_MS: i64 = 3_600_000;

const FORMS: &str = "KIND:R, KIND:R@TIME, KIND:R@TIME+ON or KIND:R@TIME+ON/PERIOD, where R is a replica from 0 or \
                     several, as in silent:3, slow=50:0..4, equivocate:0+2@4s, slow:1@0s+15s/30s (on for 15 s of \
                     every 30 s), crash:2@4s, restart:1@4s+500ms, skew=2000:1, hostile:CLIENT@TIME+TIME as in \
                     hostile:flood, or off-path:PACKETS@TIME+TIME as in off-path:junk; \
                     docs/BYZANTINE.md and docs/SIMULATOR_FILES.md list the kinds";

impl FromStr for Fault {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Fault, BadValue> {
        let bad = |why: String| {
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            BadValue { kind: "fault", given: text.to_string(), why, forms: FORMS }
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad("which replica?".into()))?;
        let (who, times) = rest.split_once('@').map_or((rest, None), |(who, times)| (who, Some(times)));
        match kind {
            HOSTILE => return outsider(who, times, Fault::Hostile).map_err(bad),
            OFF_PATH => return outsider(who, times, Fault::OffPath).map_err(bad),
            _ if kind.split('=').next() == Some(SKEW) => return skew(kind, who, times).map_err(bad),
            CRASH | RESTART => return killed(kind, who, times).map_err(|(why, forms)| BadValue { forms, ..bad(why) }),
            _ => {}
        }
        let names: Vec<&str> =
            Misbehaviour::ALL.iter().map(|how| how.name()).chain([CRASH, RESTART, HOSTILE, OFF_PATH, SKEW]).collect();
        let name = kind.split_once(['=', '#']).map_or(kind, |(name, _)| name);
        let how = kind.parse::<Misbehaviour>().map_err(|error| match names.contains(&name) {
            true => bad(error.why),
            false => bad(nearest(name, &names).map_or_else(String::new, |name| format!("did you mean `{name}`?"))),
        })?;
        let when = times.map_or(Ok(When::ALWAYS), str::parse).map_err(bad)?;
        Ok(Fault::Misbehave(replicas(who).map_err(bad)?, how, when))
    }
}

/// Parses the part after `crash:` or `restart:`. Errors give the reason and the valid forms.
fn killed(kind: &str, who: &str, times: Option<&str>) -> Result<Fault, (String, &'static str)> {
    let is_restart = kind == RESTART;
    let forms = match is_restart {
        true => "restart:R@TIME or restart:R@TIME+AWAY, where R is a replica from 0, as in restart:2@4s+500ms",
        false => "crash:R@TIME, where R is a replica from 0, as in crash:2@4s",
    };
    let bad = |why: String| (why, forms);
    let replica = match who.parse::<u16>() {
        Ok(replica) => ReplicaId(replica),
        Err(_) if replicas(who).is_ok() => {
            return Err(bad(format!("`{who}` are several replicas; give each its own {kind}")));
        }
        Err(_) => return Err(bad(format!("`{who}` is not a replica"))),
    };
    let times = times.ok_or_else(|| bad("when?".into()))?;
    let (at, away) = match times.split_once('+') {
        Some((at, away)) if is_restart => (at, Some(away)),
        _ => (times, None),
    };
    let at = interval(at).map_err(bad)?;
    let away = away.map(interval).transpose().map_err(bad)?;
    Ok(if is_restart { Fault::Restart(replica, at, away.unwrap_or(DEFAULT_AWAY)) } else { Fault::Crash(replica, at) })
}

/// Parses `skew=MS`, the replica and the times.
fn skew(kind: &str, who: &str, times: Option<&str>) -> Result<Fault, String> {
    let ms = kind.split_once('=').and_then(|(_, ms)| ms.parse().ok());
    let ms = ms
        .filter(|ms| (-MAX_SKEW_MS..=MAX_SKEW_MS).contains(ms))
        .ok_or_else(|| format!("`{kind}` is not {SKEW}=MS with milliseconds from -{MAX_SKEW_MS} to {MAX_SKEW_MS}"))?;
    let replica = who.parse::<u16>().ok().filter(|replica| usize::from(*replica) < MAX_REPLICAS);
    let replica = ReplicaId(replica.ok_or_else(|| format!("`{who}` is not a replica"))?);
    let (at, time) = start_and_duration(times)?;
    Ok(Fault::Skew(replica, ms, at, time))
}

/// Parses `TIME` or `TIME+TIME`.
fn start_and_duration(times: Option<&str>) -> Result<(Option<Interval>, Option<Interval>), String> {
    let Some(times) = times else { return Ok((None, None)) };
    let (at, time) = times.split_once('+').map_or((times, None), |(at, time)| (at, Some(time)));
    Ok((Some(interval(at)?), time.map(interval).transpose()?))
}

/// Parses the part after `hostile:` or `off-path:`.
fn outsider<K: FromStr<Err: fmt::Display>>(
    kind: &str,
    times: Option<&str>,
    fault: fn(K, Option<Interval>, Option<Interval>) -> Fault,
) -> Result<Fault, String> {
    let kind = kind.parse::<K>().map_err(|error| error.to_string())?;
    let (at, time) = start_and_duration(times)?;
    Ok(fault(kind, at, time))
}

as_text!(Fault);
