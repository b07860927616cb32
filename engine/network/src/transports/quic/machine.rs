//! One end of one connection.

mod doubt;

use super::moves::{self, Move};
use super::names::{is_short, long_names, name_of_tag, short_tag};
use super::votes::Votes;
use super::{Acknowledged, Clock, Parts, TAG_BYTES, streams, tag};
use crate::channels::envelope::Challenges;
use crate::channels::tls::{Shared, name_of};
use crate::channels::{
    Agreed, Channel, ChannelConfig, ChannelError, Detour, Loss, Machine, NONCE_BYTES, Output, PlainChannel,
    RemoteIdentity, Repairs, Side,
};
use crate::transports::config::WireSettings;
use crate::transports::framing::FrameBuffer;
use crate::transports::instants::{REMOTE, instant, time};
use crate::transports::lanes::{SendLane, take_frames};
use bytes::{Bytes, BytesMut};
use doubt::Doubt;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    StreamEvent, StreamId, TransportErrorCode, VarInt,
};
use quorate_types::{Lane, Time};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of packets that the library builds per call, and their maximum bytes unless a single packet is
/// longer: the library reserves the memory.
const PACKETS_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 32 << 10;
/// Priority of the bulk stream; the others have 0.
const BULK_PRIORITY: i32 = -1;
/// Maximum bytes in flight from a client after a lost packet. The client links' budgets do not count them.
const CLIENT_WINDOW_BYTES: usize = 256 << 10;
/// Error codes for closing a connection.
const CODE_CLOSED: u32 = 0;
const CODE_REFUSED: u32 = 1;

/// One end of a QUIC connection.
pub struct QuicMachine {
    end: ChannelConfig,
    side: Side,
    nonce: [u8; NONCE_BYTES],
    idle_timeout_ms: u64,
    max_ack_delay: Duration,
    window_bytes: usize,
    client_window_bytes: usize,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    clock: Arc<Clock>,
    acknowledged: Arc<Acknowledged>,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Prefix of this end's connection IDs.
    tag: [u8; TAG_BYTES],
    /// Longest packet that the path carries, as last reported, in bytes.
    carries: u16,
    /// Prefix of the remote's connection IDs, known to the dialling end.
    theirs: Option<[u8; TAG_BYTES]>,
    challenges: Challenges,
    /// The destination connection ID of an initiator's first packet.
    asked_for: Option<Bytes>,
    /// The inner handshake, once TLS has its keys.
    inner: Option<PlainChannel>,
    /// Received bytes of the inner handshake.
    opened: BytesMut,
    remote: Option<RemoteIdentity>,
    /// Stream of the handshake and of ordinary frames, in both directions.
    ordinary: Option<StreamId>,
    /// Outgoing bytes of the inner handshake, which precede all frames.
    handshake_out: SendLane,
    ordinary_out: SendLane,
    ordinary_in: FrameBuffer,
    bulk_out_stream: Option<StreamId>,
    bulk_out: SendLane,
    bulk_in_stream: Option<StreamId>,
    bulk_in: FrameBuffer,
    votes: Votes,
    /// Upper bound on the bytes of frames passed to the library and not acknowledged.
    unacknowledged: usize,
    /// Number of QUIC frames received by the library.
    received: u64,
    doubt: Option<Doubt>,
    due: Option<Time>,
    /// Buffer kept for reuse.
    packets: Vec<u8>,
    /// Packets encrypted with the current key.
    encrypted: u64,
    is_over: bool,
}

