//! Time that a client waits for absent replicas.

use quorate_client::reach::{ReachLog, Wanted, await_replicas};
use quorate_network::transports::Event;
use quorate_testkit::stub::{Stub, Stubbed};
use quorate_types::ReplicaId;
use std::io;
use std::time::Duration;

/// Transport that connects the first replicas after some polls, and the others never.
struct Partly {
    connected: u16,
    after: usize,
    polls: usize,
}

impl Stub for Partly {
    fn poll(&mut self, timeout: Option<Duration>, _: &mut Vec<Event>) -> io::Result<()> {
        std::thread::sleep(timeout.expect("each poll has a timeout"));
        self.polls += 1;
        Ok(())
    }
    fn is_connected(&self, replica: ReplicaId) -> bool {
        replica.0 < self.connected && self.polls >= self.after
    }
}

fn polls(connected: u16, at_once: usize) -> usize {
    let mut transport = Stubbed(Partly { connected, after: 2, polls: 0 });
    let wanted = Wanted { replicas: 4, enough: 2, at_once, including: None };
    let (reach, enough) =
        await_replicas(&mut transport, &mut ReachLog::default(), wanted, Duration::from_secs(5), || true)
            .expect("polls do not fail");
    assert!(enough && reach.reached.len() == usize::from(connected));
    transport.0.polls
}

#[test]
fn a_client_with_a_quorum_does_not_wait_for_a_dead_replica() {
    assert_eq!(polls(3, 3), 2, "a quorum is connected after two polls");
    assert!(polls(2, 3) > 10, "two are enough, but a client waits for a third");
    assert!(polls(3, 4) > 10, "a load waits for all");
}
