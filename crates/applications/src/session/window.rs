//! Which numbers of one session were executed.

use quorate_types::{DecodeError, Decoder, Encoder};
use std::sync::Arc;

/// How far a number may be above the highest one of which all are executed up to there, before that gives way.
pub const SESSION_WINDOW: u64 = 65_536;
/// The highest number of a command.
pub const MAX_SEQUENCE: u64 = u64::MAX / 2;

const WORD_BITS: u64 = 64;
const WINDOW_WORDS: u64 = SESSION_WINDOW / WORD_BITS;

/// What a window says of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// It was not executed.
    New,
    /// It was executed.
    Executed,
    /// It is so far behind that nobody knows.
    Unknown,
}

/// The executed numbers of one session.
#[derive(Clone)]
pub(super) struct Window {
    /// Nothing new is executed up to here.
    floor: u64,
    /// Up to here it is unknown what was executed; from here to the floor all was. At most the floor.
    unknown: u64,
    /// A bit for each number above the floor, at the number modulo the ring's bits. A power of two of words, or none if no bit is set.
    /// Shared with sessions that are frozen, and copied when it is written to.
    ring: Arc<[u64]>,
    /// How many numbers above the floor are executed.
    above: u32,
}

impl Window {
    /// The window of a session that begins with this number. What a client has in flight besides it is near it.
    pub fn opened_by(sequence: u64) -> Window {
        let floor = if sequence > SESSION_WINDOW { sequence - SESSION_WINDOW / 2 } else { 0 };
        Window { floor, unknown: floor, ring: Arc::default(), above: 0 }
    }

    /// Bytes beyond those of the window itself.
    pub fn bytes(&self) -> usize {
        self.ring.len() * size_of::<u64>()
    }

    /// Counts a number, which is at least 1, as executed, and says what it was before.
    #[inline]
    pub fn enter(&mut self, sequence: u64) -> Entry {
        if self.above == 0 && sequence == self.floor + 1 {
            self.floor = sequence;
            return Entry::New;
        }
        self.enter_out_of_order(sequence)
    }

    fn enter_out_of_order(&mut self, sequence: u64) -> Entry {
        assert!((1..=MAX_SEQUENCE).contains(&sequence), "the caller refuses others");
        let before = self.entry(sequence);
        if before != Entry::New {
            return before;
        }
        if sequence - self.floor > SESSION_WINDOW {
            self.leave_behind(sequence - SESSION_WINDOW);
        }
        match sequence - self.floor {
            1 => self.raise_floor(),
            distance => {
                self.widen(distance);
                self.flip(sequence);
                self.above += 1;
            }
        }
        Entry::New
    }

    /// What is known of a number.
    pub fn entry(&self, sequence: u64) -> Entry {
        let span = self.ring.len() as u64 * WORD_BITS;
        match sequence.checked_sub(self.floor) {
            None | Some(0) if sequence <= self.unknown => Entry::Unknown,
            None | Some(0) => Entry::Executed,
            Some(distance) if distance <= span && self.holds(sequence) => Entry::Executed,
            Some(_) => Entry::New,
        }
    }

    /// The number above the floor is executed, and perhaps those that follow.
    fn raise_floor(&mut self) {
        self.floor += 1;
        while self.above > 0 {
            if !self.holds(self.floor + 1) {
                return;
            }
            self.flip(self.floor + 1);
            self.floor += 1;
            self.above -= 1;
        }
        self.ring = Arc::default();
    }

    /// Raises the floor over numbers that were not executed, which now never will be: a client that lost a command, or gave it up, is
    /// not held up by it for ever.
    fn leave_behind(&mut self, floor: u64) {
        let span = self.ring.len() as u64 * WORD_BITS;
        if floor - self.floor >= span {
            (self.ring, self.above) = (Arc::default(), 0);
        } else {
            let ring = Arc::make_mut(&mut self.ring);
            let mut at = self.floor + 1;
            while at <= floor {
                let (word, _) = place(ring.len(), at);
                let last = (at | (WORD_BITS - 1)).min(floor);
                let left = u64::MAX >> (WORD_BITS - 1 - (last - at));
                let gone = ring[word] & (left << (at % WORD_BITS));
                ring[word] ^= gone;
                self.above -= gone.count_ones();
                at = last + 1;
            }
        }
        (self.floor, self.unknown) = (floor, floor);
        if self.above == 0 {
            self.ring = Arc::default();
        } else if self.holds(self.floor + 1) {
            self.flip(self.floor + 1);
            self.above -= 1;
            self.raise_floor();
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
        let last = self.floor + self.ring.len() as u64 * WORD_BITS;
        (self.floor..last).map(|before| before + 1).filter(|sequence| self.holds(*sequence)).take(self.above as usize)
    }

    /// Appends the floor, up to where nothing is known, how wide the ring is, and a bitmap of what is executed above the floor, of as
    /// many words as it takes. The width is more than the bitmap tells, and it counts when sessions are evicted.
    pub fn encode(&self, out: &mut Encoder) {
        out.put_u64(self.floor);
        out.put_u64(self.unknown);
        out.put_count(self.ring.len());
        let mut words: Vec<u64> = Vec::new();
        for sequence in self.executed_above() {
            let at = sequence - self.floor - 1;
            words.resize((at / WORD_BITS) as usize + 1, 0);
            words[(at / WORD_BITS) as usize] |= 1 << (at % WORD_BITS);
        }
        out.put_count(words.len());
        words.into_iter().for_each(|word| out.put_u64(word));
    }

    /// Reads what [`Window::encode`] wrote.
    pub fn decode(input: &mut Decoder) -> Result<Window, DecodeError> {
        let (floor, unknown) = (input.get_u64("session floor")?, input.get_u64("session floor")?);
        if floor > MAX_SEQUENCE || unknown > floor {
            return Err(input.invalid("session floor", "no session comes to it"));
        }
        let width = input.get_count("session window", WINDOW_WORDS as usize, 0)?;
        if width != 0 && !width.is_power_of_two() {
            return Err(input.invalid("session window", "its width is no power of two"));
        }
        let words = input.get_count("session window", width, 8)?;
        let mut window = Window { floor, unknown, ring: vec![0; width].into(), above: 0 };
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
                let sequence = floor + at * WORD_BITS + bit + 1;
                if sequence > MAX_SEQUENCE {
                    return Err(input.invalid("session window", "it reaches beyond the last number there is"));
                }
                window.flip(sequence);
                window.above += 1;
            }
        }
        if width != 0 && window.above == 0 {
            return Err(input.invalid("session window", "it has room and nothing in it"));
        }
        Ok(window)
    }
}

/// The word of a ring of so many, and the bit in it, that stand for a number.
fn place(words: usize, sequence: u64) -> (usize, u64) {
    ((sequence / WORD_BITS) as usize & (words - 1), 1 << (sequence % WORD_BITS))
}
