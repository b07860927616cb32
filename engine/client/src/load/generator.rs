//! Runs a load with a clock and a transport, and measures the cost of its thread.

use crate::config::ClientConfig;
use crate::distrust::Distrusted;
use crate::load::core::{LoadCore, Stage};
use crate::load::pause::Pause;
use crate::load::recorder::LoadReport;
use crate::load::usage::{Usage, time_crypto};
use crate::load::{LoadOptions, LoadOptionsError};
use crate::outgoing::{Destination, Outgoing};
use crate::reach::{Reach, ReachLog, Wanted, await_replicas};
use crate::session::{SessionCounters, SessionOptions, frame_too_long};
use crate::workload::Workload;
use quorate_crypto::{ClientIdentity, ReplyVerifier};
use quorate_network::transports::{Event, Remote, Transport};
use quorate_types::parameters::list;
use quorate_types::{Difference, Lane, ReplicaId, ReplicaReply, ReplyMode, Time, decode_message};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Minimum interval between two progress updates.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between height queries.
const HEIGHT_RETRY: Duration = Duration::from_millis(500);
/// Maximum duration of one poll while the load waits for heights.
const LOCATE_POLL: Duration = Duration::from_millis(1);
/// Reason why a load has no report.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Options(#[from] LoadOptionsError),
    #[error("{reach}; {needed} are needed{}; help: start the missing ones, or correct their addresses",
        .observer.map_or(String::new(), |observer| format!(", among them replica {observer}, which acknowledges")))]
    Unreachable { reach: Reach, needed: usize, observer: Option<ReplicaId> },
    /// Replicas answer, but too few of their frames count.
    #[error("fewer than {needed} replicas gave answers that count: {distrusted}")]
    Distrusted { needed: usize, distrusted: Distrusted },
    #[error("preload: {waiting} of {sent} commands unanswered after {after:?}{}",
        .refusal.as_ref().map_or(String::new(), |why| format!("; the last refusal was from {why}")))]
    Preload { sent: u64, waiting: usize, after: Duration, refusal: Option<String> },
    /// f+1 replicas have different values in their configuration.
    #[error("client.toml does not fit the cluster: {}; help: set it as it is there", list(.0))]
    Configuration(Vec<Difference>),
    /// f+1 replicas would close the link of a client that sends such a long frame.
    #[error("{}", frame_too_long(*.bytes, *.limit))]
    FrameTooLong { bytes: usize, limit: usize },
    /// f+1 replicas refused to answer the client's queries.
    #[error("the replicas do not answer this client's questions: {0}")]
    Unanswered(String),
    /// f+1 replicas refused commands permanently.
    #[error("the replicas refused a command: {0}")]
    Rejected(String),
    /// [`LoadHandle::abandon`] was called.
    #[error("the load was abandoned")]
    Abandoned,
    #[error("the client's transport failed: {0}")]
    Transport(#[from] io::Error),
}

/// Progress of a load, updated every [`PROGRESS_INTERVAL`] and at each change of stage.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LoadProgress {
    /// `connect`, `preload`, `ready`, `warmup`, `measure`, `drain` or `done`. A load is `ready` if it waits for others.
    #[serde(deserialize_with = "known_stage")]
    pub stage: StageName,
    /// Time since the start of the load, after the preload.
    pub elapsed: Duration,
    /// Preload commands sent so far.
    pub preloaded: u64,
    /// Commands answered, without the preload.
    pub completed: u64,
    /// Commands per second since the last update.
    pub throughput: f64,
    /// Median latency in milliseconds since the last update; 0 without an answer.
    pub p50_ms: f64,
    /// 99th percentile of the latency in milliseconds since the last update; 0 without an answer.
    pub p99_ms: f64,
    /// Unanswered commands.
    pub in_flight: usize,
    /// Resent bundles.
    pub retries: u64,
    pub refusals: u64,
    /// Reason and sender of the last refusal.
    pub last_refusal: Option<String>,
    /// Open loop: delay of the next command, in milliseconds.
    pub behind_ms: f64,
    /// Number of connected replicas.
    pub connected: usize,
}

