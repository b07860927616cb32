//! `quorate`: the binary with all commands. Logs go to standard error, results to standard output.

mod client;
mod demo;
mod failure;
mod fidelity;
mod flame;
mod lab;
mod live;
mod model;
mod museum;
mod network;
mod peer;
mod plan;
mod replay;
mod running;
mod selection;
mod sweep;
mod testnet;
mod torture;
mod twins;
mod versus;

use clap::{Args, Parser, Subcommand};
use live::Live;
use quorate_lab::bench::{self, BenchCommand, DeploymentOptions, EmulationOptions};
use quorate_lab::model::ModelArgs;
use quorate_lab::plan::PlanCommand;
use quorate_lab::replay::ReplayArgs;
use quorate_lab::sim::{ClientPlaces, SimArgs, SimOptions};
use quorate_lab::spec::ClusterArgs;
use quorate_lab::spec::{Host, WorkloadKind, quote};
use quorate_lab::twins::TwinsCommand;
use quorate_lab::twins::museum::MuseumArgs;
use quorate_lab::{BenchArgs, BenchSpec};
use quorate_node::allocations::CountingAllocator;
use quorate_node::interrupt;
use quorate_operator::commands::ClusterCommand;
use quorate_operator::node::{NodeArgs, keep_memory_secret};
use quorate_operator::output::Outputs;
use quorate_operator::shell::{self, CompletionsArgs, ManArgs};
use quorate_operator::testnet::TestnetArgs;
use quorate_operator::{Outcome, node, output};
use quorate_types::Fault;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Counts the allocations of replicas in `bench --count-allocations`.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
    /// Watch four replicas survive a Byzantine leader, a crash of one and a crash of all, in less than half a minute.
    Demo(demo::DemoArgs),
    /// Start a cluster on this machine, put load on it, measure it, and stop it.
    Bench(BenchCommand),
    /// Run the same cluster and load in virtual time: any network, any number of seeds, oracles on every step.
    Sim(SimArgs),
    /// Run experiments: files with varied parameters, plots and a paper's claims. Judge the claims.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Measure another system as quorate is measured: build it from its public source, load it, and read its results.
    #[command(subcommand)]
    Peer(peer::PeerCommand),
    /// Compute success, replies, messages and latency on a lossy network, from closed forms without running anything.
    Model(ModelArgs),
    /// Compute the hardware that a load needs: cores of an FPGA at link rate, or of a CPU. Runs nothing.
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Replay a recording of `--record`, and report the first difference.
    Replay(ReplayArgs),
    /// Measure costs on this machine, and write the table that `quorate sim --costs` reads.
    Calibrate(CalibrateArgs),
    /// Kill, pause and restart the replicas of a cluster of processes under load, and check the observations of its
    /// clients.
    Torture(torture::TortureArgs),
    /// Search for safety violations with Twins: some replicas run twice with one key, and the network's partitions
    /// change in each view.
    #[command(subcommand)]
    Twins(TwinsCommand),
    /// Reintroduce historical bugs one at a time, and show how each is found: by a directed scenario, or by a search
    /// without knowledge of the bug. Needs a build with `--features museum`.
    Museum(MuseumArgs),
    /// Write the configuration and keys of a cluster, on this machine or on --hosts: a directory for each replica, and
    /// client.toml.
    Testnet(TestnetArgs<ClusterArgs>),
    /// Run one replica from its directory until a signal stops it.
    #[command(after_help = node::EXIT_STATUS)]
    Node(NodeArgs),
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Read and write the key-value store of a running cluster, or put load on the cluster.
    Client(client::ClientArgs),
    /// Run on a host of `bench --host deployed`, started by it over SSH: execute its orders from standard input.
    #[command(hide = true)]
    DeployedAgent,
    /// Write a shell's completions to standard output.
    Completions(CompletionsArgs),
    /// Write the manual page to standard output, or the pages of all commands to a directory.
    Man(ManArgs),
}

#[derive(Args)]
struct CalibrateArgs {
    /// The file to write; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "costs.toml")]
    out: PathBuf,
    /// Time journal writes in this directory, which must exist; file systems differ widely [default: journals are in
    /// memory, and `flush_us` is 0].
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    let command = match shell::call::<Cli>() {
        Ok(call) => call.command,
        Err(error) => return shell::end(&error),
    };
    let ends_with_signal = command.has_result();
    let prepared = match ends_with_signal {
        true => interrupt::install().map_err(|error| format!("cannot handle signals: {error}").into()),
        false => Ok(()),
    };
    let outcome = prepared.and_then(|()| run(command));
    if let Err(error) = &outcome {
        output::report(&format!("error: {error}"));
    }
    quorate_operator::failure::exit_code(&outcome, ends_with_signal, failure::kind)
}

