//! The executed numbers of one session.

use quorate_types::limits::SEQUENCE_STRIDE;
use quorate_types::{DecodeError, Decoder, Encoder};
use std::sync::Arc;

/// Maximum distance of a number above the floor; a higher number raises the floor.
pub const SESSION_WINDOW: u64 = 65_536;
/// Maximum number of a command.
pub const MAX_SEQUENCE: u64 = u64::MAX / 2;

const WORD_BITS: u64 = 64;
/// A number at most this far above a multiple of [`SEQUENCE_STRIDE`] is treated as the beginning of a client's run. The
/// bits up to there take no more than a [unit](super::UNIT_BYTES).
const RUN_BEGINNING: u64 = 1024;
const WINDOW_WORDS: u64 = SESSION_WINDOW / WORD_BITS;

/// State of a number in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// The number was not executed.
    New,
    Executed,
    /// The number is so low that its state is unknown.
    Unknown,
}

/// Executed numbers of one session.
#[derive(Clone)]
pub(super) struct Window {
    /// Numbers up to the floor are no longer executed.
    floor: u64,
    /// The state of numbers up to this one is unknown; those above it, up to the floor, were executed.
    unknown: u64,
    /// A bit for each number above the floor, at the number modulo the ring's bits. The length is a power of two, or 0
    /// if no bit is set. Shared with frozen sessions, and copied on write.
    ring: Arc<[u64]>,
    /// Number of bits that are set.
    above: u32,
}

impl Window {
    /// Creates the window of a session that begins with this number. The client's other commands in flight have numbers
    /// near it.
    pub fn opened_by(sequence: u64) -> Window {
        let floor = match sequence {
            0..=SESSION_WINDOW => 0,
            _ => run_start(sequence).unwrap_or(sequence - SESSION_WINDOW / 2),
        };
        Window { floor, unknown: floor, ring: Arc::default(), above: 0 }
    }

    /// Returns the size of the ring, in bytes.
    pub fn bytes(&self) -> usize {
        self.ring.len() * size_of::<u64>()
    }

    /// Marks a number, which is at least 1, as executed. Returns its previous state.
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
            return if quorate_types::bug!(ExecutedAgain) { Entry::New } else { before };
        }
        if sequence - self.floor > SESSION_WINDOW {
            let jumps = sequence - self.floor > 2 * SESSION_WINDOW;
            let start = run_start(sequence).filter(|_| jumps);
            self.leave_behind(start.unwrap_or(sequence - SESSION_WINDOW));
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

    /// Returns the state of a number.
    pub fn entry(&self, sequence: u64) -> Entry {
        let span = self.ring.len() as u64 * WORD_BITS;
        match sequence.checked_sub(self.floor) {
            None | Some(0) if sequence <= self.unknown => Entry::Unknown,
            None | Some(0) => Entry::Executed,
            Some(distance) if distance <= span && self.holds(sequence) => Entry::Executed,
            Some(_) => Entry::New,
        }
    }

    /// Raises the floor by one number, and further over the executed numbers that follow.
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

    /// Raises the floor past numbers that were not executed and now never will be, so that a lost command does not
    /// block its client.
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

    /// Widens the ring for numbers up to `distance` above the floor.
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

    /// Returns the executed numbers above the floor, ascending.
    fn executed_above(&self) -> impl Iterator<Item = u64> + '_ {
        let last = self.floor + self.ring.len() as u64 * WORD_BITS;
        (self.floor..last).map(|before| before + 1).filter(|sequence| self.holds(*sequence)).take(self.above as usize)
    }

    /// Appends the floor, the highest unknown number, the width of the ring, and a bitmap of the executed numbers above
    /// the floor without trailing zero words. The width is encoded because it affects eviction and cannot be derived
    /// from the bitmap.
    pub fn encode(&self, out: &mut Encoder) {
        out.put_u64(self.floor);
        out.put_u64(self.unknown);
        out.put_count(self.ring.len());
        let mut words: Vec<u64> = Vec::new();
        for sequence in self.executed_above().filter(|_| !quorate_types::bug!(WindowNotInState)) {
            let at = sequence - self.floor - 1;
            words.resize((at / WORD_BITS) as usize + 1, 0);
            words[(at / WORD_BITS) as usize] |= 1 << (at % WORD_BITS);
        }
        out.put_count(words.len());
        words.into_iter().for_each(|word| out.put_u64(word));
    }

    /// Decodes the output of [`Window::encode`].
    pub fn decode(input: &mut Decoder) -> Result<Window, DecodeError> {
        let (floor, unknown) = (input.get_u64("session floor")?, input.get_u64("session floor")?);
        if floor > MAX_SEQUENCE || unknown > floor {
            return Err(input.invalid("session floor", "out of range"));
        }
        let width = input.get_count("session window", WINDOW_WORDS as usize, 0)?;
        if width != 0 && !width.is_power_of_two() {
            return Err(input.invalid("session window", "the width is not a power of two"));
        }
        let words = input.get_count("session window", width, 8)?;
        let mut window = Window { floor, unknown, ring: vec![0; width].into(), above: 0 };
        for at in 0..words as u64 {
            let word = input.get_u64("session window")?;
            if at == 0 && word & 1 == 1 {
                return Err(input.invalid("session window", "the floor is too low, the next number is executed"));
            }
            if at + 1 == words as u64 && word == 0 {
                return Err(input.invalid("session window", "not in canonical form"));
            }
            for bit in (0..WORD_BITS).filter(|bit| word >> bit & 1 == 1) {
                let sequence = floor + at * WORD_BITS + bit + 1;
                if sequence > MAX_SEQUENCE {
                    return Err(input.invalid("session window", "extends beyond the maximum number"));
                }
                window.flip(sequence);
                window.above += 1;
            }
        }
        if width != 0 && window.above == 0 {
            return Err(input.invalid("session window", "wide but empty"));
        }
        Ok(window)
    }
}

/// Returns the word index, in a ring of `words` words, and the bit for a number.
fn place(words: usize, sequence: u64) -> (usize, u64) {
    ((sequence / WORD_BITS) as usize & (words - 1), 1 << (sequence % WORD_BITS))
}

/// Returns the number before a client's run, if this number is near the beginning of one: the run sends no smaller
/// number.
fn run_start(sequence: u64) -> Option<u64> {
    let start = (sequence - 1) / SEQUENCE_STRIDE * SEQUENCE_STRIDE;
    (sequence - start <= RUN_BEGINNING).then_some(start)
}
