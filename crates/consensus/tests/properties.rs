//! What comes from the network: one encoding for each value, one value for each encoding, and nothing that makes a replica fall.

mod unit_support;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::{array, collection, option};
use quorate_consensus::basic::BasicHotStuff;
use quorate_consensus::basic::message::BasicMessage;
use quorate_consensus::chained::engine::Chained;
use quorate_consensus::chained::message::{ChainedMessage, Proposal, Timeout};
use quorate_consensus::chained::rules::*;
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::safety::{Record, timeout_subject};
use quorate_consensus::seam::{Drop, MAX_FETCHED_BLOCKS};
use quorate_consensus::views::{Family, ViewEngine};
use quorate_consensus::{Action, Config, Envelope, Input, Replica, Timer, chained};
use quorate_types::codec::{DecodeReason, WIRE_VERSION};
use quorate_types::*;
use std::fmt::Debug;
use std::sync::Arc;
use unit_support::{at, cluster, config, genesis, millis, quorum};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6u64, 1 => any::<u64>(), 1 => u64::MAX - 2..=u64::MAX]
}

fn digest() -> impl Strategy<Value = Digest> {
    prop_oneof![Just(genesis().subject.digest), Just(Digest::ZERO), array::uniform32(any::<u8>()).prop_map(Digest)]
}

fn subject() -> BoxedStrategy<Subject> {
    let domain = prop::sample::select(&Domain::ALL[..]);
    let any = (domain, number(), number(), digest()).prop_map(|(domain, view, height, digest)| Subject {
        domain,
        view: View(view),
        height: Height(height),
        digest,
    });
    prop_oneof![2 => any, 1 => number().prop_map(|view| timeout_subject(View(view))), 1 => Just(genesis().subject)]
        .boxed()
}

fn bytes() -> impl Strategy<Value = Bytes> {
    collection::vec(any::<u8>(), 0..70).prop_map(Bytes::from)
}

fn flat_certificate() -> BoxedStrategy<Certificate> {
    let any = (subject(), collection::btree_set(0..256u16, 0..6), bytes()).prop_map(|(subject, signers, proof)| {
        Certificate { subject, signers: signers.into_iter().map(ReplicaId).collect(), attachments: Vec::new(), proof }
    });
    prop_oneof![4 => any, 1 => Just(genesis())].boxed()
}

fn telling() -> BoxedStrategy<Attachment> {
    let whole = flat_certificate().prop_map(|certificate| Attachment::HighCertificate(Box::new(certificate)));
    prop_oneof![number().prop_map(|view| Attachment::HighView(View(view))), whole].boxed()
}

fn certificate() -> BoxedStrategy<Certificate> {
    let said = collection::btree_map(0..256u16, telling(), 1..5);
    let aggregate = (flat_certificate(), said).prop_map(|(flat, said)| Certificate {
        signers: said.keys().copied().map(ReplicaId).collect(),
        attachments: said.into_values().collect(),
        ..flat
    });
    prop_oneof![2 => flat_certificate(), 1 => aggregate].boxed()
}

fn vote() -> BoxedStrategy<Vote> {
    let attachment = prop_oneof![Just(Attachment::None), telling()];
    let voter = prop_oneof![4 => 0..5u16, 1 => any::<u16>()].prop_map(ReplicaId);
    (subject(), attachment, voter, bytes())
        .prop_map(|(subject, attachment, voter, signature)| Vote { subject, attachment, voter, signature })
        .boxed()
}

fn block() -> BoxedStrategy<Arc<Block>> {
    (number(), 0..5u16, flat_certificate(), collection::vec(digest(), 0..4))
        .prop_map(|(view, author, mut justify, payload)| {
            justify.subject.height.0 = justify.subject.height.0.min(u64::MAX - 1);
            Arc::new(Block::new(View(view), ReplicaId(author), justify, payload))
        })
        .boxed()
}

fn bundle() -> BoxedStrategy<Bundle> {
    (0..9u64, collection::vec((any::<u64>(), bytes()), 1..4))
        .prop_map(|(client, commands)| {
            let mut builder = BundleBuilder::new(ClientId(client));
            commands.iter().for_each(|(sequence, payload)| builder.push(ClientId(client), *sequence, payload));
            builder.finish()
        })
        .boxed()
}

fn proposal() -> BoxedStrategy<Proposal> {
    let parts = (block(), option::of(certificate()), vote(), collection::vec(bundle(), 0..3), any::<bool>());
    parts
        .prop_map(|(block, evidence, mut endorsement, bundles, fitting)| {
            if fitting {
                (endorsement.subject, endorsement.voter) = (block.subject(Domain::Proposal), block.author);
            }
            Proposal { block, evidence, endorsement, bundles }
        })
        .boxed()
}

