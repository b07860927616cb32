//! Which replicas a client is connected to, and why not to the others.

use quorate_transports::{Event, Refusal, Transport};
use quorate_types::{ReplicaId, Signers};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// How long a client waits for the last replicas once enough are connected.
pub const GRACE: Duration = Duration::from_millis(1_000);
/// Longest wait in one poll while connections are awaited.
const SLICE: Duration = Duration::from_millis(20);

/// Which replicas are connected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// The replicas that are connected.
    pub reached: Vec<ReplicaId>,
    /// The others, each with the last reason known.
    pub unreached: BTreeMap<ReplicaId, String>,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.reached.len() + self.unreached.len();
        write!(f, "{} of {of} replicas are connected", self.reached.len())?;
        for (at, (replica, why)) in self.unreached.iter().enumerate() {
            write!(f, "{} replica {replica}: {why}", if at == 0 { "; not" } else { "," })?;
        }
        Ok(())
    }
}

/// Remembers why replicas could not be reached.
#[derive(Default)]
pub struct ReachLog {
    reasons: BTreeMap<ReplicaId, String>,
}

impl ReachLog {
    /// Notes what a transport says of connections that failed.
    pub fn note(&mut self, refusals: Vec<Refusal>) {
        for Refusal { address, dialled, why } in refusals {
            if let Some(replica) = dialled {
                self.reasons.insert(replica, format!("{address}: {why}"));
            }
        }
    }

    /// Notes that a connection was lost.
    pub fn lost(&mut self, replica: ReplicaId, why: String) {
        self.reasons.insert(replica, why);
    }

    /// How things stand.
    pub fn reach(&mut self, transport: &mut dyn Transport, replicas: usize) -> Reach {
        self.note(transport.take_refusals());
        let mut reach = Reach::default();
        for replica in (0..replicas as u16).map(ReplicaId) {
            if transport.is_connected(replica) {
                reach.reached.push(replica);
            } else {
                let why = self.reasons.get(&replica).map_or("no answer yet", String::as_str);
                reach.unreached.insert(replica, why.to_owned());
            }
        }
        reach
    }
}

/// What has to be connected before a client begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// All replicas, which are waited for as long as [`GRACE`] if there are enough.
    pub replicas: usize,
    /// How many are enough.
    pub enough: usize,
    /// How many are so many that the others are not waited for.
    pub at_once: usize,
    /// A replica that has to be among them.
    pub including: Option<ReplicaId>,
}

/// Polls until as many replicas are connected as need no others, or enough of them and [`GRACE`] is over, or the time is over, or the
/// caller does not want to go on. Says how things stand and whether that is enough. Nothing was asked yet, so what is received meanwhile
/// is dropped.
pub fn await_replicas(
    transport: &mut dyn Transport,
    log: &mut ReachLog,
    wanted: Wanted,
    timeout: Duration,
    goes_on: impl Fn() -> bool,
) -> io::Result<(Reach, bool)> {
    let start = Instant::now();
    let mut events = Vec::new();
    loop {
        let connected: Signers =
            (0..wanted.replicas as u16).map(ReplicaId).filter(|replica| transport.is_connected(*replica)).collect();
        let enough =
            connected.len() >= wanted.enough && wanted.including.is_none_or(|replica| connected.contains(replica));
        let waited = start.elapsed();
        if (enough && connected.len() >= wanted.at_once)
            || connected.len() == wanted.replicas
            || waited >= timeout
            || !goes_on()
            || (enough && waited >= GRACE)
        {
            return Ok((log.reach(transport, wanted.replicas), enough));
        }
        transport.poll(Some(SLICE), &mut events)?;
        for event in events.drain(..) {
            if let Event::Disconnected { remote: quorate_transports::Remote::Replica(replica), why, .. } = event {
                log.lost(replica, why);
            }
        }
        log.note(transport.take_refusals());
    }
}
