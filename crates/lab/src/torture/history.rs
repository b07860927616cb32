//! What clients saw of the key-value store, and whether one store that does one thing at a time could have shown it to them.
//!
//! Keys are independent, so each is judged by itself as a register (P-compositionality: Horn and Kroening, FORTE 2015). Every value
//! is written at most once, by whom it names, so that a write lost, or done twice, has no explanation.

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// A value of the register; none before the first write.
pub type Value = Option<u64>;

/// What was asked of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The value.
    Read,
    /// To become this.
    Write(u64),
    /// To become this, and the value before.
    Swap(u64),
    /// To become `value` if it is `expected`.
    Replace {
        /// What it must be.
        expected: Value,
        /// What it becomes.
        value: u64,
    },
}

/// What the client was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing: it may have been done at any time since, or never.
    Unknown,
    /// That it was done.
    Done,
    /// The value, which for a swap is the one before.
    Value(Value),
    /// That it was not done, since this was there instead.
    Conflict(Value),
}

/// One command of one client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// On which key.
    pub key: u64,
    /// When it was sent, in nanoseconds on one clock.
    pub called_ns: u64,
    /// When its answer came; without one, never.
    pub returned_ns: u64,
    /// What was asked.
    pub request: Request,
    /// What was answered.
    pub answer: Answer,
}

/// When what had no answer returned.
pub const NEVER_NS: u64 = u64::MAX;

/// A register that does one thing at a time.
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

/// Whether a register could have answered so to operations on one key.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    if operations.is_empty() {
        return true;
    }
    // A tie is read in the clients' favour: what was called when another returned may have been concurrent with it.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * operations.len());
    for (at, operation) in operations.iter().enumerate() {
        assert!(operation.key == operations[0].key && operation.called_ns <= operation.returned_ns);
        moments.push((operation.called_ns, false, at));
        moments.push((operation.returned_ns, true, at));
    }
    moments.sort_unstable();
    // To the checker each operation is a process, which has one.
    let actions = moments.into_iter().map(|(_, returned, at)| {
        let said = (operations[at].request, operations[at].answer);
        (at, if returned { Action::Response(said) } else { Action::Call(said) })
    });
    WGLChecker::<Register>::is_linearizable(History::from_actions(actions.collect()))
}
