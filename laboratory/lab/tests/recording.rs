//! Recordings replay exactly, and differences are reported.

use quorate_hosting::recording::{Entry, Header, Reader, Tape, Writer};
use quorate_lab::BenchSpec;
use quorate_lab::bench::{self, Progress, Watcher};
use quorate_lab::replay::{self, ReplayArgs, ReplayResult};
use quorate_lab::sim::{self, ClientPlaces, SimOptions};
use quorate_lab::spec::{ClientAuthentication, Interval, ProtocolKind, ReplicaThreads};
use quorate_operator::report::Report;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects warnings.
#[derive(Default)]
struct Listener(Vec<String>);

impl Watcher for Listener {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, warning: &str) {
        self.0.push(warning.to_owned());
    }
}

/// Temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("quorate-lab-recording-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a test's path is UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spec(protocol: ProtocolKind, record: &str) -> BenchSpec {
    {
        let mut spec = BenchSpec {
            clients: 2,
            outstanding: Some(200),
            warmup: Interval::from_millis(100),
            duration: Interval::from_millis(300),
            record: Some(record.parse().expect("a place")),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = protocol;
        spec
    }
}

fn arguments(file: &Path) -> ReplayArgs {
    ReplayArgs { file: file.to_owned(), transcript: false, until: None, requests: None, json: None }
}

fn replay_file(file: &Path) -> ReplayResult {
    replay::run(&arguments(file), None).expect("a recording")
}

#[test]
fn real_replicas_of_every_protocol_are_replayed_exactly() {
    for protocol in ProtocolKind::ALL {
        let scratch = Scratch::new();
        let spec = spec(*protocol, &scratch.path("recordings"));
        bench::run(&spec, &mut Listener::default()).expect("a cluster");
        let recordings = spec.recordings();
        assert_eq!(recordings.len(), 4);
        for (replica, file) in (0..).zip(&recordings) {
            let result = replay_file(file);
            assert_eq!(result.failure(), None, "{protocol}:\n{}", result.to_table());
            assert_eq!((result.end, &result.recorded, result.simulated), ("complete", &vec![replica], false));
            assert!(result.commands > 0 && result.rerun.is_none(), "{protocol}: {result:?}");
        }
    }
}

#[test]
fn real_replicas_of_several_threads_are_replayed_exactly() {
    for replica_threads in [2, 4].map(ReplicaThreads::Count) {
        let scratch = Scratch::new();
        let client_authentication = ClientAuthentication::Ed25519;
        let recorded = spec(ProtocolKind::Jolteon, &scratch.path("recordings"));
        let spec = {
            let mut spec = recorded;
            spec.node.replica_threads = replica_threads;
            spec.node.client_authentication = client_authentication;
            spec
        };
        bench::run(&spec, &mut Listener::default()).expect("a cluster");
        for file in &spec.recordings() {
            let result = replay_file(file);
            assert_eq!(result.failure(), None, "{replica_threads}:\n{}", result.to_table());
            assert!(result.end == "complete" && result.commands > 0, "{replica_threads}: {result:?}");
        }
    }
}

#[test]
fn a_single_replica_is_recorded_and_a_misbehaving_one_as_honest() {
    let scratch = Scratch::new();
    let place = format!("3:{}", scratch.path("silent.recording"));
    let fault = vec!["silent:3".parse().expect("a fault")];
    let spec = BenchSpec { fault, ..spec(ProtocolKind::Jolteon, &place) };
    for _ in 0..2 {
        // The second run replaces the first one's recording.
        bench::run(&spec, &mut Listener::default()).expect("a cluster");
        assert_eq!(std::fs::read_dir(&scratch.0).expect("a directory").count(), 1);
    }
    let mut lines = Vec::new();
    let mut tell = |line: &str| lines.push(line.to_owned());
    let args = ReplayArgs { transcript: true, ..arguments(Path::new(&scratch.path("silent.recording"))) };
    let result = replay::run(&args, Some(&mut tell)).expect("a recording");
    assert_eq!(result.failure(), None, "{}", result.to_table());
    assert!(lines.iter().any(|line| line.contains("sends R0: Vote(")), "its honest vote is recorded");
}

