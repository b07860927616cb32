//! Parameters for netem, without privileges.

use quorate_lab::emulation::{Change, Disciplines, Normal, Plan, lack};
use quorate_simulator::links::Loss;
use quorate_types::Time;

const MS: u64 = 1_000_000;

/// Returns the range and the mean of the delays in a link's table.
fn drawn(plan: &Plan) -> (f64, f64, f64) {
    let discipline = Disciplines::new(plan).of(0, 1);
    let table = discipline.table.expect("a normal distribution has a table");
    let delay = |entry: &i16| discipline.delay_ns as f64 + discipline.spread_ns as f64 * f64::from(*entry) / 8192.0;
    let delays: Vec<f64> = table.iter().map(delay).collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    (delays.iter().copied().fold(f64::MAX, f64::min), mean, delays.iter().copied().fold(0.0, f64::max))
}

#[test]
fn what_netem_cannot_do_is_named() {
    let plan = || Plan::uniform(2, MS);
    let bursts = Loss::Bursts { enter: 0.1, leave: 0.5, good: 0.0, bad: 1.0 };
    assert_eq!(lack(&plan()), None);
    assert_eq!(lack(&Plan { jitter_ns: MS, egress_ps_per_byte: 8, ingress_ps_per_byte: 8, ..plan() }), None);
    for (plan, key) in [
        (Plan { queue_bytes: 1, ..plan() }, "`queue_bytes`"),
        (Plan { bit_error_rate: 1e-9, ..plan() }, "`bit_error_rate`"),
        (Plan { duplication: 0.1, ..plan() }, "`duplication`"),
        (Plan { reordering: 0.1, ..plan() }, "`reordering`"),
        (Plan { last_leg: Some(bursts), ..plan() }, "bursts in a star"),
        (Plan { jitter_ns: 5000 * MS, ..plan() }, "jitter"),
    ] {
        assert!(lack(&plan).expect("netem lacks this").contains(key), "{key}");
    }
}

#[test]
fn jitter_is_added_to_the_delay() {
    let plan = Plan { jitter_ns: 2 * MS, ..Plan::uniform(2, 5 * MS) };
    let mut disciplines = Disciplines::new(&plan);
    let of = disciplines.of(0, 1);
    assert_eq!((of.delay_ns, of.spread_ns, of.table), (6 * MS, MS, None), "from 5 to 7 ms");
    assert!(of.rate.is_some(), "with a rate, netem keeps the order");
    disciplines.set_correction(MS);
    assert_eq!(disciplines.of(0, 1).delay_ns, 5 * MS);
    disciplines.set_correction(100 * MS);
    assert_eq!(disciplines.of(0, 1).delay_ns, 0);
    assert_eq!(Disciplines::new(&Plan::uniform(2, MS)).of(1, 0).rate, None, "constant delays keep it anyway");
}

#[test]
fn a_table_has_the_moments_of_the_normal_distribution() {
    let normal = Normal { mean_ns: 40e6, deviation_ns: 10e6, least_ns: 0.0, most_ns: 100e6 };
    let plan = Plan { normal: Some(normal), ..Plan::uniform(2, 7 * MS) };
    let (least, mean, most) = drawn(&plan);
    assert!((mean - 40e6).abs() < 1e4, "{mean}");
    assert!((3e6..8e6).contains(&least) && (72e6..77e6).contains(&most), "{least} to {most}");
    let discipline = Disciplines::new(&plan).of(0, 1);
    let table = discipline.table.expect("a table");
    let squares = table.iter().map(|entry| (f64::from(*entry) / 8192.0 * discipline.spread_ns as f64).powi(2));
    let deviation = (squares.sum::<f64>() / table.len() as f64).sqrt();
    assert!((deviation / 10e6 - 1.0).abs() < 0.01, "{deviation}");
}

#[test]
fn a_table_clamps_and_adds_the_jitter() {
    let normal = Normal { mean_ns: 5e6, deviation_ns: 5e6, least_ns: 4e6, most_ns: 8e6 };
    let (least, _, most) = drawn(&Plan { normal: Some(normal), ..Plan::uniform(2, 0) });
    assert!((least - 4e6).abs() < 1e3 && (most - 8e6).abs() < 1e3, "{least} to {most}");
    let (least, _, most) = drawn(&Plan { normal: Some(normal), jitter_ns: 2 * MS, ..Plan::uniform(2, 0) });
    assert!((4e6..4.1e6).contains(&least) && (9.9e6..10e6).contains(&most), "{least} to {most}");
    let constant = Normal { mean_ns: 5e6, deviation_ns: 0.0, least_ns: 0.0, most_ns: 8e6 };
    let of = Disciplines::new(&Plan { normal: Some(constant), ..Plan::uniform(2, 0) }).of(0, 1);
    assert_eq!((of.delay_ns, of.spread_ns, of.table), (5 * MS, 0, None));
}

#[test]
fn losses_of_links_legs_and_faults_combine() {
    let independent = |probability| Loss::Independent { probability };
    let mut plan = Plan { last_leg: Some(independent(0.5)), ..Plan::uniform(2, MS) };
    plan.links[1].loss = independent(0.2);
    plan.links[2].loss = Loss::Bursts { enter: 0.1, leave: 0.5, good: 0.0, bad: 0.8 };
    let mut disciplines = Disciplines::new(&plan);
    let of = |disciplines: &Disciplines, from, to| disciplines.of(from, to).loss;
    assert_eq!(of(&disciplines, 0, 1), independent(0.6));
    assert_eq!(of(&disciplines, 1, 0), Loss::Bursts { enter: 0.1, leave: 0.5, good: 0.5, bad: 0.9 });
    assert_eq!(disciplines.change(&Change::Lose(vec![(0, 1)], 0.5)), [(0, 1)]);
    assert_eq!(of(&disciplines, 0, 1), independent(0.8));
    disciplines.change(&Change::Cut(vec![(1, 0)], true));
    disciplines.change(&Change::Cut(vec![(1, 0)], true));
    disciplines.change(&Change::Cut(vec![(1, 0)], false));
    assert!(disciplines.is_cut(1, 0) && !disciplines.is_cut(0, 1));
    assert_eq!(of(&disciplines, 1, 0), independent(1.0));
    assert_eq!(disciplines.change(&Change::Heal), [(0, 1), (1, 0)]);
    assert_eq!((of(&disciplines, 0, 1), of(&disciplines, 1, 0)), (independent(0.0), independent(0.0)));
}

#[test]
fn spikes_delay_one_link_and_keep_its_order() {
    let spike = |by_ns| Change::Spike(vec![(0, 1)], by_ns);
    let plan = Plan { changes: vec![(Time(0), spike(3 * MS))], ..Plan::uniform(2, MS) };
    let mut disciplines = Disciplines::new(&plan);
    assert!(disciplines.of(0, 1).rate.is_some(), "no packet overtakes those before the end of a spike");
    disciplines.change(&spike(3 * MS));
    assert_eq!((disciplines.of(0, 1).delay_ns, disciplines.of(1, 0).delay_ns), (4 * MS, MS));
    disciplines.change(&spike(0));
    assert_eq!(disciplines.of(0, 1).delay_ns, MS);
}

#[test]
fn a_receivers_interface_limits_its_links() {
    let plan = Plan { ingress_ps_per_byte: 8000, ..Plan::uniform(2, MS) };
    assert_eq!(Disciplines::new(&plan).of(0, 1).rate, Some(125_000_000), "a gigabit per second");
}
