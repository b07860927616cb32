//! Scenarios in the files of other Twins implementations: those of `relab/hotstuff`, and of the Twins test executor
//! written for LibraBFT, which became DiemBFT.

use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::scenario::{Entry, MAX_ROUNDS, Round, Scenario, ScenarioError, participants};
use quorate_types::{Fault, Quorum, ReplicaId, choice};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Duration of a view in ticks that `relab/hotstuff` uses by default.
const TICKS: u32 = 100;

choice!(
    /// Format of a scenario file.
    #[derive(Default)]
    FileFormat, "format of scenarios",
    /// One scenario per line, as `quorate twins generate` writes them.
    #[default]
    Quorate = "quorate",
    /// A list of scenarios with its settings, as `hotstuff twins generate` of `relab/hotstuff` writes it.
    Relab = "relab",
    /// A list of scenarios with leaders and partitions by round, as DiemBFT's executor of test cases reads it.
    Diem = "diem",
);

/// Instance in a file of `relab/hotstuff`. Replicas are counted from 1. Replicas without a second instance have the
/// twin ID 0, the instances of others 1 and 2.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RelabNode {
    #[serde(rename = "ReplicaID")]
    replica: u64,
    #[serde(rename = "TwinID")]
    twin: u64,
}

#[derive(Serialize, Deserialize)]
struct RelabView {
    leader: u64,
    partitions: Vec<Vec<RelabNode>>,
}

#[derive(Serialize, Deserialize)]
struct RelabFile {
    num_nodes: usize,
    num_twins: usize,
    partitions: usize,
    views: usize,
    #[serde(default)]
    ticks: u32,
    #[serde(default)]
    shuffle: bool,
    #[serde(default)]
    seed: i64,
    scenarios: Vec<Vec<RelabView>>,
}

/// Scenario of DiemBFT's executor. Instances are counted from 0, second instances after all first ones.
#[derive(Serialize, Deserialize)]
struct DiemCase {
    round_leaders: BTreeMap<usize, usize>,
    round_partitions: BTreeMap<usize, Vec<Vec<usize>>>,
}

#[derive(Serialize, Deserialize)]
struct DiemFile {
    num_of_nodes: usize,
    num_of_twins: usize,
    scenarios: Vec<DiemCase>,
}

fn invalid(place: String, what: impl Into<String>, help: &str) -> ScenarioError {
    Fault::new(place, what, help).into()
}

/// Returns the place of a round in errors.
fn at(scenario: usize, round: usize) -> String {
    format!("scenario {}, round {round}", scenario + 1)
}

/// Parses all scenarios of a foreign file.
///
/// # Errors
/// If the text is not JSON of this form, which the error names by line and column, or a scenario is invalid, which it
/// names by the scenario and the round.
pub fn parse(text: &str, format: FileFormat) -> Result<Vec<Scenario>, ScenarioError> {
    match format {
        FileFormat::Relab => relab(serde_json::from_str(text)?),
        FileFormat::Diem => diem(serde_json::from_str(text)?),
        FileFormat::Quorate => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.map(|line| Ok(Entry::from_line(line)?.scenario)).collect()
        }
    }
}

/// Formats scenarios as a foreign file.
///
/// # Errors
/// If the format cannot express a scenario, or scenarios have different participants.
pub fn format(scenarios: &[Scenario], format: FileFormat) -> Result<String, ScenarioError> {
    if format == FileFormat::Quorate {
        let line = |own: &Scenario| Entry::from(own.clone()).to_line() + "\n";
        return Ok(scenarios.iter().map(line).collect());
    }
    let Some(first) = scenarios.first() else {
        return Err(invalid("file".into(), "there are no scenarios", "give one at least"));
    };
    for (number, scenario) in scenarios.iter().enumerate() {
        expressible(number, scenario, &first.participants)?;
    }
    let text = match format {
        FileFormat::Relab => serde_json::to_string_pretty(&to_relab(scenarios, &first.participants)),
        _ => serde_json::to_string_pretty(&to_diem(scenarios, &first.participants)),
    };
    Ok(text.expect("scenarios are plain data") + "\n")
}

