//! The simulator as run by the laboratory, and compared with the node.

use crate::common::Quiet;
use quorate_lab::BenchSpec;
use quorate_lab::bench;
use quorate_lab::result::Agreement;
use quorate_lab::sim::{self, SimOptions, SimResult};
use quorate_lab::spec::{
    AuthProfile, BatchSize, ChannelKind, ClientAuthentication, Dissemination, Interval, ProtocolKind, Rate,
    ReplicaThreads, SchemeKind, TransportKind,
};
use quorate_operator::report::Report;
use quorate_simulator::ledger::Share;
use quorate_simulator::work::Work;
use std::collections::BTreeSet;

fn spec() -> BenchSpec {
    BenchSpec {
        clients: 2,
        outstanding: Some(200),
        warmup: Interval::from_millis(200),
        duration: Interval::from_millis(1000),
        ..BenchSpec::default()
    }
}

#[test]
fn a_result_extends_that_of_bench() {
    let result = sim::run(&spec(), &SimOptions::default(), &|_| {}).expect("a sound spec");
    assert_eq!(result.bench.agreement, Agreement::Agreed);
    assert!(result.bench.throughput_ops > 1000.0);
    assert_eq!(result.bench.timeline.len(), 1);
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("JSON");
    for key in
        ["throughput_ops", "trace_hash", "events", "simulated_events", "virtual_seconds", "wall_seconds", "seeds"]
    {
        assert!(!json[key].is_null(), "{key}");
        let lines = result.to_json().lines().filter(|line| line.starts_with(&format!("  \"{key}\":"))).count();
        assert_eq!(lines, 1, "{key} appears once at the top");
    }
    assert!(result.bench.warnings.iter().any(|warning| warning.contains("shipped table")));
    assert!(result.to_table().contains(&result.trace_hash));
}

#[test]
fn clients_signatures_are_charged() {
    let plain = sim::run(&spec(), &SimOptions::default(), &|_| {}).expect("a sound spec");
    let spec = {
        let mut spec = spec();
        spec.node.client_authentication = ClientAuthentication::Ed25519;
        spec
    };
    let signed = sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec");
    let share = |result: &SimResult, work: Work| {
        let charges = result.charges.as_ref().expect("the run is over");
        let of =
            |shares: &[Share]| shares.iter().find(|share| share.work == work).map_or(0.0, |share| share.us_per_command);
        (of(&charges.replicas), of(&charges.clients))
    };
    assert_eq!(share(&plain, Work::Signatures).1, 0.0);
    assert!(share(&signed, Work::Signatures).1 > 0.0);
    assert!(share(&signed, Work::Verifications).0 > share(&plain, Work::Verifications).0);
    let json: serde_json::Value = serde_json::from_str(&signed.to_json()).expect("JSON");
    assert!(json["charges"]["replicas"][0]["count_per_command"].as_f64().is_some_and(|count| count > 0.0), "{json}");
}

/// The leader sends each payload to three replicas, in packets with 1448 stream bytes that occupy 1538 bytes of the
/// link.
#[test]
fn the_leaders_line_carries_payloads_and_headers() {
    let spec = {
        let mut spec = BenchSpec {
            payload: 4096,
            bundle: 1,
            outstanding: Some(8),
            warmup: Interval::from_millis(20),
            duration: Interval::from_millis(60),
            ..spec()
        };
        spec.node.consensus.protocol = ProtocolKind::Pbft;
        spec.node.consensus.dissemination = Dissemination::Leader;
        spec.node.consensus.batch = 1.into();
        spec
    };
    let of = |spec: &BenchSpec| {
        let result = sim::run(spec, &SimOptions::default(), &|_| {}).expect("a sound spec");
        (result.bench.throughput_ops, result.bench.line)
    };
    let (throughput, Some(line)) = of(&spec) else { panic!("packets are counted") };
    assert_eq!(line.replica, quorate_types::ReplicaId(0));
    let values = 3.0 * 4096.0;
    assert!((values..1.2 * values).contains(&line.bytes_per_command), "{line:?}");
    let full_packets = line.bytes_per_command * 1538.0 / 1448.0;
    assert!((full_packets..1.15 * full_packets).contains(&line.line_bytes_per_command), "{line:?}");
    assert!(
        (line.values_percent.expect("proposals carry values") - 100.0 * values / line.line_bytes_per_command).abs()
            < 0.01
    );
    assert!((line.line_limit_per_s * line.line_used_percent / 100.0 / throughput - 1.0).abs() < 0.001, "{line:?}");
    let faster = of(&BenchSpec { line_rate: Rate(40e9), ..spec.clone() }).1.expect("packets are counted");
    assert!((faster.line_limit_per_s / line.line_limit_per_s - 4.0).abs() < 1e-9);
    assert_eq!(faster.goodput_mbit_per_s, line.goodput_mbit_per_s);
    let of_digests = of(&{
        let mut spec = spec.clone();
        spec.node.consensus.dissemination = Dissemination::Client;
        spec
    })
    .1
    .expect("the same");
    assert!(of_digests.values_percent.is_none() && of_digests.bytes_per_command < line.bytes_per_command);
    // A simulation does not count the packets of machines over UDP.
    assert_eq!(
        of(&{
            let mut spec = spec;
            spec.node.transport = TransportKind::RUDP;
            spec
        })
        .1,
        None
    );
}

