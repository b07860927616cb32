//! Networks as files, and what links and streams do.

mod common;

use common::{commands, spec};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delay, End, Links, Loss, Stream, StreamOptions, Todo, Topology, TransportKind};
use quorate_simulator::{CostTable, NetworkSpec, run};
use quorate_types::Time;
use std::time::Duration;

fn refusal(text: &str) -> String {
    NetworkSpec::parse(text, "net.toml").expect_err("it cannot be").to_string()
}

#[test]
fn files_are_read_and_refused_with_the_mend() {
    for name in ["lan", "wan4"] {
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
    ] {
        let said = refusal(text);
        assert!(said.contains("net.toml") && said.contains(words), "{text}\n{said}");
    }
}

#[test]
fn cost_tables_are_read_and_refused() {
    let shipped = CostTable::shipped();
    assert_eq!(CostTable::parse(&shipped.to_toml(), "again"), Ok(shipped.clone()));
    let mut wrong = shipped.clone();
    wrong.signatures.verify_us = vec![(3, 10.0), (1, 2.0)];
    assert!(
        CostTable::parse(&wrong.to_toml(), "costs.toml").expect_err("it descends").to_string().contains("verify_us")
    );
    wrong = shipped;
    wrong.core.step_us = -1.0;
    assert!(CostTable::parse(&wrong.to_toml(), "costs.toml").is_err());
}

#[test]
fn network_cards_queue_and_a_router_doubles_the_way() {
    let mut spec = NetworkSpec { delay: Delay::Constant { mean_ms: 1.0 }, ..NetworkSpec::default() };
    spec.packets.header_bytes = 0;
    spec.packets.mtu_bytes = 1000;
    // 8 Mbit/s: a byte takes a microsecond.
    spec.bandwidth.egress_mbit_per_s = 8.0;
    spec.bandwidth.ingress_mbit_per_s = 8.0;
    let mut links = Links::new(&spec, 3, 1);
    assert_eq!(links.fragments(1001), 2);
    let arrival = |links: &mut Links, to| links.send(Time(0), 0, to, 1000).arrives;
    assert_eq!(arrival(&mut links, 1), Some(Time(2_000_000)));
    assert_eq!(arrival(&mut links, 2), Some(Time(3_000_000)), "the second waits for the first to leave");
    assert_eq!(links.taken_in(Time(2_000_000), 1, 1000), Time(3_000_000));
    assert_eq!(links.taken_in(Time(2_000_000), 1, 1000), Time(4_000_000), "two at once are taken in one by one");
    spec.topology = Topology::Star;
    assert_eq!(arrival(&mut Links::new(&spec, 3, 1), 1), Some(Time(3_000_000)));
}

#[test]
fn loss_takes_its_part_and_a_message_dies_with_any_fragment() {
    let spec = NetworkSpec { loss: Loss::Independent { probability: 0.1 }, ..NetworkSpec::default() };
    let mut links = Links::new(&spec, 2, 3);
    let mut survived = |bytes| (0..20_000).filter(|_| links.send(Time(0), 0, 1, bytes).arrives.is_some()).count();
    let (small, large) = (survived(100) as f64 / 2e4, survived(4000) as f64 / 2e4);
    assert!((small - 0.9).abs() < 0.01, "{small}");
    assert!((large - 0.9f64.powi(3)).abs() < 0.015, "{large}");
}

const OPTIONS: StreamOptions =
    StreamOptions { initial_ns: 1_000_000_000, least_ns: 200_000_000, most_ns: 60_000_000_000, fast_retransmit: true };

fn sent(todo: &mut Vec<Todo>) -> Vec<u64> {
    let number = |todo: Todo| match todo {
        Todo::Send(segment) => Some(segment.number),
        Todo::Wake(_) => None,
    };
    todo.drain(..).filter_map(number).collect()
}

#[test]
fn three_duplicates_retransmit_and_later_messages_wait_for_the_gap() {
    let mut stream: Stream<char> = Stream::new(OPTIONS);
    let (mut todo, mut letters) = (Vec::new(), Vec::new());
    for letter in ['a', 'b', 'c', 'd', 'e'] {
        stream.send(Time(0), letter, 10, 100, &mut todo);
    }
    assert_eq!(sent(&mut todo), [0, 1, 2, 3, 4]);
    assert_eq!(stream.arrived(0, &mut letters), 1);
    stream.acknowledged(Time(10), 1, &mut todo);
    // Segment 1 is lost.
    for number in [2, 3, 4] {
        assert_eq!(stream.arrived(number, &mut letters), 1);
        assert_eq!(letters, ['a'], "head-of-line blocking");
        stream.acknowledged(Time(20), 1, &mut todo);
    }
    assert_eq!(sent(&mut todo), [1]);
    assert_eq!(stream.arrived(1, &mut letters), 5);
    assert_eq!(letters, ['a', 'b', 'c', 'd', 'e']);
    stream.acknowledged(Time(30), 5, &mut todo);
    assert_eq!((stream.unacknowledged_bytes(), stream.retransmissions), (0, 1));
}

#[test]
fn the_timer_doubles_and_a_round_trip_sets_it() {
    let mut stream: Stream<char> = Stream::new(OPTIONS);
    let mut todo = Vec::new();
    stream.send(Time(0), 'a', 10, 100, &mut todo);
    assert!(todo.contains(&Todo::Wake(Time::from_millis(1000))));
    todo.clear();
    stream.ring(Time::from_millis(1000), &mut todo);
    assert!(todo.contains(&Todo::Wake(Time::from_millis(3000))), "{todo:?}");
    assert_eq!(sent(&mut todo), [0]);
    stream.acknowledged(Time::from_millis(1100), 1, &mut todo);
    // A fresh segment's round trip of 100 ms gives 100 + 4 * 50 ms.
    stream.send(Time::from_millis(2000), 'b', 10, 100, &mut todo);
    stream.acknowledged(Time::from_millis(2100), 2, &mut todo);
    todo.clear();
    stream.send(Time::from_millis(5000), 'c', 10, 100, &mut todo);
    stream.ring(Time::from_millis(5000), &mut todo);
    assert!(todo.contains(&Todo::Wake(Time::from_millis(5300))), "{todo:?}");
}

#[test]
fn scheduled_faults_happen_and_datagrams_get_lost() {
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
    spec.network.transport.kind = TransportKind::Datagram;
    let report = run(&spec, 1, &commands);
    assert_eq!(report.complaint, None);
    assert_eq!(report.crashed, [quorate_types::ReplicaId(0)]);
    assert!(report.lost_packets > 0);
    let gap = report.load.expect("the load is over").longest_gap;
    assert!(gap >= Duration::from_millis(25), "the leader's death is noticed: {gap:?}");
}
