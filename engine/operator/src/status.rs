//! `quorate status`: shows the status of a cluster's replicas.

use crate::node::keep_memory_secret;
use crate::output::Reader;
use crate::replicas::StatusReader;
use crate::report::Report;
use crate::{Outcome, output};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  every queried replica answers, the cluster makes progress, and nothing needs attention
  1  something needs attention, as reported, or no replica can be queried
  2  the call is wrong";

/// Flags of `quorate status`.
#[derive(Args)]
pub struct StatusArgs {
    /// A replica's directory, for that replica alone; or the directory of a testnet or of a client.toml, for all
    /// replicas.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
    /// Repeat the query at this interval, in seconds, until a signal stops it or nobody reads the output.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    watch: Option<u64>,
    /// Maximum time for a replica's answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout_ms: u64,
}

/// Shows the status; returns an error if something needs attention.
pub fn run(arguments: &StatusArgs) -> Outcome {
    // Replicas may require a proof of the client's key.
    keep_memory_secret()?;
    let mut reader = StatusReader::open(&arguments.dir)?;
    loop {
        let status = reader.read(Duration::from_millis(arguments.timeout_ms))?;
        let text = if arguments.json { status.to_json() } else { status.to_table() };
        if arguments.watch.is_some() && !arguments.json {
            output::control(output::CLEAR_SCREEN)?;
        }
        let reader = output::say_next(output::for_output(text.trim_end()).as_bytes())?;
        match arguments.watch {
            Some(_) if reader == Reader::Gone => return Ok(()),
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
            None if status.needs_attention() => return Err("something needs attention".into()),
            None => return Ok(()),
        }
    }
}
