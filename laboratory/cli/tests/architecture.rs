//! Checks the layers of the architecture: a crate imports only the crates that its entry allows, and their imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Allowed imports of each crate, with reasons in `docs/ARCHITECTURE.md`. The engine comes first: it never imports the
/// laboratory, except for misbehaviour in `node` behind a feature.
const ARROWS: &[(&str, &[&str])] = &[
    ("quorate-types", &[]),
    ("quorate-crypto", &["quorate-types"]),
    ("quorate-consensus", &["quorate-types"]),
    ("quorate-network", &["quorate-types"]),
    ("quorate-storage", &["quorate-types"]),
    ("quorate-applications", &["quorate-types"]),
    ("quorate-hosting", &["quorate-consensus", "quorate-network", "quorate-crypto", "quorate-applications"]),
    ("quorate-client", &["quorate-hosting"]),
    ("quorate-node", &["quorate-hosting", "quorate-storage", "quorate-adversary"]),
    ("quorate", &["quorate-node", "quorate-client"]),
    ("quorate-operator", &["quorate-node", "quorate-client"]),
    ("quorate-adversary", &["quorate-hosting"]),
    ("quorate-simulator", &["quorate-hosting", "quorate-adversary", "quorate-storage", "quorate-client"]),
    ("quorate-plots", &[]),
    ("quorate-lab", &["quorate-operator", "quorate-simulator", "quorate-plots"]),
    ("quorate-runner", &["quorate-lab"]),
    (TESTKIT, &["quorate-applications", "quorate-consensus", "quorate-crypto", "quorate-network"]),
    ("quorate-cli", &["quorate-runner"]),
];

/// Code shared by tests; no crate imports it otherwise.
const TESTKIT: &str = "quorate-testkit";

fn allowed(name: &str) -> BTreeSet<&'static str> {
    let arrows: BTreeMap<&str, &[&'static str]> = ARROWS.iter().copied().collect();
    let mut open: Vec<&'static str> =
        arrows.get(name).unwrap_or_else(|| panic!("{name} has no entry in ARROWS: add one to this test")).to_vec();
    let mut reached = BTreeSet::new();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(arrows[next]);
        }
    }
    reached
}

#[test]
fn every_crate_imports_only_allowed_crates() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo is what runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let is_example = |package: &&serde_json::Value| {
        package["manifest_path"].as_str().is_some_and(|manifest| manifest.contains("/examples/"))
    };
    let (examples, packages): (Vec<&serde_json::Value>, Vec<_>) =
        metadata["packages"].as_array().expect("there are packages").iter().partition(is_example);
    for example in examples {
        let depends = example["dependencies"].as_array().expect("a package has dependencies");
        let ours = depends.iter().filter_map(|dependency| dependency["path"].as_str());
        assert!(ours.clone().count() > 0, "{}", example["name"]);
        let is_visible = |path: &str| path.ends_with("engine/facade") || path.contains("/examples/");
        assert!(ours.clone().all(is_visible), "an example sees what a stranger sees");
    }
    assert_eq!(packages.len(), ARROWS.len(), "each crate of the workspace has an entry in ARROWS");
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let allowed = allowed(name);
        let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
        let is_engine = manifest.contains("/engine/");
        assert!(is_engine || manifest.contains("/laboratory/"), "{manifest} is in neither half of the tree");
        for dependency in package["dependencies"].as_array().expect("a package has dependencies") {
            let to = dependency["name"].as_str().expect("a dependency has a name");
            let ours = ARROWS.iter().any(|(ours, _)| *ours == to);
            let shipped = dependency["kind"].is_null();
            assert!(to != TESTKIT || dependency["kind"] == "dev", "{name} imports {to} outside of its tests");
            assert!(!(ours && shipped) || allowed.contains(to), "{name} must not import {to}");
            let is_optional = dependency["optional"] == true;
            let of_laboratory = dependency["path"].as_str().is_some_and(|path| path.contains("/laboratory/"));
            assert!(!(is_engine && shipped && of_laboratory) || is_optional, "{name} of the engine imports {to}");
        }
    }
}

