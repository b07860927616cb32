//! The load generator's decisions, without clock or sockets.

mod finish;
mod giving_up;
mod session;

use crate::load::options::{LoadMode, LoadOptions, LoadOptionsError};
use crate::load::pace::Pace;
use crate::load::pause::Pause;
use crate::load::recorder::{Recorder, Tally};
use crate::load::replies::RepliesCount;
use crate::load::throttle::Throttle;
use crate::outgoing::Outgoing;
use crate::session::{Accepted, Session, SessionOptions, TurnedAway};
use crate::workload::Workload;
use quorate_crypto::ClientIdentity;
use quorate_types::{BundleBuilder, ClientId, Digest, Outcome, ReplicaId, ReplicaReply, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Phase of a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The workload's preload commands are executed.
    Preload,
    /// The load runs, but is not measured yet.
    Warmup,
    Measure,
    /// The load sends nothing more and waits for answers.
    Drain,
    Done,
}

/// Maximum number of unanswered commands during the preload.
const PRELOAD_OUTSTANDING: usize = 10_000;
/// Maximum number of lists of commands kept for reuse.
const MAX_SPARE_LISTS: usize = 4_096;
/// An open loop waits for a burst only if the burst collects at least this many commands. A smaller one does not
/// justify a wait.
const MIN_BURST_COMMANDS: u64 = 10;
/// Maximum size of a burst: a larger one takes many messages anyway.
const FULL_BURST_COMMANDS: u64 = 400;
/// Minimum rate, in bundles per second, at which an open loop sends to replicas that refuse them because of load.
const LEAST_BUNDLES_PER_SECOND: u64 = 10;

/// Command without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Issued {
    intended: Time,
    client: u32,
}

/// When the load starts, after the preload is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    AtOnce,
    /// Not before [`LoadCore::begin`] sets the time.
    Held,
    At(Time),
}

/// Load without clock or sockets: decides on the commands to send and their times, and records the answers.
pub struct LoadCore {
    options: LoadOptions,
    session: Session<Vec<Issued>>,
    workload: Box<dyn Workload>,
    identity: ClientIdentity,
    /// The last sequence number of each client.
    sequences: Vec<u64>,
    stage: Stage,
    start: Start,
    /// Open loop: time from the start to the first command.
    offset: Duration,
    /// Whether a simulator reports commits through [`LoadCore::on_committed`].
    records_commits: bool,
    drain_until: Time,
    stopped: bool,
    /// Number of unanswered commands.
    in_flight: usize,
    preloaded: u64,
    preload_refused: u64,
    preload_done: bool,
    /// Closed loop: clients that may send, once for each command.
    ready: VecDeque<u32>,
    /// Closed loop: number of steps begun, and unanswered commands that each client keeps.
    begun: usize,
    outstanding: usize,
    /// Open loop: number of commands sent.
    sent: u64,
    /// Open loop: selects the commands to drop because replicas are overloaded.
    throttle: Throttle,
    /// Open loop with steps.
    pace: Option<Pace>,
    /// `None` during the preload.
    recorder: Option<Recorder>,
    /// Replies to each request, if requests are abandoned after a timeout.
    replies: Option<RepliesCount>,
    filling: Option<(BundleBuilder, Vec<Issued>)>,
    spare: Vec<Vec<Issued>>,
    payload: Vec<u8>,
}

