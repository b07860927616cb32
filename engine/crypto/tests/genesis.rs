//! Statements of a cluster are invalid in every cluster that differs in any part of the genesis, whichever keys they
//! share.

use crate::common::{keys, nowhere, subject};
use quorate_crypto::{
    ClientIdentity, Crypto, MacKeys, ReplicaKeys, ReplyAuthentication, ReplyAuthenticator, ReplyVerifier, SchemeKind,
    genesis_differences,
};
use quorate_types::{
    Attachment, AuthenticatedReplies, Certificate, Committee, Digest, Domain, EpochId, Genesis, Height, Member, Quorum,
    ReplicaId, ReplicaReply, Results, Vote, encode_message,
};
use std::collections::BTreeMap;

const KIND: SchemeKind = SchemeKind::ED25519;
const MACS: SchemeKind = SchemeKind::HMAC_SHA256;
const SENDER: ReplicaId = ReplicaId(0);
const RECEIVER: ReplicaId = ReplicaId(1);

/// Replicas 0 to 3 are the same in all clusters, and a quorum for f = 0 and f = 1.
fn members(last: [u16; 2]) -> Vec<Member> {
    (0..4).chain(last).map(|number| keys(KIND, number).member(nowhere())).collect()
}

fn genesis(members: &[Member]) -> Genesis<'_> {
    let quorum = Quorum::of(6).unwrap();
    Genesis {
        name: "one",
        quorum,
        members,
        protocol: "jolteon",
        scheme: "ed25519",
        profile: "pk",
        vote_macs: Some("hmac-sha256"),
    }
}

