//! Estimate of the cluster's height. A client needs it because its bundles expire at a height.

use quorate_types::{Height, Quorum, ReplicaId, Signers};

/// Heights reported by replicas. Replicas that lag or lie do no harm: of n-f answers, the (f+1)-th highest lies between
/// the heights of two honest replicas.
pub(crate) struct Heights {
    quorum: Quorum,
    /// Highest height reported by each replica.
    reported: Vec<Height>,
    /// A height that an honest replica has executed.
    estimate: Height,
    /// Id of the current query.
    asked: u64,
    answered: Signers,
}

impl Heights {
    pub fn new(quorum: Quorum) -> Heights {
        let reported = vec![Height(0); quorum.replicas()];
        Heights { quorum, reported, estimate: Height(0), asked: 0, answered: Signers::empty() }
    }

    /// Starts a new query.
    pub fn ask(&mut self) {
        self.answered = Signers::empty();
        self.asked += 1;
    }

    /// Returns the id of the current query.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    pub fn on_answer(&mut self, from: ReplicaId, id: u64, height: Height) {
        let Some(reported) = self.reported.get_mut(from.index()) else { return };
        *reported = height.max(*reported);
        let mut reported = self.reported.clone();
        reported.sort_unstable_by(|one, other| other.cmp(one));
        self.estimate = self.estimate.max(reported[self.quorum.faults()]);
        if id == self.asked {
            self.answered.insert(from);
        }
    }

    /// Records a height reported by f+1 replicas.
    pub fn on_proven(&mut self, height: Height) {
        self.estimate = self.estimate.max(height);
    }

    /// Returns the replicas that answered the current query.
    pub fn answered(&self) -> Signers {
        self.answered
    }

    pub fn estimate(&self) -> Height {
        self.estimate
    }
}
