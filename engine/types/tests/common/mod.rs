//! Arbitrary values of every wire type.
#![allow(dead_code)]

use bytes::Bytes;
use proptest::prelude::*;
use proptest::{array, collection, option};
use quorate_types::*;

pub fn digest() -> impl Strategy<Value = Digest> {
    array::uniform32(any::<u8>()).prop_map(Digest)
}

pub fn epoch() -> impl Strategy<Value = EpochId> {
    digest().prop_map(EpochId)
}

pub fn replica() -> impl Strategy<Value = ReplicaId> {
    (0u16..256).prop_map(ReplicaId)
}

pub fn view() -> impl Strategy<Value = View> {
    prop_oneof![any::<u64>(), 0u64..5, Just(u64::MAX)].prop_map(View)
}

pub fn height() -> impl Strategy<Value = Height> {
    prop_oneof![any::<u64>(), 0u64..5, Just(u64::MAX)].prop_map(Height)
}

pub fn domain() -> impl Strategy<Value = Domain> {
    proptest::sample::select(Domain::ALL.to_vec())
}

pub fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    collection::vec(any::<u8>(), 0..=most).prop_map(Bytes::from)
}

pub fn subject() -> impl Strategy<Value = Subject> {
    (domain(), view(), height(), digest()).prop_map(|(domain, view, height, digest)| Subject {
        domain,
        view,
        height,
        digest,
    })
}

pub fn signers() -> impl Strategy<Value = Signers> {
    prop_oneof![collection::vec(replica(), 0..7), collection::vec(replica(), 0..300)]
        .prop_map(|replicas| replicas.into_iter().collect())
}

pub fn flat_certificate() -> impl Strategy<Value = Certificate> {
    (subject(), signers(), bytes(40)).prop_map(|(subject, signers, proof)| Certificate {
        subject,
        signers,
        attachments: Vec::new(),
        proof,
    })
}

pub fn telling_attachment() -> impl Strategy<Value = Attachment> {
    prop_oneof![
        view().prop_map(Attachment::HighView),
        flat_certificate().prop_map(|certificate| Attachment::HighCertificate(Box::new(certificate))),
    ]
}

pub fn attachment() -> impl Strategy<Value = Attachment> {
    prop_oneof![Just(Attachment::None), telling_attachment()]
}

pub fn certificate() -> impl Strategy<Value = Certificate> {
    let attached =
        (flat_certificate(), collection::btree_map(replica(), telling_attachment(), 1..5)).prop_map(|(flat, said)| {
            let signers = said.keys().copied().collect();
            Certificate { signers, attachments: said.into_values().collect(), ..flat }
        });
    prop_oneof![flat_certificate(), attached]
}

pub fn vote() -> impl Strategy<Value = Vote> {
    (subject(), attachment(), any::<u16>(), bytes(80)).prop_map(|(subject, attachment, voter, signature)| Vote {
        subject,
        attachment,
        voter: ReplicaId(voter),
        signature,
    })
}

pub fn block() -> impl Strategy<Value = Block> {
    let parts = (view(), any::<u16>(), flat_certificate(), collection::vec(digest(), 0..5), any::<u64>());
    parts.prop_map(|(view, author, mut justify, payload, time_ms)| {
        justify.subject.height.0 = justify.subject.height.0.min(u64::MAX - 1);
        Block::new(view, ReplicaId(author), justify, payload, time_ms)
    })
}

/// A block that names storage certificates for some of its bundles.
pub fn covered_block() -> impl Strategy<Value = Block> {
    (block(), collection::vec(0u8..4, 5)).prop_map(|(block, certificates)| {
        let name = |certificate: &u8| (*certificate > 0).then_some(Digest([*certificate; 32]));
        let names = CoverNames::new(certificates[..block.payload.len()].iter().map(name));
        block.with_covers(names)
    })
}

pub fn client() -> impl Strategy<Value = ClientId> {
    any::<u128>().prop_map(ClientId)
}

/// Random bytes with the lengths of a key and a signature; decoding checks nothing else.
pub fn authenticator() -> impl Strategy<Value = ([u8; 32], [u8; 64])> {
    (array::uniform32(any::<u8>()), array::uniform32(any::<u8>())).prop_map(|(key, half)| {
        let signature = [half, half].concat().try_into().expect("two halves");
        (key, signature)
    })
}

pub fn signed_bundle() -> impl Strategy<Value = Bundle> {
    let commands = collection::vec((any::<u16>(), any::<u64>(), bytes(12)), 1..6);
    let signed = (authenticator(), any::<u16>(), height(), digest().prop_map(ClusterId), commands);
    signed.prop_map(|((key, signature), session, expires, cluster, commands)| {
        let origin = ClientId::of_key(&key).with_session(session);
        filled(origin, expires, &commands).finish_signed(&cluster, 1, &key, |_| Bytes::copy_from_slice(&signature))
    })
}

