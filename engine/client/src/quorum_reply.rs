//! Quorum of equal replies: a reply is trusted if enough replicas gave it.

use quorate_types::{ReplicaId, Signers};

/// Maximum number of different replies to one request that count per replica. An honest replica gives one, or two if
/// the request was ordered again after its first result was evicted.
pub const MAX_REPLIES_PER_REPLICA: usize = 4;

/// Count of the replicas that gave each reply to one request. A replica counts once for each reply, so a liar can
/// neither forge a quorum nor prevent one.
#[derive(Clone, Debug)]
pub struct ReplyQuorum<R> {
    candidates: Vec<Candidate<R>>,
}

#[derive(Clone, Debug)]
struct Candidate<R> {
    reply: R,
    replicas: Signers,
}

impl<R> Default for ReplyQuorum<R> {
    fn default() -> Self {
        ReplyQuorum { candidates: Vec::new() }
    }
}

impl<R: PartialEq> ReplyQuorum<R> {
    /// Counts a replica's reply, and returns it if `needed` replicas (at least 1) gave it.
    #[inline]
    pub fn add(&mut self, from: ReplicaId, reply: R, needed: usize) -> Option<R> {
        assert!(needed > 0, "a reply quorum is at least 1");
        let at = match self.candidates.iter().position(|candidate| candidate.reply == reply) {
            Some(at) => at,
            None => {
                let said = self.candidates.iter().filter(|candidate| candidate.replicas.contains(from)).count();
                if said == MAX_REPLIES_PER_REPLICA {
                    return None;
                }
                self.candidates.push(Candidate { reply, replicas: Signers::empty() });
                self.candidates.len() - 1
            }
        };
        self.candidates[at].replicas.insert(from);
        (self.candidates[at].replicas.len() >= needed).then(|| self.candidates.swap_remove(at).reply)
    }

    /// Returns the number of different replies.
    pub fn distinct(&self) -> usize {
        self.candidates.len()
    }

    /// Returns the replicas that gave any reply.
    pub fn replicas(&self) -> Signers {
        let mut all = Signers::empty();
        self.candidates.iter().for_each(|candidate| all.union(&candidate.replicas));
        all
    }

    /// Drops all replies but keeps the allocation.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }
}
