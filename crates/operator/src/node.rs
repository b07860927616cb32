//! Runs one replica.

use crate::{Outcome, logging};
use clap::Args;
use quorate_node::{LogObserver, interrupt, run_directory};
use std::path::PathBuf;

/// Part of the help that explains signals and the exit status.
pub const EXIT_STATUS: &str = "\
Signals:
  SIGTERM, SIGINT and SIGHUP end it in order: it takes no more connections, writes and sends what it has said, and exits with status 0.
  A second one ends it at once; nothing that a client was told is lost either way

Exit status:
  0  a signal ended it in order
  1  it cannot start or go on, and says why
  2  the call is wrong
  3  its disk is full, fails, or may not be written. It stops before it says anything that it has not written down, and tells which
     file, why, and what helps; until that is done, starting it again is in vain";

/// All flags of `quorate node`.
#[derive(Args)]
pub struct NodeArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Runs the replica until a signal ends it.
pub fn run(arguments: &NodeArgs) -> Outcome {
    interrupt::install().map_err(|error| format!("cannot handle signals: {error}"))?;
    arguments.log.begin();
    run_directory(&arguments.dir, Box::new(LogObserver::default())).inspect_err(|error| arguments.log.end(error))?;
    Ok(())
}
