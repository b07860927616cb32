//! Bundles before their submission to the replica: verified in batches, then submitted in order of arrival.

use super::batches::Arrival;
use super::service::SIGNATURE_NS;
use super::{ClientLinks, ClientVerifier, Desk, DeskHost};
use quorate_consensus::data::pool::Source;
use quorate_types::{Bundle, Digest, Time};
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::ops::ControlFlow;

/// Additional cost of a forged bundle, in nanoseconds: finding it among 256 takes 8 more batch verifications.
const FORGED_NS: u64 = 8 * SIGNATURE_NS;

/// Genuine bundles, for one [`quorate_consensus::Input::Submit`].
#[derive(Debug)]
pub struct Submission {
    pub bundles: Vec<Bundle>,
    /// The source of each bundle.
    pub sources: Vec<Source>,
}

impl<K: Copy + Eq + Hash, F, R: Clone, V: ClientVerifier> Desk<K, F, R, V> {
    /// Returns the number of bundles of this round whose verification has not begun.
    pub fn unchecked(&self) -> usize {
        self.round.arrivals.len()
    }

    /// Begins to verify up to `max` bundles of this round. Returns the signatures to verify, with the batch number for
    /// [`Desk::settle`]; `None` if the outcome is already known.
    pub fn begin_check(&mut self, max: usize) -> Option<(u64, V::Task)> {
        let later = self.round.arrivals.split_off(max.min(self.round.arrivals.len()));
        let arrivals = std::mem::replace(&mut self.round.arrivals, later);
        match self.parts.verifier.begin(arrivals.iter().map(|arrival| &arrival.bundle)) {
            ControlFlow::Break(forged) => {
                self.batches.push(arrivals, Some(forged));
                None
            }
            ControlFlow::Continue(task) => Some((self.batches.push(arrivals, None), task)),
        }
    }

    /// Takes the outcome of a verification.
    pub fn settle(&mut self, number: u64, checked: V::Checked) {
        let forged = self.parts.verifier.finish(checked);
        self.batches.settle(number, forged);
    }

    /// Returns whether the next batch has been verified.
    pub fn has_checked(&self) -> bool {
        self.batches.is_next_checked()
    }

    /// Returns the genuine bundles of the next verified batch, one batch per submission. Informs the senders of forged
    /// ones.
    pub fn next_batch<H>(&mut self, host: &mut H, now: Time) -> Option<Submission>
    where
        H: DeskHost<Links: ClientLinks<Link = K>>,
    {
        while let Some((arrivals, forged)) = self.batches.pop() {
            let bundles = self.take_genuine(host.links(), arrivals, &forged);
            self.charge_quotas(host, now, &bundles);
            if !bundles.is_empty() {
                let submitted = std::mem::take(&mut self.submitted);
                let sources = submitted.iter().map(|(link, _)| self.source(*link, host.links())).collect();
                self.submitted = submitted;
                return Some(Submission { bundles, sources });
            }
        }
        None
    }

    /// Returns the genuine bundles and records the links on which they arrived. Marks their senders as genuine, and
    /// informs the senders of the forged ones.
    fn take_genuine(
        &mut self,
        links: &mut impl ClientLinks<Link = K>,
        arrivals: Vec<Arrival<K>>,
        forged: &BTreeSet<Digest>,
    ) -> Vec<Bundle> {
        self.forged_by_clients += forged.len() as u64;
        let mut last = None;
        for arrival in arrivals.iter().filter(|arrival| !forged.contains(&arrival.bundle.digest())) {
            if self.assign_link(arrival) && last.replace(arrival.link) != Some(arrival.link) {
                self.mark_genuine(links, arrival.link);
            }
        }
        self.submitted.clear();
        let mut bundles = Vec::with_capacity(arrivals.len());
        for Arrival { link, bundle, .. } in arrivals {
            let digest = bundle.digest();
            if !forged.contains(&digest) {
                self.submitted.push((link, digest));
                bundles.push(bundle);
                continue;
            }
            self.authentication_ns = 0;
            self.refuse_for_good(links, link, digest, FORGED.to_owned());
            self.turns.charge(link, FORGED_NS + std::mem::take(&mut self.authentication_ns));
            self.fault(links, link);
        }
        bundles
    }

    /// Assigns the link of a genuine bundle to its client. Returns false if the bundle proves nothing about the link.
    fn assign_link(&mut self, arrival: &Arrival<K>) -> bool {
        let Arrival { link, bundle, was_known } = arrival;
        if !self.checks_signatures() {
            return true;
        }
        // Anybody who has seen a bundle can replay it. The sender of a replay must get neither the replies nor the
        // standing of a connected client.
        if *was_known && self.links.get(&bundle.origin()).is_some_and(|held| held != link) {
            return false;
        }
        self.links.insert(bundle.origin(), *link);
        true
    }

    /// Charges the clients' quotas for bundles that are new to the replica: anybody can replay others.
    fn charge_quotas(&mut self, host: &impl DeskHost, now: Time, bundles: &[Bundle]) {
        if !self.parts.policy.has_quotas() {
            return;
        }
        let mut seen = HashSet::new();
        for bundle in bundles {
            let digest = bundle.digest();
            if seen.insert(digest) && !host.is_known(&digest) {
                self.parts.policy.charge(bundle, now);
            }
        }
    }
}

/// Reply to a forged bundle.
const FORGED: &str = "the bundle is not signed by the client that it names; \
     help: sign the unchanged bundle for this cluster, with the key that the client's id is derived from";
