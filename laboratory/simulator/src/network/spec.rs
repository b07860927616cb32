//! Network files.

use super::delay::Delay;
use super::end::End;
use super::endpoints::{Endpoints, Place};
use super::faults::{FaultSpec, MAX_FACTOR, MAX_GAIN_PPM, MAX_LOSS_PPM, MAX_MS, MIN_FACTOR};
use crate::clock::ms_to_ns;
use crate::links::Loss;
use crate::numbers::{key, numbers};
use quorate_types::{Fault, Time};
use serde::{Deserialize, Serialize};

/// Named networks: a switch, the four regions of the signatures paper, four regions in the US, twelve regions around
/// the world, one machine, and the loss model paper's links.
const PRESETS: [(&str, &str); 6] = [
    ("lan", include_str!("../../networks/lan.toml")),
    ("wan4", include_str!("../../networks/wan4.toml")),
    ("us4", include_str!("../../networks/us4.toml")),
    ("world12", include_str!("../../networks/world12.toml")),
    ("loopback", include_str!("../../networks/loopback.toml")),
    ("lossmodel", include_str!("../../networks/lossmodel.toml")),
];
/// Minimum size of a packet.
const MIN_MTU_BYTES: u32 = 64;

/// Valid values of the numbers whose keys end with one of `suffixes`.
struct Range {
    suffixes: &'static [&'static str],
    least: f64,
    most: f64,
    help: &'static str,
}

const RANGES: [Range; 6] = [
    Range { suffixes: &["skew_ms"], least: -MAX_MS, most: MAX_MS, help: "set it between -3600000 and 3600000" },
    Range { suffixes: &["_ms"], least: 0.0, most: MAX_MS, help: "set it between 0 and 3600000 milliseconds" },
    Range {
        suffixes: &["probability", "enter", "leave", "good", "bad", "duplication", "reordering", "bit_error_rate"],
        least: 0.0,
        most: 1.0,
        help: "set a probability from 0 to 1",
    },
    Range { suffixes: &["point"], least: 1.0, most: f64::MAX, help: "count from 1" },
    Range { suffixes: &["factor"], least: MIN_FACTOR, most: MAX_FACTOR, help: "set it between 0.001 and 1000000" },
    Range { suffixes: &["ppm"], least: -MAX_LOSS_PPM, most: MAX_GAIN_PPM, help: "set it between -999000 and 9000000" },
];

/// Network between the endpoints: the replicas and the client machines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    pub topology: Topology,
    pub delay: Delay,
    pub jitter: Jitter,
    pub bandwidth: Bandwidth,
    pub loss: Loss,
    pub packets: Packets,
    pub transport: DeliverySpec,
    /// Links that differ from the others.
    pub links: Vec<LinkSpec>,
    pub faults: Vec<FaultSpec>,
    /// Time at which all faults end, in milliseconds. Replicas that are down restart, loss and partitions end, and the
    /// replicas that have not crashed for good must make progress. Without this key, progress is not required.
    pub heal_at_ms: Option<f64>,
}

impl Default for NetworkSpec {
    fn default() -> NetworkSpec {
        NetworkSpec {
            topology: Topology::Mesh,
            delay: Delay::Constant { mean_ms: 0.05 },
            jitter: Jitter::default(),
            bandwidth: Bandwidth::default(),
            loss: Loss::default(),
            packets: Packets::default(),
            transport: DeliverySpec::default(),
            links: Vec::new(),
            faults: Vec::new(),
            heal_at_ms: None,
        }
    }
}

/// Topology of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// A link for each ordered pair of endpoints.
    #[default]
    Mesh,
    /// A hop from each endpoint to a router and one back. Delay, loss and jitter apply to each hop, so twice per
    /// packet.
    Star,
}

/// Extra delay of each packet, uniformly distributed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jitter {
    /// Maximum in milliseconds.
    pub max_ms: f64,
}

/// Bandwidth of each endpoint's network interface, which has a queue in either direction. 0 is unlimited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bandwidth {
    pub egress_mbit_per_s: f64,
    pub ingress_mbit_per_s: f64,
    /// Maximum length of the sender interface's queue, in bytes; arrivals at a full queue are dropped (tail drop). The
    /// receiver's queue is unbounded.
    #[serde(skip_serializing_if = "is_zero")]
    pub queue_bytes: u64,
}

