//! Exhibits about the view change for MACs: claims of prepared blocks that prove nothing by themselves.

use super::disks;
use super::scene::{Ending, Play, Setting, only, play};
use crate::twins::bugs::{ClaimBelieved, ClaimsOutliveEvidence, Mutant, OpposedCarriedOver, Rule, of_pbft};
use crate::twins::participants::InstanceId;
use crate::twins::world::{Rewrite, World};
use quorate_consensus::Envelope;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::pbft::engine::Engine;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, ViewChange, bare};
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::replica::make;
use quorate_consensus::seam::Action;
use quorate_types::{Block, BundleBuilder, ClientId, Domain, Height, ReplicaId, View};
use std::sync::Arc;

/// Replica that lies in its VIEW-CHANGE.
const LIAR: InstanceId = InstanceId(3);
/// The only replica that learns of the decision.
const INFORMED: InstanceId = InstanceId(0);
/// View whose VIEW-CHANGEs determine the block that is carried over.
const LAST: View = View(3);
const SLOT: Height = Height(1);

/// A script for PBFT, generic over the rules for the blocks that a new view carries over.
trait Script {
    fn perform<S: ViewChangeEvidence>(self, world: &mut World<Engine<S>>);
}

/// Plays a script, with the mutant's wrong condition if it has one.
fn play_by_conditions(how: &Play, script: impl Script) -> Ending {
    let setting = Setting::new(ProtocolKind::PbftMac, 4);
    match how.mutant {
        Some(Mutant::Rule(Rule::OpposedCarriedOver)) => {
            play(how, setting, of_pbft::<OpposedCarriedOver>, |world| script.perform(world))
        }
        Some(Mutant::Rule(Rule::ClaimBelieved)) => {
            play(how, setting, of_pbft::<ClaimBelieved>, |world| script.perform(world))
        }
        Some(Mutant::Rule(Rule::ClaimsOutliveEvidence)) => {
            play(how, setting, of_pbft::<ClaimsOutliveEvidence>, |world| script.perform(world))
        }
        _ => play(how, setting, make::pbft_mac, |world| script.perform(world)),
    }
}

/// Returns a rewriting of the claims in a replica's VIEW-CHANGEs.
fn claims(mut change: impl FnMut(&mut ViewChange) + Send + 'static) -> Rewrite<PbftMessage> {
    Box::new(move |_, actions| {
        for action in actions {
            if let Action::Send { message: Envelope::Protocol(PbftMessage::ViewChange(asking)), .. } = action {
                change(asking);
                let Declaration { checkpoint, prepared, voted, .. } = asking.declaration();
                asking.vote.subject.digest = Declaration::digest(&checkpoint, &prepared, &voted);
            }
        }
    })
}

/// Drops votes of a kind in a view, except at some recipients.
fn lose_votes<S: ViewChangeEvidence>(world: &mut World<Engine<S>>, lost: Domain, in_view: u64, except: InstanceId) {
    world.lose(Some(Box::new(move |_, to, view, message| match message {
        Envelope::Protocol(PbftMessage::Prepare(vote) | PbftMessage::Commit(vote)) => {
            view == View(in_view) && vote.subject.domain == lost && to != except
        }
        _ => false,
    })));
}

/// Drops a view's NEW-VIEW on its way to a replica, which then keeps the claims that it would end.
fn lose_new_view<S: ViewChangeEvidence>(world: &mut World<Engine<S>>, lost: u64, at: InstanceId) {
    world.lose(Some(Box::new(move |_, to, _, message| match message {
        Envelope::Protocol(PbftMessage::NewView(opens)) => opens.view() == View(lost) && to == at,
        _ => false,
    })));
}

