//! Two invariants: the order of a replica's statements, and the quorums behind its certificates and commits.

use crate::oracles::property::{Property, Violation, unbacked};
use crate::oracles::tallies::Tallies;
use crate::oracles::view_changes::Carried;
use crate::oracles::voices::Voice;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::Shape;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::seam::Envelope;
use quorate_consensus::seam::Message;
use quorate_consensus::seam::{Purpose, Role};
use quorate_types::{
    Attachment, Block, Certificate, Digest, Domain, Height, Quorum, ReplicaId, Signers, Subject, View,
};
use std::any::Any;

/// Checker of the statements of all trusted replicas.
pub struct Statements {
    protocol: ProtocolKind,
    tallies: Tallies,
    carried: Carried,
    /// The highest view with a NEW-VIEW.
    opened: View,
    voices: Vec<Voice>,
    /// Replicas with unchecked statements.
    untrusted: Signers,
    /// Highest height with a checked commit.
    settled: Height,
    /// The last block that a replica committed in this step. It must be final by itself, unless another one follows.
    head: Option<(ReplicaId, View, Height, Digest)>,
}

impl Statements {
    pub fn new(protocol: ProtocolKind, replicas: usize, faults: usize) -> Statements {
        Statements {
            protocol,
            tallies: Tallies::new(protocol, replicas, faults),
            carried: match Quorum::with_faults(replicas, faults) {
                Ok(quorum) if protocol.has_slots() && !protocol.facts().shows_votes => Carried::by_claims(quorum),
                _ => Carried::default(),
            },
            opened: View(0),
            voices: vec![Voice::default(); replicas],
            untrusted: Signers::empty(),
            settled: Height(0),
            head: None,
        }
    }

    pub fn clear(&mut self) {
        self.tallies.clear();
        self.carried.clear();
        self.voices.fill(Voice::default());
        self.untrusted = Signers::empty();
        (self.opened, self.settled, self.head) = (View(0), Height(0), None);
    }

