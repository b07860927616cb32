//! Cores, and the threads that run on them or wait for them.
//!
//! Without `[scheduler]` in the cost table, all cores share one queue, and a thread leaves its core after each
//! iteration. With it, cores have queues of their own, as in Linux: a thread waits for its previous core even if
//! another one is idle, and keeps it while it has work, up to a time slice. An idle core takes a waiting thread from
//! another one only occasionally. With `preempts`, a waking thread preempts a thread that has exceeded its share, by
//! the rules of the kernel's EEVDF: all threads have the same weight, and the one with the least time runs next.

use crate::charges::Charges;
use crate::links::{Purpose, Random};
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A core that was given to a thread.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// Whether the thread slept before.
    pub woken: bool,
    /// Whether another thread ran last on the core.
    pub cold: bool,
    /// Whether the core was idle before.
    pub idle: bool,
}

#[derive(Default)]
struct Core {
    running: Option<usize>,
    /// The last thread that ran, and when it left.
    last: Option<usize>,
    left: Option<Time>,
    /// Threads that wait for this core.
    queue: VecDeque<usize>,
    /// The core's last virtual time: the mean of its threads'.
    virtual_ns: i64,
    interruptions: Option<Interruptions>,
    /// Time that the router has yet to take.
    owed_ns: u64,
}

/// Other work on a core.
struct Interruptions {
    random: Random,
    /// Time of the next interruption of each class.
    due: Vec<Time>,
}

#[derive(Clone)]
struct Thread {
    /// Its present core.
    on: Option<usize>,
    /// Its previous core.
    home: usize,
    is_waiting: bool,
    /// Whether it found no work after its last iteration.
    is_asleep: bool,
    /// Time at which it got its core.
    since: Time,
    /// Time at which it began to wait for a core.
    waits_since: Time,
    shares: Shares,
    /// Time that it has run on its core, adjusted for sleeping and migrating; excludes the time since `since`.
    virtual_ns: i64,
    /// Deficit relative to the mean of its core's threads, while it sleeps.
    lag_ns: i64,
}

/// A thread's share of the cores, as in the kernel's `/proc/PID/schedstat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shares {
    /// CPU time.
    pub ran: Duration,
    /// Time for which it had work and waited for a core.
    pub waited: Duration,
    /// Number of times that it was given a core.
    pub turns: u64,
}

impl Shares {
    pub(super) fn since(&self, before: &Shares) -> Shares {
        let Shares { ran, waited, turns } = *before;
        Shares { ran: self.ran - ran, waited: self.waited - waited, turns: self.turns - turns }
    }
}

/// Cores, and the threads that have one or wait for one. Threads are the replicas, followed by the clients.
pub(super) struct Cores {
    cores: Vec<Core>,
    threads: Vec<Thread>,
    /// Threads that wait for any core; unused if each core has its own queue.
    queue: VecDeque<usize>,
    /// Maximum time that a busy thread keeps its core while others wait; 0 is one iteration, with a single queue.
    slice: Duration,
    /// Whether a waking thread may preempt another.
    preempts: bool,
    /// Time from waking a thread until an idle core runs it.
    pub idle_delay: Duration,
    /// Minimum time between two migrations of threads to idle cores.
    balance: Duration,
    balanced: Time,
    /// Mean time between interruptions of each class, and their length.
    interruptions: Vec<(Duration, Duration)>,
    /// The router's time per packet, taken from the cores in rotation.
    router_ns: u64,
    routed: usize,
    /// Time and receiver of the last write to a stream, and the free bytes in its last packet.
    last_write: Option<(Time, usize, usize)>,
    left_bytes: usize,
}

impl Cores {
    /// Returns idle cores; 0 means one per thread.
    pub fn new(cores: usize, threads: usize, router: Duration, charges: &Charges, seed: u64) -> Cores {
        let router_ns = if cores == 0 { 0 } else { router.as_nanos() as u64 };
        let cores = if cores == 0 { threads } else { cores };
        let thread = |at: usize| Thread {
            on: None,
            home: at % cores,
            is_waiting: false,
            is_asleep: false,
            since: Time(0),
            waits_since: Time(0),
            shares: Shares::default(),
            virtual_ns: 0,
            lag_ns: 0,
        };
        let core = |at: usize| {
            let due = vec![Time(0); charges.interruptions.len()];
            let random = Random::new(seed, Purpose::Interruptions, at as u64);
            Core { interruptions: (!due.is_empty()).then_some(Interruptions { random, due }), ..Core::default() }
        };
        Cores {
            cores: (0..cores).map(core).collect(),
            threads: (0..threads).map(thread).collect(),
            queue: VecDeque::new(),
            slice: charges.slice,
            preempts: charges.preempts && !charges.slice.is_zero(),
            idle_delay: charges.idle_delay,
            balance: charges.balance,
            balanced: Time(0),
            interruptions: charges.interruptions.clone(),
            router_ns,
            routed: 0,
            last_write: None,
            left_bytes: 0,
        }
    }

