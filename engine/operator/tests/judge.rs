//! Detection of standstill, from statuses alone.

use quorate_operator::standstill::{Looks, of_cluster, of_replicas};
use quorate_types::{Height, Quorum, ReplicaId, Status, View};

/// Status of a healthy replica at a height.
pub fn at(replica: u16, height: u64) -> Status {
    let fields = serde_json::json!({
        "replica": replica, "view": 9, "leader": 0, "height": height, "committed_commands": 0, "committed_blocks": 0,
        "view_timeouts": 0, "verifications": 0, "bytes_sent": 0, "messages_sent": 0, "cpu_ns": 0, "busy_ns": 0,
        "peak_rss_kb": 0, "dropped": {}, "evidence": [], "history": [], "peers": 3,
        "connected": (0..4).filter(|other| *other != replica).collect::<Vec<u16>>(),
    });
    serde_json::from_value(fields).expect("a status has these fields")
}

fn looks(earlier: [u64; 4], now: [u64; 4]) -> Vec<Looks> {
    let of = |replica: u16| Looks {
        replica: ReplicaId(replica),
        earlier: Some(at(replica, earlier[usize::from(replica)])),
        now: Some(at(replica, now[usize::from(replica)])),
    };
    (0..4).map(of).collect()
}

fn quorum() -> Quorum {
    Quorum::of(4).expect("a valid size")
}

fn told(looks: &[Looks], replica: u16) -> String {
    of_replicas(looks, quorum()).remove(&ReplicaId(replica)).unwrap_or_default().join("; ")
}

#[test]
fn a_replica_that_executes_nothing_is_named_whatever_its_lag_is() {
    for height in [1, 121, 1_000_000] {
        let mut looks = looks([height, height, height, 0], [height, height, height, 0]);
        assert_eq!(told(&looks, 3), format!("is {height} blocks behind, and does not catch up"));
        let own = looks[3].now.as_mut().expect("it answers");
        own.height_age_ms = 20_000;
        let expected = format!("has executed nothing after height 0 for 20 s, while others are at {height}");
        assert_eq!(told(&looks, 3), expected);
        assert_eq!(of_replicas(&looks, quorum()).len(), 1, "the others are well");
    }
}

#[test]
fn a_lag_that_does_not_shrink_is_named_and_one_that_shrinks_is_not() {
    // Reading takes time: heights of one reading differ by blocks committed meanwhile.
    assert_eq!(told(&looks([1_000, 990, 1_005, 980], [2_000, 1_995, 1_990, 1_970]), 3), "");
    assert_eq!(
        told(&looks([1_000, 1_000, 1_000, 200], [1_100, 1_100, 1_100, 250]), 3),
        "is 850 blocks behind, and does not catch up"
    );
    assert_eq!(told(&looks([1_000, 1_000, 1_000, 200], [1_100, 1_100, 1_100, 700]), 3), "");
    assert_eq!(told(&looks([9_000, 9_000, 9_000, 200], [9_000, 9_000, 9_000, 700]), 3), "is 8300 blocks behind");
}

#[test]
fn one_liar_cannot_make_the_others_look_behind() {
    let looks = looks([50, 50, 50, 1_000_000], [60, 60, 60, 2_000_000]);
    assert!(of_replicas(&looks, quorum()).is_empty(), "{:?}", of_replicas(&looks, quorum()));
}

#[test]
fn a_view_that_does_not_follow_is_named() {
    let mut looks = looks([121, 121, 121, 0], [121, 121, 121, 0]);
    let Looks { earlier, now, .. } = &mut looks[3];
    for own in [earlier, now] {
        let own = own.as_mut().expect("it answers");
        (own.view, own.height_age_ms, own.height) = (View(2), 22_000, Height(0));
    }
    assert!(told(&looks, 3).ends_with("; is in view 2, while others are in view 9"), "{}", told(&looks, 3));
}

#[test]
fn a_cluster_without_a_quorum_names_who_is_missing() {
    let mut looks = looks([5; 4], [5; 4]);
    assert!(of_cluster(&looks, quorum()).is_empty());
    looks[2].now = None;
    assert!(of_cluster(&looks, quorum()).is_empty(), "the others are connected to it, so it runs");
    for of in &mut looks {
        of.now.iter_mut().for_each(|status| status.connected.retain(|other| *other != ReplicaId(2)));
    }
    assert!(of_cluster(&looks, quorum()).is_empty(), "three are a quorum");
    let own = looks[3].now.as_mut().expect("it answers");
    own.connected = Vec::new();
    let told = of_cluster(&looks, quorum());
    let expected = "has no quorum: 2 of 4 replicas can vote, and 3 are needed; missing: replica 2 (does not answer), \
                    replica 3 (reaches 0 of 3 others)";
    assert_eq!(told, [expected]);
    let own = looks[3].now.as_mut().expect("it answers");
    (own.abstains, own.connected) = (true, vec![ReplicaId(0), ReplicaId(1)]);
    assert!(of_cluster(&looks, quorum())[0].contains("replica 3 (does not vote)"));
}

#[test]
fn a_cluster_that_commits_nothing_although_commands_wait_is_named() {
    let mut looks = looks([5; 4], [5; 4]);
    for of in &mut looks {
        let status = of.now.as_mut().expect("it answers");
        (status.height_age_ms, status.waiting_bundles) = (30_000, 7);
    }
    assert_eq!(of_cluster(&looks, quorum()), ["commits nothing for 30 s, while 7 bundles wait"]);
    looks[0].now.as_mut().expect("it answers").height_age_ms = 100;
    assert!(of_cluster(&looks, quorum()).is_empty(), "one has just executed a block");
    for of in &mut looks {
        of.now.as_mut().expect("it answers").waiting_bundles = 0;
    }
    looks[0].now.as_mut().expect("it answers").height_age_ms = 30_000;
    assert!(of_cluster(&looks, quorum()).is_empty(), "an idle cluster");
}
