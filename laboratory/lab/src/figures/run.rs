//! A finished run: the typed result of a command, and the parts that figures need.

use crate::experiments::Outliers;
use crate::peers::PeerResult;
use crate::plan::{FpgaAnswer, Plan};
use crate::result::{Agreement, BenchResult, Latency, RequestFigures};
use crate::sim::SimResult;
use crate::twins::TwinsResult;
use crate::twins::museum::MuseumResult;
use quorate_simulator::ledger::Share;
use quorate_simulator::models::Answer;
use quorate_simulator::models::plan::Point;
use quorate_simulator::models::plan::cpu::{CpuPoint, RoleCost};
use quorate_simulator::work::Work;
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};

/// Stages that consist of system calls rather than computation.
const SYSTEM_CALLS: [Stage; 3] = [Stage::Receive, Stage::Send, Stage::Wait];
pub(super) const PERCENT: f64 = 100.0;

/// Result of a command that experiments call, as in its JSON.
#[derive(Clone, Debug)]
pub enum Outcome {
    Bench(Box<BenchResult>),
    Sim(Box<SimResult>),
    Twins(Box<TwinsResult>),
    Museum(Box<MuseumResult>),
    Model(Box<Answer>),
    Plan(Plan),
    /// Of another system.
    Peer(PeerResult),
}

/// Result of a finished run, from which figures are computed.
#[derive(Clone, Debug)]
pub struct Run {
    pub outcome: Outcome,
    /// Treatment of outlying latencies.
    pub outliers: Outliers,
    /// Instructions of the whole process, if they were counted.
    pub instructions: Option<u64>,
}

/// Returns `a / b`, or `None` if either is missing or `b` is not above 0.
pub(super) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b.filter(|b| *b > 0.0)?)
}

impl Run {
    /// Returns the result of a cluster, real or simulated.
    pub fn bench(&self) -> Option<&BenchResult> {
        match &self.outcome {
            Outcome::Bench(result) => Some(result),
            Outcome::Sim(result) => Some(&result.bench),
            _ => None,
        }
    }

    pub fn sim(&self) -> Option<&SimResult> {
        if let Outcome::Sim(result) = &self.outcome { Some(result) } else { None }
    }

    pub fn twins(&self) -> Option<&TwinsResult> {
        if let Outcome::Twins(result) = &self.outcome { Some(result) } else { None }
    }

    pub fn museum(&self) -> Option<&MuseumResult> {
        if let Outcome::Museum(result) = &self.outcome { Some(result) } else { None }
    }

    pub fn model(&self) -> Option<&Answer> {
        if let Outcome::Model(answer) = &self.outcome { Some(answer) } else { None }
    }

    pub(super) fn peer(&self) -> Option<&PeerResult> {
        if let Outcome::Peer(result) = &self.outcome { Some(result) } else { None }
    }

    pub(super) fn fpga(&self) -> Option<&FpgaAnswer> {
        if let Outcome::Plan(Plan::Fpga(answer)) = &self.outcome { Some(answer) } else { None }
    }

    /// Returns the first point of an FPGA plan. Cells have one group and one size, so it is the only one.
    pub(super) fn fpga_point(&self) -> Option<&Point> {
        self.fpga()?.plan.points.first()
    }

    /// Returns the first point of a CPU plan.
    pub(super) fn cpu_point(&self) -> Option<&CpuPoint> {
        if let Outcome::Plan(Plan::Cpu(plan)) = &self.outcome { plan.points.first() } else { None }
    }

    /// Returns the maximum over the roles of a replica.
    pub(super) fn busier_role(&self, of: fn(&RoleCost) -> f64) -> Option<f64> {
        self.cpu_point()?.roles.iter().map(of).reduce(f64::max)
    }

    /// Returns the reason why the run's figures do not count; `None` if they do. A run without completed commands is a
    /// valid result.
    pub fn failure(&self) -> Option<String> {
        let partial = match &self.outcome {
            Outcome::Twins(result) => &result.partial,
            Outcome::Museum(result) => &result.partial,
            Outcome::Peer(result) => &result.partial,
            _ => &self.bench()?.partial,
        };
        if let Some(partial) = partial {
            return Some(format!("the run did not complete: {partial}"));
        }
        if let Some((oracle, what)) = self.sim().and_then(|sim| sim.failed().next()?.oracle.as_ref()) {
            return Some(format!("an oracle reported a violation: {oracle}: {what}"));
        }
        let hosts = self.bench()?.deployment.iter().flat_map(|deployment| &deployment.hosts);
        if let Some((name, why)) = hosts.filter_map(|host| Some((&host.name, host.failure.as_ref()?))).next() {
            return Some(format!("host {name} failed: {why}"));
        }
        match &self.bench()?.agreement {
            Agreement::Differs(difference) => Some(format!("replicas executed different histories: {difference}")),
            _ => None,
        }
    }

