//! Clients that do one thing at a time, and the judge who hears all that they see.

use super::TortureError;
use super::clients::{self, Ground, Seen};
use super::judge::Judge;
use quorate_client::{ClientConfig, ClientError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// Witnesses at work.
pub struct Witnesses {
    /// What they share.
    pub ground: Arc<Ground>,
    workers: Vec<JoinHandle<Result<(), ClientError>>>,
    judging: JoinHandle<Judge>,
}

impl Witnesses {
    /// Sends so many to a cluster; they use keys of eight bytes, which nobody else may write.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(config: &ClientConfig, count: usize, seed: u64) -> Result<Witnesses, TortureError> {
        let ground = Arc::new(Ground::new(count));
        let (sender, seen) = mpsc::channel();
        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let (config, ground, sender) = (config.clone(), ground.clone(), sender.clone());
            let worker = thread::Builder::new()
                .name(format!("client-{number}"))
                .spawn(move || clients::run(&config, number, seed, &ground, &sender));
            workers.push(worker.map_err(TortureError::Thread)?);
        }
        let mut judge = Judge::new(count);
        let judging = thread::Builder::new().name("judge".into()).spawn(move || {
            for seen in seen {
                match seen {
                    Seen::Operation(operation) => judge.hear(operation),
                    Seen::Reached { client, generation } => judge.reached(client, generation),
                }
            }
            judge
        });
        Ok(Witnesses { ground, workers, judging: judging.map_err(TortureError::Thread)? })
    }

    /// Calls them back and waits until all that they saw is judged.
    ///
    /// # Errors
    /// If one of them could not work at all.
    pub fn finish(self) -> Result<Judge, TortureError> {
        self.ground.stop.store(true, Ordering::SeqCst);
        let ends: Vec<_> =
            self.workers.into_iter().map(|worker| worker.join().expect("a client does not panic")).collect();
        let judge = self.judging.join().expect("the judge does not panic");
        ends.into_iter().collect::<Result<Vec<()>, ClientError>>()?;
        Ok(judge)
    }
}
