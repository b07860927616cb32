//! DTLS 1.3 over packets, and inside it the [plain channel over packets](crate::plain_packets).
//!
//! **Protected.** As in the channel [`tls`](crate::tls): nobody on the path can read, change, inject or replay packets,
//! or learn later what was sent, and both ends are who the committee says. Packets may still be lost or delayed, as
//! without it; what is above repeats them.
//!
//! DTLS itself authenticates nobody here. The end that accepts shows a certificate that its process made when it
//! started. The signatures of the handshake inside cover it, so they are worth nothing in any other session. An end
//! that accepts keeps nothing of a first hello but its answer, a cookie (RFC 9147, section 5.1), so that nobody with a
//! forged address gets further. Only version 1.3 is offered and accepted, so nobody can force an older one.

use crate::plain_packets::PlainPackets;
use crate::{
    Carriage, ChannelConfig, ChannelError, ChannelProfile, ChannelSuite, KEY_UPDATE_RECORDS, Loss, Machine,
    NONCE_BYTES, Output, RemoteIdentity, Side, certificate,
};
use bytes::Bytes;
use dimpl::{Config, DtlsCertificate};
use quorate_types::Time;
use quorate_types::meter::{self, Primitive};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// DTLS as a kind of channel.
pub(crate) struct Dtls;

static PROFILE: ChannelProfile = ChannelProfile {
    name: "dtls",
    summary: "DTLS 1.3: packets are encrypted, and nobody on the path can change them",
    over: &[Carriage::Datagrams],
    encrypts: true,
    authenticates_frames: true,
    guards_packets: true,
};

impl ChannelSuite for Dtls {
    fn profile(&self) -> &ChannelProfile {
        &PROFILE
    }

    fn over_packets(
        &self,
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        Ok(Box::new(DtlsPackets::new(end.clone(), side, nonce)?))
    }
}

/// First wait before a flight of the handshake is repeated, and how often it is: the library adds up to a quarter.
const FLIGHT_WAIT: Duration = Duration::from_millis(100);
const FLIGHT_RETRIES: usize = 6;
/// Longest packet of a handshake, in bytes: every network carries it.
const HANDSHAKE_PACKET_BYTES: usize = 1_200;
/// Plain bytes in a record, at most (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// Bytes by which a record is longer than what it carries: its head with 16 bits of number and length, kind and tag.
const RECORD_OVERHEAD_BYTES: usize = 5 + 1 + 16;
/// First bytes of records: those of handshakes in the clear, and the bits that mark a sealed one (RFC 9147, section 4).
const HANDSHAKE: u8 = 22;
const SEALED_MASK: u8 = 0xe0;
const SEALED: u8 = 0x20;
/// The bits of a sealed record's first byte that say its epoch, and what they are during a handshake.
const EPOCH_MASK: u8 = 0x03;
const HANDSHAKE_EPOCH: u8 = 2;
/// Where the kind of a handshake message in the clear is, and the one that begins a session.
const MESSAGE_KIND_AT: usize = 13;
const CLIENT_HELLO: u8 = 1;
/// Where a message's piece says at which byte of the message it begins, and the random number of a hello in its first
/// piece (RFC 9147, sections 5.2 and 5.3).
const PIECE_OFFSET: Range<usize> = 19..22;
const RANDOM: Range<usize> = 27..27 + RANDOM_BYTES;
const RANDOM_BYTES: usize = 32;

/// What all connections of this process share.
struct Shared {
    /// With the default number of packets for a key.
    config: Arc<Config>,
    certificate: DtlsCertificate,
}

impl Shared {
    fn get() -> Result<&'static Shared, ChannelError> {
        static SHARED: OnceLock<Result<Shared, ChannelError>> = OnceLock::new();
        SHARED.get_or_init(Shared::make).as_ref().map_err(Clone::clone)
    }

    fn make() -> Result<Shared, ChannelError> {
        let certificate = certificate::self_signed()?;
        Ok(Shared { config: configuration(KEY_UPDATE_RECORDS)?, certificate })
    }

    fn config(&self, key_update_records: u64) -> Result<Arc<Config>, ChannelError> {
        match key_update_records {
            KEY_UPDATE_RECORDS => Ok(self.config.clone()),
            other => configuration(other),
        }
    }
}

fn configuration(key_update_records: u64) -> Result<Arc<Config>, ChannelError> {
    let config = Config::builder()
        .mtu(HANDSHAKE_PACKET_BYTES)
        .require_client_certificate(false)
        .use_server_cookie(true)
        .flight_start_rto(FLIGHT_WAIT)
        .flight_retries(FLIGHT_RETRIES)
        .aead_encryption_limit(key_update_records)
        .build()
        .map_err(dtls)?;
    Ok(Arc::new(config))
}

