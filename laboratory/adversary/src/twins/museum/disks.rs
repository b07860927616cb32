//! Exhibits about the claims of the view change for MACs after lost disks and lost messages. All replicas are honest.

use super::scene::{Ending, Play, Setting, only, play};
use crate::twins::participants::InstanceId;
use crate::twins::world::World;
use quorate_consensus::Envelope;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::pbft::engine::{Engine, PbftMacEngine};
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::replica::make;
use quorate_types::{Domain, ReplicaId};

/// The only replica that learns of the decision, or that a block is prepared.
pub(super) const INFORMED: InstanceId = InstanceId(1);

fn world(how: &Play, script: impl FnOnce(&mut World<PbftMacEngine>)) -> Ending {
    play(how, Setting::new(ProtocolKind::PbftMac, 4), make::pbft_mac, script)
}

/// Drops the votes for which `lost` returns true, given their receiver, view and kind.
pub(super) fn lose_votes<S: ViewChangeEvidence>(
    world: &mut World<Engine<S>>,
    lost: impl Fn(InstanceId, u64, Domain) -> bool + Send + 'static,
) {
    world.lose(Some(Box::new(move |_, to, view, message| match message {
        Envelope::Protocol(PbftMessage::Prepare(vote) | PbftMessage::Commit(vote)) => {
            lost(to, view.0, vote.subject.domain)
        }
        _ => false,
    })));
}

/// 40: a block is prepared at R1, R2 and R3 in view 1, and decided, but only R1 learns of the decision. R2 loses its
/// disk and votes again from view 3 on, which carries the block over. It restarts without a loss, but R3 loses its
/// disk. View 6 consists of R0, R2 and R3.
pub fn one_disk_after_the_other(how: &Play) -> Ending {
    world(how, |world| {
        for (view, leader) in [(1, 0), (3, 1), (6, 0)] {
            world.leader(view, ReplicaId(leader));
        }
        only(world, 6..=6, &[0, 2, 3]);
        lose_votes(world, |to, view, domain| match view {
            1 if domain == Domain::Prepare => to == InstanceId(0),
            1 => to != INFORMED,
            _ => view == 3,
        });
        world.run_view(1);
        world.crash(InstanceId(2));
        world.restart_without_journal(InstanceId(2));
        world.settle();
        world.run_view(3);
        world.crash(InstanceId(2));
        world.restart(InstanceId(2));
        world.settle();
        world.crash(InstanceId(3));
        world.restart_without_journal(InstanceId(3));
        world.settle();
        world.run_view(6);
        world.heal((0..4).map(ReplicaId));
    })
}
