//! Errors that prevent a node from starting or stop it.

use crate::config_file::{ConfigFault, ConfigFileError};
use crate::initial_state::InitialStateError;
use crate::limits::{PORTS_PER_REPLICA, RESERVED_DESCRIPTORS};
use crate::signer::{RemoteFault, SignerError};
use quorate_applications::{ApplicationPanic, ExecutionError, RestoreError, UnsupportedLevel};
use quorate_consensus::Halt;
use quorate_crypto::CryptoError;
use quorate_crypto::key_file::KeyFileError;
use quorate_hosting::recording::RecordingError;
use quorate_network::transports::SetupError;
use quorate_storage::{JournalError, are_exhausted, help};
use quorate_types::parameters::list;
use quorate_types::{Address, AddressError, Difference, Height, ReplicaId};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a running replica stopped by itself.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("the network cannot be polled: {0}")]
    Network(#[from] io::Error),
    #[error(
        "only {} MiB are left on the disk of {}, and `journal.min_free_bytes` is {reserve}: it has stopped in order; \
         help: make room and start the replica again; it continues where its journal ends",
        free >> 20, path.display()
    )]
    NoRoom { path: PathBuf, free: u64, reserve: u64 },
    #[error("it must not vote without its journal: {0}")]
    Journal(#[from] JournalError),
    #[error("cannot {action} {}: {source}; {}", path.display(), help(source))]
    Snapshot { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{} has snapshot format {found}, this version reads format {expected}; help: start the replica with the \
         version that wrote it, or move the file away, and the replica fetches its state from its peers",
        path.display()
    )]
    SnapshotFormat { path: PathBuf, found: u32, expected: u32 },
    #[error(
        "cannot start a thread to {purpose}: {source}; help: let its user have more threads (`ulimit -u`) or give the \
         machine more memory, and start the replica again"
    )]
    Thread { purpose: &'static str, source: io::Error },
    #[error("{0}; help: configure the application and the cluster that wrote the directory, or use another directory")]
    Restore(RestoreError),
    #[error(transparent)]
    Application(#[from] Box<ApplicationPanic>),
    /// The program does not support the cluster's feature level. It has executed nothing at that level.
    #[error(transparent)]
    UnsupportedLevel(#[from] UnsupportedLevel),
    /// A record of the journal is inconsistent with those before it.
    #[error(
        "record {id} of the journal contradicts those before it: {why}; another version wrote it, or it is damaged in \
         a way that no checksum reveals; help: use that version, or move the journal and its snapshots away, so that \
         the replica asks its peers how far it may have voted"
    )]
    Unreadable { id: u64, why: String },
    /// Blocks are missing between the state and the journal.
    #[error(
        "the newest readable state has height {executed}, but the journal refers to height {committed}: one of \
         their files is missing; help: restore it, or move the journal and its snapshots away, so that the replica \
         asks its peers how far it may have voted"
    )]
    Torn {
        executed: Height,
        /// Committed height at which the journal starts or ends.
        committed: Height,
    },
    /// A quorum has certified a different state.
    #[error(
        "a quorum certified another state after height {height} than this replica has: its memory or disk is faulty, \
         or it runs another version of the application; help: repair that, then move its journal and snapshots away, \
         so that it fetches its peers' state"
    )]
    Diverged { height: Height },
    /// A certificate contradicts a block that this replica has committed.
    #[error(
        "a quorum contradicts what this replica has committed at height {height}: too many replicas are faulty, or \
         this is a bug of quorate; help: keep all journals, and compare them with `quorate inspect --verify`"
    )]
    Conflict {
        /// Height of the block to be committed.
        height: Height,
    },
    /// The marker file of a replica that has never run cannot be removed.
    #[error(
        "cannot remove {}: {source}; while it exists, the replica could forget that it has run, so it has not voted; \
         {}",
        path.display(), help(source)
    )]
    Mark { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl From<RestoreError> for HostError {
    fn from(why: RestoreError) -> HostError {
        match why {
            RestoreError::UnsupportedLevel(why) => HostError::UnsupportedLevel(why),
            why => HostError::Restore(why),
        }
    }
}

impl From<ExecutionError> for HostError {
    fn from(why: ExecutionError) -> HostError {
        match why {
            ExecutionError::Panicked(panic) => HostError::Application(panic),
            ExecutionError::UnsupportedLevel(why) => HostError::UnsupportedLevel(why),
        }
    }
}

impl From<Halt> for HostError {
    fn from(why: Halt) -> HostError {
        match why {
            Halt::Unreadable { id, why } => HostError::Unreadable { id: id.0, why: why.to_string() },
            Halt::Diverged { height } => HostError::Diverged { height },
            Halt::Conflict { height } => HostError::Conflict { height },
        }
    }
}

impl HostError {
    fn is_disk_trouble(&self) -> bool {
        match self {
            HostError::Journal(error) => error.is_disk_trouble(),
            HostError::Snapshot { source, .. } | HostError::Mark { source, .. } => !are_exhausted(source),
            HostError::Recording(_) | HostError::NoRoom { .. } => true,
            _ => false,
        }
    }
}

/// Exit status of a replica's process if its disk is full, broken or not writable. Restarting does not help until that
/// is fixed.
pub const DISK_TROUBLE_STATUS: u8 = 3;

/// Reason why a node cannot start or has stopped.
#[derive(Debug, Error)]
pub enum NodeError {
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// A configuration that was not read from a file is invalid.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigFault),
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error("replica {replica} does not start: {source}")]
    Journal { replica: ReplicaId, source: JournalError },
    /// The genesis of the journal and of the configuration differ, in these keys.
    #[error("replica {replica} does not start: {source}; `here` is the configuration and `there` the journal: {}",
        list(.differences))]
    OtherGenesis { replica: ReplicaId, source: Box<JournalError>, differences: Vec<Difference> },
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The process that should sign this replica's votes is another's.
    #[error("replica {replica} does not start: its signer {source}")]
    RemoteSigner { replica: ReplicaId, source: RemoteFault },
    #[error(transparent)]
    InitialState(#[from] InitialStateError),
    #[error(transparent)]
    Transport(#[from] SetupError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The process may have too few file descriptors for the configured links.
    #[error(
        "this process may open {limit} files, but the configured links need {needed}: up to {clients} for clients, \
         {unauthenticated} for unauthenticated links, {peers} for peers, and {RESERVED_DESCRIPTORS} for everything \
         else; help: raise the limit (`ulimit -n {needed}`, or `LimitNOFILE={needed}` in a systemd unit) or lower \
         `max_client_links` in [links]"
    )]
    Descriptors { limit: u64, needed: u64, clients: usize, unauthenticated: usize, peers: usize },
    #[error("cannot listen on {address} (`{key}`): {source}{}", listening_help(.key, .address, .source))]
    Listen { key: &'static str, address: Address, source: io::Error },
    #[error("cannot start a thread for replica {replica}: {source}")]
    Thread { replica: ReplicaId, source: io::Error },
    #[error("replica {replica} has stopped: {source}")]
    Host { replica: ReplicaId, source: HostError },
    /// A replica panicked: a bug.
    #[error(
        "replica {replica} has panicked, which is a bug of quorate: {message}; help: keep its directory, start it \
         again, and report the panic with the lines before it"
    )]
    Panicked { replica: ReplicaId, message: String },
    /// The directory for a new testnet is not empty.
    #[error("{0} is not empty; help: name an empty directory, or one that does not exist yet")]
    NotEmpty(PathBuf),
    /// The directory of a whole testnet was given instead of a replica's.
    #[error(
        "{} is the directory of a testnet; help: name one of its replicas' directories, such as {}",
        .0.display(), .0.join("replica-0").display()
    )]
    Testnet(PathBuf),
    /// A testnet's ports exceed 65535, or begin at 0.
    #[error(
        "{}; help: set --base-port from 1 to {}",
        if *base_port == 0 {
            "--base-port is 0: replicas must find each other again after a restart, so the system cannot choose their \
             ports".to_owned()
        } else {
            format!(
                "{replicas} replicas take {} ports from {base_port} on, beyond 65535",
                replicas * PORTS_PER_REPLICA
            )
        },
        (usize::from(u16::MAX) + 1).saturating_sub(*replicas * PORTS_PER_REPLICA)
    )]
    Ports { base_port: u16, replicas: usize },
    /// A replica uses four consecutive ports, and this one is too high.
    #[error(
        "{0}: the replica takes this port and the three after it, but ports are from 1 to 65535; help: choose another \
         port"
    )]
    PortsOf(Address),
    #[error(transparent)]
    HostName(AddressError),
    #[error(
        "{0} is also the address of another replica: each takes its port for peers and the next three for clients, \
         operators and monitors; help: name ports that are four apart, or none"
    )]
    PlaceTaken(Address),
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// The directory for a new testnet.
    #[error("cannot write {path}: {source}; help: name a directory that this user may create or write")]
    Place { path: PathBuf, source: io::Error },
}

