//! What a new view concludes from claims without proofs: conditions A1, A2 and B of Castro and Liskov, TOCS 2002.

use crate::common::config;
use crate::common::keys::Keys;
use crate::common::random::Random;
use crate::common::told_pbft::PbftMac;
use crate::common::world::World;
use quorate_consensus::protocols::pbft::message::{
    Declaration, MAX_VOTES_PER_SLOT, NewView, PbftMessage, ViewChange, bare,
};
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::protocols::pbft::sets::Sets;
use quorate_consensus::protocols::pbft::showing::Showing;
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Message};
use quorate_types::{
    Attachment, Certificate, ClusterId, Digest, Domain, Height, Quorum, ReplicaId, Subject, View, Vote, decode_message,
    encode_message,
};
use std::time::Duration;

fn p(view: u64, slot: u64, digest: u8) -> Subject {
    Subject { domain: Domain::Prepare, view: View(view), height: Height(slot), digest: Digest([digest; 32]) }
}

fn genesis() -> Subject {
    Certificate::genesis(&ClusterId::from_name("test")).subject
}

fn declare(checkpoint: Subject, prepared: &[Subject], voted: &[Subject]) -> Declaration {
    let digest = Declaration::digest(&checkpoint, prepared, voted);
    let subject = Subject { domain: Domain::ViewChange, view: View(9), height: checkpoint.height, digest };
    let vote = Vote { subject, attachment: Attachment::None, voter: ReplicaId(0), signature: Default::default() };
    Declaration { vote, checkpoint, prepared: prepared.to_vec(), voted: voted.to_vec() }
}

/// Returns what four replicas' quorum of claims leads to: P and Q of each.
fn select(claims: &[(&[Subject], &[Subject])]) -> Option<Vec<Option<Subject>>> {
    let changes: Vec<Declaration> =
        claims.iter().map(|(prepared, voted)| declare(genesis(), prepared, voted)).collect();
    Sets::select(&changes, Quorum::of(4).expect("the size is valid")).map(|selection| selection.slots)
}

#[test]
fn a_prepared_block_is_carried_over() {
    let (one, none) = (p(1, 1, 1), Some(vec![]));
    assert_eq!(select(&[(&[one], &[one]), (&[], &[one]), (&[], &[])]), Some(vec![Some(one)]));
    assert_eq!(select(&[(&[], &[one]), (&[], &[one]), (&[], &[one])]), none, "voted for, and prepared nowhere");
    assert_eq!(select(&[(&[], &[]), (&[], &[]), (&[], &[])]), none);
}

/// A2: one replica can claim anything, f+1 cannot.
#[test]
fn what_too_few_voted_for_was_not_prepared() {
    let (one, other) = (p(1, 1, 1), p(7, 1, 9));
    let liar: (&[Subject], &[Subject]) = (&[other], &[other]);
    assert_eq!(select(&[liar, (&[], &[]), (&[], &[])]), None, "two of three may not have seen what was decided");
    assert_eq!(select(&[liar, (&[], &[]), (&[], &[]), (&[], &[])]), Some(vec![]), "B: three prepared nothing");
    assert_eq!(
        select(&[liar, (&[one], &[one]), (&[], &[one])]),
        None,
        "A1: the liar may be honest, and the others lie"
    );
    let four = select(&[liar, (&[one], &[one]), (&[], &[one]), (&[], &[])]);
    assert_eq!(four, Some(vec![Some(one)]), "three do not oppose it, and two voted for it");
    let older = p(6, 1, 9);
    assert_eq!(
        select(&[liar, (&[], &[older]), (&[], &[])]),
        None,
        "a vote in an earlier view proves nothing of view 7"
    );
}

