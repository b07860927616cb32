//! Equation 1, compared with a simulation of every message. Shares no code with the formulas.

use quorate_simulator::links::{LossProcess, Purpose, Random};
use quorate_simulator::models::{Channel, Committee, Counting, Phases};

/// One request among `active` sending replicas: the numbers of backups with the PRE-PREPARE, of replicas that prepare
/// and commit, and of replies that arrive.
struct Outcome {
    prepared: usize,
    committed: usize,
    replies: usize,
}

/// Number of copies of each message, and the loss of each copy.
#[derive(Clone, Copy)]
struct Links {
    loss: f64,
    copies: u32,
    pre_prepare_copies: u32,
}

fn arrives(random: &mut Random, loss: f64, copies: u32) -> bool {
    (0..copies).fold(false, |there, _| !random.chance(loss) | there)
}

/// Counts, at each replica in `senders`, the received votes of the others, and adds its own.
fn votes(senders: &[bool], voters: &[bool], links: Links, random: &mut Random) -> Vec<usize> {
    let mut counts = vec![0; senders.len()];
    for (to, count) in counts.iter_mut().enumerate().filter(|(to, _)| senders[*to]) {
        let others = (0..voters.len()).filter(|from| *from != to && voters[*from]);
        *count = 1 + others.filter(|_| arrives(random, links.loss, links.copies)).count();
    }
    counts
}

fn play(active: usize, quorum: usize, counting: Counting, links: Links, random: &mut Random) -> Outcome {
    let informed: Vec<bool> =
        (0..active).map(|to| to == 0 || arrives(random, links.loss, links.pre_prepare_copies)).collect();
    let mut voters = informed.clone();
    if counting == Counting::Engine {
        voters[0] = false;
    }
    let mut counts = votes(&informed, &voters, links, random);
    if counting == Counting::Engine {
        counts.iter_mut().skip(1).for_each(|count| *count += 1);
    }
    let prepared: Vec<bool> = counts.iter().zip(&informed).map(|(count, has)| *has && *count >= quorum).collect();
    let counts = votes(&prepared, &prepared, links, random);
    let committed = counts.iter().zip(&prepared).filter(|(count, has)| **has && **count >= quorum).count();
    let replies = (0..committed).filter(|_| arrives(random, links.loss, links.copies)).count();
    Outcome { prepared: prepared.iter().filter(|has| **has).count(), committed, replies }
}

/// Maximum distance, in standard errors, that one of many comparisons may reach by chance.
const MAX_ERRORS: f64 = 4.5;
const REQUESTS: usize = 20_000;

fn compare(committee: Committee, counting: Counting, channel: Channel, seed: u64) {
    let phases = Phases::new(committee, counting, channel.messages());
    let links = Links {
        loss: channel.loss,
        copies: channel.repeat + 1,
        pre_prepare_copies: channel.repeat.max(channel.pre_prepare_repeat) + 1,
    };
    let mut random = Random::new(seed, Purpose::Links, 0);
    let (mut success, mut committed, mut prepared, mut replies, mut squares) = (0, 0, 0, 0.0, 0.0);
    for _ in 0..REQUESTS {
        let outcome = play(committee.active(), committee.quorum(), counting, links, &mut random);
        success += usize::from(outcome.replies >= committee.strong());
        let agreed = outcome.committed >= committee.quorum();
        committed += usize::from(agreed);
        prepared += outcome.prepared;
        let counted = if agreed { outcome.replies as f64 } else { 0.0 };
        replies += counted;
        squares += counted * counted;
    }
    let count = REQUESTS as f64;
    let share = |name: &str, hits: usize, wanted: f64| {
        let error = (wanted * (1.0 - wanted) / count).sqrt().max(1.0 / count);
        let ours = hits as f64 / count;
        assert!(
            (ours - wanted).abs() < MAX_ERRORS * error,
            "{committee:?} {channel:?} {name}: {wanted}, played {ours}"
        );
    };
    share("success", success, phases.replies_at_least(committee.strong()));
    share("committed", committed, phases.committed_at_least(committee.quorum()));
    let mean = replies / count;
    let error = ((squares / count - mean * mean).max(0.0) / count).sqrt().max(1.0 / count);
    let wanted = phases.expected_replies();
    assert!((mean - wanted).abs() < MAX_ERRORS * error, "{committee:?} {channel:?} replies: {wanted}, played {mean}");
    let wanted: f64 = phases.prepared().iter().enumerate().map(|(k, weight)| k as f64 * weight).sum();
    let mean = prepared as f64 / count;
    assert!(
        (mean - wanted).abs() < 0.02 * wanted.max(1.0),
        "{committee:?} {channel:?} prepared: {wanted}, played {mean}"
    );
}

