//! Re-executes a journal, and compares the states with the certified checkpoints.

use super::chain::Committed;
use super::collector::{Base, Collector, Proof};
use super::place::Place;
use quorate_applications::{Checkpoint, CheckpointRule, Executor, Reply};
use quorate_consensus::recovery::frontier::Frontier;
use quorate_node::HostError;
use quorate_node::initial_state;
use quorate_node::snapshots::{Snapshot, SnapshotFiles};
use quorate_types::{Certificate, Digest, Encoder, Height, Manifest, Subject, Wire};
use std::collections::BTreeMap;

/// Preimage of a checkpoint's digest.
pub(super) enum Opening {
    /// Digest of the history, and the last committed blocks.
    History {
        /// Rolling digest of the history.
        history: Digest,
        frontier: Frontier,
    },
    /// The application state itself.
    State,
}

/// State after execution up to a checkpoint.
struct Reached {
    digest: Digest,
    opening: Opening,
}

/// Result of executing one block.
pub(super) struct Executed<'a> {
    pub replies: &'a [Reply],
    /// Rolling digest and time before the block, if it is the first one executed.
    pub begins_after: Option<(Digest, u64)>,
}

/// States reached so far.
pub(super) struct States<'a> {
    place: &'a Place,
    rule: CheckpointRule,
    /// Executes the blocks above its own height; `None` if the state before them is missing.
    executor: Option<Executor>,
    /// Latest state in a file, unless execution began with it.
    snapshot: Option<Snapshot>,
    snapshots_compared: u64,
    wrong: Vec<String>,
    reached: BTreeMap<Height, Reached>,
    /// Certified checkpoints by height, each with its record.
    vouched: BTreeMap<Height, (u64, Certificate)>,
    replies: Vec<Reply>,
    has_begun: bool,
    /// Collects the executed blocks, if a snapshot of the cluster is made.
    collector: Option<Collector>,
}

impl<'a> States<'a> {
    pub fn new(place: &'a Place) -> States<'a> {
        let consensus = &place.config.consensus;
        let (interval, blocks, bytes) =
            (consensus.checkpoint_interval, consensus.retained_blocks, consensus.retained_bytes);
        States {
            place,
            rule: CheckpointRule::new(interval, blocks, bytes),
            executor: None,
            snapshot: None,
            snapshots_compared: 0,
            wrong: Vec::new(),
            reached: BTreeMap::new(),
            vouched: BTreeMap::new(),
            replies: Vec::new(),
            has_begun: false,
            collector: None,
        }
    }

    fn fresh(&self) -> Executor {
        let Place { config, initial, committee, identities, .. } = self.place;
        let executor = initial_state::executor(config.application, initial.clone(), &committee.epoch);
        let executor = executor.expect("it was made when the directory was opened");
        executor.with_checkpoints(self.rule).with_levels(committee.len(), identities.clone())
    }

    pub fn collect(&mut self, collector: Collector) {
        self.collector = Some(collector);
    }

    pub fn take_collector(&mut self) -> Option<Collector> {
        self.collector.take()
    }

    fn begin_collection(&mut self, base: impl FnOnce() -> Base) {
        if let Some(collector) = &mut self.collector {
            collector.begin(base());
        }
    }

    /// Returns the last checkpoint of the history that a quorum has certified.
    pub fn last_proof(&self) -> Option<Proof> {
        let vouched = self.vouched.get(&self.proven()?)?;
        match &self.reached.get(&vouched.1.subject.height)?.opening {
            Opening::History { frontier, .. } => Some((vouched.1.clone(), frontier.clone())),
            Opening::State => None,
        }
    }

    /// Begins execution after the block at this height.
    pub fn begin_on(&mut self, height: Height) {
        self.snapshot = self.read_snapshot();
        if height == Height(0) {
            self.executor = Some(self.fresh());
            self.begin_collection(|| Base::Initial);
            return;
        }
        self.executor = None;
        self.has_begun = false;
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| snapshot.height >= height) {
            let mut executor = self.fresh();
            match executor.adopt(snapshot.state.clone()) {
                Ok(_) => self.executor = Some(executor),
                Err(why) => self.wrong.push(format!("the snapshot at height {} is unusable: {why}", snapshot.height)),
            }
            if let Some(certificate) = &snapshot.certificate {
                self.judge_snapshot(snapshot.height, certificate, &snapshot.state);
            }
            self.begin_collection(|| base_of(snapshot));
        }
    }

    /// Reads the latest state in a file. A running replica may replace the file at any time.
    fn read_snapshot(&mut self) -> Option<Snapshot> {
        let files = SnapshotFiles::beside(&self.place.journal, self.place.identity());
        let newest = files.heights().ok()?.last().copied()?;
        let snapshot = match files.read_last() {
            Err(error @ HostError::SnapshotFormat { .. }) => {
                self.wrong.push(error.to_string());
                return None;
            }
            read => read.ok().flatten(),
        };
        if snapshot.as_ref().is_none_or(|snapshot| snapshot.height < newest) && files.path(newest).exists() {
            let path = files.path(newest).display().to_string();
            self.wrong.push(format!(
                "{path} is damaged or belongs to another replica; remove it, and the replica uses the previous \
                 snapshot or fetches a state"
            ));
        }
        snapshot
    }

