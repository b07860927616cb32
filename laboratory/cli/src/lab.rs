//! `quorate lab`: runs experiments, judges their claims, compares and exports the rows.

use crate::Outcome;
use crate::fidelity::{self, FidelityArgs};
use crate::network;
use crate::selection::{Selection, chosen, deliver_with, of_selection};
use crate::sweep::{self, MergeArgs, RunArgs};
use crate::versus::{self, InstructionsArgs, VersusArgs};
use clap::{Args, Subcommand};
use quorate_lab::experiments::{Plan, Profile, Row};
use quorate_lab::input;
use quorate_lab::network::NetworkArgs;
use quorate_lab::spec::choice;
use quorate_operator::failure::cannot_use;
use quorate_operator::output::{self, Outputs};
use quorate_runner::artefact::{self, About};
use quorate_runner::compare::{MAIN_FIGURES, check_figures, compare};
use quorate_runner::export::{Format, Lines, Table};
use quorate_runner::judged::Judged;
use quorate_runner::missing::Inventory;
use quorate_runner::page::reproduction::{self, CATALOGUE, Catalogue};
use quorate_runner::page::{self, Columns, Fidelity, Finding};
use quorate_runner::store::DEFAULT_DIR;
use quorate_runner::{Store, bibtex, catalogue, report};
use quorate_types::Fault;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Commands of `quorate lab`.
#[derive(Subcommand)]
pub enum LabCommand {
    /// List the experiments of the repository, which are part of this program.
    List(ListArgs),
    /// Run experiments and judge their claims. Runs that already exist in the directory are not repeated.
    Run(RunArgs),
    /// List the runs that a directory lacks: absent, failed, or needed to decide a claim. `lab run` adds them.
    Missing(MissingArgs),
    /// Judge the claims again on the rows of a directory, and write a page with all figures.
    Report(ReportArgs),
    /// Add the runs of another directory to one.
    Merge(MergeArgs),
    /// Compare the figures of two directories, cell by cell.
    Compare(CompareArgs),
    /// Run experiments with another build and with this one, in turns, and compare their figures.
    Versus(VersusArgs),
    /// Count the instructions of the core's paths with Callgrind, and compare them with earlier counts.
    Instructions(InstructionsArgs),
    /// Write the rows of a directory as a table, one line for each run, second or sampled request.
    Export(ExportArgs),
    /// Make a directory an artefact to publish: the report, tables, a script that repeats the runs, and metadata of all
    /// files (RO-Crate 1.1).
    Artefact(ArtefactArgs),
    /// Convert a network between the file format and CSV with measured round trips.
    Network(NetworkArgs),
    /// Run specifications on the node and in the simulator, and compare throughput, CPU and latency.
    Fidelity(FidelityArgs),
}

