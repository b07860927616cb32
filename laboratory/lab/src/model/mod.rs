//! `quorate model`: evaluates the closed forms of [`quorate_simulator::models`]. Runs no replica.

mod page;
mod sweep;
mod table;

pub use page::page;
pub use quorate_simulator::models::Protocol;
pub use sweep::{Sweep, Swept};

use crate::spec::choice;
use clap::Args;
use quorate_operator::report::Report;
use quorate_simulator::models::packets::{DATAGRAM_HEADER_BYTES, ETHERNET_MTU_BYTES, fragments, packet_error_rate};
use quorate_simulator::models::{
    Answer, Bursts, Channel, ClientLink, Committee, Counting, Delay, Links, Question, Shape, Transport,
};
use quorate_types::Fault;
use serde::Serialize;
use std::str::FromStr;

/// Flags of `quorate model`.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// Protocol whose network to describe.
    #[arg(value_name = "PROTOCOL", value_parser = choice::<Protocol>())]
    pub protocol: Protocol,
    #[command(flatten)]
    pub options: ModelOptions,
    /// Answer for each value of one flag, and print a table: `loss=0..0.3/0.01` is from, to and step.
    #[arg(long, value_name = "FLAG=A..B/STEP")]
    pub sweep: Option<Sweep>,
    /// Write a page with plots of the sweep to this file.
    #[arg(long, value_name = "PATH", requires = "sweep")]
    pub report: Option<String>,
    /// Write the answer, or a sweep's answers, as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Assumptions: replicas, links, losses and remedies.
#[derive(Args, Clone, Debug)]
pub struct ModelOptions {
    /// Number of replicas, n.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub replicas: usize,
    /// Tolerated Byzantine replicas, f [default: (n-1)/3].
    #[arg(long, value_name = "F")]
    pub faults: Option<usize>,
    /// Replicas, other than the leader, that send nothing.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub silent: usize,
    /// Equal messages that a phase waits for [default: the smallest integer above (n+f)/2].
    #[arg(long, value_name = "Q")]
    pub quorum: Option<usize>,
    /// Replies that the client waits for: f+1, 2f+1 or a number.
    #[arg(long, value_name = "f+1|2f+1|N", default_value = "2f+1")]
    pub replies: Replies,
    /// Messages that count towards PBFT's phases: as in the paper, or as in quorate's engine, whose primary sends no
    /// PREPARE.
    #[arg(long, default_value = "paper", value_parser = choice::<Counting>())]
    pub counting: Counting,
    /// Probability that a packet is lost.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    pub loss: f64,
    /// Probability of a bit error, which loses the packet; sets the loss.
    #[arg(long, value_name = "FRACTION", conflicts_with_all = ["loss", "pre_prepare_bytes", "burst_packets"])]
    pub bit_error_rate: Option<f64>,
    /// Size of a message in bytes, without headers, for --bit-error-rate.
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    pub message_bytes: u32,
    /// Mean length of loss bursts, in consecutive packets [default: independent losses].
    #[arg(long, value_name = "PACKETS")]
    pub burst_packets: Option<f64>,
    /// Transport between replicas.
    #[arg(long, default_value = "udp", value_parser = choice::<Transport>())]
    pub transport: Transport,
    /// Packets per PRE-PREPARE or proposal.
    #[arg(long, value_name = "U", default_value_t = 1)]
    pub segments: u32,
    /// Size of a PRE-PREPARE or a proposal in bytes; sets the number of packets.
    #[arg(long, value_name = "BYTES", conflicts_with = "segments")]
    pub pre_prepare_bytes: Option<u32>,
    /// Size of a packet including headers, in bytes, for --pre-prepare-bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ETHERNET_MTU_BYTES)]
    pub mtu_bytes: u32,
    /// Maximum TCP retransmissions of a segment.
    #[arg(long, value_name = "M", default_value_t = 12)]
    pub retransmissions: u32,
    /// Additional copies of every message; UDP only.
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub repeat: u32,
    /// Additional copies of a PRE-PREPARE or a proposal; UDP only. With --repeat, the larger number counts.
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub pre_prepare_repeat: u32,
    /// One-way delay of a link in milliseconds: the mean, or with --delay-shape uniform the minimum.
    #[arg(long, value_name = "MS", default_value_t = 40.0)]
    pub delay_ms: f64,
    /// Variation of the delay in milliseconds: the standard deviation, or with --delay-shape uniform the maximum extra
    /// delay.
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub jitter_ms: f64,
    /// Distribution of the delay.
    #[arg(long, default_value = "normal", value_parser = choice::<Shape>())]
    pub delay_shape: Shape,
    /// Minimum difference between TCP's retransmission timeout and the round trip, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 200.0)]
    pub min_rto_ms: f64,
    /// Probability that a reply to the client is lost [default: as between replicas].
    #[arg(long, value_name = "FRACTION")]
    pub client_loss: Option<f64>,
    /// Delay from a replica to the client in milliseconds [default: as between replicas].
    #[arg(long, value_name = "MS")]
    pub client_delay_ms: Option<f64>,
    /// Include the request's path from the client to the leader, over a link like the replies' but without loss.
    #[arg(long)]
    pub with_request: bool,
    /// Timeout after which an uncommitted request needs a view change, in milliseconds [default: the optimum].
    #[arg(long, value_name = "MS")]
    pub timeout_ms: Option<f64>,
}

