//! Scripted environment of replicas: the script defines the leader and the open links of each view, and when replicas
//! advance.
//!
//! Everything happens in one thread and in one order: messages are delivered first in, first out, and a replica's
//! requests to its host are answered immediately. A message belongs to the view that it names, or else to its sender's
//! view at the time of sending, and uses the links of that view. While a view is [run](World::run_view), messages of
//! later views wait.

mod commands;
mod disks;
mod host;
mod instances;
mod letters;

use self::letters::{Letters, Place};
use crate::byzantine::Behaviour;
use crate::twins::checker::{Checker, Property, Violation};
use crate::twins::hostile::BATCH;
use crate::twins::instance::Instance;
pub use crate::twins::instance::Rewrite;
use crate::twins::links::Links;
use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::signatures::Signatures;
use crate::twins::stock::Stock;
use crate::twins::transcript::Transcript;
use quorate_consensus::config::{LeaderKind, ProtocolKind, ViewDuration};
use quorate_consensus::data::pool::Source;
use quorate_consensus::replica::MakeReplica;
use quorate_consensus::seam::{Action, Envelope, Input, Job, Timer};
use quorate_consensus::voting::leader::LeaderScript;
use quorate_consensus::{Config, Protocol, Replica};
use quorate_crypto::SchemeKind;
use quorate_types::{Bundle, Digest, EpochId, Genesis, ReplicaId, Time, View};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Minimum duration of a view. No time passes within one, except until timers of leaders and of fetches fire.
const VIEW: Duration = Duration::from_millis(1000);
/// More than any world lasts, and less than the fault `misdate` shifts times by default.
const MAX_CLOCK_SKEW_MS: u64 = 1_800_000;
/// Interval between fetch requests.
const FETCH: Duration = Duration::from_millis(1);
/// Views within which all replicas must execute commands after the network heals. Worst case: two views to synchronize,
/// a state transfer, and a chain of three blocks with its announcement (four views). Next to a hostile client, honest
/// commands that waited earlier take further views, at the rate of their share.
pub const HEALED_VIEWS: u64 = 12;
/// Deliveries in one view above which the replicas are considered to be in an endless exchange.
const MAX_DELIVERIES: u64 = 200_000;
/// Maximum number of messages to single recipients that an honest replica sends in one view; more indicate that others
/// overload it. The limit is many times the number of votes, fetches and answers in a view of a script.
pub(super) const MAX_SINGLE_SENDS: u32 = 2000;

/// A message in transit to an instance.
#[derive(Clone, Copy)]
struct Parcel {
    from: ReplicaId,
    to: InstanceId,
    view: View,
    message: Place,
}

/// The host's answer to an instance. Most answers are verdicts; the others are large, so they are stored elsewhere.
enum Answer<M> {
    Verdict(Job, bool),
    Other(Box<Input<M>>),
}

/// Decides by sender, recipient and view whether a message is lost, in addition to cut links.
pub type Lose<M> = Box<dyn FnMut(InstanceId, InstanceId, View, &Envelope<M>) -> bool + Send>;

/// Returns, given the leader of a view, the instances for which a faulty client's bundle of this view has valid MACs.
pub type Divide = Box<dyn FnMut(ReplicaId) -> InstanceSet + Send>;

/// Replicas, and the network between them.
pub struct World<P: Protocol> {
    participants: Participants,
    config: Config,
    epoch: EpochId,
    make: MakeReplica<P>,
    /// The bug in every replica.
    #[cfg(feature = "museum")]
    mutant: Option<crate::twins::bugs::Mutant>,
    instances: Vec<Instance<P>>,
    /// Instances of each identity.
    by_identity: Vec<InstanceSet>,
    links: Links,
    script: LeaderScript,
    /// Last view into which an instance was forced.
    forced: View,
    /// Whether the instances have received the present script.
    announced: bool,
    checker: Checker,
    signatures: Signatures,
    stock: Stock,
    /// Whether clients send commands in each view.
    supplied: bool,
    rounds: u64,
    letters: Letters<P::Message>,
    queue: VecDeque<Parcel>,
    /// Messages of [closer](World::bring_near) identities, which are delivered first.
    first: VecDeque<Parcel>,
    /// Closer identities, as a bit set.
    near: u64,
    /// Messages of views that have not run yet.
    waiting: Vec<Parcel>,
    /// Highest view whose messages are delivered; later ones wait.
    limit: View,
    now: Time,
    answers: VecDeque<Answer<P::Message>>,
    actions: Vec<Action<P::Message>>,
    lose: Option<Lose<P::Message>>,
    divide: Option<Divide>,
    /// Bundles that some instances refuse, with the instances that accept them.
    divided: BTreeMap<Digest, InstanceSet>,
    deliveries: u64,
    /// Number of messages that each instance has sent to single recipients in the present view.
    single_sends: Vec<u32>,
    /// Replicas that lost their disks and have not recovered.
    away: Vec<disks::Away>,
    /// Whether instances have journals.
    journals: bool,
    /// Whether instances keep the state at each checkpoint, for instances that were down.
    keeps_states: bool,
    transcript: Transcript,
}

