//! Flags of `quorate twins`.

use crate::spec::{ProtocolKind, choice};
use clap::{Args, Subcommand};
use quorate_adversary::twins::foreign::FileFormat;
use quorate_adversary::twins::hostile::HostileClient;
use quorate_adversary::twins::run::{Choice, Shard};
use quorate_adversary::twins::scenario::{MAX_ROUNDS, ScenarioError};
use quorate_adversary::twins::space::SpaceError;
use quorate_adversary::twins::{Shape, Space, scenario};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

const SCENARIOS: &str = "Scenarios";
const WHICH: &str = "Selection";
/// Maximum number of scenarios in one run.
const MAX_SCENARIOS: u64 = 1 << 40;
/// Maximum number of threads.
const MAX_THREADS: usize = 1024;

/// Subcommands of `quorate twins`.
#[derive(Subcommand, Clone, Debug)]
pub enum TwinsCommand {
    /// Write scenarios, one per line.
    Generate(GenerateArgs),
    /// Play scenarios on all cores: check the safety of each, and the replicas' progress after it.
    Run(RunArgs),
    /// Play one scenario and print its transcript.
    Replay(ReplayArgs),
    /// Find the simplest scenario that violates the same invariant.
    Shrink(ShrinkArgs),
    /// Convert scenarios from and to the files of relab/hotstuff and DiemBFT.
    Convert(ConvertArgs),
}

/// Shape of scenarios.
#[derive(Args, Clone, Debug)]
pub struct ShapeArgs {
    /// Number of replicas.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 4)]
    pub replicas: usize,
    /// Byzantine replicas to tolerate, f [default: as many as the replicas allow].
    #[arg(long, help_heading = SCENARIOS, value_name = "F")]
    pub faults: Option<usize>,
    /// Replicas with a twin: a second instance with the same key. With more than --faults, safety is not guaranteed.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 1)]
    pub twins: usize,
    /// Hostile client with made-up keys that sends more than blocks can hold: flood, leader-only or one-backup-only
    /// [default: none].
    #[arg(long, help_heading = SCENARIOS, value_name = "CLIENT")]
    pub hostile: Option<HostileClient>,
    /// Maximum number of groups into which a round divides the actors.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 2)]
    pub partitions: usize,
    /// Number of rounds, each one view long.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 7, value_parser = parse_rounds)]
    pub rounds: usize,
    /// Also let messages pass in only one direction between two groups.
    #[arg(long, help_heading = SCENARIOS)]
    pub one_way: bool,
    /// Keep scenarios that are equal up to renaming of honest replicas or of twins.
    #[arg(long, help_heading = SCENARIOS)]
    pub unpruned: bool,
}

/// Selection of scenarios.
#[derive(Args, Clone, Debug)]
pub struct ChoiceArgs {
    /// Draw N scenarios uniformly at random [default: all of them in order].
    #[arg(long, help_heading = WHICH, value_name = "N", conflicts_with = "first", value_parser = parse_count)]
    pub sample: Option<u64>,
    /// Also restart replicas in the sampled scenarios and make them lose their disks: together with twins at most f at
    /// a time, but each in turn.
    #[arg(long, help_heading = WHICH, requires = "sample")]
    pub lost_disks: bool,
    /// Take the first N scenarios in order.
    #[arg(long, help_heading = WHICH, value_name = "N", value_parser = parse_count)]
    pub first: Option<u64>,
    /// Seed of the sample.
    #[arg(long, help_heading = WHICH, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Take the K-th of N parts of the selection, to share it between N machines.
    #[arg(long, help_heading = WHICH, value_name = "K/N", default_value = "1/1", value_parser = parse_shard)]
    pub shard: Shard,
}

/// Flags of `quorate twins generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Print the number of scenarios instead of writing them.
    #[arg(long)]
    pub count: bool,
    /// Write the scenarios to this file; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// Flags of `quorate twins run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The protocol.
    #[arg(long, default_value = "jolteon", value_parser = choice::<ProtocolKind>())]
    pub protocol: ProtocolKind,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Play the scenarios of this file instead.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "replicas", "faults", "twins", "hostile", "partitions", "rounds", "one_way", "unpruned", "sample",
            "lost_disks", "first", "seed"
        ]
    )]
    pub input: Option<PathBuf>,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Write scenarios with violations to this file, if there are any.
    #[arg(long, value_name = "FILE", default_value = "twins-found.jsonl")]
    pub save: PathBuf,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Scenario of a file.
#[derive(Args, Clone, Debug)]
pub struct EntryArgs {
    /// Scenario file, one scenario per line; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Number of the line, from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub line: u64,
    /// The protocol [default: the line's protocol, or else jolteon].
    #[arg(long, value_parser = choice::<ProtocolKind>())]
    pub protocol: Option<ProtocolKind>,
}

