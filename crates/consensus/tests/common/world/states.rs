//! The states that a host keeps at checkpoints, hands out, receives and takes over.

use super::{Committed, Happening, World};
use crate::common::play::Play;
use bytes::Bytes;
use quorate_consensus::Input;
use quorate_consensus::checkpoints::STATES_KEPT;
use quorate_consensus::frontier::Frontier;
use quorate_consensus::transfer::Part;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::state::{CHUNK_BYTES, chunk_of};
use quorate_types::{Certificate, Decoder, Digest, Domain, Encoder, Hasher, Height, Manifest, ReplicaId, Wire};
use std::collections::BTreeMap;

/// A state that is on its way here.
struct Receiving {
    height: Height,
    manifest: Manifest,
    chunks: BTreeMap<u32, Bytes>,
}

/// What a host has of states. All but `fresh` outlives a restart.
#[derive(Default)]
pub(super) struct States {
    /// Kept, but not vouched for by a quorum yet.
    fresh: BTreeMap<Height, Bytes>,
    /// Those that a quorum vouches for, oldest first.
    stable: Vec<(Certificate, Bytes)>,
    receiving: Option<Receiving>,
    /// What was taken over last.
    adopted: Option<(Certificate, Frontier)>,
}

/// What a state holds.
struct Content {
    frontier: Frontier,
    executed: Digest,
    chain: Vec<Digest>,
}

impl Content {
    /// In chunks of which every other differs from state to state.
    fn encode(&self, least_bytes: usize) -> Bytes {
        let mut out = Encoder::with_capacity(4096);
        self.frontier.encode(&mut out);
        self.executed.encode(&mut out);
        encode_list(&self.chain, &mut out);
        let mut state = out.finish().to_vec();
        while state.len() < least_bytes {
            let chunk = state.len() / CHUNK_BYTES;
            let byte = if chunk.is_multiple_of(2) { chunk as u8 } else { self.chain.len() as u8 };
            state.resize(least_bytes.min((chunk + 1) * CHUNK_BYTES), byte);
        }
        state.into()
    }

    fn decode(state: Bytes) -> Content {
        let mut input = Decoder::new(state);
        let frontier = Frontier::decode(&mut input).expect("a quorum vouches for it");
        let executed = Digest::decode(&mut input).expect("a quorum vouches for it");
        let chain = decode_list(&mut input, "chain", usize::MAX >> 8, 32).expect("a quorum vouches for it");
        Content { frontier, executed, chain }
    }
}

impl States {
    /// A host begins a life: for each of these checkpoints it has the state.
    pub fn begin_again(&mut self) -> Vec<Certificate> {
        self.fresh.clear();
        self.stable.iter().map(|(checkpoint, _)| checkpoint.clone()).collect()
    }

    fn keep_stable(&mut self, checkpoint: Certificate, state: Bytes) {
        let height = checkpoint.subject.height;
        self.fresh = self.fresh.split_off(&height.next());
        self.stable.push((checkpoint, state));
        let surplus = self.stable.len().saturating_sub(STATES_KEPT);
        self.stable.drain(..surplus);
    }

    pub fn read(&self, height: Height, part: Part) -> Option<Bytes> {
        let (_, state) = self.stable.iter().find(|(checkpoint, _)| checkpoint.subject.height == height)?;
        match part.checked_sub(1) {
            None => {
                let mut out = Encoder::with_capacity(64);
                Manifest::of(state).encode(&mut out);
                Some(out.finish())
            }
            Some(chunk) => chunk_of(state, chunk),
        }
    }

    /// Prepares for a state, and says which of its chunks are here already: of an interrupted transfer, or the same as in its own.
    pub fn receive(&mut self, height: Height, manifest: Manifest) -> Vec<u32> {
        let own = self.stable.last().map(|(_, state)| state.clone());
        let before = self.receiving.take().filter(|receiving| receiving.height == height);
        let mut chunks = before.map(|before| before.chunks).unwrap_or_default();
        for chunk in 0..manifest.chunks() {
            let found = own.as_ref().and_then(|own| chunk_of(own, chunk));
            if let Some(found) = found.filter(|found| manifest.fits(chunk, found)) {
                chunks.insert(chunk, found);
            }
        }
        let held = chunks.keys().copied().collect();
        self.receiving = Some(Receiving { height, manifest, chunks });
        held
    }

