//! The executor: agreed blocks in, replies out.

use crate::application::{Application, MAX_RESULT_BYTES, RestoreError};
use crate::checkpoint::{Checkpoint, CheckpointRule, CheckpointTask};
use crate::frozen::{FrozenState, SNAPSHOT_VERSION};
use crate::history::History;
use crate::session::{Admission, MAX_SESSIONS, Memory, Sessions};
use bytes::Bytes;
use quorate_types::{
    Bundle, ClientId, ClusterId, Command, DecodeError, Decoder, Digest, Hasher, Height, Outcome, Results,
    ResultsBuilder, Wire,
};

/// Once the results of a bundle take this many bytes, the rest of its commands are refused: a few bytes of questions could
/// otherwise ask for more than fits a reply, or memory.
pub const MAX_RESULTS_BYTES: usize = 28 << 20;
/// The same of all bundles of a block together, whose results are held at once: 16 kB of questions in one block could ask for
/// 400 MiB. Whoever is refused for what others have asked may send the command again.
pub const MAX_BLOCK_RESULTS_BYTES: usize = 64 << 20;

/// Most bytes in the application's part of a snapshot.
const MAX_APPLICATION_SNAPSHOT_BYTES: usize = u32::MAX as usize;
const MAX_NAME_BYTES: usize = 64;
/// Most bytes in the replica's part of a state that was kept.
const MAX_FRONTIER_BYTES: usize = u32::MAX as usize;

/// What became of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// To whom it goes.
    pub origin: ClientId,
    /// The bundle.
    pub bundle: Digest,
    /// The height of the block that carried it; 0 if it was not ordered, as its outcome is settled.
    pub height: Height,
    /// What became of each command.
    pub results: Results,
}

/// Executes an application's commands at most once each, in the agreed order.
pub struct Executor {
    application: Box<dyn Application>,
    cluster: ClusterId,
    history: History,
    commands: u64,
    sessions: Sessions,
    session_limit: usize,
    rule: Option<CheckpointRule>,
    /// Bytes of blocks, as [`CheckpointRule`] counts them, since the last checkpoint at which the state was to be kept.
    bytes_since_kept: u64,
    /// Whether the last block ends with such a checkpoint.
    keeps_here: bool,
    /// Bytes of the results of the bundles of this block that are executed.
    block_results_bytes: usize,
    /// Reused from bundle to bundle.
    results: ResultsBuilder,
    /// Reused from command to command.
    result: Vec<u8>,
}

impl Executor {
    /// An executor at height 0 of a fresh application.
    pub fn new(application: Box<dyn Application>, cluster: &ClusterId) -> Executor {
        let mut hasher = Hasher::new(*b"qX00");
        hasher.update(&cluster.0.0);
        hasher.update(application.name().as_bytes());
        Executor {
            application,
            cluster: *cluster,
            history: History::new(hasher.finish()),
            commands: 0,
            sessions: Sessions::with_limit(MAX_SESSIONS),
            session_limit: MAX_SESSIONS,
            rule: None,
            bytes_since_kept: 0,
            keeps_here: false,
            block_results_bytes: 0,
            results: ResultsBuilder::default(),
            result: Vec::new(),
        }
    }

    /// The same, keeping the state at some checkpoints: at those by which a replica that was away can catch up.
    pub fn with_checkpoints(self, rule: CheckpointRule) -> Executor {
        rule.assert_valid();
        Executor { rule: Some(rule), ..self }
    }

    /// The same, with sessions of so many units at most ([`Sessions::with_limit`]), which must be the same on every replica. Nothing was
    /// executed yet.
    pub fn with_session_limit(self, session_limit: usize) -> Executor {
        Executor { sessions: Sessions::with_limit(session_limit), session_limit, ..self }
    }

