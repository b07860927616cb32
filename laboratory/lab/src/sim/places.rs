//! Text form of the places of the clients' machines.

use quorate_operator::{BadValue, as_text};
use quorate_simulator::{ClientsAt, MachineSpec};
use quorate_types::Fault;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

const FORMS: &str = "one, clients (a machine for each), replicas (a machine next to each), regions of the network such \
                     as ohio,oregon, or a file such as clients.toml";
/// Suffix that marks a file name. Other names are regions.
const FILE_ENDING: &str = ".toml";

/// Places of the clients' machines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientPlaces {
    One,
    Clients,
    Replicas,
    Regions(Vec<String>),
    /// Path of a file with a list of machines.
    File(String),
}

/// Contents of a file of machines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    machine: Vec<MachineSpec>,
}

impl ClientPlaces {
    /// Returns the places for the simulator. `read` returns a file's text.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn resolve<E: From<Fault>>(&self, read: impl FnOnce(&str) -> Result<String, E>) -> Result<ClientsAt, E> {
        let path = match self {
            ClientPlaces::One => return Ok(ClientsAt::One),
            ClientPlaces::Clients => return Ok(ClientsAt::Clients),
            ClientPlaces::Replicas => return Ok(ClientsAt::Replicas),
            ClientPlaces::Regions(regions) => return Ok(ClientsAt::Regions(regions.clone())),
            ClientPlaces::File(path) => path,
        };
        let machines: Machines = toml::from_str(&read(path)?).map_err(|error| {
            let help = "write a [[machine]] table for each, with any of region, replica and clients";
            Fault::new(path.as_str(), error.to_string().trim_end(), help)
        })?;
        Ok(ClientsAt::Listed(machines.machine))
    }

    /// Returns the path of the file, if it is one.
    pub fn file(&self) -> Option<&str> {
        match self {
            ClientPlaces::File(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for ClientPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientPlaces::One => f.write_str("one"),
            ClientPlaces::Clients => f.write_str("clients"),
            ClientPlaces::Replicas => f.write_str("replicas"),
            ClientPlaces::Regions(regions) => f.write_str(&regions.join(",")),
            ClientPlaces::File(path) => f.write_str(path),
        }
    }
}

impl FromStr for ClientPlaces {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<ClientPlaces, BadValue> {
        let regions: Vec<String> = text.split(',').map(|region| region.trim().to_owned()).collect();
        Ok(match text {
            "one" => ClientPlaces::One,
            "clients" => ClientPlaces::Clients,
            "replicas" => ClientPlaces::Replicas,
            path if path.ends_with(FILE_ENDING) => ClientPlaces::File(path.to_owned()),
            _ if regions.iter().any(String::is_empty) => {
                let (given, why) = (text.to_owned(), " (a name is missing)".to_owned());
                return Err(BadValue { kind: "place of clients", given, why, forms: FORMS });
            }
            _ => ClientPlaces::Regions(regions),
        })
    }
}

as_text!(ClientPlaces);
