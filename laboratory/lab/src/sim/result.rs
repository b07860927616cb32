//! Combines the reports of all seeds into a result.

use super::SimOptions;
use crate::partial::partial;
use crate::record::{describe, record};
use crate::result::{
    Agreement, BUSY_FRACTION, BenchResult, CryptoPerCommand, CryptoSource, Event, Frontier, Growth, Latency, Measured,
    OfHost, Primitives, RequestFigures, evidence, hearsay, note_counts,
};
use crate::spec::BenchSpec;
use quorate_client::load::LoadReport;
use quorate_simulator::ledger::{Charged, Ledger, Share};
use quorate_simulator::{ClientMachine, Shares, SimReport, SimSpec};
use quorate_types::ReplicaId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

record! {
    /// Result of `quorate sim`: the figures of `quorate bench` for the first seed, and the simulator's own
    /// measurements.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct SimResult {
        /// The first seed's result, with the CPU times of the simulated machines.
        #[serde(flatten)]
        pub bench: BenchResult,
        /// Hash of the first seed's trace, the same on every machine.
        pub trace_hash: String,
        /// Number of events of the simulation, over all seeds.
        pub simulated_events: u64 ["events"],
        /// Messages delivered, over all seeds.
        pub delivered_messages: u64 ["messages"],
        /// Simulated time, over all seeds.
        pub virtual_seconds: f64 ["s"],
        /// Real time of the run.
        pub wall_seconds: f64 ["s"],
        /// Source of the cost table.
        pub costs: String,
        /// Charges over the first seed's measured time; null if the run ended early.
        pub charges: Option<Charges>,
        /// Shares of the cores that threads received over the first seed's measured time: the replicas, then the
        /// clients' machines.
        pub cores: Vec<CoreShare>,
        /// The charges in total instead of per command.
        #[serde(skip)]
        pub charged: Option<Charged>,
        /// Latency from the (intended) send time of a command to its commit at the replica nearest to its client, in
        /// the first seed.
        pub commit_latency_ms: Latency ["ms"],
        /// The first seed's client machines.
        pub client_machines: Vec<MachineResult>,
        /// One result per seed.
        pub seeds: Vec<SeedResult>,
        /// Whether chaos disturbed the runs, so that only the oracles judge them.
        #[serde(skip)]
        pub is_chaos: bool,
    }
}

/// Work charged by the cost table, per completed command.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Charges {
    /// Sum over all replicas.
    pub replicas: Vec<Share>,
    pub clients: Vec<Share>,
}

impl Charges {
    fn of(charged: &Charged, commands: u64) -> Charges {
        Charges { replicas: charged.replicas.shares(commands), clients: charged.clients.shares(commands) }
    }
}

/// A simulated thread's share of the cores, comparable to the kernel's `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoreShare {
    /// Share of the time in which it had a core.
    pub runs_percent: f64,
    /// Share of the time in which it had work and waited for a core.
    pub waits_percent: f64,
    /// Number of times per second that it was given a core.
    pub turns_per_s: f64,
}

impl CoreShare {
    fn of(shares: &Shares, measured_s: f64) -> CoreShare {
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / measured_s;
        CoreShare {
            runs_percent: percent(shares.ran),
            waits_percent: percent(shares.waited),
            turns_per_s: shares.turns as f64 / measured_s,
        }
    }
}

record! {
    /// Figures of one client machine.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct MachineResult {
        /// Region of the network; null if it has no regions.
        pub place: Option<String>,
        /// Its home: the replica next to it, or the nearest one.
        pub replica: ReplicaId,
        /// Clients that it runs.
        pub clients: usize ["clients"],
        /// Commands completed in the measured time; they add up to `committed_commands` over all machines.
        pub committed: u64 ["commands"],
        /// Commands completed per second.
        pub throughput_per_s: f64 ["commands/s"],
        /// Open loop: commands due in the measured time, but refused by overloaded replicas, or not sent because these
        /// had requested a pause.
        pub refused_commands: u64 ["commands"],
        /// Mean latency from the intended send time to the completion: f+1 equal replies.
        pub mean_ms: Option<f64> ["ms"],
        /// Median of this latency.
        pub p50_ms: Option<f64> ["ms"],
        /// 90th percentile of this latency.
        pub p90_ms: Option<f64> ["ms"],
        /// 99th percentile of this latency.
        pub p99_ms: Option<f64> ["ms"],
        /// Highest latency.
        pub max_ms: Option<f64> ["ms"],
        /// Mean latency from the intended send time to the commit at its home, before the block is executed.
        pub commit_mean_ms: Option<f64> ["ms"],
        /// Median of the latency to the commit.
        pub commit_p50_ms: Option<f64> ["ms"],
        /// 90th percentile of the latency to the commit.
        pub commit_p90_ms: Option<f64> ["ms"],
        /// 99th percentile of the latency to the commit.
        pub commit_p99_ms: Option<f64> ["ms"],
        /// Highest latency to the commit.
        pub commit_max_ms: Option<f64> ["ms"],
    }
}

