//! Measures the number of scenarios per second that one core plays: `cargo run --release -p quorate-adversary --example
//! scenarios`.
//!
//! The workload is a sample of scenarios with four replicas and two partitions, drawn from seed 7. Only this thread's
//! CPU time counts, so other work on the machine has no effect. The arguments are a protocol, and the numbers of
//! scenarios, rounds and twins: `jolteon 20000 7 1`. The hash at the end covers every verdict, so that two builds can
//! be compared scenario by scenario.

use quorate_adversary::twins::play::player;
use quorate_adversary::twins::run::{Choice, Source};
use quorate_adversary::twins::{Participants, Shape, Space};
use quorate_consensus::config::ProtocolKind;
use quorate_types::Quorum;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Returns this thread's CPU time; Linux only.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says how long threads ran");
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("the first figure is a time"))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "jolteon".to_owned());
    let named = ProtocolKind::ALL.iter().find(|protocol| protocol.to_string() == name);
    let protocol = *named.unwrap_or_else(|| panic!("{name} is not one of {:?}", ProtocolKind::ALL));
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (scenarios, rounds, twins) = (number(20_000), number(7) as usize, number(1) as usize);
    let participants = Participants::new(Quorum::of(4).expect("a sound size"), twins);
    let shape = Shape { participants, partitions: 2, rounds, one_way: false, pruned: true };
    let space = Space::new(shape).expect("it can be counted");
    let source = Source::Space(&space, Choice::Sample { scenarios, seed: 7 });
    let (mut play, mut verdicts, mut wrong) = (player(protocol), DefaultHasher::new(), 0);
    let start = on_processor();
    for number in 0..scenarios {
        let verdict = play(&source.scenario(number));
        if let Some(violation) = verdict.violation() {
            wrong += 1;
            (number, violation.property, &violation.what).hash(&mut verdicts);
        }
    }
    let seconds = (on_processor() - start).as_secs_f64();
    let (rate, hash) = (scenarios as f64 / seconds, verdicts.finish());
    println!("{protocol}: {rate:.0} scenarios/s ({scenarios} in {seconds:.2} s), {wrong} wrong, verdicts {hash:016x}");
}
