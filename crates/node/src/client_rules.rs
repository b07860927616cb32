//! Which clients a replica serves, and how much.

use crate::config_file::{ConfigFault, Place};
use quorate_crypto::ed25519::{PUBLIC_KEY_BYTES, PublicKey};
use quorate_crypto::{AdmittedClients, CertificateFault, Certifier, ClientAuthentication};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::{Bundle, ClientId, ClusterId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Maximum of `max_commands_per_s`.
const MAX_COMMANDS_PER_S: u64 = 1_000_000_000;
/// Maximum of `max_answer_bytes_per_s`.
const MAX_ANSWER_BYTES_PER_S: u64 = 1_000_000_000_000;
/// Maximum of `max_answer_us_per_s`: all of the time.
const MAX_ANSWER_US_PER_S: u64 = 1_000_000;
/// A client may use this much of its quota at once, in nanoseconds.
const BURST_NS: u64 = 1_000_000_000;
/// Maximum number of clients whose use of the quota is known. Beyond it, those that have paid are forgotten, or all.
const MAX_QUOTAS: usize = 65_536;

/// The table `[clients]` of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientRules {
    /// Which clients may have commands ordered and questions answered. `any`: everyone, so the whole state, the history
    /// and the status are public to anyone who reaches `client_listen`. `listed`: those with a key in `keys`; each replica
    /// applies its own list to what clients send to it, so a faulty replica can let others in. `certified`: those with
    /// a certificate of `certifier`, which every replica requires in every bundle, also from peers; the same on all
    /// replicas, and never to be changed. Default `any`.
    pub admitted: AdmittedClients,
    /// Public keys of the clients that `listed` admits, in hexadecimal; `quorate keys show` prints them. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Public key of the certifier for `certified`, in hexadecimal. Absent with the other rules.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certifier: String,
    /// Maximum number of commands per second that this replica accepts from one client, with bursts of one second; 0:
    /// no limit. A client that sends different commands to each of n replicas gets n times as many. Default 0.
    pub max_commands_per_s: u64,
    /// Maximum number of bytes per second of answers to unordered questions (queries and statuses) that this replica
    /// makes for one client, with bursts of one second; 0: no limit. With `any`, where ids are only claims, it is for
    /// all clients of an address together. Default 0.
    pub max_answer_bytes_per_s: u64,
    /// Maximum time, in microseconds per second, in which this replica makes such answers for one client, or address;
    /// 0: no limit. Default 0.
    pub max_answer_us_per_s: u64,
}

impl ClientRules {
    pub(crate) fn validate(&self, authentication: ClientAuthentication) -> Result<(), ConfigFault> {
        let fault = |key, what: String, help: &str| {
            Err(ConfigFault { place: Place::in_table("clients", key), what, help: help.to_owned() })
        };
        let rule = self.admitted;
        if authentication == ClientAuthentication::None && (rule != AdmittedClients::Any || self.max_commands_per_s > 0)
        {
            let key = if rule == AdmittedClients::Any { "max_commands_per_s" } else { "admitted" };
            let what = "needs clients that sign, but `client_authentication` is none".to_owned();
            return fault(key, what, "set `client_authentication = \"ed25519\"`");
        }
        for (key, value, limit) in [
            ("max_commands_per_s", self.max_commands_per_s, MAX_COMMANDS_PER_S),
            ("max_answer_bytes_per_s", self.max_answer_bytes_per_s, MAX_ANSWER_BYTES_PER_S),
            ("max_answer_us_per_s", self.max_answer_us_per_s, MAX_ANSWER_US_PER_S),
        ] {
            if value > limit {
                return fault(key, format!("is {value}, over the limit of {limit}"), "set 0 for no limit");
            }
        }
        match rule {
            AdmittedClients::Listed if self.keys.is_empty() => {
                return fault("keys", "is empty, so no client is admitted".to_owned(), "list the clients' public keys");
            }
            AdmittedClients::Any | AdmittedClients::Certified if !self.keys.is_empty() => {
                return fault(
                    "keys",
                    format!("has no effect with {rule}"),
                    "remove it, or set `admitted = \"listed\"`",
                );
            }
            AdmittedClients::Any | AdmittedClients::Listed if !self.certifier.is_empty() => {
                let help = "remove it, or set `admitted = \"certified\"`";
                return fault("certifier", format!("has no effect with {rule}"), help);
            }
            _ => {}
        }
        for (at, key) in self.keys.iter().enumerate() {
            if decode(key).is_none() {
                let what = format!("has no public key in its entry {}: {key:?}", at + 1);
                return fault("keys", what, "copy it from `quorate keys show`");
            }
        }
        if rule == AdmittedClients::Certified && decode(&self.certifier).is_none() {
            let what = format!("is {:?}, not the public key of a certifier", self.certifier);
            return fault("certifier", what, "copy it from `quorate keys show`");
        }
        Ok(())
    }