fn committee(replicas: usize, faults: usize) -> Committee {
    Committee::new(replicas, faults).expect("a committee")
}

#[test]
fn played_messages_succeed_as_often_as_equation_1_says() {
    for (number, counting) in Counting::ALL.iter().enumerate() {
        for (at, loss) in [0.02, 0.1, 0.2, 0.3].into_iter().enumerate() {
            let seed = (10 * number + at) as u64;
            compare(committee(20, 6), *counting, Channel::udp(loss), seed);
            compare(committee(7, 2), *counting, Channel::udp(loss), 100 + seed);
            compare(committee(6, 1), *counting, Channel::udp(loss), 200 + seed);
        }
    }
}

#[test]
fn played_repetitions_silence_and_other_quorums_succeed_as_often() {
    for counting in Counting::ALL {
        compare(committee(10, 3), *counting, Channel { repeat: 1, ..Channel::udp(0.25) }, 1);
        compare(committee(10, 3), *counting, Channel { pre_prepare_repeat: 2, ..Channel::udp(0.15) }, 2);
        compare(committee(10, 3), *counting, Channel { repeat: 1, pre_prepare_repeat: 3, ..Channel::udp(0.3) }, 3);
        let silent = committee(11, 2).with_silent(2).expect("some are left");
        compare(silent, *counting, Channel::udp(0.1), 4);
        let printed = committee(20, 6).with_quorum(13).expect("a quorum");
        compare(printed, *counting, Channel::udp(0.2), 5);
    }
}

/// Returns the share of successful requests in the paper's counting, if each ordered pair of replicas has a link with
/// its own burst state, which persists across phases.
pub fn success_in_bursts(committee: Committee, copies: u32, link: &mut dyn FnMut() -> LossProcess) -> f64 {
    const REQUESTS: usize = 4000;
    /// Packets of other traffic between two requests.
    const BETWEEN: u64 = 30;
    let (active, quorum) = (committee.active(), committee.quorum());
    let mut random = Random::new(9, Purpose::Links, 0);
    let mut links: Vec<Vec<LossProcess>> = (0..active).map(|_| (0..=active).map(|_| link()).collect()).collect();
    let mut succeeded = 0;
    for _ in 0..REQUESTS {
        links.iter_mut().flatten().for_each(|own| {
            own.passes(&mut random, BETWEEN);
        });
        let mut sends =
            |from: usize, to: usize| (0..copies).fold(false, |there, _| links[from][to].passes(&mut random, 1) | there);
        let mut ready: Vec<bool> = (0..active).map(|to| to == 0 || sends(0, to)).collect();
        for _ in 0..2 {
            let mut votes = vec![0; active];
            for from in (0..active).filter(|from| ready[*from]) {
                for (to, count) in votes.iter_mut().enumerate() {
                    *count += usize::from(to == from || sends(from, to));
                }
            }
            ready = votes.iter().zip(&ready).map(|(count, has)| *has && *count >= quorum).collect();
        }
        let replies = (0..active).filter(|from| ready[*from] && sends(*from, active)).count();
        succeeded += usize::from(replies >= committee.strong());
    }
    succeeded as f64 / REQUESTS as f64
}
