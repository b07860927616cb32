//! Several client machines, as placed by the laboratory.

use quorate_lab::sim::{self, ClientPlaces, SimOptions, SimResult};
use quorate_lab::spec::BenchSpec;
use quorate_operator::report::Report;
use quorate_simulator::NetworkSpec;

fn spec(toml: &str) -> BenchSpec {
    BenchSpec::from_toml(toml, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn at(network: &str, places: &str) -> SimOptions {
    let clients_at = Some(places.parse().expect("places"));
    SimOptions { network: network.to_owned(), clients_at, ..SimOptions::default() }
}

fn simulate(spec: &BenchSpec, options: &SimOptions) -> SimResult {
    sim::run(spec, options, &|_| {}).expect("a sound spec")
}

const SHORT: &str = "clients = 5\nwarmup = \"200ms\"\nduration = \"1s\"\n";

#[test]
fn places_are_written_as_they_are_read() {
    for text in ["one", "clients", "replicas", "ohio", "ohio,oregon,ohio", "some/where.toml"] {
        assert_eq!(text.parse::<ClientPlaces>().expect("places").to_string(), text);
        let options = at("us4", text);
        assert_eq!(options.arguments(), ["--network", "us4", "--clients-at", text]);
    }
    let error = "ohio,,oregon".parse::<ClientPlaces>().expect_err("a gap").to_string();
    assert!(error.contains("a name is missing") && error.contains("replicas"), "{error}");
}

#[test]
fn a_result_has_the_figures_of_each_machine() {
    let result = simulate(&spec(&format!("{SHORT}outstanding = 10")), &at("us4", "ohio,oregon"));
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("JSON");
    let machines = json["client_machines"].as_array().expect("a list");
    let told: Vec<_> =
        machines.iter().map(|machine| (&machine["place"], &machine["replica"], &machine["clients"])).collect();
    assert_eq!(serde_json::json!(told), serde_json::json!([("ohio", 1, 3), ("oregon", 3, 2)]));
    let committed: u64 = machines.iter().map(|machine| machine["committed"].as_u64().expect("a count")).sum();
    assert_eq!(committed, result.bench.committed_commands);
    for key in
        ["throughput_per_s", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms", "commit_mean_ms", "commit_p99_ms"]
    {
        assert!(machines.iter().all(|machine| machine[key].as_f64().is_some_and(|value| value > 0.0)), "{key}");
    }
    // The round trip between Ohio and the leader in Virginia is 12 ms, and from Oregon 72 ms.
    let p50 = |machine: usize| machines[machine]["p50_ms"].as_f64().expect("a latency");
    assert!(p50(1) - p50(0) > 20.0, "{machines:?}");
    assert!(json["commit_latency_ms"]["p50"].as_f64() < json["latency_ms"]["p50"].as_f64());
    let table = result.to_table();
    assert!(
        table.contains("ohio, 3 clients at replica 1") && table.contains("oregon, 2 clients at replica 3"),
        "{table}"
    );
    assert!(result.bench.command.contains("--clients-at ohio,oregon"), "{}", result.bench.command);
    let alone = simulate(&spec(&format!("{SHORT}outstanding = 10")), &at("us4", "one"));
    assert_eq!(alone.client_machines.len(), 1);
    assert!(!alone.to_table().contains("at replica"), "one machine needs no line");
}

#[test]
fn a_file_places_machines_and_its_errors_name_it() {
    let path = std::env::temp_dir().join(format!("quorate-lab-machines-{}.toml", std::process::id()));
    let name = path.to_str().expect("UTF-8").to_owned();
    let run = |text: &str| {
        std::fs::write(&path, text).expect("the temporary directory can be written");
        let result = sim::run(&spec(&format!("{SHORT}outstanding = 1")), &at("us4", &name), &|_| {});
        std::fs::remove_file(&path).expect("it is there");
        result.map_err(|error| error.to_string())
    };
    let machines =
        run("[[machine]]\nregion = \"ohio\"\nclients = 1\n[[machine]]\nreplica = 2\n").expect("a sound file");
    let told: Vec<_> = machines
        .client_machines
        .iter()
        .map(|machine| (machine.place.as_deref(), machine.replica.0, machine.clients))
        .collect();
    assert_eq!(told, [(Some("ohio"), 1, 1), (Some("n-california"), 2, 4)]);
    for (text, words) in [
        ("[[machine]]\nrack = 2\n", "rack"),
        ("[[machine]]\nregion = \"ohio\"\nclients = 9\n", "5 clients are too few"),
        ("[[machine]]\nreplica = 4\n", "names replica 4"),
    ] {
        let error = run(text).expect_err("an invalid file");
        assert!(error.contains(words) && error.contains("; help: "), "{error}");
    }
    let error = sim::run(&spec(SHORT), &at("lan", &name), &|_| {}).expect_err("no such file").to_string();
    assert!(error.contains("cannot read") && error.contains(&name), "{error}");
    let error = sim::run(&spec(SHORT), &at("lan", "ohio"), &|_| {}).expect_err("no regions").to_string();
    assert!(error.contains("`lan` has no regions"), "{error}");
}

#[test]
fn loads_that_change_are_split_over_machines() {
    let ramp = simulate(
        &spec("warmup = \"200ms\"\nclients = 4\nload_profile = \"ramp:1000..11000/1s\""),
        &at("us4", "replicas"),
    );
    let rates: Vec<f64> = ramp.bench.steps.iter().map(|step| step.rate.expect("an open loop").round()).collect();
    assert_eq!(rates, (0..10).map(|row| 1500.0 + 1000.0 * f64::from(row)).collect::<Vec<_>>());
    let due: u64 = ramp.bench.latency_histogram.iter().map(|bucket| bucket.count).sum();
    assert!(due.abs_diff(6000) < 30, "{due} commands were due");
    let text = "warmup = \"500ms\"\nclients = 4\nload_profile = \"double:1..8/1s\"";
    let doubling = simulate(&spec(text), &at("us4", "replicas")).bench;
    let outstanding: Vec<Option<u64>> = doubling.steps.iter().map(|step| step.outstanding).collect();
    assert_eq!(outstanding, [Some(1), Some(2), Some(4), Some(8)]);
    assert!(doubling.steps.windows(2).all(|pair| pair[1].throughput_ops > 1.2 * pair[0].throughput_ops));
    let text = "warmup = \"500ms\"\nclients = 4\nload_profile = \"steps:1000,3000/1s\"";
    for step in simulate(&spec(text), &at("us4", "replicas")).bench.steps {
        // Answers to the last quarter of a second may arrive in the next step.
        let rate = step.rate.expect("an open loop");
        assert!((0.7 * rate..1.1 * rate).contains(&step.throughput_ops), "{step:?}");
    }
}

#[test]
fn a_search_with_several_machines_finds_the_saturation_and_repeats_itself() {
    let text = "search = true\nrate = 10000\nsearch_p99_ms = 20\nwarmup = \"100ms\"\nduration = \"300ms\"\nclients = 4\nbundle = 1\n";
    let found = |places: &str| simulate(&spec(text), &at("lan", places)).bench.search.expect("a search");
    let (one, several) = (found("one"), found("replicas"));
    assert!(several.probes.iter().any(|probe| !probe.ok) && several.rate.is_some(), "{several:?}");
    assert_eq!(found("replicas"), several);
    // The replicas are the bottleneck, so the number of machines matters little.
    let (one, several) = (one.rate.expect("found") as f64, several.rate.expect("found") as f64);
    assert!((0.8..1.25).contains(&(several / one)), "{one} and {several} commands per second");
}

#[test]
fn replicas_around_the_world_agree() {
    let text =
        "replicas = 13\nclients = 13\noutstanding = 5\nwarmup = \"1s\"\nduration = \"2s\"\nview_timeout_ms = 4000\n";
    let result = simulate(&spec(text), &at("world12", "replicas"));
    assert_eq!(result.failure(), None);
    assert_eq!(result.client_machines.len(), 13);
    assert!(result.client_machines.iter().all(|machine| machine.committed > 0));
    let places: Vec<_> = result.client_machines.iter().filter_map(|machine| machine.place.clone()).collect();
    assert_eq!(places[0], places[12], "the thirteenth replica is in the first region again");
    assert!(NetworkSpec::presets().any(|name| name == "world12"));
}
