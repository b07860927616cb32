//! Runs a [`BenchSpec`] in virtual time.

mod options;
mod places;
mod recorded;
mod result;

pub use options::{SimArgs, SimError, SimOptions};
pub use places::ClientPlaces;
pub use recorded::SimulatedRun;
pub use result::{Charges, MachineResult, SeedResult, SimResult};

use crate::partial;
use crate::search::{Probe, search};
use crate::settings::{commands, load_options};
use crate::spec::{BenchSpec, Fault, Interval, Problem, Record, SpecError, TransportKind, When, timeouts};
use quorate_crypto::{ClientAuthentication, SchemeKind};
use quorate_hosting::recording::Recorder;
pub use quorate_simulator::SimReport;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::hostile::SERVED_WITHIN_MS;
use quorate_simulator::network::Endpoints;
use quorate_simulator::off_path::PACKETS_PER_S;
use quorate_simulator::{
    ClientsAt, CostTable, Leaves, NetworkSpec, SimSpec, place, run_recorded_while, run_seeds_while,
};
use quorate_types::{ReplicaId, ReplicaStages};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Duration of a load that outlasts chaos and healing.
const CHAOS_LOAD: Duration = Duration::from_secs(24 * 3600);

/// Does the same as [`run`], and passes each run of a search to `on_probe`.
///
/// # Errors
/// As [`run`].
pub fn run_or_search(
    spec: &BenchSpec,
    options: &SimOptions,
    on_report: &(dyn Fn(&SimReport) + Sync),
    on_probe: &mut dyn FnMut(&Probe),
) -> Result<SimResult, SimError> {
    if !spec.search {
        return run_once(spec, options, on_report);
    }
    spec.validate()?;
    if options.seeds.as_ref().is_some_and(|seeds| seeds.end - seeds.start > 1) {
        return Err(SimError::Search("--seeds"));
    }
    if options.chaos {
        return Err(SimError::Search("--chaos"));
    }
    let mut found =
        search(spec, on_probe, |spec, _| run_once(spec, options, on_report), |on_probe, probe| on_probe(probe))?;
    found.bench.command = result::command(spec, options, found.seeds[0].seed);
    Ok(found)
}

/// Runs every seed on all cores, or searches for saturation. Passes each report to `on_report` as it arrives, from any
/// thread.
///
/// # Errors
/// If the spec is invalid or a file is invalid. A violation is part of the result, not an error.
pub fn run(
    spec: &BenchSpec,
    options: &SimOptions,
    on_report: &(dyn Fn(&SimReport) + Sync),
) -> Result<SimResult, SimError> {
    run_or_search(spec, options, on_report, &mut |_| {})
}

fn run_once(
    spec: &BenchSpec,
    options: &SimOptions,
    on_report: &(dyn Fn(&SimReport) + Sync),
) -> Result<SimResult, SimError> {
    run_with(spec, options, &options.cost_table()?, on_report)
}

/// Runs a spec once with a preloaded cost table. A recording names the table of the options.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    spec: &BenchSpec,
    options: &SimOptions,
    costs: &CostTable,
    on_report: &(dyn Fn(&SimReport) + Sync),
) -> Result<SimResult, SimError> {
    spec.validate()?;
    if spec.node.stages && costs.is_free() {
        return Err(SimError::FreeStages);
    }
    if spec.cores > 0 && spec.node.replica_threads.of(1, 1, spec.replica_work()) > 1 {
        let what = "a simulated replica's threads have a core each, beside those that replicas and clients share";
        let help = "omit --cores: each replica then has a machine of its own";
        return Err(SpecError::Impossible(vec![Problem::new("--replica-threads, --cores", what, help)]).into());
    }
    let sim = sim_spec_on(
        spec,
        options,
        Files { network: options.network()?, costs: costs.clone(), places: options.places()? },
    )?;
    // Reports errors of the workload early, before each thread creates its own.
    commands(spec)?;
    let workload = || commands(spec).expect("the same workload was created before");
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let seeds = options.seeds.clone().unwrap_or(spec.seed..spec.seed + 1);
    let start = Instant::now();
    let reports = match &spec.record {
        None => run_seeds_while(&sim, seeds.clone(), threads, &workload, on_report, partial::goes_on),
        Some(record) => {
            let recorder = recorder(spec, options, &sim, seeds.clone(), record)?;
            let (report, _) = run_recorded_while(&sim, seeds.start, &workload, recorder, partial::goes_on)?;
            on_report(&report);
            vec![report]
        }
    };
    if reports.is_empty() {
        return Err(SimError::Interrupted);
    }
    Ok(result::collect(spec, options, &sim, reports, seeds, start.elapsed()))
}

