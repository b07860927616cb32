//! QUIC (RFC 9000) as a machine over packets, with its built-in TLS 1.3.
//!
//! **Authentication** works as in the channel [`tls`](crate::channels::tls): the accepting end presents the key of its
//! process, and the committee's handshake runs on the first stream, bound to that key.
//!
//! **Streams.** Two in each direction, so that a lost packet of one stream does not delay the other: ordinary frames
//! use the handshake's stream, bulk frames their own. Ordinary frames are sent first, and bulk cannot use up their part
//! of the windows. Frames of one stream keep their order.
//!
//! **Datagrams**, as an option, for votes between replicas: votes that fit into a packet wait for no stream, and are
//! not retransmitted. An end that accepts no datagrams declares so in the handshake, and votes to it travel on the
//! stream (ADR 067).
//!
//! **Strangers.** An accepting end keeps no state before the other end has echoed a token that was sent to its address
//! (Retry). The connection ID sent with the token is computed from the address, so a token is valid only from there.
//! Every later packet names its connection by an ID of its destination, which nobody off the path knows.
//!
//! **Restarts.** A restarted dialling end begins a connection that the old one does not [claim](Machine::claims): the
//! driver creates another machine for it, which replaces the old one once it is authenticated. A restarted accepting
//! end answers packets of unknown connections with one that cannot be decrypted. Anybody may send such a packet, so it
//! proves nothing. Its receiver therefore requests an acknowledgement, and gives up the connection if none arrives.
//!
//! A machine is one endpoint of the library with one connection (ADR 067). Its random numbers are derived from the
//! machine's nonce, its time comes from the driver. Only keys use the operating system's randomness.

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

/// QUIC as a transport kind.
pub(crate) struct Quic;

static PROFILE: TransportProfile = TransportProfile {
    name: "quic",
    summary: "QUIC over UDP, with built-in TLS 1.3; votes have a stream for themselves",
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
/// Length of the common prefix of all connection IDs of a machine, in bytes.
const TAG_BYTES: usize = 4;
/// Connection window until the other end is authenticated, in bytes: enough for the inner handshake.
const HANDSHAKE_WINDOW_BYTES: u32 = 16 << 10;
/// Number of packets per idle timeout that keep an idle link alive.
const KEEP_ALIVES: u64 = 3;
/// Maximum bytes that are unsent or unacknowledged, in stream windows: more than the other end allows, so that bulk
/// never uses up the other streams' part.
const SEND_WINDOWS: u64 = 4;
/// Acknowledgements of this many later packets show that a packet is lost. There are never as many: only time shows it
/// (RFC 8985), 9/8 of a round trip after it was sent. With three, as in RFC 9002, packets that jitter reorders reduce
/// the congestion window, which takes seconds to grow again on a long path.
const OVERTAKING_PACKETS: u32 = u32::MAX;

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

/// The machine's time, as recorded in tokens.
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

/// Returns the common prefix of a machine's connection IDs.
fn tag(nonce: &[u8]) -> [u8; TAG_BYTES] {
    derive(tags::QUIC_TAG, nonce, 0)[..TAG_BYTES].try_into().expect("a digest is longer")
}

/// Generates the connection IDs of a machine.
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

/// A machine's library objects.
struct Parts {
    endpoint: Endpoint,
    /// `None` for an accepting end.
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

/// Returns the configuration of an accepting end. All ends of a process share the token key.
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

/// Returns the maximum packet size in bytes, excluding the headers of IP and UDP.
fn longest_packet_bytes(settings: &WireSettings) -> u16 {
    let carried = u16::try_from(settings.packets.payload_bytes()).unwrap_or(MAX_QUIC_MTU_BYTES);
    carried.min(MAX_QUIC_MTU_BYTES).max(settings.quic.mtu_bytes)
}

/// Returns the initial congestion window, in bytes (RFC 9002, section 7.2).
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
        .packet_threshold(OVERTAKING_PACKETS)
        .initial_rtt(Duration::from_millis(config.initial_rtt_ms))
        .ack_frequency_config(Some(acks))
        .min_mtu(config.mtu_bytes)
        .initial_mtu(longest)
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(acknowledged::Observed::new(controllers, acknowledged)));
    transport
}
