//! What every protocol with views does: it moves the view, proposes, votes for proposals, gives views up, and lets those who fell
//! behind catch up.

use super::message::{FromView, Proposal, Timeout, ViewMessage};
use super::{Candidate, Family, begins, builds_on};
use crate::batching::{Batching, Decision, Situation};
use crate::config::{Config, Dissemination, LeaderKind};
use crate::pacemaker::Alarm;
use crate::replica::{Admission, Event, Outbox, Parts, Protocol};
use crate::safety::timeout_subject;
use crate::seam::{Drop, Evidence, Mark, Timer, To};
use crate::store::Taken;
use quorate_types::{Attachment, Block, Certificate, ClusterId, Domain, ReplicaId, Subject, Time, View, Vote};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// How far ahead of one's own view votes are counted: enough for a replica that waits for a block while the others go on.
const MAX_VIEW_GAP: u64 = 128;
/// Views in which a leader's second proposal is still recognised.
const REMEMBERED_PROPOSALS: usize = 256;
/// Most pending bundles that a backup relays to its leader at a time.
const MAX_RELAYED_BUNDLES: usize = 256;

/// Where a replica stands: its view, what it builds on, what was proposed to it.
pub struct Views<F: Family> {
    /// The highest certificate that one may build on.
    high: Certificate,
    /// The certificate by which the current view began, if it is not `high`.
    evidence: Option<Certificate>,
    /// Proposals for the current view that have not been decided on, at most one of each author.
    candidates: Vec<Proposal>,
    /// The timeout message of the current view, as it was cast.
    given_up: Option<Timeout>,
    batching: Batching,
    ready_since: Option<Time>,
    /// Whether somebody gave the current view up. It may lack a commit by a certificate that is no longer the highest, and that
    /// nobody with nothing to order would ever show it: further blocks bring it.
    urged: bool,
    /// Whether this replica alone knows the certificate that committed commands.
    unannounced: bool,
    /// The endorsements of recent proposals, by which a second one of the same leader is found out.
    proposals: VecDeque<Vote>,
    family: PhantomData<F>,
}

impl<F: Family> Views<F> {
    fn new(config: &Config, genesis: Certificate) -> Self {
        Views {
            high: genesis,
            evidence: None,
            candidates: Vec::new(),
            given_up: None,
            batching: Batching::new(config),
            ready_since: None,
            urged: false,
            unannounced: false,
            proposals: VecDeque::new(),
            family: PhantomData,
        }
    }

    /// The highest certificate that one may build on.
    pub fn high(&self) -> &Certificate {
        &self.high
    }

    /// A higher certificate that one may build on. What it replaces may be what began the view.
    pub fn raise(&mut self, certificate: Certificate) {
        assert!(certificate.view() > self.high.view() && builds_on::<F>(&certificate), "a higher one is higher");
        let replaced = std::mem::replace(&mut self.high, certificate);
        self.evidence.get_or_insert(replaced);
    }

    /// Commits a block and its ancestors, unless that was done before; true if commands were committed by it.
    pub fn commit(&mut self, block: &Block, parts: &mut Parts, out: &mut Outbox<F::Message>) -> bool {
        if block.height <= parts.store.committed() {
            return false;
        }
        let open = parts.store.tree.open_payloads();
        match out.commit(parts, &block.digest()) {
            true => parts.pacemaker.progressed(),
            false => out.mark(Mark::Conflict { height: block.height }),
        }
        parts.store.tree.open_payloads() < open
    }

    /// The certificate that committed commands is to be shown to the others, if no proposal is about to carry it.
    pub fn to_announce(&mut self) {
        self.unannounced = true;
    }

