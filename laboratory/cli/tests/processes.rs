//! Tests real processes that are killed with SIGKILL and paused, with clients whose histories are checked.

use crate::common::*;
use serde_json::{Value, json as value};
use std::fs;
use std::path::Path;

#[test]
fn the_demonstration_passes_and_shows_its_events() {
    let scratch = Scratch::new("demo");
    let report = scratch.path("report.html");
    let outcome = json(&["demo", "--report", &report, "--json", "-"]);
    let page = fs::read_to_string(&report).expect("the report is written");
    let (load, checked_clients) = (&outcome["load"], &outcome["checked_clients"]);
    assert_eq!(load["agreement"], Value::Bool(true));
    assert!(load["committed_commands"].as_u64() > Some(0));
    assert!(checked_clients["operations"].as_u64() > Some(0));
    assert_eq!(checked_clients["violations"], Value::Array(Vec::new()));
    let evidence = load["evidence"].as_array().expect("a list");
    assert!(evidence.iter().any(|proof| proof.as_str().is_some_and(|proof| proof.starts_with("replica 0 signed two"))));
    let events: Vec<&str> =
        load["events"].as_array().expect("a list").iter().filter_map(|it| it["text"].as_str()).collect();
    for event in ["equivocate:0@4s", "replica 3 killed", "replica 3 restarted", "replica 0 restarted"] {
        assert!(events.contains(&event) && page.contains(event), "{event} is among {events:?} and on the page");
    }
}

/// Tortures a cluster for nine seconds, and returns the verdict, which must be good.
fn torture(protocol: &str, flags: &[&str]) -> Value {
    torture_for("0.15", protocol, flags)
}

fn torture_for(minutes: &str, protocol: &str, flags: &[&str]) -> Value {
    let short = ["torture", "--minutes", minutes, "--seed", "7", "--protocol", protocol, "--json", "-"];
    let verdict = json(&[&short[..], flags].concat());
    let what = format!("{protocol} {}", flags.join(" "));
    assert_eq!(verdict["violations"], Value::Array(Vec::new()), "{what}");
    assert_eq!((&verdict["stalled_at"], &verdict["divergence"]), (&Value::Null, &Value::Null), "{what}");
    assert!(verdict["operations"].as_u64() > Some(0), "{what}");
    assert!(!verdict["injections"].as_array().expect("a list").is_empty(), "{what}");
    verdict
}

/// Restarted replicas agree on keys anew, and their earlier statements were authenticated by MACs, which prove nothing
/// to others.
#[test]
fn torture_finds_no_violation_where_votes_have_macs() {
    let with_macs = |profile, clients, replies| {
        let flags = ["--auth-profile", profile, "--client-authentication", clients, "--reply-authentication", replies];
        torture("pbft-mac", &[&flags[..], &["--mac-scheme", "hmac-sha256"]].concat());
    };
    with_macs("mac", "mac", "mac");
    with_macs("domain", "ed25519", "mac");
}

/// Three-second faults with a packet transport: replicas that were killed or paused find each other again.
fn torture_over(transport: &str, channel: &str, protocol: &str) {
    torture_for("0.05", protocol, &["--transport", transport, "--channel", channel]);
}

#[test]
fn torture_finds_no_violation_over_udp() {
    torture_over("udp", "plain", "pbft");
}

#[test]
fn torture_finds_no_violation_over_rudp() {
    torture_over("rudp", "dtls", "jolteon");
}

#[test]
fn torture_finds_no_violation_over_sctp() {
    torture_over("sctp", "dtls", "basic-hotstuff");
}

#[test]
fn torture_finds_no_violation_over_quic() {
    torture_over("quic", "tls", "jolteon");
}

#[test]
fn torture_finds_no_violation_under_any_engine() {
    let own_retention =
        value!({"window": 64, "checkpoint_interval": 16, "retained_blocks": 64, "retained_bytes": 65536});
    let given = ["--window", "96", "--checkpoint-interval", "24"];
    let as_given = value!({"window": 96, "checkpoint_interval": 24, "retained_blocks": 96, "retained_bytes": 98304});
    for (protocol, flags, retention) in [
        ("chained-hotstuff", &[][..], &own_retention),
        ("jolteon", &["--dissemination", "replicas-certified"], &own_retention),
        ("basic-hotstuff", &given, &as_given),
        ("pbft", &given, &as_given),
    ] {
        let verdict = torture(protocol, flags);
        assert_eq!(&verdict["retention"], retention, "{protocol}");
    }
    assert!(!Path::new("journal").exists(), "replicas write only to their own directories");
}
