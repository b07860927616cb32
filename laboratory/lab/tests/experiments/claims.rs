//! Each kind of claim on data that satisfies it, violates it, straddles its limit, or is missing.

use crate::common::{experiment, judged, plan, read, rows, text};
use quorate_lab::experiments::{Instrument, Judgement, Profile, Verdict, judge};

/// Repetitions around a value, with a narrow interval.
fn near(value: f64) -> Vec<f64> {
    vec![value * 0.9999, value, value * 1.0001]
}

/// Repetitions around a value, with an interval of more than twice the value.
fn wide(value: f64) -> Vec<f64> {
    vec![value * 0.5, value, value * 1.5]
}

fn check(judgement: &Judgement, verdict: Verdict) {
    assert_eq!(judgement.verdict, verdict, "{}", judgement.measured);
    assert!(!judgement.measured.is_empty());
}

/// Judges a claim on satisfying data, on violating data, on both with wide intervals, with one repetition, and without
/// rows.
fn check_kind(claim: &str, good: impl Fn(f64, &str) -> f64, bad: impl Fn(f64, &str) -> f64) {
    check(&judged(claim, |batch, leader| near(good(batch, leader))), Verdict::Holds);
    check(&judged(claim, |batch, leader| near(bad(batch, leader))), Verdict::Fails);
    check(&judged(claim, |batch, leader| wide(good(batch, leader))), Verdict::Undecided);
    check(&judged(claim, |batch, leader| wide(bad(batch, leader))), Verdict::Undecided);
    check(&judged(claim, |batch, leader| vec![good(batch, leader)]), Verdict::Undecided);
    check(&judged(claim, |_, _| Vec::new()), Verdict::NotMeasurable);
    let one_missing = |batch: f64, leader: &str| if batch == 400.0 { Vec::new() } else { near(good(batch, leader)) };
    check(&judged(claim, one_missing), Verdict::NotMeasurable);
}

#[test]
fn order() {
    let claim = "kind = \"order\"\nby = \"leader\"\nvalues = [\"fixed\", \"rotating\"]";
    let twice = |batch: f64, leader: &str| if leader == "rotating" { 2.0 * batch } else { batch };
    check_kind(claim, twice, |batch, leader| 1.0 / twice(batch, leader));
    check_kind(&format!("{claim}\nmargin_percent = 90"), twice, |batch, leader| twice(batch, leader).sqrt());
    // It has to hold at every point.
    let but_one = |batch: f64, leader: &str| near(if batch == 400.0 { 100.0 } else { twice(batch, leader) });
    check(&judged(claim, but_one), Verdict::Undecided);
    let reversed =
        |batch: f64, leader: &str| near(if batch == 400.0 { 1.0 / twice(batch, leader) } else { twice(batch, leader) });
    let judgement = judged(claim, reversed);
    check(&judgement, Verdict::Fails);
    assert!(judgement.measured.contains("batch 400: leader fixed"), "{}", judgement.measured);
    assert!(judgement.measured.contains("at 3 of 4 points: holds"), "{}", judgement.measured);
    // A selection excludes the points where it fails.
    let elsewhere = format!("{claim}\nwhere = {{ batch = [100, 200, 800] }}");
    check(&judged(&elsewhere, reversed), Verdict::Holds);
}

#[test]
fn order_of_several_values() {
    let claim = "kind = \"order\"\nby = \"batch\"\nvalues = [100, 200, 400, 800]";
    check_kind(claim, |batch, _| batch, |batch, _| if batch == 800.0 { 1.0 } else { batch });
}

#[test]
fn ratio() {
    let ends = "numerator = { batch = \"largest\" }\ndenominator = { batch = \"smallest\" }";
    let both = "numerator = { batch = 400, leader = \"rotating\" }\ndenominator = { batch = 100, leader = \"fixed\" }";
    for (limits, good, bad) in [("min = 7", 8.0, 6.0), ("max = 3", 2.0, 4.0), ("min = 2.5\nmax = 3.5", 3.0, 4.0)] {
        let of = |ratio: f64| move |batch: f64, _: &str| if batch == 100.0 { 10.0 } else { 10.0 * ratio };
        let claim = format!("kind = \"ratio\"\n{both}\n{limits}");
        check_kind(&claim, of(good), of(bad));
        let claim = format!("kind = \"ratio\"\n{ends}\n{limits}");
        check(&judged(&claim, |batch, leader| near(of(good)(batch, leader))), Verdict::Holds);
        check(&judged(&claim, |batch, leader| near(of(bad)(batch, leader))), Verdict::Fails);
    }
    // A ratio with a denominator of 0 is undefined; if the denominator may be 0, the ratio may have any value.
    let claim = format!("kind = \"ratio\"\n{both}\nmin = 2");
    check(&judged(&claim, |batch, _| near(if batch == 100.0 { 0.0 } else { 1.0 })), Verdict::Fails);
    check(&judged(&claim, |batch, _| if batch == 100.0 { vec![0.0, 0.0, 0.1] } else { near(1.0) }), Verdict::Undecided);
}

