//! Work of a poll before and after its wait: alarms, dialling, sending and receiving.

use super::port::path_mtu;
use super::*;
use crate::channels::{Loss, Output};
use crate::transports::PathChange;
use crate::transports::config::IP_AND_UDP_BYTES;
use crate::transports::error::LinkError;
use crate::transports::links::{LinkState, Phase};
use quorate_types::stages::{self, Stage};
use std::mem::take;

/// Maximum number of packet batches read from one socket per poll; the rest is left to the next.
const MAX_BATCHES: usize = 16;

impl DatagramTransport {
    /// Dials, times out handshakes, and fires the due timers.
    pub(super) fn run_timers(&mut self, events: &mut Vec<Event>) {
        let instant = Instant::now();
        let mut dials = if self.links.is_asking() { self.links.resolved(instant) } else { Vec::new() };
        if self.links.is_due(instant) {
            dials.extend(self.links.run_timers(instant, events));
        }
        for (replica, address) in dials {
            if let Err(why) = self.dial(replica, address, instant, events) {
                self.links.dial_failed(replica, why, instant);
            }
        }
        let now = self.now();
        while let Some((due, id)) = self.alarms.first().copied().filter(|(due, _)| *due <= now) {
            self.alarms.remove(&(due, id));
            self.with(id, events, |machine, out| machine.timer(now, out));
        }
    }

    /// Passes queued frames to the machines of the links that `may` send now.
    pub(super) fn flush_dirty(&mut self, events: &mut Vec<Event>, may: impl Fn(&PacketLink) -> bool) {
        let now = self.now();
        for id in take(&mut self.links.dirty) {
            let Some(link) = self.links.table.get_mut(id) else { continue };
            if !may(link) {
                self.links.dirty.push(id);
                continue;
            }
            link.dirty = false;
            while let Some((frame, lane)) = self.links.table.get_mut(id).and_then(PacketLink::next_frame) {
                self.links.counters.frames_sent += 1;
                self.with(id, events, |machine, out| machine.send(now, frame, lane, out));
            }
            self.with(id, events, |machine, out| machine.flush(now, out));
        }
    }

    /// Writes the queued packets to the sockets.
    pub(super) fn write(&mut self) {
        let _stage = stages::enter(Stage::Send);
        for port in self.ports.iter_mut().filter(|port| port.has_to_write()) {
            let written = port.write();
            self.links.counters.write_calls += written.calls;
            self.links.counters.bytes_sent += written.bytes;
            self.links.counters.packets_sent += written.packets;
        }
    }

    pub(super) fn receive(&mut self, events: &mut Vec<Event>) {
        for at in 0..self.ports.len() {
            let mut left = MAX_BATCHES;
            while self.ports[at].is_readable && left > 0 {
                left -= 1;
                let mut received = take(&mut self.received);
                self.ports[at].read(&mut self.buffers, |from, packet| received.push((from, packet)));
                for (from, packet) in received.drain(..) {
                    self.links.counters.bytes_received += packet.len() as u64;
                    self.take_packet(at, from, packet, events);
                }
                self.received = received;
                // The machines' answers must not wait for the remaining packets.
                self.write();
            }
        }
    }

