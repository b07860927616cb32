//! Success of PBFT's three phases over lossy links: equation 1 and its consequences.
//!
//! Source: Loruenser, Rainer and Wohner, "Towards a Performance Model for Byzantine Fault Tolerant (Storage) Services",
//! section II.B. In their notation, a request goes through
//!
//! | phase | random variable | who | given the phase before |
//! |---|---|---|---|
//! | PRE-PREPARE | M | backups that receive it | Bin(n-1, p) |
//! | PREPARE | K | replicas that then have a quorum of PREPAREs | Bin(M+1, q(M)) |
//! | COMMIT | J | replicas that then have a quorum of COMMITs | Bin(K, q(K-1)) |
//! | REPLY | S | replies that the client receives | Bin(J, p) |
//!
//! where p is the probability that a message arrives and q(N) = P(Bin(N, p) >= Q-1) the probability of at least Q-1 out
//! of N other replicas' messages; a replica has its own. Equation 1 is the product of the four. It is exact, not an
//! approximation: given who sends, the receptions of two replicas use different links, so they are independent, and
//! each phase depends on the previous one only through its number of senders. The four variables are a Markov chain, so
//! the marginal distributions take O(n^2) operations although the joint distribution has O(n^4) entries.
//!
//! The text leaves two points open. [`Counting`] selects the primary's messages. And its condition M >= 2f+1 counts
//! backups where the other conditions count replicas: a quorum of PREPAREs only needs M+1 >= 2f+1 senders. This module
//! uses "at least a quorum takes part", which K >= Q implies; with the condition as printed, equation 2 would not be a
//! lower bound (ADR 073).

use crate::models::binomial::Binomials;
use crate::models::chance::{Chance, ln_add};
use crate::models::committee::{Committee, Counting};

/// Chances that the messages of the phases arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Messages {
    /// A PRE-PREPARE, with its repetitions.
    pub pre_prepare: Chance,
    /// A PREPARE or a COMMIT.
    pub vote: Chance,
    /// A reply to the client.
    pub reply: Chance,
}

impl Messages {
    /// Returns messages that all arrive with the same chance, as in the paper.
    pub fn alike(chance: Chance) -> Messages {
        Messages { pre_prepare: chance, vote: chance, reply: chance }
    }
}

/// Distribution of M, K, J and S.
#[derive(Clone, Debug)]
pub struct Phases {
    committee: Committee,
    counting: Counting,
    messages: Messages,
    binomials: Binomials,
    /// Chance of at least Q-1 of N votes, by N.
    quorums: Vec<Chance>,
    /// Chance of at least Q-2 of N votes, by N: the votes that a backup needs in the engine besides the primary's.
    without_primary: Vec<Chance>,
    /// ln P(M = m), by m.
    informed: Vec<f64>,
    /// ln P(K = k), by k.
    prepared: Vec<f64>,
    /// ln P(J = j), by j.
    committed: Vec<f64>,
    /// ln P(S = s), by s.
    replies: Vec<f64>,
}

impl Phases {
    /// Computes the distribution, in O(n^2) time and O(n) memory.
    pub fn new(committee: Committee, counting: Counting, messages: Messages) -> Phases {
        let (active, quorum) = (committee.active(), committee.quorum());
        let binomials = Binomials::new(active);
        let at_least = |least: usize| -> Vec<Chance> {
            (0..=active).map(|senders| binomials.at_least(senders, messages.vote, least)).collect()
        };
        let (quorums, without_primary) = (at_least(quorum - 1), at_least(quorum.saturating_sub(2)));
        let backups = active - 1;
        let informed = (0..=backups).map(|m| binomials.ln_exactly(backups, messages.pre_prepare, m)).collect();
        let mut phases = Phases {
            committee,
            counting,
            messages,
            binomials,
            quorums,
            without_primary,
            informed,
            prepared: Vec::new(),
            committed: Vec::new(),
            replies: Vec::new(),
        };
        let none = vec![f64::NEG_INFINITY; active + 1];
        phases.prepared = forward(&phases.informed, none.clone(), |m, k| phases.ln_prepared(m, k), |m| m + 1);
        phases.committed = forward(&phases.prepared, none.clone(), |k, j| phases.ln_committed(k, j), |k| k);
        phases.replies = forward(&phases.committed, none, |j, s| phases.ln_replies(j, s), |j| j);
        phases
    }

    /// Returns ln P(K = k | M = m).
    ///
    /// With [`Counting::Paper`], each of the m+1 senders needs Q-1 of the other m PREPAREs. With [`Counting::Engine`],
    /// a backup has its own PREPARE and, in the PRE-PREPARE, the primary's, so it needs Q-2 of the PREPAREs of the m-1
    /// other backups; the primary needs Q-1 of the m backups' PREPAREs.
    fn ln_prepared(&self, m: usize, k: usize) -> f64 {
        let primary = self.quorums[m];
        match self.counting {
            Counting::Paper => self.binomials.ln_exactly(m + 1, primary, k),
            Counting::Engine => {
                let backup = self.without_primary[m.saturating_sub(1)];
                let without = self.binomials.ln_exactly(m, backup, k) + primary.ln_complement();
                match k.checked_sub(1) {
                    None => without,
                    Some(others) => ln_add(without, self.binomials.ln_exactly(m, backup, others) + primary.ln()),
                }
            }
        }
    }

    /// Returns ln P(J = j | K = k).
    fn ln_committed(&self, k: usize, j: usize) -> f64 {
        match k.checked_sub(1) {
            None if j == 0 => 0.0,
            None => f64::NEG_INFINITY,
            Some(others) => self.binomials.ln_exactly(k, self.quorums[others], j),
        }
    }

