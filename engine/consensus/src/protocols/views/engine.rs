//! Engine of all protocols with views: changes views, hears peers, and helps lagging replicas catch up. Its modules
//! propose, vote, time out and restart.

mod admission;
mod locks;
mod optimism;
mod proposing;
mod recovery;
mod timeouts;
mod voting;

use super::message::{FromView, Proposal, Timeout, ViewMessage};
use super::{Consequence, Family, Known, begins, builds_on, shows_claimed_certificate};
use crate::config::{Config, LeaderKind};
use crate::data::answers::Question;
use crate::data::batching::Batching;
use crate::facts::Facts;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::{Admission, Event, Protocol, Recalled};
use crate::protocols::turn::Turn;
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Drop, Halt, Mark, Timer, To};
use crate::store::Taken;
use crate::voting::leader::Duties;
use quorate_types::{Block, Certificate, Domain, EpochId, Height, ReplicaId, Subject, Time, View, Vote};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use locks::Locks;
use recovery::Recall;

/// Maximum distance, in views, between this replica's view and a vote that it counts while it waits for a block.
const MAX_VIEW_GAP: u64 = 128;
/// Maximum number of proposals remembered to detect a leader's second proposal in a view.
const MAX_REMEMBERED_PROPOSALS: usize = 256;

/// Progress of a replica: its view, the certificate it builds on, the proposals it has received.
struct Views<F: Family> {
    /// Highest certificate that a block may extend.
    high: Certificate,
    /// Certificate that began the current view, if it is not `high`.
    evidence: Option<Certificate>,
    /// Undecided proposals: at most one of each kind per author for the current view, and optimistic ones for the views
    /// right after it.
    candidates: Vec<Arc<Proposal>>,
    /// Collector of this replica's vote in the current view, if the vote went to one replica only; `None` if it was
    /// sent to all or not cast yet.
    collector: Option<ReplicaId>,
    /// Timeout message of the current view, as cast.
    given_up: Option<Arc<Timeout>>,
    batching: Batching,
    ready_since: Option<Time>,
    /// A peer timed out of this view. The replica then proposes even empty blocks, because the peer may lack a
    /// certificate that nobody resends.
    urged: bool,
    /// When each peer's timeout last made this replica propose empty blocks.
    urged_by: BTreeMap<ReplicaId, Time>,
    /// Whether perhaps no other replica knows the certificate that committed commands.
    unannounced: bool,
    /// Parent of the block that this replica proposed optimistically for the current view.
    ahead_on: Option<Subject>,
    /// Last view in which this replica confirmed its optimistic proposal to the others.
    upheld: View,
    /// Locks that the leader of the current view must learn of.
    locks: Locks,
    /// Endorsements of recent proposals, to detect a leader that makes two of one kind in a view.
    proposals: BTreeMap<(View, ReplicaId, Domain), Vote>,
    /// Highest certificate in the journal.
    kept_high: Subject,
    /// Certificate that began the current view, if it is in the journal.
    kept_evidence: Option<Subject>,
    family: PhantomData<F>,
}

impl<F: Family> Views<F> {
    fn new(config: &Config, genesis: Certificate) -> Self {
        Views {
            kept_high: genesis.subject,
            kept_evidence: None,
            high: genesis,
            evidence: None,
            candidates: Vec::new(),
            collector: None,
            given_up: None,
            batching: Batching::new(config),
            ready_since: None,
            urged: false,
            urged_by: BTreeMap::new(),
            unannounced: false,
            ahead_on: None,
            upheld: View(0),
            locks: Locks::new(),
            proposals: BTreeMap::new(),
            family: PhantomData,
        }
    }

    /// Returns the state that the family's decisions depend on.
    fn known<'a>(&'a self, parts: &'a Parts) -> Known<'a> {
        Known {
            view: parts.pacemaker.view(),
            high: &self.high,
            high_began: self.evidence.is_none(),
            lock: parts.safety.lock(),
            timed_out: parts.safety.timed_out(),
            tree: &parts.store.tree,
        }
    }

