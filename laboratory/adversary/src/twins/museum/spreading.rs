//! Exhibits about replicas that spread bundles and acknowledge holding them.

use super::scene::{Ending, Play, play_jolteon_with, run, unsigned};
use crate::twins::participants::InstanceId;
use crate::twins::world::Rewrite;
use quorate_consensus::config::Dissemination;
use quorate_consensus::data::batches::{Batch, Cover, Entry};
use quorate_consensus::data::kept::RELIANCE_BLOCKS;
use quorate_consensus::seam::{Action, To};
use quorate_consensus::{Config, Envelope, Message};
use quorate_types::{Bundle, BundleBuilder, Certificate, ClientId, Height, ReplicaId, View};
use std::sync::Arc;

const LIAR: ReplicaId = ReplicaId(3);

/// Returns a rewriting that sends no bundle to anyone, but sends certified batches also to their signers, which have
/// dropped the batches of bundles that they lack.
fn keeps_bundles<M>() -> Rewrite<M> {
    Box::new(|_, actions| {
        actions.retain_mut(|action| {
            let Action::Send { to, message, .. } = action else { return true };
            if let Envelope::Covers(_) = message {
                *to = To::Others;
            }
            !matches!(message, Envelope::Spread(_) | Envelope::Bundles(_) | Envelope::Relay(_))
        });
    })
}

fn certified(config: &mut Config) {
    config.dissemination = Dissemination::ReplicasCertified;
}

/// 35: R3 lies: it lists a bundle that it sends to no one, and proposes it if the others acknowledge it.
pub fn bundle_shown_to_nobody(how: &Play) -> Ending {
    play_jolteon_with(how, certified, |world| {
        world.misbehave(InstanceId(3), keeps_bundles());
        world.run_view(1);
        world.submit(InstanceId(3), vec![BundleBuilder::single(ClientId(77), 1, b"shown to nobody")]);
        run(world, 2..=9);
        world.heal((0..4).map(ReplicaId));
    })
}

/// Returns a rewriting that hides a bundle, acknowledges the batches that list it, and sends each of their
/// certificates, with a proposal of the bundle, to the replicas that did not sign it.
fn hoards<M: Message>(bundle: &Bundle, covers: Vec<Cover>) -> Rewrite<M> {
    let kept = bundle.digest();
    let mut acknowledges = true;
    Box::new(move |_, actions| {
        let lists = |batch: &Batch| batch.entries().iter().any(|entry| entry.bundle == kept);
        let sent = |to, message, sign| Action::Send { to, message, after: None, sign };
        for mut action in std::mem::take(actions) {
            match &mut action {
                Action::Send { message: Envelope::Spread(bundles) | Envelope::Bundles(bundles), .. } => {
                    bundles.retain(|bundle| bundle.digest() != kept);
                }
                Action::Send { message: Envelope::Batch(batch), .. } if lists(batch) => continue,
                Action::Send { message: Envelope::Relay(_) | Envelope::Covers(_), .. } => continue,
                Action::Send { message: Envelope::Protocol(message), .. }
                    if message.proposed().is_some_and(|(block, _)| block.payload.contains(&kept)) =>
                {
                    for cover in &covers {
                        let others = (0..3).map(ReplicaId);
                        let left_out = others.filter(|other| !cover.certificate.signers.contains(*other));
                        let shown = |to| sent(To::One(to), Envelope::Covers(vec![cover.clone()]), false);
                        actions.extend(left_out.map(shown));
                    }
                }
                _ => {}
            }
            actions.push(action);
        }
        if std::mem::take(&mut acknowledges) {
            let own = |cover: &Cover| Envelope::Stored(unsigned(LIAR, cover.batch.subject()));
            actions.extend(covers.iter().map(|cover| sent(To::One(LIAR), own(cover), true)));
        }
    })
}

/// 38: R3 lies: it gets a bundle certified in two batches, by R1 and R2 and by R0 and R1. After these have restarted,
/// it proposes the bundle, and sends each certificate to the replica that did not sign it.
pub fn certificates_that_do_not_add_up(how: &Play) -> Ending {
    play_jolteon_with(how, certified, |world| {
        let bundle = BundleBuilder::single(ClientId(77), 1, b"certified twice");
        let cover = |(number, signers): (u64, [u16; 3])| {
            let batch = Arc::new(Batch::new(LIAR, number, Height(RELIANCE_BLOCKS), vec![Entry::of(&bundle)]));
            let signers = signers.into_iter().map(ReplicaId).collect();
            let proof = bytes::Bytes::new();
            let certificate = Certificate { subject: batch.subject(), signers, attachments: Vec::new(), proof };
            Cover { batch, certificate }
        };
        let covers: Vec<Cover> = [(1_001, [1, 2, 3]), (1_002, [0, 1, 3])].into_iter().map(cover).collect();
        world.misbehave(InstanceId(3), hoards(&bundle, covers.clone()));
        world.run_view(1);
        for replica in 0..3 {
            world.inject(LIAR, InstanceId(replica), View(1), Envelope::Spread(vec![bundle.clone()]));
        }
        let mut view = 1;
        for Cover { batch, certificate } in &covers {
            for signer in certificate.signers.iter().filter(|signer| *signer != LIAR) {
                world.inject(LIAR, InstanceId(signer.index()), View(view), Envelope::Batch(batch.clone()));
            }
            // A replica does not acknowledge a bundle twice in quick succession.
            run(world, view + 1..=view + 3);
            view += 3;
        }
        for replica in 0..3 {
            world.crash(InstanceId(replica));
            world.restart(InstanceId(replica));
        }
        world.submit(InstanceId(3), vec![bundle]);
        // The liar's wrapped honest replica regards its bundle as certified.
        world.inject(ReplicaId(0), InstanceId(3), View(view), Envelope::Covers(covers[..1].to_vec()));
        world.settle();
        world.leader(view + 1, LIAR);
        run(world, view + 1..=view + 6);
        world.heal((0..4).map(ReplicaId));
    })
}
