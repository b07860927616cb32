//! Messages from the network: each value has exactly one encoding, each encoding exactly one value, and no input
//! makes a replica panic.

use crate::unit_support::{at, config, epoch, genesis, millis, quorum};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proptest::{array, collection, option};
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::data::batches::{Batch, Cover, Entry};
use quorate_consensus::data::lanes::Source;
use quorate_consensus::protocols::basic::BasicHotStuff;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::message::{ChainedMessage, Proposal, Timeout};
use quorate_consensus::protocols::chained::rules::*;
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage, PrePrepare, ViewChange};
use quorate_consensus::protocols::views::{Family, ViewEngine};
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::recovery::journal::{Record, Standing};
use quorate_consensus::replica::make;
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_consensus::seam::{Drop, Job, MAX_FETCHED_BLOCKS, RecordId};
use quorate_consensus::voting::safety::{Promise, timeout_subject};
use quorate_consensus::{
    Action, Config, Envelope, Evidence, Halt, Input, Mark, Refusal, Replica, Timer, To, seam::text,
};
use quorate_types::codec::{DecodeReason, WIRE_VERSION};
use quorate_types::*;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

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
            Arc::new(Block::new(View(view), ReplicaId(author), justify, payload, 0))
        })
        .boxed()
}

fn bundle() -> BoxedStrategy<Bundle> {
    (0..9u64, collection::vec((any::<u64>(), bytes()), 1..4))
        .prop_map(|(client, commands)| {
            let mut builder = BundleBuilder::new(ClientId(client.into()), Height(0).latest_expiry());
            commands.iter().for_each(|(sequence, payload)| builder.push(ClientId(client.into()), *sequence, payload));
            builder.finish()
        })
        .boxed()
}

fn batch() -> impl Strategy<Value = Arc<Batch>> {
    let entry =
        (digest(), any::<u32>(), any::<u32>()).prop_map(|(bundle, commands, bytes)| Entry { bundle, commands, bytes });
    (0..5u16, number(), number(), collection::vec(entry, 0..4)).prop_map(|(spreader, number, until, entries)| {
        Arc::new(Batch::new(ReplicaId(spreader), number, Height(until), entries))
    })
}

fn cover() -> impl Strategy<Value = Cover> {
    (batch(), certificate(), any::<bool>()).prop_map(|(batch, mut certificate, fitting)| {
        if fitting {
            certificate.subject = batch.subject();
        }
        Cover { batch, certificate }
    })
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
        3 => proposal().prop_map(|proposal| ChainedMessage::Proposal(Arc::new(proposal))),
        1 => vote().prop_map(ChainedMessage::Vote),
        2 => timeout().prop_map(|timeout| ChainedMessage::Timeout(Arc::new(timeout))),
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
        1 => collection::vec(digest(), 0..9).prop_flat_map(|digests| number().prop_map(move |above| Envelope::FetchBundles { digests: digests.clone(), above: Height(above) })),
        1 => collection::vec(bundle(), 0..4).prop_map(Envelope::Bundles),
        1 => collection::vec(bundle(), 0..4).prop_map(Envelope::Relay),
        1 => collection::vec(bundle(), 0..4).prop_map(Envelope::Spread),
        1 => batch().prop_map(Envelope::Batch),
        1 => vote().prop_map(Envelope::Stored),
        1 => certificate().prop_map(|certificate| Envelope::Certified(Box::new(certificate))),
        1 => collection::vec(cover(), 0..3).prop_map(Envelope::Covers),
        1 => digest().prop_map(|bundle| Envelope::Noted { bundle }),
        1 => vote().prop_map(Envelope::Absent),
        1 => certificate().prop_map(|certificate| Envelope::Void(Box::new(certificate))),
        1 => number().prop_map(|nonce| Envelope::Ask { nonce }),
        1 => (number(), standing()).prop_map(|(nonce, standing)| Envelope::Standing { nonce, standing }),
        2 => vote().prop_map(Envelope::Checkpoint),
        1 => certificate().prop_map(|checkpoint| Envelope::Offer { checkpoint: Box::new(checkpoint) }),
        1 => (number(), part()).prop_map(|(height, part)| Envelope::FetchState { height: Height(height), part }),
        1 => (number(), part(), bytes())
            .prop_map(|(height, part, bytes)| Envelope::StatePart { height: Height(height), part, bytes }),
    ]
    .boxed()
}

fn part() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4u32, 1 => any::<u32>()]
}

/// Generates manifests of states of one or more chunks. The last chunk may be short.
fn manifest() -> impl Strategy<Value = Manifest> {
    (1..700_000usize, any::<u8>()).prop_map(|(length, byte)| Manifest::of(&vec![byte; length]))
}

