//! The load generator's decisions: pure, without a clock and without a socket.

use crate::load::options::{LoadMode, LoadOptions, LoadOptionsError};
use crate::load::recorder::{LoadReport, Recorder, Tally};
use crate::load::usage::Usage;
use crate::session::{Accepted, Outgoing, Session, SessionCounters, SessionOptions};
use crate::workload::Workload;
use quorate_crypto::ClientIdentity;
use quorate_types::{BundleBuilder, ClientId, Outcome, ReplicaId, ReplicaReply, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// How far a load has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The commands that the workload needs beforehand are executed.
    Preload,
    /// The load runs and is not measured yet.
    Warmup,
    /// The load is measured.
    Measure,
    /// Nothing more is sent; answers are waited for.
    Drain,
    /// It is over.
    Done,
}

/// Commands without an answer while the workload's own commands are executed beforehand.
const PRELOAD_OUTSTANDING: usize = 10_000;
/// Commands that were due and never sent of which each is recorded on its own.
const UNSENT_COUNTED_SINGLY: u64 = 100_000;
/// Lists of commands kept for later bundles.
const MOST_SPARE_LISTS: usize = 4_096;

/// A command on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Issued {
    intended: Time,
    client: u32,
}

/// Decides what is sent when, and records what comes of it.
pub struct LoadCore {
    options: LoadOptions,
    session: Session<Vec<Issued>>,
    workload: Box<dyn Workload>,
    identity: ClientIdentity,
    /// The last sequence number of each client.
    sequences: Vec<u64>,
    stage: Stage,
    drain_until: Time,
    stopped: bool,
    /// Commands without an answer.
    in_flight: usize,
    preloaded: u64,
    preload_refused: u64,
    preload_done: bool,
    /// Closed loop: clients that may send, once for each command.
    ready: VecDeque<u32>,
    /// Open loop: commands sent so far.
    sent: u64,
    record: Option<Recorder>,
    filling: Option<(BundleBuilder, Vec<Issued>)>,
    spare: Vec<Vec<Issued>>,
    payload: Vec<u8>,
}

impl LoadCore {
    /// A load that begins with the first step. Client `i` is session `i` of the identity.
    pub fn new(
        options: LoadOptions,
        session: SessionOptions,
        workload: Box<dyn Workload>,
        identity: ClientIdentity,
    ) -> Result<Self, LoadOptionsError> {
        options.validate()?;
        let most_outstanding = options.most_outstanding().max(PRELOAD_OUTSTANDING);
        Ok(LoadCore {
            session: Session::new(SessionOptions { most_outstanding, ..session }),
            workload,
            identity,
            sequences: vec![0; options.clients],
            stage: Stage::Preload,
            drain_until: Time(u64::MAX),
            stopped: false,
            in_flight: 0,
            preloaded: 0,
            preload_refused: 0,
            preload_done: false,
            ready: VecDeque::new(),
            sent: 0,
            record: None,
            filling: None,
            spare: Vec::new(),
            payload: Vec::new(),
            options,
        })
    }

    /// How far the load has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Asks all replicas where they are: what is signed for a height that is long gone is void.
    pub fn ask_height(&mut self, out: &mut Vec<Outgoing>) {
        if self.session.heights_told().is_empty() {
            self.session.ask_height(out);
        } else {
            self.session.ask_height_again(out);
        }
    }

    /// How many equal replies are believed.
    pub fn believed(&self) -> usize {
        self.session.options().needed()
    }

    /// How many replicas said where they are since they were asked.
    pub fn heights_told(&self) -> usize {
        self.session.heights_told().len()
    }

    /// Commands without an answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Commands that the workload needed beforehand, sent so far.
    pub fn preloaded(&self) -> u64 {
        self.preloaded
    }

    /// Counters of the bundles.
    pub fn bundles(&self) -> SessionCounters {
        self.session.counters()
    }

    /// The last refusal, and whose it was.
    pub fn last_refusal(&self) -> Option<(ReplicaId, &str)> {
        self.session.last_refusal()
    }

    /// The recorder, once the load has begun.
    pub(crate) fn record(&mut self) -> Option<&mut Recorder> {
        self.record.as_mut()
    }

    /// Open loop: how long the next command that is not sent has been due.
    pub fn behind(&self, now: Time) -> Duration {
        self.next_intended().map_or(Duration::ZERO, |intended| now.since(intended))
    }

    /// A replica cannot be reached.
    pub fn lost(&mut self, replica: ReplicaId) {
        self.session.lost(replica);
    }

    /// Takes a replica's reply. Commands that it frees are sent by the next [`LoadCore::step`], so that all that one wake-up
    /// frees travels together.
    #[inline]
    pub fn receive(&mut self, now: Time, from: ReplicaId, reply: ReplicaReply) {
        if let Some(accepted) = self.session.receive(now, from, reply) {
            self.accept(now, accepted);
        }
    }

