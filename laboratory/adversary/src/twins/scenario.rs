//! Scenarios, which define the leader and the links of each view, and their file format.

use crate::twins::checker::Violation;
use crate::twins::hostile::HostileClient;
use crate::twins::participants::{InstanceId, InstanceSet, MAX_INSTANCES, Participants};
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
    /// Groups whose members receive each other's messages. An instance in no group is isolated.
    pub groups: Vec<InstanceSet>,
    /// One-way links as (from, to), by position in `groups`.
    pub passes: Vec<(u8, u8)>,
    /// Replicas that restart from their journals when the view begins.
    pub restarts: InstanceSet,
    /// Replicas that restart without their disks when the view begins, as far as there are never more than f faults.
    pub lost_disks: InstanceSet,
}

/// A script for a cast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    pub participants: Participants,
    /// One round per view, from view 1.
    pub rounds: Vec<Round>,
}

/// A line of a scenario file: the scenario, and optionally its protocol and finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub scenario: Scenario,
    pub protocol: Option<ProtocolKind>,
    pub found: Option<Violation>,
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
    found: Option<Violation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundText {
    leader: String,
    groups: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    passes: Vec<(u8, u8)>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    restarts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    lost_disks: Vec<String>,
}

impl Scenario {
    /// Returns whether any replica restarts.
    pub fn restarts(&self) -> bool {
        self.rounds.iter().any(|round| round.restarts | round.lost_disks != 0)
    }

    /// Returns the names of a group's members.
    fn group_text(&self, group: InstanceSet) -> Vec<String> {
        let members = self.participants.instances().filter(|instance| group >> instance.0 & 1 == 1);
        members.map(|instance| self.participants.name(instance)).collect()
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
        let Scenario { participants, rounds } = &self.scenario;
        let round = |round: &Round| RoundText {
            leader: format!("{:?}", round.leader),
            groups: round.groups.iter().map(|group| self.scenario.group_text(*group)).collect(),
            passes: round.passes.clone(),
            restarts: self.scenario.group_text(round.restarts),
            lost_disks: self.scenario.group_text(round.lost_disks),
        };
        let usual = Quorum::of(participants.replicas()).expect("a cast has a committee");
        let text = EntryText {
            protocol: self.protocol,
            replicas: participants.replicas(),
            faults: (participants.quorum() != usual).then(|| participants.quorum().faults()),
            twins: participants.twins(),
            hostile: participants.hostile(),
            rounds: rounds.iter().map(round).collect(),
            found: self.found.clone(),
        };
        serde_json::to_string(&text).expect("a scenario is plain data")
    }

    /// Parses a line.
    ///
    /// # Errors
    /// If the line is not JSON or describes an invalid scenario.
    pub fn from_line(line: &str) -> Result<Entry, ScenarioError> {
        let text: EntryText = serde_json::from_str(line)?;
        let participants = participants(text.replicas, text.faults, text.twins)?.with_hostile(text.hostile);
        if text.rounds.is_empty() || text.rounds.len() > MAX_ROUNDS {
            let what = format!("a scenario has between 1 and {MAX_ROUNDS} rounds, not {}", text.rounds.len());
            return Err(invalid(what, "write another number of rounds"));
        }
        let rounds = text.rounds.iter().enumerate().map(|(at, round)| parse_round(at, round, &participants));
        let rounds = rounds.collect::<Result<Vec<Round>, ScenarioError>>()?;
        Ok(Entry { scenario: Scenario { participants, rounds }, protocol: text.protocol, found: text.found })
    }
}

/// Returns a cast of `replicas` replicas and `twins` twins; `faults` defaults to the maximum that the replicas
/// tolerate.
///
/// # Errors
/// If the numbers do not fit together.
pub fn participants(replicas: usize, faults: Option<usize>, twins: usize) -> Result<Participants, ScenarioError> {
    let quorum = match faults {
        None => Quorum::of(replicas),
        Some(faults) => Quorum::with_faults(replicas, faults),
    };
    let quorum = quorum.map_err(|error| invalid(error.to_string(), "set another number of replicas"))?;
    if twins > replicas {
        let what = format!("{twins} of {replicas} replicas cannot be twins");
        return Err(invalid(what, "set at most as many twins as replicas"));
    }
    if replicas + twins > MAX_INSTANCES {
        let what = format!("{replicas} replicas and {twins} twins are more than {MAX_INSTANCES} instances");
        return Err(invalid(what, "set fewer"));
    }
    Ok(Participants::new(quorum, twins))
}

fn parse_round(at: usize, text: &RoundText, participants: &Participants) -> Result<Round, ScenarioError> {
    let round = at + 1;
    let names = || participants.names(participants.everybody());
    let find = |name: &String| {
        let what = || format!("round {round}: there is no `{name}`");
        participants.find(name).ok_or_else(|| invalid(what(), format!("the instances are {}", names())))
    };
    let leader = find(&text.leader)?;
    if leader.0 >= participants.replicas() {
        let what = format!("round {round}: the leader is `{}`, one of two instances", text.leader);
        return Err(invalid(what, "name the identity: both instances lead"));
    }
    let mut groups: Vec<InstanceSet> = Vec::with_capacity(text.groups.len());
    for group in &text.groups {
        let mut set: InstanceSet = 0;
        for name in group {
            let InstanceId(instance) = find(name)?;
            if groups.iter().chain([&set]).any(|earlier| earlier >> instance & 1 == 1) {
                return Err(invalid(format!("round {round}: `{name}` is named twice"), "an instance is in one group"));
            }
            set |= 1 << instance;
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
    let (restarts, lost_disks) = parse_restarts(round, text, participants)?;
    let (leader, passes) = (participants.identity(leader), text.passes.clone());
    Ok(Round { leader, groups, passes, restarts, lost_disks })
}

/// Returns the replicas that restart from their journals in a round, and the replicas that restart without their disks.
fn parse_restarts(
    round: usize,
    text: &RoundText,
    participants: &Participants,
) -> Result<(InstanceSet, InstanceSet), ScenarioError> {
    let honest = participants.honest().fold(0, |set, identity| set | 1 << identity.index());
    let mut all: InstanceSet = 0;
    let mut set_of = |key: &str, names: &[String]| {
        let mut set: InstanceSet = 0;
        for name in names {
            let known = participants.find(name).filter(|instance| honest >> instance.0 & 1 == 1);
            let Some(InstanceId(instance)) = known else {
                let what = format!("round {round}: `{key}` names `{name}`");
                return Err(invalid(what, format!("name any of {}", participants.names(honest))));
            };
            if all >> instance & 1 == 1 {
                let what = format!("round {round}: `{name}` restarts twice");
                return Err(invalid(what, "name it once, in `restarts` or in `lost_disks`"));
            }
            all |= 1 << instance;
            set |= 1 << instance;
        }
        Ok(set)
    };
    let (restarts, lost_disks) = (set_of("restarts", &text.restarts)?, set_of("lost_disks", &text.lost_disks)?);
    if lost_disks != 0 && !participants.may_lose_disks() {
        let (twins, faults) = (participants.twins(), participants.quorum().faults());
        let what = format!("round {round}: `lost_disks`: the {twins} twins are all of f = {faults} faults");
        return Err(invalid(what, "set fewer twins, or more replicas"));
    }
    Ok((restarts, lost_disks))
}
