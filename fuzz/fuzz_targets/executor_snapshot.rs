#![no_main]

use quorate_applications::{ApplicationKind, BlockContext, Executor};
use quorate_types::{BundleBuilder, ClientId, EpochId, Height};

// The head of a snapshot (version, cluster and application) is fixed; the fuzzer writes the rest.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    const HEAD_BYTES: usize = 1 + 32 + 4 + 2;
    let mut executor = Executor::new(ApplicationKind::KEY_VALUE.make(), &EpochId::of_name("fuzz"));
    let fresh = executor.snapshot();
    let snapshot = [&fresh[..HEAD_BYTES], data].concat();
    match executor.restore(snapshot.clone().into()) {
        Ok(()) => {
            assert!(executor.snapshot() == snapshot, "one state has two encodings");
            let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
            [1, 2, 65_536, u64::MAX].into_iter().for_each(|sequence| builder.push(ClientId(1), sequence, b""));
            executor.execute(BlockContext::untimed(executor.height().next()), &[builder.finish()], &mut Vec::new());
        }
        Err(_) => assert!(executor.snapshot() == fresh, "a refused snapshot changed the state"),
    }
});
