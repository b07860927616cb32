//! Time that a client waits for absent replicas.

use bytes::Bytes;
use quorate_client::reach::{ReachLog, Wanted, await_replicas};
use quorate_network::transports::{Counters, Event, LinkId, Transport};
use quorate_types::{Lane, ReplicaId};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Transport that connects the first replicas after a number of polls, and the others never.
struct Partly {
    connected: u16,
    after: usize,
    polls: usize,
}

impl Transport for Partly {
    fn send_to(&mut self, _: ReplicaId, _: Bytes, _: Lane) {}
    fn send(&mut self, _: LinkId, _: Bytes) {}
    fn poll(&mut self, timeout: Option<Duration>, _: &mut Vec<Event>) -> io::Result<()> {
        std::thread::sleep(timeout.expect("each poll has a timeout"));
        self.polls += 1;
        Ok(())
    }
    fn release(&mut self, _: LinkId, _: usize) {}
    fn is_congested(&self, _: LinkId) -> bool {
        false
    }
    fn vouch(&mut self, _: LinkId, _: bool) {}
    fn close(&mut self, _: LinkId, _: String) {}
    fn is_connected(&self, replica: ReplicaId) -> bool {
        replica.0 < self.connected && self.polls >= self.after
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
    fn stop_accepting(&mut self) {}
    fn has_unsent(&self) -> bool {
        false
    }
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| {})
    }
}

fn polls(connected: u16, at_once: usize) -> usize {
    let mut transport = Partly { connected, after: 2, polls: 0 };
    let wanted = Wanted { replicas: 4, enough: 2, at_once, including: None };
    let (reach, enough) =
        await_replicas(&mut transport, &mut ReachLog::default(), wanted, Duration::from_secs(5), || true)
            .expect("polls do not fail");
    assert!(enough && reach.reached.len() == usize::from(connected));
    transport.polls
}

#[test]
fn a_client_with_a_quorum_does_not_wait_for_a_dead_replica() {
    assert_eq!(polls(3, 3), 2, "a quorum is connected after two polls");
    assert!(polls(2, 3) > 10, "two are enough, but a client waits for a third");
    assert!(polls(3, 4) > 10, "a load waits for all");
}
