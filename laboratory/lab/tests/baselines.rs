//! Slower baselines for comparisons in experiments.

use crate::common::Quiet;
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{BenchSpec, CertificateCache, Interval, LeaderKind, PayloadPath, Reproduction};
use quorate_lab::{BenchResult, bench};
use quorate_node::NodeConfig;
use quorate_operator::report::Report;

fn short() -> BenchSpec {
    BenchSpec {
        clients: 1,
        outstanding: Some(40),
        warmup: Interval::from_millis(50),
        duration: Interval::from_millis(500),
        ..BenchSpec::default()
    }
}

/// With a silent leader, every replica presents the same certificate in its timeouts.
#[test]
fn without_the_certificate_cache_more_signatures_are_verified() {
    let on = {
        let mut spec = BenchSpec { fault: vec!["silent:0".parse().expect("a fault")], ..short() };
        spec.node.consensus.leader = LeaderKind::RoundRobin;
        spec.node.consensus.view_timeout_ms = 20;
        spec
    };
    let switches = Reproduction { certificate_cache: CertificateCache::Off, ..Reproduction::default() };
    let off = {
        let mut spec = on.clone();
        spec.node.reproduction = switches;
        spec
    };
    let verifications = |result: &BenchResult| result.verifications_per_block.expect("blocks were committed");
    let simulated =
        |spec| sim::run(spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}")).bench;
    let (with, without) = (simulated(&on), simulated(&off));
    assert!(verifications(&without) > 1.2 * verifications(&with), "{} {}", with.to_table(), without.to_table());
    let cpu = |result: &BenchResult| result.cpu_us_per_command.replicas.expect("commands were completed");
    assert!(cpu(&without) > cpu(&with), "verification has a cost: {} {}", cpu(&with), cpu(&without));
    let real = |spec| bench::run(spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
    let (with, without) = (real(&on), real(&off));
    assert!(verifications(&without) > 1.1 * verifications(&with), "{} {}", with.to_table(), without.to_table());
}

#[test]
fn a_copying_path_allocates_more_for_each_command() {
    let run = |payload_path| {
        let reproduction = Reproduction { payload_path, count_allocations: true, ..Reproduction::default() };
        let spec = {
            let mut spec = BenchSpec { payload: 256, ..short() };
            spec.node.reproduction = reproduction;
            spec
        };
        let result = bench::run(&spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
        let (count, bytes) = (result.allocations_per_command, result.allocated_bytes_per_command);
        (count.expect("they were counted"), bytes.expect("they were counted"))
    };
    let (shared, copied) = (run(PayloadPath::Shared), run(PayloadPath::Copied));
    // Each of four replicas allocates memory of its own per command, and copies the command into the bundle once more.
    // The cost of a block is shared by a varying number of commands, so the limit on bytes is less strict.
    assert!(copied.0 > shared.0 + 4.0, "allocations per command: {shared:?} and {copied:?}");
    assert!(copied.1 > shared.1 + 4.0 * 256.0, "bytes per command: {shared:?} and {copied:?}");
}

/// Replicas in processes of their own get the settings through their configuration.
#[test]
fn switches_are_a_table_of_the_configuration() {
    let reproduction = Reproduction { payload_path: PayloadPath::Copied, ..Default::default() };
    let config = NodeConfig { reproduction, ..short().template() };
    assert!(config.to_toml().contains("[reproduction]\n"), "{}", config.to_toml());
    let read: NodeConfig = toml::from_str(&config.to_toml()).expect("it is TOML");
    assert_eq!(read.reproduction, reproduction);
    for absent in ["[reproduction]", "payload_path", "batch_policy"] {
        let text = short().template().to_toml();
        assert!(!text.contains(absent), "the operators' program does not know {absent}: {text}");
    }
}