/// A1: of two blocks that were prepared in different views only the later one can have been decided.
#[test]
fn the_block_of_the_highest_view_wins() {
    let (early, late) = (p(1, 1, 1), p(3, 1, 2));
    let claims: [(&[Subject], &[Subject]); 3] =
        [(&[early], &[early]), (&[late], &[early, late]), (&[early], &[early, late])];
    assert_eq!(select(&claims), Some(vec![Some(late)]));
    let claims: [(&[Subject], &[Subject]); 3] = [(&[early], &[early]), (&[late], &[late]), (&[early], &[early])];
    assert_eq!(select(&claims), None, "only one voted for the later one, and it opposes the earlier one");
}

#[test]
fn a_later_vote_for_the_block_counts_too() {
    let (first, again) = (p(1, 1, 1), p(4, 1, 1));
    assert_eq!(select(&[(&[first], &[again]), (&[], &[again]), (&[], &[])]), Some(vec![Some(first)]));
}

#[test]
fn gaps_become_null_requests_and_the_end_is_cut() {
    let (three, five) = (p(1, 3, 1), p(1, 5, 2));
    let claims: [(&[Subject], &[Subject]); 4] =
        [(&[three], &[three]), (&[three], &[three]), (&[], &[]), (&[five], &[five])];
    assert_eq!(select(&claims), Some(vec![None, None, Some(three)]), "slot 5 has one claim only");
}

#[test]
fn the_highest_checkpoint_is_the_floor() {
    let stable = Subject { domain: Domain::Checkpoint, view: View(0), height: Height(10), digest: Digest([7; 32]) };
    let (below, above) = (p(1, 10, 1), p(1, 11, 2));
    let changes = [
        declare(genesis(), &[below, above], &[below, above]),
        declare(stable, &[], &[above]),
        declare(stable, &[], &[]),
    ];
    let selection = Sets::select(&changes, Quorum::of(4).expect("the size is valid")).expect("it is determined");
    assert_eq!(selection, Selection { stable, slots: vec![Some(above)] });
}

/// Random honest lives of one slot, f liars with any claims: whenever a block was decided, it is carried over, and the
/// claims of all honest replicas always determine something.
#[test]
fn a_decided_block_is_always_carried_over() {
    let (mut decided, mut determined) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let (n, f) = *random.pick(&[(4, 1), (4, 1), (5, 1), (7, 2), (6, 1)]);
        let quorum = Quorum::with_faults(n, f).expect("the shape is valid");
        let honest = n - f;
        let (mut prepared, mut voted) = (vec![None; honest], vec![Vec::<Subject>::new(); honest]);
        let mut fate: Option<Subject> = None;
        let last = 1 + random.below(5);
        for view in 1..=last {
            let quorum_of_claims = select_of(&mut random, quorum, &prepared, &voted, view);
            // A primary that carries over what it must, and is free where nothing was decided.
            let Some(chosen) = quorum_of_claims else { continue };
            let digest = chosen.map_or(10 * view as u8 + random.below(2) as u8, |subject| subject.digest.0[0]);
            if let Some(fate) = fate {
                assert_eq!(Some(fate.digest), chosen.map(|subject| subject.digest), "seed {seed}, view {view}");
            }
            let subject = p(view, 1, digest);
            let votes: Vec<usize> = (0..honest).filter(|_| random.per_mille(700)).collect();
            for voter in &votes {
                voted[*voter].retain(|vote| vote.digest != subject.digest);
                voted[*voter].push(subject);
            }
            if votes.len() + f < quorum.quorum() {
                continue;
            }
            let at: Vec<usize> = (0..honest).filter(|_| random.per_mille(600)).collect();
            at.iter().for_each(|replica| prepared[*replica] = Some(subject));
            if at.len() + f >= quorum.quorum() {
                (fate, decided) = (Some(subject), decided + 1);
            }
        }
        let all: Vec<Declaration> = (0..honest)
            .map(|replica| declare(genesis(), &prepared[replica].into_iter().collect::<Vec<_>>(), &voted[replica]))
            .collect();
        let selection = Sets::select(&all, quorum).expect("the claims of all honest replicas determine the view");
        determined += 1;
        if let Some(fate) = fate {
            assert_eq!(selection.slots[0].map(|subject| subject.digest), Some(fate.digest), "seed {seed}");
        }
    }
    assert!(decided > 1000 && determined == 20_000, "{decided} were decided");
}

