//! Settings of a cluster that this process did not start.

use quorate_types::{Settings, Status};
use serde::{Deserialize, Serialize};

/// Information about a cluster under load.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// Settings of its replicas; `None` if their version does not report them. Only the client's keys of the spec are
    /// known then.
    pub settings: Option<Settings>,
}

impl Loaded {
    /// Takes the settings from the first status that reports them.
    pub(crate) fn of<'a>(mut statuses: impl Iterator<Item = &'a Status>) -> Loaded {
        Loaded { settings: statuses.find_map(|status| status.settings.clone()) }
    }
}
