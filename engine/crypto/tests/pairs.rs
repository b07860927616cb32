//! A scheme with a secret per pair of members: a signature for all has one part for each member, and a signature for a
//! single member is that part.

use crate::common::{committee, key, subject};
use quorate_crypto::scheme::Recipients;
use quorate_crypto::{Crypto, Keyring};
use quorate_testkit::schemes::TAGS;
use quorate_types::{Attachment, Domain, ReplicaId, Vote};

const MESSAGE: &[u8] = b"a message";

#[test]
fn only_a_member_can_check_its_part() {
    let committee = committee(TAGS, 4);
    let keyring = |me: u16| Keyring::of_member(TAGS, &committee, ReplicaId(me), &key(TAGS, me)).unwrap();
    let mine = keyring(1);
    let (to_all, to_one) = (
        mine.sign(&key(TAGS, 1), MESSAGE, Recipients::All),
        mine.sign(&key(TAGS, 1), MESSAGE, Recipients::One(ReplicaId(2))),
    );
    assert_eq!(to_all.len(), TAGS.profile().signature_bytes(4));
    assert_eq!(to_one.len() * 4, to_all.len());
    for other in 0..4 {
        let theirs = keyring(other);
        assert!(theirs.verify(ReplicaId(1), MESSAGE, &to_all));
        assert_eq!(theirs.verify(ReplicaId(1), MESSAGE, &to_one), other == 2);
        assert!(!theirs.verify(ReplicaId(1), b"another", &to_all));
    }
    assert!(Keyring::shared(TAGS, &committee).unwrap().is_none(), "members with secrets share a keyring");
    assert!(
        !Keyring::new(TAGS, &committee).unwrap().verify(ReplicaId(1), MESSAGE, &to_all),
        "an auditor has no secret"
    );
}

#[test]
fn a_quorum_of_vectors_convinces_every_member() {
    let committee = committee(TAGS, 4);
    let device = |me: u16| Crypto::new(TAGS, &committee, ReplicaId(me), key(TAGS, me), 8).unwrap();
    let subject = subject(Domain::Vote, 5);
    let vote = |voter: u16| {
        let mut vote =
            Vote { subject, attachment: Attachment::None, voter: ReplicaId(voter), signature: Default::default() };
        vote.signature = device(voter).sign(&vote.statement(&committee.epoch));
        vote
    };
    let certificate = device(0).assemble(&subject, (0..3).map(vote).collect()).unwrap();
    for other in 0..4 {
        assert_eq!(device(other).verify_certificate(&certificate), Ok(()));
    }
    let public = Keyring::new(TAGS, &committee).unwrap();
    assert!(quorate_crypto::verify_certificate(&public, &certificate).is_err(), "verified without a secret");
}
