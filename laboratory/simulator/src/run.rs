//! Runs one seed, or many on all cores.

use crate::chaos::{Chaos, unequal_links};
use crate::chronicle::Chronicle;
use crate::clients::{self, ClientMachine, Clients};
use crate::faults::{Point, favours, misbehaviour, served_within};
use crate::keys::{ClientKeys, Judge, devices, genesis};
use crate::ledger::Charged;
use crate::levels;
use crate::links::{Purpose, Random};
use crate::network::{Endpoints, Links, Loss, NetworkSpec, Place, TcpCounts};
use crate::node::{Node, Parts, Reborn};
use crate::oracle::Oracle;
use crate::shares::HonestShare;
use crate::signatures::Device;
use crate::spec::{SimSpec, WorkloadFactory};
use crate::transcript::Transcript;
use crate::world::{self, Life, Reading, Shares, World, trouble};
use quorate_adversary::byzantine::malleable::{ForMalleable, Malleable, for_malleable};
use quorate_adversary::byzantine::{Behaviour, Context};
use quorate_adversary::oracles::{Property, Violation};
use quorate_applications::CheckpointRule;
use quorate_client::load::{LoadReport, Stage};
use quorate_consensus::config::Dissemination;
use quorate_consensus::replica::MakeReplica;
use quorate_consensus::{Config, Protocol, Replica};
use quorate_crypto::{ClientIdentity, ReplyAuthentication};
use quorate_hosting::desk::BundleLimits;
use quorate_hosting::recording::{Header, Recorder, RecordingError, Rerun};
use quorate_types::{ClientId, EpochId, FeatureLevel, ReplicaId, Status, Time};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Name of every simulated cluster.
/// Maximum retransmission timeout under chaos, so that a healed link is soon used again.
const MAX_CHAOS_RTO_MS: f64 = 1000.0;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct SimReport {
    pub seed: u64,
    /// Hash of all events, equal on every machine.
    pub trace_hash: String,
    pub events: u64,
    /// Number of delivered messages, between replicas and to and from clients.
    pub delivered: u64,
    pub virtual_time: Duration,
    /// The clients' report; `None` if the run ended early.
    pub load: Option<LoadReport>,
    /// Figures of each client machine; empty if the run ended early.
    pub client_machines: Vec<ClientMachine>,
    /// The replicas' counters over the measured time, one entry per life; empty if the run ended early.
    pub lives: Vec<Life>,
    /// The replicas' counters at each second of the measured time, and at its end.
    pub seconds: Vec<Reading>,
    /// Charges over the measured time; `None` if the run ended early.
    pub charged: Option<Charged>,
    /// The threads' shares of the cores over the measured time: the replicas', then the client machines'. Empty if the
    /// run ended early.
    pub shares: Vec<Shares>,
    /// Feature level of each replica's next block at the end.
    pub levels: Vec<FeatureLevel>,
    /// Status with history of each replica at the end; `None` if it is down.
    pub end: Vec<Option<Status>>,
    /// Replicas that crashed, one entry per crash.
    pub crashed: Vec<ReplicaId>,
    pub restarts: u64,
    /// Replicas that lost their disks, one entry per loss.
    pub lost_disks: Vec<ReplicaId>,
    /// Number of [`Point`]s that each replica passed in all its lives.
    pub points: Vec<Point>,
    pub lost_packets: u64,
    /// Counters of the TCP model.
    pub streams: TcpCounts,
    /// Number of messages dropped because a stream's queue was full.
    pub not_queued: u64,
    /// Number of connections between replicas at the end, by wire version; empty with transports over streams.
    pub wire_versions: BTreeMap<u8, usize>,
    pub chronicle: Chronicle,
    /// Whether the caller stopped the run.
    pub stopped: bool,
    pub violation: Option<Violation>,
    /// The last lines of the transcript, after a violation.
    pub transcript: Vec<String>,
}

/// Result of a run and of its recorder.
pub type Outcome = (SimReport, Result<Option<Rerun>, RecordingError>);

/// Modification of replicas of any protocol before they start. Tests of the oracles use it to inject bugs.
pub trait Alter {
    /// Modifies the settings of a replica, which then differ from those known to the oracles.
    fn settings(&self, config: Config) -> Config {
        config
    }

    /// Modifies a replica, at its start and at each restart.
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P> {
        replica
    }
}

/// No modification.
pub struct AsMade;

impl Alter for AsMade {}

/// Settings of one run.
struct Run<'a, A = AsMade> {
    spec: &'a SimSpec,
    seed: u64,
    workload: WorkloadFactory<'a>,
    transcript: bool,
    /// Whether the hosts receive marks.
    marks: bool,
    recorder: Option<Recorder>,
    /// Called regularly; the load stops once it returns false.
    goes_on: fn() -> bool,
    alter: A,
}

