//! Admission policy for client bundles, and quotas of commands.

use super::quota::{BURST_NS, Debts};
use quorate_crypto::CertificateFault;
use quorate_crypto::ed25519::PUBLIC_KEY_BYTES;
use quorate_types::digest::encode_hex;
use quorate_types::{Bundle, ClientId, Time};
use std::collections::BTreeSet;

/// Public keys of the admitted clients.
pub type ClientKeys = BTreeSet<[u8; PUBLIC_KEY_BYTES]>;

/// Admission policy for bundles.
#[derive(Default)]
pub struct AdmissionPolicy {
    /// Admitted keys; `None`: all.
    listed: Option<ClientKeys>,
    /// Cost of a command that is charged to its client, in nanoseconds; 0: none.
    command_ns: u64,
    /// CPU time that clients used above their quota, in nanoseconds, by the owner of their key.
    debts: Debts<u128>,
    not_admitted: u64,
    over_quota: u64,
}

impl AdmissionPolicy {
    /// Creates a policy that admits these keys (`None`: all), with at most this many commands per second and client (0:
    /// no limit).
    pub fn new(listed: Option<ClientKeys>, max_commands_per_s: u64) -> AdmissionPolicy {
        let command_ns = BURST_NS.checked_div(max_commands_per_s).map_or(0, |ns| ns.max(1));
        AdmissionPolicy { listed, command_ns, ..AdmissionPolicy::default() }
    }

    /// Takes over the keys and the quota of another policy. Counts and debts remain.
    pub(super) fn change(&mut self, new: AdmissionPolicy) {
        (self.listed, self.command_ns) = (new.listed, new.command_ns);
    }

    /// Returns why a bundle's client is not admitted. `certificate` is the fault of its certificate.
    pub(super) fn refusal(&mut self, bundle: &Bundle, certificate: Option<CertificateFault>) -> Option<String> {
        let why = match certificate {
            Some(fault) => not_certified(fault).to_owned(),
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

    /// Returns why a client must wait, if its quota is used up.
    pub(super) fn over_quota(&mut self, client: ClientId, now: Time) -> Option<String> {
        if !self.debts.exceed_a_second(&client.owner(), now) {
            return None;
        }
        self.over_quota += 1;
        let quota = BURST_NS / self.command_ns;
        Some(format!("the client has used up its quota of {quota} commands/s; help: send fewer, or ask the operators"))
    }

    /// Whether clients have quotas.
    pub(super) fn has_quotas(&self) -> bool {
        self.command_ns > 0
    }

    /// Charges a client for the commands of a new genuine bundle.
    pub(super) fn charge(&mut self, bundle: &Bundle, now: Time) {
        let cost_ns = self.command_ns.saturating_mul(bundle.len() as u64);
        self.debts.add(bundle.origin().owner(), cost_ns, now);
    }

    /// Returns the counts of refused bundles by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 2] {
        [("not-admitted", self.not_admitted), ("over-quota", self.over_quota)]
    }
}

/// Returns the refusal for the client of an unlisted key.
pub(super) fn not_listed(key: &[u8]) -> String {
    format!(
        "the client's key {} is not admitted; help: ask the operators to add it to `keys` in `[clients]`",
        encode_hex(key)
    )
}

/// Returns the refusal for a client without a valid certificate.
pub(super) fn not_certified(fault: CertificateFault) -> &'static str {
    match fault {
        CertificateFault::Missing => {
            "the client is not certified, but this cluster admits only certified clients; help: have the certifier run \
             `quorate keys certify` on the client's key file"
        }
        CertificateFault::Invalid => {
            "the client's certificate is not one of this cluster's certifier for the client's key; help: have the \
             certifier run `quorate keys certify` on the client's key file"
        }
    }
}