impl Bandwidth {
    /// Returns whether an interface may drop packets.
    pub fn has_drops(&self) -> bool {
        self.queue_bytes > 0 && self.egress_mbit_per_s > 0.0
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Size of packets, and their duplication, reordering and corruption.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    /// Maximum size of a packet including headers. Larger messages are split.
    pub mtu_bytes: u32,
    /// Total size of the IP and transport headers.
    pub header_bytes: u32,
    /// Probability that a datagram arrives twice.
    pub duplication: f64,
    /// Probability that a packet is delayed and may arrive after later ones.
    pub reordering: f64,
    /// Maximum extra delay of a reordered packet, in milliseconds.
    pub reordering_ms: f64,
    /// Probability that a bit is flipped. The checksum then fails and the packet is dropped.
    pub bit_error_rate: f64,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets {
            mtu_bytes: 1500,
            header_bytes: 52,
            duplication: 0.0,
            reordering: 0.0,
            reordering_ms: 1.0,
            bit_error_rate: 0.0,
        }
    }
}

/// Table `[transport]` of a network file: packets, or a byte stream with TCP's timeouts.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeliverySpec {
    pub kind: Delivery,
    /// Retransmission timeout before the first measured round trip, in milliseconds (RFC 6298, 2.1: one second).
    pub rto_initial_ms: f64,
    /// Minimum difference between the retransmission timeout and the smoothed round trip, in milliseconds (Linux: 200).
    pub rto_min_ms: f64,
    /// Maximum retransmission timeout, in milliseconds (RFC 6298, 2.5: at least 60 seconds).
    pub rto_max_ms: f64,
    /// Whether segments that overtake others reveal their loss (RFC 8985, 6).
    pub fast_retransmit: bool,
    /// Whether to retransmit the last segment before the timeout (RFC 8985, 7).
    pub tail_loss_probe: bool,
    /// Tick of the kernel's clock in milliseconds, to which retransmission and acknowledgement timers are rounded up; 0
    /// for exact timers.
    pub tick_ms: f64,
    /// Whether to simulate streams packet by packet, with congestion window and acknowledgements, even without loss.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub every_packet: bool,
    /// Maximum number of unacknowledged bytes on a stream. Messages beyond it are dropped.
    pub queue_bytes: u64,
}

impl Default for DeliverySpec {
    fn default() -> DeliverySpec {
        DeliverySpec {
            kind: Delivery::Stream,
            rto_initial_ms: 1000.0,
            rto_min_ms: 200.0,
            rto_max_ms: 60_000.0,
            fast_retransmit: true,
            tail_loss_probe: true,
            tick_ms: 4.0,
            every_packet: false,
            queue_bytes: 64 << 20,
        }
    }
}

/// Handling of lost packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// No retransmission. A message is lost if any of its packets is.
    Datagram,
    /// Delivers every message once and in order while both ends are up.
    Stream,
}

/// Override for the link of one ordered pair.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    pub from: End,
    pub to: End,
    /// Constant delay in milliseconds; `None` for the network's.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    #[serde(default)]
    pub loss: Option<Loss>,
}

