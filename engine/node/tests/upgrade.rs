//! Real processes move to another wire version one after the other, under load, and back.
//!
//! A process whose configuration limits it to the oldest version is, on the wire, a process of the release before.

use crate::restart::{HANG, Net, REPLICAS, all_have_executed};
use crate::support::TestClient;
use quorate_consensus::config::ProtocolKind;
use quorate_network::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_types::host_status::WireStatus;
use quorate_types::{ReplicaId, Status};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const COMMANDS: usize = 10;
const VIEW_TIMEOUT_MS: u64 = 300;

fn limit(net: &Net, replica: usize, newest: u8) {
    let path = net.homes[replica].join(CONFIG_FILE);
    let mut config = NodeConfig::read(&path).expect("a valid configuration");
    config.links.newest_wire_version = newest;
    fs::write(&path, config.to_toml()).expect("it can be written");
}

/// Restarts the replicas one after the other with another newest wire version.
fn roll(net: &mut Net, newest: u8) {
    for replica in 0..REPLICAS {
        net.stop(replica);
        limit(net, replica, newest);
        let before = net.said(replica, "resumes from its journal");
        net.start(replica);
        net.wait_until_said(replica, "resumes from its journal", before + 1);
        // The next one stops once this one has had time to catch up.
        std::thread::sleep(Duration::from_millis(2 * VIEW_TIMEOUT_MS));
    }
}

/// Sends commands, each after the answer to the one before, while `roll` runs. Returns the number of commands, and the
/// longest time between two answers.
fn under_load(net: &mut Net, client: &mut TestClient, newest: u8) -> (u64, Duration) {
    let (quiet, mut sent, mut longest) = (AtomicBool::new(false), 0, Duration::ZERO);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            roll(net, newest);
            quiet.store(true, Ordering::Relaxed);
        });
        while !quiet.load(Ordering::Relaxed) && !thread.is_finished() {
            let begun = Instant::now();
            let bundle = client.bundle(COMMANDS, b"payload");
            client.submit(&[bundle], 1, 2);
            longest = longest.max(begun.elapsed());
            sent += COMMANDS as u64;
        }
    });
    (sent, longest)
}

/// Waits until all links between replicas use `version`, and returns each replica's status of them.
fn agree_on(client: &mut TestClient, version: u8) -> Vec<WireStatus> {
    let start = Instant::now();
    loop {
        client.connect(REPLICAS);
        let statuses: Vec<Status> = (0..REPLICAS as u16).map(|of| client.status(ReplicaId(of))).collect();
        let wires: Vec<WireStatus> = statuses.into_iter().map(|status| status.host.expect("a node").wire).collect();
        let agrees = |wire: &WireStatus| {
            wire.links.len() == REPLICAS - 1 && wire.links.iter().all(|link| link.version == version)
        };
        if wires.iter().all(agrees) {
            return wires;
        }
        assert!(start.elapsed() < HANG, "not all links use wire version {version}: {wires:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn is_upgraded_and_returns(protocol: ProtocolKind) {
    let mut net = Net::new(&format!("upgrade-{protocol}"), |config| {
        config.consensus.protocol = protocol;
        config.consensus.view_timeout_ms = VIEW_TIMEOUT_MS;
        config.links.newest_wire_version = OLDEST_WIRE_VERSION;
    });
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let first = client.bundle(COMMANDS, b"payload");
    client.submit(&[first], 1, 2);
    let mut sent = COMMANDS as u64;
    all_have_executed(&mut client, sent);
    let wires = agree_on(&mut client, OLDEST_WIRE_VERSION);
    assert!(wires.iter().all(|wire| wire.newest == OLDEST_WIRE_VERSION && wire.links[0].program.is_none()));
    for newest in [NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION] {
        let (commands, longest) = under_load(&mut net, &mut client, newest);
        sent += commands;
        let wires = agree_on(&mut client, newest);
        let told = |wire: &WireStatus| wire.links.iter().all(|link| link.program.is_some());
        assert!(wires.iter().all(|wire| wire.newest == newest && told(wire) == (newest >= 7)), "{wires:?}");
        all_have_executed(&mut client, sent);
        let timeouts = longest.as_millis() as f64 / VIEW_TIMEOUT_MS as f64;
        println!("{protocol} to wire version {newest}: {commands} commands, longest gap {timeouts:.2} view timeouts");
    }
}

#[test]
fn a_chained_cluster_is_upgraded_and_returns() {
    is_upgraded_and_returns(ProtocolKind::Jolteon);
}

#[test]
fn a_pbft_cluster_is_upgraded_and_returns() {
    is_upgraded_and_returns(ProtocolKind::Pbft);
}
