//! Scales: positions rise with values, and ticks cover the axis.

use proptest::prelude::*;
use quorate_plots::{Bands, Ends, Scale};

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![Just(Ends::Round), Just(Ends::Padded), Just(Ends::Exact)]
}

/// Values of all magnitudes, close together and far apart.
fn values(log: bool) -> impl Strategy<Value = Vec<f64>> {
    let size = (-12.0..15.0f64).prop_map(|power| 10f64.powf(power));
    (size, prop::collection::vec(-1.0..1.0f64, 1..20), -6..8i32).prop_map(move |(size, parts, spread)| {
        let spread = 10f64.powi(spread.min(0));
        parts
            .into_iter()
            .map(|part| {
                if log {
                    size * 10f64.powf(part * 5.0 * spread)
                } else {
                    size * (1.0 + part * spread) - size * f64::from(u8::from(part < -0.9))
                }
            })
            .collect()
    })
}

/// Parses a label: digits, an optional exponent, and a suffix for thousands.
fn read(label: &str) -> f64 {
    let (digits, factor) = match label.chars().last() {
        Some('k') => (&label[..label.len() - 1], 1e3),
        Some('M') => (&label[..label.len() - 1], 1e6),
        Some('G') => (&label[..label.len() - 1], 1e9),
        _ => (label, 1.0),
    };
    digits.parse::<f64>().unwrap_or_else(|_| panic!("`{label}` is not a number")) * factor
}

proptest! {
    #[test]
    fn positions_rise_with_values(log in any::<bool>(), ends in ends(), zero in any::<bool>(), seed in values(true)) {
        let scale = Scale::covering(seed.iter().copied(), log, ends, zero);
        let mut sorted = seed;
        sorted.sort_by(f64::total_cmp);
        let places: Vec<f64> = sorted.iter().map(|value| scale.place(*value)).collect();
        prop_assert!(places.is_sorted(), "{places:?}");
        prop_assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
        prop_assert!(scale.low < scale.high);
        // Clamping would hide a scale that does not cover its values.
        let slack = (scale.high - scale.low) * 1e-9;
        let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
        prop_assert!(scale.low <= first + slack && scale.high >= last - slack, "{scale:?} {sorted:?}");
    }

    #[test]
    fn ticks_cover_a_linear_axis(ends in ends(), zero in any::<bool>(), values in values(false)) {
        check_ticks(&Scale::covering(values.into_iter(), false, ends, zero))?;
    }

    #[test]
    fn ticks_cover_a_logarithmic_axis(ends in ends(), values in values(true)) {
        check_ticks(&Scale::covering(values.into_iter(), true, ends, false))?;
    }

    #[test]
    fn round_ends_waste_less_than_half_of_a_linear_axis(values in values(false)) {
        let scale = Scale::covering(values.iter().copied(), false, Ends::Round, true);
        let most = values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(0.0, f64::min);
        prop_assert!(most >= (scale.high - scale.low) * 0.5, "{most} of {scale:?}");
    }
}

fn check_ticks(scale: &Scale) -> Result<(), TestCaseError> {
    let labelled: Vec<_> = scale.ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
    prop_assert!(labelled.len() >= 2, "{scale:?}");
    prop_assert!(scale.ticks.len() <= 90, "{} ticks", scale.ticks.len());
    prop_assert!(scale.ticks.iter().all(|tick| tick.value >= scale.low && tick.value <= scale.high), "{scale:?}");
    prop_assert!(scale.ticks.windows(2).all(|pair| pair[0].value < pair[1].value), "{scale:?}");
    let mut places = vec![0.0];
    places.extend(labelled.iter().map(|tick| scale.place(tick.value)));
    places.push(1.0);
    let widest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    prop_assert!(widest <= 0.62, "a gap of {widest:.2} in {scale:?}");
    for pair in labelled.windows(2) {
        prop_assert_ne!(&pair[0].label, &pair[1].label, "{:?}", scale);
    }
    for tick in labelled {
        let step = (scale.high - scale.low) * 1e-3 * if scale.log { 0.0 } else { 1.0 };
        let error = (read(&tick.label) - tick.value).abs();
        prop_assert!(error <= step + tick.value.abs() * 1e-6, "{tick:?} in {scale:?}");
    }
    Ok(())
}

