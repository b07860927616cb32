//! Host of the replicas: delivers, signs, verifies, stores and executes immediately.

use super::{Answer, MAX_DELIVERIES, MAX_TOLD, Parcel, Stage};
use crate::cast::{ActorId, ActorSet};
use crate::judge::Law;
use crate::notary::statement;
use crate::states;
use quorate_consensus::seam::{Action, Envelope, Halt, Input, Mark, Timer, To, text};
use quorate_consensus::{Message, Protocol};
use quorate_types::{Manifest, View};

impl<P: Protocol> Stage<P> {
    /// Delivers messages until none of a running view is left and every actor has requested its missing data.
    pub fn settle(&mut self) {
        let mut tries = 0;
        loop {
            while let Some(parcel) = self.first.pop_front().or_else(|| self.queue.pop_front()) {
                self.deliver(parcel);
            }
            // Leaders wait for messages only while some are in transit.
            if self.ring_next(Timer::Batch) {
                continue;
            }
            if tries == self.cast.replicas() || !self.ring_next(Timer::Fetch) {
                return;
            }
            tries += 1;
        }
    }

    #[inline(always)]
    fn deliver(&mut self, parcel: Parcel) {
        let message = self.letters.take(parcel.message);
        self.deliveries += 1;
        if self.deliveries > MAX_DELIVERIES {
            let left = self.first.drain(..).chain(self.queue.drain(..));
            left.for_each(|parcel| drop(self.letters.take(parcel.message)));
            return self.judge.complain(Law::Liveness, format!("more than {MAX_DELIVERIES} messages in one view"));
        }
        self.step(parcel.to, Input::Receive { from: parcel.from, message });
    }

    /// Fires a timer wherever it is due next. Returns whether it is set anywhere.
    fn ring_next(&mut self, timer: Timer) -> bool {
        let Some(due) = self.actors.iter().filter_map(|actor| actor.alarm(timer)).min() else { return false };
        self.now = self.now.max(due);
        for at in 0..self.actors.len() {
            if self.actors[at].alarm(timer).is_some_and(|due| due <= self.now) {
                self.ring(ActorId(at), timer);
            }
        }
        true
    }

    /// Fires a timer of an actor, if it is set.
    pub fn ring(&mut self, actor: ActorId, timer: Timer) {
        if self.actors[actor.0].take_alarm(timer) {
            self.step(actor, Input::Timeout(timer));
        }
    }

    /// Gives an actor an input.
    #[inline]
    pub fn step(&mut self, actor: ActorId, input: Input<P::Message>) {
        if !self.actors[actor.0].up {
            return;
        }
        self.announce_script();
        self.feed(actor, input);
        self.answer(actor);
    }

    #[inline(always)]
    #[cfg_attr(not(feature = "museum"), expect(unused_mut))]
    fn feed(&mut self, actor: ActorId, mut input: Input<P::Message>) {
        let mut actions = std::mem::take(&mut self.actions);
        #[cfg(feature = "museum")]
        if let Some(rewriter) = &mut self.actors[actor.0].rewriter {
            rewriter.hear(&mut input);
        }
        if let Some(behaviour) = &mut self.actors[actor.0].behaviour {
            behaviour.observe(&input);
        }
        self.actors[actor.0].replica.step(self.now, input, &mut actions);
        self.perform_all(actor, actions);
    }

    /// Gives an actor the host's answers to its requests.
    pub(super) fn answer(&mut self, actor: ActorId) {
        while let Some(answer) = self.answers.pop_front().filter(|_| self.actors[actor.0].up) {
            match answer {
                Answer::Verdict(job, genuine) => self.feed(actor, Input::Verdict { job, genuine }),
                Answer::Other(input) => self.feed(actor, *input),
            }
        }
    }

    fn answer_with(&mut self, input: Input<P::Message>) {
        self.answers.push_back(Answer::Other(Box::new(input)));
    }

    pub(super) fn perform_all(&mut self, actor: ActorId, mut actions: Vec<Action<P::Message>>) {
        #[cfg(feature = "museum")]
        if let Some(rewriter) = &mut self.actors[actor.0].rewriter {
            rewriter.rewrite(&mut actions);
        }
        if let Some(rewrite) = &mut self.actors[actor.0].rewrite {
            rewrite(self.now, &mut actions);
        }
        if let Some(behaviour) = &mut self.actors[actor.0].behaviour {
            behaviour.rewrite(self.now, &mut actions);
        }
        for action in &mut actions {
            if self.actors[actor.0].burns_down() {
                self.crash(actor);
                break;
            }
            self.perform(actor, action);
        }
        self.judge.settles();
        actions.clear();
        self.actions = actions;
    }

    /// Performs an action. Actions are large and numerous, so they stay in place and only the needed parts are moved
    /// out.
    fn perform(&mut self, actor: ActorId, action: &mut Action<P::Message>) {
        match action {
            Action::Send { to, message, sign, .. } => self.send(actor, *to, message, *sign),
            Action::Persist { id, record } => {
                if self.journals {
                    self.actors[actor.0].journal.push((*id, record.clone()));
                }
            }
            Action::Verify { job, certificates, votes } => {
                let genuine = certificates.iter().all(|certificate| self.notary.is_certified(certificate))
                    && votes.iter().all(|vote| self.notary.is_genuine(vote));
                self.answers.push_back(Answer::Verdict(*job, genuine));
            }
            Action::Assemble { job, subject, votes } => {
                let result = self.notary.assemble(subject, std::mem::take(votes));
                self.answer_with(Input::Assembled { job: *job, result });
            }
            Action::Arm { timer, after } => self.actors[actor.0].arm(*timer, self.now + *after),
            Action::Commit { block, bundles } => {
                self.transcript.commits(&self.cast, actor, block);
                self.actors[actor.0].chain.push(block.digest());
                self.judge.commits(actor, block, bundles);
            }
            Action::Accuse(evidence) => self.judge.accuses(actor, evidence.first.voter),
            // A play has few bundles, and its journals are complete or gone.
            Action::Refuse { .. } | Action::AcceptRepair { .. } => {}
            Action::Halt(why) => self.halt(actor, why),
            Action::Mark(mark) => self.transcript.add(&self.cast, actor, || text::mark(mark)),
            action => self.perform_on_state(actor, std::mem::replace(action, Action::Mark(Mark::Forgot))),
        }
    }

