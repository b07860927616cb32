//! Colours of the light and dark theme. Each has a contrast of at least 3 to 1 with its background, and no two
//! neighbours look alike to readers with any of the three dichromacies; `tests/colours.rs` computes both.

use crate::scene::Paint;

/// Red, green and blue.
pub type Rgb = [u8; 3];

/// Colours for one background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Theme {
    pub ink: Rgb,
    pub soft: Rgb,
    pub rule: Rgb,
    pub grid: Rgb,
    pub surface: Rgb,
    pub event: Rgb,
    pub bad: Rgb,
    pub series: [Rgb; COLOURS],
}

/// Number of series colours. Further series repeat them with another marker, or pale and outlined.
pub const COLOURS: usize = 8;

/// Theme of light pages and of paper.
pub const LIGHT: Theme = Theme {
    ink: [0x19, 0x1c, 0x20],
    soft: [0x55, 0x5e, 0x69],
    rule: [0x8b, 0x94, 0x9e],
    grid: [0xe6, 0xe9, 0xed],
    surface: [0xff, 0xff, 0xff],
    event: [0xb0, 0x1e, 0x46],
    bad: [0xb3, 0x21, 0x3b],
    series: [
        [0x0f, 0x62, 0xb4],
        [0xea, 0x50, 0x14],
        [0x28, 0x89, 0x58],
        [0x7d, 0x22, 0x7c],
        [0x63, 0x6f, 0x87],
        [0x8f, 0x97, 0x22],
        [0x44, 0x94, 0xf2],
        [0x5c, 0x14, 0x2b],
    ],
};

/// Theme of dark pages.
pub const DARK: Theme = Theme {
    ink: [0xe8, 0xeb, 0xef],
    soft: [0xa3, 0xac, 0xb8],
    rule: [0x6b, 0x75, 0x82],
    grid: [0x2a, 0x30, 0x39],
    surface: [0x18, 0x1c, 0x22],
    event: [0xff, 0x7a, 0x9c],
    bad: [0xff, 0x80, 0x95],
    series: [
        [0x5f, 0xa8, 0xf5],
        [0xe3, 0x86, 0x3e],
        [0x18, 0xd3, 0x7f],
        [0xc1, 0x62, 0xb5],
        [0xb0, 0xa8, 0xbb],
        [0xe3, 0xd4, 0x4e],
        [0xb5, 0xe6, 0xfd],
        [0xb8, 0x59, 0x5d],
    ],
};

impl Theme {
    pub(crate) fn rgb(&self, paint: Paint) -> Rgb {
        match paint {
            Paint::Ink => self.ink,
            Paint::Soft => self.soft,
            Paint::Rule => self.rule,
            Paint::Grid => self.grid,
            Paint::Surface => self.surface,
            Paint::Event => self.event,
            Paint::Bad => self.bad,
            Paint::Series(index) => self.series[index % COLOURS],
            Paint::Rgb(rgb) => rgb,
        }
    }
}

/// Stops of the heat map's colour scale: dark blue to yellow through green, with evenly increasing lightness.
pub(crate) const HEAT: [Rgb; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// Returns the colour at a position on the heat map's scale, from 0 to 1.
pub fn heat(place: f64) -> Rgb {
    let at = place.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let index = (at.floor() as usize).min(HEAT.len() - 2);
    let part = at - index as f64;
    let mix = |channel: usize| {
        let (from, to) = (f64::from(HEAT[index][channel]), f64::from(HEAT[index + 1][channel]));
        (from + (to - from) * part).round() as u8
    };
    [mix(0), mix(1), mix(2)]
}

/// Returns black or white, whichever is easier to read on a colour.
pub(crate) fn readable_on(background: Rgb) -> Rgb {
    let white = contrast(background, [0xff, 0xff, 0xff]);
    if white >= contrast(background, [0, 0, 0]) { [0xff, 0xff, 0xff] } else { [0, 0, 0] }
}

/// Returns the contrast of two colours, from 1 to 21, as WCAG 2 defines it.
pub fn contrast(one: Rgb, two: Rgb) -> f64 {
    let (one, two) = (luminance(one), luminance(two));
    (one.max(two) + 0.05) / (one.min(two) + 0.05)
}

fn luminance(rgb: Rgb) -> f64 {
    let linear = |channel: u8| match f64::from(channel) / 255.0 {
        c if c <= 0.04045 => c / 12.92,
        c => ((c + 0.055) / 1.055).powf(2.4),
    };
    0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2])
}
