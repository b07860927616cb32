//! Page of experiments: figures, claims and rows, offline, with each figure beside it as SVG, PDF, TikZ and Vega-Lite.
//!
//! `docs/EXPERIMENTS.md` describes the appearance and behaviour of figures.

mod categories;
mod cells;
mod faults;
pub mod fidelity;
mod figures;
mod finding;
mod logarithm;
pub(crate) mod origin;
mod paper;
pub mod reproduction;
mod series;
mod sketch;
mod stages;
mod tables;
mod words;

pub use fidelity::{Fidelity, Residual};
pub use finding::Finding;

use cells::Cells;
use quorate_lab::experiments::{Instrument, Verdict};
use quorate_plots::{Block, Figure, Page, PlotError, Section, Width};
use quorate_types::choice;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the page in its directory.
pub const PAGE_FILE: &str = "report.html";
/// Directory of the figures, beside the page.
pub const FIGURES_DIR: &str = "figures";
/// Minimum number of sections for an overview of all experiments.
const MIN_OVERVIEW: usize = 2;
/// Maximum number of the simulator's residuals listed in a section.
const MAX_RESIDUALS_SHOWN: usize = 3;
/// Maximum number of the runs' warnings listed in a section.
const MAX_WARNINGS_SHOWN: usize = 3;

choice!(
    /// Width of figures on paper: 84.7 mm or 177.8 mm; see [`Width`].
    Columns, "number of columns",
    One = "one",
    Two = "two",
);