/// Replies that a client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replies {
    /// f+1: one of them is from an honest replica.
    Weak,
    /// 2f+1.
    Strong,
    Count(usize),
}

impl FromStr for Replies {
    type Err = String;

    fn from_str(text: &str) -> Result<Replies, String> {
        match text {
            "f+1" => Ok(Replies::Weak),
            "2f+1" => Ok(Replies::Strong),
            number => number.parse().map(Replies::Count).map_err(|_| "write f+1, 2f+1 or a number".to_owned()),
        }
    }
}

impl ModelOptions {
    /// Builds the question to the formulas.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn question(&self, protocol: Protocol) -> Result<Question, Fault> {
        let faults = self.faults.unwrap_or(self.replicas.saturating_sub(1) / 3);
        let mut committee = Committee::new(self.replicas, faults)?.with_silent(self.silent)?;
        if let Some(quorum) = self.quorum {
            committee = committee.with_quorum(quorum)?;
        }
        let replies_needed = match self.replies {
            Replies::Weak => committee.weak(),
            Replies::Strong => committee.strong(),
            Replies::Count(count) => count,
        };
        let delay = Delay { shape: self.delay_shape, delay_ms: self.delay_ms, jitter_ms: self.jitter_ms };
        let links = Links { channel: self.channel()?, delay, min_rto_ms: self.min_rto_ms };
        let client = (self.client_loss.is_some() || self.client_delay_ms.is_some()).then(|| ClientLink {
            loss: self.client_loss.unwrap_or_else(|| links.channel.vote().loss()),
            // The variation belongs to the links between replicas.
            delay: match self.client_delay_ms {
                Some(delay_ms) => Delay { delay_ms, jitter_ms: 0.0, shape: Shape::Uniform },
                None => delay,
            },
        });
        let counting = self.counting;
        let timeout_ms = self.timeout_ms;
        let with_request = self.with_request;
        let question =
            Question { protocol, committee, counting, links, client, with_request, replies_needed, timeout_ms };
        question.validate()?;
        Ok(question)
    }

    fn channel(&self) -> Result<Channel, Fault> {
        quorate_simulator::models::chance::probability("--loss", self.loss)?;
        let loss = match self.bit_error_rate {
            None => self.loss,
            Some(rate) => {
                quorate_simulator::models::chance::probability("--bit-error-rate", rate)?;
                packet_error_rate(rate, self.message_bytes.saturating_add(DATAGRAM_HEADER_BYTES))
            }
        };
        let segments = match self.pre_prepare_bytes {
            None => self.segments,
            Some(bytes) => fragments(bytes, self.mtu_bytes, DATAGRAM_HEADER_BYTES)?,
        };
        let bursts = match self.burst_packets {
            None => None,
            Some(_) if self.transport == Transport::Tcp => {
                let help = "leave it out, or use --transport udp";
                return Err(Fault::new("--burst-packets", "TCP's attempts are further apart than a burst", help));
            }
            Some(length) => Some(Bursts::of_mean(loss, length)?),
        };
        Ok(Channel {
            transport: self.transport,
            loss,
            bursts,
            segments,
            retransmissions: self.retransmissions,
            repeat: self.repeat,
            pre_prepare_repeat: self.pre_prepare_repeat,
        })
    }
}

/// Answers to a command: one, or one per value of a sweep.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Answers {
    One(Box<Answer>),
    Swept(Swept),
}

/// Answers the question, or a sweep's questions.
///
/// # Errors
/// The invalid flag, with a remedy.
pub fn answer(arguments: &ModelArgs) -> Result<Answers, Fault> {
    match &arguments.sweep {
        None => Ok(Answers::One(Box::new(arguments.options.question(arguments.protocol)?.answer()))),
        Some(sweep) => Ok(Answers::Swept(sweep.answers(&arguments.options, arguments.protocol)?)),
    }
}

impl Report for Answers {
    /// Formats the answers as a table.
    fn to_table(&self) -> String {
        match self {
            Answers::One(answer) => table::one(answer),
            Answers::Swept(swept) => table::swept(swept),
        }
    }
}
