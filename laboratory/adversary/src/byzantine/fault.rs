//! Byzantine faults and their text form.

use crate::byzantine::behaviours::Chosen;
use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::Tactic;
use crate::byzantine::times::Times;
use quorate_types::ReplicaId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A Byzantine fault. Its text is the name of its kind, optionally followed by `=` and a parameter: `slow`, `slow=50`,
/// `selective=2+3`. `KIND#K` is honest until its K-th opportunity to lie, and is therefore trusted until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    chosen: Chosen,
    /// Number of skipped opportunities to lie.
    skipped: u32,
}

impl<K: Kind + Into<Chosen>> From<K> for Fault {
    fn from(kind: K) -> Fault {
        Fault { chosen: kind.into(), skipped: 0 }
    }
}

impl Fault {
    /// All kinds, with default parameters and without skipped opportunities.
    pub const ALL: [Fault; Chosen::ALL.len()] = {
        let mut all = [Fault { chosen: Chosen::ALL[0], skipped: 0 }; Chosen::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at].chosen = Chosen::ALL[at];
            at += 1;
        }
        all
    };

    /// Returns the facts of its kind.
    pub fn facts(self) -> Facts {
        self.chosen.facts()
    }

    /// Returns the same fault, starting to lie at this opportunity, counted from 1; `None` if its kind has no
    /// opportunities, or the number is 0.
    pub fn from_opportunity(self, number: u32) -> Option<Fault> {
        let skipped = number.checked_sub(1).filter(|_| self.facts().may_wait)?;
        Some(Fault { skipped, ..self })
    }

    /// Returns the name of its kind.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns whether it makes statements that an honest replica would not; see [`Facts::lies`].
    pub fn lies(self) -> bool {
        self.facts().lies
    }

    /// Returns the reason why replica `me` of `replicas` cannot have this fault; `None` if it can.
    pub fn misfit(self, me: ReplicaId, replicas: usize) -> Option<String> {
        let named = self.chosen.named();
        let last = replicas.saturating_sub(1);
        let stranger = named.highest().filter(|highest| highest.index() >= replicas);
        let strange = stranger.map(|stranger| format!("names replica {stranger}, but the last one is {last}"));
        strange.or_else(|| named.contains(me).then(|| format!("names replica {me}, which is the sender itself")))
    }

    pub(crate) fn skipped(self) -> u32 {
        self.skipped
    }

    pub(crate) fn tactic<M: Malleable>(self) -> Box<dyn Tactic<M>> {
        self.chosen.tactic()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        if Fault::ALL.contains(self) {
            return f.pad(name);
        }
        let parameter = self.chosen.parameter();
        match self.skipped {
            0 => write!(f, "{name}={parameter}"),
            skipped => write!(f, "{name}#{}", skipped + 1),
        }
    }
}

/// Error for a text that is not a fault.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is not a fault: {why}")]
pub struct BadFault {
    pub given: String,
    /// The problem, and the valid forms.
    pub why: String,
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let bad = |why: String| BadFault { given: text.to_owned(), why };
        let named = |name: &str| Fault::ALL.into_iter().find(|fault| fault.name() == name);
        if let Some((name, number)) = text.split_once('#') {
            let Some(fault) = named(name).filter(|fault| fault.facts().may_wait) else {
                let kinds = names(|facts| facts.may_wait);
                return Err(bad(format!("`#` gives the opportunity at which one of these begins: {kinds}")));
            };
            let waiting = number.parse().ok().and_then(|number| fault.from_opportunity(number));
            return waiting.ok_or_else(|| bad(format!("`{number}` is not a whole number from 1")));
        }
        let (name, parameter) = match text.split_once('=') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let fault = named(name).ok_or_else(|| bad(format!("use one of {}", names(|_| true))))?;
        let Some(parameter) = parameter else { return Ok(fault) };
        let chosen = fault.chosen.with(parameter).map_err(bad)?;
        Ok(Fault { chosen, ..fault })
    }
}

fn names(of: fn(&Facts) -> bool) -> String {
    let names = Fault::ALL.iter().filter(|fault| of(&fault.facts())).map(|fault| fault.name());
    names.collect::<Vec<_>>().join(", ")
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Fault, and the times at which it is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    pub fault: Fault,
    pub times: Times,
}

impl Misbehaviour {
    /// Returns the fault, always active.
    pub fn always(fault: impl Into<Fault>) -> Misbehaviour {
        Misbehaviour { fault: fault.into(), times: Times::default() }
    }
}
