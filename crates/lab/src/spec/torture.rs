//! What `quorate torture` has replicas keep for those who were away: little, so that who comes back has to take the others' state over.

use super::BenchSpec;
use super::defaults::OwnDefault;
use serde::Serialize;
use std::fmt;

/// The window of `quorate torture`, in blocks: what replicas keep grows with it.
pub const DEFAULT_TORTURE_WINDOW: u64 = 64;
/// Blocks from one checkpoint to the next under `quorate torture`.
pub const DEFAULT_TORTURE_CHECKPOINT_INTERVAL: u64 = 16;
/// Blocks that are kept in any case.
const MIN_RETAINED_BLOCKS: u64 = 64;
/// Checkpoints that the kept blocks reach across, at least: a state is kept whenever half as many were executed, and whoever begins with
/// one has to find the blocks that follow.
const MIN_RETAINED_CHECKPOINTS: u64 = 2;
/// Bytes of bundles that are kept for each block, in units of 1024.
const RETAINED_KIB_PER_BLOCK: usize = 1;

/// What the replicas of a tortured cluster keep for those who were away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Retention {
    /// The window, in blocks.
    pub window: u64,
    /// Blocks from one checkpoint to the next.
    pub checkpoint_interval: u64,
    /// Committed blocks that are kept with their bundles.
    pub retained_blocks: usize,
    /// Most bytes in these bundles.
    pub retained_bytes: usize,
}

impl Retention {
    /// That of a valid spec: its window and interval, and what follows from them.
    pub fn of(spec: &BenchSpec) -> Retention {
        let BenchSpec { window, checkpoint_interval, .. } = *spec;
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
            "--window {window}, --checkpoint-interval {checkpoint_interval}: replicas kept {retained_blocks} blocks with {} KiB of bundles for \
             those who were away",
            retained_bytes / 1024
        )
    }
}

/// Where the flags differ from those of `quorate bench`.
pub(super) fn defaults() -> Vec<OwnDefault> {
    let help = format!(
        "PBFT: how many slots above the last stable checkpoint may be in use. Under any protocol replicas keep as many blocks for those \
         who were away, at least {MIN_RETAINED_BLOCKS} and those of {MIN_RETAINED_CHECKPOINTS} checkpoints, with \
         {RETAINED_KIB_PER_BLOCK} KiB of bundles for each; whoever was away for longer takes the others' state over"
    );
    let (window, interval) = (DEFAULT_TORTURE_WINDOW.to_string(), DEFAULT_TORTURE_CHECKPOINT_INTERVAL.to_string());
    vec![
        OwnDefault { key: "window", value: window, help: Some(help) },
        OwnDefault { key: "checkpoint_interval", value: interval, help: None },
    ]
}
