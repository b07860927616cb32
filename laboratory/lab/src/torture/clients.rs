//! Clients that run one command at a time on a few shared keys, and report everything they observe.

use super::history::{Answer, NEVER_NS, Operation, Request, Value};
use super::history_checker::{KEYS, OPERATIONS_PER_GENERATION};
use quorate_applications::{KeyValueCommand, KeyValueResult};
use quorate_client::{Client, ClientConfig, ClientError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Bit position of the client's number in a value, so that no value is written twice.
const CLIENT_SHIFT: u32 = 40;
/// Maximum time to retry a command before its outcome counts as unknown; longer than any fault.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between attempts to connect to enough replicas.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Observation of a client, in chronological order.
pub enum Seen {
    Operation(Operation),
    /// The client no longer uses keys of earlier generations.
    Reached {
        client: usize,
        /// The current generation, or `u64::MAX` once the client has stopped.
        generation: u64,
    },
}

/// State shared by all clients.
pub struct Ground {
    /// Origin of the history's clock.
    pub start: Instant,
    pub clients: usize,
    pub begun: AtomicU64,
    pub answered: AtomicU64,
    /// Asks the clients to stop.
    pub stop: AtomicBool,
}

impl Ground {
    pub fn new(clients: usize) -> Ground {
        Ground {
            start: Instant::now(),
            clients,
            begun: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Runs one client until it is stopped.
///
/// # Errors
/// If the client cannot work at all. Unreachable replicas are not an error.
pub fn run(
    config: &ClientConfig,
    number: usize,
    seed: u64,
    ground: &Arc<Ground>,
    seen: &Sender<Seen>,
) -> Result<(), ClientError> {
    let mut random = ChaCha12Rng::seed_from_u64(seed ^ (number as u64 + 1).rotate_left(CLIENT_SHIFT));
    let mut config = config.clone();
    config.request_timeout_ms = REQUEST_TIMEOUT.as_millis() as u64;
    let mut client = None;
    let mut written = (number as u64) << CLIENT_SHIFT;
    // Last observed value of a key: a guess that lets some replacements succeed.
    let mut last: (u64, Value) = (0, None);
    let mut reached = 0;
    while !ground.stop.load(Ordering::SeqCst) {
        let connected = match &mut client {
            Some(client) => client,
            None => match Client::connect(&config) {
                Ok(fresh) => client.insert(fresh),
                Err(ClientError::Unreachable { .. }) => {
                    std::thread::sleep(CONNECT_PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            },
        };
        let generation = ground.begun.fetch_add(1, Ordering::SeqCst) / OPERATIONS_PER_GENERATION;
        // The receiver is dropped only after the run.
        if generation > reached && seen.send(Seen::Reached { client: number, generation }).is_err() {
            break;
        }
        reached = generation;
        let key = generation * KEYS + random.random_range(0..KEYS);
        written += 1;
        let expected = if last.0 == key { last.1 } else { None };
        let request = match random.random_range(0..4) {
            0 => Request::Read,
            1 => Request::Write(written),
            2 => Request::Swap(written),
            _ => Request::Replace { expected, value: written },
        };
        let called_ns = ground.now_ns();
        let result = perform(connected, key, request);
        let returned_ns = ground.now_ns();
        let answer = match result {
            Ok(answer) => answer,
            // A refused command has had no effect yet, but may be executed until its bundle expires.
            Err(
                ClientError::Timeout(_)
                | ClientError::ResultForgotten
                | ClientError::OutcomeUnknown
                | ClientError::Refused { .. },
            ) => Answer::Unknown,
            Err(error) => return Err(error),
        };
        last = (key, value_after(request, answer));
        let known = answer != Answer::Unknown;
        ground.answered.fetch_add(u64::from(known), Ordering::SeqCst);
        let returned_ns = if known { returned_ns } else { NEVER_NS };
        if seen.send(Seen::Operation(Operation { key, called_ns, returned_ns, request, answer })).is_err() {
            break;
        }
    }
    let _ = seen.send(Seen::Reached { client: number, generation: u64::MAX });
    Ok(())
}

fn value_after(request: Request, answer: Answer) -> Value {
    match (request, answer) {
        (Request::Read, Answer::Value(value)) | (_, Answer::Conflict(value)) => value,
        (Request::Write(value) | Request::Swap(value) | Request::Replace { value, .. }, _) => Some(value),
        (Request::Read, _) => None,
    }
}

fn perform(client: &mut Client, key: u64, request: Request) -> Result<Answer, ClientError> {
    let key = key.to_be_bytes();
    let key = &key[..];
    let bytes = |value: u64| value.to_be_bytes();
    let command = match request {
        Request::Read => KeyValueCommand::Get { key }.to_vec(),
        Request::Write(value) => KeyValueCommand::Put { key, value: &bytes(value) }.to_vec(),
        Request::Swap(value) => KeyValueCommand::ReadModifyWrite { key, value: &bytes(value) }.to_vec(),
        Request::Replace { expected, value } => {
            let expected = expected.map(bytes);
            let expected = expected.as_ref().map(|bytes| &bytes[..]);
            KeyValueCommand::CompareAndSwap { key, expected, value: &bytes(value) }.to_vec()
        }
    };
    let result = client.execute(&command)?;
    Ok(match KeyValueResult::decode(&result) {
        Ok(KeyValueResult::Done) => Answer::Done,
        Ok(KeyValueResult::Absent) => Answer::Value(None),
        Ok(KeyValueResult::Value(value)) => Answer::Value(Some(number(value))),
        Ok(KeyValueResult::Conflict(current)) => Answer::Conflict(current.map(number)),
        other => panic!("the store answered {other:?} to a small, well-formed command"),
    })
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("clients write eight bytes"))
}
