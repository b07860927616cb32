//! The shell around a protocol: it takes one input and returns actions.
//!
//! The shell rejects strangers and malformed messages, has certificates verified before the protocol sees them, counts
//! votes, fetches missing data and answers peers' requests. Only agreement is left to the protocol.

pub mod make;
pub mod silence;

mod absence;
mod answers;
mod certification;
mod checkpoints;
mod late_votes;
mod observation;
mod recovery;
mod relays;
mod transfer;

use crate::config::Config;
use crate::data::alone::Alone;
use crate::data::answers::Answers;
use crate::data::batches::{Cover, Entry};
use crate::data::digest_map::Salt;
use crate::data::pool::{Need, Offered, Source};
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::{Admission, Event, Protocol, Recalled};
use crate::protocols::turn::Turn;
use crate::recovery::checkpoints::Checkpoints;
use crate::recovery::jobs::Jobs;
use crate::recovery::journal::{Asking, Standing};
use crate::recovery::transfer::Transfer;
use crate::seam::{Action, Drop, Envelope, Evidence, Input, Job, Refusal, Timer, To};
use crate::store::Store;
use crate::voting::clock::Clock;
use crate::voting::fairness::Fairness;
use crate::voting::leader::{LeaderElection, LeaderScript};
use crate::voting::pacemaker::Pacemaker;
use crate::voting::safety::Safety;
use crate::voting::spreading::Spreading;
use crate::voting::tally::{Counted, Tally};
use quorate_types::{Bundle, Certificate, Domain, EpochId, Height, Quorum, ReplicaId, Subject, Time, View, Vote};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use make::{ForProtocol, MakeReplica, for_protocol};
use recovery::{Recollection, Returning};

/// Maximum number of verifications pending at the crypto device per peer.
const MAX_CHECKS_PER_PEER: usize = 256;
/// Maximum burst of suspected contradictions to verify per peer. A single genuine one is proof, and each costs up to
/// three verifications.
const MAX_SUSPICIONS_PER_PEER: u32 = 16;
/// Interval at which a peer regains one such verification, so that bogus contradictions cannot use up the budget for
/// genuine ones.
const SUSPICION_INTERVAL: Duration = Duration::from_secs(1);

enum Pending<M> {
    Message {
        from: ReplicaId,
        message: M,
    },
    Quorum(Subject),
    Evidence(Box<Evidence>),
    /// A contradiction with a forged statement; the pending verification shows whether the first statement is the
    /// forged one.
    First(Box<Evidence>),
    Standing {
        from: ReplicaId,
        standing: Standing,
    },
    Offer {
        from: ReplicaId,
        checkpoint: Box<Certificate>,
    },
    Covers {
        from: ReplicaId,
        covers: Vec<Cover>,
    },
    Void {
        from: ReplicaId,
        certificate: Box<Certificate>,
    },
}

/// [`Replica::step`] of one protocol.
type Step<P> = fn(&mut Replica<P>, Time, Input<<P as Protocol>::Message>, &mut Vec<Action<<P as Protocol>::Message>>);

/// Replica of one protocol.
pub struct Replica<P: Protocol> {
    protocol: P,
    /// Called through a pointer, so that only the crate that makes the replica compiles the engine (ADR 072).
    process: Step<P>,
    parts: Parts,
    out: Outbox<P::Message>,
    jobs: Jobs<Pending<P::Message>>,
    checks: Vec<usize>,
    /// Time until which each peer's recent contradictions count against its burst.
    suspected_until: Vec<Time>,
    fetch_armed: Option<Time>,
    /// Subjects for which late votes are awaited, each with the end of the wait, in order of these ends.
    awaited: VecDeque<(Time, Subject)>,
    evidence: Vec<Evidence>,
    salt: u64,
    /// Progress of restoring the journal.
    recalled: Recollection,
    /// Question to all peers that no quorum has answered yet.
    asking: Option<Asking>,
    /// State of the return after the journal was lost; `None` if it never was, as far as the journal shows.
    returning: Option<Returning>,
    /// Height up to which blocks may rely on bundles that this replica acknowledged and then lost with its journal.
    lost_kept: Option<Height>,
    started: bool,
    stopped: bool,
    /// Newest checkpoint above the committed height whose state a peer has offered, for each peer.
    offers: BTreeMap<ReplicaId, Certificate>,
    /// Number of offers that led to no state, for each peer.
    void_offers: BTreeMap<ReplicaId, u32>,
    /// State transfer in progress.
    transfer: Option<Transfer>,
    /// Last sweep of uncertified bundles.
    swept: Time,
    /// Injected bug; `None` in production.
    #[cfg(feature = "mutants")]
    bug: Option<crate::mutants::Bug>,
}

