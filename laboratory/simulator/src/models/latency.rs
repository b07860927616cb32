//! Latency of PBFT, which the paper does not derive: order statistics of the phases, computed numerically.
//!
//! Time starts when the primary sends PRE-PREPARE. T is the arrival time of a backup's PRE-PREPARE, distributed like
//! any message; D is a vote's delay; and O(k, X..) is the time at which k of the events X.. have happened.
//!
//! 1. A backup's PREPARE arrives elsewhere at T + D. A backup prepares at P = max(T, O(Q-1, others' T + D, primary's
//!    D)); the primary at O(Q-1, T + D). In the engine's counting, the primary's PREPARE is T itself.
//! 2. A prepared replica's COMMIT arrives elsewhere at P + D. It commits at C = max(P, O(Q-1, others' P + D)).
//! 3. The client has its replies at O(w, C + D).
//!
//! All replicas wait for the same T and the same P, so their times are not independent: a backup that the PRE-PREPARE
//! reaches late, or never, is late for all others. This is most of the dependence, and it is modelled: in both phases
//! the replicas are split into *early* and *late* ones, the numbers of early ones have their joint distribution, and
//! only conditionally on these numbers are the times treated as independent. Over datagrams, received messages are
//! early and lost ones are infinitely late, so the probabilities follow equation 1. Over streams, retransmitted
//! messages are late. The tests compare the result with a simulation of single messages, and state the error.

use crate::models::binomial::Binomials;
use crate::models::channel::Transport;
use crate::models::committee::Counting;
use crate::models::delay::{Links, Times};
use crate::models::grid::{Awaited, Distribution};
use crate::models::phases::Phases;
use serde::{Deserialize, Serialize};

/// Maximum numbers of early replicas distinguished in the two phases, over datagrams and over streams; neighbouring
/// numbers are merged.
const DATAGRAM_NUMBERS: [usize; 2] = [24, 24];
const STREAM_NUMBERS: [usize; 2] = [8, 5];
/// Probability below which a number is left out.
const NEGLIGIBLE: f64 = 1e-9;
/// Consecutive messages until a replica is prepared.
const HOPS_TO_PREPARED: f64 = 2.0;

/// Grid points for datagrams, whose delays are all similar: a step of half a millisecond at a delay of 40 ms +- 10.
const DATAGRAM_POINTS: usize = 1024;
/// Grid points for streams, whose timeouts are much longer than the delays.
const STREAM_POINTS: usize = 8192;

/// Returns the number of points that these links need for an error below 1 %.
pub fn points(links: &Links) -> usize {
    match links.channel.transport {
        Transport::Udp => DATAGRAM_POINTS,
        Transport::Tcp => STREAM_POINTS,
    }
}

/// Times of a request, counted from the leader's proposal. Infinite times are missing from the total mass.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Commit time of a replica, averaged over the replicas that are not silent.
    pub commit: Distribution,
    /// Time at which a quorum has committed.
    pub quorum: Distribution,
    /// Time at which the client has the replies that it needs.
    pub reply: Distribution,
}

/// Returns the latency of PBFT. `needed` is the number of replies for which the client waits.
///
/// O(points^2) for each of at most 24 x 24 pairs of numbers.
pub fn of_pbft(phases: &Phases, links: &Links, times: &Times, needed: usize) -> Latency {
    let stream = links.channel.transport == Transport::Tcp;
    let numbers = if stream { STREAM_NUMBERS } else { DATAGRAM_NUMBERS };
    // Later arrivals were retransmitted, unless delays vary as much as a timeout, in which case any cut is valid.
    let cuts = match stream {
        true => [links.timeout_ms(), links.timeout_ms().max(HOPS_TO_PREPARED * links.delay.mean_ms())],
        false => [f64::INFINITY; 2],
    };
    let tables = Binomials::new(phases.committee().active() + 1);
    let run = Run { phases, times, tables, needed, cut_ms: cuts[1], numbers: numbers[1] };
    let grid = times.vote.grid();
    let mut all = Latency {
        commit: Distribution::never(grid),
        quorum: Distribution::never(grid),
        reply: Distribution::never(grid),
    };
    let (early, late) = times.pre_prepare.split(cuts[0]);
    let backups = phases.committee().active() - 1;
    let informed = run.binomial(backups, early.total());
    let kinds = Kinds::of(early, late, &times.vote);
    for (count, weight) in groups(&informed, numbers[0]) {
        run.add_prepared(&kinds, [count, backups - count], weight, &mut all);
    }
    all
}

/// Early and late times of the same event at different replicas, each conditioned on being early or late, and including
/// a vote's delay. Late ones may be infinite.
struct Kinds {
    early: Distribution,
    late: Distribution,
    early_vote: Distribution,
    late_vote: Distribution,
}

impl Kinds {
    fn of(early: Distribution, late: Distribution, vote: &Distribution) -> Kinds {
        let share = early.total().min(1.0);
        let early = early.given_that_it_comes();
        let late = if share < 1.0 { late.scaled(1.0 / (1.0 - share)) } else { late };
        Kinds { early_vote: early.then(vote), late_vote: late.then(vote), early, late }
    }
}

struct Run<'a> {
    phases: &'a Phases,
    times: &'a Times,
    tables: Binomials,
    needed: usize,
    /// Latest time at which a replica counts as prepared early.
    cut_ms: f64,
    /// Maximum number of distinguished numbers of early prepared replicas.
    numbers: usize,
}

