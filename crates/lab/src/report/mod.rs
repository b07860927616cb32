//! Report of one run: a single HTML page without external resources, for light and dark mode, wide and narrow screens.

mod charts;
mod html;
mod sections;
mod svg;

use crate::result::BenchResult;
use html::escape;

/// Content security policy of the page: inline style and script only, and no requests.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Verdict of a run that had something to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub passed: bool,
    /// Short statements of what holds, or does not.
    pub claims: Vec<String>,
    /// Explanations, one sentence each.
    pub reasons: Vec<String>,
}

/// Renders the page that `--report PATH.html` writes.
pub fn render_html(result: &BenchResult) -> String {
    render(result, None)
}

/// Renders the page with a verdict at the top.
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
        sections::command(result),
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