    /// Returns ln P(S = s | J = j).
    fn ln_replies(&self, j: usize, s: usize) -> f64 {
        self.binomials.ln_exactly(j, self.messages.reply, s)
    }

    /// Returns P(S = s, J = j, K = k, M = m): equation 1. O(1).
    pub fn joint(&self, replies: usize, committed: usize, prepared: usize, informed: usize) -> f64 {
        let Some(ln_informed) = self.informed.get(informed) else { return 0.0 };
        if prepared > informed + 1 || committed > prepared || replies > committed {
            return 0.0;
        }
        let ln = ln_informed
            + self.ln_prepared(informed, prepared)
            + self.ln_committed(prepared, committed)
            + self.ln_replies(committed, replies);
        libm::exp(ln)
    }

    /// Returns P(M = m) for each m, the number of backups with the PRE-PREPARE.
    pub fn informed(&self) -> Vec<f64> {
        exponentials(&self.informed)
    }

    /// Returns P(K = k) for each k.
    pub fn prepared(&self) -> Vec<f64> {
        exponentials(&self.prepared)
    }

    /// Returns P(J = j) for each j.
    pub fn committed(&self) -> Vec<f64> {
        exponentials(&self.committed)
    }

    /// Returns P(S = s) for each s.
    pub fn replies(&self) -> Vec<f64> {
        exponentials(&self.replies)
    }

    /// Returns P(S >= s), the probability that the client receives at least s replies. With s = 2f+1 this is the
    /// paper's success.
    pub fn replies_at_least(&self, least: usize) -> f64 {
        total(self.replies().iter().skip(least).copied()).min(1.0)
    }

    /// Returns P(J >= j): at least that many replicas commit.
    pub fn committed_at_least(&self, least: usize) -> f64 {
        total(self.committed().iter().skip(least).copied()).min(1.0)
    }

    /// Returns E[S, J >= Q, K >= Q, M + 1 >= Q]: the expected replies, counting 0 for requests that no quorum commits.
    /// E[S | J] = p J, so a sum over J suffices.
    pub fn expected_replies(&self) -> f64 {
        let reply = self.messages.reply.probability();
        let committed = self.committed();
        let replies = committed.iter().enumerate().skip(self.committee.quorum());
        total(replies.map(|(j, weight)| j as f64 * weight * reply))
    }

    /// Returns E[S]: the expected replies over all requests, including those that fewer replicas than a quorum commit.
    pub fn mean_replies(&self) -> f64 {
        total(self.replies().iter().enumerate().map(|(replies, weight)| replies as f64 * weight))
    }

    /// Returns the lower bound of equation 2 on [`Phases::expected_replies`], with a separate chance for each kind of
    /// message.
    ///
    /// Derivation. Keep only the outcomes in which all m+1 replicas with the PRE-PREPARE prepare and commit, each of
    /// the 2(m+1) times with probability q(m) at least:
    ///
    /// E >= p_r sum_m P(M = m) (m+1) q(m)^(2(m+1)).
    ///
    /// In the m of (m+1), m C(n-1, m) = (n-1) C(n-2, m-1) moves the sum to n-2 trials; the 1 is at least the part in
    /// which a certain backup has the PRE-PREPARE, which is a sum over n-2 trials, too. Together
    ///
    /// E >= p_r p_pp n sum_{m=0}^{n-2} C(n-2, m) p_pp^m (1-p_pp)^(n-2-m) q(m+1)^(2(m+2)),
    ///
    /// and 2(m+2) <= 2n+2 gives the exponent of the paper, which is the looser bound. Each term with q(m+1) > 0 has at
    /// least Q replicas. In the engine's counting a backup's chance is no lower than q, so the bound holds there, too.
    pub fn lower_bound(&self) -> f64 {
        let active = self.committee.active();
        let Some(others) = active.checked_sub(2) else { return 0.0 };
        let (pre_prepare, reply) = (self.messages.pre_prepare, self.messages.reply);
        let exponent = (2 * active + 2) as f64;
        let term = |m: usize| {
            let all = exponent * self.quorums[m + 1].ln();
            libm::exp(self.binomials.ln_exactly(others, pre_prepare, m) + all)
        };
        let sum: f64 = (0..=others).map(term).sum();
        reply.probability() * pre_prepare.probability() * active as f64 * sum
    }

    pub fn committee(&self) -> Committee {
        self.committee
    }

    /// Returns the chances of the messages.
    pub fn messages(&self) -> Messages {
        self.messages
    }

    /// Returns which messages count.
    pub fn counting(&self) -> Counting {
        self.counting
    }
}

/// Returns the distribution of the next phase: sums `step(from, to)` for each `to` up to `most(from)`.
fn forward(
    from: &[f64],
    mut to: Vec<f64>,
    step: impl Fn(usize, usize) -> f64,
    most: impl Fn(usize) -> usize,
) -> Vec<f64> {
    for (at, weight) in from.iter().enumerate().filter(|(_, weight)| **weight > f64::NEG_INFINITY) {
        for (next, sum) in to.iter_mut().enumerate().take(most(at) + 1) {
            *sum = ln_add(*sum, weight + step(at, next));
        }
    }
    to
}

fn exponentials(logarithms: &[f64]) -> Vec<f64> {
    logarithms.iter().map(|ln| libm::exp(*ln)).collect()
}

/// Returns the sum of probabilities. The sum of no numbers is -0, which a reader would take for an error.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() + 0.0
}
