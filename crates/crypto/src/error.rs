//! Why a device cannot be set up, and why a certificate is refused.

use quorate_types::{Domain, ReplicaId, View};
use std::fmt;
use thiserror::Error;

/// Why keys and committee do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CryptoError {
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness for a key: {0}")]
    Randomness(String),
    #[error("replica {replica} is not a member: the committee has the replicas 0 to {}", members - 1)]
    Stranger { replica: ReplicaId, members: usize },
    /// The private key is of another scheme than the committee's.
    #[error("replica {replica} has a {role} of the scheme {found}, expected {expected}")]
    Scheme { replica: ReplicaId, role: KeyRole, expected: &'static str, found: &'static str },
    /// A public key of the committee is unusable.
    #[error("the {role} of replica {replica} {fault}")]
    PublicKey { replica: ReplicaId, role: KeyRole, fault: KeyFault },
    /// The private key does not belong to the member it is meant for.
    #[error("the private {role} of replica {replica} has the public key {found}, but the committee lists {expected}")]
    KeyMismatch {
        replica: ReplicaId,
        role: KeyRole,
        /// The committee's public key of that member, in hexadecimal.
        expected: String,
        /// The private key's public key, in hexadecimal.
        found: String,
    },
}

/// Which of a replica's two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRole {
    /// Key of handshakes.
    Identity,
    /// Key of votes.
    Voting,
}

impl fmt::Display for KeyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyRole::Identity => "identity key",
            KeyRole::Voting => "voting key",
        })
    }
}

/// What is wrong with a public key.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum KeyFault {
    #[error("has {found} bytes, but the scheme {scheme} takes {expected}; help: copy it from the replica's key file")]
    Length { scheme: &'static str, expected: usize, found: usize },
    #[error("is damaged: it is not a point of the curve; help: copy it from the replica's key file")]
    NotAPoint,
    #[error("is of small order, so anybody could sign for it; help: generate another")]
    Weak,
    /// Two keys are one, so one holder would have two votes or two identities.
    #[error("is also the {role} of replica {replica}; help: give every replica keys of its own")]
    Shared { replica: ReplicaId, role: KeyRole },
    #[error("has no proof of possession, which the scheme {0} requires; help: `quorate testnet` writes it")]
    NoPossession(&'static str),
    #[error("has a proof of possession that is not valid in the scheme {0}")]
    WrongPossession(&'static str),
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
