//! `quorate`: the one binary. Logs go to standard error, results to standard output; `failure` says what the exit status means.

mod client;
mod demo;
mod failure;
mod inspect;
mod live;
mod logging;
mod museum;
mod output;
mod replay;
mod shell;
mod status;
mod testnet;
mod torture;
mod twins;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use live::Live;
use output::Outputs;
use quorate_lab::bench;
use quorate_lab::inspect::InspectArgs;
use quorate_lab::replay::ReplayArgs;
use quorate_lab::sim::{SimArgs, SimOptions};
use quorate_lab::spec::ClusterArgs;
use quorate_lab::spec::quote;
use quorate_lab::twins::TwinsCommand;
use quorate_lab::twins::museum::MuseumArgs;
use quorate_lab::{BenchArgs, BenchSpec, render_html};
use quorate_node::{LogObserver, interrupt, run_directory};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "quorate",
    version,
    long_version = shell::LONG_VERSION,
    about = "Byzantine-fault-tolerant replication, and a laboratory to measure it",
    max_term_width = 120
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch four replicas live through a Byzantine leader, a crash, and the crash of all, in less than half a minute.
    Demo(demo::DemoArgs),
    /// Start a cluster on this machine, load it, measure it, and stop it.
    Bench(BenchArgs),
    /// Run the same cluster and load in virtual time: any network, any number of seeds, oracles on every step.
    Sim(SimArgs),
    /// Replay what `--record` wrote, and say where the replay first differs.
    Replay(ReplayArgs),
    /// Measure what work costs on this machine, and write the table that `quorate sim --costs` reads.
    Calibrate(CalibrateArgs),
    /// Kill, stop and start the replicas of a cluster of processes again and again under load, and judge what its clients saw.
    Torture(torture::TortureArgs),
    /// Hunt for forks with Twins: some replicas run twice with one key, and the network is partitioned anew in each view.
    #[command(subcommand)]
    Twins(TwinsCommand),
    /// Put historical bugs back, one at a time, and show what finds each: a scenario written for it, or a hunt that does not know it.
    /// Needs a build with `--features museum`.
    Museum(MuseumArgs),
    /// Write the configuration and keys of a cluster, on this machine or on --hosts: a directory for each replica, and client.toml.
    Testnet(TestnetArgs),
    /// Run one replica from its directory, until a signal asks it to end.
    #[command(after_help = NODE_EXIT_STATUS)]
    Node(NodeArgs),
    /// Look into a replica's directory, running or not: what it remembers, whether it is sound, and the committed chain for others to check.
    #[command(after_help = INSPECT_EXIT_STATUS)]
    Inspect(InspectArgs),
    /// Ask replicas how they are: views, heights, peers, and what needs attention.
    #[command(after_help = status::STATUS_EXIT_STATUS)]
    Status(status::StatusArgs),
    /// Talk to a running cluster: read and write its key-value store, or load it.
    Client(client::ClientArgs),
    /// Write the completions for a shell to standard output.
    Completions(shell::CompletionsArgs),
    /// Write the manual page to standard output, or those of all commands to a directory.
    Man(shell::ManArgs),
}

#[derive(Args)]
struct TestnetArgs {
    /// The directory to write; it must be empty or not exist.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The hosts of the replicas, each HOST or HOST:PORT, a number or a name; a host may be named more than once
    /// [default: this host alone]. A replica listens on three ports: for peers, for clients, and on loopback for `quorate status`.
    #[arg(long, value_name = "HOST,HOST,..", value_delimiter = ',')]
    hosts: Vec<String>,
}

#[derive(Args)]
struct CalibrateArgs {
    /// The file to write; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "costs.toml")]
    out: PathBuf,
}

const NODE_EXIT_STATUS: &str = "\
Signals:
  SIGTERM, SIGINT and SIGHUP end it in order: it takes no more connections, writes and sends what it has said, and exits with status 0.
  A second one ends it at once; nothing that a client was told is lost either way

Exit status:
  0  a signal ended it in order
  1  it cannot start or go on, and says why
  2  the call is wrong
  3  its disk is full, fails, or may not be written. It stops before it says anything that it has not written down, and tells which
     file, why, and what helps; until that is done, starting it again is in vain";

const INSPECT_EXIT_STATUS: &str = "\
Exit status:
  0  all is well, as far as it was looked at: without --verify, that the journal can be read
  1  something is wrong, and is told, or the directory cannot be inspected
  2  the call is wrong";

#[derive(Args)]
struct NodeArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    log: logging::LogArgs,
}