    fn take_packet(&mut self, port: usize, from: SocketAddr, packet: Bytes, events: &mut Vec<Event>) {
        let audience = self.ports[port].audience.filter(|_| self.accepts);
        let (now, table) = (self.now(), &self.links.table);
        let machine = |id| table.get(id).map(|link| &*link.machine);
        let (id, detour) = match (self.router.route(now, (port, from), &packet, audience.is_some(), machine), audience)
        {
            (Route::To(id), _) => (id, None),
            (Route::Detour(id, detour), _) => (id, Some(detour)),
            (Route::Begin, Some(audience)) => {
                let now = Instant::now();
                self.links.on_unauthenticated(from, audience);
                match self.open(Side::Responder, port, from, audience, now) {
                    Ok(id) => (id, None),
                    Err(why) => return self.links.turned_away(from, why),
                }
            }
            (Route::Answer(answer), _) => return self.ports[port].queue(from, answer),
            (Route::Refuse(why, answer), _) => {
                if let Some(answer) = answer {
                    self.ports[port].queue(from, answer);
                }
                return self.links.refuse(from.into(), None, why.into());
            }
            (Route::Begin | Route::Drop, _) => return,
        };
        let is_full = |link: &PacketLink| {
            matches!(link.remote(), Some(Remote::Client(_))) && !self.links.memory.has_room_for_packet(link)
        };
        if self.links.table.get(id).is_some_and(is_full) {
            // The client's machine will retransmit the packet, if it retransmits any.
            return;
        }
        self.with(id, events, |machine, out| match detour {
            None => machine.packet(now, packet, out),
            Some(detour) => machine.packet_from(now, detour, packet, out),
        });
    }

    fn dial(
        &mut self,
        replica: ReplicaId,
        address: SocketAddr,
        instant: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), LinkError> {
        let port = self.port_for(address).map_err(LinkError::Dial)?;
        let id = self.open(Side::Initiator { expects: replica }, port, address, Audience::Anybody, instant)?;
        let now = self.now();
        self.with(id, events, |machine, out| machine.start(now, out));
        self.links.dial_beside(replica, instant);
        Ok(())
    }

    /// Creates the machine and the link of a new connection.
    fn open(
        &mut self,
        side: Side,
        port: usize,
        address: SocketAddr,
        audience: Audience,
        now: Instant,
    ) -> Result<LinkId, LinkError> {
        let dialled = match side {
            Side::Initiator { expects } => Some(expects),
            Side::Responder => None,
        };
        let other = dialled.or_else(|| self.replicas.iter().find(|(own, _)| *own == address).map(|(_, other)| *other));
        let mut settings = match (self.end.local(), other) {
            (RemoteIdentity::Replica(me), Some(other)) => self.settings.between(me, other),
            _ => self.settings.clone(),
        };
        if settings.packets.mtu_bytes == 0 {
            settings.packets.mtu_bytes = path_mtu(address).unwrap_or(0);
        }
        let machine = self.association.open(&self.end, side, &settings, self.end.nonce()?)?;
        let id = self.links.table.reserve();
        let deadline = now + self.settings.links.handshake_timeout();
        let mut state = LinkState::new(id, address, dialled, audience, now, deadline);
        state.phase = Phase::Handshake;
        self.links.table.put(id, Box::new(PacketLink::new(state, machine, port)));
        self.links.due(Some(deadline));
        let table = &self.links.table;
        self.router.add(port, address, id, table.iter().count(), |id| table.get(id).is_some());
        Ok(id)
    }

    /// Calls a link's machine and performs its outputs.
    fn with(&mut self, id: LinkId, events: &mut Vec<Event>, act: impl FnOnce(&mut dyn Machine, &mut Vec<Output>)) {
        if self.links.table.get(id).is_none() {
            return;
        }
        let mut link = self.links.table.take(index(id)).expect("the link was just there");
        let mut out = Vec::new();
        let before = link.machine.repairs();
        act(&mut *link.machine, &mut out);
        let repairs = link.machine.repairs();
        self.links.counters.retransmissions += repairs.retransmissions - before.retransmissions;
        if let Some(timeouts) = repairs.timeouts {
            let sum = self.links.counters.retransmission_timeouts.get_or_insert(0);
            *sum += timeouts - before.timeouts.unwrap_or(0);
        }
        match self.follow(&mut link, out, events) {
            Ok(()) => {
                self.set_alarm(&mut link);
                self.links.table.put(id, link);
            }
            Err(why) => {
                if let Some(alarm) = link.alarm {
                    self.alarms.remove(&(alarm, id));
                }
                self.router.remove(link.port, link.address, id);
                self.links.end(&link, why, events);
            }
        }
    }

