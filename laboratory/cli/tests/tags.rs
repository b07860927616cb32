//! Each hash tag is declared once and used once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Independent checker, which recomputes some hashes because it trusts no other code.
const READER: &str = "engine/operator/src/inspection/check/";
/// Test code, whose hashes are computed nowhere else.
const TESTKIT: &str = "laboratory/testkit/";
const TABLE: &str = "engine/types/src/tags.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the sources below `src` of all crates, by path.
fn sources() -> BTreeMap<String, String> {
    let mut open: Vec<PathBuf> = ["engine", "laboratory"]
        .iter()
        .flat_map(|half| fs::read_dir(root().join(half)).expect("a directory"))
        .map(|of| of.expect("an entry").path().join("src"))
        .filter(|source| source.is_dir())
        .collect();
    let mut found = BTreeMap::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory").flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => open.push(path),
                false if path.extension().is_some_and(|name| name == "rs") => {
                    let name = path.strip_prefix(root()).expect("it is below").display().to_string();
                    found.insert(name, fs::read_to_string(&path).expect("a source can be read"));
                }
                false => {}
            }
        }
    }
    found
}

/// Returns the names of the tags in the table.
fn names(table: &str) -> Vec<&str> {
    table.lines().filter_map(|line| line.trim().split_once(" = b\"").map(|(name, _)| name)).collect()
}

/// Counts a name's occurrences as a whole word.
fn uses(text: &str, name: &str) -> usize {
    let wanted = format!("tags::{name}");
    text.match_indices(&wanted)
        .filter(|(at, _)| !text[at + wanted.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        .count()
}

/// Returns the tags with more or fewer than one use, and the hashers with a literal tag.
fn faults(sources: &BTreeMap<String, String>) -> Vec<String> {
    let table = &sources[TABLE];
    let mut faults = Vec::new();
    for name in names(table) {
        let places: Vec<&String> = sources
            .iter()
            .filter(|(path, _)| !path.starts_with(READER))
            .flat_map(|(path, text)| std::iter::repeat_n(path, uses(text, name)))
            .collect();
        if places.len() != 1 {
            faults.push(format!("tag {name} is used in {} places, expected one: {places:?}", places.len()));
        }
    }
    let is_shipped = |path: &str| path != TABLE && !path.starts_with(TESTKIT);
    for (path, text) in sources.iter().filter(|(path, _)| is_shipped(path)) {
        let own = ["Hasher::new(*b\"", "Hasher::new([", "derive(*b\"", "TAG: [u8; 4] = *b\""];
        for wanted in own.iter().filter(|wanted| text.contains(**wanted)) {
            faults.push(format!("{path} has a tag that is not in {TABLE}: `{wanted}`"));
        }
    }
    faults
}

#[test]
fn each_tag_of_a_hash_is_declared_once_and_used_in_one_place() {
    let sources = sources();
    assert!(names(&sources[TABLE]).len() > 30 && sources.len() > 300);
    let found = faults(&sources);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Shows that the test above can fail.
#[test]
fn a_second_use_of_a_tag_is_found() {
    let mut sources = sources();
    let text = sources.get_mut("engine/types/src/state.rs").expect("it is there");
    *text += "fn again() { Hasher::new(tags::BUNDLE); }";
    assert!(faults(&sources).iter().any(|fault| fault.starts_with("tag BUNDLE is used in 2 places")));
    let text = sources.get_mut("engine/types/src/state.rs").expect("it is there");
    *text = text.replace("tags::BUNDLE", "*b\"qA01\"");
    assert!(
        faults(&sources).iter().any(|fault| fault.starts_with("engine/types/src/state.rs has a tag that is not in"))
    );
}
