//! Runs a seed, or many on all cores.

use crate::chaos::{Chaos, unequal_links};
use crate::chronicle::Chronicle;
use crate::clients::Clients;
use crate::faults::{Point, misbehaviour, served_within};
use crate::network::{Links, Loss, NetworkSpec};
use crate::node::{Node, Parts, Reborn};
use crate::oracle::{Complaint, Oracle};
use crate::random::{Purpose, Random};
use crate::signatures::{Device, Modelled};
use crate::spec::{Signatures, SimSpec, WorkloadFactory};
use crate::transcript::Transcript;
use crate::world::{self, Life, World, trouble};
use quorate_applications::{CheckpointRule, Executor};
use quorate_byzantine::malleable::{ForMalleable, Malleable, for_malleable};
use quorate_byzantine::{Behaviour, Context};
use quorate_client::load::{LoadReport, Stage};
use quorate_consensus::protocols::MakeReplica;
use quorate_consensus::replica::Protocol;
use quorate_consensus::{Config, Replica};
use quorate_crypto::{Crypto, DEFAULT_CACHE_CERTIFICATES, Keyring, ReplicaKeys};
use quorate_recording::{Header, Recorder, RecordingError, Rerun};
use quorate_types::{Address, ClusterId, Committee, ReplicaId, Status, Time};
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The name of every simulated cluster.
const CLUSTER: &str = "quorate";
/// Under chaos, the longest retransmission timeout in milliseconds: a link that is healed is used again soon.
const CHAOS_RTO_MOST_MS: f64 = 1000.0;

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// The seed.
    pub seed: u64,
    /// The name of the run: equal on every machine.
    pub trace_hash: String,
    /// Events that happened.
    pub events: u64,
    /// Messages that were delivered, between replicas and to and from clients.
    pub delivered: u64,
    /// How long it took in the simulated world.
    pub virtual_time: Duration,
    /// What the clients saw; none if the run ended before its time.
    pub load: Option<LoadReport>,
    /// The replicas' counters over the measured time, life by life; none if the run ended before its time.
    pub lives: Vec<Life>,
    /// At the end of the run, with histories; none of those that crashed.
    pub end: Vec<Option<Status>>,
    /// Who crashed, each time.
    pub crashed: Vec<ReplicaId>,
    /// How often a replica came back.
    pub restarts: u64,
    /// Points that each replica has passed between deciding something and having said it, over all its lives.
    pub points: Vec<Point>,
    /// Packets that were lost.
    pub lost_packets: u64,
    /// Segments that streams sent again.
    pub retransmissions: u64,
    /// Messages that found a full queue.
    pub not_queued: u64,
    /// What happened on the way.
    pub chronicle: Chronicle,
    /// Whether the run was stopped before its time.
    pub stopped: bool,
    /// What an oracle says.
    pub complaint: Option<Complaint>,
    /// The last views, if an oracle spoke.
    pub transcript: Vec<String>,
}

/// What came of a run: its report, and what its recorder says.
pub type Outcome = (SimReport, Result<Option<Rerun>, RecordingError>);

/// Changes replicas before they start, whatever their protocol. Tests of the oracles put bugs into them so.
pub trait Alter {
    /// The replica, made or made anew after a crash, as it is to be.
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P>;
}

/// Leaves replicas as they are.
pub struct AsMade;

impl Alter for AsMade {
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P> {
        replica
    }
}

/// One seed's run.
pub struct Run<'a, A = AsMade> {
    pub spec: &'a SimSpec,
    pub seed: u64,
    pub workload: WorkloadFactory<'a>,
    pub transcript: bool,
    /// Whether the hosts are told of marks.
    pub marks: bool,
    pub recorder: Option<Recorder>,
    /// Asked now and then; if not, the load is stopped.
    pub goes_on: fn() -> bool,
    pub alter: A,
}

/// Runs one seed.
pub fn run_once<A: Alter>(run: Run<'_, A>) -> Outcome {
    for_malleable(run.spec.consensus.protocol, run)
}

impl<A: Alter> ForMalleable for Run<'_, A> {
    type Output = Outcome;

    fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Outcome {
        run_protocol(self, make)
    }
}

/// Runs one seed. If an oracle speaks it is run once more, for the transcript.
pub fn run(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>) -> SimReport {
    run_while(spec, seed, workload, || true)
}

fn run_while(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>, goes_on: fn() -> bool) -> SimReport {
    let once = |transcript| {
        run_once(Run { spec, seed, workload, transcript, marks: true, recorder: None, goes_on, alter: AsMade }).0
    };
    let report = once(false);
    if report.complaint.is_some() { once(true) } else { report }
}

