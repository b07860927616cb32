//! State that a replica needs, in addition to the application's, to continue from a committed block without its
//! ancestors.

use bytes::Bytes;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{Block, DecodeError, Decoder, Digest, Encoder, Hasher, Height, ReplicaId, Wire, tags};
use std::sync::Arc;

/// Maximum number of blocks in a frontier.
const MAX_FRONTIER_BLOCKS: usize = 1 << 16;

/// The last committed blocks that leader election considers, oldest first, each with its candidates for leader.
/// Replicas that committed the same chain have equal frontiers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frontier(Vec<(Arc<Block>, Arc<[ReplicaId]>)>);

impl Frontier {
    /// Returns the encoding, which a host puts before the application's part of a state.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Encoder::default();
        self.encode(&mut out);
        out.finish()
    }

    /// Decodes the output of [`Frontier::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not exactly one encoded frontier.
    pub fn from_bytes(bytes: Bytes) -> Result<Frontier, DecodeError> {
        let mut input = Decoder::new(bytes);
        let frontier = Frontier::decode(&mut input)?;
        input.finish("end of a frontier")?;
        Ok(frontier)
    }

    /// Creates the frontier of the last of these blocks, which must be in order, oldest first.
    ///
    /// # Panics
    /// If `blocks` is empty.
    pub fn new(blocks: Vec<(Arc<Block>, Arc<[ReplicaId]>)>) -> Frontier {
        assert!(!blocks.is_empty(), "a frontier has at least one block");
        Frontier(blocks)
    }

    /// Returns the last committed block.
    pub fn head(&self) -> &Arc<Block> {
        &self.0.last().expect("a frontier has at least one block").0
    }

    /// Returns the height of the last committed block.
    pub fn height(&self) -> Height {
        self.head().height
    }

    /// Returns the blocks, oldest first, each with its candidates for leader.
    pub fn into_blocks(self) -> Vec<(Arc<Block>, Arc<[ReplicaId]>)> {
        self.0
    }

    /// Returns a digest of the blocks and candidates.
    pub fn digest(&self) -> Digest {
        let mut hasher = Hasher::new(tags::FRONTIER);
        for (block, candidates) in &self.0 {
            hasher.update(&block.digest().0);
            hasher.update(&(candidates.len() as u64).to_le_bytes());
            candidates.iter().for_each(|replica| hasher.update(&replica.0.to_le_bytes()));
        }
        hasher.finish()
    }

    fn is_ascending(&self) -> bool {
        self.0.windows(2).all(|pair| pair[1].0.height.0.checked_sub(1) == Some(pair[0].0.height.0))
    }
}

/// By hand: omits the proofs of the certificates in the blocks, because they may differ between honest replicas.
impl Wire for Frontier {
    fn encode(&self, out: &mut Encoder) {
        out.put_count(self.0.len());
        for (block, candidates) in &self.0 {
            block.without_proof().encode(out);
            encode_list(candidates, out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let count = input.get_count("blocks of a frontier", MAX_FRONTIER_BLOCKS, 64)?;
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let block = Arc::new(Block::decode(input)?);
            if !block.justify.proof.is_empty() {
                return Err(input.invalid("frontier", "the certificate in a block has a proof"));
            }
            let candidates: Vec<ReplicaId> = decode_list(input, "candidates", MAX_REPLICAS, 2)?;
            blocks.push((block, candidates.into()));
        }
        let frontier = Frontier(blocks);
        if frontier.0.is_empty() || !frontier.is_ascending() {
            return Err(input.invalid("frontier", "its blocks do not follow one another"));
        }
        Ok(frontier)
    }
}
