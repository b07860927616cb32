//! Tests with real namespaces. They need root: `cargo test -p quorate-emulation -- --ignored`.

use quorate_emulation::{Change, Emulation, Plan, TcpSettings, address_of};
use quorate_links::Loss;
use quorate_types::Time;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn start(plan: Plan) -> Emulation {
    let values = vec![("tcp_rto_min_us", "5000".to_owned())];
    Emulation::start(plan, &TcpSettings { congestion_control: "cubic".to_owned(), values })
        .expect("root may create namespaces")
}

/// Returns two sockets, each bound in its endpoint's namespace.
fn sockets(emulation: &Emulation) -> [UdpSocket; 2] {
    [0, 1].map(|end| {
        let bind = || UdpSocket::bind((address_of(end), 4000)).expect("the address is free");
        let socket = emulation.namespace(end).within(bind).expect("the namespace is there");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket
    })
}

fn congestion_control(stream: &TcpStream) -> String {
    let (mut name, mut length) = ([0u8; 16], 16);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let got = unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, name.as_mut_ptr().cast(), &raw mut length) };
    assert_eq!(got, 0);
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[test]
#[ignore = "needs root"]
fn privileged_packets_take_their_delay() {
    let emulation = start(Plan::uniform(2, 10 * MS));
    let [one, two] = sockets(&emulation);
    let mut times = Vec::new();
    for _ in 0..20 {
        let sent = Instant::now();
        one.send_to(b"hello", (address_of(1), 4000)).expect("sent");
        let (_, from) = two.recv_from(&mut [0; 9]).expect("received");
        times.push(sent.elapsed());
        assert_eq!(from, (address_of(0), 4000).into(), "endpoints see each other's addresses");
    }
    times.sort();
    assert!(times[10] >= Duration::from_micros(9_800), "{times:?}");
    assert!(times[10] < Duration::from_millis(14), "{times:?}");
}

#[test]
#[ignore = "needs root"]
fn privileged_tcp_moves_bytes_through_loss() {
    let mut plan = Plan::uniform(2, MS);
    plan.links.iter_mut().for_each(|link| link.loss = Loss::Independent { probability: 0.02 });
    let mut emulation = start(plan);
    emulation.begin().expect("begun");
    let listen = || TcpListener::bind((address_of(1), 5000)).expect("the address is free");
    let listener = emulation.namespace(1).within(listen).expect("the namespace is there");
    let bytes = 2_000_000;
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("read");
        all
    });
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let connect = || TcpStream::connect((address_of(1), 5000)).expect("connected");
    let mut stream = emulation.namespace(0).within(connect).expect("the namespace is there");
    stream.write_all(&sent).expect("written");
    assert_eq!(congestion_control(&stream), "cubic", "the host's default may be another one");
    drop(stream);
    assert_eq!(server.join().expect("no panic"), sent);
    let report = emulation.finish().expect("finished");
    assert!(report.counts.lost > 0 && report.kernel.retransmissions > 0, "{report:?}");
    assert!(report.counts.bytes > bytes, "{report:?}");
    assert!(report.counts.packets > bytes / 1500, "no packet exceeds the MTU: {report:?}");
    assert_eq!(report.kernel.not_routed, 0, "the router kept up");
    assert_eq!(report.refused, [] as [String; 0]);
    assert!(report.idle.probes > 150 && report.loaded.is_some(), "{report:?}");
}

#[test]
#[ignore = "needs root"]
fn privileged_cuts_begin_and_end_in_time() {
    let cut = |at: u64, begins| (Time(at * MS), Change::Cut(vec![(0, 1)], begins));
    let mut emulation = start(Plan { changes: vec![cut(100, true), cut(600, false)], ..Plan::uniform(2, MS) });
    let [one, two] = sockets(&emulation);
    let passes = || {
        one.send_to(b"hello", (address_of(1), 4000)).expect("sent");
        two.recv_from(&mut [0; 9]).is_ok()
    };
    thread::sleep(Duration::from_millis(150));
    assert!(passes(), "changes wait for the beginning");
    emulation.begin().expect("begun");
    thread::sleep(Duration::from_millis(200));
    assert!(!passes(), "the link is cut");
    thread::sleep(Duration::from_millis(300));
    assert!(passes(), "the cut is over");
    assert_eq!(emulation.finish().expect("finished").counts.cut, 1);
}

#[test]
#[ignore = "needs root"]
fn privileged_settings_that_the_kernel_refuses_are_named() {
    let values = vec![("no_such_key", "1".to_owned())];
    let settings = TcpSettings { congestion_control: "no-such".to_owned(), values };
    let mut emulation = Emulation::start(Plan::uniform(1, MS), &settings).expect("root may create namespaces");
    let report = emulation.finish().expect("finished");
    assert_eq!(report.refused.len(), 2, "{:?}", report.refused);
    assert!(report.refused.iter().any(|line| line.starts_with("congestion control no-such: ")));
}

#[test]
#[ignore = "needs root"]
fn privileged_threads_return_from_a_namespace() {
    let own = || std::fs::read_link("/proc/thread-self/ns/net").expect("a link");
    let before = own();
    let emulation = start(Plan::uniform(1, MS));
    assert_eq!(own(), before, "starting a network moves nobody");
    let entered = emulation.namespace(0).enter().expect("entered");
    assert_ne!(own(), before);
    assert_ne!(thread::spawn(own).join().expect("no panic"), before, "new threads are in the namespace, too");
    drop(entered);
    assert_eq!(own(), before);
}
