//! A transport of which a test implements only the methods that it needs.

use bytes::Bytes;
use quorate_network::transports::{Counters, Event, LinkId, Transport};
use quorate_types::{Lane, ReplicaId};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Methods that a test may implement. The other methods of [`Transport`] do nothing: no link is congested, and nothing
/// is unsent.
pub trait Stub: Send {
    fn send_to(&mut self, _to: ReplicaId, _frame: Bytes, _lane: Lane) {}
    fn send(&mut self, _link: LinkId, _frame: Bytes) {}
    /// # Errors
    /// As defined by the test.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;
    fn source_group(&self, _link: LinkId) -> u64 {
        0
    }
    fn is_connected(&self, _replica: ReplicaId) -> bool {
        false
    }
}

/// Adapter from a stub to a transport.
pub struct Stubbed<S>(pub S);

impl<S: Stub> Transport for Stubbed<S> {
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        self.0.send_to(to, frame, lane);
    }
    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.0.send(link, frame);
    }
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.0.poll(timeout, events)
    }
    fn release(&mut self, _: LinkId, _: usize) {}
    fn is_congested(&self, _: LinkId) -> bool {
        false
    }
    fn vouch(&mut self, _: LinkId, _: bool) {}
    fn source_group(&self, link: LinkId) -> u64 {
        self.0.source_group(link)
    }
    fn close(&mut self, _: LinkId, _: String) {}
    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.0.is_connected(replica)
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
