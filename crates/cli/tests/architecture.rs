//! The layers of the house, held by program: a crate imports only what its arrow names and what those import.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What each crate may name; `docs/ARCHITECTURE.md` says why.
const ARROWS: &[(&str, &[&str])] = &[
    ("quorate-types", &[]),
    ("quorate-consensus", &["quorate-types"]),
    ("quorate-byzantine", &["quorate-consensus"]),
    ("quorate-oracles", &["quorate-consensus"]),
    ("quorate-gateway", &[]),
    ("quorate-crypto", &["quorate-types"]),
    ("quorate-channels", &["quorate-types"]),
    ("quorate-transports", &["quorate-types", "quorate-channels", "quorate-gateway"]),
    ("quorate-storage", &["quorate-types"]),
    ("quorate-applications", &["quorate-types"]),
    ("quorate-recording", &["quorate-consensus"]),
    (
        "quorate-node",
        &[
            "quorate-consensus",
            "quorate-gateway",
            "quorate-byzantine",
            "quorate-recording",
            "quorate-crypto",
            "quorate-channels",
            "quorate-transports",
            "quorate-storage",
            "quorate-applications",
        ],
    ),
    ("quorate-client", &["quorate-types", "quorate-crypto", "quorate-channels", "quorate-transports"]),
    (
        "quorate-simulator",
        &[
            "quorate-consensus",
            "quorate-gateway",
            "quorate-recording",
            "quorate-byzantine",
            "quorate-oracles",
            "quorate-crypto",
            "quorate-storage",
            "quorate-applications",
            "quorate-client",
        ],
    ),
    ("quorate-twins", &["quorate-consensus", "quorate-byzantine", "quorate-oracles", "quorate-applications"]),
    ("quorate-lab", &["quorate-node", "quorate-client", "quorate-simulator", "quorate-twins"]),
    ("quorate", &["quorate-lab"]),
];

fn allowed(name: &str) -> BTreeSet<&'static str> {
    let arrows: BTreeMap<&str, &[&'static str]> = ARROWS.iter().copied().collect();
    let mut open: Vec<&'static str> =
        arrows.get(name).unwrap_or_else(|| panic!("{name} has no arrow: give it one in this test")).to_vec();
    let mut reached = BTreeSet::new();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(arrows[next]);
        }
    }
    reached
}

#[test]
fn every_crate_imports_only_what_its_arrow_allows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo is what runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    assert_eq!(packages.len(), ARROWS.len(), "each crate of the workspace has an arrow");
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let allowed = allowed(name);
        for dependency in package["dependencies"].as_array().expect("a package has dependencies") {
            let to = dependency["name"].as_str().expect("a dependency has a name");
            let ours = ARROWS.iter().any(|(ours, _)| *ours == to);
            let shipped = dependency["kind"].is_null();
            assert!(!(ours && shipped) || allowed.contains(to), "{name} must not import {to}");
        }
    }
}

#[test]
fn consensus_has_no_device_among_its_libraries() {
    let manifest = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../consensus/Cargo.toml"));
    let shipped = manifest.split("[dev-dependencies]").next().expect("split gives one part at least");
    for device in ["rand", "tokio", "mio", "log", "tracing", "socket", "quorate-crypto"] {
        assert!(!shipped.contains(&format!("\n{device}")), "the pure core must not have {device}");
    }
}
