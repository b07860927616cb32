//! CPU cores that a replica needs, and the stage that saturates first.
//!
//! The costs of a batch at the leader and at a backup are the simulator's charges for quorate's PBFT, counted instead
//! of simulated: all work of receiving, verifying, hashing and sending in a fault-free run. A batch of b requests has
//!
//! - at the leader: b requests, n-1 PREPAREs and n-1 COMMITs in; n-1 PRE-PREPAREs, n-1 COMMITs and b replies out;
//! - at a backup: a PRE-PREPARE, n-2 PREPAREs and n-1 COMMITs in; n-1 PREPAREs, n-1 COMMITs and b replies out.
//!
//! Requests are verified one by one, PREPAREs as a quorum; COMMIT is not signed. MACs are computed for each of n
//! recipients. Iteration overhead, timers and checkpoints are left out. If each stage has one core, the stage with the
//! largest cost saturates first. Threads can share every stage except `order`, which is one thread by design.

use super::load::{Load, Profile, Work};
use super::paper::PaperCosts;
use super::positive;
use quorate_types::{Fault, choice};
use serde::{Deserialize, Serialize};

/// Mean size of a message of quorate's PBFT without its value, in bytes, from a simulated run with 15 replicas.
pub const ENGINE_HEADER_BYTES: u32 = 190;
/// Messages per system call at saturation, approximately as in the simulator.
pub const MESSAGES_PER_CALL: f64 = 20.0;
/// Maximum number of cores in a question.
pub const MAX_CORES: u32 = 1024;
/// Maximum load, in operations per second.
pub const MAX_RATE_PER_S: f64 = 1e12;
const NS_PER_US: f64 = 1e3;
const US_PER_S: f64 = 1e6;

choice!(
    /// Stage of a replica in software.
    CpuStage, "stage",
    /// Reading and parsing messages.
    Receive = "receive",
    /// Clients' signatures, and signatures or MACs on votes.
    Verify = "verify",
    /// SHA-256.
    Hash = "hash",
    /// The state machine and its pool; single-threaded.
    Order = "order",
    /// The application.
    Execute = "execute",
    /// Signatures or MACs on votes and replies.
    Sign = "sign",
    /// The journal.
    Persist = "persist",
    /// Encoding and writing messages.
    Send = "send",
    /// Everything except signing, for tables without more detail.
    Rest = "rest",
);

choice!(
    /// Role of a replica.
    Role, "role",
    Leader = "leader",
    Backup = "backup",
);

/// Costs by count: pairs of a count and microseconds, both ascending, the first for a count of one.
pub type Ladder = Vec<(u32, f64)>;

/// Costs of a host, in microseconds or nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CpuCosts {
    /// Origin of the figures.
    pub source: String,
    pub read_call_us: f64,
    pub write_call_us: f64,
    pub receive_us: f64,
    pub send_us: f64,
    pub receive_byte_ns: f64,
    pub send_byte_ns: f64,
    pub hash_us: f64,
    pub hash_byte_ns: f64,
    /// Steps of the state machine by input; for peers' messages, including the host's work on them.
    pub proposal_us: f64,
    pub statement_us: f64,
    pub submit_us: f64,
    pub verdict_us: f64,
    /// All work on one bundle in the pool.
    pub pool_us: f64,
    /// Receiving a client's bundle and answering it.
    pub bundle_us: f64,
    pub command_us: f64,
    pub command_byte_ns: f64,
    /// Verifying a client's signature.
    pub client_verify_us: f64,
    /// Signing a vote or a reply.
    pub sign_us: f64,
    /// Verifying signatures together.
    pub verify_us: Ladder,
    /// Computing a MAC for one recipient.
    pub mac_us: f64,
    /// Verifying several MACs together.
    pub check_us: Ladder,
    /// Flushing a group of records, once per batch.
    pub flush_us: f64,
}

/// Costs used in a plan.
#[derive(Clone, PartialEq, Debug)]
pub enum CpuModel {
    Table(Box<CpuCosts>),
    Paper(Box<PaperCosts>),
}

/// Question to the planner.
#[derive(Clone, PartialEq, Debug)]
pub struct CpuQuestion {
    /// Operations per second; `None`: the link's capacity.
    pub rate_per_s: Option<f64>,
    pub line_rate_bits_per_s: f64,
    pub replicas: Vec<usize>,
    pub values: Vec<u32>,
    /// The rest of the load; its replicas and its value size are ignored.
    pub load: Load,
    pub scheme: String,
    pub model: CpuModel,
    /// Messages per system call.
    pub messages_per_call: f64,
    /// Numbers of cores for which to compute the throughput.
    pub cores: Vec<u32>,
}

/// CPU time that one stage takes for an operation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct StageCost {
    pub stage: CpuStage,
    pub us_per_operation: f64,
    /// Cores busy at the load.
    pub cores: f64,
}

/// Costs of a role by stage, and the stage that limits it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoleCost {
    pub role: Role,
    pub stages: Vec<StageCost>,
    pub us_per_operation: f64,
    /// Cores busy at the load.
    pub cores: f64,
    pub saturates_first: CpuStage,
    /// Operations per second at which one core of this stage is saturated.
    pub saturates_at_per_s: f64,
}

