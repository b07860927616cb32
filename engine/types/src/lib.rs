//! Basic types of quorate: identifiers, views, commands, blocks, votes, certificates, quorum arithmetic and the wire
//! codec.
//!
//! All other crates use these types, so they are small and mostly immutable. Each has exactly one encoding, defined by
//! [`codec`] and covered by hashes and signatures. [`files`] replaces files atomically for all crates.

/// Returns whether this bug is injected: into the replica whose step is running, or into the whole process. Always
/// false without the feature `mutants`.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! bug {
    ($name:ident) => {
        $crate::mutants::is_had($crate::mutants::Bug::$name)
    };
}

/// Always false: no bug can be injected without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! bug {
    ($name:ident) => {
        false
    };
}

pub mod address;
pub mod authenticated_replies;
pub mod batch;
pub mod bitset;
pub mod block;
pub mod certificate;
pub mod choice;
pub mod choices;
pub mod client;
pub mod codec;
pub mod command;
pub mod committee;
pub mod covers;
pub mod digest;
pub mod digest_index;
pub mod fault;
pub mod files;
pub mod genesis;
pub mod histogram;
pub mod host_status;
pub mod identity;
pub mod ids;
pub mod lane;
pub mod level;
pub mod limits;
pub mod line;
pub mod member;
pub mod meter;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod parameters;
pub mod quorum;
mod replica_threads;
pub mod settings;
pub mod stages;
pub mod state;
pub mod status;
pub mod tags;
pub mod text;
pub mod time;
mod wire;

pub use address::{Address, AddressError};
pub use authenticated_replies::AuthenticatedReplies;
pub use batch::BatchSize;
pub use bitset::Signers;
pub use block::Block;
pub use certificate::{Attachment, Certificate, Domain, Statement, Subject, Vote};
pub use choice::{Choice, UnknownName};
pub use choices::{Dissemination, PayloadPath, ReplyMode};
pub use client::{ClientRequest, Outcome, ReplicaReply, Results, ResultsBuilder, question_digest};
pub use codec::{DecodeError, Decoder, Encoder, Wire, decode_message, decode_message_by, encode_message};
pub use command::{Authenticator, Bundle, BundleBuilder, Command};
pub use committee::Committee;
pub use covers::CoverNames;
pub use digest::{Digest, Hasher};
pub use fault::Fault;
pub use genesis::Genesis;
pub use histogram::DurationHistogram;
pub use host_status::HostStatus;
pub use ids::{ClientId, ClusterId, EpochId, FeatureLevel, Height, ReplicaId, View};
pub use lane::Lane;
pub use level::{LevelChange, LevelStatus, LevelSupport, PendingLevel};
pub use member::Member;
pub use parameters::{Difference, Parameters};
pub use quorum::Quorum;
pub use replica_threads::{
    MAX_AUTO_REPLICA_THREADS, MAX_REPLICA_THREADS, NotReplicaThreads, ReplicaStages, ReplicaThreads, ReplicaWork,
};
pub use state::Manifest;
pub use status::{Settings, Status, ThreadTimes};
pub use time::Time;
