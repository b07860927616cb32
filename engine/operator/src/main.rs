//! `quorate-node`: runs, configures and inspects replicas. Logs go to standard error, results to standard output.

use clap::{CommandFactory, Parser, Subcommand};
use quorate_operator::client::ClientArgs;
use quorate_operator::commands::ClusterCommand;
use quorate_operator::node::NodeArgs;
use quorate_operator::shell::{CompletionsArgs, ManArgs};
use quorate_operator::testnet::{ClusterArgs, Program, TestnetArgs};
use quorate_operator::{Outcome, client, failure, node, output, shell, testnet};
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
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Read and write the key-value store of a running cluster.
    Client(ClientArgs),
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
        Command::Cluster(command) => command.run(&PROGRAM),
        Command::Client(ClientArgs { reach, request }) => client::run(&reach, request),
        Command::Completions(arguments) => shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => shell::manual(&arguments, Cli::command()),
    }
}
