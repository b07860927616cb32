//! Protocols whose leader collects the votes: basic and chained HotStuff, and Jolteon.
//!
//! A phase is a message from the leader to all replicas and a vote from each replica to the collector. The time of Q
//! votes is an order statistic of D + D', independent between replicas because they share no link, and between phases
//! because a phase starts when its collector has the quorum. So the latency is a sum of independent times, which the
//! grid adds up exactly. The only approximations are the grid's and these readings of the protocols:
//!
//! - **Basic HotStuff**: prepare, pre-commit and commit phases with one leader, then DECIDE, on which a replica
//!   commits. A replica that did not get the proposal has no block to vote for in the later phases, so all phases draw
//!   their votes from the same m replicas.
//! - **Chained HotStuff and Jolteon**: the proposal of view v goes to all, the votes go to the next leader, whose
//!   proposal carries their certificate. A block commits with the certificate of the second view after its own (a
//!   three-chain) or of the first (a two-chain), which the others see in the following view's proposal. A replica
//!   fetches a missed block, which these formulas assume to succeed before the block is needed.
//! - A replica commits when it learns that the block is committed, and replies to the client. Leaders are not silent.
//!   No view times out: a timeout ends the request without success. [`timeouts`](crate::models::timeouts) computes its
//!   probability.

use crate::models::binomial::Binomials;
use crate::models::committee::Committee;
use crate::models::delay::Times;
use crate::models::grid::{Awaited, Distribution};
use crate::models::latency::Latency;
use crate::models::phases::Messages;

/// Phases of basic HotStuff before DECIDE.
const BASIC_PHASES: u32 = 3;

/// The protocols, by the number of views whose certificates a commit needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Star {
    Basic,
    /// Number of views until the committing certificate: 3 for chained HotStuff, 2 for Jolteon.
    Chained {
        views: u32,
    },
}

/// Success of a request without a timeout.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Probability of at least as many replies as the client needs.
    pub success: f64,
    /// Expected replies, counting 0 for requests that do not commit.
    pub expected_replies: f64,
    /// Messages without loss and without copies: (those with the block, others).
    pub messages: (f64, f64),
    /// Expected messages under loss, in the same form. A failed phase is the last one.
    pub expected_messages: (f64, f64),
}

impl Star {
    /// Returns the success of a request. O(n^2).
    pub fn outcome(self, committee: Committee, messages: Messages, needed: usize) -> Outcome {
        match self {
            Star::Basic => basic_outcome(committee, messages, needed),
            Star::Chained { views } => chained_outcome(committee, messages, needed, views),
        }
    }

    /// Returns the number of consecutive messages from the proposal to the reply.
    pub fn hops(self) -> usize {
        match self {
            Star::Basic => 2 * BASIC_PHASES as usize + 2,
            Star::Chained { views } => 2 * views as usize + 2,
        }
    }

    /// Returns the latency of a request. O(points^2) per phase.
    pub fn latency(self, committee: Committee, times: &Times, needed: usize) -> Latency {
        match self {
            Star::Basic => basic_latency(committee, times, needed),
            Star::Chained { views } => chained_latency(committee, times, needed, views),
        }
    }
}

/// Returns the probability of at least `needed` among `count` events and one more with a chance of its own.
fn with_one(tables: &Binomials, count: usize, chance: f64, one: f64, needed: usize) -> f64 {
    let at_least = |needed: usize| crate::models::grid::at_least(tables, count, chance, needed);
    one * at_least(needed.saturating_sub(1)) + (1.0 - one) * at_least(needed)
}

fn basic_outcome(committee: Committee, messages: Messages, needed: usize) -> Outcome {
    let (active, quorum) = (committee.active(), committee.quorum());
    let (vote, reply) = (messages.vote.probability(), messages.reply.probability());
    let tables = Binomials::new(active);
    let others = (committee.replicas() - 1) as f64;
    let mut outcome = Outcome {
        success: 0.0,
        expected_replies: 0.0,
        messages: (others, (2 * BASIC_PHASES) as f64 * others - (committee.silent() as f64) * 3.0 + active as f64),
        expected_messages: (others, 0.0),
    };
    for informed in 0..active {
        let mut reached = libm::exp(tables.ln_exactly(active - 1, messages.pre_prepare, informed));
        for phase in 0..BASIC_PHASES {
            // In the first phase the replica certainly has the block; in the others the leader's message may be lost,
            // too.
            let chance = if phase == 0 { vote } else { vote * vote };
            let voters = if phase == 0 { informed as f64 } else { informed as f64 * vote };
            outcome.expected_messages.1 += reached * voters;
            reached *= crate::models::grid::at_least(&tables, informed, chance, quorum - 1);
            // The next message of the leader: PRE-COMMIT, COMMIT or DECIDE.
            outcome.expected_messages.1 += reached * others;
        }
        outcome.success += reached * with_one(&tables, informed, vote * reply, reply, needed);
        outcome.expected_replies += reached * reply * (1.0 + informed as f64 * vote);
        outcome.expected_messages.1 += reached * (1.0 + informed as f64 * vote);
    }
    outcome
}

