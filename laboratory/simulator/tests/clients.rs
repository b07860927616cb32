//! Several client machines.

use crate::common::{commands, spec};
use quorate_client::load::{LoadMode, LoadStep};
use quorate_client::workload::Workload;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::{FaultSpec, changes};
use quorate_simulator::hostile::{Hostility, SERVED_WITHIN_MS};
use quorate_simulator::network::{Delay, End, Endpoints, LinkSpec, Loss, Place, endpoint_name};
use quorate_simulator::{ClientsAt, MachineSpec, NetworkSpec, SimReport, SimSpec, run};
use quorate_testkit::wires::toy_wire;
use quorate_types::ClientId;
use std::time::Duration;

/// Regions of the preset `us4`.
const REGIONS: [&str; 4] = ["n-virginia", "ohio", "n-california", "oregon"];

fn sound(report: SimReport) -> SimReport {
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    report
}

/// Four replicas in the US with five clients on machines at these places, for two seconds.
fn us(at: ClientsAt) -> SimSpec {
    let mut spec = SimSpec { clients_at: at, ..spec(ProtocolKind::Jolteon) };
    spec.network = NetworkSpec::preset("us4").expect("a preset");
    spec.network.jitter.max_ms = 0.0;
    (spec.load.clients, spec.load.mode) = (5, LoadMode::Closed { outstanding: 20 });
    (spec.load.warmup, spec.load.duration) = (Duration::from_millis(500), Duration::from_secs(2));
    spec
}

fn named(regions: &[&str]) -> ClientsAt {
    ClientsAt::Regions(regions.iter().map(|region| (*region).to_owned()).collect())
}

#[test]
fn a_machine_in_each_region_has_its_own_distance_and_clients() {
    let report = sound(run(&us(ClientsAt::Replicas), 1, &commands));
    let load = report.load.expect("the load is over");
    let machines = report.client_machines;
    let told: Vec<_> =
        machines.iter().map(|machine| (machine.region.as_deref(), machine.home.0, machine.clients)).collect();
    let expected = [2, 1, 1, 1].into_iter().zip(REGIONS).zip(0..);
    assert_eq!(told, expected.map(|((clients, region), home)| (Some(region), home, clients)).collect::<Vec<_>>());
    assert!(machines.iter().all(|machine| machine.completed > 0));
    assert_eq!(machines.iter().map(|machine| machine.completed).sum::<u64>(), load.completed);
    // The quantiles of the whole load lie between the machines' quantiles.
    let medians: Vec<f64> =
        machines.iter().map(|machine| machine.latency.p50.expect("it completed commands")).collect();
    let (low, high) = (medians.iter().copied().fold(f64::MAX, f64::min), medians.iter().copied().fold(0.0, f64::max));
    let all = load.latency_ms(0.5).expect("it completed commands");
    assert!(low <= all && all < high && high - low > 5.0, "{medians:?}, all: {all}");
}

#[test]
fn the_places_of_the_network_file_hold_unless_others_are_set() {
    let clients_of = |at: ClientsAt, clients: &str| {
        let text = us(at.clone()).network.to_toml().replace("clients = \"n-virginia\"", clients);
        let network = NetworkSpec::parse(&text, "net.toml").expect("the file is valid");
        let mut spec = SimSpec { network, ..us(at) };
        spec.load.duration = Duration::from_millis(300);
        let machines = sound(run(&spec, 1, &commands)).client_machines;
        machines.into_iter().map(|machine| (machine.region.expect("it has one"), machine.clients)).collect::<Vec<_>>()
    };
    let at = |places: &[(&str, usize)]| -> Vec<(String, usize)> {
        places.iter().map(|(region, clients)| ((*region).to_owned(), *clients)).collect()
    };
    assert_eq!(clients_of(ClientsAt::Network, "clients = \"ohio\""), at(&[("ohio", 5)]));
    let several = "clients = [\"oregon\", \"ohio\"]";
    assert_eq!(clients_of(ClientsAt::Network, several), at(&[("oregon", 3), ("ohio", 2)]));
    assert_eq!(clients_of(ClientsAt::One, several), at(&[("oregon", 5)]));
    assert_eq!(clients_of(named(&["ohio"]), several), at(&[("ohio", 5)]));
    assert_eq!(clients_of(ClientsAt::Clients, "clients = \"ohio\""), at(&[("ohio", 1); 5]));
    let listed =
        |region: Option<&str>, replica, clients| MachineSpec { region: region.map(str::to_owned), replica, clients };
    let list = vec![listed(Some("ohio"), Some(3), None), listed(None, Some(2), Some(4))];
    assert_eq!(clients_of(ClientsAt::Listed(list), several), at(&[("ohio", 1), ("n-california", 4)]));
}

