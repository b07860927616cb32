//! The executor of agreed blocks.

use crate::application::{Application, MAX_RESULT_BYTES, RestoreError};
use crate::checkpoint::{Checkpoint, CheckpointRule, CheckpointTask};
use crate::context::BlockContext;
use crate::footprint::Rest;
use crate::frozen::{FrozenState, SNAPSHOT_VERSION, SNAPSHOT_VERSION_WITH_LEVELS};
use crate::history::History;
use crate::levels::{self, ExecutionError, LevelFault, Levels, Reached, UnsupportedLevel};
use crate::panics::{ApplicationPanic, Call, guard, named};
use crate::parallel::{Buffers, MAX_EXECUTION_THREADS, Parallelism, Waves};
use crate::session::{Admission, MAX_SESSIONS, Memory, Sessions};
use bytes::Bytes;
use quorate_types::identity::Verifier;
use quorate_types::level::{MAX_APPLICATION_LEVEL, SYSTEM_SEQUENCE};
use quorate_types::{
    Bundle, ClientId, Command, DecodeError, Decoder, Digest, EpochId, FeatureLevel, Hasher, Height, LevelChange,
    LevelStatus, Outcome, PendingLevel, Results, ResultsBuilder, Wire, tags,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Maximum size of a bundle's results, in bytes. Once it is reached, the remaining commands are refused. Otherwise a
/// few bytes of queries could request more than fits in a reply or in memory.
pub const MAX_RESULTS_BYTES: usize = 28 << 20;
/// Maximum size of the results of all bundles of a block, in bytes, because all of them are in memory at once: 16 kB of
/// queries could request 400 MiB. A client may resend a command that was refused because of other commands.
pub const MAX_BLOCK_RESULTS_BYTES: usize = 64 << 20;

const MAX_APPLICATION_SNAPSHOT_BYTES: usize = u32::MAX as usize;
const MAX_NAME_BYTES: usize = 64;
const MAX_FRONTIER_BYTES: usize = u32::MAX as usize;

/// Results of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub origin: ClientId,
    pub bundle: Digest,
    /// Height of the block with the bundle; 0 if its outcome was settled without ordering it.
    pub height: Height,
    /// Outcome of each command.
    pub results: Results,
    /// Whether each command was executed now, so that nobody has answered the bundle before.
    pub is_new: bool,
}

/// Executor of an application's commands, at most once each, in the agreed order.
pub struct Executor {
    application: Box<dyn Application>,
    epoch: EpochId,
    history: History,
    levels: Levels,
    /// Time of the last block, in milliseconds since the Unix epoch.
    time_ms: u64,
    commands: u64,
    sessions: Sessions,
    session_limit: usize,
    rule: Option<CheckpointRule>,
    /// Bytes of blocks, as counted by [`CheckpointRule`], since the last checkpoint that keeps the state.
    bytes_since_kept: u64,
    /// Whether the last block has a checkpoint that keeps the state.
    keeps_here: bool,
    /// Bytes of the results of this block so far.
    block_results_bytes: usize,
    /// Buffer reused for each bundle.
    results: ResultsBuilder,
    /// Buffer reused for each command.
    result: Vec<u8>,
    /// The application's call in progress while a block is executed.
    executing: Option<Call>,
    /// `None`: commands run one after the other, on this thread.
    parallelism: Option<Parallelism>,
    /// Buffers reused for the results of prepared commands.
    buffers: Buffers,
}

impl Executor {
    /// Creates an executor of a fresh application at height 0.
    ///
    /// # Panics
    /// If the application supports a feature level above [`MAX_APPLICATION_LEVEL`].
    pub fn new(application: Box<dyn Application>, epoch: &EpochId) -> Executor {
        let (name, supported) = (application.name(), application.supported_level());
        assert!(
            supported <= MAX_APPLICATION_LEVEL,
            "{name} supports feature level {supported}, but levels above {MAX_APPLICATION_LEVEL} are the engine's; \
             help: number its levels from 1 on"
        );
        let mut hasher = Hasher::new(tags::NOTHING_EXECUTED);
        hasher.update(&epoch.0.0);
        hasher.update(application.name().as_bytes());
        Executor {
            levels: Levels::new(supported),
            application,
            epoch: *epoch,
            history: History::new(hasher.finish()),
            time_ms: 0,
            commands: 0,
            sessions: Sessions::with_limit(MAX_SESSIONS),
            session_limit: MAX_SESSIONS,
            rule: None,
            bytes_since_kept: 0,
            keeps_here: false,
            block_results_bytes: 0,
            results: ResultsBuilder::default(),
            result: Vec::new(),
            executing: None,
            parallelism: None,
            buffers: Buffers::default(),
        }
    }

