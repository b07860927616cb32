//! The shell around a protocol: one input in, actions out.
//!
//! It keeps strangers and nonsense out, has certificates checked before the protocol sees them, counts votes, fetches what is
//! missing and answers who lacks something. What is left for the protocol is the protocol.

use crate::config::Config;
use crate::digest_map::Salt;
use crate::leader::LeaderElection;
use crate::pacemaker::Pacemaker;
use crate::pool::Offered;
use crate::safety::{Ballot, Safety};
use crate::seam::{
    Action, Drop, Envelope, Evidence, Input, Job, MAX_FETCHED_BLOCKS, Mark, Message, RecordId, Timer, To,
};
use crate::store::{Store, Taken};
use crate::tally::{Counted, Counting, Tally};
use quorate_types::{
    Block, Bundle, Certificate, ClusterId, Digest, Domain, Height, Quorum, ReplicaId, Subject, Time, View, Vote,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most questions about one peer's messages that may be with the crypto device at a time.
const MAX_CHECKS_PER_PEER: usize = 256;
/// Most contradictions of one peer that are looked into: one proves the point, and each costs two verifications.
const MAX_SUSPICIONS_PER_PEER: usize = 16;

/// What a cheap look at a message says.
#[derive(Debug)]
pub enum Admission {
    /// Not to be acted on.
    Drop(Drop),
    /// A vote to be counted.
    Tally(Vote),
    /// To be handled when these certificates are genuine; none means at once.
    Check(Vec<Certificate>),
    /// To be handled when these certificates and signatures are genuine.
    CheckSigned(Vec<Certificate>, Vec<Vote>),
}

/// What the shell tells a protocol.
#[derive(Debug)]
pub enum Event<M> {
    /// Begin.
    Start,
    /// A message whose certificates are genuine.
    Message {
        /// The sender.
        from: ReplicaId,
        /// What it says.
        message: M,
    },
    /// A quorum has voted.
    Certified(Certificate),
    /// A quorum has voted, in a kind of vote that is not certified.
    Agreed(Subject),
    /// The state has this digest when all up to this height is executed.
    Executed {
        /// The height.
        height: Height,
        /// The digest.
        state: Digest,
    },
    /// An alarm rang.
    Timeout(Timer),
    /// So many commands came in.
    Work(usize),
    /// A block is whole now: its ancestors and bundles are here.
    Whole(Digest),
}

/// A consensus protocol on the shared parts.
pub trait Protocol: Send {
    /// What its replicas say to each other.
    type Message: Message;
    /// A cheap look without side effects; `from` is in the committee.
    fn admit(&self, parts: &Parts, from: ReplicaId, message: &Self::Message) -> Admission;
    /// Acts.
    fn handle(&mut self, now: Time, event: Event<Self::Message>, parts: &mut Parts, out: &mut Outbox<Self::Message>);
    /// Holds after every step.
    fn invariants(&self, parts: &Parts);
    /// How the votes of a kind are counted.
    fn counting(_domain: Domain) -> Counting {
        Counting::default()
    }
}

/// The parts that every protocol shares.
pub struct Parts {
    /// The settings.
    pub config: Config,
    /// n and f.
    pub quorum: Quorum,
    /// The cluster's name.
    pub cluster: ClusterId,
    /// This replica.
    pub me: ReplicaId,
    /// Blocks and commands.
    pub store: Store,
    /// What this replica has bound itself to.
    pub safety: Safety,
    /// The clock of views.
    pub pacemaker: Pacemaker,
    /// Who leads.
    pub leaders: LeaderElection,
    /// Votes.
    pub tally: Tally,
}

/// Where a protocol puts what it wants done.
pub struct Outbox<M> {
    actions: Vec<Action<M>>,
    votes: Vec<Vote>,
    suspects: Vec<Evidence>,
    whole: Vec<Digest>,
    dropped: BTreeMap<Drop, u64>,
    records: u64,
}

impl<M: Message> Outbox<M> {
    /// Sends a message that nothing needs to precede.
    pub fn send(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: None, sign: false });
    }

    /// Casts a ballot: what it says is made durable, signed, wrapped into a message and sent, in this order.
    pub fn cast(&mut self, parts: &Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.records += 1;
        let id = RecordId(self.records);
        self.actions.push(Action::Persist { id, record: parts.safety.record(ballot) });
        let message = Envelope::Protocol(wrap(ballot.to_vote(parts.me)));
        self.actions.push(Action::Send { to, message, after: Some(id), sign: true });
    }

    /// Casts a ballot whose vote needs no signature, because it is for those only to whom the channel authenticates its sender.
    pub fn cast_unsigned(&mut self, parts: &Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast(parts, ballot, to, wrap);
        if let Some(Action::Send { sign, .. }) = self.actions.last_mut() {
            *sign = false;
        }
    }

    /// Sends what was cast last another so many times to the others, for links that lose messages.
    pub fn repeat(&mut self, times: usize) {
        let Some(Action::Send { message, after, sign, .. }) = self.actions.last().cloned() else {
            panic!("what is repeated was cast just before");
        };
        let again = Action::Send { to: To::Others, message, after, sign };
        self.actions.extend(std::iter::repeat_n(again, times));
    }

    /// Sends again what was cast before: it is durable and is signed the same.
    pub fn recast(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: None, sign: true });
    }

    /// Has a vote counted that came inside a message.
    pub fn count(&mut self, vote: Vote) {
        self.votes.push(vote);
    }

    /// Two statements that contradict each other, if both are genuine.
    pub fn suspect(&mut self, evidence: Evidence) {
        self.suspects.push(evidence);
    }

    /// Sets an alarm.
    pub fn arm(&mut self, timer: Timer, after: Duration) {
        self.actions.push(Action::Arm { timer, after });
    }

    /// Tells of a moment.
    pub fn mark(&mut self, mark: Mark) {
        self.actions.push(Action::Mark(mark));
    }

    /// Does not act on a message.
    pub fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
        self.mark(Mark::Dropped { from, why });
    }

    /// Takes a block in; the protocol hears of it when it is whole.
    pub fn offer(&mut self, now: Time, parts: &mut Parts, block: Arc<Block>, source: ReplicaId) -> Taken {
        parts.store.offer(now, block, source, &parts.leaders, &mut self.whole)
    }

    /// Takes in a bundle that came with a proposal.
    pub fn supply(&mut self, parts: &mut Parts, bundle: Bundle) {
        parts.store.supply(bundle, &parts.leaders, &mut self.whole);
    }

    /// Sends bundles that wait here to the replica that should propose them.
    pub fn relay(&mut self, to: ReplicaId, bundles: Vec<Bundle>) {
        if !bundles.is_empty() {
            self.actions.push(Action::Send {
                to: To::One(to),
                message: Envelope::Bundles(bundles),
                after: None,
                sign: false,
            });
        }
    }

    /// Asks for the digest of the state at a height that was committed just now.
    pub fn digest_state(&mut self, height: Height) {
        self.actions.push(Action::DigestState { height });
    }

    /// Commits every block up to `digest`; false if that contradicts what is committed.
    pub fn commit(&mut self, parts: &mut Parts, digest: &Digest) -> bool {
        let actions = &mut self.actions;
        parts.store.commit(digest, |block, bundles| actions.push(Action::Commit { block, bundles }))
    }
}