#[test]
fn trend() {
    let rises = "kind = \"trend\"\nalong = \"batch\"\ndirection = \"rises\"";
    let falls = "kind = \"trend\"\nalong = \"batch\"\ndirection = \"falls\"";
    let flat = "kind = \"trend\"\nalong = \"batch\"\ndirection = \"flat\"\ntolerance_percent = 10";
    check_kind(rises, |batch, _| batch, |batch, _| 1e6 / batch);
    check_kind(falls, |batch, _| 1e6 / batch, |batch, _| batch);
    check_kind(flat, |batch, _| 1e6 + batch, |batch, _| batch);
    // One step back refutes a strict trend, but not one with tolerance.
    let dent = |batch: f64, _: &str| near(if batch == 400.0 { 195.0 } else { batch });
    check(&judged(rises, dent), Verdict::Fails);
    check(&judged(&format!("{rises}\ntolerance_percent = 5"), dent), Verdict::Holds);
    // Even with tolerance, the trend may not end where it began.
    let level = |batch: f64, _: &str| near(1000.0 - batch / 100.0);
    check(&judged(&format!("{rises}\ntolerance_percent = 5"), level), Verdict::Fails);
}

#[test]
fn bound() {
    check_kind("kind = \"bound\"\nmin = 50", |_, _| 60.0, |_, _| 40.0);
    check_kind("kind = \"bound\"\nmax = 50", |_, _| 40.0, |_, _| 60.0);
    check_kind("kind = \"bound\"\nmin = 50\nmax = 70", |_, _| 60.0, |_, _| 80.0);
}

#[test]
fn saturation() {
    let claim = "kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5\nmin = 200\nmax = 400";
    let saturating = |limit: f64| move |batch: f64, _: &str| batch.min(limit);
    check_kind(claim, saturating(200.0), saturating(100.0));
    check(&judged(claim, |batch, _| near(batch.min(400.0))), Verdict::Holds);
    let never = judged(claim, |batch, _| near(batch));
    check(&never, Verdict::Fails);
    assert!(never.measured.contains("saturates nowhere"), "{}", never.measured);
    // "Not before 200" is true of a figure that never saturates.
    let claim = "kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5\nmin = 200";
    check(&judged(claim, |batch, _| near(batch)), Verdict::Holds);
    // A temporary plateau is no saturation.
    let pause = |batch: f64, _: &str| near(if batch == 200.0 { 100.0 } else { batch });
    let judgement = judged("kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5\nmax = 100", pause);
    check(&judgement, Verdict::Fails);
    // Undecided if it may saturate at either of two places, only one of which is within the limits.
    let either = |batch: f64, _: &str| match batch {
        100.0 => wide(400.0),
        _ => near(500.0),
    };
    check(&judged("kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5\nmax = 100", either), Verdict::Undecided);
    check(&judged("kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5\nmax = 200", either), Verdict::Holds);
}

#[test]
fn plateau() {
    let claim = "kind = \"plateau\"\nalong = \"batch\"\nfrom = 200\nto = 800\nwithin_percent = 10";
    check_kind(claim, |batch, _| if batch == 100.0 { 1.0 } else { 1000.0 + batch / 100.0 }, |batch, _| batch);
}

#[test]
fn crossing() {
    let claim = "kind = \"crossing\"\nalong = \"batch\"\nfirst = { leader = \"rotating\" }\n\
                 second = { leader = \"fixed\" }\nabove = 1\nmin = 200\nmax = 400";
    let ahead_from = |from: f64| {
        move |batch: f64, leader: &str| {
            if leader == "rotating" && batch >= from {
                200.0
            } else {
                100.0 - f64::from(u8::from(leader == "rotating")) * 50.0
            }
        }
    };
    check_kind(claim, ahead_from(200.0), ahead_from(800.0));
    check(&judged(claim, |batch, leader| near(ahead_from(100.0)(batch, leader))), Verdict::Fails);
    let never = judged(claim, |batch, leader| near(ahead_from(9999.0)(batch, leader)));
    check(&never, Verdict::Fails);
    assert!(never.measured.contains("crosses nowhere"), "{}", never.measured);
    // A lead that is lost again is no crossing.
    let lost = |batch: f64, leader: &str| {
        near(if leader == "rotating" && batch == 200.0 { 200.0 } else { ahead_from(800.0)(batch, leader) })
    };
    check(&judged(claim, lost), Verdict::Fails);
    // The ratio falls below a limit.
    let below = "kind = \"crossing\"\nalong = \"batch\"\nfirst = { leader = \"rotating\" }\n\
                 second = { leader = \"fixed\" }\nbelow = 2\nmin = 400";
    let shrinking = |batch: f64, leader: &str| if leader == "rotating" { 900.0 / batch } else { 1.0 };
    check(&judged(below, |batch, leader| near(shrinking(batch, leader))), Verdict::Holds);
    check(&judged(below, |batch, leader| near(shrinking(batch * 4.0, leader))), Verdict::Fails);
}

