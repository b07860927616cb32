//! Helpers of the tests.
#![allow(dead_code)]

use quorate_applications::{ApplicationKind, BlockContext, Executor, KeyValueCommand, Reply};
use quorate_types::{Bundle, BundleBuilder, ClientId, EpochId, Height};

pub fn bundle(origin: u64, commands: &[(u64, u64, &[u8])]) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(origin.into()), Height(0).latest_expiry());
    for (client, sequence, payload) in commands {
        builder.push(ClientId((*client).into()), *sequence, payload);
    }
    builder.finish()
}

pub fn executor(kind: ApplicationKind) -> Executor {
    Executor::new(kind.make(), &EpochId::of_name("test"))
}

pub fn step(executor: &mut Executor, bundles: &[Bundle]) -> Vec<Reply> {
    let mut replies = Vec::new();
    executor.execute(BlockContext::untimed(executor.height().next()), bundles, &mut replies);
    replies
}

pub fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    KeyValueCommand::Put { key, value }.to_vec()
}

pub fn get(key: &[u8]) -> Vec<u8> {
    KeyValueCommand::Get { key }.to_vec()
}
