//! The report of one run: a single HTML page that fetches nothing, in light or dark as the reader prefers, on a desk or a phone.

mod charts;
mod html;
mod sections;
mod svg;

use crate::result::BenchResult;
use html::escape;

/// What the page may do: show its own style and run its own script, and load nothing from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page that `--report PATH.html` writes.
pub fn render_html(result: &BenchResult) -> String {
    let body = [
        sections::headline(result),
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
