//! Admission policies for clients, and their quotas.

use crate::config_file::{ConfigFault, Place};
use quorate_crypto::ed25519::{PUBLIC_KEY_BYTES, PublicKey};
use quorate_crypto::{AdmittedClients, Certifier, Challenges, ClientAuthentication, CryptoError};
use quorate_hosting::desk::{AdmissionPolicy, AnswerQuotas, Askers, ClientKeys, QuestionPolicy};
use quorate_network::transports::LinkId;
use quorate_types::digest::decode_hex;
use quorate_types::{ClusterId, ReplicaId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum of `max_commands_per_s`.
const MAX_COMMANDS_PER_S: u64 = 1_000_000_000;
/// Maximum of `max_answer_bytes_per_s`.
const MAX_ANSWER_BYTES_PER_S: u64 = 1_000_000_000_000;
/// Maximum of `max_answer_us_per_s`: all of the time.
const MAX_ANSWER_US_PER_S: u64 = 1_000_000;

/// The table `[clients]` of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientRules {
    /// Which clients may have commands ordered and questions answered. `any`: everyone, so the whole state, the history
    /// and the status are public to anyone who reaches `client_listen`. `listed`: those with a key in `keys`; each
    /// replica applies its own list to what clients send to it, so a faulty replica can let others in. `certified`:
    /// those with a certificate of `certifier`, which every replica requires in every bundle, also from peers; the same
    /// on all replicas, and never to be changed.
    #[schemars(extend("x-cluster" = true))]
    pub admitted: AdmittedClients,
    /// Public keys of the clients that `listed` admits, in hexadecimal; `quorate keys show` prints them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Public key of the certifier for `certified`, in hexadecimal. Absent with the other rules.
    #[schemars(extend("x-cluster" = true))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certifier: String,
    /// Maximum number of commands per second that this replica accepts from one client, with bursts of one second; 0:
    /// no limit. A client that sends different commands to each of n replicas gets n times as many.
    #[schemars(range(max = MAX_COMMANDS_PER_S))]
    pub max_commands_per_s: u64,
    /// Maximum number of bytes per second of answers to unordered questions (queries and statuses) that this replica
    /// makes for one client, with bursts of one second; 0: no limit. With `any`, where ids are only claims, it is for
    /// all clients of an address together.
    #[schemars(range(max = MAX_ANSWER_BYTES_PER_S))]
    pub max_answer_bytes_per_s: u64,
    /// Maximum time, in microseconds per second, in which this replica makes such answers for one client, or address;
    /// 0: no limit.
    #[schemars(range(max = MAX_ANSWER_US_PER_S))]
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

    fn listed(&self) -> ClientKeys {
        self.keys.iter().filter_map(|key| decode(key)).collect()
    }

    /// Returns the admission policy for bundles.
    pub(crate) fn policy(&self) -> AdmissionPolicy {
        let listed = (self.admitted == AdmittedClients::Listed).then(|| self.listed());
        AdmissionPolicy::new(listed, self.max_commands_per_s)
    }

    /// Returns the admission policy for queries to replica `me`.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if challenges are needed and the system provides none.
    pub(crate) fn questions(&self, cluster: ClusterId, me: ReplicaId) -> Result<QuestionPolicy<LinkId>, CryptoError> {
        let quotas = AnswerQuotas { bytes_per_s: self.max_answer_bytes_per_s, us_per_s: self.max_answer_us_per_s };
        let askers = match self.admitted {
            AdmittedClients::Any => return Ok(QuestionPolicy::open(quotas)),
            AdmittedClients::Listed => Askers::Listed(self.listed()),
            AdmittedClients::Certified => {
                Askers::Certified(Box::new(self.certifier(cluster).expect("the rule names a certifier")))
            }
        };
        Ok(QuestionPolicy::closed(cluster, me, askers, Challenges::new()?, quotas))
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
fn decode(text: &str) -> Option<[u8; PUBLIC_KEY_BYTES]> {
    let key: [u8; PUBLIC_KEY_BYTES] = decode_hex(text)?.try_into().ok()?;
    PublicKey::decode(&key).filter(|key| !key.is_weak()).map(|_| key)
}
