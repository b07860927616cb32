//! Exhibits about incomplete rules: for the lock, for the bound of a table, for the record of executed bundles.

use super::by_rules::by_rules;
use super::scene::{
    Ending, Jolteons, Play, Setting, builds_on, genesis, go_on, leaders, only, play_jolteon, play_jolteon_with,
    play_pbft, pre_prepare, run, short_memory, unjudged, unsigned,
};
use crate::twins::checker::Property;
use crate::twins::participants::InstanceId;
use crate::twins::world::world_config;
use bytes::Bytes;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::message::{ChainedMessage, Timeout};
use quorate_consensus::protocols::pbft::message::{MAX_DECIDED, PbftMessage};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Config, Envelope};
use quorate_types::{
    Attachment, Block, BundleBuilder, ClientId, Digest, Domain, Height, ReplicaId, Subject, View, Vote,
};
use std::sync::Arc;

/// Messages of a hostile peer, each for a different view.
const FLOOD: u64 = 3000;
/// Maximum rounds of votes: more than an honest cluster of four needs, and fewer than the flood requests. Votes are
/// counted up to 128 views ahead.
const MAX_ROUNDS: usize = 512;
/// Maximum claimed slots: more than the 1024 for which others' claims are kept.
const MAX_CLAIMED: usize = 1100;

const FORGED: Bytes = Bytes::from_static(b"none");

fn word(number: u64) -> Digest {
    let mut digest = Digest([0xee; 32]);
    digest.0[..8].copy_from_slice(&number.to_le_bytes());
    digest
}

fn flood(world: &mut Jolteons, message: impl Fn(u64) -> ChainedMessage) {
    world.misbehave(InstanceId(3), unjudged());
    run(world, 1..=3);
    for number in 0..FLOOD {
        world.inject(ReplicaId(3), InstanceId(0), View(3), Envelope::Protocol(message(number)));
    }
    world.settle();
    let rounds = world.replica(InstanceId(0)).parts().tally.rounds();
    if rounds > MAX_ROUNDS {
        let what = format!("R0 keeps {rounds} rounds of votes after {FLOOD} messages of one peer");
        world.checker().report(Property::Memory, what);
    }
    world.heal((0..4).map(ReplicaId));
}

/// 20: R3 lies and votes for unknown blocks, in view after view.
pub fn flood_of_votes(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        flood(world, |number| {
            let (view, height) = (View(4 + number), Height(4 + number));
            let subject = Subject { domain: Domain::Vote, view, height, digest: word(number) };
            ChainedMessage::Vote(Vote { signature: FORGED, ..unsigned(ReplicaId(3), subject) })
        });
    })
}

/// 20: R3 lies and times out of view after view.
pub fn flood_of_timeouts(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        let genesis = genesis(world);
        flood(world, |number| {
            let (high, attachment) = (genesis.clone(), Attachment::HighView(View(0)));
            let vote = unsigned(ReplicaId(3), timeout_subject(View(6 + number)));
            let vote = Vote { attachment, signature: FORGED, ..vote };
            ChainedMessage::Timeout(Arc::new(Timeout { vote, high, evidence: None }))
        });
    })
}

/// 20: R3 lies and claims to have executed slots further and further ahead.
pub fn flood_of_claims(how: &Play) -> Ending {
    play_pbft(how, |world| {
        world.misbehave(InstanceId(3), unjudged());
        go_on(world, 1);
        for number in 0..FLOOD / MAX_DECIDED as u64 + 1 {
            let above = Height(number * MAX_DECIDED as u64);
            let digests = (0..MAX_DECIDED as u64).map(|at| word(above.0 + at)).collect();
            let decided = PbftMessage::Decided { above, digests, checkpoint: None };
            world.inject(ReplicaId(3), InstanceId(0), View(1), Envelope::Protocol(decided));
        }
        world.settle();
        let claimed = world.replica(InstanceId(0)).protocol().claimed();
        if claimed > MAX_CLAIMED {
            let what = format!("R0 keeps one peer's claims of {claimed} slots");
            world.checker().report(Property::Memory, what);
        }
        world.heal((0..4).map(ReplicaId));
    })
}

