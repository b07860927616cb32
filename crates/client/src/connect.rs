//! Connections to a cluster: the one file of this crate that names a concrete transport and channel.

use crate::config::{ClientConfig, ConfigError};
use quorate_channels::{ChannelConfig, ChannelKind, LocalEnd};
use quorate_crypto::{CryptoError, Keyring, SchemeKind};
use quorate_transports::{SetupError, TcpConfig, TcpTransport, Transport};
use quorate_types::{ClientId, Committee};
use std::sync::Arc;
use thiserror::Error;

/// Bits of a client id that number the sessions of one origin.
pub const SESSION_BITS: u32 = 16;

/// Why there is no transport.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A member's key is no key.
    #[error(transparent)]
    Keys(#[from] CryptoError),
    /// The operating system refuses what a transport needs.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The operating system gives no random numbers.
    #[error("the operating system gives no random numbers, and a client's id has to be unique: {0}")]
    Randomness(String),
}

/// A new origin: 48 random bits of the operating system, so that two runs do not share their sessions, then 16 zero bits, in which
/// the origin numbers its sessions.
pub fn new_origin() -> Result<ClientId, ConnectError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| ConnectError::Randomness(error.to_string()))?;
    Ok(ClientId(u64::from_le_bytes(random) << SESSION_BITS))
}

/// A transport that speaks for `origin` and dials every replica of the configuration.
pub fn connect(config: &ClientConfig, origin: ClientId) -> Result<Box<dyn Transport>, ConnectError> {
    connect_to(&config.committee()?, config.scheme, origin)
}

/// A transport that speaks for `origin` and dials every replica of the committee.
pub fn connect_to(
    committee: &Committee,
    scheme: SchemeKind,
    origin: ClientId,
) -> Result<Box<dyn Transport>, ConnectError> {
    let channels = ChannelConfig {
        kind: ChannelKind::Plain,
        cluster: committee.cluster,
        me: LocalEnd::Client(origin),
        verifier: Arc::new(Keyring::new(scheme, committee)?),
    };
    Ok(Box::new(TcpTransport::client(committee, channels, TcpConfig::default())?))
}
