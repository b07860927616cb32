//! Conclusions of a new view from claims without proofs: conditions A1, A2 and B of Castro and Liskov, TOCS 2002.

use crate::common::config;
use crate::common::keys::Keys;
use crate::common::random::Random;
use crate::common::told_pbft::PbftMac;
use crate::common::world::World;
use quorate_consensus::protocols::pbft::claims::{is_news, refutes};
use quorate_consensus::protocols::pbft::log::Log;
use quorate_consensus::protocols::pbft::message::{
    Declaration, MAX_VOTES_PER_SLOT, NewView, PbftMessage, ViewChange, bare,
};
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::protocols::pbft::sets::Sets;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Message};
use quorate_types::{
    Attachment, Certificate, Digest, Domain, EpochId, Height, Quorum, ReplicaId, Subject, View, Vote, decode_message,
    encode_message,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn p(view: u64, slot: u64, digest: u8) -> Subject {
    Subject { domain: Domain::Prepare, view: View(view), height: Height(slot), digest: Digest([digest; 32]) }
}

fn genesis() -> Subject {
    Certificate::genesis(&EpochId::of_name("test")).subject
}

fn declare(checkpoint: Subject, prepared: &[Subject], voted: &[Subject]) -> Declaration {
    let digest = Declaration::digest(&checkpoint, prepared, voted);
    let subject = Subject { domain: Domain::ViewChange, view: View(9), height: checkpoint.height, digest };
    let vote = Vote { subject, attachment: Attachment::None, voter: ReplicaId(0), signature: Default::default() };
    Declaration { vote, checkpoint, prepared: prepared.to_vec(), voted: voted.to_vec() }
}

/// Returns the selection that follows from a quorum of claims among four replicas, given P and Q of each.
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

/// A2: one replica can claim anything, f+1 replicas cannot.
#[test]
fn what_too_few_voted_for_was_not_prepared() {
    let (one, other) = (p(1, 1, 1), p(7, 1, 9));
    let liar: (&[Subject], &[Subject]) = (&[other], &[other]);
    assert_eq!(select(&[liar, (&[], &[]), (&[], &[])]), None, "two of three may have missed the decided block");
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

/// A1: of two blocks that were prepared in different views, only the later one can have been decided.
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

/// One replica's knowledge of slot 1. Its claims change by the engine's own code.
struct Life {
    log: Log,
    /// The last NEW-VIEW that it follows.
    follows: Option<(View, Selection)>,
    /// Last view in which the replica may have voted, if it lost its disk and does not vote yet.
    away: Option<View>,
}

impl Life {
    fn begin(away: Option<View>) -> Life {
        Life { log: Log::new(Certificate::genesis(&EpochId::of_name("test")), 20), follows: None, away }
    }

    fn prepared(&self) -> Vec<Subject> {
        self.log.prepared().iter().map(|claim| claim.subject).collect()
    }

    fn declaration(&self) -> Declaration {
        declare(genesis(), &self.prepared(), &self.log.voted())
    }

    fn enter(&mut self, view: View, selection: &Selection) {
        let returns = self.away.take_if(|bound| view > *bound).is_some();
        self.log.follow(view, selection, returns, Height(0));
        self.follows = Some((view, selection.clone()));
        assert!(self.log.voted().len() <= MAX_VOTES_PER_SLOT, "Q is bounded");
    }

    /// Processes the NEW-VIEW that another replica shows in answer to this replica's claims.
    fn is_shown(&mut self, view: View, selection: &Selection) {
        let own = self.follows.as_ref().map_or(View(1), |(view, _)| *view);
        if view > own && is_news(view, selection, &self.prepared(), &self.log.voted(), Height(0)) {
            self.enter(view, selection);
        } else if view == own && refutes(view, selection, &self.prepared()) {
            self.log.refute(view, selection);
        }
    }
}

/// Random histories of one slot over many views: f replicas lie or have lost their disks, one after the other;
/// primaries may open a view twice; NEW-VIEWs, PREPAREs and COMMITs reach all, some or no replicas. Whenever a block
/// was decided, it is carried over. Once the honest replicas with a disk have shown each other their last NEW-VIEWs,
/// their claims determine a selection.
#[test]
fn a_decided_block_is_always_carried_over() {
    let (mut decided, mut returned, mut longest) = (0, 0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let (n, f) = *random.pick(&[(4, 1), (4, 1), (5, 1), (7, 2), (6, 1)]);
        let quorum = Quorum::with_faults(n, f).expect("the shape is valid");
        let liars = random.below(f as u64 + 1) as usize;
        let mut lives: Vec<Life> = (0..n - liars).map(|_| Life::begin(None)).collect();
        let (mut fate, mut next_disk, views) = (None, 0, 1 + random.below(30));
        longest = longest.max(views);
        for view in (1..=views).map(View) {
            let away = lives.iter().filter(|life| life.away.is_some()).count();
            if random.per_mille(300) && away + liars < f {
                lives[next_disk] = Life::begin(Some(view.next()));
                next_disk = (next_disk + 1) % lives.len();
            }
            let is_back = |life: &&Life| life.away.is_none();
            let before = lives.iter().filter(is_back).count();
            let here = open(&mut random, quorum, liars, &mut lives, view, fate);
            returned += lives.iter().filter(is_back).count() - before;
            if let Some(block) = vote(&mut random, quorum, liars, &mut lives, view, &here) {
                (fate, decided) = (Some(block), decided + 1);
            }
        }
        settle(&mut lives);
        let all: Vec<Declaration> = lives.iter().filter(|life| life.away.is_none()).map(Life::declaration).collect();
        let selection = Sets::select(&all, quorum);
        let selection = selection.unwrap_or_else(|| panic!("seed {seed}: {all:#?} determine nothing"));
        if let Some(fate) = fate {
            let carried = selection.slots.first().copied().flatten().map(|subject| subject.digest);
            assert_eq!(carried, Some(fate), "seed {seed}");
        }
    }
    assert!(decided > 1000 && returned > 1000 && longest == 30, "{decided} decided, {returned} returned");
}

/// Opens a view, perhaps twice, each time from the claims of some quorum. Returns the replicas that enter the view.
fn open(
    random: &mut Random,
    quorum: Quorum,
    liars: usize,
    lives: &mut [Life],
    view: View,
    fate: Option<Digest>,
) -> Vec<usize> {
    let mut openings = Vec::new();
    for _ in 0..1 + usize::from(liars > 0 && random.per_mille(300)) {
        match view {
            View(1) => openings.push(Selection { stable: genesis(), slots: Vec::new() }),
            _ => openings.extend(select_of(random, quorum, liars, lives, view)),
        }
    }
    for opening in &openings {
        let carried = opening.slots.first().copied().flatten().map(|subject| subject.digest);
        assert!(fate.is_none() || carried == fate, "{view:?} carries {carried:?} over, but {fate:?} was decided");
    }
    let reach = random.below(1000);
    let mut here = Vec::new();
    for (replica, life) in lives.iter_mut().enumerate() {
        if !openings.is_empty() && random.per_mille(reach) {
            if view > View(1) {
                life.enter(view, random.pick(&openings));
            }
            here.push(replica);
        }
    }
    here
}

/// Lets the replicas in a view vote for the block that their NEW-VIEW carries over, or for one of two that the primary
/// proposes. Returns the digest of the decided block, if there is one.
fn vote(
    random: &mut Random,
    quorum: Quorum,
    liars: usize,
    lives: &mut [Life],
    view: View,
    here: &[usize],
) -> Option<Digest> {
    let twice = liars > 0;
    let mut votes: BTreeMap<Digest, usize> = BTreeMap::new();
    for replica in here {
        let life = &mut lives[*replica];
        let carried = life.follows.as_ref().and_then(|(_, selection)| selection.at(Height(1)).copied());
        let proposed = Digest([10 + view.0 as u8 * 2 + u8::from(twice && random.per_mille(300)); 32]);
        let digest = carried.map_or(proposed, |subject| subject.digest);
        if life.away.is_none() && random.per_mille(700) {
            life.log.slot(Height(1)).note_vote(Subject { digest, ..p(view.0, 1, 0) });
            *votes.entry(digest).or_default() += 1;
        }
    }
    let (digest, _) = votes.into_iter().find(|(_, count)| count + liars >= quorum.quorum())?;
    let subject = Subject { digest, ..p(view.0, 1, 0) };
    let mut commits = liars;
    for replica in here {
        let life = &mut lives[*replica];
        if life.away.is_none() && random.per_mille(600) {
            life.log.slot(Height(1)).prepared = Some(bare(subject));
            commits += 1;
        }
    }
    (commits >= quorum.quorum()).then_some(digest)
}

/// Returns the selection that follows from the claims of a random quorum with liars in it.
fn select_of(random: &mut Random, quorum: Quorum, liars: usize, lives: &[Life], view: View) -> Option<Selection> {
    let mut honest: Vec<usize> = (0..lives.len()).collect();
    let liars = random.below(liars as u64 + 1) as usize;
    let more = random.below(2) as usize;
    while honest.len() + liars > quorum.quorum() + more {
        honest.remove(random.below(honest.len() as u64) as usize);
    }
    let mut changes: Vec<Declaration> = honest.iter().map(|replica| lives[*replica].declaration()).collect();
    let known: Vec<Subject> = lives.iter().flat_map(|life| life.log.voted()).collect();
    for _ in 0..liars {
        let lie = p(1 + random.below(view.0 - 1), 1, *random.pick(&[10, 11, 20, 21, 30, 99]));
        let lie = if known.is_empty() || random.per_mille(300) { lie } else { *random.pick(&known) };
        let claims: &[Subject] = if random.per_mille(700) { &[lie] } else { &[] };
        changes.push(declare(genesis(), claims, &[lie]));
    }
    Sets::select(&changes, quorum)
}

/// Makes all honest replicas with a disk show each other the last NEW-VIEWs that they follow.
fn settle(lives: &mut [Life]) {
    for _ in 0..3 {
        let shown: Vec<(View, Selection)> =
            lives.iter().filter(|life| life.away.is_none()).filter_map(|life| life.follows.clone()).collect();
        for life in lives.iter_mut().filter(|life| life.away.is_none()) {
            shown.iter().for_each(|(view, selection)| life.is_shown(*view, selection));
        }
    }
}

/// Two honest claims for one view oppose each other: a replica that lost its disk took one over, which a liar had
/// invented, and a quorum had prepared the other block. The NEW-VIEW from which the first claim was taken over refutes
/// the other claim.
#[test]
fn opposed_claims_for_one_view_end_when_the_new_view_is_shown() {
    let quorum = Quorum::of(4).expect("the size is valid");
    let (genuine, invented, later) = (p(3, 1, 1), p(3, 1, 2), p(4, 1, 2));
    let holder = declare(genesis(), &[genuine], &[genuine]);
    let opening = [
        declare(genesis(), &[invented], &[invented]),
        declare(genesis(), &[], &[later]),
        declare(genesis(), &[], &[genuine]),
    ];
    let selection = Sets::select(&opening, quorum).expect("a liar and one honest replica vouch for the block");
    assert_eq!(selection.slots, [Some(invented)]);
    let mut lives: Vec<Life> = (0..3).map(|_| Life::begin(None)).collect();
    lives[0].log.slot(Height(1)).prepared = Some(bare(genuine));
    lives[0].log.slot(Height(1)).note_vote(genuine);
    lives[1].log.slot(Height(1)).note_vote(genuine);
    lives[2] = Life::begin(Some(View(5)));
    lives[2].enter(View(6), &selection);
    assert_eq!(lives[2].prepared(), [invented]);
    let declared = |lives: &[Life]| lives.iter().map(Life::declaration).collect::<Vec<_>>();
    assert_eq!(lives[0].declaration(), holder);
    assert_eq!(Sets::select(&declared(&lives), quorum), None, "the claims for view 3 oppose each other");
    settle(&mut lives);
    assert_eq!(Sets::select(&declared(&lives), quorum).expect("it is determined").slots, [Some(invented)]);
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
    let checkpoint = Certificate::genesis(&keys.epoch);
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

/// A NEW-VIEW opens nothing if its claims do not determine a selection, or if it shows certificates where only claims
/// count.
#[test]
fn a_new_view_that_proves_nothing_is_refused() {
    let mut world = World::<PbftMac>::started(4, small(), 1);
    let keys = world.keys;
    let open = |changes: &[ViewChange], prepared: Vec<Certificate>| {
        let changes: Vec<Declaration> = changes.iter().map(ViewChange::declaration).collect();
        let digest = NewView::digest(&changes);
        let opens = Subject { domain: Domain::Proposal, view: View(2), height: Height(0), digest };
        let endorsement = keys.vote(ReplicaId(1), opens, Attachment::None);
        let checkpoint = Certificate::genesis(&keys.epoch);
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

/// A replica remembers its votes across views and restarts, for each block the last view in which it voted.
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
