//! The replicas' counters per second.

use quorate_simulator::{Counts, Reading};

/// Maximum time after the last reading, in seconds, for which counters are extrapolated.
const MAX_EXTRAPOLATION_S: f64 = 0.25;

/// Highest values of any replica: executed commands, view, and timed-out views.
type Values = [f64; 3];

/// Highest counters of any replica over the measured time.
#[derive(Default)]
pub(crate) struct Frontier {
    /// Ordered by time, in seconds from the start of the measured time.
    points: Vec<(f64, Values)>,
    /// View timeouts of each replica: the sum over its earlier processes, and the last reading of the current one.
    timeouts: Vec<(u64, u64)>,
}

/// Progress of the replicas in one second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    pub executed_commands: u64,
    pub views: u64,
    pub view_timeouts: u64,
}

impl Frontier {
    pub fn of(readings: &[Reading]) -> Frontier {
        let mut frontier = Frontier::default();
        readings.iter().for_each(|reading| frontier.add(reading.at.as_secs_f64(), &reading.replicas));
        frontier
    }

    /// Adds a reading of all replicas, `None` for replicas that did not answer. Executed commands and views are
    /// positions in the history, so the highest of any replica counts. A restart resets the count of timeouts.
    pub fn add(&mut self, at_s: f64, replicas: &[Option<Counts>]) {
        let is_first = self.points.is_empty();
        let mut values = self.points.last().map_or([0.0; 3], |(_, values)| *values);
        self.timeouts.resize(replicas.len().max(self.timeouts.len()), (0, 0));
        for (counts, (sum, last)) in replicas.iter().zip(&mut self.timeouts) {
            let Some(counts) = counts else { continue };
            let now = counts.view_timeouts;
            *sum += if is_first { 0 } else { now.checked_sub(*last).unwrap_or(now) };
            *last = now;
            for (value, count) in values.iter_mut().zip([counts.executed_commands, counts.view, *sum]) {
                *value = value.max(count as f64);
            }
        }
        if self.points.last().is_none_or(|(last, _)| *last < at_s) {
            self.points.push((at_s, values));
        }
    }

    /// Returns the progress in each of the first `count` seconds; `None` where readings are missing.
    pub fn seconds(&self, count: usize) -> Vec<Option<Progress>> {
        let edges: Vec<Option<[u64; 3]>> = (0..=count).map(|second| self.at(second as f64)).collect();
        let progress = |edges: &[Option<[u64; 3]>]| {
            let (from, to) = (edges[0]?, edges[1]?);
            let [executed_commands, views, view_timeouts] = [0, 1, 2].map(|at| to[at].saturating_sub(from[at]));
            Some(Progress { executed_commands, views, view_timeouts })
        };
        edges.windows(2).map(progress).collect()
    }

    /// Interpolates between the readings before and after a time.
    fn at(&self, time_s: f64) -> Option<[u64; 3]> {
        let after = self.points.partition_point(|(at, _)| *at < time_s);
        let (from, to) = match self.points.get(after) {
            Some((at, values)) if *at == time_s => return Some(values.map(|value| value as u64)),
            Some(to) => (self.points.get(after.checked_sub(1)?)?, to),
            None if self.points.last().is_none_or(|(last, _)| time_s - last > MAX_EXTRAPOLATION_S) => return None,
            None => (self.points.get(after.checked_sub(2)?)?, &self.points[after - 1]),
        };
        let part = (time_s - from.0) / (to.0 - from.0);
        Some([0, 1, 2].map(|value| (from.1[value] + part * (to.1[value] - from.1[value])).round() as u64))
    }
}