fn chained_outcome(committee: Committee, messages: Messages, needed: usize, views: u32) -> Outcome {
    let (active, quorum) = (committee.active(), committee.quorum());
    let (first, vote) = (messages.pre_prepare.probability(), messages.vote.probability());
    let reply = messages.reply.probability();
    let tables = Binomials::new(active);
    let others = (committee.replicas() - 1) as f64;
    let view = certified(&tables, active, quorum, first, vote);
    let voters = 1.0 + (active.saturating_sub(1)) as f64 * first;
    let (mut reached, mut proposals, mut votes) = (1.0, 0.0, 0.0);
    for _ in 0..views {
        proposals += reached * others;
        // One of the votes is the next leader's own.
        votes += reached * (voters - first).max(0.0);
        reached *= view;
    }
    proposals += reached * others;
    let backups = active.saturating_sub(1);
    let replies = 1.0 + backups as f64 * first;
    Outcome {
        success: reached * with_one(&tables, backups, first * reply, reply, needed),
        expected_replies: reached * reply * replies,
        messages: (f64::from(views + 1) * others, f64::from(views) * backups as f64 + active as f64),
        expected_messages: (proposals, votes + reached * replies),
    }
}

/// Returns the probability that a view's votes reach a quorum at the next leader. Its own vote only needs the proposal,
/// the last leader's only the vote's arrival, and the other replicas' both.
fn certified(tables: &Binomials, active: usize, quorum: usize, first: f64, vote: f64) -> f64 {
    let Some(others) = active.checked_sub(2) else { return 1.0 };
    let with = |own: usize| with_one(tables, others, first * vote, vote, quorum.saturating_sub(own));
    first * with(1) + (1.0 - first) * with(0)
}

fn basic_latency(committee: Committee, times: &Times, needed: usize) -> Latency {
    let (active, quorum) = (committee.active(), committee.quorum());
    let tables = Binomials::new(active);
    let grid = times.vote.grid();
    let informed_at = times.pre_prepare.clone().given_that_it_comes();
    let first = informed_at.then(&times.vote);
    let both = times.vote.then(&times.vote);
    let answered = times.vote.then(&times.reply);
    let mut all = Latency {
        commit: Distribution::never(grid),
        quorum: Distribution::never(grid),
        reply: Distribution::never(grid),
    };
    let weights: Vec<f64> = {
        let chance = times.pre_prepare.total().min(1.0);
        let exactly = |informed: usize| {
            let least = |count: usize| crate::models::grid::at_least(&tables, active - 1, chance, count);
            least(informed) - least(informed + 1)
        };
        (0..active).map(exactly).collect()
    };
    for (informed, weight) in crate::models::latency::groups(&weights, MAX_INFORMED) {
        let of = |distribution: &Distribution| awaited(&tables, (informed, distribution), &[], quorum - 1);
        let later = of(&both);
        let decided = of(&first).then(&later).then(&later).scaled(weight);
        if decided.total() <= 0.0 {
            continue;
        }
        let now = Distribution::constant(grid, 0.0);
        let share = 1.0 / active as f64;
        all.commit.add(&decided.clone().scaled(share));
        all.commit.add(&decided.then(&times.vote).scaled(informed as f64 * share));
        let own = awaited(&tables, (informed, &times.vote), &[&now], quorum);
        all.quorum.add(&decided.then(&own));
        let replies = awaited(&tables, (informed, &answered), &[&times.reply], needed);
        all.reply.add(&decided.then(&replies));
    }
    all
}

/// Returns the distribution of the time at which `needed` of some events of one kind and some single ones have
/// happened.
fn awaited(tables: &Binomials, many: (usize, &Distribution), single: &[&Distribution], needed: usize) -> Distribution {
    Awaited { groups: &[many, (0, many.1)], single }.at_least(needed, tables)
}

/// Maximum number of distinguished counts of replicas with the proposal.
const MAX_INFORMED: usize = 24;

fn chained_latency(committee: Committee, times: &Times, needed: usize, views: u32) -> Latency {
    let (active, quorum) = (committee.active(), committee.quorum());
    let tables = Binomials::new(active);
    let grid = times.vote.grid();
    let now = Distribution::constant(grid, 0.0);
    let view = match active.checked_sub(2) {
        None => now.clone(),
        Some(others) => {
            let voted = times.pre_prepare.then(&times.vote);
            let single = [&times.vote, &times.pre_prepare];
            awaited(&tables, (others, &voted), &single, quorum)
        }
    };
    let decided = (0..views).fold(now.clone(), |sum, _| sum.then(&view));
    let backups = active - 1;
    let shown = awaited(&tables, (backups, &times.pre_prepare), &[&now], quorum);
    let answered = times.pre_prepare.then(&times.reply);
    let replies = awaited(&tables, (backups, &answered), &[&times.reply], needed);
    let mut commit = decided.clone();
    commit.add(&decided.then(&times.pre_prepare).scaled(backups as f64));
    Latency { commit: commit.scaled(1.0 / active as f64), quorum: decided.then(&shown), reply: decided.then(&replies) }
}