    /// Executes the block at the next height: its bundles in their order, one reply appended for each. Commands that were executed
    /// before, in this bundle ordered twice or in another, have no effect again and are answered as duplicates. A bundle that expired
    /// has no effect, nor has one that expires so late that sessions cannot tell when it is void.
    pub fn execute(&mut self, height: Height, bundles: &[Bundle], replies: &mut Vec<Reply>) {
        assert_eq!(height, self.height().next(), "blocks are executed one after the other");
        let mut rolling = Hasher::new(*b"qX01");
        rolling.update(&self.history.last().0);
        rolling.update(&height.0.to_le_bytes());
        self.block_results_bytes = 0;
        for bundle in bundles {
            let results = match bundle.expires() {
                expires if expires < height => self.settle(bundle),
                expires if expires > height.latest_expiry() => refuse(bundle),
                expires => self.execute_bundle(bundle, expires),
            };
            rolling.update(&bundle.digest().0);
            rolling.update(results.body());
            replies.push(Reply { origin: bundle.origin(), bundle: bundle.digest(), height, results });
        }
        self.history.push(rolling.finish());
        self.count_towards_keeping(bundles);
    }

    fn count_towards_keeping(&mut self, bundles: &[Bundle]) {
        let Some(rule) = &self.rule else { return };
        self.bytes_since_kept += rule.bytes_of(bundles);
        let due = self.bytes_since_kept >= rule.bytes_between(self.application.snapshot_bytes());
        self.keeps_here = due && rule.is_checkpoint(self.height());
        if self.keeps_here {
            self.bytes_since_kept = 0;
        }
    }

    /// What a quorum is to vouch for after the last block, which ends with a checkpoint: known at once, or, if the state is kept here, by
    /// a task that any thread can run. `frontier` is what the replica needs besides to go on from here, and its digest.
    pub fn checkpoint(&mut self, frontier_digest: Digest, frontier: impl FnOnce() -> Bytes) -> CheckpointTask {
        if !self.keeps_here {
            return CheckpointTask::Done(Checkpoint::of_history(self.height(), self.history.last(), frontier_digest));
        }
        CheckpointTask::Encode(Box::new(self.freeze(frontier())))
    }

    /// The state as it is, without the replica's part: what only this replica itself may go on from.
    pub fn own_state(&mut self) -> FrozenState {
        self.freeze(Bytes::new())
    }

    /// Copies the history (256 KiB at most) and the sessions (4 MiB at most), and what the application copies to be frozen.
    fn freeze(&mut self, frontier: Bytes) -> FrozenState {
        FrozenState {
            frontier,
            cluster: self.cluster,
            application_name: self.application.name(),
            commands: self.commands,
            bytes_since_kept: self.bytes_since_kept,
            history: self.history.clone(),
            sessions: self.sessions.freeze(),
            application: self.application.freeze(),
        }
    }

    /// Becomes a state that was kept at a checkpoint, and returns the replica's part of it. That the state is the agreed one is for the
    /// caller to know.
    pub fn adopt(&mut self, state: Bytes) -> Result<Bytes, RestoreError> {
        let mut input = Decoder::new(state);
        let frontier = input.get_bytes("frontier of a state", MAX_FRONTIER_BYTES)?;
        let start = input.position();
        input.skip("snapshot of a state", input.left())?;
        self.restore(input.slice_from(start))?;
        Ok(frontier)
    }

    fn execute_bundle(&mut self, bundle: &Bundle, expires: Height) -> Results {
        let mut executed = 0;
        let most_bytes = MAX_RESULTS_BYTES.min(MAX_BLOCK_RESULTS_BYTES.saturating_sub(self.block_results_bytes));
        for command in bundle.commands() {
            if self.results.bytes() >= most_bytes {
                self.results.push(Outcome::Refused);
                continue;
            }
            let outcome = match self.sessions.admit(expires, command.client, command.sequence) {
                Admission::Fresh => {
                    executed += 1;
                    self.result.clear();
                    self.application.execute(&command, &mut self.result);
                    assert!(self.result.len() <= MAX_RESULT_BYTES, "{} answers too much", self.application.name());
                    Outcome::Executed(&self.result)
                }
                Admission::Duplicate => Outcome::Duplicate,
                Admission::Refused => Outcome::Refused,
                Admission::Forgotten => Outcome::Forgotten,
            };
            self.results.push(outcome);
        }
        self.commands += executed;
        self.application.bundle_executed(&bundle.digest());
        self.block_results_bytes += self.results.bytes();
        self.results.finish()
    }

