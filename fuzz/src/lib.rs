//! What every fuzz target of a message does: nothing panics, and what decodes has no second encoding.
//!
//! A target is a file of one line in `fuzz_targets/`, `quorate_fuzz::message!(the_crate::TheType);`, and its `[[bin]]` in
//! `Cargo.toml`.

use bytes::Bytes;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Wire, decode_message, encode_message};

#[doc(hidden)]
pub use libfuzzer_sys;

/// Decodes any bytes as a message; whatever is decoded must encode to the same bytes. The fuzzer's bytes stand behind the version,
/// so that none of its time goes into guessing that.
pub fn check<T: Wire + PartialEq>(data: &[u8]) {
    let message = Bytes::from([&[WIRE_VERSION], data].concat());
    if let Ok(value) = decode_message::<T>(message.clone()) {
        assert!(encode_message(&value) == message, "a second encoding of one value");
        assert!(decode_message::<T>(message).is_ok_and(|again| again == value), "one encoding of two values");
    }
}

/// The body of a target: the type of its message, which is [`Wire`] and comparable.
#[macro_export]
macro_rules! message {
    ($type:ty) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::check::<$type>(data));
    };
}
