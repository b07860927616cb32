//! Restarts in a script, and disks that are lost in turn.

use super::World;
use crate::twins::participants::{InstanceId, InstanceSet};
use quorate_consensus::{Protocol, Silence};
use quorate_types::View;

/// A replica that lost its disk. It counts as a fault until it votes again, a crash would not undo that, and it has
/// executed everything that any replica had executed at the time of the loss.
pub(super) struct Away {
    instance: InstanceId,
    height: u64,
}

impl<P: Protocol> World<P> {
    /// Restarts some replicas from their journals, and then some without their disks, as far as there are never more
    /// than f faults.
    pub fn restart_all(&mut self, restarts: InstanceSet, lost_disks: InstanceSet) {
        let members = |set: InstanceSet| self.participants.instances().filter(move |at| set >> at.0 & 1 == 1);
        let (restarts, lost_disks): (Vec<_>, Vec<_>) = (members(restarts).collect(), members(lost_disks).collect());
        for instance in restarts {
            self.crash(instance);
            self.restart(instance);
        }
        for instance in lost_disks {
            self.lose_disk(instance);
        }
    }

    /// Restarts a replica without its disk, unless that would exceed f faults: twins, and replicas that lost their
    /// disks earlier and have not recovered. Returns whether it restarted.
    pub fn lose_disk(&mut self, instance: InstanceId) -> bool {
        self.is_any_away();
        self.away.retain(|away| away.instance != instance);
        if self.away.len() + self.participants.twins() >= self.participants.quorum().faults() {
            let others = self.describe_away();
            self.transcript.add(&self.participants, instance, || format!("keeps its disk: {others}"));
            return false;
        }
        let height = self.participants.instances().map(|any| self.checker.height(any)).max().unwrap_or(0);
        if self.is_up(instance) {
            self.crash(instance);
        }
        self.transcript.add(&self.participants, instance, || "LOSES ITS DISK".into());
        self.restart_without_journal(instance);
        self.away.push(Away { instance, height });
        true
    }

    /// Returns whether any replica lost its disk and has not recovered.
    pub(super) fn is_any_away(&mut self) -> bool {
        let (instances, checker) = (&self.instances, &self.checker);
        self.away.retain(|Away { instance, height }| {
            let place = &instances[instance.0];
            !place.up || place.replica.silence().is_some() || checker.height(*instance) < *height
        });
        !self.away.is_empty()
    }

    /// Makes the others replace the primary if a replica without its disk waits for the next view and nothing else will
    /// start it, because views last until a fault under a protocol with long-lived views.
    pub(super) fn replace_primary_for_away(&mut self, view: View) {
        if self.config.protocol.has_slots() && self.is_any_away() && self.force_up_to(view) {
            self.settle();
        }
    }

    /// Returns whether a replica lost its disk and does not vote yet.
    pub(super) fn is_silent(&self, instance: InstanceId) -> bool {
        let silence = self.instances[instance.0].replica.silence();
        silence.is_some_and(|silence| silence != Silence::Returns)
    }

    /// Names the replicas that have not recovered from the loss of their disks, with the reasons.
    pub(super) fn describe_away(&self) -> String {
        let lacks = |Away { instance, height }: &Away| {
            let name = self.participants.name(*instance);
            match self.instances[instance.0].replica.silence() {
                Some(silence) => format!("{name} {silence}"),
                None => format!("{name} lost its disk and has not executed height {height}"),
            }
        };
        self.away.iter().map(lacks).collect::<Vec<_>>().join("; ")
    }
}
