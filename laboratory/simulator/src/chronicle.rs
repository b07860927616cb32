//! Course of a run: samples of each replica's progress, its maximum memory use, and the state transfers.

use crate::faults::Point;
use quorate_types::{Height, ReplicaId, Time};
use std::time::Duration;

/// Initial interval between two samples.
const FIRST_DISTANCE: Duration = Duration::from_millis(5);
/// Maximum number of samples. Beyond it, every other sample is dropped and the interval doubles.
const MAX_SAMPLES: usize = 4096;

/// Progress of the replicas at one point in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    pub at: Time,
    /// Executed height of each replica.
    pub heights: Vec<u64>,
    /// Number of commands that each replica has executed.
    pub commands: Vec<u64>,
}

/// Views and heights that determine a replica's next actions.
pub struct Landmarks {
    /// Views of the replica, its last votes, its lock and its certificates.
    pub views: Vec<u64>,
    /// Heights of its commit, its lock and its certificates.
    pub heights: Vec<u64>,
}

/// Objects that a replica holds in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Blocks in the tree.
    pub blocks: usize,
    /// Committed blocks that still have their bundles.
    pub whole_blocks: usize,
    /// Rounds of votes, including those on checkpoints.
    pub rounds: usize,
    pub states: usize,
    /// Bytes of these states and of the chunks received so far.
    pub state_bytes: usize,
}

impl Holdings {
    fn raise(&mut self, other: Holdings) {
        self.blocks = self.blocks.max(other.blocks);
        self.whole_blocks = self.whole_blocks.max(other.whole_blocks);
        self.rounds = self.rounds.max(other.rounds);
        self.states = self.states.max(other.states);
        self.state_bytes = self.state_bytes.max(other.state_bytes);
    }
}

/// State transfer to a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    pub replica: ReplicaId,
    /// Height of the checkpoint.
    pub height: Height,
    /// Time at which the replica had the state's manifest.
    pub begun: Time,
    /// Height that the replica had executed before.
    pub from: Height,
    /// Number of chunks of the state.
    pub chunks: u32,
    /// Chunks that the replica already had.
    pub held: u32,
    /// Chunks that it received.
    pub received: u32,
    /// Time at which the replica adopted the state, if it did.
    pub adopted: Option<Time>,
    /// Crash points of the replica at which the transfer began and the state was adopted.
    pub points: (Point, Option<Point>),
}

/// Course of a run.
#[derive(Clone, Debug)]
pub struct Chronicle {
    /// Blocks that replicas executed without a bundle, once per replica and bundle in each life.
    pub voided: Vec<(ReplicaId, Height)>,
    /// Replicas that stopped because their state differs from the quorum's, after more disks were lost than the cluster
    /// tolerates.
    pub halted: Vec<(ReplicaId, Time)>,
    /// Samples in chronological order.
    pub samples: Vec<Sample>,
    /// Maximum of each count over all samples, by replica.
    pub max_held: Vec<Holdings>,
    /// State transfers ordered by their start.
    pub fetched: Vec<Fetched>,
    distance: Duration,
    due: Time,
}

impl Chronicle {
    pub fn new(replicas: usize) -> Chronicle {
        Chronicle {
            samples: Vec::new(),
            voided: Vec::new(),
            halted: Vec::new(),
            max_held: vec![Holdings::default(); replicas],
            fetched: Vec::new(),
            distance: FIRST_DISTANCE,
            due: Time(0),
        }
    }

    /// Returns whether a sample is due before the event at `next`.
    pub fn is_due(&self, next: Time) -> bool {
        next > self.due
    }

    /// Takes a sample before the event at `next`, given each replica's height, commands and holdings.
    pub fn sample(&mut self, next: Time, replicas: impl Iterator<Item = (u64, u64, Holdings)>) {
        let (mut heights, mut commands) = (Vec::new(), Vec::new());
        for ((height, executed, held), most) in replicas.zip(&mut self.max_held) {
            heights.push(height);
            commands.push(executed);
            most.raise(held);
        }
        self.samples.push(Sample { at: self.due, heights, commands });
        if self.samples.len() > MAX_SAMPLES {
            self.samples = std::mem::take(&mut self.samples).into_iter().step_by(2).collect();
            self.distance *= 2;
        }
        // Skip sample times without an event in between, since those samples would all be equal.
        let distance = self.distance.as_nanos() as u64;
        self.due = Time((next.0.saturating_sub(1) / distance + 1) * distance);
    }

    /// Records that a replica adopts its fetched state.
    pub fn adopts(&mut self, now: Time, replica: ReplicaId, height: Height, point: Point) {
        let fetched = self.fetched.iter_mut().rev().find(|fetched| fetched.replica == replica);
        if let Some(fetched) = fetched.filter(|fetched| fetched.height == height) {
            (fetched.adopted, fetched.points.1) = (Some(now), Some(point));
        }
    }

    /// Records that a replica receives a chunk.
    pub fn receives(&mut self, replica: ReplicaId) {
        if let Some(fetched) = self.fetched.iter_mut().rev().find(|fetched| fetched.replica == replica) {
            fetched.received += 1;
        }
    }
}
