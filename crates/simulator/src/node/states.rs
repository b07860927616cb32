//! The states that a simulated replica keeps for those who were away, and the one that it receives itself.
//!
//! What a crash leaves of them is what a directory would: a state is there once it was flushed, the chunks of an interrupted transfer
//! are there if the machine kept its power.

use crate::faults::Leaves;
use bytes::Bytes;
use quorate_consensus::transfer::{MANIFEST, Part};
use quorate_types::state::chunk_of;
use quorate_types::{Certificate, Digest, Encoder, Height, Manifest, Wire};
use std::collections::BTreeMap;

/// Most states that are kept and not certified yet: certificates follow within a few rounds of messages.
const MOST_UNCERTIFIED: usize = 4;
/// Certified states that are kept: one of those who were away may have begun to fetch the last but one.
const CERTIFIED: usize = quorate_consensus::checkpoints::STATES_KEPT;

struct Kept {
    manifest: Manifest,
    state: Bytes,
    /// What a quorum vouches for, as soon as it does.
    checkpoint: Option<Certificate>,
    is_durable: bool,
}

/// A state on its way here.
struct Receiving {
    height: Height,
    manifest: Manifest,
    chunks: BTreeMap<u32, Bytes>,
}

/// What a replica has of states.
#[derive(Default)]
pub struct States {
    kept: BTreeMap<Height, Kept>,
    receiving: Option<Receiving>,
}

impl States {
    /// The state after a block is kept, for as long as nobody says that it is not needed.
    pub fn keep(&mut self, height: Height, manifest: Manifest, state: Bytes) {
        self.kept.insert(height, Kept { manifest, state, checkpoint: None, is_durable: false });
        let uncertified = || self.kept.iter().filter(|(_, kept)| kept.checkpoint.is_none()).map(|(height, _)| *height);
        let surplus = uncertified().count().saturating_sub(MOST_UNCERTIFIED);
        for height in uncertified().take(surplus).collect::<Vec<_>>() {
            self.kept.remove(&height);
        }
    }

    /// A quorum vouches for a state. Whether it is here and remains to be made durable; what is older than the one before goes.
    pub fn certify(&mut self, checkpoint: Certificate) -> bool {
        let height = checkpoint.subject.height;
        let Some(kept) = self.kept.get_mut(&height) else { return false };
        kept.checkpoint = Some(checkpoint);
        let certified: Vec<Height> =
            self.kept.iter().filter(|(_, kept)| kept.checkpoint.is_some()).map(|(height, _)| *height).collect();
        let oldest = certified[certified.len().saturating_sub(CERTIFIED)];
        self.kept.retain(|at, kept| *at >= oldest && (kept.checkpoint.is_some() || *at > height));
        self.kept.get(&height).is_some_and(|kept| !kept.is_durable)
    }

    /// A state is on the disk.
    pub fn flushed(&mut self, height: Height) {
        if let Some(kept) = self.kept.get_mut(&height) {
            kept.is_durable = true;
        }
    }

    /// A part of a state: the manifest is 0, chunk i is i + 1.
    pub fn part(&self, height: Height, part: Part) -> Option<Bytes> {
        let kept = self.kept.get(&height)?;
        if part == MANIFEST {
            let mut out = Encoder::default();
            kept.manifest.encode(&mut out);
            return Some(out.finish());
        }
        chunk_of(&kept.state, part - 1)
    }

    /// A state is going to come. Returns the chunks that are here: of the newest state that is kept, and of what came of others before.
    pub fn receive(&mut self, height: Height, manifest: Manifest) -> Vec<u32> {
        let mut known: BTreeMap<Digest, Bytes> = BTreeMap::new();
        if let Some(kept) = self.kept.values().next_back() {
            let chunks = (0..).map_while(|chunk| chunk_of(&kept.state, chunk));
            known.extend(kept.manifest.digests().iter().copied().zip(chunks));
        }
        if let Some(before) = self.receiving.take() {
            let digests = before.manifest.digests();
            known.extend(before.chunks.into_iter().map(|(chunk, bytes)| (digests[chunk as usize], bytes)));
        }
        let found = manifest.digests().iter().enumerate();
        let chunks: BTreeMap<u32, Bytes> =
            found.filter_map(|(chunk, digest)| Some((chunk as u32, known.get(digest)?.clone()))).collect();
        let held = chunks.keys().copied().collect();
        self.receiving = Some(Receiving { height, manifest, chunks });
        held
    }

    /// A chunk of the state that is received.
    pub fn take_chunk(&mut self, height: Height, chunk: u32, bytes: Bytes) {
        let receiving = self.receiving.as_mut().filter(|receiving| receiving.height == height);
        receiving.expect("chunks come after the host has prepared for them").chunks.insert(chunk, bytes);
    }

    /// All chunks are here: the state, which is kept from now on.
    pub fn complete(&mut self, checkpoint: Certificate) -> Bytes {
        let height = checkpoint.subject.height;
        let receiving = self.receiving.take().filter(|receiving| receiving.height == height);
        let Receiving { manifest, chunks, .. } = receiving.expect("a state is adopted that was received");
        assert!(chunks.keys().copied().eq(0..manifest.chunks()), "a state is adopted when all its chunks are here");
        let state: Bytes = chunks.into_values().flatten().collect::<Vec<u8>>().into();
        self.keep(height, manifest, state.clone());
        self.certify(checkpoint);
        state
    }

    /// The replica has crashed, and this is left of its journal.
    pub fn crash(&mut self, leaves: Leaves) {
        if leaves != Leaves::Written {
            self.receiving = None;
        }
        self.kept.retain(|_, kept| kept.is_durable && leaves != Leaves::Nothing);
    }

    /// The states that a quorum vouches for, oldest first.
    pub fn certified(&self) -> impl DoubleEndedIterator<Item = (&Certificate, &Manifest, &Bytes)> {
        let certified = |kept: &'_ Kept| kept.checkpoint.is_some();
        self.kept
            .values()
            .filter(move |kept| certified(kept))
            .map(|kept| (kept.checkpoint.as_ref().expect("it was just looked at"), &kept.manifest, &kept.state))
    }

    /// How many states are here, and the bytes of all of them.
    pub fn size(&self) -> (usize, usize) {
        let received: usize =
            self.receiving.iter().flat_map(|receiving| receiving.chunks.values()).map(Bytes::len).sum();
        (self.kept.len(), self.kept.values().map(|kept| kept.state.len()).sum::<usize>() + received)
    }
}
