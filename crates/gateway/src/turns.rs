//! Whose turn it is among clients: a queue for each link, and turns by cost.
//!
//! A deficit round robin over nanoseconds of work. A link may be served while its balance is positive; what serving it cost is taken
//! from the balance afterwards, since the cost of a frame is known best when the frame has been served. A link whose balance is used up
//! goes to the back of the round and earns a [`QUANTUM_NS`] there. Debts outlive an empty queue, credit does not: a link that asks one
//! expensive question at a time pays like one that asks a hundred at once.
//!
//! Links that have sent a genuine bundle ([`Standing::Genuine`]) have a round of their own, so that any number of strangers' links
//! lengthens no honest client's round.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What a link earns each time it goes to the back of the round, in nanoseconds of work.
pub const QUANTUM_NS: u64 = 200_000;
/// The largest debt of a link, in nanoseconds: the round ends after a bounded number of steps, whatever a frame has cost.
pub const MAX_DEBT_NS: u64 = 64 * QUANTUM_NS;

/// What a link has shown of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing yet, or something forged.
    Stranger,
    /// A bundle that its client made, and nothing forged since.
    Genuine,
}

/// The queue of one link.
struct Line<K, T> {
    link: K,
    standing: Standing,
    waiting: VecDeque<T>,
    balance_ns: i64,
    /// Its remote reads nothing: it is not served until it does.
    parked: bool,
    faults: u32,
}

/// The queues of all links, and the order of their turns. `K` names a link, `T` is what waits.
pub struct Turns<K, T> {
    places: HashMap<K, usize>,
    lines: Vec<Option<Line<K, T>>>,
    free: Vec<usize>,
    /// The lines that wait for a turn, one round for each [`Standing`].
    rounds: [VecDeque<usize>; 2],
    parked: Vec<usize>,
    /// The line of the link that was looked up last: frames of one link come in a row.
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
    /// Whether no link waits for a turn; parked ones do not.
    pub fn is_empty(&self) -> bool {
        self.rounds.iter().all(VecDeque::is_empty)
    }

    /// Appends to the queue of a link, which is a stranger's if it is new.
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
                let line = Line {
                    link,
                    standing: Standing::Stranger,
                    waiting: VecDeque::new(),
                    balance_ns: 0,
                    parked: false,
                    faults: 0,
                };
                let at = self.free.pop().unwrap_or(self.lines.len());
                if at == self.lines.len() {
                    self.lines.push(None);
                }
                self.lines[at] = Some(line);
                self.places.insert(link, at);
                at
            }
        };
        self.last = Some((link, at));
        at
    }

    /// Takes the next item of a round, and says whose it is. What serving it costs is to be [charged](Turns::charge).
    pub fn next(&mut self, standing: Standing) -> Option<(K, T)> {
        let round = &mut self.rounds[standing as usize];
        loop {
            let at = *round.front()?;
            let line = self.lines[at].as_mut().expect("a line in a round is there");
            if line.balance_ns <= 0 {
                line.balance_ns += QUANTUM_NS as i64;
                round.rotate_left(1);
                continue;
            }
            let item = line.waiting.pop_front().expect("a line in a round has something waiting");
            if line.waiting.is_empty() {
                line.balance_ns = 0;
                round.pop_front();
            }
            return Some((line.link, item));
        }
    }

    /// Takes what serving a link has cost from its balance.
    pub fn charge(&mut self, link: K, cost_ns: u64) {
        if let Some(line) = self.line(link) {
            let cost = i64::try_from(cost_ns).unwrap_or(i64::MAX);
            line.balance_ns = line.balance_ns.saturating_sub(cost).max(-(MAX_DEBT_NS as i64));
        }
    }

    /// Notes that a link has shown itself genuine, or has lost that standing.
    pub fn set_standing(&mut self, link: K, standing: Standing) {
        let Some(at) = self.place_of(link) else { return };
        let line = self.lines[at].as_mut().expect("a link's place has its line");
        let before = std::mem::replace(&mut line.standing, standing);
        if before != standing && !line.parked && !line.waiting.is_empty() {
            self.rounds[before as usize].retain(|other| *other != at);
            self.rounds[standing as usize].push_back(at);
        }
    }

    /// What a link has shown of itself.
    pub fn standing(&self, link: K) -> Standing {
        self.place_of(link).map_or(Standing::Stranger, |at| self.lines[at].as_ref().expect("it is there").standing)
    }

    /// Counts a fault of a link: something forged, or no message at all. Returns how many it has.
    pub fn fault(&mut self, link: K) -> u32 {
        self.line(link).map_or(0, |line| {
            line.faults += 1;
            line.faults
        })
    }

    /// Puts an item back at the front of its link's queue and serves the link no more until it is [resumed](Turns::resume).
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

    /// Gives parked links that are `ready` their turns again.
    pub fn resume(&mut self, ready: impl Fn(K) -> bool) {
        let (lines, rounds) = (&mut self.lines, &mut self.rounds);
        self.parked.retain(|at| {
            let line = lines[*at].as_mut().expect("a parked line is there");
            let resumes = ready(line.link);
            if resumes {
                line.parked = false;
                rounds[line.standing as usize].push_back(*at);
            }
            !resumes
        });
    }

    /// Forgets a link that is gone, with all that waits on it.
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
