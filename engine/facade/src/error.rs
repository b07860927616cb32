//! The error of this crate.

use quorate_applications::NameError;
use quorate_client::{ClientError, ConfigError};
use quorate_node::NodeError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a replica, a cluster or a client failed. Each text names the place, the cause and a remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A replica could not start, or has ended.
    #[error(transparent)]
    Node(Box<NodeError>),
    /// A command or question has no result.
    #[error(transparent)]
    Client(Box<ClientError>),
    /// A client's configuration file cannot be used.
    #[error(transparent)]
    Configuration(Box<ConfigError>),
    /// The application's name cannot be used.
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
    /// The system refuses handlers of signals.
    #[error("cannot handle signals: {source}")]
    Signals {
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
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
    Configuration(ConfigError),
}
