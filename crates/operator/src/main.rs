//! `quorate-node`: runs a replica and looks after it. Logs go to standard error, results to standard output.

use clap::{CommandFactory, Parser, Subcommand};
use quorate_inspect::InspectArgs;
use quorate_operator::client::ClientArgs;
use quorate_operator::node::NodeArgs;
use quorate_operator::shell::{CompletionsArgs, ManArgs};
use quorate_operator::status::StatusArgs;
use quorate_operator::testnet::{Program, TestnetArgs};
use quorate_operator::{Outcome, client, failure, inspect, node, output, shell, status, testnet};
use std::process::ExitCode;

const PROGRAM: Program = Program { name: "quorate-node", run: "run" };

#[derive(Parser)]
#[command(
    name = PROGRAM.name,
    version,
    long_version = shell::LONG_VERSION,
    about = "Run a Byzantine-fault-tolerant replica and look after it",
    max_term_width = 120
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one replica from its directory, until a signal asks it to end.
    #[command(after_help = node::EXIT_STATUS)]
    Run(NodeArgs),
    /// Write the configuration and keys of a cluster, on this machine or on --hosts: a directory for each replica, and
    /// client.toml.
    Testnet(TestnetArgs),
    /// Look into a replica's directory, running or not: what it remembers, whether it is sound, and the committed chain
    /// for others to check.
    #[command(after_help = inspect::EXIT_STATUS)]
    Inspect(InspectArgs),
    /// Ask replicas how they are: views, heights, peers, and what needs attention.
    #[command(after_help = status::EXIT_STATUS)]
    Status(StatusArgs),
    /// Talk to a running cluster: read and write its key-value store.
    Client(ClientArgs),
    /// Write the completions for a shell to standard output.
    Completions(CompletionsArgs),
    /// Write the manual page to standard output, or those of all commands to a directory.
    Man(ManArgs),
}

fn main() -> ExitCode {
    let outcome = match shell::call::<Cli>() {
        Ok(call) => run(call.command),
        Err(error) => error.exit(),
    };
    if let Err(error) = &outcome {
        output::complain(&format!("error: {error}"));
    }
    failure::exit_code(&outcome, false, failure::kind)
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Run(arguments) => node::run(&arguments),
        Command::Testnet(arguments) => testnet::run(&arguments, &PROGRAM),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Client(ClientArgs { reach, request }) => client::run(&reach, request),
        Command::Completions(arguments) => shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => shell::manual(&arguments, Cli::command()),
    }
}
