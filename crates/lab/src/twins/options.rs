//! The flags of `quorate twins`.

use crate::spec::{ProtocolKind, choice};
use clap::{Args, Subcommand};
use quorate_twins::hostile::HostileClient;
use quorate_twins::run::{Choice, Shard};
use quorate_twins::scenario::{MAX_ROUNDS, ScenarioError};
use quorate_twins::space::SpaceError;
use quorate_twins::{Shape, Space, scenario};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Help headings.
const SCENARIOS: &str = "Scenarios";
const WHICH: &str = "Selection";
/// Most scenarios of one run.
const MOST_SCENARIOS: u64 = 1 << 40;
/// Most threads.
const MOST_THREADS: usize = 1024;

/// What `quorate twins` does.
#[derive(Subcommand, Clone, Debug)]
pub enum TwinsCommand {
    /// Write scenarios, one a line.
    Generate(GenerateArgs),
    /// Play scenarios on all cores: is each of them safe, and do replicas go on when it is over?
    Run(RunArgs),
    /// Play one scenario and print what happens.
    Replay(ReplayArgs),
    /// Find the simplest scenario that still breaks the law that this one breaks.
    Shrink(ShrinkArgs),
}

/// What scenarios have in common.
#[derive(Args, Clone, Debug)]
pub struct ShapeArgs {
    /// Number of replicas.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 4)]
    pub replicas: usize,
    /// Byzantine replicas to tolerate, f [default: as many as the replicas allow].
    #[arg(long, help_heading = SCENARIOS, value_name = "F")]
    pub faults: Option<usize>,
    /// Replicas that have a twin: a second instance with the same key. With more than --faults nothing is promised.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 1)]
    pub twins: usize,
    /// A hostile client sends more than blocks hold, under made-up keys: flood, leader-only or one-backup-only [default: none].
    #[arg(long, help_heading = SCENARIOS, value_name = "CLIENT")]
    pub hostile: Option<HostileClient>,
    /// Most groups into which a round divides the actors.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 2)]
    pub partitions: usize,
    /// Rounds, of a view each.
    #[arg(long, help_heading = SCENARIOS, value_name = "N", default_value_t = 7, value_parser = parse_rounds)]
    pub rounds: usize,
    /// Between two groups messages may also pass one way.
    #[arg(long, help_heading = SCENARIOS)]
    pub one_way: bool,
    /// Keep scenarios that are equal up to a renaming of honest replicas or of twins.
    #[arg(long, help_heading = SCENARIOS)]
    pub unpruned: bool,
}

/// Which scenarios.
#[derive(Args, Clone, Debug)]
pub struct ChoiceArgs {
    /// Draw N scenarios at random, all with equal chances [default: all of them in order].
    #[arg(long, help_heading = WHICH, value_name = "N", conflicts_with = "first", value_parser = parse_count)]
    pub sample: Option<u64>,
    /// Take the first N in order.
    #[arg(long, help_heading = WHICH, value_name = "N", value_parser = parse_count)]
    pub first: Option<u64>,
    /// Seed of the sample.
    #[arg(long, help_heading = WHICH, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Take the K-th of N parts of the selection, for N machines.
    #[arg(long, help_heading = WHICH, value_name = "K/N", default_value = "1/1", value_parser = parse_shard)]
    pub shard: Shard,
}

/// All flags of `quorate twins generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// What they have in common.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Which.
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Print the number of scenarios, and write none.
    #[arg(long)]
    pub count: bool,
    /// Write them to this file; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// All flags of `quorate twins run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The protocol.
    #[arg(long, default_value = "jolteon", value_parser = choice::<ProtocolKind>())]
    pub protocol: ProtocolKind,
    /// What scenarios have in common.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Which.
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Play the scenarios of this file instead.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "replicas", "faults", "twins", "hostile", "partitions", "rounds", "one_way", "unpruned", "sample", "first", "seed"
        ]
    )]
    pub input: Option<PathBuf>,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Write scenarios that break a law to this file, if there are any.
    #[arg(long, value_name = "FILE", default_value = "twins-found.jsonl")]
    pub save: PathBuf,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// One scenario of a file.
