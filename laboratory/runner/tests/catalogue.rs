//! The experiments in the binary, and their names.

use crate::common::Scratch;
use quorate_lab::experiments::Profile;
use quorate_runner::call::{Call, Files, known};
use quorate_runner::catalogue::{catalogue, find};
use std::fs;
use std::path::{Path, PathBuf};

/// Counts the experiments: the files in the papers' directories, without the list beside these.
fn files(root: &Path) -> usize {
    let paths = |directory: &Path| -> Vec<PathBuf> {
        fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("an entry").path()).collect()
    };
    let experiments = paths(root).into_iter().filter(|path| path.is_dir()).flat_map(|directory| paths(&directory));
    experiments.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).count()
}

#[test]
fn the_binary_has_every_experiment_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    assert_eq!(catalogue().expect("they are sound").len(), files(&root));
}

/// Every cell of every profile is valid: keys, values and networks exist in this program.
#[test]
fn every_cell_of_the_catalogue_can_be_run() {
    for (_, experiment) in catalogue().expect("they are sound") {
        experiment.check_keys(known).unwrap_or_else(|fault| panic!("{fault}"));
        for profile in Profile::ALL {
            let plan = experiment.plan(*profile, None).unwrap_or_else(|fault| panic!("{fault}"));
            for cell in &plan.cells {
                Call::of(&plan, cell, Files::default()).unwrap_or_else(|fault| panic!("{fault}"));
            }
        }
    }
}

#[test]
fn experiments_are_found_by_name_paper_and_file() {
    let names = |name: &str| -> Vec<String> {
        find(name).unwrap_or_else(|error| panic!("{error}")).iter().map(|(_, own)| own.name()).collect()
    };
    assert_eq!(names("framework/fig2"), ["framework/fig2"]);
    assert!(names("framework").len() > 3 && names("framework").iter().all(|name| name.starts_with("framework/")));
    assert_eq!(names("all").len(), catalogue().expect("they are sound").len());
    let error = find("framework/fig22").expect_err("there is none").to_string();
    assert!(error.contains("did you mean `framework/fig2"), "{error}");
    let scratch = Scratch::new("catalogue");
    let file = scratch.0.join("own.toml");
    fs::write(&file, "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"real\"]\n")
        .expect("it is written");
    assert_eq!(names(&file.display().to_string()), ["mine/own"]);
    assert!(find("missing.toml").expect_err("there is none").is_wrong_call());
}
