#![no_main]

use quorate_applications::{Application, BlockContext, KeyValue, KeyValueCommand, KeyValueResult};
use quorate_types::{ClientId, Command, Height};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut result = Vec::new();
    KeyValue::new().execute(
        &BlockContext::untimed(Height(1)),
        &Command { client: ClientId(1), sequence: 1, payload: data },
        &mut result,
    );
    let malformed = KeyValueResult::decode(&result) == Ok(KeyValueResult::Malformed);
    match KeyValueCommand::decode(data) {
        Ok(command) => assert!(command.to_vec() == data && !malformed),
        Err(_) => assert!(malformed),
    }
    if let Ok(decoded) = KeyValueResult::decode(data) {
        let mut again = Vec::new();
        decoded.encode(&mut again);
        assert!(again == data, "one result has two encodings");
    }
});
