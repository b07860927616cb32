//! Authenticators of replies: valid for one cluster, replica, client, direction and content only.

use crate::common::{cluster, committee, key, keys};
use bytes::Bytes;
use quorate_crypto::{
    ClientAuthentication, ClientIdentity, CryptoError, KeyPair, Keyring, ReplicaKeys, ReplyAuthentication,
    ReplyAuthenticator, ReplyFault, ReplyKey, ReplyVerifier, SchemeKind, certify, check_signed_replies,
};
use quorate_types::{
    AuthenticatedReplies, ClientId, ClusterId, Committee, Digest, Encoder, EpochId, Height, ReplicaId, ReplicaReply,
    Results, encode_message,
};

const MAC_SCHEMES: [SchemeKind; 2] = [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC];
const SIZE: u16 = 4;

/// Authentication of replies in one test case.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: ReplyAuthentication,
    scheme: SchemeKind,
    mac_scheme: SchemeKind,
}

/// Signatures of every scheme that anybody can verify, and both MAC schemes.
fn ways() -> Vec<Way> {
    let signed = SchemeKind::ALL.iter().copied().filter(|kind| {
        let profile = kind.profile();
        profile.has_public_keys_only() && profile.unforgeable
    });
    let signatures =
        signed.map(|scheme| Way { kind: ReplyAuthentication::Signature, scheme, mac_scheme: SchemeKind::HMAC_SHA256 });
    let mac_scheme =
        MAC_SCHEMES.map(|mac_scheme| Way { kind: ReplyAuthentication::Mac, scheme: SchemeKind::ED25519, mac_scheme });
    signatures.chain(mac_scheme).collect()
}

fn client(number: u8, cluster: &ClusterId) -> ClientIdentity {
    ClientIdentity::from_seed(cluster, [number + 1; 32])
}

fn authenticator(way: Way, committee: &Committee, me: u16) -> ReplyAuthenticator {
    let authenticator =
        ReplyAuthenticator::new(way.kind, way.mac_scheme, committee, ReplicaId(me), &keys(way.scheme, me));
    authenticator.expect("the keys are the replica's").expect("replies have authenticators")
}

fn verifier(way: Way, committee: &Committee, client: &ClientIdentity) -> ReplyVerifier {
    let verifier = ReplyVerifier::new(way.kind, client, way.scheme, way.mac_scheme, committee);
    verifier.expect("the members' keys are sound").expect("replies have authenticators")
}

/// The credential of the client with this number.
fn credential(number: u8) -> Bytes {
    KeyPair::from_seed(SchemeKind::ED25519, [number + 1; 32]).public_key()
}

fn replies(first: u8) -> Vec<ReplicaReply> {
    let executed = |number: u8| ReplicaReply::Executed {
        bundle: Digest([number; 32]),
        height: Height(u64::from(number)),
        results: Results::bare(),
    };
    vec![executed(first), executed(first + 1), ReplicaReply::Busy { bundle: Digest([9; 32]), retry_after_ms: 3 }]
}

fn authenticate(
    authenticator: &ReplyAuthenticator,
    client: ClientId,
    key: Option<&ReplyKey>,
    replies: &[ReplicaReply],
) -> Bytes {
    let encoded: Vec<Bytes> = replies.iter().map(encode_message).collect();
    AuthenticatedReplies::encode(&mut Encoder::default(), &encoded, |digest| {
        authenticator.authenticate(client, key, digest).expect("there is a key if one is needed")
    })
}

/// Authenticates the replies of replica `me` of a committee to the client with this number.
fn authenticated(way: Way, committee: &Committee, me: u16, number: u8, replies: &[ReplicaReply]) -> Bytes {
    let (authenticator, id) = (authenticator(way, committee, me), client(number, &committee.cluster).origin());
    let key = authenticator.key_of(id, &credential(number));
    assert_eq!(key.is_some(), authenticator.needs_keys(), "{way:?}");
    authenticate(&authenticator, id, key.as_ref(), replies)
}

fn opens(verifier: &ReplyVerifier, from: u16, frame: &Bytes) -> Result<Vec<ReplicaReply>, ReplyFault> {
    verifier.open(ReplicaId(from), frame.clone(), |_| true)
}

fn is_forged(verifier: &ReplyVerifier, from: u16, frame: &Bytes) -> bool {
    matches!(opens(verifier, from, frame), Err(ReplyFault::Forged(_)))
}

#[test]
fn a_client_accepts_the_authenticators_of_all_replicas() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let verifier = verifier(way, &committee, &client(1, &cluster()));
        for me in 0..SIZE {
            for count in 1..=3 {
                let replies = &replies(5)[..count];
                let frame = authenticated(way, &committee, me, 1, replies);
                assert_eq!(opens(&verifier, me, &frame).as_deref(), Ok(replies), "{way:?}");
            }
        }
        assert_eq!(verifier.introduction().is_some(), way.kind == ReplyAuthentication::Mac);
        assert_eq!(verifier.convinces_others(), way.kind == ReplyAuthentication::Signature);
    }
}

