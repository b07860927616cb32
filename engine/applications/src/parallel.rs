//! Preparation of independent commands on several threads.
//!
//! The commands of a block are executed in order, whatever happens here. A *wave* is a run of them in which no costly
//! command reads what an earlier one may write. So each costly command of a wave finds the state before the wave as
//! it would find it at its turn, and its part that only reads can be computed on any thread, at any time
//! before the wave's first write. At its turn it is applied: its result is used, and its changes are written. A command
//! that sessions or limits refuse at its turn was prepared in vain.

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
/// Maximum number of commands that are prepared together: their results are in memory before they count towards the
/// limit of a block, and take 64 MiB at most, as much as that limit.
pub const MAX_WAVE_COMMANDS: usize = 32;
/// Effort from which on a command is prepared, in nanoseconds. Cheaper ones cost less than handing them over.
pub const MIN_COMMAND_EFFORT_NS: u64 = 5_000;
/// Effort of all costly commands of a wave from which on threads are started, in nanoseconds. The executor waits for its
/// helpers to start, which takes milliseconds if other programs have the cores.
pub const MIN_WAVE_EFFORT_NS: u64 = 10_000_000;

/// Capacity up to which a buffer of a result is kept for the next one, in bytes.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Called on each helping thread; what it returns is dropped when the thread has done its work.
pub type OnHelper = Arc<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// How commands are prepared. None of it has an effect on states or results.
#[derive(Clone)]
pub struct Parallelism {
    /// Threads, with the executor's own; at most [`MAX_EXECUTION_THREADS`].
    pub threads: u16,
    pub min_command_effort_ns: u64,
    pub min_wave_effort_ns: u64,
    pub on_helper: OnHelper,
}

impl Parallelism {
    /// Returns the usual limits for a number of threads.
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

/// Empty buffers of results, so that memory is not fetched from the system again and again.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Takes a buffer that is no longer needed.
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < MAX_WAVE_COMMANDS && buffer.capacity() <= MAX_KEPT_BUFFER_BYTES {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// The commands of a block, cut into waves as they come to their turns.
pub(crate) struct Waves<'a> {
    commands: Vec<Command<'a>>,
    parallelism: Parallelism,
    /// The command whose turn is next.
    next: usize,
    /// The first command after this wave.
    end: usize,
    /// Commands of this wave that are prepared, by their position, ascending.
    ready: VecDeque<(usize, Ready)>,
}

impl<'a> Waves<'a> {
    pub fn new(commands: Vec<Command<'a>>, parallelism: Parallelism) -> Waves<'a> {
        Waves { commands, parallelism, next: 0, end: 0, ready: VecDeque::new() }
    }

    /// Takes what was prepared for the next command; `None` if it has to be executed as a whole. To be called once for
    /// each command, before anything of it is executed.
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
            // If the system starts no thread, the others do its share.
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
