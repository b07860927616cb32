//! Chance that a message arrives (equations 3 to 5), and the number of repetitions needed (equations 6 and 7).
//!
//! Source: section II.C of the paper (see [`phases`](crate::models::phases)).

use crate::models::chance::{Chance, probability};
use crate::models::committee::{Committee, Counting};
use crate::models::packets::Bursts;
use crate::models::phases::{Messages, Phases};
use quorate_types::{Fault, choice};

/// Maximum number of repetitions of a message, or retransmissions of a segment.
pub const MAX_REPETITIONS: u32 = 1000;
/// Maximum number of packets per message.
pub const MAX_SEGMENTS: u32 = 100_000;
/// Maximum retransmissions of a segment by TCP in the paper's simulation.
pub const PAPER_RETRANSMISSIONS: u32 = 12;

choice!(
    /// Transport of messages.
    #[derive(Default)]
    Transport, "transport",
    /// Datagrams without acknowledgements.
    #[default]
    Udp = "udp",
    /// Segments, retransmitted until they are acknowledged.
    Tcp = "tcp",
);

/// Links between all replicas, and from each replica to the client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Channel {
    pub transport: Transport,
    /// Probability that a packet is lost, 1 - p(l); for bursts, their mean loss.
    pub loss: f64,
    /// Loss in bursts; datagrams only, since the attempts of TCP are far apart. `None`: packets are lost independently.
    pub bursts: Option<Bursts>,
    /// Packets of a PRE-PREPARE, u. Votes and replies fit into one packet.
    pub segments: u32,
    /// Maximum TCP retransmissions of a segment before it counts as lost, m.
    pub retransmissions: u32,
    /// Additional copies of every message; datagrams only.
    pub repeat: u32,
    /// Additional copies of a PRE-PREPARE, r_pp; datagrams only. With `repeat`, the larger number counts.
    pub pre_prepare_repeat: u32,
}

impl Channel {
    /// Creates links of datagrams without repetition.
    pub fn udp(loss: f64) -> Channel {
        Channel {
            transport: Transport::Udp,
            loss,
            bursts: None,
            segments: 1,
            retransmissions: PAPER_RETRANSMISSIONS,
            repeat: 0,
            pre_prepare_repeat: 0,
        }
    }

    /// Creates links of TCP.
    pub fn tcp(loss: f64, segments: u32, retransmissions: u32) -> Channel {
        Channel { transport: Transport::Tcp, segments, retransmissions, ..Channel::udp(loss) }
    }

