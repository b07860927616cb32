//! Why a node cannot start, and why one ends.

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

/// Why a running replica ends although nobody asked it to.
#[derive(Debug, Error)]
pub enum HostError {
    /// The network device failed as a whole, not one of its links.
    #[error("the network cannot be polled: {0}")]
    Network(#[from] io::Error),
    /// The journal failed.
    #[error("it says nothing that it cannot write down, and {0}")]
    Journal(#[from] JournalError),
    /// A file with the state cannot be written or read.
    #[error("cannot {action} {}: {source}; {}", path.display(), help(source))]
    Snapshot {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The operating system gave no thread.
    #[error(
        "cannot start a thread to {purpose}: {source}; let its user have more threads (`ulimit -u`) or the machine more memory, and \
         start the replica again"
    )]
    Thread {
        /// What it was for.
        purpose: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file with the state holds something else.
    #[error("{0}; configure the application and the cluster that wrote the directory, or use another")]
    Restore(#[from] RestoreError),
    /// A record of the journal makes no sense.
    #[error(
        "record {id} of the journal makes no sense after those before it: {why}; it was written by another version, or is damaged in a way \
         that no checksum shows: use that version, or move the journal and its snapshots away, and the replica asks the others what it may have said"
    )]
    Unreadable {
        /// The record.
        id: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The journal and the state do not meet.
    #[error(
        "the last state that can be read is that of height {executed}, and the journal belongs to one of height {committed}: a file of the two is \
         missing; put it back, or move the journal and its snapshots away, and the replica asks the others what it may have said"
    )]
    Torn {
        /// The height of the state.
        executed: Height,
        /// The height that the journal goes on from, or ends with.
        committed: Height,
    },
    /// A quorum vouches for another state.
    #[error(
        "a quorum vouches for another state after height {height} than this replica has: its memory or disk fails, or it runs another version \
         of the application; move its journal and snapshots away when that is repaired, and it takes the state of the others over"
    )]
    Diverged {
        /// The height of the checkpoint.
        height: Height,
    },
    /// A certificate contradicts what this replica has committed.
    #[error(
        "a quorum contradicts what this replica has committed at height {height}: more replicas lie than the cluster bears, or this is a bug of          quorate; keep all journals, and compare them with `quorate inspect --verify`"
    )]
    Conflict {
        /// The height of the block that was to be committed.
        height: Height,
    },
    /// The mark of a replica that has never run cannot be removed.
    #[error(
        "cannot remove {}: {source}; while it is there the replica could forget that it has run, and has said nothing; {}",
        path.display(), help(source)
    )]
    Mark {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The recording cannot be written.
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

/// The exit status of a replica's process whose disk is full, fails, or may not be written: whoever starts it again has to see to the
/// disk first.
pub const DISK_TROUBLE_STATUS: u8 = 3;

/// Why a node cannot start or has ended.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The configuration file cannot be used.
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// A configuration that was not read from a file cannot work.
    #[error("the configuration cannot work: {0}")]
    Config(#[from] ConfigFault),
    /// The private key's file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// Keys and committee do not fit together.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The journal cannot be opened.
    #[error("replica {replica} does not start: {source}")]
    Journal {
        /// Whose.
        replica: ReplicaId,
        /// Why.
        source: JournalError,
    },
    /// The transport cannot be set up.
    #[error(transparent)]
    Transport(#[from] SetupError),
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The process may have too few descriptors open for the links that are configured.
    #[error(
        "this process may have {limit} files open, and the configured links need {needed}: up to {clients} of clients, {unauthenticated} that          have yet to say who they are and {peers} of peers, and {RESERVED_DESCRIPTORS} descriptors for everything else; raise the limit          (`ulimit -n {needed}`, `LimitNOFILE={needed}` in a unit of systemd) or lower `max_client_links` in [tcp]"
    )]
    Descriptors {
        /// The limit.
        limit: u64,
        /// Descriptors that may be needed.
        needed: u64,
        /// Links of clients among them.
        clients: usize,
        /// Links that are not authenticated.
        unauthenticated: usize,
        /// Links of peers.
        peers: usize,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} (`{key}`): {source}; check that no other process does and that the address is this host's: behind an \
         address translation, or where a name leads elsewhere, let `{key}` be 0.0.0.0:{}", address.port()
    )]
    Listen {
        /// The key that has the address.
        key: &'static str,
        /// The address.
        address: Address,
        /// What the operating system says.
        source: io::Error,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread for replica {replica}: {source}")]
    Thread {
        /// Whose.
        replica: ReplicaId,
        /// What the operating system says.
        source: io::Error,
    },
    /// A replica has ended by itself.
    #[error("replica {replica} has stopped: {source}")]
    Host {
        /// Which.
        replica: ReplicaId,
        /// Why.
        source: HostError,
    },
    /// A replica has met a bug of its own.
    #[error("replica {replica} has panicked, which is a bug of quorate: {message}")]
    Panicked {
        /// Which.
        replica: ReplicaId,
        /// What the assertion says.
        message: String,
    },
    /// A testnet is to be written where something is already.
    #[error("{0} is not empty; name a directory that is, or that does not exist yet")]
    NotEmpty(PathBuf),
    /// The directory of a whole testnet instead of a replica's.
    #[error("{} is the directory of a testnet; name a replica's in it, such as {}", .0.display(), .0.join("replica-0").display())]
    Testnet(PathBuf),
    /// A testnet's ports do not fit below 65536.
    #[error(
        "{}; set --base-port from 1 to {}",
        if *base_port == 0 { "replicas have to find each other again after a restart, so none may listen on a port that the system \
         chooses".to_owned() } else { format!("{replicas} replicas take {} ports from {base_port} on, which reach beyond 65535", replicas * PORTS_PER_REPLICA) },
        (usize::from(u16::MAX) + 1).saturating_sub(*replicas * PORTS_PER_REPLICA)
    )]
    Ports {
        /// The first port.
        base_port: u16,
        /// How many ports are needed.
        replicas: usize,
    },
    /// The ports after that of a host do not fit.
    #[error(
        "{0}: the replica takes this port and the two after it, and ports are from 1 to 65535; choose another port"
    )]
    PortsOf(Address),
    /// A host is none.
    #[error(transparent)]
    HostName(AddressError),
    /// Two replicas would listen at the same place.
    #[error(
        "{0} is the place of another replica too: each takes its port for peers and the next ones for clients and operators; name ports that \
         are three apart, or none"
    )]
    PlaceTaken(Address),
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl NodeError {
    /// Whether what the caller gave cannot be used, files included, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        use NodeError::{Config, ConfigFile, Crypto, HostName, KeyFile, NotEmpty, PlaceTaken, Ports, PortsOf, Testnet};
        matches!(self, ConfigFile(_) | Config(_) | KeyFile(_) | Crypto(_) | NotEmpty(_) | Ports { .. })
            || matches!(self, HostName(_) | PlaceTaken(_) | PortsOf(_) | Testnet(_))
    }

    /// Whether a disk is full, fails, or may not be written, so that starting again is in vain until it has been seen to.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            NodeError::Journal { source, .. } => source.is_disk_trouble(),
            NodeError::Host { source, .. } => source.is_disk_trouble(),
            NodeError::Recording(_) => true,
            _ => false,
        }
    }
}
