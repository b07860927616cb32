//! Which clients' questions a replica answers, and how much work it does for each.
//!
//! With the rules `listed` and `certified`, a link proves a key once, by a signature of the challenge that the replica
//! drew for it. Until then nothing is read or made for it. A bundle does not count as a proof: others have it too, and
//! can repeat it.

use crate::client_rules::{ClientRules, Debts, FALSELY_CERTIFIED, NOT_CERTIFIED, decode, not_listed};
use quorate_crypto::ed25519::PUBLIC_KEY_BYTES;
use quorate_crypto::{AdmittedClients, CertificateFault, Certifier, Challenges, CryptoError, proves_key};
use quorate_transports::LinkId;
use quorate_types::{ClientId, ClusterId, Digest, ReplicaId, ReplicaReply, Time};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A quota is this much of work for each second, in nanoseconds of debt.
const SECOND_NS: u128 = 1_000_000_000;

/// Admitted keys.
enum Rule {
    Any,
    Listed(BTreeSet<[u8; PUBLIC_KEY_BYTES]>),
    Certified(Box<Certifier>),
}

/// What a link has shown.
enum Shown {
    /// Nothing yet. It was sent this challenge.
    Challenged(Digest),
    /// An admitted key, of this owner.
    Key(u128),
    /// A key that is not admitted, or a proof that is not one.
    Refused(String),
}

/// Whose quota an answer uses. An id that is only claimed must not use up the quota of its owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Payer {
    Owner(u128),
    Address(u64),
}

/// Applies the rules to questions.
pub(crate) struct Readers {
    cluster: ClusterId,
    me: ReplicaId,
    rule: Rule,
    challenges: Challenges,
    /// Links that have asked, if the rule is not [`Rule::Any`].
    links: HashMap<LinkId, Shown>,
    /// Quotas for each client and second: bytes of answers, and time to make them, in microseconds; 0: no limit.
    bytes_per_s: u64,
    us_per_s: u64,
    debts: Debts<Payer>,
    not_admitted: u64,
    over_quota: u64,
}

impl Readers {
    /// Returns the rules of a replica.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none.
    pub fn new(rules: &ClientRules, cluster: ClusterId, me: ReplicaId) -> Result<Readers, CryptoError> {
        let rule = match rules.admitted {
            AdmittedClients::Any => Rule::Any,
            AdmittedClients::Listed => Rule::Listed(rules.keys.iter().filter_map(|key| decode(key)).collect()),
            AdmittedClients::Certified => {
                Rule::Certified(Box::new(rules.certifier(cluster).expect("the rule names a certifier")))
            }
        };
        Ok(Readers {
            cluster,
            me,
            rule,
            challenges: Challenges::new()?,
            links: HashMap::new(),
            bytes_per_s: rules.max_answer_bytes_per_s,
            us_per_s: rules.max_answer_us_per_s,
            debts: Debts::default(),
            not_admitted: 0,
            over_quota: 0,
        })
    }

    /// Returns the reply to a question that must not be answered now. `address` is that of the link.
    pub fn refusal(&mut self, link: LinkId, address: u64, id: u64, now: Time) -> Option<ReplicaReply> {
        if !matches!(self.rule, Rule::Any) {
            let challenges = &mut self.challenges;
            match self.links.entry(link).or_insert_with(|| Shown::Challenged(challenges.draw())) {
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

    /// Takes a link's proof of a key. Returns whether the key is admitted. A link has one try, so that it cannot have signatures verified again and again.
    pub fn prove(&mut self, link: LinkId, client: ClientId, credential: &[u8], signature: &[u8]) -> bool {
        let Some(Shown::Challenged(challenge)) = self.links.get(&link) else { return false };
        let (challenge, cluster, me) = (*challenge, self.cluster, self.me);
        let is_proved = || proves_key(&cluster, me, client, &challenge, credential, signature);
        let refusal = match self.not_admitted(credential) {
            Some(why) => Some(why),
            None if !is_proved() => Some(NOT_PROVED.to_owned()),
            None => None,
        };
        let (owner, is_admitted) = (ClientId::of_key(credential).owner(), refusal.is_none());
        self.links.insert(link, refusal.map_or(Shown::Key(owner), Shown::Refused));
        is_admitted
    }

    fn not_admitted(&mut self, credential: &[u8]) -> Option<String> {
        match &mut self.rule {
            Rule::Any => None,
            Rule::Listed(keys) => {
                let key = credential.first_chunk::<PUBLIC_KEY_BYTES>();
                let is_listed = key.is_some_and(|key| keys.contains(key));
                (!is_listed).then(|| not_listed(key.map_or(&[], |key| &key[..])))
            }
            Rule::Certified(certifier) => certifier.check_credential(credential).err().map(|fault| {
                match fault {
                    CertificateFault::Missing => NOT_CERTIFIED,
                    CertificateFault::Invalid => FALSELY_CERTIFIED,
                }
                .to_owned()
            }),
        }
    }

    /// Charges a link's client for an answer of `bytes` that took `spent` to make.
    pub fn charge(&mut self, link: LinkId, address: u64, bytes: usize, spent: Duration, now: Time) {
        if !self.has_quotas() {
            return;
        }
        let of_bytes = (bytes as u128 * SECOND_NS).checked_div(u128::from(self.bytes_per_s)).unwrap_or(0);
        let of_time = (spent.as_nanos() * SECOND_NS).checked_div(u128::from(self.us_per_s) * 1_000).unwrap_or(0);
        let cost_ns = u64::try_from(of_bytes.max(of_time)).unwrap_or(u64::MAX);
        self.debts.add(self.payer(link, address), cost_ns, now);
    }

    pub fn has_quotas(&self) -> bool {
        self.bytes_per_s > 0 || self.us_per_s > 0
    }

    /// Forgets a closed link.
    pub fn disconnected(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    fn payer(&self, link: LinkId, address: u64) -> Payer {
        match self.links.get(&link) {
            Some(Shown::Key(owner)) => Payer::Owner(*owner),
            _ => Payer::Address(address),
        }
    }

    fn quota_used_up(&self) -> String {
        let limit = |limit: u64, unit: &str| (limit > 0).then(|| format!("{limit} {unit}"));
        let bytes = limit(self.bytes_per_s, "bytes of answers");
        let time = limit(self.us_per_s, "us of a replica's time");
        let quota: Vec<String> = [bytes, time].into_iter().flatten().collect();
        format!(
            "the client has used up its quota of {} per second; help: ask for less, or ask the operators",
            quota.join(" and ")
        )
    }

    /// Returns the counts of questions that were not answered, by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 2] {
        [("questions-not-admitted", self.not_admitted), ("questions-over-quota", self.over_quota)]
    }
}

const NOT_PROVED: &str = "the signature is not one of this connection's challenge with the key that it shows; help: \
     sign the challenge that this replica sent on this connection";
