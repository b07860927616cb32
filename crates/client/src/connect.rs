//! Connections to a cluster.

use crate::config::{ClientConfig, ConfigError};
use quorate_crypto::{ClientIdentity, CryptoError, Identities};
use quorate_transports::{SetupError, Transport};
use quorate_types::{ClientId, ClusterId};
use std::sync::Arc;
use thiserror::Error;

/// Error while connecting to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Invalid member key, or key generation failed.
    #[error(transparent)]
    Keys(#[from] CryptoError),
    /// The operating system refused a resource that the transport needs.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Makes a new unique identity, so that two runs do not share sessions. It signs if the configuration requires it.
pub fn new_identity(config: &ClientConfig) -> Result<ClientIdentity, ConnectError> {
    Ok(ClientIdentity::generate(config.client_authentication, &ClusterId::from_name(&config.cluster))?)
}

/// Makes a transport that acts for `origin` and connects to every replica of the configuration.
pub fn connect(config: &ClientConfig, origin: ClientId) -> Result<Box<dyn Transport>, ConnectError> {
    let committee = config.committee()?;
    Ok(config.wire().client(&committee, origin, Arc::new(Identities::new(&committee)?))?)
}
