//! `quorate signer`: signs the votes of a replica in a process of its own, and refuses those that contradict others.

use crate::node::keep_memory_secret;
use crate::{Outcome, logging, output};
use clap::{Args, Subcommand};
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_node::signer::SignerEvent;
use quorate_node::vocabulary::named_of_signer;
use quorate_node::{init_signer, interrupt, rebuild_signer, run_signer};
use quorate_types::text::escaped;
use std::path::PathBuf;
use tracing::Level;

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status of `signer run`:
  0  a signal stopped it
  1  it cannot continue
  2  the call, its configuration, its key or its record is wrong
  3  its disk is full, fails, or is read-only";

/// Commands of `quorate signer`.
#[derive(Subcommand)]
pub enum SignerCommand {
    /// Sign the votes of a replica until a signal stops it. The directory has config.toml, the voting key and the
    /// record of signed statements.
    Run(RunArgs),
    /// Make a signer for a stopped replica: move the voting key out of the replica's key file, and record all
    /// statements in the replica's journal.
    Init(InitArgs),
    /// Make the lost or damaged record of a stopped signer anew from the journal of its stopped replica.
    Rebuild(RebuildArgs),
}

/// Flags of `quorate signer run`.
#[derive(Args)]
pub struct RunArgs {
    /// The signer's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Flags of `quorate signer init`.
#[derive(Args)]
pub struct InitArgs {
    /// The directory to write. It must have no signer yet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The replica's directory.
    #[arg(long, value_name = "DIR")]
    replica: PathBuf,
    /// Socket on which the signer will listen [default: `socket` in its directory].
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// A file whose first line is the passphrase of the replica's key file, if it is encrypted; only its owner may read
    /// it. The signer's key file gets the same passphrase.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// Flags of `quorate signer rebuild`.
#[derive(Args)]
pub struct RebuildArgs {
    /// The signer's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The replica's directory, or a copy with its configuration and journal.
    #[arg(long, value_name = "DIR")]
    replica: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If a file is unusable, or the signer cannot continue.
pub fn run(command: SignerCommand) -> Outcome {
    keep_memory_secret()?;
    match command {
        SignerCommand::Run(arguments) => serve(&arguments),
        SignerCommand::Init(InitArgs { dir, replica, socket, passphrase_file }) => {
            let passphrases = Passphrases { file: passphrase_file, command: None };
            let socket = init_signer(&dir, &replica, socket, &passphrases)?;
            let config = replica.join("config.toml");
            Ok(output::say(&format!(
                "moved the voting key of {} to {}; set in {}\n  [signer]\n  socket = {:?}\nthen start the signer, and \
                 the replica; backups of the replica's key file still have the voting key",
                replica.display(),
                dir.display(),
                config.display(),
                socket.display().to_string(),
            ))?)
        }
        SignerCommand::Rebuild(RebuildArgs { dir, replica }) => {
            let old = rebuild_signer(&dir, &replica)?;
            let kept = old.map(|old| format!("; the old record is {}", old.display())).unwrap_or_default();
            Ok(output::say(&format!("made the record of {} anew{kept}", dir.display()))?)
        }
    }
}

fn serve(arguments: &RunArgs) -> Outcome {
    interrupt::install().map_err(|error| format!("cannot handle signals: {error}"))?;
    arguments.log.begin(None);
    run_signer(&arguments.dir, log).inspect_err(|error| arguments.log.end(error))?;
    Ok(())
}

fn log(event: SignerEvent) {
    let (named, text) = (named_of_signer(&event), event.to_string());
    let text = escaped(&text);
    match named.level {
        Level::WARN => tracing::warn!(target: "quorate::signer", event = named.name, "{text}"),
        _ => tracing::info!(target: "quorate::signer", event = named.name, "{text}"),
    }
}