#[test]
fn the_times_of_requests_are_reported() {
    let scratch = Scratch::new();
    let file = scratch.path("run.recording");
    let options = SimOptions::default();
    sim::run(&spec(ProtocolKind::Jolteon, &file), &options, &|_| {}).expect("a sound spec");
    let args = ReplayArgs { requests: Some(3), ..arguments(Path::new(&file)) };
    let result = replay::run(&args, None).expect("a recording");
    let requests = result.requests.as_ref().expect("they were asked for");
    // All four replicas commit each bundle, and the fixed leader proposes it.
    assert!(requests.proposed > 0 && requests.bundles.abs_diff(4 * requests.proposed) <= requests.open, "{requests:?}");
    assert!(requests.commands as u64 <= 4 * result.commands, "{requests:?}");
    let [wait, rest, together] = [requests.until_proposal, requests.until_commit, requests.together];
    let [wait, rest, together] = [wait, rest, together].map(|quantiles| quantiles.expect("there are requests"));
    for quantiles in [wait, rest, together] {
        assert!(quantiles.p50_ms <= quantiles.p90_ms && quantiles.p90_ms <= quantiles.p99_ms, "{quantiles:?}");
        assert!(
            quantiles.p99_ms <= quantiles.max_ms && quantiles.max_ms <= wait.max_ms + rest.max_ms.max(together.max_ms)
        );
    }
    let slowest = &requests.slowest;
    assert_eq!((slowest.len(), slowest[0].latency_ms), (3, together.max_ms));
    assert!(slowest.is_sorted_by(|one, next| one.latency_ms >= next.latency_ms), "{slowest:?}");
    let table = result.to_table();
    assert!(table.contains("arrival to proposal") && table.contains(&slowest[2].bundle), "{table}");
}

#[test]
fn a_recording_ends_at_its_limit_and_the_run_continues() {
    let scratch = Scratch::new();
    let mut spec = spec(ProtocolKind::Jolteon, &scratch.path("recordings"));
    (spec.record_limit_mb, spec.payload) = (1, 4000);
    let mut listener = Listener::default();
    let result = bench::run(&spec, &mut listener).expect("a cluster");
    let said = |warnings: &[String]| warnings.iter().any(|warning| warning.contains("--record-limit-mb above 1"));
    assert!(said(&result.warnings) && said(&listener.0), "{:?}", result.warnings);
    let replayed = replay_file(&spec.recordings()[0]);
    assert_eq!((replayed.end, replayed.failure()), ("limit", None));
    assert!(replayed.to_table().contains("reached its size limit"));
}

#[test]
fn a_simulated_run_is_replayed_and_reproduced() {
    for (number, protocol) in ProtocolKind::ALL.iter().enumerate() {
        let scratch = Scratch::new();
        let file = scratch.path("run.recording");
        let recorded = spec(*protocol, &file);
        // Every other run has two client machines.
        let clients_at = (number % 2 == 1).then_some(ClientPlaces::Clients);
        let options = SimOptions { loss: Some(0.01), clients_at, ..SimOptions::default() };
        let with = sim::run(&recorded, &options, &|_| {}).expect("a sound spec");
        let without = sim::run(&BenchSpec { record: None, ..recorded }, &options, &|_| {}).expect("a sound spec");
        assert_eq!(with.trace_hash, without.trace_hash, "{protocol}: recording changes nothing");
        assert!(!with.bench.command.contains("--record"), "{}", with.bench.command);
        let result = replay_file(Path::new(&file));
        assert_eq!(result.failure(), None, "{protocol}:\n{}", result.to_table());
        assert_eq!((result.end, result.recorded.len(), result.simulated), ("complete", 4, true));
        let rerun = result.rerun.expect("a rerun");
        assert_eq!(rerun.steps, result.steps);
        assert_eq!(
            (rerun.trace_hash.as_ref(), rerun.recorded_trace.as_ref()),
            (Some(&with.trace_hash), Some(&with.trace_hash))
        );
    }
}

