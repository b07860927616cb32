//! The cluster and its event loop.

mod lives;
mod sending;
mod states;

use super::keys::Keys;
use super::network::{Letter, Network};
use super::oracle::Oracle;
use super::play::Play;
use super::random::Random;
use super::story::Story;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Config, Halt, Input, Mark, Replica, Timer};
use quorate_types::{
    Block, Bundle, BundleBuilder, Certificate, ClientId, Digest, EpochId, Hasher, Height, Quorum, ReplicaId, Subject,
    Time, Vote,
};
use states::States;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Default delay of a link.
pub const HOP: Duration = Duration::from_millis(1);
/// Maximum number of events between two checks, more than any test needs. It detects a replica in an endless loop.
const MAX_EVENTS: u64 = 3_000_000;

pub type Act<M = ChainedMessage> = Action<M>;
/// Function that rewrites the actions of a Byzantine replica.
pub type Tamper<M = ChainedMessage> = Box<dyn FnMut(&Keys, Act<M>, &mut Vec<Act<M>>)>;

/// Function that rewrites the actions of a step of an honest replica.
pub type Rewrite<M> = Box<dyn FnMut(&mut Vec<Act<M>>)>;

enum Happening<M> {
    Deliver { from: ReplicaId, to: ReplicaId, letter: Letter<M> },
    Ring { replica: ReplicaId, timer: Timer },
    Answer { replica: ReplicaId, life: u32, input: Input<M> },
    Submit { replica: ReplicaId, bundle: Bundle },
}

/// Block that a replica committed.
#[derive(Clone)]
pub struct Committed {
    pub time: Time,
    pub block: Arc<Block>,
}

struct Node<P: Play> {
    replica: Replica<P::Engine>,
    alarms: BTreeMap<Timer, (Time, u64)>,
    durable: BTreeMap<RecordId, Record>,
    /// Last record for which a message has waited.
    awaited: Option<RecordId>,
    alive: bool,
    /// Whether it ever lost its journal.
    lost_disk: bool,
    /// Number of restarts.
    life: u32,
    /// Number of further actions before a planned crash.
    fuse: Option<u64>,
    /// Height of the last block that the replica has passed to its application since its last restart.
    executed: Height,
    tamper: Option<Tamper<P::Message>>,
    rewrite: Option<Rewrite<P::Message>>,
    /// Last missing bundle of a final block for which availability was checked.
    missing: Option<Digest>,
    commits: Vec<Committed>,
    marks: Vec<Mark>,
    /// Digest of everything that the replica executed.
    state: Digest,
    /// Height and state with which the replica starts.
    snapshot: (Height, Digest),
    states: States,
}

/// Cluster in virtual time.
pub struct World<P: Play> {
    pub now: Time,
    pub keys: Keys,
    pub network: Network<P::Message>,
    pub oracle: Oracle<P>,
    pub story: Option<Story>,
    /// Upper bound on the random time that the crypto device takes for a job.
    pub crypto_time: Duration,
    /// Replica that may halt because its state is wrong, and the reason why it did.
    pub may_halt: Option<u16>,
    pub halted: Option<Halt>,
    /// Number of messages that replicas sent to others so far, including lost ones.
    pub messages: u64,
    /// Number and bytes of the messages from each replica to each other replica.
    pub said: BTreeMap<(u16, u16), (u64, u64)>,
    /// Number of checkpoints from one kept state to the next.
    pub keeps_every: u64,
    /// Minimum size of a kept state, in bytes.
    pub state_bytes: usize,
    /// Committed blocks, in the version of the first replica that committed them.
    chain: Vec<Arc<Block>>,
    config: Config,
    seed: u64,
    /// The bundles that clients sent.
    sent: BTreeMap<Digest, Bundle>,
    nodes: Vec<Node<P>>,
    queue: BTreeMap<(Time, u64), Happening<P::Message>>,
    sequence: u64,
    bundles: u64,
    random: Random,
}

impl<P: Play> World<P> {
    /// Creates a cluster of `n` replicas that have not started.
    pub fn new(n: usize, config: Config, seed: u64) -> Self {
        World::with_quorum(Quorum::of(n).expect("the committee size is valid"), config, seed)
    }

