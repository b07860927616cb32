//! The TLS channel: its additions to the plain channel's handshake, and its rejection of attackers on the path.

use crate::handshake::{Line, answer, config, dial, key, replica, talk};
use proptest::prelude::*;
use quorate_network::channels::{ChannelConfig, ChannelError, ChannelKind, LocalEnd, RemoteIdentity};
use quorate_types::{ClientId, ReplicaId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
};
use std::io::{Read, Write};
use std::sync::Arc;

pub fn tls(end: ChannelConfig) -> ChannelConfig {
    ChannelConfig { kind: ChannelKind::TLS, ..end }
}

fn connected(cut: usize) -> (Line, Line) {
    let (mut a, mut b) = (dial(&tls(replica(0)), 1), answer(&tls(replica(1))));
    talk(&mut a, &mut b, cut);
    assert_eq!((a.failed.clone(), b.failed.clone()), (None, None));
    (a, b)
}

#[test]
fn two_replicas_authenticate_each_other_however_the_bytes_are_split() {
    for cut in [1, 7, 86, 100_000] {
        let (mut a, mut b) = connected(cut);
        assert_eq!(a.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(1))));
        assert_eq!(b.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(0))));
        a.channel.encrypt(b"from a", &mut a.sent);
        b.channel.encrypt(b"from b", &mut b.sent);
        talk(&mut a, &mut b, cut);
        assert_eq!((&a.plain[..], &b.plain[..]), (&b"from b"[..], &b"from a"[..]));
    }
}

/// Returns the number of records in the bytes sent.
fn records(mut sent: &[u8]) -> usize {
    let mut count = 0;
    while let [_, _, _, high, low, rest @ ..] = sent {
        sent = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
        count += 1;
    }
    count
}

#[test]
fn keys_are_replaced_while_both_ends_send() {
    const OF_ONE_KEY: u64 = 3;
    let often = |end| tls(ChannelConfig { key_update_records: OF_ONE_KEY, ..end });
    let (mut a, mut b) = (dial(&often(replica(0)), 1), answer(&often(replica(1))));
    talk(&mut a, &mut b, 100_000);
    let before = records(&a.sent);
    for at in 0..100_u8 {
        a.channel.encrypt(&[at], &mut a.sent);
        b.channel.encrypt(&[at], &mut b.sent);
        talk(&mut a, &mut b, 11);
    }
    let all: Vec<u8> = (0..100).collect();
    assert_eq!((&a.plain[..], &b.plain[..]), (&all[..], &all[..]));
    assert_eq!((a.failed, b.failed), (None, None));
    // Each key update is a separate record, and requests one from the other end.
    let replaced = records(&a.sent) - before - 100;
    assert!((2 * 32..=2 * 34).contains(&replaced), "{replaced} replacements");
}

#[test]
fn long_and_empty_messages_pass_and_cannot_be_read_on_the_way() {
    let (mut a, mut b) = connected(100_000);
    let secret = b"the same sixteen".repeat(1 << 16);
    let before = a.sent.len();
    for plain in [&b""[..], &secret, b"x"] {
        a.channel.encrypt(plain, &mut a.sent);
    }
    let encrypted = &a.sent[before..];
    assert!(encrypted.len() > secret.len() && !encrypted.windows(16).any(|window| window == b"the same sixteen"));
    talk(&mut a, &mut b, 5_000);
    assert!(b.plain.len() == secret.len() + 1 && b.plain.starts_with(&secret) && b.plain.ends_with(b"x"));
}

#[test]
fn a_client_may_send_with_the_end_of_its_handshake() {
    let client = tls(config("one", LocalEnd::Client(ClientId(9))));
    let (mut c, mut r) = (dial(&client, 1), answer(&tls(replica(1))));
    while c.channel.remote().is_none() {
        let sent = c.take_sent();
        r.receive(&sent);
        let sent = r.take_sent();
        c.receive(&sent);
    }
    c.channel.encrypt(b"a request", &mut c.sent);
    talk(&mut c, &mut r, 100_000);
    assert_eq!((&r.plain[..], r.channel.remote()), (&b"a request"[..], Some(RemoteIdentity::Client(ClientId(9)))));
}

