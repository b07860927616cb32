//! A transport driven by the replica's own thread.

use super::arrival::Arrival;
use super::mailbox::{DeferredFrame, Report};
use super::wakeup::Wakeup;
use super::{Driver, Outlet};
use bytes::Bytes;
use quorate_consensus::Message;
use quorate_network::transports::{Event, LinkId, Refusal, Transport};
use quorate_types::{Encoder, Lane, ReplicaId};
use std::io;
use std::time::Duration;

pub(super) struct Inline {
    pub transport: Box<dyn Transport>,
    wakeup: Wakeup,
    events: Vec<Event>,
}

impl Inline {
    pub fn new(transport: Box<dyn Transport>, wakeup: Wakeup) -> Inline {
        Inline { transport, wakeup, events: Vec::new() }
    }
}

impl Outlet for Inline {
    #[inline]
    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.transport.send(link, frame);
    }

    fn source_group(&self, link: LinkId) -> u64 {
        self.transport.source_group(link)
    }

    fn has_io_thread(&self) -> bool {
        false
    }

    fn send_deferred(&mut self, DeferredFrame { link, times, encode, .. }: DeferredFrame) {
        let frame = encode(&mut Encoder::default());
        std::iter::repeat_n(frame, times).for_each(|frame| self.transport.send(link, frame));
    }
}

impl<M: Message> Driver<M> for Inline {
    fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()> {
        let Inline { transport, wakeup, events } = self;
        wakeup.while_awaited(timeout, |timeout| transport.poll(timeout, events))?;
        into.extend(events.drain(..).map(|event| Arrival::of(event, &**transport)));
        Ok(())
    }

    fn flush_replicas(&mut self) {
        self.transport.flush_replicas();
    }

    fn leads(&self, _leads: bool) {}

    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        self.transport.send_to(to, frame, lane);
    }

    fn defer_clients(&mut self, patience: Option<Duration>) {
        self.transport.defer_clients(patience);
    }

    fn release(&mut self, link: LinkId, bytes: usize) {
        self.transport.release(link, bytes);
    }

    fn is_congested(&self, link: LinkId) -> bool {
        self.transport.is_congested(link)
    }

    fn vouch(&mut self, link: LinkId, genuine: bool) {
        self.transport.vouch(link, genuine);
    }

    fn close(&mut self, link: LinkId, why: String) {
        self.transport.close(link, why);
    }

    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.transport.is_connected(replica)
    }

    fn report(&self) -> Report {
        Report {
            counters: self.transport.counters(),
            round_trips: self.transport.round_trips(),
            agreed: self.transport.agreed(),
            ..Report::default()
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.transport.take_refusals()
    }

    fn has_unsent(&self) -> bool {
        self.transport.has_unsent()
    }
}
