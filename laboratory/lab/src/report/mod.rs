//! Report of one run: a single HTML page without external resources, for light and dark mode, wide and narrow screens.

mod figures;
mod sections;
mod stages;
mod terminal;

pub use stages::stage_bars;

use crate::result::BenchResult;
use quorate_plots::Page;

/// Verdict on a run that has something to prove.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub passed: bool,
    /// Short statements that hold, or do not.
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
    let page = Page {
        title: sections::title(result),
        lead: sections::lead(result),
        sections: [
            Some(sections::summary(result, verdict)),
            Some(sections::over_time(result)),
            Some(sections::latency(result)),
            Some(sections::cost(result)),
            stages::section(result),
            Some(sections::command(result)),
            Some(sections::configuration(result)),
            Some(sections::machine(result)),
            Some(sections::definitions(result)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        footer: format!("quorate {}", result.version),
    };
    quorate_plots::page(&page).expect("names are fixed, and figures that cannot be drawn are left out")
}