/// Runs one seed, once, with replicas that are not as they were made.
pub fn run_altered(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>, alter: impl Alter) -> SimReport {
    let goes_on = || true;
    run_once(Run { spec, seed, workload, transcript: false, marks: true, recorder: None, goes_on, alter }).0
}

/// Runs one seed once, and takes every mark of the replicas away before their hosts see it: nothing in the report may differ from that of
/// [`run`] but what the chronicle tells of fetched states.
pub fn run_without_marks(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>) -> SimReport {
    let goes_on = || true;
    run_once(Run { spec, seed, workload, transcript: false, marks: false, recorder: None, goes_on, alter: AsMade }).0
}

/// Runs one seed, once, and has a recorder hear every replica. If it compares with a recording, what came of that is returned.
///
/// # Errors
/// If the recording cannot be written or read.
pub fn run_recorded(
    spec: &SimSpec,
    seed: u64,
    workload: WorkloadFactory<'_>,
    recorder: Recorder,
) -> Result<(SimReport, Option<Rerun>), RecordingError> {
    let (mut report, heard) = run_once(Run {
        spec,
        seed,
        workload,
        transcript: true,
        marks: true,
        recorder: Some(recorder),
        goes_on: || true,
        alter: AsMade,
    });
    if report.complaint.is_none() {
        report.transcript.clear();
    }
    heard.map(|heard| (report, heard))
}

/// The header of a recording of that run, but for what makes the run again.
pub fn recording_header(spec: &SimSpec) -> Header {
    Header::new(ClusterId::from_name(CLUSTER), spec.quorum, spec.consensus.clone())
}

/// Runs seeds on all cores; the reports are in the seeds' order. `heard` is called with each report as it comes, in any order.
pub fn run_seeds(
    spec: &SimSpec,
    seeds: std::ops::Range<u64>,
    threads: usize,
    workload: WorkloadFactory<'_>,
    heard: &(dyn Fn(&SimReport) + Sync),
) -> Vec<SimReport> {
    run_seeds_while(spec, seeds, threads, workload, heard, || true)
}

/// The same, as long as `goes_on` says so: then the loads under way are stopped, and no further seed begins.
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

/// Runs one seed of a protocol whose replicas `make` makes.
fn run_protocol<P: Protocol<Message: Malleable>, A: Alter>(run: Run<'_, A>, make: MakeReplica<P>) -> Outcome {
    let Run { spec, seed, workload, transcript, marks, mut recorder, goes_on, alter } = run;
    let (trouble, chaos) = trouble(spec, seed);
    let network = match &chaos {
        Some(chaos) => {
            let mut network = troubled(&spec.network, chaos);
            let links = unequal_links(seed, &network, spec.quorum.replicas(), spec.consensus.view_timeout());
            network.links.extend(links);
            network
        }
        None => spec.network.clone(),
    };
    let spec = &SimSpec { network, ..spec.clone() };
    let replicas = spec.quorum.replicas();
    let cluster = ClusterId::from_name(CLUSTER);
    let mut devices = devices(spec, cluster, seed);
    let mut salts = Random::new(seed, Purpose::Salts, 0);
    let remake = |me: ReplicaId, salt: u64| Reborn {
        replica: alter.alter(make(spec.consensus.clone(), spec.quorum, cluster, me, salt)),
        executor: Executor::new(quorate_applications::build(spec.application), &cluster)
            .with_checkpoints(checkpoints(&spec.consensus)),
        behaviour: behaviour(spec, me),
        salt,
    };
    let keeps_journal = trouble.restarts();
    let mut nodes = Vec::with_capacity(replicas);
    for me in (0..replicas as u16).map(ReplicaId) {
        let salt = salts.bits();
        if let Some(recorder) = &mut recorder {
            recorder.begin(me, salt);
        }
        let Reborn { replica, executor, behaviour, .. } = remake(me, salt);
        nodes.push(Node::new(Parts {
            me,
            replicas,
            cluster,
            replica,
            device: devices.remove(0),
            executor,
            reply: spec.reply,
            crypto_servers: spec.crypto_servers,
            behaviour,
            salt,
            keeps_journal,
            marks,
        }));
    }
    let clients = Clients::new(&spec.load, spec.quorum, spec.consensus.dissemination, spec.reply, workload());
    let links = Links::new(&spec.network, replicas, seed);
    let connections = world::Connections::new(spec, replicas, seed);
    let mut oracle = Oracle::new(spec.quorum, cluster.genesis(), &spec.consensus);
    if let Some(within) = served_within(&spec.network.faults).filter(|_| chaos.is_none()) {
        oracle.watch_service(within);
    }
    for (replica, misbehaviour) in misbehaviour(&spec.network.faults) {
        oracle.distrust(replica, misbehaviour.fault.lies());
    }
    let remake = &remake;
    let parts = world::Parts { spec, nodes, remake, salts, clients, links, connections, oracle, trouble, goes_on };
    let mut world = World::new(parts);
    world.transcript = transcript.then(Transcript::default);
    world.recorder = recorder;
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = ended {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        world.oracle.complain("panic", said.unwrap_or("something that is no text").to_owned());
    }
    let heard = world.recorder.take().map_or(Ok(None), |recorder| recorder.finish(Some(&world.trace.hash())));
    (report(seed, world), heard)
}

