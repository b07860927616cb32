//! BLS aggregates: sums of keys and signatures, rogue keys, and signatures whose faults cancel out.

use crate::common::*;
use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, Signature};
use bytes::Bytes;
use quorate_crypto::statements::Statements;
use quorate_crypto::{
    BlsVerification, CertificateError, Crypto, CryptoError, Effort, KeyFault, KeyRole, Keyring, Proofs, ReplicaKeys,
    SchemeKind,
};
use quorate_types::{
    Attachment, Certificate, Domain, Encoder, ReplicaId, Signers, Subject, View, Vote, Wire, encode_message,
};
use std::ops::ControlFlow;

const KIND: SchemeKind = SchemeKind::BLS12_381;

fn ways() -> Vec<SchemeKind> {
    BlsVerification::ALL.iter().map(|way| way.of(KIND)).collect()
}

fn device(kind: SchemeKind, size: u16, me: u16) -> Crypto {
    Crypto::new(kind, &committee(kind, size), ReplicaId(me), key(kind, me), 0).unwrap()
}

fn signature(bytes: &[u8]) -> Signature {
    Signature::uncompress(bytes).unwrap()
}

fn sum(signatures: &[Signature]) -> Signature {
    let mut sum = AggregateSignature::from_signature(&signatures[0]);
    signatures[1..].iter().for_each(|one| sum.add_signature(one, false).unwrap());
    sum.to_signature()
}

fn negated(encoded: &[u8]) -> Vec<u8> {
    let mut opposite = encoded.to_vec();
    opposite[0] ^= 0x20;
    opposite
}

fn refused(subject: &Subject) -> Result<(), CertificateError> {
    Err(CertificateError::Signature { domain: subject.domain, view: subject.view })
}

#[test]
fn ways_of_verification_differ_in_cost_only() {
    for kind in ways() {
        assert_eq!((kind, kind.name()), (KIND, "bls12-381"));
    }
    let names: Vec<&str> = ways().iter().map(|kind| kind.costs_name()).collect();
    assert_eq!(names, ["bls12-381-each", "bls12-381-aggregate", "bls12-381"]);
    assert_eq!(BlsVerification::Each.of(SchemeKind::ED25519).costs_name(), "ed25519");
    assert_eq!(BlsVerification::default().of(KIND).costs_name(), KIND.costs_name());
}

/// For a committee of ten with a quorum of seven, all sets of signers from f absentees to none.
#[test]
fn the_key_of_every_set_of_signers_is_right() {
    let subject = subject(Domain::Vote, 5);
    let all = votes(KIND, subject, 0..7);
    let mut devices: Vec<Crypto> = ways().into_iter().map(|kind| device(kind, 7, 0)).collect();
    for set in (0u32..1 << 7).filter(|set| set.count_ones() >= 5) {
        let votes = || all.iter().filter(|vote| set >> vote.voter.0 & 1 == 1).cloned().collect::<Vec<Vote>>();
        let certificates: Vec<Certificate> =
            devices.iter_mut().map(|device| device.assemble(&subject, votes()).unwrap()).collect();
        assert!(certificates.windows(2).all(|pair| pair[0] == pair[1]), "the ways make different proofs");
        let fewer: Signers = certificates[0].signers.iter().skip(1).collect();
        for device in &mut devices {
            assert_eq!(device.verify_certificate(&certificates[0]), Ok(()));
            if fewer.len() >= 5 {
                let wrong = Certificate { signers: fewer, ..certificates[0].clone() };
                assert_eq!(device.verify_certificate(&wrong), refused(&subject));
            }
        }
    }
}

#[test]
fn a_certificate_of_forty_takes_less_than_120_bytes() {
    let subject = subject(Domain::Vote, 5);
    let certificate = device(KIND, 40, 0).assemble(&subject, votes(KIND, subject, 0..27)).unwrap();
    let mut statement = Encoder::with_capacity(64);
    subject.encode(&mut statement);
    let bytes = encode_message(&certificate).len() - statement.finish().len();
    assert!(bytes < 120, "{bytes} bytes");
    let kind = SchemeKind::ED25519;
    let list = crypto(kind, 40, 0).assemble(&subject, votes(kind, subject, 0..27)).unwrap();
    assert!((1_700..2_700).contains(&encode_message(&list).len()));
}