/// Returns what the claims of a random quorum, with liars in it, lead to for slot 1.
fn select_of(
    random: &mut Random,
    quorum: Quorum,
    prepared: &[Option<Subject>],
    voted: &[Vec<Subject>],
    view: u64,
) -> Option<Option<Subject>> {
    let mut honest: Vec<usize> = (0..prepared.len()).collect();
    let liars = random.below(quorum.faults() as u64 + 1) as usize;
    while honest.len() + liars > quorum.quorum() {
        honest.remove(random.below(honest.len() as u64) as usize);
    }
    let mut changes: Vec<Declaration> = honest
        .iter()
        .map(|replica| declare(genesis(), &prepared[*replica].into_iter().collect::<Vec<_>>(), &voted[*replica]))
        .collect();
    for _ in 0..liars {
        let lie = p(1 + random.below(view), 1, *random.pick(&[10, 11, 20, 21, 30, 99]));
        let known: Vec<Subject> = voted.iter().flatten().copied().collect();
        let lie = if known.is_empty() || random.per_mille(500) { lie } else { *random.pick(&known) };
        let claims: &[Subject] = if random.per_mille(700) { &[lie] } else { &[] };
        changes.push(declare(genesis(), claims, &[lie]));
    }
    Sets::select(&changes, quorum).map(|selection| selection.slots.first().copied().flatten())
}

#[test]
fn inconsistent_claims_are_refused() {
    let genesis = genesis();
    let fits = |voted: &[Subject]| {
        let change = declare(genesis, &[], voted);
        change.is_well_formed(&genesis, 20) && Sets::declares(&change)
    };
    assert!(fits(&[p(1, 1, 1), p(2, 1, 2), p(1, 20, 1)]));
    assert!(!fits(&[p(1, 21, 1)]), "a slot above the window");
    assert!(!fits(&[p(9, 1, 1)]), "a vote in the requested view");
    assert!(!fits(&[p(1, 1, 1), p(2, 1, 1)]), "a block twice");
    assert!(!fits(&[p(2, 1, 1), p(1, 1, 2)]), "not in ascending views");
    assert!(!fits(&[p(1, 2, 1), p(1, 1, 1)]), "not in ascending slots");
    let many: Vec<Subject> = (1..=MAX_VOTES_PER_SLOT as u64 + 1).map(|view| p(view, 1, view as u8)).collect();
    assert!(fits(&many[1..]));
    assert!(!fits(&many), "more blocks than a replica remembers");
    let mut other = declare(genesis, &[], &[p(1, 1, 1)]);
    other.voted.clear();
    assert!(!other.is_well_formed(&genesis, 20), "not the signed claims");
}

fn view_change(keys: &Keys, voter: u16, prepared: Vec<Certificate>, voted: Vec<Subject>) -> ViewChange {
    let checkpoint = Certificate::genesis(&keys.cluster);
    let subjects: Vec<Subject> = prepared.iter().map(|proof| proof.subject).collect();
    let digest = Declaration::digest(&checkpoint.subject, &subjects, &voted);
    let subject = Subject { domain: Domain::ViewChange, view: View(2), height: Height(0), digest };
    let vote = keys.vote(ReplicaId(voter), subject, Attachment::None);
    ViewChange { vote, checkpoint, prepared, voted, committed: Height(0) }
}

fn small() -> Config {
    Config { window: 20, checkpoint_interval: 10, retained_blocks: 64, ..config::<PbftMac>() }
}

