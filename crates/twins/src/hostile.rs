//! Hostile clients in scenarios. They hold no replica's key and make a new key for every bundle.
//!
//! A stage has no sockets and checks no client signatures: bundles that a replica's host would refuse never reach it.
//! Clients that squat connections, read no answers or forge signatures are therefore tested in the simulator and the
//! node. The clients here test the state machines.

use quorate_consensus::data::pool::Source;
use quorate_types::choice;

/// Bundles in each view, to each replica that gets any: twice the capacity of a block on a stage with hostile clients.
pub(crate) const BUNDLES_PER_VIEW: usize = 16;
/// Maximum number of commands in a block on such a stage. Half of it is twice what honest clients send in a view, so
/// they catch up.
pub(crate) const BATCH: usize = 8;
/// The links of the honest and the hostile clients, which share an address: the harder case.
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
