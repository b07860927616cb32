//! One end of one association.

use super::immediate;
use super::observer::Observer;
use super::reordering::Reordering;
use crate::channels::{Loss, Machine, Output, RemoteIdentity, Repairs, Side};
use crate::transports::config::WireSettings;
use crate::transports::framing::FrameBuffer;
use crate::transports::instants::{REMOTE, instant, time};
use crate::transports::lanes::{SendLane, take_frames};
use crate::transports::retransmission::Bounds;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{Lane, Time};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, StreamEvent, TransportConfig,
};
use std::sync::Arc;
use std::time::Duration;

/// Streams, the same in both directions.
const ORDINARY: u16 = 0;
const BULK: u16 = 1;
const LIFE: u16 = 2;
const STREAMS: u16 = 3;
/// Messages on the keep-alive stream: the sender is alive, or it closes the association.
const HERE: u8 = 1;
const GONE: u8 = 2;
/// Headers of a packet and of its data chunk, in bytes, rounded up to whole words.
const HEADER_BYTES: usize = 12 + 16 + 4;
/// Bytes that the library ignores when it bundles several chunks into one packet: the header of the last one, and up to
/// three bytes of padding per chunk. Enough for 16 chunks.
const BUNDLING_BYTES: usize = 16 + 16 * 3;
/// Bulk bytes passed to the library at once: the most that a later frame waits for.
const BULK_STEP_BYTES: usize = 16 << 10;
/// Minimum timeout of the profile `auto`, in milliseconds: the library counts whole milliseconds, and has no margin.
const AUTO_RTO_MIN_MS: u64 = 5;
/// On a long path the minimum is this plus 1 1/8 of the round trip that the channel's handshake measured. A timeout
/// shorter than a round trip reduces the congestion window to one packet.
const ROUND_TRIP_MARGIN: u32 = 8;
/// A path counts as long from this round trip on. A shorter one may be the first wait of a handshake whose packet was
/// lost on a short path (50 ms).
const LONG_ROUND_TRIP: Duration = Duration::from_millis(80);
/// Limit of that minimum, in milliseconds: a handshake of several round trips, or with losses, measures too much.
const MAX_AUTO_RTO_MIN_MS: u64 = 500;
/// Verification tags of the dialling and the accepting end. They need not be secret, since the channel below proves the
/// sender.
const TAGS: [u32; 2] = [1, 2];
/// First TSN in each direction.
const FIRST_NUMBER: u32 = 1;
/// Type of the INIT chunk (RFC 9260, section 3.3.2), and its length in bytes.
const KIND_INIT: u8 = 1;
const INIT_BYTES: u16 = 20;

/// Returns the INIT chunk that an end would send.
fn init(tag: u32, window_bytes: u32) -> Bytes {
    let mut chunk = BytesMut::with_capacity(INIT_BYTES.into());
    chunk.put_u8(KIND_INIT);
    chunk.put_u8(0);
    chunk.put_u16(INIT_BYTES);
    chunk.put_u32(tag);
    chunk.put_u32(window_bytes);
    chunk.put_u16(STREAMS);
    chunk.put_u16(STREAMS);
    chunk.put_u32(FIRST_NUMBER);
    chunk.freeze()
}

/// One end of an SCTP association.
pub struct SctpMachine {
    endpoint: Endpoint,
    /// INIT chunks of the two ends; present until the channel below is established.
    inits: Option<[Bytes; 2]>,
    bounds: Bounds,
    /// Round-trip time of the handshake of the channel below, on a long path.
    expected: Option<Duration>,
    association: Option<(AssociationHandle, Association)>,
    /// Maximum bytes of a message, so that it fits in a packet.
    message_bytes: usize,
    /// The same for a path that carries only shorter packets. The library may still bundle several messages.
    short_message_bytes: Option<usize>,
    window_bytes: usize,
    keepalive: Duration,
    silence: Duration,
    /// Time of the remote's latest packet.
    heard: Time,
    /// Time of the latest keep-alive sent.
    shown: Time,
    ordinary_out: SendLane,
    bulk_out: SendLane,
    /// Bytes that the library holds, sent or not.
    held: usize,
    /// Bytes that the library held when it accepted no more bulk.
    full_at: Option<usize>,
    ordinary_in: FrameBuffer,
    bulk_in: FrameBuffer,
    observer: Observer,
    reordering: Reordering,
    due: Option<Time>,
    is_over: bool,
}