/// Generates frontiers of a chain or of slots.
fn frontier() -> BoxedStrategy<Frontier> {
    let candidates = || collection::vec((0..9u16).prop_map(ReplicaId), 0..4);
    let signers = collection::btree_set(0..256u16, 0..6);
    let block = (number(), 0..5u16, signers, collection::vec(digest(), 0..4), number(), candidates());
    (1..1000u64, any::<bool>(), collection::vec(block, 1..5))
        .prop_map(|(first, linked, blocks)| {
            let mut with_candidates = Vec::new();
            for (height, (view, author, signers, payload, time_ms, candidates)) in (first..).zip(blocks) {
                let (view, author) = (View(view), ReplicaId(author));
                let block = match linked {
                    true => {
                        let subject =
                            Subject { domain: Domain::Vote, view, height: Height(height - 1), digest: Digest([3; 32]) };
                        let signers = signers.into_iter().map(ReplicaId).collect();
                        let justify = Certificate { subject, signers, attachments: Vec::new(), proof: Bytes::new() };
                        Block::new(view, author, justify, payload, time_ms)
                    }
                    false => Block::of_slot(view, author, Height(height), payload, time_ms),
                };
                with_candidates.push((Arc::new(block), Arc::from(candidates)));
            }
            Frontier::new(with_candidates)
        })
        .boxed()
}

fn standing() -> impl Strategy<Value = Standing> {
    (collection::vec(certificate(), 0..3), collection::vec(vote(), 0..3))
        .prop_map(|(certificates, votes)| Standing { certificates, votes })
}

/// Converts a message for basic HotStuff, in which some messages begin a phase.
fn basic(envelope: Envelope<ChainedMessage>, phase: Option<Certificate>) -> Envelope<BasicMessage> {
    match (envelope, phase) {
        (_, Some(certificate)) => Envelope::Protocol(BasicMessage::Phase(Box::new(certificate))),
        (Envelope::Protocol(message), None) => Envelope::Protocol(message.into()),
        (Envelope::FetchBlocks { digest, above, most }, None) => Envelope::FetchBlocks { digest, above, most },
        (Envelope::Blocks(blocks), None) => Envelope::Blocks(blocks),
        (Envelope::FetchBundles { digests, above }, None) => Envelope::FetchBundles { digests, above },
        (Envelope::Bundles(bundles), None) => Envelope::Bundles(bundles),
        (Envelope::Relay(bundles), None) => Envelope::Relay(bundles),
        (Envelope::Spread(bundles), None) => Envelope::Spread(bundles),
        (Envelope::Batch(batch), None) => Envelope::Batch(batch),
        (Envelope::Stored(vote), None) => Envelope::Stored(vote),
        (Envelope::Certified(certificate), None) => Envelope::Certified(certificate),
        (Envelope::Covers(covers), None) => Envelope::Covers(covers),
        (Envelope::Noted { bundle }, None) => Envelope::Noted { bundle },
        (Envelope::Absent(vote), None) => Envelope::Absent(vote),
        (Envelope::Void(certificate), None) => Envelope::Void(certificate),
        (Envelope::Ask { nonce }, None) => Envelope::Ask { nonce },
        (Envelope::Standing { nonce, standing }, None) => Envelope::Standing { nonce, standing },
        (Envelope::Checkpoint(vote), None) => Envelope::Checkpoint(vote),
        (Envelope::Offer { checkpoint }, None) => Envelope::Offer { checkpoint },
        (Envelope::FetchState { height, part }, None) => Envelope::FetchState { height, part },
        (Envelope::StatePart { height, part, bytes }, None) => Envelope::StatePart { height, part, bytes },
    }
}

/// Generates a certificate that begins a phase, in one of four messages.
fn phase() -> impl Strategy<Value = Option<Certificate>> {
    option::weighted(0.25, certificate())
}

