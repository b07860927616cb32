//! The switching criterion, and the available remedies.
//!
//! The paper switches from UDP to TCP when the expected replies fall below 2f+1 (section II.C), and names cheaper
//! remedies: repeating the PRE-PREPARE, repeating every message, and adding replicas in pairs (sections II.D and
//! III.C). This module tries each at the smallest amount that raises the expected replies to 2f+1.

use crate::models::channel::{Channel, PAPER_RETRANSMISSIONS, Transport};
use crate::models::committee::Committee;
use crate::models::latency::Percentiles;
use crate::models::question::Question;
use quorate_types::choice;
use serde::{Deserialize, Serialize};

/// Maximum amount of a remedy.
pub const MAX_AMOUNT: u32 = 10;

choice!(
    /// Remedy for loss.
    Kind, "remedy",
    /// Additional copies of the PRE-PREPARE, or of the proposal.
    RepeatPrePrepare = "repeat-pre-prepare",
    /// Additional copies of every message.
    RepeatAll = "repeat-all",
    /// Additional pairs of replicas.
    AddTwoReplicas = "add-two-replicas",
    /// TCP instead of UDP.
    ReliableTransport = "reliable-transport",
);

/// A remedy at the smallest amount that meets the criterion, or at the maximum if none does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Remedy {
    pub remedy: Kind,
    pub amount: u32,
    /// Whether at least 2f+1 replies are expected.
    pub suffices: bool,
    /// Whether it sends the fewest packets among the sufficient remedies.
    pub cheapest: bool,
    pub success_probability: f64,
    pub expected_replies: f64,
    /// Messages of a request without loss, including copies.
    pub messages: f64,
    /// Expected packets of a request, including retransmissions and acknowledgements.
    pub packets: f64,
    /// Time from the proposal until the client has its replies.
    pub latency_ms: Percentiles,
}

impl Kind {
    /// Returns the question with this remedy; `None` if it is not applicable.
    fn applied(self, question: &Question, amount: u32) -> Option<Question> {
        let mut changed = *question;
        let channel = &mut changed.links.channel;
        match self {
            Kind::RepeatPrePrepare => channel.pre_prepare_repeat = channel.pre_prepare_copies() - 1 + amount,
            Kind::RepeatAll => {
                channel.pre_prepare_repeat += amount;
                channel.repeat += amount;
            }
            Kind::AddTwoReplicas => {
                let own = question.committee;
                let more = Committee::new(own.replicas() + 2 * amount as usize, own.faults()).ok()?;
                changed.committee = more.with_silent(own.silent()).ok()?;
            }
            Kind::ReliableTransport => {
                *channel = Channel::tcp(channel.loss, channel.segments, PAPER_RETRANSMISSIONS);
            }
        }
        Some(changed)
    }
}

/// Returns the remedies for datagrams, each at the smallest amount that suffices. None for TCP.
pub fn of(question: &Question) -> Vec<Remedy> {
    if question.links.channel.transport == Transport::Tcp {
        return Vec::new();
    }
    let threshold = question.committee.strong() as f64;
    let mut remedies: Vec<Remedy> = Vec::new();
    for kind in Kind::ALL {
        let most = if *kind == Kind::ReliableTransport { 1 } else { MAX_AMOUNT };
        let tried = (1..=most).filter_map(|amount| Some((amount, kind.applied(question, amount)?)));
        let mut last = None;
        for (amount, changed) in tried {
            let suffices = changed.outcome().expected_replies >= threshold;
            last = Some((amount, changed, suffices));
            if suffices {
                break;
            }
        }
        let Some((amount, changed, suffices)) = last else { continue };
        let outcome = changed.outcome();
        remedies.push(Remedy {
            remedy: *kind,
            amount,
            suffices,
            cheapest: false,
            success_probability: outcome.success,
            expected_replies: outcome.expected_replies,
            messages: outcome.traffic.without_loss,
            packets: outcome.traffic.packets,
            latency_ms: Percentiles::of(&changed.latency().0.reply),
        });
    }
    let sufficing = remedies.iter_mut().filter(|remedy| remedy.suffices);
    if let Some(cheapest) = sufficing.min_by(|a, b| a.packets.total_cmp(&b.packets)) {
        cheapest.cheapest = true;
    }
    remedies
}
