//! Detection of standstill from two readings of the replicas' statuses: replicas that do not follow the others, and a
//! cluster without a quorum or without progress.
//!
//! A fixed number of blocks would be no criterion, because a block may take a millisecond or a minute. A replica is
//! behind if it has not reached the height that others had at the earlier reading. It needs attention if the lag does
//! not shrink.

use quorate_node::progress::STANDSTILL;
use quorate_types::{Quorum, ReplicaId, Status};
use std::collections::BTreeMap;

/// A lag of more than this many blocks needs attention even while it shrinks.
pub const LAG_BLOCKS: u64 = 1_000;

/// A replica's answers at two readings; `None` if it did not answer.
#[derive(Clone, Debug)]
pub struct Looks {
    pub replica: ReplicaId,
    pub earlier: Option<Status>,
    pub now: Option<Status>,
}

/// Returns the value that at least one honest replica among the others has reached: the highest except for `faults`, or
/// the lowest if there are no more.
pub(crate) fn reached(mut values: Vec<u64>, faults: usize) -> Option<u64> {
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(faults.min(values.len().checked_sub(1)?)).copied()
}

/// Returns the problems of each replica that does not follow the others, as sentences about it.
pub fn of_replicas(looks: &[Looks], quorum: Quorum) -> BTreeMap<ReplicaId, Vec<String>> {
    let of_one = |own: &Looks| {
        let sentences = own.now.as_ref().zip(own.earlier.as_ref()).map(|(now, earlier)| {
            let others = || looks.iter().filter(|other| other.replica != own.replica);
            let at = |of: fn(&Looks) -> Option<&Status>, value: fn(&Status) -> u64| {
                reached(others().filter_map(of).map(value).collect(), quorum.faults())
            };
            let height = |status: &Status| status.height.0;
            let (then, by_now) = (at(|of| of.earlier.as_ref(), height), at(|of| of.now.as_ref(), height));
            let view = at(|of| of.earlier.as_ref(), |status| status.view.0);
            [lags(now, earlier, then, by_now), follows_no_view(now, earlier, view)].into_iter().flatten().collect()
        });
        (own.replica, sentences.unwrap_or_default())
    };
    looks.iter().map(of_one).filter(|(_, sentences): &(_, Vec<String>)| !sentences.is_empty()).collect()
}

/// Judges a replica's height, given the others' at the earlier reading and now.
fn lags(now: &Status, earlier: &Status, then: Option<u64>, by_now: Option<u64>) -> Option<String> {
    let (then, by_now) = (then?, by_now?);
    let own = now.height.0;
    if then <= own {
        return None;
    }
    let (lag_then, lag) = (then.saturating_sub(earlier.height.0), by_now.saturating_sub(own));
    if u128::from(now.height_age_ms) >= STANDSTILL.as_millis() {
        let seconds = now.height_age_ms / 1_000;
        return Some(format!("has executed nothing after height {own} for {seconds} s, while others are at {by_now}"));
    }
    if lag >= lag_then {
        return Some(format!("is {lag} blocks behind, and does not catch up"));
    }
    (lag > LAG_BLOCKS).then(|| format!("is {lag} blocks behind"))
}

/// Judges the view of a replica that executes nothing.
fn follows_no_view(now: &Status, earlier: &Status, others: Option<u64>) -> Option<String> {
    let others = others?;
    let stands = now.view == earlier.view && u128::from(now.height_age_ms) >= STANDSTILL.as_millis();
    (stands && others > now.view.0).then(|| format!("is in view {}, while others are in view {others}", now.view))
}

/// Returns the problems of the whole cluster.
pub fn of_cluster(looks: &[Looks], quorum: Quorum) -> Vec<String> {
    let answers = || looks.iter().filter_map(|of| of.now.as_ref());
    if answers().next().is_none() {
        return Vec::new();
    }
    let present = largest_group(looks);
    let missing: Vec<String> = looks.iter().filter(|of| !present.contains(&of.replica)).map(absence).collect();
    let names = match missing.is_empty() {
        true => String::new(),
        false => format!("; missing: {}", missing.join(", ")),
    };
    let (present, needed, all) = (present.len(), quorum.quorum(), looks.len());
    let mut attention = Vec::new();
    if present < needed {
        attention.push(format!("has no quorum: {present} of {all} replicas can vote, and {needed} are needed{names}"));
    }
    let age = answers().map(|status| status.height_age_ms).min().unwrap_or(0);
    let waiting = answers().map(|status| status.waiting_bundles).max().unwrap_or(0);
    if waiting > 0 && u128::from(age) >= STANDSTILL.as_millis() {
        let names = if present < needed { String::new() } else { names };
        attention.push(format!("commits nothing for {} s, while {waiting} bundles wait{names}", age / 1_000));
    }
    attention
}

/// Returns the replicas that can vote together: the largest set connected to one replica, itself included. A link
/// counts if both ends report it, or if the only end that answers does.
fn largest_group(looks: &[Looks]) -> Vec<ReplicaId> {
    let status = |replica: ReplicaId| looks.iter().find(|of| of.replica == replica).and_then(|of| of.now.as_ref());
    let group = |own: &Status| -> Vec<ReplicaId> {
        let is_linked = |other: &ReplicaId| {
            status(*other).is_none_or(|other| !other.abstains && other.connected.contains(&own.replica))
        };
        let others = own.connected.iter().copied().filter(is_linked);
        std::iter::once(own.replica).filter(|_| !own.abstains).chain(others).collect()
    };
    let groups = looks.iter().filter_map(|of| of.now.as_ref()).map(group);
    groups.max_by_key(Vec::len).unwrap_or_default()
}

/// Returns why a replica is missing from the quorum.
fn absence(of: &Looks) -> String {
    let why = match &of.now {
        None => "does not answer".to_owned(),
        Some(status) if status.abstains => "does not vote".to_owned(),
        Some(status) => format!("reaches {} of {} others", status.connected.len(), status.peers),
    };
    format!("replica {} ({why})", of.replica)
}
