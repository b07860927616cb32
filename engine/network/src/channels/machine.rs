//! One end of a packet connection, sans-I/O: the common interface of RUDP, SCTP, QUIC and DTLS.
//!
//! A [`Machine`] receives packets and the time, and produces [`Output`]s. It has no clock and no socket, so the node
//! can drive it over the kernel's UDP and the simulator over its links, in virtual time. Machines can be stacked: an
//! encrypting channel is a machine whose frames are the packets of the machine above, and a [`Stack`] combines the two.
//!
//! ```text
//! frames    send |           ^ Frame
//!           retransmission, order, fragments      above
//! packets        v           |
//!           encryption, authentication            below
//! packets   Packet           ^ packet
//! ```

use crate::channels::envelope::{ECHO, FRAGMENT, PROBE};
use crate::channels::output::{Detour, Output};
use crate::channels::path_limit::{PathLimit, SHORT_BYTES};
use crate::channels::{Agreed, ChannelConfig, ChannelError, NONCE_BYTES, RemoteIdentity, Side};
use bytes::Bytes;
use quorate_types::{Lane, Time};
use std::time::Duration;

/// Retransmissions of a machine, and their causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repairs {
    pub retransmissions: u64,
    /// Number of retransmission timeouts; `None` if the machine cannot count them.
    pub timeouts: Option<u64>,
    /// Smoothed round-trip time, if the machine measures it.
    pub round_trip: Option<Duration>,
}

/// One end of a packet connection.
///
/// After each call the driver performs the outputs in order, and calls [`Machine::timer`] when it is
/// [due](Machine::due).
pub trait Machine: Send {
    /// Starts the connection. The dialling end sends something; the accepting end waits.
    fn start(&mut self, now: Time, out: &mut Vec<Output>);

    /// Handles a packet. The machine must verify its sender and integrity: drivers check only its source address.
    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>);

    /// Handles a packet of this established connection that came from a different address than the remote's, perhaps
    /// because a NAT assigned a new port. A machine reports [`Output::Moved`] once it has verified that the remote is
    /// at the new address. By default, drops the packet.
    fn packet_from(&mut self, _now: Time, _detour: Detour, _packet: Bytes, _out: &mut Vec<Output>) {}

    /// Queues a frame, to be sent as soon as the other end can accept it. A machine without separate queues or streams
    /// sends the frames of all lanes in one order.
    fn send(&mut self, now: Time, frame: Bytes, lane: Lane, out: &mut Vec<Output>);

    /// Sends frames that [`Machine::send`] has buffered to put several into one packet. Drivers call it after the last
    /// frame of a batch.
    fn flush(&mut self, _now: Time, _out: &mut Vec<Output>) {}

    /// Returns whether a packet belongs to this connection, that is, carries a token or connection ID of this end,
    /// which nobody off the path knows. A packet that belongs to none may begin a connection. By default, all packets
    /// from the remote's address belong to its only connection.
    fn claims(&self, _packet: &[u8]) -> bool {
        true
    }

    /// Returns whether a packet that no connection claims may still concern this one, such as a notice that the remote
    /// has lost it. The machine must not trust the packet: anybody may have sent it.
    fn heeds(&self, _packet: &[u8]) -> bool {
        false
    }

    /// Returns this end's connection ID in packets, if the remote may move to another address: the same one that
    /// [`Greeter::named`](crate::channels::Greeter::named) reads from them. Known once the connection is established,
    /// and only at the accepting end: the dialling end knows the address that it dialled.
    fn name(&self) -> Option<u64> {
        None
    }

    /// Returns the remote end's connection ID of an established connection, if packets have the envelope of `plain` and
    /// `dtls`.
    fn other_name(&self) -> Option<u64> {
        None
    }

    /// Notes that the other end is alive: it has sent something to the machine below.
    fn heard(&mut self, _now: Time) {}

    /// Notes the round-trip time that the handshake of the machine below has measured, before [`Machine::start`].
    fn expect_round_trip(&mut self, _trip: Duration) {}

    /// Limits new packets to `bytes` bytes from now on; `None` lifts the limit. Packets that are retransmitted, or that
    /// hold the rest of a frame, may be longer.
    fn shorten(&mut self, _bytes: Option<usize>) {}

    /// Returns the MTU budget of the machine above: its longest packet that fits into a packet of `bytes` bytes of the
    /// layer below.
    fn mtu_budget(&self, bytes: usize) -> usize {
        bytes
    }

    /// Returns the fixed prefix that this machine, once established, adds to each packet of the machine above, if there
    /// is one. The machine above can then write the prefix itself, which saves a copy.
    fn prefix(&self) -> Option<Bytes> {
        None
    }

    /// Makes this machine begin each packet with the [prefix](Machine::prefix) of the machine below. Returns false if
    /// it cannot.
    fn begin_with(&mut self, _prefix: Bytes) -> bool {
        false
    }

    /// Sends a packet of the machine above like [`Machine::send`]; it already begins with this machine's prefix.
    fn send_prefixed(&mut self, _now: Time, _packet: Bytes, _out: &mut Vec<Output>) {
        unreachable!("a machine without a prefix is given no packets with one");
    }

    /// Returns when to call [`Machine::timer`]; `None` if no timer is set. May change with every other call.
    fn due(&self) -> Option<Time>;

    /// Handles the due timer.
    fn timer(&mut self, now: Time, out: &mut Vec<Output>);

    /// Tells the other end that the connection is closed, if the protocol supports it.
    fn close(&mut self, now: Time, out: &mut Vec<Output>);

    /// Returns the remote's identity once this machine has proved it; `None` if this machine proves none.
    fn remote(&self) -> Option<RemoteIdentity>;

    /// Returns the wire version of the connection and the remote's release, once this machine has agreed on them with
    /// the remote; `None` if it has no handshake of its own.
    fn agreed(&self) -> Option<&Agreed> {
        None
    }

    /// Returns the bytes of frames passed to [`Machine::send`] that may still have to be sent or retransmitted.
    fn unsent_bytes(&self) -> usize;

    /// Returns how many of these bytes belong to [`Lane::Bulk`] and can still be overtaken.
    fn unsent_bulk_bytes(&self) -> usize {
        0
    }

    /// Returns the bytes held for incomplete frames.
    fn partial_bytes(&self) -> usize;

    /// Rejects frames of more than `bytes` bytes from now on.
    fn set_frame_limit(&mut self, bytes: usize);

    /// Returns the retransmissions so far.
    fn repairs(&self) -> Repairs {
        Repairs::default()
    }
}

