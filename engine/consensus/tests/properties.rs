//! Messages from the network: each value has exactly one encoding, each encoding exactly one value, and no input
//! makes a replica panic.

mod values;

use crate::unit_support::{at, config, epoch, genesis, millis, quorum};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proptest::{collection, option};
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::protocols::basic::BasicHotStuff;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::message::{ChainedMessage, Proposal, Timeout};
use quorate_consensus::protocols::chained::rules::*;
use quorate_consensus::protocols::views::{Family, ViewEngine};
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::replica::make;
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_consensus::seam::{Drop, MAX_FETCHED_BLOCKS};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Action, Config, Envelope, Input, Replica, Timer, seam::text};
use quorate_types::codec::{DecodeReason, WIRE_VERSION};
use quorate_types::*;
use std::fmt::Debug;
use std::sync::Arc;
use values::*;

/// Checks that re-encoding a decoded value yields the same bytes, so no value has a second encoding.
fn decodes_canonically<T: Wire + PartialEq + Debug>(message: Vec<u8>) -> Result<(), TestCaseError> {
    let message = Bytes::from(message);
    if let Ok(value) = decode_message::<T>(message.clone()) {
        prop_assert_eq!(encode_message(&value), message);
    }
    Ok(())
}

fn reads_back<T: Wire + PartialEq + Debug>(value: &T) -> Result<Bytes, TestCaseError> {
    let message = encode_message(value);
    let decoded = decode_message::<T>(message.clone());
    prop_assert_eq!(decoded.as_ref(), Ok(value));
    Ok(message)
}

/// Returns an encoding with a few bytes changed, removed or added.
fn spoil(message: &Bytes, changes: &[(prop::sample::Index, u8)], length: prop::sample::Index) -> Vec<u8> {
    let mut spoilt = message.to_vec();
    for (where_, to) in changes {
        let at = where_.index(spoilt.len());
        spoilt[at] = *to;
    }
    spoilt.resize(length.index(message.len() + 3), 0);
    spoilt
}

/// Returns a digest of the encodings of some values, and of the errors about damaged ones.
fn fingerprint<T: Wire + Debug>(strategy: impl Strategy<Value = T>) -> String {
    let (mut runner, mut hasher) = (TestRunner::deterministic(), Hasher::new(*b"test"));
    for _ in 0..FINGERPRINT_VALUES {
        let message = encode_message(&strategy.new_tree(&mut runner).expect("it has values").current());
        hasher.update(&message);
        for bit in (0..message.len() * 8).step_by(7) {
            let mut bytes = message.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = decode_message::<T>(bytes.into()).err();
            hasher.update(error.map_or_else(String::new, |error| error.to_string()).as_bytes());
        }
    }
    hasher.finish().to_hex()[..16].to_owned()
}

const FINGERPRINT_VALUES: usize = 256;

/// A difference means that the wire format or the errors have changed, or that the generators of the values have.
#[test]
fn encodings_and_errors_are_those_of_this_version() {
    let found = [
        fingerprint(envelope()),
        fingerprint((envelope(), phase()).prop_map(|(envelope, phase)| basic(envelope, phase))),
        fingerprint(pbft()),
        fingerprint(record()),
        fingerprint(input()),
        fingerprint(manifest()),
    ];
    assert_eq!(found, FINGERPRINTS);
}

