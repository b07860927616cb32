//! Fair scheduling of clients: one queue per link, and turns weighted by cost.
//!
//! This is deficit round robin over nanoseconds of work. A link is served while its balance is positive. The cost of a
//! frame is subtracted after it was served, when the cost is known. A link without balance goes to the back of the
//! round and earns a [`QUANTUM_NS`]. Debt survives an empty queue, credit does not, so sending expensive requests one
//! at a time gains nothing over sending a hundred at once.
//!
//! Links that have sent a genuine bundle ([`Standing::Genuine`]) have a separate round, so strangers' links cannot
//! lengthen an honest client's round, however many there are.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Credit that a link earns each time it goes to the back of the round, in nanoseconds.
pub const QUANTUM_NS: u64 = 200_000;
/// Maximum debt of a link, in nanoseconds, so that a round ends after a bounded number of steps.
pub const MAX_DEBT_NS: u64 = 64 * QUANTUM_NS;

/// Trust in a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The link has sent no genuine bundle yet, or has sent a forgery.
    Stranger,
    /// The link has sent a bundle signed by its client, and no forgery since.
    Genuine,
}

/// Queue of one link.
struct Line<K, T> {
    link: K,
    standing: Standing,
    waiting: VecDeque<T>,
    balance_ns: i64,
    /// Whether the link is not served because the remote does not read its replies.
    parked: bool,
    faults: u32,
}

impl<K, T> Line<K, T> {
    fn new(link: K) -> Line<K, T> {
        let standing = Standing::Stranger;
        Line { link, standing, waiting: VecDeque::new(), balance_ns: 0, parked: false, faults: 0 }
    }
}

/// Queues of all links, and the order of their turns. `K` identifies a link, `T` is a queued item.
pub struct Turns<K, T> {
    places: HashMap<K, usize>,
    lines: Vec<Option<Line<K, T>>>,
    free: Vec<usize>,
    /// Links waiting for a turn, one round per [`Standing`].
    rounds: [VecDeque<usize>; 2],
    parked: Vec<usize>,
    /// The most recently used link, cached because frames of one link arrive consecutively.
    last: Option<(K, usize)>,
}

impl<K: Copy + Eq + Hash, T> Default for Turns<K, T> {
    fn default() -> Self {
        Turns {
            places: HashMap::new(),
            lines: Vec::new(),
            free: Vec::new(),
            rounds: Default::default(),
            parked: Vec::new(),
            last: None,
        }
    }
}

impl<K: Copy + Eq + Hash, T> Turns<K, T> {
    /// Returns whether no link waits for a turn. Parked links do not count.
    pub fn is_empty(&self) -> bool {
        self.rounds.iter().all(VecDeque::is_empty)
    }

    /// Appends an item to the queue of a link. A new link is a stranger.
    #[inline]
    pub fn push(&mut self, link: K, item: T) {
        let at = match self.last {
            Some((last, at)) if last == link => at,
            _ => self.place(link),
        };
        let line = self.lines[at].as_mut().expect("a link's place has its line");
        line.waiting.push_back(item);
        if line.waiting.len() == 1 && !line.parked {
            self.rounds[line.standing as usize].push_back(at);
        }
    }

    fn place(&mut self, link: K) -> usize {
        let at = match self.places.get(&link) {
            Some(at) => *at,
            None => {
                let at = self.free.pop().unwrap_or(self.lines.len());
                if at == self.lines.len() {
                    self.lines.push(None);
                }
                self.lines[at] = Some(Line::new(link));
                self.places.insert(link, at);
                at
            }
        };
        self.last = Some((link, at));
        at
    }

    /// Takes the next item of a round. The caller then [charges](Turns::charge) its link for the cost of serving it.
    pub fn next(&mut self, standing: Standing) -> Option<(K, T)> {
        let round = &mut self.rounds[standing as usize];
        loop {
            let at = *round.front()?;
            let line = self.lines[at].as_mut().expect("a line in a round exists");
            if line.balance_ns <= 0 {
                line.balance_ns += QUANTUM_NS as i64;
                round.rotate_left(1);
                continue;
            }
            let item = line.waiting.pop_front().expect("a line in a round has an item");
            if line.waiting.is_empty() {
                line.balance_ns = 0;
                round.pop_front();
            }
            return Some((line.link, item));
        }
    }

    /// Subtracts the cost of serving a link from its balance.
    pub fn charge(&mut self, link: K, cost_ns: u64) {
        if let Some(line) = self.line(link) {
            let cost = i64::try_from(cost_ns).unwrap_or(i64::MAX);
            line.balance_ns = line.balance_ns.saturating_sub(cost).max(-(MAX_DEBT_NS as i64));
        }
    }

    pub fn set_standing(&mut self, link: K, standing: Standing) {
        let Some(at) = self.place_of(link) else { return };
        let line = self.lines[at].as_mut().expect("a link's place has its line");
        let before = std::mem::replace(&mut line.standing, standing);
        if before != standing && !line.parked && !line.waiting.is_empty() {
            self.rounds[before as usize].retain(|other| *other != at);
            self.rounds[standing as usize].push_back(at);
        }
    }

    pub fn standing(&self, link: K) -> Standing {
        let line = self.place_of(link).and_then(|at| self.lines[at].as_ref());
        line.map_or(Standing::Stranger, |line| line.standing)
    }

    /// Counts a fault of a link, such as a forgery or an undecodable frame. Returns its number of faults.
    pub fn fault(&mut self, link: K) -> u32 {
        self.line(link).map_or(0, |line| {
            line.faults += 1;
            line.faults
        })
    }

    /// Returns an item to the front of its link's queue, and suspends the link until it is [resumed](Turns::resume).
    pub fn park(&mut self, link: K, item: T) {
        let at = self.place(link);
        let line = self.lines[at].as_mut().expect("a link's place has its line");
        if !line.waiting.is_empty() {
            self.rounds[line.standing as usize].retain(|other| *other != at);
        }
        line.waiting.push_front(item);
        line.parked = true;
        self.parked.push(at);
    }

    /// Resumes the parked links that are `ready`.
    pub fn resume(&mut self, ready: impl Fn(K) -> bool) {
        let (lines, rounds) = (&mut self.lines, &mut self.rounds);
        self.parked.retain(|at| {
            let line = lines[*at].as_mut().expect("a parked line exists");
            let resumes = ready(line.link);
            if resumes {
                line.parked = false;
                rounds[line.standing as usize].push_back(*at);
            }
            !resumes
        });
    }

    /// Removes a closed link with its queue.
    pub fn forget(&mut self, link: K) {
        let Some(at) = self.places.remove(&link) else { return };
        let line = self.lines[at].take().expect("a link's place has its line");
        if line.parked {
            self.parked.retain(|other| *other != at);
        } else if !line.waiting.is_empty() {
            self.rounds[line.standing as usize].retain(|other| *other != at);
        }
        self.free.push(at);
        self.last = None;
    }

    fn place_of(&self, link: K) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == link => Some(at),
            _ => self.places.get(&link).copied(),
        }
    }

    fn line(&mut self, link: K) -> Option<&mut Line<K, T>> {
        let at = self.place_of(link)?;
        self.lines[at].as_mut()
    }
}
