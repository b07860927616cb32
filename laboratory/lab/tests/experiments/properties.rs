//! Narrower intervals never reverse a verdict, and verdicts match those on exact values.

use proptest::prelude::*;
use quorate_lab::experiments::Value;
use quorate_lab::experiments::claims::{Estimate, Reading, Truth, decide};
use quorate_lab::experiments::file::{Limits, Relation, Selection, Side};
use quorate_lab::experiments::names::Direction;

/// Number of terms in each relation; even, as a crossing has two series.
const TERMS: usize = 6;

/// A true value, and the distances from it to the interval's ends.
fn terms() -> impl Strategy<Value = Vec<(f64, f64, f64)>> {
    let value = prop_oneof![Just(0.0), 0.1..20.0, (1_u32..5).prop_map(f64::from)];
    proptest::collection::vec((value, 0.0..4.0, 0.0..4.0), TERMS)
}

fn limits() -> impl Strategy<Value = Limits> {
    prop_oneof![
        (0.1..5.0).prop_map(|min| Limits { min: Some(min), max: None }),
        (0.1..5.0).prop_map(|max| Limits { min: None, max: Some(max) }),
        (0.1..3.0, 0.0..3.0).prop_map(|(min, more)| Limits { min: Some(min), max: Some(min + more) }),
    ]
}

fn relations() -> impl Strategy<Value = Relation> {
    let along = || "x".to_owned();
    let nothing = Selection::default;
    prop_oneof![
        (0.0..50.0).prop_map(|margin_percent| Relation::Order {
            by: "x".into(),
            values: Vec::<Value>::new(),
            margin_percent
        }),
        limits().prop_map(move |limits| Relation::Ratio { numerator: nothing(), denominator: nothing(), limits }),
        (
            prop_oneof![Just(Direction::Rises), Just(Direction::Falls), Just(Direction::Flat)],
            prop_oneof![Just(0.0), 0.0..200.0]
        )
            .prop_map(move |(direction, tolerance_percent)| Relation::Trend {
                along: along(),
                direction,
                tolerance_percent
            }),
        limits().prop_map(|limits| Relation::Bound { limits }),
        (0.0..100.0, limits()).prop_map(move |(rise_percent, limits)| Relation::Saturation {
            along: along(),
            rise_percent,
            limits
        }),
        (0.0..300.0).prop_map(move |within_percent| Relation::Plateau {
            along: along(),
            from: 0.0,
            to: 9.0,
            within_percent
        }),
        (prop_oneof![(0.2..2.0).prop_map(Side::Above), (0.2..2.0).prop_map(Side::Below)], limits()).prop_map(
            move |(side, limits)| Relation::Crossing {
                along: along(),
                first: nothing(),
                second: nothing(),
                side,
                limits
            }
        ),
    ]
}

/// Readings whose intervals have this share of their full width.
fn readings(relation: &Relation, terms: &[(f64, f64, f64)], shares: &[(f64, f64)]) -> Vec<Reading> {
    let count = if matches!(relation, Relation::Ratio { .. }) { 2 } else { TERMS };
    let series = if matches!(relation, Relation::Crossing { .. }) { TERMS / 2 } else { TERMS };
    let figure = |(value, below, above): (f64, f64, f64), (low, high): (f64, f64)| Estimate {
        mean: value,
        low: value - below * low,
        high: value + above * high,
    };
    let figures = terms.iter().zip(shares).take(count).map(|(term, share)| figure(*term, *share));
    let reading = |(at, figure)| Reading { label: format!("x {at}"), at: Some((at % series) as f64), figure };
    figures.enumerate().map(reading).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn narrower_intervals_keep_a_verdict(
        relation in relations(),
        terms in terms(),
        shares in proptest::collection::vec((0.0..=1.0, 0.0..=1.0), TERMS),
    ) {
        let wide = decide(&relation, &readings(&relation, &terms, &[(1.0, 1.0); TERMS])).0;
        let narrow = decide(&relation, &readings(&relation, &terms, &shares)).0;
        let exact = decide(&relation, &readings(&relation, &terms, &[(0.0, 0.0); TERMS])).0;
        if wide != Truth::Open {
            prop_assert_eq!(narrow, wide);
        }
        if narrow != Truth::Open {
            prop_assert_eq!(exact, narrow);
        }
    }

    #[test]
    fn without_knowledge_nothing_is_decided(relation in relations(), terms in terms()) {
        let unknown: Vec<_> = terms.iter().map(|(value, ..)| (*value, f64::INFINITY, f64::INFINITY)).collect();
        let truth = decide(&relation, &readings(&relation, &unknown, &[(1.0, 1.0); TERMS])).0;
        let can_be_vacuous = matches!(&relation, Relation::Saturation { limits, .. } | Relation::Crossing { limits, .. }
            if limits.min.is_none_or(|min| min <= 0.0) && limits.max.is_none());
        prop_assert!(truth == Truth::Open || can_be_vacuous || outside_axis(&relation), "{:?}", truth);
    }

    #[test]
    fn ratios_contain_all_ratios(
        a in (0.0..9.0, 0.0..9.0),
        b in (0.0..9.0, 0.0..9.0),
        parts in (0.0..=1.0, 0.0..=1.0),
    ) {
        let estimate = |(low, width): (f64, f64)| Estimate { mean: low + width / 2.0, low, high: low + width };
        let (a, b) = (estimate(a), estimate(b));
        let inside = |own: &Estimate, part: f64| own.low + (own.high - own.low) * part;
        let ratio = inside(&a, parts.0) / inside(&b, parts.1);
        let own = a.over(&b);
        prop_assert!(!ratio.is_finite() || own.low <= ratio * (1.0 + 1e-9) && ratio <= own.high * (1.0 + 1e-9));
    }
}

/// Whether the position on the axis is certainly outside the limits, or certainly inside.
fn outside_axis(relation: &Relation) -> bool {
    let (limits, last) = match relation {
        Relation::Saturation { limits, .. } => (limits, TERMS - 2),
        Relation::Crossing { limits, .. } => (limits, TERMS / 2 - 1),
        _ => return false,
    };
    let places: Vec<f64> = (0..=last).map(|at| at as f64).chain([f64::INFINITY]).collect();
    let inside = places.iter().filter(|at| limits.contain(**at)).count();
    inside == 0 || inside == places.len()
}
