//! A network driven by a dedicated thread, over a test transport: bounds, blocking, and shutdown.

use bytes::Bytes;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_network::transports::{Counters, Event, LinkId, Remote, Transport};
use quorate_node::network::{
    Arrival, DeferredFrame, EncodeFrame, MAX_ARRIVED_BYTES, MAX_COMMANDED_BYTES, Network, Wakeup,
};
use quorate_types::{ClientId, Encoder, Lane, PayloadPath, ReplicaId};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(60);
const FRAME_BYTES: usize = 64 << 10;
const CLIENT: LinkId = LinkId(7);

/// A test's view and control of its transport.
#[derive(Default)]
struct Desk {
    /// Bytes of frames that the transport has produced.
    produced: AtomicUsize,
    produces: AtomicBool,
    /// Numbers of the frames passed to it, in order.
    sent: Mutex<Vec<u64>>,
    /// Whether sending blocks.
    is_stuck: AtomicBool,
    fails: AtomicBool,
    panics: AtomicBool,
    wakes: AtomicU64,
    woken: (Mutex<bool>, Condvar),
}

impl Desk {
    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        *self.woken.0.lock().unwrap() = true;
        self.woken.1.notify_all();
    }
}

struct Fake(Arc<Desk>);

impl Transport for Fake {
    fn send_to(&mut self, _to: ReplicaId, frame: Bytes, _lane: Lane) {
        while self.0.is_stuck.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.0.sent.lock().unwrap().push(u64::from_le_bytes(frame[..8].try_into().unwrap()));
    }

    fn send(&mut self, _link: LinkId, frame: Bytes) {
        self.send_to(ReplicaId(0), frame, Lane::Ordinary);
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        assert!(!self.0.panics.load(Ordering::SeqCst), "the transport panics");
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the transport fails"));
        }
        if self.0.produces.load(Ordering::SeqCst) {
            self.0.produced.fetch_add(FRAME_BYTES, Ordering::SeqCst);
            let remote = Remote::Client(ClientId(1));
            events.push(Event::Received { link: CLIENT, remote, frame: Bytes::from_static(&[255; FRAME_BYTES]) });
            return Ok(());
        }
        let mut woken = self.0.woken.0.lock().unwrap();
        if !*woken {
            woken = self.0.woken.1.wait_timeout(woken, timeout.unwrap_or(HANG)).unwrap().0;
        }
        *woken = false;
        Ok(())
    }

    fn release(&mut self, _link: LinkId, _bytes: usize) {}

    fn is_congested(&self, _link: LinkId) -> bool {
        false
    }

    fn vouch(&mut self, _link: LinkId, _genuine: bool) {}

    fn close(&mut self, _link: LinkId, _why: String) {}

    fn is_connected(&self, replica: ReplicaId) -> bool {
        replica == ReplicaId(2)
    }

    fn counters(&self) -> Counters {
        Counters { frames_sent: self.0.sent.lock().unwrap().len() as u64, ..Counters::default() }
    }

    fn stop_accepting(&mut self) {}

    fn has_unsent(&self) -> bool {
        false
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let desk = self.0.clone();
        Arc::new(move || desk.wake())
    }
}

/// Starts a network driven by a thread.
fn start() -> (Arc<Desk>, Wakeup, Network<ViewMessage>) {
    let desk = Arc::new(Desk::default());
    let transport = Box::new(Fake(desk.clone()));
    let wakeup = Wakeup::new(transport.waker());
    let mut network = Network::new(transport, wakeup.clone());
    network.start(ReplicaId(0), 4, PayloadPath::Shared, false).expect("a thread starts");
    (desk, wakeup, network)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "timed out: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn numbered(number: u64, bytes: usize) -> Bytes {
    let mut frame = vec![0; bytes.max(8)];
    frame[..8].copy_from_slice(&number.to_le_bytes());
    frame.into()
}

#[test]
fn arrivals_are_bounded_and_orders_are_carried_out_meanwhile() {
    let (desk, _wakeup, mut network) = start();
    desk.produces.store(true, Ordering::SeqCst);
    desk.wake();
    until("the box is full", || desk.produced.load(Ordering::SeqCst) >= MAX_ARRIVED_BYTES);
    // A network that does not stop reading would continue meanwhile.
    thread::sleep(Duration::from_millis(50));
    let most = MAX_ARRIVED_BYTES + FRAME_BYTES;
    assert!(desk.produced.load(Ordering::SeqCst) <= most, "{} bytes", desk.produced.load(Ordering::SeqCst));
    network.send(CLIENT, numbered(1, 8));
    network.flush_replicas();
    until("the order is carried out", || desk.sent.lock().unwrap().len() == 1);
    // The counters are also available while nothing is taken.
    assert_eq!(network.report().counters.frames_sent, 1);
    assert!(desk.produced.load(Ordering::SeqCst) <= most, "nothing was taken");
    let mut arrived = Vec::new();
    network.poll(None, &mut arrived).expect("the transport works");
    let taken: usize = arrived.iter().map(Arrival::bytes).sum();
    assert!(taken >= MAX_ARRIVED_BYTES, "{taken} bytes");
    until("the network goes on", || desk.produced.load(Ordering::SeqCst) > most);
}

