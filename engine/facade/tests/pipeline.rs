//! Many commands at once, from threads and from asynchronous tasks.

use crate::{Counter, add};
use quorate::prelude::*;
use quorate::{ClientError, PipelineOptions, ReplicaId};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

const THREADS: u64 = 4;
const COMMANDS: u64 = 500;

#[test]
fn commands_of_many_threads_are_executed_once_each() {
    let cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let pipeline = cluster.pipeline().expect("the replicas run");
    let totals: Vec<u64> = thread::scope(|scope| {
        let work = || {
            let pending: Vec<_> = (0..COMMANDS).map(|_| pipeline.execute(&add(1)).expect("it encodes")).collect();
            let total = |reply: quorate::Pending<Result<u64, crate::TooMuch>>| {
                reply.wait().expect("a reply").expect("far from the limit")
            };
            pending.into_iter().map(total).collect::<Vec<u64>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let all: BTreeSet<u64> = totals.iter().copied().collect();
    assert_eq!(all, (1..=THREADS * COMMANDS).collect(), "each command saw another total");
    assert_eq!(totals.len(), all.len());
}

/// Runs a future on this thread, as any runtime would.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn replies_can_be_awaited() {
    let cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let pipeline = cluster.pipeline().expect("the replicas run");
    let total = block_on(async {
        let first = pipeline.execute(&add(1))?;
        let second = pipeline.execute(&add(2))?;
        Ok::<_, Error>((first.await?, second.await?))
    });
    assert_eq!(total.expect("replies"), (Ok(1), Ok(3)));
}

#[test]
fn limits_hold_bundles_back_but_lose_nothing() {
    let cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let options = PipelineOptions { max_bundle_commands: 1, max_bundle_bytes: 1, max_outstanding_bundles: 2 };
    let pipeline = Pipeline::<Counter>::connect(cluster.client_config(), options).expect("the replicas run");
    let pending: Vec<_> = (0..50).map(|_| pipeline.execute(&add(1)).expect("it encodes")).collect();
    let totals: Vec<_> = pending.into_iter().map(|reply| reply.wait().expect("a reply").expect("small")).collect();
    assert_eq!(totals, (1..=50).collect::<Vec<u64>>(), "one client's commands keep their order");
}

#[test]
fn a_change_of_leaders_loses_no_result() {
    let mut cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let pipeline = cluster.pipeline().expect("the replicas run");
    assert_eq!(pipeline.execute(&add(1)).expect("it encodes").wait().expect("a reply"), Ok(1));
    cluster.stop(ReplicaId(0)).expect("it ran");
    let submitted = (0..100).map(|_| {
        thread::sleep(Duration::from_millis(25));
        pipeline.execute(&add(1)).expect("it encodes")
    });
    let pending: Vec<_> = submitted.collect();
    let totals: BTreeSet<u64> =
        pending.into_iter().map(|reply| reply.wait().expect("a reply").expect("small")).collect();
    assert_eq!(totals, (2..=101).collect(), "each command was executed once");
}

#[test]
fn every_command_gets_an_answer_when_nothing_is_ordered_any_more() {
    let mut cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let mut config = cluster.client_config().clone();
    config.request_timeout_ms = 300;
    let pipeline = Pipeline::<Counter>::connect(&config, PipelineOptions::default()).expect("the replicas run");
    assert_eq!(pipeline.execute(&add(1)).expect("it encodes").wait().expect("a reply"), Ok(1));
    for replica in [0, 1] {
        cluster.stop(ReplicaId(replica)).expect("it ran");
    }
    let error = pipeline.execute(&add(1)).expect("it encodes").wait().expect_err("there is no quorum");
    assert!(matches!(&error, Error::Client(why) if matches!(**why, ClientError::Timeout(_))), "{error}");
    let open = pipeline.execute(&add(1)).expect("it encodes");
    drop(pipeline);
    let error = open.wait().expect_err("the client is gone");
    assert!(
        matches!(&error, Error::Client(why) if matches!(**why, ClientError::Ended(_) | ClientError::Timeout(_))),
        "{error}"
    );
}

#[test]
fn a_command_over_the_limit_is_refused_at_once() {
    let cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let pipeline = cluster.pipeline().expect("the replicas run");
    let mut long = add(1);
    long.why = "x".repeat(64 << 20);
    let error = pipeline.execute(&long).expect("it encodes").wait().expect_err("too long");
    assert!(matches!(&error, Error::Client(why) if matches!(**why, ClientError::PayloadTooLarge(_))), "{error}");
}