impl QuicMachine {
    /// Creates one end of a connection that has not begun.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`] or [`ChannelError::Tls`] if TLS cannot be set up.
    pub fn new(
        end: ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<QuicMachine, ChannelError> {
        let config = &settings.quic;
        let Parts { endpoint, client, clock, acknowledged } = Parts::new(&end.sessions, side, settings, nonce)?;
        Ok(QuicMachine {
            end,
            side,
            nonce,
            idle_timeout_ms: config.idle_timeout_ms,
            max_ack_delay: Duration::from_millis(config.max_ack_delay_ms),
            window_bytes: config.window_bytes,
            client_window_bytes: settings.links.client_window_bytes.min(CLIENT_WINDOW_BYTES),
            endpoint,
            client,
            clock,
            acknowledged,
            connection: None,
            tag: tag(&nonce),
            carries: 0,
            theirs: None,
            challenges: Challenges::default(),
            asked_for: None,
            inner: None,
            opened: BytesMut::new(),
            remote: None,
            ordinary: None,
            handshake_out: SendLane::default(),
            ordinary_out: SendLane::default(),
            ordinary_in: FrameBuffer::new(),
            bulk_out_stream: None,
            bulk_out: SendLane::default(),
            bulk_in_stream: None,
            bulk_in: FrameBuffer::new(),
            votes: Votes::new(config.votes),
            unacknowledged: 0,
            received: 0,
            doubt: None,
            due: None,
            packets: Vec::new(),
            encrypted: 0,
            is_over: false,
        })
    }

    /// Performs a step and everything that follows from it.
    fn step(
        &mut self,
        now: Time,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut QuicMachine, &mut Vec<Output>) -> Result<(), Loss>,
    ) {
        if self.is_over {
            return;
        }
        self.clock.set(now);
        let outcome = act(self, out).and_then(|()| self.follow(now, out));
        if let Err(why) = outcome {
            self.give_up(now, why, out);
        }
        let timer = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let question = self.doubt.as_ref().map(|doubt| doubt.next);
        self.due = [timer.map(time), question].into_iter().flatten().min().filter(|_| !self.is_over);
    }

    /// Handles the library's events, and sends pending data.
    fn follow(&mut self, now: Time, out: &mut Vec<Output>) -> Result<(), Loss> {
        self.handle_events(out)?;
        self.follow_path(out);
        self.write()?;
        self.transmit(now, out);
        Ok(())
    }

    /// Reports that the library has changed its maximum packet length, because long packets were repeatedly lost, or
    /// pass again.
    fn follow_path(&mut self, out: &mut Vec<Output>) {
        let Some((_, connection)) = self.connection.as_ref().filter(|_| self.remote.is_some()) else { return };
        let bytes = connection.current_mtu();
        let before = std::mem::replace(&mut self.carries, bytes);
        if before != bytes {
            out.push(Output::PathCarries { before: before.into(), bytes: bytes.into() });
        }
    }

