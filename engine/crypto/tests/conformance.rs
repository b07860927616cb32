//! Tests that every signature scheme must pass. A scheme without signatures must pass only the structural ones.

use crate::common::*;
use bytes::Bytes;
use proptest::prelude::*;
use quorate_crypto::statements::Statements;
use quorate_crypto::{CertificateError, Claim, Crypto, Keyring, SchemeKind};
use quorate_types::{
    Attachment, Certificate, Digest, Domain, EpochId, ReplicaId, Signers, Subject, Vote, decode_message, encode_message,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn every_scheme(demand: impl Fn(SchemeKind)) {
    schemes().into_iter().for_each(demand);
}

fn signs(kind: SchemeKind) -> bool {
    kind.profile().unforgeable
}

fn proof_bytes(kind: SchemeKind, size: u16, signers: u16) -> usize {
    kind.profile().shape(size.into()).proof_bytes(signers.into())
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    changed.into()
}

/// Returns the vote with an invalid signature: a flipped bit, or one byte where there should be none.
fn spoilt(mut vote: Vote) -> Vote {
    vote.signature = if vote.signature.is_empty() { Bytes::from_static(b"x") } else { flipped(&vote.signature, 3) };
    vote
}

#[test]
fn a_vote_is_valid_only_for_the_signed_statement() {
    every_scheme(|kind| {
        let mut crypto = crypto(kind, 4, 0);
        let good = vote(kind, subject(Domain::Vote, 3), 2);
        assert!(crypto.verify_vote(&good));
        assert_eq!(crypto.verifications(), 1);
        assert!(!crypto.verify_vote(&spoilt(good.clone())));
        assert!(!crypto.verify_vote(&Vote { voter: ReplicaId(4), ..good.clone() }), "a stranger");
        assert!(!crypto.verify_vote(&Vote { voter: ReplicaId(u16::MAX), ..good.clone() }), "a stranger");
        let changed = [
            Vote { voter: ReplicaId(1), ..good.clone() },
            Vote { subject: subject(Domain::Vote, 4), ..good.clone() },
            Vote { subject: subject(Domain::Timeout, 3), ..good.clone() },
            Vote { attachment: Attachment::HighView(quorate_types::View(2)), ..good.clone() },
            vote_in(&EpochId::of_name("another"), kind, good.subject, Attachment::None, 2),
        ];
        for vote in changed {
            assert_eq!(crypto.verify_vote(&vote), !signs(kind), "{kind}: {vote:?}");
        }
        for length in [0, 1, 63, 65, 128] {
            let cut = Vote { signature: Bytes::from(vec![0; length]), ..good.clone() };
            assert_eq!(crypto.verify_vote(&cut), length == 0 && !signs(kind));
        }
    });
}

#[test]
fn every_replica_verifies_a_signature() {
    every_scheme(|kind| {
        let (mine, mut theirs) = (crypto(kind, 7, 5), crypto(kind, 7, 1));
        let mut vote = vote(kind, subject(Domain::Proposal, 9), 5);
        vote.signature = mine.sign(&vote.statement(&epoch()));
        assert!(theirs.verify_vote(&vote));
    });
}

#[test]
fn a_device_can_be_sent_to_a_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&crypto(SchemeKind::ED25519, 1, 0));
}

#[test]
fn a_quorum_makes_a_certificate_that_others_accept() {
    every_scheme(|kind| {
        for (size, domain) in [(1, Domain::Vote), (4, Domain::Vote), (4, Domain::Timeout), (31, Domain::Vote)] {
            let (mut maker, mut other) = (crypto(kind, size, 0), crypto(kind, size, size - 1));
            let needed = committee(kind, size).quorum.quorum() as u16;
            let subject = subject(domain, 5);
            let mut votes = votes(kind, subject, size - needed..size);
            votes.reverse();
            let certificate = maker.assemble(&subject, votes).unwrap();
            assert_eq!(certificate.signers, (size - needed..size).map(ReplicaId).collect::<Signers>());
            assert_eq!(certificate.proof.len(), proof_bytes(kind, size, needed));
            assert!(certificate.attachments.is_empty());
            let sent: Certificate = decode_message(encode_message(&certificate)).unwrap();
            assert_eq!(other.verify_certificate(&sent), Ok(()));
            assert_eq!((other.verifications(), other.cache_hits()), (u64::from(needed), 0));
            assert_eq!(maker.verify_certificate(&certificate), Ok(()));
            assert_eq!((maker.verifications(), maker.cache_hits()), (u64::from(needed), 1));
        }
    });
}