    /// Enables checkpoints. Some of them keep the state for replicas that must catch up.
    pub fn with_checkpoints(self, rule: CheckpointRule) -> Executor {
        rule.assert_valid();
        Executor { rule: Some(rule), ..self }
    }

    /// Prepares costly, non-conflicting commands of a block on several threads. States, replies and digests are the
    /// same as with one thread.
    ///
    /// # Panics
    /// If there is no thread, or more than [`MAX_EXECUTION_THREADS`].
    pub fn with_parallelism(self, parallelism: Parallelism) -> Executor {
        let threads = parallelism.threads;
        assert!((1..=MAX_EXECUTION_THREADS).contains(&threads), "{threads} threads, 1 to {MAX_EXECUTION_THREADS}");
        Executor { parallelism: (threads > 1).then_some(parallelism), ..self }
    }

    /// Lets commands that all replicas of the committee have signed raise the feature level. `identities` are the
    /// members' public identity keys.
    pub fn with_levels(mut self, replicas: usize, identities: Arc<dyn Verifier>) -> Executor {
        self.levels.changed_by(self.epoch, replicas, identities);
        self
    }

    /// Begins at a feature level instead of 0, equally on every replica and before the first command.
    pub fn beginning_at(mut self, level: FeatureLevel) -> Executor {
        self.levels.begin_at(level);
        self
    }

    /// Limits the units of sessions ([`Sessions::with_limit`]), equally on every replica and before the first command.
    pub fn with_session_limit(self, session_limit: usize) -> Executor {
        Executor { sessions: Sessions::with_limit(session_limit), session_limit, ..self }
    }

