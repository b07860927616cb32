//! Costs that only running replicas show: the price of a system call, a wake-up or a touched byte depends on the state
//! of the caches and on the other core. The node runs a few specifications with its probes on. Entries of the replicas'
//! work follow from its stages; the clients have no probes, so one factor on their entries is fitted to their CPU time.

use super::fit::{Row, Wanted, fit, residual};
use super::stages::{self, Compared};
use super::{CalibrateError, Extent};
use crate::fidelity::{self, Measured};
use crate::partial;
use crate::spec::{BenchSpec, Interval};
use quorate_simulator::CostTable;
use quorate_simulator::costs::CostSource;
use quorate_simulator::ledger::Charged;
use quorate_simulator::work::Work;
use quorate_types::stages::StageCost;
use serde::Deserialize;
use toml::Table;

const SPECS: &str = include_str!("specs.toml");
/// Iterations of the fit. Several are needed, since the frequency of wake-ups depends on all costs.
const ROUNDS: usize = 6;
/// Specifications of [`Extent::Sample`].
const SAMPLED_SPECS: usize = 2;
const SIMULATED_WARMUP_MS: u64 = 100;
const SIMULATED_MS: u64 = 300;
const PERCENT: f64 = 100.0;
/// Minimum of a fitted factor, so that no cost becomes zero.
const MIN_FACTOR: f64 = 0.1;
/// Runs of each specification on the node. The median counts, because repeated runs differ by 10 % within minutes.
const RUNS: usize = 3;
/// Weight of the preference for the clients' costs measured in isolation, relative to one row with an error of 100 %.
const CLIENTS_PREFERENCE: f64 = 0.01;
/// Kinds of work whose entries only clients use.
const CLIENTS_WORK: [Work; 3] = [Work::Commands, Work::Bundles, Work::Replies];
const PS_PER_US: f64 = 1e6;

/// The file of specifications.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Specs {
    base: Table,
    cells: Vec<Table>,
}

/// A specification, and the CPU time that the node's replicas and clients spent on it.
#[derive(Clone, Debug)]
pub struct Run {
    pub spec: BenchSpec,
    /// CPU time per command, in microseconds.
    pub replicas_us: f64,
    pub clients_us: f64,
    /// Stages of the replicas' work, of several runs one after the other.
    pub stages: Vec<StageCost>,
}

/// Runs the specifications on the node, and fits the table to them.
pub(super) fn running(table: &mut CostTable, extent: Extent) -> Result<(), CalibrateError> {
    let (mut runs, mut specs, mut rounds) = (Vec::new(), specs(), ROUNDS);
    if extent == Extent::Sample {
        specs.truncate(SAMPLED_SPECS);
        rounds = 1;
    }
    for spec in specs {
        if !partial::goes_on() {
            return Ok(());
        }
        let (run, counter_hz) = measure(&spec)?;
        runs.extend(run);
        table.counter_hz = counter_hz.or(table.counter_hz);
    }
    agree(table, &runs, rounds)
}

/// Fits the table to runs: the replicas' entries by the stages, and the clients' by their CPU time.
///
/// # Errors
/// If a specification cannot be simulated.
pub fn agree(table: &mut CostTable, runs: &[Run], rounds: usize) -> Result<(), CalibrateError> {
    stages::start(table);
    let (mut best, mut least) = (table.clone(), f64::INFINITY);
    for round in 0..=rounds {
        if !partial::goes_on() {
            return Ok(());
        }
        let simulated =
            runs.iter().map(|run| simulate(&run.spec, table)).collect::<Result<Vec<_>, CalibrateError>>()?;
        let clients: Vec<Row> = runs.iter().zip(&simulated).map(|(run, own)| clients(run, own)).collect();
        let replicas = runs.iter().zip(&simulated).map(|(run, own)| Row {
            measured: run.replicas_us,
            parts: vec![0.0],
            known: own.charged.replicas.total() as f64 / PS_PER_US / own.commands.max(1) as f64,
        });
        let threads: Vec<Row> = replicas.chain(clients.iter().cloned()).collect();
        let left = residual(&threads, &[1.0]);
        // The first table was measured in isolation, so it does not predict the stages of running replicas.
        if left < least && round > 0 {
            (best, least) = (table.clone(), left);
        }
        if round < rounds {
            let compared: Vec<Compared<'_>> = runs.iter().zip(&simulated).map(|(run, own)| compare(run, own)).collect();
            // From the second round on, goes half of the way: changed costs change the frequency of wake-ups.
            stages::approach(table, &compared, round > 0);
            let factor = fit(&clients, &[Wanted { so_far: 1.0, preference: CLIENTS_PREFERENCE }])[0];
            scale_clients(table, if round > 0 { factor.sqrt() } else { factor }.max(MIN_FACTOR));
        }
    }
    *table = CostTable { residual_percent: Some(least * PERCENT), ..best };
    Ok(())
}

