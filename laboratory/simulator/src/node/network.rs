//! The network thread of a simulated replica, like the node's: it reads and hashes received data before the core gets
//! it, and writes an iteration's output after the iteration. It has a core of its own.

use super::Node;
use crate::charges::{Charges, nanos};
use crate::faults::FULL_SPEED;
use crate::ledger::Ledger;
use crate::parcel::{Body, Parcel};
use crate::work::Work;
use quorate_consensus::{Envelope, Message, Protocol};
use quorate_types::Time;
use quorate_types::stages::{MessageKind, StageRole};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct NetworkThread {
    /// Time at which it has finished all its work.
    free: Time,
    /// Time at which it begins to read from each endpoint. Data that arrives earlier is read by the same call.
    reads: BTreeMap<usize, Time>,
    ledger: Ledger,
    /// Cost of sending this iteration's output, in picoseconds.
    sends: u64,
    busy_ns: u64,
}

impl NetworkThread {
    pub fn new(has_probes: bool) -> NetworkThread {
        NetworkThread {
            free: Time(0),
            reads: BTreeMap::new(),
            ledger: if has_probes { Ledger::with_probes() } else { Ledger::default() },
            sends: 0,
            busy_ns: 0,
        }
    }

    /// Performs work from `at` or from when it becomes idle, whichever is later. Returns the completion time.
    fn work(&mut self, at: Time, picoseconds: u64, speed: u64) -> Time {
        let took_ns = nanos(picoseconds * speed / FULL_SPEED);
        self.busy_ns += took_ns;
        self.free = self.free.max(at) + Duration::from_nanos(took_ns);
        self.free
    }

    /// Reads a message, and returns the time at which the core gets it. `charges` are for a thread that slept.
    fn read<M: Message>(
        &mut self,
        now: Time,
        from: usize,
        parcel: &Parcel<M>,
        charges: &Charges,
        speed: u64,
        role: StageRole,
    ) -> Time {
        let before = self.ledger.total();
        let (begins, is_idle) = (self.free.max(now), self.free <= now);
        if is_idle {
            self.ledger.begin_turn(role);
            charges.begin_turn(&mut self.ledger);
        }
        let kind = match &parcel.body {
            Body::Peer(message) => message.kind(),
            _ => MessageKind::Request,
        };
        let place = self.ledger.enter(kind, 1);
        if self.reads.get(&from).is_none_or(|reads| *reads < now) {
            self.ledger.charge(Work::Reads, 1, charges.read_call);
            self.reads.insert(from, begins);
        }
        let bytes = u64::from(parcel.bytes);
        self.ledger.received(bytes);
        self.ledger.charge(Work::Received, 1, charges.receive);
        self.ledger.charge(Work::ReceivedBytes, bytes, charges.receive_byte);
        charges.receive_frame(&mut self.ledger, bytes);
        match &parcel.body {
            Body::Peer(message) => charge_hashes(message, bytes, charges, &mut self.ledger),
            Body::Request(_) => charges.hash(&mut self.ledger, 1, bytes),
            Body::Replies(_) => unreachable!("replies go to the clients"),
        }
        self.ledger.leave(place);
        let took = self.ledger.total() - before;
        self.work(now, took, speed)
    }

    /// Drops all work after a crash of the replica.
    pub fn clear(&mut self) {
        (self.free, self.sends) = (Time(0), 0);
        self.reads.clear();
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

/// Charges for hashing the contents of a peer's message.
pub(super) fn charge_hashes<M: Message>(message: &Envelope<M>, bytes: u64, charges: &Charges, ledger: &mut Ledger) {
    if !message.bundles().is_empty() || matches!(message, Envelope::StatePart { .. }) {
        charges.hash(ledger, message.bundles().len().max(1), bytes);
    }
}

impl<P: Protocol> Node<P> {
    /// Returns the time at which the core gets a message that the network thread reads; `None` if the core reads
    /// itself.
    pub fn reads(&mut self, now: Time, from: usize, parcel: &Parcel<P::Message>, charges: &Charges) -> Option<Time> {
        let role = self.role();
        Some(self.network.as_mut()?.read(now, from, parcel, charges, self.speed, role))
    }

    /// Returns whether a separate thread drives its network.
    pub fn has_network_thread(&self) -> bool {
        self.network.is_some()
    }

    /// Charges for sending, to the writing thread.
    pub(super) fn charge_sending(&mut self, charge: impl FnOnce(&mut Ledger)) {
        let Some(network) = &mut self.network else { return charge(&mut self.ledger) };
        let before = network.ledger.total();
        let place = network.ledger.go(self.ledger.place());
        charge(&mut network.ledger);
        network.ledger.leave(place);
        network.sends += network.ledger.total() - before;
    }

    /// Returns the time at which an iteration's output has been sent, if the iteration ends at `end`. `charges` are for
    /// a thread that slept.
    pub fn writes(&mut self, end: Time, charges: &Charges) -> Time {
        let (speed, role) = (self.speed, self.role());
        let Some(network) = self.network.as_mut().filter(|network| network.sends > 0) else { return end };
        let before = network.ledger.total();
        if network.free <= end {
            network.ledger.begin_turn(role);
            charges.begin_turn(&mut network.ledger);
        }
        let took = std::mem::take(&mut network.sends) + network.ledger.total() - before;
        network.work(end, took, speed)
    }
}
