//! Application states of instances, for state transfer.
//!
//! In a world, a state is the list of digests of all executed blocks, plus the replica's own part. The checker can
//! therefore detect that an instance adopts a wrong state.

use bytes::Bytes;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::{DecodeError, Decoder, Digest, Encoder, Wire};

/// Maximum length of the chain in a state.
const MAX_BLOCKS: usize = 1 << 16;

/// Encodes the state after the blocks of a chain.
pub(crate) fn encode(frontier: &Frontier, chain: &[Digest]) -> Bytes {
    let mut out = Encoder::default();
    frontier.encode(&mut out);
    encode_list(chain, &mut out);
    out.finish()
}

/// Decodes a state into the replica's part and the chain.
pub(crate) fn decode(state: Bytes) -> Result<(Frontier, Vec<Digest>), DecodeError> {
    let mut input = Decoder::new(state);
    let frontier = Frontier::decode(&mut input)?;
    let chain = decode_list(&mut input, "blocks of a state", MAX_BLOCKS, size_of::<Digest>())?;
    input.finish("end of a state")?;
    Ok((frontier, chain))
}
