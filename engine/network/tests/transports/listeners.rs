//! Separate endpoints for peers, clients and operators, and host names.

use bytes::Bytes;
use quorate_network::transports::{Endpoints, Event, LinkConfig, Remote, TcpTransport};
use quorate_testkit::ends::*;
use quorate_types::{Address, ClientId, Committee, Lane, ReplicaId};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

fn address_of(listener: &TcpListener) -> Address {
    listener.local_addr().expect("a bound address").into()
}

/// Replica 1 of two, with three listeners, and the committee as seen by an end that dials each of them.
fn house(config: LinkConfig) -> (End, [Committee; 3], Ground) {
    let ground = Ground::new(2);
    let listeners = [listener(), listener(), listener()];
    let seen = [0, 1, 2].map(|audience| {
        let mut committee = ground.committee.clone();
        committee.members[1].address = address_of(&listeners[audience]);
        committee
    });
    let [peers, clients, operators] = listeners.map(Some);
    let listeners = Endpoints {
        peers: peers.map(Into::into),
        clients: clients.map(Into::into),
        operators: operators.map(Into::into),
    };
    let end = replica_end(ground.committee.cluster, 1, 1);
    let house = TcpTransport::replica(&seen[0], listeners, end, config).expect("a transport");
    (End::new(Box::new(house)), seen, ground)
}

fn client_of(committee: &Committee, id: u64) -> End {
    End::new(Box::new(
        TcpTransport::client(committee, client_end(committee.cluster, id), quick()).expect("a transport"),
    ))
}

#[test]
fn each_listener_admits_its_own_audience_and_refuses_others() {
    let (mut house, [peers, clients, operators], mut ground) = house(quick());
    let mut lost = client_of(&peers, 7);
    drive([&mut house, &mut lost], "a client at the peers' listener", |[house, _]| {
        house.refused_with("a client dialled the listener for peers") && house.refused_with("`client_listen`")
    });
    let mut client_end = client_of(&clients, 8);
    drive([&mut house, &mut client_end], "a client at its listener", |[house, _]| house.link_to(client(8)).is_some());
    let mut operator = client_of(&operators, 9);
    drive([&mut house, &mut operator], "an operator", |[house, _]| {
        house.link_to(Remote::Operator(ClientId(9))).is_some()
    });
    operator.transport.send_to(ReplicaId(1), Bytes::from_static(b"how are you"), Lane::Ordinary);
    drive([&mut house, &mut operator], "a question", |[house, _]| {
        let asks = |event: &Event| matches!(event, Event::Received { remote: Remote::Operator(_), .. });
        house.events.iter().any(asks)
    });
    let own = || Some(listener());
    let of_zero = |committee: &Committee| {
        let end = replica_end(committee.cluster, 0, 0);
        End::new(Box::new(TcpTransport::replica(committee, own(), end, quick()).expect("a transport")))
    };
    for (seen, audience) in [(&clients, "clients"), (&operators, "operators")] {
        let mut astray = of_zero(seen);
        drive([&mut house, &mut astray], "a replica at another's listener", |[house, _]| {
            house.refused_with(&format!("a replica dialled the listener for {audience}"))
        });
    }
    let mut peer = of_zero(&peers);
    drive([&mut house, &mut peer], "a peer at its listener", |[house, _]| house.link_to(R0).is_some());
    house.transport.stop_accepting();
    drop(ground.replica::<TcpPlain>(0));
    let mut late = client_of(&clients, 10);
    drive([&mut house, &mut late], "no new link is accepted", |[_, late]| late.refused_with("dialling failed"));
    assert!(house.lost(client(8)).is_none(), "an existing link was cut");
}

#[test]
fn a_crowd_at_the_clients_listener_does_not_keep_peers_out() {
    const PLACES: usize = 4;
    let config = LinkConfig {
        max_unauthenticated_links: PLACES,
        max_unauthenticated_links_per_address: PLACES,
        handshake_timeout_ms: 60_000,
        ..quick()
    };
    let (mut house, [peers, clients, _], _ground) = house(config);
    let dial_raw = |committee: &Committee| {
        let address = committee.members[1].address.to_string();
        let stream = TcpStream::connect(address).expect("the replica listens");
        stream.set_nonblocking(true).expect("a mode of the socket");
        stream
    };
    let mut at_peers = dial_raw(&peers);
    house.poll();
    let mut crowd: Vec<TcpStream> = (0..3 * PLACES).map(|_| dial_raw(&clients)).collect();
    let is_open = |stream: &mut TcpStream| match stream.read(&mut [0; 1024]) {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    drive_with([&mut house], "the crowd is thinned out", |_| {
        let open = crowd.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count();
        open < PLACES
    });
    assert!(is_open(&mut at_peers), "the oldest link, at another listener, was cut");
}

#[test]
fn a_host_may_have_a_name_and_one_that_cannot_be_resolved_is_reported() {
    let ground = Ground::new(3);
    let mut committee = ground.committee.clone();
    let ports: Vec<u16> = ground.committee.members.iter().map(|member| member.address.port()).collect();
    committee.members[1].address = Address::on("localhost", ports[1]).expect("a name");
    committee.members[2].address = Address::on("no-such-host.invalid", ports[2]).expect("a name");
    let mut ends = ground.into_listeners().into_iter();
    let mut end = |replica: u16| {
        let end = replica_end(committee.cluster, replica, replica as u8);
        let config = LinkConfig { max_reconnect_ms: 50, ..quick() };
        End::new(Box::new(TcpTransport::replica(&committee, ends.next(), end, config).expect("a transport")))
    };
    let (mut a, mut b) = (end(0), end(1));
    drive([&mut a, &mut b], "replicas by name", |[a, b]| connected(a, b));
    drive([&mut a, &mut b], "an unknown name", |[a, _]| a.refused_with("the name cannot be resolved"));
    let told = a.refusals.iter().find(|refusal| refusal.dialled == Some(ReplicaId(2))).expect("replica 2 was dialled");
    assert_eq!(told.address.to_string(), format!("no-such-host.invalid:{}", ports[2]));
}
