//! Properties of equation 1: monotonicity, limits, speed and the paper's own numbers.

use quorate_simulator::models::{Chance, Channel, Committee, Counting, MAX_REPLICAS, Messages, Phases, traffic};
use quorate_types::Quorum;
use std::time::{Duration, Instant};

fn committee(replicas: usize, faults: usize) -> Committee {
    Committee::new(replicas, faults).expect("a committee")
}

fn phases(replicas: usize, faults: usize, loss: f64) -> Phases {
    Phases::new(committee(replicas, faults), Counting::Paper, Channel::udp(loss).messages())
}

fn success(replicas: usize, faults: usize, loss: f64) -> f64 {
    phases(replicas, faults, loss).replies_at_least(2 * faults + 1)
}

#[test]
fn a_network_without_loss_always_succeeds_and_one_that_loses_all_never() {
    for counting in Counting::ALL {
        for (replicas, faults) in [(1, 0), (4, 1), (6, 1), (100, 33)] {
            let of = |loss| Phases::new(committee(replicas, faults), *counting, Channel::udp(loss).messages());
            assert_eq!(of(0.0).replies_at_least(2 * faults + 1), 1.0);
            assert!((of(0.0).expected_replies() - replicas as f64).abs() < 1e-9);
            assert!((of(0.0).lower_bound() - replicas as f64).abs() < 1e-9 || replicas == 1);
            assert_eq!(of(1.0).replies_at_least(2 * faults + 1), 0.0);
        }
    }
}

/// Properties (i) and (ii) of section II.B: expected replies fall with loss, and with f for the same n.
#[test]
fn expected_replies_fall_with_loss_and_with_faults() {
    let losses: Vec<f64> = (0..=60).map(|step| f64::from(step) / 100.0).collect();
    for replicas in [4, 7, 20, 31] {
        for faults in 0..=(replicas - 1) / 3 {
            let replies: Vec<f64> =
                losses.iter().map(|loss| phases(replicas, faults, *loss).expected_replies()).collect();
            assert!(replies.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12), "n {replicas} f {faults}: {replies:?}");
            if faults > 0 {
                let fewer: Vec<f64> =
                    losses.iter().map(|loss| phases(replicas, faults - 1, *loss).expected_replies()).collect();
                assert!(fewer.iter().zip(&replies).all(|(fewer, more)| *fewer >= more - 1e-12), "n {replicas}");
            }
        }
    }
}

/// Section III.B: adding one replica to 3f+1 raises the quorum and lowers success; adding two raises success.
#[test]
fn replicas_help_in_pairs() {
    for loss in [0.02, 0.05, 0.1] {
        let [four, five, six] = [4, 5, 6].map(|replicas| success(replicas, 1, loss));
        assert!(five < four && six > four, "{loss}: {four} {five} {six}");
    }
}

#[test]
fn the_quorum_is_the_engines() {
    for replicas in 1..=64 {
        for faults in 0..=(replicas - 1) / 3 {
            let engines = Quorum::with_faults(replicas, faults).expect("a quorum");
            assert_eq!(committee(replicas, faults).quorum(), engines.quorum());
        }
    }
}

