//! Hostile clients in scenarios. They hold no replica's key and make a key of their own for every bundle.
//!
//! A stage has no sockets and checks no client's signature: what a replica's host refuses never reaches it. So squatters, those who read
//! no answers, and forgers are left to the simulator and to the node's tests; here is what the state machines have to bear.

use quorate_consensus::pool::Source;
use quorate_types::choice;

/// Bundles in each view, to each replica that is sent any: twice as many as a block of a stage with hostile clients holds.
pub(crate) const BUNDLES_PER_VIEW: usize = 16;
/// Most commands in a block of such a stage: half of one is twice what honest clients send in a view, so that they catch up.
pub(crate) const BATCH: usize = 8;
/// The links of the honest and of the hostile clients, which share an address: the harder case.
pub(crate) const HONEST_LINK: Source = Source::Client { crowd: 0, link: 0 };
pub(crate) const HOSTILE_LINK: Source = Source::Client { crowd: 0, link: 1 };

choice!(
    /// What a hostile client does in each view, in the script and when all is healed.
    HostileClient, "hostile client",
    /// Sends its bundles to everybody, before the honest do.
    Flood = "flood",
    /// Sends them to the leader alone, so that everybody else has to fetch what it proposes.
    LeaderOnly = "leader-only",
    /// Sends them to the leader of the next view alone, so that the leader lacks what a backup has waited for.
    OneBackupOnly = "one-backup-only",
);
