//! Manifests of jobs for Kubernetes. `packaging/check kubernetes` validates them by the schemas of several versions.

use crate::common::Scratch;
use quorate_runner::kubernetes::{Called, write};
use std::fs;
use std::path::PathBuf;

#[test]
fn a_job_has_the_arguments_and_the_files_of_the_call() {
    let scratch = Scratch::new("kubernetes");
    let (experiment, costs) = (scratch.0.join("it's mine.toml"), scratch.0.join("costs.toml"));
    fs::write(&experiment, "title = \"t\"\n").expect("it can be written");
    fs::write(&costs, "source = \"here\"\n").expect("it can be written");
    let (dir, named) = (scratch.0.join("results"), experiment.display().to_string());
    let words = ["lab", "run", &named, "--on=kubernetes:3", "--dir", "results", "--profile=full", "--until", "8h"];
    let called = Called {
        words: words.map(str::to_owned).to_vec(),
        dir: dir.clone(),
        experiment: Some(experiment),
        costs: Some(costs.clone()),
    };
    let directory = write(&called, 3).expect("it can be written");
    assert_eq!(directory, dir.join("kubernetes"));
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect("it is written");
    let job = read("job.yaml");
    assert!(job.contains("completions: 3\n") && job.contains("parallelism: 3\n"), "{job}");
    let arguments: Vec<&str> =
        job.lines().filter_map(|line| line.strip_prefix("            - '")?.strip_suffix('\'')).collect();
    let expected = [
        "lab",
        "run",
        "/inputs/it''s mine.toml",
        "--on=shared",
        "--profile=full",
        "--until",
        "8h",
        "--dir",
        "/results",
        "--costs",
        "/inputs/costs.toml",
    ];
    assert_eq!(arguments, expected);
    assert!(!job.contains('{') || job.contains("emptyDir: {}"), "no name of the template is left: {job}");
    assert_eq!(read("costs.toml"), "source = \"here\"\n");
    let files = "    files:\n      - 'it''s mine.toml'\n      - 'costs.toml'\n";
    assert!(read("kustomization.yaml").ends_with(files), "{}", read("kustomization.yaml"));
    // A table that was named keeps its place among the arguments.
    let words = ["lab", "run", "smoke", "--costs", &costs.display().to_string()].map(str::to_owned).to_vec();
    let called = Called { words, dir, experiment: None, costs: Some(PathBuf::from(&costs)) };
    let job = fs::read_to_string(write(&called, 1).expect("it can be written").join("job.yaml")).expect("it is there");
    assert_eq!(job.matches("/inputs/costs.toml").count(), 1, "{job}");
}