#[test]
fn the_stage_that_limits_is_named() {
    let signed = {
        let mut spec = BenchSpec { bundle: 1, ..spec() };
        spec.node.client_authentication = ClientAuthentication::Ed25519;
        spec
    };
    let run = |threads| {
        let spec = {
            let mut spec = signed.clone();
            spec.node.replica_threads = ReplicaThreads::Count(threads);
            spec
        };
        sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec")
    };
    let loads = |result: &SimResult| result.bench.threads.clone().expect("replicas report their threads");
    let stages = |result: &SimResult| -> Vec<(String, u16)> {
        loads(result).stages.into_iter().map(|stage| (stage.stage, stage.threads)).collect()
    };
    let named = |all: &[(&str, u16)]| -> Vec<(String, u16)> {
        all.iter().map(|(stage, threads)| ((*stage).to_owned(), *threads)).collect()
    };
    let (one, two, five) = (run(1), run(2), run(5));
    assert_eq!(stages(&one), named(&[("core", 1)]));
    assert_eq!(stages(&two), named(&[("core", 1), ("verifiers", 1)]));
    assert_eq!(stages(&five), named(&[("core", 1), ("network", 1), ("verifiers", 3)]));
    for result in [&one, &two, &five] {
        let loads = loads(result);
        let busiest = loads.stages.iter().max_by(|a, b| a.busy_percent.total_cmp(&b.busy_percent));
        assert_eq!(busiest.map(|stage| &stage.stage), Some(&loads.limiting_stage));
        assert!(loads.stages.iter().all(|stage| stage.busy_percent > 0.0 && stage.busy_percent < 101.0), "{loads:?}");
    }
    assert!(!one.to_table().contains("threads "), "{}", one.to_table());
    assert!(five.to_table().contains("3 verifiers"), "{}", five.to_table());
    // All runs do the same work, and agree.
    assert_eq!(one.bench.agreement, Agreement::Agreed);
    assert_eq!(five.bench.agreement, Agreement::Agreed);
}

/// Returns the commands per second executed by replicas with this many threads.
fn throughput(spec: &BenchSpec, threads: u16) -> f64 {
    let spec = {
        let mut spec = spec.clone();
        spec.node.replica_threads = ReplicaThreads::Count(threads);
        spec
    };
    sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec").bench.throughput_ops
}

/// Saturating loads of small and of large bundles.
fn saturating() -> [BenchSpec; 2] {
    let spec = BenchSpec {
        clients: 5,
        warmup: Interval::from_millis(40),
        duration: Interval::from_millis(60),
        ..BenchSpec::default()
    };
    [
        {
            let mut spec = BenchSpec { payload: 512, bundle: 10, outstanding: Some(400), ..spec.clone() };
            spec.node.consensus.batch = BatchSize::Commands(100);
            spec
        },
        BenchSpec { payload: 0, bundle: 100, outstanding: Some(2000), ..spec },
    ]
}

