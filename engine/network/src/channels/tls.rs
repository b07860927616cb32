//! TLS 1.3 over a stream, and inside it the handshake of the [plain channel](crate::channels::plain).
//!
//! **Protected.** Nobody on the path can read, change, inject or replay bytes. Recorded traffic stays secret if a key
//! leaks later, because each connection has ephemeral keys. The committee's keys authenticate both ends, as in the
//! plain channel.
//!
//! TLS itself authenticates nobody here. The accepting end presents a raw public key (RFC 7250), generated when its
//! process started, instead of a certificate: there is nothing to issue, renew or distribute. The signatures of the
//! inner handshake cover this key, and TLS proves that the accepting end holds it. So a signature is worthless in any
//! other session: an attacker on the path who speaks TLS with both ends can forward their signatures, but neither end
//! accepts them. This is channel binding as in RFC 5929, type `tls-server-end-point`.
//!
//! ```text
//! initiator                                     responder
//! ClientHello                             ->
//!                                         <-    ServerHello, raw public key, its proof, Finished
//! Finished, hello                         ->
//!                                         <-    hello, proof
//! proof, if it is a replica               ->
//! ```
//!
//! A reconnecting end resumes its session if both ends still have it: see [`Sessions`]. A key is replaced after
//! [`ChannelConfig::key_update_records`]. Only TLS 1.3 is built in, so a downgrade is impossible.
//!
//! [`Sessions`]: crate::channels::Sessions

use crate::channels::hello::{MAGIC, TLS_PREFIX};
use crate::channels::plain::PlainChannel;
use crate::channels::{
    Agreed, Carriage, Channel, ChannelConfig, ChannelError, ChannelProfile, ChannelSuite, NONCE_BYTES, RemoteIdentity,
    Side,
};
use bytes::{Buf, BytesMut};
use quorate_types::ReplicaId;
use quorate_types::meter::{self, Primitive};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, PeerMisbehaved, ServerConfig, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// TLS as a kind of channel.
pub(crate) struct Tls;

static PROFILE: ChannelProfile = ChannelProfile {
    name: "tls",
    summary: "TLS 1.3: messages are encrypted, and nobody on the path can change them",
    over: &[Carriage::Stream],
    encrypts: true,
    authenticates_frames: true,
    guards_packets: false,
};

/// Both ends announce the inner protocol (RFC 7301), so that other programs fail early.
const PROTOCOL: &[u8] = b"quorate";
/// Maximum plaintext bytes in a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// Overhead of a record in bytes: header, content type and tag.
const RECORD_OVERHEAD_BYTES: usize = 5 + 1 + 16;
/// First byte of an alert, by which a TLS end refuses the session.
const ALERT: u8 = 21;
/// DER prefix of an Ed25519 private key in PKCS #8 (RFC 8410, section 7), before its 32 bytes.
const PKCS8_ED25519: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

impl ChannelSuite for Tls {
    fn profile(&self) -> &ChannelProfile {
        &PROFILE
    }

    fn over_stream(
        &self,
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Channel>, ChannelError> {
        Ok(Box::new(TlsChannel::new(end.clone(), side, nonce)?))
    }
}

/// State shared by all connections of this process, over this channel and over transports with built-in TLS. These
/// configurations keep no sessions; those of [`Sessions`](crate::channels::Sessions) may.
pub struct Shared {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
    /// The raw public key that this process presents, in DER. The inner handshake of a session is
    /// [bound](PlainChannel::inside) to the accepting end's key.
    pub public_key: Vec<u8>,
}

impl Shared {
    /// Returns the state shared by all sessions of this process.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`] if the operating system provides none, [`ChannelError::Tls`] if the library refuses
    /// the generated key.
    pub fn get() -> Result<&'static Shared, ChannelError> {
        static SHARED: OnceLock<Result<Shared, ChannelError>> = OnceLock::new();
        SHARED.get_or_init(Shared::make).as_ref().map_err(Clone::clone)
    }

