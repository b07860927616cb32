//! Every experiment of the catalogue is valid, can be judged, and uses only existing figures.

use quorate_lab::experiments::figures::Vocabulary;
use quorate_lab::experiments::{Experiment, Profile};
use quorate_lab::figures::vocabulary;
use quorate_runner::Source;
use std::collections::BTreeSet;

/// Maximum number of runs of a quick profile, so that it takes about a minute.
const MAX_QUICK_RUNS: usize = 60;
const PAPERS: &[&str] =
    &["framework", "load", "lossmodel", "performance", "pipeline", "signatures", "smoke", "transports", "wide-area"];

fn catalogue() -> Vec<(Source, Experiment)> {
    quorate_runner::catalogue::catalogue().unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn every_file_is_an_experiment_of_its_paper() {
    let catalogue = catalogue();
    assert!(catalogue.len() >= 12, "{}", catalogue.len());
    let mut seen = BTreeSet::new();
    for (source, experiment) in &catalogue {
        let directory = source.file.rsplit('/').nth(1);
        assert_eq!(directory, Some(experiment.paper.as_str()), "{}", source.file);
        assert!(PAPERS.contains(&experiment.paper.as_str()), "{}", experiment.name());
        assert!(!experiment.plots.is_empty() && !experiment.claims.is_empty(), "{}", experiment.name());
        assert!(seen.insert(experiment.name()), "{} stands there twice", experiment.name());
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

/// Users rarely see a claim that the quick profile cannot judge.
#[test]
fn most_claims_can_be_judged_quickly() {
    let mut cannot = Vec::new();
    let mut count = 0;
    for (_, experiment) in catalogue() {
        let quick = experiment.plan(Profile::Quick, None).expect("it was checked");
        for claim in &experiment.claims {
            count += 1;
            if let Err(why) = quorate_lab::experiments::claims::cases(&quick, claim) {
                cannot.push(format!("{} {}: {why}", experiment.name(), claim.id));
            }
        }
    }
    assert!(cannot.len() * 5 < count, "{} of {count}:\n{}", cannot.len(), cannot.join("\n"));
}

#[test]
fn no_two_figures_have_the_same_name() {
    let Vocabulary { figures, series } = vocabulary();
    for described in [figures, series] {
        let names: BTreeSet<&str> = described.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), described.len());
    }
    let counts = figures.iter().filter_map(|figure| vocabulary().count_of(figure.name));
    assert!(counts.clone().count() > 0 && counts.into_iter().all(|name| vocabulary().figure(name).is_some()));
}