#[test]
fn the_threads_that_auto_chooses_for_a_chain_are_not_slower_than_one() {
    use ProtocolKind::{ChainedHotStuff, Jolteon};
    let client_authentication = ClientAuthentication::Ed25519;
    let (ed25519, ecdsa) = (SchemeKind::ED25519, SchemeKind::ECDSA_P256);
    for (protocol, scheme) in [(ChainedHotStuff, ecdsa), (Jolteon, ecdsa), (ChainedHotStuff, ed25519)] {
        for load in saturating() {
            let spec = {
                let mut spec = load;
                spec.node.consensus.protocol = protocol;
                spec.node.scheme = scheme;
                spec.node.client_authentication = client_authentication;
                spec
            };
            let chosen = BTreeSet::from([2, 3, 4].map(|cores| ReplicaThreads::Auto.of(cores, 1, spec.replica_work())));
            let one = throughput(&spec, 1);
            for threads in chosen.into_iter().filter(|threads| *threads > 1) {
                let ratio = throughput(&spec, threads) / one;
                assert!(
                    ratio > 0.97,
                    "{threads} threads have {ratio:.2} times the throughput of one: {}",
                    spec.command_line()
                );
            }
        }
    }
}

#[test]
fn an_idle_core_does_not_wait_for_a_verifier() {
    for scheme in [SchemeKind::ED25519, SchemeKind::ECDSA_P256] {
        for load in saturating() {
            let spec = {
                let mut spec = load;
                spec.node.consensus.protocol = ProtocolKind::ChainedHotStuff;
                spec.node.scheme = scheme;
                spec
            };
            let ratio = throughput(&spec, 3) / throughput(&spec, 2);
            assert!(ratio > 0.95, "with a verifier, {ratio:.2} times the throughput without: {}", spec.command_line());
        }
    }
}

#[test]
fn threads_of_a_replica_do_not_share_simulated_cores() {
    let shared = {
        let mut spec = BenchSpec { cores: 2, ..spec() };
        spec.node.replica_threads = ReplicaThreads::Count(2);
        spec
    };
    let error = sim::run(&shared, &SimOptions::default(), &|_| {}).expect_err("a core each").to_string();
    assert!(error.contains("--replica-threads, --cores") && error.contains("omit --cores"), "{error}");
}

#[test]
fn frames_over_packets_and_channels_are_charged() {
    let frames = |transport, channel| {
        let spec = {
            let mut spec = BenchSpec { duration: Interval::from_millis(300), ..spec() };
            spec.node.transport = transport;
            spec.node.channel = channel;
            spec
        };
        let result = sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec");
        let charges = result.charges.expect("the run is over");
        [charges.replicas, charges.clients].map(|shares| {
            let own = shares.iter().filter(|share| [Work::ReceivedFrames, Work::SentFrames].contains(&share.work));
            own.map(|share| share.us_per_command).sum::<f64>()
        })
    };
    assert_eq!(frames(TransportKind::TCP, ChannelKind::PLAIN), [0.0; 2]);
    let (plain, sealed) =
        (frames(TransportKind::RUDP, ChannelKind::PLAIN), frames(TransportKind::RUDP, ChannelKind::DTLS));
    assert!(plain.iter().zip(sealed).all(|(plain, sealed)| 0.0 < *plain && *plain < sealed), "{plain:?} {sealed:?}");
}

/// One timeout of `default` is longer than a whole recovery with `auto`.
#[test]
fn links_may_have_profiles_of_their_own() {
    let p99 = |links: &[&str]| {
        let spec = {
            let mut spec = BenchSpec {
                // Needs the votes of all other replicas, so each loss delays a block.
                fault: vec!["silent:3".parse().expect("it is a fault")],
                clients: 1,
                outstanding: Some(1),
                duration: Interval::from_millis(10_000),
                ..BenchSpec::default()
            };
            spec.node.transport = TransportKind::RUDP;
            spec.node.links.retransmission = links.iter().map(|link| link.parse().expect("it is a link")).collect();
            spec
        };
        let options = SimOptions { loss: Some(0.02), ..SimOptions::default() };
        let result = sim::run(&spec, &options, &|_| {}).expect("a sound spec");
        result.bench.latency_ms.p99.expect("some commands completed")
    };
    let (common, own) = (p99(&[]), p99(&["0-1=default", "0-2=default"]));
    assert!(own > 5.0 * common, "{own} ms and {common} ms");
    // No votes travel between these replicas.
    assert!(p99(&["1-2=default"]) < 2.0 * common, "{common} ms");
}

