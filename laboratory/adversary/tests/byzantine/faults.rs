//! Faults as text, and invalid faults.

use quorate_adversary::byzantine::behaviours::{
    AssembleCertificate, Delay, FloodRelays, ForgeState, InflateView, Overfill, Selective, Slow, SpreadToOne,
};
use quorate_adversary::byzantine::{Exposure, Fault, Times};
use quorate_types::{ReplicaId, Signers, Time};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn every_fault_has_a_unique_name_and_is_parsed_back() {
    let names: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(names.len(), Fault::ALL.len());
    for fault in Fault::ALL {
        assert_eq!(fault.to_string(), fault.name(), "defaults are not written out");
        assert_eq!(fault.name().parse(), Ok(fault));
    }
    let deaf: Signers = [2, 3].map(ReplicaId).into_iter().collect();
    for (fault, text) in [
        (Slow { percent: 30 }.into(), "slow=30"),
        (InflateView { by: 1 }.into(), "inflate-view=1"),
        (Delay { ms: 500 }.into(), "delay=500"),
        (Selective { deaf }.into(), "selective=2+3"),
        (AssembleCertificate { views: 0 }.into(), "assemble-certificate=0"),
        (FloodRelays { bundles: 0 }.into(), "flood-relays=0"),
        (Overfill { bundles: 1 }.into(), "overfill=1"),
        (SpreadToOne { recipient: Some(ReplicaId(3)) }.into(), "spread-to-one=3"),
        (Fault::from(ForgeState).from_opportunity(3).expect("it has opportunities"), "forge-state#3"),
    ] {
        assert_eq!((fault.to_string().as_str(), text.parse()), (text, Ok(fault)));
    }
}

#[test]
fn an_invalid_fault_is_refused_with_a_remedy() {
    for (text, words) in [
        ("slient", &["silent", "selective"][..]),
        ("", &["silent"]),
        ("silent=1", &["`silent` takes no parameter"]),
        ("slow=", &["`` is not a whole number"]),
        ("slow=-1", &["`-1` is not a whole number"]),
        ("delay=99999999999", &["to 86400000"]),
        ("inflate-view=0", &["from 1"]),
        ("selective=1+x", &["`x` is not a replica", "selective=2+3"]),
        ("selective=256", &["`256` is not a replica"]),
        ("spread-to-one=1+2", &["`1+2` is not a replica", "spread-to-one=2"]),
        ("silent#2", &["the opportunity at which", "forge-state"]),
        ("fork#0", &["`0` is not a whole number from 1"]),
    ] {
        let error = text.parse::<Fault>().expect_err(text).to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{text:?}: {error}"));
    }
}

#[test]
fn a_fault_that_names_an_unknown_replica_or_its_sender_is_refused() {
    let selective = |replica| Fault::from(Selective { deaf: [ReplicaId(replica)].into_iter().collect() });
    assert_eq!(selective(3).misfit(ReplicaId(0), 4), None);
    assert!(selective(4).misfit(ReplicaId(0), 4).is_some_and(|why| why.contains("replica 4, but the last one is 3")));
    assert!(selective(0).misfit(ReplicaId(0), 4).is_some_and(|why| why.contains("the sender itself")));
    let to_one = |replica| Fault::from(SpreadToOne { recipient: Some(ReplicaId(replica)) });
    assert!(to_one(4).misfit(ReplicaId(0), 4).is_some_and(|why| why.contains("replica 4, but the last one is 3")));
    assert_eq!(to_one(3).misfit(ReplicaId(0), 4), None);
    for fault in Fault::ALL {
        let Some(later) = fault.from_opportunity(2) else {
            assert!(!fault.facts().may_wait);
            continue;
        };
        assert_eq!((later.to_string().parse(), later.lies()), (Ok(later), fault.lies()));
    }
    assert!(Fault::ALL.iter().all(|fault| fault.misfit(ReplicaId(0), 1).is_none()));
}

#[test]
fn a_fault_is_active_from_its_start_for_its_time_and_again_in_each_period() {
    let ms = Duration::from_millis;
    let active = |times: Times| (0..100).filter(|at| times.include(Time::from_millis(*at))).collect::<Vec<u64>>();
    let from = Times::from(ms(90));
    assert_eq!(active(from), (90..100).collect::<Vec<_>>());
    assert_eq!(active(Times { lasts: Some(ms(3)), ..from }), [90, 91, 92]);
    let recurs = Times { start: ms(5), lasts: Some(ms(2)), every: Some(ms(40)) };
    assert_eq!(active(recurs), [5, 6, 45, 46, 85, 86]);
    assert_eq!(active(Times::default()).len(), 100);
}

#[test]
fn the_table_of_the_documentation_has_what_each_kind_declares() {
    let page = include_str!("../../../../docs/BYZANTINE.md");
    let header = "| kind | what it does | parameter | exposed by |";
    let table = page.lines().skip_while(|line| *line != header).skip(2).take_while(|line| line.starts_with('|'));
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for line in table {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        rows.push((cells[1].trim_matches('`'), cells[cells.len() - 2]));
    }
    let declared = Fault::ALL.map(|fault| {
        let exposed = match fault.facts().exposed_by {
            Exposure::Nothing => "",
            Exposure::Delays => "delays",
            Exposure::Refusals => "refusals",
            Exposure::Drops => "drops",
            Exposure::Evidence => "evidence",
        };
        (fault.name(), exposed)
    });
    assert_eq!(rows, declared);
}