    /// Carries out the family's decisions about a certificate or block that `from` sent.
    fn carry_out(&mut self, consequences: Vec<Consequence>, from: ReplicaId, turn: &mut Turn<'_, F::Message>) {
        for consequence in consequences {
            match consequence {
                Consequence::Raise(certificate) => self.raise(certificate),
                Consequence::Lock(subject) => turn.parts.safety.lock_on(subject),
                Consequence::Fetch(Subject { digest, height, .. }) => {
                    turn.parts.store.want_block(turn.now, digest, height, from);
                }
                Consequence::Commit { block, announce } => {
                    let committed = self.commit(&block, turn);
                    self.unannounced |= committed && announce;
                }
                Consequence::Vote { phase, block } => self.vote_in_phase(phase, &block, turn),
            }
        }
    }

    /// Replaces the highest certificate by one of a higher view or of a later phase of its view. The replaced
    /// certificate of a lower view may be the one that began the current view; a block that extends a certificate of a
    /// later phase shows by itself that its view is over.
    fn raise(&mut self, certificate: Certificate) {
        let rises = certificate.view() > self.high.view();
        assert!(rises || certificate.view() == self.high.view(), "the highest certificate never falls");
        assert!(builds_on::<F>(&certificate), "a block may extend the highest certificate");
        let replaced = std::mem::replace(&mut self.high, certificate);
        if rises {
            self.evidence.get_or_insert(replaced);
        }
    }

    /// Commits a block and its ancestors unless they are committed already. Returns whether this committed any
    /// commands.
    fn commit(&mut self, block: &Block, turn: &mut Turn<'_, F::Message>) -> bool {
        if block.height <= turn.committed() {
            return false;
        }
        let open = turn.parts.store.tree.open_payloads();
        match turn.commit(&block.digest()) {
            true => turn.parts.pacemaker.on_progress(),
            false => turn.out.halt(Halt::Conflict { height: block.height }),
        }
        turn.parts.store.tree.open_payloads() < open
    }

    /// Returns the leader of the current view, or `None` while it cannot be determined.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        let view = parts.pacemaker.view();
        // A block prepared in this view names its leader. A certificate of a later view shows that this view is over.
        if self.high.view() >= view {
            let current = |_: &&Arc<Block>| self.high.view() == view;
            return parts.store.tree.get(&self.high.subject.digest).filter(current).map(|block| block.author);
        }
        let justify = F::extends(&self.high, self.evidence.as_ref());
        let basis = F::basis(view, justify, self.evidence.as_ref());
        (view > basis.view).then(|| parts.leaders.leader(view, &basis, &parts.store.tree)).flatten()
    }

    fn enter(&mut self, view: View, evidence: Option<Certificate>, turn: &mut Turn<'_, F::Message>) {
        let certified = evidence.as_ref().is_none_or(|evidence| evidence.subject.domain != Domain::Timeout);
        turn.parts.pacemaker.enter(turn.now, view, certified);
        match certified {
            true => self.batching.on_certificate(turn.now, view.0 - 1, self.named(turn.parts)),
            false => self.batching.on_timeout(turn.parts.store.pool.open_bundles()),
        }
        turn.parts.tally.forget_before(View(view.0 - 1));
        self.evidence = evidence;
        self.candidates.retain(|candidate| candidate.block.view >= view);
        turn.parts.store.abandon_before(view);
        self.given_up = None;
        self.urged = false;
        self.ready_since = None;
        self.take_part_again(view, turn);
        let leader = self.leader(turn.parts);
        let collector = self.collector.take();
        if let Some(leader) = leader {
            turn.parts.fairness.set_leader(turn.now, leader);
        }
        if !certified && collector.is_some() && collector == leader {
            turn.parts.pacemaker.suspect_leader();
        }
        turn.out.mark(Mark::EnteredView { view, leader });
        if turn.parts.config.leader == LeaderKind::Fixed && turn.parts.pacemaker.is_fruitless(turn.now) {
            self.give_up(turn);
        }
        self.ahead_on = optimism::parent_ahead(view, turn.parts);
        self.locks.enter(view);
        self.show_lock(turn);
        self.try_vote(turn);
        self.work(turn);
        if turn.parts.pacemaker.is_working() {
            turn.out.arm(Timer::View, turn.parts.pacemaker.duration() / 2);
        }
    }

    /// Checks whether there is anything to order, and starts the view timer if there was nothing before.
    fn watch(&mut self, turn: &mut Turn<'_, F::Message>) {
        turn.parts.fairness.watch(turn.now, &mut turn.parts.store.pool);
        let working =
            turn.parts.store.pool.pending_commands() > 0 || turn.parts.store.tree.open_payloads() > 0 || self.urged;
        if turn.parts.pacemaker.set_working(turn.now, working) {
            turn.out.arm(Timer::View, turn.parts.pacemaker.duration() / 2);
        }
    }

    /// Sends the others the certificate that committed commands, if one is scheduled.
    fn announce(&mut self, turn: &mut Turn<'_, F::Message>) {
        if std::mem::take(&mut self.unannounced) {
            let advance = ViewMessage::Advance { high: Box::new(self.high.clone()), evidence: None };
            turn.out.send(To::Others, advance.into());
        }
    }

    /// Shows a lagging replica that timed out how the current view began.
    fn show(&self, to: ReplicaId, asked_in: View, turn: &mut Turn<'_, F::Message>) {
        if let Err(why) = turn.parts.answers.admit(turn.now, to, Question::Place(asked_in, Height(0))) {
            return turn.out.drop_message(to, why);
        }
        let evidence = self.evidence.clone().map(Box::new);
        let proofs = evidence.iter().map(|evidence| evidence.proof.len()).sum::<usize>() + self.high.proof.len();
        turn.parts.answers.charge(to, proofs);
        turn.out.send(To::One(to), ViewMessage::Advance { high: Box::new(self.high.clone()), evidence }.into());
    }
}

