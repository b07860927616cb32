//! Network files as read by an emulation, without privileges.

use quorate_lab::bench::{self, EmulationOptions, Progress, Resolved, Watcher, resolve};
use quorate_lab::emulation::Change;
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{BenchSpec, Host};
use quorate_network::transports::{RetransmissionProfile, TransportKind};
use quorate_simulator::network::{Delay, Endpoints};
use quorate_simulator::{ClientsAt, NetworkSpec, place};
use quorate_types::Time;
use std::fs;
use std::path::PathBuf;

fn spec() -> BenchSpec {
    BenchSpec { host: Host::Emulated, ..BenchSpec::default() }
}

fn on(network: &str) -> EmulationOptions {
    EmulationOptions { network: Some(network.to_owned()), ..EmulationOptions::default() }
}

/// A network file that is removed at the end of the test.
struct NetworkFile(PathBuf);

impl NetworkFile {
    fn new(name: &str, text: &str) -> NetworkFile {
        let path = std::env::temp_dir().join(format!("quorate-emulated-{}-{name}.toml", std::process::id()));
        fs::write(&path, text).expect("the temporary directory is writable");
        NetworkFile(path)
    }

    fn options(&self) -> EmulationOptions {
        on(self.0.to_str().expect("a test's path is UTF-8"))
    }

