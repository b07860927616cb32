//! Operations on actors besides inputs: injected bugs, individual settings, signatures of Byzantine actors, restarts.

use super::Stage;
use crate::cast::ActorId;
use quorate_consensus::seam::Input;
use quorate_consensus::{Config, Protocol};

impl<P: Protocol> Stage<P> {
    /// Injects a bug into every replica, from the beginning on. A wrong rule has no effect here: it is part of `P`.
    #[cfg(feature = "museum")]
    pub fn mutate(&mut self, mutant: Option<crate::museum::Mutant>) {
        assert!(self.actors.iter().all(|actor| !actor.started), "a bug is injected before any actor begins");
        self.mutant = mutant;
        self.enter_actors();
        self.announced = false;
    }

    #[cfg(feature = "museum")]
    pub(super) fn rewrite_for_bug(&mut self, actor: ActorId) {
        use crate::museum::{Mutant, rewriting::Rewriter};
        let genesis = quorate_types::Certificate::genesis(&self.cluster).subject;
        self.actors[actor.0].rewriter = match self.mutant {
            Some(Mutant::Rewriting(bug)) => Some(Rewriter::new(bug, &self.config, genesis)),
            _ => None,
        };
    }

    /// Sets the configuration of one actor, from the beginning on.
    pub fn configure(&mut self, actor: ActorId, config: Config) {
        assert!(!self.actors[actor.0].started, "settings are made before an actor begins");
        let shared = std::mem::replace(&mut self.config, config);
        self.actors[actor.0].replica = self.new_replica(actor);
        #[cfg(feature = "museum")]
        self.rewrite_for_bug(actor);
        self.config = shared;
        self.announced = false;
    }

    pub fn is_up(&self, actor: ActorId) -> bool {
        self.actors[actor.0].up
    }

    /// Restarts a stopped actor from its journal.
    pub fn restart(&mut self, actor: ActorId) {
        let replica = self.new_replica(actor);
        let place = &mut self.actors[actor.0];
        assert!(!place.up, "only a stopped actor restarts");
        (place.replica, place.up, place.started) = (replica, true, true);
        place.chain.clear();
        let journal = place.journal.clone();
        self.judge.forgets(actor);
        self.announced = false;
        self.transcript.add(&self.cast, actor, || format!("RESTARTS with {} records", journal.len()));
        for (id, record) in journal {
            self.step(actor, Input::Recall { id, record });
        }
        self.step(actor, Input::Start);
    }
}
