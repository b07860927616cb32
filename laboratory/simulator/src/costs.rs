//! Cost table: CPU time of each kind of a replica's work.

use crate::numbers::{key, multiply, numbers};
use crate::steps::StepCosts;
use quorate_crypto::SchemeKind;
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{TransportKind, Wire};
use quorate_types::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Default table.
pub const SHIPPED: &str = include_str!("../costs.toml");
/// The pipeline paper's machine, as far as the paper prints its costs.
const PAPER: &str = include_str!("../costs-paper.toml");
/// Maximum value of any entry, in microseconds: one second.
const MAX_US: f64 = 1e6;
/// Frequency of a nanosecond counter, in Hz.
const NANOSECONDS_HZ: f64 = 1e9;
/// Limits of `counter_hz`: 1 kHz to 1 THz.
const MIN_COUNTER_HZ: f64 = 1e3;
const MAX_COUNTER_HZ: f64 = 1e12;
/// Maximum of `memory.cold_factor`.
const MAX_COLD_FACTOR: f64 = 100.0;

/// Costs of work on one core, in microseconds (`_us`) or nanoseconds (`_ns`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    /// Origin of the figures, for the report.
    pub source: String,
    /// Root mean square of the relative errors that remain where entries were fitted to running replicas, in percent.
    /// `None` if nothing was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_percent: Option<f64>,
    /// Frequency of the measured machine's cycle counter, in Hz, used to report the stages of a replica's work. `None`,
    /// as in older files: one cycle is a nanosecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_hz: Option<f64>,
    pub core: CoreCosts,
    pub wire: WireCosts,
    /// Costs of frames in addition to plain TCP's, by [name](FrameCosts::name). Missing entries cost nothing extra;
    /// older files lack the table.
    #[serde(default)]
    pub frames: BTreeMap<String, FrameCosts>,
    pub hash: HashCosts,
    /// Costs by the name of the scheme and its verification method.
    pub signatures: BTreeMap<String, SignatureCosts>,
    pub journal: JournalCosts,
    pub client: ClientCosts,
    /// Older files lack this table, and get the costs of the shipped one.
    #[serde(default)]
    pub gateway: GatewayCosts,
    /// Steps of the state machine by their input. Older files lack this table, and `core.step_us` is charged.
    #[serde(default)]
    pub steps: StepCosts,
    /// Older files lack this table: caches are always warm.
    #[serde(default)]
    pub memory: MemoryCosts,
    /// Older files lack this table: threads alternate on a core, and an idle core runs a thread immediately.
    #[serde(default)]
    pub scheduler: SchedulerCosts,
    /// Measurement method of each entry, by the entry's path, such as `core.step_us`, or by the path of a table of
    /// entries. The longest matching path counts. Older files lack this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, CostSource>,
}

/// Measurement method of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostSource {
    /// Probes in running replicas, which time each stage of their work.
    Probe,
    /// A loop of code that does nothing else.
    Alone,
    /// Fitted so that the charges of whole threads match their CPU time.
    Fitted,
}

/// Costs of a replica's core.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCosts {
    /// One wait for the network that does not block: a system call.
    pub turn_us: f64,
    /// Additional cost of a wait that blocks: the thread goes to sleep and is woken. 0 in older files.
    #[serde(default)]
    pub wake_us: f64,
    /// One step of the state machine, unless `[steps]` has an entry for its input.
    pub step_us: f64,
    /// Work of all steps on one bundle, charged on its arrival: adding it to the pool, proposing it, committing it. 0
    /// in older files.
    #[serde(default)]
    pub pool_us: f64,
    /// The host's work in each iteration of a replica, except waiting and messages: clocks, timers, queues. 0 in older
    /// files, whose other entries include it.
    #[serde(default)]
    pub round_us: f64,
    /// Host overhead per message of a peer: queues, admission, dispatch. 0 in older files, whose other entries include
    /// it.
    #[serde(default)]
    pub handle_us: f64,
    /// Receiving one bundle from a client and answering it.
    pub bundle_us: f64,
    /// Executing one command, including its session.
    pub command_us: f64,
    /// Executing each byte of a payload. 0 in older files.
    #[serde(default)]
    pub command_byte_ns: f64,
}

