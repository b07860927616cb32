//! Admission control: which bundles of clients a replica refuses because their commands would wait too long.
//!
//! Work is counted in bytes, with [`COMMAND_WORK_BYTES`] for each command. The work that is here and not executed is
//! the queue. It may grow up to a limit, which follows from what the replica measures:
//!
//! - Marks at the end of the queue, a few milliseconds apart, tell how long work waits: until as much is executed as
//!   was executed or waiting at the mark. No bundle carries a time.
//! - If the mean of that time exceeds the target, the rate of execution is the capacity, and the limit falls toward the
//!   work of one target.
//! - If the mean is below the target, the limit grows: toward that same work and a little beyond if the capacity is
//!   known, and otherwise to at most twice what is executed in the target time, when the queue comes near it. A replica
//!   at part load executes what it is given, so its rate says little about its capacity.
//!
//! At the limit, clients are refused except those within their share. Each piece of executed work gives the active
//! clients credit in equal parts, by address first and then by link, as the pool's lanes do (ADR 025). So a client that
//! sends less than its share never notices the others, and nobody gains credit while nothing is executed.
//!
//! The clients of different replicas share the cluster likewise: a replica refuses nothing while its own clients use
//! less than [nearly 1/n](share) of what the cluster executes.

mod share;

use share::{Rate, Share};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// Work of a command in addition to its bytes: a command of that size costs a replica about twice what an empty one
/// does.
pub const COMMAND_WORK_BYTES: u64 = 256;
/// Limit of the queues of all replicas together before the capacity is known. What they hold in the first moments of an
/// overload passes through the network card of each of them. Less would refuse much of a load that the cluster could
/// carry; at three times saturation, more would let views time out on slow cards.
pub const INITIAL_CLUSTER_LIMIT_BYTES: u64 = 40 << 20;
/// The limit never falls below this. A queue of this length costs no time worth mentioning.
pub const MIN_LIMIT_BYTES: u64 = 256 << 10;
/// While the capacity is unknown, the limit grows up to N times the work executed in the target time: what was executed
/// then arrived earlier, when there was less of it.
const GROWTH_FACTOR: u64 = 2;
/// Minimum length of a measurement.
const MIN_MEASUREMENT_NS: u64 = 100_000_000;
/// Minimum time between two marks whose time in the queue is measured, and maximum number of marks in the queue.
const MARK_INTERVAL_NS: u64 = 5_000_000;
const MAX_MARKS: usize = 4096;
/// Minimum number of times that work is executed in a measurement: blocks come in bursts.
const MIN_EXECUTIONS: u32 = 3;
/// The limit changes at most by 1/N in a measurement.
const MAX_STEP_DIVISOR: u64 = 4;
/// The capacity is unknown again when nothing was refused for this long.
const CALM_NS: u64 = 10_000_000_000;
/// Half the limit should shorten the time in the queue by 1/N at least.
const SHORTER_DIVISOR: u64 = 10;
/// The shortest time in the queue may turn out to be this many times the shortest ever, or the target.
const MAX_LONGER: u64 = 2;
/// A refused client may return once the queue is below its limit by 1/N.
const ROOM_DIVISOR: u64 = 8;
/// Bounds of the time after which a refused client may return.
pub const MIN_RETRY_MS: u64 = 10;
pub const MAX_RETRY_MS: u64 = 1_000;
/// That time before the capacity is known.
const UNMEASURED_RETRY_MS: u64 = 100;
/// A client is active until this long after its last bundle.
const ACTIVE_NS: u64 = 1_000_000_000;

/// Commands and bytes of bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    pub commands: u64,
    pub bytes: u64,
}

impl Amount {
    /// Returns the work in bytes.
    pub fn work(self) -> u64 {
        self.bytes.saturating_add(self.commands.saturating_mul(COMMAND_WORK_BYTES))
    }
}

/// What a replica holds, and what it has executed since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Bundles of its own clients that are here and not executed.
    pub open: Amount,
    /// Bundles of its own clients.
    pub executed: Amount,
    /// Bundles of all replicas' clients.
    pub executed_of_all: Amount,
}

/// Client with a link that has sent a bundle lately.
struct Account {
    address: u64,
    /// Work that is admitted even at the limit. Below zero after a bundle larger than the credit.
    credit: i64,
    /// The credit given to every link of this address when this one was updated last.
    given: u64,
    /// Whether it has sent a bundle since the last count, and before.
    active: [bool; 2],
}

