//! A replica's reports about itself.

use super::Node;
use super::network::NetworkThread;
use crate::chronicle::Landmarks;
use quorate_consensus::{Evidence, Protocol};
use quorate_crypto::MacKeys;
use quorate_types::stages::StageRole;
use quorate_types::{FeatureLevel, ReplicaId, Status, ThreadTimes};
use std::collections::BTreeMap;

impl<P: Protocol> Node<P> {
    pub fn view(&self) -> u64 {
        self.parts.replica.view().0
    }

    /// Returns the feature level of its next block.
    pub fn level(&self) -> FeatureLevel {
        self.parts.executor.level().active
    }

    /// Returns the leader of its view, if it is known.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.parts.replica.leader()
    }

    /// Returns the views and heights that determine its next actions.
    pub fn landmarks(&self) -> Landmarks {
        let (replica, parts) = (&self.parts.replica, self.parts.replica.parts());
        let (lock, stands_on) = (parts.safety.lock(), replica.protocol().standing(parts).certificates);
        let own = [replica.view().0, parts.safety.voted().0, parts.safety.timed_out().0, lock.view.0];
        Landmarks {
            views: own.into_iter().chain(stands_on.iter().map(|shown| shown.view().0)).collect(),
            heights: [replica.committed_height().0, lock.height.0]
                .into_iter()
                .chain(stands_on.iter().map(|shown| shown.subject.height.0))
                .collect(),
        }
    }

    pub(super) fn role(&self) -> StageRole {
        if self.leader() == Some(self.parts.me) { StageRole::Leader } else { StageRole::Backup }
    }

    /// Returns other replicas' contradictions: those that are proofs to third parties, or the rest.
    fn evidence(&self, proves: bool) -> impl Iterator<Item = &Evidence> {
        let by_mac =
            |evidence: &Evidence| self.parts.votes_by_mac && MacKeys::authenticate(evidence.first.subject.domain);
        self.parts.replica.evidence().iter().filter(move |evidence| by_mac(evidence) != proves)
    }

    fn dropped(&self) -> BTreeMap<String, u64> {
        let of_the_replica = self.parts.replica.dropped().iter().map(|(why, count)| (why.to_string(), *count));
        let of_the_desk = self.desk.iter().flat_map(|desk| desk.dropped());
        of_the_replica.chain(of_the_desk.map(|(why, count)| (why.to_owned(), count))).collect()
    }

    /// Returns the CPU times of its stages' threads.
    fn thread_times(&self) -> ThreadTimes {
        ThreadTimes {
            core_ns: self.busy_ns,
            network_ns: self.network.as_ref().map(NetworkThread::busy_ns),
            verifiers_ns: self.verifiers.busy_ns(),
            verifiers: self.verifiers.threads(),
        }
    }

    pub fn status(&self, history: bool) -> Status {
        let proofs = self.parts.device.proofs();
        Status {
            replica: self.parts.me,
            view: self.parts.replica.view(),
            leader: self.parts.replica.leader().unwrap_or(self.parts.me),
            height: self.parts.executor.height(),
            committed_commands: self.parts.executor.commands(),
            committed_blocks: self.blocks,
            view_timeouts: self.parts.replica.view_timeouts(),
            verifications: self.parts.device.verifications(),
            certificates_verified: proofs.verified,
            key_additions: proofs.effort.key_additions,
            stages: self.parts.probes.and_then(|counter_hz| self.ledger().stages(counter_hz)),
            bytes_sent: self.bytes_sent,
            stream_packets: self.writes.packets(),
            messages_sent: self.messages_sent,
            cpu_ns: self.busy_ns + self.verifiers.busy_ns() + self.network.as_ref().map_or(0, NetworkThread::busy_ns),
            threads: self.thread_times(),
            busy_ns: self.busy_ns,
            dropped: self.dropped(),
            evidence: self.evidence(true).map(ToString::to_string).collect(),
            hearsay: self.evidence(false).map(Evidence::hearsay).collect(),
            history: if history { self.parts.executor.history() } else { Vec::new() },
            // Times of cryptographic work are in the ledger, and simulated hosts have neither processes nor sockets.
            ..Status::default()
        }
    }
}
