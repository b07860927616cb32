//! Reads replicas' counters over separate connections, so that it does not disturb a load.

use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity};
use crate::reach::{Reach, ReachLog};
use quorate_transports::{Event, Remote, Transport};
use quorate_types::{ClientRequest, ReplicaId, ReplicaReply, Status, decode_message, encode_message};
use std::io;
use std::time::{Duration, Instant};

/// Maximum time to wait in one poll, after which newly connected replicas are asked.
const SLICE: Duration = Duration::from_millis(20);

/// Client that asks replicas for their [`Status`].
pub struct StatusProbe {
    transport: Box<dyn Transport>,
    replicas: usize,
    id: u64,
    log: ReachLog,
    events: Vec<Event>,
}

impl StatusProbe {
    /// Returns a probe, which connects while it is used.
    pub fn connect(config: &ClientConfig) -> Result<Self, ConnectError> {
        // A status needs no signature, so the client's key stays unread.
        let nobody = ClientConfig { key_file: None, ..config.clone() };
        let transport = connect(config, new_identity(&nobody)?.origin())?;
        Ok(StatusProbe::over(transport, config.members.len()))
    }

    /// Returns a probe with its own transport.
    pub fn over(transport: Box<dyn Transport>, replicas: usize) -> Self {
        StatusProbe { transport, replicas, id: 0, log: ReachLog::default(), events: Vec::new() }
    }

    /// Asks every replica for its status with its history. The result is indexed by replica id, with `None` for
    /// replicas that did not answer before the timeout.
    pub fn read_histories(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(true, self.replicas, timeout)
    }

    /// Asks every replica for its status with history and settings, and returns the first answer; `None` after the
    /// timeout.
    pub fn read_first(&mut self, timeout: Duration) -> io::Result<Option<Status>> {
        Ok(self.ask(true, 1, timeout)?.into_iter().flatten().next())
    }

    /// Asks every replica for its status. The result is indexed by replica id, with `None` for replicas that did not
    /// answer before the timeout.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(false, self.replicas, timeout)
    }

    pub fn reach(&mut self) -> Reach {
        self.log.reach(&mut *self.transport, self.replicas)
    }

    /// Asks every replica, and returns once `enough` of them answered or the timeout expires.
    fn ask(&mut self, history: bool, enough: usize, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.id += 1;
        let question = encode_message(&ClientRequest::Status { id: self.id, history });
        let mut asked = vec![false; self.replicas];
        let mut answers = vec![None; self.replicas];
        let start = Instant::now();
        loop {
            for replica in (0..self.replicas as u16).map(ReplicaId) {
                if !asked[replica.index()] && self.transport.is_connected(replica) {
                    asked[replica.index()] = true;
                    self.transport.send_to(replica, question.clone());
                }
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() || answers.iter().flatten().count() >= enough {
                return Ok(answers);
            }
            self.transport.poll(Some(left.min(SLICE)), &mut self.events)?;
            for event in self.events.drain(..) {
                match event {
                    Event::Received { remote: Remote::Replica(from), frame, .. } if from.index() < self.replicas => {
                        if let Some(status) = status_in(self.id, frame) {
                            answers[from.index()] = Some(status);
                        }
                    }
                    Event::Disconnected { remote: Remote::Replica(replica), why, .. }
                        if replica.index() < self.replicas =>
                    {
                        asked[replica.index()] = false;
                        self.log.on_disconnected(replica, why);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Returns the status in a frame, if it answers question `asked`.
fn status_in(asked: u64, frame: bytes::Bytes) -> Option<Status> {
    match decode_message::<ReplicaReply>(frame).ok()? {
        ReplicaReply::Status { id, json } if id == asked => serde_json::from_slice(&json).ok(),
        _ => None,
    }
}