#[test]
fn more_votes_than_a_quorum_make_a_certificate() {
    every_scheme(|kind| {
        let subject = subject(Domain::Vote, 5);
        let certificate = crypto(kind, 4, 0).assemble(&subject, votes(kind, subject, 0..4)).unwrap();
        assert_eq!(crypto(kind, 4, 1).verify_certificate(&certificate), Ok(()));
    });
}

#[test]
fn attachments_are_in_the_signers_order_and_signed() {
    every_scheme(|kind| {
        let quorum_certificate = |view| {
            let subject = subject(Domain::Vote, view);
            Attachment::HighCertificate(Box::new(
                crypto(kind, 4, 0).assemble(&subject, votes(kind, subject, 0..3)).unwrap(),
            ))
        };
        let high_views = [4, 2, 3].map(|view| Attachment::HighView(quorate_types::View(view)));
        let high_certificates = [4, 2, 3].map(quorum_certificate);
        for said in [high_views, high_certificates] {
            let subject = subject(Domain::Timeout, 5);
            let votes = [3u16, 0, 2].into_iter().zip(said.clone());
            let votes = votes.map(|(voter, said)| vote_in(&epoch(), kind, subject, said, voter)).collect();
            let certificate = crypto(kind, 4, 0).assemble(&subject, votes).unwrap();
            assert_eq!(certificate.attachments, [said[1].clone(), said[2].clone(), said[0].clone()]);
            let mut other = crypto(kind, 4, 1);
            assert_eq!(other.verify_certificate(&certificate), Ok(()));

            let mut swapped = certificate.clone();
            swapped.attachments.swap(0, 1);
            assert_eq!(other.verify_certificate(&swapped).is_ok(), !signs(kind));
            let mut short = certificate.clone();
            short.attachments.pop();
            let wrong = CertificateError::Attachments { attachments: 2, signers: 3 };
            assert_eq!(other.verify_certificate(&short), Err(wrong.clone()));
            let mut holed = certificate.clone();
            holed.attachments[0] = Attachment::None;
            assert_eq!(other.verify_certificate(&holed), Err(wrong));
            let bare = Certificate { attachments: Vec::new(), ..certificate };
            assert_eq!(other.verify_certificate(&bare).is_ok(), !signs(kind));
        }
    });
}

#[test]
fn structure_is_checked_before_signatures() {
    every_scheme(|kind| {
        let subject = subject(Domain::Vote, 5);
        let proof_bytes = |signers| proof_bytes(kind, 4, signers);
        let good = crypto(kind, 4, 0).assemble(&subject, votes(kind, subject, 0..3)).unwrap();
        let mut other = crypto(kind, 4, 1);
        let mut refused = |certificate: &Certificate| other.verify_certificate(certificate).unwrap_err();

        let mut few = good.clone();
        few.signers = [0, 1].map(ReplicaId).into_iter().collect();
        few.proof.truncate(proof_bytes(2));
        assert_eq!(refused(&few), CertificateError::TooFewSigners { signers: 2, quorum: 3 });
        let mut stranger = good.clone();
        stranger.signers = [0, 1, 4].map(ReplicaId).into_iter().collect();
        assert_eq!(refused(&stranger), CertificateError::Stranger { replica: ReplicaId(4), members: 4 });
        stranger.signers = [0, 1, 2, 255].map(ReplicaId).into_iter().collect();
        assert_eq!(refused(&stranger), CertificateError::Stranger { replica: ReplicaId(255), members: 4 });
        let mut long = good.clone();
        long.proof = [&good.proof[..], b"x"].concat().into();
        assert_eq!(
            refused(&long),
            CertificateError::ProofLength { found: proof_bytes(3) + 1, expected: proof_bytes(3) }
        );
        let mut proposal = good.clone();
        proposal.subject.domain = Domain::Proposal;
        assert_eq!(refused(&proposal), CertificateError::Domain(Domain::Proposal));
        assert_eq!((other.verifications(), other.cache_hits()), (0, 0));
    });
}

