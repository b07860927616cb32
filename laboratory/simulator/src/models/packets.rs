//! Message loss derived from bit errors and bursts.

use crate::models::chance::{Chance, probability};
use quorate_types::Fault;

const BITS_PER_BYTE: f64 = 8.0;
/// Headers of IPv4 and UDP, in bytes.
pub const DATAGRAM_HEADER_BYTES: u32 = 28;
/// Size of an Ethernet packet without its frame, in bytes.
pub const ETHERNET_MTU_BYTES: u32 = 1500;

/// Returns the packet error rate of independent bit errors, 1 - (1 - b)^bits: every bit of the packet has to be
/// correct. The paper varies b from 0 to 13e-5 with messages of 128 bytes (section III.A).
pub fn packet_error_rate(bit_error_rate: f64, packet_bytes: u32) -> f64 {
    assert!((0.0..=1.0).contains(&bit_error_rate), "{bit_error_rate} is a probability");
    let bits = f64::from(packet_bytes) * BITS_PER_BYTE;
    if bits == 0.0 { 0.0 } else { -libm::expm1(bits * libm::log1p(-bit_error_rate)) }
}

/// Returns the packets of a message of `bytes` bytes, each with a header and at most `mtu_bytes` long; at least one.
///
/// # Errors
/// If a header leaves no space for data in a packet.
pub fn fragments(bytes: u32, mtu_bytes: u32, header_bytes: u32) -> Result<u32, Fault> {
    match mtu_bytes.checked_sub(header_bytes).filter(|room| *room > 0) {
        Some(room) => Ok(bytes.div_ceil(room).max(1)),
        None => {
            let what = format!("{mtu_bytes} bytes have no room beside a header of {header_bytes}");
            Err(Fault::new("--mtu-bytes", what, format!("set more than {header_bytes}")))
        }
    }
}

/// Loss in bursts: a link is in a good or a bad state, which may change with each packet (Gilbert 1960, Elliott 1963).
/// Same as `[loss] kind = "bursts"` in a network file: the state changes before the packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Probability of a change from good to bad.
    pub enter: f64,
    /// Probability of a change from bad to good.
    pub leave: f64,
    /// Probability of loss in the good state.
    pub good: f64,
    /// Probability of loss in the bad state.
    pub bad: f64,
}

impl Bursts {
    /// Returns bursts in which everything is lost, with this mean loss and mean length in packets.
    ///
    /// # Errors
    /// If no such process exists: the state changes at most once per packet, so bursts of length L lose at most L / (L
    /// + 1) of all packets.
    pub fn of_mean(loss: f64, length_packets: f64) -> Result<Bursts, Fault> {
        probability("--loss", loss)?;
        if !(1.0..=1e9).contains(&length_packets) {
            let what = format!("is {length_packets}");
            return Err(Fault::new("--burst-packets", what, "set at least 1, the mean length of a burst in packets"));
        }
        let most = length_packets / (length_packets + 1.0);
        if loss > most {
            let what = format!("bursts of {length_packets} packets cannot lose {loss} of all packets");
            return Err(Fault::new("--loss", what, format!("set at most {most:.3}, or longer bursts")));
        }
        let leave = 1.0 / length_packets;
        Ok(Bursts { enter: leave * loss / (1.0 - loss), leave, good: 0.0, bad: 1.0 })
    }

    /// Returns the long-run share of packets sent in the bad state.
    fn share_bad(&self) -> f64 {
        match self.enter + self.leave > 0.0 {
            true => self.enter / (self.enter + self.leave),
            // The state never changes, and links begin in the good one.
            false => 0.0,
        }
    }

    /// Returns the long-run share of lost packets.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.share_bad();
        bad * self.bad + (1.0 - bad) * self.good
    }

    /// Returns the chance that at least one of `copies` of a message of `fragments` packets arrives complete, if all
    /// are sent back to back on a link in its stationary state.
    ///
    /// Propagates the probability of each state from packet to packet, both over all outcomes and over those in which
    /// the copy is complete; the difference is the copy's failure, from which the next copy starts. Exact for one
    /// message. Equation 1 treats a request's messages as independent, although a burst may outlast a phase; the tests
    /// state the resulting error.
    pub fn message(&self, copies: u32, fragments: u32) -> Chance {
        let bad = self.share_bad();
        let mut failed = [1.0 - bad, bad];
        for _ in 0..copies {
            let (mut any, mut whole) = (failed, failed);
            for _ in 0..fragments {
                any = self.next(any);
                whole = self.next(whole);
                whole = [whole[0] * (1.0 - self.good), whole[1] * (1.0 - self.bad)];
            }
            failed = [(any[0] - whole[0]).max(0.0), (any[1] - whole[1]).max(0.0)];
        }
        Chance::of_loss((failed[0] + failed[1]).clamp(0.0, 1.0))
    }

    fn next(&self, [good, bad]: [f64; 2]) -> [f64; 2] {
        [good * (1.0 - self.enter) + bad * self.leave, good * self.enter + bad * (1.0 - self.leave)]
    }
}
