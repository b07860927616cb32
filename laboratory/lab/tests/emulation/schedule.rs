//! Packet schedule, in virtual time.

use proptest::prelude::*;
use quorate_lab::emulation::{Change, Flow, MAX_HELD_BYTES, Normal, Plan, Scheduler};
use quorate_simulator::links::Loss;
use quorate_types::Time;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn flow(port: u16) -> Flow {
    Flow { protocol: 6, ports: [port, 1] }
}

/// Returns all packets in flight, with their arrival times.
fn drain<P: Clone>(scheduler: &mut Scheduler<P>) -> Vec<(u64, P)> {
    let mut all = Vec::new();
    while let Some(next) = scheduler.next_at() {
        while let Some(due) = scheduler.pop(next) {
            all.push((due.due.0, due.packet));
        }
    }
    all
}

#[test]
fn a_packet_arrives_after_the_delay_of_its_link() {
    let mut plan = Plan::uniform(2, 5 * MS);
    plan.links[1].delay_ns = 7 * MS;
    let mut scheduler = Scheduler::new(plan);
    scheduler.submit(Time(3), 0, 1, flow(1), 100, "forth");
    scheduler.submit(Time(3), 1, 0, flow(1), 100, "back");
    assert_eq!(scheduler.pop(Time(5 * MS + 2)), None, "nothing arrives early");
    assert_eq!(drain(&mut scheduler), [(5 * MS + 3, "back"), (7 * MS + 3, "forth")]);
    assert_eq!(scheduler.held_bytes(), 0);
}