/// Checks that both foreign formats can express a scenario.
fn expressible(number: usize, scenario: &Scenario, first: &Participants) -> Result<(), ScenarioError> {
    let place = format!("scenario {}", number + 1);
    let own = &scenario.participants;
    if own != first {
        let help = "write scenarios of one shape to one file";
        return Err(invalid(place, "has other replicas or twins than the first one", help));
    }
    if Quorum::of(own.replicas()).ok() != Some(own.quorum()) {
        let what = format!("tolerates {} faults, not the maximum for its replicas", own.quorum().faults());
        return Err(invalid(place, what, "the format has no such key; leave `faults` out"));
    }
    if own.hostile().is_some() {
        return Err(invalid(place, "has a hostile client", "the format has no such key; leave `hostile` out"));
    }
    for (round, own) in scenario.rounds.iter().enumerate() {
        let key = match own {
            Round { passes, .. } if !passes.is_empty() => "passes",
            Round { restarts, .. } if *restarts != 0 => "restarts",
            Round { lost_disks, .. } if *lost_disks != 0 => "lost_disks",
            _ => continue,
        };
        return Err(invalid(at(number, round + 1), format!("has `{key}`"), "the format has no such key; leave it out"));
    }
    Ok(())
}

fn check_rounds(number: usize, rounds: usize) -> Result<(), ScenarioError> {
    match rounds {
        1..=MAX_ROUNDS => Ok(()),
        _ => {
            let what = format!("has {rounds} rounds, not 1 to {MAX_ROUNDS}");
            Err(invalid(format!("scenario {}", number + 1), what, "write another number of rounds"))
        }
    }
}

/// Returns groups of instances, none of which is in two groups. Empty groups are left out.
fn groups<T: Copy>(
    place: &str,
    groups: &[Vec<T>],
    find: impl Fn(T) -> Result<InstanceId, ScenarioError>,
) -> Result<Vec<InstanceSet>, ScenarioError> {
    let (mut seen, mut all): (InstanceSet, Vec<InstanceSet>) = (0, Vec::new());
    for group in groups {
        let mut set: InstanceSet = 0;
        for member in group {
            let InstanceId(instance) = find(*member)?;
            if (seen | set) >> instance & 1 == 1 {
                let what = format!("instance {instance} is named twice");
                return Err(invalid(place.to_owned(), what, "name each instance once"));
            }
            set |= 1 << instance;
        }
        seen |= set;
        all.extend((set != 0).then_some(set));
    }
    Ok(all)
}

fn round(leader: ReplicaId, groups: Vec<InstanceSet>) -> Round {
    Round { leader, groups, passes: Vec::new(), restarts: 0, lost_disks: 0 }
}

fn relab(file: RelabFile) -> Result<Vec<Scenario>, ScenarioError> {
    let all = participants(file.num_nodes, None, file.num_twins)?;
    let replica = |place: &str, id: u64| {
        let index = id.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.filter(|index| *index < all.replicas()).ok_or_else(|| {
            let what = format!("names the replica {id} of {}", all.replicas());
            invalid(place.to_owned(), what, "replicas are counted from 1, up to `num_nodes`")
        })
    };
    let scenario = |(number, views): (usize, Vec<RelabView>)| {
        check_rounds(number, views.len())?;
        let view = |(index, view): (usize, RelabView)| {
            let place = at(number, index + 1);
            let find = |node: RelabNode| {
                let index = replica(&place, node.replica)?;
                match (node.twin, index < all.twins()) {
                    (0, false) | (1, true) => Ok(InstanceId(index)),
                    (2, true) => Ok(InstanceId(all.replicas() + index)),
                    (twin, is_twin) => {
                        let what = format!("names the twin {twin} of replica {}", node.replica);
                        let help = match is_twin {
                            true => "the instances of the first `num_twins` replicas have the twin IDs 1 and 2",
                            false => "replicas after the first `num_twins` have the twin ID 0",
                        };
                        Err(invalid(place.clone(), what, help))
                    }
                }
            };
            let leader = ReplicaId(replica(&place, view.leader)? as u16);
            Ok(round(leader, groups(&place, &view.partitions, find)?))
        };
        let rounds = views.into_iter().enumerate().map(view).collect::<Result<_, ScenarioError>>()?;
        Ok(Scenario { participants: all.clone(), rounds })
    };
    file.scenarios.into_iter().enumerate().map(scenario).collect()
}