/// Returns whether a packet with an envelope is a path probe, an echo, or a fragment of another packet.
fn is_about_path(packet: &[u8]) -> bool {
    packet.first().is_some_and(|kind| (PROBE..=FRAGMENT).contains(kind))
}

/// Two machines combined: the frames of `below` are the packets of `above`.
pub struct Stack {
    below: Box<dyn Machine>,
    above: Box<dyn Machine>,
    /// Unprocessed outputs of `below`; kept for reuse.
    said: Vec<Output>,
    /// Packets of `above` begin with the prefix of `below`.
    is_prefixed: bool,
    path: PathLimit,
    handshake: HandshakeTrip,
    is_over: bool,
}

/// Round-trip time of a handshake. At the dialling end, from its first packet to the first answer. The accepting end
/// receives repeated packets in between, so it takes the whole handshake, which is one round trip with `plain`.
#[derive(Default)]
struct HandshakeTrip {
    began: Option<Time>,
    /// Whether the other end's packet came first.
    accepts: bool,
    answered: Option<Duration>,
}

impl HandshakeTrip {
    fn sent(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    fn received(&mut self, now: Time) {
        match self.began {
            None => self.accepts = true,
            Some(began) => {
                self.answered.get_or_insert(now.since(began));
            }
        }
    }

    /// Returns the measurement when the handshake ends.
    fn end(&self, now: Time) -> Option<Duration> {
        if self.accepts { self.began.map(|began| now.since(began)) } else { self.answered }
    }
}

impl Stack {
    /// Stacks `above` on `below`.
    pub fn new(below: Box<dyn Machine>, above: Box<dyn Machine>) -> Stack {
        let (path, handshake) = (PathLimit::default(), HandshakeTrip::default());
        Stack { below, above, said: Vec::new(), is_prefixed: false, path, handshake, is_over: false }
    }

    /// Stacks a machine on the channel named by `end`.
    ///
    /// # Errors
    /// [`ChannelError::Carriage`] if that channel does not work over packets.
    pub fn on_channel(
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
        above: Box<dyn Machine>,
    ) -> Result<Stack, ChannelError> {
        Ok(Stack::new(end.kind.suite().over_packets(end, side, nonce)?, above))
    }

    /// Calls one of the two machines, and passes its results to the other.
    fn run(
        &mut self,
        now: Time,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut dyn Machine, &mut dyn Machine, &mut Vec<Output>, &mut Vec<Output>),
    ) {
        if self.is_over {
            return;
        }
        let before = out.len();
        let (mut from_below, mut from_above) = (std::mem::take(&mut self.said), Vec::new());
        act(&mut *self.below, &mut *self.above, &mut from_below, &mut from_above);
        while !self.is_over && (!from_below.is_empty() || !from_above.is_empty()) {
            for said in std::mem::take(&mut from_above) {
                match said {
                    Output::Packet(packet) if self.is_prefixed => {
                        self.below.send_prefixed(now, packet, &mut from_below);
                    }
                    Output::Packet(packet) => self.below.send(now, packet, Lane::Ordinary, &mut from_below),
                    other => self.tell(now, other, out),
                }
            }
            for said in std::mem::take(&mut from_below) {
                match said {
                    Output::Frame(frame) => self.above.packet(now, frame, &mut from_above),
                    Output::Established => {
                        let prefix = self.below.prefix();
                        self.is_prefixed = prefix.is_some_and(|prefix| self.above.begin_with(prefix));
                        if let Some(trip) = self.handshake.end(now) {
                            self.above.expect_round_trip(trip);
                        }
                        self.above.start(now, &mut from_above);
                    }
                    other => self.tell(now, other, out),
                }
            }
        }
        from_below.clear();
        self.said = from_below;
        if self.below.other_name().is_some() {
            self.path.sends(now, out, before);
        }
    }