/// Costs of sockets and codec.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireCosts {
    /// One system call that reads from a link.
    pub read_call_us: f64,
    /// One system call that writes to a link.
    pub write_call_us: f64,
    /// Decoding and dispatching one message.
    pub receive_us: f64,
    /// Encoding one message.
    pub send_us: f64,
    /// Each byte received.
    pub receive_byte_ns: f64,
    /// Each byte sent to each destination.
    pub send_byte_ns: f64,
}

/// Costs of frames in a packet transport or a channel, without system calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameCosts {
    /// Each frame sent: its packets, its encryption, and the work on acknowledgements.
    pub send_us: f64,
    /// Each frame received, including the acknowledgements for it.
    pub receive_us: f64,
    pub send_byte_ns: f64,
    pub receive_byte_ns: f64,
}

impl FrameCosts {
    /// Returns the key of a transport and a channel, such as `rudp-dtls`.
    pub fn name(transport: TransportKind, channel: ChannelKind) -> String {
        format!("{}-{}", transport.name(), channel.name())
    }
}

/// Costs of SHA-256.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashCosts {
    pub byte_ns: f64,
    /// Fixed cost of a hash, independent of its size. 0 in older files.
    #[serde(default)]
    pub each_us: f64,
}

/// Costs of a signature scheme.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureCosts {
    /// Creating a signature; in MAC schemes, the part of one recipient.
    pub sign_us: f64,
    /// Verifying the votes of a certificate, by their number, in addition to `assemble_us`. For 1:
    /// verifying a vote alone.
    pub verify_us: Steps,
    /// Verifying the proof of a certificate, by the number of signers.
    pub verify_proof_us: Steps,
    /// Assembling a proof from signatures, by their number.
    pub assemble_us: Steps,
    /// In schemes with aggregates: adding or subtracting one key of the sum that enters a pairing. The entries above
    /// exclude it. 0 in older files, whose entries include the additions of some committee.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub key_addition_us: f64,
    /// In schemes with aggregates: each further statement among a certificate's signers, without additions of keys. 0
    /// in older files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_statement_us: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl SignatureCosts {
    /// Returns costs of zero, for runs that measure only messages and delays.
    pub fn free() -> SignatureCosts {
        let nothing = || vec![(1, 0.0)];
        SignatureCosts {
            sign_us: 0.0,
            verify_us: nothing(),
            verify_proof_us: nothing(),
            assemble_us: nothing(),
            key_addition_us: 0.0,
            further_statement_us: 0.0,
        }
    }
}

/// Costs by count: pairs of a count and microseconds, both ascending. Costs between two entries are interpolated.
pub type Steps = Vec<(u32, f64)>;

/// Costs of the journal.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalCosts {
    /// Time from writing a group of records until it is durable; 0 for a journal in memory.
    pub flush_us: f64,
    /// The replica's own work on one record. 0 in older files, whose other entries include it.
    #[serde(default)]
    pub record_us: f64,
}

/// Costs of the clients' thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCosts {
    /// Creating and recording one command.
    pub command_us: f64,
    /// Handling one reply.
    pub reply_us: f64,
    /// Completing and tracking one bundle. 0 in older files.
    #[serde(default)]
    pub bundle_us: f64,
    /// One system call that writes to each replica after the first of an iteration. 0 in older files.
    #[serde(default)]
    pub further_write_us: f64,
    /// Each byte sent to each replica. 0 in older files.
    #[serde(default)]
    pub send_byte_ns: f64,
    /// Wake-up delay of a sleeping thread, apart from the cost of waking it. Idle time rather than a cost; it
    /// determines how many commands an open loop sends at once. 0 in older files.
    #[serde(default)]
    pub late_us: f64,
}

/// Costs of caches.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryCosts {
    /// Factor on steps, codec, execution and the clients' work in an iteration whose core last ran another thread.
    pub cold_factor: f64,
}

impl Default for MemoryCosts {
    fn default() -> MemoryCosts {
        MemoryCosts { cold_factor: 1.0 }
    }
}

