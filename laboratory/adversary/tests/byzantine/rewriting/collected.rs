//! Bundles that a Byzantine replica keeps for relays and oversized blocks.

use super::samples::{ME, Mouth, Sample, assert_fits, genesis, unsigned};
use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{
    EquivocateBatches, FloodRelays, ForgeAcknowledgements, HoardCertificates, Overfill, Replay, SpreadToOne,
    WithholdAcknowledgements, WithholdBundles,
};
use quorate_consensus::data::batches::{Batch, Entry};
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Attachment, Bundle, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::sync::Arc;

/// Returns the bundles relayed to the others when the replica sends a message.
fn relayed(mouth: &mut Mouth<ViewMessage>) -> Vec<Vec<Digest>> {
    let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: Height(10), digest: Digest([1; 32]) };
    let message = Envelope::Checkpoint(unsigned(subject, Attachment::None));
    let sent = mouth.rewrite(0, vec![Action::Send { to: To::Others, message, after: None, sign: true }]);
    let relay = |action: &Action<ViewMessage>| match action {
        Action::Send { to: To::Others, message: Envelope::Relay(bundles), sign: false, .. } => {
            Some(bundles.iter().map(Bundle::digest).collect())
        }
        Action::Send { to: To::Others, message: Envelope::Checkpoint(_), .. } => None,
        other => panic!("{other:?}"),
    };
    sent.iter().filter_map(relay).collect()
}

#[test]
fn new_bundles_are_relayed_at_once_and_old_ones_in_turn() {
    let mut mouth = Mouth::new(FloodRelays { bundles: 2 });
    assert_eq!(relayed(&mut mouth), [[]; 0], "there is nothing to relay");
    let sent = mouth.submit(&[b"one", b"two", b"three"]);
    assert_eq!(mouth.rewrite(0, Vec::new()), [], "it has nothing to say");
    assert_eq!(relayed(&mut mouth), [[&sent[..], &sent[..2]].concat()]);
    assert_eq!(relayed(&mut mouth), [[sent[2], sent[0]]]);
    assert_eq!(relayed(&mut mouth), [[sent[1], sent[2]]]);
}

#[test]
fn a_relay_is_no_larger_than_an_honest_one() {
    let mut mouth = Mouth::new(FloodRelays { bundles: 0 });
    let commands: Vec<[u8; 2]> = (0..300u16).map(u16::to_be_bytes).collect();
    mouth.submit(&commands.iter().map(|command| &command[..]).collect::<Vec<_>>());
    assert_eq!(relayed(&mut mouth).iter().map(Vec::len).collect::<Vec<_>>(), [256, 44]);
}

/// Returns the recipients of the bundles that the replica spreads.
fn spread(fault: Fault) -> Vec<To> {
    let mut mouth = Mouth::<ViewMessage>::new(fault);
    let message = Envelope::Spread(Vec::new());
    let sent = mouth.rewrite(0, vec![Action::Send { to: To::Others, message, after: None, sign: false }]);
    let recipient = |action: &Action<ViewMessage>| match action {
        Action::Send { to, message: Envelope::Spread(_), .. } => *to,
        other => panic!("{other:?}"),
    };
    sent.iter().map(recipient).collect()
}

#[test]
fn bundles_are_spread_to_one_replica_or_none() {
    assert_eq!(spread(Replay.into()), [To::Others]);
    assert_eq!(spread(WithholdBundles.into()), []);
    let next = ReplicaId((ME.0 + 1) % 4);
    assert_eq!(spread(SpreadToOne { recipient: None }.into()), [To::One(next)]);
    assert_eq!(spread(SpreadToOne { recipient: Some(ReplicaId(3)) }.into()), [To::One(ReplicaId(3))]);
}

fn overfills<M: Sample>() {
    let block = M::chain(1).remove(0);
    let mut mouth = Mouth::<M>::new(Overfill { bundles: 2 });
    assert_eq!(mouth.say(&M::proposal(block.clone()))[0].1, M::proposal(block.clone()), "there is nothing to add");
    let sent = mouth.submit(&[b"one", b"two", b"three"]);
    let heard = mouth.say(&M::proposal(block.clone()));
    let [(To::Others, lie, true)] = &heard[..] else { panic!("{heard:?}") };
    assert_fits(lie);
    let payload = &lie.proposed().expect("it proposes").0.payload;
    assert_eq!(*payload, [&block.payload[..], &[sent[2], sent[1]]].concat());
    let votes = mouth.say(&M::vote(&block));
    let vote = votes[0].1.clone().vote_to_sign().expect("it is signed").clone();
    assert_eq!((vote.voter, vote.subject.digest), (ME, lie.proposed().expect("it proposes").0.digest()));
}

#[test]
fn an_oversized_block_gets_the_vote_of_its_proposer() {
    overfills::<ViewMessage>();
    overfills::<BasicMessage>();
    overfills::<PbftMessage>();
}

