//! Network files, links and streams.

use crate::common::{commands, spec};
use quorate_consensus::config::ProtocolKind;
use quorate_network::transports::BULK_AHEAD_BYTES;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delay, Delivery, End, Links, Loss, Topology};
use quorate_simulator::{CostTable, Leaves, NetworkSpec, SimReport, run};
use quorate_types::{ReplicaId, Time};
use std::time::Duration;

fn refusal(text: &str) -> String {
    NetworkSpec::parse(text, "net.toml").expect_err("the file is invalid").to_string()
}

#[test]
fn network_files_are_parsed_or_refused_with_help() {
    for name in NetworkSpec::presets() {
        let preset = NetworkSpec::preset(name).expect("a preset");
        assert_eq!(NetworkSpec::parse(&preset.to_toml(), name), Ok(preset));
    }
    assert_eq!(NetworkSpec::parse("", "empty"), Ok(NetworkSpec::default()));
    for (text, words) in [
        ("[delay]\nkind = \"constant\"\nmean = 3", "mean_ms"),
        ("colour = 3", "unknown field `colour`"),
        ("[loss]\nkind = \"independent\"\nprobability = 1.5", "set a probability from 0 to 1"),
        ("[packets]\nmtu_bytes = 40", "set at least 64"),
        ("[transport]\nrto_least_ms = 2000.0", "rto_initial_ms"),
        ("[delay]\nkind = \"matrix\"\nregions = [\"a\", \"b\"]\none_way_ms = [[1.0]]", "a row for each region"),
        ("[[links]]\nfrom = 0\nto = \"client\"", "\"clients\""),
        ("[[faults]]\nkind = \"crash\"\nat_ms = 1.0\nreplica = 1\nwho = 2", "who"),
        ("[[faults]]\nkind = \"cut\"\nat_ms = 1.0\nfor_ms = 1.0\nfrom = [\"client\"]\nto = [1]", "\"clients\""),
    ] {
        let said = refusal(text);
        assert!(said.contains("net.toml") && said.contains(words), "{text}\n{said}");
    }
}

/// The sources give round trips, so the delays are equal in both directions.
#[test]
fn matrices_are_symmetric_and_documented_with_source_and_date() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let page = std::fs::read_to_string(format!("{root}../../docs/SIMULATOR.md")).expect("the page is there");
    let mut seen = Vec::new();
    for name in NetworkSpec::presets() {
        assert!(page.contains(&format!("`{name}`")), "docs/SIMULATOR.md does not name {name}");
        let preset = NetworkSpec::preset(name).expect("a preset");
        let Delay::Matrix { regions, one_way_ms, .. } = &preset.delay else { continue };
        let text = std::fs::read_to_string(format!("{root}networks/{name}.toml")).expect("the file is there");
        assert!(text.contains("published on ") && text.contains("average round trips"), "{name} names no source");
        for (from, row) in one_way_ms.iter().enumerate() {
            for (to, delay) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                assert_eq!(*delay, one_way_ms[to][from], "{name}: {} to {}", regions[from], regions[to]);
                assert!(
                    *delay > row[from],
                    "{name}: {} is farther from itself than from {}",
                    regions[from],
                    regions[to]
                );
            }
        }
        // Regions in several files have the same distance in each.
        for (from, to) in (0..regions.len()).flat_map(|from| (0..regions.len()).map(move |to| (from, to))) {
            seen.push(((regions[from].clone(), regions[to].clone()), one_way_ms[from][to]));
        }
    }
    let distances: std::collections::BTreeMap<_, f64> = seen.iter().cloned().collect();
    assert!(seen.iter().all(|(pair, delay)| distances[pair] == *delay), "two files disagree");
    assert!(seen.len() >= 4 * 4 + 4 * 4 + 12 * 12);
}

#[test]
fn faults_that_do_not_fit_are_refused() {
    let fault = |rest: &str| format!("[[faults]]\nfor_ms = 1.0\n{rest}\n");
    let strike = fault("kind = \"strike\"\nreplica = 2\npoint = 7");
    let misbehave = |how: &str| format!("[[faults]]\nkind = \"misbehave\"\nreplica = 1\nfault = \"{how}\"\n");
    for (text, words) in [
        (fault("kind = \"pause\"\nat_ms = 0\nreplica = 4"), "`faults[0]`: names replica 4, but the last one is 3"),
        (strike.clone() + &strike, "`faults[1]`: strikes replica 2 down again"),
        (misbehave("silent") + &misbehave("fork"), "`faults[1]`: makes replica 1 misbehave in a second way"),
    ] {
        let network = NetworkSpec::parse(&text, "net.toml").expect("the file is valid");
        let said = network.fits(4, &[], "net.toml").expect_err("it does not fit four replicas").to_string();
        assert!(said.starts_with("net.toml: ") && said.contains(words), "{text}\n{said}");
    }
}

