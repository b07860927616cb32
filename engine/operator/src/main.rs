//! `quorate-node`: runs, configures and inspects replicas. Logs go to standard error, results to standard output.

use clap::{CommandFactory, Parser, Subcommand};
use quorate_operator::client::ClientArgs;
use quorate_operator::health::HealthArgs;
use quorate_operator::inspection::InspectArgs;
use quorate_operator::keys::KeysArgs;
use quorate_operator::level::LevelCommand;
use quorate_operator::node::NodeArgs;
use quorate_operator::restart::RestartArgs;
use quorate_operator::shell::{CompletionsArgs, ManArgs};
use quorate_operator::signer::SignerCommand;
use quorate_operator::snapshot::SnapshotCommand;
use quorate_operator::status::StatusArgs;
use quorate_operator::testnet::{ClusterArgs, Program, TestnetArgs};
use quorate_operator::{
    Outcome, client, failure, health, inspect, keys, level, node, output, restart, shell, signer, snapshot, status,
    testnet,
};
use std::process::ExitCode;

const PROGRAM: Program = Program { name: "quorate-node", run: "run" };

#[derive(Parser)]
#[command(
    name = PROGRAM.name,
    version,
    long_version = shell::LONG_VERSION,
    about = "Run, configure and inspect Byzantine-fault-tolerant replicas",
    max_term_width = 120
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one replica from its directory until a signal stops it.
    #[command(after_help = node::EXIT_STATUS)]
    Run(NodeArgs),
    /// Write the configuration and keys of a cluster, on this machine or on --hosts: a directory for each replica, and
    /// client.toml.
    Testnet(Box<TestnetArgs<ClusterArgs>>),
    /// Inspect the directory of a running or stopped replica: its promises, and whether its journal is sound. Export
    /// the committed chain for others to check.
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
    /// Read and write the key-value store of a running cluster.
    Client(ClientArgs),
    /// Create, show, certify, encrypt and decrypt key files.
    #[command(after_help = keys::PASSPHRASES)]
    Keys(KeysArgs),
    /// Sign the votes of a replica in another process, which has the key and refuses contradicting statements.
    #[command(subcommand, after_help = signer::EXIT_STATUS)]
    Signer(SignerCommand),
    /// Write the completions for a shell to standard output.
    Completions(CompletionsArgs),
    /// Write the manual page to standard output, or the pages of all commands to a directory.
    Man(ManArgs),
}

fn main() -> ExitCode {
    let outcome = match shell::call::<Cli>() {
        Ok(call) => run(call.command),
        Err(error) => return shell::end(&error),
    };
    if let Err(error) = &outcome {
        output::report(&format!("error: {error}"));
    }
    failure::exit_code(&outcome, false, failure::kind)
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Run(arguments) => node::run(&arguments),
        Command::Testnet(arguments) => testnet::run(*arguments, &PROGRAM),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Snapshot(command) => snapshot::run(command, &PROGRAM),
        Command::Level(command) => level::run(&command),
        Command::Restart(arguments) => restart::run(*arguments, &PROGRAM),
        Command::Client(ClientArgs { reach, request }) => client::run(&reach, request),
        Command::Keys(arguments) => keys::run(arguments),
        Command::Signer(command) => signer::run(command),
        Command::Completions(arguments) => shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => shell::manual(&arguments, Cli::command()),
    }
}