    fn handle_events(&mut self, out: &mut Vec<Output>) -> Result<(), Loss> {
        loop {
            let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
            if let Some(event) = connection.poll() {
                self.on_event(event, out)?;
                continue;
            }
            let Some(event) = connection.poll_endpoint_events() else { return Ok(()) };
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    fn on_event(&mut self, event: Event, out: &mut Vec<Output>) -> Result<(), Loss> {
        match event {
            Event::Connected => self.shake_hands(out),
            Event::ConnectionLost { reason } => Err(self.loss(reason)),
            Event::Stream(StreamEvent::Opened { dir }) => {
                let (_, connection) = self.connection.as_mut().expect("its event was just polled");
                // The limits allow only one stream of each kind.
                let Some(stream) = connection.streams().accept(dir) else { return Ok(()) };
                match dir {
                    Dir::Bi => self.ordinary = Some(stream),
                    Dir::Uni => self.bulk_in_stream = Some(stream),
                }
                self.read(stream, out)
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(id, out),
            Event::DatagramReceived => self.read_votes(out),
            _ => Ok(()),
        }
    }

    fn loss(&self, reason: ConnectionError) -> Loss {
        let is_tls = |code: TransportErrorCode| (0x100..0x200).contains(&u64::from(code));
        match reason {
            ConnectionError::TimedOut => Loss::Silent(self.idle_timeout_ms),
            ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed => Loss::Closed,
            ConnectionError::Reset => Loss::Restarted,
            ConnectionError::TransportError(error) if is_tls(error.code) => ChannelError::Tls(error.reason).into(),
            ConnectionError::ConnectionClosed(close) if is_tls(close.error_code) => {
                ChannelError::Tls(format!("the peer refuses: {}", close.error_code)).into()
            }
            ConnectionError::ConnectionClosed(_) => Loss::Closed,
            ConnectionError::VersionMismatch => Loss::Violation("it speaks another version of QUIC"),
            _ => Loss::Violation("it sent what QUIC does not allow"),
        }
    }

    /// Begins the inner handshake.
    fn shake_hands(&mut self, out: &mut Vec<Output>) -> Result<(), Loss> {
        let (_, connection) = self.connection.as_mut().expect("its event was just polled");
        self.votes.begin(connection);
        let key = match self.side {
            Side::Responder => Shared::get()?.public_key.clone(),
            Side::Initiator { .. } => {
                self.ordinary = connection.streams().open(Dir::Bi);
                shown_key(connection)?
            }
        };
        let mut inner = PlainChannel::inside(self.end.clone(), self.side, self.nonce, &key);
        let mut hello = Vec::new();
        inner.start(&mut hello);
        self.handshake_out.push_raw(&hello);
        self.inner = Some(inner);
        match self.ordinary {
            Some(stream) => self.read(stream, out),
            None if self.side == Side::Responder => Ok(()),
            None => Err(Loss::Violation("it allows no stream")),
        }
    }

    fn read(&mut self, stream: StreamId, out: &mut Vec<Output>) -> Result<(), Loss> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        if self.remote.is_some() {
            let frames = if Some(stream) == self.bulk_in_stream { &mut self.bulk_in } else { &mut self.ordinary_in };
            return streams::read(connection, stream, |bytes| take_frames(frames, bytes, out));
        }
        let Some(inner) = self.inner.as_mut().filter(|_| Some(stream) == self.ordinary) else { return Ok(()) };
        let opened = &mut self.opened;
        streams::read(connection, stream, |bytes| {
            opened.extend_from_slice(bytes);
            Ok(())
        })?;
        let (mut frames, mut answers) = (BytesMut::new(), Vec::new());
        let outcome = inner.receive(opened, &mut frames, &mut answers);
        self.handshake_out.push_raw(&answers);
        outcome?;
        match inner.remote() {
            Some(remote) => self.establish(remote, &frames, out),
            None => Ok(()),
        }
    }

    fn establish(&mut self, remote: RemoteIdentity, frames: &[u8], out: &mut Vec<Output>) -> Result<(), Loss> {
        self.remote = Some(remote);
        let (_, connection) = self.connection.as_mut().expect("the handshake ran on it");
        let window = match remote {
            // The window of both streams, so that bulk cannot use up the other stream's part.
            RemoteIdentity::Replica(_) => 2 * self.window_bytes,
            RemoteIdentity::Client(_) => self.client_window_bytes,
        };
        connection.set_receive_window(VarInt::try_from(window as u64).expect("the setting was checked"));
        self.carries = connection.current_mtu();
        out.push(Output::Established);
        take_frames(&mut self.ordinary_in, frames, out)?;
        self.read_votes(out)?;
        match self.bulk_in_stream {
            Some(stream) => self.read(stream, out),
            None => Ok(()),
        }
    }

    fn read_votes(&mut self, out: &mut Vec<Output>) -> Result<(), Loss> {
        match (&mut self.connection, self.remote) {
            (Some((_, connection)), Some(remote)) => self.votes.read(connection, remote, out),
            // Data that arrived early is read once the other end is authenticated.
            _ => Ok(()),
        }
    }

    /// Passes queued frames to the library.
    fn write(&mut self) -> Result<(), Loss> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        if let Some(on_the_way) = self.acknowledged.take() {
            self.unacknowledged = self.unacknowledged.min(on_the_way);
        }
        if let Some(stream) = self.ordinary {
            streams::write(connection, stream, &mut self.handshake_out)?;
            if self.remote.is_some() && self.handshake_out.bytes() == 0 {
                self.votes.write(connection, &mut self.ordinary_out);
                self.unacknowledged += streams::write(connection, stream, &mut self.ordinary_out)?;
            }
        }
        if self.bulk_out.bytes() > 0 && self.remote.is_some() {
            if self.bulk_out_stream.is_none() {
                self.bulk_out_stream = connection.streams().open(Dir::Uni);
                let Some(stream) = self.bulk_out_stream else { return Err(Loss::Violation("it allows no stream")) };
                connection.send_stream(stream).set_priority(BULK_PRIORITY).expect("the stream was just opened");
            }
            let stream = self.bulk_out_stream.expect("it was opened");
            self.unacknowledged += streams::write(connection, stream, &mut self.bulk_out)?;
        }
        let limit = super::SEND_WINDOWS as usize * self.window_bytes;
        self.unacknowledged = self.unacknowledged.min(limit);
        Ok(())
    }

    fn transmit(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some((_, connection)) = &mut self.connection else { return };
        loop {
            self.packets.clear();
            let at_once = (BYTES_AT_ONCE / usize::from(connection.current_mtu())).clamp(1, PACKETS_AT_ONCE);
            let Some(made) = connection.poll_transmit(instant(now), at_once, &mut self.packets) else { break };
            let all = Bytes::copy_from_slice(&self.packets[..made.size]);
            let each = made.segment_size.unwrap_or(made.size).max(1);
            self.encrypted += made.size.div_ceil(each) as u64;
            if self.encrypted >= self.end.key_update_records {
                // Has no effect before the handshake is complete, or during a key update.
                connection.force_key_update();
                self.encrypted = 0;
            }
            let packets = (0..all.len()).step_by(each).map(|at| all.slice(at..all.len().min(at + each)));
            out.extend(packets.map(Output::Packet));
        }
        self.votes.account(connection);
    }

    /// Ends the connection, and notifies the other end if that is still possible.
    fn give_up(&mut self, now: Time, why: Loss, out: &mut Vec<Output>) {
        // The inner handshake's answer comes first: it is more specific than an error code.
        if self.write().is_ok() {
            self.transmit(now, out);
        }
        if let Some((_, connection)) = &mut self.connection {
            connection.close(instant(now), CODE_REFUSED.into(), Bytes::new());
        }
        self.transmit(now, out);
        out.push(Output::Lost(why));
        self.is_over = true;
    }

    fn on_packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) -> Result<(), Loss> {
        let is_short = is_short(&packet);
        if self.connection.is_none() && !is_short {
            self.asked_for = long_names(&packet).map(|(name, _)| Bytes::copy_from_slice(name));
        }
        if self.remote.is_none()
            && let Some((_, theirs)) = long_names(&packet)
        {
            self.theirs = theirs.first_chunk().copied();
        }
        if !self.claims(&packet) {
            if self.heeds(&packet) {
                self.judge(now, true);
                return Ok(());
            }
            // The accepting end answers packets of unknown senders, if its driver has not done so.
            if self.side != Side::Responder {
                return Ok(());
            }
        }
        let packet = packet.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        self.packets.clear();
        let event = self.endpoint.handle(instant(now), REMOTE, None, None, packet, &mut self.packets);
        match event {
            None => Ok(()),
            Some(DatagramEvent::Response(answer)) => {
                self.answer(answer.size, out);
                Ok(())
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming, out),
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let Some((_, connection)) = &mut self.connection else { return Ok(()) };
                connection.handle_event(event);
                self.judge(now, is_short);
                Ok(())
            }
        }
    }

    fn answer(&self, bytes: usize, out: &mut Vec<Output>) {
        out.push(Output::Packet(Bytes::copy_from_slice(&self.packets[..bytes])));
    }

    /// Handles the first packet of a connection.
    fn accept(&mut self, now: Time, incoming: Incoming, out: &mut Vec<Output>) -> Result<(), Loss> {
        self.packets.clear();
        if !incoming.remote_address_validated() {
            if let Ok(token) = self.endpoint.retry(incoming, &mut self.packets) {
                self.answer(token.size, out);
            }
            return Ok(());
        }
        if self.connection.is_some() {
            // The owner of the address begins a new connection.
            self.endpoint.ignore(incoming);
            return Err(Loss::Restarted);
        }
        match self.endpoint.accept(incoming, instant(now), &mut self.packets, None) {
            Ok(connection) => {
                self.connection = Some(connection);
                Ok(())
            }
            Err(failed) => {
                if let Some(answer) = failed.response {
                    self.answer(answer.size, out);
                }
                Err(self.loss(failed.cause))
            }
        }
    }

    fn on_timer(&mut self, now: Time) -> Result<(), Loss> {
        self.doubt_further(now)?;
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(instant(now));
        }
        Ok(())
    }

    /// Returns whether an end with this tag may challenge this one. It may if it is the remote and this end has
    /// dialled.
    fn is_challenged_by(&self, of: [u8; TAG_BYTES]) -> bool {
        self.side != Side::Responder && self.theirs == Some(of)
    }

    fn move_answer(&self, proof: u64) -> Option<u64> {
        let (_, connection) = self.connection.as_ref().filter(|_| self.remote.is_some())?;
        moves::answer(connection, proof)
    }

    fn begin(&mut self, now: Time) -> Result<(), Loss> {
        let (Some(client), Side::Initiator { expects }) = (self.client.take(), self.side) else { return Ok(()) };
        let begun = self.endpoint.connect(instant(now), client, REMOTE, &name_of(expects));
        self.connection = Some(begun.map_err(|error| ChannelError::Tls(error.to_string()))?);
        Ok(())
    }
}

