//! A protocol on a network, as a question to the formulas.

use crate::models::chance::Chance;
use crate::models::channel::{Channel, MAX_REPETITIONS, Transport};
use crate::models::committee::{Committee, Counting};
use crate::models::delay::{Delay, Links, Times, milliseconds};
use crate::models::latency::{self, Latency};
use crate::models::phases::{Messages, Phases};
use crate::models::star::Star;
use crate::models::traffic::Traffic;
use quorate_types::{Fault, choice};

choice!(
    /// Protocol described by the formulas.
    Protocol, "protocol",
    /// PBFT's three phases, all to all.
    Pbft = "pbft",
    /// Chained HotStuff.
    HotStuff = "hotstuff",
    /// Basic HotStuff.
    BasicHotStuff = "basic-hotstuff",
    /// Jolteon, the two-chain.
    Jolteon = "jolteon",
);

impl Protocol {
    /// Returns the shape of a protocol whose leader collects votes; `None` for PBFT.
    fn star(self) -> Option<Star> {
        match self {
            Protocol::Pbft => None,
            Protocol::HotStuff => Some(Star::Chained { views: 3 }),
            Protocol::BasicHotStuff => Some(Star::Basic),
            Protocol::Jolteon => Some(Star::Chained { views: 2 }),
        }
    }

    /// Returns the number of consecutive messages from the proposal to the client's reply.
    fn hops(self) -> usize {
        const PBFT_HOPS: usize = 4;
        self.star().map_or(PBFT_HOPS, Star::hops)
    }
}

/// Links from the replicas to the client, if they differ from the links between replicas. Replies are not repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClientLink {
    /// Probability that a reply is lost.
    pub loss: f64,
    pub delay: Delay,
}

/// Question to the formulas.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question {
    pub protocol: Protocol,
    pub committee: Committee,
    /// Counting of PBFT's messages.
    pub counting: Counting,
    pub links: Links,
    pub client: Option<ClientLink>,
    /// Whether the client's latency includes the request's path to the leader, over a link with the same delay as the
    /// replies' but without loss.
    pub with_request: bool,
    /// Replies for which the client waits.
    pub replies_needed: usize,
    /// Timeout after which an uncommitted request needs a view change, in ms; `None` for the best one.
    pub timeout_ms: Option<f64>,
}

/// Success of a request and its messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Outcome {
    pub success: f64,
    pub expected_replies: f64,
    pub mean_replies: Option<f64>,
    pub agreement: Option<f64>,
    pub lower_bound: Option<f64>,
    pub traffic: Traffic,
}

impl Question {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The flag that is out of range, and its valid range.
    pub fn validate(&self) -> Result<(), Fault> {
        self.links.validate()?;
        if let Some(client) = self.client {
            crate::models::chance::probability("--client-loss", client.loss)?;
            milliseconds("--client-delay-ms", client.delay.delay_ms, 0.0)?;
        }
        if let Some(timeout) = self.timeout_ms {
            milliseconds("--timeout-ms", timeout, crate::models::delay::MIN_DELAY_MS)?;
        }
        let replicas = self.committee.replicas();
        match (1..=replicas).contains(&self.replies_needed) {
            true => Ok(()),
            false => {
                let what = format!("{} of {replicas} replicas cannot reply", self.replies_needed);
                Err(Fault::new("--replies", what, format!("set it between 1 and {replicas}")))
            }
        }
    }

    fn messages(&self, channel: &Channel) -> Messages {
        let reply = self.client.map(|client| Chance::of_loss(client.loss));
        let messages = channel.messages();
        Messages { reply: reply.unwrap_or(messages.reply), ..messages }
    }

    /// Returns the success, whose computation is far faster than the latency's.
    pub(crate) fn outcome(&self) -> Outcome {
        let channel = self.links.channel;
        let messages = self.messages(&channel);
        match self.protocol.star() {
            None => {
                let phases = Phases::new(self.committee, self.counting, messages);
                Outcome {
                    success: phases.replies_at_least(self.replies_needed),
                    expected_replies: phases.expected_replies(),
                    mean_replies: Some(phases.mean_replies()),
                    agreement: Some(phases.committed_at_least(self.committee.quorum())),
                    lower_bound: Some(phases.lower_bound()),
                    traffic: Traffic::of_pbft(&phases, &channel),
                }
            }
            Some(star) => {
                let own = star.outcome(self.committee, messages, self.replies_needed);
                Outcome {
                    success: own.success,
                    expected_replies: own.expected_replies,
                    mean_replies: None,
                    agreement: None,
                    lower_bound: None,
                    traffic: Traffic::of_kinds(own.messages, own.expected_messages, &channel),
                }
            }
        }
    }

    /// Returns the latency, and the distributions of the messages behind it.
    pub fn latency(&self) -> (Latency, Times) {
        let points = latency::points(&self.links);
        let to_client = self.client.map_or(self.links.delay, |client| client.delay);
        let extra_hops = f64::from(u8::from(self.client.is_some()) + u8::from(self.with_request));
        let extra = extra_hops * to_client.longest_ms();
        let grid = self.links.grid_with(self.protocol.hops(), extra, points);
        let mut times = self.links.times(grid);
        if let Some(client) = self.client {
            times.reply = client.delay.distribution(grid).scaled(1.0 - client.loss);
        }
        let mut latency = match self.protocol.star() {
            Some(star) => star.latency(self.committee, &times, self.replies_needed),
            None => {
                let messages = self.messages(&self.links.channel);
                let phases = Phases::new(self.committee, self.counting, messages);
                latency::of_pbft(&phases, &self.links, &times, self.replies_needed)
            }
        };
        if self.with_request {
            latency.reply = to_client.distribution(grid).then(&latency.reply);
        }
        (latency, times)
    }

    /// Returns the minimum number of additional copies of every message (over TCP, of retransmissions) for which 2f+1
    /// replies are expected. `None` if [`MAX_REPETITIONS`] do not suffice.
    pub(crate) fn repetitions_needed(&self) -> Option<u32> {
        let suffices = |number: u32| {
            let mut changed = *self;
            match changed.links.channel.transport {
                Transport::Udp => {
                    changed.links.channel.repeat = number;
                    changed.links.channel.pre_prepare_repeat = 0;
                }
                Transport::Tcp => changed.links.channel.retransmissions = number,
            }
            changed.outcome().expected_replies >= self.committee.strong() as f64
        };
        crate::models::channel::least(MAX_REPETITIONS, suffices)
    }
}