fn timeout() -> BoxedStrategy<Timeout> {
    (vote(), certificate(), option::of(certificate()), 0..3)
        .prop_map(|(mut vote, high, evidence, fitting)| {
            match fitting {
                0 => vote.attachment = Attachment::HighView(high.view()),
                1 if high.attachments.is_empty() => {
                    vote.attachment = Attachment::HighCertificate(Box::new(high.clone()))
                }
                _ => {}
            }
            Timeout { vote, high, evidence }
        })
        .boxed()
}

fn message() -> BoxedStrategy<ChainedMessage> {
    prop_oneof![
        3 => proposal().prop_map(|proposal| ChainedMessage::Proposal(Box::new(proposal))),
        1 => vote().prop_map(ChainedMessage::Vote),
        2 => timeout().prop_map(|timeout| ChainedMessage::Timeout(Box::new(timeout))),
        1 => (certificate(), option::of(certificate()))
            .prop_map(|(high, evidence)| ChainedMessage::Advance { high: Box::new(high), evidence: evidence.map(Box::new) }),
    ]
        .boxed()
}

fn envelope() -> BoxedStrategy<Envelope<ChainedMessage>> {
    prop_oneof![
        6 => message().prop_map(Envelope::Protocol),
        1 => (digest(), number(), any::<u16>())
            .prop_map(|(digest, above, most)| Envelope::FetchBlocks { digest, above: Height(above), most }),
        1 => collection::vec(block(), 0..4).prop_map(Envelope::Blocks),
        1 => collection::vec(digest(), 0..9).prop_map(Envelope::FetchBundles),
        1 => collection::vec(bundle(), 0..4).prop_map(Envelope::Bundles),
    ]
    .boxed()
}

/// The same for basic HotStuff, where some of the messages begin a phase.
fn basic(envelope: Envelope<ChainedMessage>, phase: Option<Certificate>) -> Envelope<BasicMessage> {
    match (envelope, phase) {
        (_, Some(certificate)) => Envelope::Protocol(BasicMessage::Phase(Box::new(certificate))),
        (Envelope::Protocol(message), None) => Envelope::Protocol(message.into()),
        (Envelope::FetchBlocks { digest, above, most }, None) => Envelope::FetchBlocks { digest, above, most },
        (Envelope::Blocks(blocks), None) => Envelope::Blocks(blocks),
        (Envelope::FetchBundles(digests), None) => Envelope::FetchBundles(digests),
        (Envelope::Bundles(bundles), None) => Envelope::Bundles(bundles),
    }
}

/// A certificate that begins a phase, in one of four messages.
fn phase() -> impl Strategy<Value = Option<Certificate>> {
    option::weighted(0.25, certificate())
}

fn record() -> BoxedStrategy<Record> {
    (vote(), subject())
        .prop_map(|(vote, lock)| Record { subject: vote.subject, attachment: vote.attachment, lock })
        .boxed()
}

/// What decodes is encoded to the very bytes it came from, so that no value has a second encoding.
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

/// An encoding with a few bytes changed, cut off or added.
fn spoil(message: &Bytes, changes: &[(prop::sample::Index, u8)], length: prop::sample::Index) -> Vec<u8> {
    let mut spoilt = message.to_vec();
    for (where_, to) in changes {
        let at = where_.index(spoilt.len());
        spoilt[at] = *to;
    }
    spoilt.resize(length.index(message.len() + 3), 0);
    spoilt
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![Just(0), Just(1), Just(2), Just(255), any::<u8>()];
    collection::vec((any::<prop::sample::Index>(), byte), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn envelopes_have_one_encoding(envelope in envelope(), changes in changes(), length in any::<prop::sample::Index>()) {
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
    fn any_bytes_are_a_value_or_an_error(noise in collection::vec(any::<u8>(), 0..400), kind in 0..6u8, inner in 0..5u8) {
        let version = [WIRE_VERSION];
        decodes_canonically::<Envelope<ChainedMessage>>([&version[..], &noise].concat())?;
        decodes_canonically::<Envelope<ChainedMessage>>([&version[..], &[kind, inner], &noise].concat())?;
        decodes_canonically::<Envelope<BasicMessage>>([&version[..], &[kind, inner], &noise].concat())?;
        decodes_canonically::<Record>([&version[..], &[1 + kind % 3][..], &noise].concat())?;
    }

    #[test]
    fn an_absent_or_present_certificate_is_written_as_anywhere(high in certificate(), evidence in option::of(certificate())) {
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
        decode_message::<Envelope<ChainedMessage>>(message.into()).expect_err("too many")
    };
    for (kind, what, limit) in [(3, "blocks", MAX_FETCHED_BLOCKS), (4, "wanted bundles", 4096), (5, "bundles", 4096)] {
        for count in [limit as u32 + 1, u32::MAX] {
            let error = refused(kind, count);
            assert_eq!((error.what, error.why), (what, DecodeReason::OverLimit { value: count as usize, limit }));
        }
        assert!(
            matches!(refused(kind, limit as u32).why, DecodeReason::Short { .. }),
            "they cannot fit in what is left"
        );
    }
    for kind in [0, 6, 255] {
        assert_eq!(refused(kind, 0).what, "envelope");
    }
}

/// A replica whose keys make nothing genuine: whatever strangers and peers say, it neither falls nor does anything for them.
fn survives<F: Family>(config: Config, script: &[(u16, Envelope<F::Message>)]) -> Result<(), TestCaseError> {
    let me = ReplicaId(0);
    let engine = ViewEngine::<F>::new(&config, &cluster());
    let mut replica = Replica::new(engine, config, quorum(4), cluster(), me, 7);
    let (mut now, mut actions) = (at(1), Vec::new());
    replica.step(now, Input::Start, &mut actions);
    for (from, message) in script {
        now = now + millis(3);
        // What comes from oneself through the loopback is one's own and honest.
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
                Action::Commit { .. } => prop_assert!(false, "nothing was genuine"),
                Action::Accuse(_) => prop_assert!(false, "nothing was proven"),
                _ => {}
            }
        }
        answers.push(Input::Timeout(Timer::Fetch));
        answers.push(Input::Timeout(Timer::Batch));
        answers.into_iter().for_each(|answer| replica.step(now, answer, &mut actions));
    }
    prop_assert_eq!(replica.view(), View(1), "no view begins without a genuine certificate");
    Ok(())
}

