//! Resources that a replica uses on its machine. Error messages contain these numbers.

/// File descriptors other than links: listeners, polling, the journal and snapshots with their reserve, a recording,
/// standard streams.
pub(crate) const RESERVED_DESCRIPTORS: usize = 64;

/// Number of ports on which each replica of a testnet listens: for peers, for clients, for operators, and for
/// monitors.
pub const PORTS_PER_REPLICA: usize = 4;