/// Active links of one address.
#[derive(Default)]
struct Address {
    links: u64,
    /// Credit given to each of its links so far.
    given: u64,
    /// The credit given to each address when `given` was updated last.
    updated: u64,
}

/// Measurement under way.
#[derive(Default)]
struct Measurement {
    begins: u64,
    /// Executed work at its beginning.
    executed: u64,
    executions: u32,
    /// Nanoseconds in which the queue was not empty.
    busy_ns: u64,
    /// Sum and number of the times in the queue.
    waited_ns: u128,
    waits: u64,
    /// The shortest of these times.
    shortest_ns: u64,
    /// The longest queue.
    longest: u64,
}

/// Work whose time in the queue is measured: executed once the executed work reaches `position`.
struct Mark {
    position: u64,
    at: u64,
}

/// Decides which bundles a replica admits. `K` identifies a link. Times are in nanoseconds.
pub struct Admission<K> {
    /// 0: everything is admitted.
    target_ns: u64,
    limit: u64,
    /// Rate of execution while the queue is too long: the capacity.
    capacity: Rate,
    share: Share,
    refused_at: Option<u64>,
    lowered_at: u64,
    raised_at: u64,
    /// The limit since which a lower one has been expected to shorten the time in the queue, and the longest mean of
    /// that time since then.
    expectation: Option<(u64, u64)>,
    /// Whether bundles were admitted because of the share of this replica since the last measurement above the target.
    exceeds_limit: bool,
    /// The shortest time in the queue: what work takes that waits for no other work here.
    shortest_ns: u64,
    /// The shortest ever.
    least_ns: u64,
    now: u64,
    load: Load,
    measurement: Measurement,
    /// By position and time.
    marks: VecDeque<Mark>,
    /// Work admitted since the load was observed.
    admitted: u64,
    accounts: HashMap<K, Account>,
    addresses: HashMap<u64, Address>,
    /// Credit given to each active address so far.
    given: u64,
    counted_at: u64,
    refused_bundles: u64,
    refused: Amount,
}

impl<K: Copy + Eq + Hash> Admission<K> {
    /// `max_queue` is the target for the time in the queue. With zero, everything is admitted. `replicas` is the
    /// size of the cluster.
    pub fn new(max_queue: Duration, replicas: usize) -> Admission<K> {
        Admission {
            target_ns: u64::try_from(max_queue.as_nanos()).unwrap_or(u64::MAX),
            limit: (INITIAL_CLUSTER_LIMIT_BYTES / replicas.max(1) as u64).max(MIN_LIMIT_BYTES),
            capacity: Rate::default(),
            share: Share::new(replicas),
            refused_at: None,
            lowered_at: 0,
            raised_at: 0,
            expectation: None,
            exceeds_limit: false,
            shortest_ns: u64::MAX,
            least_ns: u64::MAX,
            now: 0,
            load: Load::default(),
            measurement: Measurement::default(),
            marks: VecDeque::new(),
            admitted: 0,
            accounts: HashMap::new(),
            addresses: HashMap::new(),
            given: 0,
            counted_at: 0,
            refused_bundles: 0,
            refused: Amount::default(),
        }
    }

    /// Notes the replica's load, before the bundles of a turn are admitted.
    pub fn observe(&mut self, now: u64, load: Load) {
        if self.target_ns == 0 {
            return;
        }
        let elapsed = now.saturating_sub(self.now);
        let (queue, executed) = (self.queue(), load.executed.work().saturating_sub(self.load.executed.work()));
        let measurement = &mut self.measurement;
        measurement.busy_ns += if queue > 0 { elapsed } else { 0 };
        measurement.longest = measurement.longest.max(queue);
        measurement.executions += u32::from(executed > 0);
        (self.now, self.load, self.admitted) = (self.now.max(now), load, 0);
        self.mark();
        self.share.observe(self.now, load.executed_of_all.work(), self.target());
        if executed > 0 {
            self.pass_marks();
            self.give(executed);
            self.measure();
        }
        if now >= self.counted_at.saturating_add(ACTIVE_NS) {
            self.count_active();
        }
    }

    /// Marks the end of the queue, if it has grown since the last mark.
    fn mark(&mut self) {
        let position = self.load.executed.work().saturating_add(self.load.open.work());
        if self.load.open == Amount::default() {
            return self.marks.clear();
        }
        let is_due = self
            .marks
            .back()
            .is_none_or(|last| self.now >= last.at.saturating_add(MARK_INTERVAL_NS) && position > last.position);
        if is_due && self.marks.len() < MAX_MARKS {
            self.marks.push_back(Mark { position, at: self.now });
        }
    }