/// Timeouts contain different views: the proof covers each signer's own view, and the views cannot be exchanged.
#[test]
fn signers_are_grouped_by_what_they_say() {
    let subject = subject(Domain::Timeout, 9);
    let views = [3, 8, 3, 7, 8];
    for kind in ways() {
        let say =
            |(voter, view): (u16, &u64)| vote_in(&epoch(), kind, subject, Attachment::HighView(View(*view)), voter);
        let votes: Vec<Vote> = (0..).zip(&views).map(say).collect();
        let mut device = device(kind, 7, 0);
        let certificate = device.assemble(&subject, votes.clone()).unwrap();
        assert_eq!(certificate.proof.len(), 48);
        assert_eq!(device.verify_certificate(&certificate), Ok(()));
        for (one, other) in [(0, 1), (1, 3), (0, 3), (2, 4)] {
            let mut swapped = certificate.clone();
            swapped.attachments.swap(one, other);
            assert_eq!(device.verify_certificate(&swapped), refused(&subject));
        }
        // Exchanging signers of equal statements changes nothing.
        let mut same = certificate.clone();
        same.attachments.swap(0, 2);
        assert_eq!(same, certificate);
        let mut spoilt = votes;
        spoilt[3].signature = spoilt[2].signature.clone();
        assert_eq!(device.assemble(&subject, spoilt), Err(vec![ReplicaId(3)]));
    }
}

/// Keys added or subtracted for a certificate in a committee of 40, and pairings, by verification method and number of
/// signers.
#[test]
fn a_cached_key_takes_an_addition_for_each_absentee() {
    let subject = subject(Domain::Vote, 5);
    let all = votes(KIND, subject, 0..40);
    let mut maker = device(KIND, 40, 0);
    for (absent, by_sum) in [(13, 26), (1, 38), (0, 39)] {
        let certificate = maker.assemble(&subject, all[absent..].to_vec()).unwrap();
        for (way, additions) in
            [(BlsVerification::Cached, absent), (BlsVerification::Each, absent), (BlsVerification::Aggregate, by_sum)]
        {
            let mut device = device(way.of(KIND), 40, 1);
            assert_eq!(device.verify_certificate(&certificate), Ok(()));
            let effort = Effort { key_additions: additions as u64, pairings: 2 };
            assert_eq!(device.proofs(), Proofs { verified: 1, effort }, "{way}, {absent} absent");
            let refused = Certificate { proof: Bytes::from(vec![0; 48]), ..certificate.clone() };
            assert!(device.verify_certificate(&refused).is_err());
            assert_eq!(device.proofs().verified, 1, "only genuine certificates count");
            match device.begin_verification(vec![certificate.clone()], Vec::new()) {
                ControlFlow::Continue(task) => assert!(device.finish_verification(task.run())),
                ControlFlow::Break(_) => panic!("nothing is cached"),
            }
            assert_eq!(device.proofs().effort.key_additions, 2 * additions as u64, "a task counts the same");
        }
    }
}

/// One pairing for the signature and one per distinct statement, not one per signer.
#[test]
fn timeouts_that_say_the_same_share_a_pairing() {
    let subject = subject(Domain::Timeout, 9);
    for (views, groups) in [([8; 27].to_vec(), 1), ((0..27).map(|at| at % 3).collect(), 3), ((0..27).collect(), 27)] {
        let say = |(voter, view)| vote_in(&epoch(), KIND, subject, Attachment::HighView(View(view)), voter);
        let votes: Vec<Vote> = (0..).zip(views).map(say).collect();
        for kind in ways() {
            let mut device = device(kind, 40, 0);
            let certificate = device.assemble(&subject, votes.clone()).unwrap();
            assert_eq!(device.verify_certificate(&certificate), Ok(()));
            assert_eq!(device.proofs().effort.pairings, 1 + groups, "{}", kind.costs_name());
        }
    }
}

/// The simulator charges exactly the operations that verifying a certificate takes.
#[test]
fn the_effort_of_a_proof_is_known_before_it_is_verified() {
    let subject = subject(Domain::Timeout, 9);
    for voters in 5..=7u16 {
        for different in 1..=voters {
            let say = |voter: u16| {
                let said = Attachment::HighView(View(u64::from(voter % different)));
                vote_in(&epoch(), KIND, subject, said, voter)
            };
            let votes: Vec<Vote> = (0..voters).map(say).collect();
            let statements = Statements::new(&epoch(), &subject, votes.iter().map(|vote| &vote.attachment));
            let groups = statements.groups(votes.len());
            assert_eq!((groups.len(), groups.iter().sum::<usize>()), (usize::from(different), usize::from(voters)));
            for kind in ways() {
                let mut device = device(kind, 7, 0);
                let certificate = device.assemble(&subject, votes.clone()).unwrap();
                assert_eq!(device.verify_certificate(&certificate), Ok(()));
                let expected = kind.scheme().effort_of_proof(7, &groups);
                assert_eq!(device.proofs().effort, expected, "{}, {groups:?}", kind.costs_name());
            }
        }
    }
}

