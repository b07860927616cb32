//! Stages of a thread's work. The test's own clocks advance only while work is done.

use quorate_types::Hasher;
use quorate_types::stages::{
    self, Clocks, MessageKind, Stage, StageCell, StageCost, StageCounts, StageRole, TURNS_PER_SAMPLE, Traffic,
};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static CYCLES: Cell<u64> = const { Cell::new(0) };
    static CPU_NS: Cell<u64> = const { Cell::new(0) };
}

/// Begins to measure on this thread. The rate of the test's counter is unknown, so all CPU times are made long.
fn begin() {
    stages::switch_on(Clocks { name: "test", cycles: || CYCLES.get(), thread_cpu_ns: || CPU_NS.get() });
    CYCLES.set(CYCLES.get() + 1);
    // The counter has no rate until time has passed.
    std::thread::sleep(Duration::from_millis(2));
    stages::begin_thread();
}

fn pass(cycles: u64) {
    CYCLES.set(CYCLES.get() + cycles);
}

/// Runs `work` in each iteration. `kept` returns whether the thread keeps its processor in the iteration with this
/// number, from 1.
fn turns(count: u64, kept: impl Fn(u64) -> bool, work: impl Fn()) -> StageCounts {
    for turn in 1..=count {
        stages::begin_turn(true);
        work();
        CPU_NS.set(CPU_NS.get() + if kept(turn) { 1 << 40 } else { 0 });
        stages::end_turn();
    }
    stages::of_this_thread().expect("the thread measures")
}

fn cost(costs: &[StageCost], message: MessageKind, stage: Stage) -> (Option<u64>, u64) {
    let own = costs.iter().find(|cost| (cost.message, cost.stage) == (message, stage));
    own.map_or((None, 0), |own| (own.cycles.map(|cycles| cycles.round() as u64), own.count))
}

/// A nested stage interrupts the outer one, and a nested message does too.
#[test]
fn times_are_exclusive() {
    begin();
    // At this rate everything that follows is too short for an interruption.
    drop(steady_rate());
    let counts = turns(
        TURNS_PER_SAMPLE * 10,
        |_| true,
        || {
            pass(1);
            let _message = stages::message(MessageKind::Unread, 1);
            {
                let _stage = stages::enter(Stage::Unmarshal);
                pass(100);
                {
                    let _stage = stages::enter(Stage::Hash);
                    pass(1000);
                }
                pass(100);
            }
            stages::name(MessageKind::Commit);
            let _stage = stages::enter(Stage::Step);
            pass(10);
            {
                let _sent = stages::message(MessageKind::Reply, 5);
                let _stage = stages::enter(Stage::Marshal);
                pass(50);
            }
            pass(10);
            // A second entry belongs to the same message.
            let _stage = stages::enter(Stage::Hash);
            pass(7);
        },
    );
    let costs = counts.costs();
    let turns = TURNS_PER_SAMPLE * 10;
    let of = |message, stage| cost(&costs, message, stage);
    assert_eq!(of(MessageKind::Commit, Stage::Unmarshal), (Some(200), turns));
    assert_eq!(of(MessageKind::Commit, Stage::Hash), (Some(1007), turns));
    assert_eq!(of(MessageKind::Commit, Stage::Step), (Some(20), turns));
    assert_eq!(of(MessageKind::Reply, Stage::Marshal), (Some(10), 5 * turns), "one message each");
    assert_eq!(of(MessageKind::None, Stage::Host), (Some(1), turns));
    assert_eq!(of(MessageKind::Unread, Stage::Unmarshal), (None, 0), "it has a name");
    assert_eq!(of(MessageKind::Commit, Stage::Host).1, turns, "the host's part is of the same messages");
    assert!(costs.iter().all(|cost| cost.role == StageRole::Leader));
    assert_eq!(counts.timed_cycles(), 10 * (200 + 1007 + 20 + 50 + 1), "the sum is all that passed in timed turns");
}

/// Returns a function from nanoseconds to cycles of the test's counter. The more time and cycles have passed, the less
/// a test's additions change the rate.
fn steady_rate() -> impl Fn(u64) -> u64 {
    pass(1 << 50);
    std::thread::sleep(Duration::from_millis(100));
    let rate = stages::of_this_thread().expect("the thread measures").counter_hz / 1e9;
    move |ns| (ns as f64 * rate) as u64
}

/// Work of another thread on the same processor is subtracted from the interrupted stage.
#[test]
fn interruptions_are_taken_off_where_they_were() {
    begin();
    let cycles = steady_rate();
    let work = |cpu_ns: u64, wall_ns: u64| {
        CPU_NS.set(CPU_NS.get() + cpu_ns);
        pass(cycles(wall_ns));
    };
    for _ in 0..TURNS_PER_SAMPLE {
        stages::begin_turn(true);
        work(10_000, 10_000);
        {
            let _stage = stages::enter(Stage::Execute);
            work(200_000, 1_000_000);
        }
        {
            let _stage = stages::enter(Stage::Sign);
            work(5_000, 5_000);
            let _stage = stages::enter(Stage::Hash);
            work(20_000, 500_000);
        }
        stages::end_turn();
    }
    let counts = stages::of_this_thread().expect("the thread measures");
    assert_eq!(counts.turns, [TURNS_PER_SAMPLE, 1, 0]);
    let costs = counts.costs();
    for (stage, ns) in [(Stage::Host, 10_000), (Stage::Execute, 200_000), (Stage::Sign, 5_000), (Stage::Hash, 20_000)] {
        let found = cost(&costs, MessageKind::None, stage).0.expect("it was timed") as f64 / cycles(1_000_000) as f64;
        let ratio = found * 1e6 / ns as f64;
        // The rate grows by half while cycles pass in no time.
        assert!((0.5..2.0).contains(&ratio), "{stage:?}: {ratio} of {ns} ns");
    }
}