impl Run<'_> {
    fn binomial(&self, count: usize, chance: f64) -> Vec<f64> {
        let chance = crate::models::chance::Chance::of(chance.clamp(0.0, 1.0));
        (0..=count).map(|hits| libm::exp(self.tables.ln_exactly(count, chance, hits))).collect()
    }

    /// Returns the distribution of the time at which `needed` votes have arrived, among `early` and `late` ones and a
    /// single one.
    fn votes(&self, kinds: &Kinds, early: usize, late: usize, single: &[&Distribution], needed: usize) -> Distribution {
        let awaited = Awaited { groups: &[(early, &kinds.early_vote), (late, &kinds.late_vote)], single };
        awaited.at_least(needed, &self.tables)
    }

    /// Adds the latency conditioned on the numbers of backups with an early and with a late PRE-PREPARE.
    fn add_prepared(&self, kinds: &Kinds, [early, late]: [usize; 2], weight: f64, all: &mut Latency) {
        let quorum = self.phases.committee().quorum();
        let (single, needed) = match self.phases.counting() {
            Counting::Paper => (vec![&self.times.vote], quorum - 1),
            Counting::Engine => (Vec::new(), quorum.saturating_sub(2)),
        };
        let (primary, mut others) = self.votes(kinds, early, late, &[], quorum - 1).split(self.cut_ms);
        let mut prepared = primary.clone();
        let mut of_backup = 0.0;
        if early > 0 {
            let own = later(&kinds.early, &self.votes(kinds, early - 1, late, &single, needed));
            let (in_time, rest) = own.split(self.cut_ms);
            of_backup = in_time.total();
            prepared.add(&in_time.scaled(early as f64));
            others.add(&rest.scaled(early as f64));
        }
        if late > 0 && kinds.late.total() > 0.0 {
            let own = later(&kinds.late, &self.votes(kinds, early, late - 1, &single, needed));
            others.add(&own.scaled(late as f64));
        }
        // Expected numbers of early and late replicas; the distributions are for one replica of each kind.
        let active = self.phases.committee().active() as f64;
        let expected = early as f64 * of_backup + primary.total();
        let share = if expected > 0.0 { 1.0 / expected } else { 0.0 };
        let rest = if active > expected { 1.0 / (active - expected) } else { 0.0 };
        let (prepared, others) = (prepared.scaled(share), others.scaled(rest));
        let vote = &self.times.vote;
        let kinds =
            Kinds { early_vote: prepared.then(vote), late_vote: others.then(vote), early: prepared, late: others };
        let of_backups = self.binomial(early, of_backup);
        let of_primary = primary.total().min(1.0);
        let count = |number: usize| {
            let without = of_backups.get(number).copied().unwrap_or(0.0) * (1.0 - of_primary);
            let with = number.checked_sub(1).and_then(|others| of_backups.get(others)).copied().unwrap_or(0.0);
            without + with * of_primary
        };
        let counts: Vec<f64> = (0..=early + 1).map(count).collect();
        for (number, share) in groups(&counts, self.numbers) {
            self.add_committed(&kinds, number, weight * share, all);
        }
    }

    /// Adds the latency conditioned on the number of replicas that prepare early; all others prepare late or never.
    fn add_committed(&self, kinds: &Kinds, early: usize, weight: f64, all: &mut Latency) {
        let committee = self.phases.committee();
        let (quorum, active) = (committee.quorum(), committee.active());
        let late = if kinds.late.total() > 0.0 { active - early } else { 0 };
        if early + late < quorum {
            return;
        }
        let grid = self.times.vote.grid();
        let of_early = match early.checked_sub(1) {
            Some(others) => later(&kinds.early, &self.votes(kinds, others, late, &[], quorum - 1)),
            None => Distribution::never(grid),
        };
        let of_late = match late.checked_sub(1) {
            Some(others) => later(&kinds.late, &self.votes(kinds, early, others, &[], quorum - 1)),
            None => Distribution::never(grid),
        };
        let share = weight / active as f64;
        all.commit.add(&of_early.clone().scaled(early as f64 * share));
        all.commit.add(&of_late.clone().scaled(late as f64 * share));
        let at_least = |a: &Distribution, b: &Distribution, count: usize| {
            let awaited = Awaited { groups: &[(early, a), (late, b)], single: &[] };
            awaited.at_least(count, &self.tables).scaled(weight)
        };
        all.quorum.add(&at_least(&of_early, &of_late, quorum));
        let replies = [of_early.then(&self.times.reply), of_late.then(&self.times.reply)];
        all.reply.add(&at_least(&replies[0], &replies[1], self.needed));
    }
}

/// Returns the distribution of the maximum of two independent times.
fn later(a: &Distribution, b: &Distribution) -> Distribution {
    let cumulative: Vec<f64> = a.cumulative().iter().zip(b.cumulative()).map(|(a, b)| a * b).collect();
    Distribution::from_cumulative(a.grid(), &cumulative, a.total() * b.total())
}

/// Returns numbers with their probabilities, merging neighbours so that at most `most` remain.
pub(crate) fn groups(weights: &[f64], most: usize) -> Vec<(usize, f64)> {
    let likely: Vec<(usize, f64)> =
        weights.iter().copied().enumerate().filter(|(_, weight)| *weight > NEGLIGIBLE).collect();
    let together = likely.len().div_ceil(most).max(1);
    let merge = |group: &[(usize, f64)]| {
        let weight: f64 = group.iter().map(|(_, weight)| weight).sum();
        let mean = group.iter().map(|(number, own)| *number as f64 * own).sum::<f64>() / weight;
        (mean.round() as usize, weight)
    };
    likely.chunks(together).map(merge).collect()
}

/// Mean and percentiles of a time in ms, conditioned on a finite time; `None` if it is always infinite, or beyond the
/// grid.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Percentiles {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
}

impl Percentiles {
    /// Returns the mean and percentiles of a distribution.
    pub fn of(distribution: &Distribution) -> Percentiles {
        let at = |share| distribution.quantile_ms(share);
        Percentiles { mean: distribution.mean_ms(), p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}
