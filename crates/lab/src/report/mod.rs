//! The report of one run: a single HTML page that fetches nothing, in light or dark as the reader prefers, on a desk or a phone.

mod charts;
mod html;
mod sections;
mod svg;

use crate::result::BenchResult;
use html::escape;

/// What the page may do: show its own style and run its own script, and load nothing from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// What was to be shown, and whether it was: more than figures can say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Whether it holds.
    pub passed: bool,
    /// What holds, or does not, in a few words each.
    pub claims: Vec<String>,
    /// How it was found out, a sentence each.
    pub reasons: Vec<String>,
}

/// The page that `--report PATH.html` writes.
pub fn render_html(result: &BenchResult) -> String {
    render(result, None)
}

/// The same page with a verdict at its top.
pub fn render_verdict(result: &BenchResult, verdict: &Verdict) -> String {
    render(result, Some(verdict))
}

fn render(result: &BenchResult, verdict: Option<&Verdict>) -> String {
    let body = [
        sections::headline(result, verdict),
        verdict.map_or_else(String::new, sections::verdict),
        sections::findings(result),
        sections::over_time(result),
        sections::latency(result),
        sections::processor(result),
        sections::again(result),
        sections::configuration(result),
        sections::machine(result),
        sections::definitions(),
    ]
    .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <footer>quorate {}</footer>\n<script>\n{}</script>\n</body>\n</html>\n",
        escape(&sections::title(result)),
        include_str!("style.css"),
        escape(&result.version),
        include_str!("copy.js"),
    )
}
