//! Connectivity of a client: the connected replicas, and the reasons why others are unreachable.

use crate::config::ClientConfig;
use quorate_network::transports::{Event, Refusal, Transport};
use quorate_types::parameters::list;
use quorate_types::{Difference, EpochId, ReplicaId, Signers};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// Time that a client waits for the remaining replicas after enough are connected.
pub const GRACE: Duration = Duration::from_millis(1_000);
/// Maximum duration of one poll.
const SLICE: Duration = Duration::from_millis(20);

/// State of a client's connections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    pub reached: Vec<ReplicaId>,
    /// Unconnected replicas, each with the last known reason.
    pub unreached: BTreeMap<ReplicaId, String>,
    /// Unconnected replicas that have proved their identity, but have a different genesis.
    pub of_other_genesis: Signers,
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

/// Last reasons why replicas were unreachable.
#[derive(Default)]
pub struct ReachLog {
    reasons: BTreeMap<ReplicaId, String>,
    of_other_genesis: Signers,
    /// Used to explain how another genesis differs.
    config: Option<ClientConfig>,
    /// The last foreign genesis and how it differs, so that each reconnection need not compare again.
    explained: Option<(EpochId, String)>,
}

impl ReachLog {
    /// Returns a log that names the keys in which a replica's genesis differs from the configuration's.
    pub fn of(config: &ClientConfig) -> ReachLog {
        ReachLog { config: Some(config.clone()), ..ReachLog::default() }
    }

    /// Records failed connection attempts.
    pub fn on_refused(&mut self, refusals: Vec<Refusal>) {
        for Refusal { address, dialled, why } in refusals {
            let Some(replica) = dialled else { continue };
            let explanation = why.other_genesis().and_then(|theirs| self.explain(theirs));
            self.of_other_genesis.remove(replica);
            if explanation.is_some() {
                self.of_other_genesis.insert(replica);
            }
            let why = explanation.unwrap_or_else(|| why.to_string());
            self.reasons.insert(replica, format!("{address}: {why}"));
        }
    }

    pub fn on_disconnected(&mut self, replica: ReplicaId, why: String) {
        self.reasons.insert(replica, why);
    }

    /// Explains how another genesis differs; `None` without a configuration.
    fn explain(&mut self, theirs: EpochId) -> Option<String> {
        if let Some((_, text)) = self.explained.as_ref().filter(|(explained, _)| *explained == theirs) {
            return Some(text.clone());
        }
        let config = self.config.as_ref()?;
        let (ours, differences) = (config.committee().ok()?.epoch, config.genesis_differences(&theirs).ok()?);
        let text = format!("it has {theirs:?}, and this client {ours:?}: {}", in_words(&differences));
        self.explained = Some((theirs, text.clone()));
        Some(text)
    }

    /// Returns the current state of the connections.
    pub fn reach(&mut self, transport: &mut dyn Transport, replicas: usize) -> Reach {
        self.on_refused(transport.take_refusals());
        let mut reach = Reach::default();
        for replica in (0..replicas as u16).map(ReplicaId) {
            if transport.is_connected(replica) {
                reach.reached.push(replica);
            } else {
                let why = self.reasons.get(&replica).map_or("no answer yet", String::as_str);
                reach.unreached.insert(replica, why.to_owned());
                if self.of_other_genesis.contains(replica) {
                    reach.of_other_genesis.insert(replica);
                }
            }
        }
        reach
    }
}

/// Formats the keys in which a configuration differs from the replica's, and the remedy.
fn in_words(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "the members' keys, their number or their order differ; help: compare `members` with the replica's \
                config.toml, or copy the client.toml that `quorate testnet` wrote"
            .to_owned();
    }
    format!("{}; help: correct this configuration, or that of the replicas", list(differences))
}

/// Connections that a client needs before it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Number of all replicas.
    pub replicas: usize,
    /// Number of connections that suffice after [`GRACE`].
    pub enough: usize,
    /// Number of connections that suffice at once.
    pub at_once: usize,
    /// Replica that must be connected.
    pub including: Option<ReplicaId>,
}

/// Polls until enough replicas are connected (see [`Wanted`]), the timeout expires or `goes_on` returns false. Returns
/// the state of the connections and whether it suffices. Drops all received frames, since nothing was requested yet.
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
            if let Event::Disconnected { remote: quorate_network::transports::Remote::Replica(replica), why, .. } =
                event
            {
                log.on_disconnected(replica, why);
            }
        }
        log.on_refused(transport.take_refusals());
    }
}
