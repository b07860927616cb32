//! Links between replicas: their delays and losses.

use super::play::Told;
use super::random::Random;
use quorate_consensus::Envelope;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_types::{ReplicaId, Time, View};
use std::time::Duration;

/// Message between replicas.
pub type Letter<M = ChainedMessage> = Envelope<M>;

/// Message about to enter a link.
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
    /// Returns the view of a message, if it has one.
    pub fn view(&self) -> Option<View> {
        match self.letter {
            Envelope::Protocol(message) => Told::view(message),
            _ => None,
        }
    }
}

/// Predicate that selects messages to drop.
pub type Filter<M = ChainedMessage> = Box<dyn FnMut(Flight<'_, M>) -> bool>;

/// Network with one link for each ordered pair of replicas.
pub struct Network<M = ChainedMessage> {
    replicas: usize,
    delays: Vec<Duration>,
    cut: Vec<bool>,
    /// Upper bound on the random part of each delay. Messages may overtake each other.
    pub jitter: Duration,
    pub lost_per_mille: u64,
    pub doubled_per_mille: u64,
    /// Drops the messages for which it returns true.
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

    /// Disturbs or heals links, as the random numbers say.
    pub fn disturb(&mut self, random: &mut Random) {
        let replicas = self.replicas as u64;
        let mut replica = || ReplicaId(random.below(replicas) as u16);
        let (one, other) = (replica(), replica());
        match random.below(8) {
            0 => self.isolate(one, true),
            1 => self.silence(one, true),
            2 | 3 => self.set_cut(one, other, true),
            4 => self.set_delay(one, other, random.time_below(Duration::from_millis(20))),
            5 => {
                self.lost_per_mille = random.below(100);
                self.doubled_per_mille = random.below(100);
            }
            6 => self.isolate(one, false),
            _ => self.heal(),
        }
    }

    fn link(&self, from: ReplicaId, to: ReplicaId) -> usize {
        from.index() * self.replicas + to.index()
    }

    pub fn set_delay(&mut self, from: ReplicaId, to: ReplicaId, delay: Duration) {
        let link = self.link(from, to);
        self.delays[link] = delay;
    }

    /// Cuts or restores one direction of a link.
    pub fn set_cut(&mut self, from: ReplicaId, to: ReplicaId, cut: bool) {
        let link = self.link(from, to);
        self.cut[link] = cut;
    }

    /// Cuts or restores all links from and to `replica`.
    pub fn isolate(&mut self, replica: ReplicaId, cut: bool) {
        self.silence(replica, cut);
        for other in 0..self.replicas as u16 {
            self.set_cut(ReplicaId(other), replica, cut);
        }
    }

    /// Cuts or restores all links from `replica`.
    pub fn silence(&mut self, replica: ReplicaId, cut: bool) {
        for other in 0..self.replicas as u16 {
            self.set_cut(replica, ReplicaId(other), cut);
        }
    }

    /// Restores all links permanently.
    pub fn heal(&mut self) {
        self.cut.fill(false);
        self.lost_per_mille = 0;
        self.doubled_per_mille = 0;
        self.filter = None;
    }

    /// Returns the arrival times of the copies of a message: none if it is lost, two if it is duplicated.
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
