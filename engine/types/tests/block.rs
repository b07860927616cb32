//! A block's digest covers everything except the proof.

use bytes::Bytes;
use proptest::collection;
use proptest::prelude::*;
use quorate_types::*;

fn another(digest: Digest, bit: usize) -> Digest {
    let mut digest = digest;
    digest.0[bit / 8 % 32] ^= 1 << (bit % 8);
    digest
}

proptest! {
    #[test]
    fn the_digest_covers_each_field(
        block in crate::common::block(),
        bit in 0usize..256,
        number in 0usize..64,
        member in crate::common::replica(),
    ) {
        let Block { view, author, justify, payload, time_ms, .. } = block.clone();
        let digest = |view, author, justify: &Certificate, payload: &[Digest]| {
            Block::new(view, author, justify.clone(), payload.to_vec(), time_ms).digest()
        };
        let mut seen = vec![block.digest()];
        let mut differs = |digest: Digest| {
            assert!(!seen.contains(&digest), "two blocks with one digest");
            seen.push(digest);
        };
        differs(digest(View(view.0 ^ 1 << number), author, &justify, &payload));
        differs(digest(view, ReplicaId(author.0 ^ 1 << (number % 16)), &justify, &payload));
        let subject = justify.subject;
        let mut changed = vec![
            Subject { view: View(subject.view.0 ^ 1 << number), ..subject },
            Subject { height: Height(subject.height.0 ^ 1), ..subject },
            Subject { digest: another(subject.digest, bit), ..subject },
        ];
        let domains = Domain::ALL.into_iter().filter(|domain| *domain != subject.domain);
        changed.extend(domains.map(|domain| Subject { domain, ..subject }));
        for subject in changed.into_iter().filter(|subject| subject.height.0 < u64::MAX) {
            differs(digest(view, author, &Certificate { subject, ..justify.clone() }, &payload));
        }
        let members: Vec<ReplicaId> = justify.signers.iter().filter(|replica| *replica != member).collect();
        let mut signers: Signers = members.into_iter().collect();
        if !justify.signers.contains(member) {
            signers.insert(member);
        }
        differs(digest(view, author, &Certificate { signers, ..justify.clone() }, &payload));
        let later = Block::new(view, author, justify.clone(), payload.clone(), time_ms ^ 1 << number);
        differs(later.digest());
        differs(digest(view, author, &justify, &[&payload[..], &[Digest::ZERO]].concat()));
        for at in 0..payload.len() {
            let mut other = payload.clone();
            other[at] = another(other[at], bit);
            differs(digest(view, author, &justify, &other));
            other.remove(at);
            differs(digest(view, author, &justify, &other));
        }
    }

    #[test]
    fn the_digest_covers_the_order_of_the_payload(block in crate::common::block()) {
        let mut payload = block.payload.clone();
        payload.reverse();
        let other = Block::new(block.view, block.author, block.justify.clone(), payload, block.time_ms);
        prop_assert_eq!(other.digest() == block.digest(), other.payload == block.payload);
    }

    #[test]
    fn the_digest_covers_which_bundle_relies_on_which_certificate(
        block in crate::common::block(),
        one in collection::vec(0u8..4, 5),
        other in collection::vec(0u8..4, 5),
    ) {
        let name = |certificate: &u8| (*certificate > 0).then_some(Digest([*certificate; 32]));
        let (one, other) = (&one[..block.payload.len()], &other[..block.payload.len()]);
        let covered = |of: &[u8]| block.clone().with_covers(CoverNames::new(of.iter().map(name)));
        prop_assert_eq!(covered(one).digest() == covered(other).digest(), one == other);
        prop_assert_eq!(covered(one).digest() == block.digest(), one.iter().all(|certificate| *certificate == 0));
        for (at, certificate) in one.iter().enumerate() {
            prop_assert_eq!(covered(one).covers().of(at).copied(), name(certificate));
        }
        let named: Vec<Option<Digest>> = covered(one).covers().of_bundles().map(Option::<&Digest>::copied).collect();
        prop_assert!(named.is_empty() || named.iter().copied().eq(one.iter().map(name)));
    }

    #[test]
    fn the_digest_does_not_cover_the_proof(block in crate::common::block(), proof in crate::common::bytes(64)) {
        let justify = Certificate { proof, ..block.justify.clone() };
        let other = Block::new(block.view, block.author, justify, block.payload.clone(), block.time_ms);
        prop_assert_eq!(other.digest(), block.digest());
    }

    #[test]
    fn a_block_extends_the_block_that_it_justifies(block in crate::common::block()) {
        prop_assert_eq!(block.parent(), block.justify.subject.digest);
        prop_assert_eq!(block.height, block.justify.subject.height.next());
        let subject = block.subject(Domain::Vote);
        let expected = Subject { domain: Domain::Vote, view: block.view, height: block.height, digest: block.digest() };
        prop_assert_eq!(subject, expected);
    }
}