/// Allocation of cores to threads by the kernel's scheduler. These are times, not costs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerCosts {
    /// Maximum time that a busy thread keeps its core while others wait. 0: one iteration.
    pub slice_us: f64,
    /// Whether a waking thread preempts a thread that has exceeded its share of the core. Needs a slice.
    pub preempts: bool,
    /// Time from waking a thread until an idle core runs it.
    pub idle_delay_us: f64,
    /// Minimum time between two migrations of threads to idle cores. 0: no thread migrates.
    pub balance_us: f64,
    /// Other work on each core, in classes: pairs of a number per second and a length in microseconds.
    pub interruptions: Vec<(f64, f64)>,
}

/// Costs of client requests other than commands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayCosts {
    /// Creating a status with its history.
    pub status_us: f64,
    /// Size of such a status.
    pub status_bytes: u32,
}

impl Default for GatewayCosts {
    /// Returns the costs measured for a history of 1024 blocks.
    fn default() -> GatewayCosts {
        GatewayCosts { status_us: 6400.0, status_bytes: 113_000 }
    }
}

impl CostTable {
    pub fn shipped() -> CostTable {
        CostTable::parse(SHIPPED, "the shipped cost table").expect("a test parses the shipped table")
    }

    /// Returns the table of a reserved name: `none` ([`CostTable::free`]), or `paper` for the machine of the pipeline
    /// paper.
    pub fn named(name: &str) -> Option<CostTable> {
        match name {
            "none" => Some(CostTable::free()),
            "paper" => Some(CostTable::parse(PAPER, "the paper's costs").expect("a test parses the paper's costs")),
            _ => None,
        }
    }

    /// Returns a table with zero costs.
    pub fn free() -> CostTable {
        let signatures =
            SchemeKind::with_costs().into_iter().map(|scheme| (scheme.costs_name().to_owned(), SignatureCosts::free()));
        CostTable {
            source: "none: work takes no time".into(),
            residual_percent: None,
            counter_hz: None,
            core: CoreCosts::default(),
            wire: WireCosts::default(),
            frames: BTreeMap::new(),
            hash: HashCosts::default(),
            signatures: signatures.collect(),
            journal: JournalCosts::default(),
            client: ClientCosts::default(),
            gateway: GatewayCosts { status_us: 0.0, status_bytes: 0 },
            steps: StepCosts::default(),
            memory: MemoryCosts::default(),
            scheduler: SchedulerCosts::default(),
            sources: BTreeMap::new(),
        }
    }

    /// Returns the table of a machine whose processor takes `factor` times as long for all work. Times that are not CPU
    /// time stay: the scheduler's, sleeps, and the disk's.
    pub fn slowed(&self, factor: f64) -> CostTable {
        let is_work = |path: &str| {
            let key = key(path);
            let is_cost = key.ends_with("_us") || key.ends_with("_ns");
            is_cost && !path.starts_with("scheduler.") && !["late_us", "flush_us"].contains(&key)
        };
        let mut table = toml::Value::try_from(self).expect("a table of numbers can be written as TOML");
        multiply(&mut table, factor, &is_work);
        let table: CostTable = table.try_into().expect("the same keys with other numbers");
        CostTable { source: format!("{}; processor times multiplied by {factor}", self.source), ..table }
    }

    /// Returns the frequency of the counter in which stages are reported, in Hz.
    pub fn counter_hz(&self) -> f64 {
        self.counter_hz.unwrap_or(NANOSECONDS_HZ)
    }

    /// Returns the measurement method of the entry with this path, if the table states one.
    pub fn source_of(&self, path: &str) -> Option<CostSource> {
        let longest = self.sources.iter().filter(|(source, _)| covers(source, path)).max_by_key(|(path, _)| path.len());
        longest.map(|(_, source)| *source)
    }

    /// Returns whether all work of replicas is free.
    pub fn is_free(&self) -> bool {
        let is_status = |path: &str| path.starts_with("gateway.");
        let costs = numbers(self).into_iter().filter(|(path, _)| path.ends_with("_us") || path.ends_with("_ns"));
        costs.filter(|(path, _)| !is_status(path)).all(|(_, cost)| cost == 0.0)
    }

