//! Rewriting of checkpoint votes and of states, which are common to all protocols.

use super::samples::{ME, Mouth, genesis, unsigned};
use quorate_adversary::byzantine::behaviours::{
    CorruptShare, DoubleVote, ForgeState, RepeatOffers, StallState, WithholdVotes,
};
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_consensus::{Action, Envelope, To};
use quorate_types::{Attachment, Digest, Domain, Height, ReplicaId, Subject, View};

type Said = (To, Envelope<ViewMessage>, bool);

fn say(mouth: &mut Mouth<ViewMessage>, to: To, message: Envelope<ViewMessage>, sign: bool) -> Vec<Said> {
    let sent = mouth.rewrite(0, vec![Action::Send { to, message, after: None, sign }]);
    let said = sent.into_iter().map(|action| match action {
        Action::Send { to, message, sign, .. } => (to, message, sign),
        other => panic!("{other:?} is not a message"),
    });
    said.filter(|(to, ..)| *to != To::One(ME)).collect()
}

fn vote() -> Envelope<ViewMessage> {
    let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: Height(10), digest: Digest([1; 32]) };
    Envelope::Checkpoint(unsigned(subject, Attachment::None))
}

fn part(part: u32) -> Envelope<ViewMessage> {
    Envelope::StatePart { height: Height(10), part, bytes: vec![3; 100].into() }
}

const PEER: To = To::One(ReplicaId(2));

#[test]
fn checkpoint_votes_are_rewritten_like_votes() {
    assert_eq!(say(&mut Mouth::new(WithholdVotes), To::All, vote(), true), []);
    let heard = say(&mut Mouth::new(CorruptShare), To::All, vote(), true);
    let [(To::Others, Envelope::Checkpoint(corrupt), false)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(corrupt.signature.len(), 64, "it has a valid length, and the host must not replace it");
    let heard = say(&mut Mouth::new(DoubleVote), To::All, vote(), true);
    let [(.., Envelope::Checkpoint(one), true), (.., Envelope::Checkpoint(other), true)] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!((one.subject.height, one.subject.domain), (other.subject.height, other.subject.domain));
    assert_ne!(one.subject.digest, other.subject.digest);
}

#[test]
fn a_forged_part_differs_in_one_bit_and_keeps_its_length() {
    let mut mouth = Mouth::new(ForgeState);
    for number in [0, 1, 7, 150] {
        let heard = say(&mut mouth, PEER, part(number), false);
        let [(PEER, Envelope::StatePart { height: Height(10), part, bytes }, false)] = &heard[..] else {
            panic!("{heard:?}")
        };
        let bits: u32 = bytes.iter().map(|byte| (byte ^ 3).count_ones()).sum();
        assert_eq!((*part, bytes.len(), bits), (number, 100, 1));
    }
    assert_eq!(say(&mut mouth, To::Others, vote(), true), [(To::Others, vote(), true)], "all else is unchanged");
}

#[test]
fn a_stalling_replica_makes_offers_but_sends_no_parts() {
    let mut mouth = Mouth::new(StallState);
    let offer = Envelope::Offer { checkpoint: Box::new(genesis()) };
    assert_eq!(say(&mut mouth, PEER, offer.clone(), false), [(PEER, offer, false)]);
    assert_eq!(say(&mut mouth, PEER, part(0), false), []);
    assert_eq!(say(&mut mouth, To::Others, vote(), true).len(), 1);
}

#[test]
fn offers_are_repeated_to_their_recipients() {
    let mut mouth = Mouth::new(RepeatOffers);
    assert_eq!(say(&mut mouth, PEER, part(0), false).len(), 1, "nothing was offered yet");
    let offer = Envelope::Offer { checkpoint: Box::new(genesis()) };
    let again = (PEER, offer.clone(), false);
    assert_eq!(say(&mut mouth, PEER, offer, false).len(), 2);
    assert_eq!(say(&mut mouth, PEER, part(0), false), [(PEER, part(0), false), again.clone()]);
    assert_eq!(say(&mut mouth, To::All, vote(), true), [(To::Others, vote(), true), again]);
    assert_eq!(say(&mut mouth, To::One(ReplicaId(3)), part(0), false).len(), 1, "nothing was offered to this one");
}
