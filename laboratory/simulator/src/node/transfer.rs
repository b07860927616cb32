//! Checkpoints and state transfer of a simulated replica.

use super::{Begun, Leaves, Node, Surroundings};
use crate::chronicle::{Fetched, Holdings};
use bytes::Bytes;
use quorate_adversary::oracles::Property;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::{Action, Input, Protocol};
use quorate_hosting::Chunks;
use quorate_types::state::chunk_of;
use quorate_types::{Certificate, Height, Manifest};

/// A state on the simulated disk, or being written to it.
pub(super) struct Stored {
    state: Bytes,
    is_durable: bool,
}

impl Stored {
    fn new(state: Bytes) -> Stored {
        Stored { state, is_durable: false }
    }
}

impl Chunks for Stored {
    fn chunk(&mut self, _: &Manifest, chunk: u32) -> Option<Bytes> {
        chunk_of(&self.state, chunk)
    }
}

impl<P: Protocol> Node<P> {
    /// Performs the actions on checkpoints and states.
    pub(super) fn perform_on_state(&mut self, action: Action<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        match action {
            Action::DigestState { frontier } => self.digest_state(&frontier, world),
            Action::StateStable { checkpoint } => {
                let height = checkpoint.subject.height;
                if self.states.certify(*checkpoint).is_some_and(|kept| !kept.state.is_durable) {
                    world.begun.push(Begun::Keep(height));
                }
            }
            Action::ReadState { to, height, part } => {
                let bytes = self.states.read(height, part);
                self.local.push_back(Input::StateRead { to, height, part, bytes });
            }
            Action::ReceiveState { height, manifest } => self.receive_state(height, manifest, world),
            Action::KeepChunk { height, chunk, bytes } => {
                if self.passes() {
                    world.chronicle.receives(self.parts.me);
                    self.states.keep_chunk(height, chunk, bytes);
                    self.passes();
                }
            }
            Action::AdoptState { checkpoint } => {
                if self.passes() {
                    self.adopt_state(*checkpoint, world);
                    self.passes();
                }
            }
            _ => unreachable!("it is performed elsewhere"),
        }
    }

    fn digest_state(&mut self, frontier: &Frontier, world: &mut Surroundings<'_, P::Message>) {
        let height = frontier.height();
        if height <= self.adopted {
            return;
        }
        assert_eq!(self.parts.executor.height(), height, "blocks are executed as they are committed");
        let checkpoint = self.parts.executor.checkpoint(frontier.digest(), || frontier.to_bytes()).run();
        let history = self.parts.executor.state_digest();
        world.oracle.vouches(self.parts.me, height, checkpoint.digest, history);
        let (state, kept) = (checkpoint.digest, checkpoint.kept.is_some());
        if let Some((manifest, state)) = checkpoint.kept {
            world.charges.hash(&mut self.ledger, 1, state.len() as u64);
            self.states.keep(height, manifest, Stored::new(state));
        }
        self.local.push_back(Input::Executed { height, state, kept });
    }

    fn receive_state(&mut self, height: Height, manifest: Manifest, world: &mut Surroundings<'_, P::Message>) {
        let chunks = manifest.chunks();
        let held = self.states.receive(height, manifest, |_| None);
        world.chronicle.fetched.push(Fetched {
            replica: self.parts.me,
            height,
            begun: self.now,
            from: self.parts.executor.height(),
            chunks,
            held: held.len() as u32,
            received: 0,
            adopted: None,
            points: (self.points, None),
        });
        self.local.push_back(Input::Holds { height, chunks: held });
    }

    /// Writes a completely transferred state. The replica adopts it once it is durable.
    fn adopt_state(&mut self, checkpoint: Certificate, world: &mut Surroundings<'_, P::Message>) {
        let height = checkpoint.subject.height;
        if height <= self.parts.executor.height() {
            // The blocks have arrived in the meantime, and the replica has executed them.
            return;
        }
        let (manifest, state) = self.states.received(height);
        self.states.keep_certified(checkpoint.clone(), manifest, Stored::new(state.clone()));
        world.charges.hash(&mut self.ledger, 1, state.len() as u64);
        if let Some(frontier) = self.become_state(&checkpoint, &state, world) {
            self.adopting = Some((checkpoint, frontier));
            world.begun.push(Begun::Keep(height));
        }
    }

