//! Formats in which a command presents its result.

use serde::Serialize;

/// Result of a command: text for a terminal, JSON, and optionally a page.
pub trait Report: Serialize {
    /// Returns the text for a terminal.
    fn to_table(&self) -> String;

    /// Returns the JSON of `--json`: indented, with a line feed at the end.
    fn to_json(&self) -> String {
        indented(self)
    }

    /// Returns the HTML page of `--report`; empty for a result without one.
    fn to_page(&self) -> String {
        String::new()
    }

    /// Returns why the command fails although it has a result; `None` if it does not fail.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Returns a value as JSON: indented, with a line feed at the end.
pub fn indented(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("a result is plain data") + "\n"
}
