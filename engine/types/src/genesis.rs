//! The founding parameters of a cluster, and their common id.

use crate::digest::{Digest, Hasher};
use crate::ids::{ClusterId, EpochId};
use crate::member::Member;
use crate::parameters::Difference;
use crate::quorum::Quorum;
use crate::tags;

/// Maximum number of members up to which all swaps of two members are tried as an explanation of a difference.
const MAX_SWAPPED_MEMBERS: usize = 16;

/// The first block of the first epoch has a height above this one.
const GENESIS_HEIGHT: u64 = 0;

/// All parameters that determine the verification and the meaning of a cluster's votes, certificates and replies.
///
/// Its [id](Genesis::epoch) is in every statement of a replica, so a statement of one cluster is invalid in any other
/// that differs in any part, even if they share a name and keys ([ADR
/// 103](../../../docs/adr/103-an-id-of-the-genesis.md)).
#[derive(Clone, Copy, Debug)]
pub struct Genesis<'a> {
    /// The cluster's name, from the configuration.
    pub name: &'a str,
    pub quorum: Quorum,
    /// By replica id. Addresses and proofs of possession are not part of the genesis.
    pub members: &'a [Member],
    /// Name of the protocol.
    pub protocol: &'a str,
    /// Name of the signature scheme of votes.
    pub scheme: &'a str,
    /// Name of the authentication profile.
    pub profile: &'a str,
    /// Name of the MAC scheme of votes, if the profile has one.
    pub vote_macs: Option<&'a str>,
}

impl<'a> Genesis<'a> {
    /// Returns a genesis that consists of a name alone, without members, for statements that no cluster verifies, as in
    /// tests, benchmarks and tools.
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
        let mut hasher = Hasher::new(tags::EPOCH);
        // Later epochs would put the previous epoch's id here, and their own first height.
        hasher.update(&self.cluster().0.0);
        hasher.update(&GENESIS_HEIGHT.to_le_bytes());
        hasher.update(&(quorum.replicas() as u32).to_le_bytes());
        hasher.update(&(quorum.faults() as u32).to_le_bytes());
        hasher.update(&keys.0);
        [*protocol, scheme, profile, vote_macs.unwrap_or("")].iter().for_each(|text| put(&mut hasher, text.as_bytes()));
        EpochId(hasher.finish())
    }
}

/// The possible names in a genesis.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    pub protocols: &'a [&'a str],
    /// Signature schemes of votes.
    pub schemes: &'a [&'a str],
    /// Authentication profiles, each with every possible MAC scheme of votes.
    pub profiles: &'a [(&'a str, Option<&'a str>)],
    /// The configured MAC scheme, even if votes have no MACs.
    pub mac_scheme: &'a str,
}

impl Genesis<'_> {
    /// Determines how a genesis with another id differs from this one, by configuration keys. Tries every combination
    /// of the candidates and of `faults`, then fewer members, and two members swapped. An id is a hash, so the result
    /// is empty if none of these matches: then the members, their keys or the name differ.
    pub fn differences(&self, other: &EpochId, candidates: &Candidates<'_>) -> Vec<Difference> {
        self.other_values(self.members, other, candidates)
            .or_else(|| self.fewer_members(other, candidates))
            .or_else(|| self.swapped_members(other))
            .unwrap_or_default()
    }

    /// Tries all values of the other parts with these members.
    fn other_values(
        &self,
        members: &[Member],
        other: &EpochId,
        candidates: &Candidates<'_>,
    ) -> Option<Vec<Difference>> {
        let keys = keys_digest(members);
        let most = Quorum::of(members.len()).ok()?.faults();
        for faults in 0..=most {
            let quorum = Quorum::with_faults(members.len(), faults).ok()?;
            for (&protocol, &scheme) in
                candidates.protocols.iter().flat_map(|of| candidates.schemes.iter().map(move |scheme| (of, scheme)))
            {
                for &(profile, vote_macs) in candidates.profiles {
                    let theirs = Genesis { quorum, protocol, scheme, profile, vote_macs, ..*self };
                    if theirs.epoch_of(&keys) == *other {
                        return Some(self.compare(&theirs, candidates.mac_scheme));
                    }
                }
            }
        }
        None
    }

    /// Compares all parts except the members.
    fn compare(&self, theirs: &Genesis<'_>, mac_scheme: &str) -> Vec<Difference> {
        let [own_faults, faults] = [self.quorum.faults(), theirs.quorum.faults()].map(|faults| faults.to_string());
        let parts = [
            ("faults", &*own_faults, &*faults),
            ("protocol", self.protocol, theirs.protocol),
            ("scheme", self.scheme, theirs.scheme),
            ("auth_profile", self.profile, theirs.profile),
            ("mac_scheme", mac_scheme, theirs.vote_macs.unwrap_or(mac_scheme)),
        ];
        let differs = |(key, own, peer): (&str, &str, &str)| {
            (own != peer).then(|| Difference::new(key, own.to_owned(), peer.to_owned()))
        };
        parts.into_iter().filter_map(differs).collect()
    }

    /// Tries the first members alone.
    fn fewer_members(&self, other: &EpochId, candidates: &Candidates<'_>) -> Option<Vec<Difference>> {
        (1..self.members.len()).rev().find_map(|count| {
            let mut differences = self.other_values(&self.members[..count], other, candidates)?;
            let [own, peer] = [self.members.len(), count].map(|members| format!("a list of {members}"));
            differences.insert(0, Difference::new("members", own, peer));
            Some(differences)
        })
    }

    /// Tries each swap of two members, with all other parts equal.
    fn swapped_members(&self, other: &EpochId) -> Option<Vec<Difference>> {
        let count = self.members.len();
        if count > MAX_SWAPPED_MEMBERS {
            return None;
        }
        let mut members = self.members.to_vec();
        for (one, two) in (0..count).flat_map(|two| (0..two).map(move |one| (one, two))) {
            members.swap(one, two);
            if self.epoch_of(&keys_digest(&members)) == *other {
                let peer = format!("with replicas {one} and {two} swapped");
                return Some(vec![Difference::new("members", "in this order".to_owned(), peer)]);
            }
            members.swap(one, two);
        }
        None
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
    let mut hasher = Hasher::new(tags::MEMBERS);
    for Member { identity_key, voting_key, .. } in members {
        put(&mut hasher, identity_key);
        put(&mut hasher, voting_key);
    }
    hasher.finish()
}

/// Hashes bytes preceded by their length, so that the hash of a sequence is unambiguous.
fn put(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u32).to_le_bytes());
    hasher.update(bytes);
}