    fn resolved(&self) -> Resolved {
        resolve(&spec(), &self.options()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(&self) -> String {
        resolve(&spec(), &self.options()).expect_err("this needs the simulator").to_string()
    }
}

impl Drop for NetworkFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn every_preset_has_the_links_of_the_simulator() {
    for name in NetworkSpec::presets() {
        let network = NetworkSpec::preset(name).expect("a preset");
        let machines = place(&ClientsAt::One, &network.delay, 4, 4, name).expect("a place");
        let routes = network.routes(&Endpoints { replicas: 4, machines: &machines, delay: &network.delay });
        let plan = resolve(&spec(), &on(name)).unwrap_or_else(|error| panic!("{name}: {error}")).plan;
        assert_eq!(plan.ends, 5, "{name}: four replicas and the clients");
        let delays =
            |at: usize| (plan.links[at].delay_ns, plan.links[at].loss) == (routes[at].delay_ns, routes[at].loss);
        assert!((0..25).all(delays), "{name}");
        assert_eq!(plan.normal.is_some(), matches!(network.delay, Delay::Normal { .. }), "{name}");
    }
    let wan = resolve(&spec(), &on("wan4")).expect("a preset").plan;
    assert_eq!(
        (wan.links[2].delay_ns, wan.links[4].delay_ns),
        (99_410_000, 500_000),
        "Virginia to Sydney, and to clients"
    );
    assert_eq!((wan.egress_ps_per_byte, wan.jitter_ns), (8_000, 1_000_000));
}

#[test]
fn a_star_has_two_legs() {
    let text = "topology = \"star\"\ndelay = { kind = \"constant\", mean_ms = 2 }\njitter = { max_ms = 0.5 }\n\
                loss = { kind = \"independent\", probability = 0.1 }";
    let plan = NetworkFile::new("star", text).resolved().plan;
    assert_eq!((plan.links[1].delay_ns, plan.jitter_ns), (4_000_000, 1_000_000));
    assert_eq!(plan.last_leg, Some(plan.links[1].loss));
}

#[test]
fn faults_of_links_go_to_the_router_and_those_of_replicas_to_the_run() {
    let text = "heal_at_ms = 9000\n\
                [[faults]]\nkind = \"cut\"\nat_ms = 100\nfor_ms = 50\nfrom = [0]\nto = [\"clients\"]\n\
                [[faults]]\nkind = \"spike\"\nat_ms = 20\nfor_ms = 10\nfrom = [1]\nto = [2]\nby_ms = 3\n\
                [[faults]]\nkind = \"lose\"\nat_ms = 40\nfor_ms = 10\nfrom = [1]\nto = [2]\nprobability = 0.1\n\
                [[faults]]\nkind = \"crash\"\nat_ms = 2500\nreplica = 3\n\
                [[faults]]\nkind = \"misbehave\"\nreplica = 1\nfault = \"silent\"\n";
    let Resolved { plan, faults, .. } = NetworkFile::new("faults", text).resolved();
    let ms = Time::from_millis;
    let cut = vec![(0, 4), (4, 0)];
    let expected = vec![
        (ms(20), Change::Spike(vec![(1, 2)], 3_000_000)),
        (ms(30), Change::Spike(vec![(1, 2)], 0)),
        (ms(40), Change::Lose(vec![(1, 2)], 0.1)),
        (ms(50), Change::Lose(vec![(1, 2)], 0.0)),
        (ms(100), Change::Cut(cut.clone(), true)),
        (ms(150), Change::Cut(cut, false)),
        (ms(9000), Change::Heal),
    ];
    assert_eq!(plan.changes, expected);
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["crash:3@500ms", "silent:1"], "the warm-up lasts 2 s");
}

#[test]
fn what_needs_the_simulator_is_refused_by_name() {
    let fault = |kind: &str, rest: &str| format!("[[faults]]\nkind = \"{kind}\"\nat_ms = 5000\nreplica = 1\n{rest}");
    for (name, text, expected) in [
        ("pause", fault("pause", "for_ms = 5"), "`faults[0]`: is a fault that only the simulator has"),
        ("torn", fault("restart", "for_ms = 5\njournal = \"torn\""), "`faults[0]`: is a fault that only the simulator"),
        ("early", "[[faults]]\nkind = \"crash\"\nat_ms = 5\nreplica = 1".into(), "at 5 ms, during the warm-up"),
        ("absent", fault("crash", "").replace("= 1", "= 9"), "names replica 9, but the last one is 3"),
        (
            "regions",
            "[delay]\nkind = \"matrix\"\nregions = [\"a\", \"b\"]\none_way_ms = [[1, 2], [2, 1]]\n\
             clients = [\"a\", \"b\"]"
                .into(),
            "`delay.clients`: names 2 regions for clients, but an emulated network has one; help: name one region, or \
             simulate them: quorate sim --network ",
        ),
    ] {
        let refused = NetworkFile::new(name, &text).refused();
        assert!(refused.contains(expected), "{name}: {refused}");
    }
    let absent = resolve(&spec(), &on("no/such.toml")).expect_err("no file").to_string();
    assert!(absent.contains("cannot read no/such.toml") && absent.contains("wan4"), "{absent}");
}

#[test]
fn the_kernel_gets_the_files_timeouts_and_what_it_lacks_is_named() {
    let values = |resolved: &Resolved| resolved.tcp.values.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
    let text = "transport = { rto_min_ms = 5, rto_max_ms = 2000, rto_initial_ms = 50, fast_retransmit = false }";
    let file = NetworkFile::new("timeouts", text);
    let resolved = file.resolved();
    assert_eq!((values(&resolved), resolved.rto_min_ms), (vec!["5000".to_owned(), "2000".into()], 5.0));
    assert_eq!(resolved.tcp.congestion_control, "cubic");
    assert_eq!(resolved.not_applied.len(), 2, "{:?}", resolved.not_applied);
    let flags = EmulationOptions {
        rto_min_ms: Some(7.5),
        congestion_control: Some("reno".into()),
        loss: Some(0.25),
        card_mbit_per_s: Some(10),
        ..file.options()
    };
    let resolved = resolve(&spec(), &flags).expect("flags override the file");
    assert_eq!((values(&resolved)[0].as_str(), resolved.tcp.congestion_control.as_str()), ("7500", "reno"));
    assert_eq!(resolved.plan.egress_ps_per_byte, 800_000);
    assert!(resolved.plan.links.iter().all(|link| link.loss.loses()));
    let command = flags.command_line(&spec());
    assert!(command.starts_with("quorate bench --host emulated --network "), "{command}");
    assert!(command.ends_with("--loss 0.25 --card-mbit-per-s 10 --rto-min-ms 7.5 --congestion-control reno"));
}

#[test]
fn tcp_follows_a_profile_in_emulated_and_simulated_networks() {
    let file = NetworkFile::new(
        "profile",
        "delay = { kind = \"constant\", mean_ms = 10 }\nlinks = [{ from = 0, to = 1, delay_ms = 1 }]",
    );
    let with = |retransmission| BenchSpec { retransmission, ..spec() };
    let resolved = |retransmission| resolve(&with(retransmission), &file.options()).expect("a profile");
    let values = |resolved: &Resolved| resolved.tcp.values.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
    let simulated = |retransmission| {
        let options = SimOptions { network: file.options().name().to_owned(), ..SimOptions::default() };
        let transport = sim::sim_spec(&with(retransmission), &options).expect("a profile").network.transport;
        (transport.rto_initial_ms, transport.rto_min_ms, transport.rto_max_ms)
    };
    for (profile, kernel, simulator) in [
        (None, ["200000", "60000"], (1000.0, 200.0, 60_000.0)),
        (Some(RetransmissionProfile::Default), ["1000000", "60000"], (3000.0, 1000.0, 60_000.0)),
        (Some(RetransmissionProfile::TcpMock), ["200000", "120000"], (200.0, 200.0, 120_000.0)),
        (Some(RetransmissionProfile::S50), ["50000", "50"], (50.0, 50.0, 50.0)),
        // The smallest round trip is 1 ms in one direction and 10 ms back.
        (Some(RetransmissionProfile::Auto), ["14000", "10000"], (200.0, 14.0, 10_000.0)),
    ] {
        let emulated = resolved(profile);
        assert_eq!(values(&emulated), kernel, "{profile:?}");
        assert_eq!(emulated.not_applied.len(), if profile.is_some() { 2 } else { 0 }, "{:?}", emulated.not_applied);
        assert_eq!(simulated(profile), simulator, "{profile:?}");
    }
    let own = EmulationOptions { rto_min_ms: Some(7.0), ..file.options() };
    let resolved = resolve(&with(Some(RetransmissionProfile::S100)), &own).expect("the flag overrides the profile");
    assert_eq!((values(&resolved)[0].as_str(), resolved.rto_min_ms), ("7000", 7.0));
    let rudp = {
        let mut spec = with(Some(RetransmissionProfile::S50));
        spec.node.transport = TransportKind::RUDP;
        spec
    };
    let resolved = resolve(&rudp, &file.options()).expect("RUDP has its own timeouts");
    assert_eq!((values(&resolved)[0].as_str(), resolved.not_applied.len()), ("200000", 0));
}

#[test]
fn a_profile_without_effect_is_said() {
    let with = |host, transport| {
        let retransmission = Some(RetransmissionProfile::S50);
        let spec = {
            let mut spec = BenchSpec { host, retransmission, ..BenchSpec::default() };
            spec.node.transport = transport;
            spec
        };
        spec.warnings().into_iter().chain(spec.idle_beside_the_kernel()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        with(Host::Threads, TransportKind::TCP).contains("--retransmission: has no effect, because --transport is tcp")
    );
    assert_eq!(with(Host::Emulated, TransportKind::TCP), "");
    assert_eq!(with(Host::Threads, TransportKind::RUDP), "");
    assert!(
        with(Host::Emulated, TransportKind::UDP)
            .contains("--retransmission: has no effect, because --transport is udp")
    );
}

struct Nobody;

impl Watcher for Nobody {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, _: &str) {}
}

#[test]
fn other_hosts_refuse_the_flags_of_the_network() {
    let threads = BenchSpec::default();
    let refused = bench::run_on(&threads, &on("wan4"), &mut Nobody).map(|_| ()).expect_err("nothing is emulated");
    assert!(refused.is_wrong_call());
    let expected = "--network, --host: --network needs an emulated network, but the host is `threads`; \
                    help: set --host emulated, or use `quorate sim`";
    assert_eq!(refused.to_string(), expected);
}