    pub fn have_queues(&self) -> bool {
        !self.slice.is_zero()
    }

    /// Queues a thread, unless it has a core or already waits for one. Returns whether it waits.
    pub fn wait(&mut self, now: Time, thread: usize) -> bool {
        let Thread { on, is_waiting, .. } = self.threads[thread];
        if on.is_some() || is_waiting {
            return false;
        }
        (self.threads[thread].is_waiting, self.threads[thread].waits_since) = (true, now);
        match self.have_queues() {
            true => {
                let home = self.threads[thread].home;
                if self.preempts && self.threads[thread].is_asleep {
                    self.place(now, thread);
                }
                self.cores[home].queue.push_back(thread);
            }
            false => self.queue.push_back(thread),
        }
        true
    }

    pub fn preempts(&self) -> bool {
        self.preempts
    }

    /// Returns the next waiting thread, and an idle core for it.
    pub fn next(&mut self, now: Time) -> Option<(usize, usize)> {
        let next = if self.have_queues() {
            self.next_of_queues().or_else(|| self.next_of_another(now))
        } else {
            self.next_of_all()
        };
        next.inspect(|(thread, _)| self.threads[*thread].is_waiting = false)
    }

    fn next_of_queues(&mut self) -> Option<(usize, usize)> {
        let is_ready = |core: &Core| core.running.is_none() && !core.queue.is_empty();
        let core = self.cores.iter().position(is_ready)?;
        let queue = &self.cores[core].queue;
        let least = (0..queue.len()).min_by_key(|at| self.threads[queue[*at]].virtual_ns);
        let first = if self.preempts { least? } else { 0 };
        Some((self.cores[core].queue.remove(first)?, core))
    }

    /// Returns a core's virtual time, the mean of its threads'. A thread below the mean is eligible to run.
    fn virtual_ns(&self, now: Time, core: usize) -> (i64, i64) {
        let Core { running, queue, virtual_ns, .. } = &self.cores[core];
        let of = |thread: &usize| {
            let Thread { on, since, virtual_ns, .. } = self.threads[*thread];
            virtual_ns + if on.is_some() { now.since(since).as_nanos() as i64 } else { 0 }
        };
        let (mut sum, mut count) = (0, 0);
        for thread in running.iter().chain(queue) {
            (sum, count) = (sum + of(thread), count + 1);
        }
        if count == 0 { (*virtual_ns, 0) } else { (sum / count, count) }
    }

    /// Sets a waking thread's virtual time. A deficit remains its claim; a surplus expires once the others have had as
    /// much time.
    fn place(&mut self, now: Time, thread: usize) {
        let (mean, others) = self.virtual_ns(now, self.threads[thread].home);
        let Thread { virtual_ns, lag_ns, .. } = &mut self.threads[thread];
        *virtual_ns = match others {
            0 => mean,
            _ if *lag_ns < 0 => mean.max(*virtual_ns),
            // The thread's own claim moves the mean.
            _ => mean - *lag_ns * (others + 1) / others,
        };
    }

    /// Returns a thread that an idle core takes from the longest queue.
    fn next_of_another(&mut self, now: Time) -> Option<(usize, usize)> {
        if self.balance.is_zero() || now < self.balanced + self.balance {
            return None;
        }
        let idle = self.cores.iter().position(|core| core.running.is_none())?;
        let longest = self.cores.iter_mut().max_by_key(|core| core.queue.len())?;
        let thread = longest.queue.pop_back()?;
        self.balanced = now;
        self.threads[thread].virtual_ns = self.cores[idle].virtual_ns;
        Some((thread, idle))
    }

    /// Returns the first waiting thread, and its previous core, or else an unused one.
    fn next_of_all(&mut self) -> Option<(usize, usize)> {
        let thread = *self.queue.front()?;
        let rank = |core: &usize| match self.cores[*core].last {
            Some(last) if last == thread => 0,
            None => 1,
            Some(_) => 2,
        };
        let free = (0..self.cores.len()).filter(|core| self.cores[*core].running.is_none());
        let core = free.min_by_key(rank)?;
        self.queue.pop_front();
        Some((thread, core))
    }

