//! Applications with typed commands.

use crate::error::Error;
use bytes::Bytes;
use postcard::ser_flavors::Flavor;
use quorate_applications::{Application, ApplicationKind, BlockContext, Factory, Frozen, RestoreError};
use quorate_types::{Command, Decoder, FeatureLevel};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A replicated state machine with typed commands, encoded by [`postcard`](https://docs.rs/postcard).
///
/// Equal sequences of commands must produce equal states and replies on every machine, or the replicas diverge: use no
/// clock and no randomness except the [`BlockContext`]'s, no iteration over a hash table (use `BTreeMap`), and no
/// floating-point function whose result depends on the platform. Replicas compare their states at each checkpoint, and
/// a diverging one stops with an error.
///
/// A panic in `apply` stops every replica: return an error in the [`Reply`](StateMachine::Reply) instead, for example
/// `Result<Receipt, Overdrawn>`. A slow `apply` delays all later commands.
pub trait StateMachine: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Name used in configurations and snapshots: lower-case letters, digits and hyphens.
    const NAME: &'static str;
    /// Highest feature level that this version supports. Raise it with each change of `apply` that gives other states
    /// or replies, and keep the old behaviour below it: [`BlockContext::level`] is the level of a block. Operators
    /// raise the cluster's level by `quorate level raise` once all replicas run a version that supports it. At most
    /// 255.
    const FEATURE_LEVEL: FeatureLevel = FeatureLevel(0);
    /// A change of the state.
    type Command: Serialize + DeserializeOwned;
    /// The result of a command for its client, at most 2 MiB encoded.
    type Reply: Serialize + DeserializeOwned;
    /// A query about the state, which changes nothing and is not ordered.
    type Query: Serialize + DeserializeOwned;
    /// The result of a query for its client.
    type Answer: Serialize + DeserializeOwned;

    /// Executes a command of a block, which has the agreed time. The replicas call it in the agreed order.
    fn apply(&mut self, block: &BlockContext, command: Self::Command) -> Self::Reply;

    /// Answers a query from the state at one moment, which may lag behind. It gets no time: if answers depend on the
    /// time, keep the time of the last block in the state.
    fn query(&self, query: Self::Query) -> Self::Answer;

    /// Estimates the bytes of the encoded state, by which replicas decide how often they keep it for others. Equal
    /// states must have equal estimates. The default is the size of the type, which is too low for types with
    /// collections.
    fn estimated_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Reply of a replica: the machine's own, or a notice that the command could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Outcome<R> {
    Done(R),
    Malformed,
}

/// Encodes a value of a state machine.
///
/// # Errors
/// If the type's own encoding fails, like that of a sequence of unknown length.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_stdvec(value)
}

/// The adapter between a state machine and the engine.
struct Typed<S>(State<S>);

/// State of the machine, shared with the snapshots being encoded. The first command after a snapshot takes it back, or
/// a copy while the snapshot needs it. With an `Arc` alone, every command would cost an atomic operation.
enum State<S> {
    Own(Box<S>),
    Shared(Arc<S>),
}

impl<S: StateMachine> State<S> {
    fn get(&self) -> &S {
        match self {
            State::Own(state) => state,
            State::Shared(state) => state,
        }
    }

    fn get_mut(&mut self) -> &mut S {
        if let State::Shared(state) = self {
            *self = State::Own(Box::new(Arc::unwrap_or_clone(std::mem::take(state))));
        }
        match self {
            State::Own(state) => state,
            State::Shared(_) => unreachable!("it was taken back"),
        }
    }

    fn share(&mut self) -> Arc<S> {
        if let State::Own(state) = self {
            *self = State::Shared(Arc::new(std::mem::take(state)));
        }
        match self {
            State::Shared(state) => state.clone(),
            State::Own(_) => unreachable!("it is shared"),
        }
    }
}

/// Returns the handle by which clusters run a state machine.
pub fn kind<S: StateMachine>() -> ApplicationKind {
    ApplicationKind::of(factory::<S>())
}

fn factory<S: StateMachine>() -> &'static Factory {
    const { &Factory { name: S::NAME, make: || Box::new(Typed(State::Own(Box::<S>::default()))) } }
}

/// Registers a state machine by name for the configuration files that this process reads. [`run_replica`] and
/// [`write_cluster`] call it; a program that is only a client must call it before it reads `client.toml`.
///
/// [`run_replica`]: crate::run_replica
/// [`write_cluster`]: crate::write_cluster
///
/// # Errors
/// If the name is malformed, or belongs to another application.
pub fn register<S: StateMachine>() -> Result<ApplicationKind, Error> {
    Ok(ApplicationKind::register(factory::<S>())?)
}

/// Output of an encoder that appends to a buffer.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends the encoding of a value to a buffer.
pub(crate) fn append(value: &impl Serialize, buffer: &mut Vec<u8>) -> Result<(), postcard::Error> {
    postcard::serialize_with_flavor(value, Appended(buffer))
}

/// Appends a reply. A reply that cannot be encoded ends every replica, like a panic in `apply`.
fn reply<R: Serialize>(outcome: &Outcome<R>, result: &mut Vec<u8>) {
    append(outcome, result).expect("a reply of a state machine can be encoded");
}

impl<S: StateMachine> Application for Typed<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn supported_level(&self) -> FeatureLevel {
        S::FEATURE_LEVEL
    }

    fn execute(&mut self, block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        let outcome = match postcard::from_bytes(command.payload) {
            Ok(command) => Outcome::Done(self.0.get_mut().apply(block, command)),
            Err(_) => Outcome::Malformed,
        };
        reply(&outcome, result);
    }

    fn query(&self, question: &[u8]) -> Vec<u8> {
        let outcome = match postcard::from_bytes(question) {
            Ok(query) => Outcome::Done(self.0.get().query(query)),
            Err(_) => Outcome::Malformed,
        };
        let mut answer = Vec::new();
        reply(&outcome, &mut answer);
        answer
    }

    fn freeze(&mut self) -> Frozen {
        let state = self.0.share();
        Box::new(move || encode(&*state).expect("a state can be encoded").into())
    }

    fn snapshot_bytes(&self) -> usize {
        self.0.get().estimated_bytes()
    }

    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        const WHAT: &str = "state of the application";
        let input = Decoder::new(snapshot.clone());
        let (state, rest) = postcard::take_from_bytes(&snapshot).map_err(|_| input.invalid(WHAT, "is not one"))?;
        if !rest.is_empty() {
            return Err(input.invalid(WHAT, "has bytes after its end").into());
        }
        self.0 = State::Own(Box::new(state));
        Ok(())
    }
}