#[test]
fn a_certificate_proves_no_other_statement() {
    every_scheme(|kind| {
        let good_subject = subject(Domain::Vote, 5);
        let good = crypto(kind, 5, 0).assemble(&good_subject, votes(kind, good_subject, 0..4)).unwrap();
        let changed = [
            Certificate { subject: subject(Domain::Vote, 6), ..good.clone() },
            Certificate { subject: subject(Domain::Timeout, 5), ..good.clone() },
            Certificate { signers: [0, 1, 2, 4].map(ReplicaId).into_iter().collect(), ..good.clone() },
        ];
        let mut other = crypto(kind, 5, 1);
        for certificate in changed {
            let signature =
                CertificateError::Signature { domain: certificate.subject.domain, view: certificate.subject.view };
            let expected = if signs(kind) { Err(signature) } else { Ok(()) };
            assert_eq!(other.verify_certificate(&certificate), expected, "{kind}");
            assert_eq!(
                other.verify_certificate(&certificate),
                expected,
                "{kind}: a refused certificate is in the cache"
            );
        }
        let mut members = committee(kind, 5);
        members.epoch = EpochId::of_name("another");
        let mut foreign = Crypto::new(kind, &members, ReplicaId(1), key(kind, 1), 8).unwrap();
        assert_eq!(foreign.verify_certificate(&good).is_ok(), !signs(kind));
        for at in 0..good.proof.len() {
            let spoilt = Certificate { proof: flipped(&good.proof, at), ..good.clone() };
            assert!(other.verify_certificate(&spoilt).is_err(), "byte {at} of the proof");
        }
    });
}

#[test]
fn exactly_the_bad_votes_are_blamed() {
    every_scheme(|kind| {
        let subject = subject(Domain::Vote, 5);
        let mut crypto = crypto(kind, 10, 0);
        // All subsets of a quorum of seven out of ten.
        for bad in 0u32..1 << 7 {
            let is_bad = |voter: u16| bad >> (voter - 2) & 1 == 1;
            let votes = votes(kind, subject, 2..9).into_iter();
            let votes = votes.map(|vote| if is_bad(vote.voter.0) { spoilt(vote) } else { vote }).collect();
            let expected: Vec<ReplicaId> = (2..9).filter(|voter| is_bad(*voter)).map(ReplicaId).collect();
            match crypto.assemble(&subject, votes) {
                Ok(_) => assert!(expected.is_empty()),
                Err(blamed) => assert_eq!(blamed, expected),
            }
        }
    });
}

#[test]
fn finding_one_bad_vote_takes_few_checks() {
    let subject = subject(Domain::Vote, 5);
    let mut crypto = crypto(SchemeKind::ED25519, 61, 0);
    let mut votes = votes(SchemeKind::ED25519, subject, 0..41);
    votes[40] = spoilt(votes[40].clone());
    assert_eq!(crypto.assemble(&subject, votes), Err(vec![ReplicaId(40)]));
    assert!(crypto.verifications() <= 2 * 41, "{} checks", crypto.verifications());
}

#[test]
fn non_members_and_odd_attachments_are_blamed() {
    every_scheme(|kind| {
        let subject = subject(Domain::Timeout, 5);
        let high = |voter| vote_in(&epoch(), kind, subject, Attachment::HighView(quorate_types::View(4)), voter);
        let mut crypto = crypto(kind, 4, 0);
        let stranger = vec![high(0), high(1), high(2), high(4), high(300)];
        assert_eq!(crypto.assemble(&subject, stranger), Err(vec![ReplicaId(4), ReplicaId(300)]));
        let odd = vec![high(3), vote(kind, subject, 1), high(2)];
        assert_eq!(crypto.assemble(&subject, odd), Err(vec![ReplicaId(1)]));
        assert!(crypto.assemble(&subject, vec![high(3), high(0), high(2)]).is_ok());
    });
}