pub fn unsigned_bundle() -> impl Strategy<Value = Bundle> {
    let commands = collection::vec((any::<u16>(), any::<u64>(), bytes(12)), 1..6);
    let unsigned = (client(), height(), commands);
    unsigned.prop_map(|(origin, expires, commands)| filled(origin, expires, &commands).finish())
}

/// A builder with these commands, each in a session of the origin's owner.
pub fn filled<P: AsRef<[u8]>>(origin: ClientId, expires: Height, commands: &[(u16, u64, P)]) -> BundleBuilder {
    let mut builder = BundleBuilder::new(origin, expires);
    for (session, sequence, payload) in commands {
        builder.push(origin.with_session(*session), *sequence, payload.as_ref());
    }
    builder
}

pub fn bundle() -> impl Strategy<Value = Bundle> {
    prop_oneof![unsigned_bundle(), signed_bundle()]
}

pub fn results() -> impl Strategy<Value = Results> {
    const OTHERS: [Outcome<'_>; 4] = [Outcome::Duplicate, Outcome::Refused, Outcome::Expired, Outcome::Forgotten];
    let outcome = prop_oneof![
        2 => Just(Ok(Bytes::new())),
        1 => bytes(9).prop_map(Ok),
        1 => prop::sample::select(&OTHERS[..]).prop_map(Err)
    ];
    let outcomes = collection::vec(outcome, 0..8).prop_map(|outcomes| {
        Results::collect(outcomes.iter().map(|outcome| match outcome {
            Ok(result) => Outcome::Executed(result),
            Err(other) => *other,
        }))
    });
    prop_oneof![outcomes, (0usize..=limits::MAX_BUNDLE_COMMANDS).prop_map(Results::all_empty)]
}

pub fn request() -> impl Strategy<Value = ClientRequest> {
    prop_oneof![
        bundle().prop_map(ClientRequest::Submit),
        (any::<u64>(), bytes(30)).prop_map(|(id, question)| ClientRequest::Query { id, question }),
        (any::<u64>(), any::<bool>()).prop_map(|(id, history)| ClientRequest::Status { id, history }),
        any::<u64>().prop_map(|id| ClientRequest::Height { id }),
        (any::<u64>(), any::<u16>()).prop_map(|(id, level)| ClientRequest::Support { id, level: FeatureLevel(level) }),
        bytes(96).prop_map(|credential| ClientRequest::Introduce { credential }),
        (bytes(96), bytes(64)).prop_map(|(credential, signature)| ClientRequest::Prove { credential, signature }),
        (any::<u64>(), parameters()).prop_map(|(id, values)| ClientRequest::Compare { id, values }),
    ]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    prop::collection::btree_map("[a-z_]{1,20}", "[ -~]{0,30}", 0..8).prop_map(Parameters::new)
}

pub fn reply() -> impl Strategy<Value = ReplicaReply> {
    prop_oneof![
        (digest(), height(), results()).prop_map(|(bundle, height, results)| ReplicaReply::Executed {
            bundle,
            height,
            results
        }),
        (digest(), any::<String>(), any::<bool>()).prop_map(|(bundle, why, again)| ReplicaReply::Refused {
            bundle,
            why,
            again
        }),
        (any::<u64>(), digest(), height(), bytes(30)).prop_map(|(id, question, height, answer)| ReplicaReply::Answer {
            id,
            question,
            height,
            answer
        }),
        (any::<u64>(), bytes(30)).prop_map(|(id, json)| ReplicaReply::Status { id, json }),
        (any::<u64>(), height()).prop_map(|(id, height)| ReplicaReply::Height { id, height }),
        (digest(), any::<u32>()).prop_map(|(bundle, retry_after_ms)| ReplicaReply::Busy { bundle, retry_after_ms }),
        digest().prop_map(|challenge| ReplicaReply::Challenge { challenge }),
        (any::<u64>(), any::<String>(), any::<bool>()).prop_map(|(id, why, again)| ReplicaReply::Unanswered {
            id,
            why,
            again
        }),
        (any::<u64>(), parameters(), any::<u32>())
            .prop_map(|(id, differing, max_frame_bytes)| { ReplicaReply::Compared { id, differing, max_frame_bytes } }),
        (any::<u32>(), any::<u32>()).prop_map(|(bytes, max_bytes)| ReplicaReply::FrameTooLong { bytes, max_bytes }),
        (any::<u64>(), height(), bytes(64)).prop_map(|(id, until, signature)| ReplicaReply::Supports {
            id,
            support: LevelSupport { until, signature }
        }),
    ]
}

pub fn authenticated() -> impl Strategy<Value = AuthenticatedReplies> {
    (collection::vec(reply(), 1..4), bytes(70)).prop_map(|(replies, authenticator)| {
        let encoded: Vec<Bytes> = replies.iter().map(encode_message).collect();
        let frame = AuthenticatedReplies::encode(&mut Encoder::default(), &encoded, |_| authenticator);
        decode_message(frame).expect("authenticated replies decode from their own encoding")
    })
}

pub fn optional_vote() -> impl Strategy<Value = Option<Vote>> {
    option::of(vote())
}
