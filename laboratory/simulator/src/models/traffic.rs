//! Messages of a request.

use crate::models::channel::Channel;
use crate::models::committee::{Committee, Counting};
use crate::models::phases::Phases;

/// Returns the paper's number of messages, (r_pp + 1) n + 2 n^2 + f + 1 (section III.C), which counts messages to
/// oneself and f+1 replies.
///
/// Its overheads of a repeated PRE-PREPARE, 11 %, 9 % and 7.7 % for n = 4, 5 and 6, are n / (n + 2 n^2), which excludes
/// the replies.
pub fn printed(committee: Committee, pre_prepare_repeat: u32) -> u64 {
    let n = committee.replicas() as u64;
    (u64::from(pre_prepare_repeat) + 1) * n + 2 * n * n + committee.weak() as u64
}

/// Messages on the network for one request, including copies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traffic {
    /// Number if no message is lost.
    pub without_loss: f64,
    /// Expected number under loss: a replica that fails a phase sends nothing in the next.
    pub expected: f64,
    /// Expected packets: fragments, and with TCP also retransmissions and acknowledgements.
    pub packets: f64,
}

impl Traffic {
    /// Returns the messages of PBFT.
    ///
    /// The primary sends n-1 PRE-PREPAREs, M+1 replicas send n-1 PREPAREs each (in the engine only the M backups), K
    /// replicas n-1 COMMITs each, and J replicas a reply. Messages to silent replicas count as well.
    pub fn of_pbft(phases: &Phases, channel: &Channel) -> Traffic {
        let committee = phases.committee();
        let others = (committee.replicas() - 1) as f64;
        let of_primary = if phases.counting() == Counting::Paper { 1.0 } else { 0.0 };
        let active = committee.active() as f64;
        let rest =
            |informed: f64, prepared: f64, committed: f64| others * (informed + of_primary + prepared) + committed;
        let mean =
            |weights: &[f64]| -> f64 { weights.iter().enumerate().map(|(count, weight)| count as f64 * weight).sum() };
        let expected = rest(mean(&phases.informed()), mean(&phases.prepared()), mean(&phases.committed()));
        Traffic::of_kinds((others, rest(active - 1.0, active, active)), (others, expected), channel)
    }

    /// Returns the messages, given (proposals, others) without copies, both without loss and as expected.
    pub fn of_kinds(without_loss: (f64, f64), expected: (f64, f64), channel: &Channel) -> Traffic {
        let (first, copies) = (f64::from(channel.pre_prepare_copies()), f64::from(channel.repeat + 1));
        let total = |(proposals, others): (f64, f64)| first * proposals + copies * others;
        let segments = f64::from(channel.segments);
        let packets = channel.packets_per_segment() * (first * expected.0 * segments + copies * expected.1);
        Traffic { without_loss: total(without_loss), expected: total(expected), packets }
    }
}