#[test]
fn impossible_places_are_refused_with_help() {
    let listed = |clients: &[Option<u32>]| {
        let machine = |clients: &Option<u32>| MachineSpec { clients: *clients, ..MachineSpec::default() };
        ClientsAt::Listed(clients.iter().map(machine).collect())
    };
    let absent = MachineSpec { replica: Some(4), ..MachineSpec::default() };
    for (at, words) in [
        (named(&["ohio", "mars"]), "`mars` is not a region"),
        (named(&[]), "0 machines"),
        (named(&["ohio"; 6]), "5 clients are too few for 6 machines"),
        (listed(&[Some(3), Some(3)]), "set --clients to at least 6"),
        (listed(&[Some(3), Some(1)]), "have 4 of 5 clients"),
        (ClientsAt::Listed(vec![absent]), "names replica 4, but the last one is 3"),
    ] {
        let said = us(at).places().expect_err("there is no such place").to_string();
        assert!(said.starts_with("--clients-at") && said.contains(words), "{said}");
    }
    let mut flat = us(named(&["ohio"]));
    flat.network = NetworkSpec::default();
    assert!(flat.places().expect_err("it has no regions").to_string().contains("has no regions"));
}

/// All delays are 10 ms. The leader commits one delay before the others, and the client's second reply takes one more.
#[test]
fn commits_are_observed_at_the_nearest_replica() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.network = NetworkSpec { delay: Delay::Constant { mean_ms: 10.0 }, ..NetworkSpec::default() };
    (spec.load.clients, spec.load.mode) = (1, LoadMode::Closed { outstanding: 1 });
    let median = |report: &SimReport| {
        let machine = &report.client_machines[0];
        let load = report.load.as_ref().expect("the load is over");
        assert_eq!(load.commit_us.as_ref().expect("recorded").len(), load.latency_us.len(), "each command counts once");
        (machine.home.0, machine.latency.p50.expect("completed"), machine.commit.p50.expect("committed"))
    };
    let (home, answered, committed) = median(&sound(run(&spec, 1, &commands)));
    assert_eq!(home, 0);
    assert!((19.0..21.0).contains(&(answered - committed)), "{answered} ms with replies, {committed} ms to the commit");
    let near = End::Replica(2);
    let link = LinkSpec { from: End::Named("clients".into()), to: near, delay_ms: Some(1.0), loss: None };
    spec.network.links = vec![link];
    assert_eq!(median(&sound(run(&spec, 1, &commands))).0, 2);
}

