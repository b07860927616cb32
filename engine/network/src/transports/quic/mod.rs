//! QUIC (RFC 9000) as a machine over packets, with the TLS 1.3 that is part of it.
//!
//! **Authentication** is that of the channel [`tls`](crate::channels::tls): the end that accepts shows the key of its
//! process, and the committee's handshake runs on the first stream, bound to that key.
//!
//! **Streams.** Two in each direction, so that a lost packet of one holds back nothing of the other: the ordinary
//! frames, on the stream of the handshake, and bulk. Ordinary frames are sent first, and bulk cannot use up their part
//! of the windows. Frames of one stream keep their order.
//!
//! **Datagrams**, as an option, for votes between replicas: those that a packet can carry wait for no stream, and are
//! not sent again if they are lost. An end that takes none says so in the handshake, and votes to it travel on the
//! stream (ADR 067).
//!
//! **Strangers.** An end that accepts begins nothing, and keeps nothing, before the other end has repeated a token that
//! was sent to its address (Retry). The connection ID that comes with the token is computed from the address, so that a
//! token is worth something from there only. Every later packet names its connection by an ID of the end that it goes
//! to, which nobody off the path knows.
//!
//! **Restarts.** An end that dialled and has restarted begins a connection that the old one does not
//! [claim](Machine::claims): the driver makes another machine for it, which replaces the old one once it is
//! authenticated. An end that accepts and has restarted answers packets that it cannot know with one that nobody can
//! read. That is no proof of anything, since anyone may send such a packet. So its receiver asks for an
//! acknowledgement, and gives up the connection if none comes.
//!
//! One endpoint of the library with one connection makes a machine (ADR 067). Its random numbers come from the
//! machine's nonce, its time from the driver. Only keys are drawn from the operating system.

mod acknowledged;
mod greeter;
mod machine;
mod metered;
mod moves;
mod names;
mod streams;
mod votes;

use crate::channels::{
    Carriage, ChannelConfig, ChannelError, Greeter, Machine, NONCE_BYTES, SECRET_BYTES, Sessions, Side,
};
use crate::transports::carrier::{Association, TransportProfile};
use crate::transports::config::{Congestion, MAX_QUIC_MTU_BYTES, QuicConfig, QuicVotes, WireSettings};
use acknowledged::Acknowledged;
use greeter::QuicGreeter;
use machine::QuicMachine;
use metered::Metered;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, IdleTimeout,
    MtuDiscoveryConfig, ServerConfig, TimeSource, TransportConfig, VarInt,
};
use quorate_types::{Hasher, Time, tags};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// QUIC as a kind of transport.
pub(crate) struct Quic;

static PROFILE: TransportProfile = TransportProfile {
    name: "quic",
    summary: "QUIC over UDP, with TLS 1.3 of its own; votes have a stream for themselves",
    carriage: Carriage::Datagrams,
    own_channel: Some("tls"),
    guards_links: true,
    keeps_order: true,
    repairs_losses: true,
};

/// The only version: 1 (RFC 9000).
const VERSION: u32 = 1;
/// Length of connection IDs, in bytes.
const NAME_BYTES: usize = 8;
/// Bytes at the start of a name that are the same in all names of a machine.
const TAG_BYTES: usize = 4;
/// Connection's window in bytes until the other end is authenticated: enough for the handshake inside.
const HANDSHAKE_WINDOW_BYTES: u32 = 16 << 10;
/// Number of packets in an idle timeout that keep an idle link alive.
const KEEP_ALIVES: u64 = 3;
/// Bytes that are sent and not acknowledged, or not sent, at most, in windows of a stream: more than the other end
/// allows, so that bulk never uses up the room of others.
const SEND_WINDOWS: u64 = 4;

impl Association for Quic {
    fn profile(&self) -> &TransportProfile {
        &PROFILE
    }

    fn loses_votes(&self, settings: &WireSettings) -> bool {
        settings.quic.votes == QuicVotes::Datagrams
    }

    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        Ok(Box::new(QuicMachine::new(end.clone(), side, settings, nonce)?))
    }

    fn greeter(
        &self,
        end: &ChannelConfig,
        _: &WireSettings,
        secret: [u8; SECRET_BYTES],
    ) -> Result<Box<dyn Greeter>, ChannelError> {
        Ok(Box::new(QuicGreeter::new(&end.sessions, secret)?))
    }
}

/// Time of the machine, as tokens record it.
#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn set(&self, now: Time) {
        self.0.store(now.0, Ordering::Relaxed);
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Derives 32 bytes for one purpose from a machine's nonce.
fn derive(purpose: [u8; 4], nonce: &[u8], count: u64) -> [u8; 32] {
    let mut hasher = Hasher::new(purpose);
    hasher.update(nonce);
    hasher.update(&count.to_le_bytes());
    hasher.finish().0
}

/// Returns what all names of a machine begin with.
fn tag(nonce: &[u8]) -> [u8; TAG_BYTES] {
    derive(tags::QUIC_TAG, nonce, 0)[..TAG_BYTES].try_into().expect("a digest is longer")
}

