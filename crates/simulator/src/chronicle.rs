//! What a run tells of its course: how far each replica was from moment to moment, how much it held at most, and which states were
//! fetched.

use crate::faults::Point;
use quorate_types::{Height, ReplicaId, Time};
use std::time::Duration;

/// The first distance between two samples.
const FIRST_DISTANCE: Duration = Duration::from_millis(5);
/// Most samples; when there are more, every other one goes, and they are taken half as often.
const MOST_SAMPLES: usize = 4096;

/// How far the replicas were at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Up to which height each had executed.
    pub heights: Vec<u64>,
    /// How many commands.
    pub commands: Vec<u64>,
}

/// The views and heights that decide what a replica may do next.
pub struct Landmarks {
    /// Its view, those of its last votes and of its lock, those of the certificates on which it stands.
    pub views: Vec<u64>,
    /// What it has committed, locked, and of the certificates.
    pub heights: Vec<u64>,
}

/// How much a replica held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Blocks in the tree.
    pub blocks: usize,
    /// Committed blocks that were kept with their bundles.
    pub whole_blocks: usize,
    /// Rounds of votes, those on checkpoints included.
    pub rounds: usize,
    /// States.
    pub states: usize,
    /// Bytes of these, and of what has come of another.
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

/// A replica fetched a state in place of blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Who.
    pub replica: ReplicaId,
    /// The height of the checkpoint.
    pub height: Height,
    /// When it knew what the state consists of.
    pub begun: Time,
    /// Up to where it had executed.
    pub from: Height,
    /// Chunks of the state.
    pub chunks: u32,
    /// Those that it had already.
    pub held: u32,
    /// Those that came.
    pub received: u32,
    /// When it became that state, if it did.
    pub adopted: Option<Time>,
    /// The point of its life at which it began, and at which it became that state.
    pub points: (Point, Option<Point>),
}

/// The course of a run.
#[derive(Clone, Debug)]
pub struct Chronicle {
    /// In order of time.
    pub samples: Vec<Sample>,
    /// The most of each kind that each replica held at any sample.
    pub most_held: Vec<Holdings>,
    /// In the order in which they began.
    pub fetched: Vec<Fetched>,
    distance: Duration,
    due: Time,
}

impl Chronicle {
    /// Nothing has happened.
    pub fn new(replicas: usize) -> Chronicle {
        Chronicle {
            samples: Vec::new(),
            most_held: vec![Holdings::default(); replicas],
            fetched: Vec::new(),
            distance: FIRST_DISTANCE,
            due: Time(0),
        }
    }

    /// Whether a sample is to be taken before what happens at `next`.
    pub fn is_due(&self, next: Time) -> bool {
        next > self.due
    }

    /// Takes a sample of the replicas: height, commands and holdings of each, before what happens at `next`.
    pub fn sample(&mut self, next: Time, replicas: impl Iterator<Item = (u64, u64, Holdings)>) {
        let (mut heights, mut commands) = (Vec::new(), Vec::new());
        for ((height, executed, held), most) in replicas.zip(&mut self.most_held) {
            heights.push(height);
            commands.push(executed);
            most.raise(held);
        }
        self.samples.push(Sample { at: self.due, heights, commands });
        if self.samples.len() > MOST_SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.distance *= 2;
        }
        // A world in which nothing happens for a while is the same all the time.
        let distance = self.distance.as_nanos() as u64;
        self.due = Time((next.0.saturating_sub(1) / distance + 1) * distance);
    }

    /// A replica becomes the state that it has fetched.
    pub fn adopts(&mut self, now: Time, replica: ReplicaId, height: Height, point: Point) {
        let fetched = self.fetched.iter_mut().rev().find(|fetched| fetched.replica == replica);
        if let Some(fetched) = fetched.filter(|fetched| fetched.height == height) {
            (fetched.adopted, fetched.points.1) = (Some(now), Some(point));
        }
    }

    /// A chunk has come to a replica.
    pub fn receives(&mut self, replica: ReplicaId) {
        if let Some(fetched) = self.fetched.iter_mut().rev().find(|fetched| fetched.replica == replica) {
            fetched.received += 1;
        }
    }
}