#[test]
fn a_slower_machine_takes_longer_and_is_reproduced() {
    let spec = BenchSpec { cores: 2, duration: Interval::from_millis(300), ..spec() };
    let run = |cpu_factor, router_us| {
        let options = SimOptions { cpu_factor, router_us, ..SimOptions::default() };
        sim::run(&spec, &options, &|_| {}).expect("a sound spec")
    };
    let (table, same, slow) = (run(None, None), run(Some(1.0), None), run(Some(2.0), Some(5.0)));
    assert_eq!(table.trace_hash, same.trace_hash);
    let throughput = slow.bench.throughput_ops / table.bench.throughput_ops;
    assert!((0.3..0.7).contains(&throughput), "{throughput} of the throughput at twice the cost");
    let replay = &slow.seeds[0].replay;
    assert!(replay.contains("--router-us 5 ") && replay.contains("--cpu-factor 2 "), "{replay}");
    assert!(slow.costs.contains("multiplied by 2"), "{}", slow.costs);
    assert_eq!(slow.cores.len(), BenchSpec::default().replicas as usize + 1);
    assert!(slow.cores.iter().all(|share| share.runs_percent > 0.0 && share.waits_percent > 0.0), "{:?}", slow.cores);
}

#[test]
fn a_router_needs_cores_to_share() {
    let options = SimOptions { router_us: Some(18.0), ..SimOptions::default() };
    let error = sim::run(&spec(), &options, &|_| {}).expect_err("each thread has its own core").to_string();
    assert!(error.contains("--router-us") && error.contains("set --cores"), "{error}");
    let shared = BenchSpec { cores: 2, duration: Interval::from_millis(300), ..spec() };
    let peak = |options| sim::run(&shared, &options, &|_| {}).expect("a sound spec").bench.throughput_ops;
    let (with, without) = (peak(options), peak(SimOptions::default()));
    assert!(with < 0.95 * without, "{with}/s with a router, {without}/s without");
}

/// MACs cost clients and replicas less than signatures, in the profile that allows them.
#[test]
fn clients_macs_are_charged() {
    let run = |auth_profile, client_authentication| {
        let protocol = ProtocolKind::PbftMac;
        let spec = {
            let mut spec = BenchSpec { bundle: 1, ..spec() };
            spec.node.consensus.protocol = protocol;
            spec.node.auth_profile = auth_profile;
            spec.node.client_authentication = client_authentication;
            spec
        };
        spec.validate().expect("a sound spec");
        let result = sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec");
        assert_eq!(result.bench.agreement, Agreement::Agreed);
        let charges = result.charges.expect("the run is over");
        let of = |shares: &[Share]| {
            shares.iter().find(|share| share.work == Work::Signatures).map_or(0.0, |share| share.us_per_command)
        };
        of(&charges.clients)
    };
    let none = run(AuthProfile::Mac, ClientAuthentication::None);
    let macs = run(AuthProfile::Mac, ClientAuthentication::Mac);
    let signed = run(AuthProfile::Domain, ClientAuthentication::Ed25519);
    assert_eq!(none, 0.0);
    assert!(macs > 0.0 && macs < signed, "MACs {macs} us, signatures {signed} us");
}

#[test]
fn a_client_cannot_divide_replicas_without_authentication() {
    let fault = "hostile:macs-for-leader".parse().expect("a fault");
    let divided = {
        let mut spec = BenchSpec { fault: vec![fault], ..spec() };
        spec.node.consensus.protocol = ProtocolKind::PbftMac;
        spec
    };
    let error = divided.validate().expect_err("there is nothing to forge").to_string();
    assert!(error.contains("needs clients that authenticate bundles"), "{error}");
    let client_authentication = ClientAuthentication::Mac;
    {
        let mut spec = divided;
        spec.node.auth_profile = AuthProfile::Mac;
        spec.node.client_authentication = client_authentication;
        spec
    }
    .validate()
    .expect("MACs");
}

#[test]
fn a_sender_off_the_path_needs_packets() {
    let fault = "off-path:junk@100ms+50ms".parse().expect("a fault");
    let over_tcp = BenchSpec { fault: vec![fault], ..spec() };
    let error = over_tcp.validate().expect_err("there are no packets to forge").to_string();
    assert!(error.contains("needs a transport over packets, not `tcp`"), "{error}");
    let error = "off-path:jnk".parse::<quorate_lab::spec::Fault>().expect_err("no such kind").to_string();
    assert!(error.contains("handshakes, junk"), "{error}");
}

