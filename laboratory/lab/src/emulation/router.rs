//! The router: one thread that reads packets from the endpoints' TUN devices and writes them when they are due.

use crate::emulation::address::{MIRROR, end_at};
use crate::emulation::packet::{Header, reflect};
use crate::emulation::plan::{Change, Plan};
use crate::emulation::scheduler::{Counts, Scheduler};
use quorate_types::{Time, choice};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum packets read from one device before the next.
const READ_BATCH: usize = 64;
/// Maximum events per wait.
const EVENTS: usize = 64;
/// Maximum buffers kept for reuse.
const SPARE_BUFFERS: usize = 4096;
/// Token of the descriptor that wakes the router for commands.
const WAKE: u64 = u64::MAX;

choice!(
    /// Priority of the router's thread over replicas and clients.
    Priority, "priority of the router",
    /// Ahead of all ordinary threads.
    RealTime = "real-time",
    /// The highest priority of an ordinary thread.
    High = "high",
    /// The replicas' priority.
    Normal = "normal",
);

/// Command to the running router.
pub enum Order {
    /// Subtracts this many nanoseconds from each packet's delay.
    Correct(u64),
    /// Sets the delay of reflected datagrams, from which the correction is subtracted, in nanoseconds.
    Mirror(u64),
    /// Resets the counters, and starts the plan's changes.
    Begin,
    Stop,
}

/// Counters of an emulated network after its end.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub counts: Counts,
    /// CPU time of the router, including the kernel's work on its writes; `None` without a router.
    pub cpu: Option<Duration>,
    /// Packets that the kernel refused.
    pub not_written: u64,
    /// Priority of the router's thread; `None` without a router.
    pub priority: Option<Priority>,
}

/// Handle of a running router.
pub struct Router {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<Outcome>>,
}

impl Router {
    /// Starts the router between these devices: the plan's endpoints, followed by the probes.
    pub fn start(plan: Plan, tuns: Vec<OwnedFd>) -> io::Result<Router> {
        let (orders, received) = channel();
        // SAFETY: takes and returns numbers; the descriptor is new.
        let wake = Arc::new(unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?);
        let work = Work::new(plan, tuns, received, Arc::clone(&wake))?;
        let thread = thread::Builder::new().name("router".into()).spawn(move || work.run())?;
        Ok(Router { orders, wake, thread: Some(thread) })
    }

    pub fn order(&self, order: Order) {
        // The send fails only if the router has ended, which only `stop` causes.
        let _ = self.orders.send(order);
        let one = 1u64;
        // SAFETY: writes the eight bytes of a live number.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Ends the router. `None` if it had already ended.
    pub fn stop(&mut self) -> Option<Outcome> {
        let thread = self.thread.take()?;
        self.order(Order::Stop);
        Some(thread.join().expect("the router does not panic"))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes a new descriptor from a system call.
///
/// # Safety
/// The descriptor must not belong to somebody else.
unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }) }
}

struct Work {
    tuns: Vec<OwnedFd>,
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
    orders: Receiver<Order>,
    scheduler: Scheduler<Vec<u8>>,
    /// Number of the plan's endpoints. The next device belongs to the probes.
    ends: usize,
    changes: VecDeque<(Time, Change)>,
    start: Instant,
    began: Option<Time>,
    cpu_before: Duration,
    mirror_ns: u64,
    buffer_bytes: usize,
    spare: Vec<Vec<u8>>,
    not_written: u64,
}

