//! Smoothed round trips of the links between replicas.

use super::{Growth, US_PER_MS};
use quorate_types::ReplicaId;
use serde::{Deserialize, Serialize};

/// Smoothed round trips in milliseconds at the end of the measured time, by each link's own estimator: the transport's,
/// or the kernel's for TCP. They include the remote's delay of the acknowledgement.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RoundTripFigures {
    /// Median over all links, each counted at both ends.
    pub p50: Option<f64>,
    pub max: Option<f64>,
    /// `links[a][b]`: link between a and b, as estimated by a; `null` without an estimate.
    pub links: Vec<Vec<Option<f64>>>,
}

impl RoundTripFigures {
    /// Returns the figures; `None` if no replica reports an estimate.
    pub(crate) fn of(growth: &Growth<'_>) -> Option<RoundTripFigures> {
        let last = growth.last();
        let known = |status: &&quorate_types::Status| !status.round_trips_us.is_empty();
        let replicas = last.values().filter(|status| known(status)).map(|status| status.peers + 1).max()?;
        let links: Vec<Vec<Option<f64>>> = (0..replicas)
            .map(|from| {
                let trips = last.get(&ReplicaId(from as u16)).map_or(&[][..], |status| &status.round_trips_us);
                let mut row = vec![None; replicas];
                for (to, us) in trips {
                    if let Some(cell) = row.get_mut(to.index()) {
                        *cell = Some(*us as f64 / US_PER_MS);
                    }
                }
                row
            })
            .collect();
        let mut all: Vec<f64> = links.iter().flatten().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        Some(RoundTripFigures { p50: all.get(all.len() / 2).copied(), max: all.last().copied(), links })
    }
}