/// Creates a recorder if the run has a single seed.
fn recorder(
    spec: &BenchSpec,
    options: &SimOptions,
    sim: &SimSpec,
    seeds: Range<u64>,
    record: &Record,
) -> Result<Recorder, SimError> {
    if seeds.end - seeds.start > 1 {
        return Err(SimError::RecordSeeds(seeds));
    }
    if let Some(replica) = record.replica {
        return Err(SimError::RecordOne(replica));
    }
    SimulatedRun::new(spec, options, seeds.start)?.recorder(sim, Path::new(&record.path), spec.record_limit_mb)
}

/// Returns the input of the simulator for a spec.
///
/// # Errors
/// If a file cannot be read or is invalid.
pub fn sim_spec(spec: &BenchSpec, options: &SimOptions) -> Result<SimSpec, SimError> {
    let files = Files { network: options.network()?, costs: options.cost_table()?, places: options.places()? };
    sim_spec_on(spec, options, files)
}

/// Contents of the files named by the options.
pub(crate) struct Files {
    pub network: NetworkSpec,
    pub costs: CostTable,
    pub places: ClientsAt,
}

/// Refuses a transport that exists only in the kernel.
fn check_transport(transport: TransportKind) -> Result<(), SimError> {
    if transport != TransportKind::SCTP_KERNEL {
        return Ok(());
    }
    let what = "is the kernel's SCTP, which a simulation does not have";
    Err(quorate_types::Fault::new("--transport", what, "set `sctp`, the one in user space").into())
}

/// Refuses off-path senders of a network file if the transport has no packets to forge.
fn check_off_path(network: &NetworkSpec, transport: TransportKind, name: &str) -> Result<(), SimError> {
    let off_path = network.faults.iter().position(|fault| matches!(fault, FaultSpec::OffPath { .. }));
    match off_path.filter(|_| transport.carrier().association().is_none()) {
        None => Ok(()),
        Some(at) => {
            let what = format!("is of packets, and the transport is `{transport}`");
            let help = "set --transport rudp, sctp, quic or udp";
            Err(quorate_types::Fault::new(format!("{name}: `faults[{at}]`"), what, help).into())
        }
    }
}

