//! Clients that run one command at a time, and the checker of their observations.

use super::TortureError;
use super::clients::{self, Ground, Seen};
use super::history_checker::HistoryChecker;
use quorate_client::{ClientConfig, ClientError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// Running clients and the checker of their observations.
pub struct CheckedClients {
    pub ground: Arc<Ground>,
    workers: Vec<JoinHandle<Result<(), ClientError>>>,
    judging: JoinHandle<HistoryChecker>,
}

impl CheckedClients {
    /// Starts `count` clients. They use eight-byte keys, which no other client may write.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(config: &ClientConfig, count: usize, seed: u64) -> Result<CheckedClients, TortureError> {
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
        let mut checker = HistoryChecker::new(count);
        let judging = thread::Builder::new().name("checker".into()).spawn(move || {
            for seen in seen {
                match seen {
                    Seen::Operation(operation) => checker.add(operation),
                    Seen::Reached { client, generation } => checker.on_reached(client, generation),
                }
            }
            checker
        });
        Ok(CheckedClients { ground, workers, judging: judging.map_err(TortureError::Thread)? })
    }

    /// Stops the clients and waits until all their observations are checked.
    ///
    /// # Errors
    /// If a client could not work at all.
    pub fn finish(self) -> Result<HistoryChecker, TortureError> {
        self.ground.stop.store(true, Ordering::SeqCst);
        let ends: Vec<_> =
            self.workers.into_iter().map(|worker| worker.join().expect("a client does not panic")).collect();
        let checker = self.judging.join().expect("the checker does not panic");
        ends.into_iter().collect::<Result<Vec<()>, ClientError>>()?;
        Ok(checker)
    }
}
