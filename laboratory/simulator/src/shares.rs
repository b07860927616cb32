//! Checks that honest clients get their share of honest leaders' blocks next to clients that favour one replica.

use quorate_adversary::oracles::{Share, Weight};
use quorate_consensus::Config;
use quorate_consensus::data::digest_map::{DigestMap, Salt};
use quorate_types::{Block, Bundle, Time};
use std::time::Duration;

/// Load of a block that is full of commands, or full of bytes.
const FULL_BLOCK: u64 = 1_000_000;

/// Honest bundles, and the blocks that name them. A bundle's load is its share of a block's commands plus its share of
/// a block's bytes.
pub struct HonestShare {
    share: Share,
    commands: u64,
    bytes: u64,
    /// Maximum time until honest clients' bundles are in every honest replica's pool.
    known_after: Duration,
    /// Cumulative load sent by honest clients, by ascending time.
    sent: Vec<(Time, u64)>,
    /// Loads of honest bundles that no committed block names yet.
    unnamed: DigestMap<u64>,
    /// Load of honest bundles that committed blocks name.
    served: u64,
    /// Blocks of honest replicas, with the time of their proposal.
    proposed: DigestMap<Time>,
}

impl HonestShare {
    /// Returns a check for a cluster whose blocks are shared by this many links: the clients', and one for relayed
    /// bundles.
    pub fn new(links: u64, replicas: usize, config: &Config) -> HonestShare {
        HonestShare {
            // Each leader divides its blocks alone, and may be one block behind.
            share: Share::new(links, FULL_BLOCK * replicas as u64),
            commands: config.batch.max_commands() as u64,
            bytes: config.batch_bytes as u64,
            known_after: config.view_timeout(),
            sent: Vec::new(),
            unnamed: DigestMap::with_hasher(Salt(0)),
            served: 0,
            proposed: DigestMap::with_hasher(Salt(0)),
        }
    }

    fn load(&self, weight: Weight) -> u64 {
        weight.commands as u64 * FULL_BLOCK / self.commands + weight.bytes as u64 * FULL_BLOCK / self.bytes
    }

    /// Observes that an honest client sends a bundle.
    pub fn sends(&mut self, now: Time, bundle: &Bundle) {
        let load = self.load(Weight::of(bundle));
        if self.unnamed.insert(bundle.digest(), load).is_none() {
            let before = self.sent.last().map_or(0, |(_, sum)| *sum);
            self.sent.push((now, before + load));
        }
    }

    /// Observes that an honest replica proposes a block, at `now` or later.
    pub fn proposes(&mut self, now: Time, block: &Block) {
        self.proposed.entry(block.digest()).or_insert(now);
    }

    /// Observes the next block of the chain.
    ///
    /// # Errors
    /// The deficit of honest clients, in millionths of a block, if it is too large.
    pub fn commits(&mut self, block: &Block, bundles: &[Bundle]) -> Result<(), u64> {
        let proposed = self.proposed.remove(&block.digest());
        let sent_before = |proposed: Time| {
            let known = self.sent.partition_point(|(sent, _)| *sent + self.known_after <= proposed);
            known.checked_sub(1).map_or(0, |last| self.sent[last].1)
        };
        let waiting = proposed.map_or(0, sent_before).saturating_sub(self.served);
        let named = bundles.iter().map(|bundle| self.unnamed.remove(&bundle.digest()).unwrap_or_default());
        let honest: u64 = named.sum();
        self.served += honest;
        match proposed {
            Some(_) => self.share.commits(self.load(bundles.iter().map(Weight::of).sum()), waiting, honest),
            None => Ok(()),
        }
    }
}
