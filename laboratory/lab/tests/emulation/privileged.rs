//! Tests with real namespaces. They need root: `cargo test -p quorate-lab -- --ignored`.
//!
//! Each test runs with the router and with netem. A kernel without netem skips the latter and prints the reason.

use quorate_lab::emulation::{Change, Emulation, EmulationError, Emulator, Normal, Plan, TcpSettings, address_of};
use quorate_simulator::links::Loss;
use quorate_types::Time;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn settings() -> TcpSettings {
    TcpSettings { congestion_control: "cubic".to_owned(), values: Vec::new() }
}

fn start_on(plan: &Plan, emulator: Emulator) -> Emulation {
    Emulation::start(plan, &settings(), emulator).unwrap_or_else(|error| panic!("{emulator}: {error}"))
}

/// Returns the emulators available on this host.
fn emulators() -> Vec<Emulator> {
    match Emulation::start(&Plan::uniform(1, 0), &settings(), Emulator::Netem) {
        Ok(_) => vec![Emulator::Router, Emulator::Netem],
        Err(EmulationError::Netem { step, source })
            if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) =>
        {
            println!("netem is skipped: the kernel does not {step}: {source}");
            vec![Emulator::Router]
        }
        Err(other) => panic!("{other}"),
    }
}

/// Calls `check` with a network for each emulator of this host.
fn on_each(plan: &Plan, check: impl Fn(Emulation)) {
    for emulator in emulators() {
        println!("over {emulator}");
        check(start_on(plan, emulator));
    }
}

