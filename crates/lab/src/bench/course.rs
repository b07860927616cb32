//! The course of a benchmark: the replicas' counters are read at the edges of the measured time and in between, and what the spec says
//! is done to the replicas when it says so.

use super::cluster::Cluster;
use super::error::BenchError;
use super::measure::{Readings, Timekeeper};
use super::progress::{Progress, Watcher};
use crate::partial;
use crate::result::Event;
use crate::spec::{BenchSpec, Fault};
use quorate_client::StatusProbe;
use quorate_client::load::LoadHandle;
use quorate_types::ReplicaId;
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

/// How often the harness looks at the load and at the replicas.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long before the end of the measured time the counters are read for the last time, so that it is not over by then.
const READ_AHEAD: Duration = Duration::from_millis(100);
/// How often the replicas' counters are read while the load runs.
const READ_INTERVAL: Duration = Duration::from_millis(1000);
/// How long a replica may take to report at the edges of the measured time.
const READ_TIMEOUT: Duration = Duration::from_millis(2000);
/// The same in between, when nothing is lost with a reading and whoever is away must not hold the course up.
const PEEK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long all replicas may take, after the load, to execute what the quickest has.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is done to a replica.
#[derive(Clone, Copy)]
enum Deed {
    Kill,
    Start,
}

/// A benchmark on its way.
pub struct Course<'a> {
    spec: &'a BenchSpec,
    cluster: &'a mut Cluster,
    probe: &'a mut StatusProbe,
    watcher: &'a mut dyn Watcher,
    /// What is still to be done, by the time since the measured time began.
    deeds: VecDeque<(Duration, ReplicaId, Deed)>,
    readings: Readings,
    last_read: Option<Instant>,
}

impl<'a> Course<'a> {
    pub fn new(
        spec: &'a BenchSpec,
        cluster: &'a mut Cluster,
        probe: &'a mut StatusProbe,
        watcher: &'a mut dyn Watcher,
    ) -> Course<'a> {
        Course { spec, cluster, probe, watcher, deeds: deeds(spec), readings: Readings::default(), last_read: None }
    }

    /// Watches until the load is over, and does what is to be done.
    pub fn watch(mut self, handle: &LoadHandle, finished: impl Fn() -> bool) -> Result<Readings, BenchError> {
        let mut time = Timekeeper::default();
        let mut misbehaviour: Vec<Event> = self.spec.misbehaviour().collect();
        misbehaviour.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        let mut misbehaviour = VecDeque::from(misbehaviour);
        let mut is_stopped = false;
        while !finished() {
            let load = handle.progress();
            time.observe(&load);
            let measured = time.measured();
            if !is_stopped && !partial::goes_on() {
                is_stopped = true;
                self.stop(measured, handle)?;
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
                misbehaviour.pop_front().into_iter().for_each(|event| self.happened(event));
            }
            self.watcher.progress(&Progress { load: &load, replica: self.readings.latest() });
            self.cluster.check()?;
            thread::sleep(LOOK_INTERVAL);
        }
        if !self.readings.is_closed() && !is_stopped {
            self.read(time.measured().unwrap_or_default(), READ_TIMEOUT)?;
        }
        Ok(self.readings)
    }

    /// A signal ends the run: the counters are read once more, and nothing more is done to anybody.
    fn stop(&mut self, measured: Option<Duration>, handle: &LoadHandle) -> Result<(), BenchError> {
        if let Some(now) = measured.filter(|_| !self.readings.is_closed()) {
            self.read(now, READ_TIMEOUT)?;
            self.readings.close();
        }
        handle.stop();
        Ok(())
    }

    fn act(&mut self, now: Duration, time: &Timekeeper) -> Result<(), BenchError> {
        while let Some((_, replica, deed)) = self.deeds.front().copied().filter(|(at, ..)| *at <= now) {
            self.deeds.pop_front();
            let text = match deed {
                Deed::Kill => {
                    self.cluster.kill(replica)?;
                    format!("replica {replica} killed")
                }
                Deed::Start => {
                    self.cluster.restart(replica)?;
                    self.readings.restarted(replica);
                    format!("replica {replica} started again")
                }
            };
            self.happened(Event { time_s: time.measured().unwrap_or(now).as_secs_f64(), text });
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
        } else if self.last_read.is_none_or(|at| at.elapsed() >= READ_INTERVAL) {
            self.read(now, PEEK_TIMEOUT)?;
        }
        Ok(())
    }

    fn read(&mut self, now: Duration, timeout: Duration) -> Result<(), BenchError> {
        self.last_read = Some(Instant::now());
        let (statuses, is_first) = (self.probe.read(timeout)?, self.readings.evidence.is_empty());
        self.readings.add(statuses);
        if let Some(proof) = self.readings.evidence.first().filter(|_| is_first) {
            let text = format!("proof kept: {proof}");
            self.happened(Event { time_s: now.as_secs_f64(), text });
        }
        Ok(())
    }

    fn happened(&mut self, event: Event) {
        self.watcher.event(&event);
        self.readings.event(event);
    }
}

fn deeds(spec: &BenchSpec) -> VecDeque<(Duration, ReplicaId, Deed)> {
    let of = |fault: &Fault| match *fault {
        Fault::Misbehave(..) | Fault::Hostile(..) => Vec::new(),
        Fault::Crash(replica, at) => vec![(at.into(), replica, Deed::Kill)],
        Fault::Restart(replica, at, away) => {
            let at = Duration::from(at);
            vec![(at, replica, Deed::Kill), (at + Duration::from(away), replica, Deed::Start)]
        }
    };
    let mut deeds: Vec<_> = spec.fault.iter().flat_map(of).collect();
    deeds.sort_by_key(|(at, ..)| *at);
    deeds.into()
}

/// Waits until the live replicas have executed the same height, so that their histories can be compared.
pub fn settle(probe: &mut StatusProbe, readings: &mut Readings) -> Result<(), BenchError> {
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
