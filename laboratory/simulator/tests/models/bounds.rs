//! Equations 2 to 7: bounds stay below the exact values, and the repetitions that they require suffice.

use quorate_simulator::models::{Channel, Committee, Counting, Phases, Transport};

fn committee(replicas: usize, faults: usize) -> Committee {
    Committee::new(replicas, faults).expect("a committee")
}

const COMMITTEES: &[(usize, usize)] = &[(4, 1), (5, 1), (6, 1), (7, 2), (8, 1), (13, 4), (20, 6), (31, 10), (61, 20)];

#[test]
fn the_bound_of_equation_2_lies_below_the_exact_value_everywhere() {
    for counting in Counting::ALL {
        for (replicas, faults) in COMMITTEES {
            for step in 0..=100 {
                let loss = f64::from(step) / 100.0;
                for repeat in [0, 1, 3] {
                    let channel = Channel { pre_prepare_repeat: repeat, ..Channel::udp(loss) };
                    let own = Phases::new(committee(*replicas, *faults), *counting, channel.messages());
                    let (bound, exact) = (own.lower_bound(), own.expected_replies());
                    assert!(bound <= exact + 1e-9, "n {replicas} f {faults} loss {loss}: {bound} above {exact}");
                }
            }
        }
    }
}

/// Equation 6 counts fewer messages than there are, so it needs a test that it is a bound.
#[test]
fn the_bound_of_equation_6_lies_below_the_exact_value() {
    for (replicas, faults) in COMMITTEES {
        for step in 0..=50 {
            for (segments, retransmissions) in [(1, 0), (1, 2), (4, 1), (10, 5)] {
                let channel = Channel::tcp(f64::from(step) / 100.0, segments, retransmissions);
                let own = Phases::new(committee(*replicas, *faults), Counting::Paper, channel.messages());
                let bound = channel.lower_bound(committee(*replicas, *faults), retransmissions);
                let exact = own.expected_replies();
                assert!(bound <= exact + 1e-9, "n {replicas} {channel:?}: {bound} above {exact}");
            }
        }
    }
}

#[test]
fn the_retransmissions_of_equation_7_suffice_and_equation_1_needs_no_more() {
    for (replicas, faults) in COMMITTEES {
        let own = committee(*replicas, *faults);
        for transport in Transport::ALL {
            for loss in [0.001, 0.01, 0.05, 0.1, 0.3, 0.6] {
                let channel = Channel { transport: *transport, segments: 1, ..Channel::udp(loss) };
                let bound = channel.retransmissions_bound(own).expect("a number suffices");
                let exact = channel.retransmissions_exact(own, Counting::Paper).expect("a number suffices");
                assert!(exact <= bound, "n {replicas} {transport} loss {loss}: {exact} of {bound}");
                assert!(channel.lower_bound(own, bound) >= own.strong() as f64 * (1.0 - 1e-12));
                if bound > 0 {
                    assert!(channel.lower_bound(own, bound - 1) < own.strong() as f64, "the least that suffices");
                }
                let replies = |number: u32| {
                    let repeated = match transport {
                        Transport::Udp => Channel { repeat: number, ..channel },
                        Transport::Tcp => Channel { retransmissions: number, ..channel },
                    };
                    Phases::new(own, Counting::Paper, repeated.messages()).expected_replies()
                };
                assert!(replies(exact) >= own.strong() as f64);
                assert!(exact == 0 || replies(exact - 1) < own.strong() as f64, "the least that suffices");
            }
        }
    }
}

#[test]
fn no_number_of_retransmissions_helps_if_nothing_arrives_or_all_must_answer() {
    let own = committee(4, 1);
    assert_eq!(Channel::udp(1.0).retransmissions_bound(own), None);
    assert_eq!(Channel::udp(1.0).retransmissions_exact(own, Counting::Paper), None);
    let silent = own.with_silent(1).expect("three are left");
    assert_eq!(Channel::udp(0.1).retransmissions_bound(silent), None);
    assert_eq!(Channel::udp(0.0).retransmissions_bound(own), Some(0));
    assert_eq!(Channel::udp(0.0).retransmissions_exact(own, Counting::Paper), Some(0));
}

/// Equations 4 and 5, compared with the products that they abbreviate.
#[test]
fn tcp_retransmits_each_segment_by_itself() {
    let (loss, segments, retransmissions) = (0.2f64, 3, 2);
    let attempt = (1.0 - loss) * (1.0 - loss);
    let segment: f64 = (0..=retransmissions).map(|k| attempt * (1.0 - attempt).powi(k)).sum();
    let channel = Channel::tcp(loss, segments, retransmissions as u32);
    assert!((channel.vote().probability() - segment).abs() < 1e-12);
    assert!((channel.pre_prepare().probability() - segment.powi(3)).abs() < 1e-12);
    let datagrams = Channel { segments, repeat: 1, ..Channel::udp(loss) };
    let copy = (1.0 - loss).powi(3);
    assert!((datagrams.pre_prepare().probability() - (1.0 - (1.0 - copy) * (1.0 - copy))).abs() < 1e-12);
    assert!((datagrams.vote().probability() - (1.0 - loss * loss)).abs() < 1e-12);
}