#[test]
fn violations_of_the_callers_contract_panic() {
    every_scheme(|kind| {
        let good = subject(Domain::Vote, 5);
        let three = |subject| votes(kind, subject, 0..3);
        let mut twice = three(good);
        twice[2] = twice[1].clone();
        let mut mixed = three(good);
        mixed[1] = vote(kind, subject(Domain::Vote, 6), 1);
        let misuses = [
            (good, twice, "occurs twice"),
            (good, mixed, "another subject"),
            (good, votes(kind, good, 0..2), "2 votes are not a quorum of 3"),
            (good, Vec::new(), "0 votes are not a quorum of 3"),
            (subject(Domain::Proposal, 5), three(subject(Domain::Proposal, 5)), "leader alone"),
            (subject(Domain::Vote, 0), three(subject(Domain::Vote, 0)), "only the genesis"),
        ];
        for (subject, votes, why) in misuses {
            let mut crypto = crypto(kind, 4, 0);
            let panic = catch_unwind(AssertUnwindSafe(|| crypto.assemble(&subject, votes))).unwrap_err();
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap();
            assert!(message.contains(why), "{message:?} does not say {why:?}");
        }
    });
}

#[test]
fn genesis_needs_no_proof_and_has_one_form() {
    every_scheme(|kind| {
        let mut crypto = crypto(kind, 4, 0);
        let genesis = Certificate::genesis(&epoch());
        assert_eq!(crypto.verify_certificate(&genesis), Ok(()));
        assert_eq!((crypto.verifications(), crypto.cache_hits()), (0, 0));
        let foreign = Certificate::genesis(&EpochId::of_name("another"));
        assert_eq!(crypto.verify_certificate(&foreign), Err(CertificateError::NotGenesis));
        let signed = Certificate { signers: [0, 1, 2].map(ReplicaId).into_iter().collect(), ..genesis.clone() };
        assert_eq!(crypto.verify_certificate(&signed), Err(CertificateError::NotGenesis));
        let proven = Certificate { proof: Bytes::from_static(b"x"), ..genesis.clone() };
        assert_eq!(crypto.verify_certificate(&proven), Err(CertificateError::NotGenesis));
        let mut later = genesis.clone();
        later.subject.view = quorate_types::View(1);
        assert_eq!(crypto.verify_certificate(&later), Err(CertificateError::TooFewSigners { signers: 0, quorum: 3 }));
        let mut renamed = genesis;
        renamed.subject.digest = Digest::ZERO;
        assert_eq!(crypto.verify_certificate(&renamed), Err(CertificateError::NotGenesis));
    });
}

#[test]
fn certificates_survive_encoding() {
    let subject = subject(Domain::Timeout, 5);
    let genesis = Attachment::HighCertificate(Box::new(Certificate::genesis(&epoch())));
    let votes = (0..3).map(|voter| vote_in(&epoch(), SchemeKind::ED25519, subject, genesis.clone(), voter)).collect();
    let certificate = crypto(SchemeKind::ED25519, 4, 0).assemble(&subject, votes).unwrap();
    let back: Certificate = decode_message(encode_message(&certificate)).unwrap();
    assert_eq!(back, certificate);
    assert_eq!(crypto(SchemeKind::ED25519, 4, 2).verify_certificate(&back), Ok(()));
}

