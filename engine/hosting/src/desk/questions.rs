//! Admission policy for client queries, and quotas of work for them.
//!
//! With the policies `listed` and `certified`, a link proves a key once, by signing the challenge that the replica
//! created for it. Until then nothing is read or computed for it. A bundle does not count as a proof, because others
//! have it too and can replay it.

use super::policy::{ClientKeys, not_certified, not_listed};
use super::quota::Debts;
use quorate_crypto::ed25519::PUBLIC_KEY_BYTES;
use quorate_crypto::{Certifier, Challenges, proves_key};
use quorate_types::{ClientId, ClusterId, Digest, ReplicaId, ReplicaReply, Time};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Quota unit: one second of work per second, in nanoseconds of debt.
const SECOND_NS: u128 = 1_000_000_000;

/// Keys of clients whose queries are answered.
pub enum Askers {
    Listed(ClientKeys),
    Certified(Box<Certifier>),
}

impl Askers {
    fn not_admitted(&mut self, credential: &[u8]) -> Option<String> {
        match self {
            Askers::Listed(keys) => {
                let key = credential.first_chunk::<PUBLIC_KEY_BYTES>();
                let is_listed = key.is_some_and(|key| keys.contains(key));
                (!is_listed).then(|| not_listed(key.map_or(&[], |key| &key[..])))
            }
            Askers::Certified(certifier) => {
                certifier.check_credential(credential).err().map(|fault| not_certified(fault).to_owned())
            }
        }
    }
}

/// Admits the links of clients that prove possession of a key to replica `me`.
struct Proofs<K> {
    cluster: ClusterId,
    me: ReplicaId,
    askers: Askers,
    challenges: Challenges,
    /// Links that have sent a query.
    links: HashMap<K, Shown>,
}

/// Quotas of answers per client and second; 0: no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerQuotas {
    pub bytes_per_s: u64,
    /// Time spent on answers, in microseconds.
    pub us_per_s: u64,
}

/// A link's proof of a key.
enum Shown {
    /// None yet. The link was sent this challenge.
    Challenged(Digest),
    /// An admitted key, of this owner.
    Key(u128),
    /// A key that is not admitted, or an invalid proof.
    Refused(String),
}

/// The account charged for an answer. A link that only claims an id must not use up the quota of the id's owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Payer {
    Owner(u128),
    Address(u64),
}

/// Admission policy for queries.
pub struct QuestionPolicy<K> {
    /// `None`: all clients may send queries.
    proofs: Option<Proofs<K>>,
    quotas: AnswerQuotas,
    debts: Debts<Payer>,
    not_admitted: u64,
    over_quota: u64,
}

impl<K: Copy + Eq + Hash> QuestionPolicy<K> {
    /// Answers all clients, within the quotas.
    pub fn open(quotas: AnswerQuotas) -> QuestionPolicy<K> {
        QuestionPolicy { proofs: None, quotas, debts: Debts::default(), not_admitted: 0, over_quota: 0 }
    }

    /// Answers clients with these keys, whose possession they prove to replica `me` of a cluster by signing challenges.
    pub fn closed(
        cluster: ClusterId,
        me: ReplicaId,
        askers: Askers,
        challenges: Challenges,
        quotas: AnswerQuotas,
    ) -> QuestionPolicy<K> {
        let proofs = Some(Proofs { cluster, me, askers, challenges, links: HashMap::new() });
        QuestionPolicy { proofs, ..QuestionPolicy::open(quotas) }
    }

    /// Takes over the keys and quotas of another policy of the same kind. Counts and debts remain, and each link proves
    /// its key again.
    pub(super) fn change(&mut self, new: QuestionPolicy<K>) {
        self.quotas = new.quotas;
        if let (Some(own), Some(new)) = (&mut self.proofs, new.proofs) {
            own.askers = new.askers;
            own.links.clear();
        }
    }

