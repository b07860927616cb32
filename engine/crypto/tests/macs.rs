//! MAC schemes: the requirements of all schemes, for a vector with a tag for each member, and MACs beside signatures in
//! a replica's crypto device.

use crate::common::{committee, epoch, key, keys, subject};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_crypto::scheme::{Claim, Recipients};
use quorate_crypto::statements::Statements;
use quorate_crypto::{
    AuthProfile, Authentication, CertificateError, ClientAuthentication, Crypto, CryptoError, KeyFault, Keyring,
    MacKeys, ReplyAuthentication, SchemeKind,
};
use quorate_types::{Attachment, Certificate, Committee, Domain, EpochId, ReplicaId, Signers, Subject, View, Vote};
use std::ops::ControlFlow;

const MAC_SCHEMES: [SchemeKind; 2] = [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC];
const TAG_BYTES: usize = 16;

fn device(kind: SchemeKind, committee: &Committee, me: u16) -> Crypto {
    Crypto::new(kind, committee, ReplicaId(me), key(kind, me), 8).unwrap()
}

fn vote(kind: SchemeKind, committee: &Committee, subject: Subject, voter: u16) -> Vote {
    let attachment = Attachment::None;
    let mut vote = Vote { subject, attachment, voter: ReplicaId(voter), signature: Bytes::new() };
    vote.signature = device(kind, committee, voter).sign(&vote.statement(&committee.epoch));
    vote
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    changed.into()
}

#[test]
fn every_member_checks_its_own_tag_and_no_other() {
    for kind in MAC_SCHEMES {
        let committee = committee(kind, 4);
        let good = vote(kind, &committee, subject(Domain::Prepare, 3), 2);
        assert_eq!(good.signature.len(), 4 * TAG_BYTES);
        for me in 0..4 {
            let mut device = device(kind, &committee, me);
            assert!(device.verify_vote(&good), "{kind}: replica {me}");
            for at in 0..good.signature.len() {
                let mine = at / TAG_BYTES == usize::from(me);
                let changed = Vote { signature: flipped(&good.signature, at), ..good.clone() };
                assert_eq!(device.verify_vote(&changed), !mine, "{kind}: byte {at} for replica {me}");
            }
        }
    }
}

/// A few MACs take less time than starting another thread.
#[test]
fn only_a_few_macs_are_quick() {
    for kind in MAC_SCHEMES {
        for (replicas, is_quick) in [(4, true), (40, true), (52, false)] {
            let committee = committee(kind, replicas);
            let mut device = device(kind, &committee, 0);
            let voters = 0..(2 * replicas).div_ceil(3);
            let votes: Vec<Vote> =
                voters.map(|voter| vote(kind, &committee, subject(Domain::Prepare, 3), voter)).collect();
            let task = device.begin_assembly(votes[0].subject, votes.clone());
            assert_eq!(task.is_quick(), is_quick, "{kind}: the votes of {replicas}");
            let ControlFlow::Continue(task) = device.begin_verification(Vec::new(), votes) else {
                panic!("{kind}: the votes are not known")
            };
            assert_eq!(task.is_quick(), is_quick, "{kind}: the votes of {replicas}");
        }
    }
}

#[test]
fn a_vector_is_valid_only_for_the_tagged_statement() {
    for kind in MAC_SCHEMES {
        let members = committee(kind, 4);
        let mut other_epoch = members.clone();
        other_epoch.epoch = EpochId::of_name("another");
        let good = vote(kind, &members, subject(Domain::Prepare, 3), 2);
        let mut device = device(kind, &members, 0);
        let changed = [
            Vote { voter: ReplicaId(1), ..good.clone() },
            Vote { voter: ReplicaId(0), ..good.clone() },
            Vote { voter: ReplicaId(4), ..good.clone() },
            Vote { voter: ReplicaId(u16::MAX), ..good.clone() },
            Vote { subject: subject(Domain::Prepare, 4), ..good.clone() },
            Vote { subject: subject(Domain::Commit, 3), ..good.clone() },
            Vote { attachment: Attachment::HighView(View(2)), ..good.clone() },
            vote(kind, &other_epoch, good.subject, 2),
        ];
        for vote in changed {
            assert!(!device.verify_vote(&vote), "{kind}: {vote:?}");
        }
        for length in [0, 1, TAG_BYTES, 63, 65, 80, 128] {
            assert!(!device.verify_vote(&Vote { signature: vec![0; length].into(), ..good.clone() }), "{length}");
        }
        let own_tag = good.signature.slice(..TAG_BYTES);
        assert!(!device.verify_vote(&Vote { signature: own_tag, ..good }), "{kind}: a second form of a signature");
    }
}

