//! Messages on links, kept in decoded form together with the size and a checksum of their encoding.

use crate::trace::{checksum, mix};
use quorate_consensus::{Envelope, Message};
use quorate_types::authenticated_replies::AUTHENTICATED_OVERHEAD_BYTES;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Bundle, Encoder, Lane, ReplicaReply, Wire};
use std::sync::Arc;

/// Bytes of an `Executed` reply without its results: version, kind, digest, height.
const REPLY_HEADER_BYTES: usize = 1 + 1 + 32 + 8;
/// Bytes of a frame's length.
const FRAME_HEADER_BYTES: usize = 4;

/// Message on a link.
#[derive(Clone)]
pub struct Parcel<M> {
    pub checksum: u64,
    /// Size of the frame in bytes.
    pub bytes: u32,
    pub body: Body<M>,
}

/// Content of a message.
#[derive(Clone)]
pub enum Body<M> {
    /// From replica to replica.
    Peer(Arc<Envelope<M>>),
    /// From a client to a replica.
    Request(Bundle),
    /// From a replica to the clients. Authenticated replies go to all clients, others to one.
    Replies(Vec<Arc<ReplicaReply>>),
}

impl<M: Message> Parcel<M> {
    /// Creates a message between replicas. `scratch` is reused memory.
    pub fn peer(message: Envelope<M>, scratch: &mut Scratch) -> Parcel<M> {
        scratch.0.put_u8(WIRE_VERSION);
        message.encode(&mut scratch.0);
        let encoded = scratch.0.take();
        Parcel { checksum: checksum(&encoded), bytes: frame(encoded.len()), body: Body::Peer(Arc::new(message)) }
    }

    /// Creates a client's request with an encoded size of `bytes`.
    pub fn request(bundle: Bundle, bytes: usize) -> Parcel<M> {
        Parcel { checksum: bundle.digest().prefix(), bytes: frame(bytes), body: Body::Request(bundle) }
    }

    /// Returns its transport lane.
    pub fn lane(&self) -> Lane {
        match &self.body {
            Body::Peer(envelope) => envelope.lane(),
            Body::Request(_) | Body::Replies(_) => Lane::Bulk,
        }
    }

    pub fn reply(reply: Arc<ReplicaReply>) -> Parcel<M> {
        let (bytes, checksum) = size_of_reply(&reply);
        Parcel { checksum, bytes: frame(bytes), body: Body::Replies(vec![reply]) }
    }

    /// Creates a message of replies with one authentication of `authenticator_bytes` bytes for all of them.
    pub fn sealed(replies: Vec<Arc<ReplicaReply>>, authenticator_bytes: usize) -> Parcel<M> {
        let (mut bytes, mut checksum) = (AUTHENTICATED_OVERHEAD_BYTES + authenticator_bytes, 0);
        for reply in &replies {
            let (of_reply, sum) = size_of_reply(reply);
            // The version is encoded once for the whole message.
            bytes += of_reply - 1;
            checksum = mix(checksum, sum);
        }
        Parcel { checksum, bytes: frame(bytes), body: Body::Replies(replies) }
    }
}

/// Returns the encoded length of a reply as a message of its own, and its checksum.
pub fn size_of_reply(reply: &ReplicaReply) -> (usize, u64) {
    match reply {
        ReplicaReply::Executed { bundle, height, results } => {
            let sum = mix(mix(bundle.prefix(), height.0), checksum(results.body()));
            (REPLY_HEADER_BYTES + results.body().len(), sum)
        }
        other => {
            let encoded = quorate_types::encode_message(other);
            (encoded.len(), checksum(&encoded))
        }
    }
}

fn frame(bytes: usize) -> u32 {
    (bytes + FRAME_HEADER_BYTES) as u32
}

/// Initial capacity of a [`Scratch`].
const SCRATCH_BYTES: usize = 64 << 10;

/// Reusable buffer for encoding messages.
pub struct Scratch(Encoder);

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch(Encoder::with_capacity(SCRATCH_BYTES))
    }
}
