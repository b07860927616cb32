//! Checkpoints on their way from the application to the replica, in their order.
//!
//! To encode and hash a large state takes long, and all replicas keep it at the same checkpoint: it is done on a thread of its own, while
//! the replica goes on. Replicas vouch in ascending order, so the checkpoints that follow wait, though their digests are known at once.

use crate::error::HostError;
use quorate_applications::{Checkpoint, CheckpointTask};
use quorate_storage::Waker;
use quorate_storage::account;
use quorate_types::Height;
use std::collections::VecDeque;
use std::panic;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{self, JoinHandle};

/// Most states that are held to be encoded. For one more the replica waits: each holds what it alone has, up to a whole state.
const MAX_STATES_HELD: usize = 2;

/// The checkpoints that the replica does not know yet, and what others say of checkpoints meanwhile.
pub(crate) struct Checkpoints {
    waker: Waker,
    /// In ascending order; nothing for one that is not ready.
    due: VecDeque<(Height, Option<Checkpoint>)>,
    /// What is to be done for those that are not ready, after what runs.
    tasks: VecDeque<CheckpointTask>,
    run: Option<Run>,
}

impl Checkpoints {
    /// None yet; `waker` is called when one has become ready.
    pub fn new(waker: Waker) -> Checkpoints {
        Checkpoints { waker, due: VecDeque::new(), tasks: VecDeque::new(), run: None }
    }

    /// Takes in what is to be done for the checkpoint at a height, which is above those before.
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
            let run = self.run.take().expect("one runs while others wait");
            let checkpoint = run.result.recv().unwrap_or_else(|_| run.panic_as_it_did());
            self.becomes_ready(checkpoint);
            self.go_on()?;
        }
        Ok(())
    }

    /// The next checkpoint, if it is ready.
    pub fn next(&mut self) -> Result<Option<(Height, Checkpoint)>, HostError> {
        self.go_on()?;
        if self.due.front().is_none_or(|(_, checkpoint)| checkpoint.is_none()) {
            return Ok(None);
        }
        Ok(self.due.pop_front().and_then(|(height, checkpoint)| Some((height, checkpoint?))))
    }

    /// Forgets those on their way: the application is in another state. What runs comes to its end, and nobody hears of it.
    pub fn clear(&mut self) {
        self.due.clear();
        self.tasks.clear();
        self.run = None;
    }

    /// Takes the result of what runs, if it is there, and has the next one run. There is one at a time: the others need the processors.
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
        first.expect("a task is that of a checkpoint").1 = Some(checkpoint);
    }
}

/// A task on its thread.
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
            // The replica may have ended, or gone over to another state: then nobody asks for it any more.
            let _ = sender.send(task.run());
        };
        let thread = account::spawn(thread::Builder::new().name("checkpoint".to_owned()), run);
        Ok(Run {
            thread: thread.map_err(|source| HostError::Thread { purpose: "encode the state on", source })?,
            result,
        })
    }

    /// The thread has ended without a result.
    fn panic_as_it_did(self) -> ! {
        let panicked = self.thread.join().expect_err("a thread that does not panic has a result");
        panic::resume_unwind(panicked)
    }
}

/// Wakes the replica when the thread ends, however it does. It is dropped after the thread's other things.
struct Wakes(Waker);

impl Drop for Wakes {
    fn drop(&mut self) {
        (self.0)();
    }
}