impl Command {
    /// Returns whether the command runs for a while and reports a partial result if a signal interrupts it.
    fn has_result(&self) -> bool {
        match self {
            Command::Demo(_)
            | Command::Bench(_)
            | Command::Sim(_)
            | Command::Torture(_)
            | Command::Museum(_)
            | Command::DeployedAgent
            | Command::Calibrate(_) => true,
            Command::Twins(command) => matches!(command, TwinsCommand::Run(_)),
            Command::Client(arguments) => arguments.is_load(),
            Command::Lab(command) => command.has_result(),
            Command::Peer(command) => command.has_result(),
            Command::Model(_)
            | Command::Plan(_)
            | Command::Replay(_)
            | Command::Testnet(_)
            | Command::Node(_)
            | Command::Cluster(_) => false,
            Command::Completions(_) | Command::Man(_) => false,
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(BenchCommand { bench: BenchArgs(spec), emulation, deployment, flame }) => {
            run_bench(&spec, &emulation, &deployment, flame.as_deref())
        }
        Command::DeployedAgent => {
            keep_memory_secret()?;
            Ok(bench::serve_deployed_agent()?)
        }
        Command::Sim(SimArgs { bench: BenchArgs(spec), options }) => run_sim(&spec, &options),
        Command::Peer(command) => peer::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Model(arguments) => model::run(&arguments),
        Command::Plan(command) => plan::run(&command),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Calibrate(CalibrateArgs { out, journal_dir }) => calibrate(&out, journal_dir.as_deref()),
        Command::Torture(arguments) => torture::run(&arguments),
        Command::Twins(command) => twins::run(&command),
        Command::Museum(arguments) => museum::run(&arguments),
        Command::Testnet(arguments) => testnet::run(arguments),
        Command::Node(arguments) => node::run(&arguments),
        Command::Cluster(command) => command.run(&testnet::PROGRAM),
        Command::Client(arguments) => client::run(arguments),
        Command::Completions(arguments) => shell::completions(&arguments, shell::program::<Cli>()),
        Command::Man(arguments) => shell::manual(&arguments, shell::program::<Cli>()),
    }
}

/// Opens the outputs named by a spec. `inputs` are files that the run reads in addition to the spec's own.
///
/// # Errors
/// As [`Outputs::open`].
fn outputs_of(spec: &BenchSpec, inputs: &[&Path]) -> Result<Outputs, Box<dyn Error>> {
    outputs_and(None, spec, inputs)
}

/// Opens the output of a flame graph as well.
fn outputs_and(flame: Option<&str>, spec: &BenchSpec, inputs: &[&Path]) -> Result<Outputs, Box<dyn Error>> {
    let commands = match &spec.workload {
        WorkloadKind::File(path) => Some(path.as_path()),
        _ => None,
    };
    let inputs: Vec<&Path> = inputs.iter().copied().chain(commands).collect();
    let results = [("--json", spec.json.as_deref()), ("--report", spec.report.as_deref()), (flame::FLAG, flame)];
    Outputs::open(&results, &inputs)
}

fn run_bench(
    spec: &BenchSpec,
    emulation: &EmulationOptions,
    deployment: &DeploymentOptions,
    flame: Option<&str>,
) -> Outcome {
    emulation.fit(spec)?;
    deployment.fit(spec)?;
    let files = [emulation.network.as_deref(), deployment.hosts.as_deref()];
    let inputs: Vec<&Path> = files.into_iter().flatten().map(Path::new).collect();
    if deployment.dry_run {
        return output::say(&format!("{}\n", bench::dry_run(spec, deployment)?)).map_err(Into::into);
    }
    if flame.is_some() && spec.host == Host::Deployed {
        let (what, help) = ("samples this machine only, and the replicas run on others", "leave it out");
        return Err(Fault::<String>::new(flame::FLAG, what, help).into());
    }
    if flame.is_some() {
        spec.validate()?;
        // Opens all outputs to detect unwritable ones; the run under `perf` opens its own again.
        drop(outputs_and(flame, spec, &inputs)?);
        return flame::run(Outputs::open(&[(flame::FLAG, flame)], &[])?);
    }
    let outputs = outputs_of(spec, &inputs)?;
    let mut live = Live::new();
    let result = match spec.host {
        Host::Deployed => bench::run_deployed(spec, deployment, &mut live),
        _ => bench::run_on(spec, emulation, &mut live),
    };
    live.clear();
    let result = result?;
    if let Some(directory) = &deployment.perf {
        flame::draw_all(Path::new(directory))?;
    }
    let shown = outputs.show(&result, &[]);
    spec.recordings().iter().for_each(|path| output::report(&format!("recording: {}", path.display())));
    shown
}

/// Runs the simulation and writes the result to the spec's outputs. A violation is part of the result, and returned as
/// an error.
fn run_sim(spec: &BenchSpec, options: &SimOptions) -> Outcome {
    let heard = |report: &quorate_lab::sim::SimReport| {
        if let Some(violation) = &report.violation {
            output::report(&format!("seed {}: {}: {}", report.seed, violation.property, violation.what));
        }
    };
    let machines = options.clients_at.as_ref().and_then(ClientPlaces::file);
    let files = [Some(options.network.as_str()), options.costs.as_deref(), machines].map(|path| path.map(Path::new));
    let outputs = outputs_of(spec, &files.into_iter().flatten().collect::<Vec<_>>())?;
    let on_probe = &mut |probe: &quorate_lab::search::Probe| output::report(&format!("probe: {probe}"));
    let result = quorate_lab::sim::run_or_search(spec, options, &heard, on_probe)?;
    outputs.show(&result, &[])
}

fn calibrate(path: &Path, journal: Option<&Path>) -> Outcome {
    let shown = path.display().to_string();
    let outputs = Outputs::open(&[("--out", Some(&shown))], &[])?;
    let table = quorate_lab::calibrate::measure(quorate_lab::calibrate::Extent::Whole, journal)?;
    let told = format!("{}\nuse the table with\n  quorate sim --costs {}", table.source, quote(&shown));
    outputs.deliver(&told, &[("--out", &|| table.to_toml())])
}
