//! Strategies for values of the wire format and of recordings.

use crate::unit_support::genesis;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::{array, collection, option};
use quorate_consensus::data::batches::{Batch, Cover, Entry};
use quorate_consensus::data::lanes::Source;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::message::{ChainedMessage, Proposal, Timeout};
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage, PrePrepare, ViewChange};
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::recovery::journal::{Record, Standing};
use quorate_consensus::seam::{Drop, Job, RecordId};
use quorate_consensus::voting::safety::{Promise, timeout_subject};
use quorate_consensus::{Action, Envelope, Evidence, Halt, Input, Mark, Refusal, Timer, To};
use quorate_types::*;
use std::sync::Arc;
use std::time::Duration;

pub fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6u64, 1 => any::<u64>(), 1 => u64::MAX - 2..=u64::MAX]
}

pub fn digest() -> impl Strategy<Value = Digest> {
    prop_oneof![Just(genesis().subject.digest), Just(Digest::ZERO), array::uniform32(any::<u8>()).prop_map(Digest)]
}

pub fn subject() -> BoxedStrategy<Subject> {
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

pub fn bytes() -> impl Strategy<Value = Bytes> {
    collection::vec(any::<u8>(), 0..70).prop_map(Bytes::from)
}

pub fn flat_certificate() -> BoxedStrategy<Certificate> {
    let any = (subject(), collection::btree_set(0..256u16, 0..6), bytes()).prop_map(|(subject, signers, proof)| {
        Certificate { subject, signers: signers.into_iter().map(ReplicaId).collect(), attachments: Vec::new(), proof }
    });
    prop_oneof![4 => any, 1 => Just(genesis())].boxed()
}

pub fn telling() -> BoxedStrategy<Attachment> {
    let whole = flat_certificate().prop_map(|certificate| Attachment::HighCertificate(Box::new(certificate)));
    prop_oneof![number().prop_map(|view| Attachment::HighView(View(view))), whole].boxed()
}

pub fn certificate() -> BoxedStrategy<Certificate> {
    let said = collection::btree_map(0..256u16, telling(), 1..5);
    let aggregate = (flat_certificate(), said).prop_map(|(flat, said)| Certificate {
        signers: said.keys().copied().map(ReplicaId).collect(),
        attachments: said.into_values().collect(),
        ..flat
    });
    prop_oneof![2 => flat_certificate(), 1 => aggregate].boxed()
}

pub fn vote() -> BoxedStrategy<Vote> {
    let attachment = prop_oneof![Just(Attachment::None), telling()];
    let voter = prop_oneof![4 => 0..5u16, 1 => any::<u16>()].prop_map(ReplicaId);
    (subject(), attachment, voter, bytes())
        .prop_map(|(subject, attachment, voter, signature)| Vote { subject, attachment, voter, signature })
        .boxed()
}

pub fn block() -> BoxedStrategy<Arc<Block>> {
    (number(), 0..5u16, flat_certificate(), collection::vec(digest(), 0..4))
        .prop_map(|(view, author, mut justify, payload)| {
            justify.subject.height.0 = justify.subject.height.0.min(u64::MAX - 1);
            Arc::new(Block::new(View(view), ReplicaId(author), justify, payload, 0))
        })
        .boxed()
}

pub fn bundle() -> BoxedStrategy<Bundle> {
    (0..9u64, collection::vec((any::<u64>(), bytes()), 1..4))
        .prop_map(|(client, commands)| {
            let mut builder = BundleBuilder::new(ClientId(client.into()), Height(0).latest_expiry());
            commands.iter().for_each(|(sequence, payload)| builder.push(ClientId(client.into()), *sequence, payload));
            builder.finish()
        })
        .boxed()
}

pub fn batch() -> impl Strategy<Value = Arc<Batch>> {
    let entry =
        (digest(), any::<u32>(), any::<u32>()).prop_map(|(bundle, commands, bytes)| Entry { bundle, commands, bytes });
    (0..5u16, number(), number(), collection::vec(entry, 0..4)).prop_map(|(spreader, number, until, entries)| {
        Arc::new(Batch::new(ReplicaId(spreader), number, Height(until), entries))
    })
}

pub fn cover() -> impl Strategy<Value = Cover> {
    (batch(), certificate(), any::<bool>()).prop_map(|(batch, mut certificate, fitting)| {
        if fitting {
            certificate.subject = batch.subject();
        }
        Cover { batch, certificate }
    })
}

pub fn proposal() -> BoxedStrategy<Proposal> {
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

pub fn timeout() -> BoxedStrategy<Timeout> {
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

pub fn message() -> BoxedStrategy<ChainedMessage> {
    prop_oneof![
        3 => proposal().prop_map(|proposal| ChainedMessage::Proposal(Arc::new(proposal))),
        1 => vote().prop_map(ChainedMessage::Vote),
        2 => timeout().prop_map(|timeout| ChainedMessage::Timeout(Arc::new(timeout))),
        1 => (certificate(), option::of(certificate()))
            .prop_map(|(high, evidence)| {
                let evidence = evidence.map(Box::new);
                ChainedMessage::Advance { high: Box::new(high), evidence }
            }),
    ]
    .boxed()
}

pub fn envelope() -> BoxedStrategy<Envelope<ChainedMessage>> {
    prop_oneof![
        6 => message().prop_map(Envelope::Protocol),
        1 => (digest(), number(), any::<u16>())
            .prop_map(|(digest, above, most)| Envelope::FetchBlocks { digest, above: Height(above), most }),
        1 => collection::vec(block(), 0..4).prop_map(Envelope::Blocks),
        1 => collection::vec(digest(), 0..9).prop_flat_map(|digests| {
            number().prop_map(move |above| Envelope::FetchBundles { digests: digests.clone(), above: Height(above) })
        }),
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

pub fn part() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4u32, 1 => any::<u32>()]
}

/// Generates manifests of states of one or more chunks. The last chunk may be short.
pub fn manifest() -> impl Strategy<Value = Manifest> {
    (1..700_000usize, any::<u8>()).prop_map(|(length, byte)| Manifest::of(&vec![byte; length]))
}

/// Generates frontiers of a chain or of slots.
pub fn frontier() -> BoxedStrategy<Frontier> {
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

pub fn standing() -> impl Strategy<Value = Standing> {
    (collection::vec(certificate(), 0..3), collection::vec(vote(), 0..3))
        .prop_map(|(certificates, votes)| Standing { certificates, votes })
}

/// Converts a message for basic HotStuff, in which some messages begin a phase.
pub fn basic(envelope: Envelope<ChainedMessage>, phase: Option<Certificate>) -> Envelope<BasicMessage> {
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
pub fn phase() -> impl Strategy<Value = Option<Certificate>> {
    option::weighted(0.25, certificate())
}

pub fn record() -> BoxedStrategy<Record> {
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
        1 => number().prop_map(|view| Record::Stopped { proposed: View(view) }),
        1 => standing().prop_map(Record::Standing),
        1 => collection::vec(certificate(), 0..4).prop_map(Record::Claims),
        1 => (block(), collection::vec((0..9u16).prop_map(ReplicaId), 0..4))
            .prop_map(|(block, candidates)| Record::Ancestor { block, candidates }),
    ]
    .boxed()
}

pub fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Unnamed),
        any::<u16>().prop_map(|peer| Source::Peer(ReplicaId(peer))),
        any::<u16>().prop_map(|peer| Source::Spreader(ReplicaId(peer))),
        (number(), number()).prop_map(|(source_group, link)| Source::Client { source_group, link }),
    ]
}

pub fn input() -> BoxedStrategy<Input<ChainedMessage>> {
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

pub fn action() -> BoxedStrategy<Action<ChainedMessage>> {
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

pub fn pbft() -> BoxedStrategy<PbftMessage> {
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