/// Returns the settings of replicas in a world: time plays no role, and missing data is requested immediately. Views
/// end as the scenario says, not when their timers are due, so a block may be any number of view timeouts old.
pub fn world_config(protocol: ProtocolKind) -> Config {
    let leader = if protocol.has_slots() { LeaderKind::Fixed } else { LeaderKind::RoundRobin };
    Config {
        protocol,
        leader,
        view_duration: ViewDuration::Fixed,
        view_timeout_ms: VIEW.as_millis() as u64,
        max_clock_skew_ms: MAX_CLOCK_SKEW_MS,
        fetch_delay_ms: 0,
        fetch_retry_ms: FETCH.as_millis() as u64,
        checkpoint_interval: 2,
        window: 64,
        ..Config::default()
    }
}

/// Returns the settings of replicas in a world with a hostile client whose bundles exceed the capacity of blocks.
pub(crate) fn contested_config(protocol: ProtocolKind) -> Config {
    Config { batch: BATCH.into(), ..world_config(protocol) }
}

/// Returns the genesis of a world. It has no members, because signatures are free, or keys are the same in all worlds.
fn genesis<'a>(config: &Config, participants: &Participants) -> Genesis<'a> {
    Genesis { quorum: participants.quorum(), protocol: config.protocol.name(), ..Genesis::of_name("twins") }
}

impl<P: Protocol> World<P> {
    /// Returns a world in its initial state, with all links open and rotating leaders. `make` comes from
    /// [`for_protocol`](quorate_consensus::replica::for_protocol) for the protocol of `config`.
    pub fn new(config: Config, participants: Participants, make: MakeReplica<P>) -> World<P> {
        let epoch = genesis(&config, &participants).epoch();
        let instances_of =
            |identity: ReplicaId| participants.instances_of(identity).fold(0, |set, instance| set | 1 << instance.0);
        let everybody: Vec<ReplicaId> = (0..participants.replicas() as u16).map(ReplicaId).collect();
        let mut world = World {
            by_identity: everybody.iter().copied().map(instances_of).collect(),
            links: Links::new(&participants),
            script: LeaderScript { views: Vec::new(), after: everybody, forced: View(0) },
            forced: View(0),
            announced: false,
            checker: Checker::new(&participants, epoch.genesis(), &config),
            signatures: Signatures::free(&epoch, participants.quorum()),
            stock: Stock::new(&participants),
            supplied: true,
            rounds: 0,
            letters: Letters::new(),
            queue: VecDeque::new(),
            first: VecDeque::new(),
            near: 0,
            waiting: Vec::new(),
            limit: View(0),
            now: Time(0),
            answers: VecDeque::new(),
            actions: Vec::new(),
            lose: None,
            divide: None,
            divided: BTreeMap::new(),
            deliveries: 0,
            single_sends: vec![0; participants.len()],
            away: Vec::new(),
            journals: true,
            keeps_states: false,
            transcript: Transcript::default(),
            instances: Vec::with_capacity(participants.len()),
            participants,
            config,
            epoch,
            make,
            #[cfg(feature = "museum")]
            mutant: None,
        };
        if world.config.dissemination.is_certified() {
            world.checker.watch_availability();
        }
        world.enter_instances();
        world
    }

