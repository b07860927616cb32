//! Changing loads, the search for saturation, and the per-second series.

use crate::common::Quiet;
use proptest::prelude::*;
use quorate_lab::affinity::{Pinned, available};
use quorate_lab::bench;
use quorate_lab::result::{BenchResult, Second};
use quorate_lab::search::{MAX_PROBES, PRECISION, Probe, next_rate};
use quorate_lab::sim::{self, SimOptions, SimResult};
use quorate_lab::spec::{BenchSpec, Interval, LeaderKind, LoadProfile, Pacing};
use quorate_operator::report::Report;

fn spec(toml: &str) -> BenchSpec {
    BenchSpec::from_toml(toml, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn simulate(spec: &BenchSpec) -> SimResult {
    sim::run(spec, &SimOptions::default(), &|_| {}).expect("a sound spec")
}

#[test]
fn profiles_are_written_as_they_are_read() {
    for text in [
        "ramp:1000..50000/30s",
        "ramp:500..20/1m",
        "steps:1000,2000,4000/10s",
        "double:20/5s",
        "double:20..640/5s",
        "double-rate:1000/500ms",
        "double-rate:1000..64000/5s",
    ] {
        assert_eq!(text.parse::<LoadProfile>().expect("a profile").to_string(), text);
    }
}

#[test]
fn a_wrong_profile_gets_one_error_with_the_forms() {
    for (text, why) in [
        ("ramp", "the values are missing"),
        ("ramp:1..2", "the time is missing"),
        ("ramp:1/2s", "a ramp has two rates"),
        ("ramp:1..2/2", "the unit is missing"),
        ("ramp:1..2/0s", "`0s` is no time"),
        ("ramp:0..2/1s", "`0` is not a whole number from 1"),
        ("steps:/1s", "`` is not a whole number"),
        ("steps:5,x/1s", "`x` is not a whole number"),
        ("double:9..5/1s", "5 is less than 9"),
        ("treble:9/1s", "`treble` is not a kind of profile"),
        ("steps:1,2,3,4,5,6,7,8,9/6000m", "longer than a week"),
    ] {
        let error = text.parse::<LoadProfile>().expect_err(text).to_string();
        assert!(error.contains(why) && error.contains("steps:1000,2000,4000/10s"), "{text}: {error}");
    }
}

#[test]
fn a_profile_sets_the_duration_and_excludes_other_paces() {
    let doubled = spec("load_profile = \"double:20/5s\"");
    assert_eq!((doubled.duration, doubled.outstanding), (Interval::from_millis(30_000), None));
    assert_eq!((doubled.pacing(), doubled.most_pacing()), (closed(20), closed(640)));
    assert_eq!(spec("load_profile = \"ramp:10..20/3s\"\nduration = \"4s\"").duration, Interval::from_millis(4000));
    let refused = |toml: &str| BenchSpec::from_toml(toml, "test.toml").expect_err(toml).to_string();
    for (toml, parts) in [
        ("load_profile = \"ramp:10..20/3s\"\nduration = \"2s\"", ["--load-profile, --duration", "takes 3s, but 2s"]),
        ("load_profile = \"ramp:10..20/3s\"\nrate = 5", ["--load-profile, --rate", "decides the load by itself"]),
        ("load_profile = \"ramp:10..20/3s\"\nsearch = true", ["--load-profile, --search", "omit one of them"]),
        ("load_profile = \"double:9..90000000/1s\"", ["--load-profile", "exceed 16000000"]),
        ("search = true\noutstanding = 5", ["--search, --outstanding", "open loop"]),
        ("search = true\nrecord = \"r\"", ["--search, --record", "several runs"]),
        ("search_p99_ms = 0", ["line 1, key `search_p99_ms`", "set 1 to"]),
        ("samples = 100001", ["line 1, key `samples`", "set 0 to 100000"]),
    ] {
        let error = refused(toml);
        assert!(parts.iter().all(|part| error.contains(part)), "{toml}: {error}");
    }
}

fn closed(outstanding: u32) -> Pacing {
    Pacing::Closed { outstanding }
}

#[test]
fn each_step_has_a_row_and_the_simulator_completes_what_is_due() {
    let base = "warmup = \"100ms\"\nclients = 2\n";
    let steps = simulate(&spec(&format!("{base}load_profile = \"steps:1000,3000,2000/400ms\""))).bench;
    let rates: Vec<Option<f64>> = steps.steps.iter().map(|step| step.rate).collect();
    assert_eq!(rates, [Some(1000.0), Some(3000.0), Some(2000.0)]);
    assert_eq!(steps.steps.iter().map(|step| step.from_s).collect::<Vec<_>>(), [0.0, 0.4, 0.8]);
    assert_eq!((steps.steps[2].to_s, steps.spec.duration.as_millis()), (1.2, 1200));
    for step in &steps.steps {
        let rate = step.rate.expect("an open loop");
        assert!((step.throughput_ops - rate).abs() <= 0.02 * rate, "{step:?}");
        assert!(step.p50_ms <= step.p99_ms && step.p50_ms.is_some());
    }
    assert_eq!(steps.to_table().matches("commands/s offered, ").count(), 3);

    let ramp = simulate(&spec(&format!("{base}load_profile = \"ramp:1000..11000/1s\""))).bench;
    let rates: Vec<f64> = ramp.steps.iter().map(|step| step.rate.expect("an open loop").round()).collect();
    assert_eq!(rates, (0..10).map(|row| 1500.0 + 1000.0 * f64::from(row)).collect::<Vec<_>>());
    assert!((ramp.committed_commands as f64 - 6000.0).abs() < 60.0, "{}", ramp.committed_commands);
}

#[test]
fn a_doubling_closed_loop_completes_more_until_it_is_saturated() {
    let result = simulate(&spec("warmup = \"50ms\"\nclients = 2\nload_profile = \"double:1..8/200ms\"")).bench;
    let outstanding: Vec<Option<u64>> = result.steps.iter().map(|step| step.outstanding).collect();
    assert_eq!(outstanding, [Some(1), Some(2), Some(4), Some(8)]);
    assert!(result.steps.windows(2).all(|pair| pair[1].throughput_ops > 1.2 * pair[0].throughput_ops));
    let read: BenchResult = serde_json::from_str(&result.to_json()).expect("what was written");
    assert_eq!(read, result);
}

/// Runs a search on a cluster that sustains `capacity` commands per second.
fn search_up_to(capacity: f64, first: u64) -> Vec<Probe> {
    let mut probes = Vec::new();
    while let Some(rate) = next_rate(first, &probes) {
        let ok = rate as f64 <= capacity;
        probes.push(Probe { rate, throughput: capacity.min(rate as f64), p99_ms: Some(1.0), ok });
    }
    probes
}

proptest! {
    #[test]
    fn a_search_finds_the_capacity_in_few_runs(capacity in 1.0f64..5e6, first in 1u64..1_000_000) {
        let probes = search_up_to(capacity, first);
        let found = probes.iter().filter(|probe| probe.ok).map(|probe| probe.rate).max().expect("one is sustained");
        prop_assert!(probes.len() < MAX_PROBES, "{} runs", probes.len());
        prop_assert!((found + 1) as f64 * PRECISION > capacity, "{found} of {capacity}");
        let rates: std::collections::BTreeSet<u64> = probes.iter().map(|probe| probe.rate).collect();
        prop_assert_eq!(rates.len(), probes.len(), "no rate is tried twice");
    }
}

#[test]
fn a_search_ends_if_no_rate_is_sustained() {
    let probes = search_up_to(0.0, 1000);
    assert_eq!(probes.last().map(|probe| probe.rate), Some(1));
}

#[test]
fn a_search_in_the_simulator_finds_the_saturation_and_repeats_itself() {
    let text =
        "search = true\nrate = 20000\nsearch_p99_ms = 20\nwarmup = \"100ms\"\nduration = \"300ms\"\nclients = 2\n";
    let result = simulate(&spec(text));
    let search = result.bench.search.clone().expect("a search");
    let found = search.rate.expect("some rate is sustained");
    assert!(search.probes.iter().any(|probe| !probe.ok), "{search:?}");
    for probe in &search.probes {
        assert!(probe.ok || probe.rate > found, "{search:?}");
        let keeps_up = (probe.throughput - probe.rate as f64).abs() <= 0.05 * probe.rate as f64;
        assert_eq!(probe.ok, keeps_up && probe.p99_ms.is_some_and(|p99| p99 <= 20.0), "{probe:?}");
    }
    assert_eq!(result.bench.spec.rate, Some(found), "the figures are those of the rate found");
    assert!(result.bench.command.contains("--search --search-p99-ms 20"), "{}", result.bench.command);
    assert_eq!(result.to_table().matches(" probe ").count(), search.probes.len());
    assert_eq!(simulate(&spec(text)).bench.search, Some(search));
    let several = SimOptions { seeds: Some(1..3), ..SimOptions::default() };
    let error = sim::run(&spec(text), &several, &|_| {}).expect_err("several seeds").to_string();
    assert!(error.contains("--search, --seeds"), "{error}");
}

#[test]
fn commands_that_wait_for_others_share_messages_and_the_wait_counts() {
    let run = |wait_ms: u64| {
        let load = "rate = 2000\nclients = 1\nwarmup = \"200ms\"\nduration = \"1s\"";
        simulate(&spec(&format!("{load}\nbundle_wait_ms = {wait_ms}"))).bench
    };
    let (at_once, together) = (run(0), run(10));
    let messages = |it: &BenchResult| it.messages_per_block.expect("counted") * it.committed_blocks as f64;
    let (few, many) = (messages(&together), messages(&at_once));
    assert!(few < many / 5.0, "{few} of {many} messages");
    let mean = |it: &BenchResult| it.latency_ms.mean.expect("measured");
    let later = mean(&together) - mean(&at_once);
    assert!((4.0..6.0).contains(&later), "commands due evenly within 10 ms wait 5 ms on average, not {later}");
}

#[test]
fn samples_are_requests_of_the_measured_time() {
    let text = "outstanding = 50\nwarmup = \"100ms\"\nduration = \"300ms\"\nclients = 2\n";
    let (without, with) = (simulate(&spec(text)), simulate(&spec(&format!("{text}samples = 400\n"))));
    assert_eq!(without.trace_hash, with.trace_hash, "sampling changes nothing");
    assert!(without.bench.samples.is_empty() && !without.to_json().contains("\"samples\": ["));
    let samples = &with.bench.samples;
    assert_eq!(samples.len(), 400);
    assert!(samples.is_sorted_by(|one, next| one.at_s <= next.at_s));
    assert!(samples.iter().all(|sample| (0.0..0.3).contains(&sample.at_s)));
    assert!(samples[0].at_s < 0.05 && samples[399].at_s > 0.25, "they are spread over the measured time");
    let most = with.bench.latency_ms.max.expect("there are commands") * 1.001;
    assert!(samples.iter().all(|sample| (0.0..=most).contains(&sample.latency_ms)), "{most}");
    let median = with.bench.latency_ms.p50.expect("there are commands");
    let below = samples.iter().filter(|sample| sample.latency_ms <= median * 1.001).count();
    assert!((150..=400).contains(&below), "{below} of 400 are at most the median of {median} ms");
    let json: serde_json::Value = serde_json::from_str(&with.to_json()).expect("JSON");
    assert_eq!(json["samples"][7]["latency_ms"].as_f64(), Some(samples[7].latency_ms));
    assert_eq!(json["samples"][7]["at_s"].as_f64(), Some(samples[7].at_s));
    assert!(with.bench.command.contains("--samples 400"), "{}", with.bench.command);
}

/// A leader is silent for one second of a three-second run.
#[test]
fn each_second_counts_what_the_replicas_did() {
    let spec = {
        let mut spec = BenchSpec {
            clients: 2,
            outstanding: Some(50),
            warmup: Interval::from_millis(150),
            duration: Interval::from_millis(3000),
            fault: vec!["silent:1@1s+1s".parse().expect("a fault")],
            ..BenchSpec::default()
        };
        spec.node.consensus.leader = LeaderKind::RoundRobin;
        spec.node.consensus.view_timeout_ms = 100;
        spec
    };
    let result = simulate(&spec).bench;
    let sum =
        |of: fn(&Second) -> Option<u64>| result.timeline.iter().map(|second| of(second).expect("known")).sum::<u64>();
    assert_eq!(result.timeline.len(), 3);
    assert!(sum(|second| second.views).abs_diff(result.views) <= 1, "replicas enter a view at different times");
    assert_eq!(sum(|second| second.view_timeouts), result.view_timeouts);
    assert_eq!(sum(|second| Some(second.ops)), result.committed_commands);
    let timeouts: Vec<Option<u64>> = result.timeline.iter().map(|second| second.view_timeouts).collect();
    assert!(timeouts[0] == Some(0) && timeouts[1] > timeouts[2].map(|rest| 3 * rest), "{timeouts:?}");
    for second in &result.timeline {
        let executed = second.executed_commands.expect("known");
        assert!(executed.abs_diff(second.ops) <= 2 * 100, "at most the commands in flight differ: {second:?}");
    }
}

/// A leader is silent in the second and the fourth of five spans.
#[test]
fn throughput_after_misbehaviour_is_compared_with_that_before_it() {
    let run = |fault: &str| {
        let spec = {
            let mut spec = BenchSpec {
                clients: 2,
                outstanding: Some(50),
                warmup: Interval::from_millis(150),
                duration: Interval::from_millis(2000),
                fault: vec![fault.parse().expect("a fault")],
                ..BenchSpec::default()
            };
            spec.node.consensus.leader = LeaderKind::RoundRobin;
            spec.node.consensus.view_timeout_ms = 100;
            spec
        };
        simulate(&spec).bench
    };
    let result = run("silent:1@400ms+400ms/800ms");
    let recovered = result.recovery_percent.expect("it stops twice");
    // The last timeout of a span ends after it. Counting that span would lower the figure to about half.
    let healthy = run("silent:1@1900ms").throughput_ops;
    assert!((80.0..110.0).contains(&recovered), "{recovered} %");
    assert!(result.throughput_ops < 0.75 * healthy, "{} of {healthy}", result.throughput_ops);
    let in_flight = 2 * 100;
    assert!(result.executed_commands.abs_diff(result.committed_commands) <= in_flight, "{}", result.to_json());
    for never_over in ["silent:1@400ms", "silent:1", "silent:1@0s+400ms"] {
        assert_eq!(run(never_over).recovery_percent, None, "{never_over}");
    }
}

#[test]
fn a_real_cluster_reports_each_second_and_runs_on_the_given_cores() {
    let spec = BenchSpec {
        clients: 1,
        outstanding: Some(20),
        warmup: Interval::from_millis(100),
        duration: Interval::from_millis(2000),
        cores: 1,
        ..BenchSpec::default()
    };
    let before = available();
    let result = bench::run(&spec, &mut Quiet).expect("a cluster");
    assert_eq!(available(), before, "the cores are given back");
    assert_eq!(result.timeline.len(), 2);
    assert!(result.timeline.iter().all(|second| second.executed_commands.is_some() && second.views.is_some()));
    assert!(result.command.contains("--cores 1"));
}

#[test]
fn a_search_on_a_real_cluster_judges_each_run() {
    let text = "search = true\nrate = 100\nsearch_p99_ms = 1\nwarmup = \"50ms\"\nduration = \"200ms\"\nclients = 1\n\
                view_timeout_ms = 100\nfault = [\"silent:0\"]\nleader = \"round-robin\"\n";
    let result = bench::run(&spec(text), &mut Quiet).expect("a cluster");
    let search = result.search.expect("a search");
    assert_eq!(search.rate, search.probes.iter().filter(|probe| probe.ok).map(|probe| probe.rate).max());
    assert!(!search.probes.is_empty() && search.probes.len() <= MAX_PROBES);
}

#[test]
fn threads_started_while_pinned_stay_on_the_cores() {
    let before = available();
    let pinned = Pinned::to(1).expect("a core");
    assert_eq!(available(), 1);
    assert_eq!(std::thread::spawn(available).join().expect("no panic"), 1);
    drop(pinned);
    assert_eq!(available(), before);
    let error = Pinned::to(before + 1).err().expect("too many").to_string();
    assert!(error.contains(&format!("the {before} that this machine offers")), "{error}");
}

#[test]
fn more_cores_than_the_machine_has_are_refused_with_their_number() {
    let cores = available() + 1;
    let error =
        bench::run(&BenchSpec { cores: cores as u32, ..BenchSpec::default() }, &mut Quiet).expect_err("too many");
    let said = error.to_string();
    let parts = ["--cores".to_owned(), format!("the {} that", cores - 1), format!("quorate sim --cores {cores}")];
    assert!(error.is_wrong_call() && parts.iter().all(|part| said.contains(part)), "{said}");
}
