//! Retention under `quorate torture`: replicas keep few blocks, so that a restarted replica must fetch a state.

use super::BenchSpec;
use super::defaults::OwnDefault;
use quorate_consensus::Config;
use serde::Serialize;
use std::fmt;

/// Window of `quorate torture`, in blocks. Retention grows with it.
pub const DEFAULT_TORTURE_WINDOW: u64 = 64;
/// Blocks from one checkpoint to the next under `quorate torture`.
pub const DEFAULT_TORTURE_CHECKPOINT_INTERVAL: u64 = 16;
/// Minimum number of retained blocks.
const MIN_RETAINED_BLOCKS: u64 = 64;
/// Minimum number of checkpoints spanned by the retained blocks. A state is written every half of this span, and a
/// replica that starts from a state needs the blocks after it.
const MIN_RETAINED_CHECKPOINTS: u64 = 2;
/// Retained bundle bytes per block, in KiB.
const RETAINED_KIB_PER_BLOCK: usize = 1;

/// Blocks that the replicas of a tortured cluster keep for peers that were down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Retention {
    /// Window, in blocks.
    pub window: u64,
    /// Blocks from one checkpoint to the next.
    pub checkpoint_interval: u64,
    /// Number of committed blocks kept with their bundles.
    pub retained_blocks: usize,
    /// Maximum bytes of these bundles.
    pub retained_bytes: usize,
}

impl Retention {
    /// Returns the retention of a valid spec, which follows from its window and interval.
    pub fn of(spec: &BenchSpec) -> Retention {
        let Config { window, checkpoint_interval, .. } = spec.node.consensus;
        let checkpoints = checkpoint_interval * MIN_RETAINED_CHECKPOINTS;
        // A new view of PBFT may propose any slot of the window again.
        let retained_blocks = window.max(checkpoints).max(MIN_RETAINED_BLOCKS) as usize;
        let retained_bytes = retained_blocks * RETAINED_KIB_PER_BLOCK * 1024;
        Retention { window, checkpoint_interval, retained_blocks, retained_bytes }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retention { window, checkpoint_interval, retained_blocks, retained_bytes } = self;
        write!(
            f,
            "--window {window}, --checkpoint-interval {checkpoint_interval}: replicas kept {retained_blocks} blocks \
             with {} KiB of bundles for peers that were down",
            retained_bytes / 1024
        )
    }
}

/// Returns the defaults that differ from `quorate bench`.
pub(super) fn defaults() -> Vec<OwnDefault> {
    let help = format!(
        "PBFT: maximum number of slots in use above the last stable checkpoint. Under any protocol, replicas keep \
         the same number of blocks for peers that were down, at least {MIN_RETAINED_BLOCKS} and those of \
         {MIN_RETAINED_CHECKPOINTS} checkpoints, with {RETAINED_KIB_PER_BLOCK} KiB of bundles for each; a replica \
         that was down for longer fetches a state"
    );
    let (window, interval) = (DEFAULT_TORTURE_WINDOW.to_string(), DEFAULT_TORTURE_CHECKPOINT_INTERVAL.to_string());
    vec![
        OwnDefault { key: "window", value: window, help: Some(help) },
        OwnDefault { key: "checkpoint_interval", value: interval, help: None },
    ]
}
