//! Messages between the laboratory and its agent on a host: lines of JSON over the agent's standard input and output.

use crate::experiments::row::Noise;
use crate::result::Machine;
use crate::spec::BenchSpec;
use quorate_client::load::{LoadProgress, LoadReport};
use quorate_types::Status;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Interval at which either side sends a [`Order::Beat`] or [`Notice::Beat`].
pub const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Silence after which the other side counts as lost.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// A file of a run's directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteFile {
    /// Relative to the run's directory.
    pub path: String,
    /// Contents, in hexadecimal.
    pub hex: String,
}

/// Preparation of a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preparation {
    /// Directory of the laboratory on the host.
    pub directory: String,
    pub files: Vec<RemoteFile>,
    /// Number of cores to use; `None` for all.
    pub cores: Option<usize>,
    pub interface: Option<String>,
    /// Queueing discipline of the interface during the run.
    pub qdisc: Option<String>,
    /// Whether the host runs cells of experiments, and therefore says whether it can emulate networks.
    pub runs_cells: bool,
}

/// A cell of an experiment, to be run as a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CellCall {
    /// Number of the run on this host.
    pub number: u64,
    /// Arguments of `quorate`.
    pub words: Vec<String>,
    /// Files that it reads.
    pub files: Vec<RemoteFile>,
}

/// The end of a cell's process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CellOutput {
    /// Exit status, as `wait` returned it.
    pub status: i32,
    pub out: String,
    pub err: String,
    /// Activity of the rest of the host during the run.
    pub noise: Option<Noise>,
}

/// A machine's part of the load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadPart {
    pub spec: BenchSpec,
    /// The clients' configuration, as in `client.toml`.
    pub config: String,
    /// Number of clients on each machine, and the number of this machine.
    pub clients: Vec<usize>,
    pub machine: usize,
}

/// Order to an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Create the run's directory.
    Prepare(Preparation),
    /// Read the clock, to estimate its offset from the controller's.
    Clock { number: u64 },
    /// Start the replica, or restart it.
    Start,
    /// Kill the replica with SIGKILL.
    Kill,
    /// Connect the clients, and execute this machine's part of the preload.
    Load(Box<LoadPart>),
    /// Begin the load at this time of the host's clock, in nanoseconds since 1970.
    Begin { at_ns: i64, offset_ns: u64 },
    /// Count the interface's traffic between these times of the host's clock, and sample call stacks if asked for.
    Window { from_ns: i64, to_ns: i64, profile: bool },
    /// Read the statuses of all replicas.
    Statuses { number: u64, timeout_ms: u64, histories: bool },
    /// End the load soon.
    StopLoad,
    /// Stop the replica in order.
    Stop,
    /// Run a cell of an experiment.
    Run(CellCall),
    /// Kill the process of a cell.
    EndRun { number: u64 },
    /// Remove the run's directory, or keep it, and end.
    End { keep: bool },
    /// The laboratory is there.
    Beat,
}

/// Bytes of an interface in the measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// Notice from an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// The run's directory exists, at this absolute path.
    Prepared {
        directory: String,
        machine: Machine,
        /// Why it cannot emulate networks, if it runs cells and cannot.
        no_emulation: Option<String>,
    },
    Clock {
        number: u64,
        now_ns: i64,
    },
    /// The replica's process runs, for the n-th time.
    Started {
        starts: u32,
    },
    Killed,
    Progress(LoadProgress),
    Report(Box<LoadReport>),
    /// The load could not start, or failed.
    LoadFailed(String),
    /// Statuses by replica; `None` for those that did not answer.
    Statuses {
        number: u64,
        statuses: Vec<Option<Status>>,
    },
    Traffic(Traffic),
    /// `perf` has ended: the name of its file, or why there is none.
    Profiled(Result<String, String>),
    /// The replica ended by itself.
    Ended {
        status: String,
        is_disk_trouble: bool,
        log: String,
    },
    /// The replica is stopped: its whole output, and its recordings.
    Stopped {
        log: String,
        recordings: Vec<String>,
    },
    /// The process of a cell has ended.
    Ran {
        number: u64,
        output: Box<CellOutput>,
    },
    /// An order failed.
    Failed(String),
    /// The run's directory is removed, or kept at this path.
    Gone {
        kept: Option<String>,
    },
    /// The agent is there.
    Beat,
}
