//! Cost of a request compared with the message count of the loss-model paper, and the three phases in isolation.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::told_pbft::{Pbft, Phases, copy_messages};
use crate::common::world::World;
use quorate_adversary::copies::CopyRules;
use quorate_consensus::config::Dissemination;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::{Config, Mark};
use quorate_types::{Quorum, ReplicaId};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Count {
    pre_prepare: usize,
    prepare: usize,
    commit: usize,
    others: usize,
}

fn core() -> Config {
    Config { dissemination: Dissemination::Leader, ..config::<Phases>() }
}

/// Returns a world whose replicas send copies of their messages.
fn world<P: Play<Message = PbftMessage>>(quorum: Quorum, config: Config, copies: CopyRules, seed: u64) -> World<P> {
    let mut world = World::<P>::with_quorum(quorum, config, seed);
    copy_messages(&mut world, copies);
    world
}

fn copies(pre_prepare_repeat: usize, repeat: usize) -> CopyRules {
    CopyRules { pre_prepare_repeat, repeat, ..CopyRules::default() }
}

fn sent_for_one_request<P: Play<Message = PbftMessage>>(quorum: Quorum, config: Config, copies: CopyRules) -> Count {
    let count = Rc::new(RefCell::new(Count::default()));
    let counter = count.clone();
    let mut world = world::<P>(quorum, config, copies, 1);
    world.network.filter = Some(Box::new(move |flight| {
        let mut count = counter.borrow_mut();
        match flight.letter {
            Letter::Protocol(PbftMessage::PrePrepare(_)) => count.pre_prepare += 1,
            Letter::Protocol(PbftMessage::Prepare(_)) => count.prepare += 1,
            Letter::Protocol(PbftMessage::Commit(_)) => count.commit += 1,
            _ => count.others += 1,
        }
        false
    }));
    world.start();
    let command = world.submit(1);
    assert!(world.run_until_done(Duration::from_secs(1), &command));
    world.run_for(Duration::from_secs(10));
    let sent = *count.borrow();
    assert_eq!(world.messages as usize, sent.pre_prepare + sent.prepare + sent.commit + sent.others);
    sent
}

/// Loruenser, Rainer and Wohner count (r+1)n + 2n^2 + f + 1 messages for the view-consensus core, where r is the number
/// of repetitions of PRE-PREPARE. This test compares their count, line by line, with the messages that cross a link
/// here.
#[test]
fn messages_of_one_request_match_the_paper() {
    for (n, f) in [(4, 1), (5, 1), (6, 1), (7, 2), (10, 3), (16, 3)] {
        for r in 0..3 {
            let quorum = Quorum::with_faults(n, f).expect("the committee shape is valid");
            let sent = sent_for_one_request::<Phases>(quorum, core(), copies(r, 0));
            // Messages of this implementation, plus those that the paper counts and this implementation does not send.
            let to_itself_pre_prepare = r + 1; // The primary's PRE-PREPAREs to itself; here they use the loopback.
            let pre_prepare = sent.pre_prepare + to_itself_pre_prepare;
            let to_itself_prepare = n - 1; // n-1 backups send PREPARE to themselves too.
            let by_the_primary = n; // The primary sends PREPARE to all n replicas; here its PRE-PREPARE is its PREPARE.
            let prepare = sent.prepare + to_itself_prepare + by_the_primary;
            let to_itself_commit = n; // n replicas send COMMIT to themselves too.
            let commit = sent.commit + to_itself_commit;
            let replies = f + 1; // Enough for the client; here all n replicas reply, outside the consensus core.
            assert_eq!(pre_prepare, (r + 1) * n, "PRE-PREPARE: {sent:?}");
            assert_eq!((prepare, commit), (n * n, n * n), "PREPARE and COMMIT: {sent:?}");
            assert_eq!(pre_prepare + prepare + commit + replies, (r + 1) * n + 2 * n * n + f + 1);
            assert_eq!(sent.others, 0, "no other messages are sent");
        }
    }
}

#[test]
fn the_whole_protocol_sends_no_more_than_its_core() {
    let quorum = Quorum::of(4).expect("the committee size is valid");
    let whole = sent_for_one_request::<Pbft>(quorum, config::<Pbft>(), copies(0, 0));
    assert_eq!(whole, sent_for_one_request::<Phases>(quorum, core(), copies(0, 0)));
}

#[test]
fn every_message_is_copied() {
    let quorum = Quorum::of(4).expect("the committee size is valid");
    let sent = |pre_prepare, all| sent_for_one_request::<Phases>(quorum, core(), copies(pre_prepare, all));
    let once = sent(0, 0);
    let copied = |pre_prepare, votes| Count {
        pre_prepare: pre_prepare * once.pre_prepare,
        prepare: votes * once.prepare,
        commit: votes * once.commit,
        others: once.others,
    };
    assert_eq!(sent(0, 2), copied(3, 3));
    assert_eq!(sent(3, 2), copied(4, 3));
    assert_eq!(sent(1, 2), copied(3, 3), "the larger number counts");
}

/// Returns how many of `runs` requests, each in its own cluster, are decided by f+1 replicas.
fn successes(runs: u64, lost_per_mille: u64, repeat: usize) -> u64 {
    let decided = |seed: &u64| {
        let quorum = Quorum::of(4).expect("the committee size is valid");
        let mut world = world::<Phases>(quorum, core(), copies(repeat, 0), *seed);
        world.network.lost_per_mille = lost_per_mille;
        world.network.random = Random::new(*seed ^ 0x1055);
        world.start();
        world.submit(1);
        world.run_for(Duration::from_secs(60));
        assert!(world.is_quiet(), "no event is pending");
        assert_eq!(world.view_timeouts(), 0, "no view times out");
        let decides =
            |replica: &ReplicaId| world.marks(replica.0).iter().any(|mark| matches!(mark, Mark::Decided { .. }));
        world.replicas().iter().filter(|replica| decides(replica)).count() >= 2
    };
    (0..runs).filter(decided).count() as u64
}

#[test]
fn the_three_phases_alone_succeed_or_fail_and_repeating_pre_prepare_helps() {
    assert_eq!(successes(50, 0, 0), 50, "without loss every request is decided");
    let (once, twice) = (successes(400, 200, 0), successes(400, 200, 1));
    assert!(once > 0 && once < 400, "with loss, some requests fail: {once} of 400 are decided");
    assert!(twice > once, "{twice} decided with a repetition, {once} without");
}
