//! What one block may carry: the leader keeps to it when it proposes, and the others when they vote.

use crate::config::Config;
use quorate_types::{Bundle, Digest};

/// What the bundles of a block come to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Load {
    bundles: usize,
    commands: usize,
    bytes: usize,
}

impl Load {
    /// That of one bundle.
    pub fn of(bundle: &Bundle) -> Load {
        Load { bundles: 1, commands: bundle.len(), bytes: bundle.body().len() }
    }

    /// With another load more.
    pub fn add(&mut self, other: Load) {
        self.bundles += other.bundles;
        self.commands += other.commands;
        self.bytes += other.bytes;
    }
}

/// How much the bundles of one block may come to, by `batch` and `batch_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    commands: usize,
    bytes: usize,
}

impl BlockLimits {
    /// Those of a configuration.
    pub fn new(config: &Config) -> BlockLimits {
        BlockLimits { commands: config.batch, bytes: config.batch_bytes }
    }

    /// Whether some block may hold this bundle.
    pub fn allow_bundle(&self, bundle: &Bundle) -> bool {
        bug!(BlocksUnbounded) || bundle.body().len() <= self.bytes
    }

    /// Whether one block may hold this much: one bundle, or several within the limits. A leader stops before the bundle that would
    /// exceed them, so that no honest one's block is refused. A bundle by itself may have as many commands as the wire allows.
    pub fn allow(&self, load: &Load) -> bool {
        bug!(BlocksUnbounded) || load.bundles <= 1 || (load.commands <= self.commands && load.bytes <= self.bytes)
    }
}

/// Whether the bundles that came with a block are named by it, in its order and none twice. Some may be missing: they are fetched.
pub fn are_named(payload: &[Digest], bundles: &[Bundle]) -> bool {
    let mut names = payload.iter();
    bundles.iter().all(|bundle| names.any(|name| *name == bundle.digest()))
}
