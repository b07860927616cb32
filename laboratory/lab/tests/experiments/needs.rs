//! Selection of cells to repeat.

use crate::common::{experiment, plan, rows};
use quorate_lab::experiments::{Need, Profile, needs};

const BOUND: &str =
    "[[claim]]\nid = \"enough\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\nkind = \"bound\"\nmin = 50\n";

fn repetitions(needs: &[Need]) -> Vec<u32> {
    needs.iter().map(|need| need.repetition).collect()
}

#[test]
fn all_cells_are_run_at_first() {
    let experiment = experiment(BOUND);
    let plan = plan(&experiment);
    let first = needs(&plan, &[]);
    assert_eq!(first.len(), 8);
    assert!(first.iter().all(|need| need.repetition == 0 && need.why == "0 of at least 2 runs"), "{first:?}");
    let order: Vec<usize> = first.iter().map(|need| need.cell).collect();
    assert_eq!(order, (0..8).collect::<Vec<_>>());
    let second = needs(&plan, &rows(&plan, |_, _| vec![60.0]));
    let order: Vec<usize> = second.iter().map(|need| need.cell).collect();
    assert_eq!((order, repetitions(&second)), ((0..8).rev().collect(), vec![1; 8]));
}

#[test]
fn a_gap_is_filled() {
    let experiment = experiment(BOUND);
    let plan = plan(&experiment);
    let mut rows = rows(&plan, |_, _| vec![60.0, 60.0]);
    rows.remove(4);
    let needs = needs(&plan, &rows);
    assert_eq!(needs.iter().map(|need| (need.cell, need.repetition)).collect::<Vec<_>>(), [(2, 0)]);
}

#[test]
fn undecided_claims_ask_for_repetitions_up_to_the_maximum() {
    let experiment = experiment(BOUND);
    let plan = plan(&experiment);
    let of = |batch: f64, repetitions: usize| match batch {
        400.0 => [40.0, 60.0].into_iter().cycle().take(repetitions).collect(),
        _ => vec![60.0; 2],
    };
    for count in 2..5 {
        let needs = needs(&plan, &rows(&plan, |batch, _| of(batch, count)));
        let batch = |need: &Need| plan.cells[need.cell].get("batch").and_then(|own| own.as_number());
        assert!(needs.iter().all(|need| batch(need) == Some(400.0)), "other points are decided: {needs:?}");
        assert_eq!(needs.len(), 2, "{needs:?}");
        assert!(
            needs.iter().all(|need| need.repetition == count as u32 && need.why == "the claim `enough` is undecided")
        );
    }
    let full = rows(&plan, |batch, _| if batch == 400.0 { of(batch, 5) } else { vec![60.0; 5] });
    assert_eq!(needs(&plan, &full), []);
}

#[test]
fn decided_claims_ask_for_nothing() {
    let experiment = experiment(BOUND);
    let plan = plan(&experiment);
    assert_eq!(needs(&plan, &rows(&plan, |_, _| vec![60.0, 60.1])), []);
    assert_eq!(needs(&plan, &rows(&plan, |_, _| vec![40.0, 40.1])), []);
}

#[test]
fn a_failed_cell_is_not_run_again() {
    let experiment = experiment(BOUND);
    let plan = plan(&experiment);
    let mut rows = rows(&plan, |_, _| vec![60.0]);
    rows[0].failure = Some("it crashed".into());
    let cells: Vec<usize> = needs(&plan, &rows).iter().map(|need| need.cell).collect();
    assert!(!cells.contains(&0) && cells.len() == 7, "{cells:?}");
}

#[test]
fn wide_intervals_ask_for_repetitions() {
    let more = format!("until_interval_percent = 5\n{BOUND}");
    let experiment = experiment(&more);
    let plan = plan(&experiment);
    // The claim holds, but one cell's mean is known only to 10 %.
    let of = |batch: f64, leader: &str| match (batch, leader) {
        (200.0, "fixed") => vec![990.0, 1010.0],
        _ => vec![1000.0, 1000.5],
    };
    let open = needs(&plan, &rows(&plan, of));
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].why.starts_with("throughput_per_s is known to 12.7 %"), "{}", open[0].why);
    let narrow = needs(&plan, &rows(&plan, |_, _| vec![1000.0, 1000.5]));
    assert_eq!(narrow, []);
}

#[test]
fn quick_may_ask_for_less() {
    let experiment = experiment(&format!("[profile.quick.repeat]\nmin = 1\n{BOUND}"));
    let quick = experiment.plan(Profile::Quick, None).expect("it has cells");
    assert_eq!((quick.repeat.min, quick.repeat.max), (1, 5));
    // One run decides nothing, so the claim needs a second one.
    let needs = needs(&quick, &rows(&quick, |_, _| vec![60.0]));
    assert!(needs.iter().any(|need| need.why.contains("undecided")), "{needs:?}");
}