/// The tag from one member to another differs from the tag in the opposite direction, and between others.
#[test]
fn tags_differ_by_pair_and_direction() {
    for kind in MAC_SCHEMES {
        let committee = committee(kind, 4);
        let vectors: Vec<Bytes> = (0..4)
            .map(|me| {
                device(kind, &committee, me)
                    .sign(&vote(kind, &committee, subject(Domain::Prepare, 3), 0).statement(&epoch()))
            })
            .collect();
        let tags: std::collections::BTreeSet<&[u8]> =
            vectors.iter().flat_map(|vector| vector.chunks(TAG_BYTES)).collect();
        assert_eq!(tags.len(), 16, "{kind}");
    }
    let [one, other] =
        MAC_SCHEMES.map(|kind| vote(kind, &committee(kind, 4), subject(Domain::Prepare, 3), 1).signature);
    assert_ne!(one, other, "two schemes use one key");
}

#[test]
fn a_tag_for_one_member_convinces_that_member() {
    for kind in MAC_SCHEMES {
        let committee = committee(kind, 4);
        let keyring = |me: u16| Keyring::of_member(kind, &committee, ReplicaId(me), &key(kind, me)).unwrap();
        let to_one = keyring(1).sign(&key(kind, 1), b"a message", Recipients::One(ReplicaId(2)));
        for other in 0..4 {
            assert_eq!(keyring(other).verify(ReplicaId(1), b"a message", &to_one), other == 2);
        }
        assert!(Keyring::shared(kind, &committee).unwrap().is_none(), "members with secrets share a keyring");
        let auditor = Keyring::new(kind, &committee).unwrap();
        assert!(!auditor.verify(ReplicaId(1), b"a message", &to_one), "an auditor has no secret");
    }
}

#[test]
fn a_quorum_of_vectors_makes_a_certificate_that_each_member_accepts() {
    for kind in MAC_SCHEMES {
        for size in [1, 4, 31] {
            let committee = committee(kind, size);
            let subject = subject(Domain::Prepare, 5);
            let needed = committee.quorum.quorum() as u16;
            let votes: Vec<Vote> = (size - needed..size).map(|voter| vote(kind, &committee, subject, voter)).collect();
            let certificate = device(kind, &committee, 0).assemble(&subject, votes.clone()).unwrap();
            assert_eq!(certificate.proof.len(), usize::from(needed) * usize::from(size) * TAG_BYTES);
            let mut other = device(kind, &committee, size - 1);
            assert_eq!(other.verify_certificate(&certificate), Ok(()));
            let wrong = CertificateError::Signature { domain: Domain::Prepare, view: View(5) };
            let mine = usize::from(size - 1) * TAG_BYTES;
            let spoilt = Certificate { proof: flipped(&certificate.proof, mine), ..certificate.clone() };
            assert_eq!(other.verify_certificate(&spoilt), Err(wrong));
            let public = Keyring::new(kind, &committee).unwrap();
            assert!(quorate_crypto::verify_certificate(&public, &certificate).is_err(), "verified without a secret");
        }
    }
}

#[test]
fn non_members_and_bad_tags_are_blamed() {
    for kind in MAC_SCHEMES {
        let committee = committee(kind, 4);
        let subject = subject(Domain::Prepare, 5);
        let of_four: Vec<Vote> = (0..4).map(|voter| vote(kind, &committee, subject, voter)).collect();
        for bad in 0u32..1 << 4 {
            let spoil = |vote: &Vote| match bad >> vote.voter.0 & 1 == 1 {
                true => Vote { signature: flipped(&vote.signature, 0), ..vote.clone() },
                false => vote.clone(),
            };
            let expected: Vec<ReplicaId> = (0..4).filter(|voter| bad >> voter & 1 == 1).map(ReplicaId).collect();
            match device(kind, &committee, 0).assemble(&subject, of_four.iter().map(spoil).collect()) {
                Ok(_) => assert!(expected.is_empty()),
                Err(blamed) => assert_eq!(blamed, expected),
            }
        }
        let stranger = Vote { voter: ReplicaId(4), ..of_four[3].clone() };
        let votes = vec![of_four[0].clone(), of_four[1].clone(), stranger];
        assert_eq!(device(kind, &committee, 0).assemble(&subject, votes), Err(vec![ReplicaId(4)]));
    }
}