    /// Measures how long the executed work was in the queue.
    fn pass_marks(&mut self) {
        let executed = self.load.executed.work();
        while let Some(mark) = self.marks.front().filter(|mark| mark.position <= executed) {
            let waited = self.now.saturating_sub(mark.at);
            self.shortest_ns = self.shortest_ns.min(waited);
            self.least_ns = self.least_ns.min(waited);
            let shortest = if self.measurement.waits == 0 { waited } else { self.measurement.shortest_ns };
            self.measurement.shortest_ns = shortest.min(waited);
            self.measurement.waited_ns += u128::from(waited);
            self.measurement.waits += 1;
            self.marks.pop_front();
        }
    }

    /// Returns the work that is here and not executed.
    fn queue(&self) -> u64 {
        self.load.open.work().saturating_add(self.admitted)
    }

    /// Returns the longest time that work should be in the queue: at least half more than the shortest measured. A
    /// queue that is shorter than the work in flight between the replicas would cost throughput.
    fn target(&self) -> u64 {
        let shortest = if self.shortest_ns == u64::MAX { 0 } else { self.shortest_ns };
        self.target_ns.max(shortest.saturating_add(shortest / 2))
    }

    /// Ends a measurement that is long enough, and adapts the limit.
    fn measure(&mut self) {
        let lasted = self.now.saturating_sub(self.measurement.begins);
        let Measurement { executions, waits, .. } = self.measurement;
        if executions < MIN_EXECUTIONS || waits == 0 || lasted < MIN_MEASUREMENT_NS {
            return;
        }
        let total = self.load.executed.work();
        let Measurement { executed: before, busy_ns, waited_ns, shortest_ns, longest, .. } = self.measurement;
        self.measurement = Measurement { begins: self.now, executed: total, ..Measurement::default() };
        let executed = total.saturating_sub(before).max(1);
        let mean_ns = u64::try_from(waited_ns / u128::from(waits)).unwrap_or(u64::MAX);
        let target = self.target();
        let is_calm = self.refused_at.is_none_or(|at| self.now >= at.saturating_add(CALM_NS));
        if is_calm {
            self.capacity.forget();
        }
        let step = self.limit / MAX_STEP_DIVISOR;
        if mean_ns > target {
            self.capacity.note(self.now, per_second(executed, busy_ns));
            if let Some((_, longest_mean)) = &mut self.expectation {
                *longest_mean = mean_ns.max(*longest_mean);
            }
            // What is executed now was admitted under the limit before.
            if self.now < self.lowered_at.saturating_add(mean_ns) {
                return;
            }
            self.lowered_at = self.now;
            // A limit that does not hold shortens nothing.
            match std::mem::take(&mut self.exceeds_limit) {
                true => self.expectation = None,
                false => self.doubt_shortest(mean_ns, shortest_ns),
            }
            let proportional = share_of(self.limit, target, mean_ns);
            self.limit = proportional.max(self.limit - step).min(self.of_target(target)).max(MIN_LIMIT_BYTES);
        } else if self.capacity.get() == 0 {
            // The effect of the last growth shows after the time in the queue.
            if longest >= self.limit / 2 && self.now >= self.raised_at.saturating_add(mean_ns) {
                let in_target = share_of(per_second(executed, busy_ns), target, 1_000_000_000);
                self.limit = self.limit.max(in_target.min(self.limit).saturating_mul(GROWTH_FACTOR));
                self.raised_at = self.now;
            }
        } else {
            self.expectation = None;
            self.capacity.note(self.now, per_second(executed, busy_ns));
            let of_target = self.of_target(target);
            let most = of_target.saturating_add(of_target / MAX_STEP_DIVISOR);
            self.limit = self.limit.saturating_add(step).min(most).max(MIN_LIMIT_BYTES);
        }
    }

    /// Takes the shortest time in the queue of a measurement for the shortest there is, if half the limit has not
    /// shortened the mean: work waits for something else, such as a new leader that is farther away. Otherwise the
    /// limit would fall without end, and throughput with it.
    fn doubt_shortest(&mut self, mean_ns: u64, shortest_ns: u64) {
        let (limit, mean_before) = *self.expectation.get_or_insert((self.limit, mean_ns));
        if self.limit > MIN_LIMIT_BYTES && self.limit > limit / 2 {
            return;
        }
        if mean_ns > mean_before - mean_before / SHORTER_DIVISOR {
            self.shortest_ns = shortest_ns.min(self.least_ns.max(self.target_ns).saturating_mul(MAX_LONGER));
        }
        self.expectation = Some((self.limit, mean_ns));
    }

