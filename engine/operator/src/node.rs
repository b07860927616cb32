//! Runs one replica.

use crate::{Outcome, logging};
use clap::Args;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{
    JournalKind, LogObserver, NodeConfig, NodeError, NodeEvent, Observer, durability, interrupt, run_directory, secrecy,
};
use quorate_types::ReplicaId;
use std::path::{Path, PathBuf};

/// Help on signals and the exit status.
pub const EXIT_STATUS: &str = "\
Signals:
  SIGTERM and SIGINT stop it in order: it accepts no more connections, writes and sends what it has signed, and exits
  with status 0. A second one stops it at once. Either way, every answer that a client received stays valid.
  SIGHUP has it read config.toml again: it takes over log_level and the keys and quotas of [clients], and logs which
  keys it took over and which need a restart

Exit status:
  0  a signal stopped it in order
  1  it cannot start or continue, and says why
  2  the call is wrong
  3  its disk is full, fails, or is read-only. It stops before it sends anything that it has not written, and says
     which file failed, why, and what to do; restarting will not help until that is done";

/// All flags of `quorate node`.
#[derive(Args)]
pub struct NodeArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Declare that this replica has never run, if it has no journal. Without it, a replica without a journal has lost
    /// it, and abstains until it knows what it may have voted for. For the first start on an empty disk only.
    #[arg(long)]
    first_start: bool,
    /// Leave core dumps and debuggers as the system allows them. Without it, there are none, because a replica's memory
    /// contains its private keys.
    #[arg(long)]
    allow_core_dumps: bool,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Forbids core dumps, in a process that may hold private keys.
///
/// # Errors
/// If a system call fails.
pub fn keep_memory_secret() -> Outcome {
    secrecy::forbid_core_dumps().map_err(|error| format!("cannot forbid core dumps: {error}").into())
}

/// Marks the journal of a replica as new, unless there is one.
///
/// # Errors
/// If the configuration is invalid, or the file cannot be written.
fn declare_new(directory: &Path) -> Outcome {
    let config = NodeConfig::read(&directory.join(CONFIG_FILE)).map_err(NodeError::from)?;
    let journal = directory.join(&config.journal.directory);
    if config.journal.kind == JournalKind::File && !journal.exists() {
        durability::mark_as_new(&journal)?;
    }
    Ok(())
}

/// Logs events, at the levels of the configuration.
struct Leveled {
    log: LogObserver,
    levels: logging::Levels,
}

impl Observer for Leveled {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        if let NodeEvent::LogLevel(configured) = &event {
            self.levels.set(configured.as_ref());
        }
        self.log.observe(replica, event);
    }
}

/// Runs the replica until a signal ends it.
pub fn run(arguments: &NodeArgs) -> Outcome {
    if !arguments.allow_core_dumps {
        keep_memory_secret()?;
    }
    interrupt::install().map_err(|error| format!("cannot handle signals: {error}"))?;
    // A wrong configuration is reported when the replica starts.
    let config = NodeConfig::read(&arguments.dir.join(CONFIG_FILE)).ok();
    let levels = arguments.log.begin(config.and_then(|config| config.log_level));
    if arguments.first_start {
        declare_new(&arguments.dir)?;
    }
    let observer = Leveled { log: LogObserver::default(), levels };
    run_directory(&arguments.dir, Box::new(observer)).inspect_err(|error| arguments.log.end(error))?;
    Ok(())
}