/// Fingerprints of an envelope, an envelope of basic HotStuff, a PBFT message, a record, an input and a manifest.
const FINGERPRINTS: [&str; 6] = [
    "de160ec9647b66ab",
    "c6056db80e96132a",
    "ae21655091e95bdf",
    "81b99a1904d8caa6",
    "4cdf1a9da296ccc9",
    "912140c84c517b08",
];

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![Just(0), Just(1), Just(2), Just(255), any::<u8>()];
    collection::vec((any::<prop::sample::Index>(), byte), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn envelopes_have_one_encoding(
        envelope in envelope(),
        changes in changes(),
        length in any::<prop::sample::Index>(),
    ) {
        let message = reads_back(&envelope)?;
        decodes_canonically::<Envelope<ChainedMessage>>(spoil(&message, &changes, length))?;
        let mut spoilt = spoil(&message, &changes, length);
        spoilt.resize(message.len(), 0);
        decodes_canonically::<Envelope<ChainedMessage>>(spoilt)?;
    }

    #[test]
    fn envelopes_of_basic_hotstuff_have_one_encoding(
        envelope in (envelope(), phase()).prop_map(|(envelope, phase)| basic(envelope, phase)),
        changes in changes(),
        length in any::<prop::sample::Index>(),
    ) {
        let message = reads_back(&envelope)?;
        decodes_canonically::<Envelope<BasicMessage>>(spoil(&message, &changes, length))?;
        let mut spoilt = spoil(&message, &changes, length);
        spoilt.resize(message.len(), 0);
        decodes_canonically::<Envelope<BasicMessage>>(spoilt)?;
    }

    #[test]
    fn records_have_one_encoding(record in record(), changes in changes(), length in any::<prop::sample::Index>()) {
        let message = reads_back(&record)?;
        decodes_canonically::<Record>(spoil(&message, &changes, length))?;
        let mut spoilt = spoil(&message, &changes, length);
        spoilt.resize(message.len(), 0);
        decodes_canonically::<Record>(spoilt)?;
    }

    #[test]
    fn inputs_have_one_encoding(input in input(), changes in changes(), length in any::<prop::sample::Index>()) {
        let message = reads_back(&input)?;
        decodes_canonically::<Input<ChainedMessage>>(spoil(&message, &changes, length))?;
        let mut spoilt = spoil(&message, &changes, length);
        spoilt.resize(message.len(), 0);
        decodes_canonically::<Input<ChainedMessage>>(spoilt)?;
        prop_assert!(!text::input(&input).is_empty());
    }

    #[test]
    fn fingerprints_are_equal_exactly_for_equal_actions(one in action(), other in action()) {
        let mut scratch = Encoder::default();
        let fingerprint = Fingerprint::of(&one, &mut scratch);
        prop_assert_eq!(fingerprint, Fingerprint::of(&one.clone(), &mut scratch));
        prop_assert_eq!(fingerprint == Fingerprint::of(&other, &mut scratch), one == other);
        prop_assert_eq!(&reads_back(&fingerprint)?[1..].len(), &Fingerprint::BYTES);
        prop_assert!(!text::action(&one).is_empty());
    }

    #[test]
    fn any_bytes_decode_to_a_value_or_an_error(
        noise in collection::vec(any::<u8>(), 0..400),
        kind in 0..16u8,
        inner in 0..5u8,
    ) {
        let version = [WIRE_VERSION];
        decodes_canonically::<Envelope<ChainedMessage>>([&version[..], &noise].concat())?;
        decodes_canonically::<Envelope<ChainedMessage>>([&version[..], &[kind, inner], &noise].concat())?;
        decodes_canonically::<Envelope<BasicMessage>>([&version[..], &[kind, inner], &noise].concat())?;
        decodes_canonically::<Record>([&version[..], &[1 + kind][..], &noise].concat())?;
        decodes_canonically::<Input<ChainedMessage>>([&version[..], &[1 + kind][..], &noise].concat())?;
    }

    #[test]
    fn optional_certificates_have_the_common_encoding(high in certificate(), evidence in option::of(certificate())) {
        let mut expected = Encoder::with_capacity(64);
        expected.put_slice(&[WIRE_VERSION, 1, 4]);
        high.encode(&mut expected);
        evidence.encode(&mut expected);
        let message = ChainedMessage::Advance { high: Box::new(high), evidence: evidence.map(Box::new) };
        prop_assert_eq!(encode_message(&Envelope::Protocol(message)), expected.finish());
    }
}

