//! Runs one [`BenchSpec`] on real replicas and real sockets, and measures it.

mod cluster;
mod error;
mod measure;
mod progress;

pub use cluster::{Cluster, client_config, node_template};
pub use error::BenchError;
pub(crate) use measure::timeline;
pub use progress::{Progress, Watcher};

use crate::result::BenchResult;
use crate::spec::{self, BenchSpec, Fault, Pacing, Reply};
use measure::{Readings, Timekeeper};
use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_client::load::{LoadError, LoadGenerator, LoadHandle, LoadMode, LoadOptions};
use quorate_client::session::ReplyMode;
use quorate_client::workload::{KeyValueEncoder, Workload, WorkloadError, WorkloadKind, workload};
use quorate_client::{ClientConfig, StatusProbe, connect, new_origin};
use quorate_types::ClientId;
use std::thread;
use std::time::Duration;

/// How often the harness looks at the load and at the replicas.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long before the end of the measured time the counters are read for the last time, so that it is not over by then.
const READ_AHEAD: Duration = Duration::from_millis(100);
/// How often the replicas' counters are read while the load runs.
const READ_INTERVAL: Duration = Duration::from_millis(1000);
/// How long a replica may take to report.
const READ_TIMEOUT: Duration = Duration::from_millis(2000);
/// How long all replicas may take, after the load, to execute what the quickest has.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the commands of the key-value application for the YCSB workloads.
struct Encoder;

impl KeyValueEncoder for Encoder {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::Put { key, value }.encode(out);
    }
    fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::Get { key }.encode(out);
    }
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::ReadModifyWrite { key, value }.encode(out);
    }
}

/// Commands of a fixed size mean nothing to a key-value store: there each is the value of a put, to one key after another.
struct Puts {
    values: Box<dyn Workload>,
    value: Vec<u8>,
    keys: u64,
    next: u64,
}

impl Workload for Puts {
    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>) {
        self.value.clear();
        self.values.next(client, &mut self.value);
        self.next = (self.next + 1) % self.keys.max(1);
        Encoder.put(&self.next.to_be_bytes(), &self.value, payload);
    }
}

/// Starts the cluster, loads it, hurts it as the spec says, and reports. `watcher` hears how it goes.
pub fn run(spec: &BenchSpec, watcher: &mut dyn Watcher) -> Result<BenchResult, BenchError> {
    spec.validate()?;
    let warnings = spec.warnings();
    warnings.iter().for_each(|warning| watcher.warn(warning));
    let mut cluster = Cluster::start(spec)?;
    let config = cluster.client_config(spec);
    let (generator, handle) = generator(spec, &config)?;
    let loading =
        thread::Builder::new().name("clients".into()).spawn(move || generator.run()).map_err(BenchError::Thread)?;
    let mut probe = StatusProbe::connect(&config)?;
    let readings = watch(spec, &mut cluster, &mut probe, &handle, watcher, || loading.is_finished());
    if readings.is_err() {
        handle.stop();
    }
    let report = loading.join().expect("the load generator does not panic")?;
    let mut readings = readings?;
    settle(&mut probe, &mut readings)?;
    let result = measure::result(spec, &report, readings, warnings, cluster.peak_rss_kb());
    cluster.stop()?;
    Ok(result)
}

/// Loads a cluster that runs already. Only what the clients see is reported.
pub fn load(spec: &BenchSpec, config: &ClientConfig, watcher: &mut dyn Watcher) -> Result<BenchResult, BenchError> {
    spec.validate()?;
    if spec.workload_kind().is_key_value() && config.application != ApplicationKind::KeyValue.name() {
        return Err(BenchError::Application {
            workload: spec.workload.to_string(),
            application: config.application.clone(),
        });
    }
    let (generator, handle) = generator(spec, config)?;
    let loading =
        thread::Builder::new().name("clients".into()).spawn(move || generator.run()).map_err(BenchError::Thread)?;
    let mut probe = StatusProbe::connect(config)?;
    let readings = watch(spec, &mut Cluster::foreign(config), &mut probe, &handle, watcher, || loading.is_finished());
    if readings.is_err() {
        handle.stop();
    }
    let report = loading.join().expect("the load generator does not panic")?;
    let mut readings = readings?;
    settle(&mut probe, &mut readings)?;
    Ok(measure::result(spec, &report, readings, Vec::new(), 0))
}

fn generator(spec: &BenchSpec, config: &ClientConfig) -> Result<(LoadGenerator, LoadHandle), BenchError> {
    let origin = new_origin()?;
    let transport = connect(config, origin)?;
    let commands = commands(spec, config.application == ApplicationKind::KeyValue.name())?;
    let mut session = config.session()?;
    session.reply = match spec.reply {
        Reply::Each => ReplyMode::Each,
        Reply::None => ReplyMode::None,
    };
    let timeout = Duration::from_millis(config.connect_timeout_ms);
    let generator = LoadGenerator::new(transport, origin, session, load_options(spec), commands, timeout)?;
    let handle = generator.handle();
    Ok((generator, handle))
}

