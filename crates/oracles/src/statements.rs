//! The two laws: the order in which one replica signs, and the quorums behind what it shows and commits.

use crate::law::{Breach, Law};
use crate::tallies::Tallies;
use crate::view_changes::Carried;
use crate::voices::Voice;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::malleable::{Malleable, Purpose, Role};
use quorate_consensus::pbft::message::PbftMessage;
use quorate_consensus::seam::Envelope;
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::any::Any;

/// Hears what replicas say, and judges those who are trusted.
pub struct Statements {
    protocol: ProtocolKind,
    tallies: Tallies,
    carried: Carried,
    voices: Vec<Voice>,
    /// Whose statements prove nothing.
    untrusted: Signers,
    /// Up to here it is settled what is committed.
    settled: Height,
    /// A block that a replica has committed in this step, which has to be final if no other follows.
    head: Option<(ReplicaId, View, Height, Digest)>,
}

impl Statements {
    /// Nobody has said anything.
    pub fn new(protocol: ProtocolKind, replicas: usize, faults: usize) -> Statements {
        Statements {
            protocol,
            tallies: Tallies::new(protocol, replicas, faults),
            carried: Carried::default(),
            voices: vec![Voice::default(); replicas],
            untrusted: Signers::empty(),
            settled: Height(0),
            head: None,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.tallies.clear();
        self.carried.clear();
        self.voices.fill(Voice::default());
        self.untrusted = Signers::empty();
        (self.settled, self.head) = (Height(0), None);
    }

    /// Judges nothing of what a replica says. Its votes count where they are heard.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.untrusted.insert(replica);
    }

    /// Judges nothing of what a replica says, and takes it to have signed whatever somebody shows in its name.
    pub fn lies(&mut self, replica: ReplicaId) {
        self.distrust(replica);
        self.tallies.free(replica);
    }

    /// A replica has lost its memory, and knows it.
    pub fn forgets(&mut self, replica: ReplicaId) {
        self.voices[replica.index()].forgets();
    }

    /// A replica sends a message, to whomever.
    ///
    /// # Errors
    /// What it must not say, if it is trusted.
    pub fn says<M: Malleable>(&mut self, who: ReplicaId, message: &mut Envelope<M>) -> Result<(), Breach> {
        let trusted = !self.untrusted.contains(who);
        if let Envelope::Protocol(message) = message {
            if let Some((block, _)) = message.proposed() {
                let shown = message.certificates();
                let evidence = shown.iter().find(|(role, _)| *role == Role::Evidence).map(|(_, evidence)| *evidence);
                let allows = |evidence: &&Certificate| allows(self.protocol, block, evidence);
                let allowed = evidence.filter(allows).is_some_and(|evidence| self.tallies.is_timed_out(evidence));
                self.tallies.propose(block, allowed);
            }
            if trusted {
                self.shows(who, message)?;
            }
        }
        let Some(vote) = message.vote_to_sign().filter(|vote| vote.voter == who) else { return Ok(()) };
        let (subject, told) = (vote.subject, vote.attachment.high_view());
        let wrong = match subject.domain {
            Domain::Timeout => {
                let first = self.tallies.gives_up(who, subject.view, told);
                if first && trusted { self.voices[who.index()].gives_up(subject.view, told) } else { None }
            }
            Domain::ViewChange => return self.changes_view(who, subject, message, trusted),
            _ if !self.tallies.vote(who, &subject) || !trusted => None,
            Domain::Checkpoint => None,
            _ => {
                self.is_built_on_quorums(who, &subject)?;
                self.voices[who.index()].votes(&subject, self.protocol, &self.tallies)
            }
        };
        wrong.map_or(Ok(()), |why| Err(self.disorder(who, &subject, &why)))
    }

    fn changes_view<M: Malleable>(
        &mut self,
        who: ReplicaId,
        subject: Subject,
        message: &Envelope<M>,
        trusted: bool,
    ) -> Result<(), Breach> {
        let Envelope::Protocol(message) = message else { return Ok(()) };
        if !self.tallies.vote(who, &subject) || !trusted {
            return Ok(());
        }
        let shown = message.certificates();
        let of = |wanted: Role| shown.iter().filter(move |(role, _)| *role == wanted).map(|(_, shown)| shown.subject);
        let stable = of(Role::Checkpoint).map(|subject| subject.height).max().unwrap_or_default();
        let prepared: Vec<Subject> = of(Role::Prepared).collect();
        let wrong = self.voices[who.index()].changes_view(subject.view, stable, &prepared);
        wrong.map_or(Ok(()), |why| Err(self.disorder(who, &subject, &why)))
    }

    fn disorder(&self, who: ReplicaId, subject: &Subject, why: &str) -> Breach {
        let Subject { domain, view, .. } = subject;
        Breach {
            law: Law::Order,
            what: format!("replica {who} signs a statement of kind {domain:?} in view {view}: {why}"),
        }
    }