impl NodeError {
    /// Returns whether the caller's input, including files, is at fault, rather than an event at run time.
    pub fn is_wrong_call(&self) -> bool {
        use NodeError::{
            Config, ConfigFile, Crypto, HostName, InitialState, Journal, KeyFile, NotEmpty, Place, PlaceTaken, Ports,
            PortsOf, Testnet,
        };
        matches!(self, ConfigFile(_) | Config(_) | Crypto(_) | NotEmpty(_) | Ports { .. })
            || matches!(self, HostName(_) | InitialState(_) | PlaceTaken(_) | PortsOf(_) | Testnet(_))
            || matches!(self, Journal { source: JournalError::NotADirectory { .. }, .. })
            || matches!(self, KeyFile(error) if error.is_wrong_call())
            || matches!(self, NodeError::Signer(error) if error.is_wrong_call())
            || matches!(self, NodeError::RemoteSigner { .. })
            || matches!(self, Place { source, .. } if quorate_types::files::is_named_wrongly(source))
    }

    /// Returns whether a disk is full, broken or not writable, so that restarting does not help until that is fixed.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            NodeError::Journal { source, .. } => source.is_disk_trouble(),
            NodeError::Host { source, .. } => source.is_disk_trouble(),
            NodeError::Recording(_) => true,
            NodeError::Signer(error) => error.is_disk_trouble(),
            _ => false,
        }
    }
}

