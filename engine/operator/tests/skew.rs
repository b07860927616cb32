//! Differences between the versions of a cluster's replicas, as the status shows them.

use crate::judge::at;
use quorate_operator::replicas::{ClusterStatus, ReplicaStatus};
use quorate_operator::report::Report;
use quorate_operator::skew::{of_levels, of_versions};
use quorate_types::host_status::{LinkVersion, WireStatus};
use quorate_types::{FeatureLevel, Height, HostStatus, LevelStatus, PendingLevel, ReplicaId, Status};

/// A replica with its program, the newest wire version that it speaks, and the versions of its links.
fn replica(id: u16, program: &str, newest: u8, links: &[(u16, u8, Option<&str>)]) -> ReplicaStatus {
    let link = |(peer, version, program): &(u16, u8, Option<&str>)| LinkVersion {
        peer: ReplicaId(*peer),
        version: *version,
        program: program.map(str::to_owned),
        supports: program.map(|_| 7),
    };
    let wire = WireStatus { oldest: 6.min(newest), newest, links: links.iter().map(link).collect() };
    let host = HostStatus { version: program.to_owned(), wire, ..HostStatus::default() };
    let mut status = at(id, 9);
    status.host = Some(Box::new(host));
    let address = "127.0.0.1:7000".parse().expect("an address");
    ReplicaStatus { replica: ReplicaId(id), address, status: Some(status), lag: None, attention: Vec::new() }
}

fn told(replicas: &[ReplicaStatus]) -> Vec<String> {
    let answered: Vec<&Status> = replicas.iter().filter_map(|replica| replica.status.as_ref()).collect();
    of_versions(&answered)
}

#[test]
fn equal_versions_are_not_mentioned() {
    let all = [
        replica(0, "0.2.0", 7, &[(1, 7, Some("0.2.0"))]),
        replica(1, "0.2.0", 7, &[(0, 7, Some("0.2.0"))]),
        // Releases before wire version 7 report no wire versions.
        replica(2, "0.2.0", 0, &[]),
    ];
    assert_eq!(told(&all), [""; 0]);
    assert_eq!(told(&[]), [""; 0]);
}

#[test]
fn other_programs_and_older_links_are_named() {
    let mut all = vec![
        replica(0, "0.2.0", 7, &[(1, 7, Some("0.2.0")), (2, 6, None), (3, 7, Some("0.3.0"))]),
        replica(1, "0.2.0", 7, &[(0, 7, Some("0.2.0")), (2, 6, None), (3, 7, Some("0.3.0"))]),
        replica(2, "0.1.0", 6, &[(0, 6, None), (1, 6, None), (3, 6, None)]),
        replica(3, "", 7, &[]),
    ];
    // Replica 3 does not answer, but has told the others its program.
    all[3].status = None;
    let version_skew = told(&all);
    assert_eq!(
        version_skew,
        [
            "programs differ: 0.1.0 on replica 2, 0.2.0 on replicas 0 1, 0.3.0 on replica 3",
            "links use a wire version below 7: 6 on 0-2 1-2 2-3",
        ]
    );
    let status = ClusterStatus { attention: Vec::new(), version_skew, replicas: all };
    let table = status.to_table();
    assert!(table.contains("\nversions differ\n  programs differ: 0.1.0 on replica 2"), "{table}");
    assert!(!status.needs_attention(), "an upgrade in progress is no fault");
    assert!(status.to_json().contains("\"version_skew\": ["));
}

#[test]
fn control_characters_of_a_liar_are_escaped() {
    let all = [replica(0, "0.2.0\x1b[2J", 7, &[]), replica(1, "0.2.0", 7, &[])];
    assert!(!told(&all)[0].contains('\x1b'));
}

#[test]
fn levels_are_mentioned_once_there_are_any() {
    let at_level = |id, active, supported, pending| {
        let mut replica = replica(id, "0.2.0", 7, &[]);
        let [active, supported] = [active, supported].map(FeatureLevel);
        let host = replica.status.as_mut().and_then(|status| status.host.as_mut()).expect("it has a host");
        host.level = Some(LevelStatus { active, supported, pending });
        replica
    };
    let levels = |replicas: &[ReplicaStatus]| {
        let answered: Vec<&Status> = replicas.iter().filter_map(|replica| replica.status.as_ref()).collect();
        of_levels(&answered)
    };
    assert_eq!(levels(&[at_level(0, 0, 0, None), replica(1, "0.1.0", 7, &[])]), [""; 0]);
    let pending = Some(PendingLevel { level: FeatureLevel(2), height: Height(99) });
    let all = [at_level(0, 1, 2, pending), at_level(1, 1, 2, pending), at_level(2, 1, 1, None)];
    assert_eq!(
        levels(&all),
        [
            "1 is active on replicas 0 1 2",
            "1 is supported on replica 2, 2 is supported on replicas 0 1",
            "2 from height 99 on is pending on replicas 0 1",
        ]
    );
    let status = ClusterStatus { attention: Vec::new(), version_skew: Vec::new(), replicas: all.into() };
    assert!(status.to_table().contains("\nfeature level\n  1 is active on replicas 0 1 2\n"));
}