    /// Returns the verifier of certificates, if they are required.
    ///
    /// # Panics
    /// If the rules are not [valid](ClientRules::validate).
    pub(crate) fn certifier(&self, cluster: ClusterId) -> Option<Certifier> {
        let valid =
            |key: [u8; PUBLIC_KEY_BYTES]| Certifier::new(cluster, &key).expect("the configuration was validated");
        (self.admitted == AdmittedClients::Certified).then(|| decode(&self.certifier).map(valid)).flatten()
    }
}

/// Decodes a usable public key.
pub(crate) fn decode(text: &str) -> Option<[u8; PUBLIC_KEY_BYTES]> {
    let key: [u8; PUBLIC_KEY_BYTES] = decode_hex(text)?.try_into().ok()?;
    PublicKey::decode(&key).filter(|key| !key.is_weak()).map(|_| key)
}

/// Applies the rules to what clients send.
#[derive(Default)]
pub(crate) struct Doorkeeper {
    /// Keys admitted; `None`: all.
    listed: Option<BTreeSet<[u8; PUBLIC_KEY_BYTES]>>,
    /// Time that a command costs its client, in nanoseconds; 0: nothing.
    command_ns: u64,
    /// By owner.
    debts: Debts<u128>,
    not_admitted: u64,
    over_quota: u64,
}

impl Doorkeeper {
    pub fn new(rules: &ClientRules) -> Doorkeeper {
        let listed = (rules.admitted == AdmittedClients::Listed)
            .then(|| rules.keys.iter().filter_map(|key| decode(key)).collect::<BTreeSet<_>>());
        let command_ns = BURST_NS.checked_div(rules.max_commands_per_s).map_or(0, |ns| ns.max(1));
        Doorkeeper { listed, command_ns, ..Doorkeeper::default() }
    }

    /// Returns why a bundle's client is not admitted. `certificate` is what its certificate lacks.
    pub fn refusal(&mut self, bundle: &Bundle, certificate: Option<CertificateFault>) -> Option<String> {
        let why = match certificate {
            Some(CertificateFault::Missing) => NOT_CERTIFIED.to_owned(),
            Some(CertificateFault::Invalid) => FALSELY_CERTIFIED.to_owned(),
            None => {
                let listed = self.listed.as_ref()?;
                let key = bundle.authenticator()?.public_key.first_chunk::<PUBLIC_KEY_BYTES>()?;
                if listed.contains(key) {
                    return None;
                }
                not_listed(key)
            }
        };
        self.not_admitted += 1;
        Some(why)
    }

    /// Returns why a client must wait, if it has used up its quota.
    pub fn over_quota(&mut self, client: ClientId, now: Time) -> Option<String> {
        if !self.debts.exceed_a_second(&client.owner(), now) {
            return None;
        }
        self.over_quota += 1;
        let quota = BURST_NS / self.command_ns;
        Some(format!("the client has used up its quota of {quota} commands/s; help: send fewer, or ask the operators"))
    }

    /// Whether clients have quotas.
    pub fn has_quotas(&self) -> bool {
        self.command_ns > 0
    }

    /// Charges a client for the commands of a genuine bundle that is new.
    pub fn charge(&mut self, bundle: &Bundle, now: Time) {
        let cost_ns = self.command_ns.saturating_mul(bundle.len() as u64);
        self.debts.add(bundle.origin().owner(), cost_ns, now);
    }

    /// Returns the counts of refused bundles by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 2] {
        [("not-admitted", self.not_admitted), ("over-quota", self.over_quota)]
    }
}

/// When each client's use of its quota will be paid off.
pub(crate) struct Debts<K> {
    paid_off: HashMap<K, Time>,
}

impl<K> Default for Debts<K> {
    fn default() -> Self {
        Debts { paid_off: HashMap::new() }
    }
}

impl<K: Eq + Hash> Debts<K> {
    /// Returns whether a client owes a second's worth or more.
    pub fn exceed_a_second(&self, client: &K, now: Time) -> bool {
        self.paid_off.get(client).is_some_and(|paid_off| paid_off.since(now).as_nanos() >= u128::from(BURST_NS))
    }

    /// Adds to the debt of a client.
    pub fn add(&mut self, client: K, cost_ns: u64, now: Time) {
        if self.paid_off.len() >= MAX_QUOTAS {
            self.paid_off.retain(|_, paid_off| *paid_off > now);
            // Otherwise many clients in debt would cause this work again and again.
            if self.paid_off.len() > MAX_QUOTAS / 2 {
                self.paid_off.clear();
            }
        }
        let paid_off = self.paid_off.entry(client).or_insert(now);
        *paid_off = Time((*paid_off).max(now).0.saturating_add(cost_ns));
    }
}

/// Returns why the client of a key that is not listed is refused.
pub(crate) fn not_listed(key: &[u8]) -> String {
    format!(
        "the client's key {} is not admitted; help: ask the operators to add it to `keys` in `[clients]`",
        encode_hex(key)
    )
}

pub(crate) const NOT_CERTIFIED: &str = "the client is not certified, but this cluster admits only certified clients; help: have \
     the certifier run `quorate keys certify` on the client's key file";
pub(crate) const FALSELY_CERTIFIED: &str = "the client's certificate is not one of this cluster's certifier for the client's key; \
     help: have the certifier run `quorate keys certify` on the client's key file";
