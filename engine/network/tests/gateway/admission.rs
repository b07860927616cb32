//! Admission of bundles: nothing is refused without load, and the heaviest clients are refused under load.

use proptest::prelude::*;
use quorate_network::gateway::admission::{
    Admission, Amount, INITIAL_CLUSTER_LIMIT_BYTES, Load, MAX_RETRY_MS, MIN_LIMIT_BYTES, MIN_RETRY_MS,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const TARGET: Duration = Duration::from_millis(250);
const REPLICAS: usize = 4;
const TICK_NS: u64 = 10_000_000;
const TICKS_PER_SECOND: u64 = 100;
const BUNDLE: Amount = Amount { commands: 100, bytes: 26_400 };
const ADDRESS: u64 = 7;

/// Replica that executes a fixed number of bundles per ten-millisecond tick, some ticks after they arrived.
struct Server {
    admission: Admission<u64>,
    /// Links of the queued bundles, with their arrival in ticks.
    queue: VecDeque<(u64, u64)>,
    bundles_per_tick: usize,
    delay_ticks: u64,
    tick: u64,
    executed: Amount,
    /// Bundles of other replicas' clients that the cluster executes per tick, and has executed.
    others_per_tick: u64,
    others: u64,
    /// Refused and executed bundles by link, and the longest wait in ticks, since the last reset.
    refused: BTreeMap<u64, u64>,
    done: BTreeMap<u64, u64>,
    longest_wait: u64,
}

impl Server {
    fn new(max_queue: Duration, bundles_per_tick: usize, delay_ticks: u64) -> Server {
        Server {
            admission: Admission::new(max_queue, REPLICAS),
            queue: VecDeque::new(),
            bundles_per_tick,
            delay_ticks,
            tick: 0,
            executed: Amount::default(),
            others_per_tick: 0,
            others: 0,
            refused: BTreeMap::new(),
            done: BTreeMap::new(),
            longest_wait: 0,
        }
    }

    /// Runs a tick in which each of these links sends that many bundles.
    fn tick(&mut self, offered: &[(u64, usize)]) {
        self.tick += 1;
        for _ in 0..self.bundles_per_tick {
            if self.queue.front().is_none_or(|(_, at)| at + self.delay_ticks > self.tick) {
                break;
            }
            let (link, at) = self.queue.pop_front().expect("it was there just now");
            *self.done.entry(link).or_default() += 1;
            self.executed.commands += BUNDLE.commands;
            self.executed.bytes += BUNDLE.bytes;
            self.longest_wait = self.longest_wait.max(self.tick - at);
        }
        self.others += self.others_per_tick;
        let (open, others) = (bundles(self.queue.len() as u64), bundles(self.others));
        let executed_of_all =
            Amount { commands: self.executed.commands + others.commands, bytes: self.executed.bytes + others.bytes };
        self.admission.observe(self.tick * TICK_NS, Load { open, executed: self.executed, executed_of_all });
        let most = offered.iter().map(|(_, count)| *count).max().unwrap_or(0);
        for round in 0..most {
            for (link, _) in offered.iter().filter(|(_, count)| round < *count) {
                if self.admission.admits(*link, ADDRESS, BUNDLE) {
                    self.queue.push_back((*link, self.tick));
                } else {
                    let retry_after_ms = self.admission.refuse(BUNDLE);
                    assert!((MIN_RETRY_MS..=MAX_RETRY_MS).contains(&u64::from(retry_after_ms)));
                    *self.refused.entry(*link).or_default() += 1;
                }
            }
        }
    }

    fn run(&mut self, seconds: u64, offered: &[(u64, usize)]) {
        (0..seconds * TICKS_PER_SECOND).for_each(|_| self.tick(offered));
    }

    fn reset(&mut self) {
        (self.refused, self.done, self.longest_wait) = Default::default();
    }
}

fn bundles(count: u64) -> Amount {
    Amount { commands: count * BUNDLE.commands, bytes: count * BUNDLE.bytes }
}

#[test]
fn a_cluster_within_its_capacity_refuses_nothing() {
    let mut server = Server::new(TARGET, 10, 5);
    server.run(20, &[(1, 5), (2, 2)]);
    assert_eq!(server.refused, BTreeMap::new());
    assert_eq!(server.done.values().sum::<u64>() + server.queue.len() as u64, 20 * TICKS_PER_SECOND * 7);
}

#[test]
fn an_empty_queue_takes_a_bundle_of_any_size() {
    let mut admission: Admission<u64> = Admission::new(TARGET, REPLICAS);
    let large = Amount { commands: 1, bytes: 2 * INITIAL_CLUSTER_LIMIT_BYTES };
    assert!(admission.admits(1, ADDRESS, large));
    assert!(!admission.admits(1, ADDRESS, large), "the first one waits");
}

#[test]
fn without_a_target_nothing_is_refused() {
    let mut server = Server::new(Duration::ZERO, 1, 0);
    server.run(10, &[(1, 30)]);
    assert_eq!(server.refused, BTreeMap::new());
}

#[test]
fn three_times_the_capacity_is_executed_at_full_speed_and_waits_a_bounded_time() {
    let mut server = Server::new(TARGET, 10, 5);
    server.run(10, &[(1, 15), (2, 15)]);
    server.reset();
    server.run(10, &[(1, 15), (2, 15)]);
    let done: u64 = server.done.values().sum();
    assert_eq!(done, 10 * 10 * TICKS_PER_SECOND, "the queue never runs empty");
    let wait = Duration::from_nanos(server.longest_wait * TICK_NS);
    assert!(wait <= TARGET * 3 / 2, "{wait:?}");
    assert!(server.refused.values().sum::<u64>() >= 19 * 10 * TICKS_PER_SECOND);
}

#[test]
fn a_slow_cluster_keeps_as_much_work_as_its_delay_takes() {
    // Half a second from arrival to execution without load: twice the target.
    let mut server = Server::new(TARGET, 10, 50);
    server.run(20, &[(1, 30)]);
    server.reset();
    server.run(10, &[(1, 30)]);
    let done: u64 = server.done.values().sum();
    assert!(done >= 97 * TICKS_PER_SECOND, "{done} of {} bundles", 100 * TICKS_PER_SECOND);
    assert!(server.longest_wait <= 100, "{} ticks", server.longest_wait);
}

#[test]
fn a_cluster_whose_leader_moves_away_recovers() {
    let mut server = Server::new(TARGET, 10, 20);
    server.run(10, &[(1, 30)]);
    server.delay_ticks = 48;
    server.run(20, &[(1, 30)]);
    server.reset();
    server.run(10, &[(1, 30)]);
    let done: u64 = server.done.values().sum();
    assert!(done >= 95 * TICKS_PER_SECOND, "{done} of {} bundles", 100 * TICKS_PER_SECOND);
    assert!(server.longest_wait <= 150, "{} ticks", server.longest_wait);
}

#[test]
fn light_clients_lose_nothing_to_one_that_sends_ten_times_as_much() {
    let mut server = Server::new(TARGET, 12, 5);
    let offered: Vec<(u64, usize)> = (0..10).map(|link| (link, if link == 0 { 10 } else { 1 })).collect();
    server.run(10, &offered);
    server.reset();
    server.run(10, &offered);
    assert_eq!(server.refused.keys().copied().collect::<Vec<_>>(), [0], "only the heavy one is refused");
    let heavy = server.done[&0];
    assert!(heavy >= 28 * TICKS_PER_SECOND, "it gets what the others leave: {heavy}");
    let light: u64 = (1..10).map(|link| server.done[&link]).sum();
    assert!(light >= 89 * TICKS_PER_SECOND, "{light}");
}

#[test]
fn reconnecting_gains_one_bundle_each_time() {
    let mut admission: Admission<u64> = Admission::new(TARGET, REPLICAS);
    while admission.admits(1, ADDRESS, BUNDLE) {}
    for link in 2..100 {
        assert!(admission.admits(link, ADDRESS, BUNDLE), "a newcomer finds room for one bundle");
        assert!(!admission.admits(link, ADDRESS, BUNDLE), "link {link}");
    }
}

#[test]
fn a_limit_lowered_by_a_stall_recovers() {
    let mut server = Server::new(TARGET, 10, 5);
    server.run(10, &[(1, 30)]);
    server.bundles_per_tick = 0;
    server.run(5, &[(1, 30)]);
    let waiting = server.queue.len();
    server.bundles_per_tick = 10;
    server.run(5, &[(1, 30)]);
    server.reset();
    server.run(5, &[(1, 30)]);
    assert!(waiting <= 600, "nothing is executed, so nobody gains credit: {waiting} bundles wait");
    assert!(server.done.values().sum::<u64>() >= 48 * TICKS_PER_SECOND);
}

#[test]
fn all_replicas_begin_with_one_limit_together() {
    let limit = |replicas| Admission::<u64>::new(TARGET, replicas).limit();
    assert_eq!([1, 4, 20].map(limit), [1, 4, 20].map(|replicas| INITIAL_CLUSTER_LIMIT_BYTES / replicas));
    assert_eq!([0, 1000].map(limit), [INITIAL_CLUSTER_LIMIT_BYTES, MIN_LIMIT_BYTES]);
}

#[test]
fn a_queue_far_below_the_limit_does_not_raise_it() {
    let mut server = Server::new(TARGET, 10, 5);
    let limit = server.admission.limit();
    server.run(20, &[(1, 10)]);
    assert_eq!(server.admission.limit(), limit);
}

#[test]
fn a_limit_that_is_too_low_doubles_at_most_once_in_the_time_that_work_waits() {
    // 0.2 s from arrival to execution: 1800 bundles, nine times the initial limit.
    let mut server = Server::new(TARGET, 100, 20);
    let (mut limit, mut raised_at) = (server.admission.limit(), 0);
    for _ in 0..10 * TICKS_PER_SECOND {
        server.tick(&[(1, 90)]);
        let raised = server.admission.limit();
        if raised != limit {
            assert!(raised > limit && raised <= 2 * limit, "from {limit} to {raised}");
            assert!(raised_at == 0 || server.tick - raised_at >= 20, "after {} ticks", server.tick - raised_at);
            (limit, raised_at) = (raised, server.tick);
        }
    }
    assert!(limit >= 1800 * BUNDLE.work(), "{limit}");
    let in_target = 90 * TARGET.as_nanos() as u64 / TICK_NS * BUNDLE.work();
    assert!(limit <= 2 * in_target, "{limit} is more than twice {in_target}");
    server.reset();
    server.run(5, &[(1, 90)]);
    assert_eq!(server.refused, BTreeMap::new());
}

/// Replica whose client sends a bundle per tick, which waits for 0.4 s since other replicas' clients fill the cluster.
fn beside_others(others_per_tick: u64) -> Server {
    let mut server = Server::new(TARGET, 10, 5);
    server.run(5, &[(1, 1)]);
    server.delay_ticks = 40;
    server.others_per_tick = others_per_tick;
    server.run(10, &[(1, 1)]);
    server
}

#[test]
fn a_replica_refuses_nothing_while_its_clients_use_less_than_their_share_of_the_cluster() {
    assert_eq!(beside_others(39).refused, BTreeMap::new(), "a 40th of the cluster, and a quarter is its share");
    assert!(!beside_others(0).refused.is_empty(), "it is alone, so its queue is too long");
}

#[test]
fn a_share_that_a_replica_cannot_use_makes_no_endless_queue() {
    let mut server = Server::new(TARGET, 10, 5);
    server.others_per_tick = 30;
    server.run(5, &[(1, 8)]);
    // Its network interface has become slow. Its share of the work that the others execute alone is 7 bundles per tick.
    server.bundles_per_tick = 1;
    server.run(20, &[(1, 8)]);
    let in_target = 10 * TARGET.as_nanos() as usize / TICK_NS as usize;
    assert!(server.queue.len() <= 2 * in_target, "{} bundles wait", server.queue.len());
}

#[test]
fn replicas_that_are_overloaded_alike_keep_their_queues_short() {
    let mut server = Server::new(TARGET, 10, 5);
    server.others_per_tick = 30;
    server.run(10, &[(1, 30)]);
    server.reset();
    server.run(10, &[(1, 30)]);
    let wait = Duration::from_nanos(server.longest_wait * TICK_NS);
    assert!(wait <= TARGET * 3 / 2, "{wait:?}");
}

proptest! {
    #[test]
    fn only_a_full_queue_refuses(ticks in prop::collection::vec((0u64..5, 0usize..40, 0usize..20), 1..400)) {
        let mut server = Server::new(TARGET, 10, 2);
        for (link, count, speed) in ticks {
            server.bundles_per_tick = speed;
            let refused = server.admission.refused_bundles();
            server.tick(&[(link, count)]);
            prop_assert!(server.admission.limit() >= MIN_LIMIT_BYTES);
            if server.admission.refused_bundles() > refused {
                let work = server.queue.len() as u64 * BUNDLE.work();
                prop_assert!(work + BUNDLE.work() > server.admission.limit(), "{work} bytes of work wait");
            }
        }
    }
}