enum Pending<M> {
    Message { from: ReplicaId, message: M },
    Quorum(Subject),
    Evidence(Evidence),
}

/// One replica of a protocol.
pub struct Replica<P: Protocol> {
    protocol: P,
    parts: Parts,
    out: Outbox<P::Message>,
    jobs: BTreeMap<Job, Pending<P::Message>>,
    checks: Vec<usize>,
    suspicions: Vec<usize>,
    next_job: u64,
    fetch_armed: Option<Time>,
    evidence: Vec<Evidence>,
}

impl<P: Protocol> Replica<P> {
    /// A replica that has heard nothing yet. `salt` is any number that strangers do not know; it decides nothing but the order
    /// inside hash tables.
    pub fn new(protocol: P, config: Config, quorum: Quorum, cluster: ClusterId, me: ReplicaId, salt: u64) -> Self {
        assert!(me.index() < quorum.replicas(), "replica {me} is not among the {} of its committee", quorum.replicas());
        config.validate().expect("the host validates its configuration before it starts a replica");
        let genesis = Certificate::genesis(&cluster).subject;
        let parts = Parts {
            store: Store::new(&config, quorum, me, genesis.digest, Salt(salt)),
            safety: Safety::new(genesis),
            pacemaker: Pacemaker::new(&config),
            leaders: LeaderElection::new(config.leader, quorum),
            tally: Tally::with(quorum, P::counting),
            config,
            quorum,
            cluster,
            me,
        };
        let out = Outbox {
            actions: Vec::new(),
            votes: Vec::new(),
            suspects: Vec::new(),
            whole: Vec::new(),
            dropped: BTreeMap::new(),
            records: 0,
        };
        Replica {
            protocol,
            parts,
            out,
            jobs: BTreeMap::new(),
            checks: vec![0; quorum.replicas()],
            suspicions: vec![0; quorum.replicas()],
            next_job: 0,
            fetch_armed: None,
            evidence: Vec::new(),
        }
    }

