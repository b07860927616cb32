//! `quorate lab run` and `quorate lab merge`: where, in which order and until when the cells of experiments run.

use crate::Outcome;
use crate::live;
use crate::running::{Live, shown};
use crate::selection::{Selection, chosen, deliver, of_selection};
use clap::Args;
use quorate_lab::bench::Workers;
use quorate_node::interrupt;
use quorate_operator::output::{self, Outputs};
use quorate_runner::backend::Backend;
use quorate_runner::here::name_of_machine;
use quorate_runner::judged::Judged;
use quorate_runner::merge::merge as merge_rows;
use quorate_runner::store::DEFAULT_DIR;
use quorate_runner::until::Until;
use quorate_runner::{Here, Left, Run, Source, Store, catalogue, kubernetes, slurm};
use quorate_types::Fault;
use quorate_types::text::quote;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Value of `--first` that means the cells of claims.
const CLAIMS: &str = "claims";
const UNTIL: &str = "--until";

/// Flags of `quorate lab run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    selection: Selection,
    /// Where the runs take place. local: here, K simulations at a time [default: local with one for each core]. shared:
    /// the same, together with other such processes, on this machine or on others that mount DIR; each takes runs that
    /// no other has taken. ssh: on the hosts of a file (docs/HOSTS.md). slurm: N processes that share DIR, as an array
    /// of jobs. kubernetes: manifests of a Job with N such pods.
    #[arg(long, value_name = "local:K|shared[:K]|ssh:FILE|slurm:N|kubernetes:N")]
    on: Option<Backend>,
    /// Begin no run after this time: 45m, 8h, 18:30 or "2026-12-24 06:00". Runs in progress are completed.
    #[arg(long, value_name = "TIME|DURATION")]
    until: Option<Until>,
    /// Run these first: `claims`, the cells that claims are judged on, or PAPER/ID or PAPER; may be repeated.
    #[arg(long, value_name = "claims|PAPER/ID|PAPER")]
    first: Vec<String>,
    /// Write rows and claims as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab merge`.
#[derive(Args)]
pub struct MergeArgs {
    /// Directory of results whose runs are added.
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Directory of results to which they are added; it is created if it does not exist.
    #[arg(value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
}

/// Adds the runs of a directory to another one.
pub fn merge(arguments: &MergeArgs) -> Outcome {
    let (from, into) = (Store::open(&arguments.from)?, Store::at(&arguments.dir));
    into.create()?;
    let _lock = into.lock(false)?;
    let merged = merge_rows(&into, &from)?;
    let dir = arguments.dir.display();
    output::say(&format!("{dir}: {} runs added, {} were there already", merged.added, merged.present))?;
    Ok(())
}

pub fn run(arguments: &RunArgs) -> Outcome {
    let selection = &arguments.selection;
    let on = arguments.on.clone().unwrap_or_default();
    let (sources, claims_first) = ordered(chosen(selection)?, &arguments.first)?;
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    if let Some(starter) = on.starter().filter(|_| arguments.json.is_some()) {
        let help = "leave it out; once the jobs have ended, call `quorate lab report --json`";
        let what = format!("has no effect with --on {starter}, whose jobs write rows");
        return Err(Fault::<String>::new("--json", what, help).into());
    }
    let mut run = of_selection(selection)?;
    (run.slots, run.shared) = (on.slots(), on.is_shared());
    run.until = arguments.until.map(|until| until.0);
    // Report the errors of all files before anything runs.
    for source in &sources {
        run.check(source)?;
    }
    run.store.create()?;
    match &on {
        Backend::Slurm { jobs } => return submit(arguments, &run, *jobs),
        Backend::Kubernetes { pods } => return write_manifests(arguments, &run, &sources, *pods),
        Backend::Ssh { hosts } => run = on_hosts(run, hosts)?,
        Backend::Local { .. } | Backend::Shared { .. } => {}
    }
    let _lock = run.store.lock(run.shared)?;
    let judged = run_all(&run, &sources, claims_first)?;
    report_left(&judged)?;
    deliver(outputs, &judged)
}

/// Runs the experiments one after the other; first the cells of their claims, if asked for.
fn run_all(run: &Run, sources: &[Source], claims_first: bool) -> Result<Vec<Judged>, Box<dyn std::error::Error>> {
    let mut live = Live::new();
    let begun = Instant::now();
    if claims_first {
        let only = Run { only_claims: true, ..run.clone() };
        for source in sources.iter().take_while(|_| interrupt::requested().is_none()) {
            let result = only.experiment_with(source, &mut live);
            live.clear();
            result?;
        }
    }
    let mut judged = Vec::new();
    for (index, source) in sources.iter().enumerate().take_while(|_| interrupt::requested().is_none()) {
        if sources.len() > 1 {
            let (place, count, since) = (index + 1, sources.len(), shown(begun.elapsed()));
            live.line(&format!("experiment {place} of {count}: {}, {since} after the start", source.file));
        }
        let result = run.experiment_with(source, &mut live);
        live.clear();
        judged.push(result?);
    }
    Ok(judged)
}

