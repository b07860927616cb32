//! Reasons why a channel rejects the other end, with their causes and remedies.

use crate::channels::{Carriage, RemoteIdentity, Versions};
use quorate_types::parameters::list;
use quorate_types::{ClusterId, Difference, EpochId, ReplicaId};
use thiserror::Error;

/// Reason why a handshake failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChannelError {
    #[error(
        "the peer is not quorate: its first bytes are not a handshake; help: check the address and the \
         program that listens there"
    )]
    NotQuorate,
    /// The other end uses another channel.
    #[error("the peer uses the channel {0}, this end another one; help: set the same `channel` on both")]
    PeerSpeaks(&'static str),
    /// The TLS session failed.
    #[error(
        "TLS: {0}; help: check that the peer is a replica or client of this cluster with `channel = \"tls\"`; \
         otherwise somebody on the path has changed the traffic"
    )]
    Tls(String),
    /// The DTLS session failed.
    #[error(
        "DTLS: {0}; help: check that the peer is a replica or client of this cluster with `channel = \"dtls\"`; if it \
         is, packets were lost or overtook each other during the handshake, which is tried again"
    )]
    Dtls(String),
    /// The two ends speak no common wire version. Of a peer that is too new, only its oldest version is known.
    #[error(
        "the peer speaks wire version {theirs}, this end {ours}; help: upgrade the older one, one release at a time, \
         or raise `newest_wire_version` in [links] if it is set"
    )]
    Version { theirs: Versions, ours: Versions },
    /// The other end belongs to another cluster.
    #[error("the peer belongs to {theirs:?}, this end to {ours:?}; help: check the cluster's name and the addresses")]
    Cluster { theirs: ClusterId, ours: ClusterId },
    /// The other end belongs to a cluster with the same name and another genesis.
    #[error(
        "{remote} has {theirs:?}, this end {ours:?}: the members' keys or order, `faults`, `protocol`, `scheme`, \
         `auth_profile` or `mac_scheme` differ; help: compare these keys of the two configurations"
    )]
    Genesis { remote: RemoteIdentity, theirs: EpochId, ours: EpochId },
    /// Another replica answered than the one dialled.
    #[error("replica {expected} was dialled and {found} answered; help: check the addresses of the committee")]
    UnexpectedRemote {
        expected: ReplicaId,
        /// Identity claimed by the other end.
        found: RemoteIdentity,
    },
    /// The other end meant to dial another replica.
    #[error(
        "the peer meant to reach replica {meant}, this is replica {me}; help: check the peer's committee addresses"
    )]
    Misdirected { meant: ReplicaId, me: ReplicaId },
    /// The other end claims to be this replica itself.
    #[error("the peer claims to be replica {0}, like this process; help: run each replica only once")]
    OwnIdentity(ReplicaId),
    /// The claimed replica did not sign this handshake.
    #[error("the signature is not replica {0}'s: its key differs from the committee's, or the peer is an impostor")]
    Signature(ReplicaId),
    /// A committee member has different values for parameters that must be equal on all replicas.
    #[error(
        "replica {replica} has another configuration: {}; help: parameters of the whole cluster are changed while all \
         replicas are stopped", list(.differences)
    )]
    Parameters { replica: ReplicaId, differences: Vec<Difference> },
    /// A field of the handshake is invalid.
    #[error("the peer's handshake is malformed: {0}; it runs another program or is an attacker")]
    Malformed(&'static str),
    /// A part of the handshake exceeds the maximum length of a valid one.
    #[error(
        "the peer announces a handshake part of {bytes} bytes, over the limit of {limit}; it runs another \
         program or is an attacker"
    )]
    HandshakeTooLong { bytes: usize, limit: usize },
    /// The channel does not work over the transport's carriage.
    #[error("the channel {channel} does not work over {carriage}; help: choose another channel or another transport")]
    Carriage { channel: &'static str, carriage: Carriage },
    /// The operating system provides no randomness.
    #[error("the operating system provides no randomness for a handshake: {0}")]
    Randomness(String),
}