    /// Takes one input and appends what is to be done.
    pub fn step(&mut self, now: Time, input: Input<P::Message>, actions: &mut Vec<Action<P::Message>>) {
        match input {
            Input::Start => self.tell(now, Event::Start),
            Input::Receive { from, message } => self.receive(now, from, message),
            Input::Submit(bundles) => self.submit(now, self.parts.me, bundles, true),
            Input::Timeout(Timer::Fetch) => self.fetch_armed = None,
            Input::Timeout(timer) => self.tell(now, Event::Timeout(timer)),
            Input::Verdict { job, genuine } => self.verdict(now, job, genuine),
            Input::Assembled { job, result } => self.assembled(now, job, result),
            Input::Executed { height, state } => self.tell(now, Event::Executed { height, state }),
        }
        self.settle(now);
        self.request_missing(now);
        self.protocol.invariants(&self.parts);
        self.parts.store.invariants();
        self.parts.safety.invariants();
        self.parts.tally.invariants();
        actions.append(&mut self.out.actions);
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
            Envelope::FetchBlocks { digest, above, most } => {
                let blocks = self.parts.store.blocks(digest, above, usize::from(most).min(MAX_FETCHED_BLOCKS));
                self.answer(from, !blocks.is_empty(), Envelope::Blocks(blocks));
            }
            Envelope::FetchBundles(digests) => {
                let bundles = self.parts.store.bundles(&digests);
                self.answer(from, !bundles.is_empty(), Envelope::Bundles(bundles));
            }
            Envelope::Blocks(blocks) => {
                for block in blocks {
                    if !self.parts.store.wants_block(&block.digest()) {
                        self.drop_message(from, Drop::Unasked);
                        break;
                    }
                    self.out.offer(now, &mut self.parts, block, from);
                }
            }
            Envelope::Bundles(bundles) => self.submit(now, from, bundles, false),
        }
    }

    fn answer(&mut self, to: ReplicaId, any: bool, message: Envelope<P::Message>) {
        if any {
            self.out.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
        }
    }

    fn submit(&mut self, now: Time, from: ReplicaId, bundles: Vec<Bundle>, by_client: bool) {
        let mut news = 0;
        let mut wanted = false;
        for bundle in bundles {
            wanted |= self.parts.store.wants_bundle(&bundle.digest());
            let commands = bundle.len();
            match self.parts.store.supply(bundle, &self.parts.leaders, &mut self.out.whole) {
                Offered::New => news += commands,
                Offered::Known if by_client => self.drop_message(from, Drop::Repeated),
                Offered::Known => {}
                Offered::Full => self.drop_message(from, Drop::PoolFull),
            }
        }
        if wanted && !by_client {
            self.parts.store.hurry(now, from);
        }
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
        let genesis = Certificate::genesis(&self.parts.cluster);
        certificates.retain(|certificate| *certificate != genesis);
        if certificates.is_empty() && votes.is_empty() {
            return self.tell(now, Event::Message { from, message });
        }
        if self.checks[from.index()] >= MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let job = self.ask(Pending::Message { from, message });
        self.out.actions.push(Action::Verify { job, certificates, votes });
    }

    fn ask(&mut self, pending: Pending<P::Message>) -> Job {
        self.next_job += 1;
        let job = Job(self.next_job);
        self.jobs.insert(job, pending);
        job
    }

    fn verdict(&mut self, now: Time, job: Job, genuine: bool) {
        match self.jobs.remove(&job) {
            Some(Pending::Message { from, message }) => {
                self.checks[from.index()] -= 1;
                match genuine {
                    true => self.tell(now, Event::Message { from, message }),
                    false => self.drop_message(from, Drop::NotGenuine),
                }
            }
            Some(Pending::Evidence(evidence)) if genuine => {
                self.evidence.push(evidence.clone());
                self.out.actions.push(Action::Accuse(evidence));
            }
            Some(Pending::Evidence(_)) => {}
            Some(Pending::Quorum(_)) | None => panic!("the host answered {job:?}, which it was not asked"),
        }
    }

    fn assembled(&mut self, now: Time, job: Job, result: Result<Certificate, Vec<ReplicaId>>) {
        let Some(Pending::Quorum(subject)) = self.jobs.remove(&job) else {
            panic!("the host answered {job:?}, which it was not asked");
        };
        match result {
            Ok(certificate) => {
                self.parts.tally.settled(&subject);
                self.tell(now, Event::Certified(certificate));
            }
            Err(voters) => {
                assert!(!voters.is_empty(), "a quorum that is not genuine has a vote that is not");
                for voter in &voters {
                    self.drop_message(*voter, Drop::NotGenuine);
                }
                let counted = self.parts.tally.strike(&subject, &voters);
                self.counted(now, counted, None);
            }
        }
    }

    fn count(&mut self, now: Time, vote: Vote) {
        let counted = self.parts.tally.add(vote.clone());
        self.counted(now, counted, Some(vote));
    }

    fn counted(&mut self, now: Time, counted: Counted, vote: Option<Vote>) {
        match (counted, vote) {
            (Counted::Quorum(subject, votes), _) => {
                let job = self.ask(Pending::Quorum(subject));
                self.out.actions.push(Action::Assemble { job, subject, votes });
            }
            (Counted::Agreed(subject), _) => self.tell(now, Event::Agreed(subject)),
            (Counted::Contradiction(first), Some(second)) => {
                self.drop_message(second.voter, Drop::Contradiction);
                self.out.suspects.push(Evidence { first: *first, second });
            }
            _ => {}
        }
    }

    fn tell(&mut self, now: Time, event: Event<P::Message>) {
        self.protocol.handle(now, event, &mut self.parts, &mut self.out);
    }

    /// Follows up what the protocol left: blocks that became whole, votes to count, contradictions to check.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(digest) = self.out.whole.pop() {
                self.tell(now, Event::Whole(digest));
            } else if let Some(vote) = self.out.votes.pop() {
                self.count(now, vote);
            } else if let Some(evidence) = self.out.suspects.pop() {
                let voter = evidence.second.voter.index();
                if self.suspicions[voter] >= MAX_SUSPICIONS_PER_PEER {
                    continue;
                }
                self.suspicions[voter] += 1;
                let votes = vec![evidence.first.clone(), evidence.second.clone()];
                let job = self.ask(Pending::Evidence(evidence));
                self.out.actions.push(Action::Verify { job, certificates: Vec::new(), votes });
            } else {
                return;
            }
        }
    }

    fn request_missing(&mut self, now: Time) {
        let Some(due) = self.parts.store.next_request() else { return };
        if due <= now {
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
        let Some(due) = self.parts.store.next_request() else { return };
        if self.fetch_armed.is_none_or(|armed| armed > due) {
            self.fetch_armed = Some(due);
            self.out.arm(Timer::Fetch, due.since(now));
        }
    }

    fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        self.out.drop_message(from, why);
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.parts.pacemaker.view()
    }

    /// The height of the last committed block.
    pub fn committed_height(&self) -> Height {
        self.parts.store.committed()
    }

    /// How many views this replica gave up.
    pub fn view_timeouts(&self) -> u64 {
        self.parts.pacemaker.timeouts()
    }

    /// Messages not acted on, by reason.
    pub fn dropped(&self) -> &BTreeMap<Drop, u64> {
        &self.out.dropped
    }

    /// Proven misbehaviour.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// Whether a bundle waits, is proposed, or was executed lately.
    pub fn is_known(&self, bundle: &Digest) -> bool {
        self.parts.store.pool.contains(bundle)
    }

    /// Whether a bundle was executed lately.
    pub fn is_executed(&self, bundle: &Digest) -> bool {
        self.parts.store.pool.is_executed(bundle)
    }

    /// How many have voted in a round that is not over.
    pub fn voters(&self, domain: Domain, view: View) -> usize {
        self.parts.tally.voters(domain, view)
    }

    /// The shared parts, to look at.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The protocol, to look at.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }
}
