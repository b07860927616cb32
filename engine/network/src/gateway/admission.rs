//! Admission control: a replica refuses client bundles whose commands would wait too long.
//!
//! Work is counted in bytes, with [`COMMAND_WORK_BYTES`] added per command. The queue is the received work that is not
//! executed yet. Measurements set the limit of the queue:
//!
//! - Marks at the end of the queue, a few milliseconds apart, measure the queueing delay: a mark passes when the
//!   executed work reaches the sum of executed and queued work at the time of the mark. So bundles need no timestamps.
//! - If the mean delay exceeds the target, the execution rate is the capacity, and the limit falls toward the work done
//!   in one target time.
//! - If the mean is below the target, the limit grows: to slightly more than the work of one target time if the
//!   capacity is known. Otherwise it grows when the queue nears it, to at most twice the work executed in the target
//!   time: a partly loaded replica executes only its load, so its rate says little about its capacity.
//!
//! At the limit, only clients within their share are admitted. Each piece of executed work gives the active clients
//! credit in equal parts, by address first and then by link, as the pool's lanes do (ADR 025). So a client that sends
//! less than its share never notices the others, and nobody gains credit while nothing is executed.
//!
//! The replicas' clients share the cluster in the same way: a replica refuses nothing while its own clients use less
//! than [nearly 1/n](share) of what the cluster executes.

mod share;

use share::{Rate, Share};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// Work added per command: a command with a payload of this size costs a replica about twice as much as an empty one.
pub const COMMAND_WORK_BYTES: u64 = 256;
/// Initial limit of all replicas' queues together, before the capacity is known. The work held in the first moments of
/// an overload passes through the network interface of each replica. A smaller limit would refuse much of a load that
/// the cluster could sustain. At three times saturation, a larger one would let views time out on slow interfaces.
pub const INITIAL_CLUSTER_LIMIT_BYTES: u64 = 40 << 20;
/// Minimum of the limit. A queue of this length adds no noticeable delay.
pub const MIN_LIMIT_BYTES: u64 = 256 << 10;
/// While the capacity is unknown, the limit grows up to this multiple of the work executed in the target time: the work
/// executed now arrived earlier, when the load was lower.
const GROWTH_FACTOR: u64 = 2;
/// Minimum length of a measurement.
const MIN_MEASUREMENT_NS: u64 = 100_000_000;
/// Minimum time between two marks, and maximum number of marks in the queue.
const MARK_INTERVAL_NS: u64 = 5_000_000;
const MAX_MARKS: usize = 4096;
/// Minimum number of executions in a measurement, because blocks come in bursts.
const MIN_EXECUTIONS: u32 = 3;
/// The limit changes by at most 1/N per measurement.
const MAX_STEP_DIVISOR: u64 = 4;
/// The capacity becomes unknown again after this time without a refusal.
const CALM_NS: u64 = 10_000_000_000;
/// Halving the limit is expected to shorten the queueing delay by at least 1/N.
const SHORTER_DIVISOR: u64 = 10;
/// Maximum factor by which the estimate of the shortest queueing delay may exceed the shortest one ever measured, or
/// the target.
const MAX_LONGER: u64 = 2;
/// A refused client may return once the queue is 1/N below its limit.
const ROOM_DIVISOR: u64 = 8;
/// Bounds of the retry delay of a refused client, in milliseconds.
pub const MIN_RETRY_MS: u64 = 10;
pub const MAX_RETRY_MS: u64 = 1_000;
/// Retry delay before the capacity is known, in milliseconds.
const UNMEASURED_RETRY_MS: u64 = 100;
/// A client is active until this long after its last bundle.
const ACTIVE_NS: u64 = 1_000_000_000;

/// Amount of work: commands and bytes of bundles.
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

/// Work that a replica holds, and work executed since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Bundles of its own clients that are received and not executed yet.
    pub open: Amount,
    /// Bundles of its own clients.
    pub executed: Amount,
    /// Bundles of all replicas' clients.
    pub executed_of_all: Amount,
}

/// A client link that has recently sent a bundle.
struct Account {
    address: u64,
    /// Work admitted even at the limit. Negative after a bundle larger than the credit.
    credit: i64,
    /// Credit given to every link of this address, as of the last update of this account.
    given: u64,
    /// Whether it has sent a bundle since the last count, and in the interval before.
    active: [bool; 2],
}

/// Active links from one address.
#[derive(Default)]
struct Address {
    links: u64,
    /// Cumulative credit given to each of its links.
    given: u64,
    /// Cumulative credit of each address as of the last update of `given`.
    updated: u64,
}

