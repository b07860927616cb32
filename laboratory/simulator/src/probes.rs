//! Stages of the replicas' work in a simulation, in the form in which a replica's probes report them.
//!
//! Each kind of work belongs to one stage ([`Work::stage`]), so the stages add up to the total charge. System calls
//! that read from or write to replicas' links move frames of several kinds, so they are charged to no message, as in
//! the node's probes.

use crate::steps::StepKind;
use crate::work::{Place, Work};
use quorate_types::stages::{MessageKind, Stage, StageCell, StageCounts, StageRole, Traffic};

/// Name of the cycle counter in the results of simulations.
pub const COUNTER: &str = "charges";
const PS_PER_S: f64 = 1e12;
const PS_PER_NS: u64 = 1000;

const ROLES: usize = StageRole::ALL.len();
const KINDS: usize = MessageKind::ALL.len();
const STAGES: usize = Stage::ALL.len();
const WORKS: usize = Work::ALL.len();

/// Frames of one kind in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Frames {
    frames: u64,
    bytes: u64,
}

/// Charges by role, message and work.
#[derive(Clone, PartialEq, Debug)]
pub struct Probes {
    pub(crate) turns: u64,
    /// Picoseconds by role, message and work.
    charged: Vec<u64>,
    /// Messages by role, message and stage.
    messages: Vec<u64>,
    /// Frames by role, message and direction.
    traffic: Vec<Frames>,
    /// The steps' part of the charges, by message and kind of input, in picoseconds.
    steps: Vec<u64>,
}

impl Default for Probes {
    fn default() -> Probes {
        Probes {
            turns: 0,
            charged: vec![0; ROLES * KINDS * WORKS],
            messages: vec![0; ROLES * KINDS * STAGES],
            traffic: vec![Frames::default(); ROLES * KINDS * 2],
            steps: vec![0; KINDS * StepKind::ALL.len()],
        }
    }
}

fn at(role: StageRole, message: MessageKind) -> usize {
    role as usize * KINDS + message as usize
}

/// Returns whether frames of a kind have their own reads and writes, as on clients' links.
fn moves_alone(message: MessageKind) -> bool {
    matches!(message, MessageKind::Request | MessageKind::Reply | MessageKind::Question)
}

/// Returns the kind of message to which a stage's work is attributed.
fn counted_as(message: MessageKind, stage: Stage) -> MessageKind {
    let is_shared = matches!(stage, Stage::Receive | Stage::Send) && !moves_alone(message);
    if is_shared { MessageKind::None } else { message }
}

impl Probes {
    /// Adds work on the messages at a place.
    pub(crate) fn charge(&mut self, place: &mut Place, work: Work, picoseconds: u64) {
        let stage = work.stage();
        let cell = at(place.role, counted_as(place.message, stage));
        self.charged[cell * WORKS + work as usize] += picoseconds;
        let bit = 1u16 << (stage as u16);
        let is_first = place.seen & bit == 0;
        if is_first && picoseconds > 0 && !matches!(stage, Stage::Receive | Stage::Send) {
            place.seen |= bit;
            self.messages[cell * STAGES + stage as usize] += place.messages;
        }
    }

    pub(crate) fn split_step(&mut self, message: MessageKind, kind: StepKind, picoseconds: u64) {
        self.steps[message as usize * StepKind::ALL.len() + kind as usize] += picoseconds;
    }

    /// Adds frames that were received or sent.
    pub(crate) fn moved(&mut self, place: &Place, is_sent: bool, frames: u64, bytes: u64) {
        let moved = &mut self.traffic[at(place.role, place.message) * 2 + usize::from(is_sent)];
        (moved.frames, moved.bytes) = (moved.frames + frames, moved.bytes + bytes);
        let stage = if is_sent { Stage::Send } else { Stage::Receive };
        self.messages[at(place.role, counted_as(place.message, stage)) * STAGES + stage as usize] += frames;
    }

    pub(crate) fn add(&mut self, other: &Probes) {
        self.zip(other, |sum, more| sum + more);
    }

    pub(crate) fn since(&self, earlier: &Probes) -> Probes {
        let mut grown = self.clone();
        grown.zip(earlier, |now, then| now - then);
        grown
    }

    fn zip(&mut self, other: &Probes, with: impl Fn(u64, u64) -> u64) {
        self.turns = with(self.turns, other.turns);
        let own = [&mut self.charged, &mut self.messages, &mut self.steps];
        for (own, other) in own.into_iter().zip([&other.charged, &other.messages, &other.steps]) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own = with(*own, *other));
        }
        for (own, other) in self.traffic.iter_mut().zip(&other.traffic) {
            (own.frames, own.bytes) = (with(own.frames, other.frames), with(own.bytes, other.bytes));
        }
    }

    /// Returns the charge for a kind of work on a kind of message, over replicas of all roles, in picoseconds.
    pub fn charged(&self, message: MessageKind, work: Work) -> u64 {
        StageRole::ALL.iter().map(|role| self.charged[at(*role, message) * WORKS + work as usize]).sum()
    }

    /// Returns the charge for a message's steps with this kind of input, in picoseconds.
    pub fn step(&self, message: MessageKind, kind: StepKind) -> u64 {
        self.steps[message as usize * StepKind::ALL.len() + kind as usize]
    }

    /// Returns the counts in the form of a replica's report, with all iterations timed.
    pub(crate) fn counts(&self, counter_hz: f64, total: u64) -> StageCounts {
        let mut cells = Vec::new();
        let mut traffic = Vec::new();
        for (role, message) in StageRole::ALL.iter().flat_map(|role| MessageKind::ALL.map(|kind| (*role, kind))) {
            let own = at(role, message);
            let (role, message) = (role as usize, message as usize);
            for stage in Stage::ALL {
                let works = Work::ALL.into_iter().filter(|work| work.stage() == stage);
                let picoseconds: u64 = works.map(|work| self.charged[own * WORKS + work as usize]).sum();
                let timed = self.messages[own * STAGES + stage as usize];
                if timed > 0 || picoseconds > 0 {
                    let cycles = (picoseconds as f64 * counter_hz / PS_PER_S).round() as u64;
                    let sampled = timed.max(1);
                    cells.push(StageCell { role, message, stage: stage as usize, sampled, timed: sampled, cycles });
                }
            }
            for is_sent in [false, true] {
                let Frames { frames, bytes } = self.traffic[own * 2 + usize::from(is_sent)];
                if frames > 0 {
                    traffic.push(Traffic { role, message, is_sent, frames, bytes, sampled: frames });
                }
            }
        }
        StageCounts {
            counter: COUNTER.to_owned(),
            counter_hz,
            turns: [self.turns, self.turns, 0],
            timed_cpu_ns: total / PS_PER_NS,
            cells,
            traffic,
        }
    }
}