impl SctpMachine {
    /// Creates an end that begins when the channel below is established. `mtu_budget` is the MTU budget: the longest
    /// packet, in bytes.
    pub fn new(side: Side, settings: &WireSettings, mtu_budget: usize) -> SctpMachine {
        let (bounds, window) = (settings.retransmission.bounds(), settings.retransmission.window_bytes);
        let window_bytes = u32::try_from(window).unwrap_or(u32::MAX);
        let message_bytes = mtu_budget - HEADER_BYTES - BUNDLING_BYTES;
        let [mine, theirs] = match side {
            Side::Initiator { .. } => TAGS,
            Side::Responder => [TAGS[1], TAGS[0]],
        };
        // The other end's window is unknown until its first acknowledgement. Only the congestion window counts until
        // then, whose slow start ends at the assumed window.
        let inits = [init(mine, window_bytes), init(theirs, window_bytes)];
        let mut endpoint = EndpointConfig::new();
        endpoint.max_payload_size(u32::try_from(message_bytes).expect("a packet is shorter than 64 KiB"));
        SctpMachine {
            endpoint: Endpoint::new(Arc::new(endpoint), None),
            inits: Some(inits),
            bounds,
            expected: None,
            association: None,
            message_bytes,
            short_message_bytes: None,
            window_bytes: window,
            keepalive: Duration::from_millis(settings.packets.keepalive_ms),
            silence: Duration::from_millis(settings.retransmission.unacknowledged_ms),
            heard: Time(0),
            shown: Time(0),
            ordinary_out: SendLane::default(),
            bulk_out: SendLane::default(),
            held: 0,
            full_at: None,
            ordinary_in: FrameBuffer::new(),
            bulk_in: FrameBuffer::new(),
            observer: Observer::new(bounds),
            reordering: Reordering::new(FIRST_NUMBER),
            due: None,
            is_over: false,
        }
    }