    /// Creates a cluster like [`World::new`], with n and f given separately.
    pub fn with_quorum(quorum: Quorum, config: Config, seed: u64) -> Self {
        let n = quorum.replicas();
        let epoch = EpochId::of_name("test");
        let node = |me| Node {
            replica: P::replica(config.clone(), quorum, epoch, ReplicaId(me), seed),
            alarms: BTreeMap::new(),
            durable: BTreeMap::new(),
            awaited: None,
            alive: true,
            lost_disk: false,
            life: 0,
            fuse: None,
            executed: Height(0),
            tamper: None,
            rewrite: None,
            missing: None,
            commits: Vec::new(),
            marks: Vec::new(),
            state: Digest::ZERO,
            snapshot: (Height(0), Digest::ZERO),
            states: States::default(),
        };
        let mut oracle = Oracle::new(quorum, Certificate::genesis(&epoch).subject.digest);
        oracle.agrees = config.protocol.facts().repairs_losses;
        World {
            now: Time(0),
            keys: Keys { epoch, quorum },
            network: Network::new(n, HOP, seed),
            oracle,
            story: None,
            crypto_time: Duration::ZERO,
            may_halt: None,
            halted: None,
            messages: 0,
            said: BTreeMap::new(),
            keeps_every: 2,
            state_bytes: 0,
            chain: Vec::new(),
            nodes: (0..n as u16).map(node).collect(),
            config,
            seed,
            sent: BTreeMap::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            bundles: 0,
            random: Random::new(seed ^ 0x5eed),
        }
    }

    /// Creates a cluster and starts it.
    pub fn started(n: usize, config: Config, seed: u64) -> Self {
        let mut world = World::new(n, config, seed);
        world.start();
        world
    }

    pub fn start(&mut self) {
        for replica in self.replicas() {
            self.step(replica, Input::Start);
        }
    }

    pub fn replicas(&self) -> Vec<ReplicaId> {
        (0..self.nodes.len() as u16).map(ReplicaId).collect()
    }

    pub fn replica(&self, replica: u16) -> &Replica<P::Engine> {
        &self.nodes[usize::from(replica)].replica
    }

    /// Returns the blocks that a replica committed, with the times.
    pub fn commits(&self, replica: u16) -> &[Committed] {
        &self.nodes[usize::from(replica)].commits
    }

    /// Returns the height up to which a replica has executed since its last restart, and the digest of all that it
    /// executed.
    pub fn state_of(&self, replica: u16) -> (Height, Digest) {
        let node = &self.nodes[usize::from(replica)];
        (node.executed, node.state)
    }

    /// Returns the marks that a replica emitted.
    pub fn marks(&self, replica: u16) -> &[Mark] {
        &self.nodes[usize::from(replica)].marks
    }

    /// Returns when a replica committed a bundle.
    pub fn commit_time(&self, replica: u16, bundle: &Digest) -> Option<Time> {
        self.commits(replica).iter().find(|commit| commit.block.payload.contains(bundle)).map(|commit| commit.time)
    }

    /// Returns the replicas that are alive and honest, and therefore must make progress.
    pub fn honest(&self) -> Vec<u16> {
        let sound = |replica: &ReplicaId| self.nodes[replica.index()].alive && !self.oracle.is_byzantine(*replica);
        self.replicas().into_iter().filter(sound).map(|replica| replica.0).collect()
    }

    /// Returns whether all honest live replicas have committed a bundle.
    pub fn is_done(&self, bundle: &Digest) -> bool {
        self.honest().iter().all(|replica| self.commit_time(*replica, bundle).is_some())
    }

    /// Returns the number of view timeouts of all live replicas together.
    pub fn view_timeouts(&self) -> u64 {
        self.nodes.iter().filter(|node| node.alive).map(|node| node.replica.view_timeouts()).sum()
    }

    /// Returns the maximum number of view timeouts of a live replica.
    pub fn max_view_timeouts(&self) -> u64 {
        let alive = self.nodes.iter().filter(|node| node.alive);
        alive.map(|node| node.replica.view_timeouts()).max().unwrap_or(0)
    }

    /// Sets a replica's wall clock: its time at the beginning, in milliseconds since the Unix epoch.
    pub fn set_clock(&mut self, replica: u16, origin_ms: u64) {
        self.step(ReplicaId(replica), Input::Clock { origin_ms });
    }

