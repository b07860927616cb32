//! Errors that keep a node from starting, and errors that end one.

use crate::config_file::{ConfigFault, ConfigFileError};
use crate::limits::{PORTS_PER_REPLICA, RESERVED_DESCRIPTORS};
use quorate_applications::RestoreError;
use quorate_consensus::Halt;
use quorate_crypto::CryptoError;
use quorate_crypto::key_file::KeyFileError;
use quorate_recording::RecordingError;
use quorate_storage::{JournalError, are_exhausted, help};
use quorate_transports::SetupError;
use quorate_types::{Address, AddressError, Height, ReplicaId};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a running replica ended without being stopped.
#[derive(Debug, Error)]
pub enum HostError {
    /// The network device as a whole failed, not one of its links.
    #[error("the network cannot be polled: {0}")]
    Network(#[from] io::Error),
    #[error("it says nothing that it cannot write down, and {0}")]
    Journal(#[from] JournalError),
    /// A snapshot file cannot be written or read.
    #[error("cannot {action} {}: {source}; {}", path.display(), help(source))]
    Snapshot { action: &'static str, path: PathBuf, source: io::Error },
    /// The operating system refused to start a thread.
    #[error(
        "cannot start a thread to {purpose}: {source}; let its user have more threads (`ulimit -u`) or the machine more memory, and \
         start the replica again"
    )]
    Thread { purpose: &'static str, source: io::Error },
    /// A snapshot belongs to another cluster or application.
    #[error("{0}; configure the application and the cluster that wrote the directory, or use another")]
    Restore(#[from] RestoreError),
    /// A record of the journal is inconsistent with those before it.
    #[error(
        "record {id} of the journal makes no sense after those before it: {why}; it was written by another version, or is damaged in a way \
         that no checksum shows: use that version, or move the journal and its snapshots away, and the replica asks the others what it may have said"
    )]
    Unreadable { id: u64, why: String },
    /// Blocks are missing between the state and the journal.
    #[error(
        "the last state that can be read is that of height {executed}, and the journal belongs to one of height {committed}: a file of the two is \
         missing; put it back, or move the journal and its snapshots away, and the replica asks the others what it may have said"
    )]
    Torn {
        /// Height of the state.
        executed: Height,
        /// Committed height at which the journal starts, or ends.
        committed: Height,
    },
    /// A quorum has certified a different state.
    #[error(
        "a quorum vouches for another state after height {height} than this replica has: its memory or disk fails, or it runs another version \
         of the application; move its journal and snapshots away when that is repaired, and it takes the state of the others over"
    )]
    Diverged {
        /// Height of the checkpoint.
        height: Height,
    },
    /// A certificate contradicts a block that this replica has committed.
    #[error(
        "a quorum contradicts what this replica has committed at height {height}: more replicas lie than the cluster bears, or this is a bug of          quorate; keep all journals, and compare them with `quorate inspect --verify`"
    )]
    Conflict {
        /// Height of the block that was to be committed.
        height: Height,
    },
    /// The marker file of a replica that has never run cannot be removed.
    #[error(
        "cannot remove {}: {source}; while it is there the replica could forget that it has run, and has said nothing; {}",
        path.display(), help(source)
    )]
    Mark { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Recording(#[from] RecordingError),
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
            HostError::Recording(_) => true,
            _ => false,
        }
    }
}

/// Exit status of a replica's process whose disk is full, fails or is not writable. Restarting will not help until that
/// is fixed.
/// disk first.
pub const DISK_TROUBLE_STATUS: u8 = 3;

