//! Preparation of independent commands on several threads.
//!
//! Preparation does not change that the commands of a block are executed in order. A *wave* is a run of commands in
//! which no costly command reads anything that an earlier one may write. So to each costly command of a wave, the state
//! before the wave looks the same as the state at its turn, and its read-only part can be computed on any thread, at
//! any time before the wave's first write. At its turn it is applied: its result is used, and its changes are written.
//! If sessions or limits refuse a command at its turn, its preparation is discarded.

use crate::application::Application;
use crate::footprint::{Footprint, Rest, Written};
use quorate_types::Command;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Maximum number of threads that execute a replica's commands.
pub const MAX_EXECUTION_THREADS: u16 = 64;
/// Maximum number of commands that are prepared together. Their results are in memory before they count towards a
/// block's limit, and take at most 64 MiB, as much as that limit.
pub const MAX_WAVE_COMMANDS: usize = 32;
/// Minimum effort of a command that is prepared, in nanoseconds. Passing cheaper ones to another thread costs more than
/// executing them.
pub const MIN_COMMAND_EFFORT_NS: u64 = 5_000;
/// Minimum total effort of a wave's costly commands for which threads are started, in nanoseconds. The executor waits
/// for its helpers to start, which takes milliseconds if other programs occupy the cores.
pub const MIN_WAVE_EFFORT_NS: u64 = 10_000_000;

/// Maximum capacity of a result buffer that is kept for reuse, in bytes.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Called on each helper thread; the returned value is dropped when the thread has finished its work.
pub type OnHelper = Arc<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// Preparation settings. None of them affects states or results.
#[derive(Clone)]
pub struct Parallelism {
    /// Number of threads, including the executor's own; at most [`MAX_EXECUTION_THREADS`].
    pub threads: u16,
    pub min_command_effort_ns: u64,
    pub min_wave_effort_ns: u64,
    pub on_helper: OnHelper,
}

impl Parallelism {
    /// Returns the default limits for a number of threads.
    pub fn of(threads: u16) -> Parallelism {
        Parallelism {
            threads,
            min_command_effort_ns: MIN_COMMAND_EFFORT_NS,
            min_wave_effort_ns: MIN_WAVE_EFFORT_NS,
            on_helper: Arc::new(|| Box::new(())),
        }
    }
}

/// A command whose result is known.
pub(crate) struct Ready {
    pub result: Vec<u8>,
    pub rest: Rest,
}

/// Empty result buffers, kept to avoid repeated allocations from the system.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Returns a buffer for reuse.
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < MAX_WAVE_COMMANDS && buffer.capacity() <= MAX_KEPT_BUFFER_BYTES {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// The commands of a block, divided into waves when their turns come.
pub(crate) struct Waves<'a> {
    commands: Vec<Command<'a>>,
    parallelism: Parallelism,
    /// Index of the next command.
    next: usize,
    /// Index of the first command after this wave.
    end: usize,
    /// Prepared commands of this wave, by ascending index.
    ready: VecDeque<(usize, Ready)>,
}

impl<'a> Waves<'a> {
    pub fn new(commands: Vec<Command<'a>>, parallelism: Parallelism) -> Waves<'a> {
        Waves { commands, parallelism, next: 0, end: 0, ready: VecDeque::new() }
    }

    /// Returns the prepared result of the next command; `None` if it has to be executed as a whole. Must be called once
    /// per command, before any part of it is executed.
    pub fn take(&mut self, application: &dyn Application, buffers: &mut Buffers) -> Option<Ready> {
        if self.next == self.end {
            self.begin_wave(application, buffers);
        }
        let at = self.next;
        self.next += 1;
        match self.ready.front() {
            Some((position, _)) if *position == at => self.ready.pop_front().map(|(_, ready)| ready),
            _ => None,
        }
    }

    fn begin_wave(&mut self, application: &dyn Application, buffers: &mut Buffers) {
        assert!(self.ready.is_empty(), "each command of the wave has had its turn");
        let mut written = Written::default();
        let (mut costly, mut effort_ns) = (Vec::new(), 0u64);
        while let Some(command) = self.commands.get(self.end).filter(|_| costly.len() < MAX_WAVE_COMMANDS) {
            let Footprint { reads, writes, effort_ns: own_ns } = application.footprint(command);
            if own_ns >= self.parallelism.min_command_effort_ns {
                if written.concerns(&reads) {
                    break;
                }
                costly.push(self.end);
                effort_ns = effort_ns.saturating_add(own_ns);
            }
            written.add(writes);
            self.end += 1;
        }
        if costly.len() > 1 && effort_ns >= self.parallelism.min_wave_effort_ns {
            self.ready = self.prepare(application, &costly, buffers);
        }
    }

    fn prepare(
        &self,
        application: &dyn Application,
        costly: &[usize],
        buffers: &mut Buffers,
    ) -> VecDeque<(usize, Ready)> {
        let (commands, on_helper) = (&self.commands, &self.parallelism.on_helper);
        let (next, buffers) = (AtomicUsize::new(0), Mutex::new(&mut buffers.0));
        let work = || {
            let mut done = Vec::new();
            while let Some(position) = costly.get(next.fetch_add(1, Ordering::Relaxed)) {
                let kept = buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut result = kept.unwrap_or_default();
                // A command on which the application panics is executed at its turn, where the panic is reported.
                let prepared =
                    catch_unwind(AssertUnwindSafe(|| application.prepare(&commands[*position], &mut result)));
                if let Ok(Some(rest)) = prepared {
                    done.push((*position, Ready { result, rest }));
                }
            }
            done
        };
        let help = || {
            let _guard = on_helper();
            work()
        };
        let helpers = usize::from(self.parallelism.threads.saturating_sub(1)).min(costly.len() - 1);
        let mut done = thread::scope(|scope| {
            // If the system starts no thread, the others take over its share.
            let named = || thread::Builder::new().name("execute".to_owned());
            let helpers: Vec<_> = (0..helpers).filter_map(|_| named().spawn_scoped(scope, help).ok()).collect();
            let mut done = work();
            for helper in helpers {
                done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            done
        });
        done.sort_unstable_by_key(|(position, _)| *position);
        done.into()
    }
}
