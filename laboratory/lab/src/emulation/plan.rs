//! Description of an emulated network, fully resolved: a link for each ordered pair of endpoints.

use quorate_simulator::links::Loss;
use quorate_types::Time;

/// An emulated network between `ends` endpoints, numbered from 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub ends: usize,
    /// The link of each ordered pair: `from * ends + to`.
    pub links: Vec<Link>,
    /// Additional loss on the last hop to each endpoint, as in a star topology.
    pub last_leg: Option<Loss>,
    /// Distribution of every packet's delay, which replaces the links' own delays.
    pub normal: Option<Normal>,
    /// Upper bound of a uniformly distributed extra delay. Packets of one flow stay in order.
    pub jitter_ns: u64,
    /// Probability that a packet may be overtaken; the next field bounds its extra delay.
    pub reordering: f64,
    pub reordering_ns: u64,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Probability that a bit is flipped; a packet with a flipped bit is dropped.
    pub bit_error_rate: f64,
    /// Transmission time per byte at a sender's interface, in picoseconds; 0 is unlimited.
    pub egress_ps_per_byte: u64,
    /// Transmission time per byte at a receiver's interface, in picoseconds; 0 is unlimited.
    pub ingress_ps_per_byte: u64,
    /// Maximum queue length of a sender's interface, in bytes; 0 is unlimited.
    pub queue_bytes: u64,
    /// Size of the largest packet including its IP header, in bytes.
    pub mtu_bytes: u32,
    /// Changes by time since [`Emulation::begin`](crate::emulation::Emulation::begin), in order.
    pub changes: Vec<(Time, Change)>,
    pub seed: u64,
}

/// Link of an ordered pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    pub delay_ns: u64,
    pub loss: Loss,
}

/// Normal distribution, clamped to a range, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Normal {
    pub mean_ns: f64,
    pub deviation_ns: f64,
    pub least_ns: f64,
    pub most_ns: f64,
}

/// Change of the network during a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Start (true) or end (false) of a cut of these ordered pairs. Cuts may overlap: a link works again after the last
    /// one ends.
    Cut(Vec<(usize, usize)>, bool),
    /// Extra delay of these ordered pairs from now on, in nanoseconds.
    Spike(Vec<(usize, usize)>, u64),
    /// Probability with which these ordered pairs lose packets from now on, in addition to their own loss.
    Lose(Vec<(usize, usize)>, f64),
    /// End of all cuts and extra delays, and of loss, duplication, reordering and bit errors.
    Heal,
}

impl Plan {
    /// Returns a network of `ends` endpoints without loss, in which all links have the same delay.
    pub fn uniform(ends: usize, delay_ns: u64) -> Plan {
        Plan {
            ends,
            links: vec![Link { delay_ns, loss: Loss::default() }; ends * ends],
            last_leg: None,
            normal: None,
            jitter_ns: 0,
            reordering: 0.0,
            reordering_ns: 0,
            duplication: 0.0,
            bit_error_rate: 0.0,
            egress_ps_per_byte: 0,
            ingress_ps_per_byte: 0,
            queue_bytes: 0,
            mtu_bytes: DEFAULT_MTU_BYTES,
            changes: Vec::new(),
            seed: 1,
        }
    }

    /// Returns the shortest mean delay between two endpoints, without jitter, in nanoseconds.
    pub fn shortest_delay_ns(&self) -> u64 {
        if let Some(normal) = self.normal {
            return normal.mean_ns as u64;
        }
        let pairs = (0..self.links.len()).filter(|at| at / self.ends != at % self.ends);
        pairs.map(|at| self.links[at].delay_ns).min().unwrap_or(0)
    }
}

/// Default size of the largest packet.
pub const DEFAULT_MTU_BYTES: u32 = 1500;
