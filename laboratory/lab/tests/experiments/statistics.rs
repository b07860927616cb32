//! Statistics compared with brute force and printed tables.

use proptest::prelude::*;
use quorate_lab::experiments::statistics::{
    Fences, Summary, chance_interval, deviation, interval, mean, median, ratio, without_outliers,
};

/// Two-sided 95 % quantiles of Student's t, from printed tables.
const STUDENT: &[(usize, f64)] = &[(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045)];

#[test]
fn the_interval_uses_students_t() {
    for (freedom, t) in STUDENT {
        // Half of the values are 0 and half are 1, give or take one.
        let count = freedom + 1;
        let values: Vec<f64> = (0..count).map(|at| (at % 2) as f64).collect();
        let half = t * deviation(&values).expect("two values") / (count as f64).sqrt();
        let interval = interval(&values).expect("two values");
        let measured = (interval.high - interval.low) / 2.0;
        assert!((measured / half - 1.0).abs() < 3e-4, "{freedom}: {measured} instead of {half}");
    }
}

/// Integrates Student's density with Simpson's rule. The normalization constant is the integral over nearly the whole
/// range.
fn within(t: f64, freedom: f64) -> f64 {
    let density = |x: f64| (1.0 + x * x / freedom).powf(-(freedom + 1.0) / 2.0);
    // x = tan(u) maps the real line to a finite interval.
    let area = |to: f64| {
        let (steps, to) = (20_000, to.atan());
        let at = |step: usize| {
            let u = to * step as f64 / steps as f64;
            density(u.tan()) / u.cos().powi(2)
        };
        let inner: f64 = (1..steps).map(|step| at(step) * if step % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (at(0) + inner + at(steps)) * to / steps as f64 / 3.0
    };
    area(t) / area(1e6)
}

#[test]
fn the_interval_covers_what_it_says() {
    for count in [2_usize, 3, 5, 8, 20] {
        let values: Vec<f64> = (0..count).map(|at| at as f64).collect();
        let interval = interval(&values).expect("two values");
        let t = (interval.high - interval.low) / 2.0 / deviation(&values).expect("two") * (count as f64).sqrt();
        let covered = within(t, (count - 1) as f64);
        assert!((covered - 0.95).abs() < 1e-3, "{count} values: {covered}");
    }
}

#[test]
fn one_value_has_no_interval() {
    let summary = Summary::of(&[3.0]).expect("a value");
    assert_eq!((summary.mean, summary.median, summary.interval), (3.0, 3.0, None));
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
}

#[test]
fn equal_values_have_an_interval_of_no_width() {
    let summary = Summary::of(&[0.1; 7]).expect("values");
    assert_eq!(summary.interval.map(|own| (own.low, own.high)), Some((0.1, 0.1)));
    assert_eq!(summary.half_width_percent(), Some(0.0));
    let around_zero = Summary::of(&[-1.0, 1.0]).expect("values");
    assert_eq!(around_zero.half_width_percent(), None);
}

#[test]
fn an_outlier_is_dropped() {
    let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
    values.push(100.0);
    assert_eq!(without_outliers(&values), values[..20]);
    assert_eq!(Fences::of(&[]), None);
    assert_eq!(Fences::of_counts(&[(1.0, 0)]), None);
    assert!(without_outliers(&[]).is_empty());
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(-1e6..1e6, 1..40)
}

/// Returns the quantile by its definition: linear between the ranks of the sorted values.
fn brute_quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = p * (sorted.len() - 1) as f64;
    let part = rank.fract();
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    below * (1.0 - part) + above * part
}

proptest! {
    #[test]
    fn means_and_medians_are_those_of_the_definition(values in values()) {
        let sum: f64 = values.iter().sum();
        prop_assert!((mean(&values).expect("values") - sum / values.len() as f64).abs() < 1e-6);
        prop_assert!((median(&values).expect("values") - brute_quantile(&values, 0.5)).abs() < 1e-6);
        if values.len() > 1 {
            // Computed over all pairs, without the mean.
            let pairs: f64 = values.iter().flat_map(|a| values.iter().map(move |b| (a - b).powi(2))).sum();
            let count = values.len() as f64;
            let brute = (pairs / 2.0 / count / (count - 1.0)).sqrt();
            let own = deviation(&values).expect("two values");
            prop_assert!((own - brute).abs() <= 1e-6 * brute.max(1.0), "{} {}", own, brute);
        }
    }

    #[test]
    fn the_interval_is_around_the_mean_and_shrinks_with_repetitions(
        values in proptest::collection::vec(0.0..1e6, 2..10),
    ) {
        let width = |values: &[f64]| interval(values).map(|own| own.high - own.low).expect("two values");
        let own = interval(&values).expect("two values");
        let mean = mean(&values).expect("values");
        prop_assert!(own.low <= mean + 1e-6 && mean <= own.high + 1e-6);
        let twice: Vec<f64> = values.iter().chain(&values).copied().collect();
        prop_assert!(width(&twice) <= width(&values));
    }

    #[test]
    fn fences_are_those_of_the_definition(values in values()) {
        let (first, third) = (brute_quantile(&values, 0.25), brute_quantile(&values, 0.75));
        let (low, high) = (first - 1.5 * (third - first), third + 1.5 * (third - first));
        let own = Fences::of(&values).expect("values").interval();
        prop_assert!((own.low - low).abs() < 1e-6 && (own.high - high).abs() < 1e-6);
        let kept = without_outliers(&values);
        prop_assert!(kept.iter().all(|value| (low - 1e-6..=high + 1e-6).contains(value)));
        prop_assert!(kept.len() * 2 >= values.len());
    }

    #[test]
    fn a_histogram_has_the_fences_of_its_values(counts in proptest::collection::vec((0.0..1e3, 0_u64..5), 1..12)) {
        let mut counts = counts;
        counts.sort_by(|a: &(f64, u64), b| a.0.total_cmp(&b.0));
        let values: Vec<f64> =
            counts.iter().flat_map(|(value, count)| (0..*count).map(|_| *value)).collect();
        prop_assert_eq!(Fences::of_counts(&counts), Fences::of(&values));
    }
}