fn record() -> BoxedStrategy<Record> {
    let promise = (vote(), subject()).prop_map(|(vote, lock)| Promise {
        subject: vote.subject,
        attachment: vote.attachment,
        lock,
    });
    prop_oneof![
        3 => promise.prop_map(Record::Promise),
        2 => collection::vec(bundle(), 0..4).prop_map(Record::Bundles),
        1 => (0..5u16, number(), collection::vec(bundle(), 0..4)).prop_map(|(spreader, until, bundles)| Record::Kept {
            spreader: ReplicaId(spreader),
            until: Height(until),
            bundles,
        }),
        2 => block().prop_map(Record::Block),
        1 => certificate().prop_map(|certificate| Record::Certificate(Box::new(certificate))),
        1 => bytes().prop_map(Record::Message),
        1 => (number(), digest()).prop_map(|(height, digest)| Record::Commit { height: Height(height), digest }),
        1 => number().prop_map(|view| Record::Abstain(View(view))),
        1 => (number(), digest()).prop_map(|(height, digest)| Record::Summary { height: Height(height), digest }),
        1 => Just(Record::Summed),
        1 => certificate().prop_map(|certificate| Record::Void(Box::new(certificate))),
        1 => number().prop_map(|height| Record::LostKept { up_to: Height(height) }),
        1 => standing().prop_map(Record::Standing),
        1 => collection::vec(certificate(), 0..4).prop_map(Record::Claims),
        1 => (block(), collection::vec((0..9u16).prop_map(ReplicaId), 0..4))
            .prop_map(|(block, candidates)| Record::Ancestor { block, candidates }),
    ]
    .boxed()
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Unnamed),
        any::<u16>().prop_map(|peer| Source::Peer(ReplicaId(peer))),
        any::<u16>().prop_map(|peer| Source::Spreader(ReplicaId(peer))),
        (number(), number()).prop_map(|(source_group, link)| Source::Client { source_group, link }),
    ]
}

fn input() -> BoxedStrategy<Input<ChainedMessage>> {
    let voters = collection::vec(any::<u16>().prop_map(ReplicaId), 0..5);
    prop_oneof![
        1 => Just(Input::Start),
        1 => Just(Input::Forgot),
        1 => Just(Input::Summarize),
        2 => (number(), record()).prop_map(|(id, record)| Input::Recall { id: RecordId(id), record }),
        4 => (any::<u16>(), envelope())
            .prop_map(|(from, message)| Input::Receive { from: ReplicaId(from), message }),
        2 => (collection::vec((bundle(), source()), 0..4), any::<bool>()).prop_map(|(offers, named)| {
            let (bundles, sources) = offers.into_iter().unzip();
            Input::Submit { bundles, sources: if named { sources } else { Vec::new() } }
        }),
        1 => source().prop_map(Input::Left),
        1 => number().prop_map(|origin_ms| Input::Clock { origin_ms }),
        1 => prop::sample::select(&Timer::ALL[..]).prop_map(Input::Timeout),
        1 => (number(), any::<bool>()).prop_map(|(job, genuine)| Input::Verdict { job: Job(job), genuine }),
        1 => (number(), certificate())
            .prop_map(|(job, certificate)| Input::Assembled { job: Job(job), result: Ok(certificate) }),
        1 => (number(), voters).prop_map(|(job, voters)| Input::Assembled { job: Job(job), result: Err(voters) }),
        1 => (number(), digest(), any::<bool>())
            .prop_map(|(height, state, kept)| Input::Executed { height: Height(height), state, kept }),
        1 => certificate().prop_map(|checkpoint| Input::Kept { checkpoint: Box::new(checkpoint) }),
        1 => (any::<u16>(), number(), part(), option::of(bytes())).prop_map(|(to, height, part, bytes)| {
            Input::StateRead { to: ReplicaId(to), height: Height(height), part, bytes }
        }),
        1 => (number(), collection::vec(any::<u32>(), 0..4))
            .prop_map(|(height, chunks)| Input::Holds { height: Height(height), chunks }),
        2 => (certificate(), frontier())
            .prop_map(|(checkpoint, frontier)| Input::Adopted { checkpoint: Box::new(checkpoint), frontier }),
    ]
    .boxed()
}

