//! quorate: secure channels, sans-I/O.
//!
//! A [`Channel`] sits between a byte stream and its frames: it authenticates the other end, then protects outgoing
//! bytes and verifies or decrypts incoming ones, as far as its kind does so. It does no I/O and reads no clock; a
//! transport feeds it bytes and sends its output. A kind of channel is a [`ChannelSuite`] with a [`ChannelProfile`].
//! [`ChannelKind::ALL`] lists them; a new one takes one file and one line there. [`plain`], [`tls`] and [`dtls`]
//! document what each protects.

mod address;
mod carriage;
pub mod certificate;
pub mod dtls;
pub mod envelope;
mod error;
mod hello;
mod kind;
mod machine;
mod output;
pub mod path_limit;
mod plain;
mod plain_kind;
pub mod plain_packets;
pub mod sessions;
mod suite;
pub mod tls;
pub mod version;

pub use address::{AddressTokens, Greeter, SECRET_BYTES, Welcome};
pub use carriage::Carriage;
pub use dtls::DtlsPackets;
pub use error::ChannelError;
pub use kind::ChannelKind;
pub use machine::{Machine, Repairs, Stack};
pub use output::{Detour, Loss, Output};
pub use plain::PlainChannel;
pub use plain_packets::PlainPackets;
pub use sessions::Sessions;
pub use suite::{ChannelProfile, ChannelSuite};
pub use version::{Agreed, Release, Versions};

use bytes::BytesMut;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClientId, ClusterId, EpochId, Parameters, ReplicaId};
use std::fmt;
use std::sync::Arc;

/// Size of the random nonce in each handshake.
pub const NONCE_BYTES: usize = 32;

/// A secure channel over one byte stream.
pub trait Channel: Send {
    /// Appends the first bytes that this end sends. Called once, when the stream is connected.
    fn start(&mut self, outgoing: &mut Vec<u8>);

    /// Consumes the complete records of `wire`; appends the plaintext to `plain` and handshake responses to `outgoing`.
    ///
    /// After an error, send `outgoing`, which may tell the other end the reason, and then close the stream.
    fn receive(
        &mut self,
        wire: &mut BytesMut,
        plain: &mut BytesMut,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), ChannelError>;

    /// Encrypts `plain` and appends the result to `outgoing`. Allowed only after the handshake: [`Channel::remote`]
    /// must be known.
    fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>);

    /// Returns whether bytes pass unchanged in both directions from now on, so that a transport can bypass the channel.
    fn is_transparent(&self) -> bool;

    /// Returns the remote's identity; `None` until the handshake is complete.
    fn remote(&self) -> Option<RemoteIdentity>;

    /// Returns the wire version of the link and the remote's release; `None` until the handshake is complete.
    fn agreed(&self) -> Option<&Agreed>;
}

/// Opens channels for one local end.
pub trait ChannelFactory: Send {
    /// Opens a channel for a new stream, or returns the reason why it cannot.
    fn open(&self, side: Side) -> Result<Box<dyn Channel>, ChannelError>;
    /// Returns the identity that these channels represent.
    fn local(&self) -> RemoteIdentity;
}

/// Identity of one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RemoteIdentity {
    /// A member of the committee, proved by a signature.
    Replica(ReplicaId),
    /// A client session; in this version a claim, not a proof.
    Client(ClientId),
}

impl fmt::Display for RemoteIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteIdentity::Replica(replica) => write!(f, "replica {replica}"),
            RemoteIdentity::Client(client) => write!(f, "client {client}"),
        }
    }
}

/// End of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The dialling end.
    Initiator {
        /// The replica that must answer.
        expects: ReplicaId,
    },
    /// The accepting end.
    Responder,
}

/// Identity that this end represents.
#[derive(Clone)]
pub enum LocalEnd {
    /// A replica, with its key.
    Replica(Arc<dyn Signer>),
    Client(ClientId),
}

impl LocalEnd {
    /// Returns the identity without the key.
    pub fn identity(&self) -> RemoteIdentity {
        match self {
            LocalEnd::Replica(signer) => RemoteIdentity::Replica(signer.replica()),
            LocalEnd::Client(client) => RemoteIdentity::Client(*client),
        }
    }
}

impl fmt::Debug for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity().fmt(f)
    }
}

/// Common configuration of all channels of one local end.
#[derive(Clone)]
pub struct ChannelConfig {
    pub kind: ChannelKind,
    /// Cluster of this end. Ends of other clusters are rejected.
    pub cluster: ClusterId,
    /// Genesis of this end. Ends of this cluster with another genesis are rejected after they are authenticated.
    pub epoch: EpochId,
    /// Parameters that must be equal on all replicas, compared in the handshake. Empty for clients.
    pub parameters: Parameters,
    /// Wire versions that this end speaks.
    pub versions: Versions,
    /// Identity that this end represents.
    pub me: LocalEnd,
    /// Holds the keys of the committee.
    pub verifier: Arc<dyn Verifier>,
    /// Maximum number of records or packets encrypted with one key, at least 1. Then the key is replaced.
    pub key_update_records: u64,
    /// TLS sessions, over TCP or in QUIC, that this end can resume. Other channels have none.
    pub sessions: Sessions,
}

/// Default of [`ChannelConfig::key_update_records`]. AES-GCM allows 2^24.5 records with one key (RFC 8446, section
/// 5.5).
pub const KEY_UPDATE_RECORDS: u64 = 1 << 23;

impl ChannelConfig {
    /// Draws a random nonce for a handshake.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`] if the operating system provides none.
    pub fn nonce(&self) -> Result<[u8; NONCE_BYTES], ChannelError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| ChannelError::Randomness(error.to_string()))?;
        Ok(nonce)
    }
}

impl ChannelFactory for ChannelConfig {
    fn open(&self, side: Side) -> Result<Box<dyn Channel>, ChannelError> {
        self.kind.suite().over_stream(self, side, self.nonce()?)
    }

    fn local(&self) -> RemoteIdentity {
        self.me.identity()
    }
}
