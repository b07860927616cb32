//! Authenticated replies: with a replica's signature, or its MAC for one client.

use crate::client::{AUTHENTICATED_KIND, ReplicaReply};
use crate::codec::{DecodeError, Decoder, Encoder, WIRE_VERSION, Wire, decode_message};
use crate::digest::{Digest, Hasher};
use crate::ids::{ClientId, EpochId, ReplicaId};
use crate::limits::{MAX_FRAME_BYTES, MAX_SIGNATURE_BYTES};
use crate::tags;
use bytes::Bytes;

/// Overhead of a frame beyond its replies and its authenticator, in bytes: version, kind, and two lengths.
pub const AUTHENTICATED_OVERHEAD_BYTES: usize = 2 + 4 + 4;

/// Bytes covered by a reply authenticator: a tag (16), the epoch (32), the replica (2), the client with its session
/// (16), and the digest of the replies (32). So an authenticator is valid for one epoch, direction, replica and client
/// only.
pub type ReplyStatement = [u8; 16 + 32 + 2 + 16 + 32];

/// Returns the statement about replies with this digest.
pub fn reply_statement(epoch: &EpochId, replica: ReplicaId, client: ClientId, replies: &Digest) -> ReplyStatement {
    let mut statement = [0; size_of::<ReplyStatement>()];
    statement[..16].copy_from_slice(b"quorate replies1");
    statement[16..48].copy_from_slice(&epoch.0.0);
    statement[48..50].copy_from_slice(&replica.0.to_le_bytes());
    statement[50..66].copy_from_slice(&client.0.to_le_bytes());
    statement[66..].copy_from_slice(&replies.0);
    statement
}

/// Replies sent together from one replica to one client, with an authenticator for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthenticatedReplies {
    /// At least one.
    pub replies: Vec<ReplicaReply>,
    /// Digest of the encoded replies.
    pub digest: Digest,
    pub authenticator: Bytes,
}

impl AuthenticatedReplies {
    /// Encodes replies, each given as a separate message, and the authenticator that `authenticate` returns for their
    /// digest.
    ///
    /// # Panics
    /// If there is no reply.
    pub fn encode(out: &mut Encoder, replies: &[Bytes], authenticate: impl FnOnce(&Digest) -> Bytes) -> Bytes {
        assert!(!replies.is_empty(), "an authenticator covers at least one reply");
        out.put_u8(WIRE_VERSION);
        out.put_u8(AUTHENTICATED_KIND);
        out.put_count(replies.iter().map(|reply| reply.len() - 1).sum());
        let mut hasher = hasher();
        for reply in replies {
            let body = reply.strip_prefix(&[WIRE_VERSION]).expect("a message begins with the version");
            out.put_slice(body);
            hasher.update(body);
        }
        out.put_bytes(&authenticate(&hasher.finish()));
        out.take()
    }

    /// Returns whether a frame claims to be authenticated.
    pub fn is_authenticated(frame: &[u8]) -> bool {
        frame.get(1) == Some(&AUTHENTICATED_KIND)
    }
}

fn hasher() -> Hasher {
    Hasher::new(tags::AUTHENTICATED_REPLIES)
}

impl AuthenticatedReplies {
    /// Decodes a frame. The authenticator is not verified.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is not authenticated, or malformed.
    pub fn decode(frame: Bytes) -> Result<AuthenticatedReplies, DecodeError> {
        decode_message::<AuthenticatedReplies>(frame)
    }
}

/// By hand: the authenticator covers the encoded replies, so decoding hashes them.
impl Wire for AuthenticatedReplies {
    fn encode(&self, out: &mut Encoder) {
        out.put_u8(AUTHENTICATED_KIND);
        let mut content = Encoder::default();
        self.replies.iter().for_each(|reply| reply.encode(&mut content));
        out.put_bytes(&content.finish());
        out.put_bytes(&self.authenticator);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        if input.get_u8("sealed replies")? != AUTHENTICATED_KIND {
            return Err(input.invalid("sealed replies", "they have no seal"));
        }
        let content = input.get_bytes("sealed replies", MAX_FRAME_BYTES)?;
        let authenticator = input.get_bytes("seal", MAX_SIGNATURE_BYTES)?;
        if content.is_empty() {
            return Err(input.invalid("sealed replies", "there are none"));
        }
        let mut hasher = hasher();
        hasher.update(&content);
        let (mut inner, mut replies) = (Decoder::new(content), Vec::new());
        while inner.left() > 0 {
            replies.push(ReplicaReply::decode(&mut inner)?);
        }
        Ok(AuthenticatedReplies { replies, digest: hasher.finish(), authenticator })
    }
}
