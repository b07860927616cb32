//! The probes of a thread.

use super::counts::{StageCell, StageCounts, Traffic};
use super::{Clocks, MessageKind, Stage, StageRole, TURNS_PER_SAMPLE};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Time after the start during which no iteration is timed, because the counter's rate is not known precisely enough,
/// in nanoseconds.
const RATE_AFTER_NS: u128 = 1_000_000;
/// Maximum excess of an iteration's times over the thread's CPU time, for the times to count: a fraction of the CPU
/// time, and a constant for the clock readings.
const MAX_LOST_PART: f64 = 1.0 / 16.0;
const MAX_LOST_NS: f64 = 3_000.0;
/// Time in one place after which the thread's clock is read to detect whether another thread ran meanwhile, in
/// nanoseconds. The scheduler lets threads run for at least that long. A clock reading takes a hundredth of it.
const LONG_NS: f64 = 30_000.0;
/// Number of readings by which the cost of a clock reading is measured.
const TRIAL_READINGS: usize = 64;

const CELLS: usize = StageRole::ALL.len() * MessageKind::ALL.len() * Stage::ALL.len();
const WAYS: usize = StageRole::ALL.len() * MessageKind::ALL.len() * 2;

static IS_ON: AtomicBool = AtomicBool::new(false);
static CLOCKS: OnceLock<Switched> = OnceLock::new();

thread_local! {
    /// Whether this iteration of the thread is timed. Has no destructor, so that reading it costs next to nothing.
    static IS_TIMING: Cell<bool> = const { Cell::new(false) };
    static PROBE: RefCell<Option<Box<Probe>>> = const { RefCell::new(None) };
}

/// The clocks, and the costs of their readings.
struct Switched {
    clocks: Clocks,
    /// Start of both clocks.
    began: (u64, Instant),
    reading_cycles: u64,
    reading_ns: u64,
}

impl Switched {
    fn new(clocks: Clocks) -> Switched {
        Switched {
            clocks,
            began: ((clocks.cycles)(), Instant::now()),
            reading_cycles: least_reading(clocks.cycles),
            reading_ns: least_reading(clocks.thread_cpu_ns),
        }
    }

    /// Returns the cycles per nanosecond since the start; `None` shortly after the start.
    fn cycles_per_ns(&self) -> Option<f64> {
        let ns = self.began.1.elapsed().as_nanos();
        let cycles = (self.clocks.cycles)().saturating_sub(self.began.0);
        (ns >= RATE_AFTER_NS && cycles > 0).then(|| cycles as f64 / ns as f64)
    }
}

fn least_reading(clock: fn() -> u64) -> u64 {
    let between = (0..TRIAL_READINGS).map(|_| {
        let before = clock();
        clock().saturating_sub(before)
    });
    between.min().unwrap_or(0)
}

/// The current work of a thread: its replica's role, the message and the stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    role: StageRole,
    message: MessageKind,
    stage: Stage,
    /// Number of messages that the work serves.
    weight: u64,
    /// Bitmap of the message's stages so far.
    seen: u16,
}

impl Place {
    fn cell(self) -> usize {
        cell(self.role, self.message, self.stage)
    }
}

fn cell(role: StageRole, message: MessageKind, stage: Stage) -> usize {
    (role as usize * MessageKind::ALL.len() + message as usize) * Stage::ALL.len() + stage as usize
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sampled: u64,
    timed: u64,
    cycles: u64,
}

#[derive(Clone, Copy, Default)]
struct Frames {
    frames: u64,
    bytes: u64,
    sampled: u64,
}

/// Chooses one iteration of each group of [`TURNS_PER_SAMPLE`] at random. The iterations of a leader that batches are
/// periodic, and an equidistant sample resonated with them: a count was off by half.
struct Draw {
    random: u64,
    /// Iterations before the timed one, and iterations left in the current group.
    before: u64,
    left: u64,
}