    /// Creates links of datagrams without repetition that lose packets in bursts.
    pub fn in_bursts(bursts: Bursts) -> Channel {
        Channel { bursts: Some(bursts), ..Channel::udp(bursts.mean_loss()) }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The flag that is out of range, and its valid range.
    pub fn validate(&self) -> Result<(), Fault> {
        probability("--loss", self.loss)?;
        let count = |flag: &str, number: u32, least: u32, most: u32| match (least..=most).contains(&number) {
            true => Ok(()),
            false => Err(Fault::new(flag, format!("is {number}"), format!("set it between {least} and {most}"))),
        };
        count("--segments", self.segments, 1, MAX_SEGMENTS)?;
        count("--retransmissions", self.retransmissions, 0, MAX_REPETITIONS)?;
        count("--repeat", self.repeat, 0, MAX_REPETITIONS)?;
        count("--pre-prepare-repeat", self.pre_prepare_repeat, 0, MAX_REPETITIONS)?;
        let repeats = [("--repeat", self.repeat), ("--pre-prepare-repeat", self.pre_prepare_repeat)];
        match repeats.iter().find(|(_, number)| *number > 0 && self.transport == Transport::Tcp) {
            Some((flag, _)) => {
                Err(Fault::new(*flag, "TCP repeats what is lost by itself", "leave it out, or use --transport udp"))
            }
            None => Ok(()),
        }
    }

    /// Returns P(M | p): the chance that one attempt to send a packet succeeds. TCP also needs the acknowledgement,
    /// which is lost with the same probability: p(l)^2.
    pub fn attempt(&self) -> Chance {
        let packet = Chance::of_loss(self.loss);
        match self.transport {
            Transport::Udp => packet,
            Transport::Tcp => packet.and(packet),
        }
    }

    /// Returns the chance that a vote or a reply arrives.
    ///
    /// Over UDP: p(l), equation 3, or with r additional copies 1 - (1-p(l))^(r+1), section II.D.1. Over TCP, equation
    /// 4: the chain with the states "acknowledged", which is absorbing, and "not yet" is absorbed within m+1 attempts
    /// with probability P(M|p) sum_{k=0}^{m} (1-P(M|p))^k = 1 - (1-P(M|p))^(m+1).
    pub fn vote(&self) -> Chance {
        match self.transport {
            Transport::Udp => match self.bursts {
                Some(bursts) => bursts.message(self.repeat + 1, 1),
                None => self.attempt().any_of(self.repeat + 1),
            },
            Transport::Tcp => self.attempt().any_of(self.retransmissions + 1),
        }
    }

    /// Returns the chance that a PRE-PREPARE of u packets arrives: equation 5. Over TCP each segment is retransmitted
    /// individually, (1 - (1-P(M|p))^(m+1))^u; a copy of a datagram helps only if complete, 1 - (1-p(l)^u)^(r+1).
    pub fn pre_prepare(&self) -> Chance {
        match self.transport {
            Transport::Udp => match self.bursts {
                Some(bursts) => bursts.message(self.pre_prepare_copies(), self.segments),
                None => self.attempt().all_of(self.segments).any_of(self.pre_prepare_copies()),
            },
            Transport::Tcp => self.vote().all_of(self.segments),
        }
    }

    /// Returns the number of times that a PRE-PREPARE is sent to each backup.
    pub fn pre_prepare_copies(&self) -> u32 {
        self.repeat.max(self.pre_prepare_repeat) + 1
    }

    /// Returns the chances of all kinds of messages.
    pub fn messages(&self) -> Messages {
        Messages { pre_prepare: self.pre_prepare(), vote: self.vote(), reply: self.vote() }
    }

    /// Returns the number of messages that must arrive in the bound of equations 6 and 7, u n + (2n-2)(n-1).
    ///
    /// They are PRE-PREPAREs of u packets, and two rounds of votes. All messages between n replicas would be u (n-1) +
    /// 2n (n-1), which is more for large n, so the printed bound is a rule of thumb: a request does not need all of
    /// them. The tests compare it with equation 1.
    pub fn needed_messages(&self, committee: Committee) -> f64 {
        let n = committee.active() as f64;
        f64::from(self.segments) * n + (2.0 * n - 2.0) * (n - 1.0)
    }

    /// Returns the lower bound of equation 6 on the expected replies with r retransmissions of each message: n (1 -
    /// (1-P(M|p))^(r+1))^(u n + (2n-2)(n-1)). The printed fraction has an n in the denominator, which is absent from
    /// equation 7 although that is derived from it.
    pub fn lower_bound(&self, committee: Committee, retransmissions: u32) -> f64 {
        let all = self.attempt().any_of(retransmissions + 1).ln() * self.needed_messages(committee);
        committee.active() as f64 * libm::exp(all)
    }

    /// Returns the minimum number of retransmissions, or of repetitions over UDP, for which equation 6 guarantees 2f+1
    /// replies: equation 7. `None` if no number suffices, because nothing arrives or all replicas would have to answer.
    ///
    /// Equation 6 >= 2f+1 solved for r: (1-P(M|p))^(r+1) <= 1 - ((2f+1)/n)^(1/(u n + (2n-2)(n-1))).
    pub fn retransmissions_bound(&self, committee: Committee) -> Option<u32> {
        let (needed, active) = (committee.strong() as f64, committee.active() as f64);
        if needed >= active || self.attempt().ln() == f64::NEG_INFINITY {
            return None;
        }
        let ln_each = libm::log(needed / active) / self.needed_messages(committee);
        let ln_lost = crate::models::chance::ln_one_minus_exp(ln_each);
        let attempts = (ln_lost / self.attempt().ln_complement()).ceil().max(1.0);
        let fits = attempts <= f64::from(MAX_REPETITIONS);
        fits.then(|| attempts as u32 - 1)
    }

    /// Returns the minimum number of repetitions of each message for which equation 1 itself expects 2f+1 replies;
    /// `None` if [`MAX_REPETITIONS`] do not suffice.
    pub fn retransmissions_exact(&self, committee: Committee, counting: Counting) -> Option<u32> {
        let suffices = |number: u32| {
            let messages = self.with_attempts(number + 1);
            Phases::new(committee, counting, messages).expected_replies() >= committee.strong() as f64
        };
        least(MAX_REPETITIONS, suffices)
    }

    /// Returns the chances of messages that are sent up to `attempts` times.
    fn with_attempts(&self, attempts: u32) -> Messages {
        let channel = match self.transport {
            Transport::Udp => Channel { repeat: attempts - 1, pre_prepare_repeat: 0, ..*self },
            Transport::Tcp => Channel { retransmissions: attempts - 1, ..*self },
        };
        channel.messages()
    }

    /// Returns the expected packets per packet of a message: the packet itself, and with TCP its retransmissions and
    /// the acknowledgements of received ones. The number of attempts until the first success, at most m+1, is (1 -
    /// (1-P(M|p))^(m+1)) / P(M|p) on average.
    pub fn packets_per_segment(&self) -> f64 {
        if self.transport == Transport::Udp {
            return 1.0;
        }
        let (attempt, most) = (self.attempt().probability(), f64::from(self.retransmissions) + 1.0);
        let attempts = if attempt > 0.0 { self.vote().probability() / attempt } else { most };
        attempts * (2.0 - self.loss)
    }
}

/// Returns the smallest number up to `most` that suffices, by bisection; `suffices` must be monotone. Calls it O(log
/// most) times, with small numbers first.
pub(crate) fn least(most: u32, suffices: impl Fn(u32) -> bool) -> Option<u32> {
    if suffices(0) {
        return Some(0);
    }
    let (mut below, mut above) = (0, 1);
    while !suffices(above) {
        if above == most {
            return None;
        }
        below = above;
        above = (2 * above).min(most);
    }
    while above - below > 1 {
        let middle = (below + above) / 2;
        if suffices(middle) { above = middle } else { below = middle }
    }
    Some(above)
}