/// 37: only R2 has a block prepared in view 1. In view 2, which R2 misses, another block is decided, but only R0 learns
/// of it. In view 3, without R0, R3 conceals its part in that, and R2 does not receive the NEW-VIEW of view 2.
pub fn opposed_claim(how: &Play) -> Ending {
    struct OpposedClaim;
    impl Script for OpposedClaim {
        fn perform<S: ViewChangeEvidence>(self, world: &mut World<Engine<S>>) {
            let mut of_view_1 = Vec::new();
            world.misbehave(
                LIAR,
                claims(move |change| {
                    if change.view() == LAST {
                        (change.prepared, change.voted) = (Vec::new(), of_view_1.clone());
                    } else {
                        of_view_1.clone_from(&change.voted);
                    }
                }),
            );
            for (view, leader) in [(1, 0), (2, 1), (LAST.0, 1)] {
                world.leader(view, ReplicaId(leader));
            }
            only(world, 2..=2, &[0, 1, 3]);
            only(world, LAST.0..=LAST.0, &[1, 2, 3]);
            lose_votes(world, Domain::Prepare, 1, InstanceId(2));
            world.run_view(1);
            world.supply(false);
            lose_votes(world, Domain::Commit, 2, INFORMED);
            world.run_view(2);
            lose_new_view(world, 2, InstanceId(2));
            world.run_view(LAST.0);
            world.lose(None);
            world.heal((0..4).map(ReplicaId));
        }
    }
    play_by_conditions(how, OpposedClaim)
}

/// 37: a block is decided in view 1, but only R0 learns of it. In view 3, without R0, R3 claims that another block was
/// prepared in view 2, which never began, and provides that block.
pub fn invented_claim(how: &Play) -> Ending {
    struct InventedClaim;
    impl Script for InventedClaim {
        fn perform<S: ViewChangeEvidence>(self, world: &mut World<Engine<S>>) {
            let command = BundleBuilder::single(ClientId(1), 1, &[]).digest();
            let invented = Arc::new(Block::of_slot(View(2), ReplicaId(1), SLOT, vec![command], 0));
            let claim = invented.subject(Domain::Prepare);
            world.misbehave(
                LIAR,
                claims(move |change| {
                    if change.view() == LAST {
                        change.prepared = vec![bare(claim)];
                        change.voted.push(claim);
                    }
                }),
            );
            for (view, leader) in [(1, 0), (2, 1), (LAST.0, 1)] {
                world.leader(view, ReplicaId(leader));
            }
            only(world, LAST.0..=LAST.0, &[1, 2, 3]);
            lose_votes(world, Domain::Commit, 1, INFORMED);
            world.run_view(1);
            world.supply(false);
            world.lose(None);
            world.run_view(LAST.0);
            for to in [1, 2, LIAR.0].map(InstanceId) {
                world.inject(ReplicaId(LIAR.0 as u16), to, LAST, Envelope::Blocks(vec![invented.clone()]));
            }
            world.settle();
            world.heal((0..4).map(ReplicaId));
        }
    }
    play_by_conditions(how, InventedClaim)
}

/// 40: in view 1 the PREPAREs for a block reach only R1. Views 2 to 5 are without R1, and their PREPAREs are lost. Then
/// the network heals, but R3 has crashed.
pub fn nothing_backs_a_claim(how: &Play) -> Ending {
    struct NothingBacksAClaim;
    impl Script for NothingBacksAClaim {
        fn perform<S: ViewChangeEvidence>(self, world: &mut World<Engine<S>>) {
            for (view, leader) in [(1, 0), (2, 2), (3, 3), (4, 0), (5, 2)] {
                world.leader(view, ReplicaId(leader));
            }
            only(world, 2..=5, &[0, 2, 3]);
            disks::lose_votes(world, |to, view, domain| {
                domain == Domain::Prepare && (view > 1 || to != disks::INFORMED)
            });
            (1..=5).for_each(|view| world.run_view(view));
            world.crash(InstanceId(3));
            world.heal((0..3).map(ReplicaId));
        }
    }
    play_by_conditions(how, NothingBacksAClaim)
}