/// Returns the key that the accepting end presented.
fn shown_key(connection: &Connection) -> Result<Vec<u8>, ChannelError> {
    let shown = connection.crypto_session().peer_identity();
    let shown = shown.and_then(|shown| shown.downcast::<Vec<rustls::pki_types::CertificateDer<'static>>>().ok());
    match shown.as_deref().map(Vec::as_slice) {
        Some([key]) => Ok(key.to_vec()),
        _ => Err(ChannelError::Malformed("it shows no key")),
    }
}

impl Machine for QuicMachine {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step(now, out, |machine, _| machine.begin(now));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        match Move::of_packet(&packet) {
            None => self.step(now, out, |machine, out| machine.on_packet(now, packet, out)),
            Some(Move::Challenge { of, proof }) if self.is_challenged_by(of) => {
                let answer = self.move_answer(proof).map(|answer| Move::Answer { to: of, answer });
                out.extend(answer.map(|answer| Output::Packet(answer.packet())));
            }
            Some(_) => {}
        }
    }

    fn packet_from(&mut self, now: Time, detour: Detour, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_over || self.name().is_none() || !is_short(&packet) || !self.claims(&packet) {
            return;
        }
        match Move::of_packet(&packet) {
            Some(Move::Answer { answer, .. }) => {
                if detour.proofs.iter().any(|proof| self.move_answer(*proof) == Some(answer)) {
                    out.push(Output::Moved(detour.from));
                }
            }
            Some(Move::Challenge { .. }) => {}
            None => {
                self.step(now, out, |machine, out| machine.on_packet(now, packet, out));
                if self.challenges.is_due(now, detour.from) {
                    let challenge = Move::Challenge { of: self.tag, proof: detour.proofs[0] };
                    out.push(Output::PacketTo(detour.from, challenge.packet()));
                }
            }
        }
    }

    fn name(&self) -> Option<u64> {
        (self.remote.is_some() && self.side == Side::Responder).then(|| name_of_tag(self.tag))
    }

    fn send(&mut self, _now: Time, frame: Bytes, lane: Lane, _out: &mut Vec<Output>) {
        match lane {
            _ if self.is_over => {}
            Lane::Ordinary => self.ordinary_out.push(frame),
            Lane::Vote => self.votes.push(frame, &mut self.ordinary_out),
            Lane::Bulk => self.bulk_out.push(frame),
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.remote.is_some() {
            self.step(now, out, |_, _| Ok(()));
        }
    }

    fn claims(&self, packet: &[u8]) -> bool {
        if let Some(Move::Challenge { of, .. }) = Move::of_packet(packet) {
            return self.is_challenged_by(of);
        }
        if is_short(packet) {
            return short_tag(packet) == Some(self.tag);
        }
        long_names(packet).is_some_and(|(to, _)| to.starts_with(&self.tag) || self.asked_for.as_deref() == Some(to))
    }

    /// A remote that has lost the connection answers with a packet that names no connection and cannot be decrypted. It
    /// proves nothing, and only makes this end [request an acknowledgement](QuicMachine::ask).
    fn heeds(&self, packet: &[u8]) -> bool {
        self.remote.is_some() && is_short(packet)
    }

    fn due(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step(now, out, |machine, _| machine.on_timer(now));
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.is_over {
            return;
        }
        if let Some((_, connection)) = &mut self.connection {
            connection.close(instant(now), CODE_CLOSED.into(), Bytes::new());
        }
        self.transmit(now, out);
        self.is_over = true;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.remote
    }

    fn agreed(&self) -> Option<&Agreed> {
        self.inner.as_ref()?.agreed()
    }

    fn unsent_bytes(&self) -> usize {
        self.ordinary_out.bytes() + self.bulk_out.bytes() + self.votes.unsent_bytes() + self.unacknowledged
    }

    fn unsent_bulk_bytes(&self) -> usize {
        self.bulk_out.bytes()
    }

    fn partial_bytes(&self) -> usize {
        self.ordinary_in.held_bytes() + self.bulk_in.held_bytes()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.ordinary_in.set_limit(bytes);
        self.bulk_in.set_limit(bytes);
        self.votes.set_frame_limit(bytes);
    }

    fn repairs(&self) -> Repairs {
        let Some((_, connection)) = &self.connection else { return Repairs::default() };
        let retransmissions = connection.stats().path.lost_packets;
        // The library counts no timeouts, and has an estimate before it has measured anything.
        let round_trip = self.remote.map(|_| connection.rtt());
        Repairs { retransmissions, timeouts: None, round_trip }
    }
}