impl LoadCore {
    /// Returns a load that starts with the first step. Client `i` is session `i` of the identity.
    pub fn new(
        mut options: LoadOptions,
        mut session: SessionOptions,
        workload: Box<dyn Workload>,
        identity: ClientIdentity,
    ) -> Result<Self, LoadOptionsError> {
        options.validate()?;
        let max_outstanding = options.max_outstanding().max(PRELOAD_OUTSTANDING);
        let (outstanding, pace) = match options.mode {
            LoadMode::Closed { outstanding } => (outstanding, None),
            LoadMode::Open { rate, .. } => {
                let has_steps = !options.steps.is_empty();
                (0, has_steps.then(|| Pace::new(rate, options.warmup, &options.steps)))
            }
        };
        let replies = giving_up::count_replies(&mut options, &mut session);
        Ok(LoadCore {
            replies,
            session: Session::new(SessionOptions { max_outstanding, ..session }),
            workload,
            sequences: vec![identity.sequence_base(); options.clients],
            identity,
            stage: Stage::Preload,
            start: Start::AtOnce,
            offset: Duration::ZERO,
            records_commits: false,
            drain_until: Time(u64::MAX),
            stopped: false,
            in_flight: 0,
            preloaded: 0,
            preload_refused: 0,
            preload_done: false,
            ready: VecDeque::new(),
            begun: 0,
            outstanding,
            sent: 0,
            throttle: Throttle::new(LEAST_BUNDLES_PER_SECOND * options.bundle as u64),
            pace,
            recorder: None,
            filling: None,
            spare: Vec::new(),
            payload: Vec::new(),
            options,
        })
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Makes this one of several loads that start together: it waits for [`LoadCore::begin`] after its preload, and
    /// keeps the data needed by [`LoadReport::merged`]. Must be called before the first step.
    pub fn join_others(&mut self) {
        self.start = Start::Held;
    }

    /// Returns whether the preload is executed, so that the load can begin.
    pub fn is_preloaded(&self) -> bool {
        self.preload_done && self.in_flight == 0
    }

    /// Starts a load that waits for others with its next step, as of `at`. In an open loop, its commands are due
    /// `offset` later, so that loads of the same rate do not send at the same times.
    pub fn begin(&mut self, at: Time, offset: Duration) {
        assert!(self.start == Start::Held && self.is_preloaded(), "a load that waits is begun once, after its preload");
        (self.start, self.offset) = (Start::At(at), offset);
    }

    /// Also records latencies up to the commit at one replica. Must be called before the first step.
    pub fn record_commits(&mut self) {
        self.records_commits = true;
    }

    /// Handles the commit of a bundle at that replica.
    pub fn on_committed(&mut self, at: Time, bundle: &Digest) {
        if let Some(recorder) = self.recorder.as_mut() {
            recorder.on_committed(at, bundle);
        }
    }

    /// Returns the number of commands completed in the window so far.
    pub fn completed(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.measured.completed())
    }

    /// Returns the start and end of the measured window, once the load runs.
    pub fn window(&self) -> Option<(Time, Time)> {
        self.recorder.as_ref().map(Recorder::window)
    }

    /// Returns the recorder, once the load runs.
    pub(crate) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// Open loop: returns how overdue the next command is.
    pub fn behind(&self, now: Time) -> Duration {
        self.next_intended().map_or(Duration::ZERO, |intended| now.since(intended))
    }

    pub fn on_disconnected(&mut self, replica: ReplicaId) {
        self.session.on_disconnected(replica);
    }

    /// Handles a replica's reply. The next [`LoadCore::step`] sends the commands enabled by the reply, so that all
    /// replies of one wake-up fill bundles together.
    #[inline]
    pub fn receive(&mut self, now: Time, from: ReplicaId, reply: ReplicaReply) {
        self.count_reply(now, from, &reply);
        if let Some(accepted) = self.session.receive(now, from, reply) {
            self.accept(now, accepted);
        }
    }

    fn accept(&mut self, now: Time, accepted: Accepted<Vec<Issued>>) {
        let Accepted { attached: mut commands, results, .. } = accepted;
        assert!(commands.len() == accepted.commands, "each command of a bundle is on its list");
        self.in_flight -= commands.len();
        self.throttle.on_executed(commands.len() as u64);
        if let Some(recorder) = self.recorder.as_mut() {
            let tally = tally(recorder, now, &commands, &results);
            recorder.on_answered(now, tally);
        } else if !results.is_all_empty() {
            let refused = results.outcomes().filter(|outcome| !outcome.is_executed()).count();
            self.preload_refused += refused as u64;
        }
        if self.is_closed() {
            self.ready.extend(commands.iter().map(|command| command.client));
        }
        if self.spare.len() < MAX_SPARE_LISTS {
            commands.clear();
            self.spare.push(commands);
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.options.mode, LoadMode::Closed { .. })
    }