    /// The leader of the current view, as far as it can be told.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        let view = parts.pacemaker.view();
        // What is prepared in this view tells by itself who leads it. A certificate of a later view tells that this one is over.
        if self.high.view() >= view {
            let current = |_: &&Arc<Block>| self.high.view() == view;
            return parts.store.tree.get(&self.high.subject.digest).filter(current).map(|block| block.author);
        }
        let justify = F::extends(&self.high, self.evidence.as_ref());
        let basis = F::basis(view, justify, self.evidence.as_ref());
        (view > basis.view).then(|| parts.leaders.leader(view, &basis, &parts.store.tree)).flatten()
    }

    fn admit_proposal(&self, parts: &Parts, from: ReplicaId, proposal: &Proposal) -> Admission {
        let block = &proposal.block;
        if block.author != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let fits = proposal.is_well_formed(from) && builds_on::<F>(&block.justify);
        if !fits || block.payload.len() > parts.config.batch {
            return Admission::Drop(Drop::Malformed);
        }
        if block.height <= parts.store.committed() && from != parts.me {
            return Admission::Drop(Drop::Stale);
        }
        if !begins::<F>(block.view, &block.justify, proposal.evidence.as_ref()) {
            return Admission::Drop(Drop::ViewNotJustified);
        }
        Admission::Check(self.claims(&block.justify, proposal.evidence.as_ref()))
    }

    fn admit_vote(&self, family: &F, parts: &Parts, from: ReplicaId, vote: &Vote) -> Admission {
        if vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        if vote.attachment.high_view().is_some() {
            return Admission::Drop(Drop::Malformed);
        }
        if let Err(why) = family.admit_vote(self, parts, &vote.subject) {
            return Admission::Drop(why);
        }
        if vote.subject.view.0 > parts.pacemaker.view().0 + MAX_VIEW_GAP {
            return Admission::Drop(Drop::TooFarAhead);
        }
        Admission::Tally(vote.clone())
    }

    fn admit_timeout(&self, from: ReplicaId, timeout: &Timeout) -> Admission {
        let Timeout { vote, high, evidence } = timeout;
        if vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let says_the_same = match &vote.attachment {
            Attachment::HighCertificate(attached) => F::TIMEOUTS_CARRY_CERTIFICATES && **attached == *high,
            Attachment::HighView(view) => !F::TIMEOUTS_CARRY_CERTIFICATES && *view == high.view(),
            Attachment::None => false,
        };
        let fits = vote.subject == timeout_subject(vote.subject.view) && builds_on::<F>(high);
        if !fits || !says_the_same {
            return Admission::Drop(Drop::Malformed);
        }
        if !begins::<F>(vote.subject.view, high, evidence.as_ref()) {
            return Admission::Drop(Drop::ViewNotJustified);
        }
        Admission::Check(self.claims(high, evidence.as_ref()))
    }

    /// The certificates of a message that are not known to be genuine.
    pub fn claims(&self, high: &Certificate, evidence: Option<&Certificate>) -> Vec<Certificate> {
        let mut claims = Vec::new();
        if *high != self.high {
            claims.push(high.clone());
        }
        if let Some(evidence) =
            evidence.filter(|evidence| self.evidence.as_ref() != Some(evidence) && **evidence != self.high)
        {
            // Of an aggregate only the highest certificate is checked (Fast-HotStuff, section 5: the others do not matter).
            claims.extend(evidence.highest_attached_certificate().cloned());
            claims.push(evidence.clone());
        }
        claims
    }

    /// Whether the author has not proposed in that view before; a different proposal is looked into.
    fn is_first(&mut self, proposal: &Proposal, out: &mut Outbox<F::Message>) -> bool {
        let endorsement = &proposal.endorsement;
        let same_slot =
            |earlier: &&Vote| earlier.voter == endorsement.voter && earlier.subject.view == endorsement.subject.view;
        if let Some(earlier) = self.proposals.iter().rev().find(same_slot) {
            if earlier.subject != endorsement.subject {
                out.suspect(Evidence { first: earlier.clone(), second: endorsement.clone() });
            }
            return false;
        }
        if self.proposals.len() == REMEMBERED_PROPOSALS {
            self.proposals.pop_front();
        }
        self.proposals.push_back(endorsement.clone());
        true
    }

    fn enter(
        &mut self,
        now: Time,
        view: View,
        evidence: Option<Certificate>,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let certified = evidence.as_ref().is_none_or(|evidence| evidence.subject.domain != Domain::Timeout);
        parts.pacemaker.enter(now, view, certified);
        parts.tally.forget_before(View(view.0 - 1));
        self.evidence = evidence;
        self.candidates.clear();
        self.given_up = None;
        self.urged = false;
        self.ready_since = None;
        out.mark(Mark::EnteredView { view, leader: self.leader(parts) });
        self.work(now, parts, out);
        if parts.pacemaker.is_working() {
            out.arm(Timer::View, parts.pacemaker.duration() / 2);
        }
    }

    /// Looks whether there is something to order, and starts the clock of the view if there newly is.
    fn watch(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let working = parts.store.pool.pending_commands() > 0 || parts.store.tree.open_payloads() > 0 || self.urged;
        if parts.pacemaker.working(now, working) {
            out.arm(Timer::View, parts.pacemaker.duration() / 2);
        }
    }

    /// Proposes if it is this replica's turn and there is enough to propose.
    fn work(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        self.watch(now, parts, out);
        let view = parts.pacemaker.view();
        if parts.safety.proposed().max(parts.safety.timed_out()) >= view || self.leader(parts) != Some(parts.me) {
            return;
        }
        let situation = Situation {
            pending: parts.store.pool.pending_commands(),
            uncommitted: parts.store.tree.open_payloads() > 0 || self.urged,
            ready_since: *self.ready_since.get_or_insert(now),
            view: parts.pacemaker.smoothed(),
        };
        match self.batching.decide(now, situation) {
            Decision::Propose => self.propose(now, parts, out),
            Decision::Wait(time) => {
                out.arm(Timer::Batch, time);
                self.announce(out);
            }
            Decision::Rest => {
                self.ready_since = None;
                self.announce(out);
            }
        }
    }

    /// Shows the others the certificate that committed commands, when no proposal is about to carry it.
    fn announce(&mut self, out: &mut Outbox<F::Message>) {
        if std::mem::take(&mut self.unannounced) {
            let advance = ViewMessage::Advance { high: Box::new(self.high.clone()), evidence: None };
            out.send(To::Others, advance.into());
        }
    }

    /// Shows a replica that fell behind how the current view began.
    fn show(&self, to: ReplicaId, out: &mut Outbox<F::Message>) {
        let evidence = self.evidence.clone().map(Box::new);
        out.send(To::One(to), ViewMessage::Advance { high: Box::new(self.high.clone()), evidence }.into());
    }

    fn propose(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let view = parts.pacemaker.view();
        let justify = F::extends(&self.high, self.evidence.as_ref()).clone();
        // Behind the commit there is nothing to extend, and on top of a block that is not here nothing can be proposed yet.
        let behind = justify.subject.height < parts.store.committed() || justify.view() >= view;
        if behind || !parts.store.tree.contains(&justify.subject.digest) {
            return;
        }
        let evidence = self.evidence.clone().filter(|_| !begins::<F>(view, &justify, None));
        parts.store.follow(justify.subject.digest);
        let before = parts.store.pool.pending_commands();
        let payload = parts.store.pool.select(parts.config.batch, parts.config.batch_bytes);
        let bundles = match parts.config.dissemination {
            Dissemination::Client => Vec::new(),
            Dissemination::Leader => {
                payload.iter().filter_map(|digest| parts.store.pool.get(digest).cloned()).collect()
            }
        };
        let block = Arc::new(Block::new(view, parts.me, justify, payload));
        let ballot = parts.safety.propose(&block).expect("a leader proposes once a view");
        self.unannounced = false;
        out.offer(now, parts, block.clone(), parts.me);
        let pending = parts.store.pool.pending_commands();
        self.batching.proposed(now, pending);
        out.mark(Mark::Proposed { view, height: block.height, commands: before - pending });
        out.cast(parts, &ballot, To::All, |endorsement| {
            ViewMessage::Proposal(Box::new(Proposal { block, evidence, endorsement, bundles })).into()
        });
    }

    fn try_vote(&mut self, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let decidable = |candidate: &Proposal| parts.store.tree.get(&candidate.block.digest()).is_some();
        while let Some(at) = self.candidates.iter().position(decidable) {
            let proposal = self.candidates.swap_remove(at);
            let (block, tree) = (&proposal.block, &parts.store.tree);
            if self.leads(&proposal, parts) != Some(true) {
                out.drop_message(block.author, Drop::NotTheLeader);
                continue;
            }
            let candidate = Candidate { block, evidence: proposal.evidence.as_ref(), lock: parts.safety.lock() };
            if let Err(rule) = F::may_vote(candidate, tree) {
                out.mark(Mark::Refused { view: block.view, rule });
                continue;
            }
            let collector = F::collector(block, parts);
            if let Some(ballot) = parts.safety.vote_in(F::VOTES, block) {
                out.cast(parts, &ballot, To::One(collector), |vote| ViewMessage::Vote(vote).into());
            }
        }
    }

    /// Whether the proposer leads the view of its block, on the basis that the proposal itself shows: the votes of the view
    /// before, or, after a timeout, the certificate that it builds on. That one must be as high as the timeouts know, lest a
    /// faulty replica choose an old one under which it would lead.
    /// None if the block that says so is not here yet.
    fn leads(&self, proposal: &Proposal, parts: &Parts) -> Option<bool> {
        let block = &proposal.block;
        let justify = &block.justify;
        let basis = F::basis(block.view, justify, proposal.evidence.as_ref());
        let timeouts = proposal.evidence.as_ref().and_then(Certificate::highest_attached_view);
        let fresh = justify.view() >= timeouts.unwrap_or(View(0)) || parts.config.leader == LeaderKind::RoundRobin;
        let leader = parts.leaders.leader(block.view, &basis, &parts.store.tree)?;
        Some(fresh && leader == block.author)
    }

    fn give_up(&mut self, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let view = parts.pacemaker.view();
        match &self.given_up {
            Some(timeout) => out.recast(To::All, ViewMessage::Timeout(Box::new(timeout.clone())).into()),
            None => {
                let Some(ballot) = parts.safety.give_up(view, &self.high, F::TIMEOUTS_CARRY_CERTIFICATES) else {
                    return;
                };
                parts.pacemaker.gave_up();
                out.mark(Mark::TimedOut(view));
                let (high, evidence) = (self.high.clone(), self.evidence.clone());
                let timeout = Timeout { vote: ballot.to_vote(parts.me), high, evidence };
                self.given_up = Some(timeout.clone());
                let wrap = |vote| ViewMessage::Timeout(Box::new(Timeout { vote, ..timeout })).into();
                out.cast(parts, &ballot, To::All, wrap);
            }
        }
        out.arm(Timer::View, parts.pacemaker.retransmission());
    }

    fn on_view_alarm(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        self.watch(now, parts, out);
        if self.given_up.is_some() {
            return self.give_up(parts, out);
        }
        match parts.pacemaker.ring(now) {
            Alarm::Idle => {}
            Alarm::Later(time) => out.arm(Timer::View, time),
            Alarm::GiveUp => self.give_up(parts, out),
            Alarm::Remind(time) => {
                out.arm(Timer::View, time);
                if let Some(leader) = self.leader(parts).filter(|leader| *leader != parts.me) {
                    out.relay(leader, parts.store.pool.oldest_pending(MAX_RELAYED_BUNDLES));
                }
            }
        }
    }
}