/// Flags of `quorate lab list`.
#[derive(Args)]
pub struct ListArgs {
    /// Count only the cells of this profile [default: both].
    #[arg(long, value_parser = choice::<Profile>())]
    profile: Option<Profile>,
    /// Write the list as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab missing`.
#[derive(Args)]
pub struct MissingArgs {
    #[command(flatten)]
    selection: Selection,
    /// Write the list as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Directory of the results.
    #[arg(value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Report only on experiments of this paper, or on this PAPER/ID.
    #[arg(long, value_name = "PAPER")]
    paper: Option<String>,
    /// Write the page to this file [default: report.html in DIR].
    #[arg(long, value_name = "PATH")]
    html: Option<PathBuf>,
    /// Residuals of the simulator, written by `quorate lab fidelity --json`: simulated figures cite the nearest one.
    #[arg(long, value_name = "FILE")]
    fidelity: Option<PathBuf>,
    /// Write the table of all figures of the papers to this file, as Markdown.
    #[arg(long, value_name = "PATH")]
    reproduction: Option<PathBuf>,
    /// Width of the figures: one column is 84.7 mm, two are 177.8 mm, which fits the templates of ACM, IEEE and USENIX
    /// [default: two for figures of several panels].
    #[arg(long, value_name = "NUMBER", value_parser = choice::<Columns>())]
    column: Option<Columns>,
    /// Write BibTeX entries for the runs, and for the papers whose figures they reproduce, to this file; without a path
    /// to standard output.
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    bibtex: Option<String>,
    /// Write rows and claims as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// Directory of the results before a change.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Directory of the results after it.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Figure to compare; may be repeated [default: throughput_per_s, p50_ms, p99_ms, cpu_us_per_command].
    #[arg(long, value_name = "FIGURE")]
    figure: Vec<String>,
    /// Write the comparison as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab export`.
#[derive(Args)]
pub struct ExportArgs {
    /// Directory of the results.
    #[arg(value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Format of the table.
    #[arg(long, default_value = "csv", value_parser = choice::<Format>())]
    format: Format,
    /// Subject of a line: a run, a second of a run, or a sampled request of a run.
    #[arg(long, default_value = "runs", value_parser = choice::<Lines>())]
    lines: Lines,
    /// The file to write; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: String,
}

/// Flags of `quorate lab artefact`.
#[derive(Args)]
pub struct ArtefactArgs {
    /// Directory of the results.
    #[arg(value_name = "DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Width of the figures [default: two columns for figures of several panels].
    #[arg(long, value_name = "NUMBER", value_parser = choice::<Columns>())]
    column: Option<Columns>,
    /// Address of the license of the data, such as https://creativecommons.org/licenses/by/4.0/ [default: none].
    #[arg(long, value_name = "URL")]
    license: Option<String>,
}

impl LabCommand {
    /// Returns whether the command runs for a while and reports a partial result if a signal interrupts it.
    pub fn has_result(&self) -> bool {
        matches!(self, LabCommand::Run(_) | LabCommand::Fidelity(_))
    }
}

pub fn run(command: &LabCommand) -> Outcome {
    match command {
        LabCommand::List(arguments) => list(arguments),
        LabCommand::Run(arguments) => sweep::run(arguments),
        LabCommand::Missing(arguments) => missing(arguments),
        LabCommand::Report(arguments) => judge_again(arguments),
        LabCommand::Merge(arguments) => sweep::merge(arguments),
        LabCommand::Compare(arguments) => compare_directories(arguments),
        LabCommand::Versus(arguments) => versus::run(arguments),
        LabCommand::Instructions(arguments) => versus::count(arguments),
        LabCommand::Export(arguments) => export(arguments),
        LabCommand::Artefact(arguments) => make_artefact(arguments),
        LabCommand::Network(arguments) => network::run(arguments),
        LabCommand::Fidelity(arguments) => fidelity::run(arguments),
    }
}

fn list(arguments: &ListArgs) -> Outcome {
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for (_, experiment) in catalogue::catalogue()? {
        let instruments: Vec<&str> = experiment.instruments.iter().map(|own| own.name()).collect();
        let mut cells = BTreeMap::new();
        for profile in Profile::ALL.iter().filter(|profile| arguments.profile.is_none_or(|only| only == **profile)) {
            cells.insert(profile.name(), experiment.plan(*profile, None)?.cells.len());
        }
        let counts: Vec<String> = cells.iter().rev().map(|(profile, count)| format!("{count} {profile}")).collect();
        lines.push(format!(
            " {:<24}  {}\n {:<24}  {}; {}; cells: {}",
            experiment.name(),
            experiment.title,
            "",
            instruments.join(", "),
            match experiment.claims.len() {
                1 => "1 claim".to_owned(),
                more => format!("{more} claims"),
            },
            counts.join(", "),
        ));
        entries.push(json!({
            "paper": experiment.paper,
            "id": experiment.id,
            "title": experiment.title,
            "instruments": instruments,
            "claims": experiment.claims.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(),
            "cells": cells,
        }));
    }
    let json = || format!("{:#}\n", json!({"experiments": entries}));
    outputs.deliver(&lines.join("\n"), &[("--json", &json)])
}

fn missing(arguments: &MissingArgs) -> Outcome {
    let chosen = chosen(&arguments.selection)?;
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    let run = of_selection(&arguments.selection)?;
    Store::open(&arguments.selection.dir)?;
    let experiments = chosen.iter().map(|source| run.missing(source)).collect::<Result<Vec<_>, _>>()?;
    outputs.show(&Inventory { experiments: &experiments }, &[])?;
    Ok(())
}

fn judge_again(arguments: &ReportArgs) -> Outcome {
    let flags = [("--json", arguments.json.as_deref()), ("--bibtex", arguments.bibtex.as_deref())];
    let outputs = Outputs::open(&flags, &[])?;
    let mut archived = report::read(&Store::open(&arguments.dir)?)?;
    if let Some(paper) = &arguments.paper {
        archived.retain(|own| own.experiment.paper == *paper || own.experiment.name() == *paper);
        if archived.is_empty() {
            let place = arguments.dir.display().to_string();
            return Err(Fault::<String>::new(
                place,
                format!("holds no results of {paper}"),
                "leave --paper out to see all",
            )
            .into());
        }
    }
    let judged: Vec<Judged> = archived.iter().map(report::Archived::judged).collect::<Result<_, _>>()?;
    let plans: Vec<Plan> = archived.iter().map(report::Archived::plan).collect::<Result<_, _>>()?;
    let findings = findings(&plans, &judged);
    write_page(arguments, &findings)?;
    let catalogue = Catalogue::parse(CATALOGUE)?;
    let bibtex = || bibtex::entries(&catalogue, &findings);
    deliver_with(outputs, &judged, &[("--bibtex", &bibtex)])
}

fn findings<'f>(plans: &'f [Plan], judged: &'f [Judged]) -> Vec<Finding<'f>> {
    plans.iter().zip(judged).map(|(plan, own)| Finding { plan, rows: &own.rows, claims: &own.claims }).collect()
}

/// Writes the page, its figures, and the table of the papers' figures.
fn write_page(arguments: &ReportArgs, findings: &[Finding]) -> Outcome {
    let fidelity = arguments.fidelity.as_deref().map(read_fidelity).transpose()?;
    let report = page::page(findings, fidelity.as_ref());
    let path = arguments.html.clone().unwrap_or_else(|| arguments.dir.join(page::PAGE_FILE));
    page::write_page(&path, &report)?;
    let count = page::write_figures(&arguments.dir.join(page::FIGURES_DIR), &report, arguments.column)?;
    output::report(&format!("wrote {} with {count} figures", path.display()));
    if let Some(path) = &arguments.reproduction {
        let catalogue = Catalogue::parse(CATALOGUE)?;
        let pages = reproduction::render(&catalogue, findings);
        let directory = path.with_file_name(reproduction::PAGES_DIR);
        let papers = pages.papers.iter().map(|(file, text)| (directory.join(file), text));
        let cannot_write =
            |path: &Path, error| cannot_use(format!("--reproduction: cannot write {}", path.display()), &error);
        std::fs::create_dir_all(&directory).map_err(|error| cannot_write(&directory, error))?;
        for (path, text) in papers.chain([(path.clone(), &pages.index)]) {
            std::fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
        }
        output::report(&format!("wrote {} and a page for each paper beside it", path.display()));
    }
    Ok(())
}

fn make_artefact(arguments: &ArtefactArgs) -> Outcome {
    let dir = &arguments.dir;
    let archived = report::read(&Store::open(dir)?)?;
    let judged: Vec<Judged> = archived.iter().map(report::Archived::judged).collect::<Result<_, _>>()?;
    let plans: Vec<Plan> = archived.iter().map(report::Archived::plan).collect::<Result<_, _>>()?;
    let findings = findings(&plans, &judged);
    let report = page::page(&findings, None);
    page::write_page(&dir.join(page::PAGE_FILE), &report)?;
    page::write_figures(&dir.join(page::FIGURES_DIR), &report, arguments.column)?;
    let about = About { published: SystemTime::now(), license: arguments.license.clone() };
    let count = artefact::write(dir, &archived, &findings, &about)?;
    output::say(&format!(
        "{}: {count} files described in {}; `sh {}` repeats the runs",
        dir.display(),
        artefact::METADATA_FILE,
        dir.join(artefact::REPEAT_FILE).display()
    ))?;
    Ok(())
}

fn read_fidelity(path: &Path) -> Result<Fidelity, Box<dyn std::error::Error>> {
    let text = input::settings(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let unreadable = |error| {
        let help = "name a file that `quorate lab fidelity --json` has written";
        Fault::<String>::new(path.display().to_string(), format!("cannot be read: {error}"), help)
    };
    Ok(Fidelity::parse(&text).map_err(unreadable)?)
}

fn compare_directories(arguments: &CompareArgs) -> Outcome {
    check_figures(&arguments.figure)?;
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    let read = |dir: &Path| report::read(&Store::open(dir)?);
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let figures = match arguments.figure.is_empty() {
        true => MAIN_FIGURES.iter().map(|name| (*name).to_owned()).collect(),
        false => arguments.figure.clone(),
    };
    let found = compare(&before, &after, &figures);
    outputs.show(&found, &[])?;
    if found.comparisons.is_empty() {
        return Err("the directories have no cell and figure in common, so there is nothing to compare".into());
    }
    Ok(())
}

fn export(arguments: &ExportArgs) -> Outcome {
    let archived = report::read(&Store::open(&arguments.dir)?)?;
    let mut outputs = Outputs::open(&[("--out", Some(&arguments.out))], &[])?;
    let rows: Vec<&Row> = archived.iter().flat_map(|own| &own.rows).collect();
    let table = Table::of(&rows, arguments.lines);
    let bytes = table.to_bytes(arguments.format)?;
    let mut place = outputs.writer("--out");
    match place.write_all(&bytes).and_then(|()| place.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            return Err(format!("--out: cannot write {}: {error}", arguments.out).into());
        }
        _ => {}
    }
    let why = match arguments.lines {
        _ if !table.is_empty() => "",
        Lines::Runs => ": the directory has no runs",
        Lines::Seconds => ": no run was measured for a whole second",
        Lines::Samples => ": no run has `samples`",
    };
    output::report(&format!("{} lines, {} columns{why}", table.len(), table.columns.len()));
    Ok(())
}
