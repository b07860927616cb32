//! A replica crashes at every point of a short run: before and after each record is written, before each message is
//! signed, before it is sent, and after it is sent. Regardless of how much of its journal survives, it contradicts no
//! message that others received, and all commands are executed once.

use crate::common::{commands, spec};
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_crypto::{ClientAuthentication, SchemeKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{CostTable, Leaves, Signatures, SimReport, SimSpec, run};
use quorate_types::ReplicaId;
use std::time::Duration;

/// All remains of a journal except none.
const LEAVES: [Leaves; 3] = [Leaves::Written, Leaves::Flushed, Leaves::Torn];
/// The first leader, and a backup.
const STRUCK: [u16; 2] = [0, 3];
const DOWN: Duration = Duration::from_millis(4);
/// The crash happens in this part of the load, which continues until after the restart.
const SWEPT: Duration = Duration::from_millis(6);

/// A light load and a slow disk.
fn short(protocol: ProtocolKind, duration: Duration) -> SimSpec {
    let mut spec = spec(protocol);
    spec.consensus.leader = LeaderKind::Fixed;
    spec.consensus.view_timeout_ms = 20;
    spec.consensus.min_view_timeout_ms = 10;
    spec.consensus.checkpoint_interval = 4;
    spec.consensus.window = 8;
    spec.costs.journal.flush_us = 300.0;
    spec.load = LoadOptions {
        clients: 1,
        mode: LoadMode::Closed { outstanding: 2 },
        bundle: 1,
        warmup: Duration::ZERO,
        duration,
        drain: Duration::from_secs(20),
        ..LoadOptions::default()
    };
    spec
}

/// Earlier statements reserve the view, so the proposer's record is flushed in parallel with the voters'.
#[test]
fn a_block_waits_for_one_flush_per_phase() {
    let flush = Duration::from_millis(5);
    for protocol in ProtocolKind::ALL.iter().copied().filter(|protocol| !protocol.has_slots()) {
        let phases = if protocol == ProtocolKind::BasicHotStuff { 3 } else { 1 };
        for leader in [LeaderKind::Fixed, LeaderKind::RoundRobin] {
            let mut spec = short(protocol, Duration::from_secs(1));
            (spec.consensus.leader, spec.consensus.view_timeout_ms) = (leader, 1000);
            spec.costs.journal.flush_us = flush.as_secs_f64() * 1e6;
            let report = run(&spec, 1, &commands);
            judge(&report, "no crash");
            let life =
                report.lives.iter().find(|life| life.last.replica == ReplicaId(0)).expect("replica 0 was measured");
            let blocks = life.last.committed_blocks - life.first.committed_blocks;
            let flushes = 1.0 / flush.as_secs_f64() / f64::from(phases);
            let per_block = flushes / blocks as f64;
            // A leader that proposes ahead may have just missed the flush of its vote.
            let most = if protocol.facts().optimistic_proposals { 2.0 } else { 1.5 };
            assert!((1.0..most).contains(&per_block), "{protocol}, {leader}: {per_block} flushes per block");
        }
    }
}

fn judge(report: &SimReport, case: &str) {
    assert_eq!(report.violation, None, "{case}:\n{}", report.transcript.join("\n"));
    let load = report.load.as_ref().expect("a run without a violation has a load");
    assert!(load.total_completed > 0 && load.unanswered == 0, "{case}: {} commands are lost", load.unanswered);
    let heights: Vec<_> = report.end.iter().flatten().map(|status| status.height).collect();
    assert!(heights.len() == 4 && heights.iter().all(|height| *height == heights[0]), "{case}: {heights:?}");
}

fn sweep(protocol: ProtocolKind) {
    sweep_of(&protocol.to_string(), &LEAVES, &|duration| short(protocol, duration));
}

fn sweep_of(what: &str, leaves: &[Leaves], short: &dyn Fn(Duration) -> SimSpec) {
    let calm = run(&short(SWEPT), 1, &commands);
    judge(&calm, "no crash");
    for replica in STRUCK {
        let points = calm.points[usize::from(replica)];
        assert!(points > 20, "replica {replica} passes only {points} points");
        for (point, journal) in (1..=points).flat_map(|point| leaves.iter().map(move |journal| (point, *journal))) {
            let mut spec = short(SWEPT + 3 * DOWN);
            let for_ms = DOWN.as_secs_f64() * 1000.0;
            spec.network.faults = vec![FaultSpec::Strike { point, for_ms, replica, journal }];
            let report = run(&spec, 1, &commands);
            let case = format!("{what}: replica {replica} crashes at point {point}, journal {journal:?}");
            judge(&report, &case);
            assert_eq!((report.restarts, report.crashed.len()), (1, 1), "{case}");
        }
    }
}

/// Slowdown of the leader's disk relative to the voters', so that its proposal is certified before its own record is
/// durable.
const SLOW_DISK: f64 = 10.0;
/// View timeout that is longer than the leader's absence.
const PATIENT_MS: u64 = 200;

/// The leader sends a message only once the records that it depends on are durable, so a power failure at any point
/// loses nothing that others have received.
#[test]
fn a_leader_with_the_slowest_disk_contradicts_nothing() {
    for protocol in ProtocolKind::ALL {
        let slow = |duration: Duration| {
            let mut spec = short(*protocol, duration);
            // The others wait for the restart, and the leader quickly fetches lost blocks, so it leads the same view
            // again.
            (spec.consensus.view_timeout_ms, spec.consensus.min_view_timeout_ms) = (PATIENT_MS, PATIENT_MS);
            (spec.consensus.fetch_delay_ms, spec.consensus.fetch_retry_ms) = (0, 1);
            let for_ms = (SWEPT + 3 * DOWN).as_secs_f64() * 1000.0;
            spec.network.faults = vec![FaultSpec::SlowDisk { at_ms: 0.0, for_ms, replica: 0, factor: SLOW_DISK }];
            spec
        };
        let points = run(&slow(SWEPT), 1, &commands).points[0];
        for point in 1..=points {
            let mut spec = slow(SWEPT + 3 * DOWN);
            let for_ms = DOWN.as_secs_f64() * 1000.0;
            spec.network.faults.push(FaultSpec::Strike { point, for_ms, replica: 0, journal: Leaves::Flushed });
            let report = run(&spec, 1, &commands);
            judge(&report, &format!("{protocol}: the leader crashes at point {point}"));
        }
    }
}

/// Votes and clients' bundles have real MACs. The MACs in a journal or relayed by a peer still convince their
/// recipients, and the sets P and Q that a restarted replica claims make up for the others.
#[test]
fn real_macs() {
    let profiles = [
        (SchemeKind::HMAC_SHA256, ClientAuthentication::Mac),
        (SchemeKind::AES_256_CMAC, ClientAuthentication::Ed25519),
    ];
    for (macs, client_authentication) in profiles {
        let short = |duration| {
            let mut spec = SimSpec {
                macs: Some(macs),
                client_authentication,
                signatures: Signatures::Real,
                ..short(ProtocolKind::PbftMac, duration)
            };
            let flush_us = spec.costs.journal.flush_us;
            spec.costs = CostTable::shipped();
            spec.costs.journal.flush_us = flush_us;
            spec
        };
        sweep_of(&format!("{macs}, clients by {client_authentication}"), &[Leaves::Torn], &short);
    }
}

/// A leader stops in good order and returns, and its machine then loses power at any point. Its last record
/// says whether it may propose in the view in which it returns.
#[test]
fn a_leader_that_stopped_and_returned_crashes() {
    for protocol in ProtocolKind::ALL.iter().filter(|protocol| !protocol.has_slots()) {
        for leader in [LeaderKind::Fixed, LeaderKind::RoundRobin] {
            let stopped = |duration: Duration| {
                let mut spec = short(*protocol, duration);
                spec.consensus.leader = leader;
                (spec.consensus.view_timeout_ms, spec.consensus.min_view_timeout_ms) = (PATIENT_MS, PATIENT_MS);
                (spec.consensus.fetch_delay_ms, spec.consensus.fetch_retry_ms) = (0, 1);
                let for_ms = (SWEPT + 3 * DOWN).as_secs_f64() * 1000.0;
                let stop = FaultSpec::Restart { at_ms: 2.0, for_ms: 2.0, replica: 0, journal: Leaves::Stopped };
                let slow = FaultSpec::SlowDisk { at_ms: 0.0, for_ms, replica: 0, factor: SLOW_DISK };
                spec.network.faults = vec![stop, slow];
                spec
            };
            let calm = run(&stopped(SWEPT), 1, &commands);
            judge(&calm, &format!("{protocol}, {leader}: no crash"));
            for point in 1..=calm.points[0] {
                let mut spec = stopped(SWEPT + 3 * DOWN);
                let for_ms = DOWN.as_secs_f64() * 1000.0;
                spec.network.faults.push(FaultSpec::Strike { point, for_ms, replica: 0, journal: Leaves::Flushed });
                let report = run(&spec, 1, &commands);
                judge(&report, &format!("{protocol}, {leader}: the leader crashes at point {point}"));
            }
        }
    }
}

/// The view that the leader's last vote reserved costs a view timeout after a crash, and nothing after an orderly stop.
#[test]
fn a_cluster_that_stopped_in_good_order_goes_on_at_once() {
    for protocol in ProtocolKind::ALL.iter().filter(|protocol| !protocol.has_slots()) {
        let away = |journal| {
            let mut spec = short(*protocol, Duration::from_secs(3));
            (spec.consensus.view_timeout_ms, spec.consensus.min_view_timeout_ms) = (1000, 1000);
            let at = |replica| FaultSpec::Restart { at_ms: 1000.0, for_ms: 10.0, replica, journal };
            spec.network.faults = (0..4).map(at).collect();
            let report = run(&spec, 1, &commands);
            judge(&report, &format!("{protocol}, {journal}"));
            assert_eq!(report.restarts, 4, "{protocol}");
            report.load.expect("a judged run has a load").longest_gap
        };
        let (stopped, crashed) = (away(Leaves::Stopped), away(Leaves::Written));
        let gaps = format!("{protocol}: {stopped:?} after a stop, {crashed:?} after a crash");
        assert!(stopped < Duration::from_millis(100), "{gaps}");
        // A view that a leader has proposed for ahead of time needs no further proposal.
        assert!(crashed > Duration::from_secs(1) || protocol.facts().optimistic_proposals, "{gaps}");
    }
}

/// Time between the return of a replica and the next attempt to lose a disk: several view timeouts.
const NEXT_DISK: Duration = Duration::from_millis(70);
/// Downtime after which a view of PBFT has failed, so that the others notice the missing replica.
const FAILS_A_VIEW: Duration = Duration::from_millis(45);
/// Further attempts to lose a disk, after the first one.
const ATTEMPTS: u32 = 8;
/// Number of crash points between tested losses of the first disk.
const LOSS_STRIDE: usize = 10;

/// One replica loses its disk at any of the points. Then the others lose theirs one after the other, at many moments of
/// the preceding recovery.
#[test]
fn disks_are_lost_in_turn() {
    for protocol in ProtocolKind::ALL {
        let lossy = |duration: Duration| {
            let mut spec = short(*protocol, duration);
            spec.consensus.leader = protocol.leaders()[protocol.leaders().len() - 1];
            spec
        };
        let down = if protocol.has_slots() { FAILS_A_VIEW } else { DOWN };
        let points = run(&lossy(SWEPT), 1, &commands).points[0];
        let mut lost = Vec::new();
        for point in (1..=points).step_by(LOSS_STRIDE) {
            let mut spec = lossy(SWEPT + (NEXT_DISK + down) * (ATTEMPTS + 2));
            let for_ms = down.as_secs_f64() * 1000.0;
            spec.network.faults = vec![FaultSpec::Strike { point, for_ms, replica: 0, journal: Leaves::Nothing }];
            spec.network.faults.extend((1..=ATTEMPTS).map(|attempt| {
                let at_ms = (SWEPT + (NEXT_DISK + down) * attempt).as_secs_f64() * 1000.0 + point as f64 / 7.0;
                FaultSpec::LoseDisk { at_ms, for_ms, replica: attempt as u16 % 4 }
            }));
            let report = run(&spec, 1, &commands);
            judge(&report, &format!("{protocol}: the first disk is lost at point {point}"));
            lost.push(report.lost_disks);
        }
        assert!(lost.iter().any(|lost| lost.len() > 2), "{protocol}: too few disks are lost: {lost:?}");
    }
}

macro_rules! sweeps {
    ($($name:ident: $protocol:ident,)+) => {
        $(#[test] fn $name() { sweep(ProtocolKind::$protocol); })+
    };
}

quorate_consensus::each_protocol!(sweeps);
