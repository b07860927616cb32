//! Bundles that their clients send to the leader alone.
//!
//! A block that names such a bundle waits at everybody else until that one is fetched: `fetch_delay_ms`, and a round trip. A client that
//! sends so all the time would hold up every block, and with it the commands of all others. The leader notices by what it is asked for:
//! a bundle for which f+1 ask is missing where it is needed for a quorum. Of an owner of whom that is so again and again, the bundles go
//! along with the leader's proposals for a while, and for twice as long each time that it turns out to be still so afterwards.
//!
//! An owner is the address over whose links the bundles come, because keys can be made without end; where no address is known, it is
//! the owner of the key.

use crate::pool::Pool;
use quorate_types::{Bundle, Digest, Quorum, ReplicaId, Signers, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Of so many bundles of an owner in a row ..
const SAMPLE: u32 = 16;
/// .. so many have to be asked for by f+1, and those that follow go along.
const MISSED: u32 = 3;
/// For how long they go along at first.
const SHORTEST: Duration = Duration::from_secs(1);
/// For how long at most. An owner that behaves for as long begins anew.
const LONGEST: Duration = Duration::from_secs(64);
/// Most owners that are looked at; more owners than that have to share the harm that they do.
const MAX_OWNERS: usize = 1024;
/// Most bundles of which it is remembered who asked for them.
const MAX_ASKED: usize = 1024;
/// Most bytes that go along with a proposal, if they are more than one bundle.
const MAX_CARRIED_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Owner {
    /// Bundles proposed, and asked for, of the current sample.
    proposed: u32,
    asked: u32,
    /// Until when its bundles go along, and for how long they did last.
    until: Time,
    span: Duration,
}

/// By what an owner is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Address(u64),
    Key(u128),
}

fn whose(bundle: &Bundle, pool: &Pool) -> Whose {
    pool.crowd_of(&bundle.digest()).map_or(Whose::Key(bundle.origin().owner()), Whose::Address)
}

/// What a leader knows of the owners of such bundles.
pub struct Alone {
    quorum: Quorum,
    asked: BTreeMap<Digest, Signers>,
    owners: BTreeMap<Whose, Owner>,
    now: Time,
}

impl Alone {
    /// Nobody was missing anything.
    pub fn new(quorum: Quorum) -> Alone {
        Alone { quorum, asked: BTreeMap::new(), owners: BTreeMap::new(), now: Time(0) }
    }

    /// A replica asks for bundles. Those that wait to be executed are missing for a block that is being voted on.
    pub fn asked(&mut self, now: Time, from: ReplicaId, digests: &[Digest], pool: &Pool) {
        for digest in digests.iter().take(MAX_ASKED) {
            let Some(bundle) = pool.get(digest).filter(|_| pool.is_waiting(digest)) else { continue };
            if self.asked.len() >= MAX_ASKED {
                self.asked.clear();
            }
            let askers = self.asked.entry(*digest).or_default();
            let before = askers.len();
            askers.insert(from);
            if before < askers.len() && askers.len() == self.quorum.weak() {
                self.missed(now, whose(bundle, pool));
            }
        }
    }

    fn missed(&mut self, now: Time, owner: Whose) {
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
        known.span = if again { (known.span * 2).min(LONGEST) } else { SHORTEST };
        (known.until, known.asked, known.proposed) = (now + known.span, 0, 0);
    }

    /// A block with these bundles is proposed now.
    pub fn proposed(&mut self, now: Time, payload: &[Digest], pool: &Pool) {
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

    /// What of these bundles goes along with the proposal that names them.
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