/// Makes the names of a machine's connection.
struct Names {
    nonce: [u8; NONCE_BYTES],
    made: u64,
}

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        self.made += 1;
        let mut name = derive(tags::QUIC_CONNECTION, &self.nonce, self.made);
        name[..TAG_BYTES].copy_from_slice(&tag(&self.nonce));
        ConnectionId::new(&name[..NAME_BYTES])
    }

    fn cid_len(&self) -> usize {
        NAME_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The library's part of a machine.
struct Parts {
    endpoint: Endpoint,
    /// `None` for an end that accepts.
    client: Option<ClientConfig>,
    clock: Arc<Clock>,
    acknowledged: Arc<Acknowledged>,
}

impl Parts {
    fn new(
        sessions: &Sessions,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Parts, ChannelError> {
        let config = &settings.quic;
        let longest = longest_packet_bytes(settings);
        let (clock, acknowledged) = (Arc::new(Clock::default()), Arc::new(Acknowledged::default()));
        let transport = Arc::new(transport_config(config, longest, acknowledged.clone()));
        let mut endpoint = EndpointConfig::default();
        endpoint.cid_generator(move || Box::new(Names { nonce, made: 0 }));
        endpoint.rng_seed(Some(derive(tags::QUIC_RANDOM, &nonce, 0)));
        endpoint.supported_versions(vec![VERSION]);
        endpoint.max_udp_payload_size(longest).expect("the setting was checked");
        let (client, server) = match side {
            Side::Initiator { .. } => {
                let tls = QuicClientConfig::try_from(sessions.client()?).map_err(lacks_cipher)?;
                let mut client = ClientConfig::new(Arc::new(Metered(Arc::new(tls))));
                client.version(VERSION).transport_config(transport);
                let first = ConnectionId::new(&derive(tags::QUIC_DESTINATION, &nonce, 0)[..NAME_BYTES]);
                client.initial_dst_cid_provider(Arc::new(move || first));
                (Some(client), None)
            }
            Side::Responder => {
                let mut server = server_config(sessions)?;
                server.transport_config(transport).migration(false).time_source(clock.clone());
                (None, Some(Arc::new(server)))
            }
        };
        let endpoint = Endpoint::new(Arc::new(endpoint), server, true, None);
        Ok(Parts { endpoint, client, clock, acknowledged })
    }
}

/// Returns the configuration of an end that accepts. All of a process share the key of tokens.
fn server_config(sessions: &Sessions) -> Result<ServerConfig, ChannelError> {
    static WITH_KEY: OnceLock<ServerConfig> = OnceLock::new();
    let tls = QuicServerConfig::try_from(sessions.server()?).map_err(lacks_cipher)?;
    let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = Arc::new(Metered(Arc::new(tls)));
    let mut server = WITH_KEY.get_or_init(|| ServerConfig::with_crypto(crypto.clone())).clone();
    server.crypto = crypto;
    Ok(server)
}

fn lacks_cipher(_: NoInitialCipherSuite) -> ChannelError {
    ChannelError::Tls("the library lacks the cipher of first packets".to_owned())
}

/// Returns the size of the longest packets, headers of IP and UDP excluded, in bytes.
fn longest_packet_bytes(settings: &WireSettings) -> u16 {
    let carried = u16::try_from(settings.packets.payload_bytes()).unwrap_or(MAX_QUIC_MTU_BYTES);
    carried.min(MAX_QUIC_MTU_BYTES).max(settings.quic.mtu_bytes)
}

/// Returns the congestion window at the beginning, in bytes (RFC 9002, section 7.2).
fn initial_window_bytes(packet_bytes: u64) -> u64 {
    (10 * packet_bytes).min((2 * packet_bytes).max(14_720))
}

fn transport_config(config: &QuicConfig, longest: u16, acknowledged: Arc<Acknowledged>) -> TransportConfig {
    let window = VarInt::try_from(config.window_bytes as u64).expect("the setting was checked");
    let idle = Duration::from_millis(config.idle_timeout_ms);
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold((config.ack_packets - 1).into());
    acks.max_ack_delay(Some(Duration::from_millis(config.max_ack_delay_ms)));
    let window_at_first = initial_window_bytes(longest.into());
    let controllers: Arc<dyn ControllerFactory + Send + Sync> = match config.congestion {
        Congestion::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window_at_first);
            Arc::new(cubic)
        }
        Congestion::NewReno => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(window_at_first);
            Arc::new(reno)
        }
    };
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(longest);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(1_u8.into())
        .max_concurrent_uni_streams(1_u8.into())
        .datagram_receive_buffer_size((config.votes == QuicVotes::Datagrams).then_some(votes::BUFFER_BYTES))
        .datagram_send_buffer_size(votes::BUFFER_BYTES)
        .stream_receive_window(window)
        .receive_window(HANDSHAKE_WINDOW_BYTES.into())
        .send_window(SEND_WINDOWS * config.window_bytes as u64)
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).expect("the setting was checked")))
        .keep_alive_interval(Some(Duration::from_millis((config.idle_timeout_ms / KEEP_ALIVES).max(1))))
        .initial_rtt(Duration::from_millis(config.initial_rtt_ms))
        .ack_frequency_config(Some(acks))
        .min_mtu(config.mtu_bytes)
        .initial_mtu(longest)
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(acknowledged::Observed::new(controllers, acknowledged)));
    transport
}
