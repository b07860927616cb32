//! A network as a file describes it.

use super::end::End;
use crate::faults::{FaultSpec, MOST_MS};
use quorate_types::{Fault, Time};
use serde::{Deserialize, Serialize};

/// Networks that have a name: a switch, the four regions of the signatures paper, four regions in the US.
const PRESETS: [(&str, &str); 3] = [
    ("lan", include_str!("../../networks/lan.toml")),
    ("wan4", include_str!("../../networks/wan4.toml")),
    ("us4", include_str!("../../networks/us4.toml")),
];
/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;
/// The clients' machine, as an end of a link.
const CLIENTS: &str = "clients";
/// Smallest packet: a header and one byte.
const LEAST_MTU_BYTES: u32 = 64;

/// Links between every ordered pair of endpoints: the replicas, and the machine of the clients.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// `mesh`: a link for each ordered pair. `star`: a leg from each endpoint to a router and one back; delays, losses and jitter are
    /// those of one leg, and a packet meets two.
    pub topology: Topology,
    /// How long a bit travels.
    pub delay: Delay,
    /// What is added to each packet's delay, evenly distributed.
    pub jitter: Jitter,
    /// How fast network cards are.
    pub bandwidth: Bandwidth,
    /// Which packets are lost.
    pub loss: Loss,
    /// What else happens to packets.
    pub packets: Packets,
    /// What carries messages over them.
    pub transport: DeliverySpec,
    /// Links that differ.
    pub links: Vec<LinkSpec>,
    /// What goes wrong, and when.
    pub faults: Vec<FaultSpec>,
    /// When the trouble ends, in milliseconds: whoever is to come back does so, nothing is lost or cut any more, and the replicas that
    /// have not crashed for good have to make progress. Without it they need not.
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

/// How endpoints hang together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Every pair has its own links.
    #[default]
    Mesh,
    /// Everything goes through one router.
    Star,
}

/// One-way delays, in milliseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Delay {
    /// Always the same.
    Constant {
        /// Milliseconds.
        mean_ms: f64,
    },
    /// Normally distributed, drawn for each packet, cut off at both ends.
    Normal {
        /// Mean before the cut.
        mean_ms: f64,
        /// Standard deviation before the cut.
        deviation_ms: f64,
        /// No packet is faster.
        least_ms: f64,
        /// No packet is slower.
        most_ms: f64,
    },
    /// By the regions of the two ends.
    Matrix {
        /// The regions' names.
        regions: Vec<String>,
        /// From (row) to (column).
        one_way_ms: Vec<Vec<f64>>,
        /// The region of each replica; replica i is in region i modulo the number of regions where this is empty or too short.
        #[serde(default)]
        placement: Vec<String>,
        /// The clients' region; the first where it is not given.
        #[serde(default)]
        clients: Option<String>,
    },
}

/// Jitter.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jitter {
    /// At most this much more delay, in milliseconds.
    pub most_ms: f64,
}

/// Network cards, each with a queue in either direction that is as long as it has to be.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bandwidth {
    /// What an endpoint sends, in megabits per second; 0 stands for no limit.
    pub egress_mbit_per_s: f64,
    /// What an endpoint receives, in megabits per second; 0 stands for no limit.
    pub ingress_mbit_per_s: f64,
}

/// Loss of packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// Each for itself.
    Independent {
        /// From 0 to 1.
        probability: f64,
    },
    /// In bursts (Gilbert 1960, Elliott 1963): a link is in a good or a bad state, and may change it with each packet.
    Bursts {
        /// Probability to go from good to bad with a packet.
        enter: f64,
        /// Probability to go from bad to good with a packet.
        leave: f64,
        /// Loss in the good state.
        good: f64,
        /// Loss in the bad state.
        bad: f64,
    },
}

impl Default for Loss {
    fn default() -> Loss {
        Loss::Independent { probability: 0.0 }
    }
}

/// Packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    /// Largest packet, headers included; larger messages travel in several.
    pub mtu_bytes: u32,
    /// Headers of a packet, of IP and transport together.
    pub header_bytes: u32,
    /// Probability that a datagram arrives twice.
    pub duplication: f64,
    /// Probability that a packet is held up and falls behind later ones.
    pub reordering: f64,
    /// By how much, at most, in milliseconds.
    pub reordering_ms: f64,
    /// Probability that a bit is flipped; the checksum finds it out and the packet is dropped.
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

/// How messages are delivered.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeliverySpec {
    /// `stream` or `datagram`.
    pub kind: Delivery,
    /// Retransmission timeout before a round trip was measured, in milliseconds (RFC 6298, 2.1: one second).
    pub rto_initial_ms: f64,
    /// Shortest retransmission timeout, in milliseconds (RFC 6298, 2.4: one second; Linux: 200).
    pub rto_least_ms: f64,
    /// Longest retransmission timeout, in milliseconds (RFC 6298, 2.5: at least 60 seconds).
    pub rto_most_ms: f64,
    /// Whether the third duplicate acknowledgement retransmits at once (RFC 5681, 3.2).
    pub fast_retransmit: bool,
    /// Most bytes on one stream that are sent and not acknowledged; further messages are dropped.
    pub queue_bytes: u64,
}

