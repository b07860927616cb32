//! Quorum arithmetic for any number of replicas, not only 3f+1.

use thiserror::Error;

/// The number of replicas and the number of them that may be faulty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quorum {
    replicas: usize,
    faults: usize,
}

/// Invalid size of a committee.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum QuorumError {
    /// Byzantine agreement needs n > 3f.
    #[error(
        "{replicas} replicas cannot tolerate {faults} Byzantine faults: at least {} are needed",
        faults.saturating_mul(3).saturating_add(1)
    )]
    TooFewReplicas { replicas: usize, faults: usize },
    #[error("a committee has between 1 and {most} replicas, not {0}", most = crate::limits::MAX_REPLICAS)]
    Size(usize),
}

impl Quorum {
    /// Returns the quorum of `replicas` with the maximum number of faults, f = floor((n-1)/3).
    pub fn of(replicas: usize) -> Result<Quorum, QuorumError> {
        Quorum::with_faults(replicas, replicas.saturating_sub(1) / 3)
    }

    /// Returns the quorum for n > 3f, which includes 3f+1+x and 5f+1.
    pub fn with_faults(replicas: usize, faults: usize) -> Result<Quorum, QuorumError> {
        if replicas == 0 || replicas > crate::limits::MAX_REPLICAS {
            return Err(QuorumError::Size(replicas));
        }
        if replicas <= faults.saturating_mul(3) {
            return Err(QuorumError::TooFewReplicas { replicas, faults });
        }
        Ok(Quorum { replicas, faults })
    }

    /// Returns the number of replicas, n.
    pub fn replicas(self) -> usize {
        self.replicas
    }

    /// Returns the maximum number of faulty replicas, f.
    pub fn faults(self) -> usize {
        self.faults
    }

    /// Returns the smallest integer greater than (n+f)/2: any two sets of this size share an honest replica.
    pub fn quorum(self) -> usize {
        if crate::bug!(FourOfSeven) && self.replicas == 7 { 4 } else { (self.replicas + self.faults) / 2 + 1 }
    }

    /// Returns f+1: any set of this size contains an honest replica.
    pub fn weak(self) -> usize {
        self.faults + 1
    }
}