fn report<P: Protocol>(seed: u64, world: World<'_, P>) -> SimReport {
    let (retransmissions, not_queued) = (world.retransmissions(), world.not_queued());
    let sound = world.oracle.complaint.is_none();
    let end = world.nodes.iter().map(|node| (node.alive && sound).then(|| node.status(true))).collect();
    let done = world.clients.stage() == Stage::Done;
    SimReport {
        seed,
        trace_hash: world.trace.hash(),
        events: world.events,
        delivered: world.delivered,
        virtual_time: world.now.since(Time(0)),
        load: done.then(|| world.clients.finish(world.now)),
        lives: world.lives_measured.take(),
        end,
        points: world.nodes.iter().map(|node| node.points).collect(),
        crashed: world.crashed,
        restarts: world.restarts,
        lost_packets: world.links.lost,
        retransmissions,
        not_queued,
        chronicle: world.chronicle,
        stopped: world.stopped,
        complaint: world.oracle.complaint,
        transcript: world.transcript.map(Transcript::into_lines).unwrap_or_default(),
    }
}

/// The state is kept when half of what is retained may be gone, so that whoever fetches it finds the blocks above it.
fn checkpoints(config: &Config) -> CheckpointRule {
    let retained = (config.retained_bytes as u64).max(1);
    CheckpointRule {
        interval: config.checkpoint_interval,
        bytes_between: (retained / 2).max(1),
        block_bytes: (retained / config.retained_blocks as u64).max(1),
    }
}

/// What stands between a replica and its devices, if it misbehaves.
fn behaviour<M: Malleable>(spec: &SimSpec, me: ReplicaId) -> Option<Box<dyn Behaviour<M>>> {
    let (_, misbehaviour) = misbehaviour(&spec.network.faults).find(|(replica, _)| *replica == me)?;
    let view_timeout = spec.consensus.view_timeout();
    Some(misbehaviour.behaviour(Context {
        me,
        quorum: spec.quorum,
        shape: spec.scheme.profile().shape(spec.quorum.replicas()),
        view_timeout,
    }))
}

/// The network under chaos.
fn troubled(network: &NetworkSpec, chaos: &Chaos) -> NetworkSpec {
    let mut network = network.clone();
    network.loss = Loss::Independent { probability: chaos.loss };
    network.packets.duplication = chaos.duplication;
    network.packets.reordering = chaos.reordering;
    network.transport.rto_most_ms = CHAOS_RTO_MOST_MS.max(network.transport.rto_least_ms);
    network.transport.rto_initial_ms = network.transport.rto_initial_ms.min(network.transport.rto_most_ms);
    network
}

fn devices(spec: &SimSpec, cluster: ClusterId, seed: u64) -> Vec<Device> {
    let replicas = spec.quorum.replicas();
    let profile = spec.scheme.profile();
    if spec.signatures == Signatures::Modelled || !profile.unforgeable {
        return (0..replicas)
            .map(|_| Device::Modelled(Box::new(Modelled::new(cluster, spec.quorum, profile))))
            .collect();
    }
    let mut random = Random::new(seed, Purpose::Keys, 0);
    let mut key_seeds = || {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes()));
        bytes
    };
    let seeds: Vec<[u8; 32]> = (0..replicas).map(|_| key_seeds()).collect();
    let keys = |seed: &[u8; 32]| ReplicaKeys::from_seed(spec.scheme, *seed);
    let address = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let members = seeds.iter().map(|seed| keys(seed).member(address.clone())).collect();
    let committee = Committee { cluster, quorum: spec.quorum, members };
    let shared = Keyring::shared(spec.scheme, &committee).expect("keys that were just made are sound");
    let device = |(at, seed): (usize, &[u8; 32])| {
        let (me, key) = (ReplicaId(at as u16), keys(seed).voting);
        let crypto = match shared.clone() {
            Some(keyring) => Crypto::with_keyring(keyring, &committee, me, key, DEFAULT_CACHE_CERTIFICATES),
            None => Crypto::new(spec.scheme, &committee, me, key, DEFAULT_CACHE_CERTIFICATES),
        };
        Device::Real(Box::new(crypto.expect("keys that were just made are sound")))
    };
    seeds.iter().enumerate().map(device).collect()
}
