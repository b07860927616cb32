//! Host of the replicas: delivers, signs, verifies, stores and executes immediately.

use super::{Answer, MAX_DELIVERIES, MAX_SINGLE_SENDS, Parcel, World};
use crate::twins::checker::Property;
use crate::twins::participants::{InstanceId, InstanceSet};
use crate::twins::signatures::statement;
use crate::twins::states;
use quorate_consensus::seam::{Action, Envelope, Halt, Input, Mark, Timer, To, text};
use quorate_consensus::{Message, Protocol};
use quorate_types::{Manifest, View};

impl<P: Protocol> World<P> {
    /// Delivers messages until none of the running views is left and every instance has requested its missing data.
    pub fn settle(&mut self) {
        let mut tries = 0;
        loop {
            while let Some(parcel) = self.first.pop_front().or_else(|| self.queue.pop_front()) {
                self.deliver(parcel);
            }
            // Leaders wait for messages only while some are in transit.
            if self.ring_next(Timer::Votes) || self.ring_next(Timer::Batch) {
                continue;
            }
            if tries == self.participants.replicas() || !self.ring_next(Timer::Fetch) {
                return;
            }
            tries += 1;
        }
    }

    #[inline(always)]
    fn deliver(&mut self, parcel: Parcel) {
        let mut message = self.letters.take(parcel.message);
        if !self.divided.is_empty() {
            let (divided, replica) = (&self.divided, &self.instances[parcel.to.0].replica);
            message.retain_bundles(|bundle| {
                let accepting = divided.get(&bundle.digest());
                accepting
                    .is_none_or(|accepting| accepting >> parcel.to.0 & 1 == 1 || replica.is_decided(&bundle.digest()))
            });
        }
        self.deliveries += 1;
        if self.deliveries > MAX_DELIVERIES {
            let left = self.first.drain(..).chain(self.queue.drain(..));
            left.for_each(|parcel| drop(self.letters.take(parcel.message)));
            return self.checker.report(Property::Liveness, format!("more than {MAX_DELIVERIES} messages in one view"));
        }
        self.step(parcel.to, Input::Receive { from: parcel.from, message });
    }

    /// Fires a timer at the instance where it is due next. Returns whether it is set anywhere.
    fn ring_next(&mut self, timer: Timer) -> bool {
        let Some(due) = self.instances.iter().filter_map(|instance| instance.alarm(timer)).min() else { return false };
        self.now = self.now.max(due);
        for at in 0..self.instances.len() {
            if self.instances[at].alarm(timer).is_some_and(|due| due <= self.now) {
                self.ring(InstanceId(at), timer);
            }
        }
        true
    }

    /// Fires a timer of an instance, if it is set.
    pub fn ring(&mut self, instance: InstanceId, timer: Timer) {
        if self.instances[instance.0].take_alarm(timer) {
            self.step(instance, Input::Timeout(timer));
        }
    }

    /// Passes an input to an instance.
    #[inline]
    pub fn step(&mut self, instance: InstanceId, input: Input<P::Message>) {
        if !self.instances[instance.0].up {
            return;
        }
        self.announce_script();
        self.feed(instance, input);
        self.answer(instance);
    }

    #[inline(always)]
    #[cfg_attr(not(feature = "museum"), expect(unused_mut))]
    fn feed(&mut self, instance: InstanceId, mut input: Input<P::Message>) {
        let mut actions = std::mem::take(&mut self.actions);
        #[cfg(feature = "museum")]
        if let Some(rewriter) = &mut self.instances[instance.0].rewriter
            && !rewriter.hear(&mut input)
        {
            self.actions = actions;
            return;
        }
        if let Some(behaviour) = &mut self.instances[instance.0].behaviour {
            behaviour.observe(&input);
        }
        self.instances[instance.0].replica.step(self.now, input, &mut actions);
        self.perform_all(instance, actions);
    }

    /// Passes the host's answers to an instance.
    pub(super) fn answer(&mut self, instance: InstanceId) {
        while let Some(answer) = self.answers.pop_front().filter(|_| self.instances[instance.0].up) {
            match answer {
                Answer::Verdict(job, genuine) => self.feed(instance, Input::Verdict { job, genuine }),
                Answer::Other(input) => self.feed(instance, *input),
            }
        }
    }

    fn answer_with(&mut self, input: Input<P::Message>) {
        self.answers.push_back(Answer::Other(Box::new(input)));
    }

    pub(super) fn perform_all(&mut self, instance: InstanceId, mut actions: Vec<Action<P::Message>>) {
        #[cfg(feature = "museum")]
        if let Some(rewriter) = &mut self.instances[instance.0].rewriter {
            rewriter.rewrite(&mut actions);
        }
        if let Some(rewrite) = &mut self.instances[instance.0].rewrite {
            rewrite(self.now, &mut actions);
        }
        if let Some(behaviour) = &mut self.instances[instance.0].behaviour {
            behaviour.rewrite(self.now, &mut actions);
        }
        for action in &mut actions {
            if self.instances[instance.0].burns_down() {
                self.crash(instance);
                break;
            }
            self.perform(instance, action);
        }
        self.checker.settles();
        actions.clear();
        self.actions = actions;
    }

