//! Snapshots of clusters: files with a certified state, which anybody can verify without the cluster ([ADR
//! 121](../../../../docs/adr/121-snapshots-of-clusters.md)).

pub mod file;
pub mod save;
pub mod verify;

use crate::inspection::InspectError;
use quorate_applications::UnsupportedLevel;
use quorate_client::{ClientError, ConfigError};
use quorate_crypto::CryptoError;
use quorate_node::initial_state::InitialStateError;
use quorate_node::{ConfigFault, NodeError};
use quorate_types::text::escaped;
use quorate_types::{DecodeError, Digest, Height};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Reason why a snapshot cannot be saved, verified or restored.
#[derive(Debug, Error)]
pub enum BackupError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("the configuration is invalid: {0}")]
    Config(#[from] ConfigFault),
    #[error(transparent)]
    Client(#[from] ConfigError),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error(transparent)]
    Inspect(#[from] InspectError),
    #[error("the cluster does not answer: {0}")]
    Cluster(#[from] ClientError),
    #[error(transparent)]
    InitialState(#[from] InitialStateError),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}; help: name a file in a writable directory with enough space")]
    Write { path: PathBuf, source: io::Error },
    #[error("the snapshot would have {0} bytes, and at most 4 GiB are possible")]
    TooLarge(u64),
    #[error("this is not a snapshot of a cluster; help: name a file that `quorate snapshot save` wrote")]
    NotASnapshot,
    #[error("the snapshot is truncated: it has {found} of {expected} bytes; help: copy it again")]
    Truncated { found: u64, expected: u64 },
    #[error("the snapshot is damaged: its content does not match its digest; help: copy it again, or use another")]
    Damaged,
    #[error("the snapshot has another format: {0}; help: use the version that wrote it")]
    Format(#[from] DecodeError),
    #[error(
        "the snapshot is of the cluster with the genesis {found}, and the trusted keys are of {expected}; help: name \
         the client.toml of its own cluster"
    )]
    OtherCluster { found: Digest, expected: Digest },
    #[error("the snapshot is of the application {}, and the trusted configuration of {expected}", escaped(.found))]
    OtherApplication { found: String, expected: &'static str },
    #[error(
        "the snapshot begins with the initial state {}, and the trusted configuration names {}",
        name(.found), name(.expected)
    )]
    OtherInitialState { found: Option<Digest>, expected: Option<Digest> },
    #[error("the snapshot is not proven: {0}; help: do not use it")]
    Unproven(String),
    #[error("this program cannot verify the snapshot: {0}")]
    Level(#[from] UnsupportedLevel),
    #[error("{0}")]
    Unsound(String),
    #[error(
        "the journal begins with the state at height {0}, which only this replica claims; help: save from another \
         replica, or after the next certified state"
    )]
    OwnState(Height),
    #[error(
        "no checkpoint is certified yet: the replica has committed height {0}; help: use --client, or wait for the \
         next checkpoint"
    )]
    NothingCertified(u64),
    #[error(
        "--client orders reads, and the application {0} has none that is known to change nothing; help: leave it out"
    )]
    NoHarmlessCommand(&'static str),
    #[error(
        "the replica has not written a checkpoint of now within {} s; help: look at its status, or save from another \
         replica", .0.as_secs()
    )]
    NotUpToNow(Duration),
    #[error(
        "--name {0} is the name of the snapshot's own cluster: signatures of its replicas and clients would be valid \
         in both; help: choose another name"
    )]
    SameCluster(String),
    #[error(
        "{} is the journal of a replica, and a snapshot is never restored into an existing one: it would contradict \
         its own votes; help: name an empty directory", .0.display()
    )]
    HasJournal(PathBuf),
}

fn name(digest: &Option<Digest>) -> String {
    digest.as_ref().map_or_else(|| "none".to_owned(), Digest::to_hex)
}

impl BackupError {
    /// Returns whether the caller's input is unusable.
    pub fn is_wrong_call(&self) -> bool {
        use BackupError::*;
        match self {
            Node(error) => error.is_wrong_call(),
            Inspect(error) => error.is_wrong_call(),
            Read { source, .. } | Write { source, .. } => quorate_types::files::is_named_wrongly(source),
            Cluster(error) => matches!(error, ClientError::Connect(quorate_client::ConnectError::Config(_))),
            Config(_) | Client(_) | Crypto(_) | InitialState(_) | NotASnapshot | NoHarmlessCommand(_) => true,
            OtherCluster { .. } | OtherApplication { .. } | OtherInitialState { .. } => true,
            SameCluster(_) | HasJournal(_) | Level(_) => true,
            TooLarge(_) | Truncated { .. } | Damaged | Format(_) | Unproven(_) | Unsound(_) => false,
            OwnState(_) | NothingCertified(_) | NotUpToNow(_) => false,
        }
    }
}