fn diem(file: DiemFile) -> Result<Vec<Scenario>, ScenarioError> {
    let all = participants(file.num_of_nodes, None, file.num_of_twins)?;
    let instance = |place: &str, index: usize| match index < all.len() {
        true => Ok(InstanceId(index)),
        false => {
            let what = format!("names the instance {index} of {}", all.len());
            let help = "instances are counted from 0: the nodes, followed by the second instances of the first ones";
            Err(invalid(place.to_owned(), what, help))
        }
    };
    let scenario = |(number, case): (usize, DiemCase)| {
        let numbers = || case.round_leaders.keys().chain(case.round_partitions.keys()).copied();
        let last = numbers().max().unwrap_or(0);
        check_rounds(number, last)?;
        if numbers().min() == Some(0) {
            return Err(invalid(at(number, 0), "there is no round 0", "count rounds from 1"));
        }
        let one = |number_of_round: usize| {
            let place = at(number, number_of_round);
            // Without an entry the first replica leads, and there are no partitions.
            let leader = case.round_leaders.get(&number_of_round).copied().unwrap_or(0);
            let leader = all.identity(instance(&place, leader)?);
            let groups = match case.round_partitions.get(&number_of_round) {
                Some(partitions) => groups(&place, partitions, |index| instance(&place, index))?,
                None => vec![all.everybody()],
            };
            Ok(round(leader, groups))
        };
        let rounds = (1..=last).map(one).collect::<Result<_, ScenarioError>>()?;
        Ok(Scenario { participants: all.clone(), rounds })
    };
    file.scenarios.into_iter().enumerate().map(scenario).collect()
}

/// Returns the members of a group.
fn members(group: InstanceSet, participants: &Participants) -> impl Iterator<Item = InstanceId> {
    participants.instances().filter(move |instance| group >> instance.0 & 1 == 1)
}

fn to_relab(scenarios: &[Scenario], participants: &Participants) -> RelabFile {
    let node = |instance: InstanceId| {
        let identity = participants.identity(instance);
        let twin = match (participants.is_twin(identity), instance.0 < participants.replicas()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        RelabNode { replica: u64::from(identity.0) + 1, twin }
    };
    let view = |round: &Round| RelabView {
        leader: u64::from(round.leader.0) + 1,
        partitions: round.groups.iter().map(|group| members(*group, participants).map(node).collect()).collect(),
    };
    let rounds = || scenarios.iter().flat_map(|scenario| &scenario.rounds);
    RelabFile {
        num_nodes: participants.replicas(),
        num_twins: participants.twins(),
        partitions: rounds().map(|round| round.groups.len()).max().unwrap_or(1),
        views: scenarios.iter().map(|scenario| scenario.rounds.len()).max().unwrap_or(1),
        ticks: TICKS,
        shuffle: false,
        seed: 0,
        scenarios: scenarios.iter().map(|scenario| scenario.rounds.iter().map(view).collect()).collect(),
    }
}

fn to_diem(scenarios: &[Scenario], participants: &Participants) -> DiemFile {
    let case = |scenario: &Scenario| {
        let rounds = || scenario.rounds.iter().enumerate().map(|(index, round)| (index + 1, round));
        let partitions = |round: &Round| {
            let group = |group: &InstanceSet| members(*group, participants).map(|instance| instance.0).collect();
            round.groups.iter().map(group).collect()
        };
        DiemCase {
            round_leaders: rounds().map(|(number, round)| (number, round.leader.index())).collect(),
            round_partitions: rounds().map(|(number, round)| (number, partitions(round))).collect(),
        }
    };
    DiemFile {
        num_of_nodes: participants.replicas(),
        num_of_twins: participants.twins(),
        scenarios: scenarios.iter().map(case).collect(),
    }
}