    /// Returns caveats for readers of the figures.
    pub fn warnings(&self) -> Vec<String> {
        if let Some(peer) = self.peer() {
            return peer.warnings.clone();
        }
        let Some(bench) = self.bench() else { return Vec::new() };
        let bound = "the clients were the bottleneck: the cluster could have done more";
        bench.warnings.iter().cloned().chain(bench.client_bound.then(|| bound.to_owned())).collect()
    }

    /// Returns the latencies after the treatment of outliers.
    pub(super) fn latency(&self) -> Option<Latency> {
        let of_formulas = || Some(Latency::of_formulas(&self.model()?.latency_ms));
        let measured = self.bench().map(|bench| match self.outliers {
            Outliers::None => bench.latency_ms,
            Outliers::Iqr => bench.latency_within_fences_ms,
        });
        measured.or_else(of_formulas)
    }

    pub(super) fn commit_latency(&self) -> Option<Latency> {
        let of_formulas = || Some(Latency::of_formulas(&self.model()?.commit_latency_ms));
        self.sim().map(|sim| sim.commit_latency_ms).or_else(of_formulas)
    }

    pub(super) fn requests(&self) -> Option<&RequestFigures> {
        self.bench()?.requests.as_ref()
    }

    /// Returns the time until a request has 2f+1 replies.
    pub(super) fn success_latency(&self) -> Option<Latency> {
        let of_formulas = || Some(Latency::of_formulas(&self.model()?.latency_ms));
        self.requests().map(|requests| requests.latency_ms).or_else(of_formulas)
    }

    /// Returns the utilization of a stage's threads; 0 without threads of its own.
    pub(super) fn busy_percent(&self, stage: &str) -> Option<f64> {
        let stages = &self.bench()?.threads.as_ref()?.stages;
        Some(stages.iter().find(|one| one.stage == stage).map_or(0.0, |one| one.busy_percent))
    }

    /// Returns the charge for the verifications of all replicas.
    pub(super) fn verifications(&self) -> Option<&Share> {
        self.sim()?.charges.as_ref()?.replicas.iter().find(|share| share.work == Work::Verifications)
    }

    fn at_leader(&self) -> Option<impl Iterator<Item = &StageCost>> {
        let costs = &self.bench()?.stages;
        (!costs.is_empty()).then(|| costs.iter().filter(|cost| cost.role == StageRole::Leader))
    }

    /// Returns the leader's cycles in these stages.
    fn cycles(&self, stages: &[Stage]) -> Option<f64> {
        let own = self.at_leader()?.filter(|cost| stages.contains(&cost.stage));
        Some(own.filter_map(|cost| Some(cost.cycles? * cost.count as f64)).sum())
    }

    /// Returns the leader's cycles in these stages, per executed command.
    pub(super) fn leader_cycles(&self, stages: &[Stage]) -> Option<f64> {
        ratio(self.cycles(stages), Some(self.bench()?.executed_commands as f64))
    }

    /// Returns the stages' share of the leader's computation, without system calls.
    pub(super) fn leader_percent(&self, stages: &[Stage]) -> Option<f64> {
        let computes = |stage: &Stage| !SYSTEM_CALLS.contains(stage);
        let computed: Vec<Stage> = Stage::ALL.into_iter().filter(computes).collect();
        Some(ratio(self.cycles(stages), self.cycles(&computed))? * PERCENT)
    }

    /// Returns the leader's mean cycles in a stage, per message.
    pub(super) fn message_cycles(&self, message: MessageKind, stage: Stage) -> Option<f64> {
        self.at_leader()?.find(|cost| (cost.message, cost.stage) == (message, stage))?.cycles
    }

    /// Returns the largest number of scenarios that Twins needed to find a bug; `None` if it missed one.
    pub(super) fn scenarios_until_found(&self) -> Option<f64> {
        let hunts = self.museum()?.exhibits.iter().flat_map(|exhibit| &exhibit.found_by);
        let found = hunts.filter(|hunt| hunt.hunt == "twins").map(|hunt| Some(hunt.found.as_ref()?.scenarios));
        found.collect::<Option<Vec<u64>>>()?.into_iter().max().map(|scenarios| scenarios as f64)
    }
}