impl Draw {
    fn new() -> Draw {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        Draw { random: THREADS.fetch_add(1, Ordering::Relaxed), before: 0, left: 0 }
    }

    /// Returns whether the next iteration is timed.
    fn is_next(&mut self) -> bool {
        if self.left == 0 {
            // Knuth's linear congruential generator; its high bits are the random ones.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.before, self.left) = ((self.random >> 33) % TURNS_PER_SAMPLE, TURNS_PER_SAMPLE);
        }
        self.left -= 1;
        TURNS_PER_SAMPLE - 1 - self.left == self.before
    }
}

struct Probe {
    switched: &'static Switched,
    at: Place,
    /// When the thread entered its current place.
    since: u64,
    turns: [u64; 3],
    draw: Draw,
    timed_cpu_ns: u64,
    sums: Vec<Sum>,
    /// Messages and cycles of this iteration by cell, and the cells in use.
    turn: Vec<Sum>,
    /// Stack of places to return to.
    backs: Vec<Back>,
    /// Cycles per nanosecond, as known at the beginning of the iteration.
    rate: f64,
    /// CPU time at the last reading of the thread's clock, and cycles since.
    mark: (u64, u64),
    touched: Vec<usize>,
    /// The thread's CPU time at the beginning of this iteration, and the part of the iteration that it waited.
    cpu_at_start_ns: u64,
    waited_ns: u64,
    /// By role, message and direction.
    traffic: Vec<Frames>,
}

impl Probe {
    fn new(switched: &'static Switched) -> Probe {
        let at = Place { role: StageRole::Backup, message: MessageKind::None, stage: Stage::Host, weight: 1, seen: 0 };
        Probe {
            switched,
            at,
            since: 0,
            turns: [0; 3],
            draw: Draw::new(),
            timed_cpu_ns: 0,
            sums: vec![Sum::default(); CELLS],
            turn: vec![Sum::default(); CELLS],
            backs: Vec::new(),
            rate: 1.0,
            mark: (0, 0),
            touched: Vec::with_capacity(CELLS),
            cpu_at_start_ns: 0,
            waited_ns: 0,
            traffic: vec![Frames::default(); WAYS],
        }
    }

    fn of_turn(&mut self, cell: usize) -> &mut Sum {
        let sum = &mut self.turn[cell];
        if sum.timed == 0 && sum.cycles == 0 {
            self.touched.push(cell);
        }
        sum
    }

    /// Charges the time since the last call to the current place.
    fn charge(&mut self) {
        let now = (self.switched.clocks.cycles)();
        let mut spent = now.saturating_sub(self.since).saturating_sub(self.switched.reading_cycles);
        self.since = now;
        if spent as f64 >= LONG_NS * self.rate {
            spent = self.without_others(spent);
            self.since = (self.switched.clocks.cycles)();
        } else {
            self.mark.1 += spent;
        }
        let at = self.at.cell();
        self.of_turn(at).cycles += spent;
    }

    fn count(&mut self, cell: usize, messages: u64) {
        self.of_turn(cell).timed += messages;
    }

    /// Moves to another place, and returns the previous one.
    fn go(&mut self, to: Place) -> Place {
        self.charge();
        std::mem::replace(&mut self.at, to)
    }

    fn enter(&mut self, stage: Stage) -> Place {
        let before = self.go(Place { stage, ..self.at });
        let bit = 1 << stage as u16;
        if self.at.seen & bit == 0 {
            self.at.seen |= bit;
            self.count(self.at.cell(), self.at.weight);
        }
        before
    }

    /// Moves the costs of the current message, whose kind was unknown, to its kind.
    fn name(&mut self, kind: MessageKind) {
        self.charge();
        let seen = self.at.seen | 1 << Stage::Host as u16;
        for stage in Stage::ALL.into_iter().filter(|stage| seen & 1 << *stage as u16 != 0) {
            let (from, to) = (cell(self.at.role, self.at.message, stage), cell(self.at.role, kind, stage));
            let cycles = std::mem::take(&mut self.turn[from].cycles);
            let timed = self.turn[from].timed.min(self.at.weight);
            self.turn[from].timed -= timed;
            let sum = self.of_turn(to);
            (sum.timed, sum.cycles) = (sum.timed + timed, sum.cycles + cycles);
        }
        self.at.message = kind;
    }