/// Returns whether a script moved this replica to `view` or beyond. Then it needs no other evidence for the view.
fn may_be_forced(view: View, parts: &Parts) -> bool {
    parts.leaders.is_scripted() && view <= parts.pacemaker.view()
}

/// Engine of a protocol with views, given its family.
pub struct ViewEngine<F: Family> {
    views: Views<F>,
    family: F,
    recall: Recall,
}

impl<F: Family> ViewEngine<F> {
    /// Creates an engine at genesis.
    pub fn new(config: &Config, epoch: &EpochId) -> Self {
        let genesis = Certificate::genesis(epoch);
        ViewEngine { family: F::new(&genesis), recall: Recall::new(&genesis), views: Views::new(config, genesis) }
    }

    /// Returns the highest certificate that a block may extend.
    pub fn high(&self) -> &Certificate {
        &self.views.high
    }

    /// Returns the leader of the current view, or `None` while it cannot be determined.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        self.views.leader(parts)
    }

    fn on_proposal(&mut self, from: ReplicaId, proposal: Arc<Proposal>, turn: &mut Turn<'_, F::Message>) {
        let block = proposal.block.clone();
        if bug!(ViewJumpOnProposal) && block.view > turn.parts.pacemaker.view() {
            self.views.enter(block.view, None, turn);
        }
        match (block.is_optimistic(), &proposal.evidence) {
            (false, evidence) => self.learn_from(from, &block.justify, evidence.as_ref(), turn),
            (true, Some(high)) => self.learn_from(from, high, None, turn),
            (true, None) => {}
        }
        // Only the first block of a view's leader is stored unrequested; otherwise one replica could fill the tree. Any
        // other block that becomes certified is fetched by its digest.
        let leads = self.views.leads(&proposal, turn.parts);
        let first = leads != Some(false) && self.views.is_first(&proposal, turn.out);
        if !first && !turn.parts.store.wants_block(&block.digest()) {
            let why = if leads == Some(false) { Drop::NotTheLeader } else { Drop::Repeated };
            return turn.out.drop_message(from, why);
        }
        for bundle in &proposal.bundles {
            turn.supply(bundle.clone());
        }
        match turn.offer(block.clone(), from) {
            Taken::Overload => return turn.out.drop_message(from, Drop::Overload),
            Taken::TooLarge => return turn.out.drop_message(from, Drop::TooLarge),
            Taken::Mislinked => return turn.out.drop_message(from, Drop::Malformed),
            Taken::Whole | Taken::Waiting | Taken::Late => {}
        }
        if first && !block.payload.is_empty() {
            self.views.batching.on_block(turn.now);
        }
        if first && self.views.is_candidate(&block, turn.view()) {
            self.views.candidates.push(proposal);
            self.views.try_vote(turn);
        }
        self.views.watch(turn);
    }

    fn on_timeout_message(&mut self, from: ReplicaId, timeout: &Timeout, turn: &mut Turn<'_, F::Message>) {
        let (view, high) = (timeout.vote.subject.view, timeout.high.view());
        self.learn_from(from, &timeout.high, timeout.evidence.as_ref(), turn);
        let over = view < turn.parts.pacemaker.view();
        self.views.locks.note_timeout(view, from, turn.parts.pacemaker.view());
        self.views.show_lock(turn);
        if from != turn.parts.me && (over || high < self.views.high.view()) {
            self.views.show(from, view, turn);
        }
        if over {
            return;
        }
        turn.out.count(timeout.vote.clone());
        self.views.urge(turn.now, from, turn.parts);
        self.views.work(turn);
        let voters = turn.parts.tally.voters_with(Domain::Timeout, view, from);
        let enough = voters >= turn.parts.quorum.weak() && !bug!(TimeoutsNotJoined);
        if view == turn.parts.pacemaker.view() && enough && self.views.given_up.is_none() {
            self.views.give_up(turn);
        }
    }

    /// Handles certificates from a peer. They are not announced to the others, because the peer already knows them.
    fn learn_from(
        &mut self,
        from: ReplicaId,
        high: &Certificate,
        evidence: Option<&Certificate>,
        turn: &mut Turn<'_, F::Message>,
    ) {
        let unannounced = self.views.unannounced;
        self.learn(high, from, turn);
        if let Some(evidence) = evidence {
            self.learn(evidence, from, turn);
        }
        self.views.unannounced = unannounced;
    }

    /// Handles a verified certificate: the family raises, locks and commits; if the certificate ends its view, the next
    /// view begins.
    fn learn(&mut self, certificate: &Certificate, from: ReplicaId, turn: &mut Turn<'_, F::Message>) {
        if let Some(attached) = certificate.highest_attached_certificate() {
            self.learn(attached, from, turn);
        }
        let Subject { domain, view, .. } = certificate.subject;
        if domain != Domain::Timeout {
            let high = self.views.high.view();
            let consequences = self.family.on_certificate(certificate, self.views.known(turn.parts));
            self.views.carry_out(consequences, from, turn);
            if self.views.high.view() > high {
                self.views.on_higher_certificate(turn);
            }
        }
        let again = bug!(ViewEnteredTwice)
            && view.next() == turn.parts.pacemaker.view()
            && self.views.evidence.as_ref().is_some_and(|evidence| evidence.subject.domain == Domain::Timeout);
        let ends = view >= turn.parts.pacemaker.view() || (again && domain != Domain::Timeout);
        if ends && (domain == F::ENDS_VIEW || domain == Domain::Timeout) {
            let is_high = certificate.subject == self.views.high.subject;
            self.views.enter(view.next(), (!is_high).then(|| certificate.clone()), turn);
        }
    }

    fn on_message(&mut self, from: ReplicaId, message: ViewMessage, turn: &mut Turn<'_, F::Message>) {
        match message {
            ViewMessage::Proposal(proposal) => self.on_proposal(from, proposal, turn),
            ViewMessage::Timeout(timeout) => self.on_timeout_message(from, &timeout, turn),
            ViewMessage::Advance { high, evidence } => {
                self.learn_from(from, &high, evidence.as_deref(), turn);
                self.views.on_shown(&high, from, turn);
                self.views.watch(turn);
            }
            ViewMessage::Vote(_) => unreachable!("votes are admitted to the tally"),
        }
    }
}