/// Throughput of a number of cores.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OnCores {
    pub cores: u32,
    pub operations_per_s: f64,
    /// `cores`, the stage `order`, or `line`.
    pub limit: String,
}

/// Plan for one group and one value size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CpuPoint {
    pub replicas: usize,
    pub faults: usize,
    pub value_bytes: u32,
    pub batch: u32,
    /// The load, in operations per second.
    pub operations_per_s: f64,
    /// Operations per second at the link's capacity.
    pub line_limit_per_s: f64,
    /// Whole cores for the more demanding role.
    pub cores: f64,
    pub roles: Vec<RoleCost>,
    pub on_cores: Vec<OnCores>,
}

/// Plan for all groups and sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CpuPlan {
    pub costs: String,
    pub profile: String,
    pub scheme: String,
    pub points: Vec<CpuPoint>,
}

impl CpuQuestion {
    /// Refuses invalid questions.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn validate(&self) -> Result<(), Fault> {
        positive("--line-rate", self.line_rate_bits_per_s, "bits per second")?;
        positive("--messages-per-call", self.messages_per_call, "messages")?;
        if let Some(rate) = self.rate_per_s {
            let rate = positive("--rate", rate, "operations per second")?;
            if rate > MAX_RATE_PER_S {
                let help = format!("use at most {MAX_RATE_PER_S:e} operations per second");
                return Err(Fault::new("--rate", format!("is {rate}"), help));
            }
        }
        for (flag, is_empty) in [("--replicas", self.replicas.is_empty()), ("--value", self.values.is_empty())] {
            if is_empty {
                return Err(Fault::new(flag, "is empty", "give at least one number"));
            }
        }
        if let Some(cores) = self.cores.iter().find(|cores| !(1..=MAX_CORES).contains(*cores)) {
            return Err(Fault::new("--cores", format!("is {cores}"), format!("use 1 to {MAX_CORES}")));
        }
        if let CpuModel::Paper(costs) = &self.model
            && costs.sign_cycles(&self.scheme).is_none()
        {
            let what = format!("the paper has no costs of {}", self.scheme);
            return Err(Fault::new("--scheme", what, "use rsa-2048, or rsa-1024 for its simulated accelerator"));
        }
        for replicas in &self.replicas {
            self.at(*replicas, 0).validate()?;
        }
        self.values.iter().try_for_each(|value| self.at(2, *value).validate())
    }

    fn at(&self, replicas: usize, value_bytes: u32) -> Load {
        Load { replicas, value_bytes, ..self.load }
    }

    /// Computes the plan.
    ///
    /// # Errors
    /// As [`CpuQuestion::validate`].
    pub fn plan(&self) -> Result<CpuPlan, Fault> {
        self.validate()?;
        let groups = self.replicas.iter();
        let points = groups.flat_map(|replicas| self.values.iter().map(|value| self.point(*replicas, *value)));
        let costs = match &self.model {
            CpuModel::Table(costs) => costs.source.clone(),
            CpuModel::Paper(_) => "the pipeline paper, as far as it prints costs".to_owned(),
        };
        let profile = self.load.profile.name().to_owned();
        Ok(CpuPlan { costs, profile, scheme: self.scheme.clone(), points: points.collect() })
    }

    /// Computes the plan for a validated group and size.
    pub fn point(&self, replicas: usize, value_bytes: u32) -> CpuPoint {
        let load = self.at(replicas, value_bytes);
        let line_limit = load.operations_per_s(self.line_rate_bits_per_s).expect("the line's rate was validated");
        let rate = self.rate_per_s.unwrap_or(line_limit);
        let roles: Vec<RoleCost> = match &self.model {
            CpuModel::Table(costs) => {
                let of = |role: &Role| of_role(*role, rate, self.of_table(costs, &load, *role));
                Role::ALL.iter().map(of).collect()
            }
            CpuModel::Paper(costs) => vec![of_role(Role::Leader, rate, self.of_paper(costs, &load))],
        };
        let busiest = roles.iter().map(|role| role.cores).fold(0.0, f64::max);
        let on_cores = self.cores.iter().map(|cores| on_cores(*cores, &roles, line_limit));
        CpuPoint {
            replicas,
            faults: load.faults(),
            value_bytes,
            batch: load.batch,
            operations_per_s: rate,
            line_limit_per_s: line_limit,
            cores: busiest.ceil(),
            on_cores: on_cores.collect(),
            roles,
        }
    }

    /// Returns the time of each stage per operation, in microseconds.
    fn of_paper(&self, costs: &PaperCosts, load: &Load) -> Vec<(CpuStage, f64)> {
        let Work { signatures, .. } = load.work();
        let sign = costs.sign_cycles(&self.scheme).expect("the scheme was validated");
        let us = |cycles: f64| cycles / (costs.clock_ghz * NS_PER_US) / f64::from(load.batch);
        let rest = costs.rest_cycles(load.replicas, load.value_bytes, load.batch);
        vec![(CpuStage::Sign, us(signatures * sign)), (CpuStage::Rest, us(rest))]
    }

    /// Returns the time of each stage per operation, in microseconds.
    fn of_table(&self, costs: &CpuCosts, load: &Load, role: Role) -> Vec<(CpuStage, f64)> {
        let n = load.replicas as f64;
        let others = n - 1.0;
        let (batch, header) = (f64::from(load.batch), f64::from(load.header_bytes));
        let requests = batch * (f64::from(load.value_bytes) + header);
        let proposal = requests + header;
        let is_leader = role == Role::Leader;
        let votes_in = if is_leader { 2.0 * others } else { 2.0 * others - 1.0 };
        let (taken, taken_bytes) = if is_leader { (batch, requests) } else { (1.0, proposal) };
        let first = if is_leader { proposal } else { header };
        let messages_in = taken + votes_in;
        let bytes_in = taken_bytes + votes_in * header;
        let messages_out = 2.0 * others + batch;
        let bytes_out = others * (first + header) + batch * header;
        let ns = |value: f64| value / NS_PER_US;
        let calls = |messages: f64| messages / self.messages_per_call;
        let quorum = ((load.replicas + load.faults()) / 2 + 1) as u32;
        let by_macs = load.profile != Profile::Pk;
        let checked = at(if by_macs { &costs.check_us } else { &costs.verify_us }, quorum);
        let vote = if by_macs { n * costs.mac_us } else { costs.sign_us };
        let reply = if load.profile == Profile::Domain { costs.mac_us } else { costs.sign_us };
        let submitted = if is_leader { batch * costs.submit_us } else { 0.0 };
        // A replica also handles its own vote and its own COMMIT.
        let statements = (votes_in + 2.0) * costs.statement_us;
        let bytes = f64::from(load.value_bytes) * batch;
        let of_batch = [
            (
                CpuStage::Receive,
                calls(messages_in) * costs.read_call_us
                    + messages_in * costs.receive_us
                    + bytes_in * ns(costs.receive_byte_ns),
            ),
            (CpuStage::Verify, batch * costs.client_verify_us + checked),
            (CpuStage::Hash, (batch + 2.0) * costs.hash_us + (requests + 2.0 * header) * ns(costs.hash_byte_ns)),
            (CpuStage::Order, costs.proposal_us + statements + costs.verdict_us + submitted + batch * costs.pool_us),
            (CpuStage::Execute, batch * (costs.command_us + costs.bundle_us) + bytes * ns(costs.command_byte_ns)),
            (CpuStage::Sign, vote + batch * reply),
            (CpuStage::Persist, costs.flush_us),
            (
                CpuStage::Send,
                calls(messages_out) * costs.write_call_us
                    + (2.0 + batch) * costs.send_us
                    + bytes_out * ns(costs.send_byte_ns),
            ),
        ];
        of_batch.into_iter().map(|(stage, us)| (stage, us / batch)).collect()
    }
}