    fn perform_on_state(&mut self, actor: ActorId, action: Action<P::Message>) {
        let place = &mut self.actors[actor.0];
        match action {
            Action::DigestState { frontier } => {
                let (height, kept) = (frontier.height(), self.keeps_states);
                let state = match kept {
                    true => {
                        let state = states::encode(&frontier, &place.chain[..height.0 as usize]);
                        let manifest = Manifest::of(&state);
                        let digest = manifest.digest();
                        place.states.keep(height, manifest, state);
                        digest
                    }
                    false => place.state(height),
                };
                self.answer_with(Input::Executed { height, state, kept });
            }
            Action::StateStable { checkpoint } => {
                place.states.certify(*checkpoint);
            }
            Action::ReadState { to, height, part } => {
                let bytes = place.states.read(height, part);
                self.answer_with(Input::StateRead { to, height, part, bytes });
            }
            Action::ReceiveState { height, manifest } => {
                let chunks = place.states.receive(height, manifest, |_| None);
                self.answer_with(Input::Holds { height, chunks });
            }
            Action::KeepChunk { height, chunk, bytes } => place.states.keep_chunk(height, chunk, bytes),
            Action::AdoptState { checkpoint } => {
                let (manifest, state) = place.states.received(checkpoint.subject.height);
                place.states.keep_certified((*checkpoint).clone(), manifest, state.clone());
                let Ok((frontier, chain)) = states::decode(state) else {
                    let what = format!("{} adopts an invalid state", self.cast.name(actor));
                    return self.judge.complain(Law::Agreement, what);
                };
                self.judge.adopts(actor, &chain);
                place.chain = chain;
                self.answer_with(Input::Adopted { checkpoint, frontier });
            }
            _ => unreachable!("it is performed elsewhere"),
        }
    }

    /// Stops an actor. This is a violation if the actor is checked. A Byzantine actor's halt proves nothing, and it
    /// continues.
    fn halt(&mut self, actor: ActorId, why: &Halt) {
        self.transcript.add(&self.cast, actor, || text::halt(why));
        if !self.judge.trusts(actor) {
            return;
        }
        self.judge.complain(Law::Agreement, format!("{} {}", self.cast.name(actor), text::halt(why)));
    }

    fn send(&mut self, actor: ActorId, to: To, message: &mut Envelope<P::Message>, sign: bool) {
        let identity = self.actors[actor.0].identity;
        self.judge.says(identity, message);
        if let Some(vote) = message.vote_to_sign().filter(|vote| vote.voter == identity) {
            self.judge.states(actor, &vote.subject, statement(identity, &vote.subject, &vote.attachment));
            if sign {
                self.notary.sign(identity, vote);
            }
        }
        // Messages outside the protocol belong to the sender's view, so no kind bypasses the links.
        let own = if let Envelope::Protocol(message) = &*message { message.view() } else { None };
        let view = own.unwrap_or_else(|| self.actors[actor.0].replica.view());
        if matches!(to, To::One(one) if one != identity) {
            self.count_work(actor);
        }
        let itself: ActorSet = 1 << actor.0;
        let meant = match to {
            To::One(one) => self.instances[one.index()],
            To::All => self.cast.everybody(),
            To::Others => self.cast.everybody() & !itself,
        };
        let reached = meant & (self.links.reach(view, actor) | itself);
        self.transcript.sends(&self.cast, actor, (reached, meant & !reached), message);
        self.spread(actor, reached, view, message);
    }

    /// Counts a message to a single recipient: an answer to it, or a vote that it collects.
    fn count_work(&mut self, actor: ActorId) {
        let told = &mut self.told[actor.0];
        *told = told.saturating_add(1);
        if *told == MAX_TOLD + 1 && self.judge.trusts(actor) {
            let what =
                format!("{} sends more than {MAX_TOLD} messages to single others in a view", self.cast.name(actor));
            self.judge.complain(Law::Work, what);
        }
    }

    fn spread(&mut self, actor: ActorId, reached: ActorSet, view: View, message: &mut Envelope<P::Message>) {
        let (from, mut rest) = (self.actors[actor.0].identity, reached);
        while rest != 0 {
            let to = ActorId(rest.trailing_zeros() as usize);
            rest &= rest - 1;
            let lost = to != actor && self.lose.as_mut().is_some_and(|lose| lose(actor, to, view, message));
            if lost || !self.actors[to.0].up {
                continue;
            }
            let message = self.letters.keep(match rest {
                0 => std::mem::replace(message, Envelope::Ask { nonce: 0 }),
                _ => message.clone(),
            });
            self.deposit(Parcel { from, to, view, message });
        }
    }

    #[inline]
    pub(super) fn deposit(&mut self, parcel: Parcel) {
        match parcel.view <= self.limit {
            true if self.near >> parcel.from.index() & 1 == 1 => self.first.push_back(parcel),
            true => self.queue.push_back(parcel),
            false => self.waiting.push(parcel),
        }
    }
}
