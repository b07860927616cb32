//! The members of a cluster.

use crate::address::Address;
use crate::genesis::Genesis;
use crate::ids::{ClusterId, EpochId, ReplicaId};
use crate::quorum::{Quorum, QuorumError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Source of this file. The docs of a member's fields also document the configuration keys.
pub const SOURCE: &str = include_str!("committee.rs");

/// One replica of the committee, as configuration files list it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Address for its peers, or in `client.toml` for its clients: `host:port`.
    pub address: Address,
    /// Public key for handshakes, in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub identity_key: Bytes,
    /// Public key for votes, of the cluster's `scheme`, in hexadecimal; empty or absent in the scheme `none`.
    #[serde(default, with = "hexadecimal")]
    pub voting_key: Bytes,
    /// Proof that it holds the private voting key, in hexadecimal; absent unless the scheme requires one.
    #[serde(default, with = "hexadecimal", skip_serializing_if = "Bytes::is_empty")]
    pub possession: Bytes,
}

/// The members of a cluster, by replica id, and how many of them may be faulty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committee {
    /// For clients' signatures.
    pub cluster: ClusterId,
    /// For replicas' statements.
    pub epoch: EpochId,
    pub quorum: Quorum,
    pub members: Vec<Member>,
}

impl Committee {
    /// Returns a committee that runs no protocol and tolerates as many faults as its size allows, for tests, benchmarks
    /// and examples. That of a cluster comes from its [`Genesis`].
    pub fn new(name: &str, members: Vec<Member>) -> Result<Committee, QuorumError> {
        let quorum = Quorum::of(members.len())?;
        let genesis = Genesis { quorum, members: &members, ..Genesis::of_name(name) };
        let (cluster, epoch) = (genesis.cluster(), genesis.epoch());
        Ok(Committee { cluster, epoch, quorum, members })
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn member(&self, replica: ReplicaId) -> Option<&Member> {
        self.members.get(replica.index())
    }

    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }
}

/// Keys and proofs as configuration files have them.
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
