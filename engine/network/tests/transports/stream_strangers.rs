//! Ten thousand strangers at a replica that speaks over TCP, plain and with TLS: silent ones, junk, first messages
//! without a sequel, and unfinished handshakes. They occupy a bounded number of places, and replicas and clients are
//! served meanwhile.

use bytes::{Bytes, BytesMut};
use quorate_network::channels::Channel;
use quorate_network::transports::{Event, LinkConfig, Remote};
use quorate_testkit::ends::{
    End, Ground, R1, Stack, TcpPlain, TcpTls, client, client_end, connected, drive, quick, replica_end,
};
use quorate_types::{Lane, ReplicaId};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const STRANGERS: usize = 10_000;
/// Strangers between two polls of the replica: fewer than the refusals that a transport keeps.
const AT_ONCE: usize = 40;
/// Maximum number of accepted links that are not authenticated yet.
const PLACES: usize = 24;
/// Maximum number of connected clients. Anybody may be a client, so some strangers become one, and then fall silent.
const CLIENTS: usize = 32;

struct Stranger {
    stream: TcpStream,
    /// `None` if it is silent or sends junk.
    channel: Option<Box<dyn Channel>>,
}

impl Stranger {
    fn new<S: Stack>(ground: &Ground, at: usize, target: SocketAddr) -> Stranger {
        let stream = TcpStream::connect(target).expect("the replica listens");
        stream.set_nonblocking(true).expect("non-blocking");
        let mut stranger = Stranger { stream, channel: None };
        match at % 4 {
            0 => {}
            1 => stranger.send(&vec![at as u8; 1 + at % 1_400]),
            _ => {
                let end = client_end(ground.committee.cluster, at as u64);
                let (mut channel, mut hello) = (S::client_channel(end, ReplicaId(0)), Vec::new());
                channel.start(&mut hello);
                stranger.send(&hello);
                stranger.channel = Some(channel);
            }
        }
        stranger
    }

    /// The replica may have disconnected it.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Answers the replica's last messages once.
    fn answer_once(&mut self) {
        let Some(channel) = &mut self.channel else { return };
        let mut buffer = [0; 4_096];
        let Ok(count @ 1..) = self.stream.read(&mut buffer) else { return };
        let (mut wire, mut plain, mut out) = (BytesMut::from(&buffer[..count]), BytesMut::new(), Vec::new());
        let _ = channel.receive(&mut wire, &mut plain, &mut out);
        self.send(&out);
    }
}

fn ten_thousand<S: Stack>() {
    let mut ground = Ground::new(2);
    let links = LinkConfig {
        max_unauthenticated_links: PLACES,
        max_unauthenticated_links_per_address: PLACES,
        max_client_links: CLIENTS,
        max_client_links_per_address: CLIENTS,
        ..quick()
    };
    let end = replica_end(ground.committee.cluster, 0, 0);
    let (mut a, mut b) = (ground.end::<S>(0, end, links), ground.replica::<S>(1));
    drive([&mut a, &mut b], "the replicas connect", |[a, b]| connected(a, b));
    let target = ground.address(0);
    for from in (0..STRANGERS).step_by(AT_ONCE) {
        let mut crowd: Vec<_> = (from..from + AT_ONCE).map(|at| Stranger::new::<S>(&ground, at, target)).collect();
        [&mut a, &mut b].into_iter().for_each(End::poll);
        crowd.iter_mut().for_each(Stranger::answer_once);
        [&mut a, &mut b].into_iter().for_each(End::poll);
    }
    let is_client = |said: &&Event| matches!(said, Event::Connected { remote: Remote::Client(_), .. });
    let (refused, came) = (a.refusals.len(), a.events.iter().filter(is_client).count());
    assert!(refused + came > STRANGERS / 2, "only {refused} strangers were refused, and {came} became clients");
    let mut newcomer = ground.client::<S>(77_777);
    drive([&mut a, &mut b, &mut newcomer], "a new client", |[a, _, c]| {
        a.link_to(client(77_777)).is_some() && c.transport.is_connected(ReplicaId(0))
    });
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"still here"), Lane::Ordinary);
    newcomer.transport.send_to(ReplicaId(0), Bytes::from_static(b"and new"), Lane::Ordinary);
    drive([&mut a, &mut b, &mut newcomer], "their frames", |[a, ..]| {
        a.frames_from(R1) == [&b"still here"[..]] && a.frames_from(client(77_777)) == [&b"and new"[..]]
    });
    assert!(a.lost(R1).is_none() && b.lost(Remote::Replica(ReplicaId(0))).is_none(), "the link of replicas stands");
    let held = a.transport.counters().client_memory_peak_bytes;
    assert!(held < 1 << 20, "{held} bytes were held for links without a proof");
}

#[test]
fn ten_thousand_strangers_do_not_disturb_tcp() {
    ten_thousand::<TcpPlain>();
}

#[test]
fn ten_thousand_strangers_do_not_disturb_tls() {
    ten_thousand::<TcpTls>();
}
