//! All results of the formulas for a protocol on a network.

use crate::models::channel::Transport;
use crate::models::committee::Counting;
use crate::models::latency::Percentiles;
use crate::models::question::{Protocol, Question};
use crate::models::remedies::{self, Remedy};
use crate::models::timeouts::{Timeout, Timeouts};
use crate::models::traffic;
use serde::{Deserialize, Serialize};

impl Question {
    /// Evaluates all formulas. PBFT takes O(n^2) for success, and O(points^2) for each of about a hundred numbers of
    /// early replicas for the latency; other protocols take less.
    pub fn answer(&self) -> Answer {
        let outcome = self.outcome();
        let (latency, times) = self.latency();
        let timeouts = Timeouts::new(latency.quorum.clone(), self.committee, &times);
        let best = timeouts.best();
        let channel = &self.links.channel;
        let threshold = self.committee.strong();
        let pbft = self.protocol == Protocol::Pbft;
        Answer {
            protocol: self.protocol,
            replicas: self.committee.replicas(),
            faults: self.committee.faults(),
            silent: self.committee.silent(),
            quorum: self.committee.quorum(),
            replies_needed: self.replies_needed,
            counting: pbft.then_some(self.counting),
            loss: channel.loss,
            message_loss: channel.vote().loss(),
            pre_prepare_loss: channel.pre_prepare().loss(),
            success_probability: outcome.success,
            agreement_probability: outcome.agreement,
            expected_replies: outcome.expected_replies,
            mean_replies: outcome.mean_replies,
            expected_replies_lower_bound: outcome.lower_bound,
            switching_threshold: threshold,
            remedy_needed: outcome.expected_replies < threshold as f64,
            retransmissions_needed: channel.retransmissions_bound(self.committee).filter(|_| pbft),
            repetitions_needed: self.repetitions_needed(),
            messages: MessageCounts {
                printed: pbft.then(|| traffic::printed(self.committee, channel.pre_prepare_copies() - 1)),
                without_loss: outcome.traffic.without_loss,
                expected: outcome.traffic.expected,
                packets: outcome.traffic.packets,
            },
            latency_ms: Percentiles::of(&latency.reply),
            commit_latency_ms: Percentiles::of(&latency.commit),
            quorum_latency_ms: Percentiles::of(&latency.quorum),
            first_timeout_ms: (channel.transport == Transport::Tcp).then(|| self.links.timeout_ms()),
            view_change: self.timeout_ms.map(|timeout| timeouts.of(timeout)).or(best),
            best_timeout_ms: best.map(|best| best.timeout_ms),
            remedies: remedies::of(self),
        }
    }
}

/// Results of the formulas. Probabilities are between 0 and 1, times in ms.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    pub protocol: Protocol,
    pub replicas: usize,
    pub faults: usize,
    pub silent: usize,
    pub quorum: usize,
    pub replies_needed: usize,
    /// Counting of PBFT's messages.
    pub counting: Option<Counting>,
    /// Loss of a packet.
    pub loss: f64,
    /// Loss of a vote or a reply, after all copies or retransmissions.
    pub message_loss: f64,
    /// Loss of a PRE-PREPARE, or of a proposal.
    pub pre_prepare_loss: f64,
    /// Probability that the client receives the replies that it needs, without a view change.
    pub success_probability: f64,
    /// Probability that a quorum commits; PBFT only.
    pub agreement_probability: Option<f64>,
    /// Expected replies, counting only requests that a quorum commits and 0 for the others.
    pub expected_replies: f64,
    /// Expected replies over all requests, including those that fewer replicas than a quorum commit, as a client counts
    /// them; PBFT only.
    pub mean_replies: Option<f64>,
    /// Lower bound by equation 2; PBFT only.
    pub expected_replies_lower_bound: Option<f64>,
    /// 2f+1: with fewer expected replies, the paper switches to TCP.
    pub switching_threshold: usize,
    pub remedy_needed: bool,
    /// Upper bound by equation 7; PBFT only. `None` if no number suffices.
    pub retransmissions_needed: Option<u32>,
    /// Minimum number of additional copies, or of retransmissions, that reaches the threshold.
    pub repetitions_needed: Option<u32>,
    pub messages: MessageCounts,
    /// Time from the proposal, or from the request if it is included, until the client has its replies.
    pub latency_ms: Percentiles,
    /// Time from the proposal to the commit of a replica.
    pub commit_latency_ms: Percentiles,
    /// Time from the proposal until a quorum has committed.
    pub quorum_latency_ms: Percentiles,
    /// First retransmission timeout of TCP.
    pub first_timeout_ms: Option<f64>,
    /// Effect of the given timeout, or else of the best one; `None` if nothing ever commits.
    pub view_change: Option<Timeout>,
    /// Timeout with the highest throughput of one request at a time.
    pub best_timeout_ms: Option<f64>,
    pub remedies: Vec<Remedy>,
}

/// Messages of one request.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MessageCounts {
    /// The paper's formula, which includes messages to oneself; PBFT only.
    pub printed: Option<u64>,
    pub without_loss: f64,
    pub expected: f64,
    /// Expected packets: fragments, retransmissions and acknowledgements.
    pub packets: f64,
}