    /// The certificates that an honest replica shows.
    fn shows<M: Malleable>(&mut self, who: ReplicaId, message: &M) -> Result<(), Breach> {
        if matches!(message.purpose(), Purpose::Vote | Purpose::Report) {
            return Ok(());
        }
        for (_, certificate) in message.certificates() {
            self.is_genuine(who, certificate)?;
        }
        if self.protocol == ProtocolKind::Pbft
            && let Some(PbftMessage::NewView(new_view)) = (message as &dyn Any).downcast_ref()
        {
            self.carried.opens(who, new_view, &self.tallies)?;
        }
        Ok(())
    }

    fn is_genuine(&mut self, who: ReplicaId, certificate: &Certificate) -> Result<(), Breach> {
        let Subject { domain, view, height, .. } = certificate.subject;
        let genuine = match domain {
            Domain::Timeout => self.tallies.is_timed_out(certificate),
            _ => self.tallies.is_backed(&certificate.subject),
        };
        match genuine {
            true => Ok(()),
            false => {
                let what = format!(
                    "replica {who} shows a certificate of kind {domain:?} in view {view} at height {height} that no quorum of {} has signed",
                    self.tallies.quorum()
                );
                Err(Breach { law: Law::Backing, what })
            }
        }
    }

    /// A vote of a later phase says that the earlier one is through, and a vote in a new view respects what the view carries over.
    fn is_built_on_quorums(&mut self, who: ReplicaId, subject: &Subject) -> Result<(), Breach> {
        let Subject { domain, view, height, digest } = *subject;
        let before = match (self.protocol, domain) {
            (ProtocolKind::Pbft, Domain::Commit) => Some(Domain::Prepare),
            (ProtocolKind::BasicHotStuff, Domain::PreCommit) => Some(Domain::Prepare),
            (ProtocolKind::BasicHotStuff, Domain::Commit) => Some(Domain::PreCommit),
            _ => None,
        };
        if let Some(domain) = before.filter(|domain| !self.tallies.is_backed(&Subject { domain: *domain, ..*subject }))
        {
            let what = format!(
                "replica {who} votes with {:?} in view {view} at height {height} without a quorum of {domain:?}",
                subject.domain
            );
            return Err(Breach { law: Law::Backing, what });
        }
        let base = self.tallies.block(&digest).map(|block| block.base);
        if let Some(base) = base.filter(|base| self.protocol != ProtocolKind::Pbft && !self.tallies.is_backed(base)) {
            let what = format!(
                "replica {who} votes in view {view} for a block on a certificate of view {} that no quorum has signed",
                base.view
            );
            return Err(Breach { law: Law::Backing, what });
        }
        if let (ProtocolKind::Pbft, Domain::Prepare) = (self.protocol, domain)
            && let Some(carried) = self.carried.block(view, height).filter(|carried| *carried != digest)
        {
            let why = format!("the view carries over {carried:?} at slot {height}, and not {digest:?}");
            return Err(self.disorder(who, subject, &why));
        }
        Ok(())
    }

    /// A replica commits a block.
    ///
    /// # Errors
    /// If it is no ancestor of the block that follows in this step, and no quorum made it final.
    pub fn commits(&mut self, who: ReplicaId, block: &Block) -> Result<(), Breach> {
        if block.height <= self.settled || self.untrusted.contains(who) {
            return Ok(());
        }
        self.head = Some((who, block.view, block.height, block.digest()));
        // No slot stands for another.
        if self.protocol == ProtocolKind::Pbft { self.settles() } else { Ok(()) }
    }

    /// A replica's step is over.
    ///
    /// # Errors
    /// If no quorum made the last block final that it committed.
    #[inline]
    pub fn settles(&mut self) -> Result<(), Breach> {
        if self.head.is_none() { Ok(()) } else { self.is_final() }
    }

    /// A replica has stopped in the middle of a step.
    pub fn stops(&mut self) {
        self.head = None;
    }

    fn is_final(&mut self) -> Result<(), Breach> {
        let Some((who, view, height, digest)) = self.head.take() else { return Ok(()) };
        self.settled = height;
        if self.tallies.is_final(&digest) {
            return Ok(());
        }
        let what = format!(
            "replica {who} commits the block of view {view} at height {height}, which no signed votes of {} replicas make final",
            self.tallies.quorum()
        );
        Err(Breach { law: Law::Backing, what })
    }
}

/// Whether evidence lets a block of a two-chain protocol stand on an older certificate: timeouts of the view before, of which none
/// tells of a higher one. Where timeouts carry certificates, what counts is those.
fn allows(protocol: ProtocolKind, block: &Block, evidence: &Certificate) -> bool {
    let whole = |attachment: &&Attachment| {
        protocol != ProtocolKind::FastHotStuff || matches!(attachment, Attachment::HighCertificate(_))
    };
    let highest = evidence.attachments.iter().filter(whole).filter_map(Attachment::high_view).max();
    evidence.subject.domain == Domain::Timeout
        && evidence.view().next() == block.view
        && highest.is_some_and(|highest| block.justify.view() >= highest)
}
