//! Connections to a cluster.

use crate::config::{ClientConfig, ConfigError};
use quorate_crypto::{ClientIdentity, CryptoError, Identities};
use quorate_transports::{SetupError, Transport};
use quorate_types::{ClientId, ClusterId};
use std::sync::Arc;
use thiserror::Error;

/// Why there is no transport.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A member's key is no key, or there is none to be had for this client.
    #[error(transparent)]
    Keys(#[from] CryptoError),
    /// The operating system refuses what a transport needs.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// An identity that nobody else has, so that two runs do not share their sessions; it signs if the configuration says so.
pub fn new_identity(config: &ClientConfig) -> Result<ClientIdentity, ConnectError> {
    Ok(ClientIdentity::generate(config.client_authentication, &ClusterId::from_name(&config.cluster))?)
}

/// A transport that speaks for `origin` and dials every replica of the configuration.
pub fn connect(config: &ClientConfig, origin: ClientId) -> Result<Box<dyn Transport>, ConnectError> {
    let committee = config.committee()?;
    Ok(config.wire().client(&committee, origin, Arc::new(Identities::new(&committee)?))?)
}
