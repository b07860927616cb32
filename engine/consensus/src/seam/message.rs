//! Properties of a protocol's messages that the hosts and the shared parts need.

use quorate_types::stages::MessageKind;
use quorate_types::{Block, Bundle, Certificate, View, Vote, Wire};
use std::fmt;
use std::sync::Arc;

/// Purpose of a message, in terms common to all protocols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Proposes a block: a proposal, PRE-PREPARE.
    Proposal,
    /// Counts toward a quorum that forms a certificate or a decision: a vote, PREPARE, COMMIT, CHECKPOINT.
    Vote,
    /// Leaves a view because of a timeout: a timeout, VIEW-CHANGE.
    Timeout,
    /// Delivers certificates only: an advance, the PRE-COMMIT, COMMIT and DECIDE of basic HotStuff, NEW-VIEW.
    Certificate,
    /// Reports the sender's position or executed blocks: STATUS, DECIDED.
    Report,
}

/// Role of a certificate in the message that carries it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Certificate that the message builds on, or the highest known to the sender that a block may extend.
    Base,
    /// Evidence that the view has begun, if the base does not show it.
    Evidence,
    /// Certificate of a phase.
    Phase,
    /// Proof that a block is prepared in a slot.
    Prepared,
    /// Proof of the last stable checkpoint.
    Checkpoint,
}

/// Message set of a protocol.
pub trait Message: Wire + Clone + fmt::Debug + Send + 'static {
    /// Returns the vote that the sender must sign.
    fn vote_to_sign(&mut self) -> Option<&mut Vote>;
    fn purpose(&self) -> Purpose;
    /// Returns the kind of the message with respect to its costs.
    fn kind(&self) -> MessageKind;
    /// Returns the proposed block, and the bundles that travel with it.
    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])>;
    /// Returns the certificates in the message, except those inside statements signed by others.
    fn certificates(&self) -> Vec<(Role, &Certificate)>;
    /// Returns the message's view, or `None` if the message applies to the sender's current view, whichever that is.
    fn view(&self) -> Option<View>;
    /// Returns a one-line description, for transcripts.
    fn describe(&self) -> String;

    fn is_proposal(&self) -> bool {
        self.purpose() == Purpose::Proposal
    }

    /// Returns the bundles in the message.
    fn bundles(&self) -> &[Bundle] {
        self.proposed().map_or(&[], |(_, bundles)| bundles)
    }

    /// Removes bundles from the message, if it may travel without them.
    fn retain_bundles(&mut self, _is_genuine: impl FnMut(&Bundle) -> bool)
    where
        Self: Sized,
    {
    }
}
