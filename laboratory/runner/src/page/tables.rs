//! Claims, rows and parameters as tables.

use super::cells::{Cells, INSTRUMENT, steady, used_figures};
use super::finding::Finding;
use super::words;
use quorate_lab::experiments::{Instrument, Judgement, Row, Verdict};
use quorate_plots::{Claim, Column, Table};
use std::collections::BTreeSet;

/// Maximum number of cells in a table of results; the exported rows contain all cells.
const MAX_CELLS_SHOWN: usize = 500;
/// Maximum number of figures in a table of results.
const MAX_FIGURES_SHOWN: usize = 8;
const DASH: &str = "–";

/// Returns the claims with their verdicts.
pub(super) fn claims(judgements: &[Judgement]) -> Vec<Claim> {
    judgements.iter().map(claim).collect()
}

fn claim(judgement: &Judgement) -> Claim {
    Claim {
        id: judgement.id.clone(),
        text: words::line(&judgement.text),
        verdict: match judgement.verdict {
            Verdict::Holds => quorate_plots::Verdict::Holds,
            Verdict::Fails => quorate_plots::Verdict::DoesNotHold,
            Verdict::Undecided => quorate_plots::Verdict::Undecided,
            Verdict::NotMeasurable => quorate_plots::Verdict::NotMeasurableHere,
        },
        measured: format!("{} ({})", words::line(&judgement.measured), judgement.instrument),
        paper: Some(judgement.paper.clone()).filter(|paper| !paper.is_empty()),
        note: judgement.overturned.as_deref().map(words::line),
    }
}

fn column(title: &str, numeric: bool) -> Column {
    Column { title: title.to_owned(), numeric }
}

/// Returns the verdicts by experiment.
pub(super) fn overview(findings: &[Finding]) -> Table {
    let mut columns = vec![column("experiment", false), column("title", false), column("profile", false)];
    columns.extend(Verdict::ALL.iter().map(|verdict| column(verdict.name(), true)));
    columns.extend([column("runs", true), column("failed", true)]);
    let row = |finding: &Finding| {
        let experiment = finding.plan.experiment;
        let mut row = vec![experiment.name(), experiment.title.clone(), finding.plan.profile.to_string()];
        row.extend(Verdict::ALL.iter().map(|verdict| finding.count(*verdict).to_string()));
        let failed = finding.rows.iter().filter(|row| row.failure.is_some()).count();
        row.extend([finding.runs().to_string(), failed.to_string()]);
        row
    };
    Table { caption: String::new(), columns, rows: findings.iter().map(row).collect() }
}

/// Returns a line per completed cell: coordinates, figures with intervals, repetitions and steadiness.
pub(super) fn results(cells: &Cells) -> Table {
    let run = cells.run();
    let axes: Vec<String> = cells.plan.experiment.coordinates().into_iter().map(str::to_owned).collect();
    let all = used_figures(cells.plan);
    let figures = &all[..all.len().min(MAX_FIGURES_SHOWN)];
    let has_noise = run.iter().any(|cell| steady(cells.rows(*cell)).is_some());
    let mut columns: Vec<Column> =
        axes.iter().map(|axis| column(&words::words(axis), is_numeric(cells, axis))).collect();
    columns.push(column(INSTRUMENT, false));
    columns.extend(figures.iter().map(|figure| column(&words::title(figure), true)));
    columns.push(column("runs", true));
    columns.extend(has_noise.then(|| column("steady", false)));
    let row = |cell: &usize| {
        let rows = cells.rows(*cell);
        let mut fields: Vec<String> = axes.iter().map(|axis| cells.shown(*cell, axis)).collect();
        fields.push(cells.cell(*cell).instrument.to_string());
        fields.extend(figures.iter().map(|figure| {
            cells.summary(*cell, figure).map_or_else(|_| DASH.to_owned(), |summary| words::summary(&summary))
        }));
        let failed = rows.iter().filter(|row| row.failure.is_some()).count();
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        fields.push(format!("{}{failed}", rows.len()));
        fields.extend(has_noise.then(|| steady(rows).unwrap_or_else(|| DASH.to_owned())));
        fields
    };
    let rows = run.iter().take(MAX_CELLS_SHOWN).map(row).collect();
    let caption = match run.len() {
        0..=MAX_CELLS_SHOWN => "Means with half of their 95 % confidence intervals.".to_owned(),
        count => format!("The first {MAX_CELLS_SHOWN} of {count} cells; `quorate lab export` writes all rows."),
    };
    Table { caption, columns, rows }
}

fn is_numeric(cells: &Cells, axis: &str) -> bool {
    cells.run().iter().all(|cell| cells.value(*cell, axis).is_some_and(|value| value.as_number().is_some()))
}

/// Returns the common parameters of all cells of an instrument.
pub(super) fn held(cells: &Cells) -> Table {
    let instruments = &cells.plan.instruments;
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    for cell in &cells.plan.cells {
        keys.extend(cell.specification.keys());
    }
    let value = |instrument: Instrument, key: &str| {
        let mut own = cells.plan.cells.iter().filter(|cell| cell.instrument == instrument);
        let first = own.next()?.specification.get(key);
        own.all(|cell| cell.specification.get(key) == first).then(|| first.map_or_else(|| DASH.to_owned(), shown))
    };
    let row = |key: &&String| {
        let values: Option<Vec<String>> = instruments.iter().map(|own| value(*own, key)).collect();
        let mut row = vec![(*key).clone()];
        match values? {
            values if values.windows(2).all(|pair| pair[0] == pair[1]) => row.extend(values.into_iter().take(1)),
            values => row.push(
                instruments
                    .iter()
                    .zip(values)
                    .map(|(own, value)| format!("{value} ({own})"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        }
        Some(row)
    };
    let columns = vec![column("parameter held", false), column("value", false)];
    Table { caption: String::new(), columns, rows: keys.iter().filter_map(row).collect() }
}

fn shown(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the varied keys, and the ends of their ranges.
pub(super) fn varied(cells: &Cells) -> Table {
    let row = |axis: &String| {
        let mut values: Vec<String> = Vec::new();
        for cell in 0..cells.plan.cells.len() {
            let value = cells.shown(cell, axis);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        vec![words::words(axis), values.join(", ")]
    };
    let axes: Vec<String> = cells.plan.experiment.coordinates().into_iter().map(str::to_owned).collect();
    let columns = vec![column("parameter varied", false), column("values", false)];
    Table { caption: String::new(), columns, rows: axes.iter().map(row).collect() }
}

/// Returns the origin of the rows: each machine, build and cost table, with the number of runs.
pub(super) fn provenance(rows: &[Row]) -> Table {
    let mut found: Vec<(Vec<String>, usize)> = Vec::new();
    for row in rows {
        let from = &row.provenance;
        let costs = if from.surroundings.costs.is_empty() { DASH } else { &from.surroundings.costs };
        let fields = vec![
            row.instrument.to_string(),
            from.surroundings.build.clone(),
            from.surroundings.machine.clone(),
            from.kernel.clone(),
            costs.to_owned(),
        ];
        match found.iter_mut().find(|(known, _)| *known == fields) {
            Some((_, count)) => *count += 1,
            None => found.push((fields, 1)),
        }
    }
    let mut columns: Vec<Column> =
        [INSTRUMENT, "build", "machine", "kernel", "cost table"].iter().map(|title| column(title, false)).collect();
    columns.push(column("runs", true));
    let rows = found.into_iter().map(|(mut fields, count)| {
        fields.push(count.to_string());
        fields
    });
    Table { caption: String::new(), columns, rows: rows.collect() }
}
