//! Costs of the state machine's steps: records the inputs of simulated replicas, and replays them on new replicas.

use super::{CalibrateError, ROUNDS, US_PER_NS};
use crate::partial;
use crate::sim::{SimOptions, sim_spec};
use crate::spec::{BenchSpec, Interval, ProtocolKind};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::{Action, Input, Protocol, Replica};
use quorate_hosting::recording::{Begin, Entry, Header, Recorder, RecordingError, Rerun, Step, Tape};
use quorate_simulator::costs::MemoryCosts;
use quorate_simulator::steps::{StepKind, bundles_in};
use quorate_simulator::{CostTable, recording_header, run_recorded};
use quorate_types::{Decoder, Time, Wire};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Virtual time of a recorded run.
const RECORDED_MS: u64 = 150;
/// Protocols whose steps are averaged: a chained one, and one that votes on slots.
const PROTOCOLS: [ProtocolKind; 2] = [ProtocolKind::Jolteon, ProtocolKind::Pbft];
/// Maximum bundle sizes of the two runs, in commands. The difference gives the cost of a bundle.
const BUNDLES: [u32; 2] = [100, 1];
/// Memory to read between the iterations of different replicas, about the size of a core's own cache: stands for the
/// other threads' memory accesses.
const EVICTED_BYTES: usize = 1 << 20;
const CACHE_LINE_BYTES: usize = 64;
/// Maximum of a plausible factor. A larger one means that other work ran on the machine.
const MAX_FACTOR: f64 = 5.0;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<Entry>>>);

impl Memory {
    fn push(&self, entry: Entry) {
        self.0.lock().expect("nothing panics while it holds this lock").push(entry);
    }
}

impl Tape for Memory {
    fn begin(&mut self, begin: Begin) {
        self.push(Entry::Begin(begin));
    }

    fn step(&mut self, step: Step) {
        self.push(Entry::Step(step));
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        Ok(())
    }

    fn finish(&mut self, _trace: Option<&str>) -> Result<Option<Rerun>, RecordingError> {
        Ok(None)
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// Recorded inputs of all replicas of a run, in the order of their iterations.
struct Recorded {
    protocol: ProtocolKind,
    header: Header,
    entries: Vec<Entry>,
}

fn record(protocol: ProtocolKind, bundle: u32) -> Recorded {
    let spec = {
        let mut spec = BenchSpec {
            bundle,
            outstanding: Some(400),
            warmup: Interval::from_millis(0),
            duration: Interval::from_millis(RECORDED_MS),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = protocol;
        spec.node.consensus.batch = 400.into();
        spec
    };
    let sim = sim_spec(&spec, &SimOptions::default()).expect("the preset and the shipped table are sound");
    let commands = || -> Box<dyn Workload> {
        workload(&WorkloadKind::Fixed, 0, 1, 1, None).expect("empty commands need no settings")
    };
    let tape = Memory::default();
    run_recorded(&sim, 1, &commands, Recorder::new(tape.clone())).expect("memory can be written");
    let entries = std::mem::take(&mut *tape.0.lock().expect("nothing panics while it holds this lock"));
    Recorded { protocol, header: recording_header(&sim), entries }
}

/// Sum over the steps of one kind, or of all kinds.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    ns: f64,
    bundles: u64,
}

impl Sum {
    fn add(&mut self, ns: f64, bundles: usize) {
        (self.count, self.ns, self.bundles) = (self.count + 1, self.ns + ns, self.bundles + bundles as u64);
    }
}

/// A replayed step.
struct Timed {
    kind: StepKind,
    bundles: usize,
    ns: f64,
}

/// Order in which a recording is replayed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caches {
    /// One replica after another.
    Warm,
    /// In recorded order, with other memory read at each change of replica.
    Cold,
}

struct Play<'a> {
    recorded: &'a Recorded,
    caches: Caches,
}

impl ForProtocol for Play<'_> {
    type Output = Vec<Timed>;

    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Vec<Timed> {
        let Recorded { header, entries, .. } = self.recorded;
        let mut replicas: Vec<Option<Replica<P>>> = (0..header.replicas).map(|_| None).collect();
        let mut steps: Vec<&Step> = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                Entry::Begin(Begin { replica, salt }) => {
                    let made = make(header.consensus.clone(), header.quorum(), header.epoch, *replica, *salt);
                    replicas[replica.index()] = Some(made);
                }
                Entry::Step(step) => steps.push(step),
                Entry::End(_) => {}
            }
        }
        if self.caches == Caches::Warm {
            steps.sort_by_key(|step| step.replica);
        }
        let (overhead, other) = (clock_ns(), vec![1u8; EVICTED_BYTES]);
        let (mut timed, mut actions, mut last) = (Vec::with_capacity(steps.len()), Vec::new(), None);
        for step in steps {
            let mut decoder = Decoder::new(step.input.clone());
            let input: Input<P::Message> = Wire::decode(&mut decoder).expect("the recorder has encoded it");
            let replica = replicas[step.replica.index()].as_mut().expect("a replica begins before it steps");
            if self.caches == Caches::Cold && last.replace(step.replica) != Some(step.replica) {
                black_box(other.iter().step_by(CACHE_LINE_BYTES).map(|byte| u64::from(*byte)).sum::<u64>());
            }
            let (kind, bundles) = (StepKind::of(&input), bundles_in(&input));
            let ns = (time_step(replica, step.now, input, &mut actions) - overhead).max(0.0);
            timed.push(Timed { kind, bundles, ns });
        }
        timed
    }
}

