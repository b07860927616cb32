//! The replicas, the quorum, and the messages that count.

use quorate_types::{Fault, choice};

/// Maximum number of replicas in the formulas. The engine supports fewer.
pub const MAX_REPLICAS: usize = 1000;

choice!(
    /// Messages that count towards PBFT's phases (ADR 073).
    #[derive(Default)]
    Counting, "way of counting",
    /// As in equation 1: every replica with the PRE-PREPARE, including the primary, sends PREPARE to all others, and
    /// needs a quorum of them including its own.
    #[default]
    Paper = "paper",
    /// As in quorate's engine: the primary's PRE-PREPARE is its PREPARE, and it sends no other.
    Engine = "engine",
);

/// Committee that runs an agreement. The primary, or leader, is never silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committee {
    replicas: usize,
    faults: usize,
    silent: usize,
    quorum: usize,
}

impl Committee {
    /// Creates a committee of n replicas that tolerates f faults, without silent ones. The quorum is the smallest
    /// integer above (n + f) / 2.
    ///
    /// # Errors
    /// If there are no replicas, more than [`MAX_REPLICAS`], or at most 3f.
    pub fn new(replicas: usize, faults: usize) -> Result<Committee, Fault> {
        if replicas == 0 || replicas > MAX_REPLICAS {
            let what = format!("a committee has between 1 and {MAX_REPLICAS} replicas, not {replicas}");
            return Err(Fault::new("--replicas", what, "change the number"));
        }
        let least = faults.saturating_mul(3).saturating_add(1);
        if replicas < least {
            let what = format!("{replicas} replicas cannot tolerate {faults} Byzantine faults");
            return Err(Fault::new(
                "--replicas",
                what,
                format!("use at least {least} replicas (3f+1), or fewer faults"),
            ));
        }
        Ok(Committee { replicas, faults, silent: 0, quorum: (replicas + faults) / 2 + 1 })
    }

    /// Makes some replicas silent: they send nothing.
    ///
    /// # Errors
    /// If no replica would be left.
    pub fn with_silent(self, silent: usize) -> Result<Committee, Fault> {
        if silent >= self.replicas {
            let what = format!("{silent} of {} replicas are silent, and the primary must not be", self.replicas);
            return Err(Fault::new("--silent", what, format!("set at most {}", self.replicas - 1)));
        }
        Ok(Committee { silent, ..self })
    }

    /// Replaces the quorum. The paper uses 2f+1 also for n = 20 and f = 6, where two such quorums need not share an
    /// honest replica.
    ///
    /// # Errors
    /// If it is 0 or exceeds the number of replicas.
    pub fn with_quorum(self, quorum: usize) -> Result<Committee, Fault> {
        if quorum == 0 || quorum > self.replicas {
            let what = format!("{quorum} is no quorum of {} replicas", self.replicas);
            return Err(Fault::new("--quorum", what, format!("set it between 1 and {}", self.replicas)));
        }
        Ok(Committee { quorum, ..self })
    }

    /// Number of replicas, n, including silent ones.
    pub fn replicas(self) -> usize {
        self.replicas
    }

    /// Number of tolerated faults, f.
    pub fn faults(self) -> usize {
        self.faults
    }

    /// Replicas that send nothing, k.
    pub fn silent(self) -> usize {
        self.silent
    }

    /// Replicas that send, including the primary: n - k.
    pub fn active(self) -> usize {
        self.replicas - self.silent
    }

    /// Equal messages for which a replica waits in each phase, including its own.
    pub fn quorum(self) -> usize {
        self.quorum
    }

    /// 2f+1, the replies that a client needs in the worst case, and the limit of the paper's switching criterion.
    pub fn strong(self) -> usize {
        2 * self.faults + 1
    }

    /// f+1, the replies that a client needs in the best case.
    pub fn weak(self) -> usize {
        self.faults + 1
    }
}