/// Makes the commands of a spec, for a cluster that runs the key-value application or not.
pub(crate) fn commands(spec: &BenchSpec, is_key_value: bool) -> Result<Box<dyn Workload>, WorkloadError> {
    let commands =
        workload(&spec.workload_kind(), spec.payload as usize, spec.records, spec.seed, Some(Box::new(Encoder)))?;
    if spec.workload_kind() == WorkloadKind::Fixed && is_key_value {
        return Ok(Box::new(Puts { values: commands, value: Vec::new(), keys: spec.records, next: 0 }));
    }
    Ok(commands)
}

/// How much load a spec asks for.
pub(crate) fn load_options(spec: &BenchSpec) -> LoadOptions {
    let mode = match spec.pacing() {
        Pacing::Closed { outstanding } => LoadMode::Closed { outstanding: outstanding as usize },
        Pacing::Open { rate } => {
            LoadMode::Open { rate: rate as f64, most_outstanding: quorate_client::load::DEFAULT_MOST_OUTSTANDING }
        }
    };
    LoadOptions {
        clients: spec.clients as usize,
        mode,
        bundle: spec.bundle_commands(),
        warmup: spec.warmup.into(),
        duration: spec.duration.into(),
        ..LoadOptions::default()
    }
}

impl BenchSpec {
    /// The workload as the client library knows it.
    pub fn workload_kind(&self) -> WorkloadKind {
        match &self.workload {
            spec::Workload::Fixed => WorkloadKind::Fixed,
            spec::Workload::YcsbA => WorkloadKind::YcsbA,
            spec::Workload::YcsbB => WorkloadKind::YcsbB,
            spec::Workload::YcsbC => WorkloadKind::YcsbC,
            spec::Workload::YcsbF => WorkloadKind::YcsbF,
            spec::Workload::File(path) => WorkloadKind::File(path.into()),
        }
    }
}

/// Reads the replicas' counters at the edges of the measured time and in between, and kills whom the spec says when it says.
fn watch(
    spec: &BenchSpec,
    cluster: &mut Cluster,
    probe: &mut StatusProbe,
    handle: &LoadHandle,
    watcher: &mut dyn Watcher,
    finished: impl Fn() -> bool,
) -> Result<Readings, BenchError> {
    let mut time = Timekeeper::default();
    let mut readings = Readings::default();
    let mut crashes = spec.crashes();
    crashes.sort_by_key(|(_, at)| Duration::from(*at));
    for fault in spec.fault.iter().filter(|fault| !matches!(fault, Fault::Crash(..))) {
        readings.event(-spec.warmup.as_secs_f64(), fault.to_string());
    }
    let mut last_read = None;
    while !finished() {
        let load = handle.progress();
        time.observe(&load);
        let measured = time.measured();
        if measured.is_some() && readings.is_empty() {
            readings.add(probe.read(READ_TIMEOUT)?);
        }
        while let (Some(now), Some((replica, at))) = (measured, crashes.first().copied()) {
            if now < Duration::from(at) {
                break;
            }
            crashes.remove(0);
            cluster.kill(replica)?;
            readings.killed(replica);
            readings.event(time.measured().unwrap_or(now).as_secs_f64(), format!("replica {replica} killed"));
        }
        if load.stage == "measure"
            && !readings.is_closed()
            && last_read.is_none_or(|at: std::time::Instant| at.elapsed() >= READ_INTERVAL)
        {
            last_read = Some(std::time::Instant::now());
            readings.add(probe.read(READ_TIMEOUT)?);
        }
        watcher.progress(&Progress { load: &load, replica: readings.latest() });
        let nearly_over = measured.is_some_and(|now| now + READ_AHEAD >= Duration::from(spec.duration));
        if nearly_over && !readings.is_closed() {
            readings.add(probe.read(READ_TIMEOUT)?);
            readings.close();
        }
        cluster.check()?;
        thread::sleep(LOOK_INTERVAL);
    }
    if !readings.is_closed() {
        readings.add(probe.read(READ_TIMEOUT)?);
        readings.close();
    }
    Ok(readings)
}

/// Waits until the live replicas have executed the same height, so that their histories can be compared.
fn settle(probe: &mut StatusProbe, readings: &mut Readings) -> Result<(), BenchError> {
    let start = std::time::Instant::now();
    loop {
        let statuses = probe.read_histories(READ_TIMEOUT)?;
        let heights: Vec<_> = statuses.iter().flatten().map(|status| status.height).collect();
        let level = heights.windows(2).all(|pair| pair[0] == pair[1]);
        if level || start.elapsed() >= SETTLE_TIMEOUT {
            readings.end = statuses;
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

impl From<LoadError> for BenchError {
    fn from(error: LoadError) -> BenchError {
        BenchError::Load(error)
    }
}
