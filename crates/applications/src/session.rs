//! Client sessions: which sequence numbers of which client were executed, so that none is executed twice.
//!
//! A client keeps many commands outstanding, and they may be ordered otherwise than it numbered them. A session therefore has a
//! *floor*, up to which all is executed, and a window of [`SESSION_WINDOW`] numbers above it with a bit for each. A number beyond
//! the window is refused, not remembered: a client that loses a command sends it again before it goes on.
//!
//! # Eviction
//!
//! There are at most [`MAX_SESSIONS`] sessions. One more evicts the least recently used, by the order of execution, which is the
//! same on every replica. An evicted client is a stranger: its numbers 1 to [`SESSION_WINDOW`] would be executed again if they
//! were ordered again, and all above are refused. At-most-once execution thus holds for a client as long as fewer than
//! `MAX_SESSIONS` other clients have had commands executed since its own last one. A client that is refused with fewer than
//! `SESSION_WINDOW` commands outstanding has been evicted and goes on under a new [`ClientId`].

use quorate_types::{ClientId, DecodeError, Decoder, Encoder, Wire};
use std::collections::HashMap;
use std::sync::Arc;

/// How far above the floor a sequence number may be.
pub const SESSION_WINDOW: u64 = 65_536;
/// Most sessions. A session takes about 100 bytes, and 8 KiB more at the worst, when its client fills the window in reverse.
pub const MAX_SESSIONS: usize = 65_536;

const WORD_BITS: u64 = 64;
const WINDOW_WORDS: u64 = SESSION_WINDOW / WORD_BITS;
const NOBODY: u32 = u32::MAX;

/// What a session says of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It was never executed and now counts as executed.
    Fresh,
    /// It was executed before.
    Duplicate,
    /// It is 0 or beyond the window; nothing has changed.
    Refused,
}

/// One client's executed numbers, and its neighbours in the order of use.
#[derive(Clone)]
struct Session {
    client: ClientId,
    /// All numbers up to here are executed.
    floor: u64,
    /// How many numbers above the floor are executed.
    above: u32,
    /// A bit for each number above the floor, at the number modulo the ring's bits. A power of two of words, or none yet.
    /// Shared with sessions that are frozen, and copied when it is written to.
    ring: Arc<[u64]>,
    newer: u32,
    older: u32,
}

impl Session {
    fn new(client: ClientId) -> Session {
        Session { client, floor: 0, above: 0, ring: Arc::default(), newer: NOBODY, older: NOBODY }
    }

    #[inline]
    fn admit(&mut self, sequence: u64) -> Admission {
        if self.above == 0 && sequence == self.floor.wrapping_add(1) && sequence != 0 {
            self.floor = sequence;
            return Admission::Fresh;
        }
        self.admit_out_of_order(sequence)
    }

    fn admit_out_of_order(&mut self, sequence: u64) -> Admission {
        if sequence == 0 {
            return Admission::Refused;
        }
        if sequence <= self.floor {
            return Admission::Duplicate;
        }
        let distance = sequence - self.floor;
        if distance > SESSION_WINDOW {
            return Admission::Refused;
        }
        self.widen(distance);
        if self.holds(sequence) {
            return Admission::Duplicate;
        }
        match distance {
            1 => self.raise_floor(),
            _ => {
                self.flip(sequence);
                self.above += 1;
            }
        }
        Admission::Fresh
    }

    /// The number above the floor is executed, and perhaps those that follow.
    fn raise_floor(&mut self) {
        let ring = Arc::make_mut(&mut self.ring);
        self.floor += 1;
        while self.above > 0 {
            let (word, bit) = place(ring.len(), self.floor + 1);
            if ring[word] & bit == 0 {
                break;
            }
            ring[word] ^= bit;
            self.floor += 1;
            self.above -= 1;
        }
    }

    fn has_executed(&self, sequence: u64) -> bool {
        let span = self.ring.len() as u64 * WORD_BITS;
        match sequence.checked_sub(self.floor) {
            None | Some(0) => sequence != 0,
            Some(distance) => distance <= span && self.holds(sequence),
        }
    }

    fn holds(&self, sequence: u64) -> bool {
        let (word, bit) = place(self.ring.len(), sequence);
        self.ring[word] & bit != 0
    }

    fn flip(&mut self, sequence: u64) {
        let (word, bit) = place(self.ring.len(), sequence);
        Arc::make_mut(&mut self.ring)[word] ^= bit;
    }

    /// Makes room for numbers up to `distance` above the floor.
    fn widen(&mut self, distance: u64) {
        assert!(distance <= SESSION_WINDOW);
        let words = distance.div_ceil(WORD_BITS).next_power_of_two() as usize;
        if words <= self.ring.len() {
            return;
        }
        let executed: Vec<u64> = self.executed_above().collect();
        self.ring = vec![0; words].into();
        executed.into_iter().for_each(|sequence| self.flip(sequence));
    }

    /// The executed numbers above the floor, ascending.
    fn executed_above(&self) -> impl Iterator<Item = u64> + '_ {
        let span = self.ring.len() as u64 * WORD_BITS;
        let last = self.floor.saturating_add(span);
        (self.floor..last).map(|before| before + 1).filter(|sequence| self.holds(*sequence)).take(self.above as usize)
    }
}

/// The word of a ring of so many, and the bit in it, that stand for a number.
fn place(words: usize, sequence: u64) -> (usize, u64) {
    ((sequence / WORD_BITS) as usize & (words - 1), 1 << (sequence % WORD_BITS))
}

