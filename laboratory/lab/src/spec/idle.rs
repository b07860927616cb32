//! Settings that were made but have no effect, with the reasons.

use super::check::flag;
use super::{BatchPolicy, BenchSpec, Host, JournalKind, Pacing, QuicVotes, SchemeKind, TransportKind, WorkloadKind};
use quorate_network::channels::Carriage;

impl BenchSpec {
    /// Returns the keys that were set but have no effect, each with the reason.
    pub(super) fn without_effect(&self) -> Vec<(&'static str, String)> {
        let keys = self.idle_batching().into_iter().chain(self.idle_transport()).chain(self.idle_others());
        keys.filter(|(_, is_idle, _)| *is_idle).map(|(key, _, why)| (key, why)).collect()
    }

    /// Returns for each key of batching whether it was set without effect, and the reason.
    fn idle_batching(&self) -> [(&'static str, bool, String); 5] {
        let default = BenchSpec::default();
        [
            (
                "pipeline",
                self.pipeline != default.pipeline && !self.protocol.has_slots(),
                format!("{} has no slots", self.protocol),
            ),
            (
                "batch_latency_ms",
                self.batch_latency_ms != default.batch_latency_ms && !self.batch.is_auto(),
                format!("--batch is {}, not auto", self.batch),
            ),
            (
                "batch_policy",
                self.reproduction.batch_policy != default.reproduction.batch_policy && self.batch.is_auto(),
                "--batch is auto, not a number of commands".into(),
            ),
            (
                "batch_wait_ms",
                self.reproduction.batch_wait_ms != default.reproduction.batch_wait_ms
                    && self.reproduction.batch_policy != BatchPolicy::Timed,
                format!("{} is {}, not timed", flag("batch_policy"), self.reproduction.batch_policy),
            ),
            (
                "bundle_wait_ms",
                self.bundle_wait_ms != 0 && matches!(self.pacing(), Pacing::Closed { .. }),
                "the load is a closed loop".to_owned(),
            ),
        ]
    }

    /// Returns for each setting of transports whether it was set and the chosen one ignores it, and the reason.
    fn idle_transport(&self) -> [(&'static str, bool, String); 5] {
        let over_packets = self.transport.profile().carriage == Carriage::Datagrams;
        let with_profiles = [TransportKind::TCP, TransportKind::RUDP, TransportKind::SCTP, TransportKind::SCTP_KERNEL];
        let has_profiles = with_profiles.contains(&self.transport);
        let has_own = has_profiles && over_packets;
        let why = format!("--transport is {}", self.transport);
        [
            ("retransmission", self.retransmission.is_some() && !has_profiles, why.clone()),
            ("link_retransmission", !self.link_retransmission.is_empty() && !has_own, why.clone()),
            ("pacing", self.pacing && self.transport != TransportKind::RUDP, why.clone()),
            ("quic_votes", self.quic_votes != QuicVotes::Stream && self.transport != TransportKind::QUIC, why.clone()),
            ("mtu_bytes", self.mtu_bytes != 0 && !over_packets, why),
        ]
    }

    /// Returns for each other key whether it was set without effect, and the reason.
    fn idle_others(&self) -> [(&'static str, bool, String); 8] {
        let default = BenchSpec::default();
        let is_ycsb = !matches!(self.workload, WorkloadKind::Fixed | WorkloadKind::File(_));
        [
            (
                "bls_verification",
                self.reproduction.bls_verification != default.reproduction.bls_verification
                    && self.scheme != SchemeKind::BLS12_381,
                format!("--scheme is {}, not {}", self.scheme, SchemeKind::BLS12_381),
            ),
            (
                "client_verdicts",
                self.reproduction.client_verdicts != default.reproduction.client_verdicts && self.host != Host::Threads,
                format!("--host is {}", self.host),
            ),
            (
                "mac_scheme",
                self.mac_scheme != default.mac_scheme && !self.uses_codes(),
                format!(
                    "--auth-profile is {}, without codes, and neither clients nor replies have any",
                    self.auth_profile
                ),
            ),
            (
                "accept_weak_scheme",
                self.accept_weak_scheme && self.scheme.profile().weakness.is_none(),
                format!("--scheme {} is not weak", self.scheme),
            ),
            (
                "records",
                self.records != default.records && !is_ycsb,
                format!("--workload {} has no records", self.workload),
            ),
            (
                "payload",
                self.payload != default.payload && matches!(self.workload, WorkloadKind::File(_)),
                "the commands are those of the file".to_owned(),
            ),
            (
                "fsync",
                self.fsync != default.fsync && self.journal() == JournalKind::Memory,
                "the journal is in memory".to_owned(),
            ),
            (
                "record_limit_mb",
                self.record_limit_mb != default.record_limit_mb && self.record.is_none(),
                "nothing is recorded".to_owned(),
            ),
        ]
    }

    /// Returns a sentence for each key that was set but has no effect in a simulation.
    pub fn idle_in_simulation(&self) -> Vec<String> {
        let default = BenchSpec::default();
        let keys = [
            ("host", self.host != default.host),
            ("base_port", self.base_port != default.base_port),
            ("journal", self.journal.is_some()),
            ("fsync", self.fsync != default.fsync && self.journal() != JournalKind::Memory),
            ("client_verdicts", self.reproduction.client_verdicts != default.reproduction.client_verdicts),
            ("execution_threads", self.execution_threads != default.execution_threads),
            ("payload_path", self.reproduction.payload_path != default.reproduction.payload_path),
            ("count_allocations", self.reproduction.count_allocations),
        ];
        let idle = keys.into_iter().filter(|(_, is_set)| *is_set);
        idle.map(|(key, _)| {
            format!("{}: has no effect, because replicas, ports, disks and memory are simulated", flag(key))
        })
        .collect()
    }
}
