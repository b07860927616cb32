//! A directory of results as an artefact: RO-Crate 1.1.

use crate::common::Scratch;
use quorate_lab::experiments::{Plan, Profile, Row};
use quorate_runner::artefact::{About, METADATA_FILE, REPEAT_FILE, write};
use quorate_runner::page::{self, Finding};
use quorate_runner::store::Record;
use quorate_runner::{Judged, Source, Store, report};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

const TEXT: &str = "title = \"Batches\"\npaper = \"transports\"\nfigure = \"8\"\nabout = \"a\"\n\
                    instruments = [\"simulated\"]\n[[axis]]\nkey = \"batch\"\nvalues = [10, 100]\n\
                    [repeat]\nmin = 2\nmax = 2\n\
                    [[plot]]\nkind = \"line\"\ntitle = \"Rate\"\nx = \"batch\"\ny = \"throughput_per_s\"\n";
/// 2024-02-29 12:00:00 UTC.
const LEAP_DAY_S: u64 = 1_709_208_000;

/// Keeps an experiment of two cells with two runs each, and makes the directory an artefact.
fn artefact(scratch: &Scratch, license: Option<&str>) -> Value {
    let store = Store::at(&scratch.0);
    store.create().expect("it can be written");
    let source = Source { file: "experiments/transports/fig8.toml".into(), text: TEXT.into() };
    let experiment = source.experiment().expect("it is sound");
    let plan = experiment.plan(Profile::Quick, None).expect("it has a plan");
    for (at, cell) in plan.cells.iter().enumerate() {
        for repetition in 0..2 {
            let mut row =
                Row { cell: cell.values(), instrument: cell.instrument, ..crate::common::row(10, repetition, &[]) };
            row.figures.insert("throughput_per_s".into(), 100.0 * (at + 1) as f64);
            row.provenance.command = format!("quorate sim --batch {at}");
            row.provenance.surroundings.build = "0.1.0 commit 123abc".into();
            row.provenance.surroundings.machine = "virtual time".into();
            store.save(&format!("key{at}"), &row).expect("it is kept");
        }
    }
    let cells = BTreeMap::from([("simulated".to_owned(), vec!["key0".to_owned(), "key1".to_owned()])]);
    let (file, text) = (source.file.clone(), TEXT.to_owned());
    store
        .record("transports/fig8", &Record { file, text, profile: Profile::Quick, seed: Some(9), cells })
        .expect("it is kept");
    let _lock = store.lock(false).expect("nobody else uses it");
    fs::write(scratch.0.join("cells/key0-0-4711.out"), "unfinished").expect("it can be written");
    let archived = report::read(&store).expect("it is sound");
    let judged: Vec<Judged> = archived.iter().map(|own| own.judged().expect("it has a plan")).collect();
    let plans: Vec<Plan> = archived.iter().map(|own| own.plan().expect("it has a plan")).collect();
    let findings: Vec<Finding> =
        plans.iter().zip(&judged).map(|(plan, own)| Finding { plan, rows: &own.rows, claims: &own.claims }).collect();
    page::write(&scratch.0, &page::page(&findings, None)).expect("it can be written");
    let published = SystemTime::UNIX_EPOCH + Duration::from_secs(LEAP_DAY_S);
    let about = About { published, license: license.map(str::to_owned) };
    write(&scratch.0, &archived, &findings, &about).expect("it can be written");
    let text = fs::read_to_string(scratch.0.join(METADATA_FILE)).expect("it was written");
    serde_json::from_str(&text).expect("it is JSON")
}

fn entities(metadata: &Value) -> BTreeMap<&str, &Value> {
    let graph = metadata["@graph"].as_array().expect("a graph");
    let all: BTreeMap<&str, &Value> =
        graph.iter().map(|entity| (entity["@id"].as_str().expect("each entity has an id"), entity)).collect();
    assert_eq!(all.len(), graph.len(), "no id is used twice");
    assert!(graph.iter().all(|entity| !entity["@type"].is_null()), "each entity has a type");
    all
}

/// Calls `look` with the target of each reference in a value.
fn references<'v>(value: &'v Value, look: &mut dyn FnMut(&'v str)) {
    match value {
        Value::Array(values) => values.iter().for_each(|own| references(own, look)),
        Value::Object(fields) => match fields.get("@id").and_then(Value::as_str) {
            Some(id) if fields.len() == 1 => look(id),
            _ => fields.values().for_each(|own| references(own, look)),
        },
        _ => {}
    }
}

fn files(dir: &Path, below: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir.join(below)).expect("it is there") {
        let entry = entry.expect("an entry");
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(dir, &format!("{path}/"), found);
        } else {
            found.insert(path);
        }
    }
}

