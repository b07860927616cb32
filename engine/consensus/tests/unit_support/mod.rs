//! Helpers for tests of the shared parts.
#![allow(dead_code)]

use bytes::Bytes;
use quorate_consensus::Config;
use quorate_consensus::config::ViewDuration;
use quorate_consensus::data::batching::Room;
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::replica::make;
use quorate_consensus::voting::safety::Safety;
use quorate_types::*;
use std::sync::Arc;
use std::time::Duration;

pub fn epoch() -> EpochId {
    EpochId::of_name("unit")
}

pub fn genesis() -> Certificate {
    Certificate::genesis(&epoch())
}

pub fn quorum(replicas: usize) -> Quorum {
    Quorum::of(replicas).expect("the committee size is valid")
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

pub fn digest(number: u64) -> Digest {
    let mut hasher = Hasher::new(*b"test");
    hasher.update(&number.to_le_bytes());
    hasher.finish()
}

pub fn subject(domain: Domain, view: u64, number: u64) -> Subject {
    Subject { domain, view: View(view), height: Height(view), digest: digest(number) }
}

pub fn vote(voter: u16, subject: Subject) -> Vote {
    Vote { subject, attachment: Attachment::None, voter: ReplicaId(voter), signature: Bytes::new() }
}

/// Returns a bundle that is unique to `number`, with this number of commands of this size each.
pub fn bundle(number: u64, commands: u64, payload_bytes: usize) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(number.into()), Height(0).latest_expiry());
    for sequence in 1..=commands {
        builder.push(ClientId(number.into()), sequence, &vec![7; payload_bytes]);
    }
    builder.finish()
}

pub fn signed_by(signers: &[u16]) -> Signers {
    signers.iter().copied().map(ReplicaId).collect()
}

/// Returns a certificate of a block, signed by the first three replicas.
pub fn certify(block: &Block) -> Certificate {
    certify_by(block, &[0, 1, 2])
}

pub fn certify_by(block: &Block, signers: &[u16]) -> Certificate {
    Certificate {
        subject: block.subject(Domain::Vote),
        signers: signed_by(signers),
        attachments: Vec::new(),
        proof: Bytes::new(),
    }
}

/// Returns a timeout certificate of a view, signed by the first replicas in order.
pub fn timeouts(view: u64, attachments: Vec<Attachment>) -> Certificate {
    let voters: Vec<u16> = (0..attachments.len() as u16).collect();
    let subject = quorate_consensus::voting::safety::timeout_subject(View(view));
    Certificate { subject, signers: signed_by(&voters), attachments, proof: Bytes::new() }
}

pub fn block(view: u64, author: u16, justify: Certificate, payload: Vec<Digest>) -> Arc<Block> {
    Arc::new(Block::new(View(view), ReplicaId(author), justify, payload, 0))
}

/// Returns a chain on genesis with blocks of these views.
pub fn chain(views: &[u64]) -> Vec<Arc<Block>> {
    let mut justify = genesis();
    let extend = |view: &u64| {
        let block = block(*view, (*view % 4) as u16, justify.clone(), Vec::new());
        justify = certify(&block);
        block
    };
    views.iter().map(extend).collect()
}

/// Returns a configuration in which every limit is small enough to be reached.
pub fn config() -> Config {
    let view_duration = ViewDuration::Exponential;
    Config { view_duration, view_timeout_ms: 1000, fetch_delay_ms: 10, fetch_retry_ms: 100, ..Config::default() }
}

/// Returns the capacity left in a block for this many commands and bytes.
pub fn room(commands: usize, bytes: usize) -> Room {
    Room { commands, bytes, bundles: usize::MAX }
}

/// Returns the safety state of a new replica, which is bound only by genesis.
pub fn unbound() -> Safety {
    let config = Config::default();
    let replica = make::chained::<Jolteon>(config, quorum(4), epoch(), ReplicaId(0), 7);
    replica.into_parts().safety
}
