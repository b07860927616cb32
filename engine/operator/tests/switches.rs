//! Configuration switches of the operators' program.

use quorate_node::NodeConfig;
use quorate_types::settings::keys;

/// Keys that exist only in programs built for laboratories.
const OF_LABORATORIES: &[&str] = &[
    "consensus.batch_policy",
    "consensus.batch_wait_ms",
    "reproduction.bls_verification",
    "reproduction.certificate_cache",
    "reproduction.client_verdicts",
    "reproduction.count_allocations",
    "reproduction.payload_path",
];

/// If only this package is built, none of the keys exists. If others of the workspace are built too, cargo enables the
/// feature for all of them, and misbehaviour becomes available.
#[test]
fn switches_of_papers_are_there_only_with_misbehaviour() {
    let known: Vec<&str> = keys::<NodeConfig>().iter().map(|key| key.path.as_str()).collect();
    let is_for_laboratories = known.contains(&"laboratory.fault");
    for key in OF_LABORATORIES {
        assert_eq!(known.contains(key), is_for_laboratories, "{key}");
    }
    assert!(known.contains(&"consensus.batch") && known.contains(&"stages"), "{known:?}");
}

#[test]
fn a_file_without_switches_reads_the_same_in_every_build() {
    let text = NodeConfig::template("t").to_toml();
    for key in OF_LABORATORIES {
        let name = key.rsplit('.').next().expect("a name");
        assert!(!text.contains(name), "{name} is written although it is not set: {text}");
    }
}