fn main() -> ExitCode {
    let command = match call() {
        Ok(call) => call.command,
        Err(error) => error.exit(),
    };
    let ends_with_signal = command.has_result();
    let prepared = match ends_with_signal {
        true => interrupt::install().map_err(|error| format!("cannot handle signals: {error}").into()),
        false => Ok(()),
    };
    let outcome = prepared.and_then(|()| run(command));
    if let Err(error) = &outcome {
        output::complain(&format!("error: {error}"));
    }
    failure::exit_code(&outcome, ends_with_signal)
}

/// Reads the command line.
fn call() -> Result<Cli, clap::Error> {
    let matches = tolerant(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|error| {
        // What was found wrong with all flags together does not know whose flags they are.
        let (mut command, mut matches) = (&mut tolerant(Cli::command()), &matches);
        command.build();
        while let Some((name, of_it)) = matches.subcommand() {
            command = command.find_subcommand_mut(name).expect("it was matched");
            matches = of_it;
        }
        error.format(command)
    })
}

/// Takes `-1` for a number wherever a value may stand, so that the refusal names the flag.
fn tolerant(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(tolerant)
}

impl Command {
    /// Whether it takes a while and has a result to show for what was done of it when a signal ends it.
    fn has_result(&self) -> bool {
        match self {
            Command::Demo(_)
            | Command::Bench(_)
            | Command::Sim(_)
            | Command::Torture(_)
            | Command::Museum(_)
            | Command::Calibrate(_) => true,
            Command::Twins(command) => matches!(command, TwinsCommand::Run(_)),
            Command::Client(arguments) => arguments.is_load(),
            Command::Replay(_) | Command::Testnet(_) | Command::Node(_) | Command::Inspect(_) => false,
            Command::Status(_) | Command::Completions(_) | Command::Man(_) => false,
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(BenchArgs(spec)) => run_bench(&spec),
        Command::Sim(SimArgs { bench: BenchArgs(spec), options }) => run_sim(&spec, &options),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Calibrate(CalibrateArgs { out }) => calibrate(&out),
        Command::Torture(arguments) => torture::run(&arguments),
        Command::Twins(command) => twins::run(&command),
        Command::Museum(arguments) => museum::run(&arguments),
        Command::Testnet(TestnetArgs { dir, cluster: ClusterArgs(spec), hosts }) => testnet::run(spec, &hosts, &dir),
        Command::Node(arguments) => run_node(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Client(arguments) => client::run(arguments),
        Command::Completions(arguments) => shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => shell::manual(&arguments, Cli::command()),
    }
}

type Outcome = Result<(), Box<dyn Error>>;

fn run_bench(spec: &BenchSpec) -> Outcome {
    let outputs = Outputs::of_spec(spec, &[])?;
    let mut live = Live::new();
    let result = bench::run(spec, &mut live);
    live.clear();
    let result = result?;
    outputs.deliver(&result.to_table(), &[("--json", &|| result.to_json()), ("--report", &|| render_html(&result))])?;
    spec.recordings().iter().for_each(|path| output::complain(&format!("recording: {}", path.display())));
    result.failure().map_or(Ok(()), |failure| Err(failure.into()))
}

/// The result goes wherever the spec says; that an oracle spoke is an error all the same.
fn run_sim(spec: &BenchSpec, options: &SimOptions) -> Outcome {
    let heard = |report: &quorate_lab::sim::SimReport| {
        if let Some(complaint) = &report.complaint {
            output::complain(&format!("seed {}: {}: {}", report.seed, complaint.oracle, complaint.what));
        }
    };
    let files = [Some(options.network.as_str()), options.costs.as_deref()].map(|path| path.map(Path::new));
    let outputs = Outputs::of_spec(spec, &files.into_iter().flatten().collect::<Vec<_>>())?;
    let result = quorate_lab::sim::run(spec, options, &heard)?;
    let (json, page) = (|| result.to_json(), || render_html(&result.bench));
    outputs.deliver(&result.to_table(), &[("--json", &json), ("--report", &page)])?;
    result.failure().map_or(Ok(()), |failure| Err(failure.into()))
}

fn calibrate(path: &Path) -> Outcome {
    let shown = path.display().to_string();
    let outputs = Outputs::open(&[("--out", Some(&shown))], &[])?;
    let table = quorate_lab::calibrate::measure()?;
    let told = format!("{}\nuse the table with\n  quorate sim --costs {}", table.source, quote(&shown));
    outputs.deliver(&told, &[("--out", &|| table.to_toml())])
}

fn run_node(arguments: &NodeArgs) -> Outcome {
    interrupt::install().map_err(|error| format!("cannot handle signals: {error}"))?;
    arguments.log.begin();
    run_directory(&arguments.dir, Box::new(LogObserver::default())).inspect_err(|error| arguments.log.end(error))?;
    Ok(())
}
