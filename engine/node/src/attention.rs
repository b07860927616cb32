//! Problems of a replica that need an operator's attention.

use crate::host::Host;
use crate::observer::disagreement;
use crate::progress::STANDSTILL;
use quorate_consensus::{Evidence, Protocol};
use quorate_types::{Digest, Height, LevelStatus, ReplicaId};

/// Describes the bundles that were treated as void.
fn voided(executed: (u64, Option<(Height, Digest)>)) -> Option<String> {
    let (count, last) = executed;
    let (height, bundle) = last?;
    Some(format!(
        "executed blocks without {count} bundles that a quorum signed to be absent, the last one {bundle} of block \
         {height}: more replicas have lost their disks than the cluster tolerates"
    ))
}

/// Reports that blocks may still rely on bundles lost with the journal.
fn lost_kept(up_to: Height) -> String {
    format!(
        "lost acknowledged bundles with its journal, on which blocks up to height {up_to} may rely: until that height \
         is executed, its disk counts as one of the f that may be lost"
    )
}

/// Describes that a quorum accepted the time of a block that this replica refused.
fn clock(ahead_ms: i64) -> String {
    let (distance, side) = (ahead_ms.unsigned_abs(), if ahead_ms > 0 { "behind" } else { "ahead of" });
    format!(
        "its clock is {distance} ms {side} the time of the last block, which a quorum accepted: synchronize the clock, \
         for example by NTP; until then this replica does not vote for new blocks"
    )
}

/// Describes that the replica will stop at a feature level that its program does not support.
fn unsupported(level: LevelStatus) -> Option<String> {
    let pending = level.pending.filter(|pending| pending.level > level.supported)?;
    Some(format!(
        "stops at height {}, where feature level {} begins: its program supports levels up to {}; start the version \
         that the other replicas run",
        pending.height, pending.level, level.supported
    ))
}

impl<P: Protocol> Host<P> {
    /// Returns the other replicas that are connected.
    pub(crate) fn connected(&self) -> Vec<ReplicaId> {
        let all = (0..self.devices.replicas).map(ReplicaId);
        all.filter(|peer| *peer != self.devices.me && self.devices.network.is_connected(*peer)).collect()
    }

    /// Returns problems of its progress.
    fn standstill(&self, connected: &[ReplicaId]) -> Vec<String> {
        let mut attention = Vec::new();
        let (age, height) = (self.progress.height_age(self.now), self.replica.committed_height());
        let waiting = self.replica.parts().store.pool.open_bundles();
        if waiting > 0 && age >= STANDSTILL {
            let seconds = age.as_secs();
            attention
                .push(format!("executes nothing after height {height} for {seconds} s, while {waiting} bundles wait"));
        }
        let mute = self.progress.mute(self.now, self.devices.quorum.quorum() - 1, connected);
        attention
            .extend(mute.iter().map(|peer| format!("receives no votes of replica {peer}, though it is connected")));
        attention.extend(self.devices.journal.write_times().and_then(|times| times.attention()));
        attention
    }

    /// Returns the problems that need attention, as sentences about the replica.
    pub(crate) fn attention(&self) -> Vec<String> {
        let mut attention = Vec::new();
        let devices = &self.devices;
        if let Some(fault) = &devices.fault {
            attention.push(format!("misbehaves on purpose: {fault}"));
        }
        let disagreements = self.disagreements.iter();
        attention.extend(disagreements.map(|(peer, differences)| disagreement(*peer, differences)));
        let (connected, peers) = (self.connected(), devices.quorum.replicas() - 1);
        let needed = devices.quorum.quorum() - 1;
        if connected.len() < needed {
            attention.push(format!("reaches {} of {peers} other replicas, and needs {needed}", connected.len()));
        } else {
            let missing = (0..devices.replicas).map(ReplicaId).filter(|peer| *peer != devices.me);
            let missing = missing.filter(|peer| !connected.contains(peer) && !self.disagreements.contains_key(peer));
            attention.extend(missing.map(|peer| format!("is not connected to replica {peer}")));
        }
        attention.extend(self.standstill(&connected));
        attention.extend(self.short_paths.iter().map(|(peer, change)| format!("replica {peer} {change}")));
        if devices.desk.admission().is_full() {
            attention.push("refuses clients: their commands would wait longer than max_queue_ms".to_owned());
        }
        attention.extend(unsupported(devices.executor.level()));
        attention.extend(self.replica.parts().clock.disagreement_ms().map(clock));
        attention.extend(devices.signer_status().and_then(|signer| signer.attention()));
        attention.extend(self.replica.silence().map(|silence| silence.to_string()));
        attention.extend(self.replica.lost_kept().map(lost_kept));
        attention.extend(voided(self.replica.parts().store.absence.executed()));
        attention.extend(self.evidence(true).map(|evidence| format!("holds proof against a replica: {evidence}")));
        attention.extend(self.evidence(false).map(Evidence::hearsay));
        attention.extend(self.free_space.attention(devices.min_free_bytes));
        attention
    }
}
