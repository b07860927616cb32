//! Drives a load with a clock and a transport, and measures what that costs.

use crate::load::core::{LoadCore, Stage};
use crate::load::recorder::LoadReport;
use crate::load::usage::Usage;
use crate::load::{LoadOptions, LoadOptionsError};
use crate::reach::{Reach, ReachLog, Wanted, await_replicas};
use crate::session::{Destination, Outgoing, SessionCounters, SessionOptions};
use crate::workload::Workload;
use quorate_crypto::ClientIdentity;
use quorate_transports::{Event, Remote, Transport};
use quorate_types::{ReplicaId, ReplicaReply, ReplyMode, Time, decode_message};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often the progress is told.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait in one poll: after this a stop is noticed and the progress is told.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// What a poll can wait for exactly; shorter waits are slept, since a poll rounds them up.
const POLL_RESOLUTION: Duration = Duration::from_millis(1);
/// How long after the first time the replicas are asked again where they are.
const HEIGHT_RETRY: Duration = Duration::from_millis(500);
/// Longest sleep at a time, so that a reply that comes meanwhile is seen soon.
const SLEEP_SLICE: Duration = Duration::from_micros(100);

/// Why a load came to nothing.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The load cannot be.
    #[error(transparent)]
    Options(#[from] LoadOptionsError),
    /// Too few replicas can be reached.
    #[error("{reach}; {needed} are needed{}: start the missing ones, or correct their addresses",
        .observer.map_or(String::new(), |observer| format!(", among them replica {observer}, which acknowledges")))]
    Unreachable {
        /// How things stand.
        reach: Reach,
        /// How many replicas are needed.
        needed: usize,
        /// The replica that has to be among them.
        observer: Option<ReplicaId>,
    },
    /// The commands that the workload needs beforehand are not executed in time.
    #[error("{sent} commands that the workload needs beforehand were sent and {waiting} of them have no answer after {after:?}{}",
        .refusal.as_ref().map_or(String::new(), |why| format!("; the last refusal was: {why}")))]
    Preload {
        /// Commands sent.
        sent: u64,
        /// Commands without an answer.
        waiting: usize,
        /// The time that they were given.
        after: Duration,
        /// What a replica said, if one refused.
        refusal: Option<String>,
    },
    /// [`LoadHandle::abandon`] ended it.
    #[error("the load was abandoned")]
    Abandoned,
    /// The transport failed.
    #[error("the client's transport failed: {0}")]
    Transport(#[from] io::Error),
}

/// How a load goes, told a few times a second.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct LoadProgress {
    /// `connect`, `preload`, `warmup`, `measure`, `drain` or `done`.
    pub stage: &'static str,
    /// Since the load began, without what came before it.
    pub elapsed: Duration,
    /// Commands that the workload needed beforehand, sent so far.
    pub preloaded: u64,
    /// Commands answered since the load began.
    pub completed: u64,
    /// Commands per second since the last time it was told.
    pub throughput: f64,
    /// Median latency in milliseconds since the last time it was told; 0 without an answer.
    pub p50_ms: f64,
    /// 99th percentile of the latency in milliseconds since the last time it was told; 0 without an answer.
    pub p99_ms: f64,
    /// Commands without an answer.
    pub in_flight: usize,
    /// Bundles sent again.
    pub retries: u64,
    /// Refusals of bundles.
    pub refusals: u64,
    /// The last refusal's reason.
    pub last_refusal: Option<String>,
    /// Open loop: how late the next command is, in milliseconds.
    pub behind_ms: f64,
    /// Replicas connected.
    pub connected: usize,
}

/// Watches and stops a load from another thread.
#[derive(Clone)]
pub struct LoadHandle {
    stop: Arc<AtomicBool>,
    abandon: Arc<AtomicBool>,
    progress: Arc<Mutex<LoadProgress>>,
}

impl LoadHandle {
    /// Ends the load soon; its report covers what was measured until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the load at once, whatever it waits for, without a report.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), LoadError> {
        if self.abandon.load(Ordering::Relaxed) { Err(LoadError::Abandoned) } else { Ok(()) }
    }

    /// How the load goes.
    pub fn progress(&self) -> LoadProgress {
        self.progress.lock().expect("nothing panics while it holds this lock").clone()
    }
}

