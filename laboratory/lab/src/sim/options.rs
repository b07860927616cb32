//! Flags that `quorate sim` has in addition to those of `quorate bench`.

use super::places::ClientPlaces;
use crate::input;
use crate::link_flags::{parse_cpu_factor, parse_delay, parse_loss, parse_nic_rate, parse_router_us};
use crate::spec::{BenchArgs, Problem, SpecError, choice};
use clap::Args;
use quorate_client::workload::WorkloadError;
use quorate_hosting::recording::RecordingError;
use quorate_simulator::network::{Bandwidth, Delay, Loss};
use quorate_simulator::{ClientsAt, CostTable, NetworkSpec, Signatures};
use quorate_types::{Fault, ReplicaId};
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Help heading of these flags.
const SIMULATION: &str = "Simulation";
/// Option that names a network.
pub const NETWORK: &str = "network";
const NETWORKS: &str = "; help: name a file, or one of lan, wan4, us4, world12, loopback and lossmodel";
/// Maximum number of seeds in one run.
const MAX_SEEDS: u64 = 1 << 32;

/// Flags of `quorate sim`.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    #[command(flatten)]
    pub bench: BenchArgs,
    #[command(flatten)]
    pub options: SimOptions,
}

/// Settings of the simulation in addition to the spec.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimOptions {
    /// Run these seeds, from A to B-1, on all cores [default: the seed of --seed].
    #[arg(long, help_heading = SIMULATION, value_name = "A..B", value_parser = parse_seeds)]
    pub seeds: Option<Range<u64>>,
    /// Network: lan, wan4, us4, world12, loopback, lossmodel, or a file as described in docs/SIMULATOR_FILES.md.
    #[arg(long, help_heading = SIMULATION, value_name = "FILE|lan|wan4|us4|world12|loopback|lossmodel",
          default_value = "lan")]
    pub network: String,
    /// Machines of the clients, which share the load: one in total; one per client; one per replica, in its region; one
    /// in each of these regions; or a file [default: from the network file].
    #[arg(long, help_heading = SIMULATION, value_name = "one|clients|replicas|REGION,...|FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_at: Option<ClientPlaces>,
    /// Fraction of packets to drop, from 0 to 1; overrides the network's loss.
    #[arg(long, help_heading = SIMULATION, value_name = "FRACTION", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// One-way delay of each link in milliseconds; overrides the network's delays.
    #[arg(long, help_heading = SIMULATION, value_name = "MS", value_parser = parse_delay)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Bandwidth of each network interface in Mbit/s, in either direction; 0: no limit; overrides the network's
    /// bandwidth.
    #[arg(long, hide_short_help = true, help_heading = SIMULATION, value_name = "MBIT_PER_S",
          value_parser = parse_nic_rate)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_mbit_per_s: Option<u32>,
    /// CPU time per packet, in microseconds, that a router takes from the cores of --cores ahead of all threads, as
    /// does the router of --host emulated. An emulated run reports its own as `router_cpu_s` and `packets`.
    #[arg(long, hide_short_help = true, help_heading = SIMULATION, value_name = "US", value_parser = parse_router_us)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_us: Option<f64>,
    /// Inject random faults for the duration, then heal n-f replicas and check that they make progress.
    #[arg(long, help_heading = SIMULATION)]
    pub chaos: bool,
    /// Cost table: a file written by `quorate calibrate`, none for zero costs, or paper for the machine of the pipeline
    /// paper [default: the shipped table].
    #[arg(long, help_heading = SIMULATION, value_name = "FILE|none|paper")]
    pub costs: Option<String>,
    /// Factor on all CPU times of the cost table; above 1 for a machine that is slower than the table's.
    #[arg(long, hide_short_help = true, help_heading = SIMULATION, value_name = "FACTOR",
          value_parser = parse_cpu_factor)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_factor: Option<f64>,
    /// Whether to create and verify real signatures.
    #[arg(long, hide_short_help = true, help_heading = SIMULATION, default_value = "modelled",
          value_parser = choice::<Signatures>())]
    pub signatures: Signatures,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            seeds: None,
            network: "lan".into(),
            clients_at: None,
            loss: None,
            delay_ms: None,
            card_mbit_per_s: None,
            router_us: None,
            chaos: false,
            costs: None,
            cpu_factor: None,
            signatures: Signatures::Modelled,
        }
    }
}