#[test]
fn the_charges_add_up_to_the_processor_time() {
    let result = sim::run(&spec(), &SimOptions::default(), &|_| {}).expect("a sound spec");
    let charges = result.charges.as_ref().expect("the run is over");
    let sum = |shares: &[Share]| shares.iter().map(|share| share.us_per_command).sum::<f64>();
    let cpu = result.bench.cpu_us_per_command;
    for (charged, reported) in [(sum(&charges.replicas), cpu.replicas), (sum(&charges.clients), cpu.clients)] {
        let ratio = charged / reported.expect("commands were completed");
        assert!((0.95..1.05).contains(&ratio), "{charged} us charged, {ratio} times the reported time");
    }
}

#[test]
fn seeds_differ_and_each_can_be_reproduced() {
    let options = SimOptions { seeds: Some(3..6), loss: Some(0.01), ..SimOptions::default() };
    let result = sim::run(&spec(), &options, &|_| {}).expect("a sound spec");
    let replay = &result.seeds[1].replay;
    assert!(replay.starts_with("quorate sim --") && replay.ends_with("--loss 0.01 --seeds 4..5"), "{replay}");
    let again = SimOptions { seeds: Some(4..5), ..options };
    let again = sim::run(&spec(), &again, &|_| {}).expect("a sound spec");
    assert_eq!(again.trace_hash, result.seeds[1].trace_hash);
    assert_ne!(result.seeds[0].trace_hash, result.seeds[1].trace_hash);
}

#[test]
fn slower_cards_override_those_of_the_network() {
    let spec = BenchSpec { payload: 4096, ..spec() };
    let run = |card_mbit_per_s| {
        let options = SimOptions { network: "wan4".into(), card_mbit_per_s, ..SimOptions::default() };
        let result = sim::run(&spec, &options, &|_| {}).expect("a sound spec");
        (result.bench.committed_commands, result.seeds[0].replay.clone())
    };
    let ((network, _), (same, _), (slow, replay)) = (run(None), run(Some(1000)), run(Some(10)));
    assert_eq!(network, same, "wan4 has interfaces of 1000 Mbit/s");
    assert!(slow < network / 2, "{slow} of {network}");
    assert!(replay.contains("--card-mbit-per-s 10 "), "{replay}");
}

#[test]
fn blocks_are_limited_by_bytes_as_well() {
    let run = |batch_bytes| {
        let spec = {
            let mut spec = BenchSpec { payload: 1024, bundle: 5, ..spec() };
            spec.node.consensus.batch_bytes = batch_bytes;
            spec
        };
        sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec").bench
    };
    let (default, limited) = (run(BenchSpec::default().node.consensus.batch_bytes), run(16 << 10));
    let commands = |it: &quorate_lab::result::BenchResult| it.committed_commands / it.committed_blocks;
    assert!(commands(&limited) <= 15, "{} commands of 1 KiB in blocks of 16 KiB", commands(&limited));
    assert!(commands(&default) > 30, "{}", commands(&default));
}

#[test]
fn an_unreadable_file_is_named() {
    let run = |options: &SimOptions| sim::run(&spec(), options, &|_| {}).expect_err("an invalid file").to_string();
    let missing = run(&SimOptions { network: "no-such-file".into(), ..SimOptions::default() });
    assert!(missing.contains("no-such-file") && missing.contains("wan4"), "{missing}");
    assert!(
        run(&SimOptions { costs: Some("no-such-table".into()), ..SimOptions::default() }).contains("no-such-table")
    );
}

/// Runs one spec on the node and in the simulator, with as many cores as this machine has. Prints the ratios without
/// checking them, because they depend on the machine's load.
#[test]
fn node_and_simulator_side_by_side() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let spec = BenchSpec { cores: cores as u32, ..spec() };
    let real = bench::run(&spec, &mut Quiet).expect("a cluster");
    let options = SimOptions::default();
    let simulated = sim::run(&spec, &options, &|_| {}).expect("a sound spec").bench;
    let ratio = |of: fn(&quorate_lab::BenchResult) -> f64| of(&simulated) / of(&real);
    println!(
        "simulated / real: throughput {:.2} ({:.0} / {:.0}), median latency {:.2}, p99 {:.2}",
        ratio(|result| result.throughput_ops),
        simulated.throughput_ops,
        real.throughput_ops,
        ratio(|result| result.latency_ms.p50.unwrap_or(f64::NAN)),
        ratio(|result| result.latency_ms.p99.unwrap_or(f64::NAN)),
    );
    for result in [&real, &simulated] {
        assert_eq!(result.agreement, Agreement::Agreed);
        assert!(result.committed_commands > 0);
    }
}
