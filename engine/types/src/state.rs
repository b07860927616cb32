//! Checkpointed states in chunks, so that a replica can fetch a state piece by piece from any peer that has it.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::digest::{Digest, Hasher};
use crate::tags;
use crate::wire;
use bytes::Bytes;

/// Length of each chunk of a state except the last, in bytes.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Maximum length of a state, in bytes.
pub const MAX_STATE_BYTES: usize = 4 << 30;
/// Maximum number of chunks of a state.
pub const MAX_CHUNKS: usize = MAX_STATE_BYTES / CHUNK_BYTES;

/// Length and chunk digests of a state, used to verify fetched chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    bytes: u64,
    chunks: Vec<Digest>,
}

impl Manifest {
    /// Computes the manifest of a state.
    ///
    /// # Panics
    /// If the state is empty or has more than [`MAX_STATE_BYTES`].
    pub fn of(state: &[u8]) -> Manifest {
        assert!((1..=MAX_STATE_BYTES).contains(&state.len()), "a state has 1 to {MAX_STATE_BYTES} bytes");
        Manifest { bytes: state.len() as u64, chunks: state.chunks(CHUNK_BYTES).map(chunk_digest).collect() }
    }

    /// Returns the length of the whole state, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn chunks(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Returns the digests of the chunks, in order.
    pub fn digests(&self) -> &[Digest] {
        &self.chunks
    }

    /// Returns whether these are the bytes of the chunk with this index.
    pub fn fits(&self, chunk: u32, bytes: &[u8]) -> bool {
        let index = chunk as usize;
        let rest = (self.bytes as usize).saturating_sub(index * CHUNK_BYTES);
        self.chunks
            .get(index)
            .is_some_and(|digest| bytes.len() == rest.min(CHUNK_BYTES) && chunk_digest(bytes) == *digest)
    }

    /// Returns the digest that a quorum signs in a checkpoint of this state.
    pub fn digest(&self) -> Digest {
        let mut out = Encoder::with_capacity(16 + self.chunks.len() * size_of::<Digest>());
        self.encode(&mut out);
        let mut hasher = Hasher::new(tags::MANIFEST);
        hasher.update(&out.finish());
        hasher.finish()
    }
}

pub fn chunk_digest(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new(tags::CHUNK);
    hasher.update(bytes);
    hasher.finish()
}

/// Returns a slice of one chunk of a state; `None` if the state has no such chunk.
pub fn chunk_of(state: &Bytes, chunk: u32) -> Option<Bytes> {
    let start = chunk as usize * CHUNK_BYTES;
    (start < state.len()).then(|| state.slice(start..state.len().min(start + CHUNK_BYTES)))
}

wire! {
    struct Manifest {
        bytes: u64["bytes of a state"],
        chunks: list["chunks of a state", MAX_CHUNKS, size_of::<Digest>()],
    } check Manifest::check
}

impl Manifest {
    fn check(&self, input: &Decoder) -> Result<(), DecodeError> {
        if self.bytes == 0 || self.bytes.div_ceil(CHUNK_BYTES as u64) != self.chunks.len() as u64 {
            return Err(input.invalid("chunks of a state", "their number does not match the length of the state"));
        }
        Ok(())
    }
}
