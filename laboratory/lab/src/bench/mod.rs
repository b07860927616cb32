//! Runs a [`BenchSpec`] on real replicas and sockets, and measures it.

mod cluster;
mod command;
mod course;
mod deployed;
mod emulated;
mod error;
mod foreign;
mod generator;
mod last_words;
mod measure;
mod on_hosts;
mod processes;
mod progress;
mod scratch;
mod setup;
mod tidy;
mod watched;

pub use cluster::Cluster;
pub use command::BenchCommand;
pub use deployed::{
    CellEnd, CellOutput, DEPLOYED_AGENT, DeployedHost, DeploymentOptions, Facts, HOST_CHECK, Needs, RemoteFile, STACKS,
    Ssh, Workers, dry_run, parse_hosts, place_on_hosts, read_hosts, serve_deployed_agent,
};
pub use emulated::{EmulationOptions, Resolved, emulation_obstacle, resolve};
pub use error::BenchError;
pub use on_hosts::run_deployed;
pub use processes::Processes;
pub use progress::{Progress, Watcher};
pub(crate) use scratch::Directory;
pub use scratch::Offspring;
pub use setup::Setup;
pub use tidy::LOAD_PREFIX;

use crate::affinity::Pinned;
use crate::partial;
use crate::recording;
use crate::result::{BenchResult, EmulationResult, Event, Loaded};
use crate::search::search;
use crate::settings::{commands, load_options};
use crate::spec::{BenchSpec, Fault, Host, Interval};
use course::Course;
use emulated::Emulated;
use generator::generator;
use measure::Readings;
use quorate_applications::ApplicationKind;
use quorate_client::load::LoadReport;
use quorate_client::workload::Workload;
use quorate_client::{ClientConfig, StatusProbe};
use quorate_operator::testnet::client_config;
use std::path::Path;
use std::thread;
use watched::LoadThread;

/// Started cluster, ready for the load.
pub struct Bench {
    asked: BenchSpec,
    /// The same with the faults of the network file, which names them itself.
    played: BenchSpec,
    emulation: EmulationOptions,
    cluster: Cluster,
    config: ClientConfig,
    /// Last field, so that the cores stay pinned until replicas and clients have ended.
    _pinned: Option<Pinned>,
}

/// Starts the cluster, runs the load, injects the spec's faults and returns the result. Reports progress to `watcher`.
/// A search starts a new cluster for each rate. With `--host emulated` the network is the default one.
pub fn run(spec: &BenchSpec, watcher: &mut dyn Watcher) -> Result<BenchResult, BenchError> {
    run_on(spec, &EmulationOptions::default(), watcher)
}

/// Does the same as [`run`], with these options of the emulated network.
///
/// # Errors
/// As [`run`], and if the options do not fit the spec.
pub fn run_on(
    spec: &BenchSpec,
    emulation: &EmulationOptions,
    watcher: &mut dyn Watcher,
) -> Result<BenchResult, BenchError> {
    emulation.fit(spec)?;
    if !spec.search {
        return Bench::start_on(spec, emulation)?.run(watcher);
    }
    spec.validate()?;
    let found = search(
        spec,
        watcher,
        |spec, watcher| Bench::start_on(spec, emulation)?.run(watcher),
        |watcher, probe| watcher.probe(probe),
    )?;
    Ok(BenchResult { command: emulation.command_line(spec), ..found })
}

impl Bench {
    pub fn start(spec: &BenchSpec) -> Result<Bench, BenchError> {
        Bench::start_on(spec, &EmulationOptions::default())
    }

    /// Starts the cluster, in an emulated network if the spec's host is `emulated`.
    pub fn start_on(spec: &BenchSpec, emulation: &EmulationOptions) -> Result<Bench, BenchError> {
        spec.validate()?;
        // Refuses `--host deployed`, for which `run_deployed` has the hosts.
        DeploymentOptions::default().fit(spec)?;
        let network = (spec.host == Host::Emulated).then(|| resolve(spec, emulation)).transpose()?;
        let faults = network.iter().flat_map(|network| network.faults.iter().copied());
        let mut played = spec.clone();
        played.fault.extend(faults);
        played.validate()?;
        played.validate_real()?;
        let cores = played.cores as usize;
        let pinned = (cores > 0).then(|| Pinned::to(cores)).transpose().map_err(BenchError::Cores)?;
        let setup = Setup::of(&played)?;
        let network = network.map(|network| Emulated::start(&played, emulation, network)).transpose()?;
        let cluster = Cluster::start(&setup, network)?;
        let config = client_config(&setup.template, cluster.committee());
        let (asked, emulation) = (spec.clone(), emulation.clone());
        Ok(Bench { asked, played, emulation, cluster, config, _pinned: pinned })
    }

    /// Returns the configuration for further clients.
    pub fn client_config(&self) -> &ClientConfig {
        &self.config
    }

    /// Runs the load, injects the spec's faults and returns the result. Reports progress to `watcher`.
    pub fn run(self, watcher: &mut dyn Watcher) -> Result<BenchResult, BenchError> {
        let Bench { asked, played: spec, emulation, mut cluster, config, _pinned } = self;
        let mut warnings = spec.warnings();
        warnings.extend(spec.idle_beside_the_kernel());
        warnings.iter().for_each(|warning| watcher.warn(warning));
        if let Some(network) = cluster.network() {
            watcher.event(&Event { time_s: 0.0 - spec.warmup.as_secs_f64(), text: network.describe() });
        }
        let commands = commands(&spec)?;
        let (report, readings) = load_and_watch(&spec, &config, &mut cluster, commands, watcher)?;
        let peak_rss_kb = cluster.peak_rss_kb();
        let emulated = cluster.finish_network()?;
        cluster.stop()?;
        let of_recordings = recording::warnings(&spec);
        of_recordings.iter().for_each(|warning| watcher.warn(warning));
        warnings.extend(of_recordings);
        let of_network = emulated.as_ref().map(EmulationResult::warnings).unwrap_or_default();
        of_network.iter().for_each(|warning| watcher.warn(warning));
        warnings.extend(of_network);
        let result = measure::result(&spec, &report, readings, warnings, peak_rss_kb);
        Ok(BenchResult { command: emulation.command_line(&asked), spec: asked, emulation: emulated, ..result })
    }
}

