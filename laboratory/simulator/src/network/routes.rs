//! Delay and loss of each link.

use super::delay::Delay;
use super::endpoints::Endpoints;
use super::faults::pairs;
use super::spec::{NetworkSpec, Topology};
use crate::clock::ms_to_ns;
use crate::links::Loss;

/// Delay and loss of an ordered pair's link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Route {
    /// Constant part of the delay; in a star, of both hops. If delays are normally distributed, their mean.
    pub delay_ns: u64,
    /// In a star, the loss on the first hop, unless the file overrides it for this link.
    pub loss: Loss,
}

impl NetworkSpec {
    /// Returns the route of every ordered pair of endpoints: `from * endpoints.count() + to`.
    pub fn routes(&self, endpoints: &Endpoints<'_>) -> Vec<Route> {
        let ends = endpoints.count();
        let legs = if self.topology == Topology::Star { 2.0 } else { 1.0 };
        let regions = Regions::new(endpoints);
        let pair = |at: usize| {
            let delay_ns = ms_to_ns(legs * regions.delay_ms(at / ends, at % ends));
            Route { delay_ns, loss: self.loss }
        };
        let mut routes: Vec<Route> = (0..ends * ends).map(pair).collect();
        for link in &self.links {
            for (from, to) in pairs(&endpoints.of(&link.from), &endpoints.of(&link.to), false) {
                if from >= ends || to >= ends {
                    continue;
                }
                let changed = &mut routes[from * ends + to];
                changed.delay_ns = link.delay_ms.map_or(changed.delay_ns, ms_to_ns);
                changed.loss = link.loss.unwrap_or(changed.loss);
            }
        }
        routes
    }
}

struct Regions<'a> {
    delay: &'a Delay,
    /// Region of each endpoint; 0 without a matrix.
    of: Vec<usize>,
}

impl<'a> Regions<'a> {
    fn new(endpoints: &Endpoints<'a>) -> Regions<'a> {
        let replicas = (0..endpoints.replicas).map(|replica| endpoints.delay.region_of(replica));
        let machines = endpoints.machines.iter().map(|machine| machine.region.unwrap_or(0));
        Regions { delay: endpoints.delay, of: replicas.chain(machines).collect() }
    }

    fn delay_ms(&self, from: usize, to: usize) -> f64 {
        match self.delay {
            Delay::Constant { mean_ms } | Delay::Normal { mean_ms, .. } => *mean_ms,
            Delay::Matrix { one_way_ms, .. } => one_way_ms[self.of[from]][self.of[to]],
        }
    }
}