#[derive(Args, Clone, Debug)]
pub struct EntryArgs {
    /// A file of scenarios, one a line; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which line, from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub line: u64,
    /// The protocol [default: the one of the line, or else jolteon].
    #[arg(long, value_parser = choice::<ProtocolKind>())]
    pub protocol: Option<ProtocolKind>,
}

/// All flags of `quorate twins replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The scenario.
    #[command(flatten)]
    pub entry: EntryArgs,
}

/// All flags of `quorate twins shrink`.
#[derive(Args, Clone, Debug)]
pub struct ShrinkArgs {
    /// The scenario.
    #[command(flatten)]
    pub entry: EntryArgs,
    /// Where the simplest one goes; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// Why there is nothing to show.
#[derive(Debug, Error)]
pub enum TwinsError {
    /// There is no such cast.
    #[error(transparent)]
    Cast(#[from] ScenarioError),
    /// Its scenarios cannot be counted.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// There are too many to play or write them all.
    #[error("there are {count} scenarios; draw some with --sample, or take the first with --first")]
    TooMany {
        /// How many.
        count: u128,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A line of a file is no scenario.
    #[error("{path}, line {line}: {source}")]
    Line {
        /// The file.
        path: String,
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        source: ScenarioError,
    },
    /// A file has fewer scenarios.
    #[error("{path} has no scenario in line {line}; it has {scenarios} scenarios, one a line")]
    NoSuchLine {
        /// The file.
        path: String,
        /// Which, from 1.
        line: u64,
        /// How many scenarios it has.
        scenarios: usize,
    },
    /// Nothing is wrong with a scenario that is to be shrunk.
    #[error(
        "the scenario breaks no law under {0}, so that there is nothing to keep while it is shrunk; name another --protocol or --line"
    )]
    Safe(ProtocolKind),
}

impl TwinsError {
    /// Whether what the caller gave cannot be used, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        !matches!(self, TwinsError::Write { .. } | TwinsError::Safe(_))
    }
}

impl ShapeArgs {
    /// All scenarios of the shape.
    ///
    /// # Errors
    /// If there is no such cast, or there are too many scenarios to count.
    pub fn space(&self) -> Result<Space, TwinsError> {
        let cast = scenario::cast(self.replicas, self.faults, self.twins)?.with_hostile(self.hostile);
        let (partitions, rounds, one_way) = (self.partitions, self.rounds, self.one_way);
        Ok(Space::new(Shape { cast, partitions, rounds, one_way, pruned: !self.unpruned })?)
    }
}

impl ChoiceArgs {
    /// Which scenarios of a space.
    ///
    /// # Errors
    /// If all of them would be too many.
    pub fn of(&self, space: &Space) -> Result<Choice, TwinsError> {
        match (self.sample, self.first) {
            (Some(scenarios), _) => Ok(Choice::Sample { scenarios, seed: self.seed }),
            (None, Some(first)) => Ok(Choice::First(first)),
            (None, None) if space.count() > MOST_SCENARIOS.into() => Err(TwinsError::TooMany { count: space.count() }),
            (None, None) => Ok(Choice::First(MOST_SCENARIOS)),
        }
    }
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse::<usize>().ok().filter(|rounds| (1..=MAX_ROUNDS).contains(rounds));
    rounds.ok_or_else(|| format!("write a whole number from 1 to {MAX_ROUNDS}"))
}

fn parse_count(text: &str) -> Result<u64, String> {
    let count = text.parse::<u64>().ok().filter(|count| (1..=MOST_SCENARIOS).contains(count));
    count.ok_or_else(|| format!("write a whole number from 1 to {MOST_SCENARIOS}"))
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse::<usize>().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("write a whole number from 1 to {MOST_THREADS}"))
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let help = "write two numbers, such as 2/8 for the second of eight parts";
    let (index, of) = text.split_once('/').ok_or(help)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no whole number; {help}"));
    let shard = Shard { index: number(index)?, of: number(of)? };
    match (1..=shard.of).contains(&shard.index) {
        true => Ok(shard),
        false => Err(format!("there is no such part; {help}")),
    }
}