impl<P: Protocol> Replica<P> {
    /// Creates a replica in its initial state. `salt` is any number unknown to strangers; it affects only the order
    /// inside hash tables.
    pub fn new(protocol: P, config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Self {
        assert!(me.index() < quorum.replicas(), "replica {me} is not among the {} of its committee", quorum.replicas());
        config.validate().expect("the host validates its configuration before it starts a replica");
        let genesis = Certificate::genesis(&epoch);
        let parts = Parts {
            store: Store::new(&config, quorum, me, genesis.subject.digest, Salt(salt)),
            safety: Safety::new(genesis.subject),
            pacemaker: Pacemaker::new(&config, quorum),
            clock: Clock::new(&config),
            fairness: Fairness::new(&config, quorum),
            alone: Alone::new(quorum),
            leaders: LeaderElection::new(config.leader, quorum).with_duties(P::duties()),
            tally: Tally::with(quorum, P::counting).awaiting_late(config.vote_wait_us > 0),
            checkpoints: Checkpoints::new(&config, quorum, genesis.clone()),
            answers: Answers::new(&config, quorum),
            spreading: Spreading::new(&config, quorum, me, Salt(salt)),
            config,
            quorum,
            epoch,
            me,
            genesis,
        };
        Replica {
            protocol,
            process: Replica::process,
            parts,
            out: Outbox::new(),
            jobs: Jobs::new(),
            checks: vec![0; quorum.replicas()],
            suspected_until: vec![Time(0); quorum.replicas()],
            fetch_armed: None,
            awaited: VecDeque::new(),
            evidence: Vec::new(),
            salt,
            recalled: Recollection::default(),
            asking: None,
            returning: None,
            lost_kept: None,
            started: false,
            stopped: false,
            offers: BTreeMap::new(),
            void_offers: BTreeMap::new(),
            transfer: None,
            swept: Time(0),
            #[cfg(feature = "mutants")]
            bug: None,
        }
    }

    /// Processes one input and appends the resulting actions.
    pub fn step(&mut self, now: Time, input: Input<P::Message>, actions: &mut Vec<Action<P::Message>>) {
        (self.process)(self, now, input, actions);
    }

    fn process(&mut self, now: Time, input: Input<P::Message>, actions: &mut Vec<Action<P::Message>>) {
        #[cfg(feature = "mutants")]
        let _having = crate::mutants::having(self.bug);
        assert!(!self.stopped, "a stopped replica takes no input");
        match input {
            Input::Recall { id, record } => return self.recall(id, record, actions),
            Input::Forgot => return self.forgot(actions),
            Input::Start => self.start(now),
            Input::Summarize => self.summarize(),
            Input::Receive { from, message } => self.receive(now, from, message),
            Input::Submit { bundles, sources } => {
                self.parts.store.pool.warm(bundles.iter().map(Bundle::digest));
                let needs =
                    sources.into_iter().map(Need::Offered).chain(std::iter::repeat(Need::Offered(Source::Unnamed)));
                self.submit(now, self.parts.me, bundles.into_iter().zip(needs));
            }
            Input::Clock { origin_ms } => self.parts.clock.set(origin_ms),
            Input::Left(source) => self.parts.store.pool.leave(source),
            Input::Timeout(Timer::Fetch) => self.fetch_armed = None,
            Input::Timeout(Timer::Votes) => self.close_late(now),
            Input::Timeout(timer) => self.tell(now, Event::Timeout(timer)),
            Input::Verdict { job, genuine } => self.on_verdict(now, job, genuine),
            Input::Assembled { job, result } => self.on_assembled(now, job, result),
            Input::Executed { height, state, kept } => self.on_executed(now, height, state, kept),
            Input::Kept { checkpoint } => self.on_kept(*checkpoint),
            Input::StateRead { to, height, part, bytes } => self.state_read(now, to, height, part, bytes),
            Input::Holds { height, chunks } => self.on_held(now, height, &chunks),
            Input::Adopted { checkpoint, frontier } => self.on_adopted(now, *checkpoint, frontier),
        }
        self.finish(now, actions);
    }

    /// Makes this replica run with a bug.
    #[cfg(feature = "mutants")]
    pub fn mutate(mut self, bug: crate::mutants::Bug) -> Self {
        self.bug = Some(bug);
        self
    }

    /// Lets a script determine the leaders. For scripted worlds only: no configuration calls this.
    pub fn follow_script(&mut self, script: Arc<LeaderScript>) {
        self.parts.leaders.follow_script(script);
    }

    /// Moves to a higher view without evidence that it has begun, like the paper's pacemaker, which moves by time
    /// alone. No input calls this: it is for scripted worlds, in which an isolated replica cannot collect the timeouts
    /// of a quorum. A replica takes part in its view there, however it entered it.
    pub fn force_view(&mut self, now: Time, view: View, actions: &mut Vec<Action<P::Message>>) {
        #[cfg(feature = "mutants")]
        let _having = crate::mutants::having(self.bug);
        assert!(self.parts.leaders.is_scripted(), "views are forced in scripted worlds only");
        assert!(view > self.view(), "views are forced upwards, not from {:?} to {view:?}", self.view());
        let Replica { protocol, parts, out, .. } = self;
        protocol.force_view(view, &mut Turn { now, parts, out });
        self.finish(now, actions);
    }

    fn finish(&mut self, now: Time, actions: &mut Vec<Action<P::Message>>) {
        // Before the start, the protocol has not reached the end of its journal.
        if self.started {
            self.settle(now);
            self.pace_batches(now);
            self.pace_absence(now);
            self.request_missing(now);
            self.confirm_return();
            self.protocol.invariants(&self.parts);
            self.parts.store.invariants();
            self.parts.safety.invariants();
            self.parts.tally.invariants();
            self.parts.checkpoints.invariants();
            self.parts.answers.invariants();
            self.parts.spreading.invariants();
            self.transfer.iter().for_each(Transfer::invariants);
        }
        self.out.fall_silent();
        // Actions are large, so the lists are swapped where possible, not copied.
        match actions.is_empty() {
            true => std::mem::swap(actions, &mut self.out.actions),
            false => actions.append(&mut self.out.actions),
        }
    }

    fn receive(&mut self, now: Time, from: ReplicaId, message: Envelope<P::Message>) {
        if from.index() >= self.parts.quorum.replicas() {
            return self.drop_message(from, Drop::Stranger);
        }
        match message {
            Envelope::Protocol(message) => match self.protocol.admit(&self.parts, from, &message) {
                Admission::Drop(why) => self.drop_message(from, why),
                Admission::Tally(vote) => self.count(now, vote),
                Admission::Check(certificates) => self.check(now, from, message, certificates, Vec::new()),
                Admission::CheckSigned(certificates, votes) => self.check(now, from, message, certificates, votes),
            },
            Envelope::FetchBlocks { digest, above, most } => self.answer_blocks(now, from, digest, above, most),
            Envelope::FetchBundles { digests, above } => self.answer_bundles(now, from, &digests, above),
            Envelope::Blocks(blocks) => {
                for block in blocks {
                    if !self.parts.store.wants_block(&block.digest()) {
                        self.drop_message(from, Drop::Unasked);
                        break;
                    }
                    self.turn(now).offer(block, from);
                }
            }
            Envelope::Bundles(bundles) => self.take_fetched(now, from, bundles),
            Envelope::Relay(bundles) => self.on_relay(now, from, bundles),
            Envelope::Spread(bundles) => self.on_spread(now, from, bundles),
            Envelope::Batch(batch) => self.on_batch(now, from, batch),
            Envelope::Stored(vote) => self.on_stored(now, from, vote),
            Envelope::Certified(certificate) => self.on_certified(now, from, *certificate),
            Envelope::Covers(covers) => self.on_covers(from, covers),
            Envelope::Absent(vote) => self.on_absent(now, from, vote),
            Envelope::Void(certificate) => self.on_void(from, *certificate),
            Envelope::Noted { bundle } => self.parts.fairness.on_note(now, from, &bundle),
            Envelope::Ask { .. } if from == self.parts.me => self.on_return_durable(),
            Envelope::Ask { nonce } => self.answer_how_far(now, from, nonce),
            Envelope::Standing { nonce, standing } => self.check_standing(now, from, nonce, standing),
            Envelope::Checkpoint(vote) => match self.parts.checkpoints.refuses(from, &vote, self.committed_height()) {
                Some(why) => self.drop_message(from, why),
                None => self.count(now, vote),
            },
            Envelope::Offer { checkpoint } => self.check_offer(now, from, *checkpoint),
            Envelope::FetchState { height, part } => self.read_state(now, from, height, part),
            Envelope::StatePart { height, part, bytes } => self.take_part(now, from, height, part, bytes),
        }
    }

    /// Handles requested bundles. Discards those no longer wanted: they may have been executed and forgotten in the
    /// meantime, and would then look like new bundles to order.
    fn take_fetched(&mut self, now: Time, from: ReplicaId, mut bundles: Vec<Bundle>) {
        let store = &self.parts.store;
        let came = bundles.len();
        bundles.retain(|bundle| store.wants_bundle(&bundle.digest()));
        if bundles.len() < came {
            self.drop_message(from, Drop::Unasked);
        }
        let absence = &mut self.parts.store.absence;
        bundles.retain(|bundle| absence.may_take(from, &bundle.digest()));
        if !bundles.is_empty() {
            self.submit(now, from, bundles.into_iter().map(|bundle| (bundle, Need::Proposed)));
            self.parts.store.on_answer(now, from);
        }
    }

    fn submit(&mut self, now: Time, from: ReplicaId, bundles: impl Iterator<Item = (Bundle, Need)>) {
        let (mut news, mut to_spread) = (0, Vec::new());
        let dissemination = self.parts.config.dissemination;
        for (bundle, need) in bundles {
            let (digest, commands) = (bundle.digest(), bundle.len());
            let from_client = matches!(need, Need::Offered(_));
            if from_client || matches!(need, Need::Spread(_)) {
                self.parts.store.on_arrival(now, &digest);
            }
            let spread = (dissemination.is_spread() && from_client).then(|| bundle.clone());
            let offered = self.parts.store.supply_for(bundle, need, &self.parts.leaders, &mut self.out.whole);
            let uncertified = dissemination.is_certified() && self.parts.store.pool.is_uncertified(&digest);
            // Its client has turned to this replica because another replica does not get it certified.
            let listed = spread.as_ref().is_some_and(|new| uncertified && self.parts.spreading.add(Entry::of(new)));
            if listed || offered == Offered::New {
                to_spread.extend(spread);
            }
            let (dropped, refused) = match offered {
                Offered::New => {
                    news += if uncertified { 0 } else { commands };
                    continue;
                }
                // A bundle that is already waiting is not refused: its client gets an answer once it is executed.
                Offered::Known => {
                    (Drop::Repeated, self.parts.store.pool.is_executed(&digest).then_some(Refusal::Executed))
                }
                Offered::Full => (Drop::PoolFull, Some(Refusal::PoolFull)),
                Offered::Late => (Drop::Expired, Some(Refusal::Expired)),
            };
            if from_client || dropped != Drop::Repeated {
                self.drop_message(from, dropped);
            }
            if let Some(why) = refused.filter(|_| from_client) {
                self.out.actions.push(Action::Refuse { bundle: digest, why });
            }
        }
        // The bundles are sent before a proposal can name them; links keep the order.
        self.spread(To::Others, to_spread);
        if news > 0 {
            self.tell(now, Event::Work(news));
        }
    }

    fn check(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: P::Message,
        mut certificates: Vec<Certificate>,
        votes: Vec<Vote>,
    ) {
        certificates.retain(|certificate| *certificate != self.parts.genesis);
        if certificates.is_empty() && votes.is_empty() {
            return self.tell(now, Event::Message { from, message });
        }
        if self.checks[from.index()] >= MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let job = self.jobs.ask(Pending::Message { from, message });
        self.out.actions.push(Action::Verify { job, certificates, votes });
    }

    fn on_verdict(&mut self, now: Time, job: Job, genuine: bool) {
        match self.jobs.take(job) {
            Some(Pending::Message { from, message }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => self.tell(now, Event::Message { from, message }),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Evidence(evidence)) if genuine => {
                self.evidence.push((*evidence).clone());
                self.out.actions.push(Action::Accuse(evidence));
            }
            // The first vote was counted on arrival. If it is the forged one, it must not hide the voter's other vote.
            Some(Pending::Evidence(evidence)) => {
                let votes = vec![evidence.first.clone()];
                let job = self.jobs.ask(Pending::First(evidence));
                self.out.actions.push(Action::Verify { job, certificates: Vec::new(), votes });
            }
            Some(Pending::First(_)) if genuine => {}
            Some(Pending::First(evidence)) => {
                let Evidence { first, second } = *evidence;
                if self.tally_of(&first.subject).strike_vote(&first) {
                    self.drop_message(first.voter, Drop::NotGenuine);
                    self.count(now, second);
                }
            }
            Some(Pending::Standing { from, standing }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => self.on_standing(now, from, standing),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Offer { from, checkpoint }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => self.on_offer(now, from, *checkpoint),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Covers { from, covers }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => self.take_covers(now, covers),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Void { from, certificate }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => _ = self.take_void(*certificate),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Quorum(_)) | None => panic!("the host answered {job:?}, which is not pending"),
        }
    }

    fn on_assembled(&mut self, now: Time, job: Job, result: Result<Certificate, Vec<ReplicaId>>) {
        let Some(Pending::Quorum(subject)) = self.jobs.take(job) else {
            panic!("the host answered {job:?}, which is not pending");
        };
        match result {
            Ok(certificate) => {
                self.tally_of(&subject).settle(&subject);
                match subject.domain {
                    Domain::Checkpoint => {
                        self.turn(now).stabilise(certificate);
                        self.tell(now, Event::Stable);
                    }
                    Domain::Stored => self.on_quorum_stored(now, certificate),
                    Domain::Absent => self.on_quorum_absent(certificate),
                    _ => self.tell(now, Event::Certified(certificate)),
                }
            }
            Err(voters) => {
                assert!(!voters.is_empty(), "an invalid quorum contains an invalid vote");
                for voter in &voters {
                    self.drop_message(*voter, Drop::NotGenuine);
                }
                let counted = self.tally_of(&subject).strike(&subject, &voters);
                self.on_counted(now, counted, None);
            }
        }
    }

    fn tally_of(&mut self, subject: &Subject) -> &mut Tally {
        match subject.domain {
            Domain::Checkpoint => &mut self.parts.checkpoints.tally,
            Domain::Stored => &mut self.parts.spreading.tally,
            Domain::Absent => &mut self.parts.store.absence.tally,
            _ => &mut self.parts.tally,
        }
    }

    fn count(&mut self, now: Time, vote: Vote) {
        let counted = self.tally_of(&vote.subject).add(vote.clone());
        self.on_counted(now, counted, Some(vote));
    }

    fn on_counted(&mut self, now: Time, counted: Counted, vote: Option<Vote>) {
        match (counted, vote) {
            (Counted::Quorum(subject, votes), _) => {
                let job = self.jobs.ask(Pending::Quorum(subject));
                self.out.actions.push(Action::Assemble { job, subject, votes });
            }
            (Counted::Enough(subject), _) => self.await_late(now, subject),
            (Counted::Agreed(subject), _) => self.tell(now, Event::Agreed(subject)),
            (Counted::Contradiction(first), Some(second)) => {
                self.drop_message(second.voter, Drop::Contradiction);
                self.out.suspects.push(Evidence { first: *first, second });
            }
            _ => {}
        }
    }

    fn tell(&mut self, now: Time, event: Event<P::Message>) {
        let Replica { protocol, parts, out, .. } = self;
        protocol.handle(event, &mut Turn { now, parts, out });
    }

    fn turn(&mut self, now: Time) -> Turn<'_, P::Message> {
        Turn { now, parts: &mut self.parts, out: &mut self.out }
    }

