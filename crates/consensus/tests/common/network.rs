//! The links between replicas: how long they take, and what they lose.

use super::play::Told;
use super::random::Random;
use quorate_consensus::Envelope;
use quorate_consensus::chained::message::ChainedMessage;
use quorate_types::{ReplicaId, Time, View};
use std::time::Duration;

/// What replicas say to each other.
pub type Letter<M = ChainedMessage> = Envelope<M>;

/// A message about to enter a link.
pub struct Flight<'a, M = ChainedMessage> {
    pub now: Time,
    pub from: ReplicaId,
    pub to: ReplicaId,
    pub letter: &'a Letter<M>,
}

impl<M> Clone for Flight<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Flight<'_, M> {}

impl<M: Told> Flight<'_, M> {
    /// The view that a message belongs to, if it belongs to one.
    pub fn view(&self) -> Option<View> {
        match self.letter {
            Envelope::Protocol(message) => Told::view(message),
            _ => None,
        }
    }
}

/// Whether a message is lost.
pub type Filter<M = ChainedMessage> = Box<dyn FnMut(Flight<'_, M>) -> bool>;

/// Every ordered pair of replicas has its link.
pub struct Network<M = ChainedMessage> {
    replicas: usize,
    delays: Vec<Duration>,
    cut: Vec<bool>,
    /// Added to every delay, at random below this; messages may overtake each other.
    pub jitter: Duration,
    pub lost_per_mille: u64,
    pub doubled_per_mille: u64,
    /// Loses a message if it says true.
    pub filter: Option<Filter<M>>,
    pub random: Random,
}

impl<M> Network<M> {
    pub fn new(replicas: usize, delay: Duration, seed: u64) -> Self {
        Network {
            replicas,
            delays: vec![delay; replicas * replicas],
            cut: vec![false; replicas * replicas],
            jitter: Duration::ZERO,
            lost_per_mille: 0,
            doubled_per_mille: 0,
            filter: None,
            random: Random::new(seed),
        }
    }

    fn link(&self, from: ReplicaId, to: ReplicaId) -> usize {
        from.index() * self.replicas + to.index()
    }

    pub fn set_delay(&mut self, from: ReplicaId, to: ReplicaId, delay: Duration) {
        let link = self.link(from, to);
        self.delays[link] = delay;
    }

    /// Cuts or mends one direction.
    pub fn set_cut(&mut self, from: ReplicaId, to: ReplicaId, cut: bool) {
        let link = self.link(from, to);
        self.cut[link] = cut;
    }

    /// Cuts or mends whatever `replica` would send to others, and what they would send to it.
    pub fn isolate(&mut self, replica: ReplicaId, cut: bool) {
        self.silence(replica, cut);
        for other in 0..self.replicas as u16 {
            self.set_cut(ReplicaId(other), replica, cut);
        }
    }

    /// Cuts or mends whatever `replica` would send to others.
    pub fn silence(&mut self, replica: ReplicaId, cut: bool) {
        for other in 0..self.replicas as u16 {
            self.set_cut(replica, ReplicaId(other), cut);
        }
    }

    /// Mends everything, for good.
    pub fn heal(&mut self) {
        self.cut.fill(false);
        self.lost_per_mille = 0;
        self.doubled_per_mille = 0;
        self.filter = None;
    }

    /// When the copies of a message arrive: one, none if it is lost, or two.
    pub fn carry(&mut self, flight: Flight<'_, M>) -> Vec<Time> {
        let link = self.link(flight.from, flight.to);
        let lost = self.cut[link]
            || self.random.per_mille(self.lost_per_mille)
            || self.filter.as_mut().is_some_and(|filter| filter(flight));
        if lost {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.random.per_mille(self.doubled_per_mille));
        let (delay, jitter) = (self.delays[link], self.jitter);
        (0..copies).map(|_| flight.now + delay + self.random.time_below(jitter)).collect()
    }
}
