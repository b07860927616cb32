//! Exhibits about replicas that spread bundles and acknowledge that they hold them.

use super::scene::{Ending, Play, play_jolteon_with, run};
use crate::participants::InstanceId;
use crate::world::Rewrite;
use quorate_consensus::config::Dissemination;
use quorate_consensus::seam::{Action, To};
use quorate_consensus::{Config, Envelope};
use quorate_types::{BundleBuilder, ClientId, ReplicaId};

/// Returns a rewriting that shows no bundle to anybody, but shows certified batches also to those that signed them:
/// they have dropped the batches of bundles that they lack.
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

/// 35: R3 lies: it lists a bundle that it shows to nobody, and proposes it if the others acknowledge it.
pub fn bundle_shown_to_nobody(how: &Play) -> Ending {
    let certified = |config: &mut Config| config.dissemination = Dissemination::ReplicasCertified;
    play_jolteon_with(how, certified, |world| {
        world.misbehave(InstanceId(3), keeps_bundles());
        world.run_view(1);
        world.submit(InstanceId(3), vec![BundleBuilder::single(ClientId(77), 1, b"shown to nobody")]);
        run(world, 2..=9);
        world.heal((0..4).map(ReplicaId));
    })
}