/// A measurement in progress.
#[derive(Default)]
struct Measurement {
    begins: u64,
    /// Work executed before it began.
    executed: u64,
    executions: u32,
    /// Nanoseconds during which the queue was not empty.
    busy_ns: u64,
    /// Sum and number of the queueing delays.
    waited_ns: u128,
    waits: u64,
    /// Shortest queueing delay.
    shortest_ns: u64,
    /// Length of the longest queue, in bytes.
    longest: u64,
}

/// A mark that measures the queueing delay: passed once the executed work reaches `position`.
struct Mark {
    position: u64,
    at: u64,
}

/// Decides which bundles a replica admits. `K` identifies a link. Times are in nanoseconds.
pub struct Admission<K> {
    /// Target of the queueing delay; 0 admits everything.
    target_ns: u64,
    limit: u64,
    /// Execution rate while the queue is too long: the capacity.
    capacity: Rate,
    share: Share,
    refused_at: Option<u64>,
    lowered_at: u64,
    raised_at: u64,
    /// A limit, the reduction of which should have shortened the queueing delay, and the longest mean delay since then.
    expectation: Option<(u64, u64)>,
    /// Whether bundles were admitted within this replica's share although the queue was at its limit, since the last
    /// measurement above the target.
    exceeds_limit: bool,
    /// Shortest queueing delay: the delay of work that waits for no other work.
    shortest_ns: u64,
    /// Shortest queueing delay ever measured.
    least_ns: u64,
    now: u64,
    load: Load,
    measurement: Measurement,
    /// Ordered by position and time.
    marks: VecDeque<Mark>,
    /// Work admitted since the last observation of the load.
    admitted: u64,
    accounts: HashMap<K, Account>,
    addresses: HashMap<u64, Address>,
    /// Cumulative credit given to each active address.
    given: u64,
    counted_at: u64,
    refused_bundles: u64,
    refused: Amount,
}

impl<K: Copy + Eq + Hash> Admission<K> {
    /// Creates the admission control of one of `replicas` replicas. `max_queue` is the target of the queueing delay;
    /// zero admits everything.
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

    /// Records the replica's load, before an iteration admits bundles.
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

    /// Adds a mark at the end of the queue, if it has grown since the last mark.
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

    /// Measures the queueing delay of the executed work.
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

    /// Returns the received work that is not executed yet.
    fn queue(&self) -> u64 {
        self.load.open.work().saturating_add(self.admitted)
    }

    /// Returns the target of the queueing delay: at least half as long again as the shortest delay measured. A queue
    /// shorter than the work in flight between the replicas would cost throughput.
    fn target(&self) -> u64 {
        let shortest = if self.shortest_ns == u64::MAX { 0 } else { self.shortest_ns };
        self.target_ns.max(shortest.saturating_add(shortest / 2))
    }

    /// Completes a measurement that is long enough, and adapts the limit.
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
            // The work executed now was admitted under the previous limit.
            if self.now < self.lowered_at.saturating_add(mean_ns) {
                return;
            }
            self.lowered_at = self.now;
            // A limit that was exceeded shortens nothing.
            match std::mem::take(&mut self.exceeds_limit) {
                true => self.expectation = None,
                false => self.doubt_shortest(mean_ns, shortest_ns),
            }
            let proportional = share_of(self.limit, target, mean_ns);
            self.limit = proportional.max(self.limit - step).min(self.of_target(target)).max(MIN_LIMIT_BYTES);
        } else if self.capacity.get() == 0 {
            // The last increase takes effect after one queueing delay.
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

    /// Raises the estimate of the shortest queueing delay to the shortest of this measurement, if halving the limit did
    /// not shorten the mean: then work waits for something else, such as a new leader that is farther away. Otherwise
    /// the limit, and with it throughput, would fall without end.
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

    /// Returns the work that the replica can execute in the target time.
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

    /// Returns the account of a link, with its credit brought up to date.
    fn account(&mut self, link: K, address: u64) -> &mut Account {
        let (given, limit) = (self.given, self.limit);
        let addresses = self.addresses.len().max(1) as u64;
        let shared = self.addresses.entry(address).or_insert_with(|| Address { updated: given, ..Address::default() });
        let is_new = !self.accounts.contains_key(&link);
        shared.links = (shared.links + u64::from(is_new)).max(1);
        shared.given += (given - shared.updated) / shared.links;
        shared.updated = given;
        let most = limit / addresses / shared.links;
        // A new client may send one bundle. Reconnecting gives no further advantage.
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
        // An empty queue admits a bundle of any size.
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

    /// Counts a refused bundle, and returns its retry delay in milliseconds.
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

    /// Returns the commands and bytes of the refused bundles.
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
