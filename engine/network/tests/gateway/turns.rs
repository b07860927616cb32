//! Scheduling of links: others wait for at most one round, however expensive a link is, and nothing is lost.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_network::gateway::budget::{ANSWER_BYTE_NS, STRANGERS_NS_PER_TURN, answer_cost_ns};
use quorate_network::gateway::turns::{MAX_DEBT_NS, QUANTUM_NS, Standing, Turns};
use std::collections::BTreeMap;

/// Returns the nanoseconds of work for flooding links before a single request of another link is served.
fn work_before_request(flooding_links: u32, cost_ns: u64) -> u64 {
    let mut turns: Turns<u32, u32> = Turns::default();
    for link in 1..=flooding_links {
        (0..1_000).for_each(|item| turns.push(link, item));
    }
    turns.push(0, 0);
    let mut work = 0;
    loop {
        let (link, _) = turns.next(Standing::Stranger).expect("the request waits");
        if link == 0 {
            return work;
        }
        turns.charge(link, cost_ns);
        work += cost_ns;
    }
}

#[test]
fn a_request_waits_for_at_most_one_round() {
    for links in [1, 10, 500] {
        for cost in [1_000, 50_000, 6_400_000] {
            let most = u64::from(links) * (QUANTUM_NS + cost);
            let work = work_before_request(links, cost);
            assert!(work <= most, "{links} links at {cost} ns: {work} ns of other work, at most {most}");
        }
    }
}

#[test]
fn expensive_and_cheap_links_get_equal_time() {
    let mut turns: Turns<u32, ()> = Turns::default();
    let costs = BTreeMap::from([(1, 10_000), (2, 100_000), (3, 3_000_000)]);
    for link in costs.keys() {
        (0..100_000).for_each(|_| turns.push(*link, ()));
    }
    let mut work: BTreeMap<u32, u64> = BTreeMap::new();
    while work.values().sum::<u64>() < 600_000_000 {
        let (link, ()) = turns.next(Standing::Stranger).expect("all links have items");
        turns.charge(link, costs[&link]);
        *work.entry(link).or_default() += costs[&link];
    }
    let (least, most) = (work.values().min().expect("three"), work.values().max().expect("three"));
    assert!(most - least <= 2 * 3_000_000 + QUANTUM_NS, "{work:?}");
}

#[test]
fn sending_one_request_at_a_time_costs_the_same() {
    let mut turns: Turns<u32, ()> = Turns::default();
    let mut served = [0_u64; 2];
    (0..100_000).for_each(|_| turns.push(0, ()));
    // Link 1 sends one expensive request at a time, waiting for each answer, so its queue is empty each time.
    turns.push(1, ());
    for _ in 0..10_000 {
        let (link, ()) = turns.next(Standing::Stranger).expect("link 0 has items");
        let cost = [10_000, 2_000_000][link as usize];
        turns.charge(link, cost);
        served[link as usize] += cost;
        if link == 1 {
            turns.push(1, ());
        }
    }
    assert!(served[1] <= served[0] + 2 * 2_000_000, "{served:?}");
}

#[test]
fn genuine_links_have_a_separate_round() {
    let mut turns: Turns<u32, u32> = Turns::default();
    for link in 1..=500 {
        turns.push(link, 0);
    }
    turns.push(0, 7);
    turns.set_standing(0, Standing::Genuine);
    assert_eq!(turns.next(Standing::Genuine), Some((0, 7)));
    assert_eq!(turns.next(Standing::Genuine), None);
    turns.push(0, 8);
    turns.set_standing(0, Standing::Stranger);
    assert_eq!(turns.next(Standing::Genuine), None);
    let rest: Vec<u32> = std::iter::from_fn(|| turns.next(Standing::Stranger)).map(|(link, _)| link).collect();
    assert_eq!((rest.len(), rest.last()), (501, Some(&0)), "a link that lost its standing goes to the back");
}

#[test]
fn the_queue_is_removed_with_its_link() {
    let mut turns: Turns<u32, u32> = Turns::default();
    (0..70_000).for_each(|item| turns.push(1, item));
    turns.push(2, 5);
    turns.forget(1);
    assert_eq!(turns.next(Standing::Stranger), Some((2, 5)));
    assert!(turns.is_empty());
    turns.charge(1, 1);
    turns.set_standing(1, Standing::Genuine);
    assert_eq!(turns.standing(1), Standing::Stranger, "a removed link left its standing behind");
}