    /// Makes a replica Byzantine: `tamper` rewrites its actions.
    pub fn corrupt(&mut self, replica: u16, tamper: Tamper<P::Message>) {
        self.oracle.distrust(ReplicaId(replica));
        self.nodes[usize::from(replica)].tamper = Some(tamper);
    }

    /// Has the actions of every replica rewritten.
    pub fn rewrite_all(&mut self, make: impl Fn(ReplicaId) -> Rewrite<P::Message>) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.rewrite = Some(make(ReplicaId(at as u16)));
        }
    }

    /// Creates a new bundle with this number of commands, without sending it.
    pub fn bundle(&mut self, commands: u64) -> Bundle {
        self.bundles += 1;
        let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
        for command in 0..commands {
            builder.push(ClientId(1), self.bundles * 1_000_000 + command, b"command");
        }
        let bundle = builder.finish();
        self.oracle.submitted(&bundle);
        self.sent.insert(bundle.digest(), bundle.clone());
        if let Some(story) = &mut self.story {
            story.name_bundle(bundle.digest(), self.bundles);
        }
        bundle
    }

    /// Submits a new bundle to every replica now.
    pub fn submit(&mut self, commands: u64) -> Digest {
        let all: Vec<u16> = self.replicas().iter().map(|replica| replica.0).collect();
        self.submit_to(&all, commands)
    }

    /// Submits a new bundle to some replicas now.
    pub fn submit_to(&mut self, replicas: &[u16], commands: u64) -> Digest {
        let bundle = self.bundle(commands);
        if let Some(story) = &mut self.story {
            story.submitted(self.now, &bundle, replicas);
        }
        for replica in replicas {
            self.push(self.now, Happening::Submit { replica: ReplicaId(*replica), bundle: bundle.clone() });
        }
        bundle.digest()
    }

    /// Submits a bundle to every replica again.
    pub fn submit_again(&mut self, bundle: &Digest) {
        let bundle = self.sent.get(bundle).expect("the bundle was sent before").clone();
        for replica in self.replicas() {
            self.push(self.now, Happening::Submit { replica, bundle: bundle.clone() });
        }
    }

    /// Submits a bundle that was made before to some replicas.
    pub fn resubmit_to(&mut self, replicas: &[u16], bundle: &Bundle) {
        for replica in replicas {
            self.push(self.now, Happening::Submit { replica: ReplicaId(*replica), bundle: bundle.clone() });
        }
    }

    /// Drops all messages in flight between replicas.
    pub fn drop_all_in_flight(&mut self) {
        self.queue.retain(|_, happening| !matches!(happening, Happening::Deliver { from, to, .. } if from != to));
    }

    /// Injects a protocol message of a faulty replica into its link to another.
    pub fn inject(&mut self, from: u16, to: u16, message: P::Message) {
        self.inject_letter(from, to, Letter::Protocol(message));
    }

    /// Injects any message of a faulty replica into its link to another.
    pub fn inject_letter(&mut self, from: u16, to: u16, letter: Letter<P::Message>) {
        self.transmit(ReplicaId(from), ReplicaId(to), letter);
    }

    fn push(&mut self, time: Time, happening: Happening<P::Message>) -> (Time, u64) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), happening);
        (time, self.sequence)
    }

    /// Returns whether no events are left that would happen on their own.
    pub fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(time, |_| false);
        self.now = end;
    }

    /// Runs until `done` holds. Returns whether it did within `time`.
    pub fn run_until(&mut self, time: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + time;
        for _ in 0..MAX_EVENTS {
            if done(self) {
                return true;
            }
            match self.queue.first_key_value() {
                Some(((at, _), _)) if *at <= end => self.happen(),
                _ => return false,
            }
        }
        panic!("{MAX_EVENTS} events in less than {time:?} of virtual time: a replica is in a busy loop");
    }

    /// Runs until all honest replicas have committed a bundle. Returns whether they did within `time`.
    pub fn run_until_done(&mut self, time: Duration, bundle: &Digest) -> bool {
        self.run_until(time, |world| world.is_done(bundle))
    }

    fn happen(&mut self) {
        let ((time, _), happening) = self.queue.pop_first().expect("the queue is not empty");
        assert!(time >= self.now, "time does not run backwards");
        self.now = time;
        match happening {
            Happening::Deliver { from, to, letter } => {
                if let Some(story) = self.story.as_mut().filter(|_| self.nodes[to.index()].alive) {
                    story.received(time, from, to, &letter);
                }
                self.step(to, Input::Receive { from, message: letter });
            }
            Happening::Ring { replica, timer } => {
                self.nodes[replica.index()].alarms.remove(&timer);
                self.step(replica, Input::Timeout(timer));
            }
            // The replica that asked has crashed.
            Happening::Answer { replica, life, .. } if life != self.nodes[replica.index()].life => {}
            Happening::Answer { replica, input, .. } => {
                if let (Input::Assembled { result: Ok(certificate), .. }, Some(story)) = (&input, &mut self.story) {
                    story.formed(time, replica, certificate);
                }
                self.step(replica, input);
            }
            Happening::Submit { replica, bundle } => {
                self.step(replica, Input::Submit { bundles: vec![bundle], sources: Vec::new() })
            }
        }
    }

    fn step(&mut self, replica: ReplicaId, input: Input<P::Message>) {
        let node = &mut self.nodes[replica.index()];
        if !node.alive {
            return;
        }
        let lock = node.replica.parts().safety.lock();
        let mut actions = Vec::new();
        node.replica.step(self.now, input, &mut actions);
        let new_lock = node.replica.parts().safety.lock();
        assert!(new_lock.view >= lock.view, "{replica:?} lowers its lock");
        if let Some(story) = self.story.as_mut().filter(|_| new_lock != lock) {
            story.locked(self.now, replica, &new_lock);
        }
        if let Some(rewrite) = &mut self.nodes[replica.index()].rewrite {
            rewrite(&mut actions);
        }
        if let Some(mut tamper) = self.nodes[replica.index()].tamper.take() {
            let mut tampered = Vec::new();
            actions.into_iter().for_each(|action| tamper(&self.keys, action, &mut tampered));
            actions = tampered;
            self.nodes[replica.index()].tamper = Some(tamper);
        }
        let halts = actions.iter().any(|action| matches!(action, Action::Halt(_)));
        let speaks = |action: &Act<P::Message>| matches!(action, Action::Send { .. } | Action::Commit { .. });
        assert!(!halts || !actions.iter().any(speaks), "{replica:?} speaks in the step in which it halts");
        for action in actions {
            if let Some(left) = &mut self.nodes[replica.index()].fuse {
                match left.checked_sub(1) {
                    Some(fewer) => *left = fewer,
                    None => return self.kill(replica.0),
                }
            }
            self.perform(replica, action);
        }
        self.check_availability(replica);
    }

    fn perform(&mut self, me: ReplicaId, action: Act<P::Message>) {
        match action {
            Action::Send { to, message, after, sign } => self.send(me, to, message, after, sign),
            Action::Persist { id, record } => {
                if let Record::Promise(promise) = &record {
                    self.oracle.persisted(me, promise.subject, &promise.attachment);
                }
                self.oracle.journaled(me, &record);
                let earlier = self.nodes[me.index()].durable.insert(id, record);
                assert!(earlier.is_none(), "{me:?} uses the id {id:?} for two records");
            }
            Action::Verify { job, certificates, votes } => {
                let genuine = certificates.iter().all(|certificate| self.keys.is_certificate_genuine(certificate))
                    && votes.iter().all(|vote| self.keys.is_vote_genuine(vote));
                self.answer(me, Input::Verdict { job, genuine });
            }
            Action::Assemble { job, subject, votes } => {
                let result = self.assemble(me, subject, &votes);
                self.answer(me, Input::Assembled { job, result });
            }
            Action::Arm { timer, after } => {
                self.disarm(me, timer);
                let key = self.push(self.now + after, Happening::Ring { replica: me, timer });
                self.nodes[me.index()].alarms.insert(timer, key);
            }
            Action::Commit { block, bundles } => self.commit(me, block, &bundles),
            Action::DigestState { frontier } => self.digest_state(me, frontier),
            Action::StateStable { checkpoint } => self.state_stable(me, *checkpoint),
            Action::ReadState { to, height, part } => {
                let bytes = self.nodes[me.index()].states.read(height, part);
                self.answer(me, Input::StateRead { to, height, part, bytes });
            }
            Action::ReceiveState { height, manifest } => {
                let chunks = self.nodes[me.index()].states.receive(height, manifest);
                self.answer(me, Input::Holds { height, chunks });
            }
            Action::KeepChunk { height, chunk, bytes } => {
                self.nodes[me.index()].states.keep_chunk(me, height, chunk, bytes)
            }
            Action::AdoptState { checkpoint } => self.adopt_state(me, *checkpoint),
            Action::Accuse(evidence) => {
                let genuine = [&evidence.first, &evidence.second].iter().all(|vote| self.keys.is_vote_genuine(vote));
                assert!(genuine, "{me:?} accuses with invalid votes");
                self.oracle.accuses(&evidence);
                if let Some(story) = &mut self.story {
                    story.accused(self.now, me, &evidence);
                }
            }
            // Clients of this world do not wait for answers.
            Action::Refuse { .. } => {}
            Action::AcceptRepair { after } => {
                let record = self.nodes[me.index()].durable.get(&after);
                assert!(
                    matches!(record, Some(Record::Abstain(_))),
                    "{me:?} accepts a repair with {record:?}, which bounds no views"
                );
            }
            Action::Halt(why) => {
                assert!(self.may_halt == Some(me.0), "{me:?} halts: {why:?}");
                self.halted = Some(why);
                self.kill(me.0);
            }
            Action::Mark(mark) => {
                if let Some(story) = &mut self.story {
                    story.marked(self.now, me, &mark);
                }
                self.nodes[me.index()].marks.push(mark);
            }
        }
    }

    fn assemble(&self, me: ReplicaId, subject: Subject, votes: &[Vote]) -> Result<Certificate, Vec<ReplicaId>> {
        assert!(votes.len() >= self.keys.quorum.quorum(), "{me:?} requests a certificate with too few votes");
        assert!(
            votes.iter().all(|vote| vote.subject == subject),
            "{me:?} requests a certificate with votes on different subjects"
        );
        let result = self.keys.assemble(subject, votes);
        if let Ok(certificate) = &result {
            assert_eq!(certificate.signers.len(), votes.len(), "{me:?} counts a voter twice");
        }
        result
    }

    fn commit(&mut self, me: ReplicaId, block: Arc<Block>, bundles: &[Bundle]) {
        if block.height.0 as usize == self.chain.len() + 1 && !self.oracle.is_byzantine(me) {
            self.chain.push(block.clone());
        }
        let node = &mut self.nodes[me.index()];
        if block.height <= node.snapshot.0 {
            return;
        }
        assert_eq!(block.height, node.executed.next(), "{me:?} executes out of order");
        node.executed = block.height;
        let again = node.commits.get(block.height.0 as usize - 1);
        if let Some(earlier) = again {
            let before = earlier.block.digest();
            assert_eq!(block.digest(), before, "{me:?} executes a different block than before its restart");
        } else {
            self.oracle.committed(me, &block, bundles);
        }
        if let Some(story) = &mut self.story {
            story.committed(self.now, me, &block);
        }
        let node = &mut self.nodes[me.index()];
        let mut rolling = Hasher::new(*b"tSTA");
        rolling.update(&node.state.0);
        bundles.iter().for_each(|bundle| rolling.update(&bundle.digest().0));
        node.state = rolling.finish();
        if block.height.0 as usize <= node.commits.len() {
            return;
        }
        node.commits.push(Committed { time: self.now, block });
    }

    fn answer(&mut self, replica: ReplicaId, input: Input<P::Message>) {
        let time = self.now + self.random.time_below(self.crypto_time);
        let life = self.nodes[replica.index()].life;
        self.push(time, Happening::Answer { replica, life, input });
    }

    fn disarm(&mut self, replica: ReplicaId, timer: Timer) {
        if let Some(key) = self.nodes[replica.index()].alarms.remove(&timer) {
            self.queue.remove(&key);
        }
    }

    /// Adds a line to the story, if there is one.
    pub fn tell(&mut self, who: ReplicaId, what: String) {
        if let Some(story) = &mut self.story {
            story.say(self.now, &format!("{who:?}"), what, 0);
        }
    }

    /// Adds a line about the network to the story, if there is one.
    pub fn tell_of_network(&mut self, what: &str) {
        if let Some(story) = &mut self.story {
            story.say(self.now, "network", what.into(), 0);
        }
    }
}