/// 32: R3 lies and claims repeatedly that it has executed nothing.
pub fn flood_of_questions(how: &Play) -> Ending {
    play_pbft(how, |world| {
        world.misbehave(InstanceId(3), unjudged());
        (1..=3).for_each(|view| go_on(world, view));
        for _ in 0..FLOOD {
            let status = PbftMessage::Status { view: View(1), committed: Height(0) };
            world.inject(ReplicaId(3), InstanceId(0), View(3), Envelope::Protocol(status));
        }
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}

/// 33: R3 lies, will lead view 8, and sends R0 a PRE-PREPARE of that view repeatedly.
pub fn flood_of_early_pre_prepares(how: &Play) -> Ending {
    play_pbft(how, |world| {
        world.misbehave(InstanceId(3), unjudged());
        go_on(world, 1);
        let mut early = pre_prepare(Block::of_slot(View(8), ReplicaId(3), Height(60), vec![word(1)], 0));
        early.vote_to_sign().expect("a PRE-PREPARE is signed").signature = FORGED;
        for _ in 0..FLOOD {
            world.inject(ReplicaId(3), InstanceId(0), View(1), early.clone());
        }
        world.settle();
        let (early, _) = world.replica(InstanceId(0)).protocol().early();
        if early > 1 {
            world.checker().report(Property::Memory, format!("R0 keeps one PRE-PREPARE of a later view {early} times"));
        }
        world.heal((0..4).map(ReplicaId));
    })
}

/// 21: only R1 is locked on the first block; R0 lies, gets a rival certified in a later view and then falls silent.
pub fn locked_alone(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::ChainedHotStuff, 4), |world| {
        leaders(world, &[2, 3, 1, 0, 2]);
        only(world, 3..=4, &[0, 2, 3]);
        let genesis = genesis(world);
        world.misbehave(InstanceId(0), builds_on(4, genesis));
        run(world, 1..=4);
        world.crash(InstanceId(0));
        world.heal((1..4).map(ReplicaId));
    })
}

/// 21: only R1 knows that the first block is committed; R0 lies and proposes a rival with only the certificate of
/// genesis.
pub fn omitted_justification(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::ChainedHotStuff, 4), |world| {
        leaders(world, &[2, 3, 2, 1, 0, 2, 3, 2]);
        only(world, 4..=9, &[0, 2, 3]);
        let genesis = genesis(world);
        world.misbehave(InstanceId(0), builds_on(5, genesis));
        run(world, 1..=9);
        world.heal((1..4).map(ReplicaId));
    })
}

/// 24: R3 remembers executed blocks longer than the others do, and a client sends its first command again.
pub fn command_sent_again(how: &Play) -> Ending {
    // Ten times as many are kept until the first state is kept.
    let mut forgetful = world_config(ProtocolKind::Jolteon);
    short_memory(&mut forgetful);
    play_jolteon(how, |world| {
        (0..3).for_each(|at| world.configure(InstanceId(at), forgetful.clone()));
        // A bundle forgotten by all but R3 can be ordered again. Make the checker accept that, as it does with a
        // Byzantine leader.
        world.misbehave(InstanceId(0), unjudged());
        world.run_view(1);
        let bundle = BundleBuilder::single(ClientId(77), 1, b"once");
        for views in [2..=30, 31..=60] {
            world.participants().instances().for_each(|instance| world.submit(instance, vec![bundle.clone()]));
            run(world, views);
        }
        world.heal((0..4).map(ReplicaId));
    })
}

/// Number of commands known only to the leader, one per block: more than the views allowed for progress.
const BACKLOG: u64 = 60;

fn single_commands(config: &mut Config) {
    config.batch = 1.into();
}

/// 31: a client sends a backlog to R0, the leader, and one command to the others.
pub fn backlog_at_the_leader(how: &Play) -> Ending {
    play_jolteon_with(how, single_commands, |world| {
        world.leaders_after([ReplicaId(0)]);
        world.supply(false);
        world.run_view(1);
        let bundle = |sequence| BundleBuilder::single(ClientId(77), sequence, b"once");
        world.submit(InstanceId(0), (1..=BACKLOG).map(bundle).collect());
        (1..4).map(InstanceId).for_each(|backup| world.submit(backup, vec![bundle(BACKLOG + 1)]));
        run(world, 2..=6);
        world.heal([ReplicaId(0)]);
    })
}

/// Views within which a command must be executed that waits for only one round of links.
const VIEWS_OF_A_ROUND: u64 = 10;

/// 34: a client sends all replicas a backlog, each command under a new key, before an honest client sends one command.
pub fn flood_of_made_up_keys(how: &Play) -> Ending {
    play_jolteon_with(how, single_commands, |world| {
        let bundle = |owner: u64| {
            let client = ClientId(u128::from(1000 + owner) << ClientId::SESSION_BITS);
            BundleBuilder::single(client, 1, b"once")
        };
        world.supply(false);
        world.run_view(1);
        let instances: Vec<InstanceId> = world.participants().instances().collect();
        for instance in &instances {
            world.submit_over(*instance, (1..=BACKLOG).map(bundle).collect(), 1);
        }
        let backlog = world.checker().submitted();
        for instance in &instances {
            world.submit_over(*instance, vec![bundle(0)], 2);
        }
        run(world, 2..=1 + VIEWS_OF_A_ROUND);
        let everybody = world.participants().everybody();
        if !world.checker().all_executed_after(backlog, everybody) {
            let what =
                format!("a command that was sent behind {BACKLOG} of made-up keys waits for {VIEWS_OF_A_ROUND} views");
            world.checker().report(Property::Liveness, what);
        }
        world.heal((0..4).map(ReplicaId));
    })
}
