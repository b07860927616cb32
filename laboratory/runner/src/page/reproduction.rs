//! `docs/REPRODUCTION.md` and the pages that it links: the verdict on every figure of the papers.

use super::finding::Finding;
use super::words;
use quorate_lab::experiments::{Judgement, Verdict};
use quorate_types::Fault;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The figures and tables of the papers, which are part of the program.
pub const CATALOGUE: &str = include_str!("../../../../experiments/catalogue.toml");
/// File name in errors.
const CATALOGUE_FILE: &str = "experiments/catalogue.toml";
const NOT_RUN: &str = "Not run.";

/// Figures and tables of papers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(rename = "paper")]
    pub papers: Vec<Paper>,
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

/// One of the papers, in the order of the table.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Directory of its experiments.
    pub name: String,
    pub title: String,
    /// Authors, with the year if it is known.
    #[serde(default)]
    pub authors: String,
    /// BibTeX entry; empty for experiments without a paper.
    #[serde(default)]
    pub bibtex: String,
}

/// A figure or table.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub paper: String,
    /// Number of the figure in the paper.
    pub figure: String,
    pub shows: String,
    /// The experiment, below `experiments`.
    pub file: Option<String>,
    /// Missing feature of quorate; for an entry with a file, the part that the experiment leaves out.
    pub needs: Option<String>,
    /// Whether it is a drawing without measurements.
    #[serde(default)]
    pub drawing: bool,
}

impl Catalogue {
    /// Parses a catalogue.
    ///
    /// # Errors
    /// If it does not have this form, or an entry states neither a missing feature nor an experiment.
    pub fn parse(text: &str) -> Result<Catalogue, Fault> {
        let wrong = |what: String, help: &str| Fault::new(CATALOGUE_FILE, what, help);
        let catalogue: Catalogue = toml::from_str(text)
            .map_err(|error| wrong(words::line(error.message()), "compare it with the entries beside it"))?;
        for entry in &catalogue.entries {
            let place = format!("{} of {}", entry.figure, entry.paper);
            if !catalogue.papers.iter().any(|paper| paper.name == entry.paper) {
                return Err(wrong(format!("{place}: there is no such paper"), "add a [[paper]]"));
            }
            let has_state = entry.file.is_some() || entry.needs.is_some();
            if has_state == entry.drawing {
                let what = format!("{place}: it is a drawing, or has a file or needs something, but not both");
                return Err(wrong(what, "set `drawing = true`, or else `file`, `needs` or both"));
            }
        }
        Ok(catalogue)
    }

    fn of(&self, paper: &Paper) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.paper == paper.name)
    }
}

impl Entry {
    /// Returns the name of its experiment, `PAPER/ID`.
    pub fn experiment(&self) -> Option<&str> {
        self.file.as_deref().map(|file| file.strip_suffix(".toml").unwrap_or(file))
    }
}

/// The index of all figures and one page for each paper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pages {
    pub index: String,
    /// Files in the directory [`PAGES_DIR`] beside the index, with their texts.
    pub papers: Vec<(String, String)>,
}

/// Directory of the papers' pages, beside the index.
pub const PAGES_DIR: &str = "reproduction";

/// Writes the index and the papers' pages. An experiment that was run in two profiles has a result for each.
pub fn render(catalogue: &Catalogue, findings: &[Finding]) -> Pages {
    let mut index = String::from(
        "# Reproduction\n\n\
         The verdict on every figure and table of the papers. `quorate lab report DIR --reproduction\n\
         docs/REPRODUCTION.md` writes this file and the pages that it links, from the results in DIR and from\n\
         [experiments/catalogue.toml](../experiments/catalogue.toml); do not edit them by hand.\n\n\
         A claim holds, does not hold, is undecided if the interval of the measurement straddles a limit, or is\n\
         not measurable here; [Experiments](EXPERIMENTS.md#claims) says how claims are judged. The quick\n\
         profile takes about a minute on two cores; the full one has the parameters of the paper.\n",
    );
    for paper in &catalogue.papers {
        index.push_str(&section(catalogue, paper, findings));
    }
    index.push_str(&provenance(findings));
    let page = |paper: &Paper| (format!("{}.md", paper.name), page(catalogue, paper, findings));
    Pages { index, papers: catalogue.papers.iter().map(page).collect() }
}

