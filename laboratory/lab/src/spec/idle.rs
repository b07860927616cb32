//! Explicit settings that have no effect, with the reasons.

use super::flat::{DEFAULT_FLAT, ENTRIES, Entry, flag_at, flag_of, flatten, value_at};
use super::{BenchSpec, Pacing, WorkloadKind};

impl BenchSpec {
    /// Returns the explicitly set keys without effect, each with the reason.
    pub(super) fn without_effect(&self) -> Vec<(&'static str, String)> {
        let complete = BenchSpec { node: self.template(), ..self.clone() };
        let declared = self.set().filter_map(|entry| {
            let (key, value) = entry.key.idle_because(|path| value_at(&complete, path))?;
            Some((entry.name, format!("{} is {value}", flag_at(key))))
        });
        let is_set = |name: &str| self.set().any(|entry| entry.name == name);
        let computed = [
            ("bundle_wait_ms", matches!(self.pacing(), Pacing::Closed { .. }), "the load is a closed loop".to_owned()),
            (
                "mac_scheme",
                !self.uses_codes(),
                format!(
                    "--auth-profile is {}, without codes, and neither clients nor replies have any",
                    self.node.auth_profile
                ),
            ),
            (
                "accept_weak_scheme",
                self.node.scheme.profile().weakness.is_none(),
                format!("--scheme {} is not weak", self.node.scheme),
            ),
            ("payload", matches!(self.workload, WorkloadKind::File(_)), "the file determines the commands".to_owned()),
        ];
        let computed = computed.into_iter().filter(|(name, is_idle, _)| *is_idle && is_set(name));
        declared.chain(computed.map(|(name, _, why)| (name, why))).collect()
    }

    /// Returns the keys whose values are not the defaults.
    fn set(&self) -> impl Iterator<Item = &'static Entry> {
        let own = flatten(self);
        ENTRIES.iter().filter(move |entry| entry.value_in(&own) != entry.value_in(&DEFAULT_FLAT))
    }

    /// Returns a sentence for each explicitly set key without effect in a simulation.
    pub fn idle_in_simulation(&self) -> Vec<String> {
        let idle = self.set().filter(|entry| entry.key.mark("x-real").is_some());
        idle.map(|entry| {
            let flag = flag_of(entry.name);
            format!("{flag}: has no effect, because replicas, ports, disks and memory are simulated")
        })
        .collect()
    }
}