/// Name of a stage of a load. An alias, because a derived `Deserialize` would borrow a `&'static str` from its input.
pub type StageName = &'static str;

/// Stages of a load, in their order.
pub const STAGES: [StageName; 7] = ["connect", "preload", READY, "warmup", "measure", "drain", "done"];
/// Stage of a load that waits for others.
const READY: &str = "ready";

fn known_stage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StageName, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = STAGES.into_iter().find(|stage| *stage == name);
    known.ok_or_else(|| D::Error::custom(format!("`{name}` is no stage of a load")))
}

/// Start of a load that waits for others, and the delay of its first command in an open loop.
type Begin = (Instant, Duration);

/// Handle to watch and stop a load from another thread.
#[derive(Clone)]
pub struct LoadHandle {
    stop: Arc<AtomicBool>,
    abandon: Arc<AtomicBool>,
    progress: Arc<Mutex<LoadProgress>>,
    begin: Arc<Mutex<Option<Begin>>>,
}

impl LoadHandle {
    /// Ends the load soon. Its report covers the time until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the load at once, without a report.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::Relaxed);
    }

    /// Sets the start of a load that [waits for others](LoadGenerator::joining_others). In an open loop, its commands
    /// are due `offset` later, so that machines of the same rate do not send at the same times.
    pub fn begin_at(&self, at: Instant, offset: Duration) {
        *self.begin.lock().expect("nothing panics while it holds this lock") = Some((at, offset));
    }

    fn begins(&self) -> Option<Begin> {
        *self.begin.lock().expect("nothing panics while it holds this lock")
    }

    fn check(&self) -> Result<(), LoadError> {
        if self.abandon.load(Ordering::Relaxed) { Err(LoadError::Abandoned) } else { Ok(()) }
    }

    pub fn progress(&self) -> LoadProgress {
        self.progress.lock().expect("nothing panics while it holds this lock").clone()
    }
}

/// Load on one cluster, over one connection to each replica.
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
    /// `None` if the channel alone authenticates replies.
    verifier: Option<ReplyVerifier>,
    malformed: u64,
    distrusted: Distrusted,
    /// Time of the last progress update, and the commands completed by then.
    last_update: (Time, u64),
    events: Vec<Event>,
    outgoing: Vec<Outgoing>,
    /// Maximum length of a frame, in bytes, once it is known.
    frame_limit: Option<usize>,
    /// Whether the load waits for others after its preload.
    is_held: bool,
}