#[test]
fn cost_tables_are_parsed_or_refused() {
    let shipped = CostTable::shipped();
    assert_eq!(CostTable::parse(&shipped.to_toml(), "again"), Ok(shipped.clone()));
    let mut wrong = shipped.clone();
    wrong.signatures.get_mut("ed25519").expect("it is shipped").verify_us = vec![(3, 10.0), (1, 2.0)];
    assert!(
        CostTable::parse(&wrong.to_toml(), "costs.toml").expect_err("it descends").to_string().contains("verify_us")
    );
    wrong = shipped;
    wrong.core.step_us = -1.0;
    assert!(CostTable::parse(&wrong.to_toml(), "costs.toml").is_err());
}

#[test]
fn network_cards_queue_and_a_router_doubles_the_delay() {
    let mut spec = NetworkSpec { delay: Delay::Constant { mean_ms: 1.0 }, ..NetworkSpec::default() };
    spec.packets.header_bytes = 0;
    spec.packets.mtu_bytes = 1000;
    // 8 Mbit/s: one microsecond per byte.
    spec.bandwidth.egress_mbit_per_s = 8.0;
    spec.bandwidth.ingress_mbit_per_s = 8.0;
    let mut links = Links::new(&spec, 3, 1);
    assert_eq!(links.fragments(1001), 2);
    let arrival = |links: &mut Links, to| links.send(Time(0), 0, to, 1000).arrives;
    assert_eq!(arrival(&mut links, 1), Some(Time(2_000_000)));
    assert_eq!(arrival(&mut links, 2), Some(Time(3_000_000)), "the second waits for the first to leave");
    assert_eq!(links.taken_in(Time(2_000_000), 1, 1000), Time(3_000_000));
    assert_eq!(
        links.taken_in(Time(2_000_000), 1, 1000),
        Time(4_000_000),
        "simultaneous packets are received one by one"
    );
    spec.topology = Topology::Star;
    assert_eq!(arrival(&mut Links::new(&spec, 3, 1), 1), Some(Time(3_000_000)));
}

#[test]
fn a_full_interface_queue_drops_the_last_packets() {
    let mut spec = NetworkSpec { delay: Delay::Constant { mean_ms: 1.0 }, ..NetworkSpec::default() };
    spec.packets.header_bytes = 0;
    spec.bandwidth.queue_bytes = 2000;
    assert!(!spec.loses(), "an interface without a limit has no queue");
    // 8 Mbit/s: one microsecond per byte.
    spec.bandwidth.egress_mbit_per_s = 8.0;
    assert!(spec.loses());
    let mut links = Links::new(&spec, 2, 1);
    let mut sent = |now| links.send(Time(now), 0, 1, 1000).arrives;
    assert_eq!([sent(0), sent(0), sent(0)], [Some(Time(2_000_000)), Some(Time(3_000_000)), None]);
    assert_eq!(sent(1), Some(Time(4_000_000)), "there is room as soon as less than the limit waits");
    assert_eq!(links.lost, 1);
}

#[test]
fn votes_overtake_bulk_that_the_kernel_has_not_accepted() {
    let mut spec = NetworkSpec { delay: Delay::Constant { mean_ms: 1.0 }, ..NetworkSpec::default() };
    spec.packets.header_bytes = 0;
    // 8 Gbit/s: one nanosecond per byte.
    spec.bandwidth.egress_mbit_per_s = 8000.0;
    let mut links = Links::new(&spec, 3, 1);
    assert_eq!(links.overtake(Time(0), 0, 1, 1000), None, "there is nothing to overtake");
    let bulk = 10_000_000;
    assert_eq!(links.send(Time(0), 0, 1, bulk).arrives, Some(Time(bulk as u64 + 1_000_000)));
    let ahead = 2 * BULK_AHEAD_BYTES as u64;
    let vote = |links: &mut Links| links.overtake(Time(0), 0, 1, 1000).and_then(|fate| fate.arrives);
    assert_eq!(vote(&mut links), Some(Time(ahead + 1000 + 1_000_000)));
    assert_eq!(vote(&mut links), Some(Time(ahead + 2000 + 1_000_000)), "votes do not overtake votes");
    let last = links.send(Time(0), 0, 1, 1000).arrives;
    assert_eq!(last, Some(Time(bulk as u64 + 3000 + 1_000_000)), "no bandwidth is gained");
}

