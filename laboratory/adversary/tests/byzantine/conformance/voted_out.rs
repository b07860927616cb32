//! A leader that acknowledges all bundles but never proposes some of them. It orders all others, so no view times out
//! and it keeps leading.

use super::world::{LEADER, VIEW_TIMEOUT_MS, commands, spec};
use quorate_adversary::byzantine::behaviours::PassOver;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::run;
use std::time::Duration;

/// Time until a leader that acknowledges nothing is replaced: it is blamed after three bundle timeouts of one view
/// timeout each, and then its view has to time out.
const NEVER_NOTED: Duration = Duration::from_millis(4 * VIEW_TIMEOUT_MS);

#[test]
fn a_leader_that_acknowledges_but_never_proposes_is_replaced() {
    for protocol in ProtocolKind::ALL {
        let honest_spec = {
            let mut spec = spec(*protocol, LeaderKind::Fixed, LEADER, PassOver);
            spec.network.faults.clear();
            spec
        };
        let honest = run(&honest_spec, 1, &commands);
        assert!(
            honest.end.iter().flatten().all(|status| status.leader.0 == LEADER),
            "{protocol}: an honest leader stays"
        );

        let report = run(&spec(*protocol, LeaderKind::Fixed, LEADER, PassOver), 1, &commands);
        assert_eq!(report.violation, None, "{protocol}: {}", report.transcript.join("\n"));
        let leaders: Vec<u16> = report.end.iter().flatten().map(|status| status.leader.0).collect();
        assert!(leaders.iter().all(|leader| *leader != LEADER), "{protocol}: {leaders:?} lead");
        let load = report.load.as_ref().expect("the run was completed");
        let longest = Duration::from_micros(load.latency_us.max());
        assert_eq!(load.unanswered, 0, "{protocol}: the omitted bundles are ordered");
        assert!(longest >= Duration::from_millis(VIEW_TIMEOUT_MS), "{protocol}: nothing was omitted");
        assert!(longest < NEVER_NOTED, "{protocol}: it took {longest:?}, as if it had acknowledged nothing");
    }
}