    /// Continues execution from a state. Returns the replica's part of it, or `None` if it is invalid, which is
    /// reported to the oracle.
    fn become_state(
        &mut self,
        checkpoint: &Certificate,
        state: &Bytes,
        world: &mut Surroundings<'_, P::Message>,
    ) -> Option<Frontier> {
        let (me, height) = (self.parts.me, checkpoint.subject.height);
        let adopted = self.parts.executor.adopt(state.clone()).map_err(|error| error.to_string());
        let frontier = adopted.and_then(|bytes| Frontier::from_bytes(bytes).map_err(|error| error.to_string()));
        match frontier {
            Ok(frontier) => {
                self.adopted = height;
                let digest = Manifest::of(state).digest();
                let (history, time_ms) = (self.parts.executor.state_digest(), self.parts.executor.time_ms());
                world.oracle.adopts(me, height, digest, history, time_ms);
                Some(frontier)
            }
            Err(why) => {
                let what = format!("replica {me} adopts an invalid state of height {height}: {why}");
                world.oracle.report(Property::Agreement, what);
                None
            }
        }
    }

    /// Records that a state is on disk, and adopts it if the replica waits for it.
    pub fn kept(&mut self, height: Height) {
        if let Some(kept) = self.states.get_mut(height) {
            kept.state.is_durable = true;
        }
        if let Some((checkpoint, frontier)) = self.adopting.take_if(|(waiting, _)| waiting.subject.height == height) {
            self.local.push_back(Input::Adopted { checkpoint: Box::new(checkpoint), frontier });
        }
    }

    /// Applies a crash to the states, as to a node's files: flushed states survive, and so do the chunks of an
    /// interrupted transfer if the machine kept its power.
    pub(super) fn lose_states(&mut self, leaves: Leaves) {
        if ![Leaves::Stopped, Leaves::Written].contains(&leaves) {
            self.states.forget_received();
        }
        self.states.retain(|kept| kept.state.is_durable && leaves != Leaves::Nothing);
    }

    /// Restores the newest state on disk before the journal is read, and reports all states there to the replica.
    pub(super) fn restore(&mut self, world: &mut Surroundings<'_, P::Message>) -> Option<(Certificate, Frontier)> {
        let certified =
            self.states.certified().map(|(checkpoint, kept)| (checkpoint.clone(), kept.state.state.clone()));
        let certified: Vec<(Certificate, Bytes)> = certified.collect();
        let (newest, state) = certified.last()?.clone();
        world.charges.hash(&mut self.ledger, 1, state.len() as u64);
        let frontier = self.become_state(&newest, &state, world)?;
        for (checkpoint, _) in certified {
            self.feed(Input::Kept { checkpoint: Box::new(checkpoint) }, world);
        }
        Some((newest, frontier))
    }

    /// Adopts the restored state unless the journal already mentions it.
    pub(super) fn adopt_restored(
        &mut self,
        restored: Option<(Certificate, Frontier)>,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let behind = |checkpoint: &Certificate| self.parts.replica.committed_height() < checkpoint.subject.height;
        if let Some((checkpoint, frontier)) = restored.filter(|(checkpoint, _)| behind(checkpoint)) {
            self.feed(Input::Adopted { checkpoint: Box::new(checkpoint), frontier }, world);
        }
    }

    /// Returns the height and the number of commands that it has executed, and its holdings.
    pub fn progress(&self) -> (u64, u64, Holdings) {
        let parts = self.parts.replica.parts();
        let received: usize = self.states.received_chunks().map(Bytes::len).sum();
        let kept: usize = self.states.kept().iter().map(|kept| kept.state.state.len()).sum();
        let holdings = Holdings {
            blocks: parts.store.tree.len(),
            whole_blocks: (parts.store.committed().0 - parts.store.whole_above().0) as usize,
            rounds: parts.tally.rounds() + parts.checkpoints.tally.rounds(),
            states: self.states.kept().len(),
            state_bytes: kept + received,
        };
        (self.parts.executor.height().0, self.parts.executor.commands(), holdings)
    }
}