    fn make() -> Result<Shared, ChannelError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut key = PKCS8_ED25519.to_vec();
        key.resize(PKCS8_ED25519.len() + 32, 0);
        getrandom::fill(&mut key[PKCS8_ED25519.len()..])
            .map_err(|error| ChannelError::Randomness(error.to_string()))?;
        let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(key).into()).map_err(tls)?;
        let public_key = key.public_key().expect("an Ed25519 key has a public key").to_vec();
        let certified = CertifiedKey::new(vec![CertificateDer::from(public_key.clone())], key);
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(provider)))
            .with_no_client_auth();
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        Ok(Shared { client: Arc::new(client), server: Arc::new(server), public_key })
    }
}

/// Accepts any key whose owner completes the TLS handshake: the inner handshake decides who is admitted.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

enum Session {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

impl Session {
    fn is_handshaking(&self) -> bool {
        match self {
            Session::Client(session) => session.is_handshaking(),
            Session::Server(session) => session.is_handshaking(),
        }
    }

    /// Returns the key that the accepting end presented.
    fn shown_key(&self) -> Result<&[u8], ChannelError> {
        match self {
            Session::Server(_) => Ok(&Shared::get()?.public_key),
            Session::Client(session) => match session.peer_certificates() {
                Some([key]) => Ok(key.as_ref()),
                _ => Err(ChannelError::Malformed("it shows no key")),
            },
        }
    }

    /// Consumes records; appends their plaintext to `opened` and the responses to `outgoing`. Returns false once the
    /// complete records are consumed.
    fn step(
        &mut self,
        wire: &mut BytesMut,
        opened: &mut BytesMut,
        outgoing: &mut Vec<u8>,
    ) -> Result<bool, ChannelError> {
        let (consumed, went_on) = match self {
            Session::Client(session) => handle(session.process_tls_records(wire), opened, outgoing),
            Session::Server(session) => handle(session.process_tls_records(wire), opened, outgoing),
        };
        wire.advance(consumed);
        went_on.map_err(tls)
    }

    /// Appends the alert that tells the other end why the session failed, if there is one. Stops receiving: the library
    /// would panic on a second failure.
    fn say_why(&mut self, outgoing: &mut Vec<u8>) {
        let (mut wire, mut opened) = (BytesMut::new(), BytesMut::new());
        while self.has_to_write() && self.step(&mut wire, &mut opened, outgoing).is_ok() {}
    }

    fn has_to_write(&self) -> bool {
        match self {
            Session::Client(session) => session.wants_write(),
            Session::Server(session) => session.wants_write(),
        }
    }

    /// Replaces the encryption key. The library must hold no received data, as for [`Session::encrypt`].
    fn replace_key(&mut self, outgoing: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Session::Client(session) => while !replace_key(session.process_tls_records(&mut []), outgoing)? {},
            Session::Server(session) => while !replace_key(session.process_tls_records(&mut []), outgoing)? {},
        }
        Ok(())
    }

    /// Encrypts `plain`. The library must [hold no received data](holds_record).
    fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Session::Client(session) => loop {
                if encrypt(session.process_tls_records(&mut []), plain, outgoing)? {
                    return Ok(());
                }
            },
            Session::Server(session) => loop {
                if encrypt(session.process_tls_records(&mut []), plain, outgoing)? {
                    return Ok(());
                }
            },
        }
    }
}

/// Returns whether `wire` starts with a complete record. The library leaves one there only if it belongs to an
/// incomplete handshake message, or follows the other end's close_notify.
fn holds_record(wire: &[u8]) -> bool {
    let [_, _, _, high, low, rest @ ..] = wire else { return false };
    rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
}

fn tls(error: Error) -> ChannelError {
    ChannelError::Tls(error.to_string())
}

/// Handles one state of a session. Returns the number of bytes to discard, and whether to continue.
fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    opened: &mut BytesMut,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<bool, Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let went_on = state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut records) => {
            while let Some(record) = records.next_record() {
                let record = record?;
                discard += record.discard;
                opened.extend_from_slice(record.payload);
            }
            Ok(true)
        }
        state => answer(state, outgoing),
    });
    (discard, went_on)
}