    fn accept(&mut self, now: Time, accepted: Accepted<Vec<Issued>>) {
        let Accepted { attached: mut commands, results, .. } = accepted;
        assert!(commands.len() == accepted.commands, "each command of a bundle is on its list");
        self.in_flight -= commands.len();
        if let Some(record) = self.record.as_mut() {
            let tally = tally(record, now, &commands, &results);
            record.answered(now, tally);
        } else if !results.is_all_empty() {
            let refused = results.outcomes().filter(|outcome| !outcome.is_executed()).count();
            self.preload_refused += refused as u64;
        }
        if self.is_closed() {
            self.ready.extend(commands.iter().map(|command| command.client));
        }
        if self.spare.len() < MOST_SPARE_LISTS {
            commands.clear();
            self.spare.push(commands);
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.options.mode, LoadMode::Closed { .. })
    }

    /// Moves on to `now` and appends what is to be sent.
    pub fn step(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        self.session.poll(now, out);
        if self.stage == Stage::Preload {
            self.preload(now, out);
        }
        self.advance(now, out);
        if matches!(self.stage, Stage::Warmup | Stage::Measure) {
            match self.options.mode {
                LoadMode::Closed { .. } => self.send_ready(now, out),
                LoadMode::Open { most_outstanding, .. } => {
                    if self.next_departure(most_outstanding).is_some_and(|at| at <= now) {
                        self.send_due(now, most_outstanding, out);
                    }
                }
            }
        }
    }

    /// Ends the load with the next step: what was sent is still waited for.
    pub fn stop(&mut self, now: Time) {
        if self.stage >= Stage::Drain || self.stopped {
            return;
        }
        self.stopped = true;
        if let Some(record) = self.record.as_mut() {
            record.cut(now);
        }
    }

    /// Stops sending, after what was due before the end.
    fn begin_drain(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if let LoadMode::Open { most_outstanding, .. } = self.options.mode {
            self.send_due(now, most_outstanding, out);
        }
        self.stage = Stage::Drain;
        self.drain_until = now + self.options.drain;
    }

    fn advance(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if self.stage == Stage::Preload && self.preload_done && self.in_flight == 0 {
            let (warmup, duration) = (self.options.warmup, self.options.duration);
            self.record = Some(Recorder::new(now, warmup, duration, !self.is_closed()));
            self.ready.clear();
            if let LoadMode::Closed { outstanding } = self.options.mode {
                let clients = self.options.clients as u32;
                self.ready.extend((0..outstanding).flat_map(|_| 0..clients));
            }
            self.stage = Stage::Warmup;
        }
        let window = self.record.as_ref().map(Recorder::window);
        if self.stage == Stage::Warmup && window.is_some_and(|(start, _)| start <= now) {
            self.stage = Stage::Measure;
        }
        if self.stopped && self.stage < Stage::Drain
            || self.stage == Stage::Measure && window.is_some_and(|(_, end)| end <= now)
        {
            self.begin_drain(now, out);
        }
        if self.stage == Stage::Drain && (self.in_flight == 0 || self.drain_until <= now) {
            self.stage = Stage::Done;
        }
    }

    /// When [`LoadCore::step`] has something to do at the latest, unless a reply comes first.
    pub fn next_wake(&mut self) -> Option<Time> {
        let retry = self.session.next_deadline();
        let window = self.record.as_ref().map(Recorder::window);
        let stage = match self.stage {
            Stage::Preload | Stage::Done => None,
            Stage::Warmup => window.map(|(start, _)| start),
            Stage::Measure => window.map(|(_, end)| end),
            Stage::Drain => Some(self.drain_until),
        };
        let command = match (self.stage, self.options.mode) {
            (Stage::Warmup | Stage::Measure, LoadMode::Open { most_outstanding, .. })
                if self.in_flight < most_outstanding =>
            {
                self.next_departure(most_outstanding)
            }
            _ => None,
        };
        [retry, stage, command].into_iter().flatten().min()
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
        if let Some(record) = self.record.as_mut() {
            record.sent(now, now, self.ready.len() as u64);
        }
        while let Some(client) = self.ready.pop_front() {
            self.issue(now, Issued { intended: now, client }, out);
        }
        self.flush(now, out);
    }

    fn send_due(&mut self, now: Time, most_outstanding: usize, out: &mut Vec<Outgoing>) {
        while self.in_flight < most_outstanding {
            let Some(intended) = self.next_intended().filter(|intended| *intended <= now) else { break };
            let client = (self.sent % self.options.clients as u64) as u32;
            self.sent += 1;
            if let Some(record) = self.record.as_mut() {
                record.sent(now, intended, 1);
            }
            self.issue(now, Issued { intended, client }, out);
        }
        self.flush(now, out);
    }