/// If many short stages together exceed the CPU time, it is unknown which were interrupted.
#[test]
fn a_turn_whose_times_do_not_add_up_does_not_count() {
    begin();
    let cycles = steady_rate();
    let work = || {
        for _ in 0..100 {
            let _stage = stages::enter(Stage::Persist);
            pass(cycles(10_000));
        }
    };
    let kept = turns(TURNS_PER_SAMPLE * 3, |_| true, work);
    assert_eq!(kept.turns, [TURNS_PER_SAMPLE * 3, 3, 0]);
    let lost = turns(TURNS_PER_SAMPLE, |_| false, work).since(&kept);
    assert_eq!(lost.turns, [TURNS_PER_SAMPLE, 1, 1]);
    assert_eq!(cost(&kept.costs(), MessageKind::None, Stage::Persist).1, TURNS_PER_SAMPLE * 3);
    let costs = lost.costs();
    assert_eq!(cost(&costs, MessageKind::None, Stage::Persist), (None, TURNS_PER_SAMPLE), "counted, but not timed");
}

/// Every second half of [`TURNS_PER_SAMPLE`] iterations works: an equidistant sample would find all of the work, or
/// none.
#[test]
fn a_sample_does_not_keep_step_with_the_work() {
    begin();
    drop(steady_rate());
    let (groups, turn) = (1_000, Cell::new(0));
    let counts = turns(
        TURNS_PER_SAMPLE * groups,
        |_| true,
        || {
            turn.set((turn.get() + 1) % TURNS_PER_SAMPLE);
            let _stage = (turn.get() < TURNS_PER_SAMPLE / 2).then(|| stages::enter(Stage::Execute));
        },
    );
    let found = cost(&counts.costs(), MessageKind::None, Stage::Execute).1 as f64;
    let expected = (TURNS_PER_SAMPLE / 2 * groups) as f64;
    // Four standard deviations of a thousand draws between equal halves are 0.13.
    assert!((found / expected - 1.0).abs() < 0.13, "{found} of {expected}");
}

#[test]
fn another_thread_measures_nothing() {
    begin();
    let other = std::thread::spawn(|| {
        let _stage = stages::enter(Stage::Step);
        Hasher::new(*b"test").finish();
        stages::of_this_thread()
    });
    assert_eq!(other.join().expect("it does not panic"), None);
}

#[test]
fn work_of_another_thread_is_added_where_it_was_asked_for() {
    begin();
    stages::begin_turn(false);
    while stages::here().is_none() {
        stages::begin_turn(false);
    }
    let place = {
        let _message = stages::message(MessageKind::Request, 3);
        stages::here().expect("the thread measures")
    };
    // The counter's rate follows from the time and cycles so far.
    pass(1 << 40);
    stages::add_elsewhere(place, Stage::Authenticate, 1_000_000);
    let costs = stages::of_this_thread().expect("the thread measures").costs();
    let own = costs.iter().find(|cost| cost.stage == Stage::Authenticate).expect("it was added");
    assert_eq!((own.message, own.role, own.count), (MessageKind::Request, StageRole::Backup, 3));
    // The rate changes between the two readings.
    assert!(own.nanoseconds.is_some_and(|ns| ns > 0.0), "{own:?}");
}

/// Frames of several kinds divide the cost of a system call by their number and bytes; clients' frames have a separate
/// one.
#[test]
fn frames_share_the_cost_of_moving_them() {
    let index = |kind: MessageKind| kind as usize;
    let cell = |message, stage: Stage, sampled, timed, cycles| StageCell {
        role: 0,
        message: index(message),
        stage: stage as usize,
        sampled,
        timed,
        cycles,
    };
    let frames = |message, frames, bytes| Traffic {
        role: 0,
        message: index(message),
        is_sent: false,
        frames,
        bytes,
        sampled: frames,
    };
    let counts = StageCounts {
        counter: "test".into(),
        counter_hz: 2e9,
        turns: [7, 1, 0],
        timed_cpu_ns: 0,
        cells: vec![
            cell(MessageKind::None, Stage::Receive, 30, 10, 1000),
            cell(MessageKind::Request, Stage::Receive, 4, 2, 500),
        ],
        traffic: vec![
            frames(MessageKind::Prepare, 20, 0),
            frames(MessageKind::Commit, 10, 10 * 256),
            frames(MessageKind::Request, 4, 4000),
        ],
    };
    let costs = counts.costs();
    let of = |message| cost(&costs, message, Stage::Receive);
    assert_eq!(of(MessageKind::Request), (Some(250), 4));
    assert_eq!((of(MessageKind::Prepare), of(MessageKind::Commit)), ((Some(75), 20), (Some(150), 10)));
    assert_eq!(of(MessageKind::None), (None, 0), "all of it is shared");
    assert_eq!(costs[0].nanoseconds.zip(costs[0].cycles).map(|(ns, cycles)| cycles / ns), Some(2.0));
}

#[test]
fn growth_adds_up() {
    begin();
    let work = || {
        let _message = stages::message(MessageKind::Vote, 1);
        stages::received(MessageKind::Vote, 100);
        let _stage = stages::enter(Stage::Step);
        pass(40);
    };
    let first = turns(TURNS_PER_SAMPLE * 3, |_| true, work);
    let second = turns(TURNS_PER_SAMPLE * 2, |_| true, work);
    let mut sum = first.clone();
    sum.add(&second.since(&first));
    assert_eq!((sum.cells, sum.traffic, sum.turns), (second.cells, second.traffic, second.turns));
}
