//! Costs that show only in running replicas: what a system call, a wake-up or a touched byte costs depends on what the
//! caches and the other core are doing. The node runs a few specifications; factors on groups of entries of the table
//! are fitted to the processor time per command of its replicas and clients.

use super::fit::{Row, Wanted, fit, residual};
use super::{CalibrateError, Extent};
use crate::fidelity::{self, Measured};
use crate::partial;
use crate::sim::Charges;
use crate::spec::{BenchSpec, Interval};
use quorate_simulator::CostTable;
use quorate_simulator::costs::SignatureCosts;
use quorate_simulator::ledger::{Share, Work};
use quorate_simulator::steps::StepKind;
use serde::Deserialize;
use toml::Table;

const SPECS: &str = include_str!("specs.toml");
/// Times the factors are fitted: how often a thread wakes up depends on what everything costs.
const FITS: usize = 6;
/// Specifications of [`Extent::Sample`].
const SAMPLED_SPECS: usize = 2;
const SIMULATED_WARMUP_MS: u64 = 100;
const SIMULATED_MS: u64 = 300;
const PERCENT: f64 = 100.0;
/// Minimum of a fitted factor, so that no cost becomes free.
const MIN_FACTOR: f64 = 0.1;
/// Runs of each specification on the node. The median counts, because the same run differs by a tenth within minutes.
const RUNS: usize = 3;
/// Weights of the preference for what was measured alone.
const FIRM: f64 = 0.01;
const LOOSE: f64 = 0.001;

/// The file of specifications.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Specs {
    base: Table,
    cells: Vec<Table>,
}

/// Entries of the table that get a common factor.
#[derive(Clone, Copy)]
enum Group {
    WakeUps,
    Calls,
    Messages,
    Bundles,
    WireBytes,
    Commands,
    CommandBytes,
    Clients,
    Signatures,
}

impl Group {
    const ALL: [Group; 9] = [
        Group::WakeUps,
        Group::Calls,
        Group::Messages,
        Group::Bundles,
        Group::WireBytes,
        Group::Commands,
        Group::CommandBytes,
        Group::Clients,
        Group::Signatures,
    ];

    /// Returns how much the value that was measured alone counts. Sleeping and executing cost a replica several times
    /// what they do alone, because other threads use the caches in between.
    fn preference(self) -> f64 {
        match self {
            Group::WakeUps | Group::Commands => LOOSE,
            _ => FIRM,
        }
    }

    /// Returns the group of a replica's work; `None` if it is measured well alone.
    fn of_replicas(work: Work) -> Option<Group> {
        match work {
            Work::WakeUps => Some(Group::WakeUps),
            Work::Turns | Work::Reads | Work::Writes => Some(Group::Calls),
            Work::Received | Work::Sent | Work::Steps => Some(Group::Messages),
            Work::Bundles => Some(Group::Bundles),
            Work::WireBytes => Some(Group::WireBytes),
            Work::Commands => Some(Group::Commands),
            Work::CommandBytes => Some(Group::CommandBytes),
            Work::Signatures | Work::Verifications => Some(Group::Signatures),
            Work::Frames | Work::HashedBytes | Work::Replies | Work::Statuses => None,
        }
    }

    /// Returns the group of the clients' work.
    fn of_clients(work: Work) -> Option<Group> {
        match work {
            Work::Bundles | Work::Commands | Work::Replies => Some(Group::Clients),
            other => Group::of_replicas(other),
        }
    }

    /// Multiplies the entries of the group.
    fn scale(self, table: &mut CostTable, factor: f64) {
        let CostTable { core, wire, client, steps, signatures, .. } = table;
        let entries: Vec<&mut f64> = match self {
            Group::WakeUps => vec![&mut core.wake_us],
            Group::Calls => {
                vec![&mut core.turn_us, &mut wire.read_call_us, &mut wire.write_call_us, &mut client.further_write_us]
            }
            Group::Messages => {
                for kind in StepKind::ALL {
                    if let Some(us) = steps.entry(kind) {
                        *us *= factor;
                    }
                }
                vec![&mut core.step_us, &mut wire.receive_us, &mut wire.send_us]
            }
            Group::Bundles => vec![&mut core.pool_us, &mut core.bundle_us],
            Group::WireBytes => vec![&mut wire.receive_byte_ns, &mut wire.send_byte_ns, &mut client.send_byte_ns],
            Group::Commands => vec![&mut core.command_us],
            Group::CommandBytes => vec![&mut core.command_byte_ns],
            Group::Clients => vec![&mut client.command_us, &mut client.bundle_us, &mut client.reply_us],
            Group::Signatures => {
                let by_count = |costs: &mut SignatureCosts| {
                    for (_, us) in
                        [&mut costs.verify_us, &mut costs.verify_proof_us, &mut costs.assemble_us].into_iter().flatten()
                    {
                        *us *= factor;
                    }
                    (costs.key_addition_us, costs.further_statement_us) =
                        (costs.key_addition_us * factor, costs.further_statement_us * factor);
                };
                signatures.values_mut().for_each(by_count);
                signatures.values_mut().map(|costs| &mut costs.sign_us).collect()
            }
        };
        entries.into_iter().for_each(|entry| *entry *= factor);
    }
}