    /// Executes a block like [`Executor::execute`].
    ///
    /// # Errors
    /// If the program does not support the block's feature level, before anything is executed, or if the application
    /// panics. All other panics continue.
    pub fn try_execute(
        &mut self,
        block: BlockContext,
        bundles: &[Bundle],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ExecutionError> {
        self.check_level()?;
        let height = block.height();
        let done = catch_unwind(AssertUnwindSafe(|| self.execute(block, bundles, replies)));
        done.map_err(|panic| match self.executing.take() {
            None => resume_unwind(panic),
            Some(call) => ApplicationPanic::of(self.application.name(), height, call, panic).into(),
        })
    }

    /// Checks that the program supports the feature level of the next block.
    ///
    /// # Errors
    /// The level, and the level that the program supports.
    pub fn check_level(&self) -> Result<(), UnsupportedLevel> {
        self.levels.check(self.application.name(), &self.levels.reached(), self.height().next())
    }

    /// Executes the block at the next height and appends a reply for each bundle. Commands that were executed before,
    /// in this or another bundle, have no effect and are answered as duplicates. Bundles that have expired, or expire
    /// too late, have no effect. A block that is earlier than the one before it is executed at the time of that one.
    ///
    /// # Panics
    /// If the block is not the next one, or [`Executor::check_level`] fails.
    pub fn execute(&mut self, block: BlockContext, bundles: &[Bundle], replies: &mut Vec<Reply>) {
        let height = block.height();
        assert_eq!(height, self.height().next(), "blocks are executed in ascending order");
        self.check_level().unwrap_or_else(|why| panic!("{why}"));
        let block = block.not_before(self.time_ms).at_level(self.levels.advance(height));
        let mut rolling = Hasher::new(tags::HISTORY);
        rolling.update(&self.history.last().0);
        rolling.update(&height.0.to_le_bytes());
        rolling.update(&block.time_ms().to_le_bytes());
        self.time_ms = block.time_ms();
        self.block_results_bytes = 0;
        let mut waves = self.waves(height, bundles);
        for bundle in bundles {
            let (results, is_new) = match bundle.expires() {
                expires if expires < height => (self.settle(bundle), false),
                expires if expires > height.latest_expiry() => (refuse(bundle), false),
                expires => self.execute_bundle(&block, bundle, expires, waves.as_mut()),
            };
            rolling.update(&bundle.digest().0);
            rolling.update(results.body());
            replies.push(Reply { origin: bundle.origin(), bundle: bundle.digest(), height, results, is_new });
        }
        self.history.push(rolling.finish());
        self.count_towards_keeping(bundles);
    }

    /// Returns the waves of the commands that [`Executor::execute_bundle`] will execute; `None` with one thread.
    fn waves<'a>(&self, height: Height, bundles: &'a [Bundle]) -> Option<Waves<'a>> {
        let parallelism = self.parallelism.clone()?;
        let lives = |bundle: &&Bundle| (height..=height.latest_expiry()).contains(&bundle.expires());
        Some(Waves::new(bundles.iter().filter(lives).flat_map(Bundle::commands).collect(), parallelism))
    }

    fn count_towards_keeping(&mut self, bundles: &[Bundle]) {
        let Some(rule) = &self.rule else { return };
        self.bytes_since_kept += rule.bytes_of(bundles);
        self.executing = Some(Call::Snapshot);
        let due = self.bytes_since_kept >= rule.bytes_between(self.application.snapshot_bytes());
        self.executing = None;
        self.keeps_here = due && rule.is_checkpoint(self.height());
        if self.keeps_here {
            self.bytes_since_kept = 0;
        }
    }

    /// Returns the checkpoint after the last block: completed, or, if it keeps the state, as a task that any thread can
    /// run. `frontier` is the rest of the state that a replica needs to continue from there.
    pub fn checkpoint(&mut self, frontier_digest: Digest, frontier: impl FnOnce() -> Bytes) -> CheckpointTask {
        if !self.keeps_here {
            return CheckpointTask::Done(Checkpoint::of_history(self.height(), self.history.last(), frontier_digest));
        }
        CheckpointTask::Encode(Box::new(self.freeze(frontier())))
    }

    /// Freezes the state without the replica's part, for use by this replica only.
    pub fn own_state(&mut self) -> FrozenState {
        self.freeze(Bytes::new())
    }

    /// Freezes the whole state. A panic of the application continues as an [`ApplicationPanic`], here and when the
    /// state is encoded.
    ///
    /// Copies the history (at most 256 KiB) and the sessions (at most 4 MiB), and freezes the application.
    fn freeze(&mut self, frontier: Bytes) -> FrozenState {
        let (name, height) = (self.application.name(), self.height());
        FrozenState {
            frontier,
            epoch: self.epoch,
            application_name: name,
            reached: self.levels.reached(),
            time_ms: self.time_ms,
            commands: self.commands,
            bytes_since_kept: self.bytes_since_kept,
            history: self.history.clone(),
            sessions: self.sessions.freeze(),
            application: named(name, height, Call::Snapshot, || self.application.freeze()),
        }
    }

    /// Adopts the state of a checkpoint and returns the replica's part of it. The caller verifies that the state is the
    /// agreed one.
    pub fn adopt(&mut self, state: Bytes) -> Result<Bytes, RestoreError> {
        let mut input = Decoder::new(state);
        let frontier = input.get_bytes("frontier of a state", MAX_FRONTIER_BYTES)?;
        let start = input.position();
        input.skip("snapshot of a state", input.left())?;
        self.restore(input.slice_from(start))?;
        Ok(frontier)
    }

    /// Returns the results, and whether each command was executed.
    fn execute_bundle(
        &mut self,
        block: &BlockContext,
        bundle: &Bundle,
        expires: Height,
        mut waves: Option<&mut Waves<'_>>,
    ) -> (Results, bool) {
        let mut executed = 0;
        let max_bytes = MAX_RESULTS_BYTES.min(MAX_BLOCK_RESULTS_BYTES.saturating_sub(self.block_results_bytes));
        for command in bundle.commands() {
            let ready = waves.as_mut().and_then(|waves| waves.take(&*self.application, &mut self.buffers));
            if self.results.bytes() >= max_bytes {
                self.results.push(Outcome::Refused);
                continue;
            }
            let outcome = match self.sessions.admit(expires, command.client, command.sequence) {
                Admission::Fresh => {
                    executed += 1;
                    self.result.clear();
                    self.executing = Some(Call::Command { client: command.client, sequence: command.sequence });
                    match ready {
                        None => self.application.execute(block, &command, &mut self.result),
                        Some(ready) => {
                            self.buffers.keep(std::mem::replace(&mut self.result, ready.result));
                            if let Rest::Write(changes) = ready.rest {
                                self.application.apply(changes);
                            }
                        }
                    }
                    assert!(self.result.len() <= MAX_RESULT_BYTES, "result of {} is too long", self.application.name());
                    self.executing = None;
                    Outcome::Executed(&self.result)
                }
                Admission::Duplicate => Outcome::Duplicate,
                Admission::Refused if is_change(&command) => {
                    self.result.clear();
                    match self.levels.change(block.height(), command.payload) {
                        Ok(pending) => {
                            executed += 1;
                            levels::put_result(pending, &mut self.result);
                            Outcome::Executed(&self.result)
                        }
                        Err(_) if self.levels.includes(command.payload) => Outcome::Duplicate,
                        Err(_) => Outcome::Refused,
                    }
                }
                Admission::Refused => Outcome::Refused,
                Admission::Forgotten => Outcome::Forgotten,
            };
            self.results.push(outcome);
        }
        self.commands += executed;
        self.executing = Some(Call::Bundle(bundle.digest()));
        self.application.bundle_executed(&bundle.digest());
        self.executing = None;
        self.block_results_bytes += self.results.bytes();
        let results = self.results.finish();
        let is_new = executed == results.len() as u64;
        (results, is_new)
    }

    /// Returns whether the first command of an unexpired bundle was never executed. Usually the others were not
    /// executed either, and the bundle is new; this is a cheap check before the search for an earlier reply.
    pub fn begins_anew(&self, bundle: &Bundle) -> bool {
        let first = bundle.commands().next().expect("a bundle has at least one command");
        self.settled_outcome(bundle.expires(), &first).is_none()
    }

    /// Returns the reply to a bundle if ordering it would change nothing: each command was executed before, in this or
    /// another bundle, or never will be. The reply's height is 0.
    pub fn settled(&self, bundle: &Bundle) -> Option<Reply> {
        let expires = bundle.expires();
        if !bundle.commands().all(|command| self.settled_outcome(expires, &command).is_some()) {
            return None;
        }
        let outcomes = bundle.commands().filter_map(|command| self.settled_outcome(expires, &command));
        let results = Results::collect(outcomes);
        Some(Reply { origin: bundle.origin(), bundle: bundle.digest(), height: Height(0), results, is_new: false })
    }

    /// Returns the number of signatures that a change of the feature level needs; 0 if no command changes it.
    pub fn level_signers(&self) -> usize {
        self.levels.signers()
    }

    /// Judges the change of the feature level with which a bundle begins, if it does: whether it would have an effect
    /// in the next block. Verifies up to one signature of each replica.
    pub fn judge_change(&self, bundle: &Bundle) -> Option<Result<PendingLevel, LevelFault>> {
        let first = bundle.commands().next().expect("a bundle has at least one command");
        is_change(&first).then(|| self.levels.judge(self.height().next(), first.payload))
    }

    fn settled_outcome(&self, expires: Height, command: &Command<'_>) -> Option<Outcome<'static>> {
        if is_change(command) && self.levels.includes(command.payload) {
            return Some(Outcome::Duplicate);
        }
        match self.sessions.recall(expires, command.client, command.sequence) {
            Memory::Executed => Some(Outcome::Duplicate),
            Memory::Unknown => Some(Outcome::Forgotten),
            Memory::Never => (expires <= self.height()).then_some(Outcome::Expired),
        }
    }

    /// Returns the outcomes of an expired bundle.
    fn settle(&self, bundle: &Bundle) -> Results {
        self.settled(bundle).expect("every outcome is settled once the bundle has expired").results
    }

    /// Returns the height of the last executed block.
    pub fn height(&self) -> Height {
        self.history.height()
    }

    /// Returns the time of the last executed block, in milliseconds since the Unix epoch; 0 before the first.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Returns the feature levels.
    pub fn level(&self) -> LevelStatus {
        self.levels.status(self.height())
    }

    /// Returns the number of executed commands, without duplicates and refused ones.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Queries the application without ordering.
    ///
    /// # Errors
    /// [`ApplicationPanic`] if the application panics. The application remains usable, because a query changes nothing.
    pub fn query(&self, question: &[u8]) -> Result<Vec<u8>, Box<ApplicationPanic>> {
        guard(self.application.name(), self.height(), Call::Query, || self.application.query(question))
    }

    /// Returns the rolling digest over all heights, bundles and results so far.
    pub fn state_digest(&self) -> Digest {
        self.history.last()
    }

    /// Returns the rolling digest at sampled heights, ascending, for [`compare_histories`](crate::compare_histories).
    pub fn history(&self) -> Vec<(Height, Digest)> {
        self.history.samples()
    }

    /// Returns the application, sessions and history in canonical form: replicas at the same height have equal bytes.
    pub fn snapshot(&mut self) -> Bytes {
        self.own_state().encode_snapshot()
    }

    /// Returns the application's state in canonical form, without sessions and history.
    pub fn application_state(&mut self) -> Bytes {
        self.application.snapshot()
    }

    /// Restores a snapshot of the same cluster and application. On an error nothing changes. Never panics on invalid
    /// bytes. The caller verifies that the state is the agreed one, by a certificate of the snapshot's digest.
    pub fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        let mut input = Decoder::new(snapshot);
        let reached = match input.get_u8("snapshot version")? {
            SNAPSHOT_VERSION => Reached::default(),
            SNAPSHOT_VERSION_WITH_LEVELS => Reached::decode(&mut input)?,
            _ => return Err(input.invalid("snapshot version", "written by another version").into()),
        };
        if Digest::decode(&mut input)? != self.epoch.0 {
            return Err(RestoreError::OtherCluster);
        }
        let name = input.get_bytes("application name", MAX_NAME_BYTES)?;
        if name != self.application.name() {
            let found = String::from_utf8_lossy(&name).into_owned();
            return Err(RestoreError::OtherApplication { expected: self.application.name(), found });
        }
        let time_ms = input.get_u64("time of the last block")?;
        let commands = get_commands(&mut input)?;
        let bytes_since_kept = input.get_u64("bytes since the state was kept")?;
        if bytes_since_kept > u64::MAX / 2 {
            return Err(input.invalid("bytes since the state was kept", "implausibly many").into());
        }
        let history = History::decode(&mut input)?;
        let sessions = Sessions::decode(&mut input, self.session_limit)?;
        let application = input.get_bytes("application state", MAX_APPLICATION_SNAPSHOT_BYTES)?;
        input.finish("end of the snapshot")?;
        let (name, height) = (self.application.name(), history.height());
        self.levels.check(name, &reached, height.next())?;
        guard(name, height, Call::Restore, || self.application.restore(application))??;
        (self.time_ms, self.commands, self.history, self.sessions) = (time_ms, commands, history, sessions);
        (self.bytes_since_kept, self.keeps_here) = (bytes_since_kept, false);
        self.levels.restore(reached);
        Ok(())
    }
}

/// Returns whether a command changes the feature level, unless it is refused.
fn is_change(command: &Command<'_>) -> bool {
    command.sequence == SYSTEM_SEQUENCE && LevelChange::is_in(command.payload)
}

/// Refuses all commands of a bundle.
fn refuse(bundle: &Bundle) -> Results {
    Results::collect((0..bundle.len()).map(|_| Outcome::Refused))
}

/// Decodes a number of executed commands that is far from overflow.
pub(crate) fn get_commands(input: &mut Decoder) -> Result<u64, DecodeError> {
    match input.get_u64("executed commands")? {
        commands if commands <= u64::MAX / 2 => Ok(commands),
        _ => Err(input.invalid("executed commands", "implausibly many")),
    }
}
