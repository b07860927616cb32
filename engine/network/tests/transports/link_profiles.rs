//! Retransmission profiles of single links.

use crate::relay::Relay;
use bytes::Bytes;
use quorate_network::transports::{LinkConfig, LinkProfile, RetransmissionConfig, RetransmissionProfile, WireSettings};
use quorate_testkit::ends::{Ground, RudpPlain, SctpPlain, Stack, drive_with, quick, replica_end};
use quorate_types::{Lane, ReplicaId};

fn link(text: &str) -> LinkProfile {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_link_is_written_with_either_end_first() {
    assert_eq!(link("3-0=s50"), link("0-3=s50"));
    assert_eq!(link("3-0=tcp-mock").to_string(), "0-3=tcp-mock");
    for (text, expected) in [
        ("0-3", "it has no `=`"),
        ("0=s50", "two numbers of replicas are missing"),
        ("0-x=s50", "two numbers of replicas are missing"),
        ("0-70000=s50", "two numbers of replicas are missing"),
        ("2-2=s50", "a replica has no link to itself"),
        ("0-3=fast", "fast"),
    ] {
        let error = text.parse::<LinkProfile>().expect_err("it is wrong").to_string();
        assert!(error.contains(expected) && error.contains("; help: write "), "{text}: {error}");
    }
}

#[test]
fn a_link_has_its_own_profile_at_both_ends_and_others_the_common_one() {
    let links = LinkConfig { retransmission: vec![link("0-3=s50")], ..LinkConfig::default() };
    let settings = WireSettings::from(links);
    let profile = |me: u16, other: u16| settings.between(ReplicaId(me), ReplicaId(other)).retransmission.profile;
    assert_eq!([profile(0, 3), profile(3, 0)], [RetransmissionProfile::S50; 2]);
    assert_eq!([profile(0, 1), profile(1, 3)], [RetransmissionProfile::Auto; 2]);
}

#[test]
fn a_link_with_two_profiles_is_refused() {
    let links = LinkConfig { retransmission: vec![link("0-3=s50"), link("3-0=s100")], ..LinkConfig::default() };
    let error = WireSettings::from(links).validate().expect_err("which one?").to_string();
    assert!(error.contains("`links.retransmission`") && error.contains("0-3=s100"), "{error}");
}

/// Replica 0 reaches the others through relays, which finally lose its packets. It retransmits every 50 ms on one link,
/// and after a second or more on the other.
fn a_socket_repeats_by_the_profile_of_its_link<S: Stack>() {
    let links = LinkConfig { retransmission: vec![link("0-1=s50")], ..quick() };
    let common = RetransmissionConfig { profile: RetransmissionProfile::Default, ..RetransmissionConfig::default() };
    let settings = WireSettings { links, retransmission: common, ..WireSettings::default() };
    let mut ground = Ground::new(3);
    let cluster = ground.committee.cluster;
    let mut relays = [1, 2].map(|replica| Relay::new(ground.address(replica)));
    let [mut b, mut c] =
        [1, 2].map(|replica| ground.end::<S>(replica, replica_end(cluster, replica, replica as u8), settings.clone()));
    for (relay, member) in relays.iter().zip(&mut ground.committee.members[1..]) {
        member.address = relay.address().into();
    }
    let mut a = ground.end::<S>(0, replica_end(cluster, 0, 0), settings);
    drive_with([&mut a, &mut b, &mut c], "three replicas connect", |[a, b, c]| {
        relays.iter_mut().for_each(Relay::run);
        let to_others = [1, 2].map(|replica| a.transport.is_connected(ReplicaId(replica)));
        let back = [b, c].map(|end| end.transport.is_connected(ReplicaId(0)));
        [to_others, back] == [[true; 2]; 2]
    });
    for replica in [1, 2] {
        a.transport.send_to(ReplicaId(replica), Bytes::from_static(b"nobody hears it"), Lane::Ordinary);
    }
    let mut lost = [0, 0];
    drive_with([&mut a], "it repeats", |_| {
        lost.iter_mut().zip(&mut relays).for_each(|(lost, relay)| *lost += relay.lose());
        lost[0] >= 12
    });
    assert!((1..=4).contains(&lost[1]), "packets by link: {lost:?}");
}

#[test]
fn a_socket_of_rudp_repeats_by_the_profile_of_its_link() {
    a_socket_repeats_by_the_profile_of_its_link::<RudpPlain>();
}

#[test]
fn a_socket_of_sctp_repeats_by_the_profile_of_its_link() {
    a_socket_repeats_by_the_profile_of_its_link::<SctpPlain>();
}
