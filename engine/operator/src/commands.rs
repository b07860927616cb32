//! Operators' commands that both programs have.

use crate::health::{self, HealthArgs};
use crate::inspection::InspectArgs;
use crate::keys::{self, KeysArgs};
use crate::level::{self, LevelCommand};
use crate::restart::{self, RestartArgs};
use crate::signer::{self, SignerCommand};
use crate::snapshot::{self, SnapshotCommand};
use crate::status::{self, StatusArgs};
use crate::testnet::Program;
use crate::{Outcome, inspect};
use clap::Subcommand;

// As a doc comment, it would replace the description of the program that flattens these commands.
#[cfg_attr(doc, doc = "Operators' commands that both programs have.")]
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Inspect the directory of a running or stopped replica: its signed statements and the integrity of its journal.
    /// Export the committed chain for others to check.
    #[command(after_help = inspect::EXIT_STATUS)]
    Inspect(InspectArgs),
    /// Show the status of replicas: views, heights, peers, and anything that needs attention.
    #[command(after_help = status::EXIT_STATUS)]
    Status(StatusArgs),
    /// Ask a replica whether it is healthy or ready, for health checks in containers.
    #[command(after_help = health::EXIT_STATUS)]
    Health(HealthArgs),
    /// Save a certified state of a cluster, verify it without the cluster, and begin a new cluster with it.
    #[command(subcommand, after_help = snapshot::EXIT_STATUS)]
    Snapshot(SnapshotCommand),
    /// Raise the feature level of a cluster's application, once all replicas support the new one.
    #[command(subcommand, after_help = level::EXIT_STATUS)]
    Level(LevelCommand),
    /// Restart the replicas of a cluster one after the other, each once the one before it is ready.
    #[command(after_help = restart::EXIT_STATUS)]
    Restart(Box<RestartArgs>),
    /// Create, show, certify, encrypt and decrypt key files.
    #[command(after_help = keys::PASSPHRASES)]
    Keys(KeysArgs),
    /// Sign the votes of a replica in another process, which has the key and refuses contradicting statements.
    #[command(subcommand, after_help = signer::EXIT_STATUS)]
    Signer(SignerCommand),
}

impl ClusterCommand {
    /// Runs the command of a program.
    ///
    /// # Errors
    /// The command's.
    pub fn run(self, program: &Program) -> Outcome {
        match self {
            ClusterCommand::Inspect(arguments) => inspect::run(&arguments),
            ClusterCommand::Status(arguments) => status::run(&arguments),
            ClusterCommand::Health(arguments) => health::run(&arguments),
            ClusterCommand::Snapshot(command) => snapshot::run(command, program),
            ClusterCommand::Level(command) => level::run(&command),
            ClusterCommand::Restart(arguments) => restart::run(*arguments, program),
            ClusterCommand::Keys(arguments) => keys::run(arguments),
            ClusterCommand::Signer(command) => signer::run(command),
        }
    }
}
