//! Which of the replicas' replies can be believed: the one that enough replicas gave.

use quorate_types::{ReplicaId, Signers};

/// Most different replies to one request that are kept from one replica. An honest replica gives one, or a second one when the
/// request was ordered again after the first was forgotten; what a lying one gives beyond the limit is not counted.
pub const MAX_REPLIES_PER_REPLICA: usize = 4;

/// Counts, for one request, how many replicas gave each reply. A replica counts once for each reply, so that a liar can neither
/// make up a quorum nor take its own part of one away from the honest.
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
    /// Counts a replica's reply; hands the reply out when the replica makes `needed` of them. `needed` is at least 1.
    #[inline]
    pub fn add(&mut self, from: ReplicaId, reply: R, needed: usize) -> Option<R> {
        assert!(needed > 0, "a reply is believed because somebody gave it");
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

    /// How many different replies there are.
    pub fn distinct(&self) -> usize {
        self.candidates.len()
    }

    /// The replicas that gave any reply.
    pub fn replicas(&self) -> Signers {
        let mut all = Signers::empty();
        self.candidates.iter().for_each(|candidate| all.union(&candidate.replicas));
        all
    }

    /// Forgets every reply and keeps the memory.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }
}