    /// Resets everything, including the scripts of leaders and links, except the settings made before the beginning.
    pub fn reset(&mut self) {
        self.links.clear();
        self.script.views.clear();
        self.script.after = (0..self.participants.replicas() as u16).map(ReplicaId).collect();
        (self.script.forced, self.forced, self.announced) = (View(0), View(0), false);
        self.checker.clear();
        self.signatures.clear();
        self.rounds = 0;
        self.letters.clear();
        self.queue.clear();
        self.first.clear();
        self.near = 0;
        self.waiting.clear();
        self.answers.clear();
        self.actions.clear();
        self.limit = View(0);
        self.single_sends.fill(0);
        self.away.clear();
        self.now = Time(0);
        (self.lose, self.divide) = (None, None);
        self.divided.clear();
        self.transcript = Transcript::default();
        self.enter_instances();
    }

    fn enter_instances(&mut self) {
        self.instances.iter_mut().for_each(|place| place.restarts = 0);
        for instance in self.participants.instances() {
            let replica = self.new_replica(instance);
            match self.instances.get_mut(instance.0) {
                Some(place) => place.begin_again(replica),
                None => self.instances.push(Instance::new(replica, self.participants.identity(instance))),
            }
            #[cfg(feature = "museum")]
            self.rewrite_for_bug(instance);
        }
    }

    pub fn new_replica(&self, instance: InstanceId) -> Replica<P> {
        let identity = self.participants.identity(instance);
        let salt = self.instances.get(instance.0).map_or(0, |place| place.restarts);
        let replica = (self.make)(self.config.clone(), self.participants.quorum(), self.epoch, identity, salt);
        #[cfg(feature = "museum")]
        if let Some(crate::twins::bugs::Mutant::Hook(bug)) = self.mutant {
            return replica.mutate(bug);
        }
        replica
    }

    /// Makes an identity lead a view. Lower views without an explicit leader have rotating leaders.
    pub fn leader(&mut self, view: u64, leader: ReplicaId) {
        assert!(view >= 1, "views count from 1");
        while (self.script.views.len() as u64) < view {
            let next = View(self.script.views.len() as u64 + 1);
            self.script.views.push(self.script.leader(next));
        }
        self.script.views[view as usize - 1] = leader;
        self.announced = false;
    }

    /// Sets the rotating leaders of the views after the last one with an explicit leader.
    pub fn leaders_after(&mut self, leaders: impl IntoIterator<Item = ReplicaId>) {
        self.script.after.clear();
        self.script.after.extend(leaders);
        self.announced = false;
    }

    /// Returns the links by view.
    pub fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Restricts messages of a view to groups. An instance in no group is isolated.
    pub fn partition(&mut self, view: u64, groups: &[&[InstanceId]]) {
        let set = |group: &&[InstanceId]| group.iter().fold(0, |set, instance| set | 1 << instance.0);
        self.links.partition(view, groups.iter().map(set));
    }

    /// Sets a function that loses messages of any kind.
    pub fn lose(&mut self, lose: Option<Lose<P::Message>>) {
        self.lose = lose;
    }

    /// Adds a faulty client, which sends a bundle to all instances in each view and after the network heals. Instances
    /// without a valid MAC refuse it, even from other replicas, unless a decided block names it.
    pub fn divide(&mut self, divide: Divide) {
        self.divide = Some(divide);
    }

    /// Sets whether clients send commands to all instances in each view (default: yes).
    pub fn supply(&mut self, supplied: bool) {
        self.supplied = supplied;
    }

    /// Sets whether durable records are kept (default: yes). Without them no instance can restart after a crash.
    pub fn keep_journals(&mut self, kept: bool) {
        self.journals = kept;
    }

    /// Uses real signatures, and MACs of a scheme, instead of free signatures. Must be called before the scenario
    /// begins.
    ///
    /// # Panics
    /// If it is not a MAC scheme.
    pub fn authenticate(&mut self, macs: SchemeKind) {
        self.signatures = Signatures::real(&genesis(&self.config, &self.participants), macs);
    }

    /// Makes instances keep the state at each checkpoint, for instances that were down too long to fetch all blocks
    /// (default: no). Must be called before the scenario begins. An instance that adopts a state cannot restart after a
    /// crash.
    pub fn keep_states(&mut self) {
        self.keeps_states = true;
        self.checker.remember_payloads();
    }

    /// Rewrites an instance's actions before they are performed. The instance is no longer checked.
    pub fn misbehave(&mut self, instance: InstanceId, rewrite: Rewrite<P::Message>) {
        self.instances[instance.0].rewrite = Some(rewrite);
        self.checker.distrust(instance);
    }

