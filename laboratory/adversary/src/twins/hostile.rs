//! Hostile clients in scenarios. They hold no replica's key and create a new key for every bundle.
//!
//! A world has no sockets and checks no client signatures: bundles that a replica's host would refuse never reach it.
//! Clients that occupy connections, read no answers or forge signatures are therefore tested in the simulator and the
//! node. The clients here test the state machines.

use quorate_consensus::data::pool::Source;
use quorate_types::choice;

/// Bundles per view to each targeted replica: twice the capacity of a block in a world with hostile clients.
pub(crate) const BUNDLES_PER_VIEW: usize = 16;
/// Maximum number of commands in a block of such a world. Half of it is twice the honest clients' commands per view, so
/// that they catch up.
pub(crate) const BATCH: u32 = 8;
/// Links of the honest and the hostile clients. They share an address, which is the harder case.
pub(crate) const HONEST_LINK: Source = Source::Client { source_group: 0, link: 0 };
pub(crate) const HOSTILE_LINK: Source = Source::Client { source_group: 0, link: 1 };

choice!(
    /// Attack of a hostile client in each view, both during the script and after the network heals.
    HostileClient, "hostile client",
    /// Sends its bundles to all replicas, before the honest clients do.
    Flood = "flood",
    /// Sends its bundles only to the leader, so that all others have to fetch them.
    LeaderOnly = "leader-only",
    /// Sends its bundles only to the leader of the next view, so that the present leader lacks bundles for which a
    /// backup waits.
    OneBackupOnly = "one-backup-only",
);