fn compare<'a>(run: &'a Run, simulated: &'a Simulated) -> Compared<'a> {
    let probes = simulated.charged.replicas.probes().expect("the simulation has stages");
    Compared { stages: &run.stages, replicas_us: run.replicas_us, probes, commands: simulated.commands }
}

/// Compares the clients' charges with their CPU time. Their calls, bytes and signatures cost the same as a replica's.
fn clients(run: &Run, simulated: &Simulated) -> Row {
    let ledger = &simulated.charged.clients;
    let us = |us: f64| us / simulated.commands.max(1) as f64;
    let own: f64 = CLIENTS_WORK.iter().map(|work| ledger.us(*work)).sum();
    let all = ledger.total() as f64 / PS_PER_US;
    Row { measured: run.clients_us, parts: vec![us(own)], known: us(all - own) }
}

fn scale_clients(table: &mut CostTable, factor: f64) {
    let client = &mut table.client;
    for entry in [&mut client.command_us, &mut client.bundle_us, &mut client.reply_us] {
        *entry *= factor;
    }
    for entry in ["command_us", "bundle_us", "reply_us"] {
        table.sources.insert(format!("client.{entry}"), CostSource::Fitted);
    }
}

/// Returns the specifications to run.
pub(super) fn specs() -> Vec<BenchSpec> {
    let Specs { base, cells } = toml::from_str(SPECS).expect("a test parses the file");
    let spec = |cell: Table| {
        let mut table = base.clone();
        table.extend(cell);
        BenchSpec::of_cell(&table.to_string(), "the specifications of the calibration").expect("a test parses them")
    };
    cells.into_iter().map(spec).collect()
}

/// Runs a specification on the node. Returns the median run with the stages of all runs, and their counter's frequency.
/// There is no run if none completed a command.
fn measure(spec: &BenchSpec) -> Result<(Option<Run>, Option<f64>), CalibrateError> {
    let spec = {
        let mut spec = spec.clone();
        spec.node.stages = true;
        spec
    };
    let (mut runs, mut counter_hz) = (Vec::with_capacity(RUNS), None);
    for _ in 0..RUNS {
        let Measured { result, .. } = fidelity::measure(&spec).map_err(CalibrateError::Running)?;
        let cpu = result.cpu_us_per_command;
        let both = cpu.replicas.zip(cpu.clients).filter(|(replicas, clients)| *replicas > 0.0 && *clients > 0.0);
        counter_hz = result.stage_clock.map(|clock| clock.counter_hz).or(counter_hz);
        let run =
            |(replicas_us, clients_us)| Run { spec: spec.clone(), replicas_us, clients_us, stages: result.stages };
        runs.extend(both.map(run));
    }
    runs.sort_by(|one, other| one.replicas_us.total_cmp(&other.replicas_us));
    let stages: Vec<StageCost> = runs.iter().flat_map(|run| run.stages.clone()).collect();
    let middle = runs.len() / 2;
    let run = (!runs.is_empty()).then(|| Run { stages, ..runs.swap_remove(middle) });
    Ok((run.filter(|run| !run.stages.is_empty()), counter_hz))
}

/// Charges of a simulation, and the number of commands that its replicas executed.
struct Simulated {
    charged: Charged,
    commands: u64,
}

fn simulate(spec: &BenchSpec, table: &CostTable) -> Result<Simulated, CalibrateError> {
    let spec = {
        let mut spec = BenchSpec {
            warmup: Interval::from_millis(SIMULATED_WARMUP_MS),
            duration: Interval::from_millis(SIMULATED_MS),
            ..spec.clone()
        };
        spec.node.stages = true;
        spec
    };
    let result = fidelity::simulate(&spec, table).map_err(CalibrateError::Running)?;
    let ended_early = || CalibrateError::Running("simulator: the run ended early".into());
    Ok(Simulated { commands: result.bench.executed_commands, charged: result.charged.ok_or_else(ended_early)? })
}