impl LoadGenerator {
    /// Returns a load that starts with [`LoadGenerator::run`]. `transport` must be bound to the origin of `identity`.
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
                begin: Arc::default(),
            },
            clock: Instant::now(),
            log: ReachLog::default(),
            verifier: None,
            malformed: 0,
            distrusted: Distrusted::default(),
            last_update: (Time(0), 0),
            events: Vec::new(),
            outgoing: Vec::new(),
            frame_limit: None,
            is_held: false,
        })
    }

    /// Compares a configuration with the replicas', and uses it to explain why replicas are unreachable.
    pub fn comparing(mut self, config: &ClientConfig) -> LoadGenerator {
        self.core.compare(config);
        LoadGenerator { log: ReachLog::of(config), ..self }
    }

    /// Makes this one of several loads that start together. After its preload it is `ready`, and waits for
    /// [`LoadHandle::begin_at`]. Its report can be [merged](LoadReport::merged) with the others'.
    pub fn joining_others(mut self) -> LoadGenerator {
        self.core.join_others();
        LoadGenerator { is_held: true, ..self }
    }

    /// Counts only replies with an authenticator that the verifier accepts.
    pub fn with_verifier(mut self, verifier: Option<ReplyVerifier>) -> LoadGenerator {
        self.core.introduce_with(verifier.as_ref().and_then(ReplyVerifier::introduction));
        self.verifier = verifier;
        self
    }

    pub fn handle(&self) -> LoadHandle {
        self.handle.clone()
    }

    /// Runs the load to its end on the calling thread.
    pub fn run(mut self) -> Result<LoadReport, LoadError> {
        time_crypto();
        let (transport, handle) = (&mut *self.transport, &self.handle);
        let goes_on = || handle.check().is_ok();
        let (reach, enough) = await_replicas(transport, &mut self.log, self.wanted, self.connect_timeout, goes_on)?;
        handle.check()?;
        if !enough {
            let Wanted { enough: needed, including: observer, .. } = self.wanted;
            return Err(LoadError::Unreachable { reach, needed, observer });
        }
        reach.unreached.keys().for_each(|replica| self.core.on_disconnected(*replica));
        self.locate(reach)?;
        self.frame_limit = self.core.frame_limit();
        self.clock = Instant::now();
        let mut edges = Edges::default();
        let mut stage = self.core.stage();
        loop {
            self.handle.check()?;
            let now = self.now();
            self.take_events(now);
            if let Some(why) = self.core.rejection() {
                return Err(LoadError::Rejected(why.to_owned()));
            }
            if self.handle.stop.load(Ordering::Relaxed) {
                self.core.stop(now);
            }
            self.begin_with_others();
            self.core.step(now, &mut self.outgoing);
            self.check_lengths()?;
            self.send();
            edges.observe(&self.core, &*self.transport);
            if now.since(self.last_update.0) >= PROGRESS_INTERVAL || self.core.stage() != stage {
                stage = self.core.stage();
                self.update_progress(now);
            }
            match self.core.stage() {
                Stage::Done => return Ok(self.report(now, edges)),
                Stage::Preload if now >= Time(0) + self.preload_timeout && !self.is_ready() => {
                    return Err(self.preload_failed());
                }
                _ => self.wait(now)?,
            }
        }
    }

    /// Returns whether the load waits for others.
    fn is_ready(&self) -> bool {
        self.is_held && self.core.is_preloaded()
    }

    /// Begins the load if it waits for others and its start is due.
    fn begin_with_others(&mut self) {
        let due = self.handle.begins().filter(|(at, _)| self.is_ready() && *at <= Instant::now());
        if let Some((at, offset)) = due {
            let start = Time(at.saturating_duration_since(self.clock).as_nanos() as u64);
            self.core.begin(start, offset);
            self.is_held = false;
        }
    }

    /// Requests the replicas' heights. Waits for a quorum of answers at first, and for f+1 after the first retry.
    fn locate(&mut self, reach: Reach) -> Result<(), LoadError> {
        let Wanted { enough: mut needed, including: observer, .. } = self.wanted;
        let start = Instant::now();
        let mut asked = None;
        while self.core.answered_height() < needed {
            self.handle.check()?;
            if asked.is_none_or(|at: Instant| at.elapsed() >= HEIGHT_RETRY) {
                if asked.is_some() {
                    needed = self.core.needed();
                }
                if start.elapsed() >= self.connect_timeout && !self.distrusted.is_empty() {
                    return Err(LoadError::Distrusted { needed, distrusted: self.distrusted.clone() });
                }
                if start.elapsed() >= self.connect_timeout {
                    return Err(LoadError::Unreachable { reach, needed, observer });
                }
                asked = Some(Instant::now());
                self.core.ask_height(&mut self.outgoing);
                self.send();
            }
            self.transport.poll(Some(LOCATE_POLL), &mut self.events)?;
            self.take_events(Time(0));
            let differences = self.core.differences();
            if !differences.is_empty() {
                return Err(LoadError::Configuration(differences));
            }
            if let Some(why) = self.core.unanswered() {
                return Err(LoadError::Unanswered(why.to_owned()));
            }
            self.core.prove(&mut self.outgoing);
            self.send();
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
                    let why = match &self.verifier {
                        None => match decode_message::<ReplicaReply>(frame) {
                            Ok(reply) => {
                                self.core.receive(now, from, reply);
                                continue;
                            }
                            Err(error) => error.to_string(),
                        },
                        Some(verifier) => match verifier.open(from, frame, |reply| self.core.awaits(reply)) {
                            Ok(replies) => {
                                replies.into_iter().for_each(|reply| self.core.receive(now, from, reply));
                                continue;
                            }
                            Err(fault) => fault.to_string(),
                        },
                    };
                    self.malformed += 1;
                    self.distrusted.note(from, &why);
                }
                Event::Disconnected { remote: Remote::Replica(replica), why, .. } => {
                    self.core.on_disconnected(replica);
                    self.log.on_disconnected(replica, why);
                }
                _ => {}
            }
        }
    }

    /// Fails if a frame is so long that replicas would close the link.
    fn check_lengths(&self) -> Result<(), LoadError> {
        let Some(limit) = self.frame_limit else { return Ok(()) };
        let longest = self.outgoing.iter().map(|outgoing| outgoing.frame.len()).max().unwrap_or(0);
        if longest > limit { Err(LoadError::FrameTooLong { bytes: longest, limit }) } else { Ok(()) }
    }

    fn send(&mut self) {
        for Outgoing { to, frame } in self.outgoing.drain(..) {
            match to {
                Destination::All => {
                    (0..self.replicas)
                        .for_each(|to| self.transport.send_to(ReplicaId(to), frame.clone(), Lane::Ordinary));
                }
                Destination::One(to) => self.transport.send_to(to, frame, Lane::Ordinary),
            }
        }
    }

    /// Flushes the connections, and waits for replies until the next step is due.
    fn wait(&mut self, now: Time) -> io::Result<()> {
        match self.until_begin().unwrap_or_else(|| self.core.pause(now)) {
            Pause::Poll(timeout) => self.transport.poll(Some(timeout), &mut self.events),
            Pause::Sleep(time) => {
                self.transport.poll(Some(Duration::ZERO), &mut self.events)?;
                if self.events.is_empty() {
                    std::thread::sleep(time);
                }
                Ok(())
            }
        }
    }

    /// Returns the wait of a load that waits for others; `None` if it does not.
    fn until_begin(&self) -> Option<Pause> {
        let ready = self.is_ready();
        let left = self.handle.begins().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        ready.then(|| Pause::Poll(left.unwrap_or(PROGRESS_INTERVAL).min(PROGRESS_INTERVAL)))
    }

    fn update_progress(&mut self, now: Time) {
        let bundles = self.core.bundles();
        let mut progress = LoadProgress {
            stage: if self.is_ready() { READY } else { stage_name(self.core.stage()) },
            preloaded: self.core.preloaded(),
            in_flight: self.core.in_flight(),
            retries: bundles.retries,
            refusals: bundles.refusals,
            last_refusal: self.last_refusal(),
            behind_ms: self.core.behind(now).as_secs_f64() * 1e3,
            connected: (0..self.replicas).filter(|replica| self.transport.is_connected(ReplicaId(*replica))).count(),
            ..LoadProgress::default()
        };
        let (before, completed_before) = self.last_update;
        if let Some(recorder) = self.core.recorder() {
            progress.elapsed = now.since(recorder.start());
            progress.completed = recorder.total.completed();
            let since = now.since(before).as_secs_f64();
            progress.throughput = (progress.completed - completed_before) as f64 / since.max(1e-9);
            if !recorder.recent_us.is_empty() {
                progress.p50_ms = recorder.recent_us.value_at_quantile(0.5) as f64 / 1e3;
                progress.p99_ms = recorder.recent_us.value_at_quantile(0.99) as f64 / 1e3;
                recorder.recent_us.reset();
            }
        }
        self.last_update = (now, progress.completed);
        *self.handle.progress.lock().expect("nothing panics while it holds this lock") = progress;
    }

    fn last_refusal(&self) -> Option<String> {
        self.core.last_refusal().map(|(from, why)| format!("replica {from}: {why}"))
    }

    fn preload_failed(&self) -> LoadError {
        LoadError::Preload {
            sent: self.core.preloaded(),
            waiting: self.core.in_flight(),
            after: self.preload_timeout,
            refusal: self.last_refusal(),
        }
    }

    fn report(self, now: Time, edges: Edges) -> LoadReport {
        let (usage, bundles) = edges.between();
        let warning = self.core.warning();
        let mut report = self.core.finish(now, usage, bundles);
        report.malformed = self.malformed;
        report.distrusted = self.distrusted;
        report.warning = warning;
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

/// Counters at the start and the end of the measured window.
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
