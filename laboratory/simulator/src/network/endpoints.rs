//! Endpoints of a network: the replicas, followed by the client machines.

use super::delay::Delay;
use super::end::End;
use quorate_types::ReplicaId;

/// A client machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of its region in the network's matrix, if it has one.
    pub region: Option<usize>,
    /// Replica next to it; `None` for the nearest one.
    pub home: Option<ReplicaId>,
    pub clients: usize,
}

impl Place {
    /// Returns the name of its region.
    pub fn name<'a>(&self, delay: &'a Delay) -> Option<&'a str> {
        let Delay::Matrix { regions, .. } = delay else { return None };
        Some(&regions[self.region?])
    }
}

/// Endpoints of a network: the replicas, followed by the client machines.
pub struct Endpoints<'a> {
    pub replicas: usize,
    pub machines: &'a [Place],
    pub delay: &'a Delay,
}

impl Endpoints<'_> {
    pub fn count(&self) -> usize {
        self.replicas + self.machines.len()
    }

    /// Returns the endpoints named by an end of a link; empty if it names a machine that does not exist.
    pub fn of(&self, end: &End) -> Vec<usize> {
        let name = match end {
            End::Replica(replica) => return vec![usize::from(*replica)],
            End::Named(name) => name,
        };
        let is_named = |(number, machine): &(usize, &Place)| match end.machine() {
            Some(one) => *number == one,
            None => end.is_all_clients() || machine.name(self.delay) == Some(name),
        };
        let named = self.machines.iter().enumerate().filter(is_named);
        named.map(|(number, _)| self.replicas + number).collect()
    }
}

/// Returns an endpoint's name in transcripts: its number, or the machine's number if there are several client machines.
pub fn endpoint_name(end: usize, replicas: usize, machines: usize) -> String {
    if end >= replicas && machines > 1 { format!("C{}", end - replicas) } else { format!("R{end}") }
}