/// A load on one cluster, over one connection to each replica.
pub struct LoadGenerator {
    core: LoadCore,
    transport: Box<dyn Transport>,
    replicas: u16,
    wanted: Wanted,
    connect_timeout: Duration,
    preload_timeout: Duration,
    handle: LoadHandle,
    clock: Instant,
    log: ReachLog,
    malformed: u64,
    first_malformed: Option<String>,
    told: (Time, u64),
    events: Vec<Event>,
    outgoing: Vec<Outgoing>,
}

impl LoadGenerator {
    /// A load that begins with [`LoadGenerator::run`]. `transport` speaks for the origin of `identity`.
    pub fn new(
        transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        options: LoadOptions,
        workload: Box<dyn Workload>,
        connect_timeout: Duration,
    ) -> Result<Self, LoadError> {
        let preload_timeout = options.preload_timeout;
        let replicas = session.quorum.replicas();
        let including = (session.reply == ReplyMode::None).then_some(session.observer);
        let core = LoadCore::new(options, session, workload, identity)?;
        let progress = LoadProgress { stage: "connect", ..LoadProgress::default() };
        Ok(LoadGenerator {
            core,
            transport,
            replicas: replicas as u16,
            wanted: Wanted { replicas, enough: session.quorum.quorum(), at_once: replicas, including },
            connect_timeout,
            preload_timeout,
            handle: LoadHandle {
                stop: Arc::default(),
                abandon: Arc::default(),
                progress: Arc::new(Mutex::new(progress)),
            },
            clock: Instant::now(),
            log: ReachLog::default(),
            malformed: 0,
            first_malformed: None,
            told: (Time(0), 0),
            events: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// Watches and stops the load.
    pub fn handle(&self) -> LoadHandle {
        self.handle.clone()
    }

    /// Runs the load to its end on the calling thread.
    pub fn run(mut self) -> Result<LoadReport, LoadError> {
        let (transport, handle) = (&mut *self.transport, &self.handle);
        let goes_on = || handle.check().is_ok();
        let (reach, enough) = await_replicas(transport, &mut self.log, self.wanted, self.connect_timeout, goes_on)?;
        handle.check()?;
        if !enough {
            let Wanted { enough: needed, including: observer, .. } = self.wanted;
            return Err(LoadError::Unreachable { reach, needed, observer });
        }
        reach.unreached.keys().for_each(|replica| self.core.lost(*replica));
        self.locate(reach)?;
        self.clock = Instant::now();
        let mut edges = Edges::default();
        let mut stage = self.core.stage();
        loop {
            self.handle.check()?;
            let now = self.now();
            self.take_events(now);
            if self.handle.stop.load(Ordering::Relaxed) {
                self.core.stop(now);
            }
            self.core.step(now, &mut self.outgoing);
            self.send();
            edges.observe(&self.core, &*self.transport);
            if now.since(self.told.0) >= PROGRESS_INTERVAL || self.core.stage() != stage {
                stage = self.core.stage();
                self.tell(now);
            }
            match self.core.stage() {
                Stage::Done => return Ok(self.report(now, edges)),
                Stage::Preload if now >= Time(0) + self.preload_timeout => return Err(self.preload_failed()),
                _ => self.wait(now)?,
            }
        }
    }

    /// Asks where the cluster is: waits for a quorum, and if some say nothing, for as many as are believed.
    fn locate(&mut self, reach: Reach) -> Result<(), LoadError> {
        let Wanted { enough: mut needed, including: observer, .. } = self.wanted;
        let start = Instant::now();
        let mut asked = None;
        while self.core.heights_told() < needed {
            self.handle.check()?;
            if asked.is_none_or(|at: Instant| at.elapsed() >= HEIGHT_RETRY) {
                if asked.is_some() {
                    needed = self.core.believed();
                }
                if start.elapsed() >= self.connect_timeout {
                    return Err(LoadError::Unreachable { reach, needed, observer });
                }
                asked = Some(Instant::now());
                self.core.ask_height(&mut self.outgoing);
                self.send();
            }
            self.transport.poll(Some(POLL_RESOLUTION), &mut self.events)?;
            self.take_events(Time(0));
        }
        Ok(())
    }

    fn now(&self) -> Time {
        Time(self.clock.elapsed().as_nanos() as u64)
    }

    fn take_events(&mut self, now: Time) {
        for event in self.events.drain(..) {
            match event {
                Event::Received { remote: Remote::Replica(from), frame, .. } => {
                    match decode_message::<ReplicaReply>(frame) {
                        Ok(reply) => self.core.receive(now, from, reply),
                        Err(error) => {
                            self.malformed += 1;
                            self.first_malformed.get_or_insert_with(|| format!("from replica {from}: {error}"));
                        }
                    }
                }
                Event::Disconnected { remote: Remote::Replica(replica), why, .. } => {
                    self.core.lost(replica);
                    self.log.lost(replica, why);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self) {
        for Outgoing { to, frame } in self.outgoing.drain(..) {
            match to {
                Destination::All => {
                    (0..self.replicas).for_each(|to| self.transport.send_to(ReplicaId(to), frame.clone()));
                }
                Destination::One(to) => self.transport.send_to(to, frame),
            }
        }
    }

    /// Writes what is to be sent and waits for replies, or until something is due.
    fn wait(&mut self, now: Time) -> io::Result<()> {
        let due = self.core.next_wake().map_or(LONGEST_WAIT, |at| at.since(now)).min(LONGEST_WAIT);
        if due >= POLL_RESOLUTION {
            let whole = Duration::from_millis(due.as_millis() as u64);
            return self.transport.poll(Some(whole), &mut self.events);
        }
        self.transport.poll(Some(Duration::ZERO), &mut self.events)?;
        if self.events.is_empty() && !due.is_zero() {
            std::thread::sleep(due.min(SLEEP_SLICE));
        }
        Ok(())
    }

    fn tell(&mut self, now: Time) {
        let bundles = self.core.bundles();
        let mut progress = LoadProgress {
            stage: stage_name(self.core.stage()),
            preloaded: self.core.preloaded(),
            in_flight: self.core.in_flight(),
            retries: bundles.retries,
            refusals: bundles.refusals,
            last_refusal: self.core.last_refusal().map(|(from, why)| format!("replica {from}: {why}")),
            behind_ms: self.core.behind(now).as_secs_f64() * 1e3,
            connected: (0..self.replicas).filter(|replica| self.transport.is_connected(ReplicaId(*replica))).count(),
            ..LoadProgress::default()
        };
        let (before, completed_before) = self.told;
        if let Some(record) = self.core.record() {
            progress.elapsed = now.since(record.start());
            progress.completed = record.total.completed();
            let since = now.since(before).as_secs_f64();
            progress.throughput = (progress.completed - completed_before) as f64 / since.max(1e-9);
            if !record.recent_us.is_empty() {
                progress.p50_ms = record.recent_us.value_at_quantile(0.5) as f64 / 1e3;
                progress.p99_ms = record.recent_us.value_at_quantile(0.99) as f64 / 1e3;
                record.recent_us.reset();
            }
        }
        self.told = (now, progress.completed);
        *self.handle.progress.lock().expect("nothing panics while it holds this lock") = progress;
    }

    fn preload_failed(&self) -> LoadError {
        LoadError::Preload {
            sent: self.core.preloaded(),
            waiting: self.core.in_flight(),
            after: self.preload_timeout,
            refusal: self.core.last_refusal().map(|(from, why)| format!("replica {from}: {why}")),
        }
    }

    fn report(self, now: Time, edges: Edges) -> LoadReport {
        let (usage, bundles) = edges.between();
        let mut report = self.core.finish(now, usage, bundles);
        report.malformed = self.malformed;
        report.first_malformed = self.first_malformed;
        report
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Preload => "preload",
        Stage::Warmup => "warmup",
        Stage::Measure => "measure",
        Stage::Drain => "drain",
        Stage::Done => "done",
    }
}

/// What was counted until the edges of the measured window.
#[derive(Default)]
struct Edges {
    start: Option<(Usage, SessionCounters)>,
    end: Option<(Usage, SessionCounters)>,
}

impl Edges {
    fn observe(&mut self, core: &LoadCore, transport: &dyn Transport) {
        let stage = core.stage();
        let reading = || Some((Usage::of_thread(transport.counters()), core.bundles()));
        if self.start.is_none() && stage == Stage::Measure {
            self.start = reading();
        }
        if self.start.is_some() && self.end.is_none() && stage > Stage::Measure {
            self.end = reading();
        }
    }

    fn between(self) -> (Usage, SessionCounters) {
        let (Some((before, first)), Some((after, last))) = (self.start, self.end) else {
            return Default::default();
        };
        (after.since(&before), last.since(&first))
    }
}