#[test]
fn a_resumed_link_is_served_in_order() {
    let mut turns: Turns<u32, u32> = Turns::default();
    (0..3).for_each(|item| turns.push(1, item));
    let (link, item) = turns.next(Standing::Stranger).expect("three wait");
    turns.park(link, item);
    turns.push(1, 3);
    assert!(turns.is_empty(), "no link waits for a turn");
    turns.resume(|_| false);
    assert_eq!(turns.next(Standing::Stranger), None);
    turns.resume(|_| true);
    let order: Vec<u32> = std::iter::from_fn(|| turns.next(Standing::Stranger)).map(|(_, item)| item).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Serve(bool, u64),
    Stand(u8, bool),
    Park(bool),
    Resume(u8),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8).prop_map(Step::Push),
        4 => (any::<bool>(), 0..2 * MAX_DEBT_NS).prop_map(|(genuine, cost)| Step::Serve(genuine, cost)),
        1 => (0..6u8, any::<bool>()).prop_map(|(link, genuine)| Step::Stand(link, genuine)),
        1 => any::<bool>().prop_map(Step::Park),
        1 => (0..6u8).prop_map(Step::Resume),
        1 => (0..6u8).prop_map(Step::Forget),
    ]
}

fn standing(genuine: bool) -> Standing {
    if genuine { Standing::Genuine } else { Standing::Stranger }
}

proptest! {
    /// Compares with a model of plain queues: each link's items come out once and in order.
    #[test]
    fn nothing_is_lost_or_served_twice(steps in vec(step(), 0..300)) {
        let mut turns: Turns<u8, u64> = Turns::default();
        let mut model: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        let mut number = 0;
        let take = |model: &mut BTreeMap<u8, Vec<u64>>, link: u8, item: u64| {
            let queue = model.get_mut(&link).expect("only pushed items are served");
            assert_eq!(queue.remove(0), item);
        };
        for step in steps {
            match step {
                Step::Push(link) => {
                    number += 1;
                    turns.push(link, number);
                    model.entry(link).or_default().push(number);
                }
                Step::Serve(genuine, cost) => {
                    if let Some((link, item)) = turns.next(standing(genuine)) {
                        prop_assert_eq!(turns.standing(link), standing(genuine));
                        take(&mut model, link, item);
                        turns.charge(link, cost);
                    }
                }
                Step::Stand(link, genuine) => turns.set_standing(link, standing(genuine)),
                Step::Park(genuine) => {
                    if let Some((link, item)) = turns.next(standing(genuine)) {
                        turns.park(link, item);
                    }
                }
                Step::Resume(link) => turns.resume(|parked| parked == link),
                Step::Forget(link) => {
                    turns.forget(link);
                    model.remove(&link);
                }
            }
        }
        turns.resume(|_| true);
        for genuine in [true, false] {
            while let Some((link, item)) = turns.next(standing(genuine)) {
                take(&mut model, link, item);
            }
        }
        prop_assert!(turns.is_empty() && model.values().all(Vec::is_empty), "left over: {:?}", model);
    }
}

/// Links that request long answers and do not read them. A new link waits for the bytes produced and sent before its
/// turn, not only for the time spent producing them.
#[test]
fn long_answers_delay_a_newcomer_by_one_for_each_link() {
    const LINKS: usize = 443;
    const ANSWER_BYTES: usize = 100_000;
    /// Time to copy an answer at 5 GB/s.
    const MAKING_NS: u64 = 20_000;
    let mut turns = Turns::default();
    for link in 0..LINKS {
        (0..700).for_each(|_| turns.push(link, ANSWER_BYTES));
    }
    turns.push(LINKS, 0);
    let (mut made, mut most_in_a_turn) = (0, 0);
    'turns: loop {
        let (mut spent_ns, mut in_this_turn) = (0, 0);
        while spent_ns < STRANGERS_NS_PER_TURN {
            let (link, bytes) = turns.next(Standing::Stranger).expect("all of them wait");
            if link == LINKS {
                break 'turns;
            }
            let cost_ns = answer_cost_ns(MAKING_NS, bytes);
            turns.charge(link, cost_ns);
            spent_ns += cost_ns;
            in_this_turn += bytes;
        }
        made += in_this_turn;
        most_in_a_turn = most_in_a_turn.max(in_this_turn);
    }
    assert!(made <= LINKS * ANSWER_BYTES, "{made} bytes are made before the newcomer's turn");
    let most = (STRANGERS_NS_PER_TURN / ANSWER_BYTE_NS) as usize + ANSWER_BYTES;
    assert!(most_in_a_turn <= most, "{most_in_a_turn} bytes are made in one turn");
}
