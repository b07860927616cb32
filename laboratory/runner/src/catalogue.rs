//! Finds experiments: the repository's, which are part of the binary, and files.

use crate::error::RunnerError;
use quorate_lab::experiments::file::MAX_FILE_BYTES;
use quorate_lab::experiments::{Experiment, read};
use quorate_lab::figures::vocabulary;
use quorate_types::Fault;
use quorate_types::choice::nearest;
use std::fs::File;
use std::io::Read;
use std::path::Path;

mod files {
    include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));
}

/// Name that stands for all experiments of the catalogue.
pub const ALL: &str = "all";
const EXTENSION: &str = ".toml";

/// Text of an experiment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// File name in errors.
    pub file: String,
    pub text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is too long or is not UTF-8.
    pub fn open(path: &Path) -> Result<Source, RunnerError> {
        let mut text = String::new();
        let file = File::open(path).map_err(RunnerError::read(path))?;
        // Read one byte more than the maximum, so that the parser refuses the text by name.
        file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text).map_err(RunnerError::read(path))?;
        Ok(Source { file: path.display().to_string(), text })
    }

    /// Parses and checks the experiment.
    ///
    /// # Errors
    /// The file, the line, the key and the remedy.
    pub fn experiment(&self) -> Result<Experiment, Fault> {
        read(&self.text, &self.file, vocabulary())
    }
}

/// Returns the experiments of the repository, by name.
///
/// # Errors
/// If one of them is invalid.
pub fn catalogue() -> Result<Vec<(Source, Experiment)>, Fault> {
    let source = |(file, text): &(&str, &str)| Source { file: (*file).to_owned(), text: (*text).to_owned() };
    let mut experiments = Vec::new();
    for source in files::FILES.iter().map(source) {
        let experiment = source.experiment()?;
        experiments.push((source, experiment));
    }
    experiments.sort_by_key(|(_, experiment)| experiment.name());
    Ok(experiments)
}

/// Returns the experiments denoted by `name`: [`ALL`], a paper, `PAPER/ID`, or a file.
///
/// # Errors
/// If a file is invalid, or there is no experiment with this name.
pub fn find(name: &str) -> Result<Vec<(Source, Experiment)>, RunnerError> {
    let all = catalogue()?;
    let mut names: Vec<String> = all.iter().flat_map(|(_, own)| [own.name(), own.paper.clone()]).collect();
    let found: Vec<_> = all
        .into_iter()
        .filter(|(_, experiment)| name == ALL || name == experiment.paper || name == experiment.name())
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    if name.ends_with(EXTENSION) || Path::new(name).is_file() {
        let source = Source::open(Path::new(name))?;
        let experiment = source.experiment()?;
        return Ok(vec![(source, experiment)]);
    }
    names.sort();
    names.dedup();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let help = match nearest(name, &names) {
        Some(known) => format!("did you mean `{known}`? `quorate lab list` shows all"),
        None => "give a file that ends with .toml, or a name from `quorate lab list`".to_owned(),
    };
    Err(Fault::new(name, "is no experiment", help).into())
}