/// A vote as an attacker may send it: genuine, or wrong in one of several ways.
fn any_vote(kind: SchemeKind, good: &Vote, fault: usize) -> Vote {
    let Vote { subject, voter, .. } = *good;
    let with = |signature: Bytes| Vote { signature, ..good.clone() };
    match fault {
        0 => with(flipped(&good.signature, 3)),
        1 => with(flipped(&good.signature, good.signature.len() - 1)),
        2 => with(vote(kind, subject, (voter.0 + 1) % 7).signature),
        3 => with(vote(kind, Subject { view: quorate_types::View(99), ..subject }, voter.0).signature),
        4 => with(vote_in(&EpochId::of_name("another"), kind, subject, Attachment::None, voter.0).signature),
        5 => with(good.signature.slice(1..)),
        6 => with(vec![0; good.signature.len()].into()),
        7 => with(vec![0xff; good.signature.len()].into()),
        _ => good.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Verification one by one, in a batch and in a proof always gives the same verdict.
    #[test]
    fn single_batch_and_proof_agree(faults in prop::collection::vec(0usize..20, 7), at in 0..schemes().len()) {
        let kind = schemes()[at];
        prop_assume!(signs(kind));
        let subject = subject(Domain::Vote, 5);
        let votes: Vec<Vote> =
            (0..7).map(|voter| any_vote(kind, &vote(kind, subject, voter), faults[usize::from(voter)])).collect();
        let keyring = Keyring::new(kind, &committee(kind, 7)).unwrap();
        let statements = Statements::new(&epoch(), &subject, [Attachment::None].iter());
        let claims: Vec<Claim<'_>> =
            votes.iter().map(|vote| (vote.voter, statements.at(0), &vote.signature[..])).collect();
        let is_good = |claim: &&Claim<'_>| keyring.verify(claim.0, claim.1, claim.2);
        let bad: Vec<ReplicaId> = claims.iter().filter(|claim| !is_good(claim)).map(|claim| claim.0).collect();
        let faulty = (0..7).filter(|voter| faults[usize::from(*voter)] < 8).map(ReplicaId);
        prop_assert_eq!(&bad, &faulty.collect::<Vec<_>>());
        prop_assert_eq!(keyring.verify_many(&claims), bad.is_empty());
        let doubled: Vec<Claim<'_>> = claims.iter().chain(&claims).copied().collect();
        prop_assert_eq!(keyring.verify_many(&doubled), bad.is_empty());
        let good: Vec<Claim<'_>> = claims.iter().filter(is_good).copied().collect();
        prop_assert!(keyring.verify_many(&good));
        match keyring.prove(&claims).proof {
            Ok(proof) => {
                prop_assert!(bad.is_empty());
                prop_assert!(keyring.verify_proof(&(0..7).map(ReplicaId).collect(), &statements, &proof).is_ok());
            }
            Err(blamed) => prop_assert_eq!(&blamed, &bad),
        }
        if !good.is_empty() {
            let signers: Signers = good.iter().map(|claim| claim.0).collect();
            let proof = keyring.prove(&good).proof.unwrap();
            prop_assert_eq!(&proof, &keyring.assemble(&good));
            prop_assert!(keyring.verify_proof(&signers, &statements, &proof).is_ok());
            // No more and no fewer signers than actually signed.
            if let Some(liar) = bad.first() {
                let mut more = signers;
                more.insert(*liar);
                prop_assert!(keyring.verify_proof(&more, &statements, &proof).is_err());
            }
            let mut fewer = signers;
            fewer.remove(good[0].0);
            prop_assert!(fewer.is_empty() || keyring.verify_proof(&fewer, &statements, &proof).is_err());
        }
    }
}

#[test]
fn no_proof_is_one_of_nobody() {
    every_scheme(|kind| {
        let subject = subject(Domain::Vote, 5);
        let good = crypto(kind, 4, 0).assemble(&subject, votes(kind, subject, 0..3)).unwrap();
        let mut other = crypto(kind, 4, 1);
        for proof in [good.proof.clone(), Bytes::new(), vec![0; 48].into()] {
            let nobody = Certificate { signers: Signers::empty(), proof, ..good.clone() };
            let few = CertificateError::TooFewSigners { signers: 0, quorum: 3 };
            assert_eq!(other.verify_certificate(&nobody), Err(few));
        }
    });
}
