//! DTLS 1.3 over packets, and inside it the [plain channel over packets](crate::channels::plain_packets).
//!
//! **Protected.** As in the channel [`tls`](crate::channels::tls): nobody on the path can read, change, inject or
//! replay packets, recorded traffic stays secret if a key leaks later, and the committee's keys authenticate both ends.
//! Packets may still be lost or delayed; the layer above retransmits them.
//!
//! DTLS itself authenticates nobody here. The accepting end presents a certificate generated when its process started.
//! The signatures of the inner handshake cover this certificate, so they are worthless in any other session. Only
//! version 1.3 is offered and accepted, so a downgrade is impossible.
//!
//! **Off the path.** The first messages of DTLS are in the clear, so anybody could forge some to abort a handshake or
//! begin one. Therefore each packet begins with an [`envelope`], before any record, whose token nobody off the path
//! knows. The accepting end begins nothing before its token has been echoed, which replaces the cookie of DTLS (RFC
//! 9147, section 5.1), and packets without a session's token never reach the library (ADR 097).

use crate::channels::address::SECRET_BYTES;
use crate::channels::envelope::{
    self, Challenges, DATA_HEAD_BYTES, FIRST_WAIT, HANDSHAKE_HEAD_BYTES, Head, LAST_WAIT, Token, TokenGreeter,
};
use crate::channels::plain_packets::{INSIDE_HEAD_BYTES, PlainPackets};
use crate::channels::{
    AddressTokens, Agreed, Carriage, ChannelConfig, ChannelError, ChannelProfile, ChannelSuite, Detour, Greeter,
    KEY_UPDATE_RECORDS, Loss, Machine, NONCE_BYTES, Output, RemoteIdentity, Side, certificate,
};
use bytes::Bytes;
use dimpl::{Config, DtlsCertificate};
use quorate_types::meter::{self, Primitive};
use quorate_types::{Lane, Time};
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

    fn greeter(&self, secret: [u8; SECRET_BYTES]) -> Box<dyn Greeter> {
        Box::new(TokenGreeter::new(AddressTokens::new(secret), envelope::DTLS, false))
    }
}

/// First retransmission timeout of a handshake flight, and of its jitter: the library adds up to a quarter.
const FLIGHT_WAIT: Duration = Duration::from_millis(100);
const FLIGHT_RETRIES: usize = 6;
/// Maximum bytes of handshake records in one packet: every network carries packets of 1,200 bytes.
const HANDSHAKE_RECORDS_BYTES: usize = 1_200 - HANDSHAKE_HEAD_BYTES;
/// Maximum plaintext bytes in a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// Overhead of a record in bytes: its header with 16-bit sequence number and length, its content type, and its tag.
const RECORD_OVERHEAD_BYTES: usize = 5 + 1 + 16;
/// Mask of the bits that identify an encrypted record, and their value in one (RFC 9147, section 4).
const ENCRYPTED_MASK: u8 = 0xe0;
const ENCRYPTED: u8 = 0x20;
/// Maximum number of packets kept until the ServerHello arrives: a flight has fewer.
const MAX_EARLY_PACKETS: usize = 8;

/// State shared by all connections of this process.
struct Shared {
    /// The configuration with the default number of packets per key.
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
        .mtu(HANDSHAKE_RECORDS_BYTES)
        .require_client_certificate(false)
        .use_server_cookie(false)
        .flight_start_rto(FLIGHT_WAIT)
        .flight_retries(FLIGHT_RETRIES)
        .aead_encryption_limit(key_update_records)
        .build()
        .map_err(dtls)?;
    Ok(Arc::new(config))
}

fn dtls(error: impl std::fmt::Display) -> ChannelError {
    ChannelError::Dtls(error.to_string())
}

/// One end of a DTLS channel.
pub struct DtlsPackets {
    session: dimpl::Dtls,
    config: ChannelConfig,
    side: Side,
    nonce: [u8; NONCE_BYTES],
    own: Token,
    /// The remote's token: unknown until it answers or begins.
    theirs: Option<Token>,
    /// When to repeat the token request, and the wait after that.
    ask_at: Option<Time>,
    ask_wait: Duration,
    /// Start of the library's clock, as an `Instant` and as the machine's time.
    epoch: (Instant, Option<Time>),
    session_due: Option<Time>,
    /// The certificate that the accepting end presented.
    shown: Option<Vec<u8>>,
    /// The inner handshake and the data after it, once the session is secure.
    inner: Option<PlainPackets>,
    output: Vec<u8>,
    /// Whether a record from the remote was received.
    has_heard: bool,
    /// Encrypted records that arrived before the ServerHello; the library would drop them.
    early: Option<Vec<Bytes>>,
    /// Source of the packet being decrypted, if it is not the remote's address.
    detour: Option<Detour>,
    /// Whether a record of that packet was genuine and new.
    has_opened: bool,
    challenges: Challenges,
    is_over: bool,
}

