//! One member of a cluster, as configuration files list it.

use crate::address::Address;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One replica of the committee, as configuration files list it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Address for its peers, or in `client.toml` for its clients: `host:port`.
    #[schemars(with = "String")]
    pub address: Address,
    /// Public key for handshakes, in hexadecimal.
    #[schemars(with = "String", extend("x-cluster" = true))]
    #[serde(with = "hexadecimal")]
    pub identity_key: Bytes,
    /// Public key for votes, of the cluster's `scheme`, in hexadecimal; empty or absent in the scheme `none`.
    #[schemars(with = "String", extend("x-cluster" = true))]
    #[serde(default, with = "hexadecimal")]
    pub voting_key: Bytes,
    /// Proof of possession of the private voting key, in hexadecimal; absent unless the scheme requires one.
    #[schemars(with = "String")]
    #[serde(default, with = "hexadecimal", skip_serializing_if = "Bytes::is_empty")]
    pub possession: Bytes,
}

/// Serialisation of keys and proofs in configuration files.
mod hexadecimal {
    use crate::digest::{decode_hex, encode_hex};
    use bytes::Bytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode_hex(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let bytes = decode_hex(&String::deserialize(deserializer)?).map(Bytes::from);
        bytes.ok_or_else(|| D::Error::custom("not hexadecimal, two digits a byte"))
    }
}