impl MachineResult {
    fn of(machine: &ClientMachine) -> MachineResult {
        let (latency, commit) = (machine.latency, machine.commit);
        MachineResult {
            place: machine.region.clone(),
            replica: machine.home,
            clients: machine.clients,
            committed: machine.completed,
            throughput_per_s: machine.throughput,
            refused_commands: machine.refused,
            mean_ms: latency.mean,
            p50_ms: latency.p50,
            p90_ms: latency.p90,
            p99_ms: latency.p99,
            max_ms: latency.max,
            commit_mean_ms: commit.mean,
            commit_p50_ms: commit.p50,
            commit_p90_ms: commit.p90,
            commit_p99_ms: commit.p99,
            commit_max_ms: commit.max,
        }
    }
}

impl fmt::Display for MachineResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(
            self,
            "[{place}, ]{clients} at replica {replica}: {throughput_per_s}, p50 {p50_ms}, p99 {p99_ms}, committed \
             there after {commit_p50_ms}[, {refused_commands} refused]",
        ))
    }
}

/// Result of one seed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SeedResult {
    pub seed: u64,
    pub trace_hash: String,
    pub events: u64,
    pub virtual_seconds: f64,
    /// Commands completed per second; `None` if the run ended early.
    pub throughput_ops: Option<f64>,
    pub p50_ms: Option<f64>,
    /// Present if only PBFT's three phases ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestFigures>,
    pub lost_packets: u64,
    /// Segments retransmitted by the TCP model.
    pub retransmissions: u64,
    /// Expired retransmission timeouts of the TCP model.
    pub rto_events: u64,
    pub tail_loss_probes: u64,
    /// Name of the oracle that reported a violation, and its message.
    pub oracle: Option<(String, String)>,
    /// The last views before the violation.
    pub transcript: Vec<String>,
    /// Command that reproduces this seed.
    pub replay: String,
}

impl AsMut<BenchResult> for SimResult {
    fn as_mut(&mut self) -> &mut BenchResult {
        &mut self.bench
    }
}

impl SimResult {
    /// Returns the seeds in which an oracle reported a violation.
    pub fn failed(&self) -> impl Iterator<Item = &SeedResult> {
        self.seeds.iter().filter(|seed| seed.oracle.is_some())
    }
}

pub(super) fn collect(
    spec: &BenchSpec,
    options: &SimOptions,
    sim: &SimSpec,
    reports: Vec<SimReport>,
    seeds: Range<u64>,
    wall: Duration,
) -> SimResult {
    let sum = |of: fn(&SimReport) -> u64| reports.iter().map(of).sum();
    let mut bench = bench_result(spec, &reports[0]);
    bench.command = command(spec, options, reports[0].seed);
    bench.partial = partial(|| {
        let whole = reports.iter().filter(|report| !report.stopped).count();
        match seeds.end - seeds.start {
            1 => format!("after {:.3} simulated seconds", reports[0].virtual_time.as_secs_f64()),
            all => format!("after {whole} of {all} seeds"),
        }
    })
    .filter(|_| reports.len() as u64 != seeds.end - seeds.start || reports.iter().any(|report| report.stopped));
    if options.costs.is_none() {
        bench.warnings.push("costs are from the shipped table; `quorate calibrate` measures this machine".into());
    }
    SimResult {
        trace_hash: reports[0].trace_hash.clone(),
        simulated_events: sum(|report| report.events),
        delivered_messages: sum(|report| report.delivered),
        virtual_seconds: reports.iter().map(|report| report.virtual_time.as_secs_f64()).sum(),
        wall_seconds: wall.as_secs_f64(),
        costs: sim.costs.source.clone(),
        cores: reports[0].load.as_ref().map_or_else(Vec::new, |load| {
            reports[0].shares.iter().map(|shares| CoreShare::of(shares, load.window.as_secs_f64())).collect()
        }),
        commit_latency_ms: reports[0]
            .load
            .as_ref()
            .and_then(|load| load.commit_us.as_ref())
            .map(Latency::of)
            .unwrap_or_default(),
        client_machines: reports[0].client_machines.iter().map(MachineResult::of).collect(),
        charges: reports[0].charged.as_ref().map(|charged| Charges::of(charged, bench.committed_commands)),
        charged: reports[0].charged.clone(),
        seeds: reports.iter().map(|report| seed_result(spec, options, report)).collect(),
        is_chaos: options.chaos,
        bench,
    }
}

