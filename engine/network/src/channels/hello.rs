//! The first message of each end, of fixed size, and the transcript that a handshake's signatures cover.
//!
//! ```text
//! offset  0  magic      8   "QUORATE\n"
//!         8  version    1   oldest wire version that this end speaks
//!         9  cluster   32
//!        41  epoch     32
//!        73  role       1   1 replica, 2 client
//!        74  id        16   little-endian
//!        90  expects    3   1 and the replica the initiator means to reach; 0, 0, 0 from a responder
//!        93  nonce     32   random; with several versions, the last 8 bytes are a mark (7) and the newest
//! ```
//! Wire version 6, which had no ranges, takes the mark for a part of the nonce, so it still connects. The 24 random
//! bytes suffice to make each nonce unique.
//!
//! The cluster field is the hash of the cluster's name. Ends with equal cluster names and different epochs authenticate
//! each other before they refuse the link, so that they can report the differences.

use crate::channels::version::OLDEST_WIRE_VERSION;
use crate::channels::{ChannelError, NONCE_BYTES, RemoteIdentity, Side, Versions};
use quorate_types::{ClientId, ClusterId, Digest, EpochId, ReplicaId};

pub const HELLO_BYTES: usize = NONCE_AT + NONCE_BYTES;

pub const MAGIC: [u8; 8] = *b"QUORATE\n";
/// First bytes of a TLS handshake: the record type and the major version.
pub const TLS_PREFIX: [u8; 2] = [22, 3];
const VERSION_AT: usize = MAGIC.len();
const CLUSTER_AT: usize = VERSION_AT + 1;
const EPOCH_AT: usize = CLUSTER_AT + 32;
const ROLE_AT: usize = EPOCH_AT + 32;
const ID_AT: usize = ROLE_AT + 1;
const EXPECTS_AT: usize = ID_AT + 16;
const NONCE_AT: usize = EXPECTS_AT + 3;
const MARK_AT: usize = NEWEST_AT - RANGE_MARK.len();
const NEWEST_AT: usize = HELLO_BYTES - 1;

/// Mark of a nonce whose last byte is the newest wire version.
const RANGE_MARK: [u8; 7] = *b"to wire";

const ROLE_REPLICA: u8 = 1;
const ROLE_CLIENT: u8 = 2;
const TRANSCRIPT_TAG: &[u8] = b"quorate handshake v2";

/// A hello in wire format.
pub type HelloBytes = [u8; HELLO_BYTES];

/// Claims of a hello.
pub struct Hello {
    pub versions: Versions,
    pub cluster: ClusterId,
    pub epoch: EpochId,
    pub claims: RemoteIdentity,
    pub expects: Option<ReplicaId>,
}

/// The signer's role in the handshake. The signature covers it, so it cannot be reused for the other role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Initiator = 1,
    Responder = 2,
}

pub fn encode(
    (cluster, epoch): (ClusterId, EpochId),
    versions: Versions,
    me: RemoteIdentity,
    side: Side,
    nonce: [u8; NONCE_BYTES],
) -> HelloBytes {
    let (role, id) = match me {
        RemoteIdentity::Replica(replica) => (ROLE_REPLICA, u128::from(replica.0)),
        RemoteIdentity::Client(client) => (ROLE_CLIENT, client.0),
    };
    let mut hello = [0; HELLO_BYTES];
    hello[..VERSION_AT].copy_from_slice(&MAGIC);
    hello[VERSION_AT] = versions.oldest();
    hello[CLUSTER_AT..EPOCH_AT].copy_from_slice(&cluster.0.0);
    hello[EPOCH_AT..ROLE_AT].copy_from_slice(&epoch.0.0);
    hello[ROLE_AT] = role;
    hello[ID_AT..EXPECTS_AT].copy_from_slice(&id.to_le_bytes());
    if let Side::Initiator { expects } = side {
        hello[EXPECTS_AT] = 1;
        hello[EXPECTS_AT + 1..NONCE_AT].copy_from_slice(&expects.0.to_le_bytes());
    }
    hello[NONCE_AT..].copy_from_slice(&nonce);
    if versions.newest() > versions.oldest() {
        hello[MARK_AT..NEWEST_AT].copy_from_slice(&RANGE_MARK);
        hello[NEWEST_AT] = versions.newest();
    }
    hello
}

/// Rejects a foreign protocol, and a version too old or too new, based on the bytes received so far. It does not wait
/// for a full hello, because a hello of such a version may be longer than ours.
pub fn check_prefix(bytes: &[u8], ours: Versions) -> Result<(), ChannelError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        let is_tls = known >= TLS_PREFIX.len() && bytes.starts_with(&TLS_PREFIX);
        return Err(if is_tls { ChannelError::PeerSpeaks("tls") } else { ChannelError::NotQuorate });
    }
    match bytes.get(VERSION_AT) {
        Some(&oldest) if !(OLDEST_WIRE_VERSION..=ours.newest()).contains(&oldest) => {
            let theirs = Versions::new(oldest, oldest).expect("it has one version");
            Err(ChannelError::Version { theirs, ours })
        }
        _ => Ok(()),
    }
}

/// Decodes a hello whose prefix was checked before.
pub fn decode(hello: &HelloBytes) -> Result<Hello, ChannelError> {
    let cluster = ClusterId(Digest(hello[CLUSTER_AT..EPOCH_AT].try_into().expect("a cluster id has 32 bytes")));
    let epoch = EpochId(Digest(hello[EPOCH_AT..ROLE_AT].try_into().expect("the id of an epoch has 32 bytes")));
    let id = u128::from_le_bytes(hello[ID_AT..EXPECTS_AT].try_into().expect("an id has 16 bytes"));
    let claims = match hello[ROLE_AT] {
        ROLE_REPLICA => RemoteIdentity::Replica(ReplicaId(
            u16::try_from(id).map_err(|_| ChannelError::Malformed("the replica id is over 65535"))?,
        )),
        ROLE_CLIENT => RemoteIdentity::Client(ClientId(id)),
        _ => return Err(ChannelError::Malformed("the role is neither replica nor client")),
    };
    let expected = u16::from_le_bytes([hello[EXPECTS_AT + 1], hello[EXPECTS_AT + 2]]);
    let expects = match (hello[EXPECTS_AT], expected) {
        (0, 0) => None,
        (1, replica) => Some(ReplicaId(replica)),
        _ => return Err(ChannelError::Malformed("the expected replica is neither absent nor present")),
    };
    Ok(Hello { versions: versions(hello)?, cluster, epoch, claims, expects })
}

/// Returns the versions that the end of a hello speaks.
fn versions(hello: &HelloBytes) -> Result<Versions, ChannelError> {
    let oldest = hello[VERSION_AT];
    let newest = if hello[MARK_AT..NEWEST_AT] == RANGE_MARK { hello[NEWEST_AT] } else { oldest };
    Versions::new(oldest, newest).ok_or(ChannelError::Malformed("its newest wire version is below its oldest"))
}

/// Returns the transcript that the end in `place` signs: both hellos in handshake order (and thus the versions,
/// epochs, identities and nonces of both ends), and the binding to the secure session below, if there is one.
pub fn transcript(place: Place, initiator: &HelloBytes, responder: &HelloBytes, session: &[u8]) -> Vec<u8> {
    let mut signed = Vec::with_capacity(TRANSCRIPT_TAG.len() + 1 + 2 * HELLO_BYTES + session.len());
    signed.extend_from_slice(TRANSCRIPT_TAG);
    signed.push(place as u8);
    signed.extend_from_slice(initiator);
    signed.extend_from_slice(responder);
    signed.extend_from_slice(session);
    signed
}