/// Reason why a simulation could not run, or its result could not be written.
#[derive(Debug, Error)]
pub enum SimError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("cannot read {path}: {source}{}", if *.key == NETWORK { NETWORKS } else { "" })]
    Read {
        path: PathBuf,
        source: io::Error,
        /// The option that names the file.
        key: &'static str,
    },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// A signal ended the run before a seed completed.
    #[error("ended by a signal before a seed completed")]
    Interrupted,
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// `--stages` in a simulation with zero costs.
    #[error("--stages, --costs: work takes no time, so its stages have no costs; help: omit --costs none, or --stages")]
    FreeStages,
    /// `--record` with several seeds.
    #[error(
        "--record: a recording holds one run, but --seeds {}..{} are several; help: use --seeds {}..{}",
        .0.start, .0.end, .0.start, .0.start + 1
    )]
    RecordSeeds(Range<u64>),
    /// `--search` with several seeds, or with chaos.
    #[error("--search, {0}: a search judges one undisturbed run at each rate; help: omit one of them")]
    Search(&'static str),
    /// `--record` with a single replica.
    #[error(
        "--record: a simulation records all replicas in one file, not only {0}; help: name the file without `{0}:`"
    )]
    RecordOne(ReplicaId),
}

impl SimError {
    /// Returns whether the arguments are wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            SimError::Interrupted | SimError::Recording(_) => false,
            SimError::Write { source, .. } => quorate_types::files::is_named_wrongly(source),
            _ => true,
        }
    }
}

impl SimOptions {
    /// Returns the network, with its loss, delay and bandwidth overridden by the flags.
    ///
    /// # Errors
    /// If the file cannot be read or does not describe a network.
    pub fn network(&self) -> Result<NetworkSpec, SimError> {
        let mut network = match NetworkSpec::preset(&self.network) {
            Some(network) => network,
            None => NetworkSpec::of_file(&read(&self.network, NETWORK)?, &self.network)?,
        };
        if let Some(probability) = self.loss {
            network.loss = Loss::Independent { probability };
        }
        if let Some(mean_ms) = self.delay_ms {
            network.delay = Delay::Constant { mean_ms };
        }
        if let Some(mbit_per_s) = self.card_mbit_per_s.map(f64::from) {
            let (egress_mbit_per_s, ingress_mbit_per_s) = (mbit_per_s, mbit_per_s);
            network.bandwidth = Bandwidth { egress_mbit_per_s, ingress_mbit_per_s, ..network.bandwidth };
        }
        Ok(network)
    }

    /// Returns the router's time per packet, if the cluster runs on this many cores.
    ///
    /// # Errors
    /// If each thread has a core of its own, since a router then has nothing to take from them.
    pub fn router(&self, cores: u32) -> Result<Duration, SimError> {
        match self.router_us {
            Some(us) if us > 0.0 && cores == 0 => Err(SpecError::Impossible(vec![Problem::new(
                "--router-us",
                "there are no cores that a router could share, because each thread has its own",
                "set --cores",
            )])
            .into()),
            us => Ok(Duration::from_nanos((us.unwrap_or(0.0) * 1e3) as u64)),
        }
    }

    /// Returns the places of the clients' machines.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn places(&self) -> Result<ClientsAt, SimError> {
        let places = self.clients_at.as_ref();
        places.map_or(Ok(ClientsAt::Network), |places| places.resolve(|path| read(path, "clients_at")))
    }

    /// Returns the cost table.
    ///
    /// # Errors
    /// If the file cannot be read or is not a cost table.
    pub fn cost_table(&self) -> Result<CostTable, SimError> {
        let table = match &self.costs {
            None => CostTable::shipped(),
            Some(costs) => match CostTable::named(costs) {
                Some(table) => table,
                None => CostTable::parse(&read(costs, "costs")?, costs)?,
            },
        };
        Ok(match self.cpu_factor {
            Some(factor) => table.slowed(factor),
            None => table,
        })
    }

    /// Returns the flags that differ from their defaults, except the seeds.
    pub fn arguments(&self) -> Vec<String> {
        let default = SimOptions::default();
        let mut words = Vec::new();
        let mut flag = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([name.to_owned(), value]);
            }
        };
        flag("--network", (self.network != default.network).then(|| self.network.clone()));
        flag("--clients-at", self.clients_at.as_ref().map(ToString::to_string));
        flag("--loss", self.loss.map(|loss| loss.to_string()));
        flag("--delay-ms", self.delay_ms.map(|delay| delay.to_string()));
        flag("--card-mbit-per-s", self.card_mbit_per_s.map(|rate| rate.to_string()));
        flag("--router-us", self.router_us.map(|us| us.to_string()));
        flag("--costs", self.costs.clone());
        flag("--cpu-factor", self.cpu_factor.map(|factor| factor.to_string()));
        flag("--signatures", (self.signatures != default.signatures).then(|| self.signatures.to_string()));
        if self.chaos {
            words.push("--chaos".into());
        }
        words
    }
}

fn read(path: &str, key: &'static str) -> Result<String, SimError> {
    input::settings(path.as_ref()).map_err(|source| SimError::Read { path: path.into(), source, key })
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let help = "help: write two numbers, such as 1..101 for 1 to 100";
    let (first, end) = text.split_once("..").ok_or(help)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number; {help}"));
    let range = number(first)?..number(end)?;
    if range.start < range.end && range.end - range.start <= MAX_SEEDS {
        return Ok(range);
    }
    Err(format!("the range is empty or too large; {help}"))
}
