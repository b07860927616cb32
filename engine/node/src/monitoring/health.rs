//! Health of a replica, for supervisors and load balancers.

use quorate_types::host_status::SignerStatus;
use quorate_types::status::WriteTimes;
use quorate_types::{HostStatus, Status};

/// Maximum number of blocks that a replica that has caught up may lack.
pub const MAX_READY_LAG_BLOCKS: u64 = 100;

/// Returns why a replica is not ready to serve and vote, as sentences about it; none if it is ready.
pub fn unreadiness(status: &Status, host: &HostStatus) -> Vec<String> {
    let mut reasons = Vec::new();
    let (reached, needed) = (status.connected.len(), host.quorum.saturating_sub(1));
    if reached < needed {
        reasons.push(format!("reaches {reached} of {} other replicas, and needs {needed}", status.peers));
    }
    if status.abstains {
        reasons.push("does not vote: its journal was lost".to_owned());
    }
    reasons.extend(host.signer.as_ref().and_then(SignerStatus::attention));
    if let Some(transfer) = host.transfer {
        let (height, received, chunks) = (transfer.height, transfer.received, transfer.chunks);
        reasons.push(match chunks {
            0 => format!("fetches the state of height {height}: no peer has sent the list of its chunks yet"),
            _ => format!("fetches the state of height {height}: {received} of {chunks} chunks are here"),
        });
    }
    let lag = lag(status, host);
    if lag > MAX_READY_LAG_BLOCKS {
        reasons.push(format!("is {lag} blocks behind"));
    }
    let pending_us = status.journal_writes.map_or(0, |times| times.pending_us);
    if pending_us >= WriteTimes::HANGING_MS * 1_000 {
        reasons.push(format!("a write of its journal has not ended for {} s", pending_us / 1_000_000));
    }
    reasons
}

/// Returns the number of blocks that others have certified and the replica has not executed.
pub fn lag(status: &Status, host: &HostStatus) -> u64 {
    host.known_height.0.saturating_sub(status.height.0)
}