/// Reason why a node cannot start or has ended.
#[derive(Debug, Error)]
pub enum NodeError {
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// A configuration that was not read from a file is invalid.
    #[error("the configuration cannot work: {0}")]
    Config(#[from] ConfigFault),
    /// The private key file is unusable.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The keys do not fit the committee.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The journal cannot be opened.
    #[error("replica {replica} does not start: {source}")]
    Journal { replica: ReplicaId, source: JournalError },
    /// The transport cannot be set up.
    #[error(transparent)]
    Transport(#[from] SetupError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The process may have too few file descriptors for the configured links.
    #[error(
        "this process may have {limit} files open, and the configured links need {needed}: up to {clients} of clients, {unauthenticated} that          have yet to say who they are and {peers} of peers, and {RESERVED_DESCRIPTORS} descriptors for everything else; raise the limit          (`ulimit -n {needed}`, `LimitNOFILE={needed}` in a unit of systemd) or lower `max_client_links` in [tcp]"
    )]
    Descriptors {
        /// Maximum number of open files.
        limit: u64,
        /// Descriptors that may be needed.
        needed: u64,
        /// Maximum number of clients' links.
        clients: usize,
        /// Maximum number of links that are not authenticated yet.
        unauthenticated: usize,
        /// Maximum number of peers' links.
        peers: usize,
    },
    /// The replica cannot listen on an address.
    #[error(
        "cannot listen on {address} (`{key}`): {source}; check that no other process does and that the address is this host's: behind an \
         address translation, or where a name leads elsewhere, let `{key}` be 0.0.0.0:{}", address.port()
    )]
    Listen {
        /// Key of the address in the configuration.
        key: &'static str,
        address: Address,
        source: io::Error,
    },
    /// The operating system refused to start a thread.
    #[error("cannot start a thread for replica {replica}: {source}")]
    Thread { replica: ReplicaId, source: io::Error },
    /// A replica ended without being stopped.
    #[error("replica {replica} has stopped: {source}")]
    Host { replica: ReplicaId, source: HostError },
    /// A replica panicked: a bug.
    #[error("replica {replica} has panicked, which is a bug of quorate: {message}")]
    Panicked {
        replica: ReplicaId,
        /// Panic message.
        message: String,
    },
    /// The directory for a new testnet is not empty.
    #[error("{0} is not empty; name a directory that is, or that does not exist yet")]
    NotEmpty(PathBuf),
    /// The directory of a whole testnet was given instead of a replica's.
    #[error("{} is the directory of a testnet; name a replica's in it, such as {}", .0.display(), .0.join("replica-0").display())]
    Testnet(PathBuf),
    /// A testnet's ports exceed 65535, or begin at 0.
    #[error(
        "{}; set --base-port from 1 to {}",
        if *base_port == 0 { "replicas have to find each other again after a restart, so none may listen on a port that the system \
         chooses".to_owned() } else { format!("{replicas} replicas take {} ports from {base_port} on, which reach beyond 65535", replicas * PORTS_PER_REPLICA) },
        (usize::from(u16::MAX) + 1).saturating_sub(*replicas * PORTS_PER_REPLICA)
    )]
    Ports {
        /// First port.
        base_port: u16,
        /// Number of replicas.
        replicas: usize,
    },
    /// A replica takes three consecutive ports, and those after this one exceed 65535.
    #[error(
        "{0}: the replica takes this port and the two after it, and ports are from 1 to 65535; choose another port"
    )]
    PortsOf(Address),
    /// A host is not a valid name or address.
    #[error(transparent)]
    HostName(AddressError),
    /// Two replicas would listen on the same address.
    #[error(
        "{0} is the place of another replica too: each takes its port for peers and the next ones for clients and operators; name ports that \
         are three apart, or none"
    )]
    PlaceTaken(Address),
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

impl NodeError {
    /// Returns whether the caller's input is at fault, including files, rather than something that happened at run
    /// time.
    pub fn is_wrong_call(&self) -> bool {
        use NodeError::{Config, ConfigFile, Crypto, HostName, KeyFile, NotEmpty, PlaceTaken, Ports, PortsOf, Testnet};
        matches!(self, ConfigFile(_) | Config(_) | KeyFile(_) | Crypto(_) | NotEmpty(_) | Ports { .. })
            || matches!(self, HostName(_) | PlaceTaken(_) | PortsOf(_) | Testnet(_))
    }

    /// Returns whether a disk is full, fails or is not writable, so that restarting will not help until that is fixed.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            NodeError::Journal { source, .. } => source.is_disk_trouble(),
            NodeError::Host { source, .. } => source.is_disk_trouble(),
            NodeError::Recording(_) => true,
            _ => false,
        }
    }
}
