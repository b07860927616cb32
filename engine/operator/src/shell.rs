//! Integration of the binary into a system: version, completions, manual pages.

use crate::failure::{FAILED, WRONG_CALL, cannot_use};
use crate::{Outcome, output};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use std::error::Error;
use std::io::{self, IsTerminal};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;

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

/// Compiler that built this program.
pub const RUSTC: &str = env!("QUORATE_RUSTC");

/// Returns the command of a program, with two levels of help: `--help` shows the flags needed by most runs,
/// `--help-all` shows all.
pub fn program<T: CommandFactory>() -> Command {
    with_helps(T::command())
}

fn with_helps(command: Command) -> Command {
    let has_rare_flags = command.get_arguments().any(Arg::is_hide_short_help_set);
    let short = if has_rare_flags { "Print the flags that most runs need" } else { "Print help" };
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help(short);
    let all = Arg::new("help_all").long("help-all").action(ArgAction::HelpLong).help("Print all flags");
    let command = command.disable_help_flag(true).arg(help).mut_subcommands(with_helps);
    if has_rare_flags { command.arg(all) } else { command.arg(all.hide(true)) }
}

/// Parses the command line of a program.
///
/// # Errors
/// Errors from clap, phrased for the given subcommand.
pub fn call<T: CommandFactory + FromArgMatches>() -> Result<T, clap::Error> {
    let matches = tolerant(program::<T>()).try_get_matches()?;
    T::from_arg_matches(&matches).map_err(|error| {
        // For combined flags, clap reports errors without the subcommand, so find the subcommand here.
        let (mut command, mut matches) = (&mut tolerant(program::<T>()), &matches);
        command.build();
        while let Some((name, of_it)) = matches.subcommand() {
            command = command.find_subcommand_mut(name).expect("it was matched");
            matches = of_it;
        }
        error.format(command)
    })
}

/// Prints help, the version, or the reason why a command line cannot be parsed, and returns the exit status.
pub fn end(error: &clap::Error) -> ExitCode {
    let (plain, styled) = (error.render().to_string(), error.render().ansi().to_string());
    let is_styled = |to_terminal: bool| to_terminal && std::env::var_os("NO_COLOR").is_none();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = if is_styled(io::stdout().is_terminal()) { styled } else { plain };
        return match output::say(text.strip_suffix('\n').unwrap_or(&text)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                output::report(&format!("error: {why}"));
                ExitCode::from(FAILED)
            }
        };
    }
    let mut text = if is_styled(io::stderr().is_terminal()) { styled } else { plain };
    if let Some((parsers, ours)) = error.source().and_then(|source| Some((source.to_string(), in_our_words(source)?))) {
        text = text.replacen(&parsers, &ours, 1);
    }
    output::report(text.trim_end());
    ExitCode::from(WRONG_CALL)
}

/// Rephrases an error of Rust's and clap's number parsers.
fn in_our_words(source: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return Some(match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large".to_owned(),
            _ => "write a whole number, 0 or more".to_owned(),
        });
    }
    if source.is::<ParseFloatError>() {
        return Some("write a number, such as 0.25".to_owned());
    }
    // From clap: `7 is not in 1..=5`.
    let said = source.to_string();
    let (least, most) = said.split_once(" is not in ")?.1.split_once("..")?;
    let most = most.strip_prefix('=').unwrap_or(most);
    Some(match (least, most) {
        (least, "") => format!("write a whole number, {least} or more"),
        ("", most) => format!("write a whole number, {most} at most"),
        (least, most) => format!("write a whole number from {least} to {most}"),
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
            .map_err(|error| cannot_use(format!("--dir: cannot write to {}", directory.display()), &error))?,
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            output::say(String::from_utf8_lossy(&text).trim_end())?;
        }
    }
    Ok(())
}
