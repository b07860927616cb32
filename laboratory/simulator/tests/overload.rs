//! Load beyond a cluster's capacity, and a replica that falsely claims to be overloaded.

use crate::common::spec;
use quorate_adversary::byzantine::behaviours::Busy;
use quorate_client::load::{LoadMode, LoadReport, USUAL_BURST};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{ClientsAt, CostTable, MachineSpec, NetworkSpec, SimReport, SimSpec, run};
use quorate_types::{Dissemination, Quorum};
use std::time::Duration;

/// Slightly below the ingress capacity of four network interfaces of 300 Mbit/s, in commands per second.
const SATURATION: f64 = 60_000.0;

fn commands() -> Box<dyn Workload> {
    workload(&WorkloadKind::Fixed, 512, 1, 1, None).expect("a sound workload")
}

/// Four replicas in four regions, each with a client that sends a quarter of the rate.
fn wide_area(rate: f64, max_queue_ms: Option<u64>) -> SimSpec {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.consensus.dissemination = Dissemination::Replicas;
    spec.consensus.batch_bytes = 32 << 20;
    spec.consensus.max_queue_ms = max_queue_ms;
    spec.network = NetworkSpec::preset("wan4").expect("a preset");
    spec.network.bandwidth.egress_mbit_per_s = 300.0;
    spec.network.bandwidth.ingress_mbit_per_s = 300.0;
    spec.clients_at = ClientsAt::Replicas;
    spec.load.clients = 4;
    spec.load.mode = LoadMode::Open { rate, max_outstanding: 400_000 };
    spec.load.bundle = 100;
    spec.load.bundle_wait = Duration::from_millis(10);
    spec.load.warmup = Duration::from_secs(8);
    spec.load.duration = Duration::from_secs(4);
    spec
}

fn sound(report: &SimReport) -> &LoadReport {
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    report.load.as_ref().expect("the load has ended")
}

fn timeouts(report: &SimReport) -> u64 {
    report.end.iter().flatten().map(|status| status.view_timeouts).max().unwrap_or(0)
}

fn refused_bundles(report: &SimReport) -> u64 {
    report.end.iter().flatten().filter_map(|status| status.dropped.get("busy")).sum()
}

#[test]
fn three_times_saturation_costs_little_throughput_and_no_view() {
    let at_saturation = run(&wide_area(SATURATION, Some(250)), 1, &commands);
    let beyond = run(&wide_area(3.0 * SATURATION, Some(250)), 1, &commands);
    let (peak, load) = (sound(&at_saturation).throughput(), sound(&beyond));
    assert!(load.throughput() >= 0.9 * peak, "{} of {peak} commands/s", load.throughput());
    let [median, p99] = [0.5, 0.99].map(|quantile| load.latency_ms(quantile).expect("commands were executed"));
    assert!(median < 800.0 && p99 < 1500.0, "median {median} ms, p99 {p99} ms");
    assert_eq!([timeouts(&at_saturation), timeouts(&beyond)], [0, 0], "load alone changes no view");
    assert!(refused_bundles(&beyond) > 0 && load.busy > load.completed, "two thirds are refused");
    assert_eq!(load.unsent, 0, "the replicas, not the limit of the generator, bound the queue");
    let due = (3.0 * SATURATION * 4.0) as u64;
    let known = load.latency_us.len() + load.busy;
    assert!(known.abs_diff(due) < due / 100, "{known} of {due} commands are accounted for");
}

/// Maximum loss caused by admission control below saturation.
const MAX_LOSS: f64 = 0.03;

#[test]
fn below_saturation_the_default_refuses_next_to_nothing() {
    use Dissemination::{Client, Leader, Replicas, ReplicasCertified};
    let cases = [(Client, 50_000.0), (Leader, 10_000.0), (Replicas, 54_000.0), (ReplicasCertified, 50_000.0)];
    for (dissemination, rate) in cases {
        let mut spec = wide_area(rate, None);
        spec.consensus.dissemination = dissemination;
        let report = run(&spec, 1, &commands);
        let load = sound(&report);
        assert!(load.throughput() >= (1.0 - MAX_LOSS) * rate, "{dissemination}: {}", load.throughput());
        assert!(load.busy as f64 <= MAX_LOSS * rate * 4.0, "{dissemination}: {} refused", load.busy);
        let is_on = matches!(dissemination, Replicas | ReplicasCertified);
        assert!(is_on || refused_bundles(&report) == 0, "{dissemination}: admission control is off");
        assert_eq!(timeouts(&report), 0, "{dissemination}");
    }
}

/// All clients are in one region, so bundles at the other replicas take long to be certified.
#[test]
fn waiting_for_certificates_is_no_overload() {
    const RATE: f64 = 60_000.0;
    let mut spec = wide_area(RATE, None);
    spec.consensus.dissemination = Dissemination::ReplicasCertified;
    spec.network = NetworkSpec::preset("wan4").expect("a preset");
    spec.clients_at = ClientsAt::Network;
    spec.consensus.batch_bytes = 8 << 20;
    spec.costs = CostTable::shipped();
    spec.load.burst = USUAL_BURST;
    spec.load.bundle_wait = Duration::ZERO;
    (spec.load.warmup, spec.load.duration) = (Duration::from_secs(2), Duration::from_secs(4));
    let report = run(&spec, 1, &commands);
    let load = sound(&report);
    assert!(load.throughput() >= (1.0 - MAX_LOSS) * RATE, "{}, {} refused", load.throughput(), load.busy);
}

