//! Copies of messages: which rules are refused, the estimate of the loss, and the copies that are chosen by it.

use quorate_adversary::copies::adaptive::{MIN_SUCCESS, enough, success};
use quorate_adversary::copies::{AdaptiveCopies, Copies, CopyRules, Remedy};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::links::{Purpose, Random};
use quorate_types::{Digest, Domain, Height, Quorum, ReplicaId, Subject, View};

/// A replica that hears its peers over lossy links.
struct Ear {
    remedy: AdaptiveCopies,
    quorum: Quorum,
    random: Random,
    slot: u64,
}

impl Ear {
    fn new(n: usize, seed: u64) -> Ear {
        let quorum = Quorum::of(n).expect("the committee size is valid");
        Ear {
            remedy: AdaptiveCopies::new(quorum, Copies::default()),
            quorum,
            random: Random::new(seed, Purpose::Links, 0),
            slot: 0,
        }
    }

    fn hear(&mut self, from: u16, domain: Domain, view: u64) {
        let subject = Subject { domain, view: View(view), height: Height(self.slot), digest: Digest::ZERO };
        self.remedy.on_vote(ReplicaId(from), &subject);
    }

    /// Lets all peers vote in some slots and loses a part of all copies of their messages. Replica 0 is the primary.
    fn slots(&mut self, count: u64, lost_per_mille: u64, copies: usize) {
        for _ in 0..count {
            self.slot += 1;
            for peer in 1..self.quorum.replicas() as u16 - 1 {
                for domain in [Domain::Prepare, Domain::Commit] {
                    for _ in 0..=copies {
                        if self.random.below(1000) >= lost_per_mille {
                            self.hear(peer, domain, 1);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_estimate_is_the_loss_of_single_copies() {
    for (lost_per_mille, copies) in [(0, 0), (50, 0), (200, 0), (50, 1), (200, 1), (300, 2)] {
        let mut sum = 0.0;
        for seed in 0..40 {
            let mut ear = Ear::new(10, seed);
            ear.slots(100, lost_per_mille, copies);
            sum += ear.remedy.loss().expect("hundreds of votes arrived");
        }
        let (mean, loss) = (sum / 40.0, lost_per_mille as f64 / 1000.0);
        assert!((mean - loss).abs() < 0.01, "estimated {mean:.4}, lost {loss} of {copies} copies and the first");
    }
}

#[test]
fn without_loss_nothing_is_copied() {
    let mut ear = Ear::new(4, 1);
    ear.slots(1000, 0, 0);
    assert_eq!((ear.remedy.loss(), ear.remedy.copies()), (Some(0.0), Copies::default()));
}

#[test]
fn copies_follow_the_loss_up_and_down() {
    let mut ear = Ear::new(4, 1);
    ear.slots(100, 0, 0);
    ear.slots(150, 150, 0);
    let chosen = ear.remedy.copies();
    assert!(success(ear.quorum, 0.15, chosen) > 0.98 && chosen.all > 0 && chosen.replies > 0, "{chosen:?}");
    ear.slots(200, 0, chosen.all);
    assert_eq!(ear.remedy.copies(), Copies::default());
}

#[test]
fn copies_do_not_flap_between_two_numbers() {
    let mut ear = Ear::new(7, 3);
    ear.slots(200, 40, 0);
    let (mut changes, mut last) = (0, ear.remedy.copies());
    for _ in 0..100 {
        ear.slots(16, 40, last.all);
        changes += u64::from(std::mem::replace(&mut last, ear.remedy.copies()) != last);
    }
    assert!(changes <= 4, "{changes} changes in 100 blocks of slots with the same loss");
}

#[test]
fn one_liar_among_four_moves_nothing() {
    let mut ear = Ear::new(7, 1);
    for _ in 0..200 {
        ear.slots(1, 0, 0);
        // It claims to have prepared, and sends no PREPARE; it also votes in slots that nobody has reached.
        ear.hear(6, Domain::Commit, 1);
        let now = std::mem::replace(&mut ear.slot, u64::MAX);
        ear.hear(5, Domain::Commit, 1);
        ear.slot = now;
    }
    assert_eq!(ear.remedy.copies(), Copies::default());
}

#[test]
fn the_copies_that_are_set_are_the_least() {
    let quorum = Quorum::of(4).expect("four replicas");
    let least = Copies { pre_prepare: 1, all: 1, replies: 2 };
    assert_eq!(AdaptiveCopies::new(quorum, least).copies(), least);
}

#[test]
fn no_loss_needs_no_copies_and_all_loss_gets_the_most() {
    let the_most = Copies { pre_prepare: 4, all: 2, replies: 2 };
    for n in [1, 2, 4, 7, 40] {
        let quorum = Quorum::of(n).expect("the committee size is valid");
        assert_eq!(enough(quorum, 0.0), Copies::default(), "n = {n}");
        let most = enough(quorum, 0.6);
        assert!(most == the_most || success(quorum, 0.6, most) >= MIN_SUCCESS, "n = {n}: {most:?}");
        let mut before = 1.0;
        for percent in 0..=100 {
            let now = success(quorum, f64::from(percent) / 100.0, Copies::default());
            assert!(now <= before + 1e-12 && now >= 0.0, "more loss never helps: n = {n}, {percent} %");
            before = now;
        }
    }
}

/// The first ones are enumerated by hand: n = 1 needs no message but its reply.
#[test]
fn the_chance_of_success_is_that_of_the_model() {
    let chance = |n, loss, pre_prepare, all, replies| {
        success(Quorum::of(n).expect("a committee"), loss, Copies { pre_prepare, all, replies })
    };
    assert!((chance(1, 0.5, 0, 0, 0) - 0.5).abs() < 1e-12 && (chance(1, 0.5, 0, 0, 1) - 0.75).abs() < 1e-12);
    // Copies of everything are as good as a lower loss.
    assert!((chance(4, 0.3, 0, 1, 1) - chance(4, 0.09, 0, 0, 0)).abs() < 1e-12);
    assert!(chance(4, 0.1, 1, 0, 0) > chance(4, 0.1, 0, 0, 0) && chance(4, 0.1, 0, 1, 0) > chance(4, 0.1, 1, 0, 0));
    assert!(chance(4, 0.1, 0, 0, 1) > chance(4, 0.1, 0, 0, 0));
}

#[test]
fn rules_without_effect_are_refused_by_name() {
    let key = |rules: CopyRules| rules.validate(ProtocolKind::Jolteon).map_err(|fault| fault.place);
    assert_eq!(key(CopyRules { pre_prepare_repeat: 1, ..CopyRules::default() }), Err("pre_prepare_repeat"));
    assert_eq!(key(CopyRules { remedy: Remedy::Adaptive, ..CopyRules::default() }), Err("remedy"));
    let copied = CopyRules { repeat: 1, ..CopyRules::default() };
    assert_eq!(key(copied), Ok(()), "every protocol has messages to copy");
    let all = CopyRules { pre_prepare_repeat: 1, remedy: Remedy::Adaptive, ..copied };
    assert_eq!(all.validate(ProtocolKind::PbftMac), Ok(()));
}