/// Copies a recording with a modified header.
fn with_header(file: &str, other: &str, change: impl Fn(&mut Header)) {
    let mut reader = Reader::open(Path::new(file)).expect("a recording");
    let mut header = reader.header().clone();
    change(&mut header);
    let mut writer = Writer::create(Path::new(other), &header, u64::MAX).expect("it can be written");
    while let Some(entry) = reader.next_entry().expect("a sound recording") {
        match entry {
            Entry::Begin(begin) => writer.begin(begin),
            Entry::Step(step) => writer.step(step),
            Entry::End(_) => unreachable!("a reader returns no end"),
        }
    }
    writer.finish(None).expect("it can be written");
}

#[test]
fn a_different_or_impossible_rerun_is_reported() {
    let scratch = Scratch::new();
    let [file, seed, sense] = ["run", "seed", "sense"].map(|name| scratch.path(name));
    sim::run(&spec(ProtocolKind::Jolteon, &file), &SimOptions::default(), &|_| {}).expect("a sound spec");
    with_header(&file, &seed, |header| {
        header.simulation.as_mut().expect("it was simulated")["seed"] = 77.into();
    });
    let result = replay_file(Path::new(&seed));
    assert_eq!(result.difference, None, "the replicas repeat their steps");
    let difference = result.rerun.as_ref().and_then(|rerun| rerun.difference.clone()).expect("another seed");
    assert_eq!(difference.after_steps, 0);
    assert!(difference.recorded.contains("salt") && difference.happened.contains("salt"), "{difference:?}");
    assert!(result.failure().expect("a failure").contains("the run differs from its recording"));
    with_header(&file, &sense, |header| {
        header.simulation.as_mut().expect("it was simulated")["spec"]["replicas"] = 0.into();
    });
    let result = replay_file(Path::new(&sense));
    assert!(
        result.failure().expect("a failure").contains("cannot be reproduced: --replicas"),
        "{:?}",
        result.failure()
    );
}

#[test]
fn a_replica_with_another_configuration_differs_at_a_step() {
    let scratch = Scratch::new();
    let [file, other] = ["run", "other"].map(|name| scratch.path(name));
    let spec = spec(ProtocolKind::Pbft, &format!("0:{file}"));
    bench::run(&spec, &mut Listener::default()).expect("a cluster");
    with_header(&file, &other, |header| header.consensus.batch = 17.into());
    let result = replay_file(Path::new(&other));
    let difference = result.difference.as_ref().expect("its blocks are smaller");
    assert!(difference.step > 1 && difference.what.contains("action"), "{difference:?}");
    let table = result.to_table();
    for words in [format!("difference  step {}, replica 0", difference.step), "recorded  ".into(), "replayed  ".into()]
    {
        assert!(table.contains(&words), "{table}");
    }
    assert!(result.failure().expect("a failure").contains(&format!("step {}", difference.step)));
}

#[test]
fn an_impossible_recording_is_refused_with_help() {
    let scratch = Scratch::new();
    let run = |spec: &BenchSpec, options: &SimOptions| {
        sim::run(spec, options, &|_| {}).expect_err("an impossible recording").to_string()
    };
    let several = SimOptions { seeds: Some(3..9), ..SimOptions::default() };
    let said = run(&spec(ProtocolKind::Jolteon, &scratch.path("run")), &several);
    assert!(said.contains("--seeds 3..4"), "{said}");
    let said = run(&spec(ProtocolKind::Jolteon, "2:run"), &SimOptions::default());
    assert!(said.contains("without `2:`"), "{said}");
    let nowhere = spec(ProtocolKind::Jolteon, "0:/dev/null/nowhere");
    let said = bench::run(&nowhere, &mut Listener::default()).expect_err("it cannot be written").to_string();
    assert!(said.contains("/dev/null/nowhere"), "{said}");
    let absent = spec(ProtocolKind::Jolteon, "7:file").validate().expect_err("there is no such replica").to_string();
    assert!(absent.contains("there is no replica 7; the last one is 3"), "{absent}");
}