#[test]
fn an_open_loop_is_split_and_its_steps_are_merged() {
    let mut spec = us(named(&["ohio", "oregon", "oregon"]));
    spec.load.mode = LoadMode::Open { rate: 300.0, max_outstanding: 1000 };
    spec.load.duration = Duration::from_secs(3);
    let step = |rate: f64| LoadStep { lasts: Duration::from_millis(1500), from: rate, to: rate };
    spec.load.steps = vec![step(300.0), step(600.0)];
    let report = sound(run(&spec, 1, &commands));
    let load = report.load.expect("the load is over");
    assert_eq!(load.window, spec.load.duration);
    assert!((1340..=1360).contains(&load.submitted), "{} of 1350 commands", load.submitted);
    let steps: Vec<_> = load.steps.iter().map(|step| (step.step, step.latency_us.len())).collect();
    assert_eq!([steps[0].0, steps[1].0], [step(300.0), step(600.0)]);
    assert!((445..=455).contains(&steps[0].1) && (895..=905).contains(&steps[1].1), "{steps:?}");
    assert_eq!(load.latency_us.len(), steps[0].1 + steps[1].1);
    // Machines send alternately: no two of the first commands are due at the same time.
    let lag = load.schedule_lag_us.as_ref().expect("an open loop has a schedule");
    assert!(lag.max() < 1000, "late by {} us", lag.max());
    assert_eq!(load.seconds.len(), 3);
    let seconds = load.seconds.iter().map(|second| second.expect("each second has answers"));
    let (lowest, highest) = (load.latency_us.min(), load.latency_us.max());
    assert!(seconds.into_iter().all(|(median, p99)| lowest < median && median <= p99 && p99 <= highest));
    // An answer to any of the three machines ends a gap.
    assert!(load.longest_gap < Duration::from_millis(100), "{:?}", load.longest_gap);
    // Each client has an equal part of the rate, and the last machine has fewer clients.
    let machines = report.client_machines.iter().map(|machine| (machine.clients as u64, machine.completed));
    let machines: Vec<(u64, u64)> = machines.collect();
    assert_eq!(machines.iter().map(|(clients, _)| *clients).collect::<Vec<_>>(), [2, 2, 1]);
    let each = machines[2].1;
    assert!(machines.iter().all(|(clients, completed)| completed.abs_diff(clients * each) < 30), "{machines:?}");
}

/// Commands to execute before the load: more than a machine sends at once.
const RECORDS: u64 = 25_000;

/// A load with a preload.
struct Before {
    left: u64,
    load: Box<dyn Workload>,
}

impl Workload for Before {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        payload.extend(self.left.to_le_bytes());
        let is_left = self.left > 0;
        self.left -= u64::from(is_left);
        is_left
    }

    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>) {
        self.load.next(client, payload);
    }
}

#[test]
fn a_preload_is_shared_and_the_load_waits_for_all_of_it() {
    let before = || -> Box<dyn Workload> { Box::new(Before { left: RECORDS, load: commands() }) };
    let mut spec = us(ClientsAt::Replicas);
    spec.load.bundle = 100;
    let load = sound(run(&spec, 1, &before)).load.expect("the load is over");
    assert_eq!((load.preloaded, load.preload_refused, load.refused), (RECORDS, 0, 0));
    assert!(load.completed > 0 && load.window == spec.load.duration);
}

#[test]
fn faults_reach_the_machines_that_they_name() {
    let completed = |ends: &str| {
        let mut spec = us(named(&["ohio", "oregon"]));
        let from = vec![End::Named(ends.to_owned())];
        let to = (0..4).map(End::Replica).collect();
        spec.network.faults = vec![FaultSpec::Cut { at_ms: 0.0, for_ms: 60_000.0, from, to, one_way: false }];
        let places = spec.places().expect("they exist");
        spec.network.fits(4, &places, "net.toml").expect("the fault fits");
        let machines = sound(run(&spec, 1, &commands)).client_machines;
        machines.iter().map(|machine| machine.completed > 0).collect::<Vec<_>>()
    };
    assert_eq!(completed("clients"), [false, false]);
    assert_eq!(completed("clients:0"), [false, true]);
    assert_eq!(completed("clients:1"), [true, false]);
    assert_eq!(completed("oregon"), [true, false]);
    let mut spec = us(named(&["ohio", "oregon"]));
    for absent in ["clients:2", "n-virginia"] {
        let ends = || vec![End::Named(absent.to_owned())];
        spec.network.faults = vec![FaultSpec::Spike { at_ms: 0.0, for_ms: 1.0, from: ends(), to: ends(), by_ms: 1.0 }];
        let said = spec.network.fits(4, &spec.places().expect("they exist"), "net.toml").expect_err("no such machine");
        assert!(said.to_string().starts_with(&format!("net.toml: `faults[0]`: names `{absent}`")), "{said}");
    }
}

