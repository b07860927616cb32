//! Defaults of individual commands that differ from `quorate bench`.

use super::choices::{ChannelKind, ClientAuthentication};
pub use quorate_operator::testnet::DEFAULT_PORT as DEFAULT_TESTNET_PORT;

/// Client authentication of `quorate testnet`: only the client itself may send commands in its name.
pub const DEFAULT_TESTNET_CLIENT_AUTHENTICATION: ClientAuthentication = ClientAuthentication::Ed25519;

/// Channel of `quorate testnet`, whose replicas may be on several hosts.
pub const DEFAULT_TESTNET_CHANNEL: ChannelKind = ChannelKind::TLS;

/// Flag whose default differs from `quorate bench`.
pub(super) struct OwnDefault {
    pub key: &'static str,
    pub value: String,
    /// Help text, if it also differs.
    pub help: Option<String>,
}

/// Returns the defaults of `quorate testnet`.
pub(super) fn of_testnet() -> Vec<OwnDefault> {
    let help = "First of the ports that the replicas listen on".to_owned();
    let authentication = DEFAULT_TESTNET_CLIENT_AUTHENTICATION.name().to_owned();
    vec![
        OwnDefault { key: "base_port", value: DEFAULT_TESTNET_PORT.to_string(), help: Some(help) },
        OwnDefault { key: "channel", value: DEFAULT_TESTNET_CHANNEL.name().to_owned(), help: None },
        OwnDefault { key: "client_authentication", value: authentication, help: None },
    ]
}
