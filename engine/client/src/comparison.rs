//! Comparison of a client's configuration with the replicas', beyond the genesis, which the handshake compares.
//!
//! The client sends its values, and each replica answers with its own where they differ. A liar can claim anything, so
//! a value counts only if f+1 replicas report it: one of them is honest.

use bytes::Bytes;
use quorate_hosting::shared::DISSEMINATION_KEY;
use quorate_types::{ClientRequest, Difference, Parameters, Quorum, ReplicaId, encode_message};
use std::collections::{BTreeMap, BTreeSet};

/// The key that makes a client slow, but not unusable, if its value differs.
const SLOW_KEY: &str = DISSEMINATION_KEY;
/// Id of the comparison. Its answers depend on nothing that changes.
const ID: u64 = 0;

/// A replica's settings that differ from ours, and its frame limit.
struct Answer {
    differing: BTreeMap<String, String>,
    max_frame_bytes: usize,
}

/// Answers of replicas to a comparison.
pub(crate) struct Comparison {
    own: BTreeMap<String, String>,
    question: Bytes,
    quorum: Quorum,
    answers: BTreeMap<ReplicaId, Answer>,
}

impl Comparison {
    /// Begins a comparison of a client's values, given by their keys.
    pub fn new(own: &Parameters, quorum: Quorum) -> Comparison {
        let question = encode_message(&ClientRequest::Compare { id: ID, values: own.clone() });
        let own = own.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Comparison { own, question, quorum, answers: BTreeMap::new() }
    }

    /// Returns the request, until n-f replicas have answered.
    pub fn question(&self) -> Option<&Bytes> {
        (self.answers.len() < self.quorum.quorum()).then_some(&self.question)
    }

    pub fn on_answer(&mut self, from: ReplicaId, differing: &Parameters, max_frame_bytes: u32) {
        if from.index() < self.quorum.replicas() {
            let differing = differing.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            self.answers.entry(from).or_insert(Answer { differing, max_frame_bytes: max_frame_bytes as usize });
        }
    }

    /// Returns the keys for which f+1 replicas have the same different value.
    fn differences(&self) -> impl Iterator<Item = Difference> + '_ {
        self.own.iter().filter_map(|(key, own)| {
            let values = || self.answers.values().filter_map(|answer| answer.differing.get(key));
            let distinct: BTreeSet<&String> = values().collect();
            let of_weak_quorum =
                |value: &&&String| values().filter(|other| other == *value).count() >= self.quorum.weak();
            let theirs = distinct.iter().find(of_weak_quorum)?;
            Some(Difference::new(key, own.clone(), (*theirs).clone()))
        })
    }

    /// Returns the differences that prevent the client from working.
    pub fn fatal(&self) -> Vec<Difference> {
        self.differences().filter(|difference| difference.key != SLOW_KEY).collect()
    }

    /// Returns the differences that make the client slow.
    pub fn slow(&self) -> Vec<Difference> {
        self.differences().filter(|difference| difference.key == SLOW_KEY).collect()
    }

    /// Returns the maximum frame length, in bytes: at least f+1 replicas, so an honest one, close the link of a client
    /// that sends a longer frame. `None` before f+1 have answered.
    pub fn frame_limit(&self) -> Option<usize> {
        let mut limits: Vec<usize> = self.answers.values().map(|answer| answer.max_frame_bytes).collect();
        limits.sort_unstable();
        limits.get(self.quorum.faults()).copied()
    }
}

/// Returns a warning about the values that make a client slow, with the remedy.
pub(crate) fn warning(slow: &[Difference]) -> Option<String> {
    (!slow.is_empty()).then(|| {
        format!(
            "{}: commands take longer this way; help: set it in client.toml as it is there",
            quorate_types::parameters::list(slow)
        )
    })
}
