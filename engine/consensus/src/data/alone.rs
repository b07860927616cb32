//! Bundles sent to the leader alone, by clients or by replicas that spread them.
//!
//! A block that names such a bundle waits at every other replica until the bundle is fetched, which takes at least
//! `fetch_delay_ms` (see `lateness.rs`) and a round trip. A client that always does this would delay every block, and
//! with it the commands of all others. The leader detects this from the requests that it receives: if f+1 replicas
//! request a bundle, a quorum is waiting for it. If this happens repeatedly for one owner, the leader sends that
//! owner's bundles along with its proposals for a while, and for twice as long each time the behavior continues.
//!
//! The owner is the source address of the links on which the bundles arrive, because keys can be created without limit,
//! or the replica that spread them. If neither is known, it is the owner of the key.

use crate::data::pool::Pool;
use quorate_types::{Bundle, Digest, Quorum, ReplicaId, Signers, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of bundles in one sample of an owner.
const SAMPLE: u32 = 16;
/// Number of bundles in a sample that f+1 replicas must request before the owner's next bundles are carried along.
const MISSED: u32 = 3;
/// Initial period for which an owner's bundles are carried along.
const MIN_AWAY: Duration = Duration::from_secs(1);
/// Maximum period. An owner that behaves well for as long as its last period starts afresh.
const MAX_AWAY: Duration = Duration::from_secs(64);
/// Maximum number of tracked owners. If there are more, they share the delay that they cause.
const MAX_OWNERS: usize = 1024;
/// Maximum number of bundles whose requesters are tracked.
const MAX_ASKED: usize = 1024;
/// Maximum bytes carried along with a proposal, if they are more than one bundle.
const MAX_CARRIED_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Owner {
    /// Number of bundles of the current sample that were proposed, and that were requested.
    proposed: u32,
    asked: u32,
    /// End of the period in which its bundles are carried along, and the length of the last period.
    until: Time,
    span: Duration,
}

/// Identity of an owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Address(u64),
    Spreader(ReplicaId),
    Key(u128),
}

fn whose(bundle: &Bundle, pool: &Pool) -> Whose {
    let digest = bundle.digest();
    let address = pool.source_group_of(&digest).map(Whose::Address);
    address
        .or_else(|| pool.spreader_of(&digest).map(Whose::Spreader))
        .unwrap_or_else(|| Whose::Key(bundle.origin().owner()))
}

/// Owners whose bundles the other replicas often lack, as observed by the leader.
pub struct Alone {
    quorum: Quorum,
    asked: BTreeMap<Digest, Signers>,
    owners: BTreeMap<Whose, Owner>,
    now: Time,
}

impl Alone {
    pub fn new(quorum: Quorum) -> Alone {
        Alone { quorum, asked: BTreeMap::new(), owners: BTreeMap::new(), now: Time(0) }
    }

    /// Records that a replica requests bundles. Bundles that are not executed are missing for a block being voted on.
    pub fn on_request(&mut self, now: Time, from: ReplicaId, digests: &[Digest], pool: &Pool) {
        for digest in digests.iter().take(MAX_ASKED) {
            let Some(bundle) = pool.get(digest).filter(|_| pool.is_waiting(digest)) else { continue };
            if self.asked.len() >= MAX_ASKED {
                self.asked.clear();
            }
            let askers = self.asked.entry(*digest).or_default();
            let before = askers.len();
            askers.insert(from);
            if before < askers.len() && askers.len() == self.quorum.weak() {
                self.on_miss(now, whose(bundle, pool));
            }
        }
    }

    fn on_miss(&mut self, now: Time, owner: Whose) {
        if self.owners.len() >= MAX_OWNERS && !self.owners.contains_key(&owner) {
            let first = self.owners.iter().min_by_key(|(_, known)| known.until).map(|(first, _)| *first);
            first.and_then(|first| self.owners.remove(&first));
        }
        let known = self.owners.entry(owner).or_default();
        known.asked += 1;
        if known.asked < MISSED || known.until > now {
            return;
        }
        let again = known.until + known.span > now;
        known.span = if again { (known.span * 2).min(MAX_AWAY) } else { MIN_AWAY };
        (known.until, known.asked, known.proposed) = (now + known.span, 0, 0);
    }

    /// Records that a block with these bundles is proposed.
    pub fn on_proposal(&mut self, now: Time, payload: &[Digest], pool: &Pool) {
        self.now = now;
        if self.owners.is_empty() {
            return;
        }
        for bundle in payload.iter().filter_map(|digest| pool.get(digest)) {
            let owner = whose(bundle, pool);
            let Some(known) = self.owners.get_mut(&owner).filter(|known| known.until <= now) else { continue };
            known.proposed += 1;
            if known.proposed >= SAMPLE {
                (known.proposed, known.asked) = (0, 0);
                if known.until + known.span <= now {
                    self.owners.remove(&owner);
                }
            }
        }
    }

    /// Returns the bundles of `payload` to carry along with the proposal that names them.
    pub fn carried(&self, payload: &[Digest], pool: &Pool) -> Vec<Bundle> {
        if self.owners.is_empty() {
            return Vec::new();
        }
        let goes = |bundle: &&Bundle| self.owners.get(&whose(bundle, pool)).is_some_and(|known| known.until > self.now);
        let mut bytes = 0;
        let fitting = payload.iter().filter_map(|digest| pool.get(digest)).filter(goes).take_while(|bundle| {
            let fits = bytes == 0 || bytes + bundle.body().len() <= MAX_CARRIED_BYTES;
            bytes += bundle.body().len();
            fits
        });
        fitting.cloned().collect()
    }
}