#[test]
fn hostile_counts_are_refused_by_name() {
    let refused = |kind: u8, count: u32| {
        let message = [&[WIRE_VERSION, kind][..], &count.to_le_bytes()].concat();
        decode_message::<Envelope<ChainedMessage>>(message.into()).expect_err("the count exceeds the limit")
    };
    let limits = [
        (3, "blocks", MAX_FETCHED_BLOCKS),
        (4, "wanted bundles", 4096),
        (5, "bundles", 4096),
        (12, "relayed bundles", 256),
        (14, "spread bundles", 4096),
        (18, "covers", 1024),
    ];
    for (kind, what, limit) in limits {
        for count in [limit as u32 + 1, u32::MAX] {
            let error = refused(kind, count);
            assert_eq!((error.what, error.why), (what, DecodeReason::OverLimit { value: count as usize, limit }));
        }
        assert!(
            matches!(refused(kind, limit as u32).why, DecodeReason::Short { .. }),
            "more items than the remaining bytes can hold"
        );
    }
    for count in [4097, u32::MAX] {
        let batch = [&[WIRE_VERSION, 15][..], &[0; 2 + 8 + 8], &count.to_le_bytes()].concat();
        let error = decode_message::<Envelope<ChainedMessage>>(batch.into()).expect_err("the count exceeds the limit");
        let over = DecodeReason::OverLimit { value: count as usize, limit: 4096 };
        assert_eq!((error.what, error.why), ("bundles of a batch", over));
    }
    for kind in [0, 21, 255] {
        assert_eq!(refused(kind, 0).what, "envelope");
    }
    for kind in [6, 7] {
        let error = refused(kind, 0);
        assert_eq!(error.what, "nonce");
        assert!(matches!(error.why, DecodeReason::Short { .. }), "the input ends within an item");
    }
    let standing = |counts: &[u32]| {
        let counts = counts.iter().flat_map(|count| count.to_le_bytes());
        let message: Vec<u8> = [WIRE_VERSION, 7].into_iter().chain([0; 8]).chain(counts).collect();
        decode_message::<Envelope<ChainedMessage>>(message.into()).expect_err("the count exceeds the limit")
    };
    for count in [5, u32::MAX] {
        let over = |limit| DecodeReason::OverLimit { value: count as usize, limit };
        let error = standing(&[count]);
        assert_eq!((error.what, error.why), ("certificates of a standing", over(4)));
        let count = count.max(limits::MAX_REPLICAS as u32 + 1);
        let over = DecodeReason::OverLimit { value: count as usize, limit: limits::MAX_REPLICAS };
        let error = standing(&[0, count]);
        assert_eq!((error.what, error.why), ("votes of a standing", over));
    }
}

/// Checks that a replica whose verification always fails neither panics nor acts on any message from strangers or
/// peers.
fn survives<F: Family>(config: Config, script: &[(u16, Envelope<F::Message>)]) -> Result<(), TestCaseError> {
    let me = ReplicaId(0);
    let engine = ViewEngine::<F>::new(&config, &epoch());
    let mut replica = Replica::new(engine, config, quorum(4), epoch(), me, 7);
    let (mut now, mut actions) = (at(1), Vec::new());
    replica.step(now, Input::Start, &mut actions);
    for (from, message) in script {
        now = now + millis(3);
        // Messages from the replica itself arrive over the loopback and are honest.
        let from = ReplicaId(from + 1);
        replica.step(now, Input::Receive { from, message: message.clone() }, &mut actions);
        let mut answers = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Verify { job, .. } => answers.push(Input::Verdict { job, genuine: false }),
                Action::Assemble { job, votes, .. } => {
                    let forgers = votes.iter().map(|vote| vote.voter).collect();
                    answers.push(Input::Assembled { job, result: Err(forgers) });
                }
                Action::Commit { .. } => prop_assert!(false, "a block was committed although no message was valid"),
                Action::Accuse(_) => prop_assert!(false, "a replica was accused without proof"),
                Action::ReceiveState { .. } | Action::KeepChunk { .. } | Action::AdoptState { .. } => {
                    prop_assert!(false, "a state was adopted without a certificate")
                }
                Action::ReadState { to, height, part } => {
                    answers.push(Input::StateRead { to, height, part, bytes: None })
                }
                _ => {}
            }
        }
        answers.push(Input::Timeout(Timer::Fetch));
        answers.push(Input::Timeout(Timer::Batch));
        answers.into_iter().for_each(|answer| replica.step(now, answer, &mut actions));
    }
    prop_assert_eq!(replica.view(), View(1), "a view began without a valid certificate");
    Ok(())
}