/// Returns the section of the index on a paper: a row for each figure.
fn section(catalogue: &Catalogue, paper: &Paper, findings: &[Finding]) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", paper.name, citation(paper));
    text.push_str("| figure | shows | claims |\n|---|---|---|\n");
    for entry in catalogue.of(paper).filter(|entry| !entry.drawing) {
        let anchor = entry.figure.to_lowercase().replace(' ', "-").replace(['.', ',', '(', ')', ':'], "");
        let verdicts: Vec<String> = own(entry, findings).map(counts).collect();
        let verdicts = match (&entry.file, verdicts.is_empty()) {
            (None, _) => "not there yet".to_owned(),
            (Some(_), true) => NOT_RUN.to_owned(),
            (Some(_), false) => verdicts.join("; "),
        };
        let (figure, shows) = (cell(&entry.figure), cell(&entry.shows));
        let _ = writeln!(text, "| [{figure}]({PAGES_DIR}/{}.md#{anchor}) | {shows} | {verdicts} |", paper.name);
    }
    let drawings: Vec<String> = catalogue
        .of(paper)
        .filter(|entry| entry.drawing)
        .map(|entry| format!("{} ({})", entry.figure, entry.shows))
        .collect();
    if !drawings.is_empty() {
        let _ = writeln!(text, "\nNothing to measure: {}.", drawings.join(", "));
    }
    text
}

/// Returns the page of a paper: each figure with the experiment and the measured claims.
fn page(catalogue: &Catalogue, paper: &Paper, findings: &[Finding]) -> String {
    let mut text = format!(
        "# Reproduction: {}\n\n{} [The index](../REPRODUCTION.md) has the other papers.\n",
        paper.name,
        citation(paper)
    );
    for entry in catalogue.of(paper).filter(|entry| !entry.drawing) {
        let _ = write!(text, "\n## {}\n\nShows {}.", cell(&entry.figure), cell(&entry.shows));
        let needs = entry.needs.as_deref().map(cell);
        let (Some(name), Some(file)) = (entry.experiment(), &entry.file) else {
            let _ = writeln!(text, " Not there yet: needs {}.", needs.unwrap_or_default());
            continue;
        };
        let _ = write!(text, " Experiment [{name}](../../experiments/{file})");
        let _ = writeln!(text, "{}.", needs.map(|needs| format!(", without {needs}")).unwrap_or_default());
        let own: Vec<String> = own(entry, findings).map(of_finding).collect();
        text.push_str(&if own.is_empty() { format!("\n{NOT_RUN}\n") } else { own.concat() });
    }
    text
}

fn citation(paper: &Paper) -> String {
    let by = if paper.authors.is_empty() { String::new() } else { format!(" ({})", paper.authors) };
    format!("{}{by}.", paper.title)
}

/// Returns the results of an entry's experiment.
fn own<'a, 'b>(entry: &Entry, findings: &'a [Finding<'b>]) -> impl Iterator<Item = &'a Finding<'b>> {
    let name = entry.experiment().map(str::to_owned);
    findings.iter().filter(move |finding| Some(finding.plan.experiment.name()) == name)
}

/// Returns the number of claims that hold, and of those that nothing was decided about.
fn counts(finding: &Finding) -> String {
    let of = |verdict: Verdict| finding.claims.iter().filter(|claim| claim.verdict == verdict).count();
    let mut text = format!("{}: {} of {} hold", finding.plan.profile, of(Verdict::Holds), finding.claims.len());
    for verdict in [Verdict::Undecided, Verdict::NotMeasurable] {
        if of(verdict) > 0 {
            let _ = write!(text, ", {} {verdict}", of(verdict));
        }
    }
    text
}

fn of_finding(finding: &Finding) -> String {
    let failed = finding.rows.iter().filter(|row| row.failure.is_some()).count();
    let failures = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    let head = format!("\nProfile {}, {}{failures}", finding.plan.profile, words::count(finding.runs(), "run"));
    if finding.claims.is_empty() {
        return format!("{head}. It has no claims.\n");
    }
    let claims: String = finding.claims.iter().map(of_claim).collect();
    format!("{head}:\n\n{claims}")
}

fn of_claim(claim: &Judgement) -> String {
    let paper = if claim.paper.is_empty() { String::new() } else { format!("; paper: {}", cell(&claim.paper)) };
    let why = claim.overturned.as_deref().map(|why| format!(" {}", cell(why))).unwrap_or_default();
    format!(
        "- `{}` **{}** ({}): {}{paper}.{why}\n",
        claim.id,
        claim.verdict,
        claim.instrument,
        cell(claim.measured.trim_end_matches('.')),
    )
}

/// Describes the builds and machines of the results, without a date, so that equal results give equal text.
fn provenance(findings: &[Finding]) -> String {
    let of_row = |row: &quorate_lab::experiments::Row| {
        let from = &row.provenance.surroundings;
        format!("{}: {}, build {}", row.instrument, cell(&from.machine), cell(&from.build))
    };
    let all: BTreeSet<String> = findings.iter().flat_map(|finding| finding.rows).map(of_row).collect();
    if all.is_empty() {
        return String::new();
    }
    let lines: String = all.iter().map(|line| format!("- {line}\n")).collect();
    format!("\n## Provenance\n\n{lines}")
}

/// Escapes a text for Markdown, and for a field of its tables.
fn cell(text: &str) -> String {
    let text = words::line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('|', "\\|");
    text.replace('*', "\\*").replace('_', "\\_")
}
