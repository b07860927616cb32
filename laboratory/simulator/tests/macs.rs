//! MACs on votes and clients' bundles, and clients that send wrong ones.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{ClientAuthentication, SchemeKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::hostile::Hostility;
use quorate_simulator::work::Work;
use quorate_simulator::{CostTable, Signatures, SimReport, SimSpec, run};
use std::time::Duration;

const MAC_SCHEMES: [SchemeKind; 2] = [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC];

/// Votes have MACs, and so do clients' bundles if `clients` says so.
fn with_macs(macs: SchemeKind, clients: ClientAuthentication) -> SimSpec {
    let mut spec = SimSpec { macs: Some(macs), client_authentication: clients, ..spec(ProtocolKind::PbftMac) };
    spec.costs = CostTable::shipped();
    spec
}

fn sound(report: SimReport) -> SimReport {
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    report
}

#[test]
fn each_replica_verifies_its_own_mac_of_each_bundle() {
    for macs in MAC_SCHEMES {
        for signatures in [Signatures::Modelled, Signatures::Real] {
            let spec = SimSpec { signatures, ..with_macs(macs, ClientAuthentication::Mac) };
            let plain = SimSpec { client_authentication: ClientAuthentication::None, ..spec.clone() };
            let (plain, coded) = (sound(run(&plain, 1, &commands)), sound(run(&spec, 1, &commands)));
            let charged = |report: &SimReport| report.charged.clone().expect("the measured time is over");
            let (before, after) = (charged(&plain), charged(&coded));
            let bundles = after.clients.count(Work::Bundles);
            assert_eq!(before.clients.count(Work::Signatures), 0);
            assert_eq!(after.clients.count(Work::Signatures), bundles, "a client authenticates each bundle once");
            // A client computes a MAC for each of four replicas.
            let each_us = after.clients.us(Work::Signatures) / bundles as f64;
            let one_us = spec.costs.signatures_of(macs).expect("it has costs").sign_us;
            assert!(
                (each_us - 4.0 * one_us).abs() < 0.01,
                "{macs}: {each_us} us for each bundle, {one_us} for one MAC"
            );
            let per_block = |count: u64, report: &SimReport| {
                let blocks = report.end[0].as_ref().expect("it is up").height.0;
                count as f64 / blocks as f64
            };
            let verified = after.replicas.count(Work::Verifications) as f64
                - per_block(before.replicas.count(Work::Verifications), &plain)
                    * coded.end[0].as_ref().expect("it is up").height.0 as f64;
            let each = verified / bundles as f64;
            assert!((3.6..4.4).contains(&each), "{macs} {signatures}: {each} MACs verified of each bundle");
        }
    }
}

#[test]
fn macs_survive_chaos() {
    for (seed, macs) in (1..=8).zip(MAC_SCHEMES.into_iter().cycle()) {
        let signatures = if seed % 4 == 0 { Signatures::Real } else { Signatures::Modelled };
        let mut spec =
            SimSpec { signatures, chaos: Some(Duration::from_secs(1)), ..with_macs(macs, ClientAuthentication::Mac) };
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        sound(run(&spec, seed, &commands));
    }
}

/// Length of the load, with the attack in its second half.
const WHOLE: Duration = Duration::from_secs(4);
const ATTACK_MS: f64 = 2000.0;

/// Runs an honest client, next to an attack in the second half.
fn attacked(client: Hostility, clients: ClientAuthentication) -> SimReport {
    let mut spec = with_macs(SchemeKind::HMAC_SHA256, clients);
    spec.consensus.view_timeout_ms = 100;
    (spec.load.clients, spec.load.mode, spec.load.bundle) = (1, LoadMode::Closed { outstanding: 4 }, 1);
    (spec.load.warmup, spec.load.duration) = (Duration::ZERO, WHOLE);
    let (at_ms, within_ms) = (WHOLE.as_millis() as f64 - ATTACK_MS, 60_000.0);
    spec.network.faults = vec![FaultSpec::Hostile { at_ms, for_ms: ATTACK_MS, client, shares_link: false, within_ms }];
    sound(run(&spec, 1, &commands))
}

/// Returns the ratio of honest commands executed during the attack to those before it, and the number of view timeouts.
fn damage(report: &SimReport) -> (f64, u64) {
    let executed = |at: Duration| {
        let reading = report.seconds.iter().find(|reading| reading.at == at);
        let reading = reading.expect("a reading each second");
        reading.replicas[0].as_ref().expect("it is up").executed_commands
    };
    let before = executed(WHOLE - Duration::from_millis(ATTACK_MS as u64));
    let timeouts = report.end[0].as_ref().expect("it is up").view_timeouts;
    ((executed(WHOLE) - before) as f64 / before as f64, timeouts)
}

/// The MAC attack of Clement et al., "Making Byzantine fault tolerant systems tolerate Byzantine faults" (Aardvark),
/// NSDI 2009, section 3.
#[test]
fn a_client_with_macs_for_the_leader_stops_macs_and_not_signatures() {
    let (left, timeouts) = damage(&attacked(Hostility::MacsForLeader, ClientAuthentication::Mac));
    assert!(left < 0.05, "{left} of the throughput is left");
    assert!(timeouts > 10, "{timeouts} views timed out");
    let (left, timeouts) = damage(&attacked(Hostility::MacsForLeader, ClientAuthentication::Ed25519));
    assert!(left > 0.9, "{left} of the throughput is left");
    assert_eq!(timeouts, 0);
}

/// The other replicas wait for a bundle that the leader refuses, so each leader is deposed once.
#[test]
fn a_client_with_macs_for_backups_ends_few_views() {
    let (left, timeouts) = damage(&attacked(Hostility::MacsForBackups, ClientAuthentication::Mac));
    assert!(left > 0.8, "{left} of the throughput is left");
    assert!((1..=10).contains(&timeouts), "{timeouts} views timed out");
    let (left, timeouts) = damage(&attacked(Hostility::MacsForBackups, ClientAuthentication::Ed25519));
    assert!(left > 0.9, "{left} of the throughput is left");
    assert_eq!(timeouts, 0);
}
