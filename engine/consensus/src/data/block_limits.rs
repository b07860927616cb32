//! Limits on the load of one block, which leaders obey when they propose and voters check.

use crate::config::Config;
use quorate_types::{Bundle, Digest};

/// Total size of the bundles of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Load {
    bundles: usize,
    commands: usize,
    bytes: usize,
}

impl Load {
    /// Returns the load of one bundle.
    pub fn new(commands: usize, bytes: usize) -> Load {
        Load { bundles: 1, commands, bytes }
    }

    pub fn of(bundle: &Bundle) -> Load {
        Load::new(bundle.len(), bundle.body().len())
    }

    pub fn add(&mut self, other: Load) {
        self.bundles += other.bundles;
        self.commands += other.commands;
        self.bytes += other.bytes;
    }
}

/// Maximum load of one block, given by `batch` and `batch_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    commands: usize,
    bytes: usize,
}

impl BlockLimits {
    pub fn new(config: &Config) -> BlockLimits {
        BlockLimits { commands: config.batch.max_commands(), bytes: config.batch_bytes }
    }

    /// Returns whether a block may contain this bundle.
    pub fn allow_bundle(&self, bundle: &Bundle) -> bool {
        bundle.body().len() <= self.bytes
    }

    /// Returns whether one block may contain this load: one bundle, or several within the limits. A leader stops before
    /// the bundle that would exceed them, so no honest leader's block is refused. A single bundle may have as many
    /// commands as the wire format allows.
    pub fn allow(&self, load: &Load) -> bool {
        load.bundles <= 1 || (load.commands <= self.commands && load.bytes <= self.bytes)
    }
}

/// Returns whether `payload` names all the bundles that arrived with a block, in order and without repetition. Bundles
/// may be missing: they are fetched.
pub fn are_named(payload: &[Digest], bundles: &[Bundle]) -> bool {
    let mut names = payload.iter();
    bundles.iter().all(|bundle| names.any(|name| *name == bundle.digest()))
}