    /// Processes the consequences of a step: completed blocks, votes to count, and contradictions to verify.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(digest) = self.out.whole.pop() {
                self.tell(now, Event::Whole(digest));
            } else if self.parts.store.has_released() {
                self.parts.store.release_certified(&self.parts.leaders, &mut self.out.whole);
            } else if self.parts.store.take_supplied() {
                self.tell(now, Event::Supplied);
            } else if let Some(vote) = self.out.votes.pop() {
                self.count(now, vote);
            } else if let Some(evidence) = self.out.suspects.pop() {
                let until = &mut self.suspected_until[evidence.second.voter.index()];
                let next = (*until).max(now) + SUSPICION_INTERVAL;
                if next > now + SUSPICION_INTERVAL * MAX_SUSPICIONS_PER_PEER {
                    continue;
                }
                *until = next;
                let votes = vec![evidence.first.clone(), evidence.second.clone()];
                let job = self.jobs.ask(Pending::Evidence(Box::new(evidence)));
                self.out.actions.push(Action::Verify { job, certificates: Vec::new(), votes });
            } else {
                return;
            }
        }
    }

    fn request_missing(&mut self, now: Time) {
        if !P::FACTS.repairs_losses {
            return;
        }
        self.ask_others(now);
        if self.parts.store.next_request().is_some_and(|due| due <= now) {
            let mut requests = Vec::new();
            self.parts.store.requests(now, &mut requests);
            let sends = requests.into_iter().map(|(replica, message)| Action::Send {
                to: To::One(replica),
                message,
                after: None,
                sign: false,
            });
            self.out.actions.extend(sends);
            self.fetch_armed = None;
        }
        self.request_state(now);
        let asking = self.asking.as_ref().map(|asking| asking.due);
        let state = self.transfer.as_ref().and_then(Transfer::next_request);
        let batches = self.parts.spreading.next_act();
        let absence = self.parts.store.absence.next_act();
        let due = self.parts.store.next_request().into_iter().chain(asking).chain(state).chain(batches).chain(absence);
        let due = due.min();
        let Some(due) = due else { return };
        if self.fetch_armed.is_none_or(|armed| armed > due) {
            self.fetch_armed = Some(due);
            self.out.arm(Timer::Fetch, due.since(now));
        }
    }

    fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        self.out.drop_message(from, why);
    }
}