    /// Advances to `now` and appends the frames to send.
    pub fn step(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        self.give_up_refused(now);
        self.give_up_failed(now);
        self.prove(out);
        self.session.poll(now, out);
        if self.stage == Stage::Preload {
            self.preload(now, out);
        }
        self.advance(now, out);
        if matches!(self.stage, Stage::Warmup | Stage::Measure) {
            match self.options.mode {
                LoadMode::Closed { .. } => self.send_ready(now, out),
                LoadMode::Open { max_outstanding, .. } => {
                    if self.next_departure(max_outstanding).is_some_and(|at| at <= now) {
                        self.send_due(now, max_outstanding, out);
                    }
                }
            }
        }
    }

    /// Open loop: abandons the commands refused by overloaded replicas, and slows down. In a closed loop and in the
    /// preload, the session resends them.
    fn give_up_refused(&mut self, now: Time) {
        let refused = self.session.take_turned_away();
        if self.is_closed() || self.stage == Stage::Preload {
            return;
        }
        for TurnedAway { bundle, wait } in refused {
            self.throttle.on_busy(now, wait);
            let Some(commands) = self.session.abandon(bundle) else { continue };
            self.in_flight -= commands.len();
            if let Some(recorder) = self.recorder.as_mut() {
                commands.iter().for_each(|command| recorder.on_busy(command.intended, 1));
            }
        }
    }

    /// Ends the load with the next step, which still waits for the answers to commands already sent.
    pub fn stop(&mut self, now: Time) {
        if self.stage >= Stage::Drain || self.stopped {
            return;
        }
        self.stopped = true;
        if let Some(recorder) = self.recorder.as_mut() {
            recorder.cut(now);
        }
    }

    /// Sends the commands due before the end, then stops sending.
    fn begin_drain(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if let LoadMode::Open { max_outstanding, .. } = self.options.mode {
            self.send_due(now, max_outstanding, out);
        }
        self.stage = Stage::Drain;
        self.drain_until = now + self.options.drain;
    }

    fn advance(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        let start = match self.start {
            Start::AtOnce => Some(now),
            Start::Held => None,
            Start::At(at) => Some(at),
        };
        if let Some(start) = start.filter(|_| self.stage == Stage::Preload && self.is_preloaded()) {
            let (warmup, duration, steps) = (self.options.warmup, self.options.duration, &self.options.steps);
            let is_open = !self.is_closed();
            let mut recorder = Recorder::new(start, warmup, duration, is_open, steps, self.options.samples);
            recorder.keep(self.start != Start::AtOnce, self.records_commits);
            self.recorder = Some(recorder);
            self.ready.clear();
            if let LoadMode::Closed { outstanding } = self.options.mode {
                let clients = self.options.clients as u32;
                self.ready.extend((0..outstanding).flat_map(|_| 0..clients));
            }
            self.stage = Stage::Warmup;
        }
        let window = self.recorder.as_ref().map(Recorder::window);
        if self.stage == Stage::Warmup && window.is_some_and(|(start, _)| start <= now) {
            self.stage = Stage::Measure;
        }
        if self.stage == Stage::Measure {
            self.begin_steps(now);
        }
        if self.stopped && self.stage < Stage::Drain
            || self.stage == Stage::Measure && window.is_some_and(|(_, end)| end <= now)
        {
            self.begin_drain(now, out);
        }
        let is_counting = self.replies.as_ref().is_some_and(RepliesCount::is_counting);
        if self.stage == Stage::Drain && (self.in_flight == 0 && !is_counting || self.drain_until <= now) {
            self.stage = Stage::Done;
        }
    }

