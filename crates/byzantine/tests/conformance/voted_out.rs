//! A leader that acknowledges what it is told and never proposes a part of it. It has others' ordered, so that no view times
//! out, and it goes on for as long as it lives.

use super::world::{LEADER, VIEW_TIMEOUT_MS, commands, spec};
use quorate_byzantine::Fault;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::run;
use std::time::Duration;

/// A leader that acknowledged nothing would be given three times the time of a bundle, a view timeout, before it is blamed; then its view
/// has to time out.
const NEVER_NOTED: Duration = Duration::from_millis(4 * VIEW_TIMEOUT_MS);

#[test]
fn a_leader_that_acknowledges_and_never_proposes_is_voted_out() {
    for protocol in ProtocolKind::ALL {
        let honest_spec = {
            let mut spec = spec(*protocol, LeaderKind::Fixed, LEADER, Fault::PassOver);
            spec.network.faults.clear();
            spec
        };
        let honest = run(&honest_spec, 1, &commands);
        assert!(
            honest.end.iter().flatten().all(|status| status.leader.0 == LEADER),
            "{protocol}: an honest leader stays"
        );

        let report = run(&spec(*protocol, LeaderKind::Fixed, LEADER, Fault::PassOver), 1, &commands);
        assert_eq!(report.complaint, None, "{protocol}: {}", report.transcript.join("\n"));
        let leaders: Vec<u16> = report.end.iter().flatten().map(|status| status.leader.0).collect();
        assert!(leaders.iter().all(|leader| *leader != LEADER), "{protocol}: {leaders:?} lead");
        let load = report.load.as_ref().expect("the run came to its end");
        let longest = Duration::from_micros(load.latency_us.max());
        assert_eq!(load.unanswered, 0, "{protocol}: what it left out is ordered");
        assert!(longest >= Duration::from_millis(VIEW_TIMEOUT_MS), "{protocol}: nothing was left out");
        assert!(longest < NEVER_NOTED, "{protocol}: it took {longest:?}, as if it had acknowledged nothing");
    }
}
