//! Makes a directory of results an artefact: tables, experiment files, a script that repeats the runs, a bibliography,
//! and `ro-crate-metadata.json`, which describes every file (RO-Crate 1.1).

mod crate_file;

use crate::bibtex;
use crate::error::RunnerError;
use crate::export::{Format, Lines, Table};
use crate::page::Finding;
use crate::page::reproduction::{CATALOGUE, Catalogue};
use crate::report::Archived;
use crate::store::Store;
use quorate_lab::experiments::Row;
use quorate_types::text::quote;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

pub use crate_file::METADATA_FILE;

/// Script that runs all experiments of the directory again.
pub const REPEAT_FILE: &str = "repeat.sh";
/// Table of all rows, with a line for each run.
pub const ROWS_FILE: &str = "rows.csv";
/// Bibliography of the runs and of the papers that they reproduce.
pub const BIBLIOGRAPHY_FILE: &str = "references.bib";
/// Directory of the experiment files, by profile.
pub const EXPERIMENTS_DIR: &str = "experiments";

/// Facts that the directory itself does not contain.
#[derive(Clone, Debug)]
pub struct About {
    /// Date of publication; RO-Crate requires it.
    pub published: SystemTime,
    /// Address of the license of the data, if the publisher names one.
    pub license: Option<String>,
}

/// Writes all files of the artefact into a directory of results, after the page and its figures. Returns the number of
/// files that the metadata describes.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(dir: &Path, archived: &[Archived], findings: &[Finding], about: &About) -> Result<usize, RunnerError> {
    let rows: Vec<&Row> = archived.iter().flat_map(|own| &own.rows).collect();
    write_file(&dir.join(ROWS_FILE), &Table::of(&rows, Lines::Runs).to_bytes(Format::Csv)?)?;
    let catalogue = Catalogue::parse(CATALOGUE)?;
    write_file(&dir.join(BIBLIOGRAPHY_FILE), bibtex::entries(&catalogue, findings).as_bytes())?;
    for own in archived {
        let path = dir.join(experiment_path(own));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(RunnerError::write(parent))?;
        }
        write_file(&path, own.record.text.as_bytes())?;
    }
    let has_costs = dir.join(crate::here::COSTS_FILE).is_file();
    write_file(&dir.join(REPEAT_FILE), script(archived, has_costs).as_bytes())?;
    let described = crate_file::Described { dir, store: &Store::at(dir), archived, catalogue: &catalogue, about };
    let (count, metadata) = described.metadata()?;
    write_file(&dir.join(METADATA_FILE), metadata.as_bytes())?;
    Ok(count)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), RunnerError> {
    quorate_types::files::replace(path, bytes, quorate_types::files::DEFAULT_MODE).map_err(RunnerError::write(path))
}

/// Returns the path of an experiment's file in the artefact. The names of its directory and file are its own, because
/// they are the name of the experiment.
fn experiment_path(own: &Archived) -> String {
    let plain = |name: &str| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        name.chars().map(plain).collect()
    };
    let (paper, id) = (plain(&own.experiment.paper), plain(&own.experiment.id));
    format!("{EXPERIMENTS_DIR}/{}/{paper}/{id}.toml", own.profile)
}

/// Returns the script. It names only files of the artefact, so it works wherever the artefact is.
fn script(archived: &[Archived], has_costs: bool) -> String {
    let mut text = String::from(
        "#!/bin/sh\n\
         # Repeats all runs of this directory, in ../repeated or the directory given, and compares them with these.\n\
         # The program `quorate` must be in PATH; each row names the build that made it.\n\
         set -e\n\
         cd \"$(dirname \"$0\")\"\n\
         dir=${1:-../repeated}\n",
    );
    for own in archived {
        let mut words = vec!["quorate".to_owned(), "lab".to_owned(), "run".to_owned(), quote(&experiment_path(own))];
        words.push(format!("--profile {}", own.profile));
        words.extend(own.instruments.iter().map(|instrument| format!("--instrument {instrument}")));
        words.extend(own.record.seed.map(|seed| format!("--seed {seed}")));
        words.extend(has_costs.then(|| format!("--costs {}", crate::here::COSTS_FILE)));
        words.push("--dir \"$dir\"".to_owned());
        text.push_str(&(words.join(" ") + "\n"));
    }
    text + "quorate lab compare . \"$dir\"\n"
}
