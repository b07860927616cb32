//! `docs/REPRODUCTION.md`: every figure of the papers, with our results.

use super::finding::Finding;
use super::words;
use quorate_lab::experiments::Judgement;
use quorate_types::Fault;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The figures and tables of the papers, which are part of the program.
pub const CATALOGUE: &str = include_str!("../../../../experiments/catalogue.toml");
/// File name in errors.
const CATALOGUE_FILE: &str = "experiments/catalogue.toml";
const NOT_RUN: &str = "not run";

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
}

impl Entry {
    /// Returns the name of its experiment, `PAPER/ID`.
    pub fn experiment(&self) -> Option<&str> {
        self.file.as_deref().map(|file| file.strip_suffix(".toml").unwrap_or(file))
    }
}

/// Writes the table of all figures. An experiment that was run in two profiles has a result for each.
pub fn render(catalogue: &Catalogue, findings: &[Finding]) -> String {
    let mut text = String::from(
        "# Reproduction\n\n\
         Every figure and table of the papers, and what became of it here. This file is written by\n\
         `quorate lab report DIR --reproduction docs/REPRODUCTION.md` from the results in DIR and from\n\
         [experiments/catalogue.toml](../experiments/catalogue.toml); do not edit it by hand.\n\n\
         A claim *holds*, *does not hold*, is *undecided* if the interval of the measurement straddles a limit, or is\n\
         *not measurable here*; [EXPERIMENTS.md](EXPERIMENTS.md#claims) says how claims are judged. The quick\n\
         profile takes about a minute on two cores; the full one has the parameters of the paper.\n",
    );
    for paper in &catalogue.papers {
        text.push_str(&of_paper(catalogue, paper, findings));
    }
    text.push_str(&provenance(findings));
    text
}

fn of_paper(catalogue: &Catalogue, paper: &Paper, findings: &[Finding]) -> String {
    let entries = || catalogue.entries.iter().filter(|entry| entry.paper == paper.name);
    let by = if paper.authors.is_empty() { String::new() } else { format!(" ({})", paper.authors) };
    let mut text = format!("\n## {}\n\n{}{by}.\n\n", paper.name, paper.title);
    text.push_str("| figure | shows | experiment | verdicts |\n|---|---|---|---|\n");
    for entry in entries().filter(|entry| !entry.drawing) {
        let (experiment, verdicts) = state(entry, findings);
        let _ = writeln!(text, "| {} | {} | {experiment} | {verdicts} |", cell(&entry.figure), cell(&entry.shows));
    }
    let drawings: Vec<String> =
        entries().filter(|entry| entry.drawing).map(|entry| format!("{} ({})", entry.figure, entry.shows)).collect();
    if !drawings.is_empty() {
        let _ = writeln!(text, "\nNothing to measure: {}.", drawings.join(", "));
    }
    text
}

/// Returns the last two columns of an entry.
fn state(entry: &Entry, findings: &[Finding]) -> (String, String) {
    let (Some(name), Some(file)) = (entry.experiment(), &entry.file) else {
        return ("–".to_owned(), format!("not there yet: needs {}", cell(entry.needs.as_deref().unwrap_or_default())));
    };
    let mut experiment = format!("[{name}](../experiments/{file})");
    if let Some(needs) = &entry.needs {
        let _ = write!(experiment, "<br>without {}, not there yet", cell(needs));
    }
    let own = findings.iter().filter(|finding| finding.plan.experiment.name() == name);
    let verdicts: Vec<String> = own.map(of_finding).collect();
    let verdicts = if verdicts.is_empty() { NOT_RUN.to_owned() } else { verdicts.join("<br>") };
    (experiment, verdicts)
}

fn of_finding(finding: &Finding) -> String {
    let failed = finding.rows.iter().filter(|row| row.failure.is_some()).count();
    let failures = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    let head = format!("profile {}, {}{failures}", finding.plan.profile, words::count(finding.runs(), "run"));
    let claims = finding.claims.iter().map(of_claim);
    std::iter::once(head).chain(claims).collect::<Vec<_>>().join("<br>")
}

fn of_claim(claim: &Judgement) -> String {
    let paper = if claim.paper.is_empty() { String::new() } else { format!("; paper: {}", cell(&claim.paper)) };
    let why = claim.overturned.as_deref().map(|why| format!(" {}", cell(why))).unwrap_or_default();
    format!(
        "`{}` **{}** ({}): {}{paper}.{why}",
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

/// Escapes text for a field of a Markdown table.
fn cell(text: &str) -> String {
    let text = words::line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('|', "\\|");
    text.replace('*', "\\*").replace('_', "\\_")
}