/// n = 100 in much less than a second, and n = 1000 in a few seconds, in a build without optimization of this crate.
#[test]
fn a_hundred_replicas_take_less_than_a_second() {
    let start = Instant::now();
    let hundred = phases(100, 33, 0.1);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    for of in [hundred.informed(), hundred.prepared(), hundred.committed(), hundred.replies()] {
        assert!((of.iter().sum::<f64>() - 1.0).abs() < 1e-10);
    }
    let start = Instant::now();
    let thousand = phases(MAX_REPLICAS, 333, 0.1);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!((thousand.replies().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let [quorum, mean, most] = [667, 810, 850].map(|least| thousand.replies_at_least(least));
    assert!(quorum > 0.999_999 && (0.4..0.6).contains(&mean) && most < 0.001, "{quorum} {mean} {most}");
}

/// The whole joint distribution at n = 40 adds up to the marginals, entry by entry.
#[test]
fn the_joint_distribution_adds_up_to_its_marginals() {
    for counting in Counting::ALL {
        let own = Phases::new(committee(40, 13), *counting, Channel::udp(0.15).messages());
        let (mut of_replies, mut of_informed) = (vec![0.0; 41], vec![0.0; 40]);
        for (m, informed) in of_informed.iter_mut().enumerate().take(40) {
            for k in 0..=m + 1 {
                for j in 0..=k {
                    for (s, replies) in of_replies.iter_mut().enumerate().take(j + 1) {
                        let weight = own.joint(s, j, k, m);
                        *replies += weight;
                        *informed += weight;
                    }
                }
            }
        }
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11);
        assert!(near(&of_replies, &own.replies()) && near(&of_informed, &own.informed()), "{counting}");
    }
}

#[test]
fn nonsense_is_refused_by_flag() {
    let place = |result: Result<Committee, quorate_types::Fault>| result.expect_err("nonsense").place;
    assert_eq!(place(Committee::new(3, 1)), "--replicas");
    assert_eq!(place(Committee::new(0, 0)), "--replicas");
    assert_eq!(place(Committee::new(MAX_REPLICAS + 1, 1)), "--replicas");
    assert_eq!(place(Committee::new(10, usize::MAX)), "--replicas");
    assert_eq!(place(committee(4, 1).with_silent(4)), "--silent");
    assert_eq!(place(committee(4, 1).with_quorum(5)), "--quorum");
    for loss in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        assert_eq!(Channel::udp(loss).validate().expect_err("nonsense").place, "--loss");
    }
    let repeated = Channel { repeat: 1, ..Channel::tcp(0.1, 1, 3) };
    assert_eq!(repeated.validate().expect_err("nonsense").place, "--repeat");
    assert_eq!(Channel { segments: 0, ..Channel::udp(0.1) }.validate().expect_err("nonsense").place, "--segments");
    assert!(Channel::udp(0.1).validate().is_ok() && Channel::tcp(0.0, 3, 0).validate().is_ok());
}

/// Section III.C: 11 %, 9 % and 7.7 % more messages with one repetition, 53 % more from n = 4 to 5. The text's formula
/// includes the f+1 replies, but its percentages do not.
#[test]
fn the_papers_overheads_leave_the_replies_out() {
    let percent = |replicas: usize| {
        let (once, twice) = (traffic::printed(committee(replicas, 1), 0), traffic::printed(committee(replicas, 1), 1));
        let replies = 2;
        (twice - once) as f64 / (once - replies) as f64 * 100.0
    };
    assert!((percent(4) - 11.0).abs() < 0.5 && (percent(5) - 9.0).abs() < 0.5 && (percent(6) - 7.7).abs() < 0.05);
    let [four, five] = [4, 5].map(|replicas| (traffic::printed(committee(replicas, 1), 0) - 2) as f64);
    assert!(((five / four - 1.0) * 100.0 - 53.0).abs() < 0.5);
}

#[test]
fn traffic_falls_with_loss_and_rises_with_copies() {
    let of = |channel: Channel, counting| {
        traffic::Traffic::of_pbft(&Phases::new(committee(4, 1), counting, channel.messages()), &channel)
    };
    let clean = of(Channel::udp(0.0), Counting::Paper);
    // 3 PRE-PREPAREs, twice 4 times 3 votes, 4 replies.
    assert!((clean.without_loss - 31.0).abs() < 1e-9 && (clean.expected - 31.0).abs() < 1e-9, "{clean:?}");
    assert!((of(Channel::udp(0.0), Counting::Engine).expected - 28.0).abs() < 1e-9);
    assert!(of(Channel::udp(0.2), Counting::Paper).expected < 31.0);
    let repeated = of(Channel { pre_prepare_repeat: 1, ..Channel::udp(0.0) }, Counting::Paper);
    assert!((repeated.expected - 34.0).abs() < 1e-9);
    assert!((of(Channel { repeat: 1, ..Channel::udp(0.0) }, Counting::Paper).expected - 62.0).abs() < 1e-9);
}

/// The condition M >= 2f+1 as printed, which counts backups where the other conditions count replicas: equation 2 is a
/// bound without it, but not with it.
#[test]
fn the_printed_condition_on_pre_prepares_would_break_the_bound() {
    let own = Phases::new(committee(4, 1), Counting::Paper, Messages::alike(Chance::of_loss(0.01)));
    let mut printed = 0.0;
    for m in 3..4 {
        for k in 3..=m + 1 {
            for j in 3..=k {
                printed += (0..=j).map(|s| s as f64 * own.joint(s, j, k, m)).sum::<f64>();
            }
        }
    }
    assert!(own.lower_bound() <= own.expected_replies());
    assert!(own.lower_bound() > printed, "{} for {printed}", own.lower_bound());
}