    /// Gives an instance a Byzantine behaviour, which also observes its inputs. The instance is no longer checked.
    pub fn behave(&mut self, instance: InstanceId, behaviour: Box<dyn Behaviour<P::Message>>) {
        self.instances[instance.0].behaviour = Some(behaviour);
        self.checker.distrust(instance);
    }

    /// Delivers messages of an identity ahead of earlier ones of others, as on a network where it is closer to all
    /// others than they are to each other.
    pub fn bring_near(&mut self, identity: ReplicaId) {
        self.near |= 1 << identity.index();
    }

    /// Starts recording a transcript.
    pub fn record(&mut self) {
        self.transcript.start();
    }

    /// Sends bundles of a client to an instance.
    pub fn submit(&mut self, instance: InstanceId, bundles: Vec<Bundle>) {
        bundles.iter().for_each(|bundle| self.checker.submits(bundle));
        self.step(instance, Input::Submit { bundles, sources: Vec::new() });
    }

    /// Sends bundles to an instance over a given client link.
    pub fn submit_over(&mut self, instance: InstanceId, bundles: Vec<Bundle>, link: u64) {
        bundles.iter().for_each(|bundle| self.checker.submits(bundle));
        let sources = vec![Source::Client { source_group: 0, link }; bundles.len()];
        self.step(instance, Input::Submit { bundles, sources });
    }

    /// Queues a message as if an identity had sent it in a view.
    pub fn inject(&mut self, from: ReplicaId, to: InstanceId, view: View, mut message: Envelope<P::Message>) {
        self.checker.says(from, &mut message);
        let message = self.letters.keep(message);
        self.deposit(Parcel { from, to, view, message });
    }

    /// Opens and runs the next view of the script.
    pub fn run_view(&mut self, view: u64) {
        self.open_view(view);
        self.run_open_view(view);
    }

    /// Runs an opened view. Clients send commands; replicas that learn of the view enter it; the others time out of the
    /// previous view; and replicas that are still behind, because too few timed out, are forced into the view. Under a
    /// protocol with long-lived views, all replicas request the view first, and commands follow once it is open.
    pub fn run_open_view(&mut self, view: u64) {
        if self.config.protocol.has_slots() {
            if self.force_up_to(View(view)) {
                self.settle();
            }
            self.send_commands();
            return self.settle();
        }
        self.send_commands();
        self.settle();
        if self.give_up_below(View(view)) {
            self.settle();
        }
        if self.force_up_to(View(view)) {
            self.settle();
        }
    }

    /// Ends the script: from now on, all links are open for messages of all views, `leaders` lead in rotation, and no
    /// replica is forced into a view. Returns the number of views until every honest live instance has executed a
    /// command sent since then, and all that lost their disks vote again. Returns `None`, which is a violation of
    /// liveness, if this takes more than [`HEALED_VIEWS`] plus the views in which the honest clients' share next to a
    /// hostile one covers their earlier bundles.
    pub fn heal(&mut self, leaders: impl IntoIterator<Item = ReplicaId>) -> Option<u64> {
        self.heal_for(leaders, 0)
    }

    /// Heals the network as [`World::heal`] does, and checks the honest clients' share next to a hostile one for at
    /// least this many views.
    pub fn heal_for(&mut self, leaders: impl IntoIterator<Item = ReplicaId>, at_least: u64) -> Option<u64> {
        let last = self.instances.iter().map(|instance| instance.replica.view().0).max().unwrap_or(0).max(self.limit.0);
        self.links.clear();
        self.lose = None;
        // The leader of the current view stays the same.
        if last > 0 {
            self.leader(last, self.script.leader(View(last)));
        }
        self.script.views.truncate(last as usize);
        self.leaders_after(leaders);
        self.supplied = true;
        let before = self.checker.submitted();
        let up = self
            .participants
            .instances()
            .filter(|instance| self.instances[instance.0].up)
            .fold(0, |set, instance| set | 1 << instance.0);
        let expected = up & self.checker.trusted();
        let hostile = self.participants.hostile().is_some();
        // The leader of an earlier view may already have proposed.
        let backlog = self.checker.check_shares_after(View(last + 2));
        let views = HEALED_VIEWS + if hostile { backlog } else { 0 };
        let checks_shares = hostile && !self.config.protocol.has_slots();
        let mut executed = None;
        for view in 1..=if checks_shares { views.max(at_least) } else { views } {
            self.open_view(last + view);
            self.send_commands();
            self.settle();
            let late = checks_shares || !self.checker.all_executed_after(before, expected) || self.is_any_away();
            if late && self.give_up_below(View(last + view)) {
                self.settle();
            }
            self.replace_primary_for_away(View(last + view));
            if self.checker.all_executed_after(before, expected) && !self.is_any_away() {
                executed = executed.or(Some(view).filter(|view| *view <= views));
                if !checks_shares {
                    break;
                }
            }
        }
        if executed.is_none() {
            let what = match self.checker.all_executed_after(before, expected) {
                true => format!("{} within {views} views after the network healed", self.describe_away()),
                false => format!("no command sent after the network healed was executed by all within {views} views"),
            };
            self.checker.report(Property::Liveness, what);
        }
        executed
    }