fn of_role(role: Role, rate: f64, costs: Vec<(CpuStage, f64)>) -> RoleCost {
    let cores = |us: f64| us * rate / US_PER_S;
    let total: f64 = costs.iter().map(|(_, us)| us).sum();
    let (first, most) = costs.iter().fold(costs[0], |most, own| if own.1 > most.1 { *own } else { most });
    let stage = |(stage, us): (CpuStage, f64)| StageCost { stage, us_per_operation: us, cores: cores(us) };
    RoleCost {
        role,
        stages: costs.into_iter().map(stage).collect(),
        us_per_operation: total,
        cores: cores(total),
        saturates_first: first,
        saturates_at_per_s: US_PER_S / most,
    }
}

/// Returns the throughput of a number of cores that share all stages except `order`.
fn on_cores(cores: u32, roles: &[RoleCost], line_limit: f64) -> OnCores {
    let slowest = roles.iter().map(|role| role.us_per_operation).fold(0.0, f64::max);
    let ordered = roles.iter().flat_map(|role| &role.stages).filter(|own| own.stage == CpuStage::Order);
    let ordering = ordered.map(|own| own.us_per_operation).fold(0.0, f64::max);
    let limits = [
        ("cores", f64::from(cores) * US_PER_S / slowest),
        (CpuStage::Order.name(), US_PER_S / ordering),
        ("line", line_limit),
    ];
    let (limit, operations_per_s) =
        limits.into_iter().fold(limits[0], |least, own| if own.1 < least.1 { own } else { least });
    OnCores { cores, operations_per_s, limit: limit.to_owned() }
}

/// Returns the cost of a count, interpolated linearly between entries, and extrapolated from the last two.
fn at(ladder: &Ladder, count: u32) -> f64 {
    let count = f64::from(count);
    let line = |(x0, y0): (u32, f64), (x1, y1): (u32, f64)| {
        y0 + (y1 - y0) * (count - f64::from(x0)) / (f64::from(x1) - f64::from(x0))
    };
    match ladder.as_slice() {
        [] => 0.0,
        [(_, only)] => *only,
        steps => {
            let pair = steps.windows(2).find(|pair| count <= f64::from(pair[1].0));
            let pair = pair.unwrap_or(&steps[steps.len() - 2..]);
            line(pair[0], pair[1])
        }
    }
}