/// Sends numbered datagrams from endpoint 0 to 1 at a fixed pace. Returns the numbers and times of the received ones.
fn numbered(emulation: &Emulation, datagrams: u32, bytes: usize, pause: Duration) -> Vec<(u32, Duration)> {
    let [one, two] = sockets(emulation);
    let start = Instant::now();
    let receive = thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 2048]);
        while two.recv_from(&mut buffer).is_ok() {
            let number = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
            let sent = Duration::from_nanos(u64::from_be_bytes(buffer[4..12].try_into().expect("eight bytes")));
            all.push((number, start.elapsed().saturating_sub(sent)));
        }
        all
    });
    for number in 0..datagrams {
        let mut datagram = vec![0; bytes];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        datagram[4..12].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
        one.send_to(&datagram, (address_of(1), 4000)).expect("sent");
        thread::sleep(pause);
    }
    receive.join().expect("no panic")
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
    // SAFETY: the kernel writes no more bytes than the buffer holds.
    let got = unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, name.as_mut_ptr().cast(), &raw mut length) };
    assert_eq!(got, 0);
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[test]
#[ignore = "needs root"]
fn privileged_packets_take_their_delay() {
    on_each(&Plan::uniform(2, 10 * MS), |emulation| {
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
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_links_differ_in_each_direction() {
    let mut plan = Plan::uniform(3, 2 * MS);
    plan.links[1].delay_ns = 20 * MS;
    on_each(&plan, |emulation| {
        let least = |pause| numbered(&emulation, 10, 64, pause).into_iter().map(|(_, time)| time).min();
        let forth = least(Duration::from_millis(1)).expect("nothing is lost");
        assert!(forth >= Duration::from_micros(19_700), "{forth:?}");
        let [one, two] = sockets(&emulation);
        let back = (0..10).map(|_| {
            let sent = Instant::now();
            two.send_to(b"back", (address_of(0), 4000)).expect("sent");
            one.recv_from(&mut [0; 9]).expect("received");
            sent.elapsed()
        });
        let back = back.min().expect("ten times");
        assert!(back < forth / 2, "the way back is short: {back:?}");
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_jitter_and_a_normal_distribution_keep_the_order() {
    let normal = Normal { mean_ns: 6e6, deviation_ns: 3e6, least_ns: 2e6, most_ns: 9e6 };
    let plan = Plan { normal: Some(normal), jitter_ns: 2 * MS, ..Plan::uniform(2, 0) };
    on_each(&plan, |emulation| {
        let arrived = numbered(&emulation, 300, 64, Duration::from_micros(200));
        assert_eq!(arrived.len(), 300);
        assert!(arrived.is_sorted_by_key(|(number, _)| *number), "packets of one flow stay in order");
        // A packet waits for its predecessors, which is rare at a slow pace.
        let slow = numbered(&emulation, 60, 64, Duration::from_millis(12));
        let mut times: Vec<Duration> = slow.into_iter().map(|(_, time)| time).collect();
        times.sort();
        assert!(times[59] - times[0] > Duration::from_millis(3), "{times:?}");
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_bursts_lose_packets_in_a_row() {
    let mut plan = Plan::uniform(2, MS);
    plan.links[1].loss = Loss::Bursts { enter: 0.02, leave: 0.2, good: 0.0, bad: 1.0 };
    on_each(&plan, |mut emulation| {
        emulation.begin().expect("begun");
        const DATAGRAMS: u32 = 3000;
        let arrived = numbered(&emulation, DATAGRAMS, 64, Duration::from_micros(50));
        let lost = DATAGRAMS as usize - arrived.len();
        // One in eleven is lost on average, in bursts of five; with independent losses the mean burst would be 1.1.
        assert!((120..480).contains(&lost), "{lost} of {DATAGRAMS}");
        let gaps: Vec<u32> = arrived.windows(2).map(|two| two[1].0 - two[0].0 - 1).filter(|gap| *gap > 0).collect();
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((3.0..8.0).contains(&mean), "bursts of {mean} on average");
        let report = emulation.finish().expect("finished");
        assert_eq!(report.counts.lost, lost as u64, "{report:?}");
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_cards_take_their_time() {
    // Both interfaces have 8 Mbit/s, that is, one microsecond per byte.
    let nics = Plan { egress_ps_per_byte: 1_000_000, ingress_ps_per_byte: 1_000_000, ..Plan::uniform(2, MS) };
    on_each(&nics, |emulation| {
        let arrived = numbered(&emulation, 50, 972, Duration::ZERO);
        assert_eq!(arrived.len(), 50);
        // 50 packets of 1000 bytes; the last one passes both interfaces.
        let last = arrived[49].1;
        assert!(last >= Duration::from_millis(48), "{last:?}");
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_tcp_moves_bytes_through_loss() {
    let mut plan = Plan::uniform(2, MS);
    plan.links.iter_mut().for_each(|link| link.loss = Loss::Independent { probability: 0.02 });
    on_each(&plan, move_bytes);
}

fn move_bytes(mut emulation: Emulation) {
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
    let plan = Plan { changes: vec![cut(100, true), cut(600, false)], ..Plan::uniform(2, MS) };
    on_each(&plan, |mut emulation| {
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
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_spikes_and_losses_begin_and_heal() {
    let pair = vec![(0, 1)];
    let changes = vec![
        (Time(0), Change::Spike(pair.clone(), 50 * MS)),
        (Time(1000 * MS), Change::Lose(pair, 1.0)),
        (Time(2000 * MS), Change::Heal),
    ];
    on_each(&Plan { changes, ..Plan::uniform(2, MS) }, |mut emulation| {
        emulation.begin().expect("begun");
        let began = Instant::now();
        let until = |ms| thread::sleep((began + Duration::from_millis(ms)).saturating_duration_since(Instant::now()));
        let times = |emulation: &Emulation| numbered(emulation, 3, 64, Duration::ZERO);
        until(200);
        let delayed = times(&emulation);
        assert!(delayed.iter().all(|(_, time)| *time >= Duration::from_millis(50)), "{delayed:?}");
        until(1200);
        assert_eq!(times(&emulation), []);
        until(2200);
        let healed = times(&emulation);
        assert!(healed.iter().any(|(_, time)| *time < Duration::from_millis(50)), "{healed:?}");
        let report = emulation.finish().expect("finished");
        assert_eq!((report.counts.lost, report.counts.cut, report.counts.packets), (3, 0, 9), "{report:?}");
    });
}

#[test]
#[ignore = "needs root"]
fn privileged_auto_says_why_it_takes_the_router() {
    let plan = Plan { bit_error_rate: 1e-9, ..Plan::uniform(2, MS) };
    let mut emulation = start_on(&plan, Emulator::Auto);
    let report = emulation.finish().expect("finished");
    assert_eq!(report.emulator, Emulator::Router);
    assert!(report.fallback.expect("a reason").contains("`bit_error_rate`"));
    let refused = Emulation::start(&plan, &settings(), Emulator::Netem).err().expect("netem cannot do this");
    assert!(refused.to_string().ends_with("with the same probability (`bit_error_rate`)"), "{refused}");
    let all = emulators();
    let report = start_on(&Plan::uniform(2, MS), Emulator::Auto).finish().expect("finished");
    assert_eq!(Some(&report.emulator), all.last(), "netem where the kernel has it");
    assert_eq!(report.fallback.is_none(), all.len() == 2, "{:?}", report.fallback);
}

#[test]
#[ignore = "needs root"]
fn privileged_settings_that_the_kernel_refuses_are_named() {
    let values = vec![("no_such_key", "1".to_owned())];
    let settings = TcpSettings { congestion_control: "no-such".to_owned(), values };
    for emulator in emulators() {
        let mut emulation = Emulation::start(&Plan::uniform(1, MS), &settings, emulator).expect("root may do this");
        let report = emulation.finish().expect("finished");
        assert_eq!(report.refused.len(), 2, "{:?}", report.refused);
        assert!(report.refused.iter().any(|line| line.starts_with("congestion control no-such: ")));
    }
}

#[test]
#[ignore = "needs root"]
fn privileged_threads_return_from_a_namespace() {
    let own = || std::fs::read_link("/proc/thread-self/ns/net").expect("a link");
    let before = own();
    on_each(&Plan::uniform(1, MS), |emulation| {
        assert_eq!(own(), before, "starting a network moves nobody");
        let entered = emulation.namespace(0).enter().expect("entered");
        assert_ne!(own(), before);
        assert_ne!(thread::spawn(own).join().expect("no panic"), before, "new threads are in the namespace, too");
        drop(entered);
        assert_eq!(own(), before);
    });
}