    /// Checks the certificate of the state in a file.
    fn judge_snapshot(&mut self, height: Height, certificate: &Certificate, state: &[u8]) {
        let genuine = quorate_crypto::verify_certificate(&self.place.keyring, certificate);
        let of_state =
            certificate.subject.height == height && certificate.subject.digest == Manifest::of(state).digest();
        match (genuine, of_state) {
            (Ok(()), true) => self.snapshots_compared += 1,
            (Ok(()), false) => {
                self.wrong.push(format!("the snapshot at height {height} does not match its certificate"));
            }
            (Err(why), _) => {
                self.wrong.push(format!("the certificate of the snapshot at height {height} is invalid: {why}"))
            }
        }
    }

    /// Returns the height up to which blocks were executed, or `None` if there was no state to start from.
    pub fn executed(&self) -> Option<Height> {
        self.executor.as_ref().map(Executor::height)
    }

    /// Executes a block, unless the state already includes it or is missing. `frontier` returns the last committed
    /// blocks, including this one.
    pub fn execute(&mut self, committed: &Committed, frontier: impl Fn() -> Frontier) -> Option<Executed<'_>> {
        let height = committed.block.height;
        let executor = self.executor.as_mut().filter(|executor| executor.height().next() == height)?;
        if let Err(why) = executor.check_level() {
            self.wrong.push(why.to_string());
            self.executor = None;
            return None;
        }
        let begins_after =
            (!std::mem::replace(&mut self.has_begun, true)).then(|| (executor.state_digest(), executor.time_ms()));
        self.replies.clear();
        executor.execute((&*committed.block).into(), &committed.bundles, &mut self.replies);
        self.collector.iter_mut().for_each(|collector| collector.take(committed));
        if self.rule.is_checkpoint(height) {
            let frontier = frontier();
            let Checkpoint { digest, kept } = executor.checkpoint(frontier.digest(), || encode(&frontier)).run();
            let opening = match kept {
                None => Opening::History { history: executor.state_digest(), frontier },
                Some(_) => Opening::State,
            };
            self.reached.insert(height, Reached { digest, opening });
        }
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| snapshot.height == height) {
            let equal = match &snapshot.certificate {
                None => snapshot.state == executor.own_state().encode(),
                Some(certificate) => {
                    self.reached.get(&height).is_some_and(|reached| reached.digest == certificate.subject.digest)
                }
            };
            if !equal {
                self.wrong
                    .push(format!("the snapshot at height {height} differs from the state that the journal leads to"));
            } else if let Some(certificate) = &snapshot.certificate {
                self.judge_snapshot(height, certificate, &snapshot.state);
                self.begin_collection(|| base_of(snapshot));
            } else {
                self.snapshots_compared += 1;
            }
        }
        Some(Executed { replies: &self.replies, begins_after })
    }

    /// Records a verified certificate.
    pub fn vouch(&mut self, id: u64, certificate: &Certificate) {
        self.vouched.entry(certificate.subject.height).or_insert_with(|| (id, certificate.clone()));
    }

    /// Returns whether a quorum certified the state at this height.
    pub fn is_vouched(&self, height: Height) -> bool {
        self.vouched.contains_key(&height)
    }

    /// Compares the states. Returns the number of states that match the certified digest or the state file, and the
    /// mismatches, each with the record that reveals it, if any.
    pub fn compare(&mut self) -> (u64, Vec<(Option<u64>, String)>) {
        let mut wrong: Vec<_> = std::mem::take(&mut self.wrong).into_iter().map(|what| (None, what)).collect();
        let mut equal = self.snapshots_compared;
        for (height, (id, certificate)) in &self.vouched {
            let Subject { digest, .. } = certificate.subject;
            match self.reached.get(height) {
                None => {}
                Some(reached) if reached.digest == digest => equal += 1,
                Some(reached) => {
                    let what = format!(
                        "a quorum certified the state {digest} at height {height}, but executing the journal gives {}",
                        reached.digest
                    );
                    wrong.push((Some(*id), what));
                }
            }
        }
        (equal, wrong)
    }

    /// Returns the last height at which the history reached is certified.
    pub fn proven(&self) -> Option<Height> {
        let equal = |(height, (_, certificate)): &(&Height, &(u64, Certificate))| {
            self.reached.get(height).is_some_and(|reached| {
                matches!(reached.opening, Opening::History { .. }) && reached.digest == certificate.subject.digest
            })
        };
        self.vouched.iter().rev().find(equal).map(|(height, _)| *height)
    }

    /// Returns the certificates of the states reached, in ascending order, with the preimages of their digests.
    pub fn checkpoints(&self) -> Vec<(&Certificate, &Opening)> {
        let vouched = self.vouched.iter();
        vouched
            .filter_map(|(height, (_, certificate))| Some((certificate, &self.reached.get(height)?.opening)))
            .collect()
    }
}

fn base_of(Snapshot { height, certificate, state }: Snapshot) -> Base {
    match certificate {
        Some(certificate) => Base::State { certificate: Box::new(certificate), state },
        None => Base::Unproven(height),
    }
}

fn encode(frontier: &Frontier) -> bytes::Bytes {
    let mut out = Encoder::with_capacity(4096);
    frontier.encode(&mut out);
    out.finish()
}
