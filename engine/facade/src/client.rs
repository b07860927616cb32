//! Clients with typed commands.

use crate::error::Error;
use crate::machine::{Outcome, StateMachine, encode};
use quorate_client::{ClientConfig, PipelineOptions};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A client that executes one command at a time and waits for its result. It trusts a result given by f+1 replicas,
/// since at least one of them is honest.
pub struct Client<S> {
    client: quorate_client::Client,
    machine: PhantomData<fn() -> S>,
}

impl<S: StateMachine> Client<S> {
    /// Connects to a cluster. [`ClientConfig::load`] reads the configuration from `client.toml`.
    ///
    /// # Errors
    /// If fewer than f+1 replicas can be reached.
    pub fn connect(config: &ClientConfig) -> Result<Client<S>, Error> {
        Ok(Client { client: quorate_client::Client::connect(config)?, machine: PhantomData })
    }

    /// Orders and executes a command, at most once, and returns its reply.
    ///
    /// # Errors
    /// If there is no result in time: the command may have been executed, or may be executed later.
    pub fn execute(&mut self, command: &S::Command) -> Result<S::Reply, Error> {
        let payload = encode(command).map_err(Error::Encoding)?;
        decode(&self.client.execute(&payload)?)
    }

    /// Sends a query about the state, which is not ordered. The answer may describe an earlier state.
    ///
    /// # Errors
    /// If f+1 replicas do not give the same answer in time, for example because the state keeps changing.
    pub fn query(&mut self, query: &S::Query) -> Result<S::Answer, Error> {
        let question = encode(query).map_err(Error::Encoding)?;
        decode(&self.client.query(&question)?)
    }
}

/// A client with many commands outstanding, for any number of threads and asynchronous tasks on any runtime. Commands
/// submitted together are sent together.
pub struct Pipeline<S> {
    pipeline: quorate_client::Pipeline,
    machine: PhantomData<fn() -> S>,
}

impl<S: StateMachine> Pipeline<S> {
    /// Connects to a cluster, and starts the client's thread.
    ///
    /// # Errors
    /// If fewer than f+1 replicas can be reached.
    pub fn connect(config: &ClientConfig, options: PipelineOptions) -> Result<Pipeline<S>, Error> {
        Ok(Pipeline { pipeline: quorate_client::Pipeline::connect(config, options)?, machine: PhantomData })
    }

    /// Submits a command, which is executed at most once. Await the reply, or [wait](Pending::wait) for it.
    ///
    /// # Errors
    /// If the command cannot be encoded.
    pub fn execute(&self, command: &S::Command) -> Result<Pending<S::Reply>, Error> {
        let payload = encode(command).map_err(Error::Encoding)?;
        Ok(Pending { pending: self.pipeline.execute(payload), reply: PhantomData })
    }
}

/// A future reply: `await` it on any runtime, or block on it with [`wait`](Pending::wait).
#[must_use = "the command is sent anyway, but nobody sees its reply"]
pub struct Pending<R> {
    pending: quorate_client::Pending,
    reply: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Pending<R> {
    /// Waits for the reply.
    ///
    /// # Errors
    /// The errors of [`Client::execute`].
    pub fn wait(self) -> Result<R, Error> {
        decode(&self.pending.wait()?)
    }
}

impl<R: DeserializeOwned> IntoFuture for Pending<R> {
    type Output = Result<R, Error>;
    type IntoFuture = Awaited<R>;

    fn into_future(self) -> Awaited<R> {
        Awaited { result: self.pending.into_future(), reply: PhantomData }
    }
}

/// Future of a [`Pending`] reply.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Awaited<R> {
    result: quorate_client::pipeline::Awaited,
    reply: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for Awaited<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map(|result| decode(&result?))
    }
}

fn decode<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, Error> {
    match postcard::from_bytes(bytes) {
        Ok(Outcome::Done(reply)) => Ok(reply),
        Ok(Outcome::Malformed) => Err(Error::MalformedCommand),
        Err(error) => Err(Error::MalformedReply(error)),
    }
}
