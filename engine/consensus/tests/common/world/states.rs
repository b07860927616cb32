//! The states that a host keeps at checkpoints, serves, receives and adopts.

use super::{Committed, Happening, World};
use crate::common::play::Play;
use bytes::Bytes;
use quorate_consensus::Input;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::recovery::transfer::Part;
use quorate_hosting::StateKeeper;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::state::CHUNK_BYTES;
use quorate_types::{Certificate, Decoder, Digest, Domain, Encoder, Hasher, Height, Manifest, ReplicaId, Wire};

/// States of a host. Those that are certified or received survive a restart.
#[derive(Default)]
pub(super) struct States {
    keeper: StateKeeper<Bytes>,
    /// Height of the highest state that was dropped since the last restart before a quorum certified it.
    gone: Option<Height>,
    /// The last adopted state.
    adopted: Option<(Certificate, Frontier)>,
}

/// Content of a state.
struct Content {
    frontier: Frontier,
    executed: Digest,
    chain: Vec<Digest>,
}

impl Content {
    /// Encodes the content into chunks. Every other chunk differs from state to state.
    fn encode(&self, min_bytes: usize) -> Bytes {
        let mut out = Encoder::with_capacity(4096);
        self.frontier.encode(&mut out);
        self.executed.encode(&mut out);
        encode_list(&self.chain, &mut out);
        let mut state = out.finish().to_vec();
        while state.len() < min_bytes {
            let chunk = state.len() / CHUNK_BYTES;
            let byte = if chunk.is_multiple_of(2) { chunk as u8 } else { self.chain.len() as u8 };
            state.resize(min_bytes.min((chunk + 1) * CHUNK_BYTES), byte);
        }
        state.into()
    }

    fn decode(state: Bytes) -> Content {
        let mut input = Decoder::new(state);
        let frontier = Frontier::decode(&mut input).expect("a certified state decodes");
        let executed = Digest::decode(&mut input).expect("a certified state decodes");
        let chain = decode_list(&mut input, "chain", usize::MAX >> 8, 32).expect("a certified state decodes");
        Content { frontier, executed, chain }
    }
}

impl States {
    /// Restarts the host. Returns the checkpoints whose states it has.
    pub fn begin_again(&mut self) -> Vec<Certificate> {
        self.gone = None;
        self.keeper.retain(|kept| kept.certificate.is_some());
        self.certified().collect()
    }

    /// Returns the checkpoints whose states survive a restart.
    pub fn certified(&self) -> impl Iterator<Item = Certificate> {
        self.keeper.certified().map(|(checkpoint, _)| checkpoint.clone())
    }

    /// Returns the adopted state of which a restarted replica must be told, if it is above `committed`.
    pub fn adoption<M>(&self, committed: Height) -> Option<Input<M>> {
        let adopted = self.adopted.clone().filter(|(_, frontier)| frontier.height() > committed);
        adopted.map(|(checkpoint, frontier)| Input::Adopted { checkpoint: Box::new(checkpoint), frontier })
    }

    fn keep(&mut self, height: Height, manifest: Manifest, state: Bytes) {
        let oldest = self.keeper.kept().iter().find(|kept| kept.certificate.is_none()).map(|kept| kept.height);
        self.keeper.keep(height, manifest, state);
        if let Some(oldest) = oldest.filter(|oldest| self.keeper.get_mut(*oldest).is_none()) {
            self.gone = Some(oldest);
        }
    }

    pub fn read(&mut self, height: Height, part: Part) -> Option<Bytes> {
        self.keeper.read(height, part)
    }

    pub fn receive(&mut self, height: Height, manifest: Manifest) -> Vec<u32> {
        self.keeper.receive(height, manifest, |_| None)
    }

    pub fn keep_chunk(&mut self, me: ReplicaId, height: Height, chunk: u32, bytes: Bytes) {
        let (_, manifest) = self.keeper.receiving().expect("chunks arrive after the host is ready");
        assert!(manifest.fits(chunk, &bytes), "{me:?} accepts a chunk that is not of the state");
        self.keeper.keep_chunk(height, chunk, bytes);
    }

    /// Returns the height of the last adopted state on disk.
    pub fn adopted(&self) -> Option<Height> {
        self.adopted.as_ref().map(|(checkpoint, _)| checkpoint.subject.height)
    }

