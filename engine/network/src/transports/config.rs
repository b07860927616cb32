//! Transport settings: link settings, and the settings of each transport.

use crate::channels::KEY_UPDATE_RECORDS;
use crate::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use crate::gateway::places::{MAX_LINKS, MAX_LINKS_PER_ADDRESS};
use crate::transports::link_profiles::LinkProfile;
use crate::transports::retransmission::RetransmissionConfig;
use crate::transports::setting::{ConfigError, Setting, check_ranges};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::settings::{CLUSTER, Flag, With};
use quorate_types::{Fault, ReplicaId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest IP packet on Ethernet.
const ETHERNET_MTU_BYTES: usize = 1_500;
/// Every IPv6 network carries packets of this size (RFC 8200, section 5).
const MIN_MTU_BYTES: usize = 1_280;
const MAX_IP_PACKET_BYTES: usize = 65_535;
/// Headers of IPv6 and UDP, in bytes; IPv4 needs 20 bytes less.
pub(crate) const IP_AND_UDP_BYTES: usize = 40 + 8;
/// Minimum of `key_update_records`. If both ends of a DTLS link update their keys in the same step, the library
/// announces one key too many, and after a few such collisions the link fails. With 32 records this happened within
/// seconds; more records make it less likely.
pub const MIN_KEY_UPDATE_RECORDS: u64 = 1_024;
/// Maximum number of connected operators; further ones are refused.
pub(crate) const MAX_OPERATORS: usize = 16;

/// Link settings, for all transports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Maximum bytes queued on one link, framing included. A frame that does not fit is dropped and counted; earlier
    /// frames stay. An empty queue accepts even a larger frame.
    #[schemars(range(min = 1))]
    pub link_queue_bytes: usize,
    /// Maximum bytes queued for an unconnected replica, as at the start or while it is away. The newest frames are
    /// kept, the others dropped and counted. 0 keeps nothing.
    pub unconnected_queue_bytes: usize,
    /// Maximum bytes queued for one client, framing included. A frame that does not fit is dropped and counted, unless
    /// the queue is empty. A client that reads none of its queue is disconnected after
    /// [`client_stall_ms`](LinkConfig::client_stall_ms).
    #[schemars(range(min = 1))]
    pub client_queue_bytes: usize,
    /// Maximum bytes of one client's frames that are received but not yet served; at this limit its socket is not read.
    /// Over packets, which would be lost, the limit is an eighth of the free `client_memory_bytes` instead.
    #[schemars(range(min = 1))]
    pub client_window_bytes: usize,
    /// Maximum bytes of one frame from a client. A client that announces a longer frame is disconnected, with an error
    /// message except over packets. 0: enough for a bundle of `batch_bytes`.
    pub client_frame_bytes: usize,
    /// Maximum bytes of memory for all client links together: frames received but not yet served, and queues. When less
    /// than an eighth is free, links that have carried nothing genuine are closed, largest first.
    #[schemars(range(min = 1))]
    pub client_memory_bytes: usize,
    /// Milliseconds after which a client with an unfinished frame is disconnected.
    #[schemars(range(min = 1))]
    pub client_frame_timeout_ms: u64,
    /// Milliseconds after which a client that reads none of its queue is disconnected.
    #[schemars(range(min = 1))]
    pub client_stall_ms: u64,
    /// Maximum bytes read from one link per poll, give or take one read, so that no link starves the others.
    #[schemars(range(min = 1))]
    pub read_budget_bytes: usize,
    /// Shortest delay before redialling a lost or failed connection, in milliseconds; it doubles with each failure.
    #[schemars(range(min = 1))]
    pub min_reconnect_ms: u64,
    /// Longest delay before redialling, in milliseconds. Each delay is shortened at random by up to half.
    pub max_reconnect_ms: u64,
    /// Time limit for dialling and handshake together, in milliseconds.
    #[schemars(range(min = 1))]
    pub handshake_timeout_ms: u64,
    /// Time limit for one attempt to connect to a replica, in milliseconds; then it is dialled again. Over packets, the
    /// earlier attempts continue: a second one begins after this time, then a third; the first to be authenticated
    /// stays.
    #[schemars(range(min = 1))]
    pub dial_timeout_ms: u64,
    /// Maximum number of connected clients. A further one replaces the longest idle link that has carried nothing
    /// genuine, or is refused if there is none.
    pub max_client_links: usize,
    /// Maximum number of connected clients from one address (IPv6: from one /64 network).
    pub max_client_links_per_address: usize,
    /// Maximum number of accepted links that are not authenticated yet. A further one replaces the oldest.
    #[schemars(range(min = 1))]
    pub max_unauthenticated_links: usize,
    /// Maximum number of accepted links that are not authenticated yet from one address (IPv6: from one /64 network).
    #[schemars(range(min = 1))]
    pub max_unauthenticated_links_per_address: usize,
    /// Maximum number of records (TLS, DTLS) or packets (QUIC) encrypted with one key; then the link's key is replaced.
    #[schemars(range(min = MIN_KEY_UPDATE_RECORDS))]
    pub key_update_records: u64,
    /// Newest wire version that this replica speaks. A link uses the newest version of both ends. Lower it to the
    /// version of the release before, to be able to return to that release during an upgrade (UPGRADING.md).
    #[schemars(range(min = OLDEST_WIRE_VERSION, max = NEWEST_WIRE_VERSION))]
    pub newest_wire_version: u8,
    /// Retransmission [profiles](RetransmissionConfig::profile) of single links between replicas, such as
    /// `["0-3=s50"]`; all replicas may have the same list. A dialled replica recognizes the dialling one by its
    /// address, which therefore must be an IP address, not a host name.
    #[schemars(with = "Vec<String>")]
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).named("link_retransmission").value("A-B=PROFILE").rare()))]
    #[schemars(extend("x-with" = With::one("transport", &["rudp", "sctp"])))]
    pub retransmission: Vec<LinkProfile>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            link_queue_bytes: 64 << 20,
            unconnected_queue_bytes: 1 << 20,
            client_queue_bytes: 4 << 20,
            client_window_bytes: 1 << 20,
            client_frame_bytes: 0,
            client_memory_bytes: 128 << 20,
            client_frame_timeout_ms: 10_000,
            client_stall_ms: 5_000,
            read_budget_bytes: 256 << 10,
            min_reconnect_ms: 20,
            max_reconnect_ms: 1_000,
            handshake_timeout_ms: 5_000,
            dial_timeout_ms: 1_000,
            max_client_links: MAX_LINKS,
            max_client_links_per_address: MAX_LINKS_PER_ADDRESS,
            max_unauthenticated_links: 128,
            max_unauthenticated_links_per_address: 96,
            key_update_records: KEY_UPDATE_RECORDS,
            newest_wire_version: NEWEST_WIRE_VERSION,
            retransmission: Vec::new(),
        }
    }
}

