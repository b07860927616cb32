//! What makes the binary at home on a system: version, completions, manual pages.

use crate::{Outcome, output};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

/// What `--version` says: from which source, for which machine, by which compiler, and how it computes on curves.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit  ",
    env!("QUORATE_COMMIT"),
    "\ntarget  ",
    env!("QUORATE_TARGET"),
    "\nrustc   ",
    env!("QUORATE_RUSTC"),
    "\ncurve25519 backend: ",
    env!("QUORATE_CURVE_BACKEND"),
);

/// All flags of `quorate completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// All flags of `quorate man`.
#[derive(Args)]
pub struct ManArgs {
    /// Write quorate.1 and a page for each command to this directory, which must exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the completions for a shell.
pub fn completions(arguments: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "quorate", &mut text);
    Ok(output::say(String::from_utf8_lossy(&text).trim_end())?)
}

/// Writes the manual.
pub fn manual(arguments: &ManArgs, command: Command) -> Outcome {
    match &arguments.dir {
        Some(directory) => clap_mangen::generate_to(command, directory)
            .map_err(|error| format!("cannot write to {}: {error}", directory.display()))?,
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            output::say(String::from_utf8_lossy(&text).trim_end())?;
        }
    }
    Ok(())
}
