//! The load's session, as hosts ask it and report it.

use super::LoadCore;
use crate::config::ClientConfig;
use crate::outgoing::Outgoing;
use crate::session::SessionCounters;
use bytes::Bytes;
use quorate_types::{Difference, ReplicaId, ReplicaReply};

impl LoadCore {
    /// Asks all replicas for their heights, since a bundle signed for a height long past is void.
    pub fn ask_height(&mut self, out: &mut Vec<Outgoing>) {
        if self.session.answered_height().is_empty() {
            self.session.ask_height(out);
        } else {
            self.session.ask_height_again(out);
        }
    }

    /// Proves the client's key to the replicas that answer nothing before. [`LoadCore::step`] does the same.
    pub fn prove(&mut self, out: &mut Vec<Outgoing>) {
        self.session.prove(&self.identity, out);
    }

    /// Returns why f+1 replicas do not answer this client's questions, if they do not.
    pub fn unanswered(&self) -> Option<&str> {
        self.session.unanswered()
    }

    /// Compares a configuration with the replicas' before the first question.
    pub fn compare(&mut self, config: &ClientConfig) {
        let own = config.terms(self.session.options());
        self.session.compare(&own);
    }

    /// Returns the keys of the compared configuration whose values differ, so that the load does not work.
    pub fn differences(&self) -> Vec<Difference> {
        self.session.differences()
    }

    /// Returns a warning that names the key with which the client works slowly, and the remedy.
    pub fn warning(&self) -> Option<String> {
        self.session.warning()
    }

    /// Returns the maximum length of a frame, in bytes, if it is known.
    pub fn frame_limit(&self) -> Option<usize> {
        self.session.frame_limit()
    }

    /// Sends this message before each question for the heights.
    pub fn introduce_with(&mut self, introduction: Option<Bytes>) {
        self.session.introduce_with(introduction);
    }

    /// Returns whether a reply may change anything.
    pub fn awaits(&self, reply: &ReplicaReply) -> bool {
        self.session.awaits(reply) || self.counts(reply)
    }

    /// Returns how many equal replies complete a bundle.
    pub fn needed(&self) -> usize {
        self.session.options().needed()
    }

    /// Returns how many replicas reported their height since they were asked.
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

    /// Returns why f+1 replicas refused a bundle for good, if they did: other commands of this load would fare alike.
    pub fn rejection(&self) -> Option<&str> {
        self.session.rejection()
    }

    /// Returns the last refusal and its sender.
    pub fn last_refusal(&self) -> Option<(ReplicaId, &str)> {
        self.session.last_refusal()
    }
}