impl Default for DeliverySpec {
    fn default() -> DeliverySpec {
        DeliverySpec {
            kind: Delivery::Stream,
            rto_initial_ms: 1000.0,
            rto_least_ms: 200.0,
            rto_most_ms: 60_000.0,
            fast_retransmit: true,
            queue_bytes: 64 << 20,
        }
    }
}

/// What becomes of a message whose packets may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Lost is lost; a message of several packets is lost with any of them.
    Datagram,
    /// Every message, once and in order, as long as both ends live.
    Stream,
}

/// One ordered pair that differs from the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// Another delay, constant, in milliseconds.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    /// Another loss.
    #[serde(default)]
    pub loss: Option<Loss>,
}

impl NetworkSpec {
    /// The preset of that name: `lan`, `wan4` or `us4`.
    pub fn preset(name: &str) -> Option<NetworkSpec> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        Some(NetworkSpec::parse(text, name).expect("the presets are held by a test"))
    }

    /// Reads a network file; `name` is what errors call it.
    ///
    /// # Errors
    /// With the name, the line and the key, and what to do.
    pub fn parse(text: &str, name: &str) -> Result<NetworkSpec, Fault> {
        let spec: NetworkSpec = toml::from_str(text).map_err(|error| Fault {
            place: name.to_owned(),
            what: error.to_string().trim_end().to_owned(),
            help: "docs/SIMULATOR.md lists every key, and crates/simulator/networks/lan.toml is an example".into(),
        })?;
        spec.validate(name)?;
        Ok(spec)
    }

    /// Refuses links and faults of replicas that a cluster of so many has not; `name` is what errors call the network.
    ///
    /// # Errors
    /// With the name, the key, and what to do.
    pub fn fits(&self, replicas: usize, name: &str) -> Result<(), Fault> {
        let refuse = |key: &str, at: usize, what: String| {
            let help = format!("name replicas from 0 to {}", replicas - 1);
            Err(Fault { place: format!("{name}: `{key}[{at}]`"), what, help })
        };
        for (at, fault) in self.faults.iter().enumerate() {
            if let Some(what) = fault.misfit(replicas) {
                return refuse("faults", at, what);
            }
            if let Some(what) = self.faults[..at].iter().find_map(|earlier| fault.clash(earlier)) {
                let help = "leave one of the two out".to_owned();
                return Err(Fault { place: format!("{name}: `faults[{at}]`"), what, help });
            }
        }
        for (at, link) in self.links.iter().enumerate() {
            let absent = |end: &&End| matches!(end, End::Replica(replica) if usize::from(*replica) >= replicas);
            if let Some(End::Replica(absent)) = [&link.from, &link.to].into_iter().find(absent) {
                let what = format!("names replica {absent}, and the last one is {}", replicas - 1);
                return refuse("links", at, what);
            }
        }
        Ok(())
    }

    /// The network as text that [`NetworkSpec::parse`] reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a network has a form in TOML")
    }

    /// When the trouble ends.
    pub(crate) fn heal_at(&self) -> Option<Time> {
        self.heal_at_ms.map(|ms| Time((ms * NS_PER_MS) as u64))
    }

    /// Whether packets may be lost at all.
    pub fn loses(&self) -> bool {
        let lossy = |loss: &Loss| match *loss {
            Loss::Independent { probability } => probability > 0.0,
            Loss::Bursts { good, bad, .. } => good > 0.0 || bad > 0.0,
        };
        lossy(&self.loss)
            || self.packets.bit_error_rate > 0.0
            || self.links.iter().filter_map(|link| link.loss.as_ref()).any(lossy)
    }

    fn validate(&self, name: &str) -> Result<(), Fault> {
        let refuse = |key: String, what: String, help: &str| {
            Err(Fault { place: format!("{name}: `{key}`"), what, help: help.to_owned() })
        };
        for (key, value) in self.times() {
            if !(0.0..=MOST_MS).contains(&value) {
                return refuse(key, format!("{value} is out of range"), "set it between 0 and 3600000 milliseconds");
            }
        }
        for (at, fault) in self.faults.iter().enumerate() {
            for (key, value, least, most) in fault.numbers() {
                if !(least..=most).contains(&value) {
                    let help = format!("set it between {least} and {most}");
                    return refuse(format!("faults[{at}].{key}"), format!("{value} is out of range"), &help);
                }
            }
        }
        for (key, value) in self.probabilities() {
            if !(0.0..=1.0).contains(&value) {
                return refuse(key, format!("{value} is out of range"), "set a probability from 0 to 1");
            }
        }
        let Packets { mtu_bytes, header_bytes, .. } = self.packets;
        if mtu_bytes < LEAST_MTU_BYTES || header_bytes >= mtu_bytes {
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
        let DeliverySpec { rto_initial_ms, rto_least_ms, rto_most_ms, .. } = self.transport;
        if !(rto_least_ms > 0.0
            && rto_least_ms <= rto_most_ms
            && (rto_least_ms..=rto_most_ms).contains(&rto_initial_ms))
        {
            let what = format!("least {rto_least_ms}, initial {rto_initial_ms}, most {rto_most_ms}");
            return refuse("transport.rto".into(), what, "set 0 < rto_least_ms <= rto_initial_ms <= rto_most_ms");
        }
        let ends = self.links.iter().flat_map(|link| [&link.from, &link.to]).map(|end| ("links", end));
        let struck = self.faults.iter().flat_map(FaultSpec::ends).map(|end| ("faults", end));
        let strange = |(_, end): &(_, &End)| matches!(end, End::Named(name) if name != CLIENTS);
        if let Some((key, End::Named(other))) = ends.chain(struck).find(strange) {
            let what = format!("`{other}` is no end of a link");
            return refuse(key.into(), what, "write a replica's number, or \"clients\"");
        }
        self.validate_delay().or_else(|(key, what, help)| refuse(key.into(), what, help))
    }

    fn validate_delay(&self) -> Result<(), (&'static str, String, &'static str)> {
        match &self.delay {
            Delay::Constant { .. } => Ok(()),
            Delay::Normal { mean_ms, least_ms, most_ms, .. } => match (*least_ms..=*most_ms).contains(mean_ms) {
                true => Ok(()),
                false => Err((
                    "delay.mean_ms",
                    format!("is {}, not between {} and {}", short(*mean_ms), short(*least_ms), short(*most_ms)),
                    "set least_ms <= mean_ms <= most_ms",
                )),
            },
            Delay::Matrix { regions, one_way_ms, placement, clients } => {
                if regions.is_empty()
                    || one_way_ms.len() != regions.len()
                    || one_way_ms.iter().any(|row| row.len() != regions.len())
                {
                    return Err((
                        "delay.one_way_ms",
                        format!("has {} rows for {} regions", one_way_ms.len(), regions.len()),
                        "write a row for each region with a number for each region",
                    ));
                }
                let unknown = placement.iter().chain(clients).find(|name| !regions.contains(name));
                match unknown {
                    Some(name) => Err((
                        "delay.placement",
                        format!("names `{name}`, which is no region"),
                        "use a name from delay.regions",
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    fn times(&self) -> Vec<(String, f64)> {
        let mut times = vec![
            ("jitter.most_ms".to_owned(), self.jitter.most_ms),
            ("packets.reordering_ms".to_owned(), self.packets.reordering_ms),
            ("transport.rto_initial_ms".to_owned(), self.transport.rto_initial_ms),
            ("transport.rto_least_ms".to_owned(), self.transport.rto_least_ms),
            ("transport.rto_most_ms".to_owned(), self.transport.rto_most_ms),
        ];
        match &self.delay {
            Delay::Constant { mean_ms } => times.push(("delay.mean_ms".into(), *mean_ms)),
            Delay::Normal { mean_ms, deviation_ms, least_ms, most_ms } => times.extend([
                ("delay.mean_ms".to_owned(), *mean_ms),
                ("delay.deviation_ms".to_owned(), *deviation_ms),
                ("delay.least_ms".to_owned(), *least_ms),
                ("delay.most_ms".to_owned(), *most_ms),
            ]),
            Delay::Matrix { one_way_ms, .. } => {
                times.extend(one_way_ms.iter().flatten().map(|ms| ("delay.one_way_ms".to_owned(), *ms)));
            }
        }
        times.extend(self.heal_at_ms.map(|ms| ("heal_at_ms".to_owned(), ms)));
        times.extend(self.links.iter().filter_map(|link| Some(("links.delay_ms".to_owned(), link.delay_ms?))));
        times
    }

    fn probabilities(&self) -> Vec<(String, f64)> {
        let Packets { duplication, reordering, bit_error_rate, .. } = self.packets;
        let mut all = vec![
            ("packets.duplication".to_owned(), duplication),
            ("packets.reordering".to_owned(), reordering),
            ("packets.bit_error_rate".to_owned(), bit_error_rate),
        ];
        for loss in std::iter::once(&self.loss).chain(self.links.iter().filter_map(|link| link.loss.as_ref())) {
            match *loss {
                Loss::Independent { probability } => all.push(("loss.probability".into(), probability)),
                Loss::Bursts { enter, leave, good, bad } => all.extend([
                    ("loss.enter".to_owned(), enter),
                    ("loss.leave".to_owned(), leave),
                    ("loss.good".to_owned(), good),
                    ("loss.bad".to_owned(), bad),
                ]),
            }
        }
        all
    }
}

/// A number without hundreds of digits.
fn short(number: f64) -> String {
    if number.abs() < 1e9 { number.to_string() } else { format!("{number:e}") }
}