#[test]
fn view_changes_have_one_form_on_the_wire() {
    let keys = World::<PbftMac>::new(4, small(), 1).keys;
    for voted in [vec![], vec![p(1, 1, 1), p(1, 2, 2)]] {
        let change = view_change(&keys, 1, vec![bare(p(1, 1, 1))], voted.clone());
        let declaration = change.declaration();
        let subject = Subject { domain: Domain::Proposal, ..change.vote.subject };
        let endorsement = keys.vote(ReplicaId(1), subject, Attachment::None);
        let checkpoint = change.checkpoint.clone();
        let new_view = NewView { endorsement, changes: vec![declaration], checkpoint, prepared: Vec::new() };
        for message in [PbftMessage::ViewChange(Box::new(change)), PbftMessage::NewView(Box::new(new_view))] {
            let encoded = encode_message(&message);
            assert_eq!(decode_message::<PbftMessage>(encoded.clone()).as_ref(), Ok(&message));
            let (plain, longer) = if encoded[1] % 4 == 0 { (4, 8) } else { (5, 9) };
            assert_eq!(encoded[1], if voted.is_empty() { plain } else { longer }, "{}", message.describe());
            let mut other = encoded.to_vec();
            other[1] = if encoded[1] == plain { longer } else { plain };
            assert!(decode_message::<PbftMessage>(other.into()).is_err(), "a second form");
        }
    }
}

/// A NEW-VIEW whose claims do not determine a selection, or that shows certificates where only
/// claims count, opens nothing.
#[test]
fn a_new_view_that_proves_nothing_is_refused() {
    let mut world = World::<PbftMac>::started(4, small(), 1);
    let keys = world.keys;
    let open = |changes: &[ViewChange], prepared: Vec<Certificate>| {
        let changes: Vec<Declaration> = changes.iter().map(ViewChange::declaration).collect();
        let digest = NewView::digest(&changes);
        let opens = Subject { domain: Domain::Proposal, view: View(2), height: Height(0), digest };
        let endorsement = keys.vote(ReplicaId(1), opens, Attachment::None);
        let checkpoint = Certificate::genesis(&keys.cluster);
        PbftMessage::NewView(Box::new(NewView { endorsement, changes, checkpoint, prepared }))
    };
    let lie = p(1, 1, 9);
    let none = |voter| view_change(&keys, voter, Vec::new(), Vec::new());
    let liar = view_change(&keys, 1, vec![bare(lie)], vec![lie]);
    let undetermined = open(&[liar.clone(), none(2), none(3)], Vec::new());
    let showing = open(&[none(1), none(2), none(3)], vec![bare(lie)]);
    let few = open(&[none(1), none(2)], Vec::new());
    let mut forged = none(3);
    forged.vote.signature = vec![0; 32].into();
    let forged = open(&[none(1), none(2), forged], Vec::new());
    for message in [undetermined, showing, few, forged] {
        world.inject(1, 3, message);
        world.run_for(Duration::from_millis(5));
        assert_eq!(world.replica(3).view(), View(1));
    }
    let dropped = world.replica(3).dropped().clone();
    assert_eq!((dropped.get(&Drop::Malformed), dropped.get(&Drop::NotGenuine)), (Some(&3), Some(&1)));
    world.inject(1, 3, open(&[none(1), none(2), none(3)], Vec::new()));
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.replica(3).view(), View(2), "a sound NEW-VIEW opens the view");
    assert!(world.replica(3).protocol().is_active());
}

/// A replica remembers across views and restarts what it voted for, the last view for each block.
#[test]
fn votes_survive_views_and_restarts() {
    let mut world = World::<PbftMac>::started(4, Config { view_timeout_ms: 50, ..small() }, 1);
    // Nothing is ever prepared, so every new view is free.
    world.network.filter = Some(Box::new(|flight| {
        use crate::common::network::Letter;
        matches!(flight.letter, Letter::Protocol(PbftMessage::Prepare(_)))
    }));
    world.submit(1);
    let voted = |world: &World<PbftMac>, replica: u16| world.replica(replica).protocol().log().voted();
    assert!(
        world.run_until(Duration::from_secs(20), |world| voted(world, 3).iter().any(|vote| vote.view >= View(3))),
        "replica 3 votes in view 3"
    );
    let before = voted(&world, 3);
    world.kill(3);
    world.restart(3, 0);
    assert_eq!(voted(&world, 3), before);
    assert!(before.is_sorted_by(|one, other| (one.height, one.view) < (other.height, other.view)));
}