#[test]
fn a_figure_is_reduced_over_an_axis() {
    let peak = "kind = \"ratio\"\nover = [\"batch\"]\ntake = \"max\"\nnumerator = { leader = \"rotating\" }\n\
                denominator = { leader = \"fixed\" }\nmin = 2.9\nmax = 3.1";
    // The two peaks are at different batches.
    let of = |batch: f64, leader: &str| match (leader, batch) {
        ("fixed", 100.0) => near(500.0),
        ("rotating", 800.0) => near(1500.0),
        _ => near(1.0),
    };
    check(&judged(peak, of), Verdict::Holds);
    check(&judged(&peak.replace("\"max\"", "\"min\""), of), Verdict::Fails);
    check(&judged(&peak.replace("\"max\"", "\"mean\""), of), Verdict::Holds);
}

#[test]
fn a_failed_run_makes_its_claims_unmeasurable() {
    let more = "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\nkind = \"bound\"\nmin = 1";
    let experiment = experiment(more);
    let plan = plan(&experiment);
    let mut rows = rows(&plan, |_, _| near(10.0));
    rows[4].failure = Some("replica 2 died".into());
    let judgement = judge(&plan, &rows).remove(0);
    check(&judgement, Verdict::NotMeasurable);
    assert!(judgement.measured.contains("replica 2 died"), "{}", judgement.measured);
    // A row without the figure makes it unmeasurable as well.
    rows[4].failure = None;
    rows[4].figures.clear();
    check(&judge(&plan, &rows)[0], Verdict::NotMeasurable);
}

#[test]
fn a_counterexample_counts_even_if_other_points_are_missing() {
    let of =
        |batch: f64, _: &str| if batch == 100.0 { Vec::new() } else { near(if batch == 200.0 { 1.0 } else { 9.0 }) };
    check(&judged("kind = \"bound\"\nmin = 5", of), Verdict::Fails);
}

#[test]
fn an_instrument_that_was_not_run_is_not_measurable() {
    let more = "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\nkind = \"bound\"\nmin = 1\n\
                instrument = \"real\"\npaper = \"2 commands/s\"";
    let experiment = experiment(more);
    let simulated = plan(&experiment);
    let judgement = judge(&simulated, &rows(&simulated, |_, _| near(10.0))).remove(0);
    check(&judgement, Verdict::NotMeasurable);
    assert_eq!((judgement.instrument, judgement.paper.as_str()), (Instrument::Real, "2 commands/s"));
    let real = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has that instrument");
    check(&judge(&real, &rows(&real, |_, _| near(10.0)))[0], Verdict::Holds);
    // Rows of other instruments and profiles do not count.
    let mut others = rows(&real, |_, _| near(10.0));
    others.iter_mut().for_each(|row| row.profile = Profile::Quick);
    check(&judge(&real, &others)[0], Verdict::NotMeasurable);
}

#[test]
fn why_ours_overturns_the_paper_is_told_only_if_it_does() {
    let claim = "kind = \"bound\"\nmin = 5\noverturned = \"our leader does less\"";
    assert_eq!(judged(claim, |_, _| near(9.0)).overturned, None);
    assert_eq!(judged(claim, |_, _| near(1.0)).overturned.as_deref(), Some("our leader does less"));
}

#[test]
fn one_row_of_a_formula_is_exact() {
    let text = crate::common::text(
        "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\nkind = \"bound\"\nmin = 5",
    );
    let text = text.replace("\"simulated\", \"real\"", "\"analytical\"");
    let experiment = read(&text, "f.toml").expect("it is sound");
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    check(&judge(&plan, &rows(&plan, |_, _| vec![5.0]))[0], Verdict::Holds);
    check(&judge(&plan, &rows(&plan, |_, _| vec![4.9]))[0], Verdict::Fails);
    assert_eq!(plan.turns().len(), plan.cells.len(), "so each formula is computed once");
    assert!(plan.repeat.min > 1 && quorate_lab::experiments::needs(&plan, &rows(&plan, |_, _| vec![5.0])).is_empty());
}