    /// The reply to a bundle whose commands all have outcomes that nothing will change, be it ordered or not: they were executed
    /// before, in whichever bundle, or never will be. In which block they were is not known any more; the reply says 0.
    pub fn settled(&self, bundle: &Bundle) -> Option<Reply> {
        let expires = bundle.expires();
        if !bundle.commands().all(|command| self.settled_outcome(expires, &command).is_some()) {
            return None;
        }
        let outcomes = bundle.commands().filter_map(|command| self.settled_outcome(expires, &command));
        let results = Results::collect(outcomes);
        Some(Reply { origin: bundle.origin(), bundle: bundle.digest(), height: Height(0), results })
    }

    fn settled_outcome(&self, expires: Height, command: &Command<'_>) -> Option<Outcome<'static>> {
        match self.sessions.recall(expires, command.client, command.sequence) {
            Memory::Executed => Some(Outcome::Duplicate),
            Memory::Unknown => Some(Outcome::Forgotten),
            Memory::Never => (expires <= self.height()).then_some(Outcome::Expired),
        }
    }

    /// The outcomes of an expired bundle, which its block only has recorded.
    fn settle(&self, bundle: &Bundle) -> Results {
        self.settled(bundle).expect("every outcome is settled once the bundle has expired").results
    }

    /// The height of the last executed block.
    pub fn height(&self) -> Height {
        self.history.height()
    }

    /// Commands executed, duplicates and refused ones not counted.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Asks the application, without ordering.
    pub fn query(&self, question: &[u8]) -> Vec<u8> {
        self.application.query(question)
    }

    /// A rolling digest over all heights, bundles and results so far: replicas that executed the same have the same.
    pub fn state_digest(&self) -> Digest {
        self.history.last()
    }

    /// A rolling digest over heights, bundles and results at sampled heights, ascending: what
    /// [`compare_histories`](crate::compare_histories) compares.
    pub fn history(&self) -> Vec<(Height, Digest)> {
        self.history.samples()
    }

    /// The whole state, application, sessions and history, in canonical form: replicas at one height have equal bytes.
    pub fn snapshot(&mut self) -> Bytes {
        self.own_state().encode_snapshot()
    }

    /// Becomes the state of a snapshot of the same cluster and application. On an error nothing has changed, whatever the bytes
    /// were; that the state is the agreed one is for the caller to know, by a certificate of the snapshot's digest.
    pub fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        let mut input = Decoder::new(snapshot);
        if input.get_u8("snapshot version")? != SNAPSHOT_VERSION {
            return Err(input.invalid("snapshot version", "it was written by another version").into());
        }
        if Digest::decode(&mut input)? != self.cluster.0 {
            return Err(RestoreError::OtherCluster);
        }
        let name = input.get_bytes("application name", MAX_NAME_BYTES)?;
        if name != self.application.name() {
            let found = String::from_utf8_lossy(&name).into_owned();
            return Err(RestoreError::OtherApplication { expected: self.application.name(), found });
        }
        let commands = get_commands(&mut input)?;
        let bytes_since_kept = input.get_u64("bytes since the state was kept")?;
        if bytes_since_kept > u64::MAX / 2 {
            return Err(input.invalid("bytes since the state was kept", "no cluster has executed that many").into());
        }
        let history = History::decode(&mut input)?;
        let sessions = Sessions::decode(&mut input, self.session_limit)?;
        let application = input.get_bytes("application state", MAX_APPLICATION_SNAPSHOT_BYTES)?;
        input.finish("end of the snapshot")?;
        self.application.restore(application)?;
        (self.commands, self.history, self.sessions) = (commands, history, sessions);
        (self.bytes_since_kept, self.keeps_here) = (bytes_since_kept, false);
        Ok(())
    }
}

/// The outcomes of a bundle that is not looked into.
fn refuse(bundle: &Bundle) -> Results {
    Results::collect((0..bundle.len()).map(|_| Outcome::Refused))
}

/// Reads a count of executed commands, with room to count on.
pub(crate) fn get_commands(input: &mut Decoder) -> Result<u64, DecodeError> {
    match input.get_u64("executed commands")? {
        commands if commands <= u64::MAX / 2 => Ok(commands),
        _ => Err(input.invalid("executed commands", "no cluster has executed that many")),
    }
}