    /// Returns the work that the replica can do in the target time.
    fn of_target(&self, target: u64) -> u64 {
        share_of(self.capacity.get(), target, 1_000_000_000)
    }

    /// Gives the active clients credit for executed work.
    fn give(&mut self, executed: u64) {
        let addresses = self.addresses.len().max(1) as u64;
        self.given = self.given.saturating_add(executed / addresses);
    }

    /// Forgets the clients that are no longer active.
    fn count_active(&mut self) {
        self.counted_at = self.now;
        self.accounts.retain(|_, account| {
            account.active = [false, account.active[0]];
            account.active[1]
        });
        self.addresses.values_mut().for_each(|address| address.links = 0);
        for account in self.accounts.values() {
            self.addresses.entry(account.address).or_default().links += 1;
        }
        self.addresses.retain(|_, address| address.links > 0);
    }

    /// Returns the account of a link, with the credit that it has by now.
    fn account(&mut self, link: K, address: u64) -> &mut Account {
        let (given, limit) = (self.given, self.limit);
        let addresses = self.addresses.len().max(1) as u64;
        let shared = self.addresses.entry(address).or_insert_with(|| Address { updated: given, ..Address::default() });
        let is_new = !self.accounts.contains_key(&link);
        shared.links = (shared.links + u64::from(is_new)).max(1);
        shared.given += (given - shared.updated) / shared.links;
        shared.updated = given;
        let most = limit / addresses / shared.links;
        // A new client may send one bundle. Reconnecting gains nothing else.
        let fresh = || Account { address, credit: 1, given: shared.given, active: [true, false] };
        let account = self.accounts.entry(link).or_insert_with(fresh);
        let earned = i64::try_from(shared.given.saturating_sub(account.given)).unwrap_or(i64::MAX);
        account.credit = account.credit.saturating_add(earned).min(i64::try_from(most).unwrap_or(i64::MAX).max(1));
        account.given = shared.given;
        account.active[0] = true;
        account
    }

    /// Admits a bundle of a client. If this returns false, the host [refuses](Admission::refuse) the bundle, unless the
    /// replica holds it already.
    pub fn admits(&mut self, link: K, address: u64, bundle: Amount) -> bool {
        if self.target_ns == 0 {
            return true;
        }
        let (work, queue, limit, target) = (bundle.work(), self.queue(), self.limit, self.target());
        let is_within_share = self.share.has_room(queue, work, target);
        let account = self.account(link, address);
        // An empty queue takes a bundle of any size.
        let is_within_limit = queue == 0 || queue.saturating_add(work) <= limit || account.credit > 0;
        let admits = is_within_limit || is_within_share;
        if admits {
            let least = -i64::try_from(limit).unwrap_or(i64::MAX);
            account.credit = account.credit.saturating_sub(i64::try_from(work).unwrap_or(i64::MAX)).max(least);
            self.admitted = self.admitted.saturating_add(work);
            self.share.use_up(work, target);
            self.exceeds_limit |= !is_within_limit;
        }
        admits
    }

    /// Counts a refused bundle, and returns the time in milliseconds after which there should be room for it.
    pub fn refuse(&mut self, bundle: Amount) -> u32 {
        self.refused.commands += bundle.commands;
        self.refused.bytes += bundle.bytes;
        self.refused_bundles += 1;
        self.refused_at = Some(self.now);
        let excess = self.queue().saturating_sub(self.limit - self.limit / ROOM_DIVISOR);
        let wait_ms = match self.capacity.get() {
            0 => UNMEASURED_RETRY_MS,
            rate => u64::try_from(u128::from(excess) * 1000 / u128::from(rate)).unwrap_or(u64::MAX),
        };
        wait_ms.clamp(MIN_RETRY_MS, MAX_RETRY_MS) as u32
    }

    /// Returns the limit of the queue, in bytes of work.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of bundles refused since the start.
    pub fn refused_bundles(&self) -> u64 {
        self.refused_bundles
    }

    /// Returns the contents of these bundles.
    pub fn refused(&self) -> Amount {
        self.refused
    }

    /// Returns whether the queue is at its limit.
    pub fn is_full(&self) -> bool {
        self.target_ns > 0 && self.queue() >= self.limit
    }
}

/// Returns `whole * part / of`.
fn share_of(whole: u64, part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(part) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

fn per_second(amount: u64, nanos: u64) -> u64 {
    share_of(amount, 1_000_000_000, nanos)
}
