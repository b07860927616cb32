//! Counts and times of stages, and the resulting costs.

use super::{MessageKind, Stage, StageRole};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fixed cost of a frame, as the number of bytes received or sent in the same time. Only decides how the cost of a
/// system call is divided among the frames that it moves.
const BYTES_FOR_EACH_FRAME: u64 = 256;
const NS_PER_S: f64 = 1e9;

/// Messages of one kind in one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StageCell {
    pub role: usize,
    pub message: usize,
    pub stage: usize,
    /// Messages with this stage in timed iterations.
    pub sampled: u64,
    /// Messages with this stage in timed iterations that count, and their cycles.
    pub timed: u64,
    pub cycles: u64,
}

/// Received or sent frames of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    pub role: usize,
    pub message: usize,
    pub is_sent: bool,
    pub frames: u64,
    pub bytes: u64,
    /// Frames in timed iterations.
    pub sampled: u64,
}

/// Counts and times of a thread since it began, or their growth. Indices are positions in [`StageRole::ALL`],
/// [`MessageKind::ALL`] and [`Stage::ALL`]; unknown ones from another release are ignored.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StageCounts {
    /// Name of the cycle counter.
    pub counter: String,
    /// Cycles per second.
    pub counter_hz: f64,
    /// Event-loop iterations: total, timed, and timed but discarded because the thread was preempted.
    pub turns: [u64; 3],
    /// CPU time of the timed iterations that count, in nanoseconds.
    pub timed_cpu_ns: u64,
    /// Without empty cells.
    pub cells: Vec<StageCell>,
    pub traffic: Vec<Traffic>,
}

/// Mean cost of a stage for one message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StageCost {
    pub message: MessageKind,
    pub stage: Stage,
    pub role: StageRole,
    /// Cycles of [`StageCounts::counter`] per message; `None` if no iteration with such a message was timed.
    pub cycles: Option<f64>,
    /// The same in nanoseconds.
    pub nanoseconds: Option<f64>,
    /// Messages with this stage: received, sent, or handled. Exact for frames between replicas, otherwise an estimate.
    /// For [`Stage::Host`], the count of the stage with the most messages.
    pub count: u64,
}

type Key = (usize, usize, usize);

/// Counts the host's remaining work on a message kind by the messages of its other stages, because several calls of the
/// host may work on one message. Sent frames count once per recipient, so they are excluded.
fn count_host_by_messages(totals: &mut BTreeMap<Key, (u64, Option<f64>)>) {
    let mut most: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for ((role, message, stage), (count, _)) in totals.iter() {
        if ![Stage::Host as usize, Stage::Send as usize].contains(stage) {
            let messages = most.entry((*role, *message)).or_insert(0);
            *messages = (*messages).max(*count);
        }
    }
    for ((role, message, stage), (count, _)) in totals.iter_mut() {
        if *stage == Stage::Host as usize && *message != MessageKind::None as usize {
            *count = most.get(&(*role, *message)).copied().unwrap_or(*count);
        }
    }
}

impl StageCounts {
    /// Returns the growth since an earlier reading.
    pub fn since(&self, earlier: &StageCounts) -> StageCounts {
        let mut grown = self.clone();
        let cells: BTreeMap<Key, &StageCell> = earlier.cells.iter().map(|cell| (cell.key(), cell)).collect();
        for cell in &mut grown.cells {
            let Some(before) = cells.get(&cell.key()) else { continue };
            cell.sampled = cell.sampled.saturating_sub(before.sampled);
            cell.timed = cell.timed.saturating_sub(before.timed);
            cell.cycles = cell.cycles.saturating_sub(before.cycles);
        }
        let traffic: BTreeMap<_, &Traffic> = earlier.traffic.iter().map(|own| (own.key(), own)).collect();
        for own in &mut grown.traffic {
            let Some(before) = traffic.get(&own.key()) else { continue };
            own.frames = own.frames.saturating_sub(before.frames);
            own.bytes = own.bytes.saturating_sub(before.bytes);
            own.sampled = own.sampled.saturating_sub(before.sampled);
        }
        for (turns, before) in grown.turns.iter_mut().zip(earlier.turns) {
            *turns = turns.saturating_sub(before);
        }
        grown.timed_cpu_ns = self.timed_cpu_ns.saturating_sub(earlier.timed_cpu_ns);
        grown
    }

