//! quorate: secure channels, sans-I/O.
//!
//! A [`Channel`] stands between a byte stream and the frames on it: it proves who is at the other end, and from then on
//! turns what is to be sent into what goes on the wire and back. It does no I/O and reads no clock; a transport feeds
//! it bytes and sends what it answers. A kind of channel is a [`ChannelSuite`] with a [`ChannelProfile`];
//! [`ChannelKind::ALL`] lists them, and one more is one file and one line there. [`plain`] documents what the only one
//! so far does and does not protect.

mod error;
mod hello;
mod kind;
mod machine;
pub mod plain;

pub use error::ChannelError;
pub use kind::{Carriage, ChannelKind, ChannelProfile, ChannelSuite};
pub use machine::{Loss, Machine, Output, Stack};
pub use plain::PlainChannel;

use bytes::BytesMut;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClientId, ClusterId, ReplicaId};
use std::fmt;
use std::sync::Arc;

/// Bytes of the random number that makes each handshake its own.
pub const NONCE_BYTES: usize = 32;

/// A secure channel over one byte stream.
pub trait Channel: Send {
    /// Appends what this end says first; called once, when the stream is connected.
    fn start(&mut self, outgoing: &mut Vec<u8>);

    /// Takes all of `wire` that is complete, appends the opened bytes to `plain` and answers of the handshake to `outgoing`.
    ///
    /// After an error the stream is to be closed, once `outgoing` is sent: it may tell the other end what is wrong.
    fn receive(
        &mut self,
        wire: &mut BytesMut,
        plain: &mut BytesMut,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), ChannelError>;

    /// Appends what goes on the wire for `plain`. Only after the handshake: [`Channel::remote`] must be known.
    fn seal(&mut self, plain: &[u8], outgoing: &mut Vec<u8>);

    /// Whether bytes pass unchanged in both directions from now on, so that a transport need neither open nor seal them.
    fn is_transparent(&self) -> bool;

    /// Who is at the other end; known once the handshake is over.
    fn remote(&self) -> Option<RemoteIdentity>;
}

/// Opens channels for one local end.
pub trait ChannelFactory: Send {
    /// A channel for a new stream, or why there cannot be one.
    fn open(&self, side: Side) -> Result<Box<dyn Channel>, ChannelError>;
    /// Who the channels speak for.
    fn local(&self) -> RemoteIdentity;
}

/// Who an end of a channel is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RemoteIdentity {
    /// A member of the committee; proved by a signature.
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

/// Which end of the stream this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that dialled, and whom it means to reach.
    Initiator {
        /// The replica that has to answer.
        expects: ReplicaId,
    },
    /// The end that accepted.
    Responder,
}

/// Whom this end speaks for.
#[derive(Clone)]
pub enum LocalEnd {
    /// A replica, with its key.
    Replica(Arc<dyn Signer>),
    /// A client session.
    Client(ClientId),
}

impl LocalEnd {
    /// The identity without the key.
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

/// All that the channels of one local end have in common.
#[derive(Clone)]
pub struct ChannelConfig {
    /// Which channel.
    pub kind: ChannelKind,
    /// The cluster; an end of another cluster is refused.
    pub cluster: ClusterId,
    /// Whom this end speaks for.
    pub me: LocalEnd,
    /// The keys of the committee.
    pub verifier: Arc<dyn Verifier>,
}

impl ChannelConfig {
    /// A random number for a handshake.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`] if the operating system has none.
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
