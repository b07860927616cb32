//! A cluster raises its feature level under load, while replicas crash, restart and fetch states. The oracle compares
//! the level that each application sees with the one that the committed changes lead to.

use crate::common::commands;
use crate::transfers::{AWAY, judged, last_adopted, short_memory};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{Leaves, SimReport, SimSpec, run};
use quorate_types::FeatureLevel;

const PROTOCOLS: [ProtocolKind; 3] = [ProtocolKind::Jolteon, ProtocolKind::BasicHotStuff, ProtocolKind::Pbft];

fn restart(at_ms: f64, for_ms: f64, replica: u16, journal: Leaves) -> FaultSpec {
    FaultSpec::Restart { at_ms, for_ms, replica, journal }
}

fn raised(mut spec: SimSpec, seed: u64, faults: Vec<FaultSpec>) -> SimReport {
    spec.network.faults = faults;
    run(&spec, seed, &commands)
}

#[test]
fn all_replicas_switch_at_one_height_under_load_with_restarts() {
    for protocol in PROTOCOLS {
        for (seed, leaves) in (1..).zip([Leaves::Stopped, Leaves::Written, Leaves::Flushed, Leaves::Torn]) {
            let case = format!("{protocol}, {leaves}");
            // One replica is away when the change is ordered, and one restarts before the level is active.
            let faults = vec![
                restart(290.0, 20.0, 1, leaves),
                FaultSpec::Level { at_ms: 300.0, level: 1 },
                restart(315.0, 30.0, 2, leaves),
                FaultSpec::Level { at_ms: 700.0, level: 3 },
                restart(705.0, 40.0, 0, leaves),
                // Too late: it would lower the level.
                FaultSpec::Level { at_ms: 1000.0, level: 2 },
            ];
            let report = raised(short_memory(protocol), seed, faults);
            judged(&report, &[0, 1, 2], &case);
            assert_eq!(report.restarts, 3, "{case}");
            assert_eq!(report.levels, [FeatureLevel(3); 4], "{case}");
        }
    }
}

/// A replica is away from before the change until long after the activation, and fetches a state at the new level.
#[test]
fn a_replica_that_fetches_a_state_continues_at_its_level() {
    for protocol in PROTOCOLS {
        let case = protocol.to_string();
        let faults = vec![restart(100.0, 500.0, AWAY, Leaves::Flushed), FaultSpec::Level { at_ms: 150.0, level: 2 }];
        let report = raised(short_memory(protocol), 1, faults);
        let fetched = judged(&report, &[AWAY], &case);
        assert!(last_adopted(fetched, AWAY).is_some(), "{case}: no state: {fetched:?}");
        assert_eq!(report.levels, [FeatureLevel(2); 4], "{case}");
    }
}

#[test]
fn nobody_switches_without_a_change() {
    let report = run(&short_memory(ProtocolKind::Jolteon), 1, &commands);
    assert_eq!((report.violation, report.levels), (None, vec![FeatureLevel(0); 4]));
}