/// TCP settings. Nagle's algorithm is always off (`TCP_NODELAY`), because frames that can travel together are written
/// together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-with" = With::one("transport", &["tcp", "sctp-kernel"])))]
pub struct TcpConfig {
    /// Milliseconds after which a remote is considered dead if it answers nothing at all (its host lost power, its
    /// cable is cut) or reads nothing of its queue (it is stopped).
    #[schemars(range(min = 1))]
    pub silent_remote_ms: u64,
    /// Milliseconds after which a link to a replica is considered cut, and redialled, if sent data is not acknowledged.
    /// TCP itself would retry at ever longer intervals.
    #[schemars(range(min = 1))]
    pub unacknowledged_ms: u64,
    /// The kernel's send buffer per link, in bytes; 0 uses the kernel's default.
    pub send_buffer_bytes: usize,
    /// The kernel's receive buffer per link, in bytes; 0 uses the kernel's default.
    pub receive_buffer_bytes: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig { silent_remote_ms: 20_000, unacknowledged_ms: 2_000, send_buffer_bytes: 0, receive_buffer_bytes: 0 }
    }
}

/// Settings of the transports over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-with" = With::one("transport", &["udp", "rudp", "sctp", "quic"])))]
pub struct PacketConfig {
    /// Longest IP packet, headers included, in bytes. 0: the kernel's MTU of the route to the remote. On a path with a
    /// smaller MTU, routers fragment longer packets, and the loss of a fragment loses the packet.
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).value("BYTES").rare()))]
    pub mtu_bytes: usize,
    /// The kernel's send buffer per socket, in bytes. An unprivileged process may get less.
    pub send_buffer_bytes: usize,
    /// The kernel's receive buffer per socket, in bytes: packets beyond it are lost. An unprivileged process may get
    /// less.
    pub receive_buffer_bytes: usize,
    /// Milliseconds after which an idle link sends an empty packet.
    #[schemars(range(min = 1), extend("x-with" = With::one("transport", &["udp", "rudp", "sctp"])))]
    pub keepalive_ms: u64,
    /// Milliseconds after which a remote is considered dead if it sends nothing.
    #[schemars(range(min = 1), extend("x-with" = With::one("transport", &["udp"])))]
    pub silent_remote_ms: u64,
    /// Whether each frame has its own packets, so that frames are lost independently. Otherwise small frames that are
    /// sent together share a packet. Always on if replicas send copies of messages, or only PBFT's three phases run.
    #[schemars(extend("x-with" = With::one("transport", &["udp"])))]
    pub frames_apart: bool,
}

