//! The founding parameters of a cluster, and the id that they have together.

use crate::digest::{Digest, Hasher};
use crate::ids::{ClusterId, EpochId};
use crate::member::Member;
use crate::quorum::Quorum;

/// Height of the first block of the first epoch is above this one.
const GENESIS_HEIGHT: u64 = 0;

/// Everything that decides how a cluster's votes, certificates and replies are verified and what they mean.
///
/// Its [id](Genesis::epoch) is in every statement of a replica, so statements of two clusters that differ in any part
/// are not valid in the other one, even if they share a name and keys ([ADR
/// 103](../../../docs/adr/103-an-id-of-the-genesis.md)).
#[derive(Clone, Copy, Debug)]
pub struct Genesis<'a> {
    /// The cluster's name.
    pub name: &'a str,
    pub quorum: Quorum,
    /// By replica id. Addresses and proofs of possession do not count.
    pub members: &'a [Member],
    /// Name of the protocol.
    pub protocol: &'a str,
    /// Name of the signature scheme of votes.
    pub scheme: &'a str,
    /// Name of the authentication profile.
    pub profile: &'a str,
    /// Name of the scheme of the MACs on votes, if the profile has any.
    pub vote_macs: Option<&'a str>,
}

impl<'a> Genesis<'a> {
    /// Returns a genesis that consists of a name alone, without members, for statements that no cluster verifies: those
    /// of tests, benchmarks and tools.
    pub fn of_name(name: &'a str) -> Genesis<'a> {
        let quorum = Quorum::of(1).expect("one replica is a committee");
        Genesis { name, quorum, members: &[], protocol: "", scheme: "", profile: "", vote_macs: None }
    }

    /// Returns the hash of the cluster's name.
    pub fn cluster(&self) -> ClusterId {
        ClusterId::from_name(self.name)
    }

    /// Returns the id of the cluster's first epoch.
    pub fn epoch(&self) -> EpochId {
        self.epoch_of(&keys_digest(self.members))
    }

    fn epoch_of(&self, keys: &Digest) -> EpochId {
        let Genesis { quorum, protocol, scheme, profile, vote_macs, .. } = self;
        let mut hasher = Hasher::new(*b"qE01");
        // Later epochs would have the id of the epoch before them here, and their own first height.
        hasher.update(&self.cluster().0.0);
        hasher.update(&GENESIS_HEIGHT.to_le_bytes());
        hasher.update(&(quorum.replicas() as u32).to_le_bytes());
        hasher.update(&(quorum.faults() as u32).to_le_bytes());
        hasher.update(&keys.0);
        [*protocol, scheme, profile, vote_macs.unwrap_or("")].iter().for_each(|text| put(&mut hasher, text.as_bytes()));
        EpochId(hasher.finish())
    }
}

impl EpochId {
    /// Returns the id of [a genesis that consists of a name alone](Genesis::of_name).
    pub fn of_name(name: &str) -> EpochId {
        Genesis::of_name(name).epoch()
    }
}

/// Returns the digest of all members' public keys, in the order of the members.
fn keys_digest(members: &[Member]) -> Digest {
    let mut hasher = Hasher::new(*b"qE02");
    for Member { identity_key, voting_key, .. } in members {
        put(&mut hasher, identity_key);
        put(&mut hasher, voting_key);
    }
    hasher.finish()
}

/// Hashes bytes behind their length, so that the hash of a sequence has one meaning.
fn put(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u32).to_le_bytes());
    hasher.update(bytes);
}