/// Handles a state without application data. Returns whether to continue.
fn answer<Data>(state: ConnectionState<'_, '_, Data>, outgoing: &mut Vec<u8>) -> Result<bool, Error> {
    match state {
        ConnectionState::EncodeTlsData(mut data) => {
            append(outgoing, 0, |buffer| match data.encode(buffer) {
                Ok(bytes) => Ok(Ok(bytes)),
                Err(EncodeError::InsufficientSize(short)) => Err(short),
                Err(other) => Ok(Err(Error::General(other.to_string()))),
            })?;
            Ok(true)
        }
        ConnectionState::TransmitTlsData(data) => {
            // The encoded data is at the end of `outgoing`, which is sent in order.
            data.done();
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Encrypts `plain`, or first handles another state of the session and returns false.
fn encrypt<Data>(status: UnbufferedStatus<'_, '_, Data>, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<bool, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut records) => {
            let needed = plain.len() + plain.len().div_ceil(RECORD_BYTES) * RECORD_OVERHEAD_BYTES;
            append(outgoing, needed, |buffer| match records.encrypt(plain, buffer) {
                Ok(bytes) => Ok(Ok(bytes)),
                Err(EncryptError::InsufficientSize(short)) => Err(short),
                Err(other) => Ok(Err(Error::General(other.to_string()))),
            })?;
            Ok(true)
        }
        state => match answer(state, outgoing)? {
            true => Ok(false),
            false => Err(Error::General("the session is closed".to_owned())),
        },
    }
}

/// Replaces the encryption key, or first handles another state of the session and returns false.
fn replace_key<Data>(status: UnbufferedStatus<'_, '_, Data>, outgoing: &mut Vec<u8>) -> Result<bool, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(records) => records.refresh_traffic_keys().map(|()| true),
        state => match answer(state, outgoing)? {
            true => Ok(false),
            false => Err(Error::General("the session is closed".to_owned())),
        },
    }
}

/// Appends the output of `write`, which gets a buffer of `expected` bytes first, and then of the size that it requests.
fn append(
    outgoing: &mut Vec<u8>,
    expected: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<Result<usize, Error>, InsufficientSizeError>,
) -> Result<(), Error> {
    let end = outgoing.len();
    let mut spare = expected;
    loop {
        outgoing.resize(end + spare, 0);
        match write(&mut outgoing[end..]) {
            Ok(written) => {
                outgoing.truncate(end + written.as_ref().copied().unwrap_or(0));
                return written.map(drop);
            }
            Err(InsufficientSizeError { required_size }) => {
                assert!(required_size > spare, "more room is needed");
                spare = required_size;
            }
        }
    }
}

/// One end of a TLS channel.
pub struct TlsChannel {
    config: ChannelConfig,
    side: Side,
    nonce: [u8; NONCE_BYTES],
    session: Session,
    /// The inner handshake, once the session is secure.
    inner: Option<PlainChannel>,
    /// Decrypted bytes of the inner handshake.
    opened: BytesMut,
    /// Bytes of the inner handshake that are not encrypted yet.
    answers: Vec<u8>,
    heard: bool,
    refused: Option<ChannelError>,
    /// Number of records encrypted with the current key.
    encrypted: u64,
}