#[test]
fn runs_with_several_machines_repeat_and_survive_chaos() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft, ProtocolKind::ChainedHotStuff] {
        let mut spec = SimSpec { clients_at: ClientsAt::Replicas, ..spec(protocol) };
        spec.load.clients = 4;
        let [one, same, other] = [1, 1, 2].map(|seed| sound(run(&spec, seed, &commands)).trace_hash);
        assert_eq!(one, same, "{protocol}");
        assert_ne!(one, other, "{protocol}");
        spec.chaos = Some(Duration::from_secs(1));
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        for seed in 1..5 {
            sound(run(&spec, seed, &commands));
        }
    }
}

#[test]
fn packet_transports_connect_each_machine() {
    let mut spec = SimSpec { wire: toy_wire(), clients_at: ClientsAt::Replicas, ..spec(ProtocolKind::Jolteon) };
    spec.load.clients = 4;
    spec.network.loss = Loss::Independent { probability: 0.02 };
    let report = sound(run(&spec, 1, &commands));
    assert!(report.client_machines.iter().all(|machine| machine.completed > 0));
}

/// The oracle `served` watches all machines' bundles, and each machine has its own link.
#[test]
fn every_machine_is_served_under_attack() {
    for client in [Hostility::Flood, Hostility::Squat, Hostility::Repeat] {
        let mut spec = SimSpec { clients_at: ClientsAt::Replicas, ..spec(ProtocolKind::Jolteon) };
        spec.load.clients = 4;
        spec.load.mode = LoadMode::Closed { outstanding: 1 };
        let (within_ms, shares_link) = (SERVED_WITHIN_MS, false);
        spec.network.faults = vec![FaultSpec::Hostile { at_ms: 50.0, for_ms: 400.0, client, shares_link, within_ms }];
        let report = sound(run(&spec, 1, &commands));
        assert!(report.client_machines.iter().all(|machine| machine.completed > 0), "{client}");
    }
}

#[test]
fn the_transcript_names_machines_apart() {
    let spec = us(named(&["ohio", "oregon"]));
    let (from, to) = (vec![End::Named("oregon".into())], vec![End::Replica(0)]);
    let spike = FaultSpec::Spike { at_ms: 100.0, for_ms: 100.0, from, to, by_ms: 5.0 };
    let places = spec.places().expect("they exist");
    let told = |machines: &[Place]| {
        let endpoints = Endpoints { replicas: 4, machines, delay: &spec.network.delay };
        let changes = changes(std::slice::from_ref(&spike), &endpoints);
        changes[0].1.describe(|end| endpoint_name(end, 4, machines.len()))
    };
    assert_eq!(told(&places), "delayed by 5 ms: C1 to R0");
    assert_eq!(told(&places[1..]), "delayed by 5 ms: R4 to R0", "one machine has the number after the replicas");
}

/// A machine with more commands has more of the samples.
#[test]
fn samples_are_drawn_from_all_machines_alike() {
    let mut spec = us(ClientsAt::Listed(vec![
        MachineSpec { region: Some("ohio".into()), clients: Some(4), ..MachineSpec::default() },
        MachineSpec { region: Some("oregon".into()), ..MachineSpec::default() },
    ]));
    spec.load.samples = 400;
    let report = sound(run(&spec, 1, &commands));
    let load = report.load.expect("the load is over");
    assert_eq!(load.samples.len(), 400);
    assert!(load.samples.is_sorted_by_key(|sample| sample.intended));
    // The machine in Oregon is slower; the distances differ by 60 ms.
    let [ohio, oregon] = [0, 1].map(|at| &report.client_machines[at]);
    let edge = (ohio.latency.p50.expect("completed") + oregon.latency.p50.expect("completed")) / 2.0;
    let of_oregon = load.samples.iter().filter(|sample| sample.latency_us as f64 / 1e3 > edge).count() as f64 / 400.0;
    let share = oregon.completed as f64 / load.completed as f64;
    assert!((of_oregon - share).abs() < 0.08, "{of_oregon} of the samples, {share} of the commands");
}