impl Default for PacketConfig {
    fn default() -> Self {
        PacketConfig {
            mtu_bytes: 0,
            send_buffer_bytes: 8 << 20,
            receive_buffer_bytes: 16 << 20,
            keepalive_ms: 500,
            silent_remote_ms: 3_000,
            frames_apart: false,
        }
    }
}

impl PacketConfig {
    /// Returns the longest UDP payload in bytes, over either IP version. Without a configured limit, Ethernet's.
    pub fn payload_bytes(&self) -> usize {
        let mtu = if self.mtu_bytes == 0 { ETHERNET_MTU_BYTES } else { self.mtu_bytes.min(MAX_IP_PACKET_BYTES) };
        mtu - IP_AND_UDP_BYTES
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.mtu_bytes != 0 && self.mtu_bytes < MIN_MTU_BYTES {
            let what = format!("is {}, below {MIN_MTU_BYTES}, the least that every network carries", self.mtu_bytes);
            let mend = "set at least that, or 0 for the kernel's MTU of the route";
            return Err(Fault::new(Setting { table: "packets", key: "mtu_bytes" }, what, mend));
        }
        check_ranges("packets", self)
    }
}

quorate_types::choice!(
    /// Algorithm by which a sender finds the rate that a path can carry.
    #[derive(Default)]
    Congestion, "congestion control",
    /// Grows with the time since the last loss, independently of the round trip (RFC 9438).
    #[default]
    Cubic = "cubic",
    /// Grows by one packet per round trip, and halves after a loss (RFC 9002).
    NewReno = "new-reno",
);

quorate_types::choice!(
    /// Delivery of votes between replicas over QUIC.
    #[derive(Default)]
    QuicVotes, "carriage of votes",
    /// On the stream of the other urgent messages: in order and retransmitted.
    #[default]
    Stream = "stream",
    /// In datagrams (RFC 9221), which wait for no lost packet, are not retransmitted, and may overtake other messages.
    Datagrams = "datagrams",
);

/// Table `[quic]`: timeouts, acknowledgements, windows, and the delivery of votes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-with" = With::one("transport", &["quic"])))]
pub struct QuicConfig {
    /// Milliseconds without any packet after which a remote is considered dead. An idle link sends a packet every third
    /// of that time.
    #[schemars(range(min = 1, max = MAX_QUIC_TIME_MS))]
    pub idle_timeout_ms: u64,
    /// Initial estimate of the round trip, in milliseconds. The first packet is retransmitted after about three times
    /// this value.
    #[schemars(range(min = 1, max = MAX_QUIC_TIME_MS))]
    pub initial_rtt_ms: u64,
    /// Longest delay of an acknowledgement, in milliseconds. The last packet of a burst, if lost, is retransmitted
    /// after a round trip and this delay.
    #[schemars(range(min = 1, max = MAX_ACK_DELAY_MS))]
    pub max_ack_delay_ms: u64,
    /// Number of packets acknowledged together, unless the delay ends first.
    #[schemars(range(min = 1))]
    pub ack_packets: u32,
    /// Algorithm by which a sender finds the rate that a path can carry.
    pub congestion: Congestion,
    /// Packet size in bytes, excluding headers of IP and UDP, that every path is assumed to carry. Packets are as long
    /// as `packets.mtu_bytes` allows, and of this size where longer ones are repeatedly lost.
    #[schemars(range(min = MIN_QUIC_MTU_BYTES, max = MAX_QUIC_MTU_BYTES))]
    pub mtu_bytes: u16,
    /// Maximum bytes in flight on each of the two streams of a link, including those after a lost packet.
    #[schemars(range(min = MIN_QUIC_WINDOW_BYTES, max = MAX_QUIC_WINDOW_BYTES))]
    pub window_bytes: usize,
    /// Delivery of votes to other replicas. With `datagrams`, a vote waits for no lost packet, but a lost vote stays
    /// lost: if a quorum needs it, the view times out. Votes too long for a packet, and those to a replica that has
    /// `stream`, travel on the stream.
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).named("quic_votes").rare()))]
    pub votes: QuicVotes,
}