    fn begin_turn(&mut self, is_leader: bool) {
        let role = if is_leader { StageRole::Leader } else { StageRole::Backup };
        self.at = Place { role, message: MessageKind::None, stage: Stage::Host, weight: 1, seen: 0 };
        self.turns[0] += 1;
        let rate = if self.draw.is_next() { self.switched.cycles_per_ns() } else { None };
        if let Some(rate) = rate {
            IS_TIMING.set(true);
            self.rate = rate;
            self.waited_ns = 0;
            self.backs.clear();
            self.count(self.at.cell(), 1);
            self.cpu_at_start_ns = (self.switched.clocks.thread_cpu_ns)();
            self.mark = (self.cpu_at_start_ns, 0);
            self.since = (self.switched.clocks.cycles)();
        }
    }

    /// Returns the part of `spent`, the time since the last reading of the thread's clock, in which this thread ran.
    /// The time ends with a long stay in one place. Another thread cannot have run before that stay: it would have
    /// caused an earlier long stay.
    fn without_others(&mut self, spent: u64) -> u64 {
        let cpu_ns = (self.switched.clocks.thread_cpu_ns)();
        let own = (cpu_ns.saturating_sub(self.mark.0) as f64 * self.rate) as u64;
        let spent = spent.min(own.saturating_sub(self.mark.1));
        self.mark = (cpu_ns, 0);
        spent
    }

    /// Ends the iteration. Its times count if they add up to the thread's CPU time.
    fn end_turn(&mut self) {
        self.charge();
        IS_TIMING.set(false);
        self.turns[1] += 1;
        let cpu_ns = (self.switched.clocks.thread_cpu_ns)().saturating_sub(self.cpu_at_start_ns);
        let worked_ns = cpu_ns.saturating_sub(self.waited_ns) as f64;
        let cycles: u64 = self.touched.iter().map(|cell| self.turn[*cell].cycles).sum();
        if cycles as f64 / self.rate > worked_ns * (1.0 + MAX_LOST_PART) + MAX_LOST_NS {
            self.turns[2] += 1;
            for cell in self.touched.drain(..) {
                self.sums[cell].sampled += std::mem::take(&mut self.turn[cell]).timed;
            }
            return;
        }
        let wait = cell(self.at.role, MessageKind::None, Stage::Wait);
        self.of_turn(wait).cycles += (self.waited_ns as f64 * self.rate) as u64;
        self.timed_cpu_ns += cpu_ns;
        for cell in self.touched.drain(..) {
            let Sum { timed, cycles, .. } = std::mem::take(&mut self.turn[cell]);
            self.sums[cell].sampled += timed;
            self.sums[cell].timed += timed;
            self.sums[cell].cycles += cycles;
        }
    }

    fn counts(&self) -> StageCounts {
        let (messages, stages) = (MessageKind::ALL.len(), Stage::ALL.len());
        let filled = self.sums.iter().enumerate().filter(|(_, sum)| sum.sampled > 0);
        let cell = |(at, sum): (usize, &Sum)| StageCell {
            role: at / (messages * stages),
            message: at / stages % messages,
            stage: at % stages,
            sampled: sum.sampled,
            timed: sum.timed,
            cycles: sum.cycles,
        };
        let moved = self.traffic.iter().enumerate().filter(|(_, own)| own.frames > 0);
        let traffic = |(at, own): (usize, &Frames)| Traffic {
            role: at / (2 * messages),
            message: at / 2 % messages,
            is_sent: at % 2 == 1,
            frames: own.frames,
            bytes: own.bytes,
            sampled: own.sampled,
        };
        StageCounts {
            counter: self.switched.clocks.name.to_owned(),
            counter_hz: self.switched.cycles_per_ns().unwrap_or(1.0) * 1e9,
            turns: self.turns,
            timed_cpu_ns: self.timed_cpu_ns,
            cells: filled.map(cell).collect(),
            traffic: moved.map(traffic).collect(),
        }
    }
}