#[test]
fn an_authenticator_is_valid_for_one_replica_client_session_and_cluster() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let (mine, replies) = (client(1, &cluster()), replies(5));
        let verifier = verifier(way, &committee, &mine);
        let good = authenticated(way, &committee, 2, 1, &replies);
        assert!(opens(&verifier, 2, &good).is_ok());
        assert!(is_forged(&verifier, 1, &good), "{way:?}: another replica passes it on as its own");
        assert!(is_forged(&verifier, SIZE, &good), "{way:?}: a stranger passes it on");
        let anothers = authenticated(way, &committee, 2, 3, &replies);
        assert!(is_forged(&verifier, 2, &anothers), "{way:?}: for another client");
        let (authenticator, later) = (authenticator(way, &committee, 2), mine.origin().with_session(1));
        let key = authenticator.key_of(later, &credential(1));
        assert!(
            is_forged(&verifier, 2, &authenticate(&authenticator, later, key.as_ref(), &replies)),
            "{way:?}: another session"
        );
        let elsewhere = Committee { epoch: EpochId::of_name("another"), ..committee.clone() };
        let abroad = authenticated(way, &elsewhere, 2, 1, &replies);
        assert!(is_forged(&verifier, 2, &abroad), "{way:?}: from another cluster");
    }
}

#[test]
fn changed_and_truncated_frames_do_not_count() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let verifier = verifier(way, &committee, &client(1, &cluster()));
        let good = authenticated(way, &committee, 2, 1, &replies(5));
        for at in 0..good.len() {
            let mut changed = good.to_vec();
            changed[at] ^= 1;
            assert!(opens(&verifier, 2, &changed.into()).is_err(), "{way:?}: byte {at}");
            assert!(opens(&verifier, 2, &good.slice(..at)).is_err(), "{way:?}: {at} bytes");
        }
        assert!(opens(&verifier, 2, &[&good[..], &[0]].concat().into()).is_err(), "{way:?}: a byte too many");
    }
}

/// The length of an authenticator precedes it: authenticators of wrong lengths are neither accepted nor cause a panic.
#[test]
fn authenticators_of_any_length_are_refused() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let verifier = verifier(way, &committee, &client(1, &cluster()));
        let encoded = [encode_message(&replies(5)[0])];
        for length in [0, 1, 15, 16, 17, 31, 32, 48, 63, 64, 65, 256, 4096] {
            let frame = AuthenticatedReplies::encode(&mut Encoder::default(), &encoded, |_| vec![0; length].into());
            assert!(is_forged(&verifier, 0, &frame), "{way:?}: {length} bytes");
        }
    }
}

#[test]
fn replies_without_an_authenticator_or_of_another_kind_do_not_count() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let verifier = verifier(way, &committee, &client(1, &cluster()));
        let plain = encode_message(&replies(5)[0]);
        assert!(matches!(opens(&verifier, 0, &plain), Err(ReplyFault::Unauthenticated(_))), "{way:?}");
        let status = ReplicaReply::Status { id: 1, json: Bytes::from_static(b"{}") };
        assert_eq!(opens(&verifier, 0, &encode_message(&status)).as_deref(), Ok(&[status][..]), "{way:?}");
        for other in ways()
            .into_iter()
            .filter(|other| (other.kind, other.scheme, other.mac_scheme) != (way.kind, way.scheme, way.mac_scheme))
        {
            let members = self::committee(other.scheme, SIZE);
            let frame = authenticated(other, &members, 0, 1, &replies(5));
            assert!(is_forged(&verifier, 0, &frame), "{way:?} takes {other:?}");
        }
    }
}

/// A client spends nothing on a reply that it no longer awaits.
#[test]
fn what_nobody_waits_for_is_not_verified() {
    let way = ways()[0];
    let committee = committee(way.scheme, SIZE);
    let verifier = verifier(way, &committee, &client(1, &cluster()));
    let frame = authenticated(way, &committee, 2, 1, &replies(5));
    let awaited = ReplicaReply::Busy { bundle: Digest([9; 32]), retry_after_ms: 3 };
    assert!(verifier.open(ReplicaId(1), frame.clone(), |_| false).is_ok());
    let last_is_awaited = verifier.open(ReplicaId(1), frame, |reply| *reply == awaited);
    assert!(matches!(last_is_awaited, Err(ReplyFault::Forged(_))), "one awaited reply is enough to verify all");
}

