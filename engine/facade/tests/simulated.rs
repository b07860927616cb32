//! An unlisted application in the simulator: the same replicas in virtual time.

use crate::{Counter, add};
use quorate::kind;
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_simulator::{NetworkSpec, SimSpec, run};
use std::time::Duration;

fn spec() -> SimSpec {
    SimSpec {
        application: kind::<Counter>(),
        network: NetworkSpec::preset("lan").expect("a preset"),
        load: LoadOptions {
            clients: 2,
            mode: LoadMode::Closed { outstanding: 20 },
            bundle: 10,
            warmup: Duration::from_millis(100),
            duration: Duration::from_millis(400),
            ..LoadOptions::default()
        },
        chaos: Some(Duration::from_secs(1)),
        ..SimSpec::default()
    }
}

#[test]
fn a_foreign_application_runs_in_the_simulator_under_faults() {
    let directory = std::env::temp_dir().join(format!("quorate-{}", std::process::id()));
    let file = directory.with_extension("commands");
    let mut line = postcard::to_stdvec(&add(3)).expect("it encodes");
    line.push(b'\n');
    std::fs::write(&file, line).expect("the temporary directory is writable");
    let name = WorkloadKind::File(file.clone());
    let commands = || -> Box<dyn Workload> { workload(&name, 0, 1, 1, None).expect("a sound workload") };
    for seed in 0..3 {
        let [one, same] = [(); 2].map(|()| run(&spec(), seed, &commands));
        assert_eq!(one.violation, None, "seed {seed}");
        assert_eq!(one.trace_hash, same.trace_hash, "seed {seed}");
    }
    std::fs::remove_file(file).expect("it was written");
}