    /// Adds the counts of another thread of the same machine.
    pub fn add(&mut self, other: &StageCounts) {
        if self.counter_hz == 0.0 {
            (self.counter, self.counter_hz) = (other.counter.clone(), other.counter_hz);
        }
        let mut cells: BTreeMap<Key, StageCell> = self.cells.drain(..).map(|cell| (cell.key(), cell)).collect();
        for more in &other.cells {
            let fresh = StageCell { sampled: 0, timed: 0, cycles: 0, ..*more };
            let cell = cells.entry(more.key()).or_insert(fresh);
            (cell.sampled, cell.timed) = (cell.sampled + more.sampled, cell.timed + more.timed);
            cell.cycles += more.cycles;
        }
        self.cells = cells.into_values().collect();
        let mut traffic: BTreeMap<_, Traffic> = self.traffic.drain(..).map(|own| (own.key(), own)).collect();
        for more in &other.traffic {
            let own = traffic.entry(more.key()).or_insert(Traffic { frames: 0, bytes: 0, sampled: 0, ..*more });
            own.sampled += more.sampled;
            (own.frames, own.bytes) = (own.frames + more.frames, own.bytes + more.bytes);
        }
        self.traffic = traffic.into_values().collect();
        self.turns.iter_mut().zip(other.turns).for_each(|(turns, more)| *turns += more);
        self.timed_cpu_ns += other.timed_cpu_ns;
    }

    /// Returns the cycles of all timed iterations that count.
    pub fn timed_cycles(&self) -> u64 {
        self.cells.iter().map(|cell| cell.cycles).sum()
    }

    /// Returns the costs by role, message and stage, in the order of their lists. The cost of moving frames of several
    /// kinds at once is divided among them by frames and bytes. Stages that were never timed are omitted.
    pub fn costs(&self) -> Vec<StageCost> {
        let mut totals: BTreeMap<Key, (u64, Option<f64>)> = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| cell.is_known() && cell.sampled > 0) {
            let count = (cell.sampled as f64 * self.all_by_sampled(cell.role, cell.message)).round() as u64;
            totals.insert(cell.key(), (count.max(1), cell.cycles_of(count.max(1))));
        }
        for (role, _) in StageRole::ALL.iter().enumerate() {
            for (stage, is_sent) in [(Stage::Receive, false), (Stage::Send, true)] {
                self.share(&mut totals, role, stage as usize, is_sent);
            }
        }
        count_host_by_messages(&mut totals);
        let cost = |((role, message, stage), (count, cycles)): (Key, (u64, Option<f64>))| {
            let cycles = cycles.map(|cycles| cycles / count as f64);
            StageCost {
                message: MessageKind::ALL[message],
                stage: Stage::ALL[stage],
                role: StageRole::ALL[role],
                cycles,
                nanoseconds: cycles.map(|cycles| cycles * NS_PER_S / self.counter_hz),
                count,
            }
        };
        totals.into_iter().map(cost).collect()
    }

    /// Returns the ratio of all messages of a kind to those in timed iterations: by their frames, or else by
    /// iterations.
    fn all_by_sampled(&self, role: usize, message: usize) -> f64 {
        let own = self.traffic.iter().filter(|own| (own.role, own.message) == (role, message));
        let (frames, sampled) = own.fold((0, 0), |(all, timed), own| (all + own.frames, timed + own.sampled));
        match (sampled, self.turns[1]) {
            (0, 0) => 1.0,
            (0, timed) => self.turns[0] as f64 / timed as f64,
            _ => frames as f64 / sampled as f64,
        }
    }

    /// Divides the costs that were charged to no message among the message kinds without costs of their own.
    fn share(&self, totals: &mut BTreeMap<Key, (u64, Option<f64>)>, role: usize, stage: usize, is_sent: bool) {
        let none = (role, MessageKind::None as usize, stage);
        let moved = self.traffic.iter().filter(|own| own.role == role && own.is_sent == is_sent && own.frames > 0);
        let moved = moved.filter(|own| own.message < MessageKind::ALL.len());
        let moved: Vec<&Traffic> = moved.filter(|own| !totals.contains_key(&(role, own.message, stage))).collect();
        let weight = |own: &Traffic| (own.frames * BYTES_FOR_EACH_FRAME + own.bytes) as f64;
        let whole: f64 = moved.iter().map(|own| weight(own)).sum();
        if moved.is_empty() {
            return;
        }
        totals.remove(&none);
        let frames = moved.iter().map(|own| own.frames).sum();
        let pool = self.cells.iter().find(|cell| cell.key() == none).and_then(|cell| cell.cycles_of(frames));
        for own in moved {
            let cycles = pool.map(|cycles| cycles * weight(own) / whole);
            totals.insert((role, own.message, stage), (own.frames, cycles));
        }
    }
}

impl StageCell {
    fn key(&self) -> Key {
        (self.role, self.message, self.stage)
    }

    fn is_known(&self) -> bool {
        self.role < StageRole::ALL.len() && self.message < MessageKind::ALL.len() && self.stage < Stage::ALL.len()
    }

    /// Estimates the cycles of this many messages; `None` if no iteration with such a message counts.
    fn cycles_of(&self, count: u64) -> Option<f64> {
        (self.timed > 0).then(|| self.cycles as f64 * count as f64 / self.timed as f64)
    }
}

impl Traffic {
    fn key(&self) -> (usize, usize, bool) {
        (self.role, self.message, self.is_sent)
    }
}
