//! Foreign texts on a terminal.

use proptest::prelude::*;
use quorate_types::text::{escaped, escaped_bytes, escaped_lines};

/// Cursor movements, window titles, bells, deletions, line ends, text directions, invisible characters.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\t\u{8}\u{7f}\u{9b}31m\u{202e}\u{200b}\u{feff}\u{2028}";

#[test]
fn everything_that_a_terminal_acts_on_is_escaped() {
    let expected =
        "\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\r\\n\\t\\u{8}\\u{7f}\\u{9b}31m\\u{202e}\\u{200b}\\u{feff}\\u{2028}";
    assert_eq!(escaped(HOSTILE), expected);
    assert_eq!(escaped_bytes(HOSTILE.as_bytes()), expected);
    assert_eq!(escaped_lines("one\n\ttwo\r\u{1b}\n"), "one\n\ttwo\\r\\u{1b}\n");
    assert_eq!(escaped("größer, 日本語 \\ é"), "größer, 日本語 \\ é", "what can be read stays");
}

#[test]
fn bytes_can_be_told_from_their_escaped_form() {
    let cases: [&[u8]; 6] = [b"\\n", b"\n", b"\\\\n", b"\xff", b"\\xff", b"a\tb"];
    let forms = cases.map(escaped_bytes);
    assert_eq!(forms, ["\\\\n", "\\n", "\\\\\\\\n", "\\xff", "\\\\xff", "a\\tb"]);
}

proptest! {
    #[test]
    fn different_bytes_have_different_printable_forms(one: Vec<u8>, other: Vec<u8>) {
        let forms = [&one, &other].map(|bytes| escaped_bytes(bytes));
        prop_assert_eq!(one == other, forms[0] == forms[1]);
        prop_assert!(!forms[0].chars().any(char::is_control));
    }

    #[test]
    fn an_escaped_text_has_no_control_character(text: String) {
        prop_assert!(!escaped(&text).chars().any(char::is_control));
        prop_assert!(!escaped_lines(&text).chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    }
}