#[test]
fn a_scale_without_values_is_usable() {
    for log in [false, true] {
        let scale = Scale::covering(std::iter::empty(), log, Ends::Round, false);
        assert!(scale.ticks.len() >= 2 && scale.low < scale.high, "{scale:?}");
    }
}

#[test]
fn one_value_gets_an_axis_around_it() {
    for value in [0.0, 1.0, -3.5, 1e-9, 7e14] {
        let scale = Scale::covering([value].into_iter(), false, Ends::Round, false);
        assert!(scale.low <= value && scale.high >= value && scale.low < scale.high, "{value}: {scale:?}");
    }
    let scale = Scale::covering([400.0].into_iter(), true, Ends::Round, false);
    assert!(scale.place(400.0) > 0.2 && scale.place(400.0) < 0.8, "{scale:?}");
}

#[test]
fn throughput_starts_at_zero_and_a_narrow_range_does_not() {
    let labels = |values: [f64; 2]| {
        let scale = Scale::covering(values.into_iter(), false, Ends::Round, false);
        scale.ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>()
    };
    assert_eq!(labels([21e3, 131e3]), ["0", "50k", "100k", "150k"]);
    assert_eq!(
        labels([98.2, 99.9]),
        ["98", "98.5", "99", "99.5", "100"].map(|label| if label.contains('.') {
            label.into()
        } else {
            format!("{label}.0")
        })
    );
}

#[test]
fn decades_are_labelled_with_ones_twos_and_fives_only_on_short_axes() {
    let labels = |values: [f64; 2]| {
        let scale = Scale::covering(values.into_iter(), true, Ends::Round, false);
        let labelled = scale.ticks.into_iter().filter(|tick| !tick.label.is_empty());
        labelled.map(|tick| tick.label).collect::<Vec<_>>()
    };
    assert_eq!(labels([3.0, 40.0]), ["2", "5", "10", "20", "50"]);
    assert_eq!(labels([0.003, 40.0]), ["0.01", "0.1", "1", "10"]);
}

#[test]
fn ticks_at_values_keep_every_digit() {
    let scale = Scale::covering([128.0, 65536.0].into_iter(), true, Ends::Padded, false);
    let labels: Vec<String> =
        scale.with_ticks_at(&[128.0, 1024.0, 20_000.0, 65536.0]).ticks.into_iter().map(|t| t.label).collect();
    assert_eq!(labels, ["128", "1024", "20k", "65536"]);
}

#[test]
fn bands_share_the_axis() {
    let bands = Bands::of(["a", "b", "a", "c"].into_iter());
    assert_eq!(bands.names, ["a", "b", "c"]);
    assert_eq!(bands.index("c"), 2);
    let middles: Vec<f64> = (0..3).map(|at| bands.middle(at)).collect();
    assert!(middles.windows(2).all(|pair| (pair[1] - pair[0] - bands.share()).abs() < 1e-12));
    assert!((middles[0] - bands.share() / 2.0).abs() < 1e-12);
}

#[test]
fn zero_has_a_place_before_the_break_of_a_logarithmic_axis() {
    let scale = Scale::covering([0.0, 0.25, 8.0].into_iter(), true, Ends::Padded, false);
    assert!(scale.zero && scale.place(0.0) == 0.0 && scale.low > 0.2, "{scale:?}");
    assert_eq!((scale.ticks[0].value, scale.ticks[0].label.as_str()), (0.0, "0"));
    let [first, middle, last] = [0.25, 2f64.sqrt(), 8.0].map(|value| scale.place(value));
    assert!(first > 0.05 && (middle - (first + last) / 2.0).abs() < 1e-9, "logarithmic behind the break");
    let usual = Scale::covering([0.25, 8.0].into_iter(), true, Ends::Padded, false);
    assert!(!usual.zero && usual.ticks.iter().all(|tick| tick.value > 0.0), "{usual:?}");
    let none = Scale::covering([0.0].into_iter(), true, Ends::Round, false);
    assert!(none.zero && none.ticks.len() >= 3, "{none:?}");
}