/// A protocol with views by its family.
pub struct ViewEngine<F: Family> {
    views: Views<F>,
    family: F,
}

impl<F: Family> ViewEngine<F> {
    /// At genesis.
    pub fn new(config: &Config, cluster: &ClusterId) -> Self {
        let genesis = Certificate::genesis(cluster);
        ViewEngine { family: F::new(&genesis), views: Views::new(config, genesis) }
    }

    /// The highest certificate that one may build on.
    pub fn high(&self) -> &Certificate {
        self.views.high()
    }

    /// The leader of the current view, as far as it can be told.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        self.views.leader(parts)
    }

    fn on_proposal(
        &mut self,
        now: Time,
        from: ReplicaId,
        proposal: Box<Proposal>,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let block = proposal.block.clone();
        self.learn_from(now, from, block.justify.clone(), proposal.evidence.clone(), parts, out);
        // Only the first block of a view's leader enters unasked, so that nobody can fill the tree; any other that turns out to be
        // certified is fetched by its digest.
        let leads = self.views.leads(&proposal, parts);
        let first = leads != Some(false) && self.views.is_first(&proposal, out);
        if !first && !parts.store.wants_block(&block.digest()) {
            let why = if leads == Some(false) { Drop::NotTheLeader } else { Drop::Repeated };
            return out.drop_message(from, why);
        }
        for bundle in &proposal.bundles {
            out.supply(parts, bundle.clone());
        }
        if out.offer(now, parts, block.clone(), from) == Taken::Overload {
            return out.drop_message(from, Drop::Overload);
        }
        if first && block.view == parts.pacemaker.view() {
            self.views.candidates.push(*proposal);
            self.views.try_vote(parts, out);
        }
        self.views.watch(now, parts, out);
    }

    fn on_timeout_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        timeout: Timeout,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let (view, high) = (timeout.vote.subject.view, timeout.high.view());
        self.learn_from(now, from, timeout.high, timeout.evidence, parts, out);
        let over = view < parts.pacemaker.view();
        if from != parts.me && (over || high < self.views.high.view()) {
            self.views.show(from, out);
        }
        if over {
            return;
        }
        out.count(timeout.vote);
        self.views.urged = true;
        self.views.work(now, parts, out);
        let voters = parts.tally.voters_with(Domain::Timeout, view, from);
        if view == parts.pacemaker.view() && voters >= parts.quorum.weak() && self.views.given_up.is_none() {
            self.views.give_up(parts, out);
        }
    }

    /// Takes in what a peer has shown; what is learnt from a peer needs no announcing.
    fn learn_from(
        &mut self,
        now: Time,
        from: ReplicaId,
        high: Certificate,
        evidence: Option<Certificate>,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let unannounced = self.views.unannounced;
        self.learn(now, high, from, parts, out);
        if let Some(evidence) = evidence {
            self.learn(now, evidence, from, parts, out);
        }
        self.views.unannounced = unannounced;
    }

    /// Takes in a genuine certificate: the family remembers, locks and commits what it says; if it ends its view it begins the next.
    fn learn(
        &mut self,
        now: Time,
        certificate: Certificate,
        from: ReplicaId,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        if let Some(attached) = certificate.highest_attached_certificate().cloned() {
            self.learn(now, attached, from, parts, out);
        }
        let Subject { domain, view, .. } = certificate.subject;
        if domain != Domain::Timeout {
            self.family.learn(now, &certificate, from, &mut self.views, parts, out);
        }
        if view >= parts.pacemaker.view() && (domain == F::ENDS_VIEW || domain == Domain::Timeout) {
            let is_high = certificate.subject == self.views.high.subject;
            self.views.enter(now, view.next(), (!is_high).then_some(certificate), parts, out);
        }
    }

    fn on_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: ViewMessage,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        match message {
            ViewMessage::Proposal(proposal) => self.on_proposal(now, from, proposal, parts, out),
            ViewMessage::Timeout(timeout) => self.on_timeout_message(now, from, *timeout, parts, out),
            ViewMessage::Advance { high, evidence } => {
                self.learn_from(now, from, *high, evidence.map(|evidence| *evidence), parts, out);
                self.views.watch(now, parts, out);
            }
            ViewMessage::Vote(_) => unreachable!("votes are admitted to the tally"),
        }
    }
}

