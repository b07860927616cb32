//! Why a device cannot be set up, and why a certificate is refused.

use quorate_types::{Domain, ReplicaId, View};
use thiserror::Error;

/// Why keys and committee do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CryptoError {
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness for a key: {0}")]
    Randomness(String),
    /// The replica is not of the committee.
    #[error("replica {replica} is not a member: the committee has the replicas 0 to {}", members - 1)]
    Stranger {
        /// The replica asked for.
        replica: ReplicaId,
        /// How many members there are.
        members: usize,
    },
    /// The private key is of another scheme than the committee's.
    #[error("replica {replica} has a key for the scheme {found}, but the committee signs with {expected}")]
    Scheme {
        /// Whose key it is.
        replica: ReplicaId,
        /// The committee's scheme.
        expected: &'static str,
        /// The key's scheme.
        found: &'static str,
    },
    /// A public key has the wrong length.
    #[error("the public key of replica {replica} has {found} bytes, but the scheme {scheme} takes {expected}")]
    PublicKeyLength {
        /// Whose key it is.
        replica: ReplicaId,
        /// The committee's scheme.
        scheme: &'static str,
        /// Bytes a key has.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// A public key is not a point of the curve.
    #[error("the public key of replica {replica} is damaged: it is not a point of the curve")]
    PublicKeyInvalid {
        /// Whose key it is.
        replica: ReplicaId,
    },
    /// A public key for which anybody can sign.
    #[error("the public key of replica {replica} is of small order, so anybody could sign for it: generate another")]
    PublicKeyWeak {
        /// Whose key it is.
        replica: ReplicaId,
    },
    /// Two members have one key, so one holder would have two votes.
    #[error("the replicas {first} and {second} have the same public key: each needs one of its own")]
    PublicKeyShared {
        /// One of them.
        first: ReplicaId,
        /// The other.
        second: ReplicaId,
    },
    /// The private key does not belong to the member it is meant for.
    #[error("the private key of replica {replica} has the public key {found}, but the committee lists {expected}")]
    KeyMismatch {
        /// Whose key it should be.
        replica: ReplicaId,
        /// The committee's public key of that member, hexadecimal.
        expected: String,
        /// The private key's public key, hexadecimal.
        found: String,
    },
}

/// Why a certificate proves nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CertificateError {
    /// Statements of that kind are made by one replica, so a quorum of them means nothing.
    #[error("there are no certificates in the domain {0:?}")]
    Domain(Domain),
    /// A quorum certificate of view 0 that is not genesis.
    #[error("a quorum certificate of view 0 is not this cluster's genesis")]
    NotGenesis,
    /// Fewer than a quorum signed.
    #[error("{signers} replicas signed where {quorum} are a quorum")]
    TooFewSigners {
        /// How many signed.
        signers: usize,
        /// How many are needed.
        quorum: usize,
    },
    /// A signer is not of the committee.
    #[error("replica {replica} signed, but the committee has only {members} members")]
    Stranger {
        /// The highest signer.
        replica: ReplicaId,
        /// How many members there are.
        members: usize,
    },
    /// The attachments do not go with the signers.
    #[error("{attachments} attachments go with {signers} signers: there is to be one for each, or none at all")]
    Attachments {
        /// How many there are.
        attachments: usize,
        /// How many replicas signed.
        signers: usize,
    },
    /// The proof has the wrong length for so many signers.
    #[error("the proof has {found} bytes where so many signers make {expected}")]
    ProofLength {
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// At least one signature is wrong. Whoever sent the certificate is to blame, not the signers it names.
    #[error("a signature in the {domain:?} certificate of view {view} is wrong")]
    Signature {
        /// The kind of certificate.
        domain: Domain,
        /// Its view.
        view: View,
    },
}
