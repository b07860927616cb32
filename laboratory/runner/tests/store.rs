//! Kept rows and experiments.

use crate::common::{Scratch, row};
use quorate_lab::experiments::Profile;
use quorate_runner::Store;
use quorate_runner::store::Record;
use std::collections::BTreeMap;
use std::fs;

fn created(scratch: &Scratch) -> Store {
    let store = Store::at(&scratch.0);
    store.create().expect("it can be written");
    store
}

fn record(instrument: &str, text: &str) -> Record {
    Record {
        file: "mine.toml".into(),
        text: text.into(),
        profile: Profile::Quick,
        seed: None,
        cells: BTreeMap::from([(instrument.to_owned(), vec!["k".to_owned()])]),
    }
}

#[test]
fn a_row_is_found_under_its_key_and_repetition() {
    let scratch = Scratch::new("rows");
    let store = created(&scratch);
    let row = row(10, 3, &[("p50_ms", 0.1 + 0.2)]);
    store.save("k", &row).expect("it is kept");
    assert_eq!(store.load("k", 3).expect("it is read"), Some(row));
    assert_eq!(store.load("k", 2).expect("it is read"), None);
    let left: Vec<_> = fs::read_dir(scratch.0.join("cells")).expect("it is there").collect();
    assert_eq!(left.len(), 1, "no draft is left");
}

#[test]
fn a_damaged_row_is_refused_by_name() {
    let scratch = Scratch::new("damaged");
    let store = created(&scratch);
    for text in ["", "{", "{\"experiment\": 1}"] {
        fs::write(store.path("k", 0), text).expect("it is written");
        let error = store.load("k", 0).expect_err("it is no row").to_string();
        assert!(error.contains("k-0.json") && error.contains("delete it"), "{error}");
    }
    store.save("k", &row(10, 1, &[])).expect("it is kept");
    fs::rename(store.path("k", 1), store.path("k", 0)).expect("it is moved");
    assert!(store.load("k", 0).expect_err("it is another").to_string().contains("holds repetition 1"));
}

#[test]
fn instruments_of_one_experiment_are_kept_together() {
    let scratch = Scratch::new("records");
    let store = created(&scratch);
    store.record("mine/x", &record("real", "a")).expect("it is kept");
    store.record("mine/x", &record("simulated", "a")).expect("it is kept");
    store.record("mine_x", &record("real", "other")).expect("it is kept");
    let records = store.records().expect("they are read");
    let mut instruments: Vec<Vec<&str>> =
        records.iter().map(|own| own.cells.keys().map(String::as_str).collect()).collect();
    instruments.sort();
    assert_eq!(instruments, [vec!["real"], vec!["real", "simulated"]]);
    store.record("mine/x", &record("simulated", "changed")).expect("it is kept");
    let changed = store.records().expect("they are read").into_iter().find(|own| own.text == "changed");
    assert_eq!(changed.map(|own| own.cells.len()), Some(1), "cells of another text do not belong to it");
}

#[test]
fn any_other_directory_is_refused() {
    let scratch = Scratch::new("none");
    let error = Store::open(&scratch.0).expect_err("it is none").to_string();
    assert!(error.contains("is no directory of results"), "{error}");
}

#[test]
fn a_second_run_in_a_directory_is_refused_and_told_the_process_of_the_first() {
    let scratch = Scratch::new("lock");
    let store = created(&scratch);
    let lock = store.lock(false).expect("nobody else uses it");
    let error = Store::at(&scratch.0).lock(false).expect_err("it is locked");
    let process = format!("in use by the run of process {}", std::process::id());
    assert!(error.is_wrong_call() && error.to_string().contains(&process), "{error}");
    drop(lock);
    store.lock(false).expect("it is free again");
}
