//! Runs experiments as an indexed Job of Kubernetes, whose pods share a volume for the directory of results.

use crate::call::Call;
use crate::error::RunnerError;
use crate::slurm::shared;
use quorate_types::Fault;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory of the manifests, in the directory of results.
const MANIFESTS_DIR: &str = "kubernetes";
/// Directory of the results in a pod.
const RESULTS: &str = "/results";
/// Directory of the experiment files and the cost table in a pod.
const INPUTS: &str = "/inputs";

const COSTS: &str = "--costs";

/// The manifests, with `{name}` where a value belongs.
const KUSTOMIZATION: (&str, &str) = ("kustomization.yaml", include_str!("kubernetes/kustomization.yaml"));
const JOB: (&str, &str) = ("job.yaml", include_str!("kubernetes/job.yaml"));
const CLAIM: (&str, &str) = ("volume-claim.yaml", include_str!("kubernetes/volume-claim.yaml"));

/// Command line to run in pods.
#[derive(Clone, Debug)]
pub struct Called {
    /// Its arguments.
    pub words: Vec<String>,
    /// Directory of results on this machine, as in the arguments.
    pub dir: PathBuf,
    /// Experiment file, if it is none of the program's own.
    pub experiment: Option<PathBuf>,
    /// File of the cost table.
    pub costs: Option<PathBuf>,
}

/// Refuses cells that read files which no pod has, or that need other machines.
///
/// # Errors
/// The first such file.
pub fn check(calls: &[Call], costs: Option<&Path>) -> Result<(), Fault> {
    let lacking = calls.iter().flat_map(Call::files).find(|path| Some(path.as_path()) != costs);
    lacking.map_or(Ok(()), |path| {
        let help = "run these cells with --on local, shared, ssh or slurm";
        Err(Fault::new(path.display().to_string(), "is a file that pods do not have", help))
    })
}

/// Writes the manifests of a Job with this many pods, and returns their directory.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(called: &Called, pods: usize) -> Result<PathBuf, RunnerError> {
    let directory = called.dir.join(MANIFESTS_DIR);
    fs::create_dir_all(&directory).map_err(RunnerError::write(&directory))?;
    let mut names = Vec::new();
    for path in called.experiment.iter().chain(&called.costs) {
        let name = name_of(path);
        let bytes = fs::read(path).map_err(RunnerError::read(path))?;
        let to = directory.join(&name);
        fs::write(&to, bytes).map_err(RunnerError::write(&to))?;
        names.push(name);
    }
    let words: Vec<String> = words(called).iter().map(|word| format!("            - {}", quoted(word))).collect();
    let files: Vec<String> = names.iter().map(|name| format!("      - {}", quoted(name))).collect();
    let files = if files.is_empty() { " []".to_owned() } else { format!("\n{}", files.join("\n")) };
    for (name, template) in [KUSTOMIZATION, JOB, CLAIM] {
        let text = template.replace("{pods}", &pods.to_string()).replace("{words}", &words.join("\n"));
        let path = directory.join(name);
        fs::write(&path, text.replace("{files}", &files)).map_err(RunnerError::write(&path))?;
    }
    Ok(directory)
}

/// Returns the arguments in a pod: with its directory of results, and with the files that it has.
fn words(called: &Called) -> Vec<String> {
    let shared = shared(&called.words);
    let inputs: Vec<&PathBuf> = called.experiment.iter().chain(&called.costs).collect();
    let place = |word: &str| -> Option<String> {
        let input = inputs.iter().find(|path| path.as_path() == Path::new(word));
        input.map(|path| format!("{INPUTS}/{}", name_of(path)))
    };
    let mut words = Vec::with_capacity(shared.len() + 2);
    let mut rest = shared.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--dir" => drop(rest.next()),
            word if word.starts_with("--dir=") => {}
            word => match word.split_once('=') {
                Some((flag, value)) => {
                    words.push(format!("{flag}={}", place(value).unwrap_or_else(|| value.to_owned())))
                }
                None => words.push(place(word).unwrap_or_else(|| word.to_owned())),
            },
        }
    }
    words.extend(["--dir".to_owned(), RESULTS.to_owned()]);
    // A table that this machine uses by default.
    let names_costs = shared.iter().any(|word| word == COSTS || word.starts_with(&format!("{COSTS}=")));
    if let Some(costs) = called.costs.as_ref().filter(|_| !names_costs) {
        words.extend([COSTS.to_owned(), format!("{INPUTS}/{}", name_of(costs))]);
    }
    words
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.display().to_string()).unwrap_or_default()
}

/// Returns a text as a scalar of YAML in single quotes, in which only they have a meaning.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