impl<F: Family> Protocol for ViewEngine<F> {
    type Message = F::Message;

    const FACTS: Facts = F::FACTS;

    fn admit(&self, parts: &Parts, from: ReplicaId, message: &F::Message) -> Admission {
        match message.as_view() {
            Some(ViewMessage::Proposal(proposal)) => self.views.admit_proposal(parts, from, proposal),
            Some(ViewMessage::Vote(vote)) => self.views.admit_vote(&self.family, parts, from, vote),
            Some(ViewMessage::Timeout(timeout)) => self.views.admit_timeout(parts, from, timeout),
            Some(ViewMessage::Advance { high, evidence }) => self.views.admit_advance(high, evidence.as_deref()),
            None => self.family.admit(self.views.known(parts), message),
        }
    }

    fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        self.views.leader(parts)
    }

    fn patience(&self, now: Time, parts: &Parts) -> Option<Duration> {
        self.views.batching.patience(now).filter(|_| self.leader(parts) != Some(parts.me))
    }

    fn handle(&mut self, event: Event<F::Message>, turn: &mut Turn<'_, F::Message>) {
        match event {
            Event::Start => self.start(turn),
            Event::Shown { from, mut standing } => {
                // Certificates that timeouts refer to must be learnt before those timeouts; the peer may list them in
                // any order.
                standing.certificates.sort_by_key(|certificate| certificate.subject.domain == Domain::Timeout);
                for certificate in standing.certificates {
                    self.learn_from(from, &certificate, None, turn);
                }
                self.views.watch(turn);
            }
            Event::Message { from, message } => match message.into_view() {
                Ok(message) => self.on_message(from, message, turn),
                Err(message) => {
                    for certificate in F::certificates(message) {
                        self.learn(&certificate, from, turn);
                    }
                    self.views.watch(turn);
                }
            },
            Event::Certified(certificate) => {
                if let Some(message) = F::phase_message(&certificate) {
                    turn.out.send(To::Others, message);
                }
                self.learn(&certificate, turn.parts.me, turn);
            }
            Event::Agreed(_) => unreachable!("in protocols with views, every quorum of votes forms a certificate"),
            Event::Stable => {}
            Event::Adopted => {
                let (high, me) = (self.views.high.clone(), turn.parts.me);
                turn.parts.store.want_block(turn.now, high.subject.digest, high.subject.height, me);
                self.views.watch(turn);
            }
            Event::Supplied => {
                turn.deliver();
                self.views.try_vote(turn);
                self.views.work(turn);
            }
            Event::Timeout(Timer::View) => self.views.on_view_alarm(turn),
            Event::Timeout(_) => self.views.work(turn),
            Event::Work(commands) => {
                self.views.batching.on_arrival(turn.now, commands);
                self.views.work(turn);
            }
            Event::Whole(digest) => {
                if let Some(block) = turn.parts.store.tree.get(&digest) {
                    let consequences = self.family.on_complete_block(block, self.views.known(turn.parts));
                    self.views.carry_out(consequences, turn.parts.me, turn);
                }
                self.views.try_vote(turn);
                self.views.work(turn);
            }
        }
    }

    fn duties() -> Duties {
        let collects = F::NEXT_LEADER_COLLECTS && !F::FACTS.optimistic_proposals;
        Duties { ends_view: F::ENDS_VIEW, next_leader_collects: collects }
    }

    fn force_view(&mut self, view: View, turn: &mut Turn<'_, F::Message>) {
        self.views.enter(view, None, turn);
    }

    fn recall(&mut self, recalled: Recalled<'_, F::Message>, parts: &mut Parts) {
        self.take_recalled(recalled, parts);
    }

    fn summary(&self, _parts: &Parts) -> Vec<Record> {
        self.views.summary()
    }

    fn standing(&self, _parts: &Parts) -> Standing {
        self.views.standing()
    }

    fn spoken_up_to(&self, standing: &Standing, _parts: &Parts) -> Option<View> {
        recovery::spoken_up_to::<F>(standing)
    }

    fn invariants(&self, parts: &Parts) {
        let (views, view) = (&self.views, parts.pacemaker.view());
        views.batching.invariants();
        assert!(
            view == View(0)
                || may_be_forced(view, parts)
                || bug!(ViewJumpOnProposal)
                || begins::<F>(view, &views.high, views.evidence.as_ref()),
            "a view begins with a certificate of the previous view"
        );
        assert!(
            shows_claimed_certificate::<F>(views.high.view(), views.evidence.as_ref()) || bug!(TimeoutsAlone),
            "a view that begins with timeouts has the highest certificate that they report"
        );
        let spoken = parts.safety.voted().max(parts.safety.timed_out());
        let forgets = bug!(RecoveryForgetsTimeouts);
        assert!(spoken <= view || forgets, "a replica does not vote above its view");
        assert!(
            views.candidates.iter().all(|candidate| views.is_candidate(&candidate.block, view)),
            "all candidates are for the current view, or optimistic and for one right after it"
        );
        let most = if F::FACTS.optimistic_proposals { 2 + optimism::MAX_VIEWS_AHEAD as usize } else { 1 };
        assert!(
            views.candidates.len() <= parts.quorum.replicas() * most,
            "an author has at most one candidate of each kind in a view"
        );
    }
}