    /// Handles a path probe, an echo, or a fragment. Returns the packet if the fragment completes one.
    fn on_path_packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) -> Option<Bytes> {
        let theirs = self.below.other_name().filter(|_| !self.is_over && self.below.claims(&packet))?;
        self.path.received(packet.len());
        self.above.heard(now);
        match packet[0] {
            PROBE => out.extend(self.path.echo(&packet, theirs).map(Output::Packet)),
            ECHO => {
                let was_short = self.path.is_short();
                self.path.echoed(now, &packet, out);
                if was_short != self.path.is_short() {
                    self.above.shorten(None);
                }
            }
            _ => return self.path.join(now, packet),
        }
        None
    }

    fn on_path_timer(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(theirs) = self.below.other_name().filter(|_| self.path.is_probe_due(now)) else { return };
        let was_short = self.path.is_short();
        self.path.timer(now, theirs, out);
        if was_short != self.path.is_short() {
            let budget = self.below.mtu_budget(SHORT_BYTES);
            self.above.shorten(Some(budget));
        }
    }

    fn tell(&mut self, now: Time, said: Output, out: &mut Vec<Output>) {
        if !self.is_over {
            if matches!(said, Output::Packet(_)) {
                self.handshake.sent(now);
            }
            self.is_over = matches!(said, Output::Lost(_));
            out.push(said);
        }
    }
}

impl Machine for Stack {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |below, _, from_below, _| below.start(now, from_below));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        let packet = match is_about_path(&packet) && self.below.other_name().is_some() {
            true => self.on_path_packet(now, packet, out),
            false => {
                self.path.received(packet.len());
                Some(packet)
            }
        };
        let Some(packet) = packet else { return };
        self.handshake.received(now);
        self.run(now, out, |below, _, from_below, _| below.packet(now, packet, from_below));
    }

    fn packet_from(&mut self, now: Time, detour: Detour, packet: Bytes, out: &mut Vec<Output>) {
        let is_fragment = packet.first() == Some(&FRAGMENT) && self.below.claims(&packet);
        let packet = if is_fragment { self.path.join(now, packet) } else { Some(packet) };
        let Some(packet) = packet else { return };
        self.run(now, out, |below, _, from_below, _| below.packet_from(now, detour, packet, from_below));
    }

    fn send(&mut self, now: Time, frame: Bytes, lane: Lane, out: &mut Vec<Output>) {
        self.run(now, out, |_, above, _, from_above| above.send(now, frame, lane, from_above));
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |below, above, from_below, from_above| {
            above.flush(now, from_above);
            below.flush(now, from_below);
        });
    }

    fn claims(&self, packet: &[u8]) -> bool {
        self.below.claims(packet)
    }

    fn heeds(&self, packet: &[u8]) -> bool {
        self.below.heeds(packet)
    }

    fn name(&self) -> Option<u64> {
        self.below.name()
    }

    fn mtu_budget(&self, bytes: usize) -> usize {
        self.above.mtu_budget(self.below.mtu_budget(bytes))
    }

    fn due(&self) -> Option<Time> {
        if self.is_over {
            return None;
        }
        [self.below.due(), self.above.due(), self.path.due()].into_iter().flatten().min()
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        if !self.is_over && self.path.due().is_some_and(|due| due <= now) {
            self.on_path_timer(now, out);
        }
        self.run(now, out, |below, above, from_below, from_above| {
            if below.due().is_some_and(|due| due <= now) {
                below.timer(now, from_below);
            }
            if above.due().is_some_and(|due| due <= now) {
                above.timer(now, from_above);
            }
        });
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |_, above, _, from_above| above.close(now, from_above));
        self.run(now, out, |below, _, from_below, _| below.close(now, from_below));
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.above.remote().or_else(|| self.below.remote())
    }

    fn agreed(&self) -> Option<&Agreed> {
        self.above.agreed().or_else(|| self.below.agreed())
    }

    fn unsent_bytes(&self) -> usize {
        self.above.unsent_bytes() + self.below.unsent_bytes()
    }

    fn unsent_bulk_bytes(&self) -> usize {
        self.above.unsent_bulk_bytes()
    }

    fn partial_bytes(&self) -> usize {
        self.above.partial_bytes() + self.below.partial_bytes() + self.path.held_bytes()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.above.set_frame_limit(bytes);
    }

    fn repairs(&self) -> Repairs {
        self.above.repairs()
    }
}