impl<'a, A: Alter> Run<'a, A> {
    fn new(spec: &'a SimSpec, seed: u64, workload: WorkloadFactory<'a>, alter: A) -> Run<'a, A> {
        let goes_on = || true;
        Run { spec, seed, workload, transcript: false, marks: true, recorder: None, goes_on, alter }
    }

    fn finish(self) -> Outcome {
        for_malleable(self.spec.consensus.protocol, self)
    }
}

impl<A: Alter> ForMalleable for Run<'_, A> {
    type Output = Outcome;

    fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Outcome {
        run_protocol(self, make)
    }
}

/// Runs one seed, and repeats it with a transcript after a violation.
pub fn run(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>) -> SimReport {
    run_while(spec, seed, workload, || true)
}

fn run_while(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>, goes_on: fn() -> bool) -> SimReport {
    let once = |transcript| Run { transcript, goes_on, ..Run::new(spec, seed, workload, AsMade) }.finish().0;
    let report = once(false);
    if report.violation.is_some() { once(true) } else { report }
}

/// Runs one seed with modified replicas.
pub fn run_altered(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>, alter: impl Alter) -> SimReport {
    Run::new(spec, seed, workload, alter).finish().0
}

/// Runs one seed and removes every mark before the hosts receive it. The report must equal the report of [`run`],
/// except for the state transfers in the chronicle.
pub fn run_without_marks(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>) -> SimReport {
    Run { marks: false, ..Run::new(spec, seed, workload, AsMade) }.finish().0
}

/// Runs one seed with a recorder of all replicas. Also returns the comparison, if the recorder compares with a
/// recording.
///
/// # Errors
/// If the recording cannot be written or read.
pub fn run_recorded(
    spec: &SimSpec,
    seed: u64,
    workload: WorkloadFactory<'_>,
    recorder: Recorder,
) -> Result<(SimReport, Option<Rerun>), RecordingError> {
    run_recorded_while(spec, seed, workload, recorder, || true)
}

/// Does the same as [`run_recorded`], but stops the load once `goes_on` returns false. The recording breaks off at that
/// point, because a replay would not stop there.
///
/// # Errors
/// As [`run_recorded`].
pub fn run_recorded_while(
    spec: &SimSpec,
    seed: u64,
    workload: WorkloadFactory<'_>,
    recorder: Recorder,
    goes_on: fn() -> bool,
) -> Result<(SimReport, Option<Rerun>), RecordingError> {
    let run = Run { transcript: true, recorder: Some(recorder), goes_on, ..Run::new(spec, seed, workload, AsMade) };
    let (mut report, recorded) = run.finish();
    if report.violation.is_none() {
        report.transcript.clear();
    }
    recorded.map(|rerun| (report, rerun))
}

/// Returns the header of a recording, without the command to reproduce the run.
pub fn recording_header(spec: &SimSpec) -> Header {
    Header::new(genesis(spec).epoch(), spec.quorum, spec.consensus.clone())
}

/// Runs seeds on all cores, and returns their reports ordered by seed. Calls `heard` with each report as soon as it is
/// ready.
pub fn run_seeds(
    spec: &SimSpec,
    seeds: std::ops::Range<u64>,
    threads: usize,
    workload: WorkloadFactory<'_>,
    heard: &(dyn Fn(&SimReport) + Sync),
) -> Vec<SimReport> {
    run_seeds_while(spec, seeds, threads, workload, heard, || true)
}