/// Makes threads that begin from now on measure their stages. Only the first clocks are used.
pub fn switch_on(clocks: Clocks) {
    CLOCKS.get_or_init(|| Switched::new(clocks));
    IS_ON.store(true, Ordering::Release);
}

/// Makes the calling thread measure its stages, if they are switched on.
pub fn begin_thread() {
    if IS_ON.load(Ordering::Acquire) {
        let switched = CLOCKS.get().expect("clocks are set before stages are on");
        PROBE.set(Some(Box::new(Probe::new(switched))));
    }
}

/// Calls `work` on the thread's probe if the iteration is timed.
#[inline]
fn timing<T>(work: impl FnOnce(&mut Probe) -> T) -> Option<T> {
    if IS_TIMING.get() { timed(work) } else { None }
}

/// Separate from the probed code, which rarely comes here.
#[cold]
#[inline(never)]
fn timed<T>(work: impl FnOnce(&mut Probe) -> T) -> Option<T> {
    probe(work)
}

/// Calls `work` on the thread's probe, if it has one.
#[inline]
fn probe<T>(work: impl FnOnce(&mut Probe) -> T) -> Option<T> {
    if !IS_ON.load(Ordering::Relaxed) {
        return None;
    }
    // A guard may be dropped while the thread is ending.
    PROBE.try_with(|probe| probe.borrow_mut().as_mut().map(|probe| work(probe))).ok().flatten()
}

/// Guard that ends a stage, or the work on a message, when dropped. It contains only whether something was begun,
/// because it is on the hottest path.
#[must_use = "dropping it ends the stage"]
pub struct Entered(bool);

impl Entered {
    /// Begins something in a timed iteration. `begin` returns where its end leads.
    #[inline]
    fn new(begin: impl FnOnce(&mut Probe) -> Back) -> Entered {
        Entered(
            timing(|probe| {
                let back = begin(probe);
                probe.backs.push(back);
            })
            .is_some(),
        )
    }
}

/// The place to return to at the end of a stage or of a message.
#[derive(Clone, Copy)]
enum Back {
    /// A stage of the same message.
    Stage(Stage),
    /// Another message.
    Place(Place),
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            leave();
        }
    }
}

#[cold]
fn leave() {
    timing(|probe| {
        let place = match probe.backs.pop() {
            Some(Back::Stage(stage)) => Place { stage, ..probe.at },
            Some(Back::Place(place)) => place,
            None => return,
        };
        probe.go(place);
    });
}

/// Enters a stage of the work on the current message.
#[inline]
pub fn enter(stage: Stage) -> Entered {
    Entered::new(|probe| Back::Stage(probe.enter(stage).stage))
}

/// Begins the work on `messages` messages of a kind.
#[inline]
pub fn message(kind: MessageKind, messages: usize) -> Entered {
    let place = |at: Place| Place { message: kind, stage: Stage::Host, weight: messages as u64, seen: 0, ..at };
    Entered::new(|probe| {
        let before = probe.go(place(probe.at));
        probe.count(probe.at.cell(), probe.at.weight);
        Back::Place(before)
    })
}

/// Sets the kind of the current message, which was [`MessageKind::Unread`] until now.
#[inline]
pub fn name(kind: MessageKind) {
    timing(|probe| probe.name(kind));
}

/// Begins to receive or send frames of a kind; [`count`] counts them.
#[inline]
pub fn moving(stage: Stage, kind: MessageKind) -> Entered {
    let place = |at: Place| Place { message: kind, stage, weight: 0, seen: u16::MAX, ..at };
    Entered::new(|probe| Back::Place(probe.go(place(probe.at))))
}

