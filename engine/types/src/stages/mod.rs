//! Cost of each stage of a replica's work, by message and role.
//!
//! A thread that calls [`begin_thread`] is always in one stage of the work on one message: [`enter`] begins a stage and
//! ends it when its guard is dropped, and [`message`] does the same for a message. A nested stage interrupts the outer
//! one, so times are exclusive and add up to the thread's time. One of [`TURNS_PER_SAMPLE`] event-loop iterations is
//! timed, and its times count only if they add up to the thread's CPU time, after subtracting the time of other threads
//! on the same processor. All frames and iterations are counted, and the numbers of messages in other stages are
//! extrapolated.
//!
//! Probes are always compiled in. In an iteration that is not timed, and before [`switch_on`], each costs a load and a
//! branch. Only reports read these figures.

mod counts;
mod probe;

pub use counts::{StageCell, StageCost, StageCounts, Traffic};
pub(crate) use probe::enter_mac;
pub use probe::{
    Entered, Place, add_elsewhere, begin_thread, begin_turn, count, elsewhere, end_turn, enter, here, message, moving,
    name, of_this_thread, received, sent, switch_on, wait,
};

use serde::{Deserialize, Serialize};

/// Sampling interval: one of this many event-loop iterations, chosen at random, is timed.
pub const TURNS_PER_SAMPLE: u64 = 31;

/// Clocks provided by the host.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Name of the cycle counter.
    pub name: &'static str,
    /// Counter that grows at a constant rate, which is the same on all processors.
    pub cycles: fn() -> u64,
    /// CPU time of the calling thread, in nanoseconds.
    pub thread_cpu_ns: fn() -> u64,
}

/// Stage of a replica's work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Stage {
    /// Reading from sockets, and decrypting for a channel.
    Receive,
    Unmarshal,
    /// Verifying signatures and MACs.
    Authenticate,
    /// SHA-256, except within signatures and MACs.
    Hash,
    /// The state machine's step.
    Step,
    /// Journal records, as far as the replica's own thread writes them.
    Persist,
    Execute,
    Marshal,
    /// Creating signatures and MACs.
    Sign,
    /// Writing to sockets, and encrypting for a channel.
    Send,
    /// System calls that wait for events, without the time asleep.
    Wait,
    /// Everything else.
    Host,
}

impl Stage {
    pub const ALL: [Stage; 12] = [
        Stage::Receive,
        Stage::Unmarshal,
        Stage::Authenticate,
        Stage::Hash,
        Stage::Step,
        Stage::Persist,
        Stage::Execute,
        Stage::Marshal,
        Stage::Sign,
        Stage::Send,
        Stage::Wait,
        Stage::Host,
    ];

    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Unmarshal => "unmarshal",
            Stage::Authenticate => "authenticate",
            Stage::Hash => "hash",
            Stage::Step => "step",
            Stage::Persist => "persist",
            Stage::Execute => "execute",
            Stage::Marshal => "marshal",
            Stage::Sign => "sign",
            Stage::Send => "send",
            Stage::Wait => "wait",
            Stage::Host => "host",
        }
    }
}

/// Message kind, as far as costs differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum MessageKind {
    /// Work for no message: timers, waiting, journal writes.
    None,
    /// A client's bundle, up to the execution of its commands.
    Request,
    /// The answer to a bundle.
    Reply,
    /// A client's query or request about the replica, and the answer.
    Question,
    Proposal,
    PrePrepare,
    Prepare,
    Commit,
    /// A vote of a protocol with views.
    Vote,
    Timeout,
    ViewChange,
    NewView,
    /// Certificates alone: an advance, a phase of basic HotStuff.
    Certificate,
    /// The sender's position or executed blocks: STATUS, DECIDED.
    Report,
    Checkpoint,
    /// Bundles between replicas, and messages about them.
    Bundles,
    /// Requests for missing blocks, bundles and states, and the answers.
    Repair,
    /// Invalid frames; and any frame while it is decoded.
    Unread,
}

impl MessageKind {
    pub const ALL: [MessageKind; 18] = [
        MessageKind::None,
        MessageKind::Request,
        MessageKind::Reply,
        MessageKind::Question,
        MessageKind::Proposal,
        MessageKind::PrePrepare,
        MessageKind::Prepare,
        MessageKind::Commit,
        MessageKind::Vote,
        MessageKind::Timeout,
        MessageKind::ViewChange,
        MessageKind::NewView,
        MessageKind::Certificate,
        MessageKind::Report,
        MessageKind::Checkpoint,
        MessageKind::Bundles,
        MessageKind::Repair,
        MessageKind::Unread,
    ];

    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::None => "none",
            MessageKind::Request => "request",
            MessageKind::Reply => "reply",
            MessageKind::Question => "question",
            MessageKind::Proposal => "proposal",
            MessageKind::PrePrepare => "pre-prepare",
            MessageKind::Prepare => "prepare",
            MessageKind::Commit => "commit",
            MessageKind::Vote => "vote",
            MessageKind::Timeout => "timeout",
            MessageKind::ViewChange => "view-change",
            MessageKind::NewView => "new-view",
            MessageKind::Certificate => "certificate",
            MessageKind::Report => "report",
            MessageKind::Checkpoint => "checkpoint",
            MessageKind::Bundles => "bundles",
            MessageKind::Repair => "repair",
            MessageKind::Unread => "unread",
        }
    }
}

/// Role of a replica at the beginning of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum StageRole {
    Leader,
    Backup,
}

impl StageRole {
    pub const ALL: [StageRole; 2] = [StageRole::Leader, StageRole::Backup];

    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            StageRole::Leader => "leader",
            StageRole::Backup => "backup",
        }
    }
}
