//! File descriptors: the number needed by a replica, and the number that its process may open.

use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::limits::RESERVED_DESCRIPTORS;

/// Raises the limit of open files as far as permitted, and returns it; `None` if the system does not report it.
pub(crate) fn raise_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` to a valid location.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return None;
    }
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: the kernel reads one `rlimit` from a valid location.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    #[allow(clippy::useless_conversion, reason = "a limit is not a u64 on every system")]
    Some(limit.rlim_cur.into())
}

/// Raises the limit, and rejects a configuration with more links than it allows: otherwise the replica would stop or
/// refuse clients under load.
pub(crate) fn check(config: &NodeConfig) -> Result<(), NodeError> {
    let peers = config.members.len();
    let needed = (config.links.max_links(peers) + RESERVED_DESCRIPTORS) as u64;
    match raise_limit() {
        Some(limit) if limit < needed => Err(NodeError::Descriptors {
            limit,
            needed,
            clients: config.links.max_client_links,
            unauthenticated: config.links.max_unauthenticated_links,
            peers: 2 * peers,
        }),
        _ => Ok(()),
    }
}