/// A specification, and the processor time per command that the node took, in microseconds.
struct Run {
    spec: BenchSpec,
    replicas_us: f64,
    clients_us: f64,
}

/// Fits the factors.
pub(super) fn running(table: &mut CostTable, extent: Extent) -> Result<(), CalibrateError> {
    let (mut runs, mut specs, mut rounds) = (Vec::new(), specs(), FITS);
    if extent == Extent::Sample {
        specs.truncate(SAMPLED_SPECS);
        rounds = 1;
    }
    for spec in specs {
        if !partial::goes_on() {
            return Ok(());
        }
        runs.extend(measure(&spec)?);
    }
    let mut wanted = Group::ALL.map(|group| Wanted { so_far: 1.0, preference: group.preference() });
    let (mut best, mut least) = (table.clone(), f64::INFINITY);
    for round in 0..=rounds {
        let rows = rows(&runs, table)?;
        let left = residual(&rows, &[1.0; Group::ALL.len()]);
        if left < least {
            (best, least) = (table.clone(), left);
        }
        if round < rounds {
            let factors = fit(&rows, &wanted);
            for ((group, wanted), factor) in Group::ALL.iter().zip(&mut wanted).zip(factors) {
                // Half of the way: how often threads wake up changes with what everything costs.
                let factor = if round == 0 { factor } else { factor.sqrt() }.max(MIN_FACTOR);
                wanted.so_far *= factor;
                group.scale(table, factor);
            }
        }
    }
    *table = CostTable { residual_percent: Some(least * PERCENT), ..best };
    Ok(())
}

/// Simulates all runs, and compares their charges with the measured processor time.
fn rows(runs: &[Run], table: &CostTable) -> Result<Vec<Row>, CalibrateError> {
    let mut rows = Vec::with_capacity(2 * runs.len());
    for Run { spec, replicas_us, clients_us } in runs {
        let charges = simulate(spec, table)?;
        rows.push(row(*replicas_us, &charges.replicas, Group::of_replicas));
        rows.push(row(*clients_us, &charges.clients, Group::of_clients));
    }
    Ok(rows)
}

/// Returns the specifications that are run.
pub(super) fn specs() -> Vec<BenchSpec> {
    let Specs { base, cells } = toml::from_str(SPECS).expect("a test parses the file");
    let spec = |cell: Table| {
        let mut table = base.clone();
        table.extend(cell);
        BenchSpec::from_toml(&table.to_string(), "the specifications of the calibration").expect("a test parses them")
    };
    cells.into_iter().map(spec).collect()
}

/// Runs a specification on the node, and returns the median run; `None` if none completed a command.
fn measure(spec: &BenchSpec) -> Result<Option<Run>, CalibrateError> {
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let Measured { result, .. } = fidelity::measure(spec).map_err(CalibrateError::Running)?;
        let cpu = result.cpu_us_per_command;
        let both = cpu.replicas.zip(cpu.clients).filter(|(replicas, clients)| *replicas > 0.0 && *clients > 0.0);
        runs.extend(both.map(|(replicas_us, clients_us)| Run { spec: spec.clone(), replicas_us, clients_us }));
    }
    runs.sort_by(|one, other| one.replicas_us.total_cmp(&other.replicas_us));
    let middle = runs.len() / 2;
    Ok((!runs.is_empty()).then(|| runs.swap_remove(middle)))
}

fn simulate(spec: &BenchSpec, table: &CostTable) -> Result<Charges, CalibrateError> {
    let spec = BenchSpec {
        warmup: Interval::from_millis(SIMULATED_WARMUP_MS),
        duration: Interval::from_millis(SIMULATED_MS),
        ..spec.clone()
    };
    let result = fidelity::simulate(&spec, table).map_err(CalibrateError::Running)?;
    Ok(result.charges.unwrap_or_default())
}

fn row(measured: f64, shares: &[Share], group_of: fn(Work) -> Option<Group>) -> Row {
    let mut row = Row { measured, parts: vec![0.0; Group::ALL.len()], known: 0.0 };
    for share in shares {
        match group_of(share.work) {
            Some(group) => row.parts[group as usize] += share.us_per_command,
            None => row.known += share.us_per_command,
        }
    }
    row
}
