//! PDF files.

use quorate_plots::{Width, pdf};

use crate::samples;

fn find(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text.as_bytes())
}

fn has(bytes: &[u8], text: &str) -> bool {
    find(bytes, text).is_some()
}

#[test]
fn every_kind_becomes_a_page_of_its_own_size() {
    for figure in samples::all() {
        for width in [Width::Column, Width::Text] {
            let bytes = pdf(&figure, width).expect("samples can be drawn");
            assert!(bytes.starts_with(b"%PDF-1.") && bytes.ends_with(b"%%EOF"), "{}", figure.id);
            assert!(has(&bytes, &format!("/MediaBox [0 0 {} ", width.points())), "{}", figure.id);
            assert!(has(&bytes, "/BaseFont /Helvetica"), "{}", figure.id);
            assert!(!has(&bytes, "NaN") && !has(&bytes, "inf "), "{}", figure.id);
            let tail = &bytes[find(&bytes, "startxref").expect("a PDF says where its table is") + 10..];
            let digits: String = tail.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
            let table: usize = digits.parse().expect("an offset");
            assert!(bytes[table..].starts_with(b"xref"), "{}: the table is not where the file says", figure.id);
        }
    }
}

#[test]
fn text_can_be_searched() {
    let bytes = pdf(&samples::curve(), Width::Column).expect("can be drawn");
    for text in ["(alpha)", "(alpha (paper))", "(throughput (commands/s))"] {
        assert!(has(&bytes, text), "{text}");
    }
}

#[test]
fn opacities_are_declared_before_they_are_used() {
    let bytes = pdf(&samples::time(), Width::Text).expect("can be drawn");
    assert!(has(&bytes, "/O12 gs") && has(&bytes, "/O12 <<"), "the shade of a span is transparent");
}

#[test]
fn characters_that_the_font_lacks_are_replaced() {
    let mut figure = samples::curve();
    figure.x.label = "µs – naïve ≤ 漢字".into();
    let bytes = pdf(&figure, Width::Text).expect("can be drawn");
    let expected: &[u8] = b"\xb5s \x96 na\xefve <= ??";
    // Strings with such bytes are written in hexadecimal.
    let written: String = expected.iter().map(|byte| format!("{byte:02X}")).collect();
    assert!(has(&bytes, &written));
}

#[test]
fn ten_thousand_requests_fit_into_a_small_file() {
    let bytes = pdf(&samples::scatter(10_000), Width::Text).expect("can be drawn");
    assert!(bytes.len() < 500_000, "{} bytes", bytes.len());
}
