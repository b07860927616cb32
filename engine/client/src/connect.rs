//! Connections to a cluster.

use crate::config::{ClientConfig, ConfigError};
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ClientAuthentication, ClientIdentity, CryptoError, Identities, ReplyVerifier};
use quorate_network::transports::{SetupError, Transport};
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
    /// The client's key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A system call needed by the transport failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Creates the identity of a new run, which shares no session with other runs. If the configuration requires
/// signatures, it signs with the key of the key file, or without such a file with a new key.
pub fn new_identity(config: &ClientConfig) -> Result<ClientIdentity, ConnectError> {
    let cluster = ClusterId::from_name(&config.cluster);
    match (&config.key_file, config.client_authentication) {
        (Some(path), ClientAuthentication::Ed25519) => {
            let passphrases = Passphrases { file: config.passphrase_file.clone(), command: None };
            Ok(key_file::client::read(path, &cluster, &passphrases)?.identity()?)
        }
        (_, ClientAuthentication::Mac) => {
            let identity = ClientIdentity::generate(config.client_authentication, &cluster)?;
            Ok(identity.with_mac_keys(config.mac_scheme, &config.committee()?)?)
        }
        _ => Ok(ClientIdentity::generate(config.client_authentication, &cluster)?),
    }
}

/// Creates the verifier of the replies to a client; `None` if the channel alone authenticates them.
///
/// # Errors
/// [`ConnectError`] if the committee or a member's key is unusable, or replies have MACs and the client has no key.
pub fn reply_verifier(config: &ClientConfig, client: &ClientIdentity) -> Result<Option<ReplyVerifier>, ConnectError> {
    let (kind, committee) = (config.reply_authentication, config.committee()?);
    Ok(ReplyVerifier::new(kind, client, config.scheme, config.mac_scheme, &committee)?)
}

/// Creates a transport that acts for `origin` and connects to every replica of the configuration.
pub fn connect(config: &ClientConfig, origin: ClientId) -> Result<Box<dyn Transport>, ConnectError> {
    let committee = config.committee()?;
    Ok(config.wire().client(&committee, origin, Arc::new(Identities::new(&committee)?))?)
}
