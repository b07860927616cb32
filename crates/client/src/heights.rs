//! About where the cluster is: a client has to know, as what it signs expires.

use quorate_types::{Height, Quorum, ReplicaId, Signers};

/// What replicas said of their heights. One that is not there yet, or lies, leads nobody astray: of n-f replies the (f+1)-th highest lies
/// between those of two honest replicas.
pub(crate) struct Heights {
    quorum: Quorum,
    /// The highest that each replica told.
    told: Vec<Height>,
    /// A height that an honest replica has executed.
    estimate: Height,
    /// The present question's name.
    asked: u64,
    answered: Signers,
}

impl Heights {
    pub fn new(quorum: Quorum) -> Heights {
        let told = vec![Height(0); quorum.replicas()];
        Heights { quorum, told, estimate: Height(0), asked: 0, answered: Signers::empty() }
    }

    /// Begins a new question.
    pub fn ask(&mut self) {
        self.answered = Signers::empty();
        self.asked += 1;
    }

    /// The present question's name.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Takes a replica's word.
    pub fn tell(&mut self, from: ReplicaId, id: u64, height: Height) {
        let Some(told) = self.told.get_mut(from.index()) else { return };
        *told = height.max(*told);
        let mut told = self.told.clone();
        told.sort_unstable_by(|one, other| other.cmp(one));
        self.estimate = self.estimate.max(told[self.quorum.faults()]);
        if id == self.asked {
            self.answered.insert(from);
        }
    }

    /// The cluster has come to this height, as f+1 replicas say.
    pub fn prove(&mut self, height: Height) {
        self.estimate = self.estimate.max(height);
    }

    /// Who answered the present question.
    pub fn answered(&self) -> Signers {
        self.answered
    }

    /// A height that an honest replica has executed.
    pub fn estimate(&self) -> Height {
        self.estimate
    }
}
