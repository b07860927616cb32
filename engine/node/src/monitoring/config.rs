//! The table `[monitoring]` of a configuration.

use crate::config_file::{ConfigFault, Place};
use quorate_types::Address;
use quorate_types::settings::With;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table `[monitoring]` of a configuration: a listener for monitors and supervisors.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MonitoringConfig {
    /// Address on which the replica serves `/metrics`, `/healthz`, `/readyz` and `/status` over HTTP, without
    /// authentication. Absent: none. `admin_listen` is for `quorate status`, which does not speak HTTP.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// Whether other hosts may reach `address`.
    #[schemars(extend("x-with" = With::other("monitoring.address", &["absent"])))]
    pub beyond_loopback: bool,
}

impl MonitoringConfig {
    /// Returns the error for an address that other hosts may reach, unless they may.
    pub(crate) fn check_reach(&self, address: &Address) -> Result<(), ConfigFault> {
        if address.is_loopback() || self.beyond_loopback {
            return Ok(());
        }
        Err(ConfigFault {
            place: Place::in_table("monitoring", "address"),
            what: format!("is {address}, which other hosts may reach, but this listener has no authentication"),
            help: format!(
                "use 127.0.0.1:{}, or set `beyond_loopback = true` if only monitors reach it",
                address.port()
            ),
        })
    }
}