#[test]
fn signed_replies_convince_others_and_macs_do_not() {
    for way in ways() {
        let committee = committee(way.scheme, SIZE);
        let keyring = Keyring::new(way.scheme, &committee).unwrap();
        let (mine, replies) = (client(1, &cluster()).origin(), replies(5));
        let frame = authenticated(way, &committee, 2, 1, &replies);
        let checked = |replica, client| check_signed_replies(&keyring, ReplicaId(replica), client, frame.clone());
        match way.kind {
            ReplyAuthentication::Signature => assert_eq!(checked(2, mine).as_deref(), Ok(&replies[..])),
            _ => assert_eq!(checked(2, mine), Err(ReplyFault::Forged("signature"))),
        }
        assert_eq!(checked(1, mine), Err(ReplyFault::Forged("signature")));
        assert_eq!(checked(SIZE, mine), Err(ReplyFault::Forged("signature")));
        assert_eq!(checked(2, mine.with_session(1)), Err(ReplyFault::Forged("signature")));
        let plain = check_signed_replies(&keyring, ReplicaId(2), mine, encode_message(&replies[0]));
        assert_eq!(plain, Err(ReplyFault::Unauthenticated("signature")));
    }
}

#[test]
fn a_mac_needs_the_clients_own_credential() {
    for mac_scheme in MAC_SCHEMES {
        let way = Way { kind: ReplyAuthentication::Mac, scheme: SchemeKind::ED25519, mac_scheme };
        let committee = committee(way.scheme, SIZE);
        let (authenticator, mine) = (authenticator(way, &committee, 0), client(1, &cluster()).origin());
        for wrong in [credential(2), Bytes::new(), credential(1).slice(..31)] {
            assert!(authenticator.key_of(mine, &wrong).is_none(), "{mac_scheme}: {wrong:?}");
        }
        assert!(authenticator.authenticate(mine, None, &Digest::ZERO).is_none());
        let off_curve = Bytes::from(vec![2; 32]);
        assert!(authenticator.key_of(ClientId::of_key(&off_curve), &off_curve).is_none(), "{mac_scheme}: not a point");
        let small = Bytes::from([&[1][..], &[0; 31]].concat());
        assert!(
            authenticator.key_of(ClientId::of_key(&small), &small).is_none(),
            "{mac_scheme}: a point of small order"
        );
    }
}

/// A certified client's id is the hash of its key and its certificate, and its MAC keys are derived from the key.
#[test]
fn certified_clients_have_macs_too() {
    let way = Way { kind: ReplyAuthentication::Mac, scheme: SchemeKind::ED25519, mac_scheme: SchemeKind::HMAC_SHA256 };
    let committee = committee(way.scheme, SIZE);
    let (certifier, pair) = (key(SchemeKind::ED25519, 77), KeyPair::from_seed(SchemeKind::ED25519, [2; 32]));
    let public_key: [u8; 32] = pair.public_key()[..].try_into().unwrap();
    let certificate: [u8; 64] = certify(&certifier, &cluster(), &public_key)[..].try_into().unwrap();
    let identity = ClientIdentity::of_run(&cluster(), pair, Some(&certificate)).unwrap();
    let (authenticator, verifier) = (authenticator(way, &committee, 0), verifier(way, &committee, &identity));
    let shown = [&public_key[..], &certificate[..]].concat();
    let key = authenticator.key_of(identity.origin(), &shown).expect("the id is derived from the credential");
    let frame = authenticate(&authenticator, identity.origin(), Some(&key), &replies(5));
    assert_eq!(opens(&verifier, 0, &frame).as_deref(), Ok(&replies(5)[..]));
    assert!(
        authenticator.key_of(identity.origin(), &public_key).is_none(),
        "the key alone is another client's credential"
    );
}

#[test]
fn wrong_keys_are_refused_at_once() {
    let committee = committee(SchemeKind::ED25519, SIZE);
    for kind in [ReplyAuthentication::Signature, ReplyAuthentication::Mac] {
        let strangers: ReplicaKeys = keys(SchemeKind::ED25519, SIZE);
        let authenticator = ReplyAuthenticator::new(kind, MAC_SCHEMES[0], &committee, ReplicaId(0), &strangers);
        assert!(matches!(authenticator, Err(CryptoError::KeyMismatch { .. })), "{kind}");
        let authenticator = ReplyAuthenticator::new(kind, MAC_SCHEMES[0], &committee, ReplicaId(SIZE), &strangers);
        assert!(matches!(authenticator, Err(CryptoError::Stranger { .. })), "{kind}");
    }
    let keyless = ClientIdentity::generate(ClientAuthentication::None, &cluster()).unwrap();
    let make = |kind| {
        ReplyVerifier::new(kind, &keyless, SchemeKind::ED25519, MAC_SCHEMES[0], &committee).map(|made| made.is_some())
    };
    assert_eq!(make(ReplyAuthentication::Mac), Err(CryptoError::KeylessClient));
    assert_eq!(make(ReplyAuthentication::Signature), Ok(true), "a client without a key can verify signatures");
    assert_eq!(make(ReplyAuthentication::Channel), Ok(false));
}
