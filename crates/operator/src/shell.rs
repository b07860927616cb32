//! Integration of the binary into a system: version, completions, manual pages.

use crate::{Outcome, output};
use clap::{Args, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use std::path::PathBuf;

/// Text of `--version`: source, target, compiler and curve arithmetic.
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

/// Parses the command line of a program.
///
/// # Errors
/// Errors of clap, phrased for the subcommand that was called.
pub fn call<T: CommandFactory + FromArgMatches>() -> Result<T, clap::Error> {
    let matches = tolerant(T::command()).try_get_matches()?;
    T::from_arg_matches(&matches).map_err(|error| {
        // For combined flags, clap reports errors without the subcommand, so find the subcommand here.
        let (mut command, mut matches) = (&mut tolerant(T::command()), &matches);
        command.build();
        while let Some((name, of_it)) = matches.subcommand() {
            command = command.find_subcommand_mut(name).expect("it was matched");
            matches = of_it;
        }
        error.format(command)
    })
}

/// Accepts `-1` as the value of any flag, so that the error names the flag.
fn tolerant(command: Command) -> Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(tolerant)
}

/// Flags of `quorate completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Flags of `quorate man`.
#[derive(Args)]
pub struct ManArgs {
    /// Write a page for the program and for each command to this directory, which must exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the completions for a shell.
pub fn completions(arguments: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    Ok(output::say(String::from_utf8_lossy(&text).trim_end())?)
}

/// Writes the manual pages.
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
