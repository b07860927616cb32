//! The desk's replies: to executed bundles, from the cache, and refusals.

use super::{ClientLinks, ClientVerifier, Desk};
use crate::{Answers, refusal};
use quorate_applications::Reply;
use quorate_consensus::Refusal;
use quorate_types::{Bundle, Digest, ReplicaReply};
use std::collections::HashMap;
use std::hash::Hash;

/// Size from which a message of several replies takes no further one, in bytes, far below the frame limit.
const FULL_MESSAGE_BYTES: usize = 64 << 10;

/// Returns whether a reply is about a bundle, rather than a query.
pub fn is_about_a_bundle(reply: &ReplicaReply) -> bool {
    matches!(reply, ReplicaReply::Executed { .. } | ReplicaReply::Refused { .. } | ReplicaReply::Busy { .. })
}

/// Returns whether clients must be able to verify the sender of a reply. No result depends on a status, a challenge, a
/// refused answer, or a comparison, and a statement about a feature level has a signature of its own.
pub fn needs_authentication(reply: &ReplicaReply) -> bool {
    !matches!(
        reply,
        ReplicaReply::Status { .. }
            | ReplicaReply::Challenge { .. }
            | ReplicaReply::Unanswered { .. }
            | ReplicaReply::Compared { .. }
            | ReplicaReply::Supports { .. }
    )
}

/// Replies to one client, each encoded as a separate message.
struct Group<K, R> {
    link: K,
    replies: Vec<R>,
    bytes: usize,
}

/// Replies of a block that are sent together, by link, in the order of each link's first reply.
pub(super) struct Gathered<K, R> {
    groups: Vec<Group<K, R>>,
    /// Index of each link's group.
    places: HashMap<K, usize>,
}

impl<K, R> Default for Gathered<K, R> {
    fn default() -> Self {
        Gathered { groups: Vec::new(), places: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, R> Gathered<K, R> {
    /// Adds a reply. Returns the replies of its group if they fill a message.
    fn add(&mut self, link: K, reply: R, bytes: usize) -> Option<Vec<R>> {
        let place = *self.places.entry(link).or_insert_with(|| {
            self.groups.push(Group { link, replies: Vec::new(), bytes: 0 });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.bytes += bytes;
        group.replies.push(reply);
        (group.bytes >= FULL_MESSAGE_BYTES).then(|| {
            group.bytes = 0;
            std::mem::take(&mut group.replies)
        })
    }

    fn take(&mut self) -> impl Iterator<Item = (K, Vec<R>)> {
        self.places.clear();
        let groups = std::mem::take(&mut self.groups).into_iter();
        groups.filter(|group| !group.replies.is_empty()).map(|group| (group.link, group.replies))
    }
}

impl<K: Copy + Eq + Hash, F, R: Clone, V: ClientVerifier> Desk<K, F, R, V> {
    pub(super) fn answers(&self) -> Answers {
        if self.is_muted { Answers::Nothing } else { self.parts.answers }
    }

    /// Answers the bundles of a block. A bundle that was ordered before has no effect the second time, and its client
    /// gets the first reply again if it is still cached.
    pub fn deliver(&mut self, links: &mut impl ClientLinks<Link = K, Reply = R>, replies: &mut Vec<Reply>) {
        let (gathers, times) = (links.authenticates(), 1 + self.copies);
        let mut last = None;
        for Reply { origin, bundle, height, results, is_new } in replies.drain(..) {
            let Some(results) = self.answers().form(results) else { continue };
            let make = || {
                let fresh = links.encode(ReplicaReply::Executed { bundle, height, results });
                let bytes = links.bytes(&fresh);
                (fresh, bytes)
            };
            let reply = self.parts.cache.get_or_keep(bundle, is_new, make);
            let link = match last {
                Some((client, link)) if client == origin => link,
                _ => self.links.get(&origin).copied(),
            };
            last = Some((origin, link));
            let Some(link) = link else { continue };
            if !gathers {
                links.deliver(link, reply, times);
                continue;
            }
            let bytes = links.bytes(&reply);
            if let Some(full) = self.gathered.add(link, reply, bytes) {
                links.deliver_together(link, full, times);
            }
        }
        self.gathered.take().for_each(|(link, replies)| links.deliver_together(link, replies, times));
    }

    /// Returns the reply to a bundle, if it is still cached.
    pub(super) fn kept_reply(&mut self, bundle: &Digest) -> Option<R> {
        if self.answers() == Answers::Nothing {
            return None;
        }
        self.parts.cache.get(bundle).cloned()
    }

    /// Answers a bundle that was executed before and has no cached reply; it is not ordered again.
    pub(super) fn answer_again(&mut self, links: &mut impl ClientLinks<Link = K>, link: K, reply: Reply) {
        let Reply { bundle, height, results, .. } = reply;
        let Some(results) = self.answers().form(results) else { return };
        self.tell(links, link, ReplicaReply::Executed { bundle, height, results });
    }

    /// Informs the clients of the last submission that the replica refused their bundles. Refusals are in order of
    /// arrival, so one pass finds all links.
    pub fn refuse(
        &mut self,
        links: &mut impl ClientLinks<Link = K, Reply = R>,
        refused: impl IntoIterator<Item = (Digest, Refusal)>,
    ) {
        let mut next = 0;
        for (bundle, why) in refused {
            let waiting = &self.submitted[next..];
            let Some(place) = waiting.iter().position(|(_, digest)| *digest == bundle) else { break };
            let link = waiting[place].0;
            next += place + 1;
            let kept = if why == Refusal::Executed { self.kept_reply(&bundle) } else { None };
            let is_answered = self.answers() == Answers::Nothing || kept.is_some();
            if let Some(reply) = kept {
                self.repeat(links, link, reply);
            }
            if let Some(why) = refusal(why, is_answered) {
                self.refuse_for_now(links, link, bundle, why.to_owned());
            }
        }
    }

    /// Asks a client to resend a bundle later.
    pub(super) fn refuse_for_load(&mut self, links: &mut impl ClientLinks<Link = K>, link: K, bundle: &Bundle) {
        let retry_after_ms = self.parts.admission.refuse(super::service::amount(bundle));
        self.tell(links, link, ReplicaReply::Busy { bundle: bundle.digest(), retry_after_ms });
    }

    pub(super) fn refuse_for_now(
        &mut self,
        links: &mut impl ClientLinks<Link = K>,
        link: K,
        bundle: Digest,
        why: String,
    ) {
        self.tell(links, link, ReplicaReply::Refused { bundle, why, again: true });
    }

    /// Refuses a bundle permanently. The digest is zero for a frame that contains no bundle.
    pub fn refuse_for_good(&mut self, links: &mut impl ClientLinks<Link = K>, link: K, bundle: Digest, why: String) {
        self.tell(links, link, ReplicaReply::Refused { bundle, why, again: false });
    }

    /// Sends a client a single reply.
    pub fn tell(&mut self, links: &mut impl ClientLinks<Link = K>, link: K, reply: ReplicaReply) {
        let is_about_a_bundle =
            matches!(reply, ReplicaReply::Executed { .. } | ReplicaReply::Refused { .. } | ReplicaReply::Busy { .. });
        if !(self.is_muted && is_about_a_bundle) {
            self.authentication_ns += links.tell(link, reply);
        }
    }

    pub(super) fn repeat(&mut self, links: &mut impl ClientLinks<Link = K, Reply = R>, link: K, reply: R) {
        self.authentication_ns += links.repeat(link, reply);
    }
}