    /// Closed loop: lets the clients send more commands at the start of each due step.
    fn begin_steps(&mut self, now: Time) {
        while self.next_step().is_some_and(|at| at <= now) {
            let (clients, before) = (self.options.clients as u32, self.outstanding);
            self.outstanding = self.options.steps[self.begun].from as usize;
            self.begun += 1;
            self.ready.extend((before..self.outstanding).flat_map(|_| 0..clients));
        }
    }

    /// Closed loop: returns the start of the next step.
    fn next_step(&self) -> Option<Time> {
        if !self.is_closed() || self.begun >= self.options.steps.len() {
            return None;
        }
        let before: Duration = self.options.steps[..self.begun].iter().map(|step| step.lasts).sum();
        Some(self.recorder.as_ref()?.window().0 + before)
    }

    /// Returns when to call [`LoadCore::step`] next, unless a reply comes first.
    pub fn next_wake(&mut self) -> Option<Time> {
        let retry = self.session.next_deadline();
        let window = self.recorder.as_ref().map(Recorder::window);
        let stage = match self.stage {
            Stage::Preload | Stage::Done => None,
            Stage::Warmup => window.map(|(start, _)| start),
            Stage::Measure => window.map(|(_, end)| self.next_step().map_or(end, |step| step.min(end))),
            Stage::Drain => Some(self.drain_until),
        };
        let command = match (self.stage, self.options.mode) {
            (Stage::Warmup | Stage::Measure, LoadMode::Open { max_outstanding, .. })
                if self.in_flight < max_outstanding =>
            {
                self.next_departure(max_outstanding)
            }
            _ => None,
        };
        let failure = self.replies.as_ref().and_then(RepliesCount::next_deadline);
        [retry, stage, command, failure].into_iter().flatten().min()
    }

    /// Returns how to wait after a step at `now`.
    pub fn pause(&mut self, now: Time) -> Pause {
        Pause::until(self.next_wake().map(|at| at.since(now)))
    }

    fn preload(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        while !self.preload_done && self.in_flight < PRELOAD_OUTSTANDING {
            self.payload.clear();
            if !self.workload.preload(&mut self.payload) {
                self.preload_done = true;
                break;
            }
            let client = (self.preloaded % self.options.clients as u64) as u32;
            self.preloaded += 1;
            self.put(now, Issued { intended: now, client }, out);
        }
        self.flush(now, out);
    }

    fn send_ready(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if self.ready.is_empty() {
            return;
        }
        if let Some(recorder) = self.recorder.as_mut() {
            recorder.on_sent(now, now, self.ready.len() as u64);
        }
        while let Some(client) = self.ready.pop_front() {
            self.issue(now, Issued { intended: now, client }, out);
        }
        self.flush(now, out);
    }

    fn send_due(&mut self, now: Time, max_outstanding: usize, out: &mut Vec<Outgoing>) {
        while self.in_flight < max_outstanding {
            let Some(intended) = self.next_intended().filter(|intended| *intended <= now) else { break };
            if !self.throttle.allows(now) {
                self.sent += 1;
                if let Some(recorder) = self.recorder.as_mut() {
                    recorder.on_busy(intended, 1);
                }
                continue;
            }
            let client = (self.sent % self.options.clients as u64) as u32;
            self.sent += 1;
            if let Some(recorder) = self.recorder.as_mut() {
                recorder.on_sent(now, intended, 1);
            }
            self.issue(now, Issued { intended, client }, out);
        }
        self.flush(now, out);
    }

    /// Open loop: returns when the next command is due; `None` once the load is over.
    fn next_intended(&self) -> Option<Time> {
        self.intended(self.sent)
    }

    /// Open loop: returns when the next bundle is sent, because it is full or its first command has waited long enough.
    fn next_departure(&self, max_outstanding: usize) -> Option<Time> {
        let first = self.next_intended()?;
        if self.options.bundle_wait.is_zero() {
            return Some(self.next_burst(first));
        }
        let room = self.options.bundle.min(max_outstanding.saturating_sub(self.in_flight)).max(1);
        let waited = first + self.options.bundle_wait;
        Some(self.intended(self.sent + room as u64 - 1).map_or(waited, |full| full.min(waited)))
    }

