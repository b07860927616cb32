//! Checkpoints on their way from the application to the replica, in order.
//!
//! Encoding and hashing a large state is slow, and all replicas do it at the same checkpoint, so it runs on a separate
//! thread while the replica continues. Replicas vote for checkpoints in ascending order, so later checkpoints wait even
//! if their digests are known immediately.

use crate::error::HostError;
use quorate_applications::{Checkpoint, CheckpointTask};
use quorate_storage::Waker;
use quorate_storage::account;
use quorate_types::Height;
use std::collections::VecDeque;
use std::panic;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{self, JoinHandle};

/// Maximum number of states held until they are encoded; beyond it, the replica blocks. Each occupies at least the
/// memory that it does not share with the others, up to a whole state.
const MAX_STATES_HELD: usize = 2;

/// Queue of checkpoints that the replica has not received yet.
pub(crate) struct Checkpoints {
    waker: Waker,
    /// Ascending by height; `None` if not ready.
    due: VecDeque<(Height, Option<Checkpoint>)>,
    /// Queued checkpoint jobs, after the running one.
    tasks: VecDeque<CheckpointTask>,
    run: Option<Run>,
}

impl Checkpoints {
    /// Creates an empty queue. `waker` is called when a checkpoint becomes ready.
    pub fn new(waker: Waker) -> Checkpoints {
        Checkpoints { waker, due: VecDeque::new(), tasks: VecDeque::new(), run: None }
    }

    /// Queues the job for the checkpoint at `height`, which must be above all earlier ones.
    pub fn push(&mut self, height: Height, task: CheckpointTask) -> Result<(), HostError> {
        assert!(self.due.back().is_none_or(|(last, _)| *last < height), "checkpoints ascend");
        match task {
            CheckpointTask::Done(checkpoint) => self.due.push_back((height, Some(checkpoint))),
            CheckpointTask::Encode(_) => {
                self.due.push_back((height, None));
                self.tasks.push_back(task);
            }
        }
        self.go_on()?;
        while self.tasks.len() + usize::from(self.run.is_some()) > MAX_STATES_HELD {
            let run = self.run.take().expect("a job runs while others wait");
            let checkpoint = run.result.recv().unwrap_or_else(|_| run.panic_as_it_did());
            self.becomes_ready(checkpoint);
            self.go_on()?;
        }
        Ok(())
    }

    /// Returns the next checkpoint, if it is ready.
    pub fn next(&mut self) -> Result<Option<(Height, Checkpoint)>, HostError> {
        self.go_on()?;
        if self.due.front().is_none_or(|(_, checkpoint)| checkpoint.is_none()) {
            return Ok(None);
        }
        Ok(self.due.pop_front().and_then(|(height, checkpoint)| Some((height, checkpoint?))))
    }

    /// Drops all queued checkpoints, because the application has moved to another state. The running job finishes, but
    /// its result is discarded.
    pub fn clear(&mut self) {
        self.due.clear();
        self.tasks.clear();
        self.run = None;
    }

    /// Takes the result of the running job, if there is one, and starts the next. Only one job runs at a time, to leave
    /// the other processors to the replicas.
    fn go_on(&mut self) -> Result<(), HostError> {
        loop {
            let run = match self.run.take() {
                Some(run) => run,
                None => match self.tasks.pop_front() {
                    Some(task) => Run::start(task, self.waker.clone())?,
                    None => return Ok(()),
                },
            };
            match run.result.try_recv() {
                Ok(checkpoint) => self.becomes_ready(checkpoint),
                Err(TryRecvError::Disconnected) => run.panic_as_it_did(),
                Err(TryRecvError::Empty) => {
                    self.run = Some(run);
                    return Ok(());
                }
            }
        }
    }

    fn becomes_ready(&mut self, checkpoint: Checkpoint) {
        let first = self.due.iter_mut().find(|(_, ready)| ready.is_none());
        first.expect("every job belongs to a checkpoint").1 = Some(checkpoint);
    }
}

/// A job on its thread.
struct Run {
    thread: JoinHandle<()>,
    result: Receiver<Checkpoint>,
}

impl Run {
    fn start(task: CheckpointTask, waker: Waker) -> Result<Run, HostError> {
        let (sender, result) = mpsc::channel();
        let run = move || {
            let _wakes = Wakes(waker);
            let sender = sender;
            // The replica may have stopped or adopted another state; then nobody receives the result.
            let _ = sender.send(task.run());
        };
        let thread = account::spawn(thread::Builder::new().name("checkpoint".to_owned()), run);
        Ok(Run {
            thread: thread.map_err(|source| HostError::Thread { purpose: "encode the state on", source })?,
            result,
        })
    }

    /// Propagates the panic of a thread that ended without a result.
    fn panic_as_it_did(self) -> ! {
        let panicked = self.thread.join().expect_err("a thread that does not panic has a result");
        panic::resume_unwind(panicked)
    }
}

/// Guard that wakes the replica when the thread ends, even by a panic. Dropped after everything else on the thread.
struct Wakes(Waker);

impl Drop for Wakes {
    fn drop(&mut self) {
        (self.0)();
    }
}