/// Welch's example with unequal variances: the interval uses Student's t for 4 and for 2.1 degrees of freedom.
#[test]
fn a_ratio_has_welchs_interval() {
    let powers = |exponents: &[f64]| exponents.iter().map(|own| own.exp()).collect::<Vec<f64>>();
    // Means 1 and 3, both with variance 1 and three values: 2 ± 2.776 sqrt(2/3).
    let found = ratio(&powers(&[0.0, 1.0, 2.0]), &powers(&[2.0, 3.0, 4.0])).expect("values above 0");
    let half = 2.776_445 * (2.0_f64 / 3.0).sqrt();
    assert!((found.ratio.ln() - 2.0).abs() < 1e-9, "{found:?}");
    let interval = found.interval.expect("two sides with spread");
    assert!((interval.low.ln() - (2.0 - half)).abs() < 1e-5 && (interval.high.ln() - (2.0 + half)).abs() < 1e-5);
    assert_eq!(found.is_significant(), Some(false), "e^-0.27 to e^4.27");
    // Unequal variances: (1/3 + 1/12)^2 / ((1/3)^2 / 2 + (1/12)^2 / 2) = 50/17 degrees of freedom.
    let other = ratio(&powers(&[0.0, 1.0, 2.0]), &powers(&[7.5, 8.0, 8.5])).expect("values above 0");
    let interval = other.interval.expect("two sides with spread");
    let half = (interval.high.ln() - interval.low.ln()) / 2.0 / (5.0_f64 / 12.0).sqrt();
    assert!(half > 3.182 && half < 3.3, "Student's t for 2.94 degrees of freedom: {half}");
    assert_eq!(other.is_significant(), Some(true));
}

#[test]
fn a_ratio_turns_around_with_its_sides() {
    let (one, other) = ([1.0, 1.5, 2.5], [4.0, 4.1, 9.0]);
    let there = ratio(&one, &other).and_then(|own| own.interval).expect("values above 0");
    let back = ratio(&other, &one).and_then(|own| own.interval).expect("values above 0");
    assert!((there.low * back.high - 1.0).abs() < 1e-9 && (there.high * back.low - 1.0).abs() < 1e-9);
}

#[test]
fn a_ratio_needs_values_above_0_and_spread_on_both_sides() {
    assert_eq!(ratio(&[0.0, 1.0], &[1.0, 2.0]), None);
    assert_eq!(ratio(&[], &[1.0]), None);
    let single = ratio(&[2.0], &[1.0, 1.1]).expect("values above 0");
    assert_eq!((single.interval, single.is_significant()), (None, None));
    let exact = ratio(&[2.0, 2.0], &[3.0, 3.0]).expect("values above 0");
    assert!(exact.is_significant() == Some(true) && (exact.ratio - 1.5).abs() < 1e-12, "{exact:?}");
    assert_eq!(ratio(&[2.0, 2.0], &[2.0, 2.0]).and_then(|own| own.is_significant()), Some(false));
}

#[test]
fn the_interval_of_a_chance_is_clopper_and_pearsons() {
    let check = |hits, trials, confidence, low: f64, high: f64| {
        let own = chance_interval(hits, trials, confidence).expect("there are trials");
        assert!((own.low - low).abs() < 1e-4 && (own.high - high).abs() < 1e-4, "{hits} of {trials}: {own:?}");
    };
    check(8, 10, 0.95, 0.4439, 0.9748);
    check(0, 10, 0.95, 0.0, 0.3085);
    check(10, 10, 0.95, 0.6915, 1.0);
    check(50, 100, 0.99, 0.3689, 0.6311);
    assert!(chance_interval(0, 0, 0.95).is_none() && chance_interval(2, 1, 0.95).is_none());
}
