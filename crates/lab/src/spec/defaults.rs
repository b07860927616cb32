//! Defaults of commands that are not those of `quorate bench`.

use super::choices::ClientAuthentication;

/// What `quorate testnet` asks of clients: who operates a cluster wants nobody to speak for its clients.
pub const DEFAULT_TESTNET_CLIENT_AUTHENTICATION: ClientAuthentication = ClientAuthentication::Ed25519;

/// The first port of `quorate testnet`, whose replicas have to find each other again after a restart.
pub const DEFAULT_TESTNET_PORT: u16 = 7000;

/// A flag with a default that is not that of `quorate bench`.
pub(super) struct OwnDefault {
    pub key: &'static str,
    pub value: String,
    /// Its help, if that is another, too.
    pub help: Option<String>,
}

/// Those of `quorate testnet`.
pub(super) fn of_testnet() -> Vec<OwnDefault> {
    let help = "First of the ports that the replicas listen on".to_owned();
    let authentication = DEFAULT_TESTNET_CLIENT_AUTHENTICATION.name().to_owned();
    vec![
        OwnDefault { key: "base_port", value: DEFAULT_TESTNET_PORT.to_string(), help: Some(help) },
        OwnDefault { key: "client_authentication", value: authentication, help: None },
    ]
}