fn seed_result(spec: &BenchSpec, options: &SimOptions, report: &SimReport) -> SeedResult {
    SeedResult {
        seed: report.seed,
        trace_hash: report.trace_hash.clone(),
        events: report.events,
        virtual_seconds: report.virtual_time.as_secs_f64(),
        throughput_ops: report.load.as_ref().map(LoadReport::throughput),
        p50_ms: report.load.as_ref().and_then(|load| load.latency_ms(0.5)),
        requests: report.load.as_ref().and_then(|load| RequestFigures::of(spec, load)),
        lost_packets: report.lost_packets,
        retransmissions: report.streams.retransmissions,
        rto_events: report.streams.rto_events,
        tail_loss_probes: report.streams.tail_loss_probes,
        oracle: report.violation.as_ref().map(|violation| (violation.property.to_string(), violation.what.clone())),
        transcript: report.transcript.clone(),
        replay: command(spec, options, report.seed),
    }
}

/// Returns the command that reproduces a seed.
pub(super) fn command(spec: &BenchSpec, options: &SimOptions, seed: u64) -> String {
    let text = BenchSpec { json: None, report: None, record: None, ..spec.clone() }.command_line();
    let flags = text.strip_prefix("quorate bench").expect("every command line starts so");
    let own = options.arguments().into_iter().map(|word| format!(" {word}")).collect::<String>();
    format!("quorate sim{flags}{own} --seeds {seed}..{}", seed + 1)
}

fn bench_result(spec: &BenchSpec, report: &SimReport) -> BenchResult {
    let growth = Growth::of(report.lives.iter().map(|life| (&life.first, &life.last)));
    let load = report.load.as_ref();
    let mut warnings = spec.warnings();
    warnings.extend(spec.idle_in_simulation());
    if load.is_none() {
        warnings.push("the run ended early; there are no figures of the load".into());
    }
    note_counts(&mut warnings, load, &[(report.not_queued, "messages were dropped because a queue was full")]);
    let crash = |replica: &ReplicaId| Event { time_s: 0.0, text: format!("replica {replica} crashed") };
    let client_bound = load.and_then(LoadReport::busy_fraction).is_some_and(|busy| busy >= BUSY_FRACTION)
        && busiest(report, &growth) < BUSY_FRACTION;
    let own = OfHost {
        is_simulated: true,
        crypto: report.charged.as_ref().map(|charged| crypto(charged, load)).unwrap_or_default(),
        // Only replicas' bytes are counted in a simulation.
        sent_by_clients: Some(0.0),
        client_bound,
        events: spec.misbehaviour().into_iter().chain(report.crashed.iter().map(crash)).collect(),
        evidence: evidence(report.end.iter().flatten()),
        hearsay: hearsay(report.end.iter().flatten()),
        warnings,
        ..OfHost::default()
    };
    let agreement = Agreement::in_run(spec, || agreement(report));
    BenchResult::of(&Measured { spec, load, growth, frontier: &Frontier::of(&report.seconds), agreement, own })
}

/// Returns the charges for cryptography per completed command, like [`Charges`].
fn crypto(charged: &Charged, load: Option<&LoadReport>) -> CryptoPerCommand {
    let completed = load.map_or(0, |load| load.completed);
    let of = |ledger: &Ledger| Primitives::of(completed, |primitive| Some(ledger.crypto_us(primitive)));
    CryptoPerCommand { source: CryptoSource::Charged, replicas: of(&charged.replicas), clients: of(&charged.clients) }
}

fn busiest(report: &SimReport, growth: &Growth<'_>) -> f64 {
    let window = report.load.as_ref().map_or(1.0, |load| load.window.as_nanos() as f64).max(1.0);
    growth.most(|status| status.busy_ns) as f64 / window
}

fn agreement(report: &SimReport) -> Agreement {
    if let Some(violation) = &report.violation {
        return Agreement::Unknown(format!(
            "the run ended when the oracle `{}` reported a violation",
            violation.property
        ));
    }
    Agreement::of(&report.end)
}
