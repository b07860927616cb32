//! Formatting of numbers and words for people, shells and terminals.

use std::borrow::Cow;

/// Formats a count with its digits grouped in thousands.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

pub fn group(digits: &str) -> String {
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Quotes a word for a POSIX shell, if necessary.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a foreign text with all characters escaped that a terminal would act on or not show: control characters,
/// including line ends, and characters that change the text direction or are invisible. The text comes from a file, a
/// peer, a client or a status, whose author must not be able to move the cursor, rename the window or forge lines.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_except(text, "")
}

/// Like [`escaped`] for a text of several lines, but keeps line ends and tabs.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_except(text, "\n\t")
}

fn escaped_except<'a>(text: &'a str, kept: &str) -> Cow<'a, str> {
    let is_plain = |c: char| !is_unprintable(c) || kept.contains(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_plain(c) { out.push(c) } else { push_escape(&mut out, c) }
    }
    Cow::Owned(out)
}

/// Returns bytes as a text that represents them unambiguously: like [`escaped`], with two backslashes for one, and
/// `\xNN` for each byte that is not part of valid UTF-8.
pub fn escaped_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if is_unprintable(c) => push_escape(&mut out, c),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

fn push_escape(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
    }
}

/// Returns whether a terminal acts on a character, or shows nothing for it.
fn is_unprintable(c: char) -> bool {
    let is_format = matches!(u32::from(c),
        0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb
            | 0xe0000..=0xe007f);
    c.is_control() || is_format
}
