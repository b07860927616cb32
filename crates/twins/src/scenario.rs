//! Scenarios, which define the leader and the links of each view, and their file format.

use crate::cast::{ActorId, ActorSet, Cast, MAX_ACTORS};
use crate::hostile::HostileClient;
use crate::judge::Complaint;
use quorate_consensus::config::ProtocolKind;
use quorate_types::{Fault, Quorum, ReplicaId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of rounds in a scenario.
pub const MAX_ROUNDS: usize = 1000;

/// One view of a script.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Round {
    /// The leader. If it is a twin, both instances lead.
    pub leader: ReplicaId,
    /// Groups whose members receive each other's messages. An actor in no group is isolated.
    pub groups: Vec<ActorSet>,
    /// One-way links as (from, to), by position in `groups`.
    pub passes: Vec<(u8, u8)>,
}

/// A script for a cast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    pub cast: Cast,
    /// One round for each view, from view 1.
    pub rounds: Vec<Round>,
}

/// A line of a scenario file: the scenario, and optionally its protocol and finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub scenario: Scenario,
    pub protocol: Option<ProtocolKind>,
    pub found: Option<Complaint>,
}

/// Error in a line of a scenario file.
#[derive(Debug, Error)]
pub enum ScenarioError {
    #[error("{0}; docs/TWINS.md describes scenarios")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Invalid(#[from] Fault),
}

fn invalid(what: String, help: impl Into<String>) -> ScenarioError {
    Fault::new("scenario", what, help).into()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    protocol: Option<ProtocolKind>,
    replicas: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    faults: Option<usize>,
    #[serde(default)]
    twins: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    hostile: Option<HostileClient>,
    rounds: Vec<RoundText>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    found: Option<Complaint>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundText {
    leader: String,
    groups: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    passes: Vec<(u8, u8)>,
}

impl Scenario {
    /// Returns the names of the members.
    fn group_text(&self, group: ActorSet) -> Vec<String> {
        let members = self.cast.actors().filter(|actor| group >> actor.0 & 1 == 1);
        members.map(|actor| self.cast.name(actor)).collect()
    }
}

impl From<Scenario> for Entry {
    fn from(scenario: Scenario) -> Entry {
        Entry { scenario, protocol: None, found: None }
    }
}

impl Entry {
    /// Returns the line without a line feed.
    pub fn to_line(&self) -> String {
        let Scenario { cast, rounds } = &self.scenario;
        let round = |round: &Round| RoundText {
            leader: format!("{:?}", round.leader),
            groups: round.groups.iter().map(|group| self.scenario.group_text(*group)).collect(),
            passes: round.passes.clone(),
        };
        let usual = Quorum::of(cast.replicas()).expect("a cast has a committee");
        let text = EntryText {
            protocol: self.protocol,
            replicas: cast.replicas(),
            faults: (cast.quorum() != usual).then(|| cast.quorum().faults()),
            twins: cast.twins(),
            hostile: cast.hostile(),
            rounds: rounds.iter().map(round).collect(),
            found: self.found.clone(),
        };
        serde_json::to_string(&text).expect("a scenario is plain data")
    }

    /// Parses a line.
    ///
    /// # Errors
    /// If the line is not JSON or describes an impossible scenario.
    pub fn from_line(line: &str) -> Result<Entry, ScenarioError> {
        let text: EntryText = serde_json::from_str(line)?;
        let cast = cast(text.replicas, text.faults, text.twins)?.with_hostile(text.hostile);
        if text.rounds.is_empty() || text.rounds.len() > MAX_ROUNDS {
            let what = format!("a scenario has between 1 and {MAX_ROUNDS} rounds, not {}", text.rounds.len());
            return Err(invalid(what, "write another number of rounds"));
        }
        let rounds = text.rounds.iter().enumerate().map(|(at, round)| parse_round(at, round, &cast));
        let rounds = rounds.collect::<Result<Vec<Round>, ScenarioError>>()?;
        Ok(Entry { scenario: Scenario { cast, rounds }, protocol: text.protocol, found: text.found })
    }
}

/// Returns a cast of `replicas` replicas and `twins` twins; `faults` defaults to the maximum that the replicas
/// tolerate.
///
/// # Errors
/// If the numbers do not fit together.
pub fn cast(replicas: usize, faults: Option<usize>, twins: usize) -> Result<Cast, ScenarioError> {
    let quorum = match faults {
        None => Quorum::of(replicas),
        Some(faults) => Quorum::with_faults(replicas, faults),
    };
    let quorum = quorum.map_err(|error| invalid(error.to_string(), "set another number of replicas"))?;
    if twins > replicas {
        let what = format!("{twins} of {replicas} replicas cannot be twins");
        return Err(invalid(what, "set at most as many twins as replicas"));
    }
    if replicas + twins > MAX_ACTORS {
        let what = format!("{replicas} replicas and {twins} twins are more than {MAX_ACTORS} actors");
        return Err(invalid(what, "set fewer"));
    }
    Ok(Cast::new(quorum, twins))
}

fn parse_round(at: usize, text: &RoundText, cast: &Cast) -> Result<Round, ScenarioError> {
    let round = at + 1;
    let names = || cast.names(cast.everybody());
    let find = |name: &String| {
        let what = || format!("round {round}: there is no `{name}`");
        cast.find(name).ok_or_else(|| invalid(what(), format!("the actors are {}", names())))
    };
    let leader = find(&text.leader)?;
    if leader.0 >= cast.replicas() {
        let what = format!("round {round}: the leader is `{}`, one of two instances", text.leader);
        return Err(invalid(what, "name the identity: both instances lead"));
    }
    let mut groups: Vec<ActorSet> = Vec::with_capacity(text.groups.len());
    for group in &text.groups {
        let mut set: ActorSet = 0;
        for name in group {
            let ActorId(actor) = find(name)?;
            if groups.iter().chain([&set]).any(|earlier| earlier >> actor & 1 == 1) {
                return Err(invalid(format!("round {round}: `{name}` is named twice"), "an actor is in one group"));
            }
            set |= 1 << actor;
        }
        if set == 0 {
            return Err(invalid(format!("round {round}: a group is empty"), "leave it out"));
        }
        groups.push(set);
    }
    for (from, to) in &text.passes {
        if usize::from(*from.max(to)) >= groups.len() || from == to {
            let what = format!("round {round}: [{from}, {to}] does not name two of the {} groups", groups.len());
            return Err(invalid(what, "groups are named by their positions, from 0"));
        }
    }
    Ok(Round { leader: cast.identity(leader), groups, passes: text.passes.clone() })
}
