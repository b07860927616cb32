//! Success of requests without retries, by the number of replicas that replied.

use super::{Latency, per};
use crate::record::record;
use crate::spec::BenchSpec;
use quorate_client::load::{LoadReport, ReplyCounts};
use serde::{Deserialize, Serialize};

record! {
    /// Replies to the requests of a run of `pbft-phases`, in which a request fails without enough replies within
    /// `view_timeout_ms`. A request is a client's bundle sent in the measured time.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct RequestFigures {
        /// Requests sent in the measured time.
        pub requests: u64 ["requests"],
        /// Number of requests with 0, 1, .. n replies.
        pub by_replies: Vec<u64> ["requests"],
        /// Requests with replies of at least f+1 replicas, which suffice for a client.
        pub answered: u64 ["requests"],
        /// Requests with replies of at least 2f+1 replicas, the success criterion of the loss model paper.
        pub succeeded: u64 ["requests"],
        /// Share of the requests that were answered; null without requests.
        pub answered_probability: Option<f64>,
        /// Share of the requests that succeeded; null without requests.
        pub success_probability: Option<f64>,
        /// Mean number of replies to a request.
        pub expected_replies: Option<f64> ["replies"],
        /// Time from sending a request until 2f+1 replicas have replied, over the successful requests.
        #[serde(default)]
        pub latency_ms: Latency ["ms"],
    }
}

impl RequestFigures {
    /// Returns the figures of a load; `None` if it retried requests.
    pub(crate) fn of(spec: &BenchSpec, load: &LoadReport) -> Option<RequestFigures> {
        let (faults, replies) = (spec.quorum().faults(), load.replies.as_ref());
        replies.filter(|_| spec.fails_slots()).map(|replies| RequestFigures::of_counts(replies, faults))
    }

    /// Returns the figures of requests, given their counts by number of replies and the tolerated faults.
    pub fn of_counts(counts: &ReplyCounts, faults: usize) -> RequestFigures {
        let by_replies = &counts.by_replies;
        let at_least = |least: usize| by_replies.iter().skip(least).sum::<u64>();
        let (requests, answered, succeeded) = (at_least(0), at_least(faults + 1), at_least(2 * faults + 1));
        let replies: u64 = by_replies.iter().zip(0..).map(|(count, replies)| count * replies).sum();
        RequestFigures {
            requests,
            answered,
            succeeded,
            answered_probability: per(answered as f64, requests),
            success_probability: per(succeeded as f64, requests),
            expected_replies: per(replies as f64, requests),
            latency_ms: Latency::of(&counts.success_us),
            by_replies: by_replies.clone(),
        }
    }
}