fn action() -> BoxedStrategy<Action<ChainedMessage>> {
    let to = prop_oneof![any::<u16>().prop_map(|to| To::One(ReplicaId(to))), Just(To::All), Just(To::Others)];
    let after = option::of(number().prop_map(RecordId));
    let mark = prop_oneof![
        (number(), option::of(any::<u16>()))
            .prop_map(|(view, leader)| Mark::EnteredView { view: View(view), leader: leader.map(ReplicaId) }),
        number().prop_map(|view| Mark::TimedOut(View(view))),
        (number(), prop::sample::select(&["one", "two"][..]))
            .prop_map(|(view, rule)| Mark::Refused { view: View(view), rule }),
        number().prop_map(|height| Mark::Stable { height: Height(height) }),
        number().prop_map(|height| Mark::Fetches { height: Height(height) }),
        (number(), digest()).prop_map(|(height, bundle)| Mark::Voided { height: Height(height), bundle }),
        (number(), number()).prop_map(|(from, height)| Mark::Adopted { from: Height(from), height: Height(height) }),
        (any::<u16>(), prop::sample::select(&[Drop::Stale, Drop::Late][..]))
            .prop_map(|(from, why)| Mark::Dropped { from: ReplicaId(from), why }),
    ];
    let timer = || prop::sample::select(&Timer::ALL[..]);
    let votes = || collection::vec(vote(), 0..3);
    prop_oneof![
        4 => (to, envelope(), after, any::<bool>())
            .prop_map(|(to, message, after, sign)| Action::Send { to, message, after, sign }),
        2 => (number(), record()).prop_map(|(id, record)| Action::Persist { id: RecordId(id), record }),
        1 => (number(), collection::vec(certificate(), 0..3), votes())
            .prop_map(|(job, certificates, votes)| Action::Verify { job: Job(job), certificates, votes }),
        1 => (number(), subject(), votes())
            .prop_map(|(job, subject, votes)| Action::Assemble { job: Job(job), subject, votes }),
        1 => (timer(), number()).prop_map(|(timer, nanos)| Action::Arm { timer, after: Duration::from_nanos(nanos) }),
        1 => (digest(), prop::sample::select(&[Refusal::PoolFull, Refusal::Executed, Refusal::Expired][..]))
            .prop_map(|(bundle, why)| Action::Refuse { bundle, why }),
        1 => number().prop_map(|record| Action::AcceptRepair { after: RecordId(record) }),
        1 => (number(), any::<bool>()).prop_map(|(height, diverged)| {
            let height = Height(height);
            Action::Halt(if diverged { Halt::Diverged { height } } else { Halt::Conflict { height } })
        }),
        2 => (block(), collection::vec(bundle(), 0..3)).prop_map(|(block, bundles)| Action::Commit { block, bundles }),
        1 => frontier().prop_map(|frontier| Action::DigestState { frontier }),
        1 => certificate().prop_map(|checkpoint| Action::StateStable { checkpoint: Box::new(checkpoint) }),
        1 => certificate().prop_map(|checkpoint| Action::AdoptState { checkpoint: Box::new(checkpoint) }),
        1 => (any::<u16>(), number(), part())
            .prop_map(|(to, height, part)| Action::ReadState { to: ReplicaId(to), height: Height(height), part }),
        1 => (number(), manifest())
            .prop_map(|(height, manifest)| Action::ReceiveState { height: Height(height), manifest }),
        1 => (number(), any::<u32>(), bytes())
            .prop_map(|(height, chunk, bytes)| Action::KeepChunk { height: Height(height), chunk, bytes }),
        1 => (vote(), vote()).prop_map(|(first, second)| Action::Accuse(Box::new(Evidence { first, second }))),
        3 => mark.prop_map(Action::Mark),
    ]
    .boxed()
}

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
    "174ce7fc4195791d",
    "a0949c75a425ce22",
    "912140c84c517b08",
];

fn pbft() -> BoxedStrategy<PbftMessage> {
    let slots = || collection::vec(subject(), 0..3);
    let certificates = || collection::vec(certificate(), 0..3);
    let declaration = (vote(), subject(), slots(), slots())
        .prop_map(|(vote, checkpoint, prepared, voted)| Declaration { vote, checkpoint, prepared, voted });
    prop_oneof![
        (vote(), block(), collection::vec(bundle(), 0..3)).prop_map(|(endorsement, block, bundles)| {
            PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block, bundles }))
        }),
        vote().prop_map(PbftMessage::Prepare),
        vote().prop_map(PbftMessage::Commit),
        (vote(), certificate(), certificates(), slots(), number()).prop_map(
            |(vote, checkpoint, prepared, voted, committed)| {
                let committed = Height(committed);
                PbftMessage::ViewChange(Box::new(ViewChange { vote, checkpoint, prepared, voted, committed }))
            }
        ),
        (vote(), collection::vec(declaration, 0..3), certificate(), certificates()).prop_map(
            |(endorsement, changes, checkpoint, prepared)| {
                PbftMessage::NewView(Box::new(NewView { endorsement, changes, checkpoint, prepared }))
            }
        ),
        (number(), number())
            .prop_map(|(view, committed)| PbftMessage::Status { view: View(view), committed: Height(committed) }),
        (number(), collection::vec(digest(), 0..4), option::of(certificate())).prop_map(
            |(above, digests, checkpoint)| {
                let checkpoint = checkpoint.map(Box::new);
                PbftMessage::Decided { above: Height(above), digests, checkpoint }
            }
        ),
    ]
    .boxed()
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
    fn any_bytes_decode_to_a_value_or_an_error(noise in collection::vec(any::<u8>(), 0..400), kind in 0..16u8, inner in 0..5u8) {
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