    /// Returns the reply to a query that must not be answered now. `address` is the link's address.
    pub(super) fn refusal(&mut self, link: K, address: u64, id: u64, now: Time) -> Option<ReplicaReply> {
        if let Some(Proofs { challenges, links, .. }) = &mut self.proofs {
            match links.entry(link).or_insert_with(|| Shown::Challenged(challenges.draw())) {
                Shown::Key(_) => {}
                Shown::Challenged(challenge) => {
                    self.not_admitted += 1;
                    return Some(ReplicaReply::Challenge { challenge: *challenge });
                }
                Shown::Refused(why) => {
                    self.not_admitted += 1;
                    return Some(ReplicaReply::Unanswered { id, why: why.clone(), again: false });
                }
            }
        }
        if !self.has_quotas() || !self.debts.exceed_a_second(&self.payer(link, address), now) {
            return None;
        }
        self.over_quota += 1;
        Some(ReplicaReply::Unanswered { id, why: self.quota_used_up(), again: true })
    }

    /// Takes a link's proof of a key. Returns whether the key is admitted. A link has only one attempt, so that it
    /// cannot cause repeated signature verifications.
    pub(super) fn prove(&mut self, link: K, client: ClientId, credential: &[u8], signature: &[u8]) -> bool {
        let Some(Proofs { cluster, me, askers, links, .. }) = &mut self.proofs else { return false };
        let Some(Shown::Challenged(challenge)) = links.get(&link) else { return false };
        let is_proved = || proves_key(cluster, *me, client, challenge, credential, signature);
        let refusal = match askers.not_admitted(credential) {
            Some(why) => Some(why),
            None if !is_proved() => Some(NOT_PROVED.to_owned()),
            None => None,
        };
        let (owner, is_admitted) = (ClientId::of_key(credential).owner(), refusal.is_none());
        links.insert(link, refusal.map_or(Shown::Key(owner), Shown::Refused));
        is_admitted
    }

    /// Charges a link's client for an answer of `bytes` that took `spent` to produce.
    pub(super) fn charge(&mut self, link: K, address: u64, bytes: usize, spent: Duration, now: Time) {
        if !self.has_quotas() {
            return;
        }
        let of_bytes = (bytes as u128 * SECOND_NS).checked_div(u128::from(self.quotas.bytes_per_s)).unwrap_or(0);
        let of_time = (spent.as_nanos() * SECOND_NS).checked_div(u128::from(self.quotas.us_per_s) * 1_000).unwrap_or(0);
        let cost_ns = u64::try_from(of_bytes.max(of_time)).unwrap_or(u64::MAX);
        self.debts.add(self.payer(link, address), cost_ns, now);
    }

    pub(super) fn has_quotas(&self) -> bool {
        self.quotas.bytes_per_s > 0 || self.quotas.us_per_s > 0
    }

    /// Forgets a closed link.
    pub(super) fn disconnected(&mut self, link: K) {
        if let Some(proofs) = &mut self.proofs {
            proofs.links.remove(&link);
        }
    }

    fn payer(&self, link: K, address: u64) -> Payer {
        match self.proofs.as_ref().and_then(|proofs| proofs.links.get(&link)) {
            Some(Shown::Key(owner)) => Payer::Owner(*owner),
            _ => Payer::Address(address),
        }
    }

    fn quota_used_up(&self) -> String {
        let limit = |limit: u64, unit: &str| (limit > 0).then(|| format!("{limit} {unit}"));
        let bytes = limit(self.quotas.bytes_per_s, "bytes of answers");
        let time = limit(self.quotas.us_per_s, "us of a replica's time");
        let quota: Vec<String> = [bytes, time].into_iter().flatten().collect();
        format!(
            "the client has used up its quota of {} per second; help: ask for less, or ask the operators",
            quota.join(" and ")
        )
    }

    /// Returns the number of unanswered queries, by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 2] {
        [("questions-not-admitted", self.not_admitted), ("questions-over-quota", self.over_quota)]
    }
}

const NOT_PROVED: &str = "the signature is not one of this connection's challenge with the key that it shows; help: \
     sign the challenge that this replica sent on this connection";
