//! Histories of the key-value store as observed by clients, and a linearizability check.
//!
//! Keys are independent, so each is checked on its own as a register (P-compositionality: Horn and Kroening, FORTE
//! 2015). Each value is written at most once and names its client, so a lost or repeated write makes the history
//! non-linearizable.

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// Value of the register; `None` before the first write.
pub type Value = Option<u64>;

/// Request for one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    Read,
    Write(u64),
    /// Writes this value and returns the previous one.
    Swap(u64),
    /// Writes `value` if the register holds `expected`.
    Replace {
        expected: Value,
        value: u64,
    },
}

/// Answer to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// No answer: the command may take effect at any later time, or never.
    Unknown,
    Done,
    /// The value; for a swap, the previous one.
    Value(Value),
    /// Not replaced, because the register holds this value.
    Conflict(Value),
}

/// Command of one client, with its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    pub key: u64,
    /// Time of sending, in nanoseconds on a common clock.
    pub called_ns: u64,
    /// Time of the answer, or [`NEVER_NS`].
    pub returned_ns: u64,
    pub request: Request,
    pub answer: Answer,
}

/// Return time of an operation without an answer.
pub const NEVER_NS: u64 = u64::MAX;

/// Register that executes one operation at a time.
struct Register;

impl Specification for Register {
    type State = Value;
    type Operation = (Request, Answer);

    fn init() -> Value {
        None
    }

    fn apply(operation: &(Request, Answer), state: &Value) -> (bool, Value) {
        let (request, answer) = *operation;
        let after = match request {
            Request::Read => *state,
            Request::Write(value) | Request::Swap(value) => Some(value),
            Request::Replace { expected, value } => {
                if expected == *state {
                    Some(value)
                } else {
                    *state
                }
            }
        };
        let fits = match (request, answer) {
            (_, Answer::Unknown) => true,
            (Request::Read | Request::Swap(_), Answer::Value(value)) => value == *state,
            (Request::Write(_), Answer::Done) => true,
            (Request::Replace { expected, .. }, Answer::Done) => expected == *state,
            (Request::Replace { expected, .. }, Answer::Conflict(value)) => value == *state && expected != *state,
            _ => false,
        };
        (fits, after)
    }
}

/// Returns whether these operations on one key are linearizable.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    if operations.is_empty() {
        return true;
    }
    // Ties favour the cluster: a call at the time of another operation's return counts as concurrent with it.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * operations.len());
    for (at, operation) in operations.iter().enumerate() {
        assert!(operation.key == operations[0].key && operation.called_ns <= operation.returned_ns);
        moments.push((operation.called_ns, false, at));
        moments.push((operation.returned_ns, true, at));
    }
    moments.sort_unstable();
    // Treats each operation as a process of its own.
    let actions = moments.into_iter().map(|(_, returned, at)| {
        let said = (operations[at].request, operations[at].answer);
        (at, if returned { Action::Response(said) } else { Action::Call(said) })
    });
    WGLChecker::<Register>::is_linearizable(History::from_actions(actions.collect()))
}