fn script() -> impl Strategy<Value = Vec<(u16, Envelope<ChainedMessage>)>> {
    collection::vec((0..5u16, envelope()), 1..30).prop_map(|mut script| {
        for (number, (from, envelope)) in script.iter_mut().enumerate() {
            // Half of the messages name their true sender, so that more of their content is processed.
            let sender = ReplicaId(*from + 1);
            match envelope {
                Envelope::Protocol(ChainedMessage::Proposal(proposal)) if number % 2 == 0 => {
                    let Block { view, justify, payload, time_ms, .. } = Block::clone(&proposal.block);
                    let proposal = Arc::make_mut(proposal);
                    proposal.block = Arc::new(Block::new(view, sender, justify, payload, time_ms));
                    proposal.endorsement.subject = proposal.block.subject(Domain::Proposal);
                    proposal.endorsement.voter = sender;
                }
                Envelope::Protocol(ChainedMessage::Vote(vote)) if number % 2 == 0 => vote.voter = sender,
                Envelope::Protocol(ChainedMessage::Timeout(timeout)) if number % 2 == 0 => {
                    Arc::make_mut(timeout).vote.voter = sender;
                }
                Envelope::Checkpoint(vote) if number % 2 == 0 => {
                    let height = Height(config().checkpoint_interval * (1 + vote.subject.height.0 % 3));
                    vote.subject = Subject { domain: Domain::Checkpoint, view: View(0), height, ..vote.subject };
                    (vote.voter, vote.attachment) = (sender, Attachment::None);
                }
                Envelope::Offer { checkpoint } if number % 2 == 0 => {
                    let height = Height(config().checkpoint_interval);
                    checkpoint.subject =
                        Subject { domain: Domain::Checkpoint, view: View(0), height, ..checkpoint.subject };
                }
                _ => {}
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_message_makes_a_replica_panic(
        script in script(),
        phases in collection::vec(phase(), 30),
        leader in prop::sample::select(LeaderKind::ALL),
        dissemination in prop::sample::select(Dissemination::ALL),
    ) {
        let config = Config { leader, dissemination, ..config() };
        macro_rules! every_chain_survives {
            ([] chained { $($file:ident: $rules:ident,)+ } $($others:tt)+) => {
                $(survives::<Chained<$rules>>(config.clone(), &script)?;)+
            };
        }
        quorate_consensus::every_protocol!((every_chain_survives));
        let script: Vec<_> = script
            .into_iter()
            .zip(phases.into_iter().chain(std::iter::repeat(None)))
            .map(|((from, envelope), phase)| (from, basic(envelope, phase)))
            .collect();
        survives::<BasicHotStuff>(config, &script)?;
    }
}

/// Messages may carry certificates of the last possible view, which has no next view.
#[test]
fn certificates_of_the_last_possible_view_are_handled() {
    let last = Certificate { subject: Subject { view: View(u64::MAX), ..genesis().subject }, ..genesis() };
    let sender = ReplicaId(1);
    let block = Arc::new(Block::new(View(5), sender, genesis(), vec![], 0));
    let vote = |subject, attachment| Vote { subject, attachment, voter: sender, signature: Bytes::new() };
    let messages = [
        ChainedMessage::Proposal(Arc::new(Proposal {
            endorsement: vote(block.subject(Domain::Proposal), Attachment::None),
            block,
            evidence: Some(last.clone()),
            bundles: vec![],
        })),
        ChainedMessage::Timeout(Arc::new(Timeout {
            vote: vote(timeout_subject(View(5)), Attachment::HighView(View(0))),
            high: genesis(),
            evidence: Some(last.clone()),
        })),
    ];
    for message in messages {
        let mut replica = make::chained::<Jolteon>(config(), quorum(4), epoch(), ReplicaId(0), 7);
        let mut actions = Vec::new();
        replica.step(at(1), Input::Start, &mut actions);
        replica.step(at(1), Input::Receive { from: sender, message: Envelope::Protocol(message) }, &mut actions);
        assert_eq!(replica.dropped().get(&Drop::ViewNotJustified), Some(&1));
    }
}