impl NetworkSpec {
    /// Returns the names of the presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// Returns the network of a preset; `None` if there is none of this name.
    pub fn preset(name: &str) -> Option<NetworkSpec> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        Some(NetworkSpec::parse(text, name).expect("a test parses the presets"))
    }

    /// Parses a network file. `name` identifies it in errors.
    ///
    /// # Errors
    /// The line and the invalid key, with a remedy.
    pub fn parse(text: &str, name: &str) -> Result<NetworkSpec, Fault> {
        let spec: NetworkSpec = toml::from_str(text).map_err(|error| Fault {
            place: name.to_owned(),
            what: error.to_string().trim_end().to_owned(),
            help: "docs/SIMULATOR_FILES.md lists every key, and laboratory/simulator/networks/lan.toml is an example"
                .into(),
        })?;
        spec.validate(name)?;
        Ok(spec)
    }

    /// Checks that these links and faults fit a cluster of `replicas` with clients on these machines. `name` identifies
    /// the network in errors.
    ///
    /// # Errors
    /// The key that does not fit, with a remedy.
    pub fn fits(&self, replicas: usize, machines: &[Place], name: &str) -> Result<(), Fault> {
        let endpoints = Endpoints { replicas, machines, delay: &self.delay };
        let links =
            self.links.iter().enumerate().flat_map(|(at, link)| [("links", at, &link.from), ("links", at, &link.to)]);
        let faults =
            self.faults.iter().enumerate().flat_map(|(at, fault)| fault.ends().map(move |end| ("faults", at, end)));
        if let Some((key, at, End::Named(end))) = links.chain(faults).find(|(.., end)| endpoints.of(end).is_empty()) {
            let what = format!("names `{end}`, but the {} machines of clients are elsewhere", machines.len());
            let help = "name one of them, or place the clients with --clients-at".to_owned();
            return Err(Fault { place: format!("{name}: `{key}[{at}]`"), what, help });
        }
        let refuse = |key: &str, at: usize, what: String| {
            let help = match what.starts_with("names ") {
                true => format!("name replicas from 0 to {}", replicas - 1),
                false => "set it as in docs/SIMULATOR_FILES.md".to_owned(),
            };
            Err(Fault { place: format!("{name}: `{key}[{at}]`"), what, help })
        };
        for (at, fault) in self.faults.iter().enumerate() {
            if let Some(what) = fault.misfit(replicas) {
                return refuse("faults", at, what);
            }
            if let Some(what) = self.faults[..at].iter().find_map(|earlier| fault.clash(earlier)) {
                let help = "remove one of the two faults".to_owned();
                return Err(Fault { place: format!("{name}: `faults[{at}]`"), what, help });
            }
        }
        for (at, link) in self.links.iter().enumerate() {
            let absent = |end: &&End| matches!(end, End::Replica(replica) if usize::from(*replica) >= replicas);
            if let Some(End::Replica(absent)) = [&link.from, &link.to].into_iter().find(absent) {
                let what = format!("names replica {absent}, but the last one is {}", replicas - 1);
                return refuse("links", at, what);
            }
        }
        Ok(())
    }

    /// Returns the network as text for [`NetworkSpec::parse`].
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a network can be written as TOML")
    }

    pub(crate) fn heal_at(&self) -> Option<Time> {
        self.heal_at_ms.map(|ms| Time(ms_to_ns(ms)))
    }

    /// Returns whether packets may be lost without faults.
    pub fn loses(&self) -> bool {
        self.loss.loses()
            || self.packets.bit_error_rate > 0.0
            || self.bandwidth.has_drops()
            || self.links.iter().filter_map(|link| link.loss.as_ref()).any(Loss::loses)
    }

    pub(super) fn validate(&self, name: &str) -> Result<(), Fault> {
        let refuse = |key: String, what: String, help: &str| {
            Err(Fault { place: format!("{name}: `{key}`"), what, help: help.to_owned() })
        };
        for (path, value) in numbers(self) {
            let range = RANGES.iter().find(|range| range.suffixes.iter().any(|suffix| key(&path).ends_with(suffix)));
            if let Some(Range { help, .. }) = range.filter(|range| !(range.least..=range.most).contains(&value)) {
                return refuse(path, format!("{value} is out of range"), help);
            }
        }
        let Packets { mtu_bytes, header_bytes, .. } = self.packets;
        if mtu_bytes < MIN_MTU_BYTES || header_bytes >= mtu_bytes {
            let what = format!("{mtu_bytes} bytes are too few for headers of {header_bytes}");
            return refuse("packets.mtu_bytes".into(), what, "set at least 64, and more than the headers");
        }
        for (key, value) in [
            ("bandwidth.egress_mbit_per_s", self.bandwidth.egress_mbit_per_s),
            ("bandwidth.ingress_mbit_per_s", self.bandwidth.ingress_mbit_per_s),
        ] {
            if !(value == 0.0 || (0.001..=1e6).contains(&value)) {
                return refuse(
                    key.into(),
                    format!("{value} is out of range"),
                    "set 0.001 to 1000000, or 0 for no limit",
                );
            }
        }
        let DeliverySpec { rto_initial_ms, rto_min_ms, rto_max_ms, .. } = self.transport;
        if !(rto_min_ms > 0.0 && rto_min_ms <= rto_max_ms && (rto_min_ms..=rto_max_ms).contains(&rto_initial_ms)) {
            let what = format!("least {rto_min_ms}, initial {rto_initial_ms}, most {rto_max_ms}");
            return refuse("transport.rto".into(), what, "set 0 < rto_min_ms <= rto_initial_ms <= rto_max_ms");
        }
        let ends = self.links.iter().flat_map(|link| [&link.from, &link.to]).map(|end| ("links", end));
        let struck = self.faults.iter().flat_map(FaultSpec::ends).map(|end| ("faults", end));
        let regions = match &self.delay {
            Delay::Matrix { regions, .. } => regions.as_slice(),
            _ => &[],
        };
        let is_known = |end: &End| end.is_all_clients() || end.machine().is_some();
        let strange =
            |(_, end): &(_, &End)| matches!(end, End::Named(name) if !is_known(end) && !regions.contains(name));
        if let Some((key, End::Named(other))) = ends.chain(struck).find(strange) {
            let what = format!("`{other}` is not an endpoint");
            return refuse(
                key.into(),
                what,
                "use a replica's number, \"clients\", \"clients:0\", or a region with clients",
            );
        }
        self.delay.validate().or_else(|(key, what, help)| refuse(key.into(), what, help))
    }
}
