//! Errors of keys and certificates.

use quorate_types::{Domain, ReplicaId, View};
use std::fmt;
use thiserror::Error;

/// Key generation failed, or a key does not fit the committee.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CryptoError {
    #[error("the operating system provides no randomness for a key: {0}")]
    Randomness(String),
    #[error("replica {replica} is not a member: the committee has the replicas 0 to {}", members - 1)]
    Stranger { replica: ReplicaId, members: usize },
    #[error("replica {replica} has a {role} of the scheme {found}, expected {expected}")]
    Scheme { replica: ReplicaId, role: KeyRole, expected: &'static str, found: &'static str },
    #[error("the {role} of replica {replica} {fault}")]
    PublicKey { replica: ReplicaId, role: KeyRole, fault: KeyFault },
    #[error("the private {role} of replica {replica} has the public key {found}, but the committee lists {expected}")]
    KeyMismatch { replica: ReplicaId, role: KeyRole, expected: String, found: String },
    /// Reply MACs need a client with a key.
    #[error(
        "replies have MACs (`reply_authentication = \"mac\"`), but the client has no key to share secrets with; help: \
         set `client_authentication = \"ed25519\"`"
    )]
    KeylessClient,
    /// The clock's time in seconds since 1970; `None` if it is earlier.
    #[error(
        "the clock of this host says {}, but runs of a client that keeps its key number their commands by the time; \
         help: set the clock, or leave `key_file` out for a key that is used once",
        .0.map_or("a time before 1970".to_owned(), |seconds| format!("{seconds} s after the beginning of 1970"))
    )]
    Clock(Option<u64>),
}

/// Role of one of a replica's two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRole {
    Identity,
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

/// Defect of a public key or of its proof of possession.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum KeyFault {
    #[error("has {found} bytes, but the scheme {scheme} takes {expected}; help: copy it from the replica's key file")]
    Length { scheme: &'static str, expected: usize, found: usize },
    #[error("is damaged: it is not a point of the curve; help: copy it from the replica's key file")]
    NotAPoint,
    #[error("is damaged: it is not a public key of the scheme {0}; help: copy it from the replica's key file")]
    NotAKey(&'static str),
    #[error("is of small order, so anyone could sign for it; help: generate another")]
    Weak,
    /// If two members shared a key, its holder would have two votes or two identities.
    #[error("is also the {role} of replica {replica}; help: give every replica keys of its own")]
    Shared { replica: ReplicaId, role: KeyRole },
    #[error("has no proof of possession, which the scheme {0} requires; help: `quorate testnet` writes it")]
    NoPossession(&'static str),
    #[error("has a proof of possession that is not valid in the scheme {0}; help: copy it from its configuration")]
    WrongPossession(&'static str),
}

/// Reason to reject a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CertificateError {
    /// Such statements are signed by single replicas, so a quorum of them has no meaning.
    #[error("there are no certificates in the domain {0:?}")]
    Domain(Domain),
    #[error("a quorum certificate of view 0 is not this cluster's genesis")]
    NotGenesis,
    #[error("{signers} replicas signed, but a quorum is {quorum}")]
    TooFewSigners { signers: usize, quorum: usize },
    /// `replica` is the highest signer.
    #[error("replica {replica} signed, but the committee has only {members} members")]
    Stranger { replica: ReplicaId, members: usize },
    #[error("{attachments} attachments for {signers} signers, expected one for each or none")]
    Attachments { attachments: usize, signers: usize },
    #[error("proof is {found} bytes, expected {expected} for its signers")]
    ProofLength { found: usize, expected: usize },
    /// The sender of the certificate is to blame, not the signers listed in it.
    #[error("a signature in the {domain:?} certificate of view {view} is wrong")]
    Signature { domain: Domain, view: View },
}