/// Converts a fault of a spec to the simulator's faults.
fn fault_specs(spec: &BenchSpec, fault: &Fault) -> Vec<FaultSpec> {
    let warmup_ms = spec.warmup.as_millis() as f64;
    let at_ms = fault.at().map_or(0.0, |at| warmup_ms + at.as_millis() as f64);
    let for_ms = |time: Option<Interval>| {
        let whole_ms = warmup_ms + Duration::from(spec.duration).as_millis() as f64;
        time.map_or(whole_ms - at_ms, |time| time.as_millis() as f64)
    };
    match *fault {
        Fault::Hostile(client, _, time) => {
            let (for_ms, within_ms) = (for_ms(time), SERVED_WITHIN_MS);
            vec![FaultSpec::Hostile { at_ms, for_ms, client, shares_link: false, within_ms }]
        }
        Fault::OffPath(packets, _, time) => {
            let (for_ms, packets_per_s, within_ms) = (for_ms(time), PACKETS_PER_S, SERVED_WITHIN_MS);
            vec![FaultSpec::OffPath { at_ms, for_ms, packets, packets_per_s, to: Vec::new(), within_ms }]
        }
        Fault::Misbehave(replicas, fault, When { lasts, every, .. }) => {
            let [for_ms, every_ms] = [lasts, every].map(|time| time.map(|time| time.as_millis() as f64));
            let misbehave = |ReplicaId(replica)| FaultSpec::Misbehave { at_ms, for_ms, every_ms, replica, fault };
            replicas.iter().map(misbehave).collect()
        }
        Fault::Skew(replica, ms, _, time) => {
            let (for_ms, skew_ms) = (for_ms(time), ms as f64);
            vec![FaultSpec::Skew { at_ms, for_ms, replica: replica.0, skew_ms }]
        }
        Fault::Crash(replica, _) => vec![FaultSpec::Crash { at_ms, replica: replica.0 }],
        Fault::Restart(replica, _, away) => {
            let (for_ms, journal) = (away.as_millis() as f64, Leaves::default());
            vec![FaultSpec::Restart { at_ms, for_ms, replica: replica.0, journal }]
        }
    }
}

/// Returns the input of the simulator, given preloaded files.
pub(crate) fn sim_spec_on(spec: &BenchSpec, options: &SimOptions, files: Files) -> Result<SimSpec, SimError> {
    let Files { mut network, costs, places } = files;
    check_transport(spec.node.transport)?;
    check_off_path(&network, spec.node.transport, &options.network)?;
    let template = spec.template();
    network.faults.extend(spec.fault.iter().flat_map(|fault| fault_specs(spec, fault)));
    let replicas = spec.quorum().replicas();
    let machines = place(&places, &network.delay, replicas, spec.clients as usize, &options.network)?;
    network.fits(replicas, &machines, &options.network)?;
    if let Some(profile) = spec.tcp_profile() {
        let delay = network.delay.clone();
        timeouts::apply(profile, &mut network, &Endpoints { replicas, machines: &machines, delay: &delay });
    }
    let scheme = spec.node.reproduction.bls_verification.of(template.scheme);
    let macs = spec.node.auth_profile.votes_by_mac().then_some(spec.node.mac_scheme);
    let clients = (spec.node.client_authentication == ClientAuthentication::Ed25519).then_some(SchemeKind::ED25519);
    let reply_seals = spec.node.reply_authentication.scheme(scheme, spec.node.mac_scheme);
    for needed in [Some(scheme), macs, clients, reply_seals].into_iter().flatten() {
        costs.signatures_of(needed)?;
    }
    let mut load = load_options(spec);
    let chaos = options.chaos.then(|| spec.duration.into());
    if options.chaos {
        load = quorate_client::load::LoadOptions { duration: CHAOS_LOAD, drain: Duration::ZERO, ..load };
    }
    Ok(SimSpec {
        consensus: template.consensus.clone(),
        copies: spec.node.reproduction.copies,
        quorum: spec.quorum(),
        scheme,
        macs,
        signatures: options.signatures,
        certificate_cache: spec.node.reproduction.certificate_cache,
        client_authentication: spec.node.client_authentication,
        reply_seals,
        application: template.application,
        reply: spec.node.reply,
        wire: template.wire(),
        network,
        costs,
        probes: spec.node.stages,
        stages: stages(spec),
        cores: spec.cores as usize,
        router: options.router(spec.cores)?,
        load,
        clients_at: places,
        chaos,
    })
}

/// Returns the stages of a simulated replica with threads and cores of their own. Without any, a replica has one core.
fn stages(spec: &BenchSpec) -> ReplicaStages {
    let clients_sign = spec.node.client_authentication == ClientAuthentication::Ed25519;
    ReplicaStages::of(spec.node.replica_threads.of(1, 1, spec.replica_work()), clients_sign)
}
