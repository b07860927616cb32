//! Commands that clients send in each view, created once and shared by all scenarios.

use crate::twins::hostile::BUNDLES_PER_VIEW;
use crate::twins::participants::{InstanceId, Participants};
use quorate_types::{Bundle, BundleBuilder, ClientId};

/// Client ID of the first made-up key.
const FIRST_MADE_UP: u128 = 1 << 32;

/// Bundles by round: one, or two if there are twins. Second instances get them in reverse order, so that twins propose
/// different blocks when they lead.
pub(crate) struct Stock {
    first_instances: usize,
    each_round: usize,
    bundles: Vec<Bundle>,
    hostile: Vec<Bundle>,
}

impl Stock {
    pub fn new(participants: &Participants) -> Stock {
        Stock {
            first_instances: participants.replicas(),
            each_round: if participants.twins() > 0 { 2 } else { 1 },
            bundles: Vec::new(),
            hostile: Vec::new(),
        }
    }

    /// Returns the bundles of a round, from 1.
    pub fn of_round(&mut self, round: u64) -> &[Bundle] {
        let (start, end) = ((round as usize - 1) * self.each_round, round as usize * self.each_round);
        while self.bundles.len() < end {
            let client = ClientId(1 + (self.bundles.len() % self.each_round) as u128);
            let sequence = 1 + (self.bundles.len() / self.each_round) as u64;
            self.bundles.push(BundleBuilder::single(client, sequence, &[]));
        }
        &self.bundles[start..end]
    }

    /// Returns the bundles of the hostile client in a round, each under its own key.
    pub fn hostile_of_round(&mut self, round: u64) -> &[Bundle] {
        let (start, end) = ((round as usize - 1) * BUNDLES_PER_VIEW, round as usize * BUNDLES_PER_VIEW);
        while self.hostile.len() < end {
            let client = ClientId((FIRST_MADE_UP + self.hostile.len() as u128) << ClientId::SESSION_BITS);
            self.hostile.push(BundleBuilder::single(client, 1, &[]));
        }
        &self.hostile[start..end]
    }

    /// Returns the bundles of a round in the order in which an instance gets them.
    pub fn for_instance(&mut self, round: u64, instance: InstanceId) -> Vec<Bundle> {
        let second = instance.0 >= self.first_instances;
        let mut bundles = self.of_round(round).to_vec();
        if second {
            bundles.reverse();
        }
        bundles
    }
}