/// Moves the experiments named by `--first` to the front, in its order. Returns whether it names the claims, too.
fn ordered(sources: Vec<Source>, first: &[String]) -> Result<(Vec<Source>, bool), Box<dyn std::error::Error>> {
    let mut front: Vec<String> = Vec::new();
    for name in first.iter().filter(|name| *name != CLAIMS) {
        let found = catalogue::find(name)?;
        let known: BTreeSet<&str> = sources.iter().map(|source| source.file.as_str()).collect();
        let named: Vec<String> =
            found.into_iter().map(|(source, _)| source.file).filter(|file| known.contains(file.as_str())).collect();
        if named.is_empty() {
            let help = "name some of the experiments to run";
            return Err(Fault::<String>::new("--first", format!("`{name}` is not among the experiments"), help).into());
        }
        front.extend(named);
    }
    let place = |source: &Source| front.iter().position(|file| *file == source.file).unwrap_or(front.len());
    let mut sources = sources;
    sources.sort_by_key(place);
    Ok((sources, first.iter().any(|name| name == CLAIMS)))
}

/// Connects to the hosts that run the cells.
fn on_hosts(run: Run, hosts: &Path) -> Result<Run, Box<dyn std::error::Error>> {
    let workers = Workers::start(hosts, &mut live::Live::new())?;
    let (count, slots) = (workers.count(), (0..workers.count()).map(|host| workers.slots(host)).sum::<usize>());
    output::report(&format!("{count} hosts take runs, {slots} simulations at a time"));
    let here = Here { machine: name_of_machine(workers.machine(0)), ..run.here.clone() };
    Ok(Run { here, workers: Some(Arc::new(workers)), ..run })
}

/// Says which runs `--until` left, and how to go on.
fn report_left(judged: &[Judged]) -> Outcome {
    let left: Vec<Left> = judged.iter().filter_map(|own| own.left).collect();
    let (runs, seconds) = left.iter().fold((0, 0), |(runs, seconds), own| (runs + own.runs, seconds + own.expected_s));
    if runs > 0 {
        let words = arguments()?;
        let time = shown(Duration::from_secs(seconds));
        let command: Vec<String> =
            ["quorate".to_owned()].into_iter().chain(without_until(&words)).map(|word| quote(&word)).collect();
        output::report(&format!("{runs} runs are left, for about {time}; go on with\n  {}", command.join(" ")));
    }
    Ok(())
}

fn without_until(words: &[String]) -> Vec<String> {
    let mut rest = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            UNTIL => drop(words.next()),
            word if word.strip_prefix(UNTIL).is_some_and(|value| value.starts_with('=')) => {}
            word => rest.push(word.to_owned()),
        }
    }
    rest
}

/// Submits an array of jobs to Slurm. Each takes runs until none is left.
fn submit(arguments: &RunArgs, run: &Run, jobs: usize) -> Outcome {
    let dir = &arguments.selection.dir;
    let script = slurm::script(&run.here.program, &self::arguments()?, dir, jobs)?;
    let said = slurm::submit(&script)?;
    let (script, dir) = (script.display(), dir.display());
    output::say(&format!("{said}: {jobs} jobs in {script}; `quorate lab missing --dir {dir}` lists the rest"))?;
    Ok(())
}

/// Writes the manifests of a Job of Kubernetes. Each pod takes runs until none is left.
fn write_manifests(arguments: &RunArgs, run: &Run, sources: &[Source], pods: usize) -> Outcome {
    let selection = &arguments.selection;
    let costs = run.here.costs.as_deref().map(Path::new).filter(|path| path.is_file());
    for source in sources {
        kubernetes::check(&run.calls(source)?, costs)?;
    }
    let experiment = Some(PathBuf::from(&selection.experiment)).filter(|path| path.is_file());
    let called = kubernetes::Called {
        words: self::arguments()?,
        dir: selection.dir.clone(),
        experiment,
        costs: costs.map(Path::to_owned),
    };
    let directory = quote(&kubernetes::write(&called, pods)?.display().to_string());
    output::say(&format!(
        "wrote a Job of {pods} pods; set the image in {directory}/kustomization.yaml, and begin with\n  \
         kubectl apply --kustomize {directory}\n  \
         kubectl wait --for=condition=complete --timeout=-1s job/quorate-lab"
    ))?;
    Ok(())
}

/// Returns the arguments of this program.
fn arguments() -> Result<Vec<String>, Fault> {
    std::env::args_os().skip(1).map(|word| word.into_string().map_err(not_text)).collect()
}

fn not_text(word: OsString) -> Fault {
    Fault::new(word.display().to_string(), "is not UTF-8, and cannot be repeated by jobs", "use another name")
}