    /// Begins a view of the script: advances the time and releases waiting messages of the view.
    pub fn open_view(&mut self, view: u64) {
        assert!(View(view) > self.limit, "views are run in ascending order");
        self.limit = View(view);
        self.checker.opens(self.limit);
        // Timers of fetches may have advanced the clock further. Exchanges started in the view before that also get
        // their time.
        let begins = Time(VIEW.as_nanos() as u64 * view);
        self.now = if self.now < begins { begins } else { self.now + VIEW };
        self.deliveries = 0;
        self.single_sends.fill(0);
        self.announce_script();
        self.transcript.heading(|| {
            let links = self.links.describe(View(view), &self.participants);
            format!("view {view}: leader {:?}; {links}", self.script.leader(View(view)))
        });
        let mut waiting = std::mem::take(&mut self.waiting);
        for parcel in waiting.drain(..) {
            self.deposit(parcel);
        }
        // If no message has to wait again, keep the drained list for its capacity.
        if self.waiting.is_empty() {
            self.waiting = waiting;
        }
        for at in 0..self.instances.len() {
            if !self.instances[at].started && self.instances[at].up {
                self.instances[at].started = true;
                self.step(InstanceId(at), Input::Start);
            }
        }
    }

    fn announce_script(&mut self) {
        if !self.announced {
            self.announced = true;
            let script = Arc::new(self.script.clone());
            self.instances.iter_mut().for_each(|instance| instance.replica.follow_script(script.clone()));
        }
    }

    /// Fires the view timer of every instance below a view. Returns whether there are any.
    pub fn give_up_below(&mut self, view: View) -> bool {
        let below = self.below(view);
        below.iter().for_each(|instance| self.ring(*instance, Timer::View));
        !below.is_empty()
    }

    /// Forces every instance below a view into it. Returns whether there are any. Until it votes again, a replica that
    /// lost its disk enters only views that others prove to have begun, since it relies on the quorum that left the
    /// previous view.
    pub fn force_up_to(&mut self, view: View) -> bool {
        let mut below = self.below(view);
        below.retain(|instance| !self.is_silent(*instance));
        below.iter().for_each(|instance| self.force(*instance, view));
        !below.is_empty()
    }

    fn below(&self, view: View) -> Vec<InstanceId> {
        self.participants.instances().filter(|instance| self.instances[instance.0].is_below(view)).collect()
    }

    /// Forces an instance into a higher view than its own.
    pub fn force(&mut self, instance: InstanceId, view: View) {
        self.announce_script();
        self.forced = self.forced.max(view);
        self.transcript.add(&self.participants, instance, || format!("is forced into {view:?}"));
        let mut actions = std::mem::take(&mut self.actions);
        self.instances[instance.0].replica.force_view(self.now, view, &mut actions);
        self.perform_all(instance, actions);
        self.answer(instance);
    }

    pub fn participants(&self) -> &Participants {
        &self.participants
    }

    pub fn replica(&self, instance: InstanceId) -> &Replica<P> {
        &self.instances[instance.0].replica
    }

    /// Returns the first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.checker.violation()
    }

    pub fn checker(&mut self) -> &mut Checker {
        &mut self.checker
    }

    /// Returns the transcript since [`World::record`].
    pub fn transcript(&self) -> String {
        self.transcript.text()
    }
}
