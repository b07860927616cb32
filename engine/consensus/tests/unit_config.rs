//! Unworkable configurations are rejected, with an error that names the setting.

use crate::unit_support::{config, quorum};
use quorate_consensus::Config;
use quorate_consensus::config::*;
use quorate_types::*;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn names_read_back<T: Copy + PartialEq + Debug + Display + FromStr<Err = UnknownName>>(all: &[T], what: &str) {
    for choice in all {
        assert_eq!(choice.to_string().parse::<T>(), Ok(*choice));
    }
    let unknown = "pbft3".parse::<T>().expect_err("the name is unknown").to_string();
    assert!(unknown.contains("`pbft3`") && unknown.contains(what), "{unknown}");
    assert!(all.iter().all(|choice| unknown.contains(&choice.to_string())), "the error lists all names: {unknown}");
}

#[test]
fn every_name_parses_and_an_unknown_one_is_answered_with_the_known() {
    names_read_back(ProtocolKind::ALL, "protocol");
    names_read_back(LeaderKind::ALL, "leader election");
    names_read_back(ViewDuration::ALL, "view duration");
    names_read_back(BatchPolicy::ALL, "batch policy");
    names_read_back(Dissemination::ALL, "dissemination");
}

#[test]
fn the_defaults_work() {
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn invalid_settings_are_refused_with_key_and_help() {
    type Change = fn(&mut Config);
    let refused: &[(&str, &str, Change)] = &[
        ("batch", "set 1 to 65536", |config| config.batch = 0.into()),
        ("batch", "set 1 to 65536", |config| config.batch = 65_537.into()),
        ("batch_bytes", "set 203 to 33554432", |config| config.batch_bytes = 0),
        ("batch_bytes", "set 203 to 33554432", |config| config.batch_bytes = usize::MAX),
        ("view_timeout_ms", "set 1 to 3600000", |config| config.view_timeout_ms = 0),
        ("min_view_timeout_ms", "set 1 to 3600000", |config| config.min_view_timeout_ms = 0),
        ("view_timeout_ms", "set 1 to 3600000", |config| config.view_timeout_ms = 3_600_001),
        ("view_timeout_ms", "set 1 to 3600000", |config| config.view_timeout_ms = i64::MAX as u64),
        ("min_view_timeout_ms", "set 1 to 3600000", |config| config.min_view_timeout_ms = 3_600_001),
        ("max_clock_skew_ms", "set 1 to 3600000", |config| config.max_clock_skew_ms = 0),
        ("max_clock_skew_ms", "set 1 to 3600000", |config| config.max_clock_skew_ms = 3_600_001),
        ("pool_bytes", "at least 1", |config| config.pool_bytes = 0),
        ("pool_bundles", "at least 1", |config| config.pool_bundles = 0),
        ("retained_blocks", "at least 1", |config| config.retained_blocks = 0),
        ("fetch_retry_ms", "at least 1", |config| config.fetch_retry_ms = 0),
        ("batch_wait_ms", "raise view_timeout_ms", |config| {
            (config.batch, config.batch_policy, config.batch_wait_ms) = (400.into(), BatchPolicy::Timed, 251);
        }),
        ("batch_wait_ms", "set 0 to 3600000", |config| {
            (config.batch, config.batch_policy, config.batch_wait_ms) = (400.into(), BatchPolicy::Timed, u64::MAX);
        }),
        ("vote_wait_us", "at most 250000", |config| config.vote_wait_us = 250_001),
        ("vote_wait_us", "at most 83333", |config| {
            (config.protocol, config.vote_wait_us) = (ProtocolKind::BasicHotStuff, 83_334);
        }),
        ("vote_wait_us", "leave it out", |config| (config.votes, config.vote_wait_us) = (VotesTo::All, 1)),
        ("vote_wait_us", "leave it out", |config| {
            (config.protocol, config.vote_wait_us) = (ProtocolKind::SimpleMoonshot, 1);
        }),
        ("vote_wait_us", "leave it out", |config| (config.protocol, config.vote_wait_us) = (ProtocolKind::Pbft, 1)),
        ("max_queue_ms", "leave it out", |config| config.max_queue_ms = Some(250)),
        ("max_queue_ms", "`replicas`", |config| {
            (config.dissemination, config.max_queue_ms) = (Dissemination::Leader, Some(1));
        }),
    ];
    for (key, help, change) in refused {
        let mut config = config();
        change(&mut config);
        let error = config.validate().expect_err(key);
        assert_eq!(error.place, *key);
        assert!(error.help.contains(help), "{error}");
        assert!(error.to_string().starts_with(&format!("{key}: ")), "{error}");
    }
}

#[test]
fn the_queue_is_limited_by_default_where_clients_send_to_one_replica() {
    for dissemination in Dissemination::ALL.iter().copied() {
        let of = |max_queue_ms| Config { dissemination, max_queue_ms, ..config() }.max_queue().as_millis();
        // Certified bundles also wait for their certificates.
        let default = match dissemination {
            Dissemination::Replicas => 250,
            Dissemination::ReplicasCertified => 500,
            Dissemination::Client | Dissemination::Leader => 0,
        };
        assert_eq!(of(None), default, "{dissemination}");
        assert_eq!(of(Some(0)), 0, "{dissemination}");
        assert_eq!(of(Some(40)), if default > 0 { 40 } else { 0 }, "{dissemination}");
    }
}

#[test]
fn other_settings_without_effect_are_accepted() {
    let accepted = [
        Config { batch_wait_ms: MAX_VIEW_TIMEOUT_MS, ..config() },
        Config { batch_policy: BatchPolicy::Timed, batch_wait_ms: MAX_VIEW_TIMEOUT_MS, ..config() },
        Config { batch_latency_ms: 0, ..config() },
        Config { batch_latency_ms: MAX_VIEW_TIMEOUT_MS, ..config() },
        Config { batch: 400.into(), batch_policy: BatchPolicy::Timed, batch_wait_ms: 250, ..config() },
        Config { min_view_timeout_ms: 5000, ..config() },
        Config { view_duration: ViewDuration::Adaptive, min_view_timeout_ms: 5000, ..config() },
        Config { batch: 65_536.into(), batch_bytes: limits::MAX_FRAME_BYTES / 2, ..config() },
        Config { max_queue_ms: Some(0), ..config() },
        Config { vote_wait_us: 250_000, ..config() },
        Config { protocol: ProtocolKind::BasicHotStuff, vote_wait_us: 83_333, ..config() },
        Config { fetch_delay_ms: 0, retained_bytes: 0, batch_wait_ms: 0, ..config() },
    ];
    for config in accepted {
        assert_eq!(config.validate(), Ok(()), "{config:?}");
    }
}

/// Model of a cluster with silent replicas, view by view: leaders, collectors of votes, and parents of blocks.
struct Cluster {
    silent: Vec<bool>,
    needed: usize,
    /// Whether a leader collects the votes of its own view instead of the previous one.
    collects_its_own: bool,
    /// View of the parent, for each certified view.
    certified: Vec<(u64, u64)>,
}

impl Cluster {
    fn parent(&self, view: u64) -> Option<u64> {
        self.certified.iter().find(|(certified, _)| *certified == view).map(|(_, parent)| *parent)
    }

    /// Returns whether `chain_length` certified blocks in consecutive views ever commit a block within the first views.
    fn commits(&mut self, kind: LeaderKind, chain_length: usize) -> bool {
        let n = self.silent.len();
        let (mut high, mut fixed) = (0, 0);
        for view in 1..=8 * n as u64 {
            let (leader, collector) = match kind {
                LeaderKind::RoundRobin if self.collects_its_own => (view as usize % n, view as usize % n),
                LeaderKind::RoundRobin => (view as usize % n, (view as usize + 1) % n),
                _ => (fixed, fixed),
            };
            let votes = self.silent.iter().filter(|silent| !**silent).count();
            if self.silent[leader] || self.silent[collector] || votes < self.needed {
                fixed = (fixed + 1) % n;
                continue;
            }
            self.certified.push((view, high));
            high = view;
            // Walk back from the new certificate through parents that are exactly one view older.
            let (mut at, mut length) = (view, 1);
            while let Some(parent) = self.parent(at).filter(|parent| *parent > 0 && parent + 1 == at) {
                (at, length) = (parent, length + 1);
            }
            if length >= chain_length {
                return true;
            }
        }
        false
    }
}

#[test]
fn the_warning_of_a_stall_is_right_for_every_set_of_silent_replicas() {
    let (mut stalls, mut runs) = (0, 0);
    for n in 1..=10usize {
        for set in 0..1u32 << n {
            let silent: Vec<bool> = (0..n).map(|replica| set >> replica & 1 == 1).collect();
            let named: Vec<ReplicaId> =
                (0..n as u16).map(ReplicaId).filter(|replica| silent[replica.index()]).collect();
            let by_views = ProtocolKind::ALL.iter().copied().filter(|protocol| !protocol.has_slots());
            let settings = by_views.flat_map(|protocol| {
                let to_all = protocol.is_chained().then_some((protocol, LeaderKind::RoundRobin, VotesTo::All));
                let collected = [LeaderKind::RoundRobin, LeaderKind::Fixed];
                collected.map(|leader| (protocol, leader, VotesTo::Collector)).into_iter().chain(to_all)
            });
            for (protocol, leader, votes) in settings {
                let needed = quorum(n).quorum();
                // If all replicas collect, the leader is one of them.
                let to_all = votes == VotesTo::All || protocol.facts().optimistic_proposals;
                let collects_its_own = !protocol.is_chained() || to_all;
                let mut cluster = Cluster { silent: silent.clone(), needed, collects_its_own, certified: Vec::new() };
                let commits = cluster.commits(leader, protocol.chain_length());
                let warning = Config { protocol, leader, votes, ..config() }.stalls_with_silent(quorum(n), &named);
                assert_eq!(warning.is_none(), commits, "{protocol} {leader} {votes} {named:?} of {n}: {warning:?}");
                if commits { runs += 1 } else { stalls += 1 }
            }
        }
    }
    assert!(stalls > 1000 && runs > 1000, "{stalls} configurations stall and {runs} do not: too few of one");
}

#[test]
fn the_warning_names_the_protocol_the_silent_replicas_and_the_remedy() {
    let config = Config { protocol: ProtocolKind::ChainedHotStuff, leader: LeaderKind::RoundRobin, ..config() };
    let warning =
        config.stalls_with_silent(quorum(4), &[ReplicaId(2)]).expect("three live leaders in a row are too few");
    for part in ["chained-hotstuff", "round-robin", "R2", "votes to `all`", "`reputation`", "`jolteon`"] {
        assert!(warning.contains(part), "no {part} in: {warning}");
    }
    let few = config.stalls_with_silent(quorum(4), &[ReplicaId(2), ReplicaId(0)]).expect("no quorum");
    assert!(few.contains("2 of 4") && few.contains("quorum is 3"), "{few}");
    assert_eq!(config.stalls_with_silent(quorum(4), &[]), None);
}

#[test]
fn clients_send_to_all_where_leaders_rotate_and_carry_the_commands() {
    for leader in LeaderKind::ALL.iter().copied() {
        for dissemination in Dissemination::ALL.iter().copied() {
            let clients = Config { leader, dissemination, ..config() }.client_dissemination();
            let rotates = leader != LeaderKind::Fixed && dissemination == Dissemination::Leader;
            let expected = if rotates { Dissemination::Client } else { dissemination };
            assert_eq!(clients, expected, "leader {leader}, dissemination {dissemination}");
        }
    }
}