/// All numbers of signers in committees up to sixteen, without the pairings.
#[test]
fn a_key_takes_the_additions_that_were_foreseen() {
    for size in [1, 4, 7, 16] {
        let committee = committee(KIND, size);
        for kind in ways() {
            let keyring = Keyring::new(kind, &committee).unwrap();
            for signers in 1..=size {
                let made = keyring.add_up(&(0..signers).map(ReplicaId).collect());
                let expected = kind.scheme().effort_of_proof(usize::from(size), &[usize::from(signers)]);
                assert_eq!(made.key_additions, expected.key_additions, "{}: {signers} of {size}", kind.costs_name());
                let most = u64::from(size - signers).min(u64::from(signers) - 1);
                assert!(kind.costs_name() == "bls12-381-aggregate" || made.key_additions == most);
            }
        }
    }
    let others = SchemeKind::ALL.iter().filter(|kind| **kind != KIND);
    assert!(
        others.clone().count() > 5
            && others.clone().all(|kind| kind.scheme().effort_of_proof(7, &[5]) == Effort::default())
    );
}

/// s_1 + D and s_2 - D are bad, but their sum equals that of the genuine signatures.
#[test]
fn faults_that_cancel_out_prove_nothing_false() {
    let subject = subject(Domain::Vote, 5);
    let good = votes(KIND, subject, 0..5);
    let difference = signature(&key(KIND, 6).sign(b"anything"));
    let mut bad = good.clone();
    let opposite = signature(&negated(&difference.compress()));
    for (voter, moved) in [(1, difference), (2, opposite)] {
        let both = sum(&[signature(&good[voter].signature), moved]);
        bad[voter].signature = Bytes::copy_from_slice(&both.compress());
    }
    for kind in ways() {
        let mut device = device(kind, 7, 0);
        assert!(!device.verify_vote(&bad[1]) && !device.verify_vote(&bad[2]));
        let genuine = device.assemble(&subject, good.clone()).unwrap();
        let each = kind.costs_name() == "bls12-381-each";
        match device.assemble(&subject, bad.clone()) {
            Ok(certificate) => {
                assert!(!each);
                assert_eq!(certificate, genuine, "the colluders' proof is not the genuine one");
            }
            Err(blamed) => {
                assert!(each);
                assert_eq!(blamed, [1, 2].map(ReplicaId));
            }
        }
        // Without the other one, the fault is detected, and its signer alone is blamed.
        let mut alone = bad.clone();
        alone[2] = good[2].clone();
        assert_eq!(device.assemble(&subject, alone), Err(vec![ReplicaId(1)]));
        // Together with a third fault, only bad votes are blamed, and the others remain usable.
        let mut three = bad.clone();
        three[4].signature = good[3].signature.clone();
        let blamed = self::device(kind, 7, 0).assemble(&subject, three).unwrap_err();
        assert!(blamed.contains(&ReplicaId(4)) && blamed.iter().all(|one| [1, 2, 4].contains(&one.0)), "{blamed:?}");
    }
}

/// Points outside G1 whose sum with genuine signatures is in G1.
#[test]
fn points_outside_the_group_are_found_in_the_sum() {
    let subject = subject(Domain::Vote, 5);
    let good = votes(KIND, subject, 0..5);
    let outside = (1u8..).find_map(|x| {
        let mut encoded = [0; 48];
        (encoded[0], encoded[47]) = (0x80, x);
        Signature::uncompress(&encoded).ok().filter(|point| !point.subgroup_check())
    });
    let outside = outside.unwrap();
    for kind in ways() {
        let mut bad = good.clone();
        bad[3].signature = sum(&[signature(&good[3].signature), outside]).compress().to_vec().into();
        let mut device = device(kind, 7, 0);
        assert!(!device.verify_vote(&bad[3]));
        assert_eq!(device.assemble(&subject, bad.clone()), Err(vec![ReplicaId(3)]));
        let genuine = device.assemble(&subject, good.clone()).unwrap();
        let moved = sum(&[signature(&genuine.proof), outside]).compress().to_vec();
        let certificate = Certificate { proof: moved.into(), ..genuine };
        assert_eq!(device.verify_certificate(&certificate), refused(&subject));
    }
}