/// A page that could not be written.
#[derive(Debug, Error)]
pub enum PageError {
    #[error(transparent)]
    Plot(#[from] PlotError),
    #[error("cannot write {path}: {source}; name a directory that can be written")]
    Write { path: PathBuf, source: io::Error },
}

impl PageError {
    /// Returns whether the named path is at fault; false if the disk is.
    pub fn is_wrong_call(&self) -> bool {
        matches!(self, PageError::Write { source, .. } if quorate_types::files::is_named_wrongly(source))
    }
}

/// Builds the page of experiments. With `fidelity`, simulated cells show the simulator's error at nearby
/// specifications.
pub fn page(findings: &[Finding], fidelity: Option<&Fidelity>) -> Page {
    let mut ids = BTreeSet::new();
    let mut sections = Vec::new();
    if findings.len() >= MIN_OVERVIEW {
        let id = unique("overview", &mut ids);
        let blocks = vec![Block::Table(tables::overview(findings))];
        sections.push(Section { id, title: "All experiments".to_owned(), blocks });
    }
    sections.extend(findings.iter().map(|finding| section(finding, fidelity, &mut ids)));
    let title = match findings {
        [one] => one.plan.experiment.title.clone(),
        _ => "Experiments".to_owned(),
    };
    let counts = Verdict::ALL.iter().map(|verdict| {
        let count: usize = findings.iter().map(|finding| finding.count(*verdict)).sum();
        format!("{count} {verdict}")
    });
    let lead = vec![format!("Claims: {}.", counts.collect::<Vec<_>>().join(", "))];
    let builds: BTreeSet<&str> = findings
        .iter()
        .flat_map(|finding| finding.rows)
        .map(|row| row.provenance.surroundings.build.as_str())
        .filter(|build| !build.is_empty())
        .collect();
    let footer = match builds.is_empty() {
        true => "quorate".to_owned(),
        false => format!("quorate, build {}", builds.into_iter().collect::<Vec<_>>().join("; ")),
    };
    Page { title, lead, sections, footer }
}

fn section(finding: &Finding, fidelity: Option<&Fidelity>, ids: &mut BTreeSet<String>) -> Section {
    let (plan, experiment) = (finding.plan, finding.plan.experiment);
    let cells = Cells::new(finding, fidelity);
    let id = unique(&format!("{}-{}", experiment.paper, experiment.id), ids);
    let mut blocks =
        vec![Block::Paragraph(words::line(&experiment.about)), Block::Paragraph(what_was_run(finding, &cells))];
    blocks.extend(residuals(&cells, fidelity).map(Block::Paragraph));
    blocks.extend(warnings(&cells).map(Block::Paragraph));
    for (at, plot) in experiment.plots.iter().enumerate() {
        let figure_id = unique(&format!("{id}-{}", at + 1), ids);
        blocks.push(match figures::figure(&cells, plot, figure_id) {
            Some(Ok(figure)) => Block::Figure(Box::new(figure)),
            Some(Err(error)) => Block::Paragraph(format!("{} cannot be drawn: {error}.", plot.title)),
            None => Block::Paragraph(format!("{}: no cell of this figure was run.", plot.title)),
        });
    }
    if !finding.claims.is_empty() {
        blocks.push(Block::Claims(tables::claims(finding.claims)));
    }
    if !cells.run().is_empty() {
        blocks.push(Block::Table(tables::results(&cells)));
    }
    let parameters = [tables::varied(&cells), tables::held(&cells), tables::provenance(finding.rows)];
    blocks.extend(parameters.into_iter().filter(|table| !table.rows.is_empty()).map(Block::Table));
    blocks.push(Block::Command(origin::command(plan)));
    Section { id, title: format!("{}: {}", experiment.name(), experiment.title), blocks }
}

/// Describes the profile and the instruments that were run, and missing parts.
fn what_was_run(finding: &Finding, cells: &Cells) -> String {
    let plan = finding.plan;
    let (run, all) = (cells.run(), plan.cells.len());
    let failed = run.iter().filter(|cell| cells.failure(**cell).is_some()).count();
    let figure = &plan.experiment.figure;
    let figure = match figure.chars().next() {
        None => String::new(),
        Some(first) if first.is_ascii_digit() => format!("Figure {figure} of the paper. "),
        Some(_) => format!("From the paper: {figure}. "),
    };
    let mut text = format!(
        "{figure}Profile {}: {} in {} of {} cells, {} to {} repetitions wanted.",
        plan.profile,
        words::count(finding.runs(), "run"),
        run.len(),
        all,
        plan.repeat.min,
        plan.repeat.max
    );
    if failed > 0 {
        text.push_str(&format!(" {} failed.", words::count(failed, "cell")));
    }
    for (why, count) in cells.obstacles() {
        text.push_str(&format!(" {} not measurable here: {}.", words::count(count, "cell"), words::line(why)));
    }
    let idle = |instrument: &&Instrument| !run.iter().any(|cell| cells.cell(*cell).instrument == **instrument);
    let missing: Vec<&str> = plan.instruments.iter().filter(idle).map(|own| own.name()).collect();
    if !missing.is_empty() {
        text.push_str(&format!(" No rows from: {}.", missing.join(", ")));
    }
    text
}

/// Returns the caveats of the runs.
fn warnings(cells: &Cells) -> Option<String> {
    let all = cells.warnings(&cells.run());
    let more = match all.len().saturating_sub(MAX_WARNINGS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more, in the tooltips"),
    };
    let shown = all[..all.len().min(MAX_WARNINGS_SHOWN)].join("; ");
    (!all.is_empty()).then(|| format!("Warnings of the runs: {shown}{more}."))
}

/// Describes the simulator's error at the specifications nearest to the simulated cells.
fn residuals(cells: &Cells, fidelity: Option<&Fidelity>) -> Option<String> {
    let mut nearest: Vec<&Residual> = Vec::new();
    for cell in cells.run() {
        let own = cells.cell(cell);
        if own.instrument != Instrument::Simulated {
            continue;
        }
        if let Some(residual) = fidelity?.nearest(&own.specification).filter(|own| !nearest.contains(own)) {
            nearest.push(residual);
        }
    }
    let shown: Vec<String> = nearest
        .iter()
        .take(MAX_RESIDUALS_SHOWN)
        .map(|residual| format!("{} ({})", residual.ratios(), residual.label()))
        .collect();
    let more = match nearest.len().saturating_sub(MAX_RESIDUALS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more, in the tooltips"),
    };
    (!nearest.is_empty()).then(|| {
        format!("Simulated by measured, at the nearest specification that was both: {}{more}.", shown.join("; "))
    })
}

/// Returns a unique name that is valid in file names.
fn unique(name: &str, ids: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    let mut id = plain.clone();
    for at in 2.. {
        if ids.insert(id.clone()) {
            break;
        }
        id = format!("{plain}_{at}");
    }
    id
}

/// Writes a page to a file.
///
/// # Errors
/// If the page is invalid, or the file cannot be written.
pub fn write_page(path: &Path, page: &Page) -> Result<(), PageError> {
    write_file(path, quorate_plots::page(page)?.as_bytes())
}

/// Writes `report.html` into a directory, and the figures below it. Returns the number of figures.
///
/// # Errors
/// If the page is invalid, or a file cannot be written.
pub fn write(dir: &Path, page: &Page) -> Result<usize, PageError> {
    let count = write_figures(&dir.join(FIGURES_DIR), page, None)?;
    write_page(&dir.join(PAGE_FILE), page)?;
    Ok(count)
}

/// Writes each figure of a page into a directory, creating it if necessary: as `ID.svg` and `ID.pdf`, and as source,
/// `ID.tex` for pgfplots and `ID.vl.json` for Vega-Lite. Without `columns`, figures of several panels take two. Returns
/// the number of figures.
///
/// # Errors
/// If the page is invalid, or a file cannot be written.
pub fn write_figures(dir: &Path, page: &Page, columns: Option<Columns>) -> Result<usize, PageError> {
    fs::create_dir_all(dir).map_err(|source| PageError::Write { path: dir.to_owned(), source })?;
    let mut count = 0;
    for figure in page.sections.iter().flat_map(|section| &section.blocks).filter_map(figure_of) {
        let width = match columns {
            Some(Columns::One) => Width::Column,
            Some(Columns::Two) => Width::Text,
            None if panels(figure) > 1 => Width::Text,
            None => Width::Column,
        };
        let texts = [
            ("svg", quorate_plots::svg(figure, width)?),
            ("tex", quorate_plots::tikz(figure, width)?),
            ("vl.json", quorate_plots::vega_lite(figure, width)?),
        ];
        for (ending, text) in texts {
            write_file(&dir.join(format!("{}.{ending}", figure.id)), text.as_bytes())?;
        }
        write_file(&dir.join(format!("{}.pdf", figure.id)), &quorate_plots::pdf(figure, width)?)?;
        count += 1;
    }
    Ok(count)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), PageError> {
    fs::write(path, bytes).map_err(|source| PageError::Write { path: path.to_owned(), source })
}

fn figure_of(block: &Block) -> Option<&Figure> {
    match block {
        Block::Figure(figure) => Some(figure),
        _ => None,
    }
}

fn panels(figure: &Figure) -> usize {
    use quorate_plots::Plot;
    match &figure.plot {
        Plot::Curve(panels) | Plot::Line(panels) | Plot::Scatter(panels) => panels.len(),
        Plot::Time { panels, .. } | Plot::Histogram { panels, .. } => panels.len(),
        Plot::Bars(panels) | Plot::Stacked(panels) => panels.len(),
        Plot::Boxes(panels) => panels.len(),
        Plot::Heat { panels, .. } => panels.len(),
    }
}
