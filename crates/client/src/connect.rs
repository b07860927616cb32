//! Connections to a cluster: the one file of this crate that names a concrete transport and channel.

use crate::config::{ClientConfig, ConfigError};
use quorate_channels::{ChannelConfig, ChannelKind, LocalEnd};
use quorate_crypto::{ClientIdentity, CryptoError, Identities};
use quorate_transports::{SetupError, TcpConfig, TcpTransport, Transport};
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
    let channels = ChannelConfig {
        kind: ChannelKind::Plain,
        cluster: committee.cluster,
        me: LocalEnd::Client(origin),
        verifier: Arc::new(Identities::new(&committee)?),
    };
    Ok(Box::new(TcpTransport::client(&committee, channels, TcpConfig::default())?))
}