#[test]
fn the_metadata_have_what_ro_crate_requires() {
    let scratch = Scratch::new("crate");
    let metadata = artefact(&scratch, Some("https://creativecommons.org/licenses/by/4.0/"));
    assert_eq!(metadata["@context"][0], "https://w3id.org/ro/crate/1.1/context");
    let entities = entities(&metadata);
    let descriptor = entities["ro-crate-metadata.json"];
    assert_eq!(descriptor["@type"], "CreativeWork");
    assert_eq!(
        (&descriptor["about"]["@id"], &descriptor["conformsTo"]["@id"]),
        (&"./".into(), &"https://w3id.org/ro/crate/1.1".into())
    );
    let root = entities["./"];
    assert_eq!((&root["@type"], &root["datePublished"]), (&"Dataset".into(), &"2024-02-29".into()));
    assert!(root["name"].as_str().is_some_and(|name| name.contains("transports/fig8")));
    assert_eq!(root["license"], "https://creativecommons.org/licenses/by/4.0/");
    let mut missing = Vec::new();
    for entity in metadata["@graph"].as_array().expect("a graph") {
        for value in entity.as_object().expect("an object").values() {
            let is_known = |id: &str| entities.contains_key(id) || id == "https://w3id.org/ro/crate/1.1";
            references(value, &mut |id| missing.extend((!is_known(id)).then(|| id.to_owned())));
        }
    }
    assert!(missing.is_empty(), "references to nothing: {missing:?}");
}

#[test]
fn every_file_is_described_with_its_digest() {
    let scratch = Scratch::new("digests");
    let metadata = artefact(&scratch, None);
    let entities = entities(&metadata);
    assert!(entities["./"]["license"].is_null(), "nobody named a license");
    let mut parts = BTreeSet::new();
    references(&entities["./"]["hasPart"], &mut |id| {
        parts.insert(id.to_owned());
    });
    let mut expected = BTreeSet::new();
    files(&scratch.0, "", &mut expected);
    for other in ["lock", METADATA_FILE, "cells/key0-0-4711.out"] {
        assert!(expected.remove(other), "{other} is there");
    }
    assert_eq!(parts, expected);
    for path in &parts {
        let (file, bytes) = (entities[path.as_str()], fs::read(scratch.0.join(path)).expect("it is there"));
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((&file["@type"], &file["sha256"]), (&"File".into(), &digest.into()), "{path}");
        assert_eq!(file["contentSize"], bytes.len().to_string());
        assert!(file["encodingFormat"].as_str().is_some_and(|own| own != "application/octet-stream"), "{path}");
    }
    for path in ["figures/transports-fig8-1.tex", "rows.csv", "references.bib", "report.html", "cells/key1-1.json"] {
        assert!(parts.contains(path), "{path} is missing: {parts:?}");
    }
    let row = entities["cells/key1-0.json"];
    assert_eq!(
        (&row["identifier"], &row["description"]),
        (&"key1".into(), &"Repeat with: quorate sim --batch 1".into())
    );
}

#[test]
fn a_run_names_its_build_its_machine_its_rows_and_its_paper() {
    let scratch = Scratch::new("provenance");
    let metadata = artefact(&scratch, None);
    let entities = entities(&metadata);
    let run = entities["#run-transports-fig8-quick"];
    assert_eq!(
        (&run["@type"], &run["actionStatus"]),
        (&"CreateAction".into(), &"http://schema.org/CompletedActionStatus".into())
    );
    assert_eq!(run["object"]["@id"], "experiments/quick/transports/fig8.toml");
    assert_eq!(
        fs::read_to_string(scratch.0.join("experiments/quick/transports/fig8.toml")).expect("it is there"),
        TEXT
    );
    let mut tools = Vec::new();
    references(&run["instrument"], &mut |id| tools.push(id));
    let named = |id: &str| entities[id]["version"].as_str().or(entities[id]["name"].as_str());
    let named: Vec<Option<&str>> = tools.into_iter().map(named).collect();
    assert_eq!(named, [Some("0.1.0 commit 123abc"), Some("virtual time")]);
    assert_eq!(run["result"].as_array().map(Vec::len), Some(4), "two cells of two runs");
    let paper = entities["./"]["citation"][0]["@id"].as_str().expect("a paper");
    assert_eq!(paper, "https://doi.org/10.1145/3659463.3660030");
    assert_eq!(entities[paper]["@type"], "ScholarlyArticle");
}

#[test]
fn one_command_repeats_all_runs() {
    let scratch = Scratch::new("repeat");
    artefact(&scratch, None);
    let script = fs::read_to_string(scratch.0.join(REPEAT_FILE)).expect("it was written");
    let run = "quorate lab run experiments/quick/transports/fig8.toml --profile quick --instrument simulated --seed 9 \
               --dir \"$dir\"\n";
    assert!(script.starts_with("#!/bin/sh\n") && script.contains(run), "{script}");
    assert!(script.ends_with("quorate lab compare . \"$dir\"\n"), "{script}");
    assert!(!script.contains(&scratch.0.display().to_string()), "it works wherever the artefact is");
}