    /// Performs a step and everything that follows from it.
    fn step(
        &mut self,
        now: Time,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut SctpMachine, &mut Vec<Output>) -> Result<(), Loss>,
    ) {
        if self.is_over {
            return;
        }
        let outcome = act(self, out).and_then(|()| self.handle_events(out)).and_then(|()| self.write(now, out));
        self.count_held();
        if let Err(why) = outcome {
            self.is_over = true;
            out.push(Output::Lost(why));
        }
        self.due = match &self.association {
            Some((_, association)) if !self.is_over => {
                let timer = association.poll_timeout().map(time);
                let life = self.heard.max(self.shown) + self.keepalive;
                [timer, Some(life), Some(self.heard + self.silence_limit())].into_iter().flatten().min()
            }
            _ => None,
        };
    }

    /// Returns the time after which a silent remote is considered dead, long enough for several keep-alives.
    fn silence_limit(&self) -> Duration {
        self.silence.max(2 * self.keepalive)
    }

    fn settings_of_library(&self) -> TransportConfig {
        let least = self.expected.map_or(0, |trip| (trip + trip / ROUND_TRIP_MARGIN).as_millis() as u64);
        let least = (AUTO_RTO_MIN_MS + least).min(MAX_AUTO_RTO_MIN_MS);
        let (initial, least) = match self.bounds.rto_min_ms {
            Some(least) => (self.bounds.rto_initial_ms, least.max(1)),
            None => (self.bounds.rto_initial_ms.max(least), least),
        };
        TransportConfig::default()
            .with_max_receive_buffer_size(u32::try_from(self.window_bytes).unwrap_or(u32::MAX))
            .with_max_num_outbound_streams(STREAMS)
            .with_max_num_inbound_streams(STREAMS)
            .with_max_data_retransmits(None)
            .with_rto_initial_ms(initial)
            .with_rto_min_ms(least)
            .with_rto_max_ms(self.bounds.rto_max_ms.max(least))
    }

    fn begin(&mut self, now: Time, out: &mut Vec<Output>) -> Result<(), Loss> {
        let Some([mine, theirs]) = self.inits.take() else { return Ok(()) };
        let mut client = ClientConfig::new().with_snap(mine, theirs);
        client.transport = Arc::new(self.settings_of_library());
        let begun = self.endpoint.connect(client, REMOTE);
        let (handle, mut association) = begun.map_err(|_| Loss::Violation("its first numbers do not fit"))?;
        for stream in [ORDINARY, BULK, LIFE] {
            association
                .open_stream(stream, PayloadProtocolIdentifier::Binary)
                .map_err(|_| Loss::Violation("it allows too few streams"))?;
        }
        self.association = Some((handle, association));
        (self.heard, self.shown) = (now, now);
        out.push(Output::Established);
        Ok(())
    }

    fn on_packet(&mut self, now: Time, packet: Bytes) {
        if self.association.is_none() {
            return;
        }
        let event = self.endpoint.handle(instant(now), REMOTE, None, None, packet);
        if let (Some((_, DatagramEvent::AssociationEvent(event))), Some((_, association))) =
            (event, &mut self.association)
        {
            association.handle_event(event);
        }
    }

    /// Passes packets to the library, each in a step of its own, so that each is acknowledged.
    fn take_ready(&mut self, now: Time, ready: Vec<Bytes>, out: &mut Vec<Output>) {
        for packet in ready {
            self.step(now, out, |machine, _| {
                machine.on_packet(now, packet);
                Ok(())
            });
        }
    }

    fn handle_events(&mut self, out: &mut Vec<Output>) -> Result<(), Loss> {
        loop {
            let Some((_, association)) = &mut self.association else { return Ok(()) };
            match association.poll() {
                Some(Event::Stream(StreamEvent::Readable { id })) => self.read(id, out)?,
                Some(Event::AssociationLost { .. } | Event::HandshakeFailed { .. }) => {
                    return Err(Loss::Violation("it sent what SCTP does not allow"));
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    fn read(&mut self, id: u16, out: &mut Vec<Output>) -> Result<(), Loss> {
        loop {
            let Some((_, association)) = &mut self.association else { return Ok(()) };
            let Ok(mut stream) = association.stream(id) else { return Ok(()) };
            let Ok(Some(message)) = stream.read() else { return Ok(()) };
            let mut bytes = vec![0; message.len()];
            message.read(&mut bytes).map_err(|_| Loss::Violation("it sent a message that cannot be read"))?;
            match id {
                ORDINARY => take_frames(&mut self.ordinary_in, &bytes, out)?,
                BULK => take_frames(&mut self.bulk_in, &bytes, out)?,
                _ if bytes == [GONE] => return Err(Loss::Closed),
                _ => {}
            }
        }
    }

    fn count_held(&mut self) {
        let Some((_, association)) = &mut self.association else { return };
        let held = |id| association.stream(id).and_then(|stream| stream.buffered_amount()).unwrap_or(0);
        self.held = [ORDINARY, BULK, LIFE].map(held).iter().sum();
    }

    fn give(&mut self, id: u16, message: &[u8]) -> Result<(), Loss> {
        let Some((_, association)) = &mut self.association else { return Ok(()) };
        let written = association.stream(id).and_then(|mut stream| stream.write(message));
        written.map(drop).map_err(|_| Loss::Violation("it ended one of its streams"))
    }

    /// Passes queued frames to the library, bulk only as fast as it is sent, and sends the library's packets.
    fn write(&mut self, now: Time, out: &mut Vec<Output>) -> Result<(), Loss> {
        if self.association.is_none() {
            return Ok(());
        }
        self.count_held();
        let message_bytes = self.short_message_bytes.unwrap_or(self.message_bytes);
        while self.held < self.window_bytes
            && let Some(message) = self.ordinary_out.take(message_bytes)
        {
            self.held += message.len();
            self.give(ORDINARY, &message)?;
        }
        let burst = out.len();
        self.transmit(now, out);
        self.count_held();
        if self.full_at.is_some_and(|full| self.held < full) {
            self.full_at = None;
        }
        while self.full_at.is_none() && self.bulk_out.bytes() > 0 {
            let mut given = 0;
            while given < BULK_STEP_BYTES
                && let Some(message) = self.bulk_out.take(message_bytes)
            {
                given += message.len();
                self.give(BULK, &message)?;
            }
            let from = out.len();
            self.transmit(now, out);
            let packets = out[from..].iter().filter_map(|said| match said {
                Output::Packet(packet) => Some(packet.len()),
                _ => None,
            });
            let sent: usize = packets.sum();
            self.count_held();
            if sent < given || self.held >= self.window_bytes {
                self.full_at = Some(self.held);
            }
        }
        ask_for_acknowledgement(&mut out[burst..]);
        Ok(())
    }

    /// Sends the library's packets.
    fn transmit(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some((_, association)) = &mut self.association else { return };
        while let Some(made) = association.poll_transmit(instant(now)) {
            let Payload::RawEncode(packets) = made.payload else { break };
            packets.iter().for_each(|packet| self.observer.sent(now, packet));
            out.extend(packets.into_iter().map(Output::Packet));
        }
    }

    fn on_timer(&mut self, now: Time) -> Result<(), Loss> {
        if now >= self.heard + self.silence_limit() {
            return Err(Loss::Silent(self.silence_limit().as_millis() as u64));
        }
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(instant(now));
        }
        if now >= self.heard.max(self.shown) + self.keepalive {
            self.shown = now;
            self.give(LIFE, &[HERE])?;
        }
        Ok(())
    }
}

/// Requests an acknowledgement in the last packet with data of a burst. The library appends its own acknowledgements in
/// packets without data.
fn ask_for_acknowledgement(burst: &mut [Output]) {
    let mut packets = burst.iter_mut().rev().filter_map(|said| match said {
        Output::Packet(packet) => Some(packet),
        _ => None,
    });
    if let Some(packet) = packets.find(|packet| immediate::has_data(packet)) {
        let mut bytes = BytesMut::from(std::mem::take(packet));
        immediate::ask(&mut bytes);
        *packet = bytes.freeze();
    }
}

impl Machine for SctpMachine {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step(now, out, |machine, out| machine.begin(now, out));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        self.heard = now;
        self.observer.received(now, &packet);
        // An end that sends little may never have measured the path itself.
        let round_trip = self.observer.round_trip().or(self.expected);
        let ready = self.reordering.take(now, packet, round_trip);
        self.take_ready(now, ready, out);
    }

    fn send(&mut self, _now: Time, frame: Bytes, lane: Lane, _out: &mut Vec<Output>) {
        match lane {
            _ if self.is_over => {}
            Lane::Ordinary | Lane::Vote => self.ordinary_out.push(frame),
            Lane::Bulk => self.bulk_out.push(frame),
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step(now, out, |_, _| Ok(()));
    }

    fn due(&self) -> Option<Time> {
        [self.due, self.reordering.due()].into_iter().flatten().min().filter(|_| !self.is_over)
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        let ready = self.reordering.expired(now);
        self.take_ready(now, ready, out);
        self.step(now, out, |machine, _| machine.on_timer(now));
    }

    fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    fn expect_round_trip(&mut self, trip: Duration) {
        self.expected = Some(trip).filter(|trip| *trip >= LONG_ROUND_TRIP);
    }

    fn shorten(&mut self, bytes: Option<usize>) {
        self.short_message_bytes = bytes.map(|bytes| self.message_bytes.min(bytes - HEADER_BYTES - BUNDLING_BYTES));
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step(now, out, |machine, _| machine.give(LIFE, &[GONE]));
        self.is_over = true;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        None
    }

    fn unsent_bytes(&self) -> usize {
        self.ordinary_out.bytes() + self.bulk_out.bytes() + self.held
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
    }

    fn repairs(&self) -> Repairs {
        let Some((_, association)) = &self.association else { return Repairs::default() };
        let timeouts = Some(association.stats().get_num_t3timeouts());
        Repairs { retransmissions: self.observer.repeated, timeouts, round_trip: self.observer.round_trip() }
    }
}