    /// Stops checking a replica. Its votes still count.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.untrusted.insert(replica);
    }

    /// Stops checking a replica, and assumes that it signed everything attributed to it.
    pub fn lies(&mut self, replica: ReplicaId) {
        self.distrust(replica);
        self.tallies.add_liar(replica);
    }

    /// Records that a replica has lost its journal and has detected that.
    pub fn forgets(&mut self, replica: ReplicaId) {
        self.voices[replica.index()].on_memory_lost();
    }

    /// Observes a message that a replica sends.
    ///
    /// # Errors
    /// If a trusted replica must not send it.
    pub fn says<M: Message>(&mut self, who: ReplicaId, message: &mut Envelope<M>) -> Result<(), Violation> {
        let trusted = !self.untrusted.contains(who);
        if let Envelope::Protocol(message) = message {
            if self.protocol.has_slots()
                && let Some(PbftMessage::NewView(new_view)) = (message as &dyn Any).downcast_ref()
            {
                self.opened = self.opened.max(new_view.view());
            }
            if let Some((block, _)) = message.proposed() {
                let shown = message.certificates();
                let evidence = shown.iter().find(|(role, _)| *role == Role::Evidence).map(|(_, evidence)| *evidence);
                let allows = |evidence: &&Certificate| allows(self.protocol, block, evidence);
                let allowed = evidence.filter(allows).is_some_and(|evidence| self.tallies.is_timed_out(evidence));
                self.tallies.add_block(block, allowed);
            }
            if trusted {
                self.check_certificates(who, message)?;
            }
        }
        let Some(vote) = message.vote_to_sign().filter(|vote| vote.voter == who) else { return Ok(()) };
        let (subject, reported) = (vote.subject, vote.attachment.high_view());
        let wrong = match subject.domain {
            Domain::Timeout => {
                let first = self.tallies.add_timeout(who, subject.view, reported);
                if first && trusted { self.voices[who.index()].on_timeout(subject.view, reported) } else { None }
            }
            Domain::ViewChange => return self.on_view_change(who, subject, message, trusted),
            // They restrict no other statement.
            Domain::Stored | Domain::Absent => None,
            _ if !self.tallies.add_vote(who, &subject) || !trusted => None,
            Domain::Checkpoint => None,
            _ => {
                self.check_backing(who, &subject)?;
                self.voices[who.index()].on_vote(&subject, self.protocol, &self.tallies)
            }
        };
        wrong.map_or(Ok(()), |why| Err(order_breach(who, &subject, &why)))
    }

    fn on_view_change<M: Message>(
        &mut self,
        who: ReplicaId,
        subject: Subject,
        message: &Envelope<M>,
        trusted: bool,
    ) -> Result<(), Violation> {
        let Envelope::Protocol(message) = message else { return Ok(()) };
        if !self.tallies.add_vote(who, &subject) || !trusted {
            return Ok(());
        }
        let shown = message.certificates();
        let of = |wanted: Role| shown.iter().filter(move |(role, _)| *role == wanted).map(|(_, shown)| shown.subject);
        let stable = of(Role::Checkpoint).map(|subject| subject.height).max().unwrap_or_default();
        let prepared: Vec<Subject> = of(Role::Prepared).collect();
        let (by_claims, opened, tallies) = (self.carried.are_by_claims(), self.opened, &self.tallies);
        let ends = |slot: Height, (view, digest): (View, Digest)| {
            let commit = Subject { domain: Domain::Commit, view, height: slot, digest };
            by_claims && opened > view && !tallies.is_agreed(&commit)
        };
        let wrong = self.voices[who.index()].on_view_change(subject.view, stable, &prepared, ends);
        wrong.map_or(Ok(()), |why| Err(order_breach(who, &subject, &why)))
    }

    /// Checks the certificates that an honest replica sends.
    fn check_certificates<M: Message>(&mut self, who: ReplicaId, message: &M) -> Result<(), Violation> {
        if matches!(message.purpose(), Purpose::Vote | Purpose::Report) {
            return Ok(());
        }
        for (_, certificate) in message.certificates() {
            self.check_genuine(who, certificate)?;
        }
        if self.protocol.has_slots()
            && let Some(PbftMessage::NewView(new_view)) = (message as &dyn Any).downcast_ref()
        {
            self.carried.on_new_view(who, new_view, &self.tallies)?;
        }
        Ok(())
    }

    fn check_genuine(&mut self, who: ReplicaId, certificate: &Certificate) -> Result<(), Violation> {
        let Subject { domain, view, height, .. } = certificate.subject;
        let genuine = match domain {
            Domain::Timeout => self.tallies.is_timed_out(certificate),
            _ => self.tallies.is_backed(&certificate.subject),
        };
        if genuine {
            return Ok(());
        }
        unbacked(format!(
            "replica {who} shows a {domain:?} certificate of view {view}, height {height}, that no quorum of {} signed",
            self.tallies.quorum()
        ))
    }

    /// Checks that a vote of a later phase follows a quorum of the earlier one, and that a vote in a new view respects
    /// the blocks carried over.
    fn check_backing(&mut self, who: ReplicaId, subject: &Subject) -> Result<(), Violation> {
        let Subject { domain, view, height, digest } = *subject;
        let before = match (self.protocol.facts().shape, domain) {
            (Shape::Slots, Domain::Commit) | (Shape::Phases, Domain::PreCommit) => Some(Domain::Prepare),
            (Shape::Phases, Domain::Commit) => Some(Domain::PreCommit),
            _ => None,
        };
        if let Some(domain) = before.filter(|domain| !self.tallies.is_backed(&Subject { domain: *domain, ..*subject }))
        {
            return unbacked(format!(
                "replica {who} votes with {:?} in view {view} at height {height} without a quorum of {domain:?}",
                subject.domain
            ));
        }
        // The leader does not claim that an optimistic proposal's base is certified; only votes for it do.
        let base = self.tallies.block(&digest).map(|block| block.base);
        let base = base.filter(|_| domain != Domain::OptimisticProposal);
        if let Some(base) = base.filter(|base| !self.protocol.has_slots() && !self.tallies.is_backed(base)) {
            return unbacked(format!(
                "replica {who} votes in view {view} for a block on a certificate of view {} that no quorum signed",
                base.view
            ));
        }
        if let (Shape::Slots, Domain::Prepare) = (self.protocol.facts().shape, domain)
            && let Some(carried) = self.carried.block(view, height).filter(|carried| *carried != digest)
        {
            let why = format!("the view carries over {carried:?} at slot {height}, not {digest:?}");
            return Err(order_breach(who, subject, &why));
        }
        Ok(())
    }

    /// Observes that a replica commits a block.
    ///
    /// # Errors
    /// If no quorum made the block final, directly or as an ancestor of another block.
    pub fn commits(&mut self, who: ReplicaId, block: &Block) -> Result<(), Violation> {
        if block.height <= self.settled || self.untrusted.contains(who) {
            return Ok(());
        }
        self.head = Some((who, block.view, block.height, block.digest()));
        // In PBFT, each slot must be final by itself.
        if self.protocol.has_slots() { self.settles() } else { Ok(()) }
    }

    /// Observes the end of a replica's step.
    ///
    /// # Errors
    /// If no quorum made the last committed block final.
    #[inline]
    pub fn settles(&mut self) -> Result<(), Violation> {
        if self.head.is_none() { Ok(()) } else { self.check_final() }
    }

    /// Observes that a replica stopped in the middle of a step.
    pub fn stops(&mut self) {
        self.head = None;
    }

    fn check_final(&mut self) -> Result<(), Violation> {
        let Some((who, view, height, digest)) = self.head.take() else { return Ok(()) };
        self.settled = height;
        if self.tallies.is_final(&digest) {
            return Ok(());
        }
        unbacked(format!(
            "replica {who} commits the block of view {view} at height {height}, \
             but no signed votes of {} replicas make it final",
            self.tallies.quorum()
        ))
    }
}

fn order_breach(who: ReplicaId, subject: &Subject, why: &str) -> Violation {
    let Subject { domain, view, .. } = subject;
    Violation {
        property: Property::Order,
        what: format!("replica {who} signs a {domain:?} statement in view {view}: {why}"),
    }
}

/// Returns whether evidence permits a block of a two-chain protocol to extend an older certificate: timeouts of the
/// previous view that report no higher certificate. In Fast-HotStuff only the certificates in the timeouts count.
fn allows(protocol: ProtocolKind, block: &Block, evidence: &Certificate) -> bool {
    let whole = |attachment: &&Attachment| {
        !protocol.facts().timeouts_carry_certificates || matches!(attachment, Attachment::HighCertificate(_))
    };
    let highest = evidence.attachments.iter().filter(whole).filter_map(Attachment::high_view).max();
    evidence.subject.domain == Domain::Timeout
        && evidence.view().next() == block.view
        && highest.is_some_and(|highest| block.justify.view() >= highest)
}