    /// Open loop: when the next command is meant to be sent; none once the load is over.
    fn next_intended(&self) -> Option<Time> {
        self.intended(self.sent)
    }

    /// Open loop: when the next bundle is sent, because it is full or its first command has waited long enough.
    fn next_departure(&self, most_outstanding: usize) -> Option<Time> {
        let first = self.next_intended()?;
        if self.options.bundle_wait.is_zero() {
            return Some(first);
        }
        let room = self.options.bundle.min(most_outstanding.saturating_sub(self.in_flight)).max(1);
        let waited = first + self.options.bundle_wait;
        Some(self.intended(self.sent + room as u64 - 1).map_or(waited, |full| full.min(waited)))
    }

    /// Open loop: when the command of that number, from 0, is meant to be sent; none if the load is over by then.
    fn intended(&self, number: u64) -> Option<Time> {
        let LoadMode::Open { rate, .. } = self.options.mode else { return None };
        let record = self.record.as_ref()?;
        let intended = record.start() + Duration::from_nanos((number as f64 * (1e9 / rate)) as u64);
        (intended < record.window().1).then_some(intended)
    }

    #[inline]
    fn issue(&mut self, now: Time, command: Issued, out: &mut Vec<Outgoing>) {
        self.payload.clear();
        let client = self.client(command.client);
        self.workload.next(client, &mut self.payload);
        self.put(now, command, out);
    }

    fn client(&self, index: u32) -> ClientId {
        self.identity.origin().with_session(u16::try_from(index).expect("the options limit the clients"))
    }

    /// Adds the command in `payload` to the bundle that is being filled.
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
            let submitted = self.session.submit(now, &self.identity.finish(builder), commands, out);
            submitted
                .expect("the limit is on commands, and no two bundles are equal as sequence numbers are used once");
        }
    }

    /// What came of the load, which is over. What the generator used and the bundles that it sent in the window are told by the
    /// caller, who saw the window's edges.
    pub fn finish(mut self, now: Time, window_usage: Usage, window_bundles: SessionCounters) -> LoadReport {
        assert_eq!(self.stage, Stage::Done, "a report is made of a load that is over");
        let unanswered = if self.record.is_some() { self.in_flight as u64 } else { 0 };
        let unsent = self.unsent(now);
        let mut record =
            self.record.take().unwrap_or_else(|| Recorder::new(now, Duration::ZERO, Duration::ZERO, false));
        for commands in self.session.into_attached() {
            commands.iter().for_each(|command| record.lost(now, command.intended, 1));
        }
        let (start, end) = record.window();
        LoadReport {
            seconds: record.seconds(),
            window: end.since(start),
            warmup: start.since(record.start()),
            longest_gap: record.longest_gap(now),
            latency_us: record.latency_us,
            schedule_lag_us: record.lag_us,
            intervals: record.intervals,
            completed: record.measured.completed(),
            submitted: record.submitted_in_window,
            duplicates: record.measured.duplicates,
            refused: record.measured.refused,
            unanswered,
            unsent,
            total_submitted: record.submitted,
            total_completed: record.total.completed(),
            total_refused: record.total.refused,
            preloaded: self.preloaded,
            preload_refused: self.preload_refused,
            bundles: window_bundles,
            usage: window_usage,
            malformed: 0,
            first_malformed: None,
            stopped: self.stopped,
        }
    }

    /// Open loop: counts the commands that were due and never sent; they are as good as unanswered.
    fn unsent(&mut self, now: Time) -> u64 {
        let mut unsent = 0;
        while let Some(intended) = self.next_intended() {
            // Beyond the first ones, one command stands for a part of the rest, so that a hopeless rate does not end in a long count.
            let count = 1 + unsent / UNSENT_COUNTED_SINGLY;
            let before = self.sent;
            self.sent += count;
            if self.next_intended().is_none() {
                self.sent = before + 1;
            }
            let count = self.sent - before;
            unsent += count;
            if let Some(record) = self.record.as_mut() {
                record.lost(now, intended, count);
            }
        }
        unsent
    }
}

/// What became of a bundle's commands; records the latency of those that were executed.
#[inline]
fn tally(record: &mut Recorder, now: Time, commands: &[Issued], results: &quorate_types::Results) -> Tally {
    if results.is_all_empty() || results.len() != commands.len() {
        for run in commands.chunk_by(|one, next| one.intended == next.intended) {
            record.latency(now, run[0].intended, run.len() as u64);
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
        record.latency(now, command.intended, 1);
    }
    tally
}
