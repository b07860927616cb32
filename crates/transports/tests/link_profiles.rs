//! Profiles of single links.

use quorate_transports::{LinkConfig, LinkProfile, RetransmissionProfile, WireSettings};
use quorate_types::ReplicaId;

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
