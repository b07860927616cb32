//! BibTeX entries: for the papers whose figures were reproduced, and for the runs themselves.

use crate::page::Finding;
use crate::page::origin::command;
use crate::page::reproduction::Catalogue;
use quorate_lab::result::version;
use std::collections::BTreeSet;

/// Returns the entries of findings, each once: an experiment's run, preceded by its paper.
pub fn entries(catalogue: &Catalogue, findings: &[Finding]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for finding in findings {
        let paper = catalogue.papers.iter().find(|paper| paper.name == finding.plan.experiment.paper);
        let paper = paper.map(|paper| paper.bibtex.trim()).filter(|text| !text.is_empty());
        if let Some(text) = paper.filter(|text| !texts.iter().any(|own| own == text)) {
            texts.push(text.to_owned());
        }
        let run = of_run(finding, paper.and_then(key_of));
        if !texts.contains(&run) {
            texts.push(run);
        }
    }
    texts.join("\n\n") + "\n"
}

/// Returns the key of an entry.
fn key_of(entry: &str) -> Option<&str> {
    Some(entry.split_once('{')?.1.split_once(',')?.0.trim())
}

fn of_run(finding: &Finding, paper: Option<&str>) -> String {
    let plan = finding.plan;
    let experiment = plan.experiment;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let key: String = format!("quorate-{}-{}", experiment.name(), plan.profile).chars().map(plain).collect();
    let of_rows = |of: fn(&quorate_lab::experiments::Row) -> &str| {
        let all: BTreeSet<&str> = finding.rows.iter().map(of).filter(|name| !name.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    };
    let builds = of_rows(|row| &row.provenance.surroundings.build);
    let machines = of_rows(|row| &row.provenance.surroundings.machine);
    let instruments: Vec<&str> = plan.instruments.iter().map(|own| own.name()).collect();
    let mut notes = vec![format!("Instruments: {}", instruments.join(", "))];
    notes.extend(
        [("Build", builds), ("Machine", machines)]
            .into_iter()
            .filter_map(|(name, value)| (!value.is_empty()).then(|| format!("{name}: {value}"))),
    );
    notes.push(format!("Repeat with: {}", command(plan)));
    let reproduces = match (paper, experiment.figure.is_empty()) {
        (Some(key), false) => format!("  annote = {{Reproduces figure {} of {key}}},\n", escape(&experiment.figure)),
        _ => String::new(),
    };
    format!(
        "@misc{{{key},\n  author = {{{{The quorate authors}}}},\n  title = {{{{{}: {}, profile {}}}}},\n  \
         howpublished = {{Measured with quorate {}}},\n  note = {{{}}},\n{reproduces}}}",
        escape(&experiment.name()),
        escape(&experiment.title),
        plan.profile,
        version(),
        escape(&notes.join(". "))
    )
}

/// Escapes text for a field: braces stay balanced, and TeX's special characters are characters.
fn escape(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '{' | '}' | '\\' => safe.push(' '),
            '%' | '&' | '#' | '_' | '$' => {
                safe.push('\\');
                safe.push(c);
            }
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            c if c.is_whitespace() || c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