    fn set_alarm(&mut self, link: &mut PacketLink) {
        let due = link.machine.due();
        if let Some(alarm) = std::mem::replace(&mut link.alarm, due).filter(|alarm| Some(*alarm) != due) {
            self.alarms.remove(&(alarm, link.id));
        }
        if let Some(due) = due {
            self.alarms.insert((due, link.id));
        }
    }

    fn follow(&mut self, link: &mut PacketLink, out: Vec<Output>, events: &mut Vec<Event>) -> Result<(), LinkError> {
        for said in out {
            match said {
                Output::Packet(packet) => self.put_on_the_way(link, packet),
                Output::PacketTo(address, packet) => self.ports[link.port].queue(address, packet),
                Output::PathCarries { before, bytes } => {
                    let mtu = bytes + IP_AND_UDP_BYTES;
                    let change = match bytes < before {
                        true => PathChange::Vanish { bytes: before, mtu },
                        false => PathChange::Pass { bytes, mtu },
                    };
                    self.tell_path(link, change, events);
                }
                Output::Moved(to) => self.follow_remote(link, to, events),
                Output::Established => {
                    let Some(identity) = link.machine.remote() else {
                        return Err(Loss::Violation("its machine proves no identity").into());
                    };
                    let remote = link.audience.admits(identity.into())?;
                    self.links.admit(link, remote, events)?;
                    if let Some(name) = link.machine.name() {
                        self.router.name(link.port, link.address, link.id, name);
                    }
                }
                Output::Frame(frame) => {
                    let Some(remote) = link.remote() else { continue };
                    link.frames_received += 1;
                    self.links.counters.frames_received += 1;
                    let bytes = frame.len();
                    let event = Event::Received { link: link.id, remote, frame };
                    match remote {
                        Remote::Client(_) => {
                            link.share.handed_out(bytes);
                            self.links.client_events.push(event);
                        }
                        Remote::Replica(_) | Remote::Operator(_) => events.push(event),
                    }
                }
                Output::Lost(why) => return Err(why.into()),
            }
        }
        match link.remote() {
            Some(Remote::Client(_)) => self.links.account(link),
            _ => Ok(()),
        }
    }

    /// Sends to another address from now on. The link still counts toward the budget of the address from which it was
    /// established.
    fn follow_remote(&mut self, link: &mut PacketLink, to: SocketAddr, events: &mut Vec<Event>) {
        let from = std::mem::replace(&mut link.address, to);
        self.router.moved(link.port, from, to, link.id, link.machine.name());
        if from != to {
            self.tell_path(link, PathChange::Moved { from, to }, events);
        }
    }

    fn tell_path(&mut self, link: &PacketLink, change: PathChange, events: &mut Vec<Event>) {
        let Some(remote) = link.remote() else { return };
        let event = Event::Path { link: link.id, remote, change };
        match remote {
            Remote::Client(_) => self.links.client_events.push(event),
            Remote::Replica(_) | Remote::Operator(_) => events.push(event),
        }
    }

    fn put_on_the_way(&mut self, link: &mut PacketLink, packet: Bytes) {
        link.bytes_written += packet.len() as u64;
        self.ports[link.port].queue(link.address, packet);
    }

    /// Lets a machine announce the end of its link before it is closed.
    pub(super) fn announce_close(&mut self, id: LinkId) {
        let now = self.now();
        let Some(link) = self.links.table.get_mut(id) else { return };
        let (mut out, port, address) = (Vec::new(), link.port, link.address);
        link.machine.flush(now, &mut out);
        link.machine.close(now, &mut out);
        for said in out {
            if let Output::Packet(packet) = said {
                // The announcement may be lost; then the remote's timer detects the end.
                self.ports[port].queue(address, packet);
            }
        }
    }
}
