//! The load's session, as hosts query and report it.

use super::LoadCore;
use crate::config::ClientConfig;
use crate::outgoing::Outgoing;
use crate::session::SessionCounters;
use bytes::Bytes;
use quorate_types::{Difference, ReplicaId, ReplicaReply};

impl LoadCore {
    /// Requests the heights of all replicas, since a bundle signed for an old height is void.
    pub fn ask_height(&mut self, out: &mut Vec<Outgoing>) {
        if self.session.answered_height().is_empty() {
            self.session.ask_height(out);
        } else {
            self.session.ask_height_again(out);
        }
    }

    /// Proves the client's key to the replicas that require it. [`LoadCore::step`] does the same.
    pub fn prove(&mut self, out: &mut Vec<Outgoing>) {
        self.session.prove(&self.identity, out);
    }

    /// Returns why f+1 replicas refuse to answer this client's queries, if they do.
    pub fn unanswered(&self) -> Option<&str> {
        self.session.unanswered()
    }

    /// Compares a configuration with the replicas' before the first query.
    pub fn compare(&mut self, config: &ClientConfig) {
        let own = config.terms(self.session.options());
        self.session.compare(&own);
    }

    /// Returns the keys with different values that prevent the load from working.
    pub fn differences(&self) -> Vec<Difference> {
        self.session.differences()
    }

    /// Returns a warning about the configuration key that makes the client slow, with the remedy.
    pub fn warning(&self) -> Option<String> {
        self.session.warning()
    }

    /// Returns the maximum length of a frame, in bytes, if it is known.
    pub fn frame_limit(&self) -> Option<usize> {
        self.session.frame_limit()
    }

    /// Sends this message before each height query from now on.
    pub fn introduce_with(&mut self, introduction: Option<Bytes>) {
        self.session.introduce_with(introduction);
    }

    /// Returns whether a reply can have an effect.
    pub fn awaits(&self, reply: &ReplicaReply) -> bool {
        self.session.awaits(reply) || self.counts(reply)
    }

    /// Returns how many equal replies complete a bundle.
    pub fn needed(&self) -> usize {
        self.session.options().needed()
    }

    /// Returns how many replicas have reported their height since the last query.
    pub fn answered_height(&self) -> usize {
        self.session.answered_height().len()
    }

    /// Returns the number of unanswered commands.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of preload commands sent so far.
    pub fn preloaded(&self) -> u64 {
        self.preloaded
    }

    /// Returns the counters of the bundles.
    pub fn bundles(&self) -> SessionCounters {
        self.session.counters()
    }

    /// Returns why f+1 replicas refused a bundle permanently, if they did: they would refuse other commands of this
    /// load too.
    pub fn rejection(&self) -> Option<&str> {
        self.session.rejection()
    }

    /// Returns the last refusal and its sender.
    pub fn last_refusal(&self) -> Option<(ReplicaId, &str)> {
        self.session.last_refusal()
    }
}
