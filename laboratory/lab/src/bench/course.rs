//! Course of a benchmark: reads the replicas' counters at the edges of the measured time and in between, and injects
//! the faults of the spec on time.

use super::cluster::Cluster;
use super::error::BenchError;
use super::measure::{Readings, Timekeeper};
use super::progress::{Progress, Watcher};
use super::watched::{Loading, Probe};
use crate::partial;
use crate::result::Event;
use crate::spec::{BenchSpec, Fault};
use quorate_types::ReplicaId;
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks of the load and the replicas.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Margin by which the last reading of the counters precedes the end of the measured time.
const READ_AHEAD: Duration = Duration::from_millis(100);
/// Timeout for a reading at the edges of the measured time.
const READ_TIMEOUT: Duration = Duration::from_millis(2000);
/// Timeout for a reading in between. Short, since one lost reading does no harm but a dead replica must not delay the
/// run.
const PEEK_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum time, after the load, for all replicas to execute the same height.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Fault action on a replica.
#[derive(Clone, Copy)]
enum Action {
    Kill,
    Start,
}

/// Running benchmark.
pub struct Course<'a> {
    spec: &'a BenchSpec,
    cluster: &'a mut Cluster,
    probe: &'a mut dyn Probe,
    watcher: &'a mut dyn Watcher,
    /// Pending actions, by time from the start of the measured time.
    actions: VecDeque<(Duration, ReplicaId, Action)>,
    readings: Readings,
    /// Second of the measured time in which the counters were last read.
    last_read_s: u64,
}

impl<'a> Course<'a> {
    pub fn new(
        spec: &'a BenchSpec,
        cluster: &'a mut Cluster,
        probe: &'a mut dyn Probe,
        watcher: &'a mut dyn Watcher,
    ) -> Course<'a> {
        Course { spec, cluster, probe, watcher, actions: actions(spec), readings: Readings::default(), last_read_s: 0 }
    }

    /// Watches the load until it ends, and takes the pending actions on time.
    pub fn watch(mut self, load: &dyn Loading) -> Result<Readings, BenchError> {
        let mut time = Timekeeper::default();
        let mut misbehaviour = VecDeque::from(self.spec.misbehaviour());
        let mut is_stopped = false;
        while !load.is_finished() {
            let progress = load.progress();
            time.observe(&progress);
            let measured = time.measured();
            if !is_stopped && !partial::goes_on() {
                is_stopped = true;
                self.stop(measured, load)?;
            }
            if let Some(now) = measured.filter(|_| !is_stopped) {
                if self.readings.is_empty() {
                    self.read(now, READ_TIMEOUT)?;
                }
                self.act(now, &time)?;
                self.read_in_between(now)?;
            }
            let now_s = measured.map_or(-self.spec.warmup.as_secs_f64(), |now| now.as_secs_f64());
            while misbehaviour.front().is_some_and(|event| event.time_s <= now_s) {
                misbehaviour.pop_front().into_iter().for_each(|event| self.on_event(event));
            }
            self.watcher.progress(&Progress { load: &progress, replica: self.readings.latest() });
            for text in self.cluster.check()? {
                self.on_event(Event { time_s: now_s, text });
            }
            thread::sleep(LOOK_INTERVAL);
        }
        if !self.readings.is_closed() && !is_stopped {
            self.read(time.measured().unwrap_or_default(), READ_TIMEOUT)?;
        }
        Ok(self.readings)
    }

    /// Ends the run after a signal: reads the counters once more and takes no further actions.
    fn stop(&mut self, measured: Option<Duration>, load: &dyn Loading) -> Result<(), BenchError> {
        if let Some(now) = measured.filter(|_| !self.readings.is_closed()) {
            self.read(now, READ_TIMEOUT)?;
            self.readings.close();
        }
        load.stop();
        Ok(())
    }

    fn act(&mut self, now: Duration, time: &Timekeeper) -> Result<(), BenchError> {
        while let Some((_, replica, action)) = self.actions.front().copied().filter(|(at, ..)| *at <= now) {
            self.actions.pop_front();
            let text = match action {
                Action::Kill => {
                    self.cluster.kill(replica)?;
                    format!("replica {replica} killed")
                }
                Action::Start => {
                    self.cluster.restart(replica)?;
                    self.readings.on_restart(replica);
                    format!("replica {replica} restarted")
                }
            };
            self.on_event(Event { time_s: time.measured().unwrap_or(now).as_secs_f64(), text });
        }
        Ok(())
    }

    fn read_in_between(&mut self, now: Duration) -> Result<(), BenchError> {
        if self.readings.is_closed() {
            return Ok(());
        }
        let is_nearly_over = now + READ_AHEAD >= Duration::from(self.spec.duration);
        if is_nearly_over {
            self.read(now, READ_TIMEOUT)?;
            self.readings.close();
        } else if self.last_read_s < now.as_secs() {
            self.read(now, PEEK_TIMEOUT)?;
        }
        Ok(())
    }

    fn read(&mut self, now: Duration, timeout: Duration) -> Result<(), BenchError> {
        self.last_read_s = now.as_secs();
        let began = Instant::now();
        let (statuses, is_first) = (self.probe.read(timeout)?, self.readings.evidence.is_empty());
        // A reading of a replica that is down ends with its timeout; the others answer at once.
        let answered = if statuses.iter().all(Option::is_some) { began.elapsed() } else { Duration::ZERO };
        self.readings.add(now + answered, statuses);
        if let Some(proof) = self.readings.evidence.first().filter(|_| is_first) {
            let text = format!("proof of misbehaviour: {proof}");
            self.on_event(Event { time_s: now.as_secs_f64(), text });
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        self.watcher.event(&event);
        self.readings.on_event(event);
    }
}

fn actions(spec: &BenchSpec) -> VecDeque<(Duration, ReplicaId, Action)> {
    let of = |fault: &Fault| match *fault {
        Fault::Misbehave(..) | Fault::Hostile(..) | Fault::OffPath(..) | Fault::Skew(..) => Vec::new(),
        Fault::Crash(replica, at) => vec![(at.into(), replica, Action::Kill)],
        Fault::Restart(replica, at, away) => {
            let at = Duration::from(at);
            vec![(at, replica, Action::Kill), (at + Duration::from(away), replica, Action::Start)]
        }
    };
    let mut actions: Vec<_> = spec.fault.iter().flat_map(of).collect();
    actions.sort_by_key(|(at, ..)| *at);
    actions.into()
}

/// Waits until the live replicas have executed the same height, so that their histories can be compared.
pub fn settle(probe: &mut dyn Probe, readings: &mut Readings) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        let statuses = probe.read_histories(READ_TIMEOUT)?;
        let heights: Vec<_> = statuses.iter().flatten().map(|status| status.height).collect();
        let level = heights.windows(2).all(|pair| pair[0] == pair[1]);
        if level || start.elapsed() >= SETTLE_TIMEOUT {
            readings.end = statuses;
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
