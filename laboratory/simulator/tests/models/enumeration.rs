//! Equation 1, compared with an enumeration of every fate of every message for n = 4 and below. Shares no code with the
//! formulas.

use quorate_simulator::models::{Chance, Committee, Counting, Messages, Phases};

/// Chances of the three kinds of messages: PRE-PREPARE, vote, reply.
type Arrivals = [f64; 3];

/// Calls `see` with each set of delivering links, as bits, and its probability.
fn fates(links: usize, chance: f64, mut see: impl FnMut(u32, f64)) {
    for set in 0..1u32 << links {
        let there = set.count_ones() as i32;
        see(set, chance.powi(there) * (1.0 - chance).powi(links as i32 - there));
    }
}

/// Returns the replicas among `among` that hold at least `needed` votes including their own, if `senders` vote and the
/// links in `set` deliver. Links are numbered by sender and receiver; `held` are votes that a replica has by other
/// means.
fn with_votes(n: usize, among: u32, senders: u32, set: u32, held: impl Fn(usize) -> usize, needed: usize) -> u32 {
    let mut reached = 0;
    for to in (0..n).filter(|to| among >> to & 1 == 1) {
        let mut votes = 1 + held(to);
        let mut link = 0;
        for from in 0..n {
            for other in (0..n).filter(|other| *other != from) {
                let delivers = set >> link & 1 == 1;
                link += 1;
                votes += usize::from(delivers && other == to && senders >> from & 1 == 1);
            }
        }
        if votes >= needed {
            reached |= 1 << to;
        }
    }
    reached
}

/// Returns P(S = s, J = j, K = k, M = m), indexed in this order, for `n` replicas. The last `silent` of them send
/// nothing; replica 0 is the primary.
fn enumerate(n: usize, silent: usize, quorum: usize, counting: Counting, arrivals: Arrivals) -> Vec<f64> {
    let active = n - silent;
    let side = n + 1;
    let links = active * (active - 1);
    let mut of_prepared = vec![0.0; (1 << n) * side];
    fates(active - 1, arrivals[0], |given, weight| {
        let informed = given << 1 | 1;
        fates(links, arrivals[1], |set, chance| {
            let prepared = match counting {
                Counting::Paper => with_votes(active, informed, informed, set, |_| 0, quorum),
                Counting::Engine => with_votes(active, informed, informed & !1, set, |to| usize::from(to > 0), quorum),
            };
            of_prepared[prepared as usize * side + given.count_ones() as usize] += weight * chance;
        });
    });
    let mut joint = vec![0.0; side.pow(4)];
    for prepared in 0..1u32 << active {
        let mut of_committed = vec![0.0; side];
        fates(links, arrivals[1], |set, chance| {
            let committed = with_votes(active, prepared, prepared, set, |_| 0, quorum);
            of_committed[committed.count_ones() as usize] += chance;
        });
        let k = prepared.count_ones() as usize;
        for (j, chance) in of_committed.iter().enumerate() {
            fates(j, arrivals[2], |replies, fate| {
                let s = replies.count_ones() as usize;
                for m in 0..side {
                    let at = ((s * side + j) * side + k) * side + m;
                    joint[at] += of_prepared[prepared as usize * side + m] * chance * fate;
                }
            });
        }
    }
    joint
}

fn chances([pre_prepare, vote, reply]: Arrivals) -> Messages {
    Messages { pre_prepare: Chance::of(pre_prepare), vote: Chance::of(vote), reply: Chance::of(reply) }
}

/// Compares every entry of the joint distribution, and the sums over it.
fn compare(n: usize, faults: usize, silent: usize, quorum: Option<usize>, counting: Counting, arrivals: Arrivals) {
    let mut committee = Committee::new(n, faults).and_then(|own| own.with_silent(silent)).expect("a committee");
    if let Some(quorum) = quorum {
        committee = committee.with_quorum(quorum).expect("a quorum");
    }
    let phases = Phases::new(committee, counting, chances(arrivals));
    let enumerated = enumerate(n, silent, committee.quorum(), counting, arrivals);
    let side = n + 1;
    let (mut total, mut success, mut expected, mut committed) = (0.0, 0.0, 0.0, 0.0);
    for (at, wanted) in enumerated.iter().enumerate() {
        let [s, j, k, m] = [at / side.pow(3), at / side.pow(2) % side, at / side % side, at % side];
        let ours = phases.joint(s, j, k, m);
        assert!((ours - wanted).abs() < 1e-12, "n {n} {counting} s {s} j {j} k {k} m {m}: {ours} for {wanted}");
        total += wanted;
        success += if s >= committee.strong() { *wanted } else { 0.0 };
        committed += if j >= committee.quorum() { *wanted } else { 0.0 };
        expected += if j >= committee.quorum() { s as f64 * wanted } else { 0.0 };
    }
    assert!((total - 1.0).abs() < 1e-12, "{total}");
    assert!((phases.replies_at_least(committee.strong()) - success).abs() < 1e-12);
    assert!((phases.committed_at_least(committee.quorum()) - committed).abs() < 1e-12);
    assert!((phases.expected_replies() - expected).abs() < 1e-11);
    assert!(phases.lower_bound() <= expected + 1e-12, "{} above {expected}", phases.lower_bound());
}

#[test]
fn four_replicas_behave_as_enumerated() {
    for counting in Counting::ALL {
        for arrival in [0.3, 0.7, 0.9, 0.99] {
            compare(4, 1, 0, None, *counting, [arrival; 3]);
        }
        compare(4, 1, 0, None, *counting, [0.98, 0.8, 0.6]);
    }
}

#[test]
fn silent_replicas_small_committees_and_other_quorums_behave_as_enumerated() {
    for counting in Counting::ALL {
        compare(4, 1, 1, None, *counting, [0.95, 0.9, 0.85]);
        compare(4, 0, 1, None, *counting, [0.95, 0.9, 0.85]);
        compare(4, 1, 2, None, *counting, [0.95, 0.9, 0.85]);
        compare(4, 0, 0, Some(2), *counting, [0.6, 0.7, 0.8]);
        compare(4, 0, 0, Some(1), *counting, [0.6, 0.7, 0.8]);
        compare(3, 0, 0, None, *counting, [0.6, 0.7, 0.8]);
        compare(2, 0, 0, None, *counting, [0.6, 0.7, 0.8]);
        compare(1, 0, 0, None, *counting, [0.6, 0.7, 0.8]);
    }
}

/// The two ways of counting differ under heavy loss, so testing one does not test the other.
#[test]
fn the_ways_of_counting_differ() {
    let committee = Committee::new(4, 1).expect("a committee");
    let of = |counting| Phases::new(committee, counting, Messages::alike(Chance::of_loss(0.1))).replies_at_least(3);
    let (paper, engine) = (of(Counting::Paper), of(Counting::Engine));
    assert!(engine > paper + 0.01, "{engine} against {paper}");
}
