//! Width of text. The figures' font is Helvetica or one with the same widths (Arial, Liberation Sans, Nimbus Sans).

/// Widths of the characters from space to tilde, in thousandths of the font size, from the font's public metrics.
#[rustfmt::skip]
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
/// Width of other characters in European scripts.
const OTHER: f64 = 0.62;
/// Width of ideographs, and of other possibly wide characters.
const WIDE: f64 = 1.0;
/// First code point that may be as wide as an ideograph.
const FIRST_WIDE: char = '\u{1100}';
/// Width ratio of the bold face.
const BOLD: f64 = 1.08;

/// Returns the width of a line of text in the unit of `size`.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let em: f64 = text.chars().map(em).sum();
    em * size * if bold { BOLD } else { 1.0 }
}

fn em(c: char) -> f64 {
    match c {
        ' '..='~' => f64::from(WIDTHS[c as usize - ' ' as usize]) / 1000.0,
        '\u{2026}' => 1.0,
        c if c >= FIRST_WIDE && !('\u{2000}'..='\u{206f}').contains(&c) => WIDE,
        _ => OTHER,
    }
}

/// Shortens a line with an ellipsis, so that it is at most `space` wide.
pub(crate) fn shorten(text: &str, space: f64, size: f64, bold: bool) -> String {
    if width(text, size, bold) <= space {
        return text.into();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&format!("{kept}\u{2026}"), size, bold) > space {
            kept.pop();
            break;
        }
    }
    format!("{}\u{2026}", kept.trim_end())
}

/// Shortens a category's name like `shorten`, but in the middle: names often differ in their last character.
pub(crate) fn shorten_middle(text: &str, space: f64, size: f64) -> String {
    if width(text, size, false) <= space {
        return text.into();
    }
    let all: Vec<char> = text.chars().collect();
    let around = |kept: usize| {
        let (head, tail) = (kept - kept / 2, kept / 2);
        let (head, tail): (String, String) = (all[..head].iter().collect(), all[all.len() - tail..].iter().collect());
        format!("{}\u{2026}{}", head.trim_end(), tail.trim_start())
    };
    let fitting = (0..all.len()).rev().map(around).find(|short| width(short, size, false) <= space);
    fitting.unwrap_or_else(|| "\u{2026}".into())
}

/// Breaks text at spaces into lines at most `space` wide; `None` if it needs more than `most` lines, or a word is
/// wider.
pub(crate) fn wrap(text: &str, space: f64, size: f64, most: usize) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|line| width(line, size, false) <= space) {
            Some(longer) => *lines.last_mut()? = longer,
            None if width(word, size, false) <= space => lines.push(word.into()),
            None => return None,
        }
    }
    (lines.len() <= most).then_some(lines)
}
