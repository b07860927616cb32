//! Flags of `quorate bench`.

use super::deployed::DeploymentOptions;
use super::emulated::EmulationOptions;
use crate::spec::BenchArgs;
use clap::Args;

/// Flags of `quorate bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchCommand {
    #[command(flatten)]
    pub bench: BenchArgs,
    #[command(flatten)]
    pub emulation: EmulationOptions,
    #[command(flatten)]
    pub deployment: DeploymentOptions,
    /// Sample the call stacks of the whole run by `perf`, and write them as a flame graph in SVG; - is standard output.
    /// Sampling itself takes CPU time.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub flame: Option<String>,
}