#[test]
fn an_optimistic_block_names_its_parent_without_a_certificate() {
    let genesis = Certificate::genesis(&EpochId::of_name("a cluster"));
    let parent = Block::new(View(1), ReplicaId(0), genesis, vec![], 0);
    let block = Block::optimistic(View(2), ReplicaId(1), parent.subject(Domain::Vote), vec![], 0);
    assert!(block.is_optimistic() && !parent.is_optimistic(), "genesis needs no certificate");
    assert_eq!((block.parent(), block.height), (parent.digest(), parent.height.next()));
    let mut out = Encoder::default();
    block.encode(&mut out);
    assert_eq!(Block::decode(&mut Decoder::new(out.finish())), Ok(block.clone()));
    let slot = Block::of_slot(View(3), ReplicaId(0), Height(2), vec![], 0);
    assert!(!slot.is_optimistic(), "a slot has no parent");
    let signers: Signers = (0..3).map(ReplicaId).collect();
    let certified =
        Block::new(View(2), ReplicaId(1), Certificate { signers, ..block.justify.clone() }, vec![], block.time_ms);
    assert!(!certified.is_optimistic() && certified.digest() != block.digest());
}

#[test]
fn names_of_certificates_have_one_encoding() {
    let genesis = Certificate::genesis(&EpochId::of_name("a cluster"));
    let block = Block::new(View(1), ReplicaId(0), genesis, vec![Digest([1; 32]), Digest([2; 32])], 0);
    let covered = block.with_covers(CoverNames::new([Some(Digest([3; 32])), Some(Digest([4; 32]))]));
    let mut out = Encoder::default();
    covered.encode(&mut out);
    let encoded = out.finish();
    let at = encoded.len() - 4;
    for (indices, sound) in
        [([0u16, 1], true), ([1, 0], false), ([0, 0], false), ([0, 2], false), ([0, u16::MAX], false)]
    {
        let mut bytes = encoded[..at].to_vec();
        indices.iter().for_each(|index| bytes.extend(index.to_le_bytes()));
        let decoded = Block::decode(&mut Decoder::new(bytes.into()));
        assert_eq!(decoded.is_ok(), sound, "{indices:?}: {decoded:?}");
    }
}

#[test]
fn every_cluster_has_its_own_genesis() {
    let genesis = |name| Certificate::genesis(&EpochId::of_name(name));
    assert_ne!(genesis("one").subject.digest, genesis("two").subject.digest);
    assert_eq!(genesis("one"), genesis("one"));
}

#[test]
fn a_block_beyond_the_last_height_is_refused() {
    let subject = Subject { domain: Domain::Vote, view: View(1), height: Height(u64::MAX), digest: Digest::ZERO };
    let justify = Certificate { subject, signers: Signers::empty(), attachments: Vec::new(), proof: Bytes::new() };
    let mut out = Encoder::default();
    View(2).encode(&mut out);
    ReplicaId(0).encode(&mut out);
    out.put_u64(0);
    justify.encode(&mut out);
    out.put_count(0);
    let error = Block::decode(&mut Decoder::new(out.finish())).expect_err("the height overflows");
    assert!(error.to_string().contains("maximum height"), "{error}");
}