    /// Gives a thread its core.
    pub fn take(&mut self, now: Time, thread: usize, core: usize) -> Taken {
        let Core { left, owed_ns, .. } = &mut self.cores[core];
        let idle = *left != Some(now);
        // The router has used the core's idle time.
        *owed_ns = owed_ns.saturating_sub(now.since(left.unwrap_or_default()).as_nanos() as u64);
        self.cores[core].running = Some(thread);
        let cold = self.cores[core].last.replace(thread).is_some_and(|last| last != thread);
        let thread = &mut self.threads[thread];
        (thread.on, thread.home, thread.since) = (Some(core), core, now);
        thread.shares.waited += now.since(thread.waits_since);
        thread.shares.turns += 1;
        Taken { woken: std::mem::take(&mut thread.is_asleep), cold, idle }
    }

    /// Charges a packet of the router to the next core.
    pub fn on_packet(&mut self) {
        if self.router_ns > 0 {
            self.routed = (self.routed + 1) % self.cores.len();
            self.cores[self.routed].owed_ns += self.router_ns;
        }
    }

    /// Charges the packets of a single write to one receiver, with this many bytes per packet.
    pub fn on_bytes(&mut self, at: Time, from: usize, to: usize, bytes: usize, room: usize) {
        if self.router_ns == 0 {
            return;
        }
        if self.last_write != Some((at, from, to)) {
            (self.last_write, self.left_bytes) = (Some((at, from, to)), 0);
        }
        for _ in 0..bytes.saturating_sub(self.left_bytes).div_ceil(room) {
            self.left_bytes += room;
            self.on_packet();
        }
        self.left_bytes -= bytes;
    }

    /// Returns the duration of work of `elapsed` nanoseconds, including other work on the thread's core.
    pub fn with_interruptions(&mut self, now: Time, thread: usize, elapsed: u64) -> u64 {
        let Some(core) = self.threads[thread].on else { return elapsed };
        let elapsed = elapsed + std::mem::take(&mut self.cores[core].owed_ns);
        let Some(Interruptions { random, due }) = &mut self.cores[core].interruptions else { return elapsed };
        let mut end = now + Duration::from_nanos(elapsed);
        for ((mean, length), due) in self.interruptions.iter().zip(due) {
            // An idle core has meanwhile done the other work. The interruptions are memoryless.
            if *due <= now {
                *due = now + random.time_to_next(*mean);
            }
            while *due < end {
                end = end + *length;
                *due = *due + *length + random.time_to_next(*mean);
            }
        }
        end.since(now).as_nanos() as u64
    }

    /// Returns whether a thread with more work keeps its core.
    pub fn keeps(&self, now: Time, thread: usize) -> bool {
        let Thread { on: Some(core), since, .. } = self.threads[thread] else { return false };
        self.have_queues() && (self.cores[core].queue.is_empty() || now.since(since) < self.slice)
    }

    /// Returns the thread that a waiting thread, which has just woken up, preempts.
    pub fn preempted_by(&self, now: Time, thread: usize) -> Option<usize> {
        let core = self.threads[thread].home;
        let running = self.cores[core].running.filter(|_| self.preempts)?;
        let Thread { since, virtual_ns, .. } = self.threads[running];
        let own = virtual_ns + now.since(since).as_nanos() as i64;
        (own > self.virtual_ns(now, core).0).then_some(running)
    }

    /// Takes the core away from its thread.
    pub fn release(&mut self, now: Time, thread: usize) {
        let Some(core) = self.threads[thread].on else { return };
        if self.preempts {
            let (mean, _) = self.virtual_ns(now, core);
            let most = self.slice.as_nanos() as i64;
            let Thread { since, virtual_ns, lag_ns, .. } = &mut self.threads[thread];
            *virtual_ns += now.since(*since).as_nanos() as i64;
            *lag_ns = (mean - *virtual_ns).clamp(-most, most);
            self.cores[core].virtual_ns = mean;
        }
        let Thread { on, since, shares, .. } = &mut self.threads[thread];
        shares.ran += now.since(*since);
        *on = None;
        (self.cores[core].running, self.cores[core].left) = (None, Some(now));
    }

    /// Returns the shares of each thread up to now.
    pub fn shares(&self, now: Time) -> Vec<Shares> {
        let of = |Thread { on, is_waiting, since, waits_since, shares, .. }: &Thread| Shares {
            ran: shares.ran + if on.is_some() { now.since(*since) } else { Duration::ZERO },
            waited: shares.waited + if *is_waiting { now.since(*waits_since) } else { Duration::ZERO },
            ..*shares
        };
        self.threads.iter().map(of).collect()
    }

    /// Records that a thread found no work.
    pub fn sleep(&mut self, thread: usize) {
        self.threads[thread].is_asleep = true;
    }
}