/// Does the same as [`run_seeds`], but stops all loads and starts no further seed once `goes_on` returns false.
pub fn run_seeds_while(
    spec: &SimSpec,
    seeds: std::ops::Range<u64>,
    threads: usize,
    workload: WorkloadFactory<'_>,
    heard: &(dyn Fn(&SimReport) + Sync),
    goes_on: fn() -> bool,
) -> Vec<SimReport> {
    let all: Vec<u64> = seeds.collect();
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::with_capacity(all.len()));
    let work = || {
        while let Some(seed) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !goes_on() {
                return;
            }
            let report = run_while(spec, *seed, workload, goes_on);
            heard(&report);
            reports.lock().expect("nothing panics while it holds this lock").push(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(all.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut reports = reports.into_inner().expect("nothing panics while it holds this lock");
    reports.sort_by_key(|report| report.seed);
    reports
}

fn run_protocol<P: Protocol<Message: Malleable>, A: Alter>(run: Run<'_, A>, make: MakeReplica<P>) -> Outcome {
    let Run { spec, seed, workload, transcript, marks, mut recorder, goes_on, alter } = run;
    let places = spec.places().expect("the laboratory validates the places of clients");
    let (trouble, chaos) = trouble(spec, &places, seed);
    let network = chaos.as_ref().map_or_else(|| spec.network.clone(), |chaos| network_in(chaos, spec, seed));
    let spec = &SimSpec { network, ..spec.clone() };
    let replicas = spec.quorum.replicas();
    let epoch = genesis(spec).epoch();
    let (mut devices, client_keys) = (devices(spec, seed), ClientKeys::new(spec, seed));
    let mut salts = Random::new(seed, Purpose::Salts, 0);
    let remake = |me: ReplicaId, salt: u64| {
        let (executor, seen_levels) = levels::executor(spec, checkpoints(&spec.consensus));
        let replica = alter.alter(make(alter.settings(spec.consensus.clone()), spec.quorum, epoch, me, salt));
        Reborn { replica, executor, seen_levels, behaviour: behaviour(spec, me), salt }
    };
    let keeps_journal = trouble.restarts();
    let identities = clients::identities(places.len(), &client_keys);
    let origins: Arc<[ClientId]> = identities.iter().map(ClientIdentity::origin).collect();
    let mut nodes = Vec::with_capacity(replicas);
    for me in (0..replicas as u16).map(ReplicaId) {
        let salt = salts.bits();
        if let Some(recorder) = &mut recorder {
            recorder.begin(me, salt);
        }
        let settings = NodeSettings { keeps_journal, marks, models_clients: true, origins: origins.clone() };
        let made = remake(me, salt);
        nodes.push(node(spec, me, devices.remove(0), made, client_keys.judge(me), settings));
    }
    let (links, homes) = ways(spec, &places, seed);
    let late = Duration::from_nanos((spec.costs.client.late_us * 1e3) as u64);
    let mut world = World::new(world::Parts {
        spec,
        seed,
        nodes,
        remake: &remake,
        salts,
        client_keys,
        clients: Clients::new(spec, &places, homes, workload(), identities, late),
        links,
        connections: world::Connections::new(spec, replicas, replicas + places.len(), seed),
        oracle: oracle(spec, places.len(), epoch, chaos.is_some()),
        trouble,
        goes_on,
    });
    world.transcript = Transcript::new(transcript);
    world.recorder = recorder;
    run_to_the_end(&mut world);
    let broken_off = std::mem::replace(&mut world.broken_off, Ok(()));
    let finish = |recorder: Recorder| recorder.finish(Some(&world.trace.hash()));
    let recorded = broken_off.and_then(|()| world.recorder.take().map_or(Ok(None), finish));
    (report(seed, world, &places), recorded)
}

/// Settings of a node that do not follow from the specification.
pub(crate) struct NodeSettings {
    pub keeps_journal: bool,
    pub marks: bool,
    pub models_clients: bool,
    /// Origin of each client machine's bundles.
    pub origins: Arc<[ClientId]>,
}

/// Returns a replica that has not started.
pub(crate) fn node<P: Protocol>(
    spec: &SimSpec,
    me: ReplicaId,
    device: Device,
    made: Reborn<P>,
    judge: Judge,
    settings: NodeSettings,
) -> Node<P> {
    let Reborn { replica, executor, seen_levels, behaviour, salt } = made;
    let NodeSettings { keeps_journal, marks, models_clients, origins } = settings;
    let parts = Parts {
        me,
        replicas: spec.quorum.replicas(),
        epoch: genesis(spec).epoch(),
        replica,
        device,
        executor,
        seen_levels,
        votes_by_mac: spec.macs.is_some(),
        limits: BundleLimits { commands: spec.consensus.batch.max_commands(), bytes: spec.consensus.batch_bytes },
        models_clients,
        reply: spec.reply,
        authenticator_bytes: spec.reply_seals.map(ReplyAuthentication::authenticator_bytes),
        stages: spec.stages,
        behaviour,
        salt,
        max_queue: spec.consensus.max_queue(),
        keeps_journal,
        probes: spec.probes.then(|| spec.costs.counter_hz()),
        marks,
        origins,
    };
    Node::new(parts, judge)
}

/// Returns the links between all machines, and the replica to which each client machine sends first.
fn ways(spec: &SimSpec, places: &[Place], seed: u64) -> (Links, Vec<ReplicaId>) {
    let replicas = spec.quorum.replicas();
    let endpoints = Endpoints { replicas, machines: places, delay: &spec.network.delay };
    let links = Links::between(&spec.network, &endpoints, seed);
    let nearest = |(at, place): (usize, &Place)| place.home.unwrap_or_else(|| links.nearest(replicas + at, replicas));
    let homes = places.iter().enumerate().map(nearest).collect();
    (links, homes)
}

/// Runs a world. A panic of a replica counts as a finding.
fn run_to_the_end<P: Protocol<Message: Malleable>>(world: &mut World<'_, P>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.run())) {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        world.oracle.report(Property::Panic, said.unwrap_or("panic without a message").to_owned());
    }
}

pub(crate) fn oracle(spec: &SimSpec, machines: usize, epoch: EpochId, has_chaos: bool) -> Oracle {
    let mut oracle = Oracle::new(spec.quorum, epoch.genesis(), &spec.consensus);
    if let Some(within) = served_within(&spec.network.faults).filter(|_| !has_chaos) {
        oracle.watch_service(within);
    }
    // With other disseminations, a leader may lack bundles of honest clients.
    let to_all = spec.consensus.dissemination == Dissemination::Client;
    if let Some(hostile) = favours(&spec.network.faults).filter(|_| to_all && !has_chaos) {
        let links = machines as u64 + hostile + 1;
        oracle.watch_shares(HonestShare::new(links, spec.quorum.replicas(), &spec.consensus));
    }
    for (replica, misbehaviour) in misbehaviour(&spec.network.faults) {
        oracle.distrust(replica, misbehaviour.fault.lies());
    }
    oracle
}

/// Returns the network of a chaos run.
fn network_in(chaos: &Chaos, spec: &SimSpec, seed: u64) -> NetworkSpec {
    let mut network = troubled(&spec.network, chaos);
    let links = unequal_links(seed, &network, spec.quorum.replicas(), spec.consensus.view_timeout());
    network.links.extend(links);
    network
}

fn report<P: Protocol>(seed: u64, world: World<'_, P>, places: &[Place]) -> SimReport {
    let (streams, not_queued) = (world.stream_counts(), world.not_queued());
    let wire_versions = world.wire_versions();
    let sound = world.oracle.violation.is_none();
    let end = world.nodes.iter().map(|node| (node.alive && sound).then(|| node.status(true))).collect();
    let delay = &world.spec.network.delay;
    let is_done = world.clients.stage() == Stage::Done;
    let (load, client_machines) = is_done.then(|| world.clients.finish(world.now, places, delay)).unzip();
    SimReport {
        seed,
        trace_hash: world.trace.hash(),
        events: world.events,
        delivered: world.delivered,
        virtual_time: world.now.since(Time(0)),
        load,
        client_machines: client_machines.unwrap_or_default(),
        lives: world.lives_measured.take(),
        seconds: world.seconds.readings,
        shares: if world.charged.is_some() { world.shares } else { Vec::new() },
        charged: world.charged,
        levels: world.nodes.iter().map(Node::level).collect(),
        end,
        points: world.nodes.iter().map(|node| node.points).collect(),
        crashed: world.crashed,
        restarts: world.restarts,
        lost_disks: world.lost_disks,
        lost_packets: world.links.lost,
        streams,
        not_queued,
        wire_versions,
        chronicle: world.chronicle,
        stopped: world.stopped,
        violation: world.oracle.violation,
        transcript: world.transcript.into_lines(),
    }
}

/// Returns the rule for keeping states: one per half of the retained blocks, so that a replica that fetches a state
/// still finds the blocks above it.
pub(crate) fn checkpoints(config: &Config) -> CheckpointRule {
    let retained = (config.retained_bytes as u64).max(1);
    CheckpointRule {
        interval: config.checkpoint_interval,
        bytes_between: (retained / 2).max(1),
        block_bytes: (retained / config.retained_blocks as u64).max(1),
    }
}

/// Returns the behaviour of a replica that misbehaves, or sends copies of its messages.
pub(crate) fn behaviour<M: Malleable>(spec: &SimSpec, me: ReplicaId) -> Option<Box<dyn Behaviour<M>>> {
    let context = Context {
        me,
        quorum: spec.quorum,
        shape: spec.scheme.profile().shape(spec.quorum.replicas()),
        view_timeout: spec.consensus.view_timeout(),
    };
    let own = misbehaviour(&spec.network.faults).find(|(replica, _)| *replica == me);
    spec.copies.wrap(me, spec.quorum, own.map(|(_, misbehaviour)| misbehaviour.behaviour(context)))
}

/// Applies the network conditions of chaos.
fn troubled(network: &NetworkSpec, chaos: &Chaos) -> NetworkSpec {
    let mut network = network.clone();
    network.loss = Loss::Independent { probability: chaos.loss };
    network.packets.duplication = chaos.duplication;
    network.packets.reordering = chaos.reordering;
    network.transport.rto_max_ms = MAX_CHAOS_RTO_MS.max(network.transport.rto_min_ms);
    network.transport.rto_initial_ms = network.transport.rto_initial_ms.min(network.transport.rto_max_ms);
    network
}