#[test]
fn twenty_replicas_bear_the_beginning_of_an_overload_without_a_timeout() {
    let mut spec = wide_area(400_000.0, None);
    spec.quorum = Quorum::of(20).expect("a sound size");
    spec.network.bandwidth.egress_mbit_per_s = 1000.0;
    spec.network.bandwidth.ingress_mbit_per_s = 1000.0;
    spec.load.clients = 20;
    (spec.load.warmup, spec.load.duration) = (Duration::from_millis(100), Duration::from_secs(3));
    let report = run(&spec, 1, &commands);
    assert!(refused_bundles(&report) > 0);
    assert!(sound(&report).completed > 0);
    assert_eq!(timeouts(&report), 0, "votes overtake bundles");
}

#[test]
fn without_admission_control_the_same_load_costs_views_and_throughput() {
    let report = run(&wide_area(3.0 * SATURATION, Some(0)), 1, &commands);
    assert_eq!(refused_bundles(&report), 0);
    assert!(timeouts(&report) > 0, "votes wait behind commands");
    assert!(sound(&report).throughput() < 0.5 * SATURATION);
}

#[test]
fn a_replica_that_is_always_busy_starves_no_client() {
    let mut spec = wide_area(2000.0, Some(250));
    spec.network.faults.push(FaultSpec::misbehave(0.0, 1, Busy));
    let open = run(&spec, 1, &commands);
    assert!(refused_bundles(&open) > 0);
    let load = sound(&open);
    assert!(load.completed as f64 >= 0.97 * 2000.0 * 4.0, "its client went elsewhere: {}", load.completed);
    spec.load.mode = LoadMode::Closed { outstanding: 10 };
    spec.load.duration = Duration::from_secs(2);
    let closed = run(&spec, 1, &commands);
    assert!(sound(&closed).completed > 0 && closed.load.as_ref().is_some_and(|load| load.unanswered == 0));
}

/// Load of a greedy client machine, in commands per second: several times the amount that its replica's network
/// interface can spread.
const GREEDY: f64 = 108_000.0;
/// Seconds measured.
const MEASURED_S: u64 = 8;

/// Runs a client that offers `modest` commands per second at each of these replicas, and a greedy client machine at the
/// first replica. Asserts that none of the modest clients' commands are refused, and that they execute soon.
fn beside_a_greedy_machine(modest: f64, modest_at: &[u16], dissemination: Dissemination, warmup_s: u64, seed: u64) {
    let machine = |replica, clients| MachineSpec { region: None, replica: Some(replica), clients: Some(clients) };
    let greedy = (GREEDY / modest) as u32;
    let machines: Vec<MachineSpec> =
        [machine(0, greedy)].into_iter().chain(modest_at.iter().map(|replica| machine(*replica, 1))).collect();
    let clients = greedy as usize + modest_at.len();
    let mut spec = wide_area(modest * clients as f64, None);
    spec.consensus.dissemination = dissemination;
    spec.clients_at = ClientsAt::Listed(machines);
    spec.load.clients = clients;
    (spec.load.warmup, spec.load.duration) = (Duration::from_secs(warmup_s), Duration::from_secs(MEASURED_S));
    let report = run(&spec, seed, &commands);
    let what = format!("{dissemination}, {modest}/s, seed {seed}");
    let load = sound(&report);
    assert_eq!(timeouts(&report), 0, "{what}");
    let (greedy, others) = report.client_machines.split_first().expect("there are machines");
    assert!(greedy.refused > 0 && greedy.throughput > 1.5 * modest, "{what}: {greedy:?}");
    assert_eq!(report.client_machines.iter().map(|machine| machine.refused).sum::<u64>(), load.busy, "{what}");
    for machine in others {
        assert_eq!(machine.refused, 0, "{what}: {machine:?}");
        // The window ends before the last commands are answered, after a latency that varies by half a second.
        assert!(machine.throughput > 0.9 * modest, "{what}: {machine:?}");
        assert!(machine.latency.p99.is_some_and(|p99| p99 < 1200.0), "{what}: {machine:?}");
    }
}

#[test]
fn a_greedy_client_takes_nothing_from_modest_ones_at_other_replicas() {
    for (modest, seed) in [(3000.0, 1), (3000.0, 2), (3000.0, 3), (5000.0, 1)] {
        for dissemination in [Dissemination::Replicas, Dissemination::ReplicasCertified] {
            beside_a_greedy_machine(modest, &[1, 2, 3], dissemination, 1, seed);
        }
    }
}

#[test]
fn a_greedy_client_takes_nothing_from_a_modest_one_at_the_same_replica() {
    for seed in 1..=3 {
        for dissemination in [Dissemination::Replicas, Dissemination::ReplicasCertified] {
            beside_a_greedy_machine(3000.0, &[0, 2], dissemination, 5, seed);
        }
    }
}
