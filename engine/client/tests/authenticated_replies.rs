//! Clients that count only authenticated replies, against replicas without consensus.

use crate::echo::{EchoCluster, Manner};
use quorate_client::load::{LoadError, LoadGenerator, LoadMode, LoadOptions};
use quorate_client::workload::FixedWorkload;
use quorate_client::{Client, ClientConfig, ClientError, ConnectError, new_identity, reply_verifier};
use quorate_crypto::{
    ClientAuthentication, CryptoError, Keyring, ReplyAuthentication, SchemeKind, check_signed_replies,
};
use quorate_types::{ReplicaId, ReplicaReply};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of queries until a replica's answer arrives.
const QUESTIONS: usize = 1000;
const SEALS: [ReplyAuthentication; 2] = [ReplyAuthentication::Signature, ReplyAuthentication::Mac];

fn load(config: &ClientConfig) -> LoadGenerator {
    let options = LoadOptions {
        clients: 10,
        mode: LoadMode::Closed { outstanding: 2 },
        warmup: Duration::ZERO,
        duration: SECOND / 2,
        ..LoadOptions::default()
    };
    let identity = new_identity(config).unwrap();
    let transport = quorate_client::connect(config, identity.origin()).unwrap();
    let verifier = reply_verifier(config, &identity).unwrap();
    let connect_timeout = Duration::from_millis(config.connect_timeout_ms);
    let workload = Box::new(FixedWorkload::new(16, 1).unwrap());
    let load = LoadGenerator::new(transport, identity, config.session().unwrap(), options, workload, connect_timeout);
    load.unwrap().with_verifier(verifier)
}

#[test]
fn commands_and_queries_get_authenticated_answers() {
    for replies in SEALS {
        let cluster = EchoCluster::authenticating(&[Manner::Honest; 4], replies);
        let mut client = Client::connect(&cluster.config).unwrap();
        // A replica knows the client's key only from the client's introduction.
        assert_eq!(client.query(b"question").unwrap(), b"question");
        for number in 0..10u8 {
            assert_eq!(client.execute(&[number]).unwrap(), [number]);
        }
        assert!(client.distrusted().is_empty(), "{replies}: {}", client.distrusted());
        assert_eq!(client.signed_replies().is_empty(), replies == ReplyAuthentication::Mac);
        let report = load(&cluster.config).run().unwrap();
        assert!(report.completed > 0 && report.malformed == 0, "{replies}: {}", report.distrusted);
    }
}

#[test]
fn signed_replies_can_be_kept_and_shown() {
    let cluster = EchoCluster::authenticating(&[Manner::Honest; 4], ReplyAuthentication::Signature);
    let mut client = Client::connect(&cluster.config).unwrap();
    client.execute(b"first").unwrap();
    client.execute(b"shown").unwrap();
    let keyring = Keyring::new(SchemeKind::ED25519, &cluster.config.committee().unwrap()).unwrap();
    assert!(client.signed_replies().len() >= 2, "f+1 replicas are enough for the client");
    for (replica, frame) in client.signed_replies() {
        let shown = check_signed_replies(&keyring, *replica, client.id(), frame.clone()).unwrap();
        let [ReplicaReply::Executed { results, .. }] = &shown[..] else { panic!("{shown:?}") };
        assert!(results.outcomes().all(|outcome| outcome.is_executed()));
        let other = ReplicaId((replica.0 + 1) % 4);
        assert!(check_signed_replies(&keyring, other, client.id(), frame.clone()).is_err());
    }
}

#[test]
fn a_replica_with_bad_authenticators_changes_nothing_and_is_named() {
    for replies in SEALS {
        for (manner, told) in
            [(Manner::WrongSession, "is not the replica's for this client"), (Manner::Unauthenticated, "carries no")]
        {
            let cluster =
                EchoCluster::authenticating(&[manner, Manner::Honest, Manner::Honest, Manner::Honest], replies);
            let mut client = Client::connect(&cluster.config).unwrap();
            for number in 0..5u8 {
                assert_eq!(client.execute(&[number]).unwrap(), [number]);
            }
            // Replies that arrived after f+1 others were not verified, but all answers to queries are.
            for _ in 0..QUESTIONS {
                assert_eq!(client.query(b"question").unwrap(), b"question");
                if !client.distrusted().is_empty() {
                    break;
                }
                std::thread::sleep(SECOND / 100);
            }
            let named: Vec<_> = client.distrusted().iter().collect();
            assert!(matches!(&named[..], [(ReplicaId(0), why)] if why.contains(told)), "{replies}: {named:?}");
            let report = load(&cluster.config).run().unwrap();
            assert!(report.completed > 0 && report.malformed > 0, "{replies}");
            assert_eq!(report.distrusted.iter().count(), 1, "{replies}: once for each replica");
        }
    }
}

