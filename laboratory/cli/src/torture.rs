//! `quorate torture`: reports faults as they happen, then the verdict.

use clap::Args;
use quorate_lab::spec;
use quorate_lab::torture;
use quorate_operator::output::{self, Outputs};
use std::error::Error;

/// Flags of `quorate torture`.
#[derive(Args)]
pub struct TortureArgs {
    /// Duration of the faults, in minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 5.0, value_parser = parse_minutes)]
    minutes: f64,
    #[command(flatten)]
    spec: spec::TortureArgs,
}

/// Maximum duration in minutes: one week.
const MAX_MINUTES: f64 = 7.0 * 24.0 * 60.0;

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes <= MAX_MINUTES);
    minutes.ok_or_else(|| format!("write a number above 0, such as 5 or 0.5, and at most {MAX_MINUTES}"))
}

/// Tortures a cluster of processes on this machine. Returns an error if a check fails.
pub fn run(arguments: &TortureArgs) -> Result<(), Box<dyn Error>> {
    let TortureArgs { minutes, spec: spec::TortureArgs(spec) } = arguments;
    let duration = std::time::Duration::from_secs_f64(minutes * 60.0);
    let mut told = |at: f64, what: &str| output::report(&format!("{at:8.1} s  {what}"));
    let outputs = Outputs::open(&[("--json", spec.json.as_deref())], &[])?;
    let verdict = torture::run(spec, duration, &mut told)?;
    outputs.show(&verdict, &[])
}