    /// Open loop: returns when the next burst is sent, whose first command is due at `first`.
    fn next_burst(&self, first: Time) -> Time {
        let waited = first + self.options.burst;
        if self.intended(self.sent + MIN_BURST_COMMANDS - 1).is_none_or(|last| last > waited) {
            return first;
        }
        self.intended(self.sent + FULL_BURST_COMMANDS - 1).map_or(waited, |full| full.min(waited))
    }

    /// Open loop: returns when command `number`, counted from 0, is due; `None` if the load has ended by then.
    fn intended(&self, number: u64) -> Option<Time> {
        let LoadMode::Open { rate, .. } = self.options.mode else { return None };
        let recorder = self.recorder.as_ref()?;
        let after = match &self.pace {
            Some(pace) => pace.time_of(number),
            None => Duration::from_nanos((number as f64 * (1e9 / rate)) as u64),
        };
        let intended = recorder.start() + self.offset + after;
        (intended < recorder.window().1).then_some(intended)
    }

    #[inline]
    fn issue(&mut self, now: Time, command: Issued, out: &mut Vec<Outgoing>) {
        self.payload.clear();
        let client = self.client(command.client);
        self.workload.next(client, &mut self.payload);
        self.put(now, command, out);
    }

    fn client(&self, index: u32) -> ClientId {
        self.identity.session(u16::try_from(index).expect("the options limit the clients"))
    }

    /// Adds the command in `payload` to the open bundle.
    #[inline]
    fn put(&mut self, now: Time, command: Issued, out: &mut Vec<Outgoing>) {
        if self.filling.as_ref().is_some_and(|(builder, _)| !builder.fits(self.payload.len())) {
            self.flush(now, out);
        }
        let client = self.client(command.client);
        let sequence = &mut self.sequences[command.client as usize];
        *sequence += 1;
        let empty = || {
            let builder = BundleBuilder::new(self.identity.origin(), self.session.expiry());
            (builder, self.spare.pop().unwrap_or_default())
        };
        let (builder, commands) = self.filling.get_or_insert_with(empty);
        builder.push(client, *sequence, &self.payload);
        commands.push(command);
        self.in_flight += 1;
        if commands.len() == self.options.bundle {
            self.flush(now, out);
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if let Some((builder, commands)) = self.filling.take() {
            let bundle = self.identity.finish(builder);
            if let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.records_commits()) {
                recorder.on_bundle(bundle.digest(), commands.iter().map(|command| command.intended));
            }
            if let Some(replies) = self.replies.as_mut() {
                replies.on_sent(now, bundle.digest());
            }
            let submitted = self.session.submit(now, &bundle, commands, out);
            submitted.expect("commands are limited, and no two bundles are equal as sequence numbers are used once");
        }
    }
}

/// Counts the outcomes of a bundle's commands, and records the latency of those that were executed.
#[inline]
fn tally(recorder: &mut Recorder, now: Time, commands: &[Issued], results: &quorate_types::Results) -> Tally {
    if results.is_all_empty() || results.len() != commands.len() {
        for run in commands.chunk_by(|one, next| one.intended == next.intended) {
            recorder.on_executed(now, run[0].intended, run.len() as u64);
        }
        return Tally { executed: commands.len() as u64, ..Tally::default() };
    }
    let mut tally = Tally::default();
    for (command, outcome) in commands.iter().zip(results.outcomes()) {
        match outcome {
            Outcome::Executed(_) => tally.executed += 1,
            Outcome::Duplicate => tally.duplicates += 1,
            Outcome::Refused | Outcome::Expired | Outcome::Forgotten => {
                tally.refused += 1;
                continue;
            }
        }
        recorder.on_executed(now, command.intended, 1);
    }
    tally
}
