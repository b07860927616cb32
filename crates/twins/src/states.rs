//! States of actors: what was executed, block by block, and what the replica needs besides.
//!
//! On a stage a state is the chain of the digests of all executed blocks. So whoever takes over something else is found out by the judge.

use bytes::Bytes;
use quorate_consensus::frontier::Frontier;
use quorate_consensus::transfer::{MANIFEST, Part};
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::state::chunk_of;
use quorate_types::{DecodeError, Decoder, Digest, Encoder, Height, Manifest, Wire};
use std::collections::BTreeMap;

/// Longest chain in a state.
const MOST_BLOCKS: usize = 1 << 16;

/// The states that an actor keeps, and the one that it receives.
#[derive(Default)]
pub struct States {
    kept: BTreeMap<Height, (Manifest, Bytes)>,
    receiving: BTreeMap<u32, Bytes>,
}

impl States {
    /// Keeps the state after the blocks of a chain. What all who keep it have the same.
    pub fn keep(&mut self, frontier: &Frontier, chain: &[Digest]) -> Digest {
        let mut out = Encoder::default();
        frontier.encode(&mut out);
        encode_list(chain, &mut out);
        let state = out.finish();
        let manifest = Manifest::of(&state);
        let digest = manifest.digest();
        self.kept.insert(frontier.height(), (manifest, state));
        digest
    }

    /// A part of a state that is kept.
    pub fn part(&self, height: Height, part: Part) -> Option<Bytes> {
        let (manifest, state) = self.kept.get(&height)?;
        if part == MANIFEST {
            let mut out = Encoder::default();
            manifest.encode(&mut out);
            return Some(out.finish());
        }
        chunk_of(state, part - 1)
    }

    /// Another state is going to come.
    pub fn receive(&mut self) {
        self.receiving.clear();
    }

    /// A chunk of it.
    pub fn take_chunk(&mut self, chunk: u32, bytes: Bytes) {
        self.receiving.insert(chunk, bytes);
    }

    /// What has come, as the replica's part of a state and its chain.
    ///
    /// # Errors
    /// If it is no state.
    pub fn complete(&mut self) -> Result<(Frontier, Vec<Digest>), DecodeError> {
        let chunks = std::mem::take(&mut self.receiving);
        let mut input = Decoder::new(chunks.into_values().flatten().collect::<Vec<u8>>().into());
        let frontier = Frontier::decode(&mut input)?;
        let chain = decode_list(&mut input, "blocks of a state", MOST_BLOCKS, size_of::<Digest>())?;
        input.finish("end of a state")?;
        Ok((frontier, chain))
    }
}