fn time_step<P: Protocol>(
    replica: &mut Replica<P>,
    now: Time,
    input: Input<P::Message>,
    actions: &mut Vec<Action<P::Message>>,
) -> f64 {
    let start = Instant::now();
    replica.step(now, input, actions);
    actions.clear();
    start.elapsed().as_nanos() as f64
}

/// Returns the overhead of reading the clock, in nanoseconds.
fn clock_ns() -> f64 {
    const READINGS: u32 = 10_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// Replays a recording several times. Keeps the fastest time of each step, because other work on the machine only adds
/// time and the steps are the same each time.
fn replay(recorded: &Recorded, caches: Caches) -> Vec<Timed> {
    let mut best: Vec<Timed> = for_protocol(recorded.protocol, Play { recorded, caches });
    for _ in 1..ROUNDS {
        let again = for_protocol(recorded.protocol, Play { recorded, caches });
        best.iter_mut().zip(again).for_each(|(best, again)| best.ns = best.ns.min(again.ns));
    }
    best
}

/// Steps of all kinds, summed over all protocols.
#[derive(Default)]
struct Sums {
    kinds: [Sum; StepKind::ALL.len()],
    all: Sum,
}

impl Sums {
    fn add(&mut self, timed: &[Timed]) {
        for Timed { kind, bundles, ns } in timed {
            self.kinds[*kind as usize].add(*ns, *bundles);
            self.all.add(*ns, *bundles);
        }
    }
}

/// Splits the time into steps and bundles, so that their sum is the measured time both with few bundles (`large`) and
/// with many (`small`). Returns the ratio of each kind's mean step to the mean of all, with few bundles, and the time
/// per bundle in nanoseconds.
fn split(large: &Sums, small: &Sums) -> (f64, f64) {
    let mean = |at: usize| large.kinds[at].ns / large.kinds[at].count.max(1) as f64;
    let by_steps: f64 = small.kinds.iter().enumerate().map(|(at, sum)| sum.count as f64 * mean(at)).sum();
    let per_bundle = large.all.bundles as f64 / large.all.ns.max(1.0);
    let more = small.all.bundles as f64 - per_bundle * by_steps;
    let bundle = if more > 0.0 { ((small.all.ns - by_steps) / more).max(0.0) } else { 0.0 };
    ((1.0 - bundle * per_bundle).clamp(0.0, 1.0), bundle)
}

/// Measures steps by their input, the cost per bundle, and the factor of cold caches.
pub(super) fn steps(table: &mut CostTable) -> Result<(), CalibrateError> {
    let (mut by_bundles, mut warm, mut cold) = ([Sums::default(), Sums::default()], 0.0, 0.0);
    for protocol in PROTOCOLS {
        if !partial::goes_on() {
            return Ok(());
        }
        for (sums, bundle) in by_bundles.iter_mut().zip(BUNDLES) {
            let recorded = record(protocol, bundle);
            let timed = replay(&recorded, Caches::Warm);
            sums.add(&timed);
            if bundle == BUNDLES[0] {
                warm += timed.iter().map(|step| step.ns).sum::<f64>();
                cold += replay(&recorded, Caches::Cold).iter().map(|step| step.ns).sum::<f64>();
            }
        }
    }
    let [large, small] = &by_bundles;
    let (factor, bundle) = split(large, small);
    for kind in StepKind::ALL {
        let Sum { count, ns, .. } = large.kinds[kind as usize];
        *table.steps.entry(kind) = (count > 0).then(|| US_PER_NS * factor * ns / count as f64);
    }
    table.core.step_us = US_PER_NS * factor * large.all.ns / large.all.count.max(1) as f64;
    table.core.pool_us = US_PER_NS * bundle;
    table.memory = MemoryCosts { cold_factor: (cold / warm.max(1.0)).clamp(1.0, MAX_FACTOR) };
    Ok(())
}

/// Runs `work` once, and returns its result and its duration.
pub(super) fn once<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
