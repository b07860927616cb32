//! The error of this crate.

use quorate_applications::NameError;
use quorate_client::load::LoadError;
use quorate_client::{ClientError, ConfigError};
use quorate_node::NodeError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a replica, a cluster or a client failed. Each text names the place, the cause and a remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A replica could not start, or has stopped.
    #[error(transparent)]
    Node(Box<NodeError>),
    /// A command or query has no result.
    #[error(transparent)]
    Client(Box<ClientError>),
    /// A load has no report.
    #[error(transparent)]
    Load(Box<LoadError>),
    /// A client's configuration file is unusable.
    #[error(transparent)]
    Configuration(Box<ConfigError>),
    /// The application's name is unusable.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The replicas could not decode the command, or run another version of the application.
    #[error("the replicas could not decode the command; help: run the same version of the application everywhere")]
    MalformedCommand,
    /// The reply is not one of this application's.
    #[error(
        "the reply is not one of this application's ({0}); help: run the same version of the application everywhere"
    )]
    MalformedReply(postcard::Error),
    /// The command cannot be encoded.
    #[error("the command cannot be encoded: {0}")]
    Encoding(postcard::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot handle signals: {source}")]
    Signals {
        /// Reason that the operating system gave.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Reason that the operating system gave, such as a full disk.
        source: io::Error,
    },
}

macro_rules! boxed {
    ($($variant:ident($source:ty),)+) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Error {
                Error::$variant(Box::new(source))
            }
        })+
    };
}

boxed! {
    Node(NodeError),
    Client(ClientError),
    Load(LoadError),
    Configuration(ConfigError),
}