fn dtls(error: impl std::fmt::Display) -> ChannelError {
    ChannelError::Tls(error.to_string())
}

/// One end of a DTLS channel.
pub struct DtlsPackets {
    session: dimpl::Dtls,
    config: ChannelConfig,
    side: Side,
    nonce: [u8; NONCE_BYTES],
    /// Start of the library's clock, and the same moment of the machine's.
    epoch: (Instant, Option<Time>),
    session_due: Option<Time>,
    /// The certificate that the accepting end has shown.
    shown: Option<Vec<u8>>,
    /// The handshake inside, and what follows it, once the session is secure.
    inner: Option<PlainPackets>,
    room: Vec<u8>,
    has_heard: bool,
    /// Random number of the hello that began this session, at the end that accepts.
    begun_by: Option<[u8; RANDOM_BYTES]>,
    is_over: bool,
}

impl DtlsPackets {
    /// Creates one end at the start of its handshake. `nonce` must never have been used before.
    ///
    /// # Errors
    /// [`ChannelError::Tls`] if the library cannot make a key.
    pub fn new(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES]) -> Result<DtlsPackets, ChannelError> {
        let shared = Shared::get()?;
        let epoch = Instant::now();
        let mut session =
            dimpl::Dtls::new_13(shared.config(config.key_update_records)?, shared.certificate.clone(), epoch);
        session.set_active(matches!(side, Side::Initiator { .. }));
        Ok(DtlsPackets {
            session,
            config,
            side,
            nonce,
            epoch: (epoch, None),
            session_due: None,
            shown: (side == Side::Responder).then(|| shared.certificate.certificate.clone()),
            inner: None,
            room: vec![0; RECORD_BYTES + RECORD_OVERHEAD_BYTES],
            has_heard: false,
            begun_by: None,
            is_over: false,
        })
    }

    /// Tells the library the time.
    fn set_clock(&mut self, now: Time) -> Result<(), ChannelError> {
        let start = *self.epoch.1.get_or_insert(now);
        self.session.handle_timeout(self.epoch.0 + now.since(start)).map_err(dtls)
    }

    /// Does `work`, which seals or opens a packet of this many bytes, and counts it unless it belongs to the handshake.
    fn metered(&mut self, bytes: usize, work: impl FnOnce(&mut DtlsPackets)) {
        match self.remote() {
            Some(_) => meter::measured(Primitive::Channel, meter::channel_items(bytes), || work(self)),
            None => work(self),
        }
    }

    /// Does `act`, and then everything that follows from it in the session and inside it.
    fn run(
        &mut self,
        now: Time,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut DtlsPackets, &mut Vec<Output>) -> Result<(), ChannelError>,
    ) {
        if self.is_over {
            return;
        }
        let mut inside = Vec::new();
        let outcome = self.set_clock(now).and_then(|()| act(self, &mut inside));
        if let Err(why) = outcome.and_then(|()| self.follow(now, inside, out)) {
            self.is_over = true;
            out.push(Output::Lost(why.into()));
        }
    }

    fn follow(&mut self, now: Time, mut inside: Vec<Output>, out: &mut Vec<Output>) -> Result<(), ChannelError> {
        loop {
            for said in inside.drain(..) {
                match said {
                    Output::Packet(packet) => {
                        self.session.send_application_data(&packet).map_err(dtls)?;
                        // The library queues few packets.
                        flush(&mut self.session, &mut self.room, out);
                    }
                    Output::Lost(_) => {
                        self.is_over = true;
                        out.push(said);
                        return Ok(());
                    }
                    other => out.push(other),
                }
            }
            if !self.hear(now, &mut inside, out)? {
                return Ok(());
            }
        }
    }

    /// Takes what the session has to say. Returns whether something inside follows from it.
    fn hear(&mut self, now: Time, inside: &mut Vec<Output>, out: &mut Vec<Output>) -> Result<bool, ChannelError> {
        let (mut connected, mut has_ended) = (false, false);
        loop {
            match self.session.poll_output(&mut self.room) {
                dimpl::Output::Packet(packet) => out.push(Output::Packet(Bytes::copy_from_slice(packet))),
                dimpl::Output::BufferTooSmall { needed } => self.room.resize(needed, 0),
                dimpl::Output::PeerCert(certificate) => self.shown = Some(certificate.to_vec()),
                dimpl::Output::Connected => connected = true,
                dimpl::Output::ApplicationData(data) => {
                    if let Some(inner) = &mut self.inner {
                        inner.packet(now, Bytes::copy_from_slice(data), inside);
                    }
                }
                dimpl::Output::CloseNotify => has_ended = true,
                dimpl::Output::Timeout(at) => {
                    let start = self.epoch.1.expect("the clock was set");
                    self.session_due = Some(start + at.saturating_duration_since(self.epoch.0));
                    break;
                }
                _ => {}
            }
        }
        if connected {
            let shown = self.shown.as_deref().ok_or(ChannelError::Malformed("it shows no certificate"))?;
            let mut inner = PlainPackets::inside(self.config.clone(), self.side, self.nonce, shown);
            inner.start(now, inside);
            self.inner = Some(inner);
        }
        if has_ended {
            inside.push(Output::Lost(Loss::Closed));
        }
        Ok(!inside.is_empty())
    }
}

