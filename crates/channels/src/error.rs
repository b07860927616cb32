//! Reasons why a channel rejects the other end, each with its cause and what to do.

use crate::{Carriage, RemoteIdentity};
use quorate_types::{ClusterId, ReplicaId};
use thiserror::Error;

/// Reason why a handshake failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChannelError {
    #[error("the peer is not quorate: its first bytes are not a handshake; check the address and what listens there")]
    NotQuorate,
    /// The other end uses another wire version.
    #[error("the peer speaks wire version {theirs}, this end {ours}: run the same release on both")]
    Version {
        /// The version in the peer's hello.
        theirs: u8,
        /// The version of this build.
        ours: u8,
    },
    /// The other end belongs to another cluster.
    #[error("the peer belongs to {theirs:?}, this end to {ours:?}: check the cluster's name and the addresses")]
    Cluster {
        /// The peer's cluster.
        theirs: ClusterId,
        /// This end's cluster.
        ours: ClusterId,
    },
    /// Another replica answered than the one dialled.
    #[error("replica {expected} was dialled and {found} answered: check the addresses of the committee")]
    UnexpectedRemote {
        /// The replica that was dialled.
        expected: ReplicaId,
        /// Who answered, by its own claim.
        found: RemoteIdentity,
    },
    /// The other end meant to dial another replica.
    #[error("the peer meant to reach replica {meant}, this is replica {me}: check the peer's committee addresses")]
    Misdirected {
        /// The replica that the peer meant to reach.
        meant: ReplicaId,
        /// This replica.
        me: ReplicaId,
    },
    /// The other end claims to be this very replica.
    #[error("the peer claims to be replica {0}, which this process is: run each identity once")]
    OwnIdentity(ReplicaId),
    /// The claimed replica did not sign this handshake.
    #[error("the signature is not replica {0}'s: its key differs from the committee's, or the peer is an impostor")]
    Signature(ReplicaId),
    /// A field of the handshake is invalid.
    #[error("the peer's handshake is malformed: {0}; it runs another program or means harm")]
    Malformed(&'static str),
    /// A part of the handshake is longer than any honest one.
    #[error("the peer announces a handshake part of {bytes} bytes, over the limit of {limit}: it means harm")]
    HandshakeTooLong {
        /// Announced length.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// The channel does not work over the transport's carriage.
    #[error("the channel {channel} does not work over {carriage}: choose another channel or another transport")]
    Carriage {
        channel: &'static str,
        /// What the transport provides.
        carriage: Carriage,
    },
    /// The operating system has no randomness.
    #[error("no randomness for a handshake from the operating system: {0}")]
    Randomness(String),
}