/// Returns a cluster, and others that differ from it only in the named part.
fn clusters() -> (Committee, Vec<(&'static str, Committee)>) {
    let (all, swapped) = (members([4, 5]), members([5, 4]));
    let (mut voting, mut identity) = (all.clone(), all.clone());
    voting[5].voting_key = keys(KIND, 9).member(nowhere()).voting_key;
    identity[5].identity_key = keys(KIND, 9).member(nowhere()).identity_key;
    let own = genesis(&all);
    let others = [
        ("name", Genesis { name: "two", ..own }),
        ("faults", Genesis { quorum: Quorum::with_faults(6, 0).unwrap(), ..own }),
        ("voting key", genesis(&voting)),
        ("identity key", genesis(&identity)),
        ("order", genesis(&swapped)),
        ("protocol", Genesis { protocol: "chained-hotstuff", ..own }),
        ("scheme", Genesis { scheme: "bls12-381", ..own }),
        ("profile", Genesis { profile: "domain", ..own }),
        ("MACs", Genesis { vote_macs: Some("aes-256-cmac"), ..own }),
        ("no MACs", Genesis { vote_macs: None, ..own }),
    ];
    (own.committee(), others.map(|(part, genesis)| (part, genesis.committee())).into())
}

fn device(committee: &Committee, me: ReplicaId, by_mac: bool) -> Crypto {
    let ReplicaKeys { identity, voting } = keys(KIND, me.0);
    let crypto = Crypto::new(KIND, committee, me, voting, 16).unwrap();
    match by_mac {
        true => crypto.with_macs(MacKeys::new(MACS, committee, me, &identity).unwrap()),
        false => crypto,
    }
}

fn vote(committee: &Committee, voter: ReplicaId, domain: Domain, by_mac: bool) -> Vote {
    let mut vote =
        Vote { subject: subject(domain, 3), attachment: Attachment::None, voter, signature: Default::default() };
    vote.signature = device(committee, voter, by_mac).sign(&vote.statement(&committee.epoch));
    vote
}

/// Votes of all domains, including storage, checkpoints and timeouts.
fn votes_are_valid(from: &Committee, at: &Committee) -> Vec<(Domain, bool)> {
    let cases = Domain::ALL.into_iter().flat_map(|domain| [(domain, false), (domain, true)]);
    let is_valid = |(domain, by_mac): &(Domain, bool)| {
        device(at, RECEIVER, *by_mac).verify_vote(&vote(from, SENDER, *domain, *by_mac))
    };
    cases.filter(is_valid).collect()
}

fn certificates_are_valid(from: &Committee, at: &Committee) -> Vec<Domain> {
    let is_valid = |domain: &Domain| {
        let votes = [0, 1, 2, 3].map(|voter| vote(from, ReplicaId(voter), *domain, false)).into();
        let certificate = device(from, SENDER, false).assemble(&subject(*domain, 3), votes).unwrap();
        device(at, RECEIVER, false).verify_certificate(&certificate).is_ok()
    };
    Domain::ALL.into_iter().filter(|domain| !domain.is_proposal()).filter(is_valid).collect()
}

fn replies_are_valid(from: &Committee, at: &Committee) -> Vec<ReplyAuthentication> {
    let client = ClientIdentity::from_seed(&at.cluster, [7; 32]);
    let executed = ReplicaReply::Executed { bundle: Digest([1; 32]), height: Height(1), results: Results::bare() };
    let is_valid = |kind: &ReplyAuthentication| {
        let authenticator = ReplyAuthenticator::new(*kind, MACS, from, SENDER, &keys(KIND, SENDER.0)).unwrap().unwrap();
        let verifier = ReplyVerifier::new(*kind, &client, KIND, MACS, at).unwrap().unwrap();
        let key =
            authenticator.key_of(client.origin(), &quorate_crypto::KeyPair::from_seed(KIND, [7; 32]).public_key());
        let replies = [encode_message(&executed)];
        let authenticate = |digest: &Digest| authenticator.authenticate(client.origin(), key.as_ref(), digest).unwrap();
        let frame = AuthenticatedReplies::encode(&mut Default::default(), &replies, authenticate);
        verifier.open(SENDER, frame, |_| true).is_ok()
    };
    [ReplyAuthentication::Signature, ReplyAuthentication::Mac].into_iter().filter(is_valid).collect()
}

#[test]
fn statements_are_invalid_in_clusters_that_differ_in_one_part_of_the_genesis() {
    let (own, others) = clusters();
    assert_eq!(votes_are_valid(&own, &own).len(), 2 * Domain::ALL.len());
    assert_eq!(certificates_are_valid(&own, &own).len(), Domain::ALL.len() - 2);
    assert_eq!(replies_are_valid(&own, &own).len(), 2);
    let mut accepted = Vec::new();
    for (part, other) in others {
        for (from, at) in [(&own, &other), (&other, &own)] {
            let found = (votes_are_valid(from, at), replies_are_valid(from, at));
            let certified = certificates_are_valid(from, at);
            let genesis = device(at, RECEIVER, false).verify_certificate(&Certificate::genesis(&from.epoch)).is_ok();
            if !(found.0.is_empty() && found.1.is_empty() && certified.is_empty() && !genesis) {
                accepted.push((part, found, certified, genesis));
            }
        }
    }
    assert!(accepted.is_empty(), "accepted from another cluster: {accepted:#?}");
}

#[test]
fn every_part_of_the_genesis_changes_the_id() {
    let (own, others) = clusters();
    let mut ids: BTreeMap<[u8; 32], &str> = BTreeMap::from([(own.epoch.0.0, "itself")]);
    for (part, other) in &others {
        assert_eq!(ids.insert(other.epoch.0.0, part), None, "{part}");
        assert_eq!(other.cluster == own.cluster, *part != "name", "clients' signatures depend on the name alone");
    }
    // Strings and keys are length-prefixed, so that no bytes can move from one part to the next.
    let all = members([4, 5]);
    let mut moved = all.clone();
    let keys = [&all[1].identity_key[..], &all[1].voting_key].concat();
    (moved[1].identity_key, moved[1].voting_key) = (keys[..33].to_vec().into(), keys[33..].to_vec().into());
    let id = |genesis: Genesis<'_>| -> EpochId { genesis.epoch() };
    assert_ne!(id(genesis(&moved)), own.epoch);
    let split = |protocol, scheme| id(Genesis { protocol, scheme, ..genesis(&all) });
    assert_ne!(split("ab", "c"), split("a", "bc"));
    let mut elsewhere = all.clone();
    elsewhere[2].address = "127.0.0.1:9".parse().unwrap();
    assert_eq!(id(genesis(&elsewhere)), own.epoch, "addresses may differ");
}

/// Returns the differences found between two clusters, as keys and both values.
fn found(own: &Genesis<'_>, other: &Genesis<'_>) -> Vec<String> {
    const PROTOCOLS: [&str; 3] = ["jolteon", "chained-hotstuff", "pbft-mac"];
    let configured = own.vote_macs.map_or(MACS, |name| name.parse().expect("a scheme"));
    let differences = genesis_differences(own, configured, &PROTOCOLS, &other.epoch());
    differences.iter().map(ToString::to_string).collect()
}

#[test]
fn the_parts_in_which_two_clusters_differ_are_found_from_the_id_alone() {
    let all = members([4, 5]);
    let own = Genesis { profile: "domain", ..genesis(&all) };
    assert!(found(&own, &own).is_empty());
    let few = Quorum::with_faults(6, 0).unwrap();
    let five = Genesis { members: &all[..5], quorum: Quorum::of(5).unwrap(), ..own };
    let (mut swapped, mut other_key) = (all.clone(), all.clone());
    swapped.swap(1, 4);
    other_key[5].voting_key = keys(KIND, 9).member(nowhere()).voting_key;
    let cases: [(Genesis<'_>, &[&str]); 10] = [
        (Genesis { quorum: few, ..own }, &["`faults` is 1 here and 0 there"]),
        (Genesis { protocol: "pbft-mac", ..own }, &["`protocol` is jolteon here and pbft-mac there"]),
        (Genesis { scheme: "bls12-381", ..own }, &["`scheme` is ed25519 here and bls12-381 there"]),
        (Genesis { profile: "mac", ..own }, &["`auth_profile` is domain here and mac there"]),
        (Genesis { profile: "pk", vote_macs: None, ..own }, &["`auth_profile` is domain here and pk there"]),
        (
            Genesis { vote_macs: Some("aes-256-cmac"), ..own },
            &["`mac_scheme` is hmac-sha256 here and aes-256-cmac there"],
        ),
        (
            Genesis { quorum: few, protocol: "pbft-mac", scheme: "secp256k1", profile: "pk", vote_macs: None, ..own },
            &[
                "`faults` is 1 here and 0 there",
                "`protocol` is jolteon here and pbft-mac there",
                "`scheme` is ed25519 here and secp256k1 there",
                "`auth_profile` is domain here and pk there",
            ],
        ),
        (five, &["`members` is a list of 6 here and a list of 5 there"]),
        (
            Genesis { members: &swapped, ..own },
            &["`members` is in this order here and with replicas 1 and 4 swapped there"],
        ),
        // A key cannot be guessed.
        (Genesis { members: &other_key, ..own }, &[]),
    ];
    for (other, expected) in cases {
        assert_eq!(found(&own, &other), expected);
        let back = found(&other, &own);
        assert_eq!(back.len(), if other.members.len() < own.members.len() { 0 } else { expected.len() }, "{back:?}");
    }
    // The configured MAC scheme differs too, although votes of this end have no MACs.
    let (pk, other) =
        (Genesis { profile: "pk", vote_macs: None, ..own }, Genesis { vote_macs: Some("aes-256-cmac"), ..own });
    assert_eq!(
        found(&pk, &other),
        ["`auth_profile` is pk here and domain there", "`mac_scheme` is hmac-sha256 here and aes-256-cmac there"]
    );
}