/// Loads a running cluster, whose files are in `directory`. Reports only the clients' measurements and the replicas'
/// statuses.
pub fn load(
    spec: &BenchSpec,
    config: &ClientConfig,
    directory: &Path,
    watcher: &mut dyn Watcher,
) -> Result<BenchResult, BenchError> {
    spec.validate()?;
    if spec.search {
        let found = search(
            spec,
            watcher,
            |spec, watcher| load(spec, config, directory, watcher),
            |watcher, probe| watcher.probe(probe),
        )?;
        return Ok(BenchResult { command: foreign::command(spec, directory), ..found });
    }
    if spec.workload.is_key_value() && config.application != ApplicationKind::KEY_VALUE {
        return Err(BenchError::Application {
            workload: spec.workload.to_string(),
            application: config.application.to_string(),
        });
    }
    let asked = Loaded::ask(config)?;
    let (bundle, warning) = asked.bundle(spec)?;
    let mut warnings: Vec<String> = warning.into_iter().collect();
    warnings.iter().for_each(|warning| watcher.warn(warning));
    let spec = &BenchSpec { bundle, ..spec.clone() };
    let fitting = asked.describe(spec, config);
    let prefix = tidy::Prefix::new();
    let is_key_value = config.application == ApplicationKind::KEY_VALUE;
    let commands = if is_key_value { tidy::commands(spec, &prefix)? } else { commands(spec)? };
    let run = load_and_watch(&fitting, config, &mut Cluster::foreign(config), commands, watcher);
    let may_have_written = match &run {
        Err(BenchError::Load(error)) => tidy::may_have_written(error),
        Err(error) => !matches!(error, BenchError::Connect(_)),
        Ok(_) => true,
    };
    if let Some(warning) = Some(()).filter(|()| may_have_written).and_then(|()| tidy::remove(spec, config, prefix)) {
        watcher.warn(&warning);
        warnings.push(warning);
    }
    let (report, readings) = run?;
    let loaded = Loaded::of(readings.end.iter().flatten());
    let of_cluster = loaded.describe(spec, config);
    let result = measure::result(&of_cluster, &report, readings, warnings, 0);
    Ok(BenchResult { command: foreign::command(spec, directory), loaded: Some(loaded), ..result })
}

fn load_and_watch(
    spec: &BenchSpec,
    config: &ClientConfig,
    cluster: &mut Cluster,
    commands: Box<dyn Workload>,
    watcher: &mut dyn Watcher,
) -> Result<(LoadReport, Readings), BenchError> {
    if let Some(network) = cluster.network() {
        network.begin()?;
    }
    let among_clients = cluster.network().map(|network| network.enter_clients()).transpose()?;
    let (generator, handle) = generator(spec, config, load_options(spec), commands)?;
    let loading =
        thread::Builder::new().name("clients".into()).spawn(move || generator.run()).map_err(BenchError::Thread)?;
    drop(among_clients);
    let mut probe = StatusProbe::connect(config)?;
    let load = LoadThread { handle, thread: loading };
    let readings = Course::new(spec, cluster, &mut probe, watcher).watch(&load);
    if readings.is_err() {
        load.handle.abandon();
    }
    let report = load.thread.join().expect("the load generator does not panic");
    // After a request to stop, errors are expected and ignored.
    let (report, mut readings) = match (report, readings) {
        (Ok(report), Ok(readings)) if partial::goes_on() || !report.window.is_zero() => (report, readings),
        _ if !partial::goes_on() => return Err(BenchError::Interrupted),
        (report, readings) => {
            // A replica that has ended is a better explanation than an unreachable one.
            cluster.check()?;
            let readings = readings?;
            (report?, readings)
        }
    };
    course::settle(&mut probe, &mut readings)?;
    Ok((report, readings))
}

/// Maximum number of starts and ends of a recurring fault in one result.
const MAX_FAULT_EVENTS: usize = 100;

impl BenchSpec {
    /// Returns the starts and ends of misbehaviour in chronological order.
    pub(crate) fn misbehaviour(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.fault.iter().flat_map(|fault| self.events_of(fault)).collect();
        events.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        events
    }

    fn events_of(&self, fault: &Fault) -> Vec<Event> {
        let Fault::Misbehave(_, _, when) = fault else { return Vec::new() };
        if when.lasts.is_none() {
            let time_s = when.at.map_or(0.0 - self.warmup.as_secs_f64(), Interval::as_secs_f64);
            return vec![Event { time_s, text: fault.to_string() }];
        }
        let edges = when.spans_ms(self.duration.as_millis()).flat_map(|(start, end)| {
            let event = |(ms, what): (u64, &str)| Event { time_s: ms as f64 / 1e3, text: format!("{fault} {what}") };
            [Some((start, "begins")), end.map(|end| (end, "ends"))].into_iter().flatten().map(event)
        });
        edges.take_while(|event| event.time_s < self.duration.as_secs_f64()).take(MAX_FAULT_EVENTS).collect()
    }
}