#[test]
fn a_profile_without_the_cells_cannot_judge() {
    let more = "[profile.quick.axes]\nbatch = [100]\n[[claim]]\nid = \"c\"\ntext = \"t\"\n\
                figure = \"throughput_per_s\"\nkind = \"trend\"\nalong = \"batch\"\ndirection = \"rises\"";
    let experiment = experiment(more);
    let quick = experiment.plan(Profile::Quick, None).expect("it has cells");
    let judgement = judge(&quick, &rows(&quick, |batch, _| near(batch))).remove(0);
    check(&judgement, Verdict::NotMeasurable);
    assert!(judgement.measured.contains("fewer than two values of batch"), "{}", judgement.measured);
}

/// Judges an agreement of `success_probability` between simulated runs and formulas at the batches 100 to 800. A run is
/// (share, requests).
fn agreement(tolerance: &str, simulated: impl Fn(f64) -> Vec<(f64, f64)>, formulas: impl Fn(f64) -> f64) -> Judgement {
    agreement_of("success_probability", tolerance, simulated, formulas)
}

fn agreement_of(
    figure: &str,
    tolerance: &str,
    simulated: impl Fn(f64) -> Vec<(f64, f64)>,
    formulas: impl Fn(f64) -> f64,
) -> Judgement {
    let claim = format!("kind = \"agreement\"\nwith = \"analytical\"\n{tolerance}");
    let more = format!("[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"{figure}\"\n{claim}");
    let text = text(&more).replace("[\"simulated\", \"real\"]", "[\"simulated\", \"analytical\"]");
    let experiment = read(&text, "experiments/mine/batches.toml").unwrap_or_else(|fault| panic!("{fault}"));
    let plan = experiment.plan(Profile::Full, None).expect("a sound plan");
    let mut all = Vec::new();
    for template in rows(&plan, |_, _| vec![0.0]) {
        let batch = template.cell["batch"].as_number().expect("a number");
        let runs = match template.instrument {
            Instrument::Analytical => vec![(formulas(batch), None)],
            _ => simulated(batch).into_iter().map(|(share, requests)| (share, Some(requests))).collect(),
        };
        for (repetition, (share, requests)) in runs.into_iter().enumerate() {
            let count = requests.map(|requests| ("requests".to_owned(), requests));
            let figures = [(figure.to_owned(), share)].into_iter().chain(count).collect();
            all.push(quorate_lab::experiments::Row { figures, repetition: repetition as u32, ..template.clone() });
        }
    }
    judge(&plan, &all).remove(0)
}

#[test]
fn agreement_of_shares_follows_the_exact_interval_at_all_points_together() {
    let many = |share: f64| move |_: f64| vec![(share, 1000.0), (share, 1000.0)];
    check(&agreement("within = 0.1", many(0.7), |_| 0.7), Verdict::Holds);
    // For 8 points: 3.2 standard deviations of 1 % each.
    check(&agreement("within = 0.1", many(0.7), |_| 0.67), Verdict::Holds);
    let outside = agreement("within = 0.1", many(0.7), |_| 0.66);
    check(&outside, Verdict::Fails);
    assert!(outside.measured.contains("simulated 0.7 (0.66"), "{}", outside.measured);
    assert!(outside.measured.contains("analytical 0.66, claimed within 0.1"), "{}", outside.measured);
    // One run decides; too few requests do not.
    check(&agreement("within = 0.1", |_| vec![(0.7, 2000.0)], |_| 0.7), Verdict::Holds);
    check(&agreement("within = 0.1", |_| vec![(0.7, 100.0)], |_| 0.7), Verdict::Undecided);
    // Zero failures in 2000 requests neither prove certainty nor contradict a value close to it.
    check(&agreement("within = 0.1", many(1.0), |_| 0.9995), Verdict::Holds);
    check(&agreement("within = 0.1", many(1.0), |_| 0.99), Verdict::Fails);
    let but_one = |batch: f64| vec![(if batch == 400.0 { 0.5 } else { 0.7 }, 2000.0)];
    check(&agreement("within = 0.1", but_one, |_| 0.7), Verdict::Fails);
    check(&agreement("within = 0.1", |_| Vec::new(), |_| 0.7), Verdict::NotMeasurable);
}

#[test]
fn agreement_of_other_figures_keeps_their_intervals_within_the_tolerance() {
    let judged = |tolerance, values: [f64; 3], other: f64| {
        let runs = move |_: f64| values.map(|value| (value, 1000.0)).to_vec();
        agreement_of("success_p50_ms", tolerance, runs, move |_| other)
    };
    check(&judged("within_percent = 5", [200.0, 201.0, 202.0], 205.0), Verdict::Holds);
    check(&judged("within_percent = 5", [200.0, 201.0, 202.0], 220.0), Verdict::Fails);
    check(&judged("within_percent = 5", [150.0, 201.0, 250.0], 205.0), Verdict::Undecided);
    check(&judged("within = 8", [200.0, 201.0, 202.0], 205.0), Verdict::Holds);
    check(&judged("within = 1", [200.0, 201.0, 202.0], 205.0), Verdict::Fails);
}
