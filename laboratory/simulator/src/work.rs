//! Kinds of charged work, and its place.

use quorate_types::stages::{MessageKind, Stage, StageRole};
use serde::{Deserialize, Serialize};

/// Kinds of charged work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Work {
    /// Waits for the network.
    Turns,
    /// Waits that put the thread to sleep.
    WakeUps,
    Reads,
    Writes,
    /// Messages decoded.
    Received,
    /// Messages encoded.
    Sent,
    ReceivedBytes,
    /// Bytes sent, once per destination.
    SentBytes,
    /// Frames received by a packet transport or a channel.
    ReceivedFrames,
    SentFrames,
    Hashes,
    HashedBytes,
    /// Signatures created, including the clients'.
    Signatures,
    /// Signatures verified, including those in certificates.
    Verifications,
    Steps,
    /// Bundles that steps add to the pool, propose and commit.
    Pooled,
    /// Iterations of a replica's host, besides the wait and all work on messages.
    Rounds,
    /// Messages passed on by a replica's host, besides all other work on them.
    Handled,
    /// Records of the journal.
    Records,
    /// Bundles created by clients or answered by replicas.
    Bundles,
    /// Commands created or executed.
    Commands,
    /// Bytes of executed commands.
    CommandBytes,
    /// Replies that clients handled.
    Replies,
    /// Statuses for clients.
    Statuses,
}

impl Work {
    pub const ALL: [Work; 24] = [
        Work::Turns,
        Work::WakeUps,
        Work::Reads,
        Work::Writes,
        Work::Received,
        Work::Sent,
        Work::ReceivedBytes,
        Work::SentBytes,
        Work::ReceivedFrames,
        Work::SentFrames,
        Work::Hashes,
        Work::HashedBytes,
        Work::Signatures,
        Work::Verifications,
        Work::Steps,
        Work::Pooled,
        Work::Rounds,
        Work::Handled,
        Work::Records,
        Work::Bundles,
        Work::Commands,
        Work::CommandBytes,
        Work::Replies,
        Work::Statuses,
    ];

    /// Returns the stage of a replica's work to which it belongs.
    pub fn stage(self) -> Stage {
        match self {
            Work::Turns | Work::WakeUps => Stage::Wait,
            Work::Reads | Work::ReceivedBytes | Work::ReceivedFrames => Stage::Receive,
            Work::Writes | Work::SentBytes | Work::SentFrames => Stage::Send,
            Work::Received => Stage::Unmarshal,
            Work::Sent => Stage::Marshal,
            Work::Hashes | Work::HashedBytes => Stage::Hash,
            Work::Signatures => Stage::Sign,
            Work::Verifications => Stage::Authenticate,
            Work::Steps | Work::Pooled => Stage::Step,
            Work::Records => Stage::Persist,
            Work::Commands | Work::CommandBytes => Stage::Execute,
            Work::Rounds | Work::Handled | Work::Bundles | Work::Replies | Work::Statuses => Stage::Host,
        }
    }
}

/// Place to which a thread's work is attributed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    pub(crate) role: StageRole,
    pub(crate) message: MessageKind,
    /// Number of messages processed together.
    pub(crate) messages: u64,
    /// Stages that these messages have passed, one bit each.
    pub(crate) seen: u16,
}

impl Default for Place {
    fn default() -> Place {
        Place { role: StageRole::Backup, message: MessageKind::None, messages: 1, seen: 0 }
    }
}