/// Returns the positions of bytes without meaning (RFC 8446, section 5): record versions, and the record "change cipher
/// spec", which exists only for the sake of old firewalls.
fn idle_bytes(sent: &[u8]) -> Vec<usize> {
    const CHANGE_CIPHER_SPEC: u8 = 20;
    let (mut idle, mut at) = (Vec::new(), 0);
    while at < sent.len() {
        let end = at + 5 + usize::from(u16::from_be_bytes([sent[at + 3], sent[at + 4]]));
        idle.extend([at + 1, at + 2]);
        if sent[at] == CHANGE_CIPHER_SPEC {
            idle.extend(at..end);
        }
        at = end;
    }
    idle
}

/// All other bytes of a handshake and of the data after it are protected, unlike in the plain channel.
#[test]
fn every_changed_byte_is_detected() {
    let (mut a, mut b) = connected(100_000);
    let handshake = a.sent.len();
    a.channel.encrypt(b"pay one coin", &mut a.sent);
    talk(&mut a, &mut b, 100_000);
    let idle = idle_bytes(&a.sent);
    let matters = |at: &usize| !idle.contains(at) && (at.is_multiple_of(5) || *at >= handshake);
    for at in (0..a.sent.len()).filter(matters) {
        let (mut a, mut b) = (dial(&tls(replica(0)), 1), answer(&tls(replica(1))));
        let mut carried = 0;
        let mut paid = false;
        for _ in 0..8 {
            let mut sent = a.take_sent();
            if let Some(byte) = at.checked_sub(carried).and_then(|at| sent.get_mut(at)) {
                *byte ^= 0x40;
            }
            carried += sent.len();
            b.receive(&sent);
            let sent = b.take_sent();
            a.receive(&sent);
            if a.channel.remote().is_some() && !paid {
                paid = true;
                a.channel.encrypt(b"pay one coin", &mut a.sent);
            }
        }
        assert!(b.plain.is_empty(), "byte {at}: {:?}", b.plain);
        assert!(b.channel.remote().is_none() || at >= handshake, "byte {at}");
    }
}

#[test]
fn a_replayed_handshake_is_refused() {
    let (a, _) = connected(100_000);
    let mut again = answer(&tls(replica(1)));
    again.receive(&a.sent);
    assert!(matches!(again.failed, Some(ChannelError::Tls(_))), "{:?}", again.failed);
    assert_eq!(again.channel.remote(), None);
}

#[test]
fn replayed_and_reordered_records_are_refused() {
    for reordered in [false, true] {
        let (mut a, mut b) = connected(100_000);
        let start = a.sent.len();
        a.channel.encrypt(b"one", &mut a.sent);
        let middle = a.sent.len();
        a.channel.encrypt(b"two", &mut a.sent);
        let (one, two) = (a.sent[start..middle].to_vec(), a.sent[middle..].to_vec());
        let (first, second) = if reordered { (&two, &one) } else { (&one, &one) };
        b.receive(first);
        b.receive(second);
        assert!(matches!(b.failed, Some(ChannelError::Tls(_))), "{:?}", b.failed);
        assert_eq!(&b.plain[..], if reordered { &b""[..] } else { &b"one"[..] });
    }
}

#[test]
fn an_end_with_another_channel_is_refused_by_name() {
    let (mut a, mut b) = (dial(&tls(replica(0)), 1), answer(&replica(1)));
    talk(&mut a, &mut b, 100_000);
    assert_eq!(b.failed, Some(ChannelError::PeerSpeaks("tls")));
    assert!(a.channel.remote().is_none() && b.channel.remote().is_none());
    let (mut a, mut b) = (dial(&replica(0), 1), answer(&tls(replica(1))));
    talk(&mut a, &mut b, 100_000);
    assert_eq!(b.failed, Some(ChannelError::PeerSpeaks("plain")));
    assert!(a.channel.remote().is_none() && b.channel.remote().is_none());
    let mut web = answer(&tls(replica(1)));
    web.receive(b"GET / HTTP/1.1");
    assert_eq!(web.failed, Some(ChannelError::NotQuorate));
}

/// Accepts any key, as an attacker in the middle would.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ED25519]
    }
    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Bare TLS without an inner handshake, with a different key than this process has.
pub struct Bare {
    session: Connection,
}

