//! Shared by the tests of this crate: committees with known keys, and votes by their members.

#![allow(dead_code)]

use quorate_crypto::{BlsVerification, Crypto, DEFAULT_CACHE_CERTIFICATES, KeyPair, ReplicaKeys, SchemeKind};
use quorate_testkit::schemes::AGGREGATE;
use quorate_types::{
    Address, Attachment, ClusterId, Committee, Digest, Domain, EpochId, Height, ReplicaId, Subject, View, Vote,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Returns all schemes with public keys, with each verification method, and a toy scheme. Schemes with shared secrets
/// have separate tests.
pub fn schemes() -> Vec<SchemeKind> {
    let ways = [BlsVerification::Each, BlsVerification::Aggregate].map(|way| way.of(SchemeKind::BLS12_381));
    let listed = SchemeKind::ALL.iter().copied().filter(|kind| kind.profile().has_public_keys_only());
    listed.chain(ways).chain([AGGREGATE]).collect()
}

const NAME: &str = "quorate tests";

pub fn cluster() -> ClusterId {
    ClusterId::from_name(NAME)
}

/// Epoch of all [committees](committee), independent of their size and keys, so that votes need no committee.
pub fn epoch() -> EpochId {
    EpochId::of_name(NAME)
}

/// Keys by scheme and replica.
type Known = BTreeMap<(&'static str, u16), ReplicaKeys>;

/// Returns a replica's keys, cached because generating an RSA key takes a while.
pub fn keys(kind: SchemeKind, replica: u16) -> ReplicaKeys {
    static KNOWN: Mutex<Known> = Mutex::new(Known::new());
    let place = (kind.name(), replica);
    if let Some(keys) = KNOWN.lock().unwrap().get(&place) {
        return keys.clone();
    }
    let mut seed = [0x51; 32];
    seed[..2].copy_from_slice(&replica.to_le_bytes());
    KNOWN.lock().unwrap().entry(place).or_insert(ReplicaKeys::from_seed(kind, seed)).clone()
}

pub fn key(kind: SchemeKind, replica: u16) -> KeyPair {
    keys(kind, replica).voting
}

pub fn nowhere() -> Address {
    "127.0.0.1:7000".parse().unwrap()
}

pub fn committee(kind: SchemeKind, size: u16) -> Committee {
    let members = (0..size).map(|id| keys(kind, id).member(nowhere())).collect();
    Committee { epoch: epoch(), ..Committee::new(NAME, members).unwrap() }
}

pub fn crypto(kind: SchemeKind, size: u16, me: u16) -> Crypto {
    Crypto::new(kind, &committee(kind, size), ReplicaId(me), key(kind, me), DEFAULT_CACHE_CERTIFICATES).unwrap()
}

pub fn subject(domain: Domain, view: u64) -> Subject {
    Subject { domain, view: View(view), height: Height(view), digest: Digest([view as u8; 32]) }
}

pub fn vote_in(epoch: &EpochId, kind: SchemeKind, subject: Subject, attachment: Attachment, voter: u16) -> Vote {
    let mut vote = Vote { subject, attachment, voter: ReplicaId(voter), signature: Default::default() };
    vote.signature = key(kind, voter).sign(vote.statement(epoch).as_bytes());
    vote
}

pub fn vote(kind: SchemeKind, subject: Subject, voter: u16) -> Vote {
    vote_in(&epoch(), kind, subject, Attachment::None, voter)
}

pub fn votes(kind: SchemeKind, subject: Subject, voters: impl IntoIterator<Item = u16>) -> Vec<Vote> {
    voters.into_iter().map(|voter| vote(kind, subject, voter)).collect()
}