/// Counts frames that were [moved](moving).
#[inline]
pub fn count(messages: u64) {
    timing(|probe| probe.count(probe.at.cell(), messages));
}

/// Counts a frame received from another replica or a client.
#[inline]
pub fn received(kind: MessageKind, bytes: usize) {
    note(kind, false, bytes);
}

/// Counts a frame sent to another replica or a client.
#[inline]
pub fn sent(kind: MessageKind, bytes: usize) {
    note(kind, true, bytes);
}

#[inline]
fn note(kind: MessageKind, is_sent: bool, bytes: usize) {
    probe(|probe| {
        let at = (probe.at.role as usize * MessageKind::ALL.len() + kind as usize) * 2 + usize::from(is_sent);
        let Frames { frames, bytes: sum, sampled } = &mut probe.traffic[at];
        (*frames, *sum) = (*frames + 1, *sum + bytes as u64);
        *sampled += u64::from(IS_TIMING.get());
    });
}

/// Begins an event-loop iteration of the host.
#[inline]
pub fn begin_turn(is_leader: bool) {
    probe(|probe| probe.begin_turn(is_leader));
}

/// Ends an event-loop iteration of the host.
#[inline]
pub fn end_turn() {
    timing(Probe::end_turn);
}

/// Runs a system call that may put the thread to sleep. Only its CPU time counts.
#[inline]
pub fn wait<T>(work: impl FnOnce() -> T) -> T {
    let before = timing(|probe| {
        probe.count(cell(probe.at.role, MessageKind::None, Stage::Wait), 1);
        probe.charge();
        (probe.switched.clocks.thread_cpu_ns)()
    });
    let outcome = work();
    if let Some(before) = before {
        timing(|probe| {
            let cpu_ns = (probe.switched.clocks.thread_cpu_ns)();
            probe.waited_ns += cpu_ns.saturating_sub(before).saturating_sub(probe.switched.reading_ns);
            probe.mark = (cpu_ns, 0);
            probe.since = (probe.switched.clocks.cycles)();
        });
    }
    outcome
}

/// Enters the stage of a MAC computation: creation inside the signing stage, and otherwise verification.
pub(crate) fn enter_mac() -> Option<Entered> {
    let is_made = timing(|probe| probe.at.stage == Stage::Sign);
    is_made.filter(|is_made| !is_made).map(|_| enter(Stage::Authenticate))
}

/// Returns the calling thread's current place in a timed iteration, for work that another thread does on its behalf.
pub fn here() -> Option<Place> {
    timing(|probe| probe.at)
}

/// Runs work on behalf of another thread, and returns the CPU time that it took, in nanoseconds, if stages are on.
pub fn elsewhere<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let clock = if IS_ON.load(Ordering::Relaxed) { CLOCKS.get() } else { None };
    let Some(Switched { clocks, reading_ns, .. }) = clock else { return (work(), 0) };
    let before = (clocks.thread_cpu_ns)();
    let outcome = work();
    (outcome, (clocks.thread_cpu_ns)().saturating_sub(before).saturating_sub(*reading_ns))
}

/// Adds the time of a stage that another thread performed for `place`.
pub fn add_elsewhere(place: Place, stage: Stage, ns: u64) {
    probe(|probe| {
        let Some(rate) = probe.switched.cycles_per_ns() else { return };
        let sum = &mut probe.sums[cell(place.role, place.message, stage)];
        sum.sampled += place.weight;
        sum.timed += place.weight;
        sum.cycles += (ns as f64 * rate) as u64;
        probe.timed_cpu_ns += ns;
    });
}

/// Returns the counts of the calling thread; `None` if it does not measure its stages.
pub fn of_this_thread() -> Option<StageCounts> {
    probe(|probe| probe.counts())
}
