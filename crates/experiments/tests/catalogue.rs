//! Every experiment of the catalogue is sound, and uses keys that the program has.

use quorate_experiments::figures::{FIGURES, names};
use quorate_experiments::{Experiment, Instrument, Profile, read};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most runs of a quick profile, so that it takes about a minute.
const MAX_QUICK_RUNS: usize = 60;
const PAPERS: &[&str] =
    &["framework", "load", "lossmodel", "pipeline", "signatures", "smoke", "transports", "wide-area"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files() -> Vec<PathBuf> {
    fn below(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("the directory is there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                below(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    let experiments = root().join("experiments");
    below(&experiments, &mut files);
    // The list of the papers' figures, which is no experiment.
    files.retain(|file| file.parent() != Some(&experiments));
    files.sort();
    files
}

fn catalogue() -> Vec<(PathBuf, Experiment)> {
    let mut experiments = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("it is text");
        let name = path.strip_prefix(root()).expect("it is below").display().to_string();
        experiments.push((path, read(&text, &name).unwrap_or_else(|fault| panic!("{fault}"))));
    }
    experiments
}

/// Returns the keys of a struct whose fields are flags, from the source of the laboratory, which this crate must not
/// import.
fn fields(source: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("crates/lab/src").join(source)).expect("the source is there");
    let body = text.split(&format!("pub struct {name} {{")).nth(1).expect("the struct is there");
    let body = body.split("\n}").next().expect("it has an end");
    let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    let keys: Vec<String> = fields.map(|(key, _)| key.to_owned()).collect();
    assert!(keys.len() > 3, "{source} has no {name} with fields: {keys:?}");
    keys
}

fn known(instrument: Instrument) -> Vec<String> {
    let real = fields("spec/mod.rs", "BenchSpec");
    match instrument {
        Instrument::Real => real,
        Instrument::Simulated => real.into_iter().chain(fields("sim/options.rs", "SimOptions")).collect(),
        Instrument::Scenarios => {
            let structs = [
                ("twins/options.rs", "ShapeArgs"),
                ("twins/options.rs", "ChoiceArgs"),
                ("twins/options.rs", "RunArgs"),
                ("twins/museum.rs", "MuseumArgs"),
            ];
            structs.into_iter().flat_map(|(file, name)| fields(file, name)).collect()
        }
        Instrument::Analytical => {
            let plans = [("plan/fpga.rs", "FpgaOptions"), ("plan/cpu.rs", "CpuOptions")];
            let plans = plans.into_iter().flat_map(|(file, name)| fields(file, name));
            let options = fields("model/mod.rs", "ModelOptions").into_iter().chain(plans);
            options.chain(["protocol".to_owned(), "plan".to_owned()]).collect()
        }
        Instrument::Emulated => {
            let cluster = real.into_iter().filter(|key| key != "host");
            cluster.chain(fields("bench/emulated/options.rs", "EmulationOptions")).collect()
        }
    }
}

#[test]
fn every_file_is_an_experiment_of_its_paper() {
    let catalogue = catalogue();
    assert!(catalogue.len() >= 12, "{}", catalogue.len());
    let mut seen = BTreeSet::new();
    for (path, experiment) in &catalogue {
        let directory = path.parent().and_then(|parent| parent.file_name()).and_then(|name| name.to_str());
        assert_eq!(directory, Some(experiment.paper.as_str()), "{}", path.display());
        assert!(PAPERS.contains(&experiment.paper.as_str()), "{}", experiment.name());
        assert!(!experiment.plots.is_empty() && !experiment.claims.is_empty(), "{}", experiment.name());
        assert!(seen.insert(experiment.name()), "{} stands there twice", experiment.name());
    }
}

#[test]
fn every_key_is_one_of_the_program() {
    for (_, experiment) in catalogue() {
        experiment.check_keys(known).unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn every_quick_profile_is_quick() {
    for (_, experiment) in catalogue() {
        let quick = experiment.plan(Profile::Quick, None).expect("it was checked");
        let runs = quick.turns().len();
        assert!(runs <= MAX_QUICK_RUNS, "{} has {runs} runs, more than {MAX_QUICK_RUNS}", experiment.name());
        let full = experiment.plan(Profile::Full, None).expect("it was checked");
        assert!(full.cells.len() >= quick.cells.len(), "{}", experiment.name());
    }
}

/// A claim that the quick profile cannot judge is seen by few.
#[test]
fn most_claims_can_be_judged_quickly() {
    let mut cannot = Vec::new();
    let mut count = 0;
    for (_, experiment) in catalogue() {
        let quick = experiment.plan(Profile::Quick, None).expect("it was checked");
        for claim in &experiment.claims {
            count += 1;
            if let Err(why) = quorate_experiments::claims::cases(&quick, claim) {
                cannot.push(format!("{} {}: {why}", experiment.name(), claim.id));
            }
        }
    }
    assert!(cannot.len() * 5 < count, "{} of {count}:\n{}", cannot.len(), cannot.join("\n"));
}

#[test]
fn no_two_figures_have_the_same_name() {
    let names = names(FIGURES);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
