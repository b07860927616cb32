//! Why a node cannot start, and why one ends.

use crate::config::ConfigFault;
use crate::config_file::ConfigFileError;
use quorate_crypto::CryptoError;
use quorate_crypto::key_file::KeyFileError;
use quorate_storage::JournalError;
use quorate_transports::SetupError;
use quorate_types::ReplicaId;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why a running replica ends although nobody asked it to.
#[derive(Debug, Error)]
pub enum HostError {
    /// The network device failed as a whole, not one of its links.
    #[error("the network cannot be polled: {0}")]
    Network(#[from] io::Error),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

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
    /// The transport cannot be set up.
    #[error(transparent)]
    Transport(#[from] SetupError),
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; check that no other process does and that the address is this host's"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
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
    /// A testnet's ports do not fit below 65536.
    #[error("{replicas} replicas from port {base_port} reach beyond port 65535; choose a lower base port")]
    Ports {
        /// The first port.
        base_port: u16,
        /// How many ports are needed.
        replicas: usize,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}
