#![no_main]

use quorate_types::LevelChange;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(change) = LevelChange::from_payload(data) {
        assert!(change.to_payload() == data, "one change has two encodings");
    }
});