#[test]
fn orders_are_bounded_and_keep_their_order() {
    const FRAMES: u64 = 2_000;
    let (desk, _wakeup, mut network) = start();
    desk.is_stuck.store(true, Ordering::SeqCst);
    let ordered = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..FRAMES {
                network.send_to(ReplicaId(1), numbered(number, FRAME_BYTES), Lane::Ordinary);
                ordered.store(number + 1, Ordering::SeqCst);
            }
            network.poll(Some(Duration::ZERO), &mut Vec::new()).expect("the transport works");
        });
        // Frames taken by the network, frames queued for it, and frames to be passed on next.
        let most = 2 * MAX_COMMANDED_BYTES / FRAME_BYTES + 64;
        until("the box is full", || ordered.load(Ordering::SeqCst) as usize * FRAME_BYTES >= MAX_COMMANDED_BYTES);
        thread::sleep(Duration::from_millis(50));
        assert!(ordered.load(Ordering::SeqCst) as usize <= most, "{} frames", ordered.load(Ordering::SeqCst));
        desk.is_stuck.store(false, Ordering::SeqCst);
    });
    until("all are sent", || desk.sent.lock().unwrap().len() as u64 == FRAMES);
    assert!(desk.sent.lock().unwrap().iter().copied().eq(0..FRAMES), "the frames are out of order");
}

/// A frame that the network encodes, one at a time, while the test holds `gate`.
fn deferred(number: u64, gate: &Arc<Mutex<()>>) -> DeferredFrame {
    let gate = gate.clone();
    let encode = Box::new(move |encoder: &mut Encoder| {
        drop(gate.lock().unwrap());
        encoder.put_u64(number);
        encoder.take()
    });
    DeferredFrame { link: CLIENT, bytes: 8, times: 1, encode }
}

/// Records that a frame is being encoded.
fn announcing(begun: &Arc<AtomicBool>, encode: EncodeFrame) -> EncodeFrame {
    let begun = begun.clone();
    Box::new(move |encoder: &mut Encoder| {
        begun.store(true, Ordering::SeqCst);
        encode(encoder)
    })
}

#[test]
fn messages_to_replicas_do_not_wait_for_many_frames_to_be_encoded() {
    const FRAMES: u64 = 200;
    let (desk, _wakeup, mut network) = start();
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let first = DeferredFrame { encode: announcing(&begun, deferred(0, &gate).encode), ..deferred(0, &gate) };
    network.send_deferred(first);
    (1..FRAMES).for_each(|number| network.send_deferred(deferred(number, &gate)));
    network.flush_replicas();
    // The thread encodes the first of them for longer than it may without checking its commands.
    until("the thread encodes", || begun.load(Ordering::SeqCst));
    network.send_to(ReplicaId(1), numbered(FRAMES, 8), Lane::Ordinary);
    network.flush_replicas();
    thread::sleep(Duration::from_millis(1));
    drop(held);
    until("all are sent", || desk.sent.lock().unwrap().len() as u64 == FRAMES + 1);
    let sent = desk.sent.lock().unwrap().clone();
    let place = sent.iter().position(|number| *number == FRAMES).expect("it is sent");
    assert_eq!(place, 1, "only the frame that was being encoded went before");
    assert!(sent.iter().filter(|number| **number != FRAMES).copied().eq(0..FRAMES), "clients' frames keep their order");
    // The thread has encoded all frames before it ends.
    (0..FRAMES).for_each(|number| network.send_deferred(deferred(number, &gate)));
    network.take_back();
    assert_eq!(desk.sent.lock().unwrap().len() as u64, 2 * FRAMES + 1);
    // Without a thread they are encoded here, immediately.
    assert!(!network.has_io_thread());
    network.send_deferred(deferred(7, &gate));
    assert_eq!(desk.sent.lock().unwrap().last(), Some(&7));
}

#[test]
fn a_wakeup_ends_the_wait_of_the_replica_and_not_that_of_the_network() {
    let (desk, wakeup, mut network) = start();
    let ring = wakeup.waker();
    let ringer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        ring();
    });
    network.poll(None, &mut Vec::new()).expect("the transport works");
    ringer.join().expect("the wakeup rings");
    assert_eq!(desk.wakes.load(Ordering::SeqCst), 0);
    let begun = Instant::now();
    network.poll(Some(Duration::from_millis(30)), &mut Vec::new()).expect("the transport works");
    assert!(begun.elapsed() >= Duration::from_millis(30), "one ring ends one wait");
}

#[test]
fn a_taken_back_network_has_sent_everything_and_works_on() {
    let (desk, wakeup, mut network) = start();
    for number in 0..10 {
        network.send(CLIENT, numbered(number, 8));
    }
    assert!([1, 2, 3].map(|other| network.is_connected(ReplicaId(other))) == [false, true, false]);
    network.take_back();
    assert_eq!(desk.sent.lock().unwrap().len(), 10);
    network.send(CLIENT, numbered(10, 8));
    assert_eq!(network.report().counters.frames_sent, 11);
    wakeup.waker()();
    network.poll(None, &mut Vec::new()).expect("the wakeup wakes the transport again");
}

#[test]
fn failures_and_panics_reach_the_replica() {
    let (desk, _wakeup, mut network) = start();
    desk.fails.store(true, Ordering::SeqCst);
    desk.wake();
    let failed = network.poll(None, &mut Vec::new()).expect_err("the transport fails");
    assert_eq!(failed.to_string(), "the transport fails");
    // Nothing waits for a thread that has ended.
    network.report();
    for number in 0..1000 {
        network.send(CLIENT, numbered(number, FRAME_BYTES));
    }
    drop(network);
    let (desk, _wakeup, mut network) = start();
    desk.panics.store(true, Ordering::SeqCst);
    desk.wake();
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| network.poll(None, &mut Vec::new())));
    let text = panicked.expect_err("the transport panics");
    assert_eq!(text.downcast_ref::<&str>(), Some(&"the transport panics"));
}
