//! Colours: contrast with the background, and difference for readers with a dichromacy.

use quorate_plots::{DARK, LIGHT, Rgb, Theme, contrast, heat};

/// Contrast that WCAG 2 requires for graphical objects; the next constant is for text.
const GRAPHICS: f64 = 3.0;
const TEXT: f64 = 4.5;
/// Minimum difference of two series, in units of CIE 1976; about 2.3 is just noticeable.
const MIN_DIFFERENCE: f64 = 10.0;

/// Transformation of linear red, green and blue for normal vision and for each dichromacy (Machado, Oliveira and
/// Fernandes, 2009, table for severity 1).
const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
];

fn linear(rgb: Rgb) -> [f64; 3] {
    rgb.map(|channel| match f64::from(channel) / 255.0 {
        c if c <= 0.04045 => c / 12.92,
        c => ((c + 0.055) / 1.055).powf(2.4),
    })
}

fn seen(rgb: Rgb, vision: &[[f64; 3]; 3]) -> [f64; 3] {
    let rgb = linear(rgb);
    vision.map(|row| (row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]).clamp(0.0, 1.0))
}

/// Returns the lightness and the two opponent colours of CIE 1976.
fn lab([red, green, blue]: [f64; 3]) -> [f64; 3] {
    let xyz = [
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    ];
    let [x, y, z] = xyz.map(|t| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(one: [f64; 3], two: [f64; 3]) -> f64 {
    one.iter().zip(two).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

const THEMES: [(&str, Theme); 2] = [("light", LIGHT), ("dark", DARK)];

#[test]
fn everything_stands_out_from_its_background() {
    for (name, theme) in THEMES {
        for (what, colour) in [("ink", theme.ink), ("soft", theme.soft), ("event", theme.event), ("bad", theme.bad)] {
            let contrast = contrast(colour, theme.surface);
            assert!(contrast >= TEXT, "{name}: {what} has a contrast of {contrast:.2}");
        }
        for (at, colour) in theme.series.into_iter().enumerate() {
            let contrast = contrast(colour, theme.surface);
            assert!(contrast >= GRAPHICS, "{name}: series {at} has a contrast of {contrast:.2}");
        }
    }
}

#[test]
fn series_differ_for_every_kind_of_colour_vision() {
    for (name, theme) in THEMES {
        for (vision, matrix) in &VISIONS {
            let colours = theme.series.map(|colour| lab(seen(colour, matrix)));
            for (at, one) in colours.iter().enumerate() {
                for (other, two) in colours.iter().enumerate().skip(at + 1) {
                    let difference = distance(*one, *two);
                    assert!(
                        difference >= MIN_DIFFERENCE,
                        "{name}, {vision}: series {at} and {other} differ by {difference:.1}"
                    );
                }
            }
        }
    }
}

#[test]
fn heat_grows_lighter_for_every_kind_of_colour_vision() {
    for (vision, matrix) in &VISIONS {
        let lightness: Vec<f64> = (0..=20).map(|at| lab(seen(heat(f64::from(at) / 20.0), matrix))[0]).collect();
        assert!(lightness.is_sorted(), "{vision}: {lightness:?}");
        assert!(lightness[20] - lightness[0] > 60.0, "{vision}: {lightness:?}");
    }
}

#[test]
fn black_on_white_has_the_greatest_contrast() {
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast([9, 9, 9], [9, 9, 9]) - 1.0).abs() < 1e-9);
}
