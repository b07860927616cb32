//! Runs one [`BenchSpec`] in virtual time.

mod options;
mod result;

pub use options::{SimArgs, SimError, SimOptions};
pub use result::{SeedResult, SimResult};

use crate::bench::{commands, load_options, node_template};
use crate::spec::{BenchSpec, Fault, Reply};
use quorate_applications::ApplicationKind;
use quorate_client::ReplyMode;
pub use quorate_simulator::SimReport;
use quorate_simulator::{SimSpec, run_seeds};
use quorate_types::ReplicaId;
use std::time::{Duration, Instant};

/// A load that lasts as long as chaos and healing need.
const CHAOS_LOAD: Duration = Duration::from_secs(24 * 3600);

/// Runs every seed on all cores. `heard` is called with each report as it comes, from any thread.
///
/// # Errors
/// If the spec cannot be, or a file is not what it should be. That an oracle spoke is part of the result.
pub fn run(spec: &BenchSpec, options: &SimOptions, heard: &(dyn Fn(&SimReport) + Sync)) -> Result<SimResult, SimError> {
    spec.validate()?;
    let sim = sim_spec(spec, options)?;
    let is_key_value = sim.application == ApplicationKind::KeyValue;
    // What can go wrong with a workload goes wrong here, before any thread makes its own.
    commands(spec, is_key_value)?;
    let workload = || commands(spec, is_key_value).expect("it was made before");
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let seeds = options.seeds.clone().unwrap_or(spec.seed..spec.seed + 1);
    let start = Instant::now();
    let reports = run_seeds(&sim, seeds, threads, &workload, heard);
    Ok(result::collect(spec, options, &sim, reports, start.elapsed()))
}

/// Blocks that replicas keep under chaos, and bytes of bundles in them.
const CHAOS_BLOCKS: usize = 1 << 20;
const CHAOS_BYTES: usize = 1 << 30;

/// What the simulator makes of a spec.
///
/// # Errors
/// If a file cannot be read or is not what it should be.
pub fn sim_spec(spec: &BenchSpec, options: &SimOptions) -> Result<SimSpec, SimError> {
    let template = node_template(spec);
    let mut network = options.network()?;
    let warmup_ms = spec.warmup.as_millis() as f64;
    for (replica, at) in spec.crashes() {
        let at_ms = warmup_ms + at.as_millis() as f64;
        network.faults.push(quorate_simulator::faults::FaultSpec::Crash { at_ms, replica: replica.0 });
    }
    let mut load = load_options(spec);
    let chaos = options.chaos.then(|| spec.duration.into());
    if options.chaos {
        load = quorate_client::load::LoadOptions { duration: CHAOS_LOAD, drain: Duration::ZERO, ..load };
    }
    let slow = |fault: &Fault| matches!(fault, Fault::Slow(_)).then(|| fault.replica());
    let mut consensus = spec.consensus();
    if options.chaos {
        // There is no transfer of state yet: who lags behind needs every block.
        (consensus.retained_blocks, consensus.retained_bytes) = (CHAOS_BLOCKS, CHAOS_BYTES);
    }
    Ok(SimSpec {
        consensus,
        quorum: spec.quorum(),
        scheme: template.scheme,
        signatures: options.signatures.into(),
        application: template.application,
        reply: match spec.reply {
            Reply::Each => ReplyMode::Each,
            Reply::None => ReplyMode::None,
        },
        network,
        costs: options.cost_table()?,
        crypto_servers: options.crypto_servers,
        cores: options.cores,
        load,
        silent: spec.silent(),
        slow: spec.fault.iter().filter_map(slow).collect::<Vec<ReplicaId>>(),
        chaos,
    })
}