impl Bare {
    /// Its sessions are kept, as is usual in TLS.
    pub fn to_dial() -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let builder = builder.expect("TLS 1.3 is there").dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(Anyone));
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"quorate".to_vec()];
        config.enable_sni = false;
        Arc::new(config)
    }

    pub fn dialling(config: Arc<ClientConfig>) -> Bare {
        let name = ServerName::try_from("quorate").expect("the name is valid");
        Bare { session: ClientConnection::new(config, name).expect("a session").into() }
    }

    pub fn answering() -> Bare {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        der.extend_from_slice(&[7; 32]);
        let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(der).into()).expect("a key");
        let shown = CertificateDer::from(key.public_key().expect("a public key").to_vec());
        let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(CertifiedKey::new(vec![shown], key)));
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let builder = builder.expect("TLS 1.3 is there").with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"quorate".to_vec()];
        Bare { session: ServerConnection::new(Arc::new(config)).expect("a session").into() }
    }

    /// Decrypts records, and returns their plaintext.
    pub fn open(&mut self, mut wire: &[u8]) -> Vec<u8> {
        let mut opened = Vec::new();
        while !wire.is_empty() {
            self.session.read_tls(&mut wire).expect("memory is read");
            let state = self.session.process_new_packets().expect("honest ends send valid records");
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            self.session.reader().read_exact(&mut plain).expect("it is there");
            opened.extend(plain);
        }
        opened
    }

    pub fn encrypt(&mut self, plain: &[u8]) -> Vec<u8> {
        self.session.writer().write_all(plain).expect("memory is written");
        let mut sent = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut sent).expect("memory is written");
        }
        sent
    }
}

/// An attacker between two replicas speaks TLS with both, and relays everything that it reads.
#[test]
fn whoever_stands_in_the_middle_is_refused() {
    let (mut a, mut b) = (dial(&tls(replica(0)), 1), answer(&tls(replica(1))));
    let (mut to_a, mut to_b) = (Bare::answering(), Bare::dialling(Bare::to_dial()));
    let mut passed_on = 0;
    for _ in 0..10 {
        let from_a = to_a.open(&a.take_sent());
        let from_b = to_b.open(&b.take_sent());
        passed_on += from_a.len() + from_b.len();
        a.receive(&to_a.encrypt(&from_b));
        b.receive(&to_b.encrypt(&from_a));
    }
    assert!(passed_on > 200, "the handshake inside was passed on: {passed_on} bytes");
    assert_eq!(a.failed, Some(ChannelError::Signature(ReplicaId(1))));
    assert!(a.channel.remote().is_none() && b.channel.remote().is_none());
}

#[test]
fn an_impostor_of_a_replica_is_refused_by_both_ends() {
    let (mut a, mut b) = (dial(&tls(config("one", key(0, 66))), 1), answer(&tls(replica(1))));
    talk(&mut a, &mut b, 100_000);
    assert_eq!(b.failed, Some(ChannelError::Signature(ReplicaId(0))));
    assert_eq!(b.channel.remote(), None);
    let (mut a, mut b) = (dial(&tls(replica(0)), 1), answer(&tls(config("one", key(1, 66)))));
    talk(&mut a, &mut b, 100_000);
    assert_eq!(a.failed, Some(ChannelError::Signature(ReplicaId(1))));
    assert_eq!(a.channel.remote(), None);
}

#[test]
fn a_failure_after_half_a_handshake_message_is_an_error() {
    // The first 128 of the 1,000 bytes of a ClientHello, and then a record of unknown type.
    let mut bytes = vec![22, 3, 3, 0, 132, 1, 0, 3, 0xe8];
    bytes.resize(5 + 132, 0);
    bytes.extend([99, 3, 3, 0, 1, 0]);
    let mut end = answer(&tls(replica(1)));
    end.receive(&bytes);
    assert!(matches!(end.failed, Some(ChannelError::Tls(_))), "{:?}", end.failed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_never_panic(
        honest in 0..2_000usize,
        random in proptest::collection::vec(any::<u8>(), 0..400),
        cut in 1..1_000usize,
        dials in any::<bool>(),
    ) {
        let (a, b) = connected(100_000);
        let (sent, mut end) = match dials {
            true => (b.sent, dial(&tls(replica(0)), 1)),
            false => (a.sent, answer(&tls(replica(1)))),
        };
        let honest = &sent[..honest.min(sent.len())];
        [honest, &random].concat().chunks(cut).for_each(|bytes| end.receive(bytes));
        prop_assert_eq!(end.channel.remote(), None);
    }
}
