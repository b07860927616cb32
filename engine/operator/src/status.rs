//! `quorate status`: shows the status of a cluster's replicas.

use crate::node::keep_memory_secret;
use crate::output::Reader;
use crate::replicas::StatusReader;
use crate::report::Report;
use crate::watch::{Style, Watch};
use crate::{Outcome, output};
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    /// Repeat the query at this interval, in seconds, until a signal stops it or nobody reads the output. A terminal
    /// shows a page, in colour unless NO_COLOR is set; a file or a pipe gets a line each time.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
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
    let timeout = Duration::from_millis(arguments.timeout_ms);
    match arguments.watch {
        Some(seconds) => watch(&mut reader, Duration::from_secs(seconds), timeout, arguments.json),
        None => {
            let status = reader.read(timeout)?;
            let text = if arguments.json { status.to_json() } else { status.to_table() };
            output::say(text.trim_end())?;
            match status.needs_attention() {
                true => Err("something needs attention".into()),
                false => Ok(()),
            }
        }
    }
}

/// Shows the status at an interval, until nobody reads the output.
fn watch(reader: &mut StatusReader, interval: Duration, timeout: Duration, json: bool) -> Outcome {
    let (mut watch, style) = (Watch::default(), Style::of_output());
    loop {
        let begun = Instant::now();
        let status = reader.read(timeout)?;
        let text = match json {
            true => output::for_output(status.to_json().trim_end()).into_owned(),
            false => watch.show(Instant::now(), status, style),
        };
        if output::say_next(text.as_bytes())? == Reader::Gone {
            return Ok(());
        }
        std::thread::sleep(interval.saturating_sub(begun.elapsed()));
    }
}