#[test]
fn a_message_is_lost_with_any_of_its_fragments() {
    let spec = NetworkSpec { loss: Loss::Independent { probability: 0.1 }, ..NetworkSpec::default() };
    let mut links = Links::new(&spec, 2, 3);
    let mut survived = |bytes| (0..20_000).filter(|_| links.send(Time(0), 0, 1, bytes).arrives.is_some()).count();
    let (small, large) = (survived(100) as f64 / 2e4, survived(4000) as f64 / 2e4);
    assert!((small - 0.9).abs() < 0.01, "{small}");
    assert!((large - 0.9f64.powi(3)).abs() < 0.015, "{large}");
}

/// Bursts have 1 / 0.2 = 5 packets on average, and cover 0.05 / (0.05 + 0.2) = a fifth of the time.
#[test]
fn losses_come_in_bursts() {
    let loss = Loss::Bursts { enter: 0.05, leave: 0.2, good: 0.0, bad: 1.0 };
    let mut links = Links::new(&NetworkSpec { loss, ..NetworkSpec::default() }, 2, 3);
    let lost: Vec<bool> = (0..50_000).map(|_| links.send(Time(0), 0, 1, 100).arrives.is_none()).collect();
    let all = lost.iter().filter(|lost| **lost).count() as f64;
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    assert!((all / 5e4 - 0.2).abs() < 0.02, "{all}");
    assert!((all / bursts - 5.0).abs() < 0.4, "{all} in {bursts} bursts");
}

/// A packet of 100 bytes with headers is corrupted with probability 1 - (1 - 10^-4)^(8 * 152).
#[test]
fn flipped_bits_corrupt_packets() {
    let mut spec = NetworkSpec::default();
    spec.packets.bit_error_rate = 1e-4;
    let mut links = Links::new(&spec, 2, 3);
    let spoilt = (0..20_000).filter(|_| links.send(Time(0), 0, 1, 100).arrives.is_none()).count();
    let expected = 1.0 - (1.0f64 - 1e-4).powi(8 * (100 + spec.packets.header_bytes as i32));
    assert!((spoilt as f64 / 2e4 - expected).abs() < 0.01, "{spoilt} of 20000, not {expected}");
    assert_eq!((links.corrupted, links.lost), (spoilt as u64, 0));
}

#[test]
fn delays_are_drawn_clamped_and_jittered() {
    let delay = Delay::Normal { mean_ms: 20.0, deviation_ms: 5.0, min_ms: 12.0, max_ms: 40.0 };
    let mut spec = NetworkSpec { delay, ..NetworkSpec::default() };
    let drawn = |spec: &NetworkSpec| {
        let mut links = Links::new(spec, 2, 3);
        let arrival = |_| links.send(Time(0), 0, 1, 100).arrives.expect("nothing is lost").0 as f64 / 1e6;
        (0..20_000).map(arrival).collect::<Vec<f64>>()
    };
    let (delays, mean) = (drawn(&spec), |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64);
    assert!((mean(&delays) - 20.0).abs() < 0.3, "{}", mean(&delays));
    assert!(delays.iter().all(|delay| (12.0..=40.0).contains(delay)));
    spec.jitter.max_ms = 4.0;
    assert!((mean(&drawn(&spec)) - mean(&delays) - 2.0).abs() < 0.3, "half of the jitter on average");
    let matrix = NetworkSpec::preset("us4").expect("a preset");
    let us = Links::new(&matrix, 5, 3).send(Time(0), 4, 2, 100).arrives.expect("nothing is lost").0 as f64 / 1e6;
    assert!((31.06..32.1).contains(&us), "replica 4 is in the first region again: {us} ms to the third");
}

#[test]
fn packets_are_duplicated_and_reordered() {
    let mut spec = NetworkSpec::default();
    (spec.packets.duplication, spec.packets.reordering, spec.packets.reordering_ms) = (0.25, 0.5, 2.0);
    let mut links = Links::new(&spec, 2, 3);
    let fates: Vec<_> = (0..10_000).map(|_| links.send(Time(0), 0, 1, 100)).collect();
    let twice = fates.iter().filter(|fate| fate.again.is_some()).count() as f64;
    let late = fates.iter().filter(|fate| fate.arrives > Some(Time(50_000))).count() as f64;
    assert!((twice / 1e4 - 0.25).abs() < 0.02 && (late / 1e4 - 0.5).abs() < 0.02, "{twice} twice, {late} late");
    assert!(fates.iter().all(|fate| fate.arrives < Some(Time(2_050_000))));
}

