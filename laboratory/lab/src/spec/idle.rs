//! Explicit settings that have no effect, with the reasons.

use super::flat::{DEFAULT_FLAT, ENTRIES, Entry, flag_of, flatten, key_at, value_at, value_in};
use super::{BenchSpec, Pacing, WorkloadKind};

/// A key that was set but has no effect.
pub struct IdleKey {
    pub key: &'static str,
    /// Keys whose values deprive it of its effect.
    pub because_of: Vec<String>,
    pub reason: String,
    pub help: String,
}

impl IdleKey {
    /// Returns whether this is wrong in any case: neither the key nor those that decide vary.
    pub fn is_fixed(&self, varies: impl Fn(&str) -> bool) -> bool {
        !varies(self.key) && !self.because_of.iter().any(|key| varies(key))
    }
}

impl BenchSpec {
    /// Returns the keys that were set but have no effect. Reasons call a key at a path as `name` does.
    pub(crate) fn without_effect(&self, name: impl Fn(&str) -> String) -> Vec<IdleKey> {
        let complete = BenchSpec { node: self.template(), ..self.clone() };
        let declared = self.set().filter_map(|entry| {
            let idle = entry.key.idle_because(|path| value_at(&complete, path))?;
            let because_of = idle.deciders().map(|path| key_at(path).to_owned()).collect();
            Some(IdleKey { key: entry.name, because_of, reason: idle.reason(&name), help: idle.remedy(&name) })
        });
        let (is_closed, is_file) =
            (matches!(self.pacing(), Pacing::Closed { .. }), matches!(self.workload, WorkloadKind::File(_)));
        let computed = [
            ("bundle_wait_ms", is_closed, &["rate", "load_profile", "search"][..], "the load is a closed loop"),
            ("payload", is_file, &["workload"][..], "the file determines the commands"),
        ];
        let is_set = |name: &str| self.set().any(|entry| entry.name == name);
        let computed = computed.into_iter().filter(|(key, is_idle, ..)| *is_idle && is_set(key));
        let computed = computed.map(|(key, _, because_of, reason)| IdleKey {
            key,
            because_of: because_of.iter().map(|key| (*key).to_owned()).collect(),
            reason: reason.to_owned(),
            help: "leave it out".to_owned(),
        });
        declared.chain(computed).collect()
    }

    /// Returns the keys that were set but have no effect, with reasons that name other keys as files do.
    pub fn idle_keys(&self) -> Vec<IdleKey> {
        self.without_effect(|path| format!("`{}`", key_at(path)))
    }

    /// Returns the keys whose values are not the defaults.
    fn set(&self) -> impl Iterator<Item = &'static Entry> {
        let own = flatten(self);
        ENTRIES.iter().filter(move |entry| value_in(entry, &own) != value_in(entry, &DEFAULT_FLAT))
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