impl Default for QuicConfig {
    fn default() -> Self {
        QuicConfig {
            idle_timeout_ms: 3_000,
            initial_rtt_ms: 50,
            max_ack_delay_ms: 5,
            ack_packets: 10,
            congestion: Congestion::Cubic,
            mtu_bytes: MIN_QUIC_MTU_BYTES,
            window_bytes: 8 << 20,
            votes: QuicVotes::Stream,
        }
    }
}

/// Smallest packet that every QUIC path carries, in bytes (RFC 9000, section 14).
const MIN_QUIC_MTU_BYTES: u16 = 1_200;
/// Longest QUIC packet over UDP and IPv4, rounded down, in bytes.
pub(crate) const MAX_QUIC_MTU_BYTES: u16 = 65_000;
/// Maximum of any QUIC time setting, in milliseconds.
const MAX_QUIC_TIME_MS: u64 = 600_000;
/// Maximum delay of an acknowledgement, in milliseconds (RFC 9000, section 18.2).
const MAX_ACK_DELAY_MS: u64 = (1 << 14) - 1;
/// Minimum stream window, in bytes: a few dozen packets.
const MIN_QUIC_WINDOW_BYTES: usize = 64 << 10;
/// Maximum stream window, in bytes.
const MAX_QUIC_WINDOW_BYTES: usize = 1 << 30;

/// Settings of all transports; each transport reads the link settings and its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WireSettings {
    pub links: LinkConfig,
    pub tcp: TcpConfig,
    pub packets: PacketConfig,
    pub quic: QuicConfig,
    pub retransmission: RetransmissionConfig,
}

impl WireSettings {
    /// Returns the settings for the link between two replicas.
    pub fn between(&self, me: ReplicaId, other: ReplicaId) -> WireSettings {
        let mut settings = self.clone();
        if let Some(own) = self.links.retransmission.iter().find(|own| own.is_of(me, other)) {
            settings.retransmission.profile = own.profile;
        }
        settings
    }
}

impl From<LinkConfig> for WireSettings {
    fn from(links: LinkConfig) -> WireSettings {
        WireSettings { links, ..WireSettings::default() }
    }
}

impl From<TcpConfig> for WireSettings {
    fn from(tcp: TcpConfig) -> WireSettings {
        WireSettings { tcp, ..WireSettings::default() }
    }
}

impl LinkConfig {
    /// Returns an error for the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (at, link) in self.retransmission.iter().enumerate() {
            let [one, other] = link.ends();
            if self.retransmission[..at].iter().any(|earlier| earlier.is_of(one, other)) {
                let place = Setting { table: "links", key: "retransmission" };
                return Err(Fault::new(place, format!("has two profiles for the link {link}"), "remove one"));
            }
        }
        check_ranges("links", self)?;
        if self.min_reconnect_ms > self.max_reconnect_ms {
            let what = format!("is {}, over `max_reconnect_ms`, {}", self.min_reconnect_ms, self.max_reconnect_ms);
            let place = Setting { table: "links", key: "min_reconnect_ms" };
            return Err(Fault::new(place, what, "exchange them"));
        }
        Ok(())
    }

    /// Returns the maximum number of simultaneous links: clients, operators, links that are not authenticated yet, and
    /// up to two per replica, while one is replaced. Each takes a file descriptor.
    pub fn max_links(&self, replicas: usize) -> usize {
        self.max_client_links + MAX_OPERATORS + self.max_unauthenticated_links + 2 * replicas
    }

    /// Returns the maximum length of one client's frame, in bytes.
    pub(crate) fn client_frame_limit(&self) -> usize {
        match self.client_frame_bytes {
            0 => MAX_FRAME_BYTES,
            bytes => bytes.min(MAX_FRAME_BYTES),
        }
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }
}

impl WireSettings {
    /// Returns an error for the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.links.validate()?;
        self.packets.validate()?;
        self.retransmission.validate()?;
        check_ranges("quic", &self.quic)?;
        check_ranges("tcp", &self.tcp)
    }
}
