//! A session compares its configuration with the replicas', of which f may lie.

use crate::config::config;
use quorate_client::{Destination, Session};
use quorate_types::{ClientRequest, Parameters, ReplicaId, ReplicaReply, Time, decode_message};

fn session() -> Session<()> {
    let own = [("application", "kv"), ("dissemination", "client"), ("reply", "each")];
    let mut session = Session::new(config().session().unwrap());
    session.compare(&Parameters::new(own.map(|(key, value)| (key, value.to_owned()))));
    session
}

fn answer(session: &mut Session<()>, from: u16, values: &[(&str, &str)], max_frame_bytes: u32) {
    let differing = Parameters::new(values.iter().map(|(key, value)| (*key, (*value).to_owned())));
    let reply = ReplicaReply::Compared { id: 0, differing, max_frame_bytes };
    assert!(session.awaits(&reply));
    session.receive(Time(0), ReplicaId(from), reply);
}

fn texts(session: &Session<()>) -> Vec<String> {
    session.differences().iter().map(ToString::to_string).collect()
}

#[test]
fn the_first_questions_carry_the_values_until_a_quorum_has_answered() {
    let mut session = session();
    let asked = |session: &mut Session<()>| {
        let mut out = Vec::new();
        session.ask_height(&mut out);
        assert!(out.iter().all(|outgoing| outgoing.to == Destination::All));
        let requests = out.into_iter().map(|outgoing| decode_message::<ClientRequest>(outgoing.frame).unwrap());
        requests.filter(|request| matches!(request, ClientRequest::Compare { .. })).count()
    };
    for from in 0..3 {
        assert_eq!(asked(&mut session), 1);
        answer(&mut session, from, &[], 1_000);
    }
    assert_eq!(asked(&mut session), 0);
}

#[test]
fn a_value_counts_once_f_plus_1_replicas_gave_it() {
    let mut session = session();
    answer(&mut session, 3, &[("application", "log"), ("reply", "none")], 10);
    answer(&mut session, 3, &[("application", "log")], 10);
    answer(&mut session, 9, &[("application", "log")], 10);
    assert!(texts(&session).is_empty() && session.frame_limit().is_none(), "one replica may lie");
    answer(&mut session, 0, &[("application", "other")], 5_000);
    assert!(texts(&session).is_empty(), "they say different things");
    assert_eq!(session.frame_limit(), Some(5_000), "one of two is honest");
    answer(&mut session, 1, &[("application", "log"), ("unknown", "x")], 5_000);
    assert_eq!(texts(&session), ["`application` is kv here and log there"]);
    assert_eq!(session.frame_limit(), Some(5_000));
}

#[test]
fn a_slow_dissemination_is_a_warning_and_no_difference() {
    let mut session = session();
    (0..2).for_each(|from| answer(&mut session, from, &[("dissemination", "replicas")], 5_000));
    assert!(texts(&session).is_empty());
    let warning = session.warning().unwrap();
    assert!(warning.starts_with("`dissemination` is client here and replicas there"), "{warning}");
}

/// A replica closes its link for a frame that is too long. Bundles of that length are refused permanently.
#[test]
fn a_bundle_over_the_limit_of_f_plus_1_replicas_is_rejected() {
    let mut session = session();
    let (short, long) = (crate::session::bundle(1, 1), crate::session::bundle(2, 50));
    let mut out = Vec::new();
    for bundle in [&short, &long] {
        session.submit(Time(0), bundle, (), &mut out).unwrap();
    }
    let max_bytes = out[0].frame.len() as u32;
    assert!(out[1].frame.len() as u32 > max_bytes);
    let refusal = || ReplicaReply::FrameTooLong { bytes: out[1].frame.len() as u32, max_bytes };
    session.receive(Time(0), ReplicaId(2), refusal());
    assert!(!session.is_rejected(long.digest()), "one replica may lie");
    session.receive(Time(0), ReplicaId(1), refusal());
    assert!(session.is_rejected(long.digest()) && !session.is_rejected(short.digest()));
    let why = session.rejection().unwrap();
    assert!(why.contains(&format!("is over the limit of {max_bytes}, `client_frame_bytes`")), "{why}");
}