impl Work {
    fn new(plan: Plan, tuns: Vec<OwnedFd>, orders: Receiver<Order>, wake: Arc<OwnedFd>) -> io::Result<Work> {
        // SAFETY: takes and returns numbers; the descriptor is new.
        let poll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        let all = tuns.iter().enumerate().map(|(end, tun)| (tun.as_raw_fd(), end as u64));
        for (descriptor, token) in all.chain([(wake.as_raw_fd(), WAKE)]) {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
            // SAFETY: both descriptors are open, and the kernel copies the event.
            let added = unsafe { libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
            if added != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Work {
            tuns,
            poll,
            wake,
            orders,
            ends: plan.ends,
            changes: plan.changes.iter().cloned().collect(),
            start: Instant::now(),
            began: None,
            cpu_before: Duration::ZERO,
            mirror_ns: 0,
            buffer_bytes: plan.mtu_bytes as usize,
            spare: Vec::new(),
            not_written: 0,
            scheduler: Scheduler::new(plan),
        })
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    fn run(mut self) -> Outcome {
        let priority = rise();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        loop {
            self.change();
            self.deliver();
            let ready = self.wait(&mut events);
            for event in &events[..ready] {
                match event.u64 {
                    WAKE => {
                        if !self.obey() {
                            let cpu = Some(cpu().saturating_sub(self.cpu_before));
                            let (counts, not_written) = (self.scheduler.counts, self.not_written);
                            return Outcome { counts, cpu, not_written, priority: Some(priority) };
                        }
                    }
                    end => self.read(end as usize),
                }
                self.deliver();
            }
        }
    }

    /// Applies the changes that are due.
    fn change(&mut self) {
        let Some(began) = self.began else { return };
        let now = self.now();
        while let Some((at, change)) = self.changes.front()
            && began + Duration::from_nanos(at.0) <= now
        {
            self.scheduler.change(change);
            self.changes.pop_front();
        }
    }

    /// Waits for packets, commands or the next deadline. Returns the number of events.
    fn wait(&self, events: &mut [libc::epoll_event; EVENTS]) -> usize {
        let change = self.began.and_then(|began| Some(began + Duration::from_nanos(self.changes.front()?.0.0)));
        let next = [self.scheduler.next_at(), change].into_iter().flatten().min();
        let wait = next.map(|next| next.since(self.now()));
        let time = wait.map(|wait| libc::timespec {
            tv_sec: wait.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(wait.subsec_nanos() as i32),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (poll, most) = (self.poll.as_raw_fd(), EVENTS as libc::c_int);
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the events and the time are alive, and their lengths are right.
        let ready = unsafe { libc::syscall(libc::SYS_epoll_pwait2, poll, events.as_mut_ptr(), most, time, no_mask, 0) };
        // An interrupting signal counts as no event; the loop repeats.
        usize::try_from(ready).unwrap_or(0)
    }

    /// Executes the pending commands. Returns false if the router must end.
    fn obey(&mut self) -> bool {
        let mut count = 0u64;
        // SAFETY: reads eight bytes into a live number.
        unsafe { libc::read(self.wake.as_raw_fd(), (&raw mut count).cast(), 8) };
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Correct(nanos) => self.scheduler.set_correction(nanos),
                Order::Mirror(nanos) => self.mirror_ns = nanos,
                Order::Begin => {
                    self.began = Some(self.now());
                    (self.scheduler.counts, self.cpu_before, self.not_written) = (Counts::default(), cpu(), 0);
                }
                Order::Stop => return false,
            }
        }
        true
    }

    fn read(&mut self, from: usize) {
        let descriptor = self.tuns[from].as_raw_fd();
        for _ in 0..READ_BATCH {
            let mut packet = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.buffer_bytes));
            // SAFETY: the buffer has room for as many bytes as the kernel may write.
            let read = unsafe { libc::read(descriptor, packet.as_mut_ptr().cast(), packet.capacity()) };
            let Ok(bytes) = usize::try_from(read) else {
                self.recycle(packet);
                return;
            };
            // SAFETY: the kernel has written these bytes.
            unsafe { packet.set_len(bytes) };
            self.route(from, packet);
        }
    }

    fn route(&mut self, from: usize, mut packet: Vec<u8>) {
        let now = self.now();
        let Some(header) = Header::of(&packet) else { return self.recycle(packet) };
        let bytes = packet.len();
        if header.destination == MIRROR {
            reflect(&mut packet);
            let due = now + Duration::from_nanos(self.mirror_ns.saturating_sub(self.scheduler.correction()));
            return self.scheduler.pass(due, from, bytes, packet);
        }
        match end_at(header.destination) {
            Some(to) if to < self.ends && from < self.ends => {
                self.scheduler.submit(now, from, to, header.flow, bytes, packet);
            }
            // Probes and status queries do not belong to the emulated network.
            Some(to) if to <= self.ends => self.scheduler.pass(now, to, bytes, packet),
            _ => self.recycle(packet),
        }
    }

    /// Writes the packets that are due.
    fn deliver(&mut self) {
        while let Some(due) = self.scheduler.pop(self.now()) {
            let (descriptor, packet) = (self.tuns[due.to].as_raw_fd(), due.packet);
            // SAFETY: writes the bytes of a live buffer.
            let written = unsafe { libc::write(descriptor, packet.as_ptr().cast(), packet.len()) };
            self.not_written += u64::from(written < 0);
            self.recycle(packet);
        }
    }

    fn recycle(&mut self, mut packet: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            packet.clear();
            self.spare.push(packet);
        }
    }
}

/// Gives the calling thread the highest priority that the host allows, and exact timers.
fn rise() -> Priority {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the calls take numbers and a live structure, and concern this thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 {
            return Priority::RealTime;
        }
        let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
        if libc::setpriority(libc::PRIO_PROCESS, thread, -20) == 0 { Priority::High } else { Priority::Normal }
    }
}

/// Returns the CPU time of the calling thread.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