    /// Performs an action. Actions are large and numerous, so they stay in place and only the needed parts are moved
    /// out.
    fn perform(&mut self, instance: InstanceId, action: &mut Action<P::Message>) {
        match action {
            Action::Send { to, message, sign, .. } => self.send(instance, *to, message, *sign),
            Action::Persist { id, record } => {
                self.checker.journals(instance, record, Some(self.now.0 / 1_000_000));
                if self.journals {
                    self.instances[instance.0].journal.push((*id, record.clone()));
                }
            }
            Action::Verify { job, certificates, votes } => {
                let to = self.instances[instance.0].identity;
                let genuine = certificates.iter().all(|certificate| self.signatures.is_certified(to, certificate))
                    && votes.iter().all(|vote| self.signatures.is_genuine(to, vote));
                self.answers.push_back(Answer::Verdict(*job, genuine));
            }
            Action::Assemble { job, subject, votes } => {
                let at = self.instances[instance.0].identity;
                let result = self.signatures.assemble(at, subject, std::mem::take(votes));
                self.answer_with(Input::Assembled { job: *job, result });
            }
            Action::Arm { timer, after } => self.instances[instance.0].arm(*timer, self.now + *after),
            Action::Commit { block, bundles } => {
                self.transcript.commits(&self.participants, instance, block);
                self.instances[instance.0].chain.push(block.digest());
                self.checker.commits(instance, block, bundles);
            }
            Action::Accuse(evidence) => self.checker.accuses(instance, evidence.first.voter),
            // A scenario has few bundles, and its journals are complete or gone.
            Action::Refuse { .. } | Action::AcceptRepair { .. } => {}
            Action::Halt(why) => self.halt(instance, why),
            Action::Mark(mark) => self.transcript.add(&self.participants, instance, || text::mark(mark)),
            action => self.perform_on_state(instance, std::mem::replace(action, Action::Mark(Mark::Forgot))),
        }
    }

    fn perform_on_state(&mut self, instance: InstanceId, action: Action<P::Message>) {
        let place = &mut self.instances[instance.0];
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
                    let what = format!("{} adopts an invalid state", self.participants.name(instance));
                    return self.checker.report(Property::Agreement, what);
                };
                self.checker.adopts(instance, &chain);
                place.chain = chain;
                self.answer_with(Input::Adopted { checkpoint, frontier });
            }
            _ => unreachable!("it is performed elsewhere"),
        }
    }

    /// Stops an instance. This is a violation if the instance is checked. A Byzantine instance's halt proves nothing,
    /// and it continues.
    fn halt(&mut self, instance: InstanceId, why: &Halt) {
        self.transcript.add(&self.participants, instance, || text::halt(why));
        if !self.checker.trusts(instance) {
            return;
        }
        self.checker.report(Property::Agreement, format!("{} {}", self.participants.name(instance), text::halt(why)));
    }

    fn send(&mut self, instance: InstanceId, to: To, message: &mut Envelope<P::Message>, sign: bool) {
        let identity = self.instances[instance.0].identity;
        self.checker.says(identity, message);
        if let Some(vote) = message.vote_to_sign().filter(|vote| vote.voter == identity) {
            self.checker.states(instance, &vote.subject, statement(identity, &vote.subject, &vote.attachment));
            if sign {
                self.signatures.sign(identity, vote);
            }
        }
        // Messages outside the protocol belong to the sender's view, so no kind bypasses the links. Retransmissions and
        // requests of a restarted replica belong to the view of the script, since its own may be far behind.
        let own = if let Envelope::Protocol(message) = &*message { message.view() } else { None };
        let place = &self.instances[instance.0];
        let least = if place.restarts > 0 { self.limit } else { View(0) };
        let view = own.unwrap_or_else(|| place.replica.view()).max(least);
        if matches!(to, To::One(one) if one != identity) {
            self.count_work(instance);
        }
        let itself: InstanceSet = 1 << instance.0;
        let meant = match to {
            To::One(one) => self.by_identity[one.index()],
            To::All => self.participants.everybody(),
            To::Others => self.participants.everybody() & !itself,
        };
        let reached = meant & (self.links.reach(view, instance) | itself);
        self.transcript.sends(&self.participants, instance, (reached, meant & !reached), message);
        self.spread(instance, reached, view, message);
    }

    /// Counts a message to a single recipient: an answer, or a vote to its collector.
    fn count_work(&mut self, instance: InstanceId) {
        let single_sends = &mut self.single_sends[instance.0];
        *single_sends = single_sends.saturating_add(1);
        if *single_sends == MAX_SINGLE_SENDS + 1 && self.checker.trusts(instance) {
            let what = format!(
                "{} sends more than {MAX_SINGLE_SENDS} messages to single others in a view",
                self.participants.name(instance)
            );
            self.checker.report(Property::Work, what);
        }
    }

    fn spread(&mut self, instance: InstanceId, reached: InstanceSet, view: View, message: &mut Envelope<P::Message>) {
        let (from, mut rest) = (self.instances[instance.0].identity, reached);
        while rest != 0 {
            let to = InstanceId(rest.trailing_zeros() as usize);
            rest &= rest - 1;
            let lost = to != instance && self.lose.as_mut().is_some_and(|lose| lose(instance, to, view, message));
            if lost || !self.instances[to.0].up {
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