impl<F: Family> Protocol for ViewEngine<F> {
    type Message = F::Message;

    fn admit(&self, parts: &Parts, from: ReplicaId, message: &F::Message) -> Admission {
        match message.as_view() {
            Some(ViewMessage::Proposal(proposal)) => self.views.admit_proposal(parts, from, proposal),
            Some(ViewMessage::Vote(vote)) => self.views.admit_vote(&self.family, parts, from, vote),
            Some(ViewMessage::Timeout(timeout)) => self.views.admit_timeout(from, timeout),
            Some(ViewMessage::Advance { high, evidence }) => {
                Admission::Check(self.views.claims(high, evidence.as_deref()))
            }
            None => self.family.admit(&self.views, parts, from, message),
        }
    }

    fn handle(&mut self, now: Time, event: Event<F::Message>, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        match event {
            Event::Start => self.views.enter(now, View(1), None, parts, out),
            Event::Message { from, message } => match message.into_view() {
                Ok(message) => self.on_message(now, from, message, parts, out),
                Err(message) => {
                    for certificate in F::certificates(message) {
                        self.learn(now, certificate, from, parts, out);
                    }
                    self.views.watch(now, parts, out);
                }
            },
            Event::Certified(certificate) => {
                self.family.formed(&certificate, out);
                self.learn(now, certificate, parts.me, parts, out);
            }
            Event::Agreed(_) | Event::Executed { .. } => unreachable!("nobody asked for what has no certificate"),
            Event::Timeout(Timer::View) => self.views.on_view_alarm(now, parts, out),
            Event::Timeout(_) => self.views.work(now, parts, out),
            Event::Work(commands) => {
                self.views.batching.arrived(now, commands);
                self.views.work(now, parts, out);
            }
            Event::Whole(digest) => {
                if let Some(block) = parts.store.tree.get(&digest).cloned() {
                    self.family.whole(&block, &mut self.views, parts, out);
                }
                self.views.try_vote(parts, out);
                self.views.work(now, parts, out);
            }
        }
    }

    fn invariants(&self, parts: &Parts) {
        let (views, view) = (&self.views, parts.pacemaker.view());
        assert!(
            view == View(0) || begins::<F>(view, &views.high, views.evidence.as_ref()),
            "a view begins with a certificate of the one before"
        );
        assert!(parts.safety.voted() <= view && parts.safety.timed_out() <= view, "nobody votes ahead of its view");
        let current = |candidate: &Proposal| candidate.block.view == view;
        assert!(views.candidates.iter().all(current), "only the current view has candidates");
        assert!(views.candidates.len() <= parts.quorum.replicas(), "an author has one candidate");
    }
}