/// Two replicas of four would be f+1, if their replies counted.
#[test]
fn replies_that_are_not_authentic_are_no_quorum() {
    for replies in SEALS {
        for manner in [Manner::WrongSession, Manner::Unauthenticated] {
            let mut cluster = EchoCluster::authenticating(&[manner, manner, manner, Manner::Honest], replies);
            cluster.config.request_timeout_ms = 600;
            let mut client = Client::connect(&cluster.config).unwrap();
            let error = client.query(b"question").unwrap_err();
            let ClientError::Timeout(none) = &error else { panic!("{replies}: {error}") };
            assert_eq!(none.distrusted.iter().count(), 3, "{replies}: {error}");
            assert_eq!(none.answered.iter().collect::<Vec<_>>(), [ReplicaId(3)], "{replies}: {error}");
            assert!(error.to_string().contains("frames of replica 0 did not count: "), "{error}");
            cluster.config.connect_timeout_ms = 1200;
            let error = load(&cluster.config).run().unwrap_err();
            assert!(matches!(&error, LoadError::Distrusted { needed: 2, .. }), "{replies}: {error}");
        }
    }
}

/// On an unprotected channel, an attacker may send another query under the client's number. Three replicas that answer
/// it equally, each with a genuine authenticator, are more than f+1.
#[test]
fn an_answer_to_another_question_of_the_same_number_does_not_count() {
    for replies in [ReplyAuthentication::Channel, ReplyAuthentication::Signature, ReplyAuthentication::Mac] {
        let of_honest = |honest: usize| {
            let manners = [0, 1, 2, 3].map(|at| if at < honest { Manner::Honest } else { Manner::AskedAnother });
            let mut cluster = EchoCluster::authenticating(&manners, replies);
            cluster.config.request_timeout_ms = 600;
            let mut client = Client::connect(&cluster.config).unwrap();
            let answered = client.query(b"question");
            assert!(
                client.distrusted().is_empty(),
                "{replies}: the authenticators are genuine: {}",
                client.distrusted()
            );
            answered
        };
        let error = of_honest(1).unwrap_err();
        let ClientError::Timeout(none) = &error else { panic!("{replies}: {error}") };
        assert_eq!(none.answered.iter().collect::<Vec<_>>(), [ReplicaId(0)], "{replies}: {error}");
        assert_eq!(of_honest(2).unwrap(), b"question", "{replies}");
    }
}

#[test]
fn settings_that_differ_are_an_error_that_says_so() {
    let ways = [ReplyAuthentication::Channel, ReplyAuthentication::Signature, ReplyAuthentication::Mac];
    for of_replicas in ways {
        for of_client in ways.into_iter().filter(|way| *way != of_replicas) {
            // Without the client's key, replicas that use MACs send none, as real ones do.
            let manner = if of_replicas == ReplyAuthentication::Mac { Manner::Unauthenticated } else { Manner::Honest };
            let mut cluster = EchoCluster::authenticating(&[manner; 4], of_replicas);
            (cluster.config.reply_authentication, cluster.config.request_timeout_ms) = (of_client, 600);
            let outcome = Client::connect(&cluster.config).unwrap().query(b"question");
            // Plain replies of replicas that cannot create MACs count if nothing else is required.
            if of_client == ReplyAuthentication::Channel && manner == Manner::Unauthenticated {
                assert_eq!(outcome.unwrap(), b"question");
                continue;
            }
            let text = outcome.unwrap_err().to_string();
            let expected = match of_replicas {
                ReplyAuthentication::Signature if of_client == ReplyAuthentication::Mac => "the MAC of the reply",
                _ => "set `reply_authentication`",
            };
            assert!(text.contains(expected), "{of_replicas} and {of_client}: {text}");
        }
    }
}

#[test]
fn macs_without_a_client_key_are_refused() {
    let mut cluster = EchoCluster::authenticating(&[Manner::Honest; 4], ReplyAuthentication::Mac);
    cluster.config.client_authentication = ClientAuthentication::None;
    let text = cluster.config.validate().unwrap_err().to_string();
    assert!(text.contains("`reply_authentication`: is mac") && text.contains("channel or signature"), "{text}");
    let refused = Client::connect(&cluster.config).err().unwrap();
    let expected = matches!(refused, ClientError::Connect(ConnectError::Keys(CryptoError::KeylessClient)));
    assert!(expected, "{refused}");
    cluster.config.reply_authentication = ReplyAuthentication::Signature;
    cluster.config.scheme = SchemeKind::NONE;
    let text = cluster.config.validate().unwrap_err().to_string();
    assert!(text.contains("prove nothing"), "{text}");
}