    pub fn keep_chunk(&mut self, me: ReplicaId, height: Height, chunk: u32, bytes: Bytes) {
        let receiving = self.receiving.as_mut().filter(|receiving| receiving.height == height);
        let Some(receiving) = receiving else { panic!("{me:?} keeps a chunk of a state that it has not begun") };
        assert!(receiving.manifest.fits(chunk, &bytes), "{me:?} believes a chunk that is not of the state");
        receiving.chunks.insert(chunk, bytes);
    }

    fn received(&mut self, me: ReplicaId, height: Height) -> Bytes {
        let receiving = self.receiving.take().filter(|receiving| receiving.height == height);
        let Receiving { manifest, chunks, .. } = receiving.expect("what is adopted was received");
        assert_eq!(chunks.len(), manifest.chunks() as usize, "{me:?} adopts a state that is not all here");
        chunks.into_values().flatten().collect::<Vec<u8>>().into()
    }

    /// The height of the state that was taken over last, and whether that is on the disk.
    pub fn adopted(&self) -> Option<Height> {
        self.adopted.as_ref().map(|(checkpoint, _)| checkpoint.subject.height)
    }

    pub fn heights(&self) -> Vec<Height> {
        self.stable.iter().map(|(checkpoint, _)| checkpoint.subject.height).collect()
    }
}

impl<P: Play> World<P> {
    /// At checkpoints whose number a rule chooses, the same for all, the digest is that of the state itself, which is kept.
    pub(super) fn digest_state(&mut self, me: ReplicaId, frontier: Frontier) {
        let (height, every) = (frontier.height(), self.config.checkpoint_interval * self.keeps_every);
        let node = &mut self.nodes[me.index()];
        if node.states.adopted() > Some(height) {
            // It has taken a later state over, and the replica has not heard of that yet.
            return;
        }
        assert_eq!(node.executed, height, "{me:?} asks for the state of another height");
        let kept = height.0.is_multiple_of(every);
        let state = if kept {
            let chain = node.commits[..height.0 as usize].iter().map(|commit| commit.block.digest()).collect();
            let state = Content { frontier, executed: node.state, chain }.encode(self.state_bytes);
            let digest = Manifest::of(&state).digest();
            node.states.fresh.insert(height, state);
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
        assert!(self.keys.is_certificate_genuine(&checkpoint), "{me:?} believes a checkpoint that nobody vouches for");
        let states = &mut self.nodes[me.index()].states;
        let state = states.fresh.get(&checkpoint.subject.height).expect("it is kept here").clone();
        states.keep_stable(checkpoint, state);
    }

    /// The state is on the disk, and the application in it, before the replica hears of that.
    pub(super) fn adopt_state(&mut self, me: ReplicaId, checkpoint: Certificate) {
        let height = checkpoint.subject.height;
        let state = self.nodes[me.index()].states.received(me, height);
        assert_eq!(Manifest::of(&state).digest(), checkpoint.subject.digest, "{me:?} adopts another state");
        assert_eq!(checkpoint.subject.domain, Domain::Checkpoint);
        assert!(self.keys.is_certificate_genuine(&checkpoint), "{me:?} adopts what no quorum vouches for");
        let Content { frontier, executed, chain } = Content::decode(state.clone());
        self.oracle.adopted(me, height, &chain);
        let (now, blocks) = (self.now, &self.chain);
        let node = &mut self.nodes[me.index()];
        if node.executed < height {
            let known = node.commits.len();
            let skipped = blocks[..height.0 as usize].iter().skip(known).cloned();
            node.commits.extend(skipped.map(|block| Committed { time: now, block }));
            (node.executed, node.state, node.snapshot) = (height, executed, (height, executed));
            node.states.keep_stable(checkpoint.clone(), state);
            node.states.adopted = Some((checkpoint.clone(), frontier.clone()));
        }
        self.answer(me, Input::Adopted { checkpoint: Box::new(checkpoint), frontier });
    }

    /// A host that comes back tells of the state that it has taken over, if the journal does not.
    pub(super) fn tell_of_adoption(&mut self, me: ReplicaId) {
        let node = &self.nodes[me.index()];
        let committed = node.replica.committed_height();
        let adopted = node.states.adopted.clone();
        if let Some((checkpoint, frontier)) = adopted.filter(|(_, frontier)| frontier.height() > committed) {
            self.step(me, Input::Adopted { checkpoint: Box::new(checkpoint), frontier });
        }
    }

    /// Up to where a replica's host has taken a state over.
    pub fn adopted(&self, replica: u16) -> Option<Height> {
        self.nodes[usize::from(replica)].states.adopted()
    }

    /// The heights of the states that a replica can hand out.
    pub fn states(&self, replica: u16) -> Vec<Height> {
        self.nodes[usize::from(replica)].states.heights()
    }
}