/// Returns the random number of the hello with which a packet begins. Every session has another one; a hello that is
/// repeated, with or without a cookie, keeps it.
fn random_of_hello(packet: &[u8]) -> Option<[u8; RANDOM_BYTES]> {
    let is_hello = packet.first() == Some(&HANDSHAKE) && packet.get(MESSAGE_KIND_AT) == Some(&CLIENT_HELLO);
    let is_first_piece = packet.get(PIECE_OFFSET)?.iter().all(|byte| *byte == 0);
    if is_hello && is_first_piece { packet.get(RANDOM)?.try_into().ok() } else { None }
}

/// Passes on the packets that the session has made. What else it had to say has been heard before.
fn flush(session: &mut dimpl::Dtls, room: &mut [u8], out: &mut Vec<Output>) {
    while let dimpl::Output::Packet(packet) = session.poll_output(room) {
        out.push(Output::Packet(Bytes::copy_from_slice(packet)));
    }
}

impl Machine for DtlsPackets {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |_, _| Ok(()));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        if self.side == Side::Responder && self.begun_by.is_none() {
            self.begun_by = random_of_hello(&packet);
        }
        let is_first = !std::mem::replace(&mut self.has_heard, true);
        self.metered(packet.len(), |end| {
            end.run(now, out, |end, _| {
                let begins = packet.first() == Some(&HANDSHAKE);
                if is_first && end.side == Side::Responder && !begins {
                    return Err(match packet.first() {
                        Some(first) if *first == crate::plain_packets::HANDSHAKE => ChannelError::PeerSpeaks("plain"),
                        _ => ChannelError::NotQuorate,
                    });
                }
                end.session.handle_packet(&packet).map_err(dtls)
            })
        });
    }

    fn send(&mut self, now: Time, frame: Bytes, out: &mut Vec<Output>) {
        self.metered(frame.len(), |end| {
            end.run(now, out, |end, inside| {
                let inner = end.inner.as_mut().expect("nothing is sent before the handshake is complete");
                inner.send(now, frame, inside);
                Ok(())
            })
        });
    }

    fn prefix(&self) -> Option<Bytes> {
        self.inner.as_ref().and_then(Machine::prefix)
    }

    fn send_prefixed(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        self.run(now, out, |_, inside| {
            inside.push(Output::Packet(packet));
            Ok(())
        });
    }

    /// Only a hello names its session, by its random number. Of sealed packets, a session whose handshake is not
    /// complete claims those of a handshake and leaves the others to an older one from the same address, which a
    /// stranger with a forged address must not silence.
    fn claims(&self, packet: &[u8]) -> bool {
        if self.side != Side::Responder {
            return true;
        }
        if let Some(random) = random_of_hello(packet) {
            return self.begun_by.is_none_or(|own| own == random);
        }
        let is_sealed = |first: &u8| first & SEALED_MASK == SEALED;
        match packet.first().filter(|first| is_sealed(first)) {
            Some(first) => self.inner.is_some() || first & EPOCH_MASK == HANDSHAKE_EPOCH,
            None => true,
        }
    }

    fn room(&self, bytes: usize) -> usize {
        let sealed = bytes.min(RECORD_BYTES + RECORD_OVERHEAD_BYTES).saturating_sub(RECORD_OVERHEAD_BYTES);
        sealed.saturating_sub(crate::plain_packets::DATA_HEAD_BYTES)
    }

    fn due(&self) -> Option<Time> {
        let inner = self.inner.as_ref().and_then(Machine::due);
        [self.session_due, inner].into_iter().flatten().min().filter(|_| !self.is_over)
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |end, inside| {
            if let Some(inner) = end.inner.as_mut().filter(|inner| inner.due().is_some_and(|due| due <= now)) {
                inner.timer(now, inside);
            }
            Ok(())
        });
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |end, _| end.session.close().map_err(dtls));
        self.is_over = true;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.inner.as_ref().and_then(Machine::remote)
    }

    fn unsent_bytes(&self) -> usize {
        0
    }

    fn partial_bytes(&self) -> usize {
        0
    }

    fn set_frame_limit(&mut self, _: usize) {}
}