impl TlsChannel {
    /// Creates a channel at the start of its handshake. `nonce` must never have been used before.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`] if the operating system provides none, [`ChannelError::Tls`] if the library refuses
    /// the generated key.
    ///
    /// # Panics
    /// If a client is to respond or a replica to dial itself, as [`PlainChannel::new`].
    pub fn new(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES]) -> Result<TlsChannel, ChannelError> {
        let session = match side {
            Side::Initiator { expects } => {
                let name = ServerName::try_from(name_of(expects)).expect("the name is valid");
                let session = UnbufferedClientConnection::new(config.sessions.client()?, name).map_err(tls)?;
                Session::Client(Box::new(session))
            }
            Side::Responder => {
                let session = UnbufferedServerConnection::new(config.sessions.server()?).map_err(tls)?;
                Session::Server(Box::new(session))
            }
        };
        let (opened, answers) = (BytesMut::new(), Vec::new());
        let (inner, heard, refused, encrypted) = (None, false, None, 0);
        Ok(TlsChannel { config, side, nonce, session, inner, opened, answers, heard, refused, encrypted })
    }

    /// Encrypts `plain`, after a key update if the current key has encrypted enough records.
    fn encrypt_with_fresh_key(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Error> {
        if self.encrypted >= self.config.key_update_records {
            self.session.replace_key(outgoing)?;
            self.encrypted = 0;
        }
        self.encrypted += plain.len().div_ceil(RECORD_BYTES) as u64;
        self.session.encrypt(plain, outgoing)
    }

    /// Rejects a remote that does not speak TLS, by its first bytes.
    fn check_first(&mut self, wire: &BytesMut) -> Result<(), ChannelError> {
        if self.heard || wire.is_empty() {
            return Ok(());
        }
        self.heard = true;
        match wire[0] {
            first if first == TLS_PREFIX[0] || first == ALERT => Ok(()),
            first if first == MAGIC[0] => Err(ChannelError::PeerSpeaks("plain")),
            _ => Err(ChannelError::NotQuorate),
        }
    }

    fn open(&mut self, wire: &mut BytesMut, plain: &mut BytesMut, outgoing: &mut Vec<u8>) -> Result<(), ChannelError> {
        self.check_first(wire)?;
        loop {
            let established = self.remote().is_some();
            let opened = if established { &mut *plain } else { &mut self.opened };
            let goes_on = self.session.step(wire, opened, outgoing)?;
            if !established && !self.session.is_handshaking() {
                self.shake_hands(plain)?;
            }
            if !goes_on {
                break;
            }
        }
        if self.session.is_handshaking() {
            return Ok(());
        }
        if holds_record(wire) {
            return Err(ChannelError::Malformed("part of a handshake message, or something after its end"));
        }
        self.encrypt_answers(outgoing)
    }

    fn encrypt_answers(&mut self, outgoing: &mut Vec<u8>) -> Result<(), ChannelError> {
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            self.encrypt_with_fresh_key(&answers, outgoing).map_err(tls)?;
        }
        Ok(())
    }

    /// Continues the inner handshake. Bytes after it are passed on.
    fn shake_hands(&mut self, plain: &mut BytesMut) -> Result<(), ChannelError> {
        if self.inner.is_none() {
            let key = self.session.shown_key()?;
            let mut inner = PlainChannel::inside(self.config.clone(), self.side, self.nonce, key);
            inner.start(&mut self.answers);
            self.inner = Some(inner);
        }
        let inner = self.inner.as_mut().expect("it was made");
        inner.receive(&mut self.opened, plain, &mut self.answers)
    }
}

impl Channel for TlsChannel {
    fn start(&mut self, outgoing: &mut Vec<u8>) {
        if matches!(self.side, Side::Initiator { .. }) {
            let (mut nothing, mut none) = (BytesMut::new(), BytesMut::new());
            let started = self.open(&mut nothing, &mut none, outgoing);
            self.refused = started.err();
        }
    }

    fn receive(
        &mut self,
        wire: &mut BytesMut,
        plain: &mut BytesMut,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), ChannelError> {
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        let outcome = match self.remote() {
            Some(_) => {
                let items = meter::channel_items(wire.len());
                meter::measured(Primitive::Channel, items, || self.open(wire, plain, outgoing))
            }
            None => self.open(wire, plain, outgoing),
        };
        if let Err(why) = &outcome {
            self.refused = Some(why.clone());
            if !holds_record(wire) {
                // The session may have failed too: then its alert carries the reason.
                let _ = self.encrypt_answers(outgoing);
            }
            self.session.say_why(outgoing);
        }
        outcome
    }

    fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) {
        assert!(self.remote().is_some(), "nothing is encrypted before the handshake is complete");
        let items = meter::channel_items(plain.len());
        let encrypted = meter::measured(Primitive::Channel, items, || self.encrypt_with_fresh_key(plain, outgoing));
        if let Err(why) = encrypted {
            // The next receive reports it, and the link ends.
            self.refused.get_or_insert(tls(why));
        }
    }

    fn is_transparent(&self) -> bool {
        false
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.inner.as_ref()?.remote()
    }

    fn agreed(&self) -> Option<&Agreed> {
        self.inner.as_ref()?.agreed()
    }
}

/// Returns the server name under which an end keeps its sessions with a replica. TLS requires a name; it is never sent.
pub fn name_of(replica: ReplicaId) -> String {
    format!("replica-{}.quorate", replica.0)
}
