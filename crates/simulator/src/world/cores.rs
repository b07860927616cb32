//! Cores and the threads that run on them or wait for them.
//!
//! A table of costs without `[scheduler]` has one queue for all cores, and a thread leaves its core after each turn.
//! With it, the cores have queues of their own, as in Linux: a thread waits for the core that it had last, even if
//! another one is idle, and keeps it as long as it has work, up to a time slice. An idle core takes a waiting thread of
//! another one only now and then.

use crate::charges::Charges;
use crate::random::{Purpose, Random};
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A core that a thread got.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// The thread slept before.
    pub woken: bool,
    /// The core last ran another thread.
    pub cold: bool,
    /// The core ran nothing before.
    pub idle: bool,
}

#[derive(Default)]
struct Core {
    /// The thread that runs on it.
    running: Option<usize>,
    /// The last thread that did, and when it left.
    last: Option<usize>,
    left: Option<Time>,
    /// Threads that wait for this core.
    queue: VecDeque<usize>,
    interruptions: Option<Interruptions>,
}

/// Work of others on a core.
struct Interruptions {
    random: Random,
    /// When the next one of each class is due.
    due: Vec<Time>,
}

#[derive(Clone)]
struct Thread {
    /// The core that it has.
    on: Option<usize>,
    /// The core that it had last.
    home: usize,
    is_waiting: bool,
    /// It found no work after its last turn.
    is_asleep: bool,
    /// When it got its core.
    since: Time,
}

/// Cores, and the threads that have one or wait for one. Threads are the replicas and, after them, the clients.
pub(super) struct Cores {
    cores: Vec<Core>,
    threads: Vec<Thread>,
    /// Threads that wait for any core; unused if the cores have queues.
    queue: VecDeque<usize>,
    /// Time for which a thread with work keeps its core although others wait; 0: one turn, and one queue.
    slice: Duration,
    /// Time that an idle core needs to begin with a thread.
    pub idle_delay: Duration,
    /// Minimum time between two threads that idle cores take from others.
    balance: Duration,
    balanced: Time,
    /// Mean times between interruptions of each class, and their lengths.
    interruptions: Vec<(Duration, Duration)>,
}

impl Cores {
    /// Returns free cores; 0 means one for each thread.
    pub fn new(cores: usize, threads: usize, charges: &Charges, seed: u64) -> Cores {
        let cores = if cores == 0 { threads } else { cores };
        let thread =
            |at: usize| Thread { on: None, home: at % cores, is_waiting: false, is_asleep: false, since: Time(0) };
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
            idle_delay: charges.idle_delay,
            balance: charges.balance,
            balanced: Time(0),
            interruptions: charges.interruptions.clone(),
        }
    }

    pub fn have_queues(&self) -> bool {
        !self.slice.is_zero()
    }

    /// Queues a thread, unless it has a core or waits for one.
    pub fn wait(&mut self, thread: usize) {
        let Thread { on, is_waiting, .. } = self.threads[thread];
        if on.is_some() || is_waiting {
            return;
        }
        self.threads[thread].is_waiting = true;
        match self.have_queues() {
            true => {
                let home = self.threads[thread].home;
                self.cores[home].queue.push_back(thread);
            }
            false => self.queue.push_back(thread),
        }
    }

    /// Returns the next waiting thread and a free core for it.
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
        Some((self.cores[core].queue.pop_front()?, core))
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
        Some((thread, idle))
    }

    /// Returns the first waiting thread, and the core that it had last, or else an unused one.
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
        let idle = self.cores[core].left != Some(now);
        self.cores[core].running = Some(thread);
        let cold = self.cores[core].last.replace(thread).is_some_and(|last| last != thread);
        let thread = &mut self.threads[thread];
        (thread.on, thread.home, thread.since) = (Some(core), core, now);
        Taken { woken: std::mem::take(&mut thread.is_asleep), cold, idle }
    }

    /// Returns how long a thread needs for work of `elapsed` nanoseconds, with the work of others on its core.
    pub fn with_interruptions(&mut self, now: Time, thread: usize, elapsed: u64) -> u64 {
        let Some(core) = self.threads[thread].on else { return elapsed };
        let Some(Interruptions { random, due }) = &mut self.cores[core].interruptions else { return elapsed };
        let mut end = now + Duration::from_nanos(elapsed);
        for ((mean, length), due) in self.interruptions.iter().zip(due) {
            // An idle core has done the work of others in the meantime. These events have no memory.
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

    /// Returns whether a thread that has a core and more work keeps it.
    pub fn keeps(&self, now: Time, thread: usize) -> bool {
        let Thread { on: Some(core), since, .. } = self.threads[thread] else { return false };
        self.have_queues() && (self.cores[core].queue.is_empty() || now.since(since) < self.slice)
    }

    /// Takes the core from a thread that has one.
    pub fn release(&mut self, now: Time, thread: usize) {
        if let Some(core) = self.threads[thread].on.take() {
            (self.cores[core].running, self.cores[core].left) = (None, Some(now));
        }
    }

    /// Notes that a thread found no work.
    pub fn sleep(&mut self, thread: usize) {
        self.threads[thread].is_asleep = true;
    }
}