fn script() -> impl Strategy<Value = Vec<(u16, Envelope<ChainedMessage>)>> {
    collection::vec((0..5u16, envelope()), 1..30).prop_map(|mut script| {
        for (number, (from, envelope)) in script.iter_mut().enumerate() {
            // Half of the messages are honest about their sender, so that more of what they say is looked at.
            let sender = ReplicaId(*from + 1);
            match envelope {
                Envelope::Protocol(ChainedMessage::Proposal(proposal)) if number % 2 == 0 => {
                    let Block { view, justify, payload, .. } = Block::clone(&proposal.block);
                    proposal.block = Arc::new(Block::new(view, sender, justify, payload));
                    proposal.endorsement.subject = proposal.block.subject(Domain::Proposal);
                    proposal.endorsement.voter = sender;
                }
                Envelope::Protocol(ChainedMessage::Vote(vote)) if number % 2 == 0 => vote.voter = sender,
                Envelope::Protocol(ChainedMessage::Timeout(timeout)) if number % 2 == 0 => timeout.vote.voter = sender,
                _ => {}
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_that_is_said_makes_a_replica_fall(
        script in script(),
        phases in collection::vec(phase(), 30),
        leader in prop::sample::select(LeaderKind::ALL),
        dissemination in prop::sample::select(Dissemination::ALL),
    ) {
        let config = Config { leader, dissemination, ..config() };
        survives::<Chained<ChainedHotStuff>>(config.clone(), &script)?;
        survives::<Chained<SimpleHotStuff>>(config.clone(), &script)?;
        survives::<Chained<FastHotStuff>>(config.clone(), &script)?;
        survives::<Chained<Jolteon>>(config.clone(), &script)?;
        let script: Vec<_> = script
            .into_iter()
            .zip(phases.into_iter().chain(std::iter::repeat(None)))
            .map(|((from, envelope), phase)| (from, basic(envelope, phase)))
            .collect();
        survives::<BasicHotStuff>(config, &script)?;
    }
}

/// Certificates of the last view there is: the view after it cannot be named, but it can be spoken of.
#[test]
fn the_last_view_there_is_has_no_next() {
    let last = Certificate { subject: Subject { view: View(u64::MAX), ..genesis().subject }, ..genesis() };
    let sender = ReplicaId(1);
    let block = Arc::new(Block::new(View(5), sender, genesis(), vec![]));
    let vote = |subject, attachment| Vote { subject, attachment, voter: sender, signature: Bytes::new() };
    let messages = [
        ChainedMessage::Proposal(Box::new(Proposal {
            endorsement: vote(block.subject(Domain::Proposal), Attachment::None),
            block,
            evidence: Some(last.clone()),
            bundles: vec![],
        })),
        ChainedMessage::Timeout(Box::new(Timeout {
            vote: vote(timeout_subject(View(5)), Attachment::HighView(View(0))),
            high: genesis(),
            evidence: Some(last.clone()),
        })),
    ];
    for message in messages {
        let mut replica = chained::replica::<Jolteon>(config(), quorum(4), cluster(), ReplicaId(0), 7);
        let mut actions = Vec::new();
        replica.step(at(1), Input::Start, &mut actions);
        replica.step(at(1), Input::Receive { from: sender, message: Envelope::Protocol(message) }, &mut actions);
        assert_eq!(replica.dropped().get(&Drop::ViewNotJustified), Some(&1));
    }
}