#[test]
fn the_correction_shortens_long_delays_only() {
    let mut scheduler = Scheduler::new(Plan::uniform(2, 5 * MS));
    scheduler.set_correction(MS);
    scheduler.submit(Time(0), 0, 1, flow(1), 100, ());
    scheduler.set_correction(9 * MS);
    scheduler.submit(Time(0), 0, 1, flow(1), 100, ());
    let due: Vec<u64> = drain(&mut scheduler).into_iter().map(|(due, ())| due).collect();
    assert_eq!(due, [0, 4 * MS]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    // 1500 bytes take 1.5 us at 8 Gbit/s. The queue holds ten packets.
    let plan = Plan { egress_ps_per_byte: 1000, queue_bytes: 15_000, ..Plan::uniform(2, 0) };
    let mut scheduler = Scheduler::new(plan);
    (0..100).for_each(|number| scheduler.submit(Time(0), 0, 1, flow(1), 1500, number));
    let arrived = drain(&mut scheduler);
    let expected: Vec<(u64, i32)> = (0..10).map(|number| ((number as u64 + 1) * 1500, number)).collect();
    assert_eq!(arrived, expected);
    assert_eq!((scheduler.counts.packets, scheduler.counts.queue_dropped), (100, 90));
    scheduler.submit(Time(15_000), 0, 1, flow(1), 1500, 100);
    assert_eq!(drain(&mut scheduler), [(16_500, 100)], "an empty queue takes packets again");
}

#[test]
fn senders_share_the_receivers_interface() {
    let mut scheduler = Scheduler::new(Plan { ingress_ps_per_byte: 8000, ..Plan::uniform(3, MS) });
    scheduler.submit(Time(0), 0, 2, flow(1), 1000, 'a');
    scheduler.submit(Time(0), 1, 2, flow(1), 1000, 'b');
    assert_eq!(drain(&mut scheduler), [(MS + 8_000, 'a'), (MS + 16_000, 'b')]);
}

#[test]
fn cuts_nest_and_healing_ends_them() {
    let pair = vec![(0, 1)];
    let mut scheduler = Scheduler::new(Plan::uniform(2, 0));
    let passes = |scheduler: &mut Scheduler<()>| {
        scheduler.submit(Time(0), 0, 1, flow(1), 100, ());
        !drain(scheduler).is_empty()
    };
    assert!(passes(&mut scheduler));
    scheduler.change(&Change::Cut(pair.clone(), true));
    scheduler.change(&Change::Cut(pair.clone(), true));
    scheduler.change(&Change::Cut(pair.clone(), false));
    assert!(!passes(&mut scheduler), "one of two cuts is left");
    scheduler.change(&Change::Cut(pair.clone(), false));
    assert!(passes(&mut scheduler));
    scheduler.change(&Change::Cut(pair, true));
    scheduler.change(&Change::Heal);
    assert!(passes(&mut scheduler));
    assert_eq!(scheduler.counts.cut, 1);
}

#[test]
fn the_end_of_a_delay_spike_reorders_no_flow() {
    let plan = Plan { changes: vec![(Time(0), Change::Spike(vec![(0, 1)], 0))], ..Plan::uniform(2, MS) };
    let mut scheduler = Scheduler::new(plan);
    scheduler.change(&Change::Spike(vec![(0, 1)], 20 * MS));
    scheduler.submit(Time(0), 0, 1, flow(1), 100, "first");
    scheduler.change(&Change::Spike(vec![(0, 1)], 0));
    scheduler.submit(Time(1), 0, 1, flow(1), 100, "second");
    scheduler.submit(Time(1), 0, 1, flow(2), 100, "other flow");
    let order: Vec<&str> = drain(&mut scheduler).into_iter().map(|(_, name)| name).collect();
    assert_eq!(order, ["other flow", "first", "second"]);
}

#[test]
fn a_fault_loses_packets_until_it_ends() {
    let mut scheduler = Scheduler::new(Plan::uniform(3, MS));
    let pair = vec![(0, 1)];
    let mut lost_of_1000 = |change: Option<Change>, to| {
        change.into_iter().for_each(|change| scheduler.change(&change));
        let before = scheduler.counts.lost;
        (0..1000).for_each(|at| scheduler.submit(Time(at), 0, to, flow(1), 100, ()));
        scheduler.counts.lost - before
    };
    let lost = lost_of_1000(Some(Change::Lose(pair.clone(), 0.2)), 1);
    assert!((150..250).contains(&lost), "{lost} of 1000 at a probability of 0.2");
    assert_eq!(lost_of_1000(None, 2), 0, "the other link loses nothing");
    assert_eq!(lost_of_1000(Some(Change::Lose(pair.clone(), 1.0)), 1), 1000);
    assert_eq!(lost_of_1000(Some(Change::Lose(pair.clone(), 0.0)), 1), 0);
    assert!(lost_of_1000(Some(Change::Lose(pair, 0.5)), 1) > 400);
    assert_eq!(lost_of_1000(Some(Change::Heal), 1), 0);
}

#[test]
fn packets_on_their_way_have_a_bound() {
    let mut scheduler = Scheduler::new(Plan::uniform(2, MS));
    let packet = 1 << 20;
    (0..MAX_HELD_BYTES / packet + 3).for_each(|_| scheduler.submit(Time(0), 0, 1, flow(1), packet as usize, ()));
    assert_eq!((scheduler.held_bytes(), scheduler.counts.overflowed), (MAX_HELD_BYTES, 3));
}

#[test]
fn duplicates_and_flipped_bits_have_their_shares() {
    let plan = Plan { duplication: 0.1, bit_error_rate: 1e-5, ..Plan::uniform(2, MS) };
    let mut scheduler = Scheduler::new(plan);
    let sent = 50_000;
    (0..sent).for_each(|_| scheduler.submit(Time(0), 0, 1, flow(1), 1250, ()));
    // A packet of 10,000 bits survives with (1 - 1e-5)^10,000 = 0.905.
    let lost = scheduler.counts.lost as f64 / f64::from(sent);
    assert!((lost - 0.0952).abs() < 0.005, "{lost}");
    let arrived = drain(&mut scheduler).len() as f64 / f64::from(sent);
    assert!((arrived - 0.905 * 1.1).abs() < 0.01, "{arrived}");
}

#[test]
fn reordered_packets_arrive_after_later_ones() {
    let plan = Plan { reordering: 0.05, reordering_ns: 10 * MS, jitter_ns: MS, ..Plan::uniform(2, MS) };
    let mut scheduler = Scheduler::new(plan);
    (0..2000u64).for_each(|number| scheduler.submit(Time(number * MS / 10), 0, 1, flow(1), 100, number));
    let order: Vec<u64> = drain(&mut scheduler).into_iter().map(|(_, number)| number).collect();
    assert_eq!(order.len(), 2000);
    let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!((40..160).contains(&overtaken), "{overtaken}");
}

/// A packet of the property tests: its sender, flow, size and the time since the previous one.
fn packets() -> impl Strategy<Value = Vec<(usize, u16, usize, u64)>> {
    prop::collection::vec((0..3usize, 0..4u16, 20..1500usize, 0..300_000u64), 1..400)
}

fn varied() -> impl Strategy<Value = Plan> {
    (0..3 * MS, 0..5 * MS, any::<bool>(), 0..20_000u64, 0..20_000u64, any::<u64>()).prop_map(
        |(delay_ns, jitter_ns, is_normal, egress, ingress, seed)| {
            let normal = Normal { mean_ns: 2e6, deviation_ns: 1e6, least_ns: 1e5, most_ns: 6e6 };
            Plan {
                jitter_ns,
                normal: is_normal.then_some(normal),
                egress_ps_per_byte: egress,
                ingress_ps_per_byte: ingress,
                seed,
                ..Plan::uniform(4, delay_ns)
            }
        },
    )
}

proptest! {
    /// Jitter reorders no flow, and without loss all packets arrive, none before its delay.
    #[test]
    fn a_flow_stays_in_order(plan in varied(), packets in packets()) {
        let least = plan.normal.map_or(plan.shortest_delay_ns(), |normal| normal.least_ns as u64);
        let mut scheduler = Scheduler::new(plan);
        let mut now = 0;
        for (number, (from, port, bytes, gap)) in packets.iter().enumerate() {
            now += gap;
            scheduler.submit(Time(now), *from, 3, flow(*port), *bytes, (number, now));
        }
        let arrived = drain(&mut scheduler);
        prop_assert_eq!(arrived.len(), packets.len());
        let mut last: BTreeMap<(usize, u16), usize> = BTreeMap::new();
        for (due, (number, sent)) in arrived {
            prop_assert!(due >= sent + least);
            let (from, port, ..) = packets[number];
            let before = last.insert((from, port), number);
            prop_assert!(before.is_none_or(|before| before < number), "packet {} after {:?}", number, before);
        }
    }

    /// No interface sends or receives faster than its bandwidth.
    #[test]
    fn cards_keep_their_bandwidth(ps_per_byte in 1000..50_000u64, packets in packets(), is_egress in any::<bool>()) {
        let mut plan = Plan { jitter_ns: MS, ..Plan::uniform(4, MS) };
        if is_egress { plan.egress_ps_per_byte = ps_per_byte } else { plan.ingress_ps_per_byte = ps_per_byte }
        plan.jitter_ns = if is_egress { 0 } else { MS };
        let mut scheduler = Scheduler::new(plan);
        let mut now = 0;
        for (_, port, bytes, gap) in &packets {
            now += gap;
            scheduler.submit(Time(now), 0, 3, flow(*port), *bytes, *bytes as u64);
        }
        let mut free = 0;
        for (due, bytes) in drain(&mut scheduler) {
            let takes = (bytes * ps_per_byte).div_ceil(1000);
            prop_assert!(due >= free + takes, "{} bytes at {} follow one at {}", bytes, due, free);
            free = due;
        }
    }

    /// The share of lost packets matches the model, for independent loss and for bursts.
    #[test]
    fn loss_has_its_share(probability in 0.0..0.3f64, leave in 0.1..0.9f64, seed in any::<u64>()) {
        for (loss, share) in [
            (Loss::Independent { probability }, probability),
            (Loss::Bursts { enter: probability * 0.1, leave, good: 0.0, bad: 1.0 },
                probability * 0.1 / (probability * 0.1 + leave)),
        ] {
            let mut plan = Plan { seed, ..Plan::uniform(2, MS) };
            plan.links[1].loss = loss;
            let mut scheduler = Scheduler::new(plan);
            let sent = 20_000u32;
            for _ in 0..sent {
                scheduler.submit(Time(0), 0, 1, flow(1), 100, ());
            }
            let lost = scheduler.counts.lost as f64 / f64::from(sent);
            // Five standard deviations; for bursts, these are larger by the mean burst length.
            let length = if matches!(loss, Loss::Bursts { .. }) { 2.0 / leave } else { 1.0 };
            let allowed = 5.0 * (share * (1.0 - share) * length / f64::from(sent)).sqrt() + 1e-4;
            prop_assert!((lost - share).abs() <= allowed, "{} of {}", lost, share);
            prop_assert_eq!(drain(&mut scheduler).len() as u64 + scheduler.counts.lost, u64::from(sent));
        }
    }

    /// The same seed gives the same packets the same fates.
    #[test]
    fn a_seed_decides_everything(plan in varied(), packets in packets()) {
        let run = || {
            let mut scheduler = Scheduler::new(plan.clone());
            for (number, (from, port, bytes, _)) in packets.iter().enumerate() {
                scheduler.submit(Time(number as u64 * 1000), *from, 3, flow(*port), *bytes, number);
            }
            drain(&mut scheduler)
        };
        prop_assert_eq!(run(), run());
    }
}