    pub fn heights(&self) -> Vec<Height> {
        self.keeper.certified().map(|(checkpoint, _)| checkpoint.subject.height).collect()
    }
}

impl<P: Play> World<P> {
    /// Computes the digest of the state at a checkpoint. At checkpoints chosen by a common rule, the digest covers the
    /// full state, which is kept.
    pub(super) fn digest_state(&mut self, me: ReplicaId, frontier: Frontier) {
        let (height, every) = (frontier.height(), self.config.checkpoint_interval * self.keeps_every);
        let node = &mut self.nodes[me.index()];
        if node.states.adopted() > Some(height) {
            // The host has adopted a later state, and the replica does not know this yet.
            return;
        }
        assert_eq!(node.executed, height, "{me:?} requests the state at another height");
        let kept = height.0.is_multiple_of(every);
        let state = if kept {
            let chain = node.commits[..height.0 as usize].iter().map(|commit| commit.block.digest()).collect();
            let state = Content { frontier, executed: node.state, chain }.encode(self.state_bytes);
            let manifest = Manifest::of(&state);
            let digest = manifest.digest();
            node.states.keep(height, manifest, state);
            digest
        } else {
            let mut hasher = Hasher::new(*b"tCHK");
            hasher.update(&node.state.0);
            hasher.update(&frontier.digest().0);
            hasher.finish()
        };
        let life = node.life;
        self.push(self.now, Happening::Answer { replica: me, life, input: Input::Executed { height, state, kept } });
    }

    pub(super) fn state_stable(&mut self, me: ReplicaId, checkpoint: Certificate) {
        assert!(
            self.keys.is_certificate_genuine(&checkpoint),
            "{me:?} accepts a checkpoint without a valid certificate"
        );
        let (height, states) = (checkpoint.subject.height, &mut self.nodes[me.index()].states);
        let is_here = states.keeper.certify(checkpoint).is_some();
        assert!(is_here || states.gone >= Some(height), "{me:?} offers a state that is not kept");
    }

    /// Adopts a state. The state is on disk and in the application before the replica learns of it.
    pub(super) fn adopt_state(&mut self, me: ReplicaId, checkpoint: Certificate) {
        let height = checkpoint.subject.height;
        let (manifest, state) = self.nodes[me.index()].states.keeper.received(height);
        assert_eq!(Manifest::of(&state), manifest, "{me:?} adopts a different state");
        assert_eq!(manifest.digest(), checkpoint.subject.digest, "{me:?} adopts a different state");
        assert_eq!(checkpoint.subject.domain, Domain::Checkpoint);
        assert!(self.keys.is_certificate_genuine(&checkpoint), "{me:?} adopts a state without a valid certificate");
        let Content { frontier, executed, chain } = Content::decode(state.clone());
        self.oracle.adopted(me, height, &chain);
        let (now, blocks) = (self.now, &self.chain);
        let node = &mut self.nodes[me.index()];
        if node.executed < height {
            let known = node.commits.len();
            let skipped = blocks[..height.0 as usize].iter().skip(known).cloned();
            node.commits.extend(skipped.map(|block| Committed { time: now, block }));
            (node.executed, node.state, node.snapshot) = (height, executed, (height, executed));
            node.states.keeper.keep_certified(checkpoint.clone(), manifest, state);
            node.states.adopted = Some((checkpoint.clone(), frontier.clone()));
        }
        self.answer(me, Input::Adopted { checkpoint: Box::new(checkpoint), frontier });
    }

    /// Reports the adopted state after a restart, if the journal does not mention it.
    pub(super) fn tell_of_adoption(&mut self, me: ReplicaId) {
        let node = &self.nodes[me.index()];
        if let Some(input) = node.states.adoption(node.replica.committed_height()) {
            self.step(me, input);
        }
    }

    /// Returns the height of the last state that a replica's host adopted.
    pub fn adopted(&self, replica: u16) -> Option<Height> {
        self.nodes[usize::from(replica)].states.adopted()
    }

    /// Returns the heights of the states that a replica can serve.
    pub fn states(&self, replica: u16) -> Vec<Height> {
        self.nodes[usize::from(replica)].states.heights()
    }
}