#[test]
fn unusable_keys_are_refused_by_name() {
    let order_two = [0; 32];
    let mut above = [0xff; 32];
    (above[0], above[31]) = (0xed, 0x7f);
    let mut prime_less_one = above;
    prime_less_one[0] = 0xec;
    let mut high_bit = [9; 32];
    high_bit[31] |= 0x80;
    for kind in MAC_SCHEMES {
        let refusal = |voting_key: &[u8]| {
            let mut committee = committee(kind, 4);
            committee.members[1].voting_key = Bytes::copy_from_slice(voting_key);
            match Keyring::of_member(kind, &committee, ReplicaId(0), &key(kind, 0)).err() {
                Some(CryptoError::PublicKey { replica: ReplicaId(1), fault, .. }) => fault,
                other => panic!("{kind}: {other:?}"),
            }
        };
        assert_eq!(refusal(&order_two), KeyFault::Weak);
        assert_eq!(refusal(&prime_less_one), KeyFault::Weak);
        assert_eq!(refusal(&above), KeyFault::NotAKey(kind.name()));
        assert_eq!(refusal(&high_bit), KeyFault::NotAKey(kind.name()));
        assert!(matches!(refusal(&[9; 31]), KeyFault::Length { .. }));
        assert!(matches!(refusal(&key(kind, 0).public_key()), KeyFault::Shared { .. }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Verification one by one, together and in a proof always gives the same verdict.
    #[test]
    fn single_many_and_proof_agree(
        faults in prop::collection::vec(0usize..8, 7),
        at in 0..MAC_SCHEMES.len(),
        me in 0u16..7,
    ) {
        let kind = MAC_SCHEMES[at];
        let committee = committee(kind, 7);
        let subject = subject(Domain::Prepare, 5);
        let statements = Statements::new(&epoch(), &subject, [Attachment::None].iter());
        let mine = usize::from(me) * TAG_BYTES;
        let signatures: Vec<Bytes> = (0..7u16)
            .map(|voter| {
                let good = vote(kind, &committee, subject, voter).signature;
                match faults[usize::from(voter)] {
                    0 => flipped(&good, mine),
                    1 => vote(kind, &committee, subject, (voter + 1) % 7).signature,
                    2 => vec![0; good.len()].into(),
                    // Not relevant to this member.
                    3 => flipped(&good, (mine + TAG_BYTES) % good.len()),
                    _ => good,
                }
            })
            .collect();
        let keyring = Keyring::of_member(kind, &committee, ReplicaId(me), &key(kind, me)).unwrap();
        let claims: Vec<Claim<'_>> =
            (0..7u16).map(|voter| (ReplicaId(voter), statements.at(0), &signatures[usize::from(voter)][..])).collect();
        let bad = claims.iter().filter(|claim| !keyring.verify(claim.0, claim.1, claim.2));
        let bad: Vec<ReplicaId> = bad.map(|claim| claim.0).collect();
        let expected: Vec<ReplicaId> = (0..7).filter(|voter| faults[usize::from(*voter)] < 3).map(ReplicaId).collect();
        prop_assert_eq!(&bad, &expected);
        prop_assert_eq!(keyring.verify_many(&claims), bad.is_empty());
        let everybody: Signers = (0..7).map(ReplicaId).collect();
        let proof = keyring.assemble(&claims);
        prop_assert_eq!(keyring.verify_proof(&everybody, &statements, &proof).is_ok(), bad.is_empty());
        match keyring.prove(&claims).proof {
            Ok(_) => prop_assert!(bad.is_empty()),
            Err(blamed) => prop_assert_eq!(blamed, bad),
        }
    }
}

const SIGNATURES: SchemeKind = SchemeKind::ED25519;

/// Returns the crypto device of a replica that votes with MACs and signs everything else.
fn mixed(kind: SchemeKind, committee: &Committee, me: u16) -> Crypto {
    let own = keys(SIGNATURES, me);
    let macs = MacKeys::new(kind, committee, ReplicaId(me), &own.identity).unwrap();
    Crypto::new(SIGNATURES, committee, ReplicaId(me), own.voting, 8).unwrap().with_macs(macs)
}

#[test]
fn a_device_with_macs_signs_what_others_are_shown() {
    for kind in MAC_SCHEMES {
        let committee = committee(SIGNATURES, 4);
        let tagged = [Domain::Prepare, Domain::Commit];
        for domain in
            tagged.into_iter().chain([Domain::ViewChange, Domain::Checkpoint, Domain::Proposal, Domain::Stored])
        {
            let mut voter = mixed(kind, &committee, 2);
            let subject = subject(domain, 3);
            let mut vote = Vote { subject, attachment: Attachment::None, voter: ReplicaId(2), signature: Bytes::new() };
            vote.signature = voter.sign_once(&vote.statement(&epoch()));
            assert_eq!(vote.signature, voter.sign(&vote.statement(&epoch())));
            let by_key = Crypto::new(SIGNATURES, &committee, ReplicaId(1), key(SIGNATURES, 1), 8).unwrap();
            let convinces = by_key.keyring().verify(ReplicaId(2), vote.statement(&epoch()).as_bytes(), &vote.signature);
            assert_eq!(convinces, !tagged.contains(&domain), "{kind}: {domain:?}");
            for other in 0..4 {
                assert!(mixed(kind, &committee, other).verify_vote(&vote), "{kind}: {domain:?} at {other}");
            }
        }
    }
}

#[test]
fn certificates_of_macs_and_of_signatures_are_made_by_one_device() {
    for kind in MAC_SCHEMES {
        let committee = committee(SIGNATURES, 4);
        for (domain, bytes) in [(Domain::Prepare, 3 * 4 * TAG_BYTES), (Domain::Checkpoint, 3 * 64)] {
            let subject = subject(domain, 3);
            let votes = (1..4).map(|voter| {
                let attachment = Attachment::None;
                let mut vote = Vote { subject, attachment, voter: ReplicaId(voter), signature: Bytes::new() };
                vote.signature = mixed(kind, &committee, voter).sign(&vote.statement(&epoch()));
                vote
            });
            let certificate = mixed(kind, &committee, 0).assemble(&subject, votes.collect()).unwrap();
            assert_eq!(certificate.proof.len(), bytes, "{kind}: {domain:?}");
            assert_eq!(mixed(kind, &committee, 3).verify_certificate(&certificate), Ok(()));
            let auditor = Keyring::new(SIGNATURES, &committee).unwrap();
            let audited = quorate_crypto::verify_certificate(&auditor, &certificate).is_ok();
            assert_eq!(audited, domain == Domain::Checkpoint, "{kind}: {domain:?}");
        }
    }
}

#[test]
fn macs_need_the_own_identity_key() {
    let committee = committee(SIGNATURES, 4);
    let error = MacKeys::new(MAC_SCHEMES[0], &committee, ReplicaId(1), &keys(SIGNATURES, 2).identity).err().unwrap();
    assert!(error.to_string().contains("identity key of replica 1"), "{error}");
}

/// Only MACs make a statement hearsay, and only MACs on votes: everything shown to others is signed.
#[test]
fn a_vote_that_carries_macs_proves_nothing_to_others() {
    let domains = [Domain::Prepare, Domain::Commit, Domain::ViewChange, Domain::Checkpoint, Domain::Proposal];
    for profile in [AuthProfile::Pk, AuthProfile::Mac, AuthProfile::Domain] {
        let authentication = Authentication {
            profile,
            scheme: SchemeKind::ED25519,
            mac_scheme: SchemeKind::HMAC_SHA256,
            clients: ClientAuthentication::default(),
            replies: ReplyAuthentication::default(),
            replicas: 4,
        };
        for domain in domains {
            let by_mac = profile.votes_by_mac() && matches!(domain, Domain::Prepare | Domain::Commit);
            assert_eq!(authentication.attributes(domain), !by_mac, "{domain:?} under {profile}");
        }
    }
}
