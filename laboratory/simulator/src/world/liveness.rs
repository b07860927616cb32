//! Liveness check: a healed core of replicas must make progress.

use super::lasso::Lasso;
use super::{Event, World};
use crate::parcel::Parcel;
use quorate_adversary::oracles::Property;
use quorate_consensus::Protocol;
use quorate_types::{Bundle, BundleBuilder, Digest, Height, Time};

/// Owner of the probe's client.
const PROBE_OWNER: u128 = 1 << 24;
/// Number of views within which a healed core must agree on the probe: a constant, and an addition per replica.
pub const LIVENESS_VIEWS: (u64, u64) = (12, 4);
/// View timeouts within which every replica of a healed core must catch up, once one of them has executed the probe. A
/// replica that lacks blocks or bundles asks again after `fetch_retry_ms`, in which dozens of views may pass.
pub const CATCH_UP_VIEW_TIMEOUTS: u32 = 60;
/// Maximum length of a view in view timeouts, after any number of earlier timeouts.
const MAX_VIEW_WAIT: u32 = 64;

/// Command that a healed core must execute.
pub(super) struct Probe {
    bundle: Bundle,
    /// Last view that a quorum may reach before the first replica executes it.
    last_view: u64,
    /// Deadline for the first replica, and then for all replicas.
    until: Time,
    /// Whether a correct replica has executed it, which implies that a quorum agreed on it.
    is_decided: bool,
    pub lasso: Lasso,
}

impl<P: Protocol> World<'_, P> {
    /// Ends all faults for a core of replicas, and crashes the others for good.
    pub(super) fn heal(&mut self) {
        let outside = self.trouble.heal.as_ref().map_or(Vec::new(), |(_, outside)| outside.clone());
        self.transcript.add(self.now, || format!("-- healed; outside the core: {outside:?}"));
        self.end_trouble(&outside);
        let client = self.client_keys.identity(PROBE_OWNER);
        let mut builder = BundleBuilder::new(client.origin(), Height(0).latest_expiry());
        builder.push(client.origin(), 1, b"are you there");
        let bundle = client.finish(builder);
        self.oracle.submitted(&bundle);
        let (base, each) = LIVENESS_VIEWS;
        let highest = self.nodes.iter().map(|node| node.view()).max().unwrap_or(0);
        let views = base + each * self.replicas() as u64;
        let longest = self.spec.consensus.view_timeout() * MAX_VIEW_WAIT * views as u32;
        let (last_view, until) = (highest + views, self.now + longest);
        self.probe = Some(Probe { bundle, last_view, until, is_decided: false, lasso: Lasso::default() });
        self.probe();
    }

    /// Sends the probe to the core, and checks whether it was executed.
    pub(super) fn probe(&mut self) {
        let Some(Probe { bundle, last_view, until, is_decided, lasso }) = &self.probe else { return };
        let (bundle, last_view, until, is_decided, found) =
            (bundle.clone(), *last_view, *until, *is_decided, lasso.found);
        let core = self.core();
        let digest: Digest = bundle.digest();
        let is_done = |at: &usize| self.oracle.is_executed_by(&digest, *at);
        let missing: Vec<usize> =
            core.iter().copied().filter(|at| !is_done(at) && !self.oracle.is_faulty(*at)).collect();
        if missing.is_empty() {
            self.clients.stop(self.now);
            return self.wake_clients();
        }
        if !is_decided && core.iter().any(|at| is_done(at) && !self.oracle.is_faulty(*at)) {
            let until = self.now + self.spec.consensus.view_timeout() * CATCH_UP_VIEW_TIMEOUTS;
            self.probe.iter_mut().for_each(|probe| (probe.until, probe.is_decided) = (until, true));
        } else if self.now > until || !is_decided && self.quorum_view(&core) > last_view {
            let lasso = found.map_or(String::new(), |(one, other)| {
                format!("; a lasso: in view {other} the core is in the same state as in view {one}, without a commit")
            });
            let agreement = if is_decided { "was reached" } else { "was not reached" };
            let what = format!(
                "replicas {missing:?} of the healed core {core:?} have not executed the probe; at {:?} a quorum is in \
                 view {}; agreement {agreement}, and its deadline was view {last_view}{lasso}",
                self.now,
                self.quorum_view(&core)
            );
            return self.oracle.report(Property::Liveness, what);
        }
        let bytes = bundle.body().len();
        for replica in core {
            let clients = self.replicas();
            self.nodes[replica].take_in(clients, Parcel::request(bundle.clone(), bytes));
            self.wake(replica);
        }
        self.schedule.push(self.now + self.spec.consensus.view_timeout() / 2, Event::Probe);
    }

    /// Returns the live replicas.
    fn core(&self) -> Vec<usize> {
        (0..self.replicas()).filter(|at| self.nodes[*at].alive).collect()
    }

    /// Returns the highest view that a quorum has reached.
    fn quorum_view(&self, core: &[usize]) -> u64 {
        let mut views: Vec<u64> = core.iter().map(|at| self.nodes[*at].view()).collect();
        views.sort_unstable_by(|one, other| other.cmp(one));
        views.get(self.spec.quorum.quorum() - 1).copied().unwrap_or(0)
    }
}