impl DtlsPackets {
    /// Creates one end at the start of its handshake. `nonce` must never have been used before.
    ///
    /// # Errors
    /// [`ChannelError::Dtls`] if the library cannot generate a key.
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
            own: envelope::token(&nonce),
            theirs: None,
            ask_at: None,
            ask_wait: FIRST_WAIT,
            nonce,
            epoch: (epoch, None),
            session_due: None,
            shown: (side == Side::Responder).then(|| shared.certificate.certificate.clone()),
            inner: None,
            output: vec![0; RECORD_BYTES + RECORD_OVERHEAD_BYTES],
            has_heard: false,
            early: matches!(side, Side::Initiator { .. }).then(Vec::new),
            detour: None,
            has_opened: false,
            challenges: Challenges::default(),
            is_over: false,
        })
    }

    /// Advances the library's clock.
    fn set_clock(&mut self, now: Time) -> Result<(), ChannelError> {
        let start = *self.epoch.1.get_or_insert(now);
        self.session.handle_timeout(self.epoch.0 + now.since(start)).map_err(dtls)
    }

    /// Returns whether this is the accepting end and its handshake has not begun.
    fn is_fresh(&self) -> bool {
        self.side == Side::Responder && self.theirs.is_none()
    }

    /// Requests the remote's token, and schedules the next request.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        out.push(Output::Packet(envelope::ask(self.own, envelope::DTLS)));
        self.ask_at = Some(now + self.ask_wait);
        self.ask_wait = (2 * self.ask_wait).min(LAST_WAIT);
    }

    /// Handles the answer to the token request: the session begins.
    fn take_answer(&mut self, now: Time, channel: u8, from: Token, packet: &[u8], out: &mut Vec<Output>) {
        if channel != envelope::DTLS.0 {
            self.is_over = true;
            return out.push(Output::Lost(envelope::speaks_other(packet, envelope::DTLS).into()));
        }
        // A later answer counts only if the remote did not know the token of an earlier one.
        if !self.has_heard {
            (self.theirs, self.ask_at) = (Some(from), None);
            self.run(now, out, |_, _| Ok(()));
        }
    }

    fn take_records(&mut self, now: Time, records: Bytes, out: &mut Vec<Output>) {
        self.has_heard = true;
        let is_encrypted = records.first().is_some_and(|first| first & ENCRYPTED_MASK == ENCRYPTED);
        if let Some(early) = self.early.as_mut().filter(|_| is_encrypted) {
            if early.len() < MAX_EARLY_PACKETS {
                early.push(records);
            }
            return;
        }
        let early = self.early.take().unwrap_or_default();
        for records in std::iter::once(records).chain(early) {
            self.metered(records.len(), |end| {
                end.run(now, out, |end, _| end.session.handle_packet(&records).map_err(dtls))
            });
        }
    }

    /// Sends the packets that the session has produced. Its other outputs were handled before.
    fn flush(&mut self, out: &mut Vec<Output>) {
        while let dimpl::Output::Packet(records) = self.session.poll_output(&mut self.output) {
            out.push(Output::Packet(enclose(self.side, self.own, self.theirs, self.has_heard, records)));
        }
    }

    /// Runs `work`, which encrypts or decrypts a packet of this many bytes. Meters it unless it belongs to the
    /// handshake.
    fn metered(&mut self, bytes: usize, work: impl FnOnce(&mut DtlsPackets)) {
        match self.remote() {
            Some(_) => meter::measured(Primitive::Channel, meter::channel_items(bytes), || work(self)),
            None => work(self),
        }
    }

    /// Runs `act`, and then handles everything that results in the session and in the inner channel.
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
                        self.flush(out);
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

    /// Handles the session's outputs. Returns whether the inner channel has something to handle.
    fn hear(&mut self, now: Time, inside: &mut Vec<Output>, out: &mut Vec<Output>) -> Result<bool, ChannelError> {
        let (mut connected, mut has_ended) = (false, false);
        loop {
            match self.session.poll_output(&mut self.output) {
                dimpl::Output::Packet(records) => {
                    out.push(Output::Packet(enclose(self.side, self.own, self.theirs, self.has_heard, records)));
                }
                dimpl::Output::BufferTooSmall { needed } => self.output.resize(needed, 0),
                dimpl::Output::PeerCert(certificate) => self.shown = Some(certificate.to_vec()),
                dimpl::Output::Connected => connected = true,
                dimpl::Output::ApplicationData(data) => {
                    self.has_opened = true;
                    let data = Bytes::copy_from_slice(data);
                    match (&mut self.inner, self.detour) {
                        (Some(inner), None) => inner.packet(now, data, inside),
                        (Some(inner), Some(detour)) => inner.packet_from(now, detour, data, inside),
                        (None, _) => {}
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
            let shown = self.shown.as_deref().ok_or(ChannelError::Malformed("it presents no certificate"))?;
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

/// Returns the packet that encloses some records. Until the initiator has received a record from the remote, its
/// packets carry both tokens, so that each of them can begin the connection.
fn enclose(side: Side, own: Token, theirs: Option<Token>, has_heard: bool, records: &[u8]) -> Bytes {
    let to = theirs.expect("the session begins with the other end's token");
    let mut packet = match side {
        Side::Initiator { .. } if !has_heard => envelope::handshake(to, own, records.len()),
        _ => envelope::data(to, records.len()),
    };
    packet.extend_from_slice(records);
    packet.freeze()
}

impl Machine for DtlsPackets {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Side::Initiator { .. } = self.side {
            self.ask(now, out);
        }
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_over {
            return;
        }
        match envelope::head(&packet) {
            Some(Head::Ask { of, channel }) if self.is_fresh() && channel == envelope::DTLS.0 => {
                out.push(Output::Packet(envelope::answer(of, envelope::DTLS, self.own)));
            }
            Some(Head::Handshake { to, from }) if self.is_fresh() => {
                (self.own, self.theirs) = (to, Some(from));
                self.take_records(now, packet.slice(HANDSHAKE_HEAD_BYTES..), out);
            }
            _ if self.is_fresh() => {
                self.is_over = true;
                out.push(Output::Lost(envelope::speaks_other(&packet, envelope::DTLS).into()));
            }
            _ if !self.claims(&packet) => {}
            Some(Head::Answer { channel, from, .. }) => self.take_answer(now, channel, from, &packet, out),
            Some(Head::Handshake { .. }) => self.take_records(now, packet.slice(HANDSHAKE_HEAD_BYTES..), out),
            Some(Head::Data { .. }) => self.take_records(now, packet.slice(DATA_HEAD_BYTES..), out),
            Some(Head::Challenge { proof, .. }) => {
                if let Some(answer) = self.inner.as_ref().and_then(|inner| inner.answer_challenge(proof)) {
                    self.send_prefixed(now, answer, out);
                }
            }
            _ => {}
        }
    }

    fn packet_from(&mut self, now: Time, detour: Detour, packet: Bytes, out: &mut Vec<Output>) {
        let is_data = matches!(envelope::head(&packet), Some(Head::Data { to }) if to == self.own);
        if self.is_over || self.name().is_none() || !is_data {
            return;
        }
        let said = out.len();
        (self.detour, self.has_opened) = (Some(detour), false);
        self.take_records(now, packet.slice(DATA_HEAD_BYTES..), out);
        self.detour = None;
        let has_moved = out[said..].iter().any(|said| matches!(said, Output::Moved(_)));
        if self.has_opened && !has_moved && !self.is_over {
            self.challenges.send(now, self.own, detour, out);
        }
    }

    fn send(&mut self, now: Time, frame: Bytes, lane: Lane, out: &mut Vec<Output>) {
        self.metered(frame.len(), |end| {
            end.run(now, out, |end, inside| {
                let inner = end.inner.as_mut().expect("nothing is sent before the handshake is complete");
                inner.send(now, frame, lane, inside);
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

    fn claims(&self, packet: &[u8]) -> bool {
        match envelope::head(packet) {
            Some(Head::Handshake { to, from }) => {
                self.side == Side::Responder && to == self.own && self.theirs == Some(from)
            }
            Some(Head::Answer { to, .. }) => self.side != Side::Responder && to == self.own,
            Some(Head::Data { to } | Head::Path { to }) => to == self.own && self.theirs.is_some(),
            Some(Head::Challenge { of, .. }) => self.side != Side::Responder && self.theirs == Some(of),
            _ => false,
        }
    }

    fn other_name(&self) -> Option<u64> {
        self.theirs.filter(|_| self.remote().is_some())
    }

    fn name(&self) -> Option<u64> {
        self.inner.as_ref().and_then(Machine::name).map(|_| self.own)
    }

    fn mtu_budget(&self, bytes: usize) -> usize {
        let record = bytes.saturating_sub(DATA_HEAD_BYTES).min(RECORD_BYTES + RECORD_OVERHEAD_BYTES);
        record.saturating_sub(RECORD_OVERHEAD_BYTES + INSIDE_HEAD_BYTES)
    }

    fn due(&self) -> Option<Time> {
        let inner = self.inner.as_ref().and_then(Machine::due);
        [self.ask_at, self.session_due, inner].into_iter().flatten().min().filter(|_| !self.is_over)
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.theirs.is_none() {
            if !self.is_over && self.ask_at.is_some_and(|at| at <= now) {
                self.ask(now, out);
            }
            return;
        }
        self.run(now, out, |end, inside| {
            if let Some(inner) = end.inner.as_mut().filter(|inner| inner.due().is_some_and(|due| due <= now)) {
                inner.timer(now, inside);
            }
            Ok(())
        });
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.theirs.is_some() {
            self.run(now, out, |end, _| end.session.close().map_err(dtls));
        }
        self.is_over = true;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.inner.as_ref().and_then(Machine::remote)
    }

    fn agreed(&self) -> Option<&Agreed> {
        self.inner.as_ref().and_then(Machine::agreed)
    }

    fn unsent_bytes(&self) -> usize {
        0
    }

    fn partial_bytes(&self) -> usize {
        0
    }

    fn set_frame_limit(&mut self, _: usize) {}
}
