//! Certificates that a Byzantine replica assembles from others' messages, and lies that start late.

use super::samples::{ME, Mouth, Sample, assert_fits, genesis, main_certificate, quorum, sends, signed};
use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{
    AssembleCertificate, ForgeEvidence, ForgeState, ShowLate, StaleCertificate,
};
use quorate_consensus::Message;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_consensus::seam::{Job, Role};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Attachment, Certificate, ReplicaId, View};

/// Returns the timeout of replica `from` in view 5, with the replica's number as its signature.
fn timeout<M: Sample>(from: u16, known: &Certificate) -> Input<M> {
    let mut message = M::timeout(5, known);
    let vote = message.vote_to_sign().expect("a timeout is signed");
    (vote.voter, vote.signature) = (ReplicaId(from), vec![from as u8; 64].into());
    Input::Receive { from: ReplicaId(from), message: Envelope::Protocol(message) }
}

fn evidence<M: Sample>(message: &M) -> Certificate {
    let shown = message.certificates();
    shown.into_iter().find(|(role, _)| *role == Role::Evidence).expect("it contains evidence").1.clone()
}

/// With the timeouts of two others, the replica sends its own timeout to itself. Once that is signed, it presents the
/// certificate of the three.
fn assembles<M: Sample>(views: u64, told: u64) {
    let known = M::certificate(&M::chain(4)[3]);
    let mut mouth = Mouth::<M>::new(AssembleCertificate { views });
    mouth.observe(&timeout(1, &known));
    assert_eq!(mouth.rewrite(0, Vec::new()), [], "one timeout is not enough");
    mouth.observe(&timeout(2, &known));
    let own = mouth.rewrite(0, Vec::new());
    let [Action::Send { to: To::One(ME), message: Envelope::Protocol(own), sign: true, .. }] = &own[..] else {
        panic!("it sends its statement to itself for a signature: {own:?}")
    };
    assert_eq!(signed(own).attachment, Attachment::HighView(View(told)));
    let mut own = own.clone();
    own.vote_to_sign().expect("it is signed").signature = vec![0; 64].into();
    mouth.observe(&Input::Receive { from: ME, message: Envelope::Protocol(own) });
    let shown = sends(mouth.rewrite(0, Vec::new()));
    let [(To::Others, shown, false)] = &shown[..] else { panic!("it sends the certificate to all: {shown:?}") };
    let made = evidence(shown);
    assert_eq!((made.view(), made.signers), (View(5), (0..3).map(ReplicaId).collect()));
    let honest = Attachment::HighView(known.view());
    assert_eq!(made.attachments, [Attachment::HighView(View(told)), honest.clone(), honest]);
    let proof: Vec<u8> = (0..3).flat_map(|signer| [signer; 64]).collect();
    assert_eq!(made.proof, proof, "signatures are in the order of their signers");
    assert_eq!(mouth.rewrite(0, Vec::new()), [], "once");
}

#[test]
fn a_certificate_is_assembled_from_others_statements() {
    assembles::<ViewMessage>(1 << 63, (1 << 63) + 4);
    assembles::<ViewMessage>(3, 7);
    assembles::<BasicMessage>(0, 0);
}

#[test]
fn a_forged_timeout_certificate_is_sent_once_per_view() {
    let chain = ViewMessage::chain(4);
    let known = ViewMessage::certificate(&chain[3]);
    let mut mouth = Mouth::<ViewMessage>::new(ForgeEvidence);
    mouth.observe(&timeout(1, &known));
    let said = ViewMessage::timeout(5, &known);
    let heard = mouth.say(&said);
    let [honest, (To::Others, forged, false)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(honest.1, said);
    let evidence = evidence(forged);
    assert_eq!((evidence.view(), evidence.signers.len()), (View(5), quorum().quorum()));
    assert_eq!(mouth.say(&said).len(), 1, "once per view");
}

#[test]
fn a_view_change_claims_a_nonexistent_prepared_block() {
    let known = PbftMessage::certificate(&PbftMessage::chain(4)[3]);
    let mut mouth = Mouth::<PbftMessage>::new(ForgeEvidence);
    let honest = PbftMessage::timeout(6, &known);
    let heard = mouth.say(&honest);
    let [(To::Others, lie, true)] = &heard[..] else { panic!("{heard:?}") };
    assert_fits(lie);
    let prepared = lie.certificates().into_iter().filter(|(role, _)| *role == Role::Prepared);
    let prepared: Vec<Certificate> = prepared.map(|(_, proof)| proof.clone()).collect();
    let [first, claimed] = &prepared[..] else { panic!("{prepared:?}") };
    assert_eq!(*first, known);
    assert_eq!((claimed.view(), claimed.subject.height), (View(5), known.subject.height.next()));
}

fn from_opportunity(kind: impl Into<Fault>, number: u32) -> Fault {
    kind.into().from_opportunity(number).expect("it lies at opportunities")
}

#[test]
fn lies_begin_at_the_chosen_opportunity() {
    let chain = ViewMessage::chain(12);
    let mut mouth = Mouth::<ViewMessage>::new(from_opportunity(StaleCertificate, 3));
    chain.iter().for_each(|block| mouth.hear(ViewMessage::proposal(block.clone())));
    let known = ViewMessage::certificate(&chain[11]);
    mouth.hear(ViewMessage::timeout(13, &known));
    let timeout = ViewMessage::timeout(13, &known);
    let shown: Vec<bool> = (0..4).map(|_| main_certificate(&mouth.say(&timeout)[0].1) == known).collect();
    assert_eq!(shown, [true, true, false, false]);
    let mut mouth = Mouth::<ViewMessage>::new(from_opportunity(ForgeState, 2));
    let part = |part| {
        let message = Envelope::StatePart { height: known.subject.height, part, bytes: vec![1; 8].into() };
        vec![Action::Send { to: To::One(ReplicaId(1)), message, after: None, sign: false }]
    };
    assert_eq!(mouth.rewrite(0, part(0)), part(0));
    assert_ne!(mouth.rewrite(0, part(1)), part(1));
}

#[test]
fn a_certificate_is_shown_late_and_to_one_replica() {
    let chain = ViewMessage::chain(2);
    let newest = ViewMessage::certificate(&chain[1]);
    let mut mouth = Mouth::<ViewMessage>::new(ShowLate);
    let proposal = ViewMessage::proposal(ViewMessage::block(3, &newest, Vec::new()));
    assert_eq!(mouth.say(&proposal).len(), 1, "others may have its certificate");
    mouth.observe(&Input::Assembled { job: Job(1), result: Ok(newest.clone()) });
    assert_eq!(mouth.say(&proposal), [], "nobody else has it");
    for from in [2, 3].map(ReplicaId) {
        let timeout = ViewMessage::timeout(3, &genesis());
        mouth.observe(&Input::Receive { from, message: Envelope::Protocol(timeout) });
    }
    let shown = ViewMessage::Advance { high: Box::new(newest), evidence: None };
    let sent = sends(mouth.rewrite(0, Vec::new()));
    assert_eq!(sent, [(To::One(ReplicaId(2)), shown, false)], "only the first replica that times out sees it");
}
