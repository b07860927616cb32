//! Placement of the client machines, and the number of clients on each.

use super::delay::Delay;
use super::endpoints::Place;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{Fault, ReplicaId};
use serde::{Deserialize, Serialize};

/// Maximum number of machines.
pub const MAX_CLIENT_MACHINES: usize = MAX_REPLICAS;

/// Placement of the client machines.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientsAt {
    /// One machine in each region that the network file names for clients.
    #[default]
    Network,
    /// One machine, in the first of these regions.
    One,
    /// One machine per client, all in the first of these regions.
    Clients,
    /// One machine per replica, in its region.
    Replicas,
    /// One machine in each of these regions.
    Regions(Vec<String>),
    Listed(Vec<MachineSpec>),
}

/// One entry of a list of machines.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// Region; by default, the region of `replica`.
    pub region: Option<String>,
    /// Home replica. By default the nearest one, with the lowest number if there are several.
    pub replica: Option<u16>,
    /// Number of its clients. Machines without a number share the remaining clients evenly.
    pub clients: Option<u32>,
}

/// Places the machines of `clients` clients in a network with these delays and `replicas` replicas. `name` identifies
/// the network in errors.
///
/// # Errors
/// If a region or replica does not exist, there are too many machines, or there are fewer clients than machines.
pub fn place(at: &ClientsAt, delay: &Delay, replicas: usize, clients: usize, name: &str) -> Result<Vec<Place>, Fault> {
    let own = delay.client_regions();
    let somewhere = |region: Option<&String>| MachineSpec { region: region.cloned(), ..MachineSpec::default() };
    let machines: Vec<MachineSpec> = match at {
        ClientsAt::Network if own.is_empty() => vec![somewhere(None)],
        ClientsAt::Network => own.iter().map(|region| somewhere(Some(region))).collect(),
        ClientsAt::One => vec![somewhere(own.first())],
        ClientsAt::Clients => (0..clients.min(MAX_CLIENT_MACHINES + 1)).map(|_| somewhere(own.first())).collect(),
        ClientsAt::Replicas => {
            let next_to = |replica| MachineSpec { replica: Some(replica), ..MachineSpec::default() };
            (0..replicas as u16).map(next_to).collect()
        }
        ClientsAt::Regions(regions) => regions.iter().map(|region| somewhere(Some(region))).collect(),
        ClientsAt::Listed(machines) => machines.clone(),
    };
    if machines.is_empty() || machines.len() > MAX_CLIENT_MACHINES {
        let what = format!("{} machines of clients are out of range", machines.len());
        return Err(Fault::new("--clients-at", what, format!("set 1 to {MAX_CLIENT_MACHINES} machines")));
    }
    let shares = shares(&machines, clients)?;
    let settle = |(machine, clients): (&MachineSpec, usize)| {
        let absent = machine.replica.filter(|replica| usize::from(*replica) >= replicas);
        if let Some(replica) = absent {
            let what = format!("names replica {replica}, but the last one is {}", replicas - 1);
            return Err(Fault::new("--clients-at", what, format!("name replicas from 0 to {}", replicas - 1)));
        }
        Ok(Place { region: region_of(machine, delay, name)?, home: machine.replica.map(ReplicaId), clients })
    };
    machines.iter().zip(shares).map(settle).collect()
}

/// Returns the number of clients of each machine. The first machines get one more if there is a remainder.
fn shares(machines: &[MachineSpec], clients: usize) -> Result<Vec<usize>, Fault> {
    let refuse = |what: String, help: String| Err(Fault::new("--clients-at, --clients", what, help));
    let given: usize = machines.iter().filter_map(|machine| machine.clients).map(|clients| clients as usize).sum();
    let open = machines.iter().filter(|machine| machine.clients.is_none()).count();
    let left = clients.saturating_sub(given);
    if machines.iter().any(|machine| machine.clients == Some(0)) || given > clients || left < open {
        let what = format!("{clients} clients are too few for {} machines with a client or more each", machines.len());
        return refuse(what, format!("set --clients to at least {}, or name fewer machines", given + open));
    }
    if open == 0 && left > 0 {
        let what = format!("the machines have {given} of {clients} clients");
        return refuse(what, format!("set --clients {given}, or leave `clients` out for a machine"));
    }
    let mut number = 0;
    let share = |machine: &MachineSpec| {
        machine.clients.map_or_else(
            || {
                number += 1;
                left / open + usize::from(number <= left % open)
            },
            |clients| clients as usize,
        )
    };
    Ok(machines.iter().map(share).collect())
}

fn region_of(machine: &MachineSpec, delay: &Delay, name: &str) -> Result<Option<usize>, Fault> {
    let Delay::Matrix { regions, .. } = delay else {
        return match &machine.region {
            None => Ok(None),
            Some(region) => {
                let what = format!("names the region `{region}`, but the network `{name}` has no regions");
                Err(Fault::new("--clients-at", what, "use --network us4, wan4, world12, or a file with a matrix"))
            }
        };
    };
    match &machine.region {
        None => Ok(Some(machine.replica.map_or(0, |replica| delay.region_of(usize::from(replica))))),
        Some(region) => regions.iter().position(|other| other == region).map(Some).ok_or_else(|| {
            let what = format!("`{region}` is not a region of the network `{name}`");
            Fault::new("--clients-at", what, format!("use one of {}", regions.join(", ")))
        }),
    }
}