#[test]
fn scheduled_faults_happen_and_datagrams_are_lost() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.consensus.view_timeout_ms = 50;
    spec.network.faults = vec![
        FaultSpec::Crash { at_ms: 200.0, replica: 0 },
        FaultSpec::Cut {
            at_ms: 120.0,
            for_ms: 10.0,
            from: vec![End::Replica(0)],
            to: vec![End::Replica(2)],
            one_way: true,
        },
    ];
    spec.network.transport.kind = Delivery::Datagram;
    let report = run(&spec, 1, &commands);
    assert_eq!(report.violation, None);
    assert_eq!(report.crashed, [ReplicaId(0)]);
    assert!(report.lost_packets > 0);
    let gap = report.load.expect("the load is over").longest_gap;
    assert!(gap >= Duration::from_millis(25), "the leader's crash has no effect: {gap:?}");
}

fn report_of(faults: Vec<FaultSpec>) -> SimReport {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.consensus.view_timeout_ms = 50;
    // All blocks are retained, so no replica needs a state.
    (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (1 << 20, 1 << 30);
    spec.network.faults = faults;
    let report = run(&spec, 1, &commands);
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    report
}

fn median_ms(report: &SimReport) -> f64 {
    report.load.as_ref().and_then(|load| load.latency_ms(0.5)).expect("commands were answered")
}

#[test]
fn replicas_restart_from_the_rest_of_their_journal() {
    let replica = ReplicaId(2);
    for journal in Leaves::ALL.iter().copied() {
        let report = report_of(vec![FaultSpec::Restart { at_ms: 150.0, for_ms: 50.0, replica: 2, journal }]);
        assert_eq!((report.restarts, &report.crashed[..]), (1, &[replica][..]), "{journal:?}");
        let heights: Vec<_> = report.end.iter().flatten().map(|status| status.height).collect();
        assert_eq!(heights, [heights[0]; 4], "{journal:?}: it has not caught up");
    }
    let point = 40;
    let strike = FaultSpec::Strike { point, for_ms: 50.0, replica: 2, journal: Leaves::Flushed };
    let report = report_of(vec![strike]);
    assert_eq!((report.restarts, &report.crashed[..]), (1, &[replica][..]));
}

#[test]
fn slow_processors_pauses_spikes_and_drifting_clocks_have_an_effect() {
    let honest = report_of(Vec::new());
    let (at_ms, for_ms) = (0.0, 10_000.0);
    let slow = |replica| FaultSpec::SlowCpu { at_ms, for_ms, replica, factor: 20.0 };
    assert!(median_ms(&report_of(vec![slow(0)])) > 2.0 * median_ms(&honest), "the leader is slow");
    let all: Vec<End> = (0..4).map(End::Replica).collect();
    let spike = FaultSpec::Spike { at_ms, for_ms, from: all.clone(), to: all, by_ms: 5.0 };
    assert!(
        median_ms(&report_of(vec![spike])) > median_ms(&honest) + 10.0,
        "a proposal and its votes take 5 ms more each"
    );
    let pause = report_of(vec![FaultSpec::Pause { at_ms: 200.0, for_ms: 30.0, replica: 0 }]);
    let gap = pause.load.as_ref().expect("the load is over").longest_gap;
    assert!(gap >= Duration::from_millis(25), "the leader does nothing for 30 ms: {gap:?}");
    // After the leader's crash, clocks that run twice as fast time out twice as early.
    let views = |ppm| {
        let drift = |replica| FaultSpec::Drift { at_ms, for_ms, replica, ppm };
        let crash = FaultSpec::Crash { at_ms: 200.0, replica: 0 };
        report_of(vec![crash, drift(1), drift(2), drift(3)]).load.expect("the load is over").longest_gap
    };
    assert!(views(1e6) < views(0.0) && views(0.0) < views(-5e5));
}

/// Losses delay a stream, but less so with a short retransmission timeout.
#[test]
fn a_short_retransmission_timeout_hides_losses() {
    let gap = |rto_min_ms| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.consensus.view_timeout_ms = 5000;
        spec.network.loss = Loss::Independent { probability: 0.02 };
        (spec.network.transport.rto_min_ms, spec.network.transport.rto_initial_ms) = (rto_min_ms, rto_min_ms);
        let report = run(&spec, 1, &commands);
        assert_eq!(report.violation, None);
        assert!(report.streams.retransmissions > 0);
        report.load.expect("the load is over").throughput()
    };
    let (short, long) = (gap(5.0), gap(200.0));
    assert!(short > 1.5 * long, "{short} and {long} commands a second");
}