/// Flags of `quorate twins replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub entry: EntryArgs,
}

/// Flags of `quorate twins shrink`.
#[derive(Args, Clone, Debug)]
pub struct ShrinkArgs {
    #[command(flatten)]
    pub entry: EntryArgs,
    /// Write the simplest scenario to this file; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// Flags of `quorate twins convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArgs {
    /// Scenario file; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the file.
    #[arg(long, default_value = "quorate", value_parser = choice::<FileFormat>())]
    pub from: FileFormat,
    /// Format to write.
    #[arg(long, default_value = "quorate", value_parser = choice::<FileFormat>())]
    pub to: FileFormat,
    /// Write the scenarios to this file; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// Reason why scenarios could not be generated, run or written.
#[derive(Debug, Error)]
pub enum TwinsError {
    /// The combination of replicas, faults and twins is invalid.
    #[error(transparent)]
    Cast(#[from] ScenarioError),
    /// The scenarios of the shape cannot be counted.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// No replica can lose its disk within the tolerated faults.
    #[error(
        "--lost-disks: {twins} twins are all of f = {faults} faults, so no disk may be lost; help: use fewer --twins \
         or more --replicas"
    )]
    NoDisk { twins: usize, faults: usize },
    /// There are too many scenarios to play or write all of them.
    #[error("there are {count} scenarios, too many; help: draw some with --sample, or take the first with --first")]
    TooMany { count: u128 },
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
    /// A line of a file is not a scenario.
    #[error("{path}, line {line}: {source}")]
    Line {
        path: String,
        /// From 1.
        line: usize,
        source: ScenarioError,
    },
    /// A file of another implementation is invalid, or its format cannot express a scenario.
    #[error("{path}: {source}")]
    Foreign { path: String, source: ScenarioError },
    #[error("{path} has no line {line}: it has {scenarios} scenarios, one per line")]
    NoSuchLine {
        path: String,
        /// From 1.
        line: u64,
        scenarios: usize,
    },
    /// The scenario to shrink violates no invariant.
    #[error(
        "the scenario violates no invariant under {0}, so it cannot be shrunk; help: use another --protocol or --line"
    )]
    Safe(ProtocolKind),
}

impl TwinsError {
    /// Returns whether the arguments are wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        !matches!(self, TwinsError::Write { .. } | TwinsError::Safe(_))
    }
}

impl ShapeArgs {
    /// Returns all scenarios of the shape.
    ///
    /// # Errors
    /// If the replicas, faults and twins do not fit, or there are too many scenarios to count.
    pub fn space(&self) -> Result<Space, TwinsError> {
        let participants = scenario::participants(self.replicas, self.faults, self.twins)?.with_hostile(self.hostile);
        let (partitions, rounds, one_way) = (self.partitions, self.rounds, self.one_way);
        Ok(Space::new(Shape { participants, partitions, rounds, one_way, pruned: !self.unpruned })?)
    }
}

impl ChoiceArgs {
    /// Returns the selection from a space.
    ///
    /// # Errors
    /// If it consists of all scenarios and these are too many.
    pub fn of(&self, space: &Space) -> Result<Choice, TwinsError> {
        let participants = &space.shape().participants;
        match (self.sample, self.first) {
            (Some(_), _) if self.lost_disks && !participants.may_lose_disks() => {
                Err(TwinsError::NoDisk { twins: participants.twins(), faults: participants.quorum().faults() })
            }
            (Some(scenarios), _) if self.lost_disks => Ok(Choice::SampleLosingDisks { scenarios, seed: self.seed }),
            (Some(scenarios), _) => Ok(Choice::Sample { scenarios, seed: self.seed }),
            (None, Some(first)) => Ok(Choice::First(first)),
            (None, None) if space.count() > MAX_SCENARIOS.into() => Err(TwinsError::TooMany { count: space.count() }),
            (None, None) => Ok(Choice::First(MAX_SCENARIOS)),
        }
    }
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse::<usize>().ok().filter(|rounds| (1..=MAX_ROUNDS).contains(rounds));
    rounds.ok_or_else(|| format!("write a whole number from 1 to {MAX_ROUNDS}"))
}

fn parse_count(text: &str) -> Result<u64, String> {
    let count = text.parse::<u64>().ok().filter(|count| (1..=MAX_SCENARIOS).contains(count));
    count.ok_or_else(|| format!("write a whole number from 1 to {MAX_SCENARIOS}"))
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse::<usize>().ok().filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| format!("write a whole number from 1 to {MAX_THREADS}"))
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let help = "help: write two numbers, such as 2/8 for the second of eight parts";
    let (index, of) = text.split_once('/').ok_or(help)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number; {help}"));
    let shard = Shard { index: number(index)?, of: number(of)? };
    if (1..=shard.of).contains(&shard.index) {
        return Ok(shard);
    }
    Err(format!("there is no such part; {help}"))
}