/// The client, the floor, and a bitmap of what is executed above it, of as many words as it takes.
impl Wire for Session {
    fn encode(&self, out: &mut Encoder) {
        self.client.encode(out);
        out.put_u64(self.floor);
        let mut words: Vec<u64> = Vec::new();
        for sequence in self.executed_above() {
            let at = sequence - self.floor - 1;
            words.resize((at / WORD_BITS) as usize + 1, 0);
            words[(at / WORD_BITS) as usize] |= 1 << (at % WORD_BITS);
        }
        out.put_count(words.len());
        words.into_iter().for_each(|word| out.put_u64(word));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let mut session = Session::new(ClientId::decode(input)?);
        session.floor = input.get_u64("session floor")?;
        let words = input.get_count("session window", WINDOW_WORDS as usize, 8)?;
        for at in 0..words as u64 {
            let word = input.get_u64("session window")?;
            if at == 0 && word & 1 == 1 {
                return Err(
                    input.invalid("session window", "the number after the floor is executed, so the floor is too low")
                );
            }
            if at + 1 == words as u64 && word == 0 {
                return Err(input.invalid("session window", "it is not in its shortest form"));
            }
            for bit in (0..WORD_BITS).filter(|bit| word >> bit & 1 == 1) {
                let distance = at * WORD_BITS + bit + 1;
                let Some(sequence) = session.floor.checked_add(distance) else {
                    return Err(input.invalid("session window", "it reaches beyond the last number there is"));
                };
                session.widen(distance);
                session.flip(sequence);
                session.above += 1;
            }
        }
        Ok(session)
    }
}

/// The sessions of all clients.
///
/// The table's hash has keys of the process's own, as clients choose their ids; nothing depends on the table's order.
pub struct Sessions {
    /// In no particular order: where a session stands never shows.
    slots: Vec<Session>,
    by_client: HashMap<ClientId, u32>,
    newest: u32,
    oldest: u32,
    limit: usize,
}

impl Sessions {
    /// No sessions yet, and never more than `limit`, which must be the same on every replica.
    pub fn with_limit(limit: usize) -> Sessions {
        assert!((1..=MAX_SESSIONS).contains(&limit), "between 1 and {MAX_SESSIONS} sessions, not {limit}");
        Sessions { slots: Vec::new(), by_client: HashMap::new(), newest: NOBODY, oldest: NOBODY, limit }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a command is to be executed; if so, it counts as executed from now on.
    #[inline]
    pub fn admit(&mut self, client: ClientId, sequence: u64) -> Admission {
        // Commands come in runs of one client, which is then the most recently used: no lookup within a run.
        match self.slots.get_mut(self.newest as usize) {
            Some(session) if session.client == client => session.admit(sequence),
            _ => {
                let slot = self.find(client);
                self.slots[slot as usize].admit(sequence)
            }
        }
    }

    /// Whether a command would be a duplicate.
    #[inline]
    pub fn has_executed(&self, client: ClientId, sequence: u64) -> bool {
        match self.slots.get(self.newest as usize) {
            Some(session) if session.client == client => session.has_executed(sequence),
            _ => {
                let slot = self.by_client.get(&client);
                slot.is_some_and(|slot| self.slots[*slot as usize].has_executed(sequence))
            }
        }
    }

    /// The client's session as the most recently used, begun if there is none.
    fn find(&mut self, client: ClientId) -> u32 {
        if let Some(slot) = self.by_client.get(&client).copied() {
            self.unlink(slot);
            self.link(slot);
            return slot;
        }
        let slot = if self.slots.len() < self.limit {
            self.slots.push(Session::new(client));
            self.slots.len() as u32 - 1
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            let evicted = std::mem::replace(&mut self.slots[slot as usize], Session::new(client));
            self.by_client.remove(&evicted.client);
            slot
        };
        self.by_client.insert(client, slot);
        self.link(slot);
        slot
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        self.slots[slot as usize].older = before;
        self.slots[slot as usize].newer = NOBODY;
        match self.slots.get_mut(before as usize) {
            Some(session) => session.newer = slot,
            None => self.oldest = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Session { newer, older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(session) => session.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(session) => session.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// The sessions as they are now. This copies all of them but their windows: 64 bytes each.
    pub fn freeze(&self) -> FrozenSessions {
        FrozenSessions { slots: self.slots.clone(), oldest: self.oldest }
    }

    /// Reads what [`FrozenSessions::encode`] wrote; never panics, whatever the bytes.
    pub fn decode(input: &mut Decoder, limit: usize) -> Result<Sessions, DecodeError> {
        let count = input.get_count("sessions", limit, 16 + 8 + 4)?;
        let mut sessions = Sessions::with_limit(limit);
        for slot in 0..count as u32 {
            let session = Session::decode(input)?;
            if sessions.by_client.insert(session.client, slot).is_some() {
                return Err(input.invalid("sessions", "a client has two"));
            }
            sessions.slots.push(session);
            sessions.link(slot);
        }
        Ok(sessions)
    }
}

/// The sessions of all clients at some moment.
pub struct FrozenSessions {
    slots: Vec<Session>,
    oldest: u32,
}

impl FrozenSessions {
    /// Appends the sessions from the least to the most recently used: equal sessions give equal bytes.
    pub fn encode(&self, out: &mut Encoder) {
        out.put_count(self.slots.len());
        let mut slot = self.oldest;
        while let Some(session) = self.slots.get(slot as usize) {
            session.encode(out);
            slot = session.newer;
        }
    }
}