    /// Parses a table. `name` identifies it in errors.
    ///
    /// # Errors
    /// The invalid key, with a remedy.
    pub fn parse(text: &str, name: &str) -> Result<CostTable, Fault> {
        let table: CostTable = toml::from_str(text).map_err(|error| Fault {
            place: name.to_owned(),
            what: error.to_string().trim_end().to_owned(),
            help: "compare it with what `quorate calibrate` writes".into(),
        })?;
        table.validate(name)?;
        Ok(table)
    }

    /// Returns the table as text for [`CostTable::parse`].
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a table of numbers can be written as TOML")
    }

    /// Returns the costs of a scheme's signatures; zero for a scheme without security.
    ///
    /// # Errors
    /// If the table has no entry for the scheme.
    pub fn signatures_of(&self, scheme: SchemeKind) -> Result<SignatureCosts, Fault> {
        if !scheme.profile().unforgeable {
            return Ok(SignatureCosts::free());
        }
        self.signatures.get(scheme.costs_name()).cloned().ok_or_else(|| Fault {
            place: format!("`[signatures.{}]`", scheme.costs_name()),
            what: format!("the cost table, {:?}, has no costs for the scheme {}", self.source, scheme.costs_name()),
            help: "measure them with `quorate calibrate`".into(),
        })
    }

    /// Returns the costs of frames in addition to plain TCP's.
    pub fn frames_of(&self, wire: &Wire) -> Option<&FrameCosts> {
        self.frames.get(&FrameCosts::name(wire.transport, wire.channel))
    }

    fn validate(&self, name: &str) -> Result<(), Fault> {
        let refuse = |key: &str, what: String, help: &str| {
            Err(Fault { place: format!("{name}: `{key}`"), what, help: help.to_owned() })
        };
        let sound = |value: f64| (0.0..=MAX_US).contains(&value);
        let mut costs = numbers(self).into_iter().filter(|(path, _)| path.ends_with("_us") || path.ends_with("_ns"));
        if let Some((path, value)) = costs.find(|(_, value)| !sound(*value)) {
            return refuse(&path, format!("{value} is out of range"), "set it between 0 and 1000000");
        }
        let factor = self.memory.cold_factor;
        if !(1.0..=MAX_COLD_FACTOR).contains(&factor) {
            let help = format!("set it between 1 and {MAX_COLD_FACTOR}");
            return refuse("memory.cold_factor", format!("{factor} is out of range"), &help);
        }
        if let Some(class) = self.scheduler.interruptions.iter().find(|(each, us)| !sound(*each) || !sound(*us)) {
            let help = "write pairs of a number per second and a length in microseconds, both between 0 and 1000000";
            return refuse("scheduler.interruptions", format!("{class:?} is out of range"), help);
        }
        if self.counter_hz.is_some_and(|hz| !(MIN_COUNTER_HZ..=MAX_COUNTER_HZ).contains(&hz)) {
            let help =
                format!("omit it, or set it between {MIN_COUNTER_HZ:e} and {MAX_COUNTER_HZ:e} cycles per second");
            return refuse("counter_hz", format!("{} is out of range", self.counter_hz()), &help);
        }
        let paths = numbers(self);
        let is_known = |source: &str| paths.iter().any(|(path, _)| covers(source, path));
        if let Some(path) = self.sources.keys().find(|path| !is_known(path)) {
            return refuse(&format!("sources.\"{path}\""), "the table has no such entry".into(), "remove the line");
        }
        for (scheme, SignatureCosts { verify_us, verify_proof_us, assemble_us, .. }) in &self.signatures {
            let tables = [("verify_us", verify_us), ("verify_proof_us", verify_proof_us), ("assemble_us", assemble_us)];
            for (key, steps) in tables {
                let ascends = steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                let starts = steps.first().is_some_and(|(count, _)| *count == 1);
                if !ascends || !starts || steps.iter().any(|(_, cost)| !sound(*cost)) {
                    return refuse(
                        &format!("signatures.{scheme}.{key}"),
                        format!("{steps:?} does not ascend from one signature"),
                        "write pairs such as [[1, 16.0], [3, 31.0]], both ascending, the first for one signature",
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an entry has this path, or lies in a table or list with this path.
fn covers(source: &str, path: &str) -> bool {
    path.strip_prefix(source).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
