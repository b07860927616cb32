//! Engine of all protocols with views: changes views, proposes, votes for proposals, times out, and helps lagging
//! replicas catch up.

mod admission;
mod recovery;
mod timeouts;
mod voting;

use super::message::{FromView, Proposal, Timeout, ViewMessage};
use super::{Family, begins, builds_on, shows_what_it_tells};
use crate::config::{Config, LONGEST_WAIT_SHARE, LeaderKind};
use crate::data::answers::Question;
use crate::data::batching::{Batching, Decision, Situation};
use crate::data::store::Taken;
use crate::protocols::facts::Facts;
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::{Admission, Event, Protocol, Recalled};
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Drop, Halt, Mark, Timer, To};
use crate::voting::leader::Duties;
use quorate_types::{Block, Certificate, ClusterId, Domain, Height, ReplicaId, Subject, Time, View, Vote};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use recovery::Recall;

/// Maximum distance, in views, between this replica's view and a vote that it counts: enough for a replica that waits
/// for a block while the others go on.
const MAX_VIEW_GAP: u64 = 128;
/// Maximum number of proposals remembered to detect a leader's second proposal in a view.
const REMEMBERED_PROPOSALS: usize = 256;

/// Progress of a replica: its view, the certificate it builds on, the proposals it has received.
pub struct Views<F: Family> {
    /// Highest certificate that a block may extend.
    high: Certificate,
    /// Certificate that began the current view, if it is not `high`.
    evidence: Option<Certificate>,
    /// Undecided proposals for the current view, at most one per author.
    candidates: Vec<Arc<Proposal>>,
    /// Sole collector of this replica's vote in the current view; `None` if it has not voted or sent its vote to all.
    collector: Option<ReplicaId>,
    /// Timeout message of the current view, as cast.
    given_up: Option<Arc<Timeout>>,
    batching: Batching,
    ready_since: Option<Time>,
    /// A peer timed out of this view. It may be missing an older commit certificate, which an idle cluster would never
    /// resend, so keep proposing.
    urged: bool,
    /// When each replica's timeout last made this one propose empty blocks.
    urged_by: BTreeMap<ReplicaId, Time>,
    /// Whether only this replica knows the certificate that committed commands.
    unannounced: bool,
    /// Endorsements of recent proposals, to detect a leader that proposes twice in a view.
    proposals: BTreeMap<(View, ReplicaId), Vote>,
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
            proposals: BTreeMap::new(),
            family: PhantomData,
        }
    }

    /// Returns the highest certificate that a block may extend.
    pub fn high(&self) -> &Certificate {
        &self.high
    }

    /// Replaces the highest certificate by a higher one. The replaced certificate may be the one that began the view.
    pub fn raise(&mut self, certificate: Certificate) {
        assert!(certificate.view() > self.high.view() && builds_on::<F>(&certificate), "a higher one is higher");
        let replaced = std::mem::replace(&mut self.high, certificate);
        self.evidence.get_or_insert(replaced);
    }

    /// Replaces the highest certificate by one of a later phase of the same view. A block that extends it shows that
    /// this view is over.
    pub fn finish(&mut self, certificate: Certificate) {
        assert!(certificate.view() == self.high.view() && builds_on::<F>(&certificate), "it is of the same view");
        self.high = certificate;
    }

    /// Commits a block and its ancestors unless they are committed already. Returns whether this committed any
    /// commands.
    pub fn commit(&mut self, block: &Block, parts: &mut Parts, out: &mut Outbox<F::Message>) -> bool {
        if block.height <= parts.store.committed() {
            return false;
        }
        let open = parts.store.tree.open_payloads();
        match out.commit(parts, &block.digest()) {
            true => parts.pacemaker.progressed(),
            false => out.halt(Halt::Conflict { height: block.height }),
        }
        parts.store.tree.open_payloads() < open
    }

    /// Schedules the certificate that committed commands to be sent to the others, if no proposal is about to carry it.
    pub fn to_announce(&mut self) {
        self.unannounced = true;
    }

    /// Returns the leader of the current view, or `None` while it cannot be determined.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        let view = parts.pacemaker.view();
        // A block prepared in this view names its leader. A certificate of a later view shows that this one is over.
        if self.high.view() >= view {
            let current = |_: &&Arc<Block>| self.high.view() == view;
            return parts.store.tree.get(&self.high.subject.digest).filter(current).map(|block| block.author);
        }
        let justify = F::extends(&self.high, self.evidence.as_ref());
        let basis = F::basis(view, justify, self.evidence.as_ref());
        (view > basis.view).then(|| parts.leaders.leader(view, &basis, &parts.store.tree)).flatten()
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
        self.take_part_again(view, parts, out);
        let leader = self.leader(parts);
        let collector = self.collector.take();
        if let Some(leader) = leader {
            parts.fairness.led_by(now, leader);
        }
        if !certified && collector.is_some() && collector == leader {
            parts.pacemaker.suspect_leader();
        }
        out.mark(Mark::EnteredView { view, leader });
        if parts.config.leader == LeaderKind::Fixed && parts.pacemaker.is_fruitless(now) {
            self.give_up(parts, out);
        }
        self.work(now, parts, out);
        if parts.pacemaker.is_working() {
            out.arm(Timer::View, parts.pacemaker.duration() / 2);
        }
    }

    /// Checks whether there is anything to order, and starts the view timer if there was nothing before.
    fn watch(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        parts.fairness.watch(now, &mut parts.store.pool);
        let working = parts.store.pool.pending_commands() > 0 || parts.store.tree.open_payloads() > 0 || self.urged;
        if parts.pacemaker.working(now, working) {
            out.arm(Timer::View, parts.pacemaker.duration() / 2);
        }
    }

    /// Proposes if this replica leads the view, has not proposed in it, and there is enough to propose.
    fn work(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        self.watch(now, parts, out);
        let view = parts.pacemaker.view();
        let proposed = parts.safety.proposed() >= view && !self.proposes_twice(parts);
        let silent = parts.safety.timed_out().max(parts.safety.abstains()) >= view;
        if proposed || silent || self.leader(parts) != Some(parts.me) {
            return;
        }
        if let Some(left) = self.awaits_higher(now, parts) {
            return out.arm(Timer::Batch, left);
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

    /// Returns how much longer a leader waits for a higher certificate, if the protocol requires it: at most
    /// 1/[`LONGEST_WAIT_SHARE`] of its view timeout in total.
    fn awaits_higher(&self, now: Time, parts: &Parts) -> Option<Duration> {
        let patience = parts.config.max_delay().min(parts.pacemaker.duration() / LONGEST_WAIT_SHARE);
        let left = patience.saturating_sub(now.since(parts.pacemaker.entered()));
        (!left.is_zero() && F::awaits_higher(parts.pacemaker.view(), &self.high)).then_some(left)
    }

    /// Returns whether the injected bug `ProposesTwice` lets a leader propose again, because the votes of the previous
    /// view arrived after its timeouts.
    fn proposes_twice(&self, parts: &Parts) -> bool {
        let by_timeouts = self.evidence.as_ref().is_some_and(|evidence| evidence.subject.domain == Domain::Timeout);
        bug!(ProposesTwice) && by_timeouts && self.high.view().next() == parts.pacemaker.view()
    }

    /// Sends the others the certificate that committed commands, if one is scheduled.
    fn announce(&mut self, out: &mut Outbox<F::Message>) {
        if std::mem::take(&mut self.unannounced) {
            let advance = ViewMessage::Advance { high: Box::new(self.high.clone()), evidence: None };
            out.send(To::Others, advance.into());
        }
    }

    /// Shows a lagging replica that timed out how the current view began.
    fn show(&self, now: Time, to: ReplicaId, asked_in: View, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        if let Err(why) = parts.answers.admit(now, to, Question::Place(asked_in, Height(0))) {
            return out.drop_message(to, why);
        }
        let evidence = self.evidence.clone().map(Box::new);
        let proofs = evidence.iter().map(|evidence| evidence.proof.len()).sum::<usize>() + self.high.proof.len();
        parts.answers.charge(to, proofs);
        out.send(To::One(to), ViewMessage::Advance { high: Box::new(self.high.clone()), evidence }.into());
    }

    fn propose(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let view = parts.pacemaker.view();
        let justify = F::extends(&self.high, self.evidence.as_ref()).clone();
        // Nothing can be proposed on top of a block below the committed height, or of one that is not here yet.
        let behind = justify.subject.height < parts.store.committed() || justify.view() >= view;
        if behind || !parts.store.tree.contains(&justify.subject.digest) {
            return;
        }
        parts.store.follow(justify.subject.digest);
        let before = parts.store.pool.pending_commands();
        let payload = parts.store.pool.select(parts.config.batch, parts.config.batch_bytes);
        parts.alone.proposed(now, &payload, &parts.store.pool);
        let block = Arc::new(Block::new(view, parts.me, justify, payload));
        let ballot = parts.safety.propose(&block).expect("a leader proposes once a view");
        self.unannounced = false;
        out.offer(now, parts, block.clone(), parts.me);
        // After a restart the block may be here already: the journal may hold it without the record of its proposal.
        parts.store.follow(block.digest());
        let pending = parts.store.pool.pending_commands();
        self.batching.proposed(now, pending);
        self.keep(Some(&block.digest()), parts, out);
        out.mark(Mark::Proposed { view, height: block.height, commands: before - pending });
        let proposal = self.proposal(block, ballot.to_vote(parts.me), parts);
        out.cast_proposal(parts, &ballot, |endorsement| {
            ViewMessage::Proposal(Arc::new(Proposal { endorsement, ..proposal })).into()
        });
    }

    /// Builds the proposal of this replica's block for the current view: with the evidence that the view has begun, if
    /// the block does not show it, and with the bundles that travel with it.
    fn proposal(&self, block: Arc<Block>, endorsement: Vote, parts: &Parts) -> Proposal {
        let evidence = self.evidence.clone().filter(|_| !begins::<F>(block.view, &block.justify, None));
        let bundles = parts.carried_bundles(&block);
        Proposal { block, evidence, endorsement, bundles }
    }
}

/// Returns whether scripts move replicas and this one is in `view` or beyond it; no further evidence is needed that the
/// view has begun.
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
    pub fn new(config: &Config, cluster: &ClusterId) -> Self {
        let genesis = Certificate::genesis(cluster);
        ViewEngine { family: F::new(&genesis), recall: Recall::new(&genesis), views: Views::new(config, genesis) }
    }

    /// Returns the highest certificate that a block may extend.
    pub fn high(&self) -> &Certificate {
        self.views.high()
    }

    /// Returns the leader of the current view, or `None` while it cannot be determined.
    pub fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        self.views.leader(parts)
    }

    fn on_proposal(
        &mut self,
        now: Time,
        from: ReplicaId,
        proposal: Arc<Proposal>,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let block = proposal.block.clone();
        if bug!(ViewJumpOnProposal) && block.view > parts.pacemaker.view() {
            self.views.enter(now, block.view, None, parts, out);
        }
        self.learn_from(now, from, &block.justify, proposal.evidence.as_ref(), parts, out);
        // Only the first block of a view's leader is stored unrequested, so that nobody can fill the tree. Any other
        // block that becomes certified is fetched by its digest.
        let leads = self.views.leads(&proposal, parts);
        let first = leads != Some(false) && self.views.is_first(&proposal, out);
        if !first && !parts.store.wants_block(&block.digest()) {
            let why = if leads == Some(false) { Drop::NotTheLeader } else { Drop::Repeated };
            return out.drop_message(from, why);
        }
        for bundle in &proposal.bundles {
            out.supply(parts, bundle.clone());
        }
        match out.offer(now, parts, block.clone(), from) {
            Taken::Overload => return out.drop_message(from, Drop::Overload),
            Taken::TooLarge => return out.drop_message(from, Drop::TooLarge),
            Taken::Whole | Taken::Waiting | Taken::Late => {}
        }
        if first && block.view == parts.pacemaker.view() {
            self.views.candidates.push(proposal);
            self.views.try_vote(now, parts, out);
        }
        self.views.watch(now, parts, out);
    }

    fn on_timeout_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        timeout: &Timeout,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        let (view, high) = (timeout.vote.subject.view, timeout.high.view());
        self.learn_from(now, from, &timeout.high, timeout.evidence.as_ref(), parts, out);
        let over = view < parts.pacemaker.view();
        if from != parts.me && (over || high < self.views.high.view()) {
            self.views.show(now, from, view, parts, out);
        }
        if over {
            return;
        }
        out.count(timeout.vote.clone());
        self.views.urge(now, from, parts);
        self.views.work(now, parts, out);
        let voters = parts.tally.voters_with(Domain::Timeout, view, from);
        if view == parts.pacemaker.view() && voters >= parts.quorum.weak() && self.views.given_up.is_none() {
            self.views.give_up(parts, out);
        }
    }

    /// Handles certificates from a peer; they need no announcement.
    fn learn_from(
        &mut self,
        now: Time,
        from: ReplicaId,
        high: &Certificate,
        evidence: Option<&Certificate>,
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

    /// Handles a verified certificate: the family records, locks and commits; if the certificate ends its view, the
    /// next view begins.
    fn learn(
        &mut self,
        now: Time,
        certificate: &Certificate,
        from: ReplicaId,
        parts: &mut Parts,
        out: &mut Outbox<F::Message>,
    ) {
        if let Some(attached) = certificate.highest_attached_certificate() {
            self.learn(now, attached, from, parts, out);
        }
        let Subject { domain, view, .. } = certificate.subject;
        if domain != Domain::Timeout {
            self.family.learn(now, certificate, from, &mut self.views, parts, out);
        }
        let again = bug!(ViewEnteredTwice)
            && view.next() == parts.pacemaker.view()
            && self.views.evidence.as_ref().is_some_and(|evidence| evidence.subject.domain == Domain::Timeout);
        let ends = view >= parts.pacemaker.view() || (again && domain != Domain::Timeout);
        if ends && (domain == F::ENDS_VIEW || domain == Domain::Timeout) {
            let is_high = certificate.subject == self.views.high.subject;
            self.views.enter(now, view.next(), (!is_high).then(|| certificate.clone()), parts, out);
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
            ViewMessage::Timeout(timeout) => self.on_timeout_message(now, from, &timeout, parts, out),
            ViewMessage::Advance { high, evidence } => {
                self.learn_from(now, from, &high, evidence.as_deref(), parts, out);
                self.views.watch(now, parts, out);
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
            None => self.family.admit(&self.views, parts, from, message),
        }
    }

    fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        self.views.leader(parts)
    }

    fn handle(&mut self, now: Time, event: Event<F::Message>, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        match event {
            Event::Start => self.start(now, parts, out),
            Event::Shown { from, mut standing } => {
                // Certificates that timeouts name must come before those timeouts, in whatever order the peer lists
                // them.
                standing.certificates.sort_by_key(|certificate| certificate.subject.domain == Domain::Timeout);
                for certificate in standing.certificates {
                    self.learn_from(now, from, &certificate, None, parts, out);
                }
                self.views.watch(now, parts, out);
            }
            Event::Message { from, message } => match message.into_view() {
                Ok(message) => self.on_message(now, from, message, parts, out),
                Err(message) => {
                    for certificate in F::certificates(message) {
                        self.learn(now, &certificate, from, parts, out);
                    }
                    self.views.watch(now, parts, out);
                }
            },
            Event::Certified(certificate) => {
                self.family.formed(&certificate, out);
                self.learn(now, &certificate, parts.me, parts, out);
            }
            Event::Agreed(_) => unreachable!("nobody asked for what has no certificate"),
            Event::Stable => {}
            Event::Adopted => {
                let (high, me) = (self.views.high.clone(), parts.me);
                parts.store.want_block(now, high.subject.digest, high.subject.height, me);
                self.views.watch(now, parts, out);
            }
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
                self.views.try_vote(now, parts, out);
                self.views.work(now, parts, out);
            }
        }
    }

    fn duties() -> Duties {
        Duties { ends_view: F::ENDS_VIEW, next_leader_collects: F::NEXT_LEADER_COLLECTS }
    }

    fn force_view(&mut self, now: Time, view: View, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        self.views.enter(now, view, None, parts, out);
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
        assert!(
            view == View(0)
                || may_be_forced(view, parts)
                || bug!(ViewJumpOnProposal)
                || begins::<F>(view, &views.high, views.evidence.as_ref()),
            "a view begins with a certificate of the one before"
        );
        assert!(
            shows_what_it_tells::<F>(views.high.view(), views.evidence.as_ref()) || bug!(TimeoutsAlone),
            "a view begins with the certificate of which its timeouts tell"
        );
        let spoken = parts.safety.voted().max(parts.safety.timed_out());
        let forgets = bug!(RecoveryForgetsTimeouts);
        assert!(spoken <= view || forgets, "nobody votes ahead of its view");
        let current = |candidate: &Arc<Proposal>| candidate.block.view == view;
        assert!(views.candidates.iter().all(current), "only the current view has candidates");
        assert!(views.candidates.len() <= parts.quorum.replicas(), "an author has one candidate");
    }
}