/// Returns advice for an address that cannot be bound; empty if the kernel lacks the transport, as the error itself
/// says.
fn listening_help(key: &str, address: &Address, source: &io::Error) -> String {
    if source.kind() == io::ErrorKind::Unsupported {
        return String::new();
    }
    if address.resolve().is_err() {
        return "; help: check its spelling, and that this host's name servers know it, or write an IP address"
            .to_owned();
    }
    let port = address.port();
    let other_port = || port.checked_add(1).unwrap_or(port - 1);
    let is_in_use = source.kind() == io::ErrorKind::AddrInUse;
    match key {
        "admin_listen" => format!(
            "; help: check that no other process listens on it, or set `{key}` to another port of this host's \
             loopback, such as 127.0.0.1:{}",
            other_port()
        ),
        "monitoring.address" => format!(
            "; help: check that no other process listens on it, or set `address` in [monitoring] to another port, such \
             as {}",
            address.with_port(other_port())
        ),
        "client_listen" if is_in_use => format!(
            "; help: end the process that listens on it, which may be another copy of this replica, or set `{key}` to \
             another port, such as {}, and tell the clients",
            address.with_port(other_port())
        ),
        _ if is_in_use => {
            "; help: end the process that listens on it, which may be another copy of this replica".to_owned()
        }
        _ => format!(
            "; help: check that the address is this host's; behind a NAT, or if the name resolves to another host, set \
             `{key}` to 0.0.0.0:{port}"
        ),
    }
}
