//! The forms in which a command shows its result.

use crate::Outcome;
use crate::output::{Form, Outputs};
use serde::Serialize;

/// Result of a command: text for a terminal, JSON, and perhaps a page.
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

    /// Returns why the command fails although it has a result.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Returns a value as JSON: indented, with a line feed at the end.
pub fn indented(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("a result is plain data") + "\n"
}

impl Outputs {
    /// Prints the text of a result and writes its other forms: those of [`Report`], and `others`.
    ///
    /// # Errors
    /// Lists every output that cannot be written, or else says why the result is a failure.
    pub fn show(self, result: &impl Report, others: &[Form<'_>]) -> Outcome {
        let (json, page) = (|| result.to_json(), || result.to_page());
        let forms = [others, &[("--json", &json), ("--report", &page)]].concat();
        self.deliver(result.to_table().trim_end(), &forms)?;
        result.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }
}
