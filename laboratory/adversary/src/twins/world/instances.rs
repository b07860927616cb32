//! Operations on instances besides inputs: injected bugs, individual settings, crashes, restarts.

use super::{Parcel, World};
use crate::twins::participants::InstanceId;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::{Input, RecordId};
use quorate_consensus::{Config, Protocol};
use quorate_types::View;

impl<P: Protocol> World<P> {
    /// Injects a bug into every replica from the beginning. A wrong rule has no effect here: it is part of `P`.
    #[cfg(feature = "museum")]
    pub fn mutate(&mut self, mutant: Option<crate::twins::bugs::Mutant>) {
        assert!(
            self.instances.iter().all(|instance| !instance.started),
            "a bug is injected before any instance begins"
        );
        self.mutant = mutant;
        self.enter_instances();
        self.announced = false;
    }

    #[cfg(feature = "museum")]
    pub(super) fn rewrite_for_bug(&mut self, instance: InstanceId) {
        use crate::twins::bugs::{Mutant, Rewriter};
        let genesis = quorate_types::Certificate::genesis(&self.epoch).subject;
        self.instances[instance.0].rewriter = match self.mutant {
            Some(Mutant::Rewriting(bug)) => Some(Rewriter::new(bug, &self.config, genesis)),
            _ => None,
        };
    }

    /// Sets the configuration of one instance from the beginning.
    pub fn configure(&mut self, instance: InstanceId, config: Config) {
        assert!(!self.instances[instance.0].started, "settings are made before an instance begins");
        let shared = std::mem::replace(&mut self.config, config);
        self.instances[instance.0].replica = self.new_replica(instance);
        #[cfg(feature = "museum")]
        self.rewrite_for_bug(instance);
        self.config = shared;
        self.announced = false;
    }

    /// Makes an instance crash after this many of its actions. The remaining actions of that step are lost.
    pub fn crash_after(&mut self, instance: InstanceId, actions: usize) {
        self.instances[instance.0].fuse = Some(actions);
    }

    /// Cancels a crash set by [`World::crash_after`].
    pub fn keep_up(&mut self, instance: InstanceId) {
        self.instances[instance.0].fuse = None;
    }

    /// Crashes an instance. Messages in transit to it are lost.
    pub fn crash(&mut self, instance: InstanceId) {
        self.instances[instance.0].stop();
        self.checker.stops();
        self.answers.clear();
        let letters = &mut self.letters;
        let mut arrives = |parcel: &Parcel| {
            let lost = parcel.to == instance;
            if lost {
                letters.take(parcel.message);
            }
            !lost
        };
        self.queue.retain(&mut arrives);
        self.first.retain(&mut arrives);
        self.waiting.retain(&mut arrives);
        self.transcript.add(&self.participants, instance, || "CRASHES".into());
    }

    pub fn is_up(&self, instance: InstanceId) -> bool {
        self.instances[instance.0].up
    }

    /// Restarts a stopped instance without its journal.
    pub fn restart_without_journal(&mut self, instance: InstanceId) {
        self.instances[instance.0].journal.clear();
        self.checker.loses_journal(instance);
        self.begin_again(instance);
        self.step(instance, Input::Forgot);
        self.step(instance, Input::Start);
    }

    /// Restarts a stopped instance from its journal.
    pub fn restart(&mut self, instance: InstanceId) {
        let journal = self.begin_again(instance);
        for (id, record) in journal {
            self.checker.journals(instance, &record, None);
            self.step(instance, Input::Recall { id, record });
        }
        self.step(instance, Input::Start);
    }

    /// Replaces a stopped instance's replica. Returns the records of its journal.
    fn begin_again(&mut self, instance: InstanceId) -> Vec<(RecordId, Record)> {
        assert!(!self.instances[instance.0].up, "only a stopped instance restarts");
        self.instances[instance.0].restarts += 1;
        let replica = self.new_replica(instance);
        let place = &mut self.instances[instance.0];
        (place.replica, place.up, place.started) = (replica, true, true);
        place.chain.clear();
        let journal = place.journal.clone();
        self.checker.forgets(instance);
        // The others may be in the view after the last one into which they were forced.
        self.script.forced = if self.forced > View(0) { self.forced.next() } else { View(0) };
        self.announced = false;
        self.transcript.add(&self.participants, instance, || format!("RESTARTS with {} records", journal.len()));
        journal
    }
}
