//! The status of a replica, for its operators, clients and monitors: made on the replica's thread from counters that
//! exist anyway.

use crate::host::Host;
use crate::laboratory;
use crate::measure;
use crate::network::Report;
use quorate_consensus::{Evidence, Protocol};
use quorate_network::channels::Agreed;
use quorate_network::transports::Counters;
use quorate_storage::account::thread_cpu_ns;
use quorate_types::host_status::{CheckpointAge, LinkCounts, LinkVersion, Queues, WireStatus};
use quorate_types::{Domain, Height, HostStatus, ReplicaId, Status, ThreadTimes, stages};
use std::collections::BTreeMap;

impl<P: Protocol> Host<P> {
    pub(crate) fn status(&self, history: bool) -> Status {
        let Report { counters, round_trips, agreed, work, stages, cpu_ns } = self.devices.network.report();
        let mut crypto = self.devices.crypto_work();
        crypto += work;
        let mut of_stages = stages::of_this_thread();
        if let (Some(sum), Some(more)) = (&mut of_stages, &stages) {
            sum.add(more);
        }
        let (allocations, allocated_bytes) = laboratory::allocated();
        let proofs = self.devices.crypto.proofs();
        Status {
            replica: self.devices.me,
            view: self.replica.view(),
            leader: self.replica.leader().unwrap_or(self.devices.me),
            height: self.replica.committed_height(),
            committed_commands: self.devices.executor.commands(),
            committed_blocks: self.devices.blocks,
            view_timeouts: self.replica.view_timeouts(),
            verifications: self.devices.crypto.verifications() + self.devices.desk.verifications(),
            certificates_verified: proofs.verified,
            key_additions: proofs.effort.key_additions,
            crypto,
            stages: of_stages,
            bytes_sent: counters.bytes_sent,
            stream_packets: counters.stream_packets,
            messages_sent: counters.frames_sent,
            packets_sent: counters.packets_sent,
            retransmissions: counters.retransmissions,
            retransmission_timeouts: counters.retransmission_timeouts,
            round_trips_us: round_trips.into_iter().map(|(replica, trip)| (replica, trip.as_micros() as u64)).collect(),
            handshakes: counters.handshakes,
            handshakes_us: counters.handshakes_us,
            cpu_ns: self.account.spent_ns(),
            threads: ThreadTimes { core_ns: thread_cpu_ns(), network_ns: cpu_ns, ..self.devices.verifiers_times() },
            busy_ns: measure::thread_busy_ns(),
            allocations,
            allocated_bytes,
            peak_rss_kb: measure::peak_rss_kb(),
            client_memory_peak_bytes: counters.client_memory_peak_bytes,
            uptime_ms: self.started.elapsed().as_millis() as u64,
            height_age_ms: self.progress.height_age(self.now).as_millis() as u64,
            waiting_bundles: self.replica.parts().store.pool.open_bundles() as u64,
            journal_writes: self.devices.journal.write_times(),
            abstains: self.replica.parts().safety.is_away(),
            peers: self.devices.quorum.replicas() - 1,
            connected: self.connected(),
            attention: self.attention(),
            host: Some(Box::new(HostStatus { wire: self.wire_status(agreed), ..self.host_status(&counters) })),
            dropped: self.dropped(&counters),
            evidence: self.evidence(true).map(ToString::to_string).collect(),
            hearsay: self.evidence(false).map(Evidence::hearsay).collect(),
            history: if history { self.devices.executor.history() } else { Vec::new() },
            settings: history.then(|| self.devices.settings.clone()),
        }
    }

    /// Returns the contradictions of other replicas known to this replica: those provable to third parties if `proves`,
    /// otherwise the rest.
    pub(crate) fn evidence(&self, proves: bool) -> impl Iterator<Item = &Evidence> {
        let authentication = self.devices.authentication;
        let attributes = move |evidence: &Evidence| authentication.attributes(evidence.first.subject.domain);
        self.replica.evidence().iter().filter(move |evidence| attributes(evidence) == proves)
    }

    fn dropped(&self, counters: &Counters) -> BTreeMap<String, u64> {
        let of_the_replica = self.replica.dropped().iter().map(|(why, count)| (why.to_string(), *count));
        let of_the_host = [
            ("undecodable-from-peers", self.undecodable_from_peers),
            ("clients-cut", counters.clients_cut),
            ("not-queued", counters.frames_dropped),
        ];
        let of_the_host = of_the_host.into_iter().filter(|(_, count)| *count > 0).chain(self.devices.desk.dropped());
        of_the_replica.chain(of_the_host.map(|(why, count)| (why.to_owned(), count))).collect()
    }

    /// Returns the state of everything around the replica.
    fn host_status(&self, counters: &Counters) -> HostStatus {
        let (devices, parts) = (&self.devices, self.replica.parts());
        let open = parts.store.pool.totals().open;
        HostStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            quorum: devices.quorum.quorum(),
            faults: devices.quorum.faults(),
            known_height: self.known_height(),
            timeouts: devices.meters.timeouts(),
            iterations: self.iterations,
            links: LinkCounts {
                bytes_received: counters.bytes_received,
                messages_received: counters.frames_received,
                write_calls: counters.write_calls,
                ..self.links
            },
            queues: Queues {
                commands: open.commands,
                bytes: open.bytes,
                admission_limit_bytes: devices.desk.admission().limit(),
                incomplete_blocks: parts.store.waiting() as u64,
                held_messages: devices.held_messages() as u64,
            },
            latencies: devices.meters.latencies(),
            checkpoint: devices
                .stable
                .map(|(height, at)| CheckpointAge { height, age_ms: self.now.since(at).as_millis() as u64 }),
            level: Some(devices.executor.level()),
            transfer: devices.states.progress(self.replica.committed_height()),
            voided_bundles: parts.store.absence.executed().0,
            clock_error_ms: parts.clock.disagreement_ms(),
            signer: devices.signer_status(),
            ..HostStatus::default()
        }
    }

    /// Returns the wire versions of this replica and of its links.
    fn wire_status(&self, agreed: Vec<(ReplicaId, Agreed)>) -> WireStatus {
        let link = |(peer, Agreed { version, release }): (ReplicaId, Agreed)| {
            let (supports, program) = release.map(|release| (release.newest, release.program)).unzip();
            LinkVersion { peer, version, program, supports }
        };
        let versions = self.devices.versions;
        WireStatus {
            oldest: versions.oldest(),
            newest: versions.newest(),
            links: agreed.into_iter().map(link).collect(),
        }
    }

    /// Returns the greatest height that a certificate, a decision or an offered state has shown.
    fn known_height(&self) -> Height {
        let parts = self.replica.parts();
        let standing = self.replica.protocol().standing(parts);
        let certified = standing.certificates.iter().map(|certificate| &certificate.subject);
        let certified = certified.filter(|subject| subject.domain != Domain::Timeout).map(|subject| subject.height);
        let committed = self.replica.committed_height();
        let transferred = self.devices.states.progress(committed).map(|transfer| transfer.height);
        let decided = [committed, parts.store.tree.decided()];
        certified.chain(transferred).chain(decided).max().expect("a replica has a height")
    }
}