/// Returns the messages sent to others instead of these.
fn instead(fault: Fault, messages: Vec<Envelope<ViewMessage>>) -> Vec<(To, Envelope<ViewMessage>)> {
    let mut mouth = Mouth::<ViewMessage>::new(fault);
    let send = |message| Action::Send { to: To::Others, message, after: None, sign: true };
    let sent = mouth.rewrite(0, messages.into_iter().map(send).collect());
    let content = |action| match action {
        Action::Send { to, message, .. } => (to, message),
        other => panic!("{other:?}"),
    };
    sent.into_iter().map(content).collect()
}

#[test]
fn acknowledgements_are_withheld_or_forged_and_batches_contradict_each_other() {
    let entry = Entry { bundle: Digest([1; 32]), commands: 1, bytes: 100 };
    let batch = Arc::new(Batch::new(ME, 7, Height(9), vec![entry]));
    let stored = || Envelope::Stored(unsigned(batch.subject(), Attachment::None));
    assert_eq!(instead(WithholdAcknowledgements.into(), vec![stored()]), []);
    let forged = instead(ForgeAcknowledgements.into(), vec![stored(), Envelope::Batch(batch.clone())]);
    let [
        (_, Envelope::Stored(vote)),
        (_, Envelope::Batch(honest)),
        (_, Envelope::Certified(alone)),
        (_, Envelope::Covers(covers)),
    ] = &forged[..]
    else {
        panic!("{forged:?}")
    };
    assert!(!vote.signature.is_empty(), "the host does not sign it");
    assert_eq!(*honest, batch);
    assert!(covers[0].is_well_formed() && covers[0].certificate == **alone, "only the signatures are missing");
    let listed = instead(EquivocateBatches.into(), vec![Envelope::Batch(batch.clone())]);
    let mut subjects = Vec::new();
    for (to, message) in &listed {
        let (To::One(_), Envelope::Batch(batch)) = (to, message) else { panic!("{listed:?}") };
        subjects.push(batch.subject());
    }
    assert!(subjects.iter().all(|subject| subject.height == Height(7)), "one number");
    subjects.sort_unstable();
    subjects.dedup();
    assert_eq!(subjects.len(), 3, "each of the others gets another list");
}

#[test]
fn bundles_are_certified_twice_and_each_certificate_is_shown_to_those_who_did_not_sign_it() {
    let entry = Entry { bundle: Digest([1; 32]), commands: 1, bytes: 100 };
    let batch = Arc::new(Batch::new(ME, 7, Height(9), vec![entry]));
    let others = [1, 2, 3].map(ReplicaId);
    let mut mouth = Mouth::<ViewMessage>::new(HoardCertificates);
    let listed = |actions: &[Action<ViewMessage>]| -> Vec<(ReplicaId, Arc<Batch>)> {
        let lists = |action: &Action<ViewMessage>| match action {
            Action::Send { to: To::One(to), message: Envelope::Batch(batch), .. } => Some((*to, batch.clone())),
            _ => None,
        };
        actions.iter().filter_map(lists).collect()
    };
    let sent = |to, message| vec![Action::Send { to, message, after: None, sign: false }];
    let first = mouth.rewrite(0, sent(To::Others, Envelope::Batch(batch.clone())));
    assert!(first.len() == 2 && listed(&first).iter().all(|(_, listed)| *listed == batch));
    let due = mouth.next().expect("the double follows");
    let later = mouth.due(due);
    let second = listed(&later);
    assert!(matches!(
        &later[..],
        [_, _, Action::Send { to: To::One(ME), message: Envelope::Stored(_), sign: true, .. }]
    ));
    let double = second[0].1.clone();
    assert!(double != batch && double.entries() == batch.entries());
    for voter in second.iter().map(|(to, _)| *to).chain([ME]) {
        let vote = Vote { voter, ..unsigned(double.subject(), Attachment::None) };
        mouth.observe(&Input::Receive { from: voter, message: Envelope::Stored(vote) });
    }
    let proposal = ViewMessage::proposal(ViewMessage::block(1, &genesis(), vec![entry.bundle]));
    let shown = mouth.rewrite(1, sent(To::Others, Envelope::Protocol(proposal)));
    let [Action::Send { to: To::One(to), message: Envelope::Covers(covers), .. }, _] = &shown[..] else {
        panic!("a certificate, and the proposal: {shown:?}")
    };
    assert!(others.contains(to) && second.iter().all(|(signer, _)| signer != to), "it did not sign");
    assert!(covers[0].batch == double && covers[0].is_well_formed());
    let own = sent(To::One(ME), Envelope::Stored(unsigned(batch.subject(), Attachment::None)));
    assert_eq!(mouth.rewrite(2, own), [], "it acknowledges its own batch late");
    assert!(mouth.next() > Some(due));
}
