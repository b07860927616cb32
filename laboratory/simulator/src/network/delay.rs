//! Delays between endpoints, and their regions.

use serde::{Deserialize, Serialize};

/// One-way delays, in milliseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Delay {
    /// The same for all packets.
    Constant { mean_ms: f64 },
    /// Normally distributed per packet, clamped to a range.
    Normal {
        /// Mean before clamping.
        mean_ms: f64,
        /// Standard deviation before clamping.
        deviation_ms: f64,
        min_ms: f64,
        max_ms: f64,
    },
    /// Depends on the regions of the two ends.
    Matrix {
        /// Names of the regions.
        regions: Vec<String>,
        /// Delay from the row's region to the column's.
        one_way_ms: Vec<Vec<f64>>,
        /// Region of each replica. Replica i beyond the end of the list is in region i modulo the number of regions.
        #[serde(default)]
        placement: Vec<String>,
        /// Region of the clients, the first by default, or regions with a client machine each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<ClientRegions>,
    },
}

/// One region, or a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClientRegions {
    One(String),
    Several(Vec<String>),
}

impl Delay {
    /// Returns the regions named for clients.
    pub fn client_regions(&self) -> &[String] {
        match self {
            Delay::Matrix { clients: Some(ClientRegions::One(region)), .. } => std::slice::from_ref(region),
            Delay::Matrix { clients: Some(ClientRegions::Several(regions)), .. } => regions,
            _ => &[],
        }
    }

    /// Returns the number of a replica's region; 0 without regions.
    pub(crate) fn region_of(&self, replica: usize) -> usize {
        let Delay::Matrix { regions, placement, .. } = self else { return 0 };
        let named = |name: &String| regions.iter().position(|region| region == name).expect("the file was validated");
        placement.get(replica).map_or(replica % regions.len(), named)
    }

    /// Returns the invalid key, the problem and a remedy, if any is invalid.
    pub(super) fn validate(&self) -> Result<(), (&'static str, String, &'static str)> {
        match self {
            Delay::Constant { .. } => Ok(()),
            Delay::Normal { mean_ms, min_ms, max_ms, .. } => {
                if (*min_ms..=*max_ms).contains(mean_ms) {
                    return Ok(());
                }
                Err((
                    "delay.mean_ms",
                    format!("is {}, not between {} and {}", short(*mean_ms), short(*min_ms), short(*max_ms)),
                    "set min_ms <= mean_ms <= max_ms",
                ))
            }
            Delay::Matrix { regions, one_way_ms, placement, .. } => {
                if regions.is_empty()
                    || one_way_ms.len() != regions.len()
                    || one_way_ms.iter().any(|row| row.len() != regions.len())
                {
                    return Err((
                        "delay.one_way_ms",
                        format!("has {} rows for {} regions", one_way_ms.len(), regions.len()),
                        "write a row for each region with a number for each region",
                    ));
                }
                let placed = placement.iter().map(|name| ("delay.placement", name));
                let clients = self.client_regions().iter().map(|name| ("delay.clients", name));
                match placed.chain(clients).find(|(_, name)| !regions.contains(name)) {
                    Some((key, name)) => {
                        Err((key, format!("names `{name}`, which is not a region"), "use a name from delay.regions"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// Formats a number, in scientific notation if it is large.
fn short(number: f64) -> String {
    if number.abs() < 1e9 { number.to_string() } else { format!("{number:e}") }
}