/// Returns the packages in a package's build, with the features that cargo selects for this package alone.
fn built_into(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", package])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo is what runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_operators_binary_contains_no_laboratory_and_no_misbehaviour() {
    let laboratory = ["quorate-lab", "quorate-simulator", "quorate-adversary"];
    let operator = built_into("quorate-operator");
    assert!(operator.contains("quorate-node") && operator.contains("quorate-client"), "{operator:?}");
    for package in laboratory {
        assert!(!operator.contains(package), "quorate-node is built with {package}");
        assert!(built_into("quorate-cli").contains(package), "`quorate` contains everything: {package}");
    }
}

/// Switches that reproduce papers, and the counting allocator, are behind a feature of these packages.
#[test]
fn the_operators_binary_is_built_without_the_feature_of_laboratories() {
    let features = |package: &str| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p} [{f}]"])
            .args(["--package", package, "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
            .output()
            .expect("cargo is what runs this test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("names are UTF-8");
        let of = |name: &str| text.lines().any(|line| line.starts_with(name) && line.contains("laboratory]"));
        ["quorate-node ", "quorate-consensus "].map(of)
    };
    assert_eq!(features("quorate-operator"), [false, false]);
    assert_eq!(features("quorate-cli"), [true, true], "the test detects the feature");
}

#[test]
fn consensus_has_no_device_among_its_libraries() {
    let manifest = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/consensus/Cargo.toml"));
    let shipped = manifest.split("[dev-dependencies]").next().expect("split gives one part at least");
    for device in ["rand", "tokio", "mio", "log", "tracing", "socket", "quorate-crypto"] {
        assert!(!shipped.contains(&format!("\n{device}")), "the pure core must not have {device}");
    }
}

/// Returns a crate's features in a build of the shipped program, from `cargo tree`.
fn features_of(package: &str, flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "quorate-cli", "--edges", "normal,features"])
        .args(["--invert", package, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .args(flags)
        .output()
        .expect("cargo is what runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo tree prints text")
}

/// An operator's build contains no code that injects bugs.
#[test]
fn the_default_build_contains_no_bug_of_the_museum() {
    for package in ["quorate-types", "quorate-consensus"] {
        let shipped = features_of(package, &[]);
        assert!(shipped.contains(&format!("{package} feature \"default\"")), "{shipped}");
        assert!(!shipped.contains("mutants"), "{shipped}");
        let museum = features_of(package, &["--features", "museum"]);
        assert!(museum.contains(&format!("{package} feature \"mutants\"")), "the test detects the feature: {museum}");
    }
}

/// Returns the sources below a directory of the repository, with their texts.
fn sources(below: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(below)];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the sources are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                files.push((path, text));
            }
        }
    }
    files
}

/// The core computes with whole numbers, which are the same on every machine and in every build.
#[test]
fn the_core_uses_no_floating_point() {
    let files = sources("engine/consensus/src");
    assert!(files.len() > 100, "all {} files were read", files.len());
    for (path, text) in files {
        assert!(!text.contains("f64") && !text.contains("f32"), "{} has floating-point numbers", path.display());
    }
}

/// The macro `wire!` declares encodings. Exceptions have a comment with the reason.
#[test]
fn an_encoding_by_hand_says_why() {
    let mut by_hand = 0;
    for (path, text) in sources("engine").into_iter().chain(sources("laboratory")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("impl")) {
            if line.contains(" Wire for ") {
                let mut comment = lines[..at].iter().rev().take_while(|line| line.starts_with("///"));
                assert!(
                    comment.any(|line| line.starts_with("/// By hand")),
                    "{}:{}: declare it with `wire!`, or say why not",
                    path.display(),
                    at + 1
                );
                by_hand += 1;
            }
        }
    }
    assert!(by_hand > 0, "the test detects them");
}

/// Checks that the rules' files do not mention the museum's bugs.
#[test]
fn no_rule_mentions_a_bug() {
    let consensus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/consensus/src");
    let rules = std::fs::read_dir(format!("{consensus}/protocols/chained/rules")).expect("the rules are there");
    let mut files: Vec<_> = rules.map(|entry| entry.expect("an entry").path()).collect();
    files.push(format!("{consensus}/protocols/basic/rules.rs").into());
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source is text");
        assert!(!text.contains("bug!") && !text.contains("utant"), "{} mentions a bug", file.display());
    }
}