/// A rogue key, chosen as the difference between one's own key and another's, makes one signature look like both.
#[test]
fn rogue_keys_are_refused() {
    let mut members = committee(KIND, 4);
    let mine = key(KIND, 9).public_key();
    let mut rogue = AggregatePublicKey::from_public_key(&PublicKey::key_validate(&mine).unwrap());
    let victim = negated(&members.members[0].voting_key);
    rogue.add_public_key(&PublicKey::key_validate(&victim).unwrap(), false).unwrap();
    let rogue = rogue.to_public_key().compress();
    members.members[3].voting_key = Bytes::copy_from_slice(&rogue);
    let fault = |possession: Bytes, members: &quorate_types::Committee| {
        let mut members = members.clone();
        members.members[3].possession = possession;
        match Keyring::new(KIND, &members).err() {
            Some(CryptoError::PublicKey { replica: ReplicaId(3), role: KeyRole::Voting, fault }) => fault,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault(Bytes::new(), &members), KeyFault::NoPossession(KIND.name()));
    let wrong = KeyFault::WrongPossession(KIND.name());
    let mine_for_it = key(KIND, 9).sign(&rogue);
    let proofs = [key(KIND, 9).prove_possession(), members.members[0].possession.clone(), mine_for_it];
    for proof in proofs {
        assert_eq!(fault(proof, &members), wrong);
    }
    // The attack that the proof prevents: the rogue key and the victim's add up to the attacker's.
    let both = AggregatePublicKey::aggregate(
        &[&PublicKey::key_validate(&rogue).unwrap(), &PublicKey::key_validate(&members.members[0].voting_key).unwrap()],
        true,
    );
    assert_eq!(both.unwrap().to_public_key().compress()[..], mine[..]);
}

#[test]
fn the_identity_points_outside_g2_and_opposite_keys_are_refused() {
    let fault = |key: Vec<u8>, possession: Bytes| {
        let mut members = committee(KIND, 4);
        (members.members[3].voting_key, members.members[3].possession) = (key.into(), possession);
        match Keyring::new(KIND, &members).err() {
            Some(CryptoError::PublicKey { replica: ReplicaId(3), role: KeyRole::Voting, fault }) => fault,
            other => panic!("{other:?}"),
        }
    };
    let wrong = KeyFault::WrongPossession(KIND.name());
    let (mut identity, mut nothing) = (vec![0; 96], vec![0; 48]);
    (identity[0], nothing[0]) = (0xc0, 0xc0);
    // The identity would be a valid signature for any message under the identity as a key.
    assert_eq!(fault(identity, nothing.into()), wrong);
    let outside = (1u8..).map(|x| {
        let mut encoded = vec![0; 96];
        (encoded[0], encoded[95]) = (0x80, x);
        encoded
    });
    let mut outside =
        outside.filter(|encoded| PublicKey::uncompress(encoded).is_ok_and(|point| point.validate().is_err()));
    assert_eq!(fault(outside.next().unwrap(), key(KIND, 3).prove_possession()), wrong);
    // The holder of a key can prove possession of its inverse.
    let other = key(KIND, 1).private_key().encode();
    let order = blst_order();
    let inverse = KIND.scheme().decode(&minus(&order, &other)).unwrap();
    assert_eq!(inverse.public_key(), negated(&key(KIND, 1).public_key()));
    let shared = KeyFault::Shared { replica: ReplicaId(1), role: KeyRole::Voting };
    assert_eq!(fault(inverse.public_key().to_vec(), inverse.prove_possession()), shared);
}

/// The order of the groups (section 4.2.1 of RFC 9380's suites).
fn blst_order() -> Vec<u8> {
    quorate_types::digest::decode_hex("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001").unwrap()
}

fn minus(number: &[u8], other: &[u8]) -> Vec<u8> {
    let (mut result, mut borrow) = (number.to_vec(), 0);
    for (byte, other) in result.iter_mut().zip(other).rev() {
        let difference = i16::from(*byte) - i16::from(*other) - borrow;
        borrow = i16::from(difference < 0);
        *byte = difference.rem_euclid(256) as u8;
    }
    result
}

/// A spoiler costs one bisection; from then on its votes are verified individually.
#[test]
fn a_spoiler_costs_one_bisection() {
    let subject = |view| subject(Domain::Vote, view);
    let mut device = device(KIND, 31, 0);
    let attempt = |device: &mut Crypto, view| {
        let mut votes = votes(KIND, subject(view), 0..21);
        votes[13].signature = votes[12].signature.clone();
        let before = device.verifications();
        assert_eq!(device.assemble(&subject(view), votes), Err(vec![ReplicaId(13)]));
        device.verifications() - before
    };
    let first = attempt(&mut device, 1);
    assert!((21..=3 * 21).contains(&first), "{first} checks");
    assert_eq!(device.spoilers().iter().collect::<Vec<_>>(), [ReplicaId(13)]);
    assert_eq!(attempt(&mut device, 2), 1);
    assert_eq!(attempt(&mut device, 3), 1);
    let before = device.verifications();
    device.assemble(&subject(4), votes(KIND, subject(4), 0..21)).unwrap();
    assert_eq!(device.verifications() - before, 22, "a spoiler that votes well is verified alone, and with the rest");
}

#[test]
fn key_files_and_committees_have_proofs_of_possession() {
    let keys = ReplicaKeys::generate(KIND).unwrap();
    let member = keys.member(nowhere());
    assert_eq!((member.voting_key.len(), member.possession.len()), (96, 48));
    assert!(KIND.scheme().verify_possession(&member.voting_key, &member.possession));
}
